"""OnlineBisection, as published, with its constants."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numba import njit

from keyhole.errors import ModelError
from keyhole.oracles.base import ModelWarning, StreamAttack
from keyhole.oracles.learners.box import ALWAYS_BET, BET_MASK, bet
from keyhole.oracles.noise import Floats, OracleNoise
from keyhole.oracles.subspace import Subspace


@dataclass(frozen=True, slots=True)
class PublishedConstants:
    """The constants of [choromanski2015], where its text leaves them open filled in so that its lemmas hold.

    Read in the paper: the first sides 2 sqrt(D), one share `keep` in (1/2, 1) for all directions, p_1 and dp as two
    tails of the noise at a margin of the side, the decision at p_1 + dp/2, r = 2/p^2, a stop side of the shape
    log(T)/sqrt(T). Reconstructed: the values of keep, margin and phi, the 60 of N_crit, the factor 1 of the stop side.

    keep = 3/4 (share of a side that survives a cut), margin = 1/8 (of a side), cos phi = 1 - 1/(2048 d), so that
    8 sin(phi/2) sqrt(d) = 1/8 and keep - 1/2 - 1/8 = margin; N_crit = 60 log(T) / dp^2; stop side log(T)/sqrt(T).

    >>> round(PublishedConstants().phi(2), 7)
    0.0220975
    >>> math.ceil(PublishedConstants().n_crit(10**6, 1 / 8)), math.ceil(PublishedConstants().n_crit(10**6, 1 / 2))
    (53052, 3316)
    """

    keep: float = 0.75
    margin: float = 0.125

    def cos_phi(self, d: int) -> float:
        """Cosine of the largest angle to a basis vector at which a query is used."""
        return 1 - 1 / (2048 * d)

    def phi(self, d: int) -> float:
        """That angle, about 1/(32 sqrt d)."""
        return math.acos(self.cos_phi(d))

    def rates(self, noise: OracleNoise, side: float, norm: float) -> tuple[float, float]:
        """(p_1, dp): chance of a yes when w is `margin` sides below, and how much larger it is when as far above."""
        step = self.margin * side * norm
        low = 1 - noise.cdf(step)
        return low, (1 - noise.cdf(-step)) - low

    def n_crit(self, horizon: int, dp: float) -> float:
        """Answers needed per direction before a cut."""
        return 60 * math.log(horizon) / dp**2 if dp**2 > 0 else math.inf

    def stop_side(self, horizon: int) -> float:
        """No cut once the side is this short."""
        return math.log(horizon) / math.sqrt(horizon)


@njit(cache=True, error_model="numpy")
def _end_phase(x: Floats, y: Floats, hits: Floats, phase: Floats, keep: float) -> bool:
    """ShrinkHyperCube, if every direction has its answers; True if it was done."""
    for i in range(x.size):
        if hits[i, 0] < phase[1]:
            return False
    for i in range(x.size):
        if hits[i, 1] > hits[i, 0] * phase[0]:
            x[i] = y[i] - keep * (y[i] - x[i])
        else:
            y[i] = x[i] + keep * (y[i] - x[i])
        hits[i, 0] = 0.0
        hits[i, 1] = 0.0
    phase[2] += 1.0
    return True


@njit(cache=True, error_model="numpy")
def _phase_loop(
    start: int,
    used: int,
    z: Floats,
    target: Floats,
    noise: Floats,
    errors: Floats,
    x: Floats,
    y: Floats,
    hits: Floats,
    phase: Floats,
    keep: float,
    cos_squared: float,
    law: Floats,
    knots: Floats,
    tails: Floats,
    counts: Floats,
    doubt: Floats,
    stated_x: Floats,
    stated_y: Floats,
) -> tuple[int, int]:
    """Rows from `start` until the box shrinks: (index after the last row done, answers used so far).

    phase = (share of yeses that decides, N_crit, cuts so far, stop side, squared least norm). Flat, as in box.py.
    stated_x, stated_y: ranges of the coordinates over the stated box of w. The cube reaches beyond it, so that bits
    which only a vector outside that box explains would never be doubted against the cube.
    """
    d = x.size
    asking, least, needed = y[0] - x[0] > phase[3], phase[4], phase[1]
    sure, seen = doubt[1], int(doubt[2])
    for t in range(start, z.shape[0]):
        centre, reach, norm, best, j = 0.0, 0.0, 0.0, -1.0, 0
        for i in range(d):
            v = z[t, i]
            square = v * v
            centre += v * (x[i] + y[i])
            reach += abs(v) * (y[i] - x[i])
            norm += square
            j = i if square > best else j
            best = square if square > best else best
        centre *= 0.5
        errors[t] = abs(centre - target[t])
        sure += 0.5 * reach
        if best < cos_squared * norm or norm < least or not asking:
            continue
        bit = 1.0 if target[t] + noise[used] > centre else 0.0
        used += 1
        seen += 1
        positive = z[t, j] > 0.0
        if seen <= ALWAYS_BET or (seen & BET_MASK) == 0:
            slot = 2 * j if positive else 2 * j + 1
            low, high = 0.0, 0.0
            for i in range(d):
                start_i, end_i = max(x[i], stated_x[i]), min(y[i], stated_y[i])
                if start_i > end_i + 1e-9 * (stated_y[i] - stated_x[i]):
                    doubt[0] = math.inf  # cube and stated box have nothing in common
                low += min(z[t, i] * start_i, z[t, i] * end_i)
                high += max(z[t, i] * start_i, z[t, i] * end_i)
            bet(law, knots, tails, counts, doubt, slot, centre - 0.5 * (low + high), 0.5 * (high - low), bit)
        hits[j, 0] += 1.0
        hits[j, 1] += bit if positive else 1.0 - bit  # against the basis vector, "below" means "above"
        if hits[j, 0] >= needed and _end_phase(x, y, hits, phase, keep):
            start = t + 1
            break
    else:
        start = z.shape[0]
    doubt[1] = sure
    doubt[2] = seen
    return start, used


class OnlineBisection(StreamAttack):
    """A hypercube around w, cut in phases by counting the yeses of near-axis queries [choromanski2015].

    The threshold is the middle of the closed-form range, q.centre. A query within phi of a basis vector counts for
    it; once every direction has N_crit answers, each side keeps the 3/4 that its counter points to. With the
    published constants the box holds w with probability 1 - O(d log(dDT) / T^6), for queries of norm >= `min_norm`
    (the paper's margin is for unit queries; shorter ones are not asked). Bits are doubted against what the cube and the
    stated box of w have in common.
    Memory: d intervals and 2d counters. Time: O(dD) a query. T must be known, since N_crit depends on it.

    >>> from keyhole.oracles.noise import UniformNoise
    >>> attack = OnlineBisection(Subspace.blocks(4, 2), UniformNoise(1.0), horizon=10**6)
    >>> attack.side, math.ceil(attack.n_crit)
    (4.0, 3316)
    """

    def __init__(
        self,
        subspace: Subspace,
        noise: OracleNoise,
        *,
        horizon: int,
        constants: PublishedConstants = PublishedConstants(),  # noqa: B008 - a frozen value
        min_norm: float = 1.0,
    ) -> None:
        super().__init__(subspace, noise)
        if horizon < 3:
            raise ModelError(f"the horizon T is the length of the stream, at least 3, got {horizon}")
        if subspace.neighbourhood > 0:
            raise ModelError("the published algorithm needs queries on the subspace; use SequentialBisection")
        self.horizon, self.constants, self.min_norm = horizon, constants, min_norm
        size = math.sqrt(float(np.sum(np.maximum(subspace.lower**2, subspace.upper**2))))
        self._x, self._y = np.full(subspace.d, -size), np.full(subspace.d, size)
        self._stated = subspace.initial_box()
        self._hits = np.zeros((subspace.d, 2))
        stop = constants.stop_side(horizon)
        self._phase = np.array([0.0, 0.0, 0.0, stop, min_norm**2 * (1 - 1e-9)])
        self._passed = False
        self._cos_squared = constants.cos_phi(subspace.d) ** 2
        self._recompute()

    @property
    def side(self) -> float:
        """Present side of the hypercube."""
        return float(self._y[0] - self._x[0])

    @property
    def n_crit(self) -> float:
        """Answers per direction this phase needs."""
        return float(self._phase[1])

    @property
    def cuts(self) -> int:
        """Phases done: each cut every side once."""
        return int(self._phase[2])

    def box(self) -> tuple[Floats, Floats]:
        """Lower and upper ends of the coordinates."""
        return self._x.copy(), self._y.copy()

    def _recompute(self) -> None:
        low, dp = self.constants.rates(self.noise, self.side, self.min_norm)
        self._phase[0] = low + dp / 2
        self._phase[1] = self.constants.n_crit(self.horizon, dp)

    def _centre(self) -> Floats:
        return np.asarray((self._x + self._y) / 2, dtype=np.float64)

    def _aim(self, z: Floats, slack: float) -> float | None:
        squares = z[0] * z[0]
        norm = float(squares.sum())
        if self.side <= self._phase[3] or norm < self._phase[4] or squares.max() < self._cos_squared * norm:
            return None
        return float(z[0] @ self._centre())

    def _consume(
        self,
        z: Floats,
        slack: Floats,
        target: Floats,
        noise: Floats,
        errors: Floats,
        forced: float = math.nan,
    ) -> int:
        middle = float(z[0] @ self._centre())
        if not math.isnan(forced) and abs(forced - middle) > 1e-9 * (1 + abs(middle)):
            raise ModelError(
                f"OnlineBisection counts answers at the middle of the range, {middle:.6g}, not at {forced:.6g}; "
                "SequentialBisection takes any threshold"
            )
        used, at = 0, 0
        while at < len(z):
            cuts = self.cuts
            at, used = _phase_loop(
                at, used, z, target, noise, errors, self._x, self._y, self._hits, self._phase,
                self.constants.keep, self._cos_squared, self._law, self._knots, self._tails,
                self._doubt_counts, self._doubt, *self._stated,
            )  # fmt: skip
            if self.cuts > cuts:
                self._recompute()
        return used

    def _check_horizon(self) -> None:
        if self.queries_seen > self.horizon and not self._passed:
            self._passed = True
            warnings.warn(
                f"{self.queries_seen:,} queries are more than the horizon of {self.horizon:,} that N_crit was computed "
                "for: the published promise ends there; state a longer horizon",
                ModelWarning,
                stacklevel=3,
            )

    def _memory(self) -> dict[str, Floats]:
        return {"x": self._x, "y": self._y, "hits": self._hits, "phase": self._phase}

    def _setting(self) -> Floats:
        return np.array([self.horizon, self.constants.keep, self.constants.margin, self.min_norm])
