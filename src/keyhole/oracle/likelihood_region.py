"""A certificate as tight as the estimate: an anytime-valid confidence ellipsoid from single bits, in any dimension.

For a guess g_s made before bit s, the likelihood ratio of the guesses against w, prod p(bit_s | g_s) / p(bit_s | w),
is a non-negative martingale under w. By Ville's inequality [ville1939]

    L_t(c) = sum_s log p(bit_s | g_s) - log p(bit_s | c) <= log(1/delta)    for c = w and all t at once,

with probability at least 1 - delta, whatever the queries, thresholds and guesses, as long as they depend on the past
alone. For log-concave noise -log p is convex in the margin z.c, and above its tangent at z.g_s by at least k_s/2 times
the squared distance, k_s its least mean curvature over the margins that the region still allows. So L_t is at least
a quadratic, and the region lies in an ellipsoid, kept in d^2 + O(d) numbers. On the same event w is in every earlier
region, so k_s may be taken from the region as it was.
"""

from __future__ import annotations

import math

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracle.noise import GaussianNoise, OracleNoise, UniformNoise
from keyhole.oracle.subspace import Subspace
from keyhole.oracle.tails import Floats

SURE = 1e-9  # a guess never gives a bit less probability than this: it could not be unsaid


class LikelihoodRegion:
    """Holds w with probability 1 - delta, for all t at once. Conditions: w in the stated box, the noise law as stated.

    Half-widths are about sqrt(2 log(1/delta) + d log t) deviations of the best estimate. Gaussian and uniform noise.
    Time O(d^2) a bit, in numpy. Queries near the subspace widen the margins by their slack.

    >>> from keyhole.oracle.base import ThresholdOracle
    >>> from keyhole.oracle.newton import OneBitNewton
    >>> space, noise = Subspace.blocks(4, 2), GaussianNoise(0.5)
    >>> w = np.array([0.9, 0.8, 0.1, 0.3])
    >>> attack, region = OneBitNewton(space, noise), LikelihoodRegion(space, noise)
    >>> oracle = ThresholdOracle(w, noise, rng=np.random.default_rng(7))
    >>> for q in np.tile(space.basis, (2000, 1)):
    ...     threshold, guess = attack.threshold(q), attack.estimate()
    ...     bit = oracle.above(q, threshold)
    ...     region.learn(q, threshold, bit, guess)
    ...     attack.learn(q, threshold, bit)
    >>> region.holds(w), [bool(round(float(s), 1) <= 0.2) for s in region.half_widths()]
    (True, [True, True])
    """

    def __init__(self, subspace: Subspace, noise: OracleNoise, *, delta: float = 0.01) -> None:
        if not 0 < delta < 1:
            raise ModelError(f"delta is the chance of losing w, between 0 and 1, got {delta!r}")
        if not isinstance(noise, GaussianNoise | UniformNoise):
            raise ModelError("a likelihood region needs Gaussian or uniform noise; the attack's own box needs neither")
        self.subspace, self.noise, self.delta = subspace, noise, delta
        self.x, self.y = subspace.initial_box()
        self.answers = 0
        self._base = (self.x + self.y) / 2  # coordinates are kept relative to it
        self._H = np.zeros((subspace.d, subspace.d))
        self._g = np.zeros(subspace.d)
        self._q0 = 0.0  # Q(c) = q0 + g.(c - base) + (c - base)' H (c - base) / 2 <= log(1/delta)
        self._inverse: Floats | None = None

    def learn(self, q: Floats, threshold: float, bit: int, guess: Floats) -> None:
        """Take in one bit; `guess` is a vector of length D that was named before it (any; the nearer, the tighter)."""
        if bit not in (0, 1):
            raise ModelError(f"an answer is 0 or 1, got {bit!r}")
        rows, known, slack = self.subspace.project(np.asarray(q, dtype=np.float64)[None, :])
        z, room = rows[0], float(slack[0])
        low, high = self._margins(z)
        at = min(max(float(z @ self.subspace.coordinates(guess)), low), high)
        self.answers += 1
        aim = threshold - float(known[0])
        sign = 1.0 if bit else -1.0
        # x = sign (margin - threshold): the likelihood of the bit grows with x, whichever bit it was
        x0, top = sign * (at - aim), max(sign * (low - aim), sign * (high - aim)) + room
        paid = -math.log(min(max(math.exp(-_loss(self.noise, x0)[0]), SURE), 1 - SURE))
        expand = max(x0 + room, -0.999 * (self.noise.edge or math.inf))
        value, slope = _loss(self.noise, expand)
        at += sign * (expand - room - x0)
        self._add(z, at, sign * slope, _curvature(self.noise, expand, top), value - paid)
        self._narrow()

    def _add(self, z: Floats, at: float, slope: float, curve: float, constant: float) -> None:
        """Add constant + slope (z.c - at) + curve/2 (z.c - at)^2."""
        off = at - float(z @ self._base)
        self._q0 += constant - slope * off + 0.5 * curve * off * off
        self._g += (slope - curve * off) * z
        self._H += curve * np.outer(z, z)
        if self._inverse is None:
            return
        Hz = self._inverse @ z
        self._inverse -= np.outer(Hz, Hz) * (curve / (1 + curve * float(z @ Hz)))

    def _factor(self) -> Floats | None:
        """The inverse of H, once it is there; refreshed now and then, since updates add rounding."""
        if self._inverse is None or self.answers % 512 == 0:
            spectrum = np.linalg.eigvalsh(self._H)
            ready = spectrum[0] > 1e-9 * max(spectrum[-1], 1e-300) and spectrum[0] > 0
            self._inverse = np.asarray(np.linalg.inv(self._H), dtype=np.float64) if ready else None
        return self._inverse

    def _ellipsoid(self) -> tuple[Floats, Floats, float] | None:
        """Centre, inverse of H and the squared radius: (c - centre)' H (c - centre) <= radius."""
        inverse = self._factor()
        if inverse is None:
            return None
        step = -inverse @ self._g
        least = self._q0 + 0.5 * float(self._g @ step)
        radius = 2 * (math.log(1 / self.delta) - least)
        return self._base + step, inverse, radius * (1 + 1e-9) + 1e-9

    def _margins(self, z: Floats) -> tuple[float, float]:
        """What z.c can be in the region: by the box and by the ellipsoid."""
        middle, reach = float(z @ (self.x + self.y)) / 2, float(np.abs(z) @ (self.y - self.x)) / 2
        low, high = middle - reach, middle + reach
        shape = self._ellipsoid()
        if shape is not None and shape[2] > 0:
            at = float(z @ shape[0])
            wide = math.sqrt(max(0.0, shape[2] * float(z @ shape[1] @ z)))
            if at - wide < high and at + wide > low:
                low, high = max(low, at - wide), min(high, at + wide)
        return low, high

    def _narrow(self) -> None:
        shape = self._ellipsoid()
        if shape is None or shape[2] <= 0:
            return
        half = np.sqrt(np.maximum(0.0, shape[2] * np.diag(shape[1])))
        x, y = np.maximum(self.x, shape[0] - half), np.minimum(self.y, shape[0] + half)
        if np.all(x <= y):
            self.x, self.y = x, y

    def box(self) -> tuple[Floats, Floats]:
        """Certified lower and upper ends of the coordinates: the box around all regions so far."""
        return self.x.copy(), self.y.copy()

    def half_widths(self) -> Floats:
        """Half the sides of the box."""
        return np.asarray((self.y - self.x) / 2, dtype=np.float64)

    def holds(self, hidden: Floats) -> bool:
        """Is this vector in the box, up to rounding of the projection?"""
        c = self.subspace.coordinates(hidden)
        room = 1e-9 * (1 + np.abs(c))
        return bool(np.all(c >= self.x - room) and np.all(c <= self.y + room))


def _loss(noise: GaussianNoise | UniformNoise, x: float) -> tuple[float, float]:
    """f(x) = -log Pr(noise > -x) and its slope.

    >>> f, slope = _loss(GaussianNoise(1.0), 0.0)
    >>> round(f, 4), round(slope, 4)
    (0.6931, -0.7979)
    """
    if isinstance(noise, UniformNoise):
        a = noise.half_width
        if x <= -a:
            return math.inf, -math.inf
        return (0.0, 0.0) if x >= a else (-math.log((x + a) / (2 * a)), -1 / (x + a))
    u = x / noise.std
    if u < -30:  # Mills' ratio: Pr ~ density / |u|
        return 0.5 * u * u + math.log(-u * math.sqrt(2 * math.pi)), (u - 1 / -u) / noise.std
    tail = 0.5 * math.erfc(-u / math.sqrt(2))
    return -math.log(tail), -math.exp(-0.5 * u * u) / (math.sqrt(2 * math.pi) * tail * noise.std)


def _curvature(noise: GaussianNoise | UniformNoise, x0: float, top: float) -> float:
    """The largest k with f(x) >= f(x0) + f'(x0)(x - x0) + k/2 (x - x0)^2 for all x <= top.

    f'' falls, so the mean curvature between x0 and x is least at the upper end; uniform noise is flat from its edge
    on, where the kink lifts it: there the edge and the end are looked at.
    """
    ends = [top] if isinstance(noise, GaussianNoise) or top <= noise.half_width else [noise.half_width, top]
    f0, slope = _loss(noise, x0)
    found = math.inf
    for x in ends:
        step = x - x0
        if step < 1e-6 * noise.std:
            step = 1e-3 * noise.std
        value = _loss(noise, x0 + step)[0]
        found = min(found, 2 * (value - f0 - slope * step) / (step * step))
    return max(0.0, found * (1 - 1e-6) - 1e-12 / (noise.std * noise.std))
