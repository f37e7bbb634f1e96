"""Kaczmarz: each answer moves the guess onto its own hyperplane. One pass, O(n) memory, any number of questions."""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np

from keyhole.attacks.base import Floats, Reconstruction, State, Target, guess_from_prior
from keyhole.attacks.streaming import Order, RecordRows, Streaming, draw_shadow_noise, pool_errors
from keyhole.solve.decode.bitrows import padded
from keyhole.solve.decode.kaczmarz import soften_steps, sweep, sweep_dense, sweep_in_box, sweep_sparse
from keyhole.solve.status import SolverStatus


class Kaczmarz(Streaming):
    """x += r / (|a|^2 + noise^2/v) a for each answer, r = y - a x; v is the variance left per record.

    Exact answers (noise 0) give the classical projection: from 0 it converges, replayed, to the minimum-norm solution;
    each step brings the guess nearer to every solution. With known noise the step is that of a Kalman filter whose
    covariance is kept as one number v (v <- v (1 - gain/n)), so replays average the noise out. Intervals and one-sided
    answers move the guess to the nearest end; known bounds clip the moved records (projections onto convex sets).

    Confidence: `shadows` error vectors, drawn from a normal law of the prior's spread, go through the same steps with
    simulated noise; their root mean square per record, pooled over records that share one guess and one shift, is its
    standard error (unknown where the prior's spread is and a twentieth of it is left). Memory: (1 + 2 shadows) n
    numbers. References: kaczmarz1937, strohmer2009, agmon1954.

    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> e = from_arrays(np.array([[1, 1, 0], [0, 0, 1]]), [3.0, 5.0])
    >>> attack = Kaczmarz(Target.of(e), rng=np.random.default_rng(1))
    >>> attack.observe(e)
    >>> attack.estimate().values.tolist()
    [1.5, 1.5, 5.0]
    """

    name: ClassVar[str] = "kaczmarz"

    def __init__(
        self,
        target: Target,
        *,
        relaxation: float = 1.0,
        shadows: int = 8,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(target)
        self.relaxation, self.shadows = relaxation, shadows
        self._rng = rng or np.random.default_rng(0)
        self._spread = target.deviation if np.isfinite(target.deviation) else 1.0
        # normal, not signs: two signs cancel exactly half of the time, and an error of 0 would be read as "determined"
        self._drawn = self._rng.standard_normal((shadows, target.n)) * self._spread
        self._X = np.stack([padded(np.full(target.n, target.mean)), *map(padded, self._drawn)])
        self._v = self._spread**2 if np.isfinite(target.deviation) else np.inf
        self._lower = self._upper = np.zeros(0)
        self._expected = 0.0  # mean squared residual of the shadows, summed since the last pass began
        self._bare = not shadows or not np.isfinite(target.deviation)

    def _walk(self, rows: RecordRows) -> Floats:
        self._bound(rows)
        softness, self._v = soften_steps(rows.norms(), rows.noise, rows.lo, self._v, self.target.n)
        # A shadow is an error: the exact answers of an error are 0, noisy ones are noise, intervals have its width.
        half = np.where(np.isfinite(rows.hi - rows.lo), (rows.hi - rows.lo) / 2, np.inf)
        simulated = draw_shadow_noise(rows, self.shadows)  # a replay meets the noise it met before
        lo = np.vstack([rows.lo, simulated - half])
        hi = np.vstack([rows.hi, simulated + half])
        if self._lower.size:
            np.clip(self._X[0], self._lower, self._upper, out=self._X[0])
        met = self._step(rows, lo, hi, softness)
        if self.shadows:
            self._expected += float(np.mean(met[1:] ** 2, axis=0).sum())
        return np.asarray(met[0])

    def _step(self, rows: RecordRows, lo: Floats, hi: Floats, softness: Floats) -> Floats:
        """Each row in turn; bounds are met after every single answer, whatever the blocks."""
        X, relaxation, lower, upper = self._X, self.relaxation, self._lower, self._upper
        if rows.csr is not None:
            c = rows.csr
            return sweep_sparse(c.starts, c.columns, c.values, lo, hi, X, softness, relaxation, lower, upper)
        if rows.bits is not None:
            bits = np.ascontiguousarray(rows.bits)
            if not lower.size:
                return sweep(bits, lo, hi, X, softness, relaxation)
            first = sweep_in_box(bits, lo[0], hi[0], X[0], softness, relaxation, lower, upper)
            return np.vstack([first, sweep(bits, lo[1:], hi[1:], X[1:], softness, relaxation)])
        A = rows.weights()
        if not lower.size:
            return sweep_dense(A, lo, hi, X, softness, relaxation)
        met = np.zeros_like(lo)
        for j in range(len(rows)):
            one = slice(j, j + 1)
            met[:, one] = sweep_dense(A[one], lo[:, one], hi[:, one], X, softness[one], relaxation)
            np.clip(X[0], lower, upper, out=X[0])
        return met

    def begin_pass(self) -> None:
        """Forget the residuals of the pass before, and what the shadows led to expect of them."""
        super().begin_pass()
        self._expected = 0.0

    def _surprise(self) -> float:
        """How much larger the residuals are than those of the shadows, which meet the same rows: 1 if as expected.

        Answers that contradict each other, noise above what was stated and a spread beyond the prior's all show here.
        """
        if self._bare or not self.met:
            return 1.0
        least = 1e-18 * (1 + float(np.mean(self._X[0] ** 2)))
        return float(np.sqrt(max(1.0, (self.squares / self.met) / max(self._expected / self.met, least))))

    def _bound(self, rows: RecordRows) -> None:
        if np.isfinite(rows.lower[: self.target.n]).any() or np.isfinite(rows.upper[: self.target.n]).any():
            if not self._lower.size:
                self._lower, self._upper = rows.lower, rows.upper
            else:
                self._lower, self._upper = np.maximum(self._lower, rows.lower), np.minimum(self._upper, rows.upper)

    def estimate(self) -> Reconstruction:
        """The guess now, with shadow standard errors."""
        if not self.rows_seen and not self._lower.size:
            return guess_from_prior(self.target)
        n = self.target.n
        values = self._X[0, :n].copy()
        if self._lower.size:
            values = np.clip(values, self._lower[:n], self._upper[:n])
        error = np.full(n, self.target.deviation)
        if self.shadows:
            errors = self._X[1:, :n]
            # the bounds: two records may share a guess at an end, and yet not what is known beforehand
            known = (self._lower[:n], self._upper[:n]) if self._lower.size else ()
            paths = np.vstack([values, *known, (errors - self._drawn) / self._spread])
            error = pool_errors(errors, paths, (errors != self._drawn).any(axis=0))
            if not np.isfinite(self.target.deviation):  # no prior spread: what is left of it is unknown
                error = np.where(error > 0.05 * self._spread, np.inf, error * float(np.sqrt(np.mean(values**2))))
            error = np.minimum(error * self._surprise(), self.target.deviation)
        status = self.status if self.rows_seen else SolverStatus.PRIOR
        return Reconstruction(values, error, self.residual, status, note=f"{self.rows_seen} projections")

    def state(self) -> State:
        """Vectors, counters and the generator of the shadows."""
        generator = json.dumps(self._rng.bit_generator.state)
        return self._counters() | {
            "X": self._X, "drawn": self._drawn, "v": np.array([self._v]), "lower": self._lower, "upper": self._upper,
            "expected": np.array([self._expected]), "rng": np.array([generator], dtype=np.str_),
        }  # fmt: skip

    def resume(self, state: State) -> None:
        """Continue from `state()`."""
        self._restore_counters(state)
        self._X, self._drawn, self._v = state["X"].copy(), state["drawn"].copy(), float(state["v"][0])
        self._lower, self._upper = state["lower"], state["upper"]
        self._expected = float(state["expected"][0])
        self._rng.bit_generator.state = json.loads(str(state["rng"][0]))


class RandomizedKaczmarz(Kaczmarz):
    """The same, with rows drawn by their squared norm when a log is replayed: |a_j|^2 / |A|_F^2.

    Guarantee: the expected squared distance from the solution falls by 1 - s^2/|A|_F^2 a step, s the least singular
    value that is not 0; rows of one length are drawn evenly. Reference: strohmer2009.

    >>> RandomizedKaczmarz.name, RandomizedKaczmarz.order
    ('randomized-kaczmarz', 'norm')
    """

    name: ClassVar[str] = "randomized-kaczmarz"
    order: ClassVar[Order] = "norm"
