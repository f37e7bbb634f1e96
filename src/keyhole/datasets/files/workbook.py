"""Excel workbooks (.xlsx): a sheet as rows of text. The format is a zip of XML (ECMA-376); nothing else is needed.

XML that declares entities is refused: a short file could unfold into one that fills the memory.
"""

from __future__ import annotations

import datetime as dt
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from keyhole.errors import ConfigError, DataError

_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_DATES = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})  # built-in formats of dates
LARGEST = 1 << 32  # bytes of a part when unpacked
WIDEST = 1 << 14  # columns of a sheet
PIECE = 1 << 16  # bytes of a part that are read at once


class Workbook:
    """A workbook that was opened: its sheets by name, each row by row.

    Numbers are given as they are stored (shortest decimal), dates in ISO form, formulas as their last result; a cell
    that holds an error (#DIV/0!) is empty.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        try:
            self._zip = zipfile.ZipFile(path)
            book = self._part("xl/workbook.xml")
            links = {r.get("Id"): r.get("Target", "") for r in self._part("xl/_rels/workbook.xml.rels")}
        except (OSError, KeyError, zipfile.BadZipFile, ElementTree.ParseError):
            raise DataError.of_file(f"{path.name} is no Excel workbook that can be read: save it as CSV") from None
        properties = book.find("{*}workbookPr")
        self._from_1904 = properties is not None and properties.get("date1904") in ("1", "true")
        listed = book.find("{*}sheets")
        self.sheets: Mapping[str, str] = {
            str(sheet.get("name")): _inside(links.get(sheet.get(_RELATION), ""))
            for sheet in ([] if listed is None else listed)
        }
        self._words = self._shared()
        self._dates = self._date_styles()

    def rows(self, sheet: str | None = None) -> Iterator[list[str | None]]:
        """The rows of a sheet (the first, if none is named), as wide as they are; empty ones are left out."""
        if sheet is not None and sheet not in self.sheets:
            raise ConfigError(f"{self._name} has no sheet {sheet!r}; it has {', '.join(self.sheets)}")
        inside = self.sheets[sheet] if sheet is not None else next(iter(self.sheets.values()))
        try:
            self._check_part(inside)
            with self._zip.open(inside) as file:
                for _, element in ElementTree.iterparse(file):
                    if element.tag.endswith("}row"):
                        row = self._row(element)
                        if any(value is not None for value in row):
                            yield row
                        element.clear()
        except (LookupError, ValueError, SyntaxError, zipfile.BadZipFile):
            raise DataError.of_file(f"{self._name}: the sheet cannot be read; save it as CSV") from None

    def _row(self, element: ElementTree.Element) -> list[str | None]:
        found: list[str | None] = []
        for cell in element.iterfind("{*}c"):
            at = _column(cell.get("r")) if cell.get("r") else len(found)
            if at >= WIDEST:
                raise DataError.of_file(f"{self._name}: a sheet has more than {WIDEST:,} columns; save it as CSV")
            found += [None] * (at - len(found))
            found.append(self._value(cell))
        return found

    def _value(self, cell: ElementTree.Element) -> str | None:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return "".join(t.text or "" for t in cell.iterfind(".//{*}t")) or None
        inside = cell.find("{*}v")
        text = None if inside is None else inside.text
        if text is None or kind == "e":
            return None
        match kind:
            case "s":
                return self._words[int(text)] or None
            case "b":
                return "true" if text == "1" else "false"
            case "n":
                return self._day(text) if cell.get("s", "") in self._dates else _plain(text)
            case _:
                return text

    def _day(self, serial: str) -> str:
        """Days since the end of 1899 (or the start of 1904) as a date, with its time if it has one."""
        try:
            if 0 <= float(serial) < 1:  # a time of day
                return (dt.datetime.min + dt.timedelta(seconds=round(float(serial) * 86400))).time().isoformat()
            start = dt.datetime(1904, 1, 1) if self._from_1904 else dt.datetime(1899, 12, 30)
            moment = start + dt.timedelta(seconds=round(float(serial) * 86400, 3))
        except (ValueError, OverflowError):
            return serial
        return moment.date().isoformat() if moment.time() == dt.time() else moment.isoformat(" ")

    def _shared(self) -> list[str]:
        """The texts that cells refer to by number, without what says how they are pronounced."""
        try:
            listed = self._part("xl/sharedStrings.xml")
        except KeyError:
            return []
        return [
            "".join(
                t.text or ""
                for part in item
                if not part.tag.endswith("}rPh")
                for t in part.iter()
                if t.tag.endswith("}t")
            )
            for item in listed
        ]

    def _date_styles(self) -> frozenset[str]:
        """The numbers of cell styles that show a date."""
        try:
            styles = self._part("xl/styles.xml")
        except KeyError:
            return frozenset()
        own = {
            int(f.get("numFmtId", "0")): re.sub(r'"[^"]*"|\[[^\]]*\]|\\.', "", f.get("formatCode", ""))
            for f in styles.iterfind("{*}numFmts/{*}numFmt")
        }
        dates = _DATES | {number for number, code in own.items() if re.search("[dmyhs]", code.lower())}
        cells = styles.iterfind("{*}cellXfs/{*}xf")
        return frozenset(str(at) for at, xf in enumerate(cells) if int(xf.get("numFmtId", "0")) in dates)

    def _part(self, name: str) -> ElementTree.Element:
        self._check_part(name)
        return ElementTree.fromstring(self._zip.read(name))

    def _check_part(self, name: str) -> None:
        if self._zip.getinfo(name).file_size > LARGEST:
            raise DataError.of_file(f"{self._name} unpacks to more than {LARGEST >> 30} GB: save it as CSV")
        refuse_entities(self._zip, name)


def refuse_entities(book: zipfile.ZipFile, name: str) -> None:
    """Raise DataError if a part of a workbook has a document type, where entities are declared, in any encoding."""
    in_prolog = True

    def refuse(*_: object) -> None:
        raise DataError.of_file(f"{Path(book.filename or '').name}: {name} declares entities, which no workbook needs")

    def leave_prolog(*_: object) -> None:
        nonlocal in_prolog
        in_prolog = False

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler, parser.StartElementHandler = refuse, leave_prolog
    with book.open(name) as file, suppress(expat.ExpatError):  # who reads the part says that it is no XML
        while in_prolog and (piece := file.read(PIECE)):
            parser.Parse(piece)
        parser.Parse(b"", in_prolog)  # newer parsers wait with a long token for more, until they are told that it ends


def _inside(target: str) -> str:
    return target.lstrip("/") if target.startswith("/") else f"xl/{target}"


def _column(reference: str | None) -> int:
    """B7 is column 1."""
    number = 0
    for letter in (reference or "").rstrip("0123456789"):
        number = 26 * number + ord(letter) - 64
    return number - 1


def _plain(text: str) -> str:
    """A stored number as it is shown: 0.30000000000000004 as it is, 5.0 as 5."""
    return text.removesuffix(".0")
