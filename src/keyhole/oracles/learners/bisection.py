"""OnlineBisection, as published, with its constants."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numba import njit

from keyhole.errors import ModelError
from keyhole.oracles.base import ModelWarning, UnaskedWarning
from keyhole.oracles.learners.betting import bet_on_phase
from keyhole.oracles.learners.stream_attack import StreamAttack
from keyhole.oracles.noise import Floats, OracleNoise
from keyhole.oracles.subspace import Subspace

LARGEST_MARGIN = 1 / 8  # lemma 4.2 takes a margin of at most this share of a side


@dataclass(frozen=True, slots=True)
class PublishedConstants:
    """The constants of [choromanski2015], where its text leaves them open filled in so that its lemmas hold.

    Read in the paper: the first sides 2 sqrt(D), one share `keep` in (1/2, 1) for all directions, p_1 and dp as two
    tails of the noise at a margin of the side, the decision at p_1 + dp/2, r = 2/p^2, a stop side of the shape
    log(T)/sqrt(T). Reconstructed: the values of keep, margin and phi, the 60 of N_crit, the factor 1 of the stop side.

    keep = 3/4 (share of a side that survives a cut), margin = 1/8 (of a side); cos phi follows from them, so that
    8 sin(phi/2) sqrt(d) = keep - 1/2 - margin (lemma 4.3): with these, cos phi = 1 - 1/(2048 d). N_crit = 60 log(T) /
    dp^2; stop side log(T)/sqrt(T). Others are refused where the lemmas do not hold for them.

    >>> round(PublishedConstants().phi(2), 7)
    0.0220975
    >>> math.ceil(PublishedConstants().n_crit(10**6, 1 / 8)), math.ceil(PublishedConstants().n_crit(10**6, 1 / 2))
    (53052, 3316)
    """

    keep: float = 0.75
    margin: float = 0.125

    def __post_init__(self) -> None:
        if not 0.5 < self.keep < 1:
            raise ModelError(f"keep is the share of a side that survives a cut, between 1/2 and 1, got {self.keep!r}")
        if not 0 < self.margin <= LARGEST_MARGIN or self.margin >= self.keep - 0.5:
            raise ModelError(
                f"margin is a share of a side, above 0, at most 1/8 and below keep - 1/2 = {self.keep - 0.5:g}, "
                f"got {self.margin!r}: what is left of keep - 1/2 is for queries at an angle to the basis"
            )

    def cos_phi(self, d: int) -> float:
        """Cosine of the largest angle to a basis vector at which a query is used: 1 - 2 sin^2(phi/2)."""
        return 1 - (self.keep - 0.5 - self.margin) ** 2 / (32 * d)

    def phi(self, d: int) -> float:
        """That angle, about (keep - 1/2 - margin) / (4 sqrt d)."""
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


Rows = tuple[Floats, Floats, Floats, Floats, np.ndarray]
"""Queries in coordinates z, true answers (target), the noise to come, and room for the errors and for the bits (-1: not
asked)."""
Cube = tuple[Floats, Floats, Floats, Floats]
"""Lower ends x and upper ends y, changed by a cut; the point w_approx that answers, and the ranges of the coordinates
that are possible at all, in the cube and in the stated box of w."""
Counters = tuple[Floats, Floats]
"""(N_i, N_i^+) of each direction; (share of yeses that decides, N_crit, cuts so far, stop side, squared least norm,
squared cos phi, keep, certified errors, queries shorter than the least norm)."""


@njit(cache=True, error_model="numpy")
def _shrink_hypercube(x: Floats, y: Floats, hits: Floats, phase: Floats) -> bool:
    """ShrinkHyperCube, if every direction has its answers; True if it was done."""
    for i in range(x.size):
        if hits[i, 0] < phase[1]:
            return False
    for i in range(x.size):
        if hits[i, 1] > hits[i, 0] * phase[0]:
            x[i] = y[i] - phase[6] * (y[i] - x[i])
        else:
            y[i] = x[i] + phase[6] * (y[i] - x[i])
        hits[i, 0] = 0.0
        hits[i, 1] = 0.0
    phase[2] += 1.0
    return True


@njit(cache=True, error_model="numpy")
def _count_phase(rows: Rows, cube: Cube, counters: Counters) -> tuple[int, int]:
    """Rows of one phase, up to its cut: (rows done, answers used)."""
    z, target, noise, errors, said = rows
    x, y, approx, ranges = cube
    hits, phase = counters
    asking, needed, least, cos_squared = y[0] - x[0] > phase[3], phase[1], phase[4], phase[5]
    used, sure, short = 0, 0.0, 0.0
    for t in range(z.shape[0]):
        centre, answer, above, below, norm, best, j = 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0
        for i in range(x.size):
            v = z[t, i]
            square = v * v
            centre += v * (x[i] + y[i])
            answer += v * approx[i]
            low, high = v * (ranges[i, 0] - approx[i]), v * (ranges[i, 1] - approx[i])
            above += max(low, high)
            below -= min(low, high)
            norm += square
            j = i if square > best else j
            best = square if square > best else best
        errors[t] = abs(answer - target[t])
        sure += max(above, below)
        said[t] = -1
        short += 1.0 if norm < least and asking else 0.0
        if best < cos_squared * norm or norm < least or not asking:
            continue
        bit = 1.0 if target[t] + noise[used] > 0.5 * centre else 0.0
        said[t] = int(bit)
        used += 1
        hits[j, 0] += 1.0
        hits[j, 1] += bit if z[t, j] > 0.0 else 1.0 - bit  # against the basis vector, "below" means "above"
        if hits[j, 0] >= needed and _shrink_hypercube(x, y, hits, phase):
            phase[7] += sure
            phase[8] += short
            return t + 1, used
    phase[7] += sure
    phase[8] += short
    return z.shape[0], used


class OnlineBisection(StreamAttack):
    """A hypercube around w, cut in phases by counting the yeses of near-axis queries [choromanski2015].

    The threshold is the middle of the closed-form range, q.centre. A query within phi of a basis vector counts for
    it; once every direction has N_crit answers, each side keeps the 3/4 that its counter points to. With the
    published constants the box holds w with probability 1 - O(d log(dDT) / T^6), for queries of norm >= `min_norm`
    (the paper's margin is for unit queries; shorter ones are not asked, and an `UnaskedWarning` says so). Answers are
    those of the point of the cube that is nearest to its centre and in the stated box of w: the paper allows any point.
    Bits are doubted against what the cube and the stated box have in common.
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
        cos_squared = constants.cos_phi(subspace.d) ** 2
        least = min_norm**2 * (1 - 1e-9)
        self._phase = np.array([0.0, 0.0, 0.0, stop, least, cos_squared, constants.keep, 0.0, 0.0])
        self._passed = self._short = False
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

    def _possible(self) -> tuple[Floats, Floats]:
        """What the cube and the stated box have in common; the cube's end that is nearer where that is nothing."""
        low, high = np.maximum(self._x, self._stated[0]), np.minimum(self._y, self._stated[1])
        low, high = np.minimum(low, self._y), np.maximum(high, self._x)
        return low, np.maximum(low, high)

    def _is_disjoint(self) -> bool:
        """Have cube and stated box nothing in common?"""
        room = 1e-9 * (self._stated[1] - self._stated[0])
        return bool(np.any(np.maximum(self._x, self._stated[0]) > np.minimum(self._y, self._stated[1]) + room))

    def _ranges(self) -> tuple[Floats, Floats]:
        return self._possible()

    def _centre(self) -> Floats:
        low, high = self._possible()
        return np.asarray(np.clip((self._x + self._y) / 2, low, high), dtype=np.float64)

    def _aim(self, z: Floats, slack: float) -> float | None:
        squares = z[0] * z[0]
        norm = float(squares.sum())
        if self.side <= self._phase[3]:
            return None
        if norm < self._phase[4]:
            self._phase[8] += 1
            self._tell_short(self.queries_seen)
            return None
        if squares.max() < self._phase[5] * norm:
            return None
        return float(z[0] @ (self._x + self._y) / 2)

    def _consume(
        self,
        z: Floats,
        slack: Floats,
        target: Floats,
        noise: Floats,
        errors: Floats,
        forced: float = math.nan,
    ) -> int:
        middle = float(z[0] @ (self._x + self._y) / 2)
        if not math.isnan(forced) and abs(forced - middle) > 1e-9 * (1 + abs(middle)):
            raise ModelError(
                f"OnlineBisection counts answers at the middle of the range, {middle:.6g}, not at {forced:.6g}; "
                "SequentialBisection takes any threshold"
            )
        used, at, said = 0, 0, np.empty(len(z), dtype=np.int8)
        while at < len(z):
            cuts, cube_middle = self.cuts, (self._x + self._y) / 2
            disjoint = self._is_disjoint()
            low, high = self._possible()
            ranges = np.column_stack([low, high])
            cube = (self._x, self._y, self._centre(), ranges)
            rows = (z[at:], target[at:], noise[used:], errors[at:], said)
            done, asked = _count_phase(rows, cube, (self._hits, self._phase))
            if disjoint and asked:
                self._doubt[0] = math.inf
            law, doubt = (self._law, self._knots, self._tails), (self._doubt_counts, self._doubt)
            bet_on_phase(z[at : at + done], said[:done], ranges, cube_middle, int(self._doubt[2]), law, doubt)
            at, used, self._doubt[2] = at + done, used + asked, self._doubt[2] + asked
            self._doubt[1], self._phase[7] = self._doubt[1] + self._phase[7], 0.0
            if self.cuts > cuts:
                self._recompute()
        return used

    def _tell_short(self, queries: int) -> None:
        """Once: some queries are too short for the margin of the paper."""
        if self._phase[8] and not self._short:
            self._short = True
            some = f"{int(self._phase[8]):,} of {queries:,} queries are" if queries >= self._phase[8] else "a query is"
            warnings.warn(
                f"{some} shorter than {self.min_norm:g} and not asked: the published margin is for queries of that "
                "norm at least. State a smaller norm (min_norm), scale the queries, or learn with sequential or newton",
                UnaskedWarning,
                stacklevel=4,
            )

    def _check_stream(self) -> None:
        self._tell_short(self.queries_seen)
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
