"""A made-up table under one filling, as arrays: where conditions are true, and what is summed.

Everything is over the same public rows, whichever of them a filling has: what looks at public columns only is computed
once. Numbers are 64-bit integers where every sum of them is below 2**62, else Python's.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.bits import Mask, Truths, every_mask, truth_sets
from keyhole.datasets import ProbeTable
from keyhole.errors import pass_on_interruption
from keyhole.model.meaning import OPERATIONS
from keyhole.model.predicate import And, Has, IsNull, Leaf, Like, Membership, Opaque, Predicate, find_leaves, fold
from keyhole.model.query import Term
from keyhole.model.schema import Column, Kind
from keyhole.reading.trial import Trial, looks_at_columns

_EXACT = 2**62
_PLAIN = {Kind.INTEGER: int, Kind.TEXT: str, Kind.DATE: dt.date}


class PlacedRows:
    """The public rows of a made-up table, with what was computed on them."""

    def __init__(self, probe: ProbeTable, n: int) -> None:
        self.probe, self.n = probe, n
        self.secret = probe.schema.private_names
        self._truths: dict[Leaf, Truths] = {}
        self._codes: dict[str, tuple[NDArray[np.int64], dict[str, int]]] = {}
        self._listed: dict[str, list[Any]] = {}
        self._weights: dict[str, list[Fraction]] = {}
        self._algebra = truth_sets(np.ones(n, dtype=np.bool_), self.truth)

    def prepare(self, wanted: Iterable[Leaf]) -> None:
        """Look up the truths of public conditions; all that need the engine at once."""
        missing_leaves = []
        for leaf in wanted:
            if leaf not in self._truths:
                simple = self._simple(leaf)
                if simple is None:
                    missing_leaves.append(leaf)
                else:
                    self._truths[leaf] = simple
        for leaf, found in self.probe.truths(list(dict.fromkeys(missing_leaves)), public=True).items():
            self._truths[leaf] = (found == 1, found == 0)

    def truth(self, leaf: Leaf) -> Truths:
        """Where a public condition is true and where it is false, looked up if that was not done."""
        if leaf not in self._truths:
            self.prepare([leaf])
        return self._truths[leaf]

    def true(self, trial: Trial, predicate: Predicate) -> Mask | None:
        """The rows on which a condition of the trial is true; None if it looks at private columns."""
        for known, mask in trial.masks:
            if known is predicate or known == predicate:
                return mask
        public = not trial.private or not any(looks_at_columns(leaf, self.secret) for leaf in find_leaves(predicate))
        mask = self._true(predicate) if public else None
        trial.masks.append((predicate, mask))
        return mask

    def _true(self, predicate: Predicate) -> Mask:
        """A conjunction is true where all its parts are: where they are false need not be known."""
        if isinstance(predicate, And):
            return every_mask([self._true(part) for part in predicate.parts])
        return fold(predicate, self._algebra)[0]

    def listed(self, sql: str) -> list[Any]:
        """An expression over public columns, row by row."""
        if sql not in self._listed:
            self._listed[sql] = [row[0] for row in self.probe.evaluate_rows([sql], public=True)]
        return self._listed[sql]

    def weights(self, sql: str) -> list[Fraction]:
        """A weight, row by row."""
        if sql not in self._weights:
            self._weights[sql] = [_to_fraction(v) for v in self.listed(sql)]
        return self._weights[sql]

    def _simple(self, leaf: Leaf) -> Truths | None:
        """Conditions that need no engine: whole numbers, days, and equal text; None for the others."""
        if isinstance(leaf, Opaque | Like | Has):
            return None
        column = self.probe.schema.find(leaf.column)
        if column is None or column.kind not in _PLAIN:
            return None
        constants: Sequence[Any] = ()
        if not isinstance(leaf, IsNull):
            constants = leaf.values if isinstance(leaf, Membership) else (leaf.value,)
        if any(type(c) is not _PLAIN[column.kind] or (isinstance(c, int) and abs(c) >= _EXACT) for c in constants):
            return None
        found = self.probe.column(column)
        if found is None:
            return None
        values, present = found
        if isinstance(leaf, IsNull):
            return ~present, present
        if column.kind is Kind.TEXT:
            values, constants = self._coded(column, values, present, constants)
        if isinstance(leaf, Membership):
            inside = np.isin(values, np.array(constants, dtype=values.dtype))
        elif column.kind is Kind.TEXT and leaf.op not in ("=", "<>"):
            return None
        else:
            inside = OPERATIONS[leaf.op](values, np.array(constants, dtype=values.dtype)[0])
        return inside & present, ~inside & present

    def _coded(
        self, column: Column, values: NDArray[Any], present: Mask, constants: Sequence[Any]
    ) -> tuple[NDArray[np.int64], list[int]]:
        """Text as numbers, equal where the text is: -1 for NULL, -2 for what is not there."""
        if column.name not in self._codes:
            numbers: dict[str, int] = {}
            coded = [numbers.setdefault(v, len(numbers)) if p else -1 for v, p in zip(values, present, strict=True)]
            self._codes[column.name] = np.array(coded, dtype=np.int64), numbers
        codes, known = self._codes[column.name]
        return codes, [known.get(c, -2) for c in constants]


@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """What a term sums, row by row, in units; `sizes` without their signs; `over` units are one; `count`: all are 1."""

    units: NDArray[Any]
    sizes: NDArray[Any]
    over: int
    count: bool = False

    def over_rows(self, rows: NDArray[np.int64]) -> tuple[Any, Any]:
        """(the sum over some rows, the sum of the sizes): Python's numbers, exact."""
        if self.count:
            return len(rows), len(rows)
        return _to_number(self.units[rows].sum()), _to_number(self.sizes[rows].sum())

    @property
    def whole(self) -> bool:
        """Are all of them whole numbers?"""
        return self.over == 1 and all(Fraction(unit).denominator == 1 for unit in self.units.tolist())


class FilledTable:
    """One filling of it: `kept` are the rows that it has."""

    def __init__(self, placed: PlacedRows, kept: Mask) -> None:
        self.placed, self.kept = placed, kept
        self.n = int(np.count_nonzero(kept))
        self.whole = self.n == placed.n
        self._truths: dict[Leaf, Truths] = {}
        self._private: dict[str, tuple[NDArray[np.int64], Mask, int]] = {}
        self._summed: dict[tuple[str | None, int, str | None], Summed] = {}
        self._listed: dict[str, list[Any]] = {}
        self._algebra = truth_sets(np.ones(placed.n, dtype=np.bool_), self._truth)

    def prepare(self, wanted: Iterable[Leaf]) -> None:
        """Look up the truths of private conditions, all at once."""
        missing_leaves = [leaf for leaf in wanted if leaf not in self._truths] if self.n else []
        for leaf, found in self.placed.probe.truths(list(dict.fromkeys(missing_leaves)), public=False).items():
            self._truths[leaf] = self._spread(found == 1), self._spread(found == 0)

    def true(self, trial: Trial, predicate: Predicate) -> Mask:
        """The rows of this filling on which a condition of the trial is true."""
        if not self.n:
            return self.kept
        mask = self.placed.true(trial, predicate)
        if mask is None:
            mask = fold(predicate, self._algebra)[0]
        return mask if self.whole else mask & self.kept

    def summed(self, term: Term) -> Summed:
        """What a term sums, but for its factor and its condition."""
        key = (term.column, term.power, term.weight)
        if key not in self._summed:
            units: NDArray[Any] = np.ones(self.placed.n, dtype=np.int64)
            over = 1
            if term.column is not None:
                units, _, over = self._column(term.column)
                largest = int(np.abs(units).max(initial=0))
                if largest**term.power * (self.placed.n + 1) >= _EXACT:
                    units = units.astype(object)
                units, over = units**term.power, over**term.power
            if term.weight is not None:
                weights = self.placed.weights(term.weight)
                units = np.array([int(u) * w for u, w in zip(units, weights, strict=True)], dtype=object)
            self._summed[key] = Summed(units, abs(units), over, count=term.column is None and term.weight is None)
        return self._summed[key]

    def listed(self, sql: str) -> list[Any]:
        """An expression, row by row; where it looks at private columns, None on the rows that are not filled."""
        if sql in self._listed:
            return self._listed[sql]
        try:
            return self.placed.listed(sql)
        except Exception as error:  # private columns are in no public row
            pass_on_interruption(error)
            found = iter(self.placed.probe.evaluate_rows([sql], public=False) if self.n else ())
            self._listed[sql] = [next(found)[0] if kept else None for kept in self.kept.tolist()]
            return self._listed[sql]

    def told_apart(self, sql: str) -> list[Any]:
        """The same, to be grouped by: times as text, since Python's have microseconds only."""
        found = self.listed(sql)
        timed = any(isinstance(v, dt.datetime) for v in found)
        return self.listed(f"CAST({sql} AS VARCHAR)") if timed else found

    def present(self, name: str) -> Mask:
        """The rows on which a private column has a value."""
        return self._column(name)[1]

    def _truth(self, leaf: Leaf) -> Truths:
        if not looks_at_columns(leaf, self.placed.secret):
            return self.placed.truth(leaf)
        if leaf not in self._truths:
            self.prepare([leaf])
        return self._truths[leaf]

    def _column(self, name: str) -> tuple[NDArray[np.int64], Mask, int]:
        if name not in self._private and not self.n:
            self._private[name] = np.zeros(self.placed.n, dtype=np.int64), self.kept, 1
        if name not in self._private:
            column = self.placed.probe.schema.find(name)
            assert column is not None
            made = self.placed.probe.values(column)
            units = np.zeros(self.placed.n, dtype=np.int64)
            units[self.kept] = made.units
            self._private[name] = units, self._spread(made.present), made.over
        return self._private[name]

    def _spread(self, found: Mask) -> Mask:
        """From the rows of this filling to all public rows: not on the others."""
        spread: Mask = np.zeros(self.placed.n, dtype=np.bool_)
        spread[self.kept] = found
        return spread


def _to_number(total: Any) -> Any:
    return total if isinstance(total, Fraction) else int(total)


def _to_fraction(found: Any) -> Fraction:
    """A weight; one that is NULL or no number has no row that counts it."""
    if found is None or (isinstance(found, float) and not np.isfinite(found)):
        return Fraction(0)
    return Fraction(found)
