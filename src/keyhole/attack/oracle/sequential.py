"""SequentialBisection: the same box, cut by an anytime-valid likelihood-ratio test with the exact gap."""

from __future__ import annotations

import numpy as np
from numba import njit

from keyhole.attack.oracle.base import StreamAttack
from keyhole.attack.oracle.box import aim, box_holds, doubt_model, test_side, weigh
from keyhole.attack.oracle.noise import Floats, Noise
from keyhole.attack.oracle.subspace import Subspace
from keyhole.errors import ModelError

CENTRE, EDGE = 0, 1


@njit(cache=True)
def learn_bit(
    z: Floats,
    slack: float,
    threshold: float,
    bit: int,
    x: Floats,
    y: Floats,
    score: Floats,
    cuts: Floats,
    keep: float,
    delta: float,
    law: Floats,
    knots: Floats,
    tails: Floats,
    counts: Floats,
    doubt: Floats,
) -> None:
    """One bit at any threshold: doubt the model, then test the direction it speaks about."""
    j, centre, gap, reach = aim(z, x, y, keep, slack)
    slot = 2 * j + (1 if z[j] < 0.0 else 0)
    doubt_model(law, knots, tails, counts, doubt, slot, threshold - centre, reach, bit)
    if gap > 0.0:
        evidence = weigh(law, knots, tails, threshold, centre, gap, bit)
        if evidence != 0.0:
            test_side(z, x, y, score, cuts, keep, delta, j, evidence)


@njit(cache=True)
def _loop(
    offset: float,
    z: Floats,
    known: Floats,
    slack: Floats,
    hidden: Floats,
    noise: Floats,
    errors: Floats,
    x: Floats,
    y: Floats,
    score: Floats,
    cuts: Floats,
    keep: float,
    delta: float,
    law: Floats,
    knots: Floats,
    tails: Floats,
    counts: Floats,
    doubt: Floats,
    meter: Floats,
) -> int:
    """A piece of the stream. offset 0: thresholds at the centre; offset > 0: at the noise's edge."""
    used = 0
    for t in range(z.shape[0]):
        row = z[t]
        j, centre, gap, reach = aim(row, x, y, keep, slack[t])
        errors[t] = abs(centre + known[t] - hidden[t])
        meter[0] += reach
        if gap <= 0.0:
            continue
        threshold = centre if offset == 0.0 else centre - gap + offset
        bit = 1 if hidden[t] + noise[used] > threshold + known[t] else 0
        used += 1
        slot = 2 * j + (1 if row[j] < 0.0 else 0)
        doubt_model(law, knots, tails, counts, doubt, slot, threshold - centre, reach, bit)
        evidence = weigh(law, knots, tails, threshold, centre, gap, bit)
        if evidence != 0.0:
            test_side(row, x, y, score, cuts, keep, delta, j, evidence)
    return used


class SequentialBisection(StreamAttack):
    """A box that never loses w: Pr(w ever leaves it) <= delta, for all T at once.

    Conditions: w in the stated box, the noise law as stated, fresh noise per answer. Nothing is assumed of the queries
    (any norms, any directions, chosen adaptively, near the subspace if `neighbourhood` says so), and T is not
    needed. Each direction keeps a sequential likelihood ratio [wald1945] with the exact gap of the query at hand
    (see box.py) and loses the share 1 - keep of its side when it passes log(d (k+1)(k+2) / delta).
    A query with no positive gap is answered but not asked. Memory: 4d numbers. Time: O(dD) a query.

    >>> from keyhole.attack.oracle.base import ThresholdOracle
    >>> from keyhole.attack.oracle.noise import Uniform
    >>> attack = SequentialBisection(Subspace.blocks(4, 2), Uniform(0.5), delta=0.01)
    >>> oracle = ThresholdOracle(np.array([0.9, 0.8, 0.1, 0.3]), Uniform(0.5), rng=np.random.default_rng(7))
    >>> queries = np.tile(attack.subspace.basis, (2000, 1))
    >>> run = attack.run(queries, oracle)
    >>> run.contained, run.final_error < 0.05, [round(float(v), 2) for v in attack.estimate()]
    (True, True, [0.86, 0.86, 0.21, 0.21])
    """

    _threshold_offset = 0.0

    def __init__(self, subspace: Subspace, noise: Noise, *, delta: float = 0.01, keep: float = 0.85) -> None:
        super().__init__(subspace, noise)
        if not 0 < delta < 1:
            raise ModelError(f"delta is the chance of losing w, between 0 and 1, got {delta!r}")
        if not 0.5 < keep < 1:
            raise ModelError(f"keep is the share of a side that survives a cut, between 1/2 and 1, got {keep!r}")
        self.delta, self.keep = delta, keep
        self._x, self._y = subspace.initial_box()
        self._score, self._cuts = np.zeros(subspace.d), np.zeros(subspace.d)

    @property
    def cuts(self) -> int:
        """Cuts so far, over all directions."""
        return int(self._cuts.sum())

    def box(self) -> tuple[Floats, Floats]:
        """Certified lower and upper ends of the coordinates e_j.w."""
        return self._x.copy(), self._y.copy()

    def holds(self, hidden: Floats) -> bool | None:
        return box_holds(self._x, self._y, self.subspace.coordinates(hidden))

    def _centre(self) -> Floats:
        return (self._x + self._y) / 2

    def _aim(self, z: Floats, slack: float) -> float | None:
        _, centre, gap, _ = aim(z, self._x, self._y, self.keep, slack)
        if gap <= 0:
            return None
        return float(centre if self._threshold_offset == 0 else centre - gap + self._threshold_offset)

    def _take(self, z: Floats, slack: float, threshold: float, bit: int) -> None:
        learn_bit(
            z, slack, threshold, bit, self._x, self._y, self._score, self._cuts, self.keep, self.delta,
            self._law, self._knots, self._tails, self._doubt_counts, self._doubt,
        )  # fmt: skip

    def _consume(
        self, z: Floats, known: Floats, slack: Floats, hidden: Floats, noise: Floats, errors: Floats
    ) -> int:
        return int(
            _loop(
                self._threshold_offset, z, known, slack, hidden, noise, errors, self._x, self._y, self._score,
                self._cuts, self.keep, self.delta, self._law, self._knots, self._tails, self._doubt_counts,
                self._doubt, self._meter,
            )
        )  # fmt: skip

    def _memory(self) -> dict[str, Floats]:
        return {"x": self._x, "y": self._y, "score": self._score, "cuts": self._cuts}

    def _setting(self) -> Floats:
        return np.array([self.delta, self.keep])
