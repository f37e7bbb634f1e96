"""What fresh answers say of w without the edge: uniform noise of any width, seen from both of its ends."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from keyhole.errors import ModelError
from keyhole.oracles.base import YesNoOracle
from keyhole.oracles.learners.sequential import EdgeBisection, require_edge
from keyhole.oracles.noise import EvenNoise, Floats, UniformBetween

PROOFS = 8  # answers from beyond a threshold that are aimed at, for each direction and end
ALONG = 0.5  # of a query's coordinate along a direction: what its others may add up to, or 3/4 over d - 1 directions
SHORT = 0.5  # of the longest coordinate along a direction: shorter queries are not used


@dataclass(frozen=True, slots=True, eq=False)
class EdgeFreeCertificate:
    """|c_j - centre_j| <= half_j for every coordinate with probability 1 - delta; `why` not, where half is infinite."""

    centre: Floats
    half: Floats
    why: str = ""

    def box(self) -> tuple[Floats, Floats]:
        """Lower and upper ends of the coordinates."""
        return self.centre - self.half, self.centre + self.half


def certify_without_edge(
    attack: EdgeBisection, queries: Floats, oracle: YesNoOracle, *, delta: float = 0.01
) -> EdgeFreeCertificate:
    """Ask fresh queries around the attack's estimate; where w is then, whatever the half-width a of the uniform noise.

    EdgeBisection's own box rests on the edge to the last digit. Here a query z near direction j is asked at
    z.centre + h or z.centre - h, by turns. With v = z.(c - centre) the chance of an answer from beyond is
    p = (v + a - h)/(2a) above and (a - h - v)/(2a) below, cut to [0, 1]. An answer from beyond below proves a > h + v;
    so v <= h - a (1 - 2p) < h - (h + v)(1 - 2p), which is v <= h p/(1 - p), for any a, if p < 1/2. p is at most what
    makes so few answers from beyond as were seen a chance of delta/(2d) (exact binomial; the least v of a direction
    stands for all, so they may differ). The inequalities m_j (e_j - sum_i r_ji e_i) <= h p_j/(1 - p_j) for
    e_j = |c_j - centre_j|, m_j the least |z_j| and r_ji the largest |z_i/z_j| of direction j, are then solved.

    Guarantee: the box holds w with probability 1 - delta, if the noise is uniform, centred and drawn anew; nothing is
    asked of the stated edge. With N answers a direction and end, half of it is about 20 a/N. Time O(dD) a query.

    >>> from keyhole.oracles.base import ThresholdOracle
    >>> from keyhole.oracles.noise import UniformNoise
    >>> from keyhole.oracles.streams import Concentrated
    >>> from keyhole.oracles.subspace import Subspace
    >>> space, rng, w = Subspace.blocks(4, 2), np.random.default_rng(0), np.array([0.9, 0.8, 0.1, 0.3])
    >>> attack, oracle = EdgeBisection(space, UniformNoise(1.0)), ThresholdOracle(w, UniformNoise(1.01), rng=rng)
    >>> run = attack.run(Concentrated(space).block(2000, rng), oracle)  # the edge is stated too small by 1 %
    >>> found = certify_without_edge(attack, Concentrated(space).block(2000, rng), oracle)
    >>> bool(np.all(np.abs(space.coordinates(w) - found.centre) <= found.half)), bool(np.all(found.half < 0.1))
    (True, True)
    """
    if not 0 < delta < 1:
        raise ModelError(f"delta is the chance of losing w, between 0 and 1, got {delta!r}")
    space, centre = attack.subspace, attack.subspace.coordinates(attack.estimate())
    rows = np.ascontiguousarray(queries, dtype=np.float64)
    z, known, slack = space.project(rows)
    seen, limits, matrix = _Ends(attack, oracle, centre), np.zeros(space.d), np.zeros((space.d, space.d))
    for j in range(space.d):
        used = _along(z, j)
        most, h = seen.share(rows[used], z[used], known[used], slack[used], j, delta / (2 * space.d))
        if seen.why:
            return EdgeFreeCertificate(centre, np.full(space.d, math.inf), seen.why)
        limits[j] = h * most / (1 - most) + float(slack[used].max())
        least = float(np.abs(z[used, j]).min())
        matrix[j] = -least * np.max(np.abs(z[used] / z[used, j][:, None]), axis=0)
        matrix[j, j] = least
    inverse = np.linalg.inv(matrix) if np.linalg.cond(matrix) < 1e9 else -np.ones_like(matrix)
    if np.any(inverse < 0):
        return EdgeFreeCertificate(centre, np.full(space.d, math.inf), "the directions cannot be distinguished")
    return EdgeFreeCertificate(centre, np.asarray(inverse @ limits * (1 + 1e-9), dtype=np.float64))


def _along(z: Floats, j: int) -> list[int]:
    """Rows that point along direction j, and are not short there.

    >>> _along(np.array([[1.0, 0.1], [0.2, 0.05], [0.3, 0.9], [-0.9, 0.2]]), 0)
    [0, 3]
    """
    size = np.abs(z[:, j])
    near = np.abs(z).sum(axis=1) - size <= min(ALONG, 0.75 / max(1, z.shape[1] - 1)) * size
    longest = float(size[near].max()) if near.any() else math.inf
    return [int(k) for k in np.flatnonzero(near & (size >= SHORT * longest) & (size > 0))]


class _Ends:
    """Asks at both ends of the noise, and says `why` where nothing follows."""

    def __init__(self, attack: EdgeBisection, oracle: YesNoOracle, centre: Floats) -> None:
        self._oracle, self._centre, self.why = oracle, centre, ""
        self._box, noise = attack.box(), attack.noise
        self._edge = require_edge(noise)
        self._least = noise.low if isinstance(noise, UniformBetween) else self._edge
        if not isinstance(noise, EvenNoise):
            self.why = "only of uniform noise both ends are known to be alike"

    def share(
        self, rows: Floats, z: Floats, known: Floats, slack: Floats, j: int, chance: float
    ) -> tuple[float, float]:
        """The largest share of answers from beyond that is believable, at either end, and the distance h."""
        x, y = self._box
        if len(rows) < 4 or self.why:
            self.why = self.why or "too few queries are left that lie along one direction"
            return 1.0, 0.0
        reach = float(np.max(np.abs(z) @ (y - x))) / 2 + float(slack.max())
        h = self._least - max(4 * PROOFS * self._edge / len(rows), 2 * reach)
        if h <= 0:
            self.why = "too few queries are left, or the box is still as wide as the noise"
            return 1.0, 0.0
        beyond, asked = [0, 0], [0, 0]
        for k, q in enumerate(rows):
            side = k % 2
            up = (z[k, j] > 0) == (side == 0)  # side 0: towards larger coordinates
            at = float(z[k] @ self._centre) + float(known[k])
            beyond[side] += bool(self._oracle.above(q, at + h if up else at - h)) == up
            asked[side] += 1
        if not all(beyond):
            self.why = "the noise does not reach as far as was stated, or the estimate is far off"
            return 1.0, 0.0
        most = max(_at_most(k, n, chance) for k, n in zip(beyond, asked, strict=True))
        if most >= 0.5:  # else the inequality does not hold
            self.why = "too many answers came from beyond: too few queries are left, or the estimate is far off"
        return most, h


def _at_most(k: int, n: int, chance: float) -> float:
    """The largest p of which k of n, or fewer, are seen with at least this chance (Clopper and Pearson).

    >>> round(_at_most(0, 100, 0.05), 4)
    0.0295
    """
    return 1.0 if k >= n else min(1.0, float(betaincinv(k + 1, n - k, 1 - chance)) * (1 + 1e-9))
