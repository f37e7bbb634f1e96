"""Laws of every mechanism: privacy is tested, not claimed.

A law is a function of a `Game` that raises `AssertionError` if the game breaks it. The statistical ones share the
one false-alarm rate of `chernoff.SUITE_FALSE_ALARM`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from fractions import Fraction

from tests.laws import mechanisms_liars as liars
from tests.laws.chernoff import LEVEL, epsilon_lower_bound, surprising
from tests.laws.law import Law
from tests.laws.mechanism_games import SPECIMENS, Game

from keyhole.defence.budget.budget import Budget, Cap
from keyhole.defence.budget.loss import Loss
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.noise import NoiseSource
from keyhole.errors import BudgetExhausted, KeyholeError


def observe(game: Game, counts: tuple[int, ...], noise: NoiseSource, trials: int) -> Counter[Hashable]:
    """How often each outcome was shown."""
    histogram, purse = Histogram.of(counts, game.cost.neighbours), game.purse()
    return Counter(game.play(histogram, purse, noise) for _ in range(trials))


def outputs_follow_their_exact_law_on_both_neighbours(
    game: Game, trials: int | None = None, error: float = 0.1
) -> None:
    """The frequencies of the outcomes are those of the calibrated noise; noise that is `error` off would show.

    Compared are each outcome, and the two events that tell noise too small or too large by `error` from the right one:
    the outcomes that such noise would make likelier.
    """
    trials, noise = trials or game.trials, game.door()
    for counts in game.pair:
        law = game.law(counts, 1.0)
        events: list[set[object]] = [{outcome} for outcome in law]
        for factor in (1 - error, 1 + error):
            other = game.law(counts, factor)
            events.append({outcome for outcome in law if other.get(outcome, 0.0) > law[outcome]})
        shown = observe(game, counts, noise, trials)
        strange = set(shown) - set(law)
        assert not strange, f"{game.name} showed {strange}, which its law excludes"
        for event in events:
            chance = min(1.0, sum(law[o] for o in event))
            hits = sum(shown[o] for o in event if isinstance(o, Hashable))
            assert not surprising(hits, trials, chance, LEVEL), (
                f"{game.name} on {counts}: {event} came {hits} times in {trials}, expected {chance * trials:.0f}"
            )


def the_exact_law_keeps_the_claimed_epsilon(game: Game) -> None:
    """sum over outcomes of max(0, P - e^epsilon P') is at most delta, both ways: no sampling involved."""
    laws = [game.law(counts, 1.0) for counts in game.pair]
    for first, second in (laws, laws[::-1]):
        excess = sum(max(0.0, first[o] - math.exp(game.epsilon) * second.get(o, 0.0)) for o in first)
        assert excess <= game.delta + 1e-12, f"{game.name}: {excess:.3g} above delta {game.delta}"


def empirical_epsilon(game: Game, trials: int | None = None) -> float:
    """A lower bound on the true epsilon: the best event of one half of the runs, tested on the other half."""
    trials, noise = trials or game.trials // 6, game.door()
    first, second = ([observe(game, c, noise, trials) for _ in range(2)] for c in game.pair)
    best = 0.0
    for here, there in ((first, second), (second, first)):
        outcomes = set(here[0]) | set(there[0])
        ranked = max(outcomes, key=lambda o: epsilon_lower_bound(here[0][o], there[0][o], trials, game.delta, 0.5))
        best = max(best, epsilon_lower_bound(here[1][ranked], there[1][ranked], trials, game.delta))
    return best


def no_event_betrays_more_than_the_claimed_epsilon(game: Game) -> None:
    """The empirical lower bound on epsilon stays below the claim."""
    shown = empirical_epsilon(game)
    assert shown <= game.epsilon, f"{game.name} claims {game.epsilon} and shows at least {shown:.3f}"


class SpiedHistogram(Histogram):
    """A histogram that notes when its counts are looked at."""

    def __init__(self, counts: tuple[int, ...], budget: Budget, neighbours: str) -> None:
        made = Histogram.of(counts, "replace-one" if neighbours == "replace-one" else "add-remove")
        object.__setattr__(self, "counts", made.counts)
        object.__setattr__(self, "neighbours", made.neighbours)
        object.__setattr__(self, "_margins", {})
        object.__setattr__(self, "budget", budget)
        object.__setattr__(self, "unpaid", 0)

    budget: Budget
    unpaid: int

    def total(self, query: LinearQuery) -> int:
        if self.budget.spent() == 0:
            object.__setattr__(self, "unpaid", self.unpaid + 1)
        return Histogram.total(self, query)


def nothing_is_released_without_a_charge(game: Game) -> None:
    """The counts are not looked at before the full claimed loss is charged, and not at all if it cannot be."""
    purse, noise = game.purse(), game.door()
    spied = SpiedHistogram(game.pair[0], purse, game.cost.neighbours)
    game.play(spied, purse, noise)
    assert spied.unpaid == 0, f"{game.name} read the data before it was paid"
    assert purse.spent() == game.cost.amount, f"{game.name} charged {purse.spent()}, not {game.cost.amount}"
    cap = Loss(game.cost.unit, game.cost.amount * Fraction(99, 100), game.cost.delta, "replace-one")
    empty = Budget(Cap(cap))
    refused = SpiedHistogram(game.pair[0], empty, game.cost.neighbours)
    try:
        game.play(refused, empty, noise)
    except BudgetExhausted:
        assert refused.unpaid == 0, f"{game.name} read the data of a refused question"
        assert empty.spent() == 0, f"{game.name}: a refusal was charged"
        return
    raise AssertionError(f"{game.name} answered beyond its budget")


def costs_and_refusals_are_the_same_on_neighbours(game: Game) -> None:
    """What is charged, and what an error says, does not depend on the data: many runs, ample and scarce budgets."""
    seen: list[set[tuple[Fraction, str]]] = []
    noise = game.door()
    for counts in game.pair:
        found: set[tuple[Fraction, str]] = set()
        for share in (Fraction(1, 2), Fraction(1), Fraction(3, 2)):
            here = set()
            for _ in range(20):
                cost = game.cost
                purse = Budget(Cap(Loss(cost.unit, cost.amount * share, cost.delta, cost.neighbours)))
                said = ""
                try:
                    game.play(Histogram.of(counts, cost.neighbours), purse, noise)
                except KeyholeError as error:
                    said = str(error)
                here.add((purse.spent() / cost.amount, said))
            assert len(here) == 1, f"{game.name}: with {share} of its cost it comes out as any of {here}"
            found |= here
        seen.append(found)
    assert seen[0] == seen[1], f"{game.name}: costs or errors differ on neighbours: {seen[0] ^ seen[1]}"
    assert {spent for spent, _ in seen[0]} == {0, 1}, f"{game.name} charges {sorted(s for s, _ in seen[0])}"


LAWS: tuple[Law[Game], ...] = (
    Law(outputs_follow_their_exact_law_on_both_neighbours, (*liars.TOO_LITTLE_NOISE, *liars.WRONG_SPARSE_VECTORS)),
    Law(the_exact_law_keeps_the_claimed_epsilon, liars.OVERCLAIMING),
    Law(no_event_betrays_more_than_the_claimed_epsilon, liars.BETRAYING),
    Law(nothing_is_released_without_a_charge, liars.NOT_PAYING),
    Law(costs_and_refusals_are_the_same_on_neighbours, liars.TELLING_BY_PRICE),
)

__all__ = ["LAWS", "SPECIMENS", "Game", "empirical_epsilon", "observe"]
