"""The report of a reconstruction: the rows behind published statistics, and whether they are the only ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyhole.report.html.markup import Markup, table, tag
from keyhole.report.html.page import Section, Tile, page

LISTED = 5000
UNIQUE = {True: "yes", False: "no", None: "not known"}


def reconstruct_page(found: Mapping[str, Any]) -> str:
    """One page of what `keyhole reconstruct --format json` says."""
    rows, common = found["rows"], found["common"]
    mood = "bad" if found["unique"] or common else "warn"
    tiles = [
        Tile(f"{len(rows):,}", "row rebuilt" if len(rows) == 1 else "rows rebuilt", "bad" if found["unique"] else ""),
        Tile(UNIQUE[found["unique"]], "are they the only ones?", "bad" if found["unique"] else ""),
        Tile("not known" if common is None else f"{len(common):,}", "rows that all solutions share"),
    ]
    under = [f"{found['cells']:,} numbers, one per cell, were searched. {str(found['status']).capitalize()}."]
    return page("reconstruction", found["sentence"], mood, under, tiles, _sections(found))


def _sections(found: Mapping[str, Any]) -> Iterator[Section]:
    if not found["unique"]:
        yield Section("In every set of rows with these statistics", tuple(_rows(found["common"] or ())))
    yield Section("The rows" if found["unique"] else "One set of rows", tuple(_rows(found["rows"])))
    if found["status"] == "proved":
        said = "Proved by exhaustive search in whole numbers; the rows were checked against every figure."
        yield Section("What is proved", (tag("p", said),))


def _rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
    """Equal rows once, with how often."""
    if rows:
        counted = Counter(tuple(row.items()) for row in rows)
        names = [name for name, _ in next(iter(counted))]
        listed = [(*(value for _, value in items), times) for items, times in list(counted.items())[:LISTED]]
        yield table((*names, "rows"), listed, numbers=(len(names),))
        if len(counted) > LISTED:
            yield tag("p", f"{len(counted) - LISTED:,} more stand in the JSON.")
