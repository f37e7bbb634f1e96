"""Planted bad mechanisms and budgets: each must be caught by the law it is listed under.

Among them the classic wrong sparse vectors (Lyu, Su and Li 2017 tell their story): no threshold noise, query noise that
does not grow with c, the comparison's noise reused for the answer, and TOPs without end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction

from keyhole.checks import mechanism_specimens as games
from keyhole.checks import mechanisms as laws
from keyhole.checks.exact_laws import Law, bucket
from keyhole.checks.mechanism_specimens import HIGH, LOW, SEARCH, SPECIMENS, STREAM, THRESHOLD, Counts, Specimen
from keyhole.checks.seeded_noise import ScaledNoise, SeededNoise
from keyhole.defend.budget import EVERYBODY, Budget, Cap
from keyhole.defend.histogram import Histogram
from keyhole.defend.linear import LinearQuery
from keyhole.defend.loss import Loss
from keyhole.defend.noise import Noise
from keyhole.defend.numeric_sparse import numeric_sparse_scales
from keyhole.errors import BudgetExhausted, DataError


@dataclass(frozen=True, slots=True)
class Liar:
    """A bad specimen (or a bad door under a good one) and the law that must catch it."""

    story: str
    law: laws.MechanismLaw
    specimen: Specimen
    factor: Fraction = Fraction(1)

    def noise(self, seed: int) -> Noise:
        """The door it draws from."""
        inner = laws.seeded(seed)
        return inner if self.factor == 1 or not isinstance(inner, SeededNoise) else ScaledNoise(inner, self.factor)


def _named(name: str) -> Specimen:
    return next(s for s in SPECIMENS if s.name == name)


# --- wrong sparse vectors -------------------------------------------------------------------------------------------


def no_threshold_noise(histogram: Histogram, budget: Budget, noise: Noise) -> Hashable:
    """AboveThreshold that compares with the bare threshold."""
    budget.spend(Loss.of_epsilon(2))
    shown: list[bool] = []
    for q in SEARCH:
        shown.append(histogram.total(q) + noise.laplace(Fraction(2)) >= THRESHOLD)
        if shown[-1]:
            break
    return tuple(shown)


def query_noise_not_scaled_with_c(histogram: Histogram, budget: Budget, noise: Noise) -> Hashable:
    """Sparse for two firings whose queries get the noise of one."""
    budget.spend(Loss.of_epsilon(4))
    level = THRESHOLD + noise.laplace(Fraction(1))
    shown: list[bool] = []
    for q in STREAM:
        shown.append(histogram.total(q) + noise.laplace(Fraction(1)) >= level)
        if shown[-1]:
            level = THRESHOLD + noise.laplace(Fraction(1))
        if sum(shown) == 2:
            break
    return tuple(shown)


def noise_reused_for_the_answer(histogram: Histogram, budget: Budget, noise: Noise) -> Hashable:
    """NumericSparse that gives out the number it compared."""
    budget.spend(Loss.of_epsilon(4))
    scales = numeric_sparse_scales(1, 4)
    level = THRESHOLD + noise.laplace(scales.threshold)
    for i, q in enumerate((LOW, HIGH)):
        noisy = histogram.total(q) + noise.laplace(scales.query)
        if noisy >= level:
            return i, bucket(noisy, games.ANSWER_CUTS)
    return None


def tops_without_end(histogram: Histogram, budget: Budget, noise: Noise) -> Hashable:
    """Sparse for two firings that never halts."""
    budget.spend(Loss.of_epsilon(4))
    level = THRESHOLD + noise.laplace(Fraction(1))
    return tuple(histogram.total(q) + noise.laplace(Fraction(2)) >= level for q in STREAM)


# --- a crowd of questions, half of which one person raises and half of which he lowers --------------------------------


def _no_law(counts: Counts, factor: float) -> Law:
    raise AssertionError("the crowd has no law in closed form: it is for empirical bounds")


def _crowd(fresh: bool) -> games.Play:
    def play(histogram: Histogram, budget: Budget, noise: Noise) -> Hashable:
        """A hundred TOPs or BOTs with the noise of a single firing, sold for epsilon 1."""
        budget.spend(Loss.of_epsilon(1))
        level = 10 + noise.laplace(Fraction(2))
        lead = 0
        for i in range(100):
            q, sign = (LOW, 1) if i % 2 == 0 else (HIGH, -1)
            if histogram.total(q) + noise.laplace(Fraction(4)) >= level:
                lead += sign
                if fresh:
                    level = 10 + noise.laplace(Fraction(2))
        return lead >= 6

    return play


CROWD = ((10, 10), (11, 9))
CROWD_FRESH = Specimen(
    "query noise not scaled with c, a crowd", _crowd(True), CROWD, _no_law, Loss.of_epsilon(1), 1.0, 0.0, 6000
)
CROWD_FIXED = Specimen("TOPs without end, a crowd", _crowd(False), CROWD, _no_law, Loss.of_epsilon(1), 1.0, 0.0, 6000)


# --- bad manners with the budget ------------------------------------------------------------------------------------


def reads_before_paying(histogram: Histogram, budget: Budget, noise: Noise) -> Hashable:
    """Looks first, pays later."""
    value = histogram.total(games.ONE) + noise.laplace(Fraction(2))
    budget.spend(Loss.of_epsilon(Fraction(1, 2)))
    return bucket(value, games.CUTS)


def never_pays(histogram: Histogram, budget: Budget, noise: Noise) -> Hashable:
    """Forgets the charge."""
    return bucket(histogram.total(games.ONE) + noise.laplace(Fraction(2)), games.CUTS)


def pays_when_it_fires(histogram: Histogram, budget: Budget, noise: Noise) -> Hashable:
    """AboveThreshold that is charged only for a TOP: its price tells what the data said."""
    level = THRESHOLD + noise.laplace(Fraction(1))
    for q in SEARCH:
        if histogram.total(q) + noise.laplace(Fraction(2)) >= level:
            budget.spend(Loss.of_epsilon(2))
            return True
    return False


def an_error_that_tells(histogram: Histogram, budget: Budget, noise: Noise) -> Hashable:
    """Complains about the data at query time."""
    budget.spend(Loss.of_epsilon(Fraction(1, 2)))
    count = histogram.total(LinearQuery.of([0, 1]))
    if count == 11:
        raise DataError(f"{count} records have no value")
    return bucket(histogram.total(games.ONE) + noise.laplace(Fraction(2)), games.CUTS)


_LAPLACE = _named("laplace")
_EXACT = laws.outputs_follow_their_exact_law_on_both_neighbours
_EMPIRICAL = laws.no_event_betrays_more_than_the_claimed_epsilon

LIARS: tuple[Liar, ...] = (
    *(
        Liar(f"{s.name}, noise times {float(f)}", _EXACT, s, f)
        for s in SPECIMENS
        for f in (Fraction(9, 10), Fraction(11, 10))
    ),
    Liar("no threshold noise", _EXACT, replace(_named("above-threshold"), play=no_threshold_noise)),
    Liar("query noise not scaled with c", _EXACT, replace(_named("sparse"), play=query_noise_not_scaled_with_c)),
    Liar("noise reused for the answer", _EXACT, replace(_named("numeric-sparse"), play=noise_reused_for_the_answer)),
    Liar("TOPs without end", _EXACT, replace(_named("sparse"), play=tops_without_end)),
    Liar("claims half its epsilon", laws.the_exact_law_keeps_the_claimed_epsilon, replace(_LAPLACE, epsilon=0.25)),
    Liar("noise a third of what it should be", _EMPIRICAL, _LAPLACE, Fraction(1, 3)),
    Liar("query noise not scaled with c, a crowd", _EMPIRICAL, CROWD_FRESH),
    Liar("TOPs without end, a crowd", _EMPIRICAL, CROWD_FIXED),
    Liar("reads before paying", laws.nothing_is_released_without_a_charge, replace(_LAPLACE, play=reads_before_paying)),
    Liar("never pays", laws.nothing_is_released_without_a_charge, replace(_LAPLACE, play=never_pays)),
    Liar(
        "pays when it fires",
        laws.costs_and_refusals_are_the_same_on_neighbours,
        replace(_named("above-threshold"), play=pays_when_it_fires, pair=((4, 8), (5, 7))),
    ),
    Liar(
        "an error that tells",
        laws.costs_and_refusals_are_the_same_on_neighbours,
        replace(_LAPLACE, play=an_error_that_tells),
    ),
)


# --- bad budgets ----------------------------------------------------------------------------------------------------


class ChargesRefusals(Budget):
    """Books a loss before it looks whether there is room."""

    def spend(self, loss: Loss, *, analyst: str | None = None, what: str = "") -> None:
        """Charge, then check."""
        spent, delta = self._spent(EVERYBODY)
        self._record(EVERYBODY, spent + loss.amount, delta + loss.delta)
        if spent + loss.amount > self.cap.total.amount:
            raise BudgetExhausted("too much", remaining=0, requested=loss.amount)


class AddsFloats(Budget):
    """Sums in floating point: a tenth is not a tenth."""

    def _record(self, account: str, amount: Fraction, delta: Fraction) -> None:
        super()._record(account, Fraction(float(amount)), delta)


class ForgetsTheCap(Budget):
    """Knows each analyst's cap but not the one of all together."""

    def _accounts(self, analyst: str | None) -> tuple[str, ...]:
        return (EVERYBODY,) if analyst is None else (analyst,)


class Unlocked(Budget):
    """Lets two threads read the same total."""

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        yield

    def _spent(self, account: str) -> tuple[Fraction, Fraction]:
        found = super()._spent(account)
        time.sleep(0)  # another thread may come in here
        return found


BUDGET_LIARS: tuple[tuple[laws.BudgetLaw, Callable[[Cap], Budget]], ...] = (
    (laws.a_refusal_changes_nothing_and_leaves_less_possible, ChargesRefusals),
    (laws.the_sum_is_exact_after_many_charges, AddsFloats),
    (laws.analysts_together_never_pass_the_global_cap, ForgetsTheCap),
    (laws.the_budget_is_never_overspent_by_threads, Unlocked),
)
