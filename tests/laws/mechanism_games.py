"""Every mechanism as a small game on neighbouring databases, with the exact law of what it shows.

The games are chosen small (a handful of people, large epsilon) so that the law is sharp: noise that is ten per cent off
moves some outcome by many standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from tests.laws.exact_laws import (
    Law,
    bucket,
    buckets,
    gate_pattern,
    gaussian_mass,
    laplace_at_least,
    laplace_mass,
    sparse_law,
)
from tests.laws.law import Specimen

from keyhole.defence.budget.budget import Budget, Cap
from keyhole.defence.budget.loss import Loss
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.gaussian import Gaussian
from keyhole.defence.mechanisms.iterative import IterativeConstruction, OfflinePlan
from keyhole.defence.mechanisms.laplace import Laplace
from keyhole.defence.mechanisms.online_ic import OnlineIC, OnlinePlan
from keyhole.defence.mechanisms.sparse_vector import (
    AboveThreshold,
    NumericSparse,
    Sparse,
    numeric_sparse_scales,
    sparse_scale,
)
from keyhole.defence.mechanisms.tuned_weights import BypassedWeights, TunedPlan, TunedWeights, start_from_margins
from keyhole.defence.noise import NoiseSource
from keyhole.defence.simulate.release import SeededNoise
from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights

Play = Callable[[Histogram, Budget, NoiseSource], Hashable]
Counts = tuple[int, ...]
LawOf = Callable[[Counts, float], Law]
Door = Callable[[], NoiseSource]


class ScaledNoise:
    """A door whose every scale is off by a factor: the liar that the noise laws must catch."""

    def __init__(self, inner: SeededNoise, factor: Fraction) -> None:
        self._inner, self._factor = inner, factor

    def laplace(self, scale: Fraction) -> int:
        """Laplace noise of the wrong scale."""
        return self._inner.laplace(scale * self._factor)

    def gaussian(self, variance: Fraction) -> int:
        """Gaussian noise of the wrong deviation."""
        return self._inner.gaussian(variance * self._factor**2)

    def choose(self, scores: Sequence[int], scale: Fraction) -> int:
        """A choice at the wrong scale."""
        return self._inner.choose(scores, scale * self._factor)


def seeded(seed: int) -> Door:
    """A door to noise that comes out the same each time it is opened."""
    return lambda: SeededNoise(np.random.default_rng(seed))


def scaled(factor: Fraction, seed: int) -> Door:
    """A door whose noise has every scale multiplied by the factor."""
    return lambda: ScaledNoise(SeededNoise(np.random.default_rng(seed)), factor)


HONEST = seeded(2026)


@dataclass(frozen=True, slots=True)
class Game:
    """A mechanism at play: one run shows one outcome; `pair` are neighbours.

    `law(counts, factor)` gives the outcomes' probabilities with every noise scale multiplied by the factor (1: honest).

    `cost` is the loss it claims, `epsilon` and `delta` the guarantee that this is (for a rho, by conversion). `door`
    opens the noise that it draws from.
    """

    name: str
    mechanism: type
    play: Play
    pair: tuple[Counts, Counts]
    law: LawOf
    cost: Loss
    epsilon: float
    delta: float = 0.0
    trials: int = 8000
    door: Door = HONEST

    def purse(self) -> Budget:
        """A budget that never runs out."""
        return Budget(Cap(Loss(self.cost.unit, Fraction(10**9), Fraction(10**9), self.cost.neighbours)))


# --- one number -----------------------------------------------------------------------------------------------------

ONE, NUMBER_PAIR = LinearQuery.of([1, 0]), ((30, 10), (29, 11))
CUTS = (23, 25, 27, 29, 30, 31, 33, 35, 37)


def play_laplace(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """One count with Laplace noise of scale 2."""
    release = Laplace(histogram, budget, Fraction(1, 2), 0.05, None, noise).release([ONE])[0]
    return bucket(int(release.value), CUTS)


def laplace_law(counts: Counts, factor: float) -> Law:
    """Its exact law."""
    points, masses = laplace_mass(2.0 * factor)
    return dict(enumerate(buckets(points + counts[0], masses, CUTS)))


def play_gaussian(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """One count with Gaussian noise of deviation 2."""
    release = Gaussian(histogram, budget, Fraction(1, 8), 0.05, None, noise).release([ONE])[0]
    return bucket(int(release.value), CUTS)


def gaussian_law(counts: Counts, factor: float) -> Law:
    """Its exact law."""
    points, masses = gaussian_mass(4.0 * factor**2)
    return dict(enumerate(buckets(points + counts[0], masses, CUTS)))


# --- sparse vectors: cells are (low ones, high ones); a person moves from high to low -------------------------------

LOW, HIGH = LinearQuery.of([1, 0]), LinearQuery.of([0, 1])
SPARSE_PAIR = ((4, 13), (5, 12))
THRESHOLD = 8


def values_of(counts: Counts, questions: tuple[LinearQuery, ...]) -> list[int]:
    """The true answers."""
    return [int(sum(w * c for w, c in zip(q.weights.tolist(), counts, strict=True))) for q in questions]


SEARCH = (LOW, LOW, HIGH)


def play_above_threshold(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """Low, low, high at epsilon 2: which one is TOP?"""
    run = AboveThreshold(histogram, budget, threshold=THRESHOLD, epsilon=2, noise=noise)
    shown: list[bool] = []
    for q in SEARCH:
        shown.append(run.ask(q))
        if run.halted:
            break
    return tuple(shown)


def above_threshold_law(counts: Counts, factor: float) -> Law:
    """Its exact law: scales 2/epsilon and 4/epsilon."""
    return sparse_law(values_of(counts, SEARCH), THRESHOLD, 1, factor, 2 * factor)


STREAM = (LOW, HIGH, LOW, HIGH)


def _play_sparse(epsilon: int, delta: Fraction) -> Play:
    def play(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
        run = Sparse(histogram, budget, threshold=THRESHOLD, firings=2, epsilon=epsilon, delta=delta, noise=noise)
        shown: list[bool] = []
        for q in STREAM:
            shown.append(run.ask(q))
            if run.halted:
                break
        return tuple(shown)

    return play


def _sparse_law(epsilon: int, delta: Fraction) -> LawOf:
    def law(counts: Counts, factor: float) -> Law:
        scale = factor * float(sparse_scale(2, epsilon, delta))
        return sparse_law(values_of(counts, STREAM), THRESHOLD, 2, scale, 2 * scale)

    return law


ANSWER_CUTS = (-30, -10, 5, 9, 12, 14, 17, 22, 36, 56)


def _play_numeric(epsilon: int, delta: Fraction) -> Play:
    def play(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
        run = NumericSparse(
            histogram, budget, threshold=THRESHOLD, firings=1, epsilon=epsilon, delta=delta, noise=noise
        )
        for i, q in enumerate((LOW, HIGH)):
            if (answer := run.ask(q)) is not None:
                return i, bucket(int(answer), ANSWER_CUTS)
        return None

    return play


def _numeric_law(epsilon: int, delta: Fraction) -> LawOf:
    scales = numeric_sparse_scales(1, epsilon, delta)

    def law(counts: Counts, factor: float) -> Law:
        threshold, query, answer = (factor * float(s) for s in (scales.threshold, scales.query, scales.answer))
        values = values_of(counts, (LOW, HIGH))
        found: dict[object, float] = {}
        points, masses = laplace_mass(answer)
        for i, value in enumerate(values):
            fires = gate_pattern(values[: i + 1], THRESHOLD, threshold, query)
            for b, chance in enumerate(buckets(points + value, masses, ANSWER_CUTS)):
                found[(i, b)] = fires * chance
        found[None] = 1 - sum(found.values())
        return found

    return law


# --- the iterative constructions ------------------------------------------------------------------------------------

ONLINE_PLAN = OnlinePlan(20, 2, 5, 0.1, 0.1, "4", "0", 2, 3, 7, 2)
ONLINE_PAIR = ((17, 3), (16, 4))
ONLINE_CUTS = (4, 8, 12, 15, 17, 19, 22, 27)


def play_online(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """One question to OnlineIC; the uniform hypothesis says 10 of 20. Which side fired, and what was said?"""
    run = OnlineIC(histogram, budget, ONLINE_PLAN, MultiplicativeWeights(2, 0.1), noise=noise)
    answer = run.answer(ONE)
    if run.fired == 0:
        return None
    rose = run.update.value(run.state, ONE) > 0.5
    return rose, bucket(int(answer.value), ONLINE_CUTS)


def online_law(counts: Counts, factor: float) -> Law:
    """Its exact law. The update rises exactly if the number given is at least the hypothesis' 10."""
    scales = numeric_sparse_scales(2, 4)
    query = factor * float(scales.query)
    points, masses = laplace_mass(factor * float(scales.threshold))
    gap, level = counts[0] - 10, ONLINE_PLAN.threshold + points
    up = laplace_at_least(level - gap, query)
    down = (1 - up) * laplace_at_least(level + gap, query)
    fires = float((masses * (up + down)).sum())
    noise, weight = laplace_mass(factor * float(scales.answer))
    said = counts[0] + noise
    law: dict[object, float] = {None: 1 - fires}
    for rose, kept in ((False, said < 10), (True, said >= 10)):
        for b, chance in enumerate(buckets(said[kept], weight[kept], ONLINE_CUTS)):
            law[(rose, b)] = fires * chance
    return {outcome: chance for outcome, chance in law.items() if chance > 0}


# --- tuned weights: the hypothesis says 5 and 10 of 20 to the two questions -----------------------------------------

TUNED = {
    "epsilon": TunedPlan(20, 3, 3, 1, 0.1, "epsilon", "4", 4, 9, "1", "1", "1", 3),
    "rho": TunedPlan(20, 3, 3, 1, 0.1, "rho", "41/8", 4, 9, "1", "1", "4/5", 3),
}
TUNED_START = np.array([0.5, 0.25, 0.25])
TUNED_PAIR = ((14, 5, 1), (13, 5, 2))
TUNED_ASKED = (LinearQuery.of([0, 1, 0]), LinearQuery.of([1, 0, 0]))
TUNED_CUTS = (9, 11, 13, 14, 15, 17, 19)


def _play_tuned(unit: str) -> Play:
    def play(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
        run = TunedWeights(histogram, budget, TUNED[unit], start=TUNED_START, noise=noise)
        for i, q in enumerate(TUNED_ASKED):
            answer = run.answer(q)
            if run.fired:
                return i, bucket(int(answer.value), TUNED_CUTS)
        return None

    return play


def _tuned_law(unit: str) -> LawOf:
    plan = TUNED[unit]

    def law(counts: Counts, factor: float) -> Law:
        values = values_of(counts, TUNED_ASKED)
        gaps = [abs(values[0] - 5), abs(values[1] - 10)]
        level, query = factor * float(Fraction(plan.level)), factor * float(Fraction(plan.compare))
        size = float(Fraction(plan.answer))
        points, masses = laplace_mass(factor * size) if unit == "epsilon" else gaussian_mass(factor**2 * size)
        found: dict[object, float] = {}
        for i, value in enumerate(values):
            fires = gate_pattern(gaps[: i + 1], plan.threshold, level, query)
            for b, chance in enumerate(buckets(points + value, masses, TUNED_CUTS)):
                found[(i, b)] = fires * chance
        found[None] = 1 - sum(found.values())
        return found

    return law


WARM_PLAN = TunedPlan(20, 2, 3, 1, 0.1, "epsilon", "4", 4, 9, "1", "1", "1", 3, "2")
WARM_PAIR = ((14, 6), (13, 7))
WARM_CUTS = (10, 12, 13, 14, 15, 16, 18)


def play_warm(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """A run that begins at a margin it buys: what does the hypothesis say, and what is measured?"""
    run = TunedWeights(histogram, budget, WARM_PLAN, shape=(2,), noise=noise)
    guess = round(float(run.state[0]) * WARM_PLAN.n)
    answer = run.answer(ONE)
    return bucket(guess, WARM_CUTS), bucket(int(answer.value), WARM_CUTS) if run.fired else None


def warm_law(counts: Counts, factor: float) -> Law:
    """Its exact law: two numbers of the margin with noise of scale 2/2, then one question."""
    points, masses = laplace_mass(factor)
    near = np.abs(points) <= 30
    guesses: dict[int, float] = {}
    for first, p in zip(points[near].tolist(), masses[near].tolist(), strict=True):
        for second, q in zip(points[near].tolist(), masses[near].tolist(), strict=True):
            start = start_from_margins((2,), {0: np.array([counts[0] + first, counts[1] + second])})
            guess = round(float(start[0] / start.sum()) * WARM_PLAN.n)
            guesses[guess] = guesses.get(guess, 0.0) + p * q
    said = buckets(points + counts[0], masses, WARM_CUTS)
    found: dict[object, float] = {}
    for guess, chance in guesses.items():
        fires, at = (
            gate_pattern([abs(counts[0] - guess)], WARM_PLAN.threshold, factor, factor),
            bucket(guess, WARM_CUTS),
        )
        found[at, None] = found.get((at, None), 0.0) + chance * (1 - fires)
        for b, mass in enumerate(said):
            found[at, b] = found.get((at, b), 0.0) + chance * fires * mass
    return found


BYPASS_PLAN = TunedPlan(20, 2, 3, 1, 0.1, "epsilon", "4", 4, 6, "1", "1", "1", 3)


def play_bypass(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """One question that the hypothesis was never corrected on: it is measured at once."""
    prepaid = TunedWeights(histogram, _ample(), BYPASS_PLAN, noise=noise)
    run = BypassedWeights(prepaid, budget, visits=1)
    return bucket(int(run.answer(ONE).value), ONLINE_CUTS)


def _ample() -> Budget:
    return Budget(Cap(Loss.of_epsilon(10**9)))


def _bypass_scale() -> Fraction:
    run = TunedWeights(Histogram.of(ONLINE_PAIR[0]), _ample(), BYPASS_PLAN, noise=SeededNoise(np.random.default_rng(0)))
    return BypassedWeights(run, _ample(), visits=1).scale


def bypass_law(counts: Counts, factor: float) -> Law:
    """Its exact law: one Laplace number."""
    points, masses = laplace_mass(factor * float(_bypass_scale()))
    return dict(enumerate(buckets(points + counts[0], masses, ONLINE_CUTS)))


OFFLINE_PLAN = OfflinePlan(20, 3, 2, 0.1875, 0.1, Fraction(2), Fraction(0), 1, Fraction(1), 5)
OFFLINE_PAIR = ((12, 7, 1), (11, 7, 2))
OFFLINE_QUESTIONS = (LinearQuery.of([1, 0, 0]), LinearQuery.of([0, 1, 0]))


def play_offline(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """One round of IterativeConstruction: which question was learned from, and in which direction?"""
    made = IterativeConstruction(histogram, budget, OFFLINE_PLAN, MultiplicativeWeights, None, noise).construct(
        OFFLINE_QUESTIONS
    )
    shift = [made.update.value(made.state, q) - 1 / 3 for q in OFFLINE_QUESTIONS]
    if made.rounds == 0:
        return "stopped"
    moved = max(range(2), key=lambda i: abs(shift[i]))
    return moved, shift[moved] > 0


def offline_law(counts: Counts, factor: float) -> Law:
    """Its exact law: exponential mechanism at scale 2, then Laplace noise of scale 1, stopping within 3 of 7."""
    values = values_of(counts, OFFLINE_QUESTIONS)
    odds = [math.exp(abs(v - 7) / (2 * factor)) for v in values]
    law: dict[object, float] = {"stopped": 0.0}
    points, masses = laplace_mass(factor)
    for i, value in enumerate(values):
        chosen = odds[i] / sum(odds)
        measured = value + points
        # below 7 - 3 it falls, above 7 + 3 it rises; the rate is compared with the exact 20/3
        for name, kept in (
            ("stopped", abs(measured - 7) < 3),
            ((i, False), measured <= 4),
            ((i, True), measured >= 10),
        ):
            law[name] = law.get(name, 0.0) + chosen * float(masses[kept].sum())
    return law


def _zcdp_epsilon(rho: float, delta: float) -> float:
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


HALF, TINY = Fraction(1, 2), Fraction(1, 100)

NONE = Fraction(0)

# Trials: so many that noise ten per cent off is expected at 48 on a scale where the alarm sounds at 19 (nats).
GAMES: tuple[Game, ...] = (
    Game("laplace", Laplace, play_laplace, NUMBER_PAIR, laplace_law, Loss.of_epsilon(HALF), 0.5, trials=18_000),
    Game(
        "gaussian",
        Gaussian,
        play_gaussian,
        NUMBER_PAIR,
        gaussian_law,
        Loss.of_rho(Fraction(1, 8)),
        _zcdp_epsilon(0.125, 1e-3),
        1e-3,
        11_000,
    ),
    Game(
        "above-threshold",
        AboveThreshold,
        play_above_threshold,
        SPARSE_PAIR,
        above_threshold_law,
        Loss.of_epsilon(2),
        2.0,
        trials=11_500,
    ),
    Game(
        "sparse", Sparse, _play_sparse(4, NONE), SPARSE_PAIR, _sparse_law(4, NONE), Loss.of_epsilon(4), 4.0, 0.0, 8_500
    ),
    Game(
        "sparse, delta",
        Sparse,
        _play_sparse(8, TINY),
        SPARSE_PAIR,
        _sparse_law(8, TINY),
        Loss.of_epsilon(8, TINY),
        8.0,
        0.01,
        16_500,
    ),
    Game(
        "numeric-sparse",
        NumericSparse,
        _play_numeric(4, NONE),
        SPARSE_PAIR,
        _numeric_law(4, NONE),
        Loss.of_epsilon(4),
        4.0,
        0.0,
        11_000,
    ),
    Game(
        "numeric-sparse, delta",
        NumericSparse,
        _play_numeric(8, TINY),
        SPARSE_PAIR,
        _numeric_law(8, TINY),
        Loss.of_epsilon(8, TINY),
        8.0,
        0.01,
        11_500,
    ),
    Game("online-ic", OnlineIC, play_online, ONLINE_PAIR, online_law, Loss.of_epsilon(4), 4.0, 0.0, 12_500),
    Game(
        "tuned-weights",
        TunedWeights,
        _play_tuned("epsilon"),
        TUNED_PAIR,
        _tuned_law("epsilon"),
        Loss.of_epsilon(4),
        4.0,
        0.0,
        15_000,
    ),
    Game(
        "tuned-weights, rho",
        TunedWeights,
        _play_tuned("rho"),
        TUNED_PAIR,
        _tuned_law("rho"),
        Loss.of_rho(Fraction(41, 8)),
        _zcdp_epsilon(41 / 8, 1e-3),
        1e-3,
        15_000,
    ),
    Game(
        "tuned-weights, warm",
        TunedWeights,
        play_warm,
        WARM_PAIR,
        warm_law,
        Loss.of_epsilon(6),
        6.0,
        0.0,
        15_000,
    ),
    Game(
        "tuned-weights, bypass",
        TunedWeights,
        play_bypass,
        ONLINE_PAIR,
        bypass_law,
        Loss.of_epsilon(1 / _bypass_scale()),
        float(1 / _bypass_scale()) * (1 + 1e-12),
        0.0,
        18_000,
    ),
    Game(
        "iterative-construction",
        IterativeConstruction,
        play_offline,
        OFFLINE_PAIR,
        offline_law,
        Loss.of_epsilon(2),
        2.0,
        0.0,
        15_000,
    ),
)
SPECIMENS: tuple[Specimen[Game], ...] = tuple(Specimen(game.name, game) for game in GAMES)
