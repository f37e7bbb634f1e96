"""DuckDB behind the protocol of engines: a third engine for what must be equal over all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb

from keyhole.datasets.public_half import Staying
from keyhole.engines.engine import CopiedColumn, Engine, Relation, fetch_rows
from keyhole.engines.open_files import Lifetime
from keyhole.engines.roster import EngineRoster, MadeUpFrom
from keyhole.engines.words import DUCKDB
from keyhole.errors import DataError
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Role, Schema


class DuckDBEngine:
    """A connection of its own to a database in memory."""

    dialect = "duckdb"
    spelling = DUCKDB

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con.cursor()
        self.words: list[str] = []
        self.fault: DataError | None = None

    def arrow(self, sql: str) -> Any:
        self.words.append(sql)
        return self.con.sql(sql).to_arrow_table().to_reader()

    def do(self, sql: str) -> None:
        self.words.append(sql)
        self.con.execute(sql)

    def attempt(self, sql: str) -> list[tuple[Any, ...]] | None:
        try:
            return fetch_rows(self, sql)
        except duckdb.Error:
            return None

    def put(self, name: str, rows: Any) -> str:
        self.con.register("keyhole_given", rows)
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE {quote_name(name)} AS SELECT * FROM keyhole_given")
        self.con.unregister("keyhole_given")
        return quote_name(name)

    def keep(self, name: str, sql: str) -> str:
        self.do(f"CREATE OR REPLACE TEMP TABLE {quote_name(name)} AS {sql}")
        return quote_name(name)

    def run_aside(
        self, names: Sequence[tuple[str, ...]], rows: Any, types: Mapping[str, str], texts: Sequence[str]
    ) -> list[list[tuple[Any, ...]] | None]:
        raise NotImplementedError

    def cancel(self) -> None:
        self.con.interrupt()

    def close(self) -> None:
        self.con.close()

    def relations(self) -> Sequence[Relation]:
        return ()

    def find_files(self, name: str) -> Relation | None:
        return None

    def columns(self, relation: Relation) -> Sequence[CopiedColumn]:
        return ()

    def quoted(self, relation: Relation) -> str:
        return relation.qualified


def split_there(
    con: duckdb.DuckDBPyConnection,
    table: str,
    schema: Schema,
    make: Callable[[duckdb.DuckDBPyConnection], Engine],
    order: str = "",
) -> Staying:
    """A table of this database, split as `keyhole init engine` splits one, and opened through the protocol."""
    private = [quote_name(c.name) for c in schema.of_role(Role.PRIVATE)]
    ids = ", ".join(quote_name(c.name) for c in schema.of_role(Role.ID))
    public = ", ".join(quote_name(c.name) for c in schema.columns if not c.secret)
    hidden = ", ".join(f"CASE WHEN {name} IS NULL THEN NULL ELSE TRUE END AS {name}" for name in private)
    con.execute("CREATE SCHEMA IF NOT EXISTS keyhole")
    number = f"row_number() OVER (ORDER BY {order or ids}) - 1 AS keyhole_r"
    con.execute(f"CREATE TEMP TABLE numbered AS SELECT {number}, * FROM {table}")
    con.execute(f"CREATE OR REPLACE TABLE keyhole.people AS SELECT keyhole_r, {public}, {hidden} FROM numbered")
    con.execute(f"CREATE OR REPLACE TABLE keyhole.secrets AS SELECT keyhole_r, {', '.join(private)} FROM numbered")
    con.execute("DROP TABLE numbered")
    life = Lifetime()
    [(n,)] = con.execute("SELECT count(*) FROM keyhole.people").fetchall()

    def sample() -> duckdb.DuckDBPyConnection:
        some = duckdb.connect()
        rows = con.sql(f"SELECT * FROM keyhole.people WHERE keyhole_r % {-(-n // 300)} = 0 ORDER BY keyhole_r")
        some.register("rows", rows.to_arrow_table())
        some.execute("CREATE TEMP TABLE people AS SELECT * FROM rows")
        some.unregister("rows")
        return some

    roster = EngineRoster(life.closes(make(con)), "keyhole.people", schema, life, MadeUpFrom(sample, {}), n)
    return Staying(roster, lambda: DuckDBEngine(con))
