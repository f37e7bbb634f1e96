"""EdgeBisection: where the noise has a jump at a known edge, one yes is a proof and errors fall like 1/t."""

from __future__ import annotations

from keyhole.errors import ModelError
from keyhole.oracles.certify.tails import Floats
from keyhole.oracles.learners.box import EDGE, EDGES
from keyhole.oracles.learners.sequential import SequentialBisection
from keyhole.oracles.noise import EvenNoise, OracleNoise
from keyhole.oracles.subspace import Subspace


def edge_of(noise: OracleNoise) -> float:
    """The upper end of the noise, where its density jumps; noise without one is a `ModelError`.

    >>> from keyhole.oracles.noise import UniformNoise
    >>> edge_of(UniformNoise(0.5))
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
        self._edge = edge_of(noise)
        self._aiming = EDGES if isinstance(noise, EvenNoise) else EDGE

    def _aim(self, z: Floats, slack: float) -> float | None:
        gap = self._gap(z, slack)
        if gap <= 0:
            return None
        down = self._aiming == EDGES and int(self._doubt[2]).bit_count() % 2 == 1
        return float(z[0] @ self._centre()) + (gap - self._edge if down else self._edge - gap)
