"""Second tables where MIN and MAX were asked too: does a table of totals have somebody with every answer?

Ranges are searched over tables of totals in which nobody is above the greatest value of his group nor below the least.
That is not all that a MAX says: somebody has it. A table counts as one with the same answers only if each answer has a
witness: an atom whose records all have it, one of several records of an atom that is put there (the others share the
rest), or somebody outside the part that is looked at, who keeps his true value. Everything is compared in fractions;
quantiles, rounded answers and private conditions are not checked, and then no table counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from keyhole.auditing.bounded import BoundedSystem
from keyhole.auditing.known import Known
from keyhole.auditing.rules.order import unused
from keyhole.gather.evidence import OrderFact
from keyhole.model.meaning import ranks
from keyhole.model.query import ORDERED
from keyhole.solve.interval.polytope import End, room
from keyhole.solve.interval.ranges import on_ends

Rooms = Mapping[int, tuple[End, End]]


@dataclass(frozen=True, slots=True)
class Witnessed:
    """An answer that somebody must have: among these columns, at their upper end (`top`) or the lower.

    `elsewhere` are the columns in which somebody has it in the true table.
    """

    value: Fraction
    top: bool
    columns: frozenset[int]
    elsewhere: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Attained:
    """The tables of totals that give every MIN and MAX its answer.

    >>> both = Attained([Witnessed(Fraction(9), True, frozenset({0}))], [(Fraction(0), Fraction(9))], [2])
    >>> both({0: Fraction(12)})
    {0: (Fraction(3, 1), Fraction(9, 1))}
    >>> both({0: Fraction(8)}) is None
    True
    """

    needs: Sequence[Witnessed]
    records: Sequence[tuple[End, End]]
    sizes: Sequence[int]

    def __call__(self, table: Mapping[int, Fraction]) -> Rooms | None:
        """Between what a record lies in such tables, for columns in which a witness is put; None if there is none.

        `table` has the totals of one part; the rest is as in the true table.
        """
        pinned: dict[int, dict[bool, Fraction]] = {}
        for need in self.needs:
            here = sorted(need.columns & table.keys())
            if any(table[k] == self.sizes[k] * need.value for k in here) or need.elsewhere - table.keys():
                continue
            if any(pinned.get(k, {}).get(need.top) == need.value for k in here):
                continue
            chosen = next(
                (k for k in here if self._fits(k, table[k], pinned.get(k, {}) | {need.top: need.value})), None
            )
            if chosen is None:
                return None
            pinned.setdefault(chosen, {})[need.top] = need.value
        return {k: self._room(k, table[k], pins) for k, pins in pinned.items()}

    def _fits(self, k: int, total: Fraction, pins: Mapping[bool, Fraction]) -> bool:
        """Can records of a column have these values, and the others share the rest?"""
        low, high = self.records[k]
        if any(value != (high if top else low) for top, value in pins.items()):
            return False
        others, rest = self.sizes[k] - len(pins), total - sum(pins.values())
        if others <= 0:
            return others == 0 and rest == 0
        return (low is None or rest >= others * low) and (high is None or rest <= others * high)

    def _room(self, k: int, total: Fraction, pins: Mapping[bool, Fraction]) -> tuple[End, End]:
        """Anybody of the column can be the one who is put there, or one of the others."""
        low, high = min(pins.values()), max(pins.values())
        if self.sizes[k] == len(pins):
            return low, high
        least, most = room(self.records[k], self.sizes[k] - len(pins), total - sum(pins.values()))
        return None if least is None else min(low, least), None if most is None else max(high, most)


def attained(made: BoundedSystem, known: Known) -> Attained | None:
    """What the order statistics of a system ask of a table; None if that cannot be checked."""
    found: list[Witnessed] = []
    place = {(made.column(j), made.atom(j)): j for j in range(len(made.unknowns))}
    for fact in made.system.order:
        if fact.query.aggregate not in ORDERED or unused(fact) or fact.where is None:
            return None
        needs = _needs(fact, fact.query.terms[0].column or "", made, known, place)
        if needs is None:
            return None
        found += needs
    P, grids = made.question.polytope, made.question.grids
    return Attained(found, [on_ends(grid, ends) for grid, ends in zip(grids, P.records, strict=True)], P.sizes)


def _needs(
    fact: OrderFact, column: str, made: BoundedSystem, known: Known, place: Mapping[tuple[str, int], int]
) -> list[Witnessed] | None:
    """What one answer asks; None if it is no MIN nor MAX, or not all it says is among the bounds."""
    atoms, records = made.system.atoms, made.question.polytope.records
    assert fact.where is not None
    inside = np.flatnonzero(atoms.mask(fact.where)).tolist()
    n = int(atoms.sizes[inside].sum())
    if n == 0:
        return []
    j, k, _ = ranks(fact.query, n)
    if not fact.exact or fact.lo is None or fact.lo != fact.hi or j != k or k not in (1, n):
        return None
    columns = [place.get((column, atom)) for atom in inside]
    if None in columns:
        return None
    held = [c for c in columns if c is not None]
    tops = [top for top, rank in ((True, n), (False, 1)) if k == rank]
    for top in tops:
        ends = [records[c][1 if top else 0] for c in held]
        if any(end is None or (end > fact.lo if top else end < fact.lo) for end in ends):
            return None
    true = frozenset(place[column, atom] for atom in known.holders(made.system, column, fact.lo) if atom in set(inside))
    return [Witnessed(fact.lo, top, frozenset(held), true) for top in tops]
