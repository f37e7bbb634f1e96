"""The lines that must add up: a cell is the sum of the cells that one more column splits it into.

Margins, hierarchies and links between tables are one rule. A margin that no table shows, but that two lines of
different tables share, ties them together and is a cell too (`Unpublished`). A category that no table shows for a
margin that is shown counts as 0; but a category that no table splits so at all (sizes are shown for one town of
several) is a cell of which nothing is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from keyhole.crosstab.cells import Key
from keyhole.crosstab.nesting import Nesting

Splits = set[tuple[frozenset[str], str, str]]  # columns, and one of them with a category that they split

MOST_COLUMNS = 12  # of a cell: its margins are two to the power of them


@dataclass(frozen=True, slots=True)
class AdditivityLine:
    """`whole` = sum of `parts`, which `column` tells apart; so many categories are shown nowhere and count as 0."""

    whole: Key
    parts: tuple[Key, ...]
    column: str
    absent: int = 0

    @property
    def cells(self) -> tuple[Key, ...]:
        """All of them."""
        return (self.whole, *self.parts)


def find_lines(published: Iterable[Key], nested: Nesting) -> list[AdditivityLine]:
    """All lines over published cells, and over margins that tie two of them together.

    >>> from keyhole.crosstab.nesting import Nesting
    >>> a, b = frozenset({("town", "A")}), frozenset({("town", "B")})
    >>> [(len(line.parts), line.column) for line in find_lines([a, b, frozenset()], Nesting())]
    [(2, 'town')]
    """
    shown = dict.fromkeys(published)
    among = {**shown, **dict.fromkeys(m for key in shown for m in _list_margins(key) if m not in shown)}
    split = _find_splits(shown, nested)
    while True:
        categories = _list_categories(among, nested)
        found = [line for key in among for line in _find_lines_of(key, among, categories, nested, split)]
        unsplit = dict.fromkeys(part for line in found for part in line.parts if part not in among)
        if not unsplit:
            return _drop_loose_margins(found, shown)
        among |= unsplit


def _find_splits(shown: Iterable[Key], nested: Nesting) -> Splits:
    """Which categories, with those above them, are told apart by which columns in some table."""
    found = set()
    for key in shown:
        columns = frozenset(column for column, _ in key)
        for column, category in key:
            found.add((columns, column, category))
            above = nested.parents.get(column, {})
            while category in above:
                category = above[category]
                found.add((columns, column, category))
    return found


def _list_margins(key: Key) -> Iterator[Key]:
    if len(key) <= MOST_COLUMNS:
        for size in range(len(key)):
            yield from map(frozenset, combinations(sorted(key), size))


def _list_categories(cells: Iterable[Key], nested: Nesting) -> dict[str, dict[str, None]]:
    """The categories of each column, with the codes above them."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for key in cells:
        for column, category in sorted(key):
            found[column][category] = None
    for column, above in nested.parents.items():
        for code in list(found[column]):
            while code in above:
                code = above[code]
                found[column][code] = None
    return found


def _find_lines_of(
    key: Key,
    cells: Mapping[Key, None],
    categories: Mapping[str, Mapping[str, None]],
    nested: Nesting,
    split: Splits,
) -> Iterator[AdditivityLine]:
    """The lines whose whole is a cell."""
    held = dict(key)
    for column, names in categories.items():
        above = nested.parents.get(column, {})
        if column in held and not above:
            continue
        if not nested.comparable(key, column) or _leaves_categories_out(held, column, categories, nested):
            continue
        rest = key - {(column, held[column])} if column in held else key
        below = [c for c in names if above.get(c) == held.get(column) and nested.allows(key, column, c)]
        parts, absent = _find_parts(rest, column, below, cells, names, nested, split)
        if any(part in cells for part in parts):
            yield AdditivityLine(key, tuple(parts), column, absent)


def _leaves_categories_out(
    held: Mapping[str, str], column: str, categories: Mapping[str, Mapping[str, None]], nested: Nesting
) -> bool:
    """Does a column leave out some category above it: a county of which no town is listed?"""
    above = nested.inside.get(column, {})
    return any(set(categories.get(p, ())) - set(of.values()) for p, of in above.items() if p not in held)


def _find_parts(
    rest: Key,
    column: str,
    below: Sequence[str],
    cells: Mapping[Key, None],
    names: Mapping[str, None],
    nested: Nesting,
    split: Splits,
) -> tuple[list[Key], int]:
    """The cells below; a code without a cell is replaced by those below it, if there are any."""
    above = nested.parents.get(column, {})
    found, absent = [], 0
    for category in below:
        key = nested.reduced(rest | {(column, category)})
        if key in cells:
            found.append(key)
            continue
        finer = [c for c in names if above.get(c) == category]
        deeper, missing = _find_parts(rest, column, finer, cells, names, nested, split)
        if any(part in cells for part in deeper):
            found += deeper
            absent += missing
        elif (frozenset(c for c, _ in key), column, category) in split:
            absent += 1
        else:
            found.append(key)
    return found, absent


def _drop_loose_margins(found: list[AdditivityLine], shown: Mapping[Key, None]) -> list[AdditivityLine]:
    """Without margins that no table shows and that tie nothing together."""
    while True:
        used: dict[Key, int] = defaultdict(int)
        for line in found:
            for key in line.cells:
                used[key] += 1
        loose = {key for key, times in used.items() if key not in shown and times < 2}
        kept = [line for line in found if not loose.intersection(line.cells)]
        if len(kept) == len(found):
            return found
        found = kept


def is_acyclic(tables: Iterable[frozenset[str]]) -> bool:
    """Do tables of these dimensions come from one table of people whenever their shared margins agree?

    So it is for acyclic hypergraphs: two tables, a star, a chain; not for three two-way tables of three dimensions
    [beeri1983]. By the reduction of Graham, Yu and Ozsoyoglu.

    >>> is_acyclic([frozenset("ab"), frozenset("bc")]), is_acyclic([frozenset("ab"), frozenset("bc"), frozenset("ac")])
    (True, False)
    """
    edges = [set(edge) for edge in tables]
    while True:
        before = sum(map(len, edges)) + len(edges)
        for edge in edges:
            edge -= {v for v in edge if sum(v in other for other in edges) == 1}
        within = [any(e < o or (e == o and j < k) for j, o in enumerate(edges)) for k, e in enumerate(edges)]
        edges = [e for e, inner in zip(edges, within, strict=True) if e and not inner]
        if not edges or sum(map(len, edges)) + len(edges) == before:
            return not edges
