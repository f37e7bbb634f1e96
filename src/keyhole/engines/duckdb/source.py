"""The whole table: the roster's database, and a second one that holds the secrets.

Everything a `Roster` can do runs in the roster's database, also when a source is asked to do it. The second database
holds `secrets`, the private columns in the same row order; the public half is copied to it when first a question needs
both, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Atoms
from keyhole.engines.base import GroupKey, PrivateTotal, PrivateValues, Roster, Seal
from keyhole.engines.duckdb.connections import copy_rows, fetch_first, fetch_value, plain_value
from keyhole.engines.duckdb.digests import digest_rows, seal_columns
from keyhole.engines.duckdb.roster import DuckDBRoster, evaluate_query
from keyhole.engines.open_files import Lifetime
from keyhole.errors import DataError
from keyhole.model.meaning import compare_value, compute_value
from keyhole.model.numbers import shorten_fraction
from keyhole.model.predicate import Leaf, Opaque, Scalar, format_literal, format_predicate, name_held_table, quote_name
from keyhole.model.query import CUT, Aggregate, Query, Statement, Term
from keyhole.model.schema import Kind, Related, Role, Schema

BATCH = 50_000  # rows that are added up at a time
KEPT = 4  # private columns whose values are kept as arrays, 17 bytes a record


class DuckDBSource(DuckDBRoster):
    """The whole table: `people` in the roster's database (`con`), `secrets` in another."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        secrets: duckdb.DuckDBPyConnection,
        schema: Schema,
        at_hand: Sequence[str],
        life: Lifetime,
    ) -> None:
        super().__init__(con, schema, life)
        self._secrets, self._at_hand = secrets, tuple(at_hand)
        self._whole = False
        self._counted = "everything"  # what tallies are of
        self._values: dict[str, PrivateValues] = {}  # of the columns that were asked about last

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The database of the secrets with the view `everything`, in which a record is whole.

        First use copies the public half beside the secrets.
        """
        if not self._whole:
            kept = [quote_name(c.name) for c in self.schema.columns if not c.secret]
            copy_rows(self._con, f"SELECT {', '.join(kept) or '1 AS one'} FROM people", self._secrets, "people")
            listed = ", ".join([*kept, *(f"secrets.{quote_name(name)}" for name in self._at_hand)])
            self._secrets.execute(
                f"CREATE TEMP VIEW everything AS SELECT {listed or '1 AS one'} FROM people POSITIONAL JOIN secrets"
            )
            self._whole = True
        return self._secrets

    def adopt(self, schema: Schema) -> None:
        """Take over the columns that another view of the same table has computed."""
        super().adopt(schema)
        self.__dict__.pop("roster", None)
        if self._whole:  # its copy of the public half lacks them
            self._secrets.execute("DROP VIEW everything; DROP TABLE people")
            self._whole = False

    @cached_property
    def roster(self) -> Roster:
        """The public half alone."""
        return DuckDBRoster(self._con, self.schema, self.life)

    def evaluate(self, query: Query) -> Decimal | bool | None:
        """The true answer of one query, straight from the engine; sums beyond its numbers are added up here."""
        terms = (*query.terms, *query.per)
        public = not any(t.column is not None or self._private(t.where) for t in terms)
        if public:
            return self.figure(query)
        if query.aggregate in CUT and self._double(query.terms[0].column):
            return evaluate_query(self.connection, *self._as_double(query))
        try:
            answer = evaluate_query(self.connection, query, "everything")
        except duckdb.Error:  # its message may quote a value
            return add_up_exactly(self.connection, query, "everything")
        if answer is None and query.aggregate is Aggregate.SUM:  # NULL, or too large for the engine
            return add_up_exactly(self.connection, query, "everything")
        return answer

    def _double(self, name: str | None) -> bool:
        column = self.schema.find(name or "")
        return column is not None and column.kind is Kind.DOUBLE

    def _as_double(self, query: Query) -> tuple[Query, str]:
        """A statistic between two values of a DOUBLE column, which may be held as decimals: those would be cut."""
        term = query.terms[0]
        name = f"{term.column} as DOUBLE"
        also = f"{quote_name(term.column or '')}::DOUBLE AS {quote_name(name)}"
        return replace(query, terms=(replace(term, column=name),)), f"(SELECT *, {also} FROM everything)"

    def returned_groups(self, statement: Statement) -> list[GroupKey]:
        """The groups that the statement really returns (before HAVING)."""
        if not self._private(statement.where) and not any(k.hidden(self._secrets_named) for k in statement.keys):
            return self.keys(statement)  # public altogether
        return self._keys(self.connection, "everything", statement, statement.where, private=True)

    def describe_orphan_rows(self, table: str) -> str:
        """How many rows of a table belong to nobody, in words; of a dimension, how many records it has no row for; of
        the people, which ids are alike."""
        if table == self.schema.table:
            return describe_similar_ids(self.connection, "everything", self.schema)
        related = self.schema.table_named(table)
        if related is None:
            return ""
        if related.dimension:
            return describe_records_without_row(self.connection, "everything", self.schema, related)
        return describe_orphan_rows(self.connection, "everything", self.schema, related)

    def values(self, column: str) -> PrivateValues:
        """A private numeric column in row order, as exact decimals where it has them.

        A column that was read is kept, since the table does not change: a session asks for it with every question.
        """
        if column not in self._values:
            if len(self._values) >= KEPT:
                self._values.clear()
            self._values[column] = self._read_values(column)
        return self._values[column]

    def _read_values(self, column: str) -> PrivateValues:
        name = quote_name(column)
        raw = fetch_first(self._secrets, f"SELECT typeof(any_value({name})) FROM secrets")
        kind = str(raw[0]) if raw else "DOUBLE"
        present = self._secrets.execute(f"SELECT ({name} IS NOT NULL) AS p FROM secrets").fetchnumpy()["p"]
        floats = self._secrets.execute(f"SELECT coalesce({name}, 0)::DOUBLE AS v FROM secrets").fetchnumpy()["v"]
        digits = int(kind.rstrip(")").split(",")[1]) if kind.startswith("DECIMAL") else 0
        units: NDArray[Any] | None = None
        if kind not in ("DOUBLE", "FLOAT"):
            try:
                text = f"SELECT coalesce({name} * {10**digits}, 0)::BIGINT AS v FROM secrets"
                units = np.asarray(self._secrets.execute(text).fetchnumpy()["v"], dtype=np.int64)
            except duckdb.Error:  # beyond 64 bits: every digit as it is written
                text = f"SELECT replace(coalesce({name}, 0)::VARCHAR, '.', '') FROM secrets"
                units = np.array([int(row[0]) for row in self._secrets.execute(text).fetchall()], dtype=object)
        return PrivateValues(np.asarray(present, dtype=np.bool_), units, digits, np.asarray(floats, dtype=np.float64))

    @property
    def gives_values(self) -> bool:
        """Values of single records are at hand."""
        return True

    def sums_over_atoms(
        self, atoms: Atoms, questions: Sequence[Mapping[int, Fraction]], column: str, power: int
    ) -> list[PrivateTotal]:
        """The sum of weight * column ** power over the records of some atoms, for each question."""
        held, of = self.values(column), atoms.of
        units, digits = held.units, held.digits
        sums = []
        for weights in questions:
            total, size = Fraction(0), Fraction(0)
            for row in np.flatnonzero(np.isin(of, list(weights)) & held.present).tolist():
                x = Fraction(float(held.floats[row])) if units is None else Fraction(int(units[row]), 10**digits)
                product = weights[int(of[row])] * x**power
                total, size = total + product, size + abs(product)
            sums.append(PrivateTotal(total, size))
        return sums

    def value_counts(self, column: str, most: int) -> list[tuple[Scalar, int]] | None:
        """Each value of a private column and how many records have it, NULL aside; None if there are more than most."""
        name = quote_name(column)
        text = (
            f"SELECT {name} AS v, count(*) FROM secrets WHERE {name} IS NOT NULL GROUP BY v ORDER BY v LIMIT {most + 1}"
        )
        rows = self._secrets.execute(text).fetchall()
        return None if len(rows) > most else [(row[0], int(row[1])) for row in rows]

    def value_ends(self, column: str) -> tuple[Fraction, Fraction] | None:
        """The least and the greatest number of a private column; None if it has none."""
        name = quote_name(column)
        least, greatest = fetch_first(self._secrets, f"SELECT min({name}), max({name}) FROM secrets") or (None, None)
        return None if least is None or greatest is None else (Fraction(least), Fraction(greatest))

    def row_values(self, table: str, column: str) -> list[Scalar | None]:
        """The values of a column of another table's rows, in their order, NULL last."""
        name = quote_name(column)
        text = f"SELECT DISTINCT {name} AS v FROM {name_held_table(table)} ORDER BY v NULLS LAST"
        return [plain_value(row[0]) for row in self._secrets.execute(text).fetchall()]

    def holds(self, condition: str) -> bool:
        """Does an SQL condition hold for some record? A failure of the engine is told without its words."""
        return bool(self._execute_quietly(f"SELECT 1 FROM everything WHERE {condition} LIMIT 1").fetchall())

    def tally(self, code: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many records there are for each value of a whole-numbered expression: (values, counts), in one scan."""
        cells, counts = self.tallies(code, ())
        return cells, counts

    def tallies(self, code: str, sums: Sequence[str]) -> list[NDArray[np.int64]]:
        """For each value of a whole-numbered expression: the value, how many records, and the sums of other whole-
        numbered expressions, in one scan. Sums must fit 63 bits.
        """
        listed = "".join(f", COALESCE(sum({each}), 0)::BIGINT AS s{k}" for k, each in enumerate(sums))
        wanted = f"SELECT {code} AS cell, count(*) AS c{listed} FROM {self._counted} GROUP BY cell"
        rows = self._execute_quietly(wanted).fetchnumpy()
        names = ("cell", "c", *(f"s{k}" for k in range(len(sums))))
        return [np.asarray(rows[name], dtype=np.int64) for name in names]

    def limit_rows_per_person(self, ids: Sequence[str], rows: int, key: bytes) -> None:
        """From now on tallies are of so many rows of each person at most: those of the smallest keyed hash of the
        person and the row's own content.

        Which rows of a person count follows from his rows alone: not from other people, nor from the order of the
        file (rows of one hash are equal). Cost: one sort.
        """
        columns = [quote_name(c.name) for c in self.schema.columns if c.role is not Role.HIDDEN]
        content = " || ".join(f"coalesce(length({c}::VARCHAR) || ':' || {c}::VARCHAR, 'N')" for c in columns)
        listed = ", ".join(quote_name(name) for name in ids)
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE bounded AS SELECT * FROM everything QUALIFY row_number() OVER "
            f"(PARTITION BY {listed} ORDER BY sha256('{key.hex()}' || {content})) <= {int(rows)}"
        )
        self._counted = "bounded"

    def count_distinct(self, code: str, where: str) -> int:
        """How many different values an expression has among the counted records under a condition."""
        rows = self._execute_quietly(f"SELECT count(DISTINCT {code}) FROM {self._counted} WHERE {where}").fetchall()
        return int(rows[0][0])

    def count_keys(self, columns: Sequence[str], where: str) -> list[tuple[tuple[str, ...], int]]:
        """The values of columns as text, among the counted records under a condition, and how many have each."""
        listed = ", ".join(f"{quote_name(name)}::VARCHAR AS k{k}" for k, name in enumerate(columns))
        present = " AND ".join(f"{quote_name(name)} IS NOT NULL" for name in columns)
        text = f"SELECT {listed}, count(*) FROM {self._counted} WHERE ({where}) AND {present} GROUP BY ALL ORDER BY ALL"
        return [(tuple(map(str, row[:-1])), int(row[-1])) for row in self._execute_quietly(text).fetchall()]

    def seal(self) -> Seal | None:
        """Keyed digests of the private columns at hand; None if none is."""
        return seal_columns(lambda: self.connection, self.schema, self._at_hand) if self._at_hand else None

    def digest(self, key: bytes) -> str:
        """A keyed digest of all that is not hidden."""
        return digest_rows(self.connection, [c for c in self.schema.columns if c.role is not Role.HIDDEN], key)

    def _execute_quietly(self, text: str) -> duckdb.DuckDBPyConnection:
        try:
            return self.connection.execute(text)
        except duckdb.Error as error:
            kind = str(error).partition(":")[0]  # what follows may quote a value
            message = f"the engine cannot count the table by its declared cells ({kind})"
            raise DataError(message, told=message) from None

    def truths(self, leaves: Sequence[Leaf]) -> Mapping[Leaf, NDArray[np.int8]]:
        """Each private condition on each record, by the engine: 1 true, 0 false, -1 NULL."""
        truths: dict[Leaf, NDArray[np.int8]] = {}
        for leaf in leaves:
            read = leaf.columns if isinstance(leaf, Opaque) else {leaf.column}
            private = bool(read) and read <= set(self._at_hand)
            con, table = (self._secrets, "secrets") if private else (self.connection, "everything")
            text = f"SELECT coalesce(({format_predicate(leaf)})::INT, -1)::TINYINT AS v FROM {table}"
            truths[leaf] = np.asarray(con.execute(text).fetchnumpy()["v"], dtype=np.int8)
        return truths


def add_up_exactly(con: duckdb.DuckDBPyConnection, query: Query, table: str) -> Decimal | bool | None:
    """The true answer of a query of sums in rational arithmetic; the engine only says who counts, and with what.

    DuckDB's decimals end at 38 digits: beyond them SUM(pay * 10**18) fails for some values of pay and not for others,
    and its message shows the sum. A quotient is rounded to a double, as the engine has it. Cost: a pass in Python for
    each term. A query of another kind that the engine cannot answer is a `DataError` without the engine's words.

    >>> con = duckdb.connect()
    >>> _ = con.execute("CREATE TABLE t AS SELECT 99999999999999999999::DECIMAL(38, 6) AS pay")
    >>> add_up_exactly(con, Query(Aggregate.SUM, (Term("pay", factor=Fraction(10**18)),)), "t")
    Decimal('99999999999999999999000000000000000000')
    """
    if query.aggregate is not Aggregate.SUM:
        raise DataError("the engine cannot answer this from the table")
    met = all(fetch_value(con, f"SELECT count(*) FROM {table} WHERE {format_predicate(need)}") for need in query.needs)
    top, per = (sum((_add_up_term(con, t, table) for t in terms), Fraction(0)) for terms in (query.terms, query.per))
    answer = compute_value(query, top, per, met=met)
    if isinstance(answer, Fraction) and query.digits is not None:
        answer = Fraction(round(answer * 10**query.digits), 10**query.digits)
    if query.test is not None:
        return compare_value(query, answer)
    return as_decimal(answer) if isinstance(answer, Fraction) else None


def _add_up_term(con: duckdb.DuckDBPyConnection, term: Term, table: str) -> Fraction:
    """factor * sum of weight * column ** power, over those who satisfy the condition."""
    column = "1" if term.column is None else quote_name(term.column)
    cursor = con.execute(
        f"SELECT ({column})::VARCHAR, ({term.weight or '1'})::VARCHAR FROM {table} WHERE {format_predicate(term.where)}"
    )
    total = Fraction(0)
    while rows := cursor.fetchmany(BATCH):
        total += sum(Fraction(x) ** term.power * Fraction(w) for x, w in rows if x is not None and w is not None)
    return term.factor * total


def as_decimal(number: Fraction) -> Decimal:
    """An exact answer as a decimal: all of its digits if it ends, else those of the nearest double."""
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


def describe_orphan_rows(con: duckdb.DuckDBPyConnection, people: str, schema: Schema, related: Related) -> str:
    """How many rows of a table belong to nobody by any of its keys, for the owner; empty if none does.

    A key is quoted only where it is public. Cost: one look-up a row and key.
    """
    table = name_held_table(related.name)
    nobody = " AND ".join(f"NOT {_matches(own, other, people)}" for own, other in related.keys)
    near = (
        " OR ".join(_matches(own, other, people, _without_case_and_blanks) for own, other in _text_keys(related))
        or "FALSE"
    )
    own = related.keys[0][0]
    counts = fetch_first(
        con,
        f"SELECT count(*), count(*) FILTER (WHERE {nobody}), count(*) FILTER (WHERE {nobody} AND ({near})), "
        f"min({quote_name(own)}::VARCHAR) FILTER (WHERE {nobody} AND ({near})), "
        f"min({quote_name(own)}::VARCHAR) FILTER (WHERE {nobody}) FROM {table} r",
    )
    if not counts or not counts[1]:
        return ""
    rows, lost, nearly, *examples = counts
    sentence = f"{related.name}: {lost:,} of {rows:,} rows belong to nobody in {schema.table}"
    if nearly:
        sentence += f"; the key of {nearly:,} differs only by capitals or blanks from one that occurs"
    column = related.find(own)
    example = next((each for each in examples if each is not None), None)
    public = not related.secret and column is not None and not column.secret
    return f"{sentence} (such as {format_literal(example)})" if public and example is not None else sentence


def describe_records_without_row(con: duckdb.DuckDBPyConnection, people: str, schema: Schema, related: Related) -> str:
    """How many records have a key that a dimension lacks: a join leaves them out. Cost: a look-up a record."""
    lost = " OR ".join(f"NOT {_matches(other, own, name_held_table(related.name))}" for own, other in related.keys)
    counts = fetch_first(con, f"SELECT count(*), count(*) FILTER (WHERE {lost}) FROM {people} r")
    if not counts or not counts[1]:
        return ""
    named = " and ".join(dict.fromkeys(other for _, other in related.keys))
    lacking = f"{counts[1]:,} of {counts[0]:,} rows have no row of {related.name} with their {named}"
    return f"{schema.table}: {lacking}; a join leaves them out"


def describe_similar_ids(con: duckdb.DuckDBPyConnection, people: str, schema: Schema) -> str:
    """Which ids differ only by capitals or blanks, for the owner; empty if none. Cost: one look at each record."""
    ids = list(schema.of_role(Role.ID))
    if not any(column.kind is Kind.TEXT for column in ids):
        return ""
    names = [quote_name(column.name) for column in ids]
    texts = [f"{name}::VARCHAR" for name in names]
    apart = f"SELECT DISTINCT {', '.join(names)} FROM {people} WHERE {' AND '.join(f'{n} IS NOT NULL' for n in names)}"
    printed = f"concat_ws(' ', {', '.join(texts)})"
    alike = ", ".join(map(_without_case_and_blanks, texts))
    grouped = f"SELECT count(*) AS n, min({printed}) AS a, max({printed}) AS b FROM ({apart}) GROUP BY {alike}"
    counts = fetch_first(con, f"SELECT sum(n), min(a), arg_min(b, a) FROM ({grouped}) WHERE n > 1")
    if not counts or not counts[0]:
        return ""
    many, one, other = counts
    listed = " and ".join(column.name for column in ids)
    return (
        f"{many:,} ids ({listed}) differ from another only by capitals or blanks, such as {format_literal(one)} and "
        f"{format_literal(other)}: each counts as a person of its own; if they are the same people, mend the data"
    )


def _text_keys(related: Related) -> list[tuple[str, str]]:
    kinds = {c.name: c.kind for c in related.columns}
    return [(own, other) for own, other in related.keys if kinds.get(own) is Kind.TEXT]


def _as_written(sql: str) -> str:
    return sql


def _without_case_and_blanks(sql: str) -> str:
    return f"lower(trim({sql}))"


def _matches(own: str, other: str, people: str, as_: Callable[[str], str] = _as_written) -> str:
    """Is the key of a row that of somebody? A row without a key is nobody's."""
    theirs = f"SELECT {as_(quote_name(other))} FROM {people} WHERE {quote_name(other)} IS NOT NULL"
    return f"coalesce({as_('r.' + quote_name(own))} IN ({theirs}), FALSE)"
