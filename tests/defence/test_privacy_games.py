"""Exact privacy games: on every pair of neighbours of a small universe, no outcome tells more than epsilon.

The implementation itself is played once for each way its noise can fall. A liar whose noise is too small must show.
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from itertools import pairwise

import pytest
from tests.laws.enumerated_noise import EnumeratedLaw, Play, enumerated

from keyhole.defence.budget.budget import Budget, Cap
from keyhole.defence.budget.loss import Loss
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.iterative import IterativeConstruction, OfflinePlan
from keyhole.defence.mechanisms.online_ic import OnlineIC, OnlinePlan
from keyhole.defence.mechanisms.sparse_vector import NumericSparse, Sparse
from keyhole.defence.mechanisms.tuned_weights import TunedPlan, TunedWeights
from keyhole.defence.noise import NoiseSource
from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights

N = 2
FIRST, SECOND = LinearQuery.of([1, 0]), LinearQuery.of([0, 1])
UNIVERSE = [(k, N - k) for k in range(N + 1)]  # neighbours are next to each other


def sparse(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """TOP or BOT for two questions; one firing."""
    run = Sparse(histogram, budget, threshold=1, firings=1, epsilon=6, noise=noise)
    shown = []
    for question in (FIRST, SECOND):
        shown.append(run.ask(question))
        if run.halted:
            break
    return tuple(shown)


def numeric_sparse(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """The number that is given when the first of two questions fires."""
    run = NumericSparse(histogram, budget, threshold=1, firings=1, epsilon=9, noise=noise)
    for at, question in enumerate((FIRST, SECOND)):
        if (answer := run.ask(question)) is not None:
            return at, int(answer)
    return None


ONLINE = OnlinePlan(N, 2, 5, 0.25, 0.1, "9", "0", 1, 1, 3, 2)


def online_ic(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """One question, held against the hypothesis from both sides; what was said, and whether it fired."""
    run = OnlineIC(histogram, budget, ONLINE, MultiplicativeWeights(2, 0.25), noise=noise)
    return run.answer(FIRST).value, run.fired


def online_ic_twice(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """Two adaptively chosen questions: the second follows from what was said to the first."""
    run = OnlineIC(histogram, budget, ONLINE, MultiplicativeWeights(2, 0.25), noise=noise)
    first = run.answer(FIRST).value
    if run.halted:
        return first
    return first, run.answer(SECOND if first >= 1 else FIRST).value


TUNED = TunedPlan(N, 2, 5, 1, 0.1, "epsilon", "9", 1, 3, "1/2", "1/2", "1/3", 1)


def tuned(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """Two adaptively chosen questions, the second against an adaptive threshold; one firing."""
    run = TunedWeights(histogram, budget, TUNED, noise=noise)
    first = run.answer(FIRST).value
    if run.halted:
        return first
    return first, run.answer(SECOND if first >= 1 else FIRST).value, run.fired


OFFLINE = OfflinePlan(N, 2, 2, 0.5, 0.1, Fraction(8), Fraction(0), 2, Fraction(2), 5)


def iterative(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """Two rounds; the whole hypothesis is shown."""
    made = IterativeConstruction(histogram, budget, OFFLINE, MultiplicativeWeights, None, noise).construct(
        (FIRST, LinearQuery.of([1, 2], unit=3))
    )
    return made.rounds, tuple(round(float(v), 9) for v in made.update.pack(made.state))


# what is played, its epsilon, the least probable way that is played, and how much too small a liar's noise is
GAMES = {
    "sparse": (sparse, 6.0, 1e-8, 0.1),
    "numeric-sparse": (numeric_sparse, 9.0, 1e-9, 0.25),
    "online-ic": (online_ic, 9.0, 1e-9, 0.25),
    "iterative": (iterative, 8.0, 1e-8, 0.25),
    "tuned": (tuned, 9.0, 1e-9, 0.25),
}
LIGHT = [n if n in ("sparse", "iterative", "tuned") else pytest.param(n, marks=pytest.mark.soak) for n in GAMES]


def purse() -> Budget:
    return Budget(Cap(Loss.of_epsilon(10**6)))


def laws(play: Play, factor: float, least: float = 1e-8) -> list[EnumeratedLaw]:
    return [enumerated(play, Histogram.of(counts), purse, factor=factor, least=least) for counts in UNIVERSE]


def worst(found: list[EnumeratedLaw], epsilon: float) -> float:
    return max(max(a.excess(b, epsilon), b.excess(a, epsilon)) for a, b in pairwise(found))


@pytest.mark.parametrize("name", LIGHT)
def test_no_outcome_tells_more_than_epsilon_on_any_neighbours(name: str) -> None:
    play, epsilon, least, _ = GAMES[name]
    honest = laws(play, 1.0, least)
    assert all(law.slack(epsilon) < 0.06 for law in honest)
    assert all(abs(sum(law.chances.values()) + law.lost - 1) < 1e-9 for law in honest)
    assert worst(honest, epsilon) <= 1e-12


@pytest.mark.parametrize("name", GAMES)
def test_noise_that_is_too_small_shows(name: str) -> None:
    play, epsilon, least, liar = GAMES[name]
    assert worst(laws(play, liar, least), epsilon) > 0.01


@pytest.mark.soak
def test_two_adaptive_questions_tell_no_more() -> None:
    honest = laws(online_ic_twice, 1.0, 1e-9)
    assert all(law.slack(9.0) < 0.1 for law in honest)
    assert worst(honest, 9.0) <= 1e-12
