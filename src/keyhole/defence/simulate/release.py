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

from keyhole.defence.budget.budget import epsilon_budget
from keyhole.defence.budget.loss import Loss, epsilon_at
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery, Place
from keyhole.defence.mechanisms.online_ic import plan_online
from keyhole.defence.mechanisms.tuned_weights import BypassedWeights, TunedWeights, plan_tuned
from keyhole.defence.planner.sizing import find_noise
from keyhole.defence.simulate.rule_planner import Rule, RulePlanner, declared_tables, most_noise
from keyhole.defence.simulate.workloads import Workload, make_workload
from keyhole.defence.tables.error_bars import ErrorLaw
from keyhole.defence.tables.noisy_tables import COUNT, LAWS, Generation
from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights
from keyhole.errors import KeyholeError

WIDE = 10**6  # variance beyond which the discrete Gaussian is drawn as a rounded normal
INFERRED = 2**10  # cells up to which a whole histogram is answered from by its residuals
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


def planner(work: Workload, setup: Setup, most: float = math.inf) -> ReleaseOutcome:
    """The stream is not announced: ski rental, in pure epsilon. It stops where it has paid more than `most`."""
    rule, noise = setup.rule(work), SeededNoise(np.random.default_rng(setup.seed))
    play = RulePlanner(rule, work.sizes, work.truth, noise)
    found, reach = list[float](), setup.alpha * work.n
    for at in work.stream.tolist():
        found.append(abs(play.ask(work.question(at), at) - work.true(at)) / reach)
        if play.spent > most:
            note = f"stopped after {len(found)} questions, when it had paid more than another way"
            return ReleaseOutcome("planner", float(play.spent), len(found), np.array(found), 0.0, note)
    errors = np.array(found)
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
    rule, cells = setup.rule(work), math.prod(work.sizes.values())
    if cells > LARGEST_HYPOTHESIS:
        return ReleaseOutcome("histogram", math.nan, 0, None, 0.0, "too many cells")
    if cells > INFERRED:
        return _summed_histogram(work, setup, cells)
    play = RulePlanner(rule, work.sizes, work.truth, SeededNoise(np.random.default_rng(setup.seed)))
    play.buy(work.names, most_noise(Generation(work.n), work.names, [], rule, work.sizes, everything=True))
    errors = _answered(work, setup, lambda at: float(play.generation.value(COUNT, work.question(at))))
    return ReleaseOutcome("histogram", float(play.spent), len(work.stream), errors, 0.0)


SPARE = 1.25  # firings are named so much above what a twin needed


def _summed_histogram(work: Workload, setup: Setup, cells: int) -> ReleaseOutcome:
    """The same for many cells: noisy cells are added up, less the share of the noise that public n makes known.

    A question of m of N cells has the noise of m cells by 1 - m/N and of the others by m/N; the scale is that of the
    question of the pool with the widest bar, by exact tails.
    """
    rule, rng = setup.rule(work), np.random.default_rng(setup.seed)
    kept = {}
    for masks in work.pool:
        kept[tuple(mask.bit_count() for mask in masks)] = masks
    sizes = tuple(work.sizes.values())
    covered = {math.prod(m.bit_count() or s for m, s in zip(masks, sizes, strict=True)) for masks in kept.values()}
    widest = max(covered, key=lambda m: m * (cells - m))
    share = widest / cells
    unit = ErrorLaw(0.0, ((1 - share, widest), (share, cells - widest)), 1.0)
    scale = (rule.within - 1) / unit.bar(rule.beta)
    noisy = (work.truth[work.names] + rng.laplace(0, scale, sizes).round()).ravel()
    excess = float(noisy.sum()) - work.n

    def ask(at: int) -> float:
        weights = _linear(work, at).weights
        return float(noisy @ weights) - excess * float(weights.sum()) / cells

    errors = _answered(work, setup, ask)
    return ReleaseOutcome("histogram", 2 / scale, len(work.stream), errors, 0.0, "one table of all columns")


def tuned(name: str, *, warm: bool = False, visits: int = 0) -> Callable[[Workload, Setup], ReleaseOutcome]:
    """Private multiplicative weights as a real run: firings are named and prepaid; then numbers are bought singly.

    How many are named is what a twin needed, other people of the same kind (their data are public), and a quarter more.
    `warm`: one-way margins are bought first, and the run begins at their product.
    """

    def play(work: Workload, setup: Setup) -> ReleaseOutcome:
        cells = math.prod(work.sizes.values())
        if cells > LARGEST_HYPOTHESIS:
            return ReleaseOutcome(name, math.nan, 0, None, 0.0, "too many cells")
        twin = work.twin() if work.twin is not None else None
        named, how = max(3, work.distinct // 20), "a twentieth of the questions"
        if twin is not None:
            needed = _run_weights(twin, setup, work.distinct, warm=warm, visits=visits)
            named, how = math.ceil(SPARE * needed.fired) + 3, f"a twin needed {needed.fired}"
        played = _run_weights(work, setup, named, warm=warm, visits=visits)
        note = f"{played.fired} of {named} firings used ({how})"
        note += f"; {played.bypassed} measured at once" if visits else ""
        note += f"; {played.single} bought singly after them" if played.single else ""
        return ReleaseOutcome(name, played.spent, len(work.stream), played.errors, 0.0, note)

    return play


@dataclass(slots=True, eq=False)
class _PlayedWeights:
    """What a run of tuned weights spent on a stream."""

    spent: float
    errors: NDArray[np.float64]
    fired: int
    bypassed: int
    single: int


def _run_weights(work: Workload, setup: Setup, firings: int, *, warm: bool, visits: int) -> _PlayedWeights:
    """The whole stream: each different question once, as long as firings last; then a number for each."""
    rule, noise = setup.rule(work), SeededNoise(np.random.default_rng(setup.seed))
    shape, bar = tuple(work.sizes.values()), math.floor(rule.within)
    histogram = Histogram.of(work.truth[work.names].ravel())
    purse = epsilon_budget(10**9)
    plan = plan_tuned(
        n=work.n, cells=histogram.cells, queries=work.distinct, firings=firings, beta=setup.beta, bar=bar,
        adaptive=False, columns=len(shape) if warm else 0,
    )  # fmt: skip
    run = TunedWeights(histogram, purse, plan, shape=shape, noise=noise)
    asked: TunedWeights | BypassedWeights = BypassedWeights(run, purse, visits=visits) if visits else run
    kept, single = dict[int, float](), 0

    def ask(at: int) -> float:
        nonlocal single
        if at not in kept:
            if run.halted:
                single += 1
                dose = find_noise(rule.within - 0.5, rule.beta, LAWS["epsilon"])
                purse.spend(Loss.of_epsilon(rule.number()), what="one number")
                kept[at] = work.true(at) + noise.laplace(dose)
            else:
                kept[at] = float(asked.answer(_linear(work, at)).value)
        return kept[at]

    errors = _answered(work, setup, ask)
    spent = float(Fraction(10**9) - purse.left())
    return _PlayedWeights(spent, errors, run.fired, asked.bypassed if isinstance(asked, BypassedWeights) else 0, single)


def _linear(work: Workload, at: int) -> LinearQuery:
    """A question of the pool as a counting query: only the columns that it names are looked at."""
    sizes = tuple(work.sizes.values())
    axes = tuple(axis for axis, mask in enumerate(work.pool[at]) if mask)
    cells = np.ones((1,) * len(axes), dtype=bool)
    for k, axis in enumerate(axes):
        side = np.array([work.pool[at][axis] >> v & 1 for v in range(sizes[axis])], dtype=bool)
        cells = cells & side.reshape([-1 if j == k else 1 for j in range(len(axes))])
    weights = np.broadcast_to(cells, tuple(sizes[axis] for axis in axes)).ravel()
    return LinearQuery.of(weights, place=Place(sizes, axes))


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
    "pmw-tuned": tuned("pmw-tuned"),
    "pmw-warm": tuned("pmw-warm", warm=True),
    "pmw-bypass": tuned("pmw-bypass", visits=1),
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


# --- where an online construction pays: prices over cells, questions and kinds of data --------------------------------

ONLINE = ("online-ic", "pmw-tuned", "pmw-warm")
OTHERS = ("cache", "histogram", "planner", "planner-declared")
PLAYED = 2**8  # cells up to which the planner of announced questions is played, not priced
CORRELATED, NEARLY = "correlated", "nearly independent"
KINDS = {CORRELATED: "binary", NEARLY: "near"}


@dataclass(frozen=True, slots=True)
class PricedCell:
    """One square: the cheapest online construction and the cheapest other way, with their prices (inf: none)."""

    kind: str
    columns: int
    questions: int
    online: str
    online_epsilon: float
    other: str
    other_epsilon: float
    within: float  # the least share of answers inside their bar, of what was played

    @property
    def ratio(self) -> float:
        """The other price in units of the online one: above 1 the online construction is cheaper."""
        return self.other_epsilon / self.online_epsilon


@dataclass(frozen=True, slots=True)
class PriceMap:
    """Squares by kind of data, number of binary columns (2^D cells) and length of the stream."""

    people: int
    alpha: float
    beta: float
    cells: tuple[PricedCell, ...]

    @property
    def won(self) -> tuple[PricedCell, ...]:
        """Where an online construction is the cheapest."""
        return tuple(cell for cell in self.cells if cell.ratio > 1)


def draw_map(
    columns: Sequence[int],
    questions: Sequence[int],
    setup: Setup,
    *,
    people: int = 100_000,
    kinds: Sequence[str] = (CORRELATED, NEARLY),
    done: Callable[[int], None] = lambda _: None,
) -> PriceMap:
    """Play every mechanism on every square. Beyond 2^8 cells the planner of announced questions is priced alone: it
    knows its tables before it pays. The other one is stopped when it has paid more than the cheapest other way.

    >>> made = draw_map((6,), (20,), Setup(0.05, 0.001, 0.0, 0), people=10_000, kinds=(NEARLY,))
    >>> len(made.cells), made.cells[0].online, made.won
    (1, 'pmw-warm', ())
    """
    cells, announced = list[PricedCell](), dict[int, float]()
    for kind in kinds:
        for width in columns:
            for length in questions:
                cells.append(_price_square(kind, width, length, setup, people, announced))
                done(len(cells))
    return PriceMap(people, setup.alpha, setup.beta, tuple(cells))


def _price_square(
    kind: str, width: int, length: int, setup: Setup, people: int, announced: dict[int, float]
) -> PricedCell:
    """`announced` keeps the price of the tables for all questions of a width, whoever the people are."""
    work = make_workload(f"{KINDS[kind]}:{width}", length, 0.0, setup.seed, people=people)
    small = 2**width <= PLAYED
    played = {n: MECHANISMS[n](work, setup) for n in (*ONLINE, *OTHERS) if small or not n.startswith("planner")}
    prices = {name: p.epsilon if math.isfinite(p.epsilon) else math.inf for name, p in played.items()}
    if not small:
        if width not in announced:
            announced[width] = price_announced(work, setup)
        prices["planner-declared"] = announced[width]
        least = min(prices[name] for name in OTHERS if name in prices)
        played["planner"] = planner(work, setup, least)
        prices["planner"] = played["planner"].epsilon
    online, other = (min(names, key=prices.__getitem__) for names in (ONLINE, OTHERS))
    within = min((p.within_alpha for p in played.values() if p.within_alpha is not None), default=math.nan)
    return PricedCell(kind, width, length, online, prices[online], other, prices[other], within)


def price_announced(work: Workload, setup: Setup) -> float:
    """What the planner of announced questions pays, without a run: its tables, or a number for each question."""
    rule = setup.rule(work)
    tables = declared_tables(list(work.shapes()), _candidates(work, "epsilon"), rule, work.sizes)
    return float(min(sum(map(rule.price, tables.values())), len(work.pool) * rule.number()))
