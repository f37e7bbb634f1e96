"""Sums over atoms: the public part of every linear form, and with a source the secret part too, exactly.

One total per feature and atom is taken from the records; every query is then a sum over atoms. Totals are integers (in
units of the column's last decimal); a column without short decimals is summed in floating point with a stated radius.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import fsum, gcd, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Atoms, Weights
from keyhole.basis.bits import unpack
from keyhole.datasets import PrivateTotal, PrivateValues, Source
from keyhole.model.cells import Partition
from keyhole.model.forms import ONE, Feature, Part, select_private_parts
from keyhole.model.predicate import Predicate
from keyhole.solve.rowspace.matrix import RowMatrix

ULP = Fraction(1, 2**52)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A sum of parts: its public part, how many records it matches at most, and its true total if known.

    `size` is the sum of the absolute values that are added up, as far as they are known: an engine that adds them up in
    floating point is off by so much at most, times the unit of rounding and how many they are.
    """

    public: Fraction
    matched: int
    total: Fraction = Fraction(0)
    radius: Fraction = Fraction(0)
    size: Fraction = Fraction(0)


class Totals:
    """Evaluates forms over atoms. Cost: one pass over the bits for every feature, then O(1) a part without weight."""

    def __init__(
        self, atoms: Atoms, features: Sequence[Feature], partitions: Sequence[Partition], source: Source | None
    ) -> None:
        self._atoms = atoms
        self._features = features
        self._partitions = {part.column.name: part for part in partitions}
        self._source = source
        self._matrix = RowMatrix.from_bits(atoms.table, atoms.K)
        self._columns: dict[str, PrivateValues] = {}
        self._there: dict[tuple[int, int, str | None], PrivateTotal] = {}
        self._cell_numbers: dict[str, NDArray[np.int64]] = {}
        self._per_atom: dict[int, tuple[NDArray[Any], int, NDArray[np.float64] | None]] = {}
        self._dots: dict[int, list[int] | list[float]] = {}
        self._absolute: dict[int, list[float]] = {}
        self._sizes: dict[int, NDArray[np.float64]] = {}

    def summed(self, parts: Sequence[Part]) -> bool:
        """Does a form carry private values (rather than count people)?"""
        return any(self._features[p.feature].column is not None for p in select_private_parts(parts))

    def candidates(self, parts: Sequence[Part]) -> int:
        """How many records a form looks at."""
        touched = np.zeros(self._atoms.K, dtype=np.bool_)
        for where in {p.where for p in parts}:
            touched |= self._atoms.mask(where)
        return int(self._atoms.sizes[touched].sum())

    def matched(self, where: Predicate) -> int:
        """How many records satisfy a condition."""
        return int(self._dot(ONE)[self._atoms.number(where)])

    def amount(self, part: Part) -> tuple[int, Fraction]:
        """How many records a part adds up at most, and the absolute values of their weights, added up."""
        at = self._atoms.number(part.where)
        count = int(self._dot(ONE)[at])
        return count, self._size(replace(part, feature=ONE), at, count)

    def weight_unit(self, part: Part) -> Fraction | None:
        """What the weights of a part are multiples of; 1 without weight, None where all of them are 0."""
        if part.weight is None:
            return Fraction(1)
        weight: Weights = self._atoms.weight(part.weight)
        values = weight.values[unpack(self._atoms.table[self._atoms.number(part.where)], self._atoms.K)]
        unit = Fraction(gcd(*(int(v) for v in values.tolist())), weight.over)
        return unit or None

    def evaluate(self, parts: Sequence[Part]) -> Evaluated:
        """The value of a sum of parts."""
        public, total, radius, matched = Fraction(0), Fraction(0), Fraction(0), 0
        beside = Fraction(0)
        for p in parts:
            at = self._atoms.number(p.where)
            count = int(self._dot(ONE)[at])
            matched = max(matched, count)
            if p.feature != ONE and self._source is not None and not self._source.gives_values:
                there = self._sum_there(p, at)
                total, beside = total + p.factor * there.total, beside + abs(p.factor) * there.size
                continue
            beside += abs(p.factor) * self._size(p, at, count)
            if p.feature == ONE:
                public += p.factor * (count if p.weight is None else self._weighted(p, at)[0])
            elif self._source is not None:
                unit = 10 ** self._atom_totals(p.feature)[1]
                if p.weight is not None:
                    value, size = self._weighted(p, at)
                else:
                    value = Fraction(self._dot(p.feature)[at])
                    size = Fraction(self._absolute[p.feature][at]) if p.feature in self._absolute else Fraction(0)
                total += p.factor * value / unit
                radius += abs(p.factor) * (count + 2) * ULP * size
        return Evaluated(public, matched, total + public, radius, beside)

    def of_atoms(self, feature: int) -> list[Fraction]:
        """The true total of a feature over each atom, exactly: DOUBLE values are added as the fractions they are."""
        totals, digits, absolute = self._atom_totals(feature)
        if absolute is None:
            return [Fraction(int(total), 10**digits) for total in totals.tolist()]
        column = self._features[feature].column
        assert column is not None
        values, inside = self._values(column), self._inside(self._features[feature])
        found = [Fraction(0)] * self._atoms.K
        for r in np.flatnonzero(inside & values.present).tolist():
            found[self._atoms.of[r]] += Fraction(float(values.floats[r])) ** self._features[feature].power
        return found

    def _dot(self, feature: int) -> list[int] | list[float]:
        """Sum of a feature over the atoms of every predicate."""
        if feature in self._dots:
            return self._dots[feature]
        totals, _, absolute = self._atom_totals(feature)
        if absolute is not None:  # floating point
            found: list[float] = self._float_dot(totals.astype(np.float64))
            self._absolute[feature] = self._float_dot(absolute)
            self._dots[feature] = found
        elif totals.dtype == object:
            exact = []
            for p in range(len(self._atoms.table)):
                exact.append(int(sum(totals[unpack(self._atoms.table[p], self._atoms.K)].tolist())))
            self._dots[feature] = exact
        else:
            lanes = np.zeros((self._atoms.K, 3), dtype=np.uint64)
            lanes[:, 0] = totals.astype(np.int64).view(np.uint64)
            self._dots[feature] = self._matrix.sums(lanes)[:, 0].view(np.int64).tolist()
        return self._dots[feature]

    def _float_dot(self, totals: NDArray[np.float64]) -> list[float]:
        found = []
        for p in range(len(self._atoms.table)):
            found.append(float(totals[unpack(self._atoms.table[p], self._atoms.K)].sum()))
        return found

    def _size(self, part: Part, at: int, count: int) -> Fraction:
        """The absolute values of a weighted part, added up; of a count, the count."""
        if part.weight is None:
            return Fraction(count if part.feature == ONE else 0)
        if part.feature != ONE and self._source is None:
            return Fraction(0)
        weight: Weights = self._atoms.weight(part.weight)
        mask = unpack(self._atoms.table[at], self._atoms.K)
        factors = np.abs(weight.values[mask].astype(np.float64)) / weight.over
        found = float(np.sum(factors * self._absolute_of(part.feature)[mask]))
        return Fraction(found) if isfinite(found) else Fraction(0)

    def _absolute_of(self, feature: int) -> NDArray[np.float64]:
        """The absolute values of a feature over each atom, added up."""
        f = self._features[feature] if feature != ONE else None
        if f is None or f.column is None:
            return self._atoms.sizes.astype(np.float64)
        if feature not in self._sizes:
            values = self._values(f.column)
            x = values.floats if values.units is None else values.units.astype(np.float64) / 10.0**values.digits
            held = np.where(self._inside(f) & values.present, np.abs(x), 0.0) ** f.power
            self._sizes[feature] = np.bincount(self._atoms.of, held, self._atoms.K).astype(np.float64)
        return self._sizes[feature]

    def _weighted(self, part: Part, at: int) -> tuple[Fraction, Fraction]:
        """The weighted sum of a feature over the atoms of a condition, and of its size where that is floating."""
        assert part.weight is not None
        mask = unpack(self._atoms.table[at], self._atoms.K)
        weight: Weights = self._atoms.weight(part.weight)
        totals, _, absolute = self._atom_totals(part.feature)
        if absolute is None:
            return Fraction(_dot(weight.values[mask], totals[mask]), weight.over), Fraction(0)
        factors = weight.values[mask].astype(np.float64) / weight.over
        size = Fraction(fsum(np.abs(factors) * absolute[mask]))
        return Fraction(fsum(factors * totals[mask])), size

    def _atom_totals(self, feature: int) -> tuple[NDArray[Any], int, NDArray[np.float64] | None]:
        """(totals per atom, decimals they are scaled by, totals of absolute values if floating)."""
        if feature == ONE:
            return self._atoms.sizes, 0, None
        if feature in self._per_atom:
            return self._per_atom[feature]
        f = self._features[feature]
        inside = self._inside(f)
        result: tuple[NDArray[Any], int, NDArray[np.float64] | None]
        if f.column is None:
            result = (_by_atom(self._atoms, inside.astype(np.int64)), 0, None)
        else:
            values = self._values(f.column)
            held = inside & values.present
            if values.units is None:
                x = np.where(held, values.floats, 0.0) ** f.power
                totals = np.bincount(self._atoms.of, weights=x, minlength=self._atoms.K)
                size = np.bincount(self._atoms.of, weights=np.abs(x), minlength=self._atoms.K).astype(np.float64)
                result = (totals, 0, size)
            else:
                units: NDArray[Any] = np.where(held, values.units, 0)
                if f.power == 2:
                    big = int(np.abs(units).max(initial=0)) ** 2 * len(units) >= 2**62
                    units = units.astype(object) ** 2 if big else units**2
                result = (_by_atom(self._atoms, units), values.digits * f.power, None)
        self._per_atom[feature] = result
        return result

    def ask_ahead(self, parts: Iterable[Part]) -> None:
        """Where the values stay in their engine: ask for the sums of these parts, those of one feature at once."""
        if self._source is None or self._source.gives_values:
            return
        wanted: dict[int, dict[tuple[int, int, str | None], Part]] = {}
        for part in parts:
            mark = (part.feature, self._atoms.number(part.where), part.weight)
            if part.feature != ONE and self._features[part.feature].column is not None and mark not in self._there:
                wanted.setdefault(part.feature, {})[mark] = part
        for number, marks in wanted.items():
            feature = self._features[number]
            if feature.conditioned:
                self._inside(feature)  # says that private conditions are not looked up there
            questions = [self._weights_of_atoms(part, at) for (_, at, _), part in marks.items()]
            assert feature.column is not None
            sums = self._source.sums_over_atoms(self._atoms, questions, feature.column, feature.power)
            self._there |= dict(zip(marks, sums, strict=True))

    def _sum_there(self, part: Part, at: int) -> PrivateTotal:
        """The sum of a part where the values stay in their engine: the atoms go there, one number comes back."""
        self.ask_ahead([part])
        return self._there[part.feature, at, part.weight]

    def _weights_of_atoms(self, part: Part, at: int) -> dict[int, Fraction]:
        chosen = np.flatnonzero(unpack(self._atoms.table[at], self._atoms.K)).tolist()
        if part.weight is None:
            return dict.fromkeys(chosen, Fraction(1))
        weight: Weights = self._atoms.weight(part.weight)
        return {k: Fraction(int(weight.values[k]), weight.over) for k in chosen}

    def _values(self, column: str) -> PrivateValues:
        if column not in self._columns:
            assert self._source is not None
            self._columns[column] = self._source.values(column)
        return self._columns[column]

    def _inside(self, feature: Feature) -> NDArray[np.bool_]:
        """Which records lie in the feature's private cells."""
        n = len(self._atoms.of)
        if not feature.conditioned:
            return np.ones(n, dtype=np.bool_)
        parts = [self._partitions[name] for name in feature.conditioned]
        code = np.zeros(n, dtype=np.int64)
        for part in parts:
            code = code * (len(part.cells) + 1) + self._cells(part) + 1
        wanted = []
        for joint in feature.cells:
            at = 0
            for part, cell in zip(parts, joint, strict=True):
                at = at * (len(part.cells) + 1) + part.cells.index(cell) + 1
            wanted.append(at)
        return np.isin(code, wanted)

    def _cells(self, part: Partition) -> NDArray[np.int64]:
        """The cell of each record."""
        name = part.column.name
        if name not in self._cell_numbers:
            assert self._source is not None
            self._cell_numbers[name] = cell_numbers(part, self._source, len(self._atoms.of))
        return self._cell_numbers[name]


def cell_numbers(part: Partition, source: Source, n: int) -> NDArray[np.int64]:
    """The cell of each record, from the truths of the conditions that made the cells; -1: none."""
    truths = source.truths(part.leaves)
    code = np.full(n, -1, dtype=np.int64)
    table = np.column_stack([truths[leaf] for leaf in part.leaves])
    distinct, inverse = np.unique(table, axis=0, return_inverse=True)
    numbers = {tuple(-1 if t is None else int(t) for t in cell.truths): i for i, cell in enumerate(part.cells)}
    for i, row in enumerate(distinct):
        code[inverse.ravel() == i] = numbers.get(tuple(int(t) for t in row), -1)
    return code


def _by_atom(atoms: Atoms, units: NDArray[Any]) -> NDArray[Any]:
    """Exact integer totals per atom, in the smallest type that holds them."""
    if units.dtype != object:
        size = float(np.abs(units.astype(np.float64)).sum())
        if size < 2**53:
            return np.bincount(atoms.of, weights=units.astype(np.float64), minlength=atoms.K).astype(np.int64)
        if size < 2**62:
            totals = np.zeros(atoms.K, dtype=np.int64)
            np.add.at(totals, atoms.of, units)
            return totals
    wide = np.zeros(atoms.K, dtype=object)
    np.add.at(wide, atoms.of, units.astype(object))
    return wide


def _dot(left: NDArray[Any], right: NDArray[Any]) -> int:
    """The sum of products of integers, exactly: in machine integers 20 bits at a time while no sum can overflow.

    >>> _dot(np.array([10**12, -3]), np.array([10**6, 7]))
    999999999999999979
    """
    if left.dtype == object or right.dtype == object or int(np.abs(right).max(initial=0)) * len(right) >= 2**42:
        return int((left.astype(object) * right).sum())
    total, shift, rest = 0, 0, np.abs(left)
    signed = np.where(left < 0, -right, right)
    while rest.any():
        total += int(((rest & 0xFFFFF) * signed).sum()) << shift
        rest, shift = rest >> 20, shift + 20
    return total
