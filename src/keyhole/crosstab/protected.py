"""Protected tables as files: what may be published, every suppressed cell marked alike, and for the owner why.

Who sees which cells a rule hid, and which were suppressed to protect them, knows more than that they are suppressed:
two cells with fewer than 3 people each and 2 together have 1 each. So one marker stands for all of them, and no column
but the dimensions and the number is written: a column with contributors would tell the two kinds apart.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from pathlib import Path

from keyhole.crosstab.cells import CrossTable, PublishedCell, TableLayout
from keyhole.crosstab.sheet import Sheet
from keyhole.errors import DataError

SUFFIXES = (".csv", ".xlsx")
MARKER = "x"
SHEET_NAME = 31  # characters, as Excel has it
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")

Rows = list[list[str | Decimal]]


def choose_marker(layout: TableLayout) -> str:
    """What stands for a suppressed number: the first marker that was declared, or x."""
    return next(iter(layout.markers), MARKER)


def fill_tables(
    sheets: Sequence[Sheet],
    tables: Sequence[CrossTable],
    layout: TableLayout,
    number_of: Callable[[PublishedCell], Decimal | None],
) -> dict[str, Rows]:
    """The tables in the form they were read in, with the number of each cell, or the marker where there is none."""
    marker = choose_marker(layout)
    found: dict[str, Rows] = {}
    for sheet, table in zip(sheets, tables, strict=True):
        numbers = [marker if (number := number_of(cell)) is None else number for cell in table.cells]
        long = layout.value in sheet.header
        places = [sheet.header.index(c) for c in table.columns] if long else range(len(sheet.header))
        width = 1 if long else len(sheet.header) - len(table.columns) + 1
        head = [*table.columns, layout.value] if long else list(sheet.header)
        rows: Rows = [[*head]]
        left = iter(numbers)
        for _, row in sheet.rows:
            kept = [row[at] for at in places]
            rows.append([*(kept if long else kept[:-width]), *islice(left, width)])
        found[_name_sheet(sheet.name, found)] = rows
    return found


def _name_sheet(name: str, taken: Mapping[str, Rows]) -> str:
    """A name that Excel takes, and that no other sheet has."""
    plain = re.sub(r"[\[\]:*?/\\']", " ", re.sub(r"\.\w+( \(|$)", r"\1", name)).strip() or "table"
    names = [plain[:SHEET_NAME], *(f"{plain[: SHEET_NAME - 4]} {k}" for k in range(2, len(taken) + 2))]
    return next(each for each in names if each.casefold() not in {other.casefold() for other in taken})


def write_tables(filled: Mapping[str, Rows], path: Path) -> list[Path]:
    """Write them: as sheets of one workbook, or as one .csv each, `protected-towns.csv` where there are several."""
    if path.suffix.lower() == ".xlsx":
        from keyhole.datasets.files.workbook import write_workbook

        for name, rows in filled.items():
            if any(isinstance(text, str) and CONTROL.search(text) for row in rows for text in row):
                raise DataError.of_file(f"{name} has characters that no workbook takes: write a .csv instead")
        write_workbook(path, filled)
        return [path]
    files = []
    for name, rows in filled.items():
        files.append(path if len(filled) == 1 else path.with_stem(f"{path.stem}-{name}"))
        files[-1].write_text(as_csv(rows), encoding="utf-8")
    return files


def as_csv(rows: Rows) -> str:
    """Rows as text, numbers with all their digits."""
    text = io.StringIO()
    plain = ([f"{value:f}" if isinstance(value, Decimal) else value for value in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(plain)
    return text.getvalue()
