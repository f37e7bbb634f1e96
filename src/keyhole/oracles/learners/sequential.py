"""SequentialBisection: the box cut by an anytime-valid likelihood-ratio test with the exact gap; EdgeBisection: its
threshold at an edge of the noise, where one yes is a proof and errors fall like 1/t.
"""

from __future__ import annotations

import math

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.learners.box import CENTRE, EDGE, EDGES, Aim, AskedRows, CutBox, Doubt, PackedLaw, certified_loop
from keyhole.oracles.learners.stream_attack import StreamAttack
from keyhole.oracles.noise import EvenNoise, Floats, OracleNoise
from keyhole.oracles.subspace import Subspace


def require_edge(noise: OracleNoise) -> float:
    """The upper end of the noise, where its density jumps; noise without one is a `ModelError`.

    >>> from keyhole.oracles.noise import UniformNoise
    >>> require_edge(UniformNoise(0.5))
    0.5
    """
    if noise.edge is None:
        raise ModelError(
            "edge thresholds need noise whose density jumps at a known edge: state it if it is uniform "
            "(UniformNoise, --noise uniform:HALF-WIDTH), or learn with newton (OneBitNewton), which needs no edge"
        )
    if noise.edge <= 0 or noise.cdf(noise.edge) < 1:
        raise ModelError(f"the noise's edge {noise.edge:g} must be the positive upper end of its support")
    return noise.edge


class SequentialBisection(StreamAttack):
    """A box that never loses w: Pr(w ever leaves it) <= delta, for all T at once.

    Conditions: w in the stated box, the noise law as stated, fresh noise per answer. Nothing is assumed of the queries
    (any norms, any directions, chosen adaptively, near the subspace if `neighbourhood` says so), and T is not
    needed. Each direction keeps a sequential likelihood ratio [wald1945] with the exact gap of the query at hand
    (see box.py) and loses the share 1 - keep of its side when its odds pass d (k+1)(k+2) / delta, k cuts before.
    A query with no positive gap is answered but not asked. Memory: 4d numbers. Time: O(dD) a query.

    >>> from keyhole.oracles.base import ThresholdOracle
    >>> from keyhole.oracles.noise import UniformNoise
    >>> attack = SequentialBisection(Subspace.blocks(4, 2), UniformNoise(0.5), delta=0.01)
    >>> oracle = ThresholdOracle(np.array([0.9, 0.8, 0.1, 0.3]), UniformNoise(0.5), rng=np.random.default_rng(7))
    >>> queries = np.tile(attack.subspace.basis, (2000, 1))
    >>> run = attack.run(queries, oracle)
    >>> run.contained, run.final_error < 0.05, [round(float(v), 2) for v in attack.estimate()]
    (True, True, [0.84, 0.84, 0.2, 0.2])
    """

    _aiming = CENTRE

    def __init__(self, subspace: Subspace, noise: OracleNoise, *, delta: float = 0.01, keep: float = 0.85) -> None:
        super().__init__(subspace, noise)
        if not 0 < delta < 1:
            raise ModelError(f"delta is the chance of losing w, between 0 and 1, got {delta!r}")
        if not 0.5 < keep < 1:
            raise ModelError(f"keep is the share of a side that survives a cut, between 1/2 and 1, got {keep!r}")
        self.delta, self.keep = delta, keep
        self._x, self._y = subspace.initial_box()
        self._odds = np.ones((subspace.d, 2))
        self._bars = np.column_stack([np.full(subspace.d, 2 * subspace.d / delta), np.zeros(subspace.d)])
        self._edge, self._coarse = 0.0, 0.0
        self._c, self._P, self._Pz = np.zeros(0), np.zeros((0, 0)), np.zeros(0)
        self._grid, self._table = np.zeros(3), np.zeros((1, 2))

    @property
    def cuts(self) -> int:
        """Cuts so far, over all directions."""
        return int(self._bars[:, 1].sum())

    def box(self) -> tuple[Floats, Floats]:
        """Certified lower and upper ends of the coordinates e_j.w."""
        return self._x.copy(), self._y.copy()

    def _centre(self) -> Floats:
        return (self._x + self._y) / 2

    def _gap(self, z: Floats, slack: float) -> float:
        reach = np.abs(z[0]) * (self._y - self._x)
        best, total = float(reach.max()), float(reach.sum())
        return best * (self.keep - 0.5) - 0.5 * (total - best) - slack

    def _aim(self, z: Floats, slack: float) -> float | None:
        return float(z[0] @ self._centre()) if self._gap(z, slack) > 0 else None

    def _consume(
        self,
        z: Floats,
        slack: Floats,
        target: Floats,
        noise: Floats,
        errors: Floats,
        forced: float = math.nan,
    ) -> int:
        if not math.isnan(forced) and self._law[6] != 1.0 and self._aiming == CENTRE:
            self._within(z, float(slack[0]), forced)
        aim = (self._aiming, forced, self._edge, self._coarse)
        return self._loop((z, slack, target, noise, errors), aim)

    def _within(self, z: Floats, slack: float, threshold: float) -> None:
        """A steep output's law bounds answers only for thresholds between the two ends of the side."""
        gap, centre = self._gap(z, slack), float(z[0] @ self._centre())
        if gap > 0 and abs(threshold - centre) > gap * (1 + 1e-9):
            raise ModelError(
                f"with SteepNoise a threshold lies within {gap:.6g} of the centre {centre:.6g}, got {threshold:.6g}: "
                "further off its slope is not bounded, and nothing would be certified"
            )

    def _loop(self, rows: AskedRows, aim: Aim) -> int:
        return int(certified_loop(rows, aim, *self._state()))

    def _state(self) -> tuple[CutBox, PackedLaw, Doubt]:
        """The box, the law and the doubts, as the compiled loops take them."""
        box = (self._x, self._y, self._odds, self._bars, self.keep, self.delta)
        return box, (self._law, self._knots, self._tails), (self._doubt_counts, self._doubt)

    def _memory(self) -> dict[str, Floats]:
        return {"x": self._x, "y": self._y, "odds": self._odds, "bars": self._bars, "c": self._c, "P": self._P}

    def _setting(self) -> Floats:
        return np.array([self.delta, self.keep])


class EdgeBisection(SequentialBisection):
    """SequentialBisection with the threshold at an edge of the noise: for uniform noise either one, as by a coin.

    threshold = edge + max{ q.y : y in the box with c_j in its low end }, or the same from below. Noise never exceeds
    its edge, so a single yes proves that c_j is not in the low end; a no speaks against the high end with weight
    log(1 - g/(2 edge)) for uniform noise. A cut then costs about 2 edge log(1/delta)/gap answers instead of
    (edge/gap)^2: the box shrinks like 1/t, below the 1/sqrt(t) floor of central thresholds. No contradiction: that
    floor needs a noise law without a jump. The guarantee Pr(the box ever loses w) <= delta is inherited, under the same
    conditions.

    An edge known to lie in an interval is `UniformBetween(low, high)`: proofs come from `high`, counter-evidence from
    `low`, and cuts end when the gap is the width of the interval. An edge that is wrong is noticed once the box is
    about as small as the mistake: proofs from above and below then come too often (edge stated too small) or hardly
    ever (too large), and at odds of a million to one a `ModelWarning` says so. Before that the box may have lost w by
    as much as the mistake, and no test could tell: `edge_free` says where w is whatever the edge. Both need uniform
    noise; a custom law with a jump has one known edge, and is not watched.

    >>> from keyhole.oracles.noise import GaussianNoise, UniformNoise
    >>> EdgeBisection(Subspace.blocks(4, 2), UniformNoise(1.0)).delta
    0.01
    >>> EdgeBisection(Subspace.blocks(4, 2), GaussianNoise(1.0))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    keyhole.errors.ModelError: edge thresholds need noise whose density jumps at a known edge: ...
    """

    _aiming = EDGE

    def __init__(self, subspace: Subspace, noise: OracleNoise, *, delta: float = 0.01, keep: float = 0.75) -> None:
        super().__init__(subspace, noise, delta=delta, keep=keep)
        self._edge = require_edge(noise)
        self._aiming = EDGES if isinstance(noise, EvenNoise) else EDGE

    def _aim(self, z: Floats, slack: float) -> float | None:
        gap = self._gap(z, slack)
        if gap <= 0:
            return None
        down = self._aiming == EDGES and int(self._doubt[2]).bit_count() % 2 == 1
        return float(z[0] @ self._centre()) + (gap - self._edge if down else self._edge - gap)
