"""Peel a large log before factoring it: people given away by one difference of two queries, and repeated queries.

    repeat: drop empty and repeated rows; find all rows with one open column and all pairs Q_a - Q_b = x_k
            (shadow sums propose, bits decide); x_k becomes known and leaves every query
    until nothing new

A thousand people exposed by differencing cost one hash look-up each instead of a column of elimination. Every step
is an exact identity over the bits: Q_a - Q_b = e_k + (columns known before), so by induction each known e_k has exact
rational weights, which `Peeling.settle` writes out on demand.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import lcm

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.rowspace.matrix import RowMatrix

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

_SIEVE_BITS = 24


@dataclass(frozen=True, slots=True)
class Peeling:
    """What peeling found in `matrix`.

    `columns[t]` became known at step t as plus[t] - minus[t] less earlier known columns (minus = -1: no row).
    Row `dropped[s]` equals row `kept[s]` (-1: the zero row) up to known columns: a dependency. `rows` are left.
    """

    matrix: RowMatrix
    columns: Ints
    plus: Ints
    minus: Ints
    dropped: Ints
    kept: Ints
    rows: Ints

    def settle(self, weights: dict[int, Fraction], wanted: dict[int, int]) -> dict[int, Fraction]:
        """Weights that give exactly `wanted` on the known columns, from weights that may give anything there.

        Known columns are taken back in the reverse of the order in which they were found, so each is met once.
        """
        if not len(self.columns):
            return weights
        out = dict(weights)
        excess = self._on_known(weights)
        if wanted:
            for t in np.flatnonzero(np.isin(self.columns, list(wanted))).tolist():
                excess[t] = excess.get(t, Fraction(0)) - wanted[int(self.columns[t])]
        pending = [-t for t in excess]
        heapify(pending)
        while pending:  # from the latest step: it only disturbs earlier ones
            t = -heappop(pending)
            c = excess.pop(t, None)
            if not c:
                continue
            rows = self.plus[t : t + 1] if self.minus[t] < 0 else np.array([self.plus[t], self.minus[t]])
            line = np.diff(self.matrix.block(rows, self.columns, np.dtype(np.int64)), axis=0, prepend=0)[-1]
            sign = 1 if len(rows) == 1 else -1  # np.diff gave minus - plus
            for i, v in zip(rows.tolist(), (-c, c), strict=False):
                out[i] = out.get(i, Fraction(0)) + v
            for u in np.flatnonzero(line).tolist():
                if u != t:
                    if u not in excess:
                        excess[u] = Fraction(0)
                        heappush(pending, -u)
                    excess[u] -= c * sign * int(line[u])
        return {i: w for i, w in sorted(out.items()) if w}

    def _on_known(self, weights: dict[int, Fraction]) -> dict[int, Fraction]:
        """What the weighted rows add up to on the known columns: {step: non-zero sum}."""
        if not weights:
            return {}
        d = lcm(*(w.denominator for w in weights.values()))
        scaled = [w.numerator * (d // w.denominator) for w in weights.values()]
        fits = sum(abs(n) for n in scaled) * self.matrix.magnitude() < 1 << 62
        dtype = np.dtype(np.int64 if fits else object)
        block = self.matrix.block(np.array(list(weights), dtype=np.int64), self.columns, dtype)
        total = np.array(scaled, dtype=dtype) @ block
        return {t: Fraction(int(total[t]), d) for t in np.flatnonzero(total).tolist()}


def peel(matrix: RowMatrix, shadow: Words, sums: Words) -> Peeling:
    """Peel the 0/1 rows of `matrix`; `shadow` (K,) are random 64-bit words, `sums` (m,) their sums over each row.

    A missed collision of shadows costs nothing but time: what is not peeled is left to the factorisation.
    Cost a round: one pass over the bits of the columns just found, and the pairs of rows whose sizes differ by one.
    """
    from keyhole.solve.rowspace import peel_kernels as kernels

    bits, names = matrix.bits, matrix.bit_rows
    hashes = sums[names].copy()
    sizes = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    alive = np.ones(len(bits), dtype=bool)
    known = np.zeros(bits.shape[1], dtype=np.uint64)
    shift = 64 - _SIEVE_BITS
    flags = np.zeros(1 << _SIEVE_BITS, dtype=bool)
    flags[shadow >> np.uint64(shift)] = True
    sieve = np.packbits(flags, bitorder="little")
    steps: list[tuple[int, int, int]] = []
    merges: list[tuple[int, int]] = []
    while True:
        merges += _merge(bits, known, hashes, sizes, alive)
        fresh = np.zeros_like(known)
        before = len(steps)

        def learn(column: int, plus: int, minus: int, spent: int) -> None:
            steps.append((column, plus, minus))
            fresh[column >> 6] |= np.uint64(1) << np.uint64(column & 63)  # noqa: B023
            alive[spent] = False

        for a in np.flatnonzero(alive & (sizes == 1)).tolist():
            learn(int(kernels.first_open(bits, known, a)), a, -1, a)
        rows = np.flatnonzero(alive)
        rows = rows[np.argsort(sizes[rows], kind="stable")]
        pairs = kernels.differing_pairs(rows, sizes, hashes, sieve, shift, bits, known, 4 * len(bits) + 1024)
        degree = np.bincount(pairs[:, :2].ravel(), minlength=len(bits))
        for a, b, column in pairs.tolist():
            if not (alive[a] and alive[b]):
                continue  # found again in the next round through the row that replaced it
            if (int(fresh[column >> 6]) >> (column & 63)) & 1:
                continue
            # the hub of many differences stays, so that one round finds them all
            learn(column, a, b, a if degree[a] <= degree[b] else b)
        if len(steps) == before:
            break
        known |= fresh
        kernels.forget(bits, fresh, shadow, hashes, sizes, alive)
    left = np.ones(matrix.m, dtype=bool)
    left[names[~alive]] = False
    table = np.array(steps, dtype=np.int64).reshape(-1, 3)
    merged = np.array(merges, dtype=np.int64).reshape(-1, 2)
    return Peeling(
        matrix,
        table[:, 0],
        names[table[:, 1]],
        _named(names, table[:, 2]),
        names[merged[:, 0]],
        _named(names, merged[:, 1]),
        np.flatnonzero(left),
    )


def _named(names: Ints, rows: Ints) -> Ints:
    """Row numbers of bit rows, -1 kept."""
    if not len(rows):
        return rows
    return np.where(rows >= 0, names[np.maximum(rows, 0)], -1)


def _merge(bits: Words, known: Words, hashes: Words, sizes: Ints, alive: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Drop rows that are empty or repeat another row up to known columns; (dropped, kept) for each."""
    from keyhole.solve.rowspace import peel_kernels as kernels

    out: list[tuple[int, int]] = []
    for a in np.flatnonzero(alive & (sizes == 0)).tolist():
        alive[a] = False
        out.append((a, -1))
    rows = np.flatnonzero(alive)
    rows = rows[np.argsort(hashes[rows], kind="stable")]
    keep = -1
    for a in rows.tolist():
        if keep >= 0 and hashes[a] == hashes[keep] and int(kernels.same_but(bits, known, a, keep)) == -1:
            alive[a] = False
            out.append((a, keep))
        else:
            keep = a
    return out
