"""Rows over record coordinates, for streaming attacks: a block of evidence as packed bits (or weights) per record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats
from keyhole.attacks.estimates.matrix_free import row_noise
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem
from keyhole.attacks.problem.loosened import loosened
from keyhole.basis.bits import splitmix
from keyhole.errors import CannotHonour
from keyhole.solve.decode.bitrows import Words, gathered, words_for
from keyhole.solve.decode.csr import Csr


@dataclass(frozen=True, slots=True, eq=False)
class RecordRows:
    """k rows over n records: bits (k, words), dense (k, 64 * words) or sparse; ends lo..hi; noise deviations."""

    bits: Words | None
    dense: Floats | None
    lo: Floats
    hi: Floats
    noise: Floats
    laplace: Floats  # Laplace scale where the law is Laplace, else inf: where residuals are clipped
    lower: Floats
    upper: Floats
    csr: Csr | None = None

    def __len__(self) -> int:
        return len(self.lo)

    def norms(self) -> Floats:
        """Squared norm of every row."""
        if self.bits is not None:
            return np.asarray(np.bitwise_count(self.bits).sum(axis=1), dtype=np.float64)
        if self.csr is not None:
            return self.csr.squared().apply(np.ones(self.csr.p))
        assert self.dense is not None
        return np.asarray((self.dense**2).sum(axis=1))

    def weights(self) -> Floats:
        """The rows with all their zeros."""
        if self.csr is not None:
            return self.csr.dense()
        assert self.dense is not None
        return self.dense

    def sparse(self) -> Csr:
        """The entries that are not zero."""
        if self.csr is not None:
            return self.csr
        if self.bits is not None:
            return Csr.of_bits(self.bits, 64 * self.bits.shape[1])
        return Csr.of_rows([(at := np.flatnonzero(row), row[at]) for row in self.weights()], self.weights().shape[1])

    def take(self, index: slice | NDArray[np.int64]) -> RecordRows:
        """Some of the rows, in the given order."""
        return RecordRows(
            None if self.bits is None else np.ascontiguousarray(self.bits[index]),
            None if self.dense is None else np.ascontiguousarray(self.dense[index]),
            self.lo[index], self.hi[index], self.noise[index], self.laplace[index], self.lower, self.upper,
            None if self.csr is None else self.csr.take(index),
        )  # fmt: skip


def shadow_noise(rows: RecordRows, shadows: int) -> Floats:
    """Simulated noise of every row for every shadow, (shadows, rows): of the row's own size, and its own for ever.

    It is drawn from a hash of the row and its answer, so that a log replayed meets the noise it met before: a repeated
    answer tells a shadow no more than it tells the attack. Reference: Steele, Lea and Flood (2014), splitmix.
    """
    from scipy.special import ndtri

    if not shadows or not rows.noise.any():
        return np.zeros((shadows, len(rows)))
    ends = np.stack([rows.lo, rows.hi]).view(np.uint64)
    with np.errstate(over="ignore"):
        key = _row_keys(rows)
        key ^= splitmix(ends[0]) + np.uint64(3) * splitmix(ends[1])
        turn = np.arange(1, shadows + 1, dtype=np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15)
        drawn = splitmix(key[None, :] + turn) >> np.uint64(11)
    return np.asarray(rows.noise * ndtri((drawn.astype(np.float64) + 0.5) / 2.0**53))


def _row_keys(rows: RecordRows) -> NDArray[np.uint64]:
    """A hash of every row's coefficients."""
    if rows.csr is not None:
        at, of = splitmix(rows.csr.columns.astype(np.uint64) + np.uint64(1)), rows.csr.starts
        upto = np.concatenate([[np.uint64(0)], np.cumsum(at * rows.csr.values.view(np.uint64), dtype=np.uint64)])
        return np.asarray(upto[of[1:]] - upto[of[:-1]])
    matrix = rows.bits if rows.bits is not None else rows.weights()
    words = np.ascontiguousarray(matrix).view(np.uint64)
    return np.asarray(
        (words * splitmix(np.arange(1, words.shape[1] + 1, dtype=np.uint64))).sum(axis=1, dtype=np.uint64)
    )


def record_blocks(p: Problem, name: str, size: int) -> Iterator[RecordRows]:
    """The rows of a problem over records, `size` at a time: n bits a row, never the whole log at once.

    A log without rows gives one empty block, which carries the bounds.
    """
    if not p.plain:
        raise CannotHonour(
            f"{name} works on one number per record, but the log has private conditions: take bounded, l1 or integer"
        )
    p = loosened(p)
    width = 64 * words_for(p.target.n)
    interval = p.law == NoiseLaw.INTERVAL
    lo, hi = np.where(interval, p.lo, p.y), np.where(interval, p.hi, p.y)
    noise = np.where(interval, 0.0, row_noise(p))
    laplace = np.where(p.law == NoiseLaw.LAPLACE, p.scale, np.inf)
    lower, upper = np.zeros(width), np.zeros(width)
    lower[: p.target.n], upper[: p.target.n] = p.lower[p.of], p.upper[p.of]
    own = p.target.n == p.K and bool((p.of == np.arange(p.K)).all())  # every record its own atom, in order
    csr = None if p.csr is None else p.csr if own else p.csr.spread(p.of)
    for start in range(0, max(1, p.m), size):
        part = slice(start, start + size)
        bits = dense = some = None
        if csr is not None:
            some = replace(csr.take(part), p=width)
        elif p.bits is not None:
            k = len(p.bits[part])
            bits = p.bits[part] if own else gathered(np.ascontiguousarray(p.bits[part]), p.of, width // 64)
            bits = bits if k else np.zeros((0, width // 64), dtype=np.uint64)
        else:
            assert p.dense is not None
            dense = np.zeros((len(p.dense[part]), width))
            dense[:, : p.target.n] = p.dense[part][:, p.of]
        yield RecordRows(bits, dense, lo[part], hi[part], noise[part], laplace[part], lower, upper, some)
