"""Margins that nobody declared: a total that is read as one more category would make a leak look safe."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from keyhole.crosstab.cells import CrossTable, Key, TableLayout
from keyhole.errors import ConfigError

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
    _one_spelling(tables)
    if layout.total == (NONE,):
        return
    shapes = [(table, {len(cell.key) for cell in table.cells}) for table in tables]
    margins = any(min(sizes) < len(table.columns) for table, sizes in shapes)
    for table in tables:
        for column, category in _suspects(table):
            raise ConfigError(
                f"{table.name}: {column} {category!r} looks like the total of {column}. If it is, say --total "
                f"{category!r} beside the other words; if the tables have no margins, --total none"
            )
    if not margins:
        words = ", ".join(map(repr, layout.total))
        raise ConfigError(
            f"no table has the category {words}: which one stands for all of them? (--total none: no one)"
        )


def _one_spelling(tables: Iterable[CrossTable]) -> None:
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


def _suspects(table: CrossTable) -> Iterator[tuple[str, str]]:
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
        yield from ((column, c) for c in categories if c.casefold() in WORDS or _sum(c, groups, margins))


def _sum(category: str, groups: Mapping[Key, Mapping[str, Decimal | None]], margins: Mapping[Key, Decimal]) -> bool:
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
