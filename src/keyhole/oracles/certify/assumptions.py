"""Is the target as stated? Its range looked for or held against answers, its noise measured or checked off centre.

A certificate rests on where the hidden numbers lie and on the law of the noise. Neither is seen at the thresholds that
learn most: at the centre a bit is as likely yes as no whatever the scale. So a few answers are asked for elsewhere.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from keyhole.errors import ModelError
from keyhole.oracles.base import ModelWarning, YesNoOracle
from keyhole.oracles.learners.stream_attack import StreamAttack
from keyhole.oracles.noise import Floats, GaussianNoise, OracleNoise, quantile
from keyhole.oracles.subspace import independent_rows, range_over_box

LEVELS = (0.05, 0.2, 0.5, 0.8, 0.95)  # quantiles of the stated noise: thresholds sit there, from the attack's answer
CHANCE = 1e-6  # of a false alarm, besides the chance that the box has lost w
Margins = Callable[[Floats], tuple[float, float]]
"""What z.c can be at the least and at the most, by another certificate than the attack's box."""
WIDEST = 2.0**100  # a secret beyond this is none: the target always says the same
BEYOND = 1e-9  # chance that the noise of one answer reaches further than `reach`
PROBES = 24  # answers a threshold when the noise is measured
AGAIN = 12  # times one question is repeated to see whether its answers are drawn anew
SPREAD = 1e-9  # of the range: below this no noise is assumed
WIDER = 1.2  # a measured deviation is off by a tenth or so, and too small a one makes certificates false
STICKY = "answers to one question never differ: the noise is sticky, drawn once for each question"
MISFIT = "the noise that was measured is not Gaussian (chance of a false alarm: 1e-4): nothing is certain"
OUTSIDE = (
    "the hidden numbers lie outside their range: a query is always answered as it could not be for numbers in it; "
    "state another with --range LOW..HIGH"
)


def widen_range(oracle: YesNoOracle, rows: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """A box whose ends no independent query contradicts: as given, else -s..s with s doubled. A proposal, no proof.

    Cost: two answers a query, and at most two more each time the box is doubled.

    >>> class Exact:
    ...     asked = 0
    ...     def above(self, q, threshold):
    ...         return int(q @ np.array([1.2, -9.0]) > threshold)
    >>> [side.tolist() for side in widen_range(Exact(), np.eye(2), np.zeros(2), np.ones(2))]
    [[-16.0, -16.0], [16.0, 16.0]]
    """
    size = float(np.max(np.abs([lower, upper])))
    for q in independent_rows(rows):
        while any(_refute_ends(oracle, q, lower, upper, 0.0)):
            size *= 2
            if size > WIDEST:
                raise ModelError(
                    "the target gives the same answer at every threshold, or says whether its answer is below it: "
                    "there is nothing to learn from it"
                )
            lower, upper = np.full(len(lower), -size), np.full(len(upper), size)
    return lower, upper


def refute_range(oracle: YesNoOracle, rows: Floats, lower: Floats, upper: Floats, law: OracleNoise) -> bool:
    """Is a query answered from further outside the stated box than the noise reaches? By chance: 1e-9 an answer."""
    reach = law.std
    while 1 - law.cdf(reach) > BEYOND:
        reach += law.std
    return any(said for q in independent_rows(rows) for said in _refute_ends(oracle, q, lower, upper, reach))


def _refute_ends(oracle: YesNoOracle, q: Floats, lower: Floats, upper: Floats, reach: float) -> Iterator[bool]:
    low, high = range_over_box(q, lower, upper)
    room = reach + 1e-6 * (high - low)
    yield bool(oracle.above(q, high + room))
    yield not oracle.above(q, low - room)


def measure_noise(
    oracle: YesNoOracle, rows: Floats, lower: Floats, upper: Floats, notes: list[str]
) -> GaussianNoise | None:
    """Bisect one query, repeat one question, then fit a Gaussian to shares of yeses at 13 thresholds.

    None: answers do not waver. Always yes above the largest answer of the box (always no below the least) is a
    `ModelError`: noise around an answer in the box does that with a chance of 2^-24, so the box is wrong.
    """
    q = rows[int(np.argmax(np.abs(rows).sum(axis=1)))]
    low, high = range_over_box(q, lower, upper)
    whole, floor, top = high - low, low, high
    while high - low > SPREAD * whole:
        middle = (low + high) / 2
        low, high = (middle, high) if oracle.above(q, middle) else (low, middle)
    at = (low + high) / 2
    again = [oracle.above(q, at + shift * whole) for shift in (-1e-6, 1e-6) for _ in range(AGAIN)]
    if all(again[:AGAIN]) and not any(again[AGAIN:]):
        return None
    if len(set(again)) == 1:
        edge = top + 1e-6 * whole if again[0] else floor - 1e-6 * whole
        if {oracle.above(q, edge) for _ in range(2 * AGAIN)} == {again[0]}:
            raise ModelError(OUTSIDE)
    return _fit_gaussian(oracle, q, at, whole, notes)


def _fit_gaussian(oracle: YesNoOracle, q: Floats, at: float, whole: float, notes: list[str]) -> GaussianNoise:
    """A Gaussian's centre and deviation by maximum likelihood, on thresholds around `at`, widened as needed."""
    reach = whole / 64
    while reach < whole:
        yes = [sum(oracle.above(q, at + s * reach) for _ in range(PROBES)) for s in (-1.0, 1.0)]
        if yes[0] >= 0.8 * PROBES and yes[1] <= 0.2 * PROBES:
            break
        reach *= 2
    marks = at + reach * np.linspace(-1.2, 1.2, 13)
    shares = np.array([sum(oracle.above(q, float(t)) for _ in range(PROBES)) for t in marks]) / PROBES
    best, found = math.inf, reach
    for centre in at + reach * np.linspace(-0.6, 0.6, 25):
        for std in reach * np.geomspace(0.1, 3.0, 60):
            p = np.clip([0.5 * math.erfc(float((t - centre) / (std * math.sqrt(2)))) for t in marks], 1e-6, 1 - 1e-6)
            loss = -float(np.sum(shares * np.log(p) + (1 - shares) * np.log(1 - p)))
            if loss < best:
                best, found = loss, float(std)
    inner = np.clip(shares, 1e-12, 1 - 1e-12)
    least = -float(np.sum(shares * np.log(inner) + (1 - shares) * np.log(1 - inner)))
    if 2 * PROBES * (best - least) > chi2.isf(1e-4, len(marks) - 2):
        notes.append(MISFIT)
    notes.append(
        f"the noise was measured by {13 * PROBES} answers to one query: {found:.3g}; taken as Gaussian, a fifth wider"
    )
    return GaussianNoise(WIDER * found)


def is_sticky(oracle: YesNoOracle, q: Floats, at: float) -> bool:
    """Does a question about as likely yes as no always get one answer when asked again? By chance: 1 in 2,048."""
    return len({oracle.above(q, at) for _ in range(AGAIN)}) == 1


@dataclass(frozen=True, slots=True)
class Probe:
    """Share of yeses at one level, and between which shares the stated model and the box allow it to be."""

    level: float
    answers: int
    share: float
    least: float
    most: float

    @property
    def believable(self) -> bool:
        """Is the share within what the model allows?"""
        return self.least <= self.share <= self.most


def calibrate(
    attack: StreamAttack, queries: Floats, oracle: YesNoOracle, margins: Margins | None = None
) -> tuple[Probe, ...]:
    """Ask fresh queries off centre and compare the yeses with the stated law; a ModelWarning if they do not fit.

    Run it after the attack. The threshold of a query is the attack's answer plus the 5, 20, 50, 80 or 95 % quantile
    of the stated noise, in turn. With w in the box, Pr(yes) lies between two tails of the stated law, so the share of
    n yeses leaves [mean of the lower - r, mean of the upper + r], r = sqrt(log(10/1e-6) / (2n)), with probability at
    most 1e-6 over all levels and sides (Hoeffding's inequality for martingales), plus delta for the box. It
    notices a scale off by a factor of two from some 6,000 queries on, once the box is small against the noise; before,
    the two cannot be told apart. `margins`, such as `LikelihoodRegion.margins`, narrow where w is besides the box. The
    attack learns nothing from it.
    Time O(dD) a query.

    >>> from keyhole.oracles.base import ThresholdOracle
    >>> from keyhole.oracles.noise import UniformNoise
    >>> from keyhole.oracles.learners.sequential import SequentialBisection
    >>> from keyhole.oracles.streams import Concentrated
    >>> from keyhole.oracles.subspace import Subspace
    >>> space, rng = Subspace.blocks(4, 2), np.random.default_rng(0)
    >>> attack = SequentialBisection(space, UniformNoise(0.2))
    >>> oracle = ThresholdOracle(rng.random(4), UniformNoise(0.2), rng=rng)
    >>> run = attack.run(Concentrated(space).block(20_000, rng), oracle)
    >>> [probe.believable for probe in calibrate(attack, Concentrated(space).block(1500, rng), oracle)]
    [True, True, True, True, True]
    """
    rows = np.asarray(queries, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < len(LEVELS):
        raise ModelError(f"calibration takes at least {len(LEVELS)} queries, one per row; got shape {rows.shape}")
    noise, stretch = attack.noise, float(attack.noise.law[6])
    shifts = [quantile(noise, level) for level in LEVELS]
    low, high = attack.box()
    sums = np.zeros((len(LEVELS), 4))  # answers, yeses, sums of the least and the most chances
    for k, q in enumerate(rows):
        at = k % len(LEVELS)
        z, known, slack = attack.subspace.project(q[None, :])
        a, b = range_over_box(z[0], low, high)
        near = (a, b) if margins is None else margins(z[0])
        if max(a, near[0]) <= min(b, near[1]):
            a, b = max(a, near[0]), min(b, near[1])
        middle, reach = (a + b) / 2 + float(known[0]), ((b - a) / 2 + float(slack[0])) * stretch
        threshold = attack.answer(q) + shifts[at]
        least, most = 1 - noise.cdf(threshold - middle + reach), 1 - noise.cdf(threshold - middle - reach)
        sums[at] += 1.0, oracle.above(q, threshold), least, most
    room = np.sqrt(math.log(2 * len(LEVELS) / CHANCE) / (2 * sums[:, 0]))
    shares = sums[:, 1:] / sums[:, :1]
    probes = tuple(
        Probe(level, int(n), float(share), float(least - r), float(most + r))
        for level, n, (share, least, most), r in zip(LEVELS, sums[:, 0], shares, room, strict=True)
    )
    odd = [probe for probe in probes if not probe.believable]
    if odd:
        misfits = ", ".join(f"{p.share:.2f} at level {p.level:g} instead of {p.least:.2f} to {p.most:.2f}" for p in odd)
        warnings.warn(
            f"the shares of yeses do not fit the stated noise: {misfits}; the noise law, its scale, the basis or the "
            "bounds are wrong, or the box lost w (chance <= delta)",
            ModelWarning,
            stacklevel=2,
        )
    return probes


def can_tell_scale(noise: OracleNoise, probes: tuple[Probe, ...]) -> bool:
    """Would the probes have noticed noise of twice the stated scale, and of half of it?

    With w in the middle of the box and the scale f times the stated one, the share of yeses at the level of the
    threshold t is 1 - F(t / f); it must leave what the model allows by a standard deviation at some level.
    """

    def leaves(probe: Probe, factor: float) -> bool:
        share = 1 - noise.cdf(quantile(noise, probe.level) / factor)
        room = math.sqrt(share * (1 - share) / max(1, probe.answers))
        return bool(share + room < probe.least or share - room > probe.most)

    return all(any(leaves(probe, factor) for probe in probes) for factor in (2.0, 0.5))
