"""Hidden cells that lines alone determine: the row space of the lines over hidden cells, without an audit.

What it says is what the audit says by rank; it serves to try many sets of hidden cells quickly.
"""

from __future__ import annotations

from collections.abc import Iterable

from keyhole.crosstab.cells import Key
from keyhole.crosstab.hidden import shown_sum
from keyhole.crosstab.lines import AdditivityLine
from keyhole.crosstab.publication import Publication
from keyhole.solve.rowspace import RowMatrix, RowSpace


def recovered(published: Publication, gone: frozenset[Key], targets: Iterable[Key]) -> dict[Key, frozenset[Key]]:
    """The targets that lines determine when the cells `gone` are hidden too, each with the shown cells that give it."""
    values = {key: v for key, v in published.values.items() if key not in gone}
    place: dict[Key, int] = {}
    rows: list[dict[int, int]] = []
    used: list[AdditivityLine] = []
    for line in published.lines:
        row = {place.setdefault(key, len(place)): 1 for key in line.parts if key not in values}
        if line.whole not in values:
            row[place.setdefault(line.whole, len(place))] = -1
        if row:
            rows.append(row)
            used.append(line)
    if not rows:
        return {}
    space = RowSpace(RowMatrix.from_sparse(rows, len(place)))
    fixed = set(space.determined().tolist())
    found = {}
    for key in targets:
        if key in place and place[key] in fixed:
            weights = space.weights(place[key])
            if weights is not None:
                found[key] = frozenset(shown_sum(((used[i], w) for i, w in weights.items()), values))
    return found
