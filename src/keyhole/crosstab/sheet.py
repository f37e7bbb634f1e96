"""A table file as rows of text: comma, semicolon or tab separated, or the sheets of an Excel workbook."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from keyhole.errors import DataError

DELIMITERS = ",;\t|"


@dataclass(frozen=True, slots=True)
class Sheet:
    """A file as text: its name, its header, and its rows with the line each stood on."""

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    delimiter: str = ","


def read_sheets(paths: Iterable[Path]) -> list[Sheet]:
    """Every table of these files: a workbook has one on each sheet that is not empty."""
    found: list[Sheet] = []
    for path in paths:
        if path.suffix.lower() != ".xlsx":
            found.append(read_sheet(path))
            continue
        from keyhole.datasets.files.workbook import PUBLISHED_TABLE, Workbook

        book = Workbook(path, PUBLISHED_TABLE)
        grids = [(name, book.stored_rows(name)) for name in book.sheets]
        filled = [(name, grid) for name, grid in grids if any(map(any, grid))] or grids[:1]
        single = len(filled) == 1
        found += [make_sheet(path.name if single else f"{path.name} ({name})", grid) for name, grid in filled]
    return found


def read_sheet(path: Path) -> Sheet:
    """Read a file; blank lines are skipped, short rows are filled up with empty fields."""
    if path.suffix.lower() == ".xlsx":
        found = read_sheets([path])
        if len(found) > 1:
            raise DataError.of_file(f"{path.name} has {len(found)} sheets; one is read here: save it as CSV")
        return found[0]
    if path.suffix.lower() in (".xls", ".ods"):
        raise DataError.of_file(f"{path.name}: only .xlsx workbooks are read; save it as .xlsx or .csv")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError.of_file(f"cannot read {path}: {error.strerror}. Is the path right?") from None
    except UnicodeDecodeError:
        raise DataError.of_file(f"{path.name} is not UTF-8 text; save it as CSV UTF-8") from None
    delimiter = find_delimiter(text)
    try:
        grid = list(csv.reader(io.StringIO(text), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise DataError.of_file(f"{path.name} is not CSV: {error}") from None
    return make_sheet(path.name, grid, delimiter)


def find_delimiter(text: str) -> str:
    r"""The delimiter: the one that the header has most often.

    >>> find_delimiter("a;b;c\n1,5;2;3"), find_delimiter("a\n1")
    (';', ',')
    """
    header = next((line for line in text.splitlines() if line.strip()), "")
    return max(DELIMITERS, key=header.count)


def make_sheet(name: str, grid: list[list[str]], delimiter: str = ",") -> Sheet:
    """A grid of text as header and rows.

    >>> make_sheet("t", [["a", "b"], [], ["1"]]).rows
    ((3, ('1', '')),)
    """
    lines = [(at, [field.strip() for field in row]) for at, row in enumerate(grid, 1)]
    lines = [(at, row) for at, row in lines if any(row)]
    if len(lines) < 2:
        raise DataError.of_file(f"{name} has no rows: a table needs a header and at least one row")
    header = tuple(lines[0][1])
    while header and not header[-1]:
        header = header[:-1]
    repeated = next((h for h in header if header.count(h) > 1), None)
    if repeated is not None:
        raise DataError.of_file(f"{name}: column {repeated!r} stands there twice; every column needs a name of its own")
    rows = []
    for at, row in lines[1:]:
        if any(row[len(header) :]):
            title = ". Its first line must be the header: take titles and notes out" if len(header) < 2 else ""
            raise DataError.of_file(f"{name}, line {at}: {len(row)} fields, the header has {len(header)}{title}")
        rows.append((at, tuple((row + [""] * len(header))[: len(header)])))
    return Sheet(name, header, tuple(rows), delimiter)
