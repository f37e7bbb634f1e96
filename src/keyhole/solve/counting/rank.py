"""Differences of counts: what the row space of exact counts fixes of open 0/1 variables.

Variables that stand in the same counts are one class; a class whose total is determined, and is 0 or all of them, is
settled. Only answers are rows: that a variable and its negation add up to one is no answer. Sound, and incomplete for
0/1 values; every combination is added up again in integers, variable by variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from keyhole.solve.counting.network import SumGate
from keyhole.solve.counting.propagate import OPEN, Conflict, Forced
from keyhole.solve.rowspace import RowMatrix, RowSpace

MOST_ROWS = 3_000


def settle_by_rank(known: Forced) -> bool:
    """Set what differences of counts determine; False if nothing was new, or the counts are too many."""
    gates = [g for g in known.net.sums if g.weights is None and g.lo is not None and g.lo == g.hi]
    rows = [(g, known.of(g.literals) == OPEN) for g in gates]
    rows = _tied(known, [(g, open_) for g, open_ in rows if open_.any()])
    if len(rows) < 2 or len(rows) > MOST_ROWS:
        return False
    variables, marks = _marks(rows)
    if not len(variables):
        return False
    _, first, of, sizes = np.unique(marks, axis=0, return_index=True, return_inverse=True, return_counts=True)
    of = of.ravel()
    entries, told = [], []
    for gate, open_ in rows:
        literals = gate.literals[open_]
        at = of[np.searchsorted(variables, literals >> 1)]
        columns, where = np.unique(at, return_index=True)
        entries.append((columns, np.where(literals[where] & 1, -1, 1).astype(np.int64)))
        ones = int((known.of(gate.literals) == 1).sum())
        told.append(int(gate.lo or 0) - ones - int((literals & 1).sum()))
    space = RowSpace(RowMatrix.from_entries(entries, len(first)))
    return _settled(known, space, rows, told, variables, of, sizes)


def _tied(known: Forced, rows: list[tuple[SumGate, np.ndarray]]) -> list[tuple[SumGate, np.ndarray]]:
    """The counts that share a variable with another one: the others say nothing in a difference."""
    seen = np.zeros(known.net.size, dtype=np.int64)
    for gate, open_ in rows:
        seen[np.unique(gate.literals[open_] >> 1)] += 1
    return [(gate, open_) for gate, open_ in rows if (seen[gate.literals[open_] >> 1] > 1).any()]


def _marks(rows: list[tuple[SumGate, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The open variables, ascending, and for each two random marks of the counts that it stands in."""
    draw = np.random.default_rng(0)
    everything = [gate.literals[open_] for gate, open_ in rows]
    variables = np.unique(np.concatenate(everything) >> 1)
    marks = np.zeros((len(variables), 2), dtype=np.uint64)
    for literals in everything:
        drawn = draw.integers(1, 2**63, size=(2, 2), dtype=np.uint64)
        np.add.at(marks, np.searchsorted(variables, literals >> 1), drawn[literals & 1])
    return variables, marks


def _settled(known, space, rows, told, variables, of, sizes) -> bool:  # type: ignore[no-untyped-def]
    news = False
    for k in space.determined().tolist():
        weights = space.weights(k)
        if weights is None:
            continue
        members = variables[of == k]
        value = sum((w * told[i] for i, w in weights.items()), Fraction(0))
        if value not in (0, int(sizes[k])) or not _adds_up(weights, rows, members):
            continue
        used = [int(r) for i in weights for r in _reasons(known, *rows[i])]
        why = known.all_of(used, *(rows[i][0].count for i in weights))
        if (known.value[members] != OPEN).all():
            continue
        try:
            known.set(2 * members, int(value > 0), why)
        except Conflict:
            raise
        news = True
    return news


def _reasons(known: Forced, gate: SumGate, open_: np.ndarray) -> np.ndarray:
    return np.unique(known.reasons(gate.literals[~open_]))


def _adds_up(weights: Mapping[int, Fraction], rows, members) -> bool:  # type: ignore[no-untyped-def]
    """Is the combination the sum of exactly these variables?"""
    total: dict[int, Fraction] = {}
    for i, w in weights.items():
        gate, open_ = rows[i]
        for literal in gate.literals[open_].tolist():
            at = literal >> 1
            total[at] = total.get(at, Fraction(0)) + (-w if literal & 1 else w)
    return {v: c for v, c in total.items() if c} == dict.fromkeys(members.tolist(), Fraction(1))
