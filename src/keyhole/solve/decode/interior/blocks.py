"""The families of terms of the interior-point decoder: absolute, quadratic and interval rows.

Each block knows its own complementarity pairs and linearises as `new dual = D dv + g` in the change dv of its row
values; the blocks then share one Newton system (`interior.minimise`).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_SOFT = 1e-11


def longest(x: Floats, dx: Floats) -> float:
    """The longest step that keeps x + step dx >= 0, for x > 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        fastest = float(np.fmin.reduce(dx / x, initial=0.0))
    return -1.0 / fastest if fastest < 0 else np.inf


class AbsoluteRows:
    """w|v - y| = w(p + q), v - y = p - q, p, q >= 0; pairs (p, a) and (q, b) with a = w - z, b = w + z.

    a and b are carried themselves: near the optimum w - z cancels.
    """

    def __init__(self, v: Floats, y: Floats, w: Floats) -> None:
        self.y, self.w = y, w
        r = v - y
        # Half the mean residual off both ends, with a dual of 0 (feasible): well centred, so first steps are long.
        spread = 0.5 * float(np.mean(np.abs(r))) + 1e-6 * (1.0 + float(np.mean(np.abs(y)))) if r.size else 1.0
        self.p, self.q = np.maximum(r, 0) + spread, np.maximum(-r, 0) + spread
        self.a, self.b = w.copy(), w.copy()
        # A proximal term in the dual: rows met exactly would otherwise get infinite curvature and freeze the rest.
        self.soft = _SOFT * spread / w
        self.dp = self.dq = self.dz = np.zeros_like(v)

    @property
    def z(self) -> Floats:
        """The dual of every row."""
        return (self.b - self.a) / 2

    def complementarity(self) -> tuple[float, int]:
        """Sum of the pairs' products, and how many pairs."""
        return float(self.p @ self.a + self.q @ self.b), 2 * self.p.size

    def linearise(self, v: Floats, mu: float, corrected: bool) -> tuple[Floats, Floats]:
        """Curvature D and dual g of the Newton step aimed at products `mu`."""
        self.ma = (mu + (self.dp * self.dz if corrected else 0.0)) / self.a
        self.mb = (mu - (self.dq * self.dz if corrected else 0.0)) / self.b
        self.D = 1.0 / (self.p / self.a + self.q / self.b + self.soft)
        self.shift = self.D * ((v - self.y) - self.ma + self.mb)
        return self.D, self.z + self.shift

    def direct(self, dv: Floats) -> tuple[float, float]:
        """Set the block's direction for dv; the longest primal and dual steps that keep it inside."""
        self.dz = self.D * dv + self.shift
        self.dp = self.ma - self.p + self.p / self.a * self.dz
        self.dq = self.mb - self.q - self.q / self.b * self.dz
        primal = min(longest(self.p, self.dp), longest(self.q, self.dq))
        return primal, min(longest(self.a, -self.dz), longest(self.b, self.dz))

    def after(self, primal: float, dual: float) -> float:
        """Sum of the pairs' products after such a step."""
        p, q = self.p + primal * self.dp, self.q + primal * self.dq
        return float(p @ (self.a - dual * self.dz) + q @ (self.b + dual * self.dz))

    def move(self, primal: float, dual: float) -> None:
        """Take the step."""
        self.p, self.q = self.p + primal * self.dp, self.q + primal * self.dq
        self.a, self.b = self.a - dual * self.dz, self.b + dual * self.dz

    def objective(self, v: Floats) -> float:
        """The block's part of the objective."""
        return float(self.w @ np.abs(v - self.y))


class QuadraticRows:
    """w/2 (v - y)^2: the dual is the weighted residual itself, no pairs."""

    def __init__(self, v: Floats, y: Floats, w: Floats) -> None:
        self.y, self.w, self.z = y, w, w * (v - y)
        self.dz = np.zeros_like(v)

    def complementarity(self) -> tuple[float, int]:
        """Sum of the pairs' products, and how many pairs."""
        return 0.0, 0

    def linearise(self, v: Floats, mu: float, corrected: bool) -> tuple[Floats, Floats]:
        """Curvature D and dual g of the Newton step aimed at products `mu`."""
        self.g = self.w * (v - self.y)
        return self.w, self.g

    def direct(self, dv: Floats) -> tuple[float, float]:
        """Set the block's direction for dv; the longest primal and dual steps that keep it inside."""
        self.dz = self.w * dv + self.g - self.z
        return np.inf, np.inf

    def after(self, primal: float, dual: float) -> float:
        """Sum of the pairs' products after such a step."""
        return 0.0

    def move(self, primal: float, dual: float) -> None:
        """Take the step."""
        self.z = self.z + primal * self.dz

    def objective(self, v: Floats) -> float:
        """The block's part of the objective."""
        return float(self.w @ (v - self.y) ** 2) / 2


class IntervalRows:
    """lo <= v <= hi, slacks s = v - lo and t = hi - v; pairs (s, sigma), (t, tau); an infinite end has none."""

    def __init__(self, v: Floats, lo: Floats, hi: Floats, start: float) -> None:
        self.has_lo, self.has_hi = np.isfinite(lo), np.isfinite(hi)
        self.lo, self.hi = np.where(self.has_lo, lo, 0.0), np.where(self.has_hi, hi, 0.0)
        width = np.where(self.has_lo & self.has_hi, hi - lo, 1.0)
        floor = np.maximum(0.01 * np.abs(width), 1e-8)
        self.s = np.where(self.has_lo, np.maximum(v - self.lo, floor), 1.0)
        self.t = np.where(self.has_hi, np.maximum(self.hi - v, floor), 1.0)
        self.sigma = np.where(self.has_lo, start / self.s, 0.0)
        self.tau = np.where(self.has_hi, start / self.t, 0.0)
        self.ds = self.dt = self.dsigma = self.dtau = np.zeros_like(v)

    @property
    def z(self) -> Floats:
        """The dual of every row."""
        return self.tau - self.sigma

    def complementarity(self) -> tuple[float, int]:
        """Sum of the pairs' products, and how many pairs."""
        return float(self.s @ self.sigma + self.t @ self.tau), int(self.has_lo.sum() + self.has_hi.sum())

    def linearise(self, v: Floats, mu: float, corrected: bool) -> tuple[Floats, Floats]:
        """Curvature D and dual g of the Newton step aimed at products `mu`."""
        ml = np.where(self.has_lo, mu - (self.ds * self.dsigma if corrected else 0.0), 0.0)
        mh = np.where(self.has_hi, mu - (self.dt * self.dtau if corrected else 0.0), 0.0)
        self.kl, self.kh = self.sigma / self.s, self.tau / self.t
        self.gl = ml / self.s - self.kl * (v - self.lo)  # sigma + dsigma = gl - kl dv
        self.gh = mh / self.t - self.kh * (self.hi - v)  # tau + dtau = gh + kh dv
        self.v = v
        return self.kl + self.kh, self.tau + self.gh - self.sigma - self.gl

    def direct(self, dv: Floats) -> tuple[float, float]:
        """Set the block's direction for dv; the longest primal and dual steps that keep it inside."""
        self.dsigma = np.where(self.has_lo, self.gl - self.kl * dv, 0.0)
        self.dtau = np.where(self.has_hi, self.gh + self.kh * dv, 0.0)
        self.ds = np.where(self.has_lo, dv + self.v - self.lo - self.s, 0.0)
        self.dt = np.where(self.has_hi, self.hi - self.v - dv - self.t, 0.0)
        primal = min(longest(self.s, self.ds), longest(self.t, self.dt))
        return primal, min(longest(self.sigma, self.dsigma), longest(self.tau, self.dtau))

    def after(self, primal: float, dual: float) -> float:
        """Sum of the pairs' products after such a step."""
        return float(
            (self.s + primal * self.ds) @ (self.sigma + dual * self.dsigma)
            + (self.t + primal * self.dt) @ (self.tau + dual * self.dtau)
        )

    def move(self, primal: float, dual: float) -> None:
        """Take the step."""
        self.s, self.t = self.s + primal * self.ds, self.t + primal * self.dt
        self.sigma, self.tau = self.sigma + dual * self.dsigma, self.tau + dual * self.dtau

    def objective(self, v: Floats) -> float:
        """The block's part of the objective."""
        return 0.0


Block: TypeAlias = AbsoluteRows | QuadraticRows | IntervalRows
