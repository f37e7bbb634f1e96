"""OnlineBisection, as published, with its constants."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from keyhole.attack.oracle.base import StreamAttack
from keyhole.attack.oracle.box import box_holds, dot, doubt_model
from keyhole.attack.oracle.noise import Floats, Noise
from keyhole.attack.oracle.subspace import Subspace
from keyhole.errors import ModelError


@dataclass(frozen=True, slots=True)
class PublishedConstants:
    """The constants of [choromanski2015], where its text leaves them open filled in so that its lemmas hold.

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

    def rates(self, noise: Noise, side: float, norm: float) -> tuple[float, float]:
        """(p_1, dp): chance of a yes when w is `margin` sides below, and how much larger it is when as far above."""
        step = self.margin * side * norm
        low = 1 - noise.cdf(step)
        return low, (1 - noise.cdf(-step)) - low

    def n_crit(self, horizon: int, dp: float) -> float:
        """Answers needed per direction before a cut."""
        return 60 * math.log(horizon) / dp**2

    def stop_side(self, horizon: int) -> float:
        """No cut once the side is this short."""
        return math.log(horizon) / math.sqrt(horizon)


@njit(cache=True)
def _direction(z: Floats, norm: float, cos_phi: float) -> int:
    """The basis vector within phi of the query (either sign), or -1."""
    for j in range(z.size):
        if abs(z[j]) >= cos_phi * norm:
            return j
    return -1


@njit(cache=True)
def _count(
    z: Floats, x: Floats, y: Floats, hits: Floats, phase: Floats, keep: float, j: int, bit: int
) -> bool:
    """One counter step; True when the phase is over and the box was shrunk. phase = (cut rate, N_crit, ...)."""
    hits[j, 0] += 1.0
    # a query against the basis vector says "below" where its opposite says "above"
    hits[j, 1] += bit if z[j] > 0.0 else 1 - bit
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


@njit(cache=True)
def _centre_and_reach(z: Floats, x: Floats, y: Floats) -> tuple[float, float]:
    centre, reach = 0.0, 0.0
    for i in range(z.size):
        centre += z[i] * (x[i] + y[i])
        reach += abs(z[i]) * (y[i] - x[i])
    return 0.5 * centre, 0.5 * reach


@njit(cache=True)
def _phase_loop(
    start: int,
    z: Floats,
    known: Floats,
    slack: Floats,
    hidden: Floats,
    noise: Floats,
    errors: Floats,
    x: Floats,
    y: Floats,
    hits: Floats,
    phase: Floats,
    keep: float,
    cos_phi: float,
    law: Floats,
    knots: Floats,
    tails: Floats,
    counts: Floats,
    doubt: Floats,
    meter: Floats,
    used: Floats,
) -> int:
    """Rows from `start` until the box shrinks; the index after the last row done."""
    asking, least = y[0] - x[0] > phase[3], phase[4]
    for t in range(start, z.shape[0]):
        row = z[t]
        centre, reach = _centre_and_reach(row, x, y)
        errors[t] = abs(centre + known[t] - hidden[t])
        meter[0] += reach + slack[t]
        if not asking:
            continue
        norm = math.sqrt(dot(row, row))
        j = _direction(row, norm, cos_phi)
        if j < 0 or norm < least:
            continue
        bit = 1 if hidden[t] + noise[int(used[0])] > centre + known[t] else 0
        used[0] += 1.0
        slot = 2 * j + (1 if row[j] < 0.0 else 0)
        doubt_model(law, knots, tails, counts, doubt, slot, 0.0, reach + slack[t], bit)
        if _count(row, x, y, hits, phase, keep, j, bit):
            return t + 1
    return z.shape[0]


class OnlineBisection(StreamAttack):
    """A hypercube around w, cut in phases by counting the yeses of near-axis queries [choromanski2015].

    The threshold is the middle of the closed-form range, q.centre. A query within phi of a basis vector counts for
    it; once every direction has N_crit answers, each side keeps the 3/4 that its counter points to. With the
    published constants the box holds w with probability 1 - O(d log(dDT) / T^6), for queries of norm >= `min_norm`
    (the paper's margin is for unit queries; shorter ones are not asked).
    Memory: d intervals and 2d counters. Time: O(dD) a query. T must be known, since N_crit depends on it.

    >>> from keyhole.attack.oracle.noise import Uniform
    >>> attack = OnlineBisection(Subspace.blocks(4, 2), Uniform(1.0), horizon=10**6)
    >>> attack.side, math.ceil(attack.n_crit)
    (4.0, 3316)
    """

    def __init__(
        self,
        subspace: Subspace,
        noise: Noise,
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
        self._hits = np.zeros((subspace.d, 2))
        stop = constants.stop_side(horizon)
        self._phase = np.array([0.0, 0.0, 0.0, stop, min_norm * (1 - 1e-9)])
        self._cos_phi = constants.cos_phi(subspace.d)
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

    def holds(self, hidden: Floats) -> bool | None:
        return box_holds(self._x, self._y, self.subspace.coordinates(hidden))

    def _recompute(self) -> None:
        low, dp = self.constants.rates(self.noise, self.side, self.min_norm)
        self._phase[0] = low + dp / 2
        self._phase[1] = self.constants.n_crit(self.horizon, dp)

    def _centre(self) -> Floats:
        return (self._x + self._y) / 2

    def _aim(self, z: Floats, slack: float) -> float | None:
        norm = math.sqrt(dot(z, z))
        if self.side <= self._phase[3] or norm < self._phase[4] or _direction(z, norm, self._cos_phi) < 0:
            return None
        return float(_centre_and_reach(z, self._x, self._y)[0])

    def _take(self, z: Floats, slack: float, threshold: float, bit: int) -> None:
        centre, reach = _centre_and_reach(z, self._x, self._y)
        if abs(threshold - centre) > 1e-9 * (1 + abs(centre)):
            raise ModelError(
                f"OnlineBisection counts answers at the middle of the range, {centre:.6g}, not at {threshold:.6g}; "
                "SequentialBisection takes any threshold"
            )
        j = _direction(z, math.sqrt(dot(z, z)), self._cos_phi)
        if j < 0:
            return
        slot = 2 * j + (1 if z[j] < 0 else 0)
        doubt_model(
            self._law, self._knots, self._tails, self._doubt_counts, self._doubt, slot, 0.0, reach + slack, bit
        )
        if _count(z, self._x, self._y, self._hits, self._phase, self.constants.keep, j, bit):
            self._recompute()

    def _consume(
        self, z: Floats, known: Floats, slack: Floats, hidden: Floats, noise: Floats, errors: Floats
    ) -> int:
        used, at = np.zeros(1), 0
        while at < len(z):
            cuts = self.cuts
            at = _phase_loop(
                at, z, known, slack, hidden, noise, errors, self._x, self._y, self._hits, self._phase,
                self.constants.keep, self._cos_phi, self._law, self._knots, self._tails, self._doubt_counts,
                self._doubt, self._meter, used,
            )  # fmt: skip
            if self.cuts > cuts:
                self._recompute()
        return int(used[0])

    def _memory(self) -> dict[str, Floats]:
        return {"x": self._x, "y": self._y, "hits": self._hits, "phase": self._phase}

    def _setting(self) -> Floats:
        return np.array([self.horizon, self.constants.keep, self.constants.margin, self.min_norm])
