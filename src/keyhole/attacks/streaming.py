"""What streaming attacks share: rows over record coordinates, one walk over them as they arrive, O(n) memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Reconstruction, State, Target
from keyhole.attacks.estimates.matrix_free import compute_row_noise
from keyhole.attacks.estimates.standard_errors import moderate_variances
from keyhole.attacks.problem.assembly import assemble
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem, clamp_noise
from keyhole.basis.bits import splitmix
from keyhole.errors import CannotHonour
from keyhole.gather.evidence import Evidence
from keyhole.solve.decode.bitrows import Words, gathered, words_for
from keyhole.solve.decode.csr import Csr
from keyhole.solve.status import SolverStatus

BLOCK = 16  # rows walked at a time, at least
_AT_ONCE = 1 << 20  # coefficients walked at a time, if these are more rows


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


def draw_shadow_noise(rows: RecordRows, shadows: int) -> Floats:
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


def split_record_rows(p: Problem, name: str, size: int) -> Iterator[RecordRows]:
    """The rows of a problem over records, `size` at a time: n bits a row, never the whole log at once.

    A log without rows gives one empty block, which carries the bounds.
    """
    if not p.plain:
        raise CannotHonour(
            f"{name} works on one number per record, but the log has private conditions: take bounded, l1 or integer"
        )
    p = clamp_noise(p)
    width = 64 * words_for(p.target.n)
    interval = p.law == NoiseLaw.INTERVAL
    lo, hi = np.where(interval, p.lo, p.y), np.where(interval, p.hi, p.y)
    noise = np.where(interval, 0.0, compute_row_noise(p))
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


def count_rows_at_once(n: int) -> int:
    """How many rows about n records are walked at a time: memory stays O(n)."""
    return max(BLOCK, _AT_ONCE // max(1, n))


Order = Literal["cyclic", "random", "norm"]


class Streaming(ABC):
    """Base of the streaming attacks: subclasses give `_walk` and `estimate`. `order` is that of rows when replayed."""

    name: ClassVar[str] = ""
    order: ClassVar[Order] = "cyclic"

    def __init__(self, target: Target) -> None:
        self.target = target
        self.rows_seen = 0
        self.squares = 0.0  # of the residuals met since the last pass began
        self.met = 0
        self.status = SolverStatus.STREAMING

    def observe(self, evidence: Evidence) -> None:
        """Walk a block of rows, in order, once."""
        for rows in split_record_rows(assemble(self.target, evidence), self.name, count_rows_at_once(self.target.n)):
            self.walk(rows)

    def walk(self, rows: RecordRows) -> None:
        """Walk rows over record coordinates, in order."""
        size = count_rows_at_once(self.target.n)
        for start in range(0, len(rows), size):
            residuals = self._walk(rows if len(rows) <= size else rows.take(slice(start, start + size)))
            self.squares += float(residuals @ residuals)
            self.met += len(residuals)
            self.rows_seen += len(residuals)

    @property
    def residual(self) -> float:
        """Root mean square residual met since the last pass began."""
        return float(np.sqrt(self.squares / self.met)) if self.met else 0.0

    def begin_pass(self) -> None:
        """Forget the residuals of the pass before."""
        self.squares, self.met = 0.0, 0

    @abstractmethod
    def _walk(self, rows: RecordRows) -> Floats:
        """Walk at most BLOCK rows; give the residual each met."""

    @abstractmethod
    def estimate(self) -> Reconstruction:
        """The guess now."""

    def _counters(self) -> State:
        return {"counters": np.array([self.rows_seen, self.squares, self.met], dtype=np.float64)}

    def _restore_counters(self, state: State) -> None:
        seen, squares, met = state["counters"].tolist()
        self.rows_seen, self.squares, self.met = int(seen), float(squares), int(met)


def pool_errors(errors: Floats, paths: Floats, moved: NDArray[np.bool_]) -> Floats:
    """Root mean square error per record over shadows (rows), pooled over records (columns) whose `paths` agree.

    Records that no question tells apart are moved alike, so what moved them, to nine digits, names their group. Groups
    of few records are moderated by the others that were `moved` too: the surest of them are mostly the luckiest.

    >>> every = np.ones(3, dtype=bool)
    >>> pool_errors(np.array([[3.0, 4.0, 1e-9]]), np.array([[7.0, 7.0, 2.0]]), every).round(4).tolist()
    [3.5355, 3.5355, 0.0]
    """
    digits = np.where(np.isfinite(paths), paths, 0.0)
    size = np.maximum(np.abs(digits).max(axis=1, keepdims=True), 1e-300)
    keys = np.ascontiguousarray(np.round(digits / size, 9).T + 0.0)  # + 0.0: no -0
    _, first, of, count = np.unique(
        keys.view([("", keys.dtype)] * keys.shape[1]).ravel(),
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    of = of.ravel()
    total = np.bincount(of, weights=np.mean(errors**2, axis=0)) / count
    total = moderate_variances(total, moved[first], len(errors) * count.astype(np.float64))
    return np.asarray(np.sqrt(total)[of])
