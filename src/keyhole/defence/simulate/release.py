"""Mechanisms played on one stream of questions: what each costs so that every answer is within alpha."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.budget.loss import epsilon_at
from keyhole.defence.mechanisms.online_ic import plan_online
from keyhole.defence.simulate.rule_planner import Rule, RulePlanner, declared_tables, most_noise
from keyhole.defence.simulate.workloads import Workload
from keyhole.defence.tables.noisy_tables import COUNT, Generation
from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights
from keyhole.errors import KeyholeError

Mask = NDArray[np.bool_]
WIDE = 10**6  # variance beyond which the discrete Gaussian is drawn as a rounded normal
LARGEST_TABLE = 2**16
LARGEST_HYPOTHESIS = 2**20


class SeededNoise:
    """Draws from the same laws as `keyhole.defence.noise.ExactNoise`, from a seeded generator, in blocks.

    Not for releases: the laws are evaluated in floating point and the seed repeats them.

    >>> one, two = (SeededNoise(np.random.default_rng(1)) for _ in range(2))
    >>> [one.laplace(Fraction(3)) for _ in range(9)] == [two.laplace(Fraction(3)) for _ in range(9)]
    True
    """

    BLOCK = 4096

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._blocks: dict[tuple[str, Fraction], list[int]] = {}

    def laplace(self, scale: Fraction) -> int:
        """The difference of two geometric variables."""
        block = self._blocks.setdefault(("laplace", scale), [])
        if not block:
            p = -math.expm1(-1 / float(scale))
            block.extend((self._rng.geometric(p, self.BLOCK) - self._rng.geometric(p, self.BLOCK)).tolist())
        return block.pop()

    def gaussian(self, variance: Fraction) -> int:
        """By the inverse of the distribution function, tabulated to ten deviations; a wide law is a rounded normal one,
        from which it differs by less than a double can tell.
        """
        block = self._blocks.setdefault(("gaussian", variance), [])
        if not block and variance > WIDE:
            block.extend(np.rint(self._rng.normal(0, math.sqrt(variance), 64)).astype(np.int64).tolist())
        if not block:
            reach = math.ceil(10 * math.sqrt(variance)) + 1
            points = np.arange(-reach, reach + 1)
            masses = np.exp(-(points**2) / (2 * float(variance)))
            upto = np.cumsum(masses / masses.sum())
            block.extend(points[np.searchsorted(upto, self._rng.random(self.BLOCK))].tolist())
        return block.pop()

    def choose(self, scores: Sequence[int], scale: Fraction) -> int:
        """The largest score after Gumbel noise."""
        return int(np.argmax(np.asarray(scores) / float(scale) + self._rng.gumbel(size=len(scores))))


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseOutcome:
    """What one mechanism spent on a stream, how many questions it answered, and how many of them within alpha.

    `epsilon` is the pure epsilon, or that of its rho at delta. `errors` are those of the
    answers in units of the bar, alpha n; None: it was priced, not played.
    """

    mechanism: str
    epsilon: float
    answered: int
    errors: NDArray[np.float64] | None
    seconds: float
    note: str = ""

    @property
    def within_alpha(self) -> float | None:
        """The share of answers inside their bar."""
        return None if self.errors is None else float((self.errors <= 1).mean())


@dataclass(frozen=True, slots=True)
class Setup:
    """What all mechanisms are asked for."""

    alpha: float
    beta: float
    delta: float
    seed: int

    def rule(self, work: Workload, unit: str = "epsilon") -> Rule:
        """Counts within alpha n."""
        return Rule(work.n, self.alpha * work.n, self.beta, "rho" if unit == "rho" else "epsilon")


def planner(work: Workload, setup: Setup) -> ReleaseOutcome:
    """The stream is not announced: ski rental, in pure epsilon."""
    rule, noise = setup.rule(work), SeededNoise(np.random.default_rng(setup.seed))
    play = RulePlanner(rule, work.sizes, work.truth, noise)
    errors = _answered(work, setup, lambda at: play.ask(work.question(at), at))
    note = _tables(len(play.generation.tables))
    if play.whole is not None:
        most = float(play.against_better(rule.price(play.whole)))
        note += f"; at every prefix at most {most:.3f} times the better way"
    return ReleaseOutcome("planner", float(play.spent), len(work.stream), errors, 0.0, note)


def planner_declared(work: Workload, setup: Setup) -> ReleaseOutcome:
    """The pool is announced: the cheapest tables for all of it (or a number for each), in the cheaper unit; both are
    told.
    """
    best: tuple[float, str, Generation] | None = None
    prices = []
    for unit in ("epsilon", "rho") if setup.delta > 0 else ("epsilon",):
        rule, noise = setup.rule(work, unit), SeededNoise(np.random.default_rng(setup.seed))
        tables_bought = declared_tables(list(work.shapes()), _candidates(work, unit), rule, work.sizes)
        play = RulePlanner(rule, work.sizes, work.truth, noise)
        for names, each in tables_bought.items():
            play.buy(names, each)
        paid = float(play.spent if unit == "epsilon" else epsilon_at(play.spent, Fraction(str(setup.delta))))
        if unit == "rho":
            prices.append(f"rho {float(play.spent):.4g} at delta {setup.delta:g} is epsilon {paid:.4g}")
        elif setup.delta > 0:
            prices.append(f"pure epsilon {paid:.4g}")
        if best is None or paid < best[0]:
            best = (paid, _tables(len(tables_bought)), play.generation)
    assert best is not None
    paid, tables, known = best
    note, numbers = "; ".join([tables, *prices]), float(len(work.pool) * setup.rule(work).number())
    if numbers < paid:
        single = cache(work, setup)
        return ReleaseOutcome(
            "planner-declared", numbers, single.answered, single.errors, 0.0, f"a number for each; with {note}"
        )
    errors = _answered(work, setup, lambda at: float(known.value(COUNT, work.question(at))))
    return ReleaseOutcome("planner-declared", paid, len(work.stream), errors, 0.0, note)


def _candidates(work: Workload, unit: str) -> list[tuple[str, ...]]:
    """Tables over the columns of questions (under Laplace noise those within no other: narrower ones are never worth
    their price there); where all columns together are few cells, also over any of them.
    """
    asked = {q.names for q in work.shapes() if q.names}
    if math.prod(work.sizes.values()) <= 4096:
        return [c for k in range(1, len(work.names) + 1) for c in combinations(work.names, k)]
    return sorted(a for a in asked if unit == "rho" or not any(set(a) < set(b) for b in asked))


def laplace(work: Workload, setup: Setup) -> ReleaseOutcome:
    """Every question by itself, each time."""
    rule, rng = setup.rule(work), np.random.default_rng(setup.seed)
    cost = float(rule.number())
    errors = _answered(work, setup, lambda at: work.true(at) + rng.laplace(0, 1 / cost))
    return ReleaseOutcome("laplace", cost * len(work.stream), len(work.stream), errors, 0.0)


def cache(work: Workload, setup: Setup) -> ReleaseOutcome:
    """Every distinct question once."""
    rule, rng = setup.rule(work), np.random.default_rng(setup.seed)
    cost, kept = float(rule.number()), {}

    def ask(at: int) -> float:
        if at not in kept:
            kept[at] = work.true(at) + rng.laplace(0, 1 / cost)
        return kept[at]

    errors = _answered(work, setup, ask)
    return ReleaseOutcome("cache", cost * len(kept), len(work.stream), errors, 0.0)


def histogram(work: Workload, setup: Setup) -> ReleaseOutcome:
    """The whole histogram at once, good for any product of subsets."""
    rule = setup.rule(work)
    if math.prod(work.sizes.values()) > LARGEST_TABLE:
        return ReleaseOutcome("histogram", math.nan, 0, None, 0.0, "too many cells")
    play = RulePlanner(rule, work.sizes, work.truth, SeededNoise(np.random.default_rng(setup.seed)))
    play.buy(work.names, most_noise(Generation(work.n), work.names, [], rule, work.sizes, everything=True))
    errors = _answered(work, setup, lambda at: float(play.generation.value(COUNT, work.question(at))))
    return ReleaseOutcome("histogram", float(play.spent), len(work.stream), errors, 0.0)


def weights(name: str, rate: float, *, bypass: bool = False) -> Callable[[Workload, Setup], ReleaseOutcome]:
    """Private multiplicative weights with a sparse vector at threshold alpha/2, as in Turbo (SOSP 2023).

    In units of 4 ln(1/beta) / (alpha n): three for a sparse vector run and one for the number that a firing gives out.

    `bypass`: questions on cells that were corrected seldom are answered by Laplace and only teach. Firings are counted
    when they happen, which is optimistic: a run that is safe pays for them beforehand.
    """

    def play(work: Workload, setup: Setup) -> ReleaseOutcome:
        cells = math.prod(work.sizes.values())
        if cells > LARGEST_HYPOTHESIS:
            return ReleaseOutcome(name, math.nan, 0, None, 0.0, "too many cells")
        rng, shape = np.random.default_rng(setup.seed), tuple(work.sizes.values())
        unit = 4 * math.log(1 / setup.beta) / (setup.alpha * work.n)
        guess, visits, kept = np.full(shape, 1 / cells), np.zeros(shape, dtype=np.int64), dict[int, float]()
        spent, level = 3 * unit, rng.laplace(0, 1 / unit)
        single = math.log(1 / setup.beta) / (setup.alpha * work.n)
        small = setup.alpha / 2

        def learn(mask: Mask, guessed: float, answer: float) -> None:
            nonlocal guess
            if abs(answer - guessed) > small * (0.1 if bypass else 1):
                guess = guess * np.where(mask, math.exp(rate if answer > guessed else -rate), 1.0)
                guess /= guess.sum()
                visits[mask] += 1

        def ask(at: int) -> float:
            nonlocal spent, level
            if at in kept:
                return kept[at]
            mask, true = _mask(work, at), work.true(at) / work.n
            guessed = float(guess[mask].sum())
            if bypass and visits[mask].min() < 1:
                spent += single
                answer = true + rng.laplace(0, 1 / (single * work.n))
                kept[at] = answer * work.n
                learn(mask, guessed, answer)
                return kept[at]
            if abs(true - guessed) + rng.laplace(0, 1 / (unit * work.n)) < small + level / work.n:
                return guessed * work.n
            spent += 4 * unit
            level = rng.laplace(0, 1 / unit)
            answer = true + rng.laplace(0, 1 / (unit * work.n))
            learn(mask, guessed, answer)
            return answer * work.n

        errors = _answered(work, setup, ask)
        return ReleaseOutcome(name, spent, len(work.stream), errors, 0.0, "firings counted when they happen")

    return play


def online_ic(work: Workload, setup: Setup) -> ReleaseOutcome:
    """OnlineIC as Dwork and Roth describe it, all firings prepaid: its price for this stream."""
    cells = math.prod(work.sizes.values())
    try:
        plan = plan_online(
            MultiplicativeWeights, n=work.n, cells=cells, queries=work.distinct, beta=setup.beta, accuracy=setup.alpha
        )
    except KeyholeError as error:
        return ReleaseOutcome("online-ic", math.nan, 0, None, 0.0, str(error))
    return ReleaseOutcome(
        "online-ic", float(Fraction(plan.epsilon)), 0, None, 0.0, f"{plan.firings} firings, priced, not played"
    )


MECHANISMS: dict[str, Callable[[Workload, Setup], ReleaseOutcome]] = {
    "planner": planner,
    "planner-declared": planner_declared,
    "laplace": laplace,
    "cache": cache,
    "pmw": weights("pmw", 0.05 / 8),
    "pmw-tuned": weights("pmw-tuned", 0.1),
    "pmw-bypass": weights("pmw-bypass", 0.1, bypass=True),
    "online-ic": online_ic,
    "histogram": histogram,
}


def timed(name: str, work: Workload, setup: Setup) -> ReleaseOutcome:
    """One mechanism, with the time it took."""
    start = time.perf_counter()
    made = MECHANISMS[name](work, setup)
    return ReleaseOutcome(
        made.mechanism, made.epsilon, made.answered, made.errors, time.perf_counter() - start, made.note
    )


def _answered(work: Workload, setup: Setup, ask: Callable[[int], float]) -> NDArray[np.float64]:
    """The error of every answer, in units of its bar."""
    reach = setup.alpha * work.n
    return np.array([abs(ask(at) - work.true(at)) / reach for at in work.stream.tolist()])


def _tables(number: int) -> str:
    return "1 table" if number == 1 else f"{number} tables"


def _mask(work: Workload, at: int) -> Mask:
    cells = np.ones((1,) * len(work.sizes), dtype=bool)
    for axis, (size, mask) in enumerate(zip(work.sizes.values(), work.pool[at], strict=True)):
        if mask:
            side = np.array([mask >> k & 1 for k in range(size)], dtype=bool)
            cells = cells & side.reshape([-1 if a == axis else 1 for a in range(len(work.sizes))])
    return np.broadcast_to(cells, tuple(work.sizes.values()))
