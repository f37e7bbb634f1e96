"""Sums over atoms: the public part of every linear form, and with a source the secret part too, exactly.

One total per feature and atom is taken from the records; every query is then a sum over atoms. Totals are integers (in
units of the column's last decimal); a column without short decimals is summed in floating point with a stated radius.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.cells import Partition
from keyhole.evidence import Atoms, Entry, Feature
from keyhole.gather.features import ONE
from keyhole.solve.rowspace_matrix import RowMatrix
from keyhole.tables import PrivateValues, Source

ULP = Fraction(1, 2**52)


@dataclass(frozen=True, slots=True)
class Form:
    """A linear form evaluated: its public part, how many records it matches at most, and its true total if known."""

    public: Fraction
    matched: int
    total: Fraction = Fraction(0)
    radius: Fraction = Fraction(0)


class Totals:
    """Evaluates linear forms over atoms. Cost: one pass over the bits for every feature, then O(1) an entry."""

    def __init__(
        self, atoms: Atoms, features: Sequence[Feature], partitions: Sequence[Partition], source: Source | None
    ) -> None:
        self._atoms = atoms
        self._features = features
        self._partitions = partitions
        self._source = source
        self._matrix = RowMatrix.from_bits(atoms.bits, atoms.K)
        self._columns: dict[str, PrivateValues] = {}
        self._cells: list[NDArray[np.int64]] | None = None
        self._per_atom: dict[int, tuple[NDArray[Any], int, NDArray[np.float64] | None]] = {}
        self._dots: dict[int, list[int] | list[float]] = {}
        self._absolute: dict[int, list[float]] = {}

    def floating(self, column: str) -> bool:
        """True if a column has no short decimals, so that its sums carry a radius."""
        return self._source is not None and self._values(column).units is None

    def summed(self, feature: int) -> bool:
        """Does a feature carry values (rather than count people)?"""
        return feature != ONE and self._features[feature].column is not None

    def candidates(self, entries: Sequence[Entry]) -> int:
        """How many records a form looks at."""
        touched = np.zeros(self._atoms.K, dtype=np.bool_)
        for predicate in {e.predicate for e in entries}:
            touched |= self._atoms.mask(predicate)
        return int(self._atoms.sizes[touched].sum())

    def form(self, entries: Sequence[Entry]) -> Form:
        """Evaluate a linear form."""
        public, total, radius, matched = Fraction(0), Fraction(0), Fraction(0), 0
        for e in entries:
            count = int(self._dot(ONE)[e.predicate])
            matched = max(matched, count)
            if e.feature == ONE:
                public += e.factor * (count if e.weight is None else self._weighted(e))
            elif self._source is not None:
                digits = self._atom_totals(e.feature)[1]
                if e.weight is not None:
                    total += e.factor * self._weighted(e) / 10**digits
                    continue
                total += e.factor * Fraction(self._dot(e.feature)[e.predicate]) / 10**digits
                if e.feature in self._absolute:
                    radius += abs(e.factor) * (count + 2) * ULP * Fraction(self._absolute[e.feature][e.predicate])
        return Form(public, matched, total + public, radius)

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
            for p in range(len(self._atoms.bits)):
                exact.append(int(sum(totals[self._atoms.mask(p)].tolist())))
            self._dots[feature] = exact
        else:
            lanes = np.zeros((self._atoms.K, 3), dtype=np.uint64)
            lanes[:, 0] = totals.astype(np.int64).view(np.uint64)
            self._dots[feature] = self._matrix.sums(lanes)[:, 0].view(np.int64).tolist()
        return self._dots[feature]

    def _float_dot(self, totals: NDArray[np.float64]) -> list[float]:
        found = []
        for p in range(len(self._atoms.bits)):
            found.append(float(totals[self._atoms.mask(p)].sum()))
        return found

    def _weighted(self, e: Entry) -> Fraction:
        assert e.weight is not None
        mask = np.flatnonzero(self._atoms.mask(e.predicate))
        weights = self._atoms.weights[e.weight]
        totals = self._atom_totals(e.feature)[0]
        return sum((weights[k] * Fraction(totals[k].item()) for k in mask.tolist()), Fraction(0))

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

    def _values(self, column: str) -> PrivateValues:
        if column not in self._columns:
            assert self._source is not None
            self._columns[column] = self._source.values(column)
        return self._columns[column]

    def _inside(self, feature: Feature) -> NDArray[np.bool_]:
        """Which records lie in the feature's private cells."""
        n = len(self._atoms.of)
        if not self._partitions:
            return np.ones(n, dtype=np.bool_)
        if self._cells is None:
            assert self._source is not None
            self._cells = [_cell_numbers(part, self._source, n) for part in self._partitions]
        inside = np.zeros(n, dtype=np.bool_)
        for joint in feature.cells:
            here = np.ones(n, dtype=np.bool_)
            for part, cell, numbers in zip(self._partitions, joint, self._cells, strict=True):
                here &= numbers == part.cells.index(cell)
            inside |= here
        return inside


def _cell_numbers(part: Partition, source: Source, n: int) -> NDArray[np.int64]:
    """The cell of each record, from the truths of the conditions that made the cells."""
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
