"""A rule instead of a budget: every answer within alpha with probability 1 - beta, as cheaply as possible.

Questions are functionals over the axes of one domain; the same ski rental as a session's, without SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb, prod

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.budget.loss import Unit
from keyhole.defence.noise import NoiseSource
from keyhole.defence.planner.sizing import Rented, find_noise, is_worth_a_table
from keyhole.defence.tables.allocation import Allocation
from keyhole.defence.tables.inference import Functional, Inference, Names, subsets
from keyhole.defence.tables.noisy_tables import COUNT, LAWS, BoughtTable, Dose, Generation, add_noise, price

Counts = NDArray[np.int64]
ROUNDS = 200
REFINED = 3  # times that exact tails correct the normal ones
SMALL_DOMAIN = 4096  # cells up to which one table of everything is always thought of
LEAST_SHARE = 1e-4  # tables that would get less of the price are left out


@dataclass(frozen=True, slots=True)
class Rule:
    """Counts of n people (public) within `within` of them, each with probability 1 - beta."""

    n: int
    within: float
    beta: float
    unit: Unit

    def number(self) -> Fraction:
        """The price of one number of its own."""
        dose = Dose(COUNT, find_noise(self.within - 0.5, self.beta, LAWS[self.unit]))
        return price([dose], LAWS[self.unit], "number", "replace-one").amount

    def price(self, noise: Fraction) -> Fraction:
        """The price of a table with this noise."""
        return price([Dose(COUNT, noise)], LAWS[self.unit], "table", "replace-one").amount


@dataclass(slots=True, eq=False)
class RulePlanner:
    """Answers functionals as they come, never paying more than twice the better of numbers and tables.

    `truth` gives the true margin over some axes; it is read after the price was fixed.
    """

    rule: Rule
    sizes: Mapping[str, int]
    truth: Mapping[Names, Counts]
    noise: NoiseSource
    generation: Generation = field(init=False)
    whole: Fraction | None = field(init=False, default=None)  # the noise of a table of everything, on a small domain
    spent: Fraction = Fraction(0)
    rented: dict[Names, int] = field(default_factory=dict)
    numbers: dict[object, float] = field(default_factory=dict)
    asked: set[object] = field(default_factory=set)
    prefix: list[tuple[int, Fraction]] = field(default_factory=list)  # distinct questions and what was paid by then

    def __post_init__(self) -> None:
        self.generation = Generation(self.rule.n)
        names = tuple(sorted(self.sizes))
        if prod(self.sizes.values()) <= SMALL_DOMAIN and names in self.truth:
            self.whole = most_noise(self.generation, names, [], self.rule, self.sizes, everything=True)

    def ask(self, question: Functional, mark: object) -> float:
        """The answer; `mark` says which question it is."""
        self.asked.add(mark)
        if self.enough(self.generation, question):
            return float(self.generation.value(COUNT, question))
        if mark in self.numbers:
            return self.numbers[mark]
        bought = self._worth_buying(question)
        if bought is not None:
            self.buy(*bought)
            self.prefix.append((len(self.asked), self.spent))
            return float(self.generation.value(COUNT, question))
        number = self.rule.number()
        self.spent += number
        self.prefix.append((len(self.asked), self.spent))
        self.rented[question.names] = self.rented.get(question.names, 0) + 1
        dose = Dose(COUNT, find_noise(self.rule.within - 0.5, self.rule.beta, LAWS[self.rule.unit]))
        true = np.array(int(question.within(self.truth[question.names].astype(np.float64)).round()), dtype=np.int64)
        self.numbers[mark] = float(add_noise(true, dose, LAWS[self.rule.unit], self.noise))
        return self.numbers[mark]

    def _worth_buying(self, question: Functional) -> tuple[Names, Fraction] | None:
        """The table to buy now, if one is worth it.

        Of a small domain the table of everything is the other way there is (price W): it is bought as soon as all that
        is then paid is at most 2 min(distinct questions * number, W); until then nothing is paid beyond what numbers
        alone would have cost. So at every prefix at most twice the better way is paid, whatever the order: the first
        time that the numbers reach W, less than W was paid, and the table costs W at most.
        """
        number, wide = self.rule.number(), self._union(question.names)
        if self.whole is None:
            noise, rented = self.table_noise(question, wide), sum(self.rented.values())
            worth = is_worth_a_table(self.rule.price(noise), number, Rented(number * rented, rented))
            return (wide, noise) if worth else None
        everything, noise, alone = tuple(sorted(self.sizes)), self.whole, len(self.asked) * number
        if self.generation.tables:  # with what is known it may have more noise, and never needs less
            noise = max(noise, self.table_noise(question, everything, everything=True))
        if self.spent + self.rule.price(noise) <= 2 * min(alone, self.rule.price(self.whole)):
            return everything, noise
        if wide == everything:
            return None
        noise = self.table_noise(question, wide)
        return (wide, noise) if self.spent + self.rule.price(noise) <= alone else None

    def buy(self, names: Names, noise: Fraction) -> None:
        """One table, charged, read, drawn."""
        self.spent += self.rule.price(noise)
        law, dose = LAWS[self.rule.unit], Dose(COUNT, noise)
        self.generation.add(BoughtTable(names, law, (dose,), (add_noise(self.truth[names], dose, law, self.noise),)))
        self.rented = {over: k for over, k in self.rented.items() if not set(over) <= set(names)}

    def against_better(self, table: Fraction) -> Fraction:
        """The most that was paid at any moment, in units of the better way: a number for each distinct question so far,
        or one table for `table` that answers them all. Between purchases nothing is paid, so they alone are looked at.
        """
        better = ((paid, min(distinct * self.rule.number(), table)) for distinct, paid in self.prefix)
        return max((paid / price for paid, price in better), default=Fraction(0))

    def enough(self, generation: Generation, question: Functional) -> bool:
        """Is it within the rule?"""
        if not np.isfinite(generation.variance(COUNT, question)):
            return False
        return generation.law(COUNT, question).bar(self.rule.beta) <= self.rule.within * (1 + 1e-9)

    def _union(self, names: Names) -> Names:
        """Its columns and those of the numbers rented so far, if their table can be held."""
        union = tuple(sorted({*names, *(name for over in self.rented for name in over)}))
        return union if prod(self.sizes[name] for name in union) <= 2**16 and union in self.truth else names

    def table_noise(self, question: Functional, names: Names, *, everything: bool = False) -> Fraction:
        """The most noise with which a table answers this question and everything like it on its columns, with what is
        known. What is like it may be known well where it is not, so both are looked at.
        """
        single = question.vectors is not None and all(float(v.sum()) <= 1 for v in question.vectors)
        return most_noise(
            self.generation, names, [question], self.rule, self.sizes, everything=everything or not single
        )


def most_noise(
    generation: Generation, names: Names, questions: Sequence[Functional], rule: Rule, sizes: Mapping[str, int], *,
    everything: bool = False,
) -> Fraction:  # fmt: skip
    """By bisection on the noise of one table more: all that is asked is within the rule, and with `everything` also the
    product question over the table's axes that would then be known least.
    """
    law, shape = LAWS[rule.unit], tuple(sizes[name] for name in names)

    def enough(noise: float) -> bool:
        trial = Generation(generation.n, list(generation.tables))
        held = generation.of(COUNT)
        trial.known[COUNT] = Inference(held.known, dict(held.info), dict(held.moments), dict(held.sizes))
        dose = Dose(COUNT, Fraction(noise))
        trial.add(BoughtTable(names, law, (dose,), (np.zeros(shape, np.int64),)))
        worst = [_over(names, trial.of(COUNT).worst(names))] if everything else []
        return all(trial.law(COUNT, each).bar(rule.beta) <= rule.within for each in (*questions, *worst))

    low, high = 1e-9, 4 * rule.within**2 + 4
    while high / low > 1.0002:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if enough(middle) else (low, middle)
    return Fraction(low)


def _over(names: Names, vectors: Sequence[NDArray[np.float64]]) -> Functional:
    return Functional.product(names, vectors)


def declared_tables(
    questions: Sequence[Functional],
    candidates: Sequence[Names],
    rule: Rule,
    sizes: Mapping[str, int],
    rounds: int = ROUNDS,
) -> dict[Names, Fraction]:
    """The noise of each table to buy when all questions are known: the least price found at which all are within.

    Weights grow where a question is furthest from the rule (minimax); the best iterate is kept, since it oscillates.
    Questions that look alike are one. Cost: rounds x questions x residuals; then the exact tails of the worst ones.
    """
    shapes = {(f.names, f.profiles): f for f in questions if f.names}
    residuals = {keep: at for at, keep in enumerate({k: None for c in candidates for k in subsets(c) if k})}
    says = np.zeros((len(residuals), len(candidates)))
    for at, names in enumerate(candidates):
        for keep in subsets(names):
            if keep:
                says[residuals[keep], at] = 1 / prod(sizes[name] for name in names if name not in keep)
    matters = np.zeros((len(shapes), len(residuals)))
    for at, (names, profiles) in enumerate(shapes):
        table = Inference.weights(profiles)
        for keep in subsets(names):
            if keep:
                matters[at, residuals[keep]] = float(table[tuple(int(name in keep) for name in names)])
    linear = rule.unit == "epsilon"
    costs = np.full(len(candidates), 2 * 2**0.5 if linear else 1.0)
    count = len(shapes)
    need = Allocation(matters, says, costs, np.ones(count), np.full(count, 1 / count), linear)
    ratio = np.ones(count)  # of an exact bar to the standard deviation: larger where few Laplace draws matter
    cheapest = _one_table(list(shapes.values()), candidates, rule, sizes)
    for _ in range(1 if rule.unit == "rho" else REFINED):
        best = _minimax(need, ratio, rounds)
        found, bars = _within_rule(best, candidates, list(shapes.values()), need, rule, sizes)
        ratio = bars / need.deviations(best)
        if not cheapest or _total(found, rule) < _total(cheapest, rule):
            cheapest = found
    return cheapest


def _one_table(
    questions: Sequence[Functional], candidates: Sequence[Names], rule: Rule, sizes: Mapping[str, int]
) -> dict[Names, Fraction]:
    """The table of all columns asked about, if it is a candidate: what many tables must beat."""
    every = tuple(sorted({name for each in questions for name in each.names}))
    if every not in {tuple(sorted(names)) for names in candidates}:
        return {}
    return {every: most_noise(Generation(rule.n), every, questions, rule, sizes)}


def _total(tables: Mapping[Names, Fraction], rule: Rule) -> Fraction:
    return sum((rule.price(noise) for noise in tables.values()), Fraction(0))


def _is_symmetric(questions: Sequence[Functional], candidates: Sequence[Names], sizes: Mapping[str, int]) -> bool:
    """Are all columns alike, and all sets of as many of them? Then so are the bars of all questions.

    >>> one = [Functional.product((name,), [np.array([1.0, 0.0])]) for name in "ab"]
    >>> _is_symmetric(one, [("a",), ("b",)], {"a": 2, "b": 2}), _is_symmetric(one, [("a",)], {"a": 2, "b": 2})
    (True, False)
    """
    sets = [{frozenset(each.names) for each in questions}, {frozenset(names) for names in candidates}]
    every = all(
        sum(len(one) == size for one in chosen) in (0, comb(len(sizes), size))
        for chosen in sets
        for size in range(len(sizes) + 1)
    )
    alike = len(set(sizes.values())) == 1 == len({each.profiles for each in questions})
    return every and alike and len(sets[0]) == len(questions) and len({p for q in questions for p in q.profiles}) == 1


def _minimax(need: Allocation, ratio: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """The precisions whose largest ratio * deviation is least, of all that the iteration passes."""
    count = len(ratio)
    precision, weights = need.scaled(np.ones(len(need.costs)), 1.0), np.full(count, 1 / count)
    best, least = precision, np.inf
    for _ in range(rounds):
        for _ in range(3):
            precision = need.step(precision, weights, 1.0)
        bars = ratio * need.deviations(precision)
        if float(bars.max()) < least:
            best, least = precision, float(bars.max())
        weights = weights * (bars / bars.max()) ** 1.2
        weights = weights / weights.sum()
    return best


def _within_rule(
    precision: NDArray[np.float64], candidates: Sequence[Names], questions: Sequence[Functional], need: Allocation,
    rule: Rule, sizes: Mapping[str, int],
) -> tuple[dict[Names, Fraction], NDArray[np.float64]]:  # fmt: skip
    """The same proportions, scaled until the exact tails of all questions are within the rule; and the bars before."""
    paid = need.costs * (np.sqrt(precision) if need.linear else precision)
    made = Generation(rule.n)
    for at, names in enumerate(candidates):
        if paid[at] <= LEAST_SHARE * paid.sum():
            continue
        noise = Fraction(float((1 / (2 * precision[at])) ** 0.5 if need.linear else 1 / precision[at]))
        shape = tuple(sizes[name] for name in names)
        made.add(BoughtTable(names, LAWS[rule.unit], (Dose(COUNT, noise),), (np.zeros(shape, np.int64),)))
    looked = questions[:1] if _is_symmetric(questions, candidates, sizes) else questions
    bars = np.array([made.law(COUNT, each).bar(rule.beta) for each in looked])
    bars = np.resize(bars, len(questions))
    scale = rule.within * (1 - 1e-4) / float(bars.max())
    found = {}
    for table in made.tables:
        noise = Fraction(float(table.doses[0].noise) * (scale if need.linear else scale**2))
        found[table.names] = noise
    return found, bars
