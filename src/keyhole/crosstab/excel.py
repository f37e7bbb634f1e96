"""The first sheet of an .xlsx workbook as text, by the standard library: a zip of XML [ISO/IEC 29500].

Numbers are taken as stored, not as a cell's format shows them. XML that declares entities is refused.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree

from keyhole.datasets.files.workbook import refuse_entities
from keyhole.errors import DataError

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
LINKS = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
LARGEST = 200_000_000  # bytes of one part, unpacked
WIDEST = 2000  # columns


def read_workbook(path: Path) -> list[list[str]]:
    """The rows of the first sheet, each as far as it is filled."""
    try:
        with zipfile.ZipFile(path) as book:
            shared = _shared(book) if "xl/sharedStrings.xml" in book.namelist() else []
            return _rows(_xml(book, _first(book)), shared)
    except OSError as error:
        raise DataError.of_file(f"cannot read {path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, KeyError, ElementTree.ParseError, ValueError, IndexError) as error:
        raise DataError.of_file(f"{path.name} is no .xlsx workbook ({type(error).__name__})") from None


def _xml(book: zipfile.ZipFile, name: str) -> ElementTree.Element:
    if book.getinfo(name).file_size > LARGEST:
        raise DataError.of_file(f"{book.filename}: {name} is larger than {LARGEST} bytes")
    refuse_entities(book, name)
    return ElementTree.fromstring(book.read(name))


def _first(book: zipfile.ZipFile) -> str:
    """The part of the first sheet."""
    sheet = next(_xml(book, "xl/workbook.xml").iter(f"{MAIN}sheet"))
    links = _xml(book, "xl/_rels/workbook.xml.rels")
    target = next(str(link.get("Target")) for link in links if link.get("Id") == sheet.get(f"{LINKS}id"))
    return target.lstrip("/") if target.startswith("/") else f"xl/{target}"


def _shared(book: zipfile.ZipFile) -> list[str]:
    items = _xml(book, "xl/sharedStrings.xml").iter(f"{MAIN}si")
    return ["".join(t.text or "" for t in item.iter(f"{MAIN}t")) for item in items]


def _rows(sheet: ElementTree.Element, shared: list[str]) -> list[list[str]]:
    found: list[list[str]] = []
    for row in sheet.iter(f"{MAIN}row"):
        number = int(row.get("r") or len(found) + 1)
        found.extend([] for _ in range(min(number, 1_048_576) - len(found) - 1))
        fields: list[str] = []
        for cell in row.iter(f"{MAIN}c"):
            at = column_number(cell.get("r") or "") if cell.get("r") else len(fields)
            if at >= WIDEST:
                raise DataError.of_file(f"a sheet has more than {WIDEST} columns")
            fields.extend([""] * (at - len(fields)))
            fields.append(_text(cell, shared))
        found.append(fields)
    return found


def column_number(place: str) -> int:
    """The column of a place, from 0.

    >>> column_number("A1"), column_number("AB7")
    (0, 27)
    """
    letters = re.match(r"[A-Z]+", place)
    if letters is None:
        raise ValueError(place)
    found = 0
    for letter in letters.group():
        found = 26 * found + ord(letter) - 64
    return found - 1


def _text(cell: ElementTree.Element, shared: list[str]) -> str:
    kind, value = cell.get("t"), cell.find(f"{MAIN}v")
    if kind == "inlineStr":
        return "".join(t.text or "" for t in cell.iter(f"{MAIN}t"))
    text = "" if value is None else value.text or ""
    return shared[int(text)] if kind == "s" and text else text
