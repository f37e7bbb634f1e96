"""Faults of the data, found when its owner loads it and never at query time."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import duckdb

from keyhole.config import Columns, PrivateColumn, toml_key
from keyhole.datasets.files.csv_layout import no_header
from keyhole.engines.duckdb.connections import fetch_first
from keyhole.errors import ConfigError, DataError
from keyhole.model.predicate import format_literal, quote_name
from keyhole.model.prior import FEW_VALUES
from keyhole.model.schema import Column, Kind, Role, Schema

Connection: TypeAlias = duckdb.DuckDBPyConnection
LARGE = 10**15
LARGEST_DOUBLE = "1e70"  # sums of its squares, times weights and constants, stay below 1.7e308, where DOUBLEs end
OUTSIDE, OFF_STEP = "lies outside what", "is not on the step that"  # was declared


def check_names(there: Sequence[str], roles: Columns, absent: tuple[str, ...]) -> None:
    """Every column that has a role must be there."""
    blank = Schema("", tuple(Column(name, Kind.OTHER) for name in there))
    wanted = [("id", n) for n in roles.id] + [("hidden", n) for n in roles.hidden]
    wanted += [("private", n) for n in roles.private if n not in absent]
    for role, name in wanted:
        if name not in there:
            near = blank.nearest(name)
            hint = f"; did you mean {near!r}?" if near else f"; it has {', '.join(sorted(there))}"
            if role == "private" and not near:
                hint += (
                    ". Without it no answer can be computed: a list of people alone needs a log with answers (.jsonl)"
                )
            if no_header(there):  # what stands there are values, and not ours to tell
                hint = "; its first line looks like data, not names: "
                hint += f"name its {len(there)} columns with columns = [...] under [source]"
            raise ConfigError(f"the table has no column {name!r} to be {role}{hint}")


def check_ids(con: Connection, schema: Schema, *, records: bool) -> bool:
    """Do several rows have one id? Where rows are not taken as records of people, that is a fault."""
    names = [c.name for c in schema.of_role(Role.ID)]
    if not names:
        return False
    listed = ", ".join(quote_name(name) for name in names)
    for name in names:
        at = fetch_first(con, f"SELECT rowid FROM loaded WHERE {quote_name(name)} IS NULL LIMIT 1")
        if at:
            told = "some row has no id: every person needs one"
            raise DataError(f"row {int(at[0]) + 1} has no {name!r}: every person needs an id", told=told)
    twice = fetch_first(con, f"SELECT {listed}, count(*) AS c FROM loaded GROUP BY ALL HAVING c > 1 LIMIT 1")
    if twice and not records:
        who = ", ".join(f"{n} = {v}" for n, v in zip(names, twice, strict=False))
        raise DataError(
            f"{who} stands in {twice[-1]} rows, but here one row is one person (`keyhole audit`, `watch` and `attack` "
            f"take them as records of one): aggregate first, for example view = 'SELECT {listed}, SUM(...) FROM "
            f"{schema.table} GROUP BY {listed}'",
            told="two rows have one id, but here one row is one person. Every row needs an id of its own (or, for "
            "private answers, rows_per_person = K with a delta under [budget])",
        )
    return twice is not None


def make_finite(con: Connection, schema: Schema) -> None:
    """Where answers are private, loading is total: NaN and infinite numbers are NULL, and nothing is told of them."""
    for column in schema.columns:
        if column.role is not Role.HIDDEN and column_type(con, column.name) in ("DOUBLE", "FLOAT"):
            name = quote_name(column.name)
            con.execute(f"UPDATE loaded SET {name} = NULL WHERE NOT isfinite({name})")


def check_values(con: Connection, schema: Schema, roles: Columns, absent: tuple[str, ...]) -> None:
    """Refuse NaN, infinite numbers and those whose sums could be infinite, and private values outside their domain."""
    for column in schema.columns:
        name = quote_name(column.name)
        if column.name in absent:
            continue
        if column_type(con, column.name) in ("DOUBLE", "FLOAT") and column.role is not Role.HIDDEN:
            at = fetch_first(con, f"SELECT rowid FROM loaded WHERE NOT isfinite({name}) LIMIT 1")
            if at:
                raise _not_finite(column, int(at[0]))
            at = fetch_first(con, f"SELECT rowid FROM loaded WHERE abs({name}) > {LARGEST_DOUBLE} LIMIT 1")
            if at:
                raise _too_holds_large_numbers(column, int(at[0]))
        if column.kind is Kind.TEXT and column.role is Role.PRIVATE:
            _check_not_finite_words(con, column)
        declared = roles.private.get(column.name)
        if column.role is not Role.PRIVATE or declared is None:
            continue
        if (declared.min is not None or declared.max is not None) and not column.kind.numeric:
            raise ConfigError(
                f'{column.name!r} holds {column.kind}, so it takes values = ["..."], in quotes, under '
                f"[columns.private.{toml_key(column.name)}], and no range or list of numbers"
            )
        wrong = _find_undeclared_value(con, column, declared)
        if wrong is not None:
            row, how = wrong
            raise DataError(
                f"column {column.name!r}, row {row + 1}: its value {how} was declared "
                f"for it; widen the declaration or mend the data",
                told=f"column {column.name!r} holds a value outside what was declared for it",
            )
        if declared.step is not None and column.kind is Kind.DOUBLE:
            _round_to_grid(con, column.name)


def check_unbounded(con: Connection, roles: Columns, absent: tuple[str, ...]) -> None:
    """Refuse a private column that was declared without bounds and holds a few different values, where exact answers
    are decided upon: their sums can tell everybody's. A column that the data lacks holds at most one value a row.
    """
    for name, declared in roles.private.items():
        bounds = (declared.min, declared.max, declared.values)
        if declared.state == "undeclared" or any(bound is not None for bound in bounds):
            continue
        counted = "count(*)" if name in absent else f"count(DISTINCT {quote_name(name)})"
        counts = fetch_first(con, f"SELECT {counted} FROM loaded")
        if counts and int(counts[0]) <= FEW_VALUES:
            what = 'domain = "real"' if declared.state == "real" else f"step = {declared.step} without min and max"
            raise DataError.of_file(
                f"{what} says that any number is possible for {name!r}, and the data holds at most {FEW_VALUES} "
                "different ones, so exact answers could tell everybody's: declare min, max and step, and ask it "
                'with policy = "private" under [book] and a [budget]'
            )


def _find_undeclared_value(con: Connection, column: Column, declared: PrivateColumn) -> tuple[int, str] | None:
    """The first row whose value is not as declared, and how; large numbers in fractions, others by the engine."""
    name, outside, off_step = quote_name(column.name), [], ""
    if column.kind.numeric and _holds_large_numbers(con, name, declared):
        return _find_undeclared_fraction(con, name, declared)
    if declared.min is not None:
        outside.append(f"{name} < {format_literal(declared.min)}")
    if declared.max is not None:
        outside.append(f"{name} > {format_literal(declared.max)}")
    if declared.step is not None and column.kind.numeric:
        base = format_literal(declared.min if declared.min is not None else Decimal(0))
        off_step = f"(CAST({name} AS DECIMAL(38, 9)) - {base}) % {format_literal(declared.step)} <> 0"
    if declared.values is not None:
        outside.append(f"{name}::VARCHAR NOT IN ({', '.join(format_literal(v) for v in declared.values)})")
    for conditions, how in ((" OR ".join(outside), OUTSIDE), (off_step, OFF_STEP)):
        at = fetch_first(con, f"SELECT rowid FROM loaded WHERE {conditions} LIMIT 1") if conditions else None
        if at:
            return int(at[0]), how
    return None


def _holds_large_numbers(con: Connection, name: str, declared: PrivateColumn) -> bool:
    """Is some number beyond what all types of the engine hold with nine digits after the point?"""
    sizes = [abs(v) for v in (declared.min, declared.max, declared.step) if v is not None]
    if not sizes or declared.values is not None:
        return False
    at = fetch_first(con, f"SELECT 1 FROM loaded WHERE abs(CAST({name} AS DOUBLE)) >= {LARGE} LIMIT 1")
    return at is not None or max(sizes) >= LARGE


def _find_undeclared_fraction(con: Connection, name: str, declared: PrivateColumn) -> tuple[int, str] | None:
    """The same in fractions, row by row. Cost: a pass over the column in Python."""
    low, high, step = (None if v is None else Fraction(v) for v in (declared.min, declared.max, declared.step))
    cursor = con.execute(f"SELECT rowid, {name}::VARCHAR, typeof({name}) FROM loaded WHERE {name} IS NOT NULL")
    while rows := cursor.fetchmany(10_000):
        for at, text, held in rows:
            floating = held in ("DOUBLE", "FLOAT")
            read = {Fraction(text), Fraction(float(text))} if floating else {Fraction(text)}  # as printed, and as held
            inside = [v for v in read if (low is None or v >= low) and (high is None or v <= high)]
            if not inside:
                return int(at), OUTSIDE
            if step is not None and all(round(v - (low or 0), 9) % step for v in inside):
                return int(at), OFF_STEP
    return None


def _round_to_grid(con: Connection, name: str) -> None:
    """Values of DOUBLE that lie on a declared grid up to dust are the numbers of the grid: 0.1 * 3 is 0.3 then."""
    column = quote_name(name)
    near = (
        f"CAST(TRY_CAST({column} AS DECIMAL(38, 9)) AS {column_type(con, name)})"  # NULL for numbers too large for dust
    )
    con.execute(f"UPDATE loaded SET {column} = {near} WHERE {column} <> {near} AND abs({column}) < {LARGE}")


def _check_not_finite_words(con: Connection, column: Column) -> None:
    """A column of numbers becomes text if some of them are written inf or nan."""
    name = quote_name(column.name)
    words = f"lower({name}::VARCHAR) IN ('inf', '-inf', '+inf', 'infinity', '-infinity', '+infinity', 'nan')"
    row = con.execute(
        f"SELECT min(rowid) FILTER (WHERE {words}), count({name}), count(TRY_CAST({name} AS DOUBLE)) FROM loaded"
    ).fetchall()[0]
    if row[0] is not None and row[1] == row[2]:
        raise _not_finite(column, int(row[0]))


def _not_finite(column: Column, row: int) -> DataError:
    told = f"column {column.name!r} holds NaN or infinity"
    return DataError(f"{told} (first in row {row + 1}): write NULL instead", told=f"{told}: write NULL instead")


def _too_holds_large_numbers(column: Column, row: int) -> DataError:
    told = f"column {column.name!r} holds a number beyond {LARGEST_DOUBLE}, whose sums may be infinite"
    mend = "write NULL instead, or other units"
    return DataError(f"{told} (first in row {row + 1}): {mend}", told=f"{told}: {mend}")


def column_type(con: Connection, name: str, table: str = "loaded") -> str:
    """The engine's type of a column."""
    row = fetch_first(con, f"SELECT column_type FROM (DESCRIBE {table}) WHERE column_name = ?", [name])
    return str(row[0]) if row else ""
