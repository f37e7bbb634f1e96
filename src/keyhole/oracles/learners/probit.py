"""Probit regression with a prior whose width the labels choose: the estimator behind stolen classifiers."""

from __future__ import annotations

import math

import numpy as np

from keyhole.oracles.certify.tails import Floats

STEPS = 60
NARROWEST, WIDEST = 16.0, 1e-8  # of the prior's precision, the first for each dimension
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def log_share_below(u: Floats) -> tuple[Floats, Floats]:
    """log Phi(u) and its slope phi(u) / Phi(u), for a standard normal; Mills' ratio far below 0.

    >>> value, slope = log_share_below(np.array([0.0, -40.0]))
    >>> [round(float(v), 3) for v in value], [round(float(v), 3) for v in slope]
    ([-0.693, -804.608], [0.798, 40.025])
    """
    near = np.maximum(u, -30.0)
    inside = np.log(0.5 * _erfc(-near / math.sqrt(2)))
    density = -0.5 * u * u - 0.5 * math.log(2 * math.pi)
    far = u < -30
    below = np.where(far, -u, 1.0)
    value = np.where(far, density - np.log(below) - 1 / below**2, inside)
    return value, np.exp(density - value)


class Probit:
    """Pr(label = 1 | x) = Phi(x.c), c ~ N(0, I/a): the mode and its curvature.

    `a` climbs the evidence by MacKay's fixed point, a = (D - a tr S) / ||c||^2 [mackay1992], so that few labels shrink
    the estimate and many do not; at most 16 D, where ||c|| would be a quarter of the noise.
    Newton's method with halved steps: the posterior is log-concave. O(n D^2) a step.

    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.standard_normal((4000, 2)), np.ones(4000)])
    >>> y = (X @ np.array([1.0, -2.0, 0.5]) + rng.standard_normal(4000) > 0).astype(float)
    >>> model = Probit(3)
    >>> model.fit(X, y)
    >>> [round(float(v), 1) for v in model.c]
    [1.0, -2.0, 0.6]
    """

    def __init__(self, width: int) -> None:
        self.c = np.zeros(width)
        self.precision = 1.0
        self.covariance: Floats = np.eye(width)

    def fit(self, X: Floats, y: Floats) -> None:
        """From the mode before, to the mode of these labels."""
        signs = 2 * np.asarray(y, dtype=np.float64) - 1
        for _ in range(4):
            self._climb(X, signs)
            known = len(self.c) - self.precision * float(np.trace(self.covariance))
            wanted = max(known, 1e-3) / max(float(self.c @ self.c), 1e-300)
            before, self.precision = self.precision, min(max(wanted, WIDEST), NARROWEST * len(self.c))
            if abs(math.log(self.precision / before)) < 0.05:
                break

    def _value(self, c: Floats, X: Floats, signs: Floats) -> float:
        return float(np.sum(log_share_below(signs * (X @ c))[0])) - 0.5 * self.precision * float(c @ c)

    def _climb(self, X: Floats, signs: Floats) -> None:
        best, prior = self._value(self.c, X, signs), self.precision * np.eye(len(self.c))
        for _ in range(STEPS):
            u = signs * (X @ self.c)
            slope = log_share_below(u)[1]
            weight = np.maximum(slope * (slope + u), 0.0)
            H = (X * weight[:, None]).T @ X + prior
            gradient = X.T @ (signs * slope) - self.precision * self.c
            step, size = np.linalg.solve(H, gradient), 1.0
            gain = float(gradient @ step)
            while size > 1e-6:
                value = self._value(self.c + size * step, X, signs)
                if value >= best + 1e-4 * size * gain:
                    break
                size /= 2
            else:
                break
            self.c, best = self.c + size * step, value
            if gain < 1e-6:
                break
        self.covariance = np.asarray(np.linalg.inv(H), dtype=np.float64)
