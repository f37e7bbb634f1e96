"""Tables of a database read once into DuckDB, each value as it is: from then on they are like a file's."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from keyhole.engines.engine import DataUrl, Engine, Relation, find_relation, only_relation, open_engine
from keyhole.errors import ConfigError, DataError
from keyhole.model.predicate import format_literal, quote_name
from keyhole.model.schema import fold_name

MOST_TABLES = 50  # that are copied unasked


def copy_tables(
    con: duckdb.DuckDBPyConnection, url: DataUrl, table: str | None, view: str | None, others: Collection[str]
) -> str:
    """Copy the table of the people, those that a view names, and `others` to the attached database `file`.

    Returns the name of the people's table, empty with a view. All of it is
    read from one state of the database. Cost: one pass over each table; the rows are held here, secrets and all.
    """
    engine = open_engine(url)
    try:
        relations = engine.relations()
        people: Relation | None = None
        wanted = [_find(engine, relations, name, url) for name in others]
        if view is None:
            people = only_relation(relations, url) if table is None else _find(engine, relations, table, url)
            wanted.insert(0, people)
        else:
            wanted += [find_relation(relations, name, url) for name in _tables_of_view(view)]
        _copy_each(con, engine, wanted, url)
    finally:
        engine.close()
    return "" if people is None else people.name


def copy_to_file(url: DataUrl, table: str | None, view: str | None, others: Collection[str], life: ExitStack) -> Path:
    """The same tables as a DuckDB file in a private folder that lives as long as `life`."""
    folder = Path(life.enter_context(tempfile.TemporaryDirectory(prefix="keyhole-")))
    path = folder / "tables.duckdb"
    with duckdb.connect(":memory:") as con:
        con.execute(f"ATTACH {format_literal(str(path))} AS file")
        copy_tables(con, url, table, view, others)
        con.execute("DETACH file")
    return path


def copy_database(con: duckdb.DuckDBPyConnection, url: DataUrl, table: str | None) -> None:
    """Copy a table, or all that this role may read where there are not many, to the attached database `file`."""
    engine = open_engine(url)
    try:
        relations = engine.relations()
        if table is None and len(relations) > MOST_TABLES:
            raise ConfigError(f"{url.shown} holds {len(relations)} tables: choose the table of the people with --table")
        if table is None and not relations:
            only_relation(relations, url)
        wanted = list(relations) if table is None else [_find(engine, relations, table, url)]
        _copy_each(con, engine, wanted, url)
    finally:
        engine.close()


def _find(engine: Engine, relations: Sequence[Relation], name: str, url: DataUrl) -> Relation:
    return engine.find_files(name) or find_relation(relations, name, url)


def _copy_each(con: duckdb.DuckDBPyConnection, engine: Engine, wanted: Sequence[Relation], url: DataUrl) -> None:
    names: dict[str, Relation] = {}
    for relation in dict.fromkeys(wanted):
        if (same := names.setdefault(fold_name(relation.name), relation)) is not relation:
            raise ConfigError(
                f"{url.shown}: {same.qualified} and {relation.qualified} have one name, and both are needed: make a "
                "view with another name of one of them"
            )
        copy_relation(con, engine, relation)


def copy_relation(
    con: duckdb.DuckDBPyConnection,
    engine: Engine,
    relation: Relation,
    where: str = "TRUE",
    without: Collection[str] = (),
) -> None:
    """Copy the rows of one table under a condition to the attached database `file`, in the order of its key."""
    columns = [column for column in engine.columns(relation) if column.name not in without]
    spelt: dict[str, str] = {}
    for column in columns:
        if (same := spelt.setdefault(fold_name(column.name), column.name)) != column.name:
            raise DataError.of_file(
                f"{relation.qualified} has columns {same!r} and {column.name!r}, which differ in case alone: rename "
                "one in a view and name that with --table"
            )
    listed = ", ".join(f"{column.there} AS c{i}" for i, column in enumerate(columns))
    ordered = f" ORDER BY {', '.join(relation.key)}" if relation.key else ""
    reader = engine.arrow(f"SELECT {listed or '1 AS c0'} FROM {engine.quoted(relation)} WHERE {where}{ordered}")
    con.register("keyhole_rows", reader)
    try:
        con.execute("CREATE OR REPLACE TEMP TABLE keyhole_raw AS SELECT * FROM keyhole_rows")
    except duckdb.Error:
        fault = DataError.of_file(f"{relation.qualified} cannot be read")
        raise (engine.fault or fault) from None
    finally:
        con.unregister("keyhole_rows")
    cast = {column.name: column.here.format(f"c{i}") for i, column in enumerate(columns)} or {"one": "c0"}
    made = ", ".join(f"{text} AS {quote_name(name)}" for name, text in cast.items())
    try:
        con.execute(f"CREATE TABLE file.{quote_name(relation.name)} AS SELECT {made} FROM keyhole_raw")
    except duckdb.Error:
        raise _unfit(con, relation, cast) from None
    con.execute("DROP TABLE keyhole_raw")


def _unfit(con: duckdb.DuckDBPyConnection, relation: Relation, cast: Mapping[str, str]) -> DataError:
    """Which column holds something that has no exact counterpart here; its value is not shown."""
    for name, text in cast.items():
        try:
            con.execute(f"SELECT max(length(({text})::VARCHAR)) FROM keyhole_raw").fetchall()
        except duckdb.Error:
            return DataError.of_file(
                f"{relation.qualified}: column {name!r} holds a value that is not finite, or a number with more than "
                "38 digits (nine behind the point, where its type does not say how many): cast it in a view, or "
                "declare its type as NUMERIC(p, s)"
            )
    return DataError.of_file(f"{relation.qualified} cannot be held as a table here")


def _tables_of_view(view: str) -> list[str]:
    """The tables that the owner's SELECT reads."""
    try:
        tree = sqlglot.parse_one(view.strip().rstrip(";"), read="duckdb")
    except SqlglotError:
        raise ConfigError("view is not a SELECT that can be read: write one over the tables of the database") from None
    made = {fold_name(each.alias) for each in tree.find_all(exp.CTE)}
    named = [".".join(part.name for part in each.parts) for each in tree.find_all(exp.Table)]
    return list(dict.fromkeys(name for name in named if fold_name(name) not in made))
