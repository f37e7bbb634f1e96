"""Tables of counts as statistics about rows: the categories are the domain, every cell is the count of a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from keyhole.attacks.microdata.statistics import Attribute, Ends, Figure, GroupFigures, Statistics
from keyhole.crosstab.cells import Ends as MarkerEnds
from keyhole.crosstab.cells import Key, label
from keyhole.crosstab.nesting import Nesting
from keyhole.crosstab.publication import Publication
from keyhole.errors import ConfigError
from keyhole.model.predicate import literal, quote_name


def of_tables(published: Publication, nested: Nesting, markers: Mapping[str, MarkerEnds]) -> Statistics:
    """What tables of counts say about the rows that were counted."""
    categories: dict[str, dict[str, None]] = {}
    for key in published.cells:
        for column, category in sorted(key):
            categories.setdefault(column, {})[category] = None
    leaves = {column: _leaves(column, names, nested) for column, names in categories.items()}
    if not leaves:
        raise ConfigError("the tables have no categories, so there is nothing to reconstruct")
    columns = tuple(Attribute(column, tuple(names)) for column, names in leaves.items())
    found = [_statistic(key, ends, nested, leaves) for key, ends in _cells(published, markers)]
    if not any(not s.where for s in found):
        found.append(GroupFigures("", (Figure("count", "", (Fraction(0), _most(published, markers))),), "all rows"))
    return Statistics(columns, tuple(found), tuple(_impossible(nested, leaves)))


def _cells(published: Publication, markers: Mapping[str, MarkerEnds]) -> Iterator[tuple[Key, Ends]]:
    for key, cell in published.cells.items():
        if key in published.values:
            yield key, published.ends(key)
        else:
            ends = markers.get(cell.marker or "", (None, None))
            lo, hi = (None if end is None else Fraction(end) for end in ends)
            if lo is not None or hi is not None or not key:
                yield key, (lo, hi if key else hi or _most(published, markers))


def _most(published: Publication, markers: Mapping[str, MarkerEnds]) -> Fraction:
    """How many rows there are at most: the smallest sum over the categories of a column."""
    sums: dict[str, Fraction | None] = {}
    for key, cell in published.cells.items():
        if len(key) == 1:
            ((column, _),) = key
            before = sums.get(column, Fraction(0))
            known = markers.get(cell.marker or "", (None, None))[1]
            shown = published.ends(key)[1] if key in published.values else None
            top = shown if shown is not None else None if known is None else Fraction(known)
            sums[column] = None if top is None or before is None else before + top
    ends = [each for each in sums.values() if each is not None]
    if not ends:
        raise ConfigError("nothing says how many rows there are: no table shows the grand total, nor all of a margin")
    return min(ends)


def _leaves(column: str, names: Mapping[str, None], nested: Nesting) -> list[str]:
    """The finest categories of a column."""
    above = nested.parents.get(column, {})
    inner = {above[c] for c in names if c in above}
    return [c for c in names if c not in inner]


def _statistic(key: Key, ends: Ends, nested: Nesting, leaves: Mapping[str, list[str]]) -> GroupFigures:
    parts = []
    for column, category in sorted(key):
        inside = [leaf for leaf in leaves[column] if category in _chain(leaf, nested.parents.get(column, {}))]
        parts.append(f"{quote_name(column)} IN ({', '.join(map(literal, inside))})" if inside else "FALSE")
    return GroupFigures(" AND ".join(parts), (Figure("count", "", ends),), label(key))


def _chain(category: str, above: Mapping[str, str]) -> Iterator[str]:
    yield category
    while category in above:
        category = above[category]
        yield category


def _impossible(nested: Nesting, leaves: Mapping[str, list[str]]) -> Iterator[str]:
    """A town lies in its own county only."""
    for child, over in nested.inside.items():
        for parent, of in over.items():
            if child in leaves and parent in leaves:
                for category, inside in of.items():
                    yield f"{quote_name(child)} = {literal(category)} AND {quote_name(parent)} <> {literal(inside)}"
