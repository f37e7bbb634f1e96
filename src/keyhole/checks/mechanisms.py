"""Laws of every mechanism: privacy is tested, not claimed.

A law is a function of a specimen that raises `AssertionError` if the specimen breaks it. The statistical ones share the
one false-alarm rate of `chernoff.SUITE_FALSE_ALARM`.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Hashable
from fractions import Fraction

import numpy as np

from keyhole.checks.chernoff import LEVEL, epsilon_lower_bound, surprising
from keyhole.checks.mechanism_specimens import SPECIMENS, Specimen
from keyhole.checks.seeded_noise import SeededNoise
from keyhole.defend.budget import Budget, Cap
from keyhole.defend.histogram import Histogram
from keyhole.defend.linear import LinearQuery
from keyhole.defend.loss import Loss
from keyhole.defend.noise import Noise
from keyhole.errors import BudgetExhausted, KeyholeError

MechanismLaw = Callable[[Specimen, Noise], None]


def seeded(seed: int) -> Noise:
    """The noise that laws are checked with."""
    return SeededNoise(np.random.default_rng(seed))


def observe(specimen: Specimen, counts: tuple[int, ...], noise: Noise, trials: int) -> Counter[Hashable]:
    """How often each outcome was shown."""
    histogram, purse = Histogram.of(counts, specimen.cost.neighbours), specimen.purse()
    return Counter(specimen.play(histogram, purse, noise) for _ in range(trials))


def outputs_follow_their_exact_law_on_both_neighbours(
    specimen: Specimen, noise: Noise, trials: int | None = None, error: float = 0.1
) -> None:
    """The frequencies of the outcomes are those of the calibrated noise; noise that is `error` off would show.

    Compared are each outcome, and the two events that tell noise too small or too large by `error` from the right one:
    the outcomes that such noise would make likelier.
    """
    trials = trials or specimen.trials
    for counts in specimen.pair:
        law = specimen.law(counts, 1.0)
        events: list[set[object]] = [{outcome} for outcome in law]
        for factor in (1 - error, 1 + error):
            other = specimen.law(counts, factor)
            events.append({outcome for outcome in law if other.get(outcome, 0.0) > law[outcome]})
        shown = observe(specimen, counts, noise, trials)
        strange = set(shown) - set(law)
        assert not strange, f"{specimen.name} showed {strange}, which its law excludes"
        for event in events:
            chance = min(1.0, sum(law[o] for o in event))
            hits = sum(shown[o] for o in event if isinstance(o, Hashable))
            assert not surprising(hits, trials, chance, LEVEL), (
                f"{specimen.name} on {counts}: {event} came {hits} times in {trials}, expected {chance * trials:.0f}"
            )


def the_exact_law_keeps_the_claimed_epsilon(specimen: Specimen, noise: Noise) -> None:
    """sum over outcomes of max(0, P - e^epsilon P') is at most delta, both ways: no sampling involved."""
    laws = [specimen.law(counts, 1.0) for counts in specimen.pair]
    for first, second in (laws, laws[::-1]):
        excess = sum(max(0.0, first[o] - math.exp(specimen.epsilon) * second.get(o, 0.0)) for o in first)
        assert excess <= specimen.delta + 1e-12, f"{specimen.name}: {excess:.3g} above delta {specimen.delta}"


def empirical_epsilon(specimen: Specimen, noise: Noise, trials: int | None = None) -> float:
    """A lower bound on the true epsilon: the best event of one half of the runs, tested on the other half."""
    trials = trials or specimen.trials // 6
    first, second = ([observe(specimen, c, noise, trials) for _ in range(2)] for c in specimen.pair)
    best = 0.0
    for here, there in ((first, second), (second, first)):
        outcomes = set(here[0]) | set(there[0])
        ranked = max(outcomes, key=lambda o: epsilon_lower_bound(here[0][o], there[0][o], trials, specimen.delta, 0.5))
        best = max(best, epsilon_lower_bound(here[1][ranked], there[1][ranked], trials, specimen.delta))
    return best


def no_event_betrays_more_than_the_claimed_epsilon(specimen: Specimen, noise: Noise) -> None:
    """The empirical lower bound on epsilon stays below the claim."""
    shown = empirical_epsilon(specimen, noise)
    assert shown <= specimen.epsilon, f"{specimen.name} claims {specimen.epsilon} and shows at least {shown:.3f}"


class SpiedHistogram(Histogram):
    """A histogram that notes when its counts are looked at."""

    def __init__(self, counts: tuple[int, ...], budget: Budget, neighbours: str) -> None:
        made = Histogram.of(counts, "replace-one" if neighbours == "replace-one" else "add-remove")
        object.__setattr__(self, "counts", made.counts)
        object.__setattr__(self, "neighbours", made.neighbours)
        object.__setattr__(self, "budget", budget)
        object.__setattr__(self, "unpaid", 0)

    budget: Budget
    unpaid: int

    def total(self, query: LinearQuery) -> int:
        if self.budget.spent() == 0:
            object.__setattr__(self, "unpaid", self.unpaid + 1)
        return Histogram.total(self, query)


def nothing_is_released_without_a_charge(specimen: Specimen, noise: Noise) -> None:
    """The counts are not looked at before the full claimed loss is charged, and not at all if it cannot be."""
    purse = specimen.purse()
    spied = SpiedHistogram(specimen.pair[0], purse, specimen.cost.neighbours)
    specimen.play(spied, purse, noise)
    assert spied.unpaid == 0, f"{specimen.name} read the data before it was paid"
    assert purse.spent() == specimen.cost.amount, f"{specimen.name} charged {purse.spent()}, not {specimen.cost.amount}"
    cap = Loss(specimen.cost.unit, specimen.cost.amount * Fraction(99, 100), specimen.cost.delta, "replace-one")
    empty = Budget(Cap(cap))
    refused = SpiedHistogram(specimen.pair[0], empty, specimen.cost.neighbours)
    try:
        specimen.play(refused, empty, noise)
    except BudgetExhausted:
        assert refused.unpaid == 0, f"{specimen.name} read the data of a refused question"
        assert empty.spent() == 0, f"{specimen.name}: a refusal was charged"
        return
    raise AssertionError(f"{specimen.name} answered beyond its budget")


def costs_and_refusals_are_the_same_on_neighbours(specimen: Specimen, noise: Noise) -> None:
    """What is charged, and what an error says, does not depend on the data: many runs, ample and scarce budgets."""
    seen: list[set[tuple[Fraction, str]]] = []
    for counts in specimen.pair:
        found: set[tuple[Fraction, str]] = set()
        for share in (Fraction(1, 2), Fraction(1), Fraction(3, 2)):
            here = set()
            for _ in range(20):
                cost = specimen.cost
                purse = Budget(Cap(Loss(cost.unit, cost.amount * share, cost.delta, cost.neighbours)))
                said = ""
                try:
                    specimen.play(Histogram.of(counts, cost.neighbours), purse, noise)
                except KeyholeError as error:
                    said = str(error)
                here.add((purse.spent() / cost.amount, said))
            assert len(here) == 1, f"{specimen.name}: with {share} of its cost it comes out as any of {here}"
            found |= here
        seen.append(found)
    assert seen[0] == seen[1], f"{specimen.name}: costs or errors differ on neighbours: {seen[0] ^ seen[1]}"
    assert {spent for spent, _ in seen[0]} == {0, 1}, f"{specimen.name} charges {sorted(s for s, _ in seen[0])}"


LAWS: tuple[MechanismLaw, ...] = (
    outputs_follow_their_exact_law_on_both_neighbours,
    the_exact_law_keeps_the_claimed_epsilon,
    no_event_betrays_more_than_the_claimed_epsilon,
    nothing_is_released_without_a_charge,
    costs_and_refusals_are_the_same_on_neighbours,
)


# --- budgets --------------------------------------------------------------------------------------------------------

BudgetLaw = Callable[[Callable[[Cap], Budget]], None]


def a_refusal_changes_nothing_and_leaves_less_possible(make: Callable[[Cap], Budget]) -> None:
    """After a refusal the books are as before, and a smaller loss can still be charged, down to exactly zero."""
    budget = make(Cap(Loss.of_epsilon(1, Fraction(1, 10))))
    budget.spend(Loss.of_epsilon(Fraction(2, 3)))
    for loss in (Loss.of_epsilon(Fraction(1, 2)), Loss.of_epsilon(Fraction(1, 9), Fraction(1, 5))):
        try:
            budget.spend(loss)
        except BudgetExhausted:
            pass
        else:
            raise AssertionError("more than the cap was spent")
        assert budget.left() == Fraction(1, 3), "a refusal was charged"
    budget.spend(Loss.of_epsilon(Fraction(1, 3), Fraction(1, 10)))
    assert budget.left() == 0


def the_sum_is_exact_after_many_charges(make: Callable[[Cap], Budget]) -> None:
    """A thousand tenths of a per mille are a tenth, exactly."""
    budget = make(Cap(Loss.of_epsilon("0.1")))
    for i in range(1000):
        try:
            budget.spend(Loss.of_epsilon("0.0001"))
        except BudgetExhausted:
            raise AssertionError(f"refused after {i} of 1000") from None
    assert budget.left() == 0
    assert budget.spent() == Fraction(1, 10)


def analysts_together_never_pass_the_global_cap(make: Callable[[Cap], Budget]) -> None:
    """Each analyst has a cap, and all together have another, against collusion."""
    shares = {"alice": Fraction(3, 5), "bob": Fraction(3, 5)}
    budget = make(Cap(Loss.of_epsilon(1), shares))
    budget.spend(Loss.of_epsilon("0.6"), analyst="alice")
    assert budget.left("alice") == 0
    assert budget.left("bob") == Fraction(2, 5)
    for analyst, amount in (("alice", "0.1"), ("bob", "0.5")):
        try:
            budget.spend(Loss.of_epsilon(amount), analyst=analyst)
        except BudgetExhausted:
            continue
        raise AssertionError(f"{analyst} spent {amount} beyond a cap")
    budget.spend(Loss.of_epsilon("0.4"), analyst="bob")


def the_budget_is_never_overspent_by_threads(make: Callable[[Cap], Budget]) -> None:
    """Eight threads ask for more than there is: exactly the cap is spent."""
    budget = make(Cap(Loss.of_epsilon(1)))
    granted: list[int] = []

    def ask() -> None:
        for _ in range(25):
            try:
                budget.spend(Loss.of_epsilon("0.01"))
            except BudgetExhausted:
                continue
            granted.append(1)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(granted) == 100, f"{len(granted)} hundredths were granted of one"
    assert budget.left() == 0


BUDGET_LAWS: tuple[BudgetLaw, ...] = (
    a_refusal_changes_nothing_and_leaves_less_possible,
    the_sum_is_exact_after_many_charges,
    analysts_together_never_pass_the_global_cap,
    the_budget_is_never_overspent_by_threads,
)

__all__ = ["BUDGET_LAWS", "LAWS", "SPECIMENS", "Specimen", "empirical_epsilon", "observe", "seeded"]
