"""How a text file separates its fields: found from its first lines, and said to the engine in full.

The engine's own guess may leave out lines that it takes for comments or titles, and reads a file with an uneven row as
one column: people would be lost unseen. So nothing but kinds is left to guess.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import ClassVar, TypedDict

import duckdb

from keyhole.engines.duckdb.connections import types_of
from keyhole.errors import DataError
from keyhole.model.predicate import format_literal, quote_name
from keyhole.model.schema import fold_name

SEPARATORS = ("\t", ";", "|", ",")
QUOTES = (('"', '"'), ('"', "\\"), ("'", "'"))  # and what is put before a quote inside quotes
SAMPLE = 1 << 16  # characters
ROWS = 200
TRUTHS = ("true", "false", "t", "f", "yes", "no", "y", "n", "on", "off")  # what engines take for truth values
CURE = 'inside quotes a quote is written twice (""), and delimiter under [source] names what separates the fields'
TIMES = "timestampformat='%Y-%m-%d %H:%M:%S'"
DATES = "dateformat='%Y-%m-%d'"  # other forms stay text: whether 03/04 is in March or in April is not guessed


class CsvWords(TypedDict):
    """What Python's reader of text files is told."""

    delimiter: str
    quotechar: str
    doublequote: bool
    escapechar: str | None


@dataclass(frozen=True, slots=True)
class Separation:
    """What separates and quotes fields; `escape` is put before a quote inside quotes."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'

    @classmethod
    def of(cls, path: Path, delimiter: str | None = None, wide: int = 0) -> Separation:
        """That of a file in UTF-8: the one under which most of its first rows are as wide as the first one (or `wide`).

        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "t"
        >>> _ = file.write_text("name;pay\\nAnn, a;1,5\\n")
        >>> Separation.of(file).delimiter
        ';'
        """
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            sample = file.read(SAMPLE)
            whole = not file.read(1)
        best: tuple[float, ...] = (-1.0,)
        best_separation = cls(delimiter or ",")
        tried = (delimiter,) if delimiter else ("\t",) if path.suffix.lower() == ".tsv" else SEPARATORS
        for sign in tried:
            for made in (cls(sign, *quoted) for quoted in QUOTES):
                if made.escape == "\\" and '\\"' not in sample:
                    continue
                rows = list(made.rows(lines_of(sample)))
                rows = rows if whole or len(rows) < 2 else rows[:-1]
                if not rows or (len(rows[0]) == 1 and not delimiter):
                    continue
                even = sum(len(row) == (wide or len(rows[0])) for row in rows) / len(rows)
                fit = (even, -made._torn(sample), made.quote == '"', -made._foreign(sample), made.escape == '"')
                if fit > best:
                    best, best_separation = fit, made
        return best_separation

    def _torn(self, sample: str) -> int:
        """Quoted fields that are cut through; quotes inside of quotes open and close nothing."""
        escapes = ('"', "\\") if self.quote == "'" else (self.escape,)
        for escape in escapes:
            sample = sample.replace(f'{escape}"', "")
        return sum(field.count('"') % 2 for row in self.rows(lines_of(sample)) for field in row)

    def _foreign(self, sample: str) -> int:
        """Quotes in the middle of a field that are put there as another escape would have it."""
        within = f'[^{re.escape(self.delimiter)}"\\r\\n]'
        other = rf'\\"(?={within})' if self.escape == self.quote else rf'(?<={within})""(?={within})'
        return len(re.findall(other, sample))

    def rows(self, lines: list[str]) -> Iterator[list[str]]:
        """The first rows of these lines; empty ones are left out."""
        reader = csv.reader(lines, **self.words)
        try:
            yield from (row for row in islice(reader, ROWS) if row)
        except csv.Error:
            return

    @property
    def words(self) -> CsvWords:
        """The same in the words of Python's reader."""
        double = self.escape == self.quote
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quote,
            "doublequote": double,
            "escapechar": None if double else "\\",
        }

    @property
    def options(self) -> str:
        """The same in the engine's words."""
        said = {"delim": self.delimiter, "quote": self.quote, "escape": self.escape, "comment": ""}
        return ", ".join(f"{name}={format_literal(value)}" for name, value in said.items()) + ", skip=0"


def csv_reader(path: Path) -> str:
    """What the engine selects from, for a file in UTF-8 with a header; columns with one name are refused."""
    separation = Separation.of(path)
    check_header(path, separation)
    check_escapes(path, separation)
    times = f", {TIMES}" if _other_times(path, separation) else ""
    reader = f"read_csv({format_literal(str(path))}, header=true, sample_size=-1, {separation.options}, {DATES}{times})"
    return with_texts(reader, words_like_truths(path, separation))


def with_texts(reader: str, names: Iterable[str]) -> str:
    """A `read_csv` that reads these columns as they are written, besides those it reads so already.

    >>> with_texts(with_texts("read_csv('t.csv')", ["sex"]), ["sex", "zip"])
    "read_csv('t.csv', types={'sex': 'VARCHAR', 'zip': 'VARCHAR'})"
    """
    types = [each for name in names if (each := f"{format_literal(name)}: 'VARCHAR'") not in reader]
    if not types:
        return reader
    before = f"{reader[:-2]}, " if reader.endswith("})") else f"{reader[:-1]}, types={{"
    return f"{before}{', '.join(types)}}})"


def words_like_truths(path: Path, separation: Separation) -> list[str]:
    """The columns that the engine would take for truth values though not all are true or false: a sex F, a yes or no.

    Whoever asked about them wrote the words. Cost: the file is read once if its first rows have such a column.
    """
    rows = first_rows(path, separation)[1:]
    origin = f"read_csv({format_literal(str(path))}, header=true, all_varchar=true, {separation.options})"
    width = max(map(len, rows), default=0)
    maybe = [k for k in range(width) if all(len(row) <= k or row[k].lower() in ("", *TRUTHS) for row in rows)]
    if not maybe:
        return []
    try:
        with duckdb.connect(":memory:") as con:
            there = list(types_of(con, origin))
            names = [there[k] for k in maybe if k < len(there)]
            tests = [_only(name, TRUTHS) + " AND NOT " + _only(name, TRUTHS[:2]) for name in names]
            are_texts = con.execute(f"SELECT {', '.join(tests)} FROM {origin}").fetchall()[0]
    except duckdb.Error:
        return []  # what is wrong with the file is said where it is loaded
    return [name for name, text in zip(names, are_texts, strict=True) if text]


def _only(column: str, words: Sequence[str]) -> str:
    """Is every value one of these words?"""
    return f"bool_and(lower({quote_name(column)}) IN ({', '.join(map(format_literal, words))}))"


def _other_times(path: Path, separation: Separation) -> bool:
    """Are there times whose day is not written yyyy-mm-dd?"""
    pattern = re.compile(r"\s*\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}[ T]+\d")
    return any(pattern.match(cell) for row in first_rows(path, separation) for cell in row)


def check_header(path: Path, separation: Separation) -> None:
    """Refuse a header in which a name stands twice: one of them might be private and the other not."""
    seen: dict[str, int] = {}
    for at, raw in enumerate(header(path, separation), 1):
        name = raw.strip()
        if name and (before := seen.setdefault(fold_name(name), at)) != at:
            raise DataError.of_file(
                f"{path.name} has two columns named {name!r} (number {before} and {at}): rename one of them"
            )


def check_escapes(path: Path, separation: Separation) -> None:
    """Where a backslash is put before quotes, refuse any other use of it: what it says there differs from tool to tool.

    The engine drops a backslash inside quotes and keeps it outside of them. Cost: such files are read once more.
    """
    if separation.escape != "\\":
        return
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    sign = re.escape(separation.delimiter)
    quoted = re.compile(rf'((?:\A|(?<=[{sign}\r\n]))")((?:[^"\\]|\\["\\])*)(?=")')
    rest = quoted.sub(lambda found: found[1] + "\n" * found[2].count("\n"), text)
    if (at := rest.find("\\")) >= 0:
        raise DataError.of_file(
            f'{path.name}, line {rest.count(chr(10), 0, at) + 1}: a backslash that is no part of \\" inside quotes: '
            'whether it belongs to the value is not said; write quotes inside quotes twice ("") and save the file anew'
        )


def header(path: Path, separation: Separation) -> list[str]:
    """The fields of the first row."""
    return next(iter(first_rows(path, separation)), [])


def first_rows(path: Path, separation: Separation) -> list[list[str]]:
    """Some rows of a file, the header first."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return list(separation.rows(lines_of(file.read(SAMPLE))))


def lines_of(text: str) -> list[str]:
    """Lines as files have them: a form feed or a line separator of Unicode is a sign like any other.

    >>> lines_of("a\\u2028b\\r\\n1\\f2\\n")
    ['a\\u2028b\\r\\n', '1\\x0c2\\n']
    """
    return list(StringIO(text, newline=""))


def _find_uneven_row(path: Path, separation: Separation) -> str | None:
    """Which row has another number of fields than the first one, or another line end; None if none has."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        ends = _LineEnds(file)
        reader = csv.reader(ends, **separation.words)
        wide = None
        try:
            for row in reader:
                ends.row_read(reader.line_num)
                wide = wide if wide is not None else len(row) or None
                if row and len(row) != wide and not (len(row) == (wide or 0) + 1 and not row[-1]):
                    cure = f"{separation.delimiter!r} separates them; a value that holds it needs quotes around it"
                    return f"line {reader.line_num} has {len(row)} fields and the first line {wide} ({cure})"
        except csv.Error as error:
            return f"line {reader.line_num}: {error}"
    return ends.mixed


class _LineEnds:
    """Lines as they come; `mixed` says where a row ends otherwise than the first one, and what to do.

    >>> lines = _LineEnds(["a,b\\r\\n", "1,2\\n"])
    >>> [lines.row_read(number) for number, _ in enumerate(lines, 1)]
    [None, None]
    >>> lines.mixed
    'line 2 ends with LF and the first line with CRLF: save the file with one kind of line end'
    """

    _NAMES: ClassVar = {"\r\n": "CRLF", "\n": "LF", "\r": "CR"}

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._last = self._first = ""
        self.mixed: str | None = None

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._last = line
            yield line

    def row_read(self, number: int) -> None:
        """A row ends with the line that was read last: line ends inside quotes are not its own."""
        end = next((end for end in self._NAMES if self._last.endswith(end)), "")
        self._first = self._first or end
        if end not in ("", self._first) and self.mixed is None:
            one, other = self._NAMES[end], self._NAMES[self._first]
            self.mixed = (
                f"line {number} ends with {one} and the first line with {other}: "
                "save the file with one kind of line end"
            )


def unreadable(path: Path, separation: Separation, error: duckdb.Error) -> str:
    """Why the engine does not read a text file: which line, and what to do.

    The engine's own words name a copy that nobody knows, and quote lines that may hold somebody's value.
    """
    return _find_uneven_row(path, separation) or _find_bad_quotes(path, separation) or in_our_words(error)


def in_our_words(error: duckdb.Error) -> str:
    """What the engine says of a file, without paths."""
    message = str(error).splitlines()[0]
    if "sniffing" in message or "CSV Error" in message:
        return f"its quotes cannot be made out: {CURE}"
    return re.sub(r"[^\s\"']*/(?=[^\s\"'/])", "", message)


def _find_bad_quotes(path: Path, separation: Separation) -> str | None:
    """The line at which a quoted value does not end where its quote does."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file, strict=True, **separation.words)
        try:
            for _ in reader:
                pass
        except csv.Error:
            return f"line {reader.line_num}: the value does not end where its quotes do: {CURE}"
    return None


def no_header(names: Sequence[str], rows: Sequence[Sequence[str]] = ()) -> bool:
    """Does a first line look like data? Where a field is a number (and no year), nobody named columns.

    Unless a name that is no number stands over numbers in the `rows` below it.

    >>> no_header(["39", "State-gov"]), no_header(["age", "2020"]), no_header(["id", "1", "2"], [["7", "0", "5"]])
    (True, False, False)
    """
    plain = [name.strip() for name in names]
    for at, name in enumerate(plain):
        below = [row[at].strip() for row in rows if len(row) > at and row[at].strip()]
        if name and not _NUMBER.fullmatch(name) and below and all(map(_NUMBER.fullmatch, below)):
            return False
    return any(_NUMBER.fullmatch(name) and not re.fullmatch(r"(19|20)\d\d", name) for name in plain)


_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")
