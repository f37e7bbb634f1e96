"""Sigmoid stochastic gradient: x = lo + (hi - lo) sigmoid(z), one answer a step; the guess never leaves the box."""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np

from keyhole.attacks.base import Floats, Reconstruction, State, Target, guess_from_prior
from keyhole.attacks.streaming import RecordRows, Streaming, draw_shadow_noise, pool_errors
from keyhole.errors import CannotHonour
from keyhole.solve.decode.bitrows import matvec, words_for
from keyhole.solve.decode.sigmoid import sgd_block, sgd_dense
from keyhole.solve.status import SolverStatus

_INSET = 0.1  # share of the box at either end in which no shadow's secret is drawn
_CLIP = 2.0  # residuals above twice the Laplace scale count as twice the scale (Huber)


class SigmoidSGD(Streaming):
    """z -= rate * gradient of (a x - y)^2 for each answer.

    Needs a finite range for every record. From the middle of the box, small rates follow the gradient flow in z: among
    many solutions it tends to a particular one inside the box. Known noise shrinks the rate of noisier answers and
    clips the residuals of Laplace ones (a heuristic; `Bounded` is the maximum likelihood). Confidence: `shadows`
    secrets drawn from the box are attacked along through the same questions. Memory: O(n).

    >>> from decimal import Decimal
    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.model.prior import Prior
    >>> e = from_arrays(np.array([[1, 1]] * 200), [3.0] * 200, prior=Prior(Decimal(0), Decimal(2)))
    >>> attack = SigmoidSGD(Target.of(e), rate=0.1)
    >>> attack.observe(e)
    >>> attack.estimate().values.round(3).tolist()
    [1.5, 1.5]
    """

    name: ClassVar[str] = "sgd"

    def __init__(
        self, target: Target, *, rate: float = 0.01, shadows: int = 8, rng: np.random.Generator | None = None
    ) -> None:
        super().__init__(target)
        self.rate, self.shadows = rate, shadows
        self._rng = rng or np.random.default_rng(0)
        width = 64 * words_for(target.n)
        self._z = np.zeros((1 + shadows, width))
        self._x = np.zeros((1 + shadows, width))
        self._secrets = np.zeros((shadows, width))
        # away from the ends, where a sigmoid takes for ever to arrive and a shadow would tell of that alone
        self._draws = _INSET + (1 - 2 * _INSET) * self._rng.random((shadows, target.n))
        self._lower, self._upper = np.full(width, -np.inf), np.full(width, np.inf)

    def _walk(self, rows: RecordRows) -> Floats:
        self._bound(rows)
        signal = rows.norms() * self.target.deviation**2  # variance of the row's value beforehand
        rate, clip = self.rate * signal / np.maximum(signal + rows.noise**2, 1e-300), _CLIP * rows.laplace
        simulated = draw_shadow_noise(rows, self.shadows)  # a replay meets the noise it met before
        half = np.where(np.isfinite(rows.hi - rows.lo), (rows.hi - rows.lo) / 2, np.inf)
        residuals = np.zeros(len(rows))
        for v in range(1 + self.shadows):
            lo, hi = rows.lo, rows.hi
            if v:  # the shadow's own secret answers the questions
                truth = self._answers(rows, self._secrets[v - 1]) + simulated[v - 1]
                lo, hi = truth - half, truth + half
            z, x = self._z[v], self._x[v]
            if rows.bits is not None:
                met = sgd_block(rows.bits, lo, hi, clip, rate, z, x, self._lower, self._upper)
            else:
                met = sgd_dense(rows.weights(), lo, hi, clip, rate, z, x, self._lower, self._upper)
            residuals = met if v == 0 else residuals
        return residuals

    @staticmethod
    def _answers(rows: RecordRows, x: Floats) -> Floats:
        if rows.bits is not None:
            return np.asarray(matvec(rows.bits, x))
        return rows.csr.apply(x) if rows.csr is not None else np.asarray(rows.weights() @ x)

    def _bound(self, rows: RecordRows) -> None:
        n = self.target.n
        lower, upper = np.maximum(self._lower, rows.lower), np.minimum(self._upper, rows.upper)
        if not (np.isfinite(lower[:n]) & np.isfinite(upper[:n])).all():
            raise CannotHonour(
                f"sgd needs a finite range for every record: give min and max of {self.target.column!r} "
                f"(--private '{self.target.column}:0..100'), or take kaczmarz"
            )
        if np.array_equal(lower, self._lower) and np.array_equal(upper, self._upper):
            return
        self._lower, self._upper = lower, upper
        share = 1 / (1 + np.exp(-self._z))
        self._x = np.where(upper > lower, lower + (upper - lower) * share, lower)
        self._secrets[:, :n] = lower[:n] + (upper - lower)[:n] * self._draws

    def estimate(self) -> Reconstruction:
        """The guess now, with shadow standard errors."""
        if not self.rows_seen:
            return guess_from_prior(self.target)
        n = self.target.n
        error = np.full(n, self.target.deviation)
        if self.shadows:
            # records that every shadow and the guess itself move alike are one group: their errors are pooled
            error = pool_errors(
                self._x[1:, :n] - self._secrets[:, :n],
                np.vstack([self._lower[:n], self._upper[:n], self._z[:, :n]]),
                (self._z[:, :n] != 0).any(axis=0),
            )
            # secrets lie nearer to the middle than values: where next to nothing is learnt, errors are that much more
            left = np.minimum(error / self._drawn(), 1.0) ** 4
            wider = (self.target.deviation / self._drawn()) ** 2
            error = np.minimum(error * np.sqrt(1 + (wider - 1) * left), self.target.deviation)
        status = self.status if self.rows_seen else SolverStatus.PRIOR
        return Reconstruction(self._x[0, :n].copy(), error, self.residual, status, note=f"{self.rows_seen} steps")

    def _drawn(self) -> float:
        """Standard deviation of the shadows' secrets in a box of the declared width."""
        return float((1 - 2 * _INSET) * (self.target.upper - self.target.lower) / np.sqrt(12)) or 1.0

    def state(self) -> State:
        """Vectors, counters and the generator of the shadows."""
        return self._counters() | {
            "z": self._z, "x": self._x, "secrets": self._secrets, "draws": self._draws,
            "lower": self._lower, "upper": self._upper,
            "rng": np.array([json.dumps(self._rng.bit_generator.state)], dtype=np.str_),
        }  # fmt: skip

    def resume(self, state: State) -> None:
        """Continue from `state()`."""
        self._restore_counters(state)
        self._z, self._x = state["z"].copy(), state["x"].copy()
        self._secrets, self._draws = state["secrets"].copy(), state["draws"].copy()
        self._lower, self._upper = state["lower"], state["upper"]
        self._rng.bit_generator.state = json.loads(str(state["rng"][0]))
