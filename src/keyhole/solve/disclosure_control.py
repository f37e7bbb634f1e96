"""What disclosure control asks of HiGHS: covers, the ends that equations prove of unknowns, and controlled rounding.

A cover: min sum of x_u over u with sum of w_u x_u at least 1 for every proof, x in {0, 1}; with all weights 1 it is a
smallest hitting set. NP-hard in general; the proofs of an exposure use few units, so HiGHS takes milliseconds. Whatever
HiGHS gives is checked in fractions. References: [karp1972]; for tables the weights are the capacity constraints of
[fischetti2001]; rounding is the zero-restricted controlled rounding of [cox1987].
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, Generic, TypeVar

import numpy as np

Unit = TypeVar("Unit", bound=Hashable)
SLACK = 1e-6  # of a bound that HiGHS computes in floats
TINY = 1e-7  # a dual value of HiGHS below it is 0
DENOMINATOR = 1000  # of exact dual values


@dataclass(frozen=True, slots=True)
class Circuit(Generic[Unit]):
    """A proof by the units it uses. It holds unless those that are taken away weigh 1 or more together."""

    weights: frozenset[tuple[Unit, Fraction]]

    @classmethod
    def of(cls, units: Iterable[Unit]) -> Circuit[Unit]:
        """A proof that any of these units breaks."""
        return cls(frozenset((unit, Fraction(1)) for unit in units))

    @property
    def units(self) -> frozenset[Unit]:
        """Those it uses."""
        return frozenset(unit for unit, _ in self.weights)

    @property
    def breakable(self) -> bool:
        """Does it fail if all its units are taken away?"""
        return sum(weight for _, weight in self.weights) >= 1

    def broken(self, gone: frozenset[Unit] | set[Unit]) -> bool:
        """Does it fail without these units?"""
        return sum(weight for unit, weight in self.weights if unit in gone) >= 1


@dataclass(frozen=True, slots=True)
class SmallestCover(Generic[Unit]):
    """Units that break all proofs, a number that no such set goes below (in units of the least cost), and that of the
    linear relaxation alone.
    """

    chosen: frozenset[Unit]
    bound: int
    relaxed: float


def find_smallest_cover(
    circuits: Iterable[Circuit[Unit]], costs: Mapping[Unit, int], seconds: float
) -> SmallestCover[Unit]:
    """Units of least cost that break every proof; when the time is up, the best found and the bound.

    >>> proofs = [Circuit.of("ab"), Circuit.of("bc")]
    >>> found = find_smallest_cover(proofs, {}, 5)
    >>> sorted(found.chosen), found.bound
    (['b'], 1)
    """
    least = _drop_implied(circuits)
    if not least:
        return SmallestCover(frozenset(), 0, 0.0)
    if not all(each.breakable for each in least):
        raise ValueError("a proof that nothing breaks cannot be broken")
    units = sorted({u for each in least for u in each.units}, key=str)
    found, relaxed = (_solve_cover(least, units, costs, seconds, whole) for whole in (1, 0))
    chosen = frozenset(u for u, x in zip(units, found.x, strict=True) if x > 0.5) if found.x is not None else None
    below = float(relaxed.fun or 0)
    bound = max(1, ceil(float(found.mip_dual_bound or 0) - SLACK))
    if chosen is None or not all(each.broken(chosen) for each in least):
        chosen = _cover_by_greed(least)
    return SmallestCover(chosen, bound, below)


def _drop_implied(circuits: Iterable[Circuit[Unit]]) -> list[Circuit[Unit]]:
    """Without those of weight 1 everywhere that contain another one of that kind."""
    found: list[Circuit[Unit]] = []
    plain: list[frozenset[Unit]] = []
    for each in sorted(set(circuits), key=lambda c: len(c.weights)):
        if any(weight < 1 for _, weight in each.weights):
            found.append(each)
        elif not any(other <= each.units for other in plain):
            found.append(each)
            plain.append(each.units)
    return found


def _solve_cover(
    circuits: list[Circuit[Unit]], units: list[Unit], costs: Mapping[Unit, int], seconds: float, whole: int
) -> Any:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    at = {u: k for k, u in enumerate(units)}
    cells = [(k, at[u], float(w)) for k, each in enumerate(circuits) for u, w in sorted(each.weights, key=str)]
    rows, columns, weights = (np.array(part) for part in zip(*cells, strict=True))
    matrix = csr_array((weights, (rows, columns)), shape=(len(circuits), len(units)))
    return milp(
        np.array([float(costs.get(u, 1)) for u in units]),
        constraints=LinearConstraint(matrix, lb=1),
        integrality=np.full(len(units), whole, dtype=np.int64),
        bounds=Bounds(0, 1),
        options={"time_limit": max(seconds, 0.1), "mip_rel_gap": 0},
    )


def _cover_by_greed(circuits: list[Circuit[Unit]]) -> frozenset[Unit]:
    """Units that break all proofs, by taking what weighs most in those that hold."""
    chosen: set[Unit] = set()
    while left := [each for each in circuits if not each.broken(chosen)]:
        weight: dict[Unit, Fraction] = {}
        for unit, w in (pair for each in left for pair in each.weights):
            if unit not in chosen:
                weight[unit] = weight.get(unit, Fraction(0)) + w
        chosen.add(max(sorted(weight, key=str), key=lambda u: weight[u]))
    return frozenset(chosen)


@dataclass(frozen=True, slots=True)
class ProvedEnd:
    """An end of an unknown, and the equations that prove it with their weights."""

    end: Fraction
    weights: Mapping[int, Fraction]


class EquationEnds:
    """The least and the largest value of unknowns under equations, none of them below `floor` (None: reals).

    HiGHS proposes weights of equations; what they prove is computed in fractions, so that no end is claimed too sharp.
    """

    def __init__(
        self, rows: Sequence[Mapping[int, int]], right: Sequence[Fraction], unknowns: int, floor: Fraction | None
    ) -> None:
        from scipy.sparse import csr_array

        self.rows, self.right, self.unknowns, self.floor = rows, right, unknowns, floor
        cells = [(k, column, w) for k, row in enumerate(rows) for column, w in row.items()]
        at, columns, weights = (np.array(part) for part in zip(*cells, strict=True))
        self.matrix: Any = csr_array((weights.astype(np.float64), (at, columns)), shape=(len(rows), unknowns))

    def prove(self, column: int, side: int) -> ProvedEnd | None:
        """The upper end (`side` 1) or the lower one (-1); None if there is none, or none was proved.

        >>> ends = EquationEnds([{0: 1, 1: 1}], [Fraction(9)], 2, Fraction(0))
        >>> ends.prove(0, 1).end, ends.prove(0, -1).end
        (Fraction(9, 1), Fraction(0, 1))
        """
        from scipy.optimize import linprog

        aim = np.zeros(self.unknowns)
        aim[column] = -side
        least = None if self.floor is None else float(self.floor)
        right = np.array([float(value) for value in self.right])
        found = linprog(aim, A_eq=self.matrix, b_eq=right, bounds=(least, None), method="highs")
        if found.status != 0:
            return None
        duals = {k: -side * float(v) for k, v in enumerate(found.eqlin.marginals) if abs(v) > TINY}
        return self._certify(column, side, {k: Fraction(v).limit_denominator(DENOMINATOR) for k, v in duals.items()})

    def _certify(self, column: int, side: int, weights: Mapping[int, Fraction]) -> ProvedEnd | None:
        """What the weights prove exactly: the other unknowns must all stand on the side of their floor."""
        combined: dict[int, Fraction] = {}
        for k, weight in weights.items():
            for at, w in self.rows[k].items():
                combined[at] = combined.get(at, Fraction(0)) + weight * w
        scale = combined.pop(column, Fraction(0))
        others = {at: w for at, w in combined.items() if w}
        floor = self.floor if self.floor is not None else Fraction(0)
        if not weights:
            return ProvedEnd(floor, {}) if side < 0 and self.floor is not None else None
        if scale <= 0 or any(self.floor is None or w * side < 0 for w in others.values()):
            return None
        total = sum((weight * self.right[k] for k, weight in weights.items()), Fraction(0))
        end = (total - sum((w * floor for w in others.values()), Fraction(0))) / scale
        return ProvedEnd(end, {k: weight / scale for k, weight in weights.items()})


def round_adjacent(
    values: Sequence[Fraction | None], rows: Sequence[Mapping[int, int]], step: Fraction, seconds: float
) -> list[Fraction | None] | None:
    """Each value as one of the two multiples of `step` around it, so that every row still adds up to 0, as near as can
    be; a multiple stays. None: there is no such rounding, or none was found in time. What has no value is free.

    >>> values = [Fraction(3), Fraction(3), Fraction(6)]
    >>> [int(each or 0) for each in round_adjacent(values, [{0: 1, 1: 1, 2: -1}], Fraction(5), 5) or ()]
    [0, 5, 5]
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    below = [Fraction(0) if value is None else value // step for value in values]
    over = [Fraction(0) if value is None else value / step - low for value, low in zip(values, below, strict=True)]
    known = [value is not None for value in values]
    cells = [(k, at, w) for k, row in enumerate(rows) for at, w in row.items()]
    at, columns, weights = (np.array(part) for part in zip(*cells, strict=True))
    matrix = csr_array((weights.astype(np.float64), (at, columns)), shape=(len(rows), len(values)))
    lacking = [-float(sum(w * below[place] for place, w in row.items())) for row in rows]
    found = milp(
        np.array([1.0 - 2 * float(part) if there else 0.0 for part, there in zip(over, known, strict=True)]),
        constraints=LinearConstraint(matrix, lb=lacking, ub=lacking),
        integrality=np.ones(len(values), dtype=np.int64),
        bounds=Bounds(
            [0.0 if there else -np.inf for there in known],
            [float(part > 0) if there else np.inf for part, there in zip(over, known, strict=True)],
        ),
        options={"time_limit": seconds},
    )
    if found.x is None:
        return None
    rounded = [(low + round(x)) * step for low, x in zip(below, found.x, strict=True)]
    if any(sum(w * rounded[place] for place, w in row.items()) for row in rows):
        return None
    return [each if there else None for each, there in zip(rounded, known, strict=True)]
