"""Sums that do not fit the engine's numbers, added up here: whether an answer can be given must not depend on it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import duckdb

from keyhole.errors import DataError
from keyhole.model.meaning import compared, value
from keyhole.model.numbers import shorten_fraction
from keyhole.model.predicate import quote_name, to_sql
from keyhole.model.query import Aggregate, Query, Term

BATCH = 50_000


def wide_number(con: duckdb.DuckDBPyConnection, query: Query, table: str) -> Decimal | bool | None:
    """The true answer of a query of sums in rational arithmetic; the engine only says who counts, and with what.

    DuckDB's decimals end at 38 digits: beyond them SUM(pay * 10**18) fails for some values of pay and not for others,
    and its message shows the sum. A quotient is rounded to a double, as the engine has it. Cost: a pass in Python for
    each term. A query of another kind that the engine cannot answer is a `DataError` without the engine's words.

    >>> con = duckdb.connect()
    >>> _ = con.execute("CREATE TABLE t AS SELECT 99999999999999999999::DECIMAL(38, 6) AS pay")
    >>> wide_number(con, Query(Aggregate.SUM, (Term("pay", factor=Fraction(10**18)),)), "t")
    Decimal('99999999999999999999000000000000000000')
    """
    if query.aggregate is not Aggregate.SUM:
        raise DataError("the engine cannot answer this from the table")
    met = all(_counted(con, f"WHERE {to_sql(need)}", table) for need in query.needs)
    top, per = (sum((_total(con, t, table) for t in terms), Fraction(0)) for terms in (query.terms, query.per))
    found = value(query, top, per, met=met)
    if isinstance(found, Fraction) and query.digits is not None:
        found = Fraction(round(found * 10**query.digits), 10**query.digits)
    if query.test is not None:
        return compared(query, found)
    return _decimal(found) if isinstance(found, Fraction) else None


def _counted(con: duckdb.DuckDBPyConnection, where: str, table: str) -> int:
    ((count,),) = con.execute(f"SELECT count(*) FROM {table} {where}").fetchall()
    return int(count)


def _total(con: duckdb.DuckDBPyConnection, term: Term, table: str) -> Fraction:
    """factor * sum of weight * column ** power, over those who satisfy the condition."""
    column = "1" if term.column is None else quote_name(term.column)
    found = con.execute(
        f"SELECT ({column})::VARCHAR, ({term.weight or '1'})::VARCHAR FROM {table} WHERE {to_sql(term.where)}"
    )
    total = Fraction(0)
    while rows := found.fetchmany(BATCH):
        total += sum(Fraction(x) ** term.power * Fraction(w) for x, w in rows if x is not None and w is not None)
    return term.factor * total


def _decimal(number: Fraction) -> Decimal:
    rest = number.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest == 1:
        return shorten_fraction(number)
    try:
        return Decimal(repr(float(number)))
    except OverflowError:
        return Decimal(number.numerator) / Decimal(number.denominator)
