"""A look at data before anything is declared of it: its tables, their columns, and how its text is written.

What is counted here (values, empty cells, blanks) decides which roles are proposed. Values themselves are given for the
columns that somebody names as public, and for no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from keyhole.config import FileLayout
from keyhole.datasets.copy_tables import copy_database
from keyhole.datasets.files.csv_layout import (
    Separation,
    check_escapes,
    csv_reader,
    first_rows,
    in_our_words,
    no_header,
    unreadable,
)
from keyhole.datasets.files.encodings import detect_encoding
from keyhole.datasets.files.growing import TABLES
from keyhole.datasets.files.prepare import BLANKS, Content, cannot_attach, content_of, make_plain
from keyhole.datasets.origins import name_data
from keyhole.engines.duckdb.connections import kind_of_type, types_of
from keyhole.engines.engine import DataUrl
from keyhole.errors import ConfigError, DataError
from keyhole.model.predicate import format_literal, quote_name
from keyhole.model.schema import Kind, fold_name

NOTHING = (
    "?",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "NaN",
    "nan",
    "NULL",
    "null",
    "None",
    "none",
    "-",
    ".",
)  # words for no value
NUMBER = r"[+-]?(\d{{1,3}}([{}]\d{{3}})([{}]\d{{3}})*|\d+)([{}]\d+)?"
GROUPS = r"[+-]?(\d{{1,3}}([{}]\d{{3}})([{}]\d{{3}})*|\d+)"
WHOLE, POINT = r"[+-]?\d+", r"[+-]?\d*[.]?\d*"
THOUSANDS = (".", " ", "'", "\u00a0", "\u202f", "\u2019")
NUMERAL = r"[+-]?[\d.,]*\d[\d.,]*"
SIGNED = (
    r"(?:[A-Z]{3} ?|[^0-9A-Za-z]{0,3})\d{1,3}([., '" + "\u00a0\u202f\u2019" + r"]?\d{3})*([.,]\d{1,4})?"
    r"\s?([^0-9A-Za-z]{1,2}|[A-Z]{3}|kr|Kč|zł)?"
)


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A column: its name, its kind, how many of its cells are empty, how many values differ."""

    name: str
    kind: Kind
    nulls: int
    distinct: int
    numerals: int = 0  # cells of a text that are a number with signs around it: 1.234,50 €

    def unique(self, rows: int) -> bool:
        """Has every row another value?"""
        return self.nulls == 0 and self.distinct == rows


@dataclass(frozen=True, slots=True)
class SurveyedTable:
    """A table: its name, how many rows, its columns in order; `typed` if the file itself says their kinds."""

    name: str
    rows: int
    columns: tuple[Surveyed, ...]
    typed: bool

    def named(self, name: str) -> Surveyed:
        """The column that the engine takes a name for, whatever its case."""
        return next(column for column in self.columns if fold_name(column.name) == fold_name(name))

    def column(self, name: str) -> Surveyed:
        """The column of that name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise ConfigError(f"{self.name} has no column {name!r}; it has {', '.join(c.name for c in self.columns)}")


class Survey:
    """Data that was looked at. `layout` is what was said of how it is written, and what was found to be so."""

    def __init__(self, data: Path | str, layout: FileLayout, life: ExitStack, table: str | None = None) -> None:
        """A path, or the address of a database: of that only `table` is looked at, if one is named."""
        self.data, self.layout = data, layout
        self._con = life.enter_context(duckdb.connect(":memory:"))
        files = [] if isinstance(data, str) else _files(data)
        if len(files) == 1 and content_of(files[0]) in (Content.TEXT, Content.EXCEL):
            self.layout = _detect_layout(files[0], layout, life)
        self._origins: dict[str, tuple[str, bool]] = {}
        if isinstance(data, str):
            make_plain(data, layout, (), life)  # says what makes no sense of a database
            self._con.execute("ATTACH ':memory:' AS file")
            copy_database(self._con, DataUrl.parse(data), table)
            self._origins = self._attached_tables()
        for file in files:
            self._origins |= self._open_tables(file, life)
        self.tables: Mapping[str, SurveyedTable] = {
            name: self._survey_table(name, *o) for name, o in self._origins.items()
        }

    @property
    def name(self) -> str:
        """What messages call the data."""
        return name_data(self.data)

    def values(self, table: str, column: str, most: int) -> list[Any] | None:
        """The values of a public column in order, if there are not more than so many."""
        name, origin = quote_name(column), self._origins[table][0]
        rows = self._con.execute(
            f"SELECT DISTINCT {name} FROM {origin} WHERE {name} IS NOT NULL ORDER BY 1 LIMIT {most + 1}"
        ).fetchall()
        return [row[0] for row in rows] if len(rows) <= most else None

    def ends(self, table: str, column: str) -> tuple[Any, Any]:
        """The least and the largest value of a public column."""
        name = quote_name(column)
        return self._con.execute(f"SELECT min({name}), max({name}) FROM {self._origins[table][0]}").fetchall()[0]

    def refers(self, table: str, column: str, other: str) -> bool:
        """Is every value of a column one that another table has in its column of that name? False if not comparable."""
        name, (mine, _), (theirs, _) = quote_name(column), self._origins[table], self._origins[other]
        try:
            lacking = self._con.execute(
                f"SELECT count(*) FROM (SELECT {name} AS k FROM {mine}) ANTI JOIN (SELECT {name} AS k FROM {theirs}) "
                "USING (k) WHERE k IS NOT NULL"
            ).fetchall()
        except duckdb.Error:
            return False
        return bool(lacking[0][0] == 0)

    def _open_tables(self, file: Path, life: ExitStack) -> dict[str, tuple[str, bool]]:
        plain = make_plain(file, self.layout, (), life)
        assert isinstance(plain, Path)
        match content_of(plain):
            case Content.DUCKDB:
                try:
                    self._con.execute(f"ATTACH {format_literal(str(plain))} AS file (READ_ONLY)")
                except duckdb.Error as error:
                    raise cannot_attach(plain, error) from None
                return self._attached_tables()
            case Content.PARQUET:
                return {file.stem: (f"read_parquet({format_literal(str(plain))})", True)}
            case Content.JSON:
                return {file.stem: (f"read_json({format_literal(str(plain))})", False)}
            case _:
                return {file.stem: (csv_reader(plain), False)}

    def _attached_tables(self) -> dict[str, tuple[str, bool]]:
        found = self._con.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'file'").fetchall()
        return {str(name): (f"file.{quote_name(str(name))}", True) for (name,) in found}

    def _survey_table(self, name: str, origin: str, typed: bool) -> SurveyedTable:
        try:
            kinds = {column: kind_of_type(type_) for column, type_ in types_of(self._con, origin).items()}
            counts = ", ".join(f"count({quote_name(c)}), count(DISTINCT {quote_name(c)})" for c in kinds)
            texts = [c for c, kind in kinds.items() if kind is Kind.TEXT]
            signed = "".join(
                f", count(*) FILTER (regexp_full_match({quote_name(c)}::VARCHAR, {format_literal(SIGNED)}))"
                for c in texts
            )
            rows, *counted = self._con.execute(f"SELECT count(*), {counts}{signed} FROM {origin}").fetchall()[0]
        except duckdb.Error as error:
            raise DataError(f"cannot read {name}: {in_our_words(error)}", told=f"cannot read {name}") from None
        numerals = dict(zip(texts, counted[2 * len(kinds) :], strict=True))
        columns = [
            Surveyed(column, kind, rows - counted[2 * k], counted[2 * k + 1], numerals.get(column, 0))
            for k, (column, kind) in enumerate(kinds.items())
        ]
        return SurveyedTable(name, rows, tuple(columns), typed)


def _files(data: Path) -> list[Path]:
    if not data.exists():
        raise DataError.of_file(f"there is no file {data}: is the path right?")
    if not data.is_dir():
        if data.stat().st_size == 0:
            raise DataError.of_file(f"{data.name} is empty: it needs a header and one row per person")
        return [data]
    tables = sorted(p for p in data.iterdir() if p.suffix.lower() in TABLES and p.stat().st_size)
    if not tables:
        raise DataError.of_file(f"{data} holds no .csv, .tsv, .parquet or .json file")
    return tables


def _detect_layout(path: Path, layout: FileLayout, life: ExitStack) -> FileLayout:
    """The layout with what can be seen of a text file: encoding, words for no value, blanks, signs inside numbers."""
    if content_of(path) is Content.TEXT and not layout.encoding:
        encoding = detect_encoding(path)
        layout = replace(layout, encoding=None if encoding in ("utf-8", "utf-8-sig") else encoding)
    plain = make_plain(path, replace(layout, decimal=None, thousands=None), (), life)
    assert isinstance(plain, Path)
    separation = Separation.of(plain)
    names, *below = first_rows(plain, separation) or [[]]
    if not layout.columns and no_header(names, below):
        raise ConfigError(
            f"the first line of {path.name} looks like data, not names: name its {len(names)} columns with "
            "columns = [...] under [source], in a file that --bounds names"
        )
    check_escapes(plain, separation)
    con = life.enter_context(duckdb.connect(":memory:"))
    try:
        origin = f"read_csv({format_literal(str(plain))}, header=true, all_varchar=true, {separation.options})"
        con.execute(f"CREATE TEMP TABLE raw AS FROM {origin}")
    except duckdb.Error as error:
        why = unreadable(plain, separation, error)
        raise DataError.of_file(f"cannot read {path.name}: {why}") from None
    listed = list(types_of(con, "raw"))
    words = layout.null or tuple(word for word in NOTHING if _means_no_value(con, listed, word))
    padded = layout.trim or any(
        _holds(con, f"{quote_name(c)} <> trim({quote_name(c)}, {format_literal(BLANKS)})", _filled(c, ()))
        for c in listed
    )
    layout = replace(layout, null=words, trim=padded)
    return layout if layout.decimal or layout.thousands else _detect_number_signs(con, listed, layout)


def _bare(column: str) -> str:
    return f"trim({quote_name(column)}, {format_literal(BLANKS)})"


def _filled(column: str, words: Sequence[str]) -> str:
    listed = ", ".join(format_literal(word) for word in ("", *words))
    return f"{_bare(column)} NOT IN ({listed})"


def _holds(con: duckdb.DuckDBPyConnection, test: str, where: str) -> bool:
    return bool(con.execute(f"SELECT coalesce(bool_or({test}), false) FROM raw WHERE {where}").fetchall()[0][0])


def _all(con: duckdb.DuckDBPyConnection, test: str, where: str) -> bool:
    return bool(con.execute(f"SELECT coalesce(bool_and({test}), false) FROM raw WHERE {where}").fetchall()[0][0])


def _means_no_value(con: duckdb.DuckDBPyConnection, columns: Sequence[str], word: str) -> bool:
    """Does a word stand in several columns, or among numbers? Once, among words, it may be a value like any other."""
    there = [c for c in columns if _holds(con, f"{_bare(c)} = {format_literal(word)}", "true")]
    numbers = [c for c in there if _all(con, f"regexp_full_match({_bare(c)}, '{NUMERAL}')", _filled(c, NOTHING))]
    return bool(numbers) or (len(there) > 1 and word not in ("-", ".", "none", "None"))


def _detect_number_signs(con: duckdb.DuckDBPyConnection, columns: Sequence[str], layout: FileLayout) -> FileLayout:
    """Decimal commas and signs between thousands, where a whole column is written so and can be read in one way."""
    for column in columns:
        bare, filled = _bare(column), _filled(column, layout.null)

        def every(pattern: str, bare: str = bare, filled: str = filled) -> bool:
            return _all(con, f"regexp_full_match({bare}, {format_literal(pattern)})", filled)

        if every(WHOLE) or every(POINT) or every(GROUPS.format(",", ",")):
            continue  # 1,234 may be either
        for sign in THOUSANDS:
            if every(NUMBER.format(sign, sign, ",")):
                grouped = _holds(con, f"contains({bare}, {format_literal(sign)})", filled)
                return replace(layout, decimal=",", thousands=sign if grouped else None)
        for sign in (",", *THOUSANDS[1:]):
            if every(NUMBER.format(sign, sign, ".")):
                return replace(layout, thousands=sign)
    return layout
