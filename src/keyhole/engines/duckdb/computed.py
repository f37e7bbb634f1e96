"""Public columns that the engine computes over the whole table, and whether a statement means the same with them.

They are computed in the roster's database, in which there is no secret. That a statement with such a column in it says
what the statement says is checked by execution: both are run over all public rows with made-up private values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb

from keyhole.engines.duckdb.copy import copied
from keyhole.engines.duckdb.kinds import kind_of_type
from keyhole.engines.duckdb.limited import limited
from keyhole.errors import pass_on_interruption
from keyhole.model.predicate import literal, quote_name
from keyhole.model.schema import Column, Kind, Schema, WholeTableColumn

SECONDS = 20.0
CHANGES = "several people share a place in the order, so it changes from run to run: add the id to its ORDER BY"
FAILS = "the engine cannot compute what it asks of the whole table"
_FILLED = {  # a value for each row, from a number of it
    Kind.INTEGER: "({0} % 2001 - 1000)::BIGINT",
    Kind.DECIMAL: "(({0} % 2001 - 1000) / 4)::DECIMAL(18, 2)",
    Kind.DOUBLE: "(({0} % 2001 - 1000) / 4)::DOUBLE",
    Kind.BOOLEAN: "({0} % 2 = 0)",
    Kind.DATE: "(DATE '2001-01-01' + ({0} % 9000)::INTEGER)",
    Kind.TIMESTAMP: "(DATE '2001-01-01' + ({0} % 9000)::INTEGER)::TIMESTAMP",
}
_TEXT = "('made up ' || ({0} % 3))"


def compute(people: duckdb.DuckDBPyConnection, schema: Schema, asked: Sequence[WholeTableColumn]) -> Schema | str:
    """Add public columns to `people`; the schema with them, or why there is none. What is there already stays.

    Guarantee: order and number of the records stay, and nothing but `people` is read. Cost: one copy of the table.
    """
    new = [column for column in asked if schema.find(column.name) is None]
    try:
        with limited(people, SECONDS):
            if any(column.ties and people.execute(column.ties).fetchall() for column in new):
                return CHANGES
            for at, column in enumerate(new):
                people.execute(f"CREATE OR REPLACE TEMP TABLE keyhole_{at} AS {column.sql}")
            listed = "".join(f", keyhole_{at}.v AS {quote_name(c.name)}" for at, c in enumerate(new))
            joins = "".join(f" LEFT JOIN keyhole_{at} ON p.rowid = keyhole_{at}.r" for at in range(len(new)))
            people.execute(
                f"CREATE OR REPLACE TEMP TABLE keyhole_next AS SELECT p.*{listed} FROM people p{joins} ORDER BY p.rowid"
            )
            people.execute("DROP TABLE people; ALTER TABLE keyhole_next RENAME TO people")
            for at in range(len(new)):
                people.execute(f"DROP TABLE keyhole_{at}")
    except duckdb.Error:
        return FAILS
    types = dict(people.execute("SELECT column_name, column_type FROM (DESCRIBE people)").fetchall())
    added = [Column(column.name, kind_of_type(str(types[column.name])), computed=True) for column in new]
    return replace(schema, columns=(*schema.columns, *added))


def alike(
    people: duckdb.DuckDBPyConnection, schema: Schema, table: tuple[str, ...], one: str, other: str, *, held: set[str]
) -> bool:
    """Do two statements give the same rows, over all public rows and two sets of made-up private values?

    `held` are the private columns of which `people` has the NULLs. Cost: a copy of the table, and each text twice.
    """
    if not 1 <= len(table) <= 2:
        return False
    con = duckdb.connect(":memory:")
    place = ".".join(map(quote_name, table))
    try:
        con.execute("SET TimeZone = 'UTC'")
        copied(people, "SELECT * FROM people", con, "keyhole_public")
        if len(table) == 2:
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_name(table[0])}")
        for seed in (1, 2):
            listed = ", ".join(_filled(column, seed, column.name in held) for column in schema.columns)
            con.execute(f"CREATE OR REPLACE TABLE {place} AS SELECT {listed} FROM keyhole_public")
            if seed == 1:
                con.execute("SET enable_external_access = false; SET lock_configuration = true")
            with limited(con, SECONDS):
                first, second = (_rows(con, text) for text in (one, other))
            if first != second:
                return False
    except (duckdb.Error, RuntimeError) as error:
        pass_on_interruption(error)
        return False
    finally:
        con.close()
    return True


def _filled(column: Column, seed: int, held: bool) -> str:
    name = quote_name(column.name)
    if not column.secret:
        return name
    number = f"(hash(rowid, {seed}, {literal(column.name)}) % 1000003)::BIGINT"
    made = _FILLED.get(column.kind, _TEXT).format(number)
    return f"CASE WHEN {name} IS NOT NULL THEN {made} END AS {name}" if held else f"{made} AS {name}"


def _rows(con: duckdb.DuckDBPyConnection, text: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(_plain, row)) for row in con.execute(text).fetchall())


def _plain(value: Any) -> Any:
    """Numbers to twelve digits, since the order of a sum of DOUBLE is the engine's."""
    if isinstance(value, float | int | Decimal) and not isinstance(value, bool):
        return f"{value:.12g}"
    return str(value) if isinstance(value, dict | list) else value


__all__ = ["alike", "compute"]
