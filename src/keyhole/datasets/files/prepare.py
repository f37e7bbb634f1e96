"""An odd file made plain: whatever its extension, its content decides, and what comes out the engine reads as it is.

Plain is a parquet, DuckDB or JSON file, or text in UTF-8 with a header, a point for decimals and nothing for NULL.
Everything else (Excel, gzip, other encodings, decimal commas, words for NULL, no header) is written anew into a private
folder that lives as long as the loading does.
"""

from __future__ import annotations

import csv
import re
import tempfile
import zipfile
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import fields
from enum import StrEnum
from pathlib import Path

import duckdb

from keyhole.config import FileLayout
from keyhole.datasets.files.csv_layout import Separation, check_escapes, check_header, header, in_our_words, unreadable
from keyhole.datasets.files.encodings import GZIP, UTF8, detect_encoding, normalize_encoding, transcode
from keyhole.datasets.files.growing import TABLES
from keyhole.datasets.files.workbook import Workbook
from keyhole.engines.duckdb.connections import fetch_first, types_of
from keyhole.engines.engine import DataUrl, is_url
from keyhole.errors import ConfigError, DataError
from keyhole.model.predicate import format_literal, quote_name

DAY = 10  # places of a date
MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}( \d{2}:\d{2}:\d{2}(\.\d+)?)?")
BLANKS = " \t\r\n\u00a0"


class Content(StrEnum):
    """What a file is; the value is the extension under which the engine reads it."""

    PARQUET = ".parquet"
    DUCKDB = ".duckdb"
    JSON = ".json"
    TEXT = ".csv"
    EXCEL = ".xlsx"


def content_of(path: Path) -> Content:
    """What a file is, by its first bytes. What cannot be read is said, with what to do."""
    with path.open("rb") as file:
        head = file.read(4096)
    if head.startswith(b"PAR1"):
        return Content.PARQUET
    if head[8:12] == b"DUCK":
        return Content.DUCKDB
    if head.startswith(b"PK\x03\x04"):
        if zipfile.is_zipfile(path) and "xl/workbook.xml" in zipfile.ZipFile(path).namelist():
            return Content.EXCEL
        raise DataError.of_file(f"{path.name} is a zip archive: unpack it and name the file in it")
    for start, what, cure in (
        (b"SQLite format 3\x00", "an SQLite database", "export the table as CSV"),
        (b"\xd0\xcf\x11\xe0", "an old Excel workbook", "save it as .xlsx or CSV"),
        (b"%PDF", "a PDF", "it needs to be a table"),
    ):
        if head.startswith(start):
            raise DataError.of_file(f"{path.name} is {what}: {cure}")
    named = path.suffix.lower()
    start = head.lstrip()[:1]
    if named in (".json", ".jsonl", ".ndjson") or (start in (b"{", b"[") and named not in (".csv", ".tsv", ".txt")):
        return Content.JSON
    if named in (".parquet", ".duckdb"):
        raise DataError.of_file(f"{path.name} is no {named[1:]} file, whatever its name says: is it complete?")
    return Content.TEXT


def make_plain(data: object, layout: FileLayout, texts: Collection[str], life: ExitStack) -> object:
    """The same data as something the engine reads as it is: the path itself, or that of a plain copy (same stem).

    `texts` names columns that were declared to hold text: their commas and points are left alone. The copy is gone
    when `life` ends. A frame and what does not exist are given back.
    """
    if not isinstance(data, str | Path):
        return data
    if is_url(data):
        _refuse_layout(layout, DataUrl.parse(str(data)).name, "a database")
        return data
    path = Path(data)
    if path.is_dir():
        return _make_folder_plain(path, layout, texts, life)
    if not path.is_file() or path.stat().st_size == 0:
        return data
    content = content_of(path)
    if content is not Content.TEXT and content is not Content.EXCEL:
        _refuse_layout(layout, path.name, f"a {content.value[1:]} file")
        return path if _has_its_suffix(path, content) else _link(path, content, life)
    odd = _changes_cells(layout)
    if content is Content.TEXT:
        encoding = normalize_encoding(layout.encoding) if layout.encoding else detect_encoding(path)
        with path.open("rb") as file:
            packed = file.read(2) == GZIP
        if encoding in (UTF8, "utf-8-sig") and not packed and not layout.encoding:
            if not odd:
                return path if _has_its_suffix(path, content) else _link(path, content, life)
            return _rewrite(path, path, layout, texts, life)
        copy = _place_for_copy(path, life, ".tsv" if path.suffix.lower() == ".tsv" else ".csv")
        transcode(path, encoding, copy)
        return _rewrite(copy, path, layout, texts, life) if odd else copy
    copy = _place_for_copy(path, life, ".csv")
    _write_sheet(path, layout.sheet, copy)
    return _rewrite(copy, path, layout, texts, life) if odd else copy


def _make_folder_plain(path: Path, layout: FileLayout, texts: Collection[str], life: ExitStack) -> Path:
    """A folder of files, each made plain; the folder itself if all of them are."""
    files = [file for file in sorted(path.iterdir()) if file.suffix.lower() in TABLES and file.is_file()]
    made = {file: make_plain(file, layout, texts, life) for file in files}
    if all(file == plain for file, plain in made.items()):
        return path
    folder = Path(life.enter_context(tempfile.TemporaryDirectory(prefix="keyhole-"))) / path.name
    folder.mkdir()
    for file, plain in made.items():
        there = Path(str(plain))
        (folder / f"{file.stem}{there.suffix}").symlink_to(there.resolve())
    return folder


def cannot_attach(path: Path, error: duckdb.Error) -> DataError:
    """Why a database does not open: mostly because another process holds it."""
    message = in_our_words(error)
    if "lock" in message.lower():
        return DataError.of_file(f"{path.name} is in use by another process: close it there, or work on a copy")
    return DataError.of_file(f"cannot read {path.name}: {message}")


def _has_its_suffix(path: Path, content: Content) -> bool:
    """Would the engine know what it is by its extension?"""
    known = {Content.TEXT: (".csv", ".tsv"), Content.JSON: (".json", ".jsonl"), Content.DUCKDB: (".duckdb", ".db")}
    return path.suffix.lower() in known.get(content, (content.value,))


def _place_for_copy(path: Path, life: ExitStack, suffix: str) -> Path:
    folder = Path(life.enter_context(tempfile.TemporaryDirectory(prefix="keyhole-")))
    return folder / f"{path.stem}{suffix}"


def _link(path: Path, content: Content, life: ExitStack) -> Path:
    """The file under a name whose extension says what it is."""
    link = _place_for_copy(path, life, content.value)
    link.symlink_to(path.resolve())
    return link


def _changes_cells(layout: FileLayout) -> bool:
    """Is anything said that changes what the cells hold?"""
    return any(getattr(layout, f.name) != f.default for f in fields(FileLayout) if f.name not in ("encoding", "sheet"))


def _refuse_layout(layout: FileLayout, name: str, what: str) -> None:
    settings = [f.name for f in fields(FileLayout) if getattr(layout, f.name) != f.default]
    if settings:
        raise ConfigError(f"{name} is {what}, which says by itself what {', '.join(settings)} would say")


def _write_sheet(path: Path, sheet: str | None, to: Path) -> None:
    """A sheet as text: rows as wide as the widest, empty cells as nothing."""
    rows = list(Workbook(path).rows(sheet))
    wide = max((len(row) for row in rows), default=0)
    if not wide:
        raise DataError.of_file(f"{path.name} has no value on its sheet: it needs a header and one row per person")
    columns = [_days_with_time([row[k] if k < len(row) else None for row in rows]) for k in range(wide)]
    with to.open("w", encoding=UTF8, newline="") as file:
        csv.writer(file).writerows(zip(*columns, strict=True))


def _days_with_time(cells: list[str | None]) -> list[str | None]:
    """A column of times in which midnights were written as days has times throughout."""
    lengths = {len(cell) > DAY for cell in cells if cell is not None and MOMENT.fullmatch(cell)}
    if lengths != {False, True}:
        return cells
    return [f"{cell} 00:00:00" if cell is not None and len(cell) == DAY else cell for cell in cells]


def _rewrite(path: Path, shown: Path, layout: FileLayout, texts: Collection[str], life: ExitStack) -> Path:
    """A plain copy of a text file in UTF-8: named columns, trimmed and NULL as declared, numbers with a point."""
    separation = Separation.of(path, layout.delimiter, len(layout.columns))
    wide = len(header(path, separation))
    if layout.columns and len(layout.columns) != wide:
        raise ConfigError(f"{shown.name} has {wide} columns in its first line, and {len(layout.columns)} are named")
    if not layout.columns:
        check_header(path, separation)
    check_escapes(path, separation)
    con = life.enter_context(duckdb.connect(":memory:"))
    head = (
        f"header=false, names=[{', '.join(map(format_literal, layout.columns))}]" if layout.columns else "header=true"
    )
    origin = f"read_csv({format_literal(str(path))}, {head}, all_varchar=true, {separation.options})"
    to = _place_for_copy(shown, life, ".csv")
    try:
        con.execute("SET preserve_insertion_order = true")
        con.execute(f"CREATE TEMP TABLE raw AS SELECT * FROM {origin}")
    except duckdb.Error as error:
        why = unreadable(path, separation, error)
        raise DataError.of_file(f"cannot read {shown.name}: {why}") from None
    names = list(types_of(con, "raw"))
    cells = ", ".join(f"{_plain_cell(con, name, layout, texts)} AS {quote_name(name)}" for name in names)
    con.execute(f"COPY (SELECT {cells} FROM raw) TO {format_literal(str(to))} (FORMAT csv, HEADER true)")
    return to


def _sign(sign: str) -> str:
    """A sign in a pattern."""
    return f"\\x{{{ord(sign):x}}}"


def _plain_cell(con: duckdb.DuckDBPyConnection, name: str, layout: FileLayout, texts: Collection[str]) -> str:
    """A cell of the plain copy, as an expression."""
    raw = quote_name(name)
    bare = f"nullif(trim({raw}, {format_literal(BLANKS)}), '')"
    cell = bare if layout.trim else raw
    if layout.null:
        words = ", ".join(format_literal(word.strip()) for word in layout.null)
        cell = f"CASE WHEN {bare} NOT IN ({words}) THEN {cell} END"
        bare = f"CASE WHEN {bare} NOT IN ({words}) THEN {bare} END"
    point, group = layout.decimal or ".", layout.thousands
    if (point == "." and group is None) or name in texts:
        return cell
    whole = rf"(\d{{1,3}}({_sign(group)}\d{{3}})+|\d+)" if group else r"\d+"
    number = format_literal(rf"[+-]?{whole}({_sign(point)}\d*)?")
    test = f"SELECT bool_and(regexp_full_match({bare}, {number})) FROM raw"
    found = fetch_first(con, test)
    if found is None or not found[0]:
        return cell
    without = f"replace({bare}, {format_literal(group)}, '')" if group else bare
    return f"replace({without}, {format_literal(point)}, '.')"
