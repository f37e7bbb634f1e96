"""Do bars hold as often as they say? One random answer from each of many independent runs, and the exact binomial test.

Answers from one noisy table err together, so the share within alpha in one run says little: a question that is asked
often counts often. The promise is per answer, so each run gives one answer, at a random place of its stream.

python -m benchmarks.bars [RUNS]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import binomtest

from keyhole.basis.cells.numbers import Cuts
from keyhole.book import Book, Mark
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.datasets.open import Use, open_table
from keyhole.defence.budget.budget import Cap
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss, rho_within
from keyhole.defence.planner.columns import Partitions
from keyhole.defence.planner.planner import Planner
from keyhole.defence.planner.sizing import PlanTerms, find_noise
from keyhole.defence.simulate.release import SeededNoise, Setup
from keyhole.defence.simulate.rule_planner import Rule, RulePlanner
from keyhole.defence.simulate.workloads import Workload, make_workload
from keyhole.defence.tables.inference import Names
from keyhole.defence.tables.margins import SourceMargins
from keyhole.defence.tables.noisy_tables import COUNT, LAWS, BoughtTable, Dose, Generation, add_noise
from keyhole.sessions.private import Private
from keyhole.sessions.reply import Reply
from keyhole.sessions.session import Session

ORDERS = 5


@dataclass(slots=True, eq=False)
class Purchases:
    """What a planner buys on a stream, and when: from variances alone, so the same whatever the noise is."""

    work: Workload
    rule: Rule
    tables: list[tuple[int, Names, Fraction]]
    numbers: dict[int, int]  # questions that are answered by a number of their own, and from when on

    @classmethod
    def of(cls, work: Workload, rule: Rule, seed: int) -> Purchases:
        """Played once, with some noise."""
        play = RulePlanner(rule, work.sizes, work.truth, SeededNoise(np.random.default_rng(seed)))
        tables: list[tuple[int, Names, Fraction]] = []
        numbers: dict[int, int] = {}
        for place, at in enumerate(work.stream.tolist()):
            play.ask(work.question(at), at)
            if len(play.generation.tables) > len(tables):
                bought = play.generation.tables[-1]
                tables.append((place, bought.names, bought.doses[0].noise))
            if at in play.numbers:
                numbers.setdefault(at, place)
        return cls(work, rule, tables, numbers)

    def errors(self, place: int, noise: SeededNoise) -> tuple[float, float]:
        """A run with noise of its own, up to one answer: its error over alpha n, and over its own bar."""
        at, law, rule = int(self.work.stream[place]), LAWS[self.rule.unit], self.rule
        asked, true = self.work.question(at), self.work.true(at)
        made = Generation(rule.n)
        for when, names, size in self.tables:
            if when <= place and set(names) & set(asked.names):  # no other table has a weight in it
                dose = Dose(COUNT, size)
                made.add(BoughtTable(names, law, (dose,), (add_noise(self.work.truth[names], dose, law, noise),)))
        known = np.isfinite(made.variance(COUNT, asked))
        bar = made.law(COUNT, asked).bar(rule.beta) if known else np.inf
        if bar <= rule.within * (1 + 1e-9):
            off = abs(float(made.value(COUNT, asked)) - true)
            return off / rule.within, off / bar
        assert at in self.numbers
        dose = Dose(COUNT, find_noise(rule.within - 0.5, rule.beta, law))
        off = abs(float(add_noise(np.array(0, dtype=np.int64), dose, law, noise)))
        return off / rule.within, off / rule.within


def of_streams(name: str, zipf: float, beta: float, runs: int, queries: int) -> Iterator[tuple[float, float]]:
    """Errors over bars, one of each run; five orders, and the purchases are those of each, whatever the noise."""
    for order in range(ORDERS):
        work = make_workload(name, queries, zipf, order)
        rule = Setup(0.05, beta, 0.0, 0).rule(work)
        bought = Purchases.of(work, rule, 1)
        assert order or bought.tables == Purchases.of(work, rule, 2).tables, "a purchase looked at noise"
        rng = np.random.default_rng(1000 + order)
        noise = SeededNoise(rng)
        for _ in range(runs // ORDERS):
            yield bought.errors(int(rng.integers(queries)), noise)


# --- sessions ---------------------------------------------------------------------------------------------------------

TOLD = """
[columns.public.sex]
values = ["F", "M"]
missing = "F"
[columns.public.town]
values = ["a", "b", "c"]
missing = "a"
[columns.private.pay]
min = 0
max = 50
missing = 0
"""
TOWNS = "SELECT town, COUNT(*) FROM people GROUP BY town"
BOTH = "SELECT sex, town, COUNT(*) FROM people GROUP BY sex, town"
ONE = "SELECT COUNT(*) FROM people WHERE town = 'a'"
MEAN = "SELECT AVG(pay) FROM people WHERE sex = 'M'"
TOTAL = "SELECT SUM(pay) FROM people WHERE town = 'b'"


class People:
    """A small table, opened once; each run has a book, a budget and noise of its own."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        n = 4000
        self.made = {"sex": rng.choice(["F", "M"], n, p=[0.3, 0.7]), "town": rng.choice(["a", "b", "c"], n),
                     "pay": rng.integers(0, 51, n)}  # fmt: skip
        given = settings(Config.parse(TOLD), data=pa.table(self.made), table="people")
        self.source = open_table(given, Use.ANSWER).whole
        self.columns = Partitions.declared(given.columns, self.source.schema)
        numbers = {k: c for k, c in self.columns.columns.items() if isinstance(c, Cuts)}
        self.margins = SourceMargins(self.source, numbers, "replace-one")

    def truth(self, sql: str, key: dict[str, object]) -> float:
        """The true answer of one group."""
        at = np.ones(len(self.made["pay"]), dtype=bool)
        where = {ONE: {"town": "a"}, MEAN: {"sex": "M"}, TOTAL: {"town": "b"}}.get(sql, key)
        for column, value in where.items():
            at &= self.made[column] == value
        pay = self.made["pay"][at]
        return float(pay.mean() if sql == MEAN else pay.sum() if sql == TOTAL else at.sum())

    def ledger(self) -> Ledger:
        """A book in memory with a budget."""
        book = Book.rehearsal(None, "people")
        with book.page():
            book.append(Mark.EPOCH, {"version": None})
            return Ledger(book, Cap(Loss.of_rho(rho_within(1, "1e-6"))), domain=self.columns.fingerprint())

    def session(self, ledger: Ledger, terms: PlanTerms, noise: SeededNoise) -> Session[object]:
        """Questions to the planner on these terms."""
        made = Planner(self.source.schema, self.columns, self.margins, ledger, terms, noise)
        return Session(ledger.book, Private(made, ledger.book.state.epoch))

    def ratio(self, reply: Reply, rng: np.random.Generator) -> float:
        """|error| / bar of a random group."""
        assert reply.noisy is not None
        key, estimates = reply.noisy.groups[int(rng.integers(len(reply.noisy.groups)))]
        value, bar = estimates[0].value, estimates[0].bar
        assert value is not None, "unknown"
        assert bar is not None
        return abs(float(value) - self.truth(reply.sql, dict(key))) / float(bar)


BETA = 0.1
SHARE = PlanTerms(beta=BETA, horizon=40, anyway=True)
NARROW = PlanTerms(beta=BETA, accuracy=0.01, anyway=True)


def asked(world: People, rng: np.random.Generator) -> float:
    """One by one: a table, a top-up of it, inference from both, an average, a sum; one of them at random."""
    session = world.session(world.ledger(), SHARE, SeededNoise(rng))
    replies = [session.ask(sql) for sql in (TOWNS, BOTH, ONE, MEAN, TOTAL)]
    return world.ratio(replies[int(rng.integers(len(replies)))], rng)


def looked_again(world: People, rng: np.random.Generator) -> float:
    """The same question with a narrower bar, asked only because the first answer looked too high: a new generation."""
    noise = SeededNoise(rng)
    while True:
        ledger = world.ledger()
        (first,) = (world.session(ledger, SHARE, noise).ask(ONE).noisy or _nothing()).groups
        value, bar = first[1][0].value, first[1][0].bar
        assert value is not None
        assert bar is not None
        if value > Fraction(int(world.truth(ONE, {}))) + bar / 3:
            return world.ratio(world.session(ledger, NARROW, noise).ask(ONE), rng)


def filed(world: People, rng: np.random.Generator) -> float:
    """A file: a pilot chooses what is bought; one answer at random."""
    terms = PlanTerms(beta=BETA, spend=Fraction(1, 20), anyway=True)
    replies = world.session(world.ledger(), terms, SeededNoise(rng)).ask_all([TOWNS, BOTH, ONE, MEAN, TOTAL])
    told = [reply for reply in replies if reply.answered]
    return world.ratio(told[int(rng.integers(len(told)))], rng)


def _nothing() -> Any:
    raise AssertionError("refused")


def finer(world: People, rng: np.random.Generator) -> float:
    """A finer table asked for only because a count looked too high, and combined with it: what is NOT promised."""
    noise = SeededNoise(rng)
    while True:
        session = world.session(world.ledger(), SHARE, noise)
        ((_, (seen, *_)),) = (session.ask(ONE).noisy or _nothing()).groups
        assert seen.value is not None
        assert seen.bar is not None
        if seen.value > Fraction(int(world.truth(ONE, {}))) + seen.bar / 3:
            reply = session.ask(BOTH)
            return world.ratio(reply, rng)


def told(name: str, beta: float, ratios: Sequence[float], start: float) -> None:
    """A line of the table; `narrower` is the same test for bars a tenth narrower, which should fail."""
    found = np.array(ratios)
    missed, liar = int((found > 1).sum()), int((found > 0.9).sum())
    p, caught = (binomtest(k, len(found), beta, alternative="greater").pvalue for k in (missed, liar))
    cells = f"{len(found):>8}{missed:>8}{beta * len(found):>10.1f}{p:>10.3f}{caught:>12.2g}"
    print(f"{name:<44}{cells}{time.process_time() - start:>8.0f}", flush=True)


def main(runs: int) -> None:
    """All of them. A promise is broken where p is tiny."""
    heads = ("runs", "missed", "allowed", "p", "narrower", "s")
    print(f"{'one random answer from each run':<44}" + "".join(
        f"{h:>{w}}" for h, w in zip(heads, (8, 8, 10, 10, 12, 8), strict=True)))  # fmt: skip
    for name, zipf, beta, queries in (("citibike", 1.0, 0.001, 8000), ("citibike", 0.0, 0.05, 3000),
                                      ("covid", 1.0, 0.05, 500)):  # fmt: skip
        start = time.process_time()
        pairs = list(of_streams(name, zipf, beta, runs, queries))
        told(f"{name}, zipf {zipf:g}, beta {beta:g}: within alpha", beta, [a for a, _ in pairs], start)
        told(f"{name}, zipf {zipf:g}, beta {beta:g}: within its bar", beta, [b for _, b in pairs], start)
    world = People()
    ways: dict[str, Callable[[People, np.random.Generator], float]] = {
        "session: tables, top-up, inference": asked,
        "session: the same again, since it looked odd": looked_again,
        "session: a file, with its pilot": filed,
        "not promised: finer, since it looked odd": finer,
    }
    for at, (name, play) in enumerate(ways.items()):
        start = time.process_time()
        rng = np.random.default_rng(at)
        told(name, BETA, [play(world, rng) for _ in range(max(20, runs // 4))], start)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
