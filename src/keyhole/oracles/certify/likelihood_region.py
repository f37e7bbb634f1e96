"""A certificate as tight as the estimate: an anytime-valid confidence ellipsoid from single bits, in any dimension.

For a guess g_s made before bit s, the likelihood ratio of the guesses against w, prod p(bit_s | g_s) / p(bit_s | w),
is a non-negative martingale under w. By Ville's inequality [ville1939]

    L_t(c) = sum_s log p(bit_s | g_s) - log p(bit_s | c) <= log(1/delta)    for c = w and all t at once,

with probability at least 1 - delta, whatever the queries, thresholds and guesses, as long as they depend on the past
alone. For log-concave noise -log p is convex in the margin z.c, and above its tangent at z.g_s by at least k_s/2 times
the squared distance, k_s its least mean curvature over the margins that the region still allows. So L_t is at least
a quadratic, and the region lies in an ellipsoid, kept in d^2 + O(d) numbers. On the same event w is in every earlier
region, so k_s may be taken from the region as it was.

What the first guesses cost grows like d log t and is never won back; so sums that begin anew at t = 16, 64, 256, ...
are regions too, each with its share of delta. They are differences of the one quadratic and three snapshots of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.noise import Floats, GaussianNoise, OracleNoise, UniformNoise
from keyhole.oracles.subspace import Subspace

SURE = 1e-9  # a guess never gives a bit less probability than this: it could not be unsaid
ANEW, KEPT = 4, 2  # a sum begins anew when the answers are four times as many; two such sums are kept
LOOKS = 32  # they are looked at when the answers have grown by 1/32
HERMITE = ((-math.sqrt(3), 1 / 6), (0.0, 2 / 3), (math.sqrt(3), 1 / 6))  # mean over a normal law by three points


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic:
    """constant + slope.c + c'Hc/2: a lower bound of the loss, in coordinates relative to a base."""

    constant: float
    slope: Floats
    H: Floats

    def since(self, before: Quadratic) -> Quadratic:
        """What was added after `before`."""
        return Quadratic(self.constant - before.constant, self.slope - before.slope, self.H - before.H)

    def below(self, level: float, inverse: Floats | None = None) -> tuple[Floats, Floats, float] | None:
        """The ellipsoid where it is at most `level`: centre, inverse of H, squared radius; None while H is singular."""
        if inverse is None:
            spectrum = np.linalg.eigvalsh(self.H)
            if not spectrum[0] > 1e-9 * max(spectrum[-1], 1e-300):
                return None
            inverse = np.asarray(np.linalg.inv(self.H), dtype=np.float64)
        step = -inverse @ self.slope
        radius = 2 * (level - self.constant - 0.5 * float(self.slope @ step))
        return step, inverse, radius * (1 + 1e-9) + 1e-9


class LikelihoodRegion:
    """Holds w with probability 1 - delta, for all t at once. Conditions: w in the stated box, the noise law as stated.

    Where nothing is left in it, `refuted` says so: a condition does not hold (or the chance delta came true).

    The distance of any point from w is bounded by `radius`, about sqrt(2 + 2 log(1/delta) / d) times the deviation of
    the best estimate and some log factors; single coordinates by `box`, sqrt(2 log(1/delta) + 2 d) times or so.
    Gaussian and uniform noise (for Laplace noise -log p is straight on one side: no quadratic from one bit).
    Time O(d^2) a bit, in numpy. Queries near the subspace widen the margins by their slack.

    >>> from keyhole.oracles.base import ThresholdOracle
    >>> from keyhole.oracles.learners.newton import OneBitNewton
    >>> space, noise = Subspace.blocks(4, 2), GaussianNoise(0.5)
    >>> w = np.array([0.9, 0.8, 0.1, 0.3])
    >>> attack, region = OneBitNewton(space, noise), LikelihoodRegion(space, noise)
    >>> oracle = ThresholdOracle(w, noise, rng=np.random.default_rng(7))
    >>> for q in np.tile(space.basis, (2000, 1)):
    ...     threshold, guess = attack.threshold(q), attack.estimate()
    ...     bit = oracle.above(q, threshold)
    ...     region.learn(q, threshold, bit, guess)
    ...     attack.learn(q, threshold, bit)
    >>> region.holds(w), [bool(round(float(side), 1) <= 0.4) for side in region.y - region.x]
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
        self.refuted = False  # no vector in the stated box explains the bits: has probability at most delta
        self._base = (self.x + self.y) / 2  # coordinates are kept relative to it
        nothing = Quadratic(0.0, np.zeros(subspace.d), np.zeros((subspace.d, subspace.d)))
        self._sum = nothing
        self._inverse: Floats | None = None
        self._anew: list[tuple[float, Quadratic]] = []  # log(1/share) and the sum as it was when it began anew
        self._next = ANEW * ANEW
        self._late: tuple[Floats, Floats, float] | None = None  # the ellipsoid of such a sum when last looked at

    def learn(self, q: Floats, threshold: float, bit: int, guess: Floats) -> None:
        """Take in one bit; `guess` is a vector of length D that was named before it (any; the nearer, the tighter)."""
        if bit not in (0, 1):
            raise ModelError(f"an answer is 0 or 1, got {bit!r}")
        rows, known, slack = self.subspace.project(np.asarray(q, dtype=np.float64)[None, :])
        z, room = rows[0], float(slack[0])
        low, high = self.margins(z)
        at = min(max(float(z @ self.subspace.coordinates(guess)), low), high)
        self.answers += 1
        aim = threshold - float(known[0])
        sign = 1.0 if bit else -1.0
        # x = sign (margin - threshold): the likelihood of the bit grows with x, whichever bit it was
        x0, top = sign * (at - aim), max(sign * (low - aim), sign * (high - aim)) + room
        paid = -math.log(self._chance(x0, z, high - low))
        expand = max(x0 + room, -0.999 * (self.noise.edge or math.inf))
        value, slope = _loss(self.noise, expand)
        at += sign * (expand - room - x0)
        self._add(z, at, sign * slope, _curvature(self.noise, expand, top), value - paid)
        self._narrow()

    def _chance(self, x: float, z: Floats, width: float) -> float:
        """The guess's chance of the bit, averaged over how far it may be off (any number named before will do)."""
        off = width / math.sqrt(12) if self._inverse is None else math.sqrt(max(0.0, float(z @ self._inverse @ z)))
        off = min(off, width / math.sqrt(12))
        chance = sum(part * math.exp(-_loss(self.noise, x + node * off)[0]) for node, part in HERMITE)
        return min(max(chance, SURE), 1 - SURE)

    def _add(self, z: Floats, at: float, slope: float, curve: float, constant: float) -> None:
        """Add constant + slope (z.c - at) + curve/2 (z.c - at)^2."""
        off, past = at - float(z @ self._base), self._sum
        self._sum = Quadratic(
            past.constant + constant - slope * off + 0.5 * curve * off * off,
            past.slope + (slope - curve * off) * z,
            past.H + curve * np.outer(z, z),
        )
        if self._inverse is not None:
            Hz = self._inverse @ z
            self._inverse -= np.outer(Hz, Hz) * (curve / (1 + curve * float(z @ Hz)))
        if self.answers == self._next:
            k = round(math.log(self.answers, ANEW)) - 1
            self._anew = [*self._anew, (math.log(2 * k * (k + 1) / self.delta), self._sum)][-KEPT:]
            self._next *= ANEW

    def _ellipsoid(self) -> tuple[Floats, Floats, float] | None:
        """Of the sum from the start, which has half of delta; its inverse is refreshed now and then."""
        if self.answers % 512 == 0:
            self._inverse = None
        shape = self._sum.below(math.log(2 / self.delta), self._inverse)
        self._inverse = None if shape is None else shape[1]
        self.refuted |= shape is not None and shape[2] <= 0
        return shape

    def _shapes(self) -> list[tuple[Floats, Floats, float]]:
        """The ellipsoids that hold w now, none of them empty."""
        return [shape for shape in (self._ellipsoid(), self._late) if shape is not None and shape[2] > 0]

    def margins(self, z: Floats) -> tuple[float, float]:
        """What z.c can be in the region: by the box and by the ellipsoids."""
        middle, reach = float(z @ (self.x + self.y)) / 2, float(np.abs(z) @ (self.y - self.x)) / 2
        low, high = middle - reach, middle + reach
        for step, inverse, squared in self._shapes():
            at = float(z @ (self._base + step))
            wide = math.sqrt(max(0.0, squared * float(z @ inverse @ z)))
            if at - wide < high and at + wide > low:
                low, high = max(low, at - wide), min(high, at + wide)
        return low, high

    def _narrow(self) -> None:
        if self.answers % max(1, self.answers // LOOKS) == 0:
            late = [self._sum.since(before).below(level) for level, before in self._anew]
            sizes = [
                (shape[2] * float(np.trace(shape[1])), k) for k, shape in enumerate(late) if shape and shape[2] > 0
            ]
            self._late = late[min(sizes)[1]] if sizes else None
            self.refuted |= any(shape is not None and shape[2] <= 0 for shape in late)
        for step, inverse, squared in self._shapes():
            half = np.sqrt(np.maximum(0.0, squared * np.diag(inverse)))
            x, y = np.maximum(self.x, self._base + step - half), np.minimum(self.y, self._base + step + half)
            if np.all(x <= y):
                self.x, self.y = x, y
            else:
                self.refuted = True

    def radius(self, guess: Floats) -> float:
        """No vector in the region is further than this from `guess` (of length D), in the subspace."""
        c = self.subspace.coordinates(guess)
        found = float(np.linalg.norm(np.maximum(np.abs(self.x - c), np.abs(self.y - c))))
        for step, inverse, squared in self._shapes():
            reach = math.sqrt(squared * float(np.linalg.eigvalsh(inverse)[-1]))
            found = min(found, float(np.linalg.norm(self._base + step - c)) + reach)
        return found

    def box(self) -> tuple[Floats, Floats]:
        """Certified lower and upper ends of the coordinates: the box around all regions so far."""
        return self.x.copy(), self.y.copy()

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
