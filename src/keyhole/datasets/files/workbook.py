"""Excel workbooks (.xlsx): a sheet as rows of text. The format is a zip of XML (ECMA-376); nothing else is needed.

Numbers keep every digit that is stored: two ids of 17 digits stay two people, which a DOUBLE would make one. What is
damaged is refused and never guessed. XML that declares entities is refused too: a short file could unfold into one that
fills the memory.
"""

from __future__ import annotations

import datetime as dt
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from keyhole.errors import ConfigError, DataError

_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_DATES = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})  # built-in formats of dates
MOST_ROWS = 1 << 20  # of a sheet
PIECE = 1 << 16  # bytes of a part that are read at once


@dataclass(frozen=True, slots=True)
class Limits:
    """What a workbook may hold: bytes of a part when unpacked, and columns of a sheet."""

    bytes: int = 1 << 32
    columns: int = 1 << 14


TABLE_OF_PEOPLE = Limits()
PUBLISHED_TABLE = Limits(200_000_000, 2000)


class Workbook:
    """A workbook that was opened: its sheets by name, each row by row."""

    def __init__(self, path: Path, limits: Limits = TABLE_OF_PEOPLE) -> None:
        self._name, self._limits = path.name, limits
        try:
            self._zip = zipfile.ZipFile(path)
            book = self._part("xl/workbook.xml")
            links = {r.get("Id"): r.get("Target", "") for r in self._part("xl/_rels/workbook.xml.rels")}
            self._words = self._shared_texts()
        except (KeyError, ValueError, SyntaxError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
            raise DataError.of_file(f"{path.name} is no .xlsx workbook that can be read: save it as CSV") from None
        except OSError as error:
            raise DataError.of_file(f"cannot read {path}: {error.strerror or error}") from None
        properties = book.find("{*}workbookPr")
        self._from_1904 = properties is not None and properties.get("date1904") in ("1", "true")
        listed = book.find("{*}sheets")
        self.sheets: Mapping[str, str] = {
            str(sheet.get("name")): _part_name(links.get(sheet.get(_RELATION), ""))
            for sheet in ([] if listed is None else listed)
        }

    def rows(self, sheet: str | None = None) -> Iterator[list[str | None]]:
        """The rows of a sheet (the first, if none is named), as wide as they are; empty ones are left out.

        Numbers are given as they are stored (shortest decimal), dates in ISO form, formulas as their last result; a
        cell that holds an error (#DIV/0!) is empty.
        """
        with self._refusing_damage():
            for _, cells in self._cells(sheet):
                row: list[str | None] = []
                for at, cell in cells:
                    row += [None] * (at - len(row))
                    row.append(self._value(cell))
                if any(value is not None for value in row):
                    yield row

    def stored_rows(self, sheet: str | None = None) -> list[list[str]]:
        """A sheet from its first row on, as stored: dates are numbers, and an error is its sign (#N/A)."""
        rows: list[list[str]] = []
        with self._refusing_damage():
            for number, cells in self._cells(sheet):
                rows.extend([] for _ in range(min(number, MOST_ROWS) - len(rows) - 1))
                row: list[str] = []
                for at, cell in cells:
                    row += [""] * (at - len(row))
                    row.append(self._stored(cell))
                rows.append(row)
        return rows

    @contextmanager
    def _refusing_damage(self) -> Iterator[None]:
        try:
            yield
        except (LookupError, ValueError, SyntaxError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
            raise DataError.of_file(f"{self._name}: the sheet cannot be read; save it as CSV") from None

    def _cells(self, sheet: str | None) -> Iterator[tuple[int, list[tuple[int, ElementTree.Element]]]]:
        """The number of each row of a sheet, and its cells with their columns from 0."""
        if sheet is not None and sheet not in self.sheets:
            raise ConfigError(f"{self._name} has no sheet {sheet!r}; it has {', '.join(self.sheets)}")
        part = self.sheets[sheet] if sheet is not None else next(iter(self.sheets.values()), "")
        self._check_part(part)
        number = 0
        with self._zip.open(part) as file:
            for _, element in ElementTree.iterparse(file):
                if element.tag.endswith("}row"):
                    number = int(element.get("r") or number + 1)
                    yield number, self._placed_cells(element)
                    element.clear()

    def _placed_cells(self, row: ElementTree.Element) -> list[tuple[int, ElementTree.Element]]:
        placed: list[tuple[int, ElementTree.Element]] = []
        for cell in row.iterfind("{*}c"):
            at = _column_number(cell.get("r", "")) if cell.get("r") else placed[-1][0] + 1 if placed else 0
            if at >= self._limits.columns:
                most = self._limits.columns
                raise DataError.of_file(f"{self._name}: a sheet has more than {most:,} columns; save it as CSV")
            if placed and at <= placed[-1][0]:
                raise ValueError("a cell stands before the one that it follows")
            placed.append((at, cell))
        return placed

    def _stored(self, cell: ElementTree.Element) -> str:
        """The text of a cell, without what its format makes of it."""
        if cell.get("t") == "inlineStr":
            return _spoken_text(cell.find("{*}is"))
        inside = cell.find("{*}v")
        text = "" if inside is None else inside.text or ""
        return self._words[_index(text)] if cell.get("t") == "s" and text else text

    def _value(self, cell: ElementTree.Element) -> str | None:
        text = self._stored(cell)
        match cell.get("t", "n"):
            case "e":
                return None
            case "b" if text:
                return "true" if text == "1" else "false"
            case "n" if text:
                return self._day(text) if cell.get("s", "") in self._date_styles else text.removesuffix(".0")
            case _:
                return text or None

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

    def _shared_texts(self) -> list[str]:
        """The texts that cells refer to by number."""
        if "xl/sharedStrings.xml" not in self._zip.namelist():
            return []
        return [_spoken_text(item) for item in self._part("xl/sharedStrings.xml")]

    @cached_property
    def _date_styles(self) -> frozenset[str]:
        """The numbers of cell styles that show a date."""
        if "xl/styles.xml" not in self._zip.namelist():
            return frozenset()
        styles = self._part("xl/styles.xml")
        own = {
            int(f.get("numFmtId", "0")): re.sub(r'"[^"]*"|\[[^\]]*\]|\\.', "", f.get("formatCode", ""))
            for f in styles.iterfind("{*}numFmts/{*}numFmt")
        }
        dates = _DATES | {number for number, code in own.items() if re.search("[dmyhs]", code.lower())}
        formats = styles.iterfind("{*}cellXfs/{*}xf")
        return frozenset(str(at) for at, xf in enumerate(formats) if int(xf.get("numFmtId", "0")) in dates)

    def _part(self, name: str) -> ElementTree.Element:
        self._check_part(name)
        return ElementTree.fromstring(self._zip.read(name))

    def _check_part(self, name: str) -> None:
        """Raise DataError if a part is too large, or has a document type, where entities are declared."""
        if self._zip.getinfo(name).file_size > self._limits.bytes:
            most = self._limits.bytes // 10**6
            raise DataError.of_file(f"{self._name} unpacks to more than {most:,} MB: save it as CSV")
        in_prolog = True

        def refuse(*_: object) -> None:
            raise DataError.of_file(f"{self._name}: {name} declares entities, which no workbook needs")

        def leave_prolog(*_: object) -> None:
            nonlocal in_prolog
            in_prolog = False

        parser = expat.ParserCreate()  # it finds the encoding as the reader of the part does
        parser.StartDoctypeDeclHandler, parser.StartElementHandler = refuse, leave_prolog
        with self._zip.open(name) as file, suppress(expat.ExpatError):  # who reads the part says that it is no XML
            while in_prolog and (piece := file.read(PIECE)):
                parser.Parse(piece)
            parser.Parse(b"", in_prolog)  # newer parsers wait with a long token for more, until told that it ends


def _part_name(target: str) -> str:
    return target.lstrip("/") if target.startswith("/") else f"xl/{target}"


def _spoken_text(item: ElementTree.Element | None) -> str:
    """The text of an item, without what says how it is pronounced."""
    parts = [] if item is None else [part for part in item if not part.tag.endswith("}rPh")]
    return "".join(t.text or "" for part in parts for t in part.iter() if t.tag.endswith("}t"))


def _column_number(place: str) -> int:
    """The column of a place, from 0.

    >>> _column_number("A1"), _column_number("AB7")
    (0, 27)
    """
    letters = re.match(r"[A-Z]+", place)
    if letters is None:
        raise ValueError(place)
    number = 0
    for letter in letters.group():
        number = 26 * number + ord(letter) - 64
    return number - 1


def _index(text: str) -> int:
    """A number of a shared text; a negative one would count from the end.

    >>> _index("7")
    7
    """
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def write_workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[str | Decimal]]]) -> None:
    """Write rows of texts and numbers, a sheet under each name; the bytes depend on nothing else.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_workbook(Path(folder, "t.xlsx"), {"S": [["town", "n"], ["A & B", Decimal("12.50")], ["C", "x"]]})
    ...     Workbook(Path(folder, "t.xlsx")).stored_rows()
    [['town', 'n'], ['A & B', '12.50'], ['C', 'x']]
    """
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    linked = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    packed = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    numbers = range(1, len(sheets) + 1)
    listed = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{k}" r:id="rId{k}"/>' for k, name in zip(numbers, sheets, strict=True)
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{packed}/content-types"><Default Extension="rels" '
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        + "".join(
            f'<Override PartName="/xl/worksheets/sheet{k}.xml" ContentType="{kind}.worksheet+xml"/>' for k in numbers
        )
        + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{packed}/relationships"><Relationship Id="rId1" '
        f'Type="{linked}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{linked}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{packed}/relationships">'
        + "".join(
            f'<Relationship Id="rId{k}" Type="{linked}/worksheet" Target="worksheets/sheet{k}.xml"/>' for k in numbers
        )
        + "</Relationships>",
    }
    for k, rows in zip(numbers, sheets.values(), strict=True):
        body = "".join(f"<row>{''.join(map(_write_cell, row))}</row>" for row in rows)
        parts[f"xl/worksheets/sheet{k}.xml"] = f'<worksheet xmlns="{main}"><sheetData>{body}</sheetData></worksheet>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, text in parts.items():
            whole = f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
            book.writestr(zipfile.ZipInfo(name), whole, zipfile.ZIP_DEFLATED)


def _write_cell(value: str | Decimal) -> str:
    if isinstance(value, Decimal):
        return f"<c><v>{value:f}</v></c>"
    return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
