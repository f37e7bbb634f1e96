"""Published cells: what a table file shows of each combination of categories, in long or wide form.

Long: one row a cell, its categories in columns, the number in the value column. Wide: categories of one dimension down
the side, those of another across the top. A column whose category is the total is no restriction, so a cell is known
by its other categories alone, whichever table shows it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from keyhole.crosstab.numbers import count_decimals, read_number
from keyhole.crosstab.sheet import Sheet
from keyhole.errors import ConfigError, DataError

Key = frozenset[tuple[str, str]]  # (column, category), totals left out
Ends = tuple[Decimal | None, Decimal | None]

GRAND = "the grand total"
MOST_CATEGORIES = 200  # of a column that is taken for a dimension without asking


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How table files are read: the value column, the words for a total, what marks a suppressed cell.

    `markers` gives for each marker what anybody knows of a cell that has it. `count` and `largest` name columns with
    the number of contributors and the largest of them, from the largest on; `by` the dimensions (default: all columns
    of text, those in which a word for a total stands, and those of `also`); `across` the dimension across the top of
    wide tables.
    """

    value: str
    total: tuple[str, ...] = ("Total",)
    markers: Mapping[str, Ends] = field(default_factory=dict)
    count: str | None = None
    largest: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    across: str | None = None
    also: frozenset[str] = frozenset()

    def whole(self, category: str) -> bool:
        """Does a category stand for all of them?"""
        return category.casefold() in {word.casefold() for word in self.total}


@dataclass(frozen=True, slots=True)
class PublishedCell:
    """One cell: a number, or a marker where it is suppressed; `place` says where it stands."""

    key: Key
    value: Decimal | None
    marker: str | None
    place: str
    count: Decimal | None = None
    largest: tuple[Decimal, ...] = ()
    digits: int = 0  # decimals that its table shows


def label(key: Key) -> str:
    """A cell in words.

    >>> label(frozenset({("size", "big"), ("county", "1")})), label(frozenset())
    ('county 1, size big', 'the grand total')
    """
    return ", ".join(f"{column} {category}" for column, category in sorted(key)) or GRAND


@dataclass(frozen=True, slots=True)
class CrossTable:
    """The cells of one file, and its dimensions."""

    name: str
    columns: tuple[str, ...]
    cells: tuple[PublishedCell, ...]

    @property
    def digits(self) -> int:
        """The decimals that it is printed with."""
        return count_decimals(cell.value for cell in self.cells if cell.value is not None)


def read_cells(sheet: Sheet, layout: TableLayout) -> CrossTable:
    """The cells of a file; every cell once.

    >>> from keyhole.crosstab.sheet import make_sheet
    >>> table = read_cells(make_sheet("t", [["town", "n"], ["A", "2"], ["Total", "5"]]), TableLayout("n"))
    >>> [(label(c.key), c.value) for c in table.cells]
    [('town A', Decimal('2')), ('the grand total', Decimal('5'))]
    """
    long = layout.value in sheet.header
    columns, cells = (_read_long if long else _read_wide)(sheet, layout)
    found: dict[Key, PublishedCell] = {}
    for cell in cells:
        if cell.key in found:
            raise DataError(
                f"{cell.place}: {label(cell.key)} stands there twice (first {found[cell.key].place}). Is another "
                "column a dimension too? --along names all of them"
            )
        found[cell.key] = cell
    return CrossTable(sheet.name, tuple(columns), tuple(found.values()))


def _read_long(sheet: Sheet, layout: TableLayout) -> tuple[Sequence[str], Iterator[PublishedCell]]:
    dims = _find_dimensions(sheet, layout)
    at = {name: k for k, name in enumerate(sheet.header)}

    def cells() -> Iterator[PublishedCell]:
        for line, row in sheet.rows:
            place = f"{sheet.name}, line {line}"
            key = _read_key(layout, ((name, row[at[name]]) for name in dims), place)
            value, marker = _read_shown(row[at[layout.value]], sheet, layout, place)
            count, *sizes = (
                None if m is None or m not in at else _read_measure(row[at[m]], sheet, place)
                for m in (layout.count, *layout.largest)
            )
            yield PublishedCell(key, value, marker, place, count, tuple(size for size in sizes if size is not None))

    return dims, cells()


def _find_dimensions(sheet: Sheet, layout: TableLayout) -> list[str]:
    """The columns that say which cell it is."""
    missing = [name for name in layout.by if name not in sheet.header]
    if len(missing) == len(layout.by) and layout.by:
        raise ConfigError(f"{sheet.name} has no column {missing[0]!r}; it has {', '.join(sheet.header)}")
    if layout.by:
        return [name for name in layout.by if name in sheet.header]
    measured = {layout.value, layout.count, *layout.largest}
    found = []
    for k, name in enumerate(sheet.header):
        texts = [row[k] for _, row in sheet.rows]
        words = (t for t in texts if t and t not in layout.markers)
        told = name in layout.also or any(read_number(t, sheet.delimiter) is None for t in words)
        if name in measured or not told:
            continue
        found.append(name)
        if name not in layout.also and (many := len(set(texts))) > MOST_CATEGORIES:
            others = " ".join(f"--along {other}" for other in sheet.header if other not in (name, *measured))
            raise ConfigError(
                f"{sheet.name}: {name} has {many} different texts. Is it a dimension? If so, say --along {name} beside "
                f"the other dimensions; if not, name those alone ({others})"
            )
    if not found:
        raise ConfigError(f"{sheet.name}: no column looks like a dimension; name them with --along COL")
    return found


def _read_wide(sheet: Sheet, layout: TableLayout) -> tuple[Sequence[str], Iterator[PublishedCell]]:
    corner, _, beside = (part.strip() for part in sheet.header[0].partition("\\"))
    across = beside or layout.across
    if across is None:
        raise ConfigError(
            f"{sheet.name} has no column {layout.value!r}. Long form: --value names one of {', '.join(sheet.header)}. "
            "Wide form: --across names the dimension whose categories stand in the header"
        )
    side = 1 + next((k for k, name in enumerate(sheet.header[1:]) if not _holds_categories(sheet, layout, k + 1)), 0)
    dims = [corner or "row", *sheet.header[1:side]]

    def cells() -> Iterator[PublishedCell]:
        for line, row in sheet.rows:
            for k, category in enumerate(sheet.header[side:], side):
                place = f"{sheet.name}, line {line}, column {category}"
                pairs = [*zip(dims, row, strict=False), (across, category)]
                value, marker = _read_shown(row[k], sheet, layout, place)
                yield PublishedCell(_read_key(layout, pairs, place), value, marker, place)

    return [*dims, across], cells()


def name_wide_value(sheets: Sequence[Sheet]) -> str | None:
    """A name for the numbers of tables that are all wide, as a header `town \\ size` shows; no column has it.

    >>> from keyhole.crosstab.sheet import make_sheet
    >>> name_wide_value([make_sheet("t", [["town \\\\ size", "number"], ["A", "2"]])])
    'number_'
    """
    if not sheets or not all("\\" in each.header[0] for each in sheets):
        return None
    name, taken = "number", {column for each in sheets for column in each.header}
    while name in taken:
        name += "_"
    return name


def _holds_categories(sheet: Sheet, layout: TableLayout, k: int) -> bool:
    """Does a column of a wide table hold categories, not numbers?"""
    texts = [row[k] for _, row in sheet.rows if row[k] and row[k] not in layout.markers]
    return bool(texts) and all(read_number(t, sheet.delimiter) is None for t in texts)


def _read_key(layout: TableLayout, pairs: Iterator[tuple[str, str]] | Sequence[tuple[str, str]], place: str) -> Key:
    found = []
    for column, category in pairs:
        if not category:
            raise DataError(f"{place}: {column} is empty; write the category, or the word for all of them (--total)")
        if not layout.whole(category):
            found.append((column, category))
    return frozenset(found)


def _read_shown(text: str, sheet: Sheet, layout: TableLayout, place: str) -> tuple[Decimal | None, str | None]:
    """The number that a cell shows, or its marker."""
    if text in layout.markers:
        return None, text
    number = read_number(text, sheet.delimiter)
    if number is None:
        what = f"{text!r} is no number" if text else "the value is empty"
        known = f"; declared: {', '.join(map(repr, layout.markers))}" if layout.markers else ""
        raise DataError(
            f"{place}: {what}, and nobody said what it stands for{known}. If the cell is suppressed, say --suppressed "
            f"{text!r}, or with what everybody knows of such cells --suppressed '{text}=1..3'"
        )
    return number, None


def _read_measure(text: str, sheet: Sheet, place: str) -> Decimal | None:
    if not text:
        return None
    found = read_number(text, sheet.delimiter)
    if found is None:
        raise DataError(f"{place}: {text!r} is no number of contributors, nor the largest of them")
    return found


NONE = "none"
WORDS = {
    *("total", "totals", "all", "any", "sum", "overall", "together", "whole", "ensemble", "gesamt", "insgesamt"),
    *("zusammen", "alle", "totaal", "totale", "_t"),
}


def check_totals(tables: Iterable[CrossTable], layout: TableLayout) -> None:
    """Refuse tables with a category that looks like a total and was not declared as one.

    By its word, or because it is the sum of the others in two places or more and nothing speaks against it. Tables
    without any margin must be declared as such (`--total none`).
    """
    tables = list(tables)
    _check_spelling(tables)
    if layout.total == (NONE,):
        return
    shapes = [(table, {len(cell.key) for cell in table.cells}) for table in tables]
    margins = any(min(sizes) < len(table.columns) for table, sizes in shapes)
    for table in tables:
        for column, category in _find_suspects(table):
            raise ConfigError(
                f"{table.name}: {column} {category!r} looks like the total of {column}. If it is, say --total "
                f"{category!r} beside the other words; if the tables have no margins, --total none"
            )
    if not margins:
        words = ", ".join(map(repr, layout.total))
        raise ConfigError(
            f"no table has the category {words}: which one stands for all of them? (--total none: no one)"
        )


def _check_spelling(tables: Iterable[CrossTable]) -> None:
    """Columns link tables by their names: two spellings of one name would leave a link unseen."""
    seen: dict[str, tuple[str, str]] = {}
    for table in tables:
        for column in table.columns:
            name, before = seen.setdefault(column.casefold(), (table.name, column))
            if before != column:
                raise ConfigError(
                    f"{table.name} has a column {column!r}, {name} a column {before!r}: if they are one dimension, "
                    "spell them alike, since tables are linked by it; if not, give one another name"
                )


def _find_suspects(table: CrossTable) -> Iterator[tuple[str, str]]:
    for column in table.columns:
        groups: dict[Key, dict[str, Decimal | None]] = defaultdict(dict)
        margins: dict[Key, Decimal] = {}
        for cell in table.cells:
            held = dict(cell.key)
            if column in held:
                groups[cell.key - {(column, held[column])}][held[column]] = cell.value
            elif cell.value is not None:
                margins[cell.key] = cell.value
        categories = dict.fromkeys(category for group in groups.values() for category in group)
        yield from ((column, c) for c in categories if c.casefold() in WORDS or _is_sum(c, groups, margins))


def _is_sum(category: str, groups: Mapping[Key, Mapping[str, Decimal | None]], margins: Mapping[Key, Decimal]) -> bool:
    """Is it the sum of two or more others wherever that can be told, and that in two places with different numbers?

    Not if it is added up itself, with the others, in a margin that is shown.
    """
    told = set()
    for key, group in groups.items():
        others = [v for c, v in group.items() if c != category]
        value = group.get(category)
        if value is None or None in others:
            continue
        if len(others) < 2 or abs(value - sum(v for v in others if v is not None)) > value * Decimal("1e-9"):
            return False
        if value and margins.get(key) == value + sum(v for v in others if v is not None):
            return False
        told.add(value)
    return len(told) > 1
