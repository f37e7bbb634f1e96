"""EdgeBisection: where the noise has a jump at a known edge, one yes is a proof and errors fall like 1/t."""

from __future__ import annotations

from keyhole.errors import ModelError
from keyhole.oracle.box import EDGE
from keyhole.oracle.noise import OracleNoise
from keyhole.oracle.sequential import SequentialBisection
from keyhole.oracle.subspace import Subspace
from keyhole.oracle.tails import Floats


class EdgeBisection(SequentialBisection):
    """SequentialBisection with the threshold at the noise's upper edge.

    threshold = edge + max{ q.y : y in the box with c_j in its low end }. Noise never exceeds its edge, so a single
    yes proves that c_j is not in the low end; a no speaks against the high end with weight log(1 - g/(2 edge))
    for uniform noise. A cut then costs about 2 edge log(1/delta)/gap answers instead of (edge/gap)^2: the box shrinks
    like 1/t, below the 1/sqrt(t) floor of central thresholds. No contradiction: that floor needs a noise law
    without a jump. The guarantee Pr(the box ever loses w) <= delta is inherited, under the same conditions.

    >>> from keyhole.oracle.noise import GaussianNoise, UniformNoise
    >>> EdgeBisection(Subspace.blocks(4, 2), UniformNoise(1.0)).delta
    0.01
    >>> EdgeBisection(Subspace.blocks(4, 2), GaussianNoise(1.0))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    keyhole.errors.ModelError: edge thresholds need noise whose density jumps ...: use OneBitNewton (--method newton)
    """

    _aiming = EDGE

    def __init__(self, subspace: Subspace, noise: OracleNoise, *, delta: float = 0.01, keep: float = 0.75) -> None:
        super().__init__(subspace, noise, delta=delta, keep=keep)
        if noise.edge is None:
            raise ModelError(
                "edge thresholds need noise whose density jumps at a known edge: use OneBitNewton (--method newton)"
            )
        if noise.edge <= 0 or noise.cdf(noise.edge) < 1:
            raise ModelError(f"the noise's edge {noise.edge:g} must be the positive upper end of its support")
        self._edge = noise.edge

    def _aim(self, z: Floats, slack: float) -> float | None:
        gap = self._gap(z, slack)
        return float(z[0] @ self._centre()) - gap + self._edge if gap > 0 else None
