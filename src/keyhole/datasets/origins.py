"""What a table is read from: a frame, a file, a folder, a database or a view, and the table `loaded` made of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import duckdb

from keyhole.datasets.copy_tables import copy_tables
from keyhole.datasets.files.csv_layout import Separation, csv_reader, in_our_words, unreadable, with_texts
from keyhole.datasets.files.prepare import cannot_attach
from keyhole.engines.duckdb.connections import types_of
from keyhole.engines.engine import DataUrl, is_url
from keyhole.errors import ConfigError, DataError
from keyhole.extras import require_extra
from keyhole.model.predicate import format_literal, quote_name

Connection: TypeAlias = duckdb.DuckDBPyConnection
TEXT_FILES = (".csv", ".tsv", ".json", ".jsonl")  # their kinds are not written down: they are declared, or read off
READERS = {
    ".csv": "",  # how its fields are separated is found first: `csv_reader`
    ".tsv": "",
    ".parquet": "read_parquet({})",
    ".json": "read_json({})",
    ".jsonl": "read_json({})",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """One of several tables of the data: what to select from, and whether its types are written down."""

    sql: str
    typed: bool


Opened: TypeAlias = tuple[str, str, bool, str | None, Mapping[str, Origin]]


def open_origin(
    con: Connection, data: object, table: str | None, view: str | None, others: Collection[str] = ()
) -> Opened:
    """(natural name, what to select from, are its types written down, what a view may read from, all its tables).

    `others` are tables that are needed beside the people's; of a database nothing else is read.
    """
    if is_url(data):
        url = DataUrl.parse(str(data))
        con.execute("ATTACH ':memory:' AS file")
        name = copy_tables(con, url, table, view, others)
        return _open_attached(con, url.name, name or table, view, url.name)
    if not isinstance(data, str | Path):
        if type(data).__module__.partition(".")[0] == "polars":  # DuckDB reads such frames through pyarrow
            require_extra("pyarrow", "reading a polars frame")
        try:
            con.register("frame", data)
        except duckdb.Error:
            what = f"{type(data).__name__} is no table" if not hasattr(data, "columns") else "the table has no columns"
            raise DataError.of_file(f"{what}: give a path, or a pandas, polars or Arrow table") from None
        stem = table or "people"
        seen = ("frame", True, None) if view is None else _create_view(con, view, {stem: "frame"}, True)
        return (stem, *seen, {})
    path = Path(data)
    if not path.exists():
        near = [p.name for p in path.parent.glob("*") if p.suffix.lower() in (*READERS, ".duckdb")][:5]
        hint = f" In that folder: {', '.join(sorted(near))}." if path.parent.is_dir() and near else ""
        raise DataError.of_file(f"there is no file {path}.{hint}")
    if path.is_dir():
        tables = _folder_tables(path)
        if view is not None:
            typed = all(each.typed for each in tables.values())
            return (table or path.name, *_create_view(con, view, {n: o.sql for n, o in tables.items()}, typed), tables)
        name = _choose_table(list(tables), table, str(path))
        return name, tables[name].sql, tables[name].typed, None, tables
    if path.stat().st_size == 0:
        raise DataError.of_file(f"{path.name} is empty: it needs a header and one row per person")
    suffix = path.suffix.lower()
    if suffix in (".duckdb", ".db"):
        return _attach_database(con, path, table, view)
    if suffix not in READERS:
        raise DataError.of_file(f"cannot read {path.name}: write a .csv, .tsv, .parquet, .json or .duckdb file")
    reader, typed = _reader_of(path), suffix not in TEXT_FILES
    if view is None:
        return path.stem, reader, typed, None, {}
    return (path.stem, *_create_view(con, view, {path.stem: reader}, typed), {})


def _folder_tables(path: Path) -> dict[str, Origin]:
    """The files of a folder as tables, by their stems."""
    tables: dict[str, Origin] = {}
    for file in sorted(path.iterdir()):
        suffix = file.suffix.lower()
        if suffix not in READERS or not file.is_file() or file.stat().st_size == 0:
            continue
        if file.stem in tables:
            raise DataError.of_file(f"{path} has two files named {file.stem}: keep one of them")
        tables[file.stem] = Origin(_reader_of(file), suffix not in TEXT_FILES)
    if not tables:
        raise DataError.of_file(f"{path} is a folder without a file that can be read: put .csv or .parquet files there")
    return tables


def _reader_of(path: Path) -> str:
    """What the engine selects from, for a plain file; how the fields of a text are separated is found first."""
    suffix = path.suffix.lower()
    return csv_reader(path) if suffix in (".csv", ".tsv") else READERS[suffix].format(format_literal(str(path)))


def _choose_table(names: Sequence[str], table: str | None, where: str) -> str:
    """The table of the people among several."""
    if table is None and len(names) != 1:
        raise ConfigError(f"{where} holds {len(names)} tables ({', '.join(names)}): choose one with --table")
    name = table if table is not None else names[0]
    if name not in names:
        raise ConfigError(f"{where} has no table {name!r}; it has {', '.join(names)}")
    return name


def _attach_database(con: Connection, path: Path, table: str | None, view: str | None) -> Opened:
    try:
        con.execute(f"ATTACH {format_literal(str(path))} AS file (READ_ONLY)")
    except duckdb.Error as error:
        raise cannot_attach(path, error) from None
    return _open_attached(con, path.stem, table, view, path.name)


def _open_attached(con: Connection, stem: str, table: str | None, view: str | None, where: str) -> Opened:
    """The tables of the attached database `file`."""
    rows = con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'file' UNION ALL "
        "SELECT view_name FROM duckdb_views() WHERE database_name = 'file' AND NOT internal"
    ).fetchall()
    names = [str(row[0]) for row in rows]
    tables = {name: Origin(f"file.{quote_name(name)}", True) for name in names}
    if view is not None:
        return (table or stem, *_create_view(con, view, {n: o.sql for n, o in tables.items()}, True), tables)
    name = _choose_table(names, table, where)
    return name, tables[name].sql, True, None, tables


def _create_view(con: Connection, view: str, tables: Mapping[str, str], typed: bool) -> tuple[str, bool, str | None]:
    """The owner's own SELECT over the tables of the data; one row a person is checked afterwards."""
    for name, origin in tables.items():
        try:
            con.execute(f"CREATE TEMP VIEW {quote_name(name)} AS SELECT * FROM {origin}")
        except duckdb.Error as error:
            raise DataError(f"cannot read {name}: {in_our_words(error)}") from None
    return f"({view.strip().rstrip(';')})", typed, ", ".join(tables)


def names_of(con: Connection, origin: str, data: object, asked: str | None) -> list[str]:
    """The columns, in order; of a text file from its header alone."""
    bare = origin.replace(", sample_size=-1", ", all_varchar=true") if origin.startswith("read_csv(") else origin
    try:
        return list(types_of(con, bare))
    except duckdb.Error as error:
        raise _explain_failure(error, data, asked) from None


def cast_origin(con: Connection, data: object, origin: str, asked: str | None, kinds: Mapping[str, str]) -> str:
    """A text file whose columns in `kinds` are read as they are written; nothing is guessed from their values."""
    if not kinds:
        return origin
    if origin.startswith("read_csv("):
        return with_texts(origin, kinds)
    if origin.startswith("read_json("):
        try:
            types = types_of(con, origin)
        except duckdb.Error as error:
            raise _explain_failure(error, data, asked) from None
        typed = ", ".join(
            f"{format_literal(n)}: {format_literal('VARCHAR' if n in kinds else t)}" for n, t in types.items()
        )
        return f"{origin[:-1]}, columns={{{typed}}})"
    return origin


def create_loaded(con: Connection, origin: str, left_out: tuple[str, ...], data: object, asked: str | None) -> None:
    """Fill the table `loaded`, and let go of where it came from."""
    but = f" EXCLUDE ({', '.join(quote_name(name) for name in left_out)})" if left_out else ""
    try:
        con.execute(f"CREATE TEMP TABLE loaded AS SELECT *{but} FROM {origin}")
    except duckdb.Error as error:
        raise _explain_failure(error, data, asked) from None
    for (name,) in con.execute("SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal").fetchall():
        if name != "frame":
            con.execute(f"DROP VIEW {quote_name(str(name))}")
    if not isinstance(data, str | Path):
        con.unregister("frame")
    elif is_url(data) or Path(data).suffix.lower() in (".duckdb", ".db"):
        con.execute("DETACH file")


def _explain_failure(error: duckdb.Error, data: object, asked: str | None) -> ConfigError | DataError:
    """The engine cannot read the file or run the view: its words are told, unless they may quote a value."""
    message = str(error).splitlines()[0]
    if asked is None:
        if isinstance(data, str | Path) and Path(data).suffix.lower() in (".csv", ".tsv"):
            return DataError(
                f"cannot read {name_data(data)}: {unreadable(Path(data), Separation.of(Path(data)), error)}"
            )
        return DataError(f"cannot read {name_data(data)}: {in_our_words(error)}")
    if isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException):
        return ConfigError(f"[source] view does not run: {message}. It may read from: {asked}.")
    told = "[source] view does not run: the engine fails on some row; no value is shown here"
    return DataError(f"[source] view does not run: {message}. It may read from: {asked}.", told=told)


def name_data(data: object) -> str:
    """What the data is called in a message."""
    if is_url(data):
        return DataUrl.parse(str(data)).name
    return Path(data).name if isinstance(data, str | Path) else "the table"
