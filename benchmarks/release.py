"""Private release in figures: UCI Adult under one budget, and streams of counting questions.

python -m benchmarks.release                     all of it, each line beside what it should reach

python -m benchmarks.release adult [RUNS]        shares within 10 % of the truth, declared and not
python -m benchmarks.release streams [QUERIES]   what each mechanism spends (covid, citibike)
python -m benchmarks.release sum                 one sum against OpenDP's, one average against raw sum / count
python -m benchmarks.release planner [QUERIES]   questions a second of the planner alone, against bare commits of SQLite
python -m benchmarks.release seeds [RUNS]        as adult, declared, for five other sets of 100 statements
"""

from __future__ import annotations

import csv
import importlib.util
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

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
from keyhole.defence.planner.sizing import PlanTerms
from keyhole.defence.simulate.release import MECHANISMS, SeededNoise, Setup, timed
from keyhole.defence.simulate.workloads import make_workload
from keyhole.defence.tables.margins import SourceMargins
from keyhole.sessions.private import Private
from keyhole.sessions.session import Session

FOLDER = Path(os.environ.get("KEYHOLE_DATA", "data")) / "adult"  # third-party: not in the repository
SETTINGS = Path(__file__).parent / "adult.toml"
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital", "occupation", "relationship", "race", "sex",
    "capital_gain", "capital_loss", "hours", "country", "income",
)  # fmt: skip
NUMBERS = {"age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours"}


def adult() -> pa.Table:
    """UCI Adult, read in place."""
    if not (FOLDER / "adult.data").is_file():
        raise SystemExit(
            "UCI Adult is not in the repository: set KEYHOLE_DATA to the folder that holds adult/adult.data"
        )
    with (FOLDER / "adult.data").open() as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if len(row) == 15]
    made = {c: [int(r[k]) if c in NUMBERS else r[k] for r in rows] for k, c in enumerate(COLUMNS)}
    return pa.table(made)


def statements() -> ModuleType:
    """The seeded generator beside the data."""
    spec = importlib.util.spec_from_file_location("make_statements", FOLDER / "make_statements.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


class Adult:
    """The table, its declaration, the statements and their true answers."""

    def __init__(self, seed: int = 2026) -> None:
        table = adult()
        self.make = statements()
        self.data = self.make.load()
        self.asked = self.make.make(seed, self.data)
        given = settings(Config.load(SETTINGS), data=table, table="adult")
        self.source = open_table(given, Use.ANSWER).whole
        self.columns = Partitions.declared(given.columns, self.source.schema)
        numbers = {k: c for k, c in self.columns.columns.items() if isinstance(c, Cuts)}
        self.margins = SourceMargins(self.source, numbers, "replace-one")

    def run(self, unit: str, seed: int, *, declared: bool) -> dict[str, list[tuple[bool, bool | None, bool]]]:
        """One run of the whole budget; for each answer: within 10 %? did its bar hold? is it about capital_gain?"""
        cap = Cap(Loss.of_rho(rho_within(1, "1e-6")) if unit == "rho" else Loss.of_epsilon(1))
        book = Book.rehearsal(None, "adult")
        with book.page():
            book.append(Mark.EPOCH, {"version": None})
            ledger = Ledger(book, cap, domain=self.columns.fingerprint())
        terms = PlanTerms(spend=Fraction(1), horizon=len(self.asked), anyway=True)
        noise = SeededNoise(np.random.default_rng(seed))
        planning = Planner(self.source.schema, self.columns, self.margins, ledger, terms, noise)
        session = Session(book, Private(planning, book.state.epoch))
        texts = [self.make.sql(each) for each in self.asked]
        replies = session.ask_all(texts) if declared else [session.ask(text) for text in texts]
        assert ledger.spent() <= cap.total.amount
        found: dict[str, list[tuple[bool, bool | None, bool]]] = defaultdict(list)
        for each, reply in zip(self.asked, replies, strict=True):
            groups = reply.noisy.groups if reply.answered and reply.noisy is not None else ()
            if not groups:
                found[each["kind"]].append((False, None, each["col"] == "capital_gain"))
            for key, estimates in groups:
                self._score(each, dict(key), estimates[0], found[each["kind"]])
        return found

    def _score(self, each: dict[str, Any], key: dict[str, Any], estimate: Any, into: list[Any]) -> None:
        mask = self.make.mask(self.data, each["where"])
        for column, value in key.items():
            mask = mask & (self.data[column] == value)
        if key and mask.sum() < 100:
            return
        held = self.data[each["col"]][mask] if each["col"] else mask
        how: dict[str, Any] = {"COUNT": np.sum, "SUM": np.sum, "AVG": np.mean, "MEDIAN": np.median}
        true = float(how[each["agg"]](held))
        value = None if estimate.value is None else float(estimate.value)
        right = value is not None and abs(value - true) <= 0.1 * abs(true)
        bar = None if estimate.bar is None or value is None else abs(value - true) <= float(estimate.bar)
        into.append((right, bar, each["col"] == "capital_gain"))


ADULT_LIMITS: dict[tuple[str, bool], tuple[int | None, ...]] = {
    ("rho", True): (95, 75, 75, 92, 84, 92, 97),
    ("rho", False): (93, 60, 68, None, 77, None, None),
    ("epsilon", True): (89, 48, 53, None, 66, None, 80),
}


def show_adult(runs: int) -> None:
    """The table of shares, mean over runs."""
    world = Adult()
    print(
        f"UCI Adult, 100 statements, epsilon 1 and delta 1e-6 (or pure epsilon 1), {runs} runs: % within 10 % of truth"
    )
    heads = ("COUNT", "GROUP", "AVG", "no gain", "SUM", "no gain", "MEDIAN", "bars", "s/run")
    print(f"{'':<22}" + "".join(f"{head:>9}" for head in heads))
    for unit, declared in (("rho", True), ("rho", False), ("epsilon", True), ("epsilon", False)):
        start = time.perf_counter()
        total: dict[str, list[tuple[bool, bool | None, bool]]] = defaultdict(list)
        for seed in range(runs):
            for kind, each in world.run(unit, seed, declared=declared).items():
                total[kind] += each
        share = {k: 100 * np.mean([right for right, _, _ in v]) for k, v in total.items()}
        rest = {k: 100 * np.mean([right for right, _, gain in v if not gain]) for k, v in total.items()}
        bars = 100 * np.mean([bar for v in total.values() for _, bar, _ in v if bar is not None])
        name = f"{'zCDP' if unit == 'rho' else 'pure'}, {'declared' if declared else 'not declared'}"
        seconds = (time.perf_counter() - start) / runs
        row = (share["COUNT"], share["GROUP"], share["AVG"], rest["AVG"], share["SUM"], rest["SUM"], share["MEDIAN"])
        print(f"{name:<22}" + "".join(f"{cell:>9.1f}" for cell in (*row, bars, seconds)), flush=True)
        if (unit, declared) in ADULT_LIMITS:
            limits = ADULT_LIMITS[unit, declared]
            told = ("" if aim is None else f"{aim}{'' if found >= aim else ' NO'}" for found, aim in zip(row, limits,
                                                                                              strict=True))  # fmt: skip
            print(f"{'  at least':<22}" + "".join(f"{cell:>9}" for cell in told), flush=True)


STREAM_LIMITS = {("covid", "planner"): 0.0021, ("covid", "planner-declared"): 0.0011, ("citibike", "planner"): 0.055,
                 ("citibike", "planner-declared"): 0.032}  # fmt: skip
ORDERS = 5


def show_streams(queries: int) -> None:
    """What every mechanism spends, zipf 0 and 1; the planner on five orders of the stream."""
    for name in ("covid", "citibike"):
        for zipf in (0.0, 1.0):
            for order in range(ORDERS):
                asked = queries if name == "covid" else min(queries, 20_000)
                work = make_workload(name, asked, zipf, order)
                print(f"{name}, zipf {zipf:g}, order {order + 1}: {asked} questions, {work.distinct} different")
                for mechanism in MECHANISMS if order == 0 else ("planner",):
                    if name == "citibike" and mechanism.startswith(("pmw", "online")):
                        continue
                    made = timed(mechanism, work, Setup(0.05, 0.001, 1e-7, order))
                    within = "" if made.within_alpha is None else f"{made.within_alpha:.5f}"
                    limit = STREAM_LIMITS.get((name, mechanism))
                    aim = "" if limit is None else f"  (<= {limit}: {'yes' if made.epsilon <= limit else 'NO'})"
                    told = f"{made.epsilon:>12.4g}  {within:<8}{made.seconds:>7.1f} s  {made.note}{aim}"
                    print(f"  {made.mechanism:<18}{told}", flush=True)


def show_sum(runs: int) -> None:
    """rmse of one SUM against OpenDP's sized sum at the same epsilon, and of AVG against raw sum / count."""
    from keyhole.defence.tables.noisy_tables import COUNT, Quantity, add_noise, noise_for

    hours = np.asarray(adult()["hours"].to_pylist())
    noise, epsilon, n = SeededNoise(np.random.default_rng(1)), Fraction(1, 10), len(hours)
    quantity = Quantity("hours", 98)
    (dose,) = noise_for(epsilon, [quantity], "laplace", "number", "replace-one")
    ours = [float(add_noise(np.array(0), dose, "laplace", noise)) / 2 for _ in range(runs)]
    peer = [
        float(noise.laplace(98 / epsilon)) for _ in range(runs)
    ]  # OpenDP: sensitivity hi - lo, scale (hi - lo)/epsilon
    mine, theirs = float(np.std(ours)), float(np.std(peer))
    print(f"one SUM: rmse {mine:.1f}, OpenDP's calibration {theirs:.1f}, ratio {mine / theirs:.3f}")
    both = noise_for(epsilon, [COUNT, quantity], "laplace", "number", "add-remove")
    u = int((2 * (hours - 1) - 98).sum())
    means, raw = [], []
    for _ in range(runs):
        count = n + float(noise.laplace(both[0].noise))
        means.append(50 + (u + float(noise.laplace(both[1].noise))) / 2 / count)
        raw.append((hours.sum() + noise.laplace(2 * 99 / epsilon)) / (n + noise.laplace(2 / epsilon)))
    mine, theirs = (float(np.sqrt(np.mean((np.array(x) - hours.mean()) ** 2))) for x in (means, raw))
    print(f"AVG(hours), add-remove: rmse {mine:.4f}, raw sum / count {theirs:.4f}, ratio {mine / theirs:.3f}")


def show_planner(queries: int) -> None:
    """Forms in, 128 cells: bare commits and planned answers take turns on one machine; early and late questions."""
    import statistics
    import tempfile

    from benchmarks.session import bare
    from keyhole.defence.simulate.rule_planner import RulePlanner

    work = make_workload("covid", queries, 0.0, 0)
    asked = [(work.question(at), at) for at in work.stream.tolist()]
    play = RulePlanner(Setup(0.05, 0.001, 0.0, 0).rule(work), work.sizes, work.truth,
                       SeededNoise(np.random.default_rng(0)))  # fmt: skip
    block, planned, commits = max(1, queries // 20), [], []
    with tempfile.TemporaryDirectory() as folder:
        commit = bare(Path(folder))
        for first in range(0, queries, block):
            start = time.perf_counter()
            for question, at in asked[first : first + block]:
                play.ask(question, at)
            planned.append((time.perf_counter() - start) / block)
            start = time.perf_counter()
            for _ in range(50):
                commit()
            commits.append((time.perf_counter() - start) / 50)
    mine, theirs = statistics.median(planned), statistics.median(commits)
    late = statistics.median(planned[len(planned) // 2 :]) / statistics.median(planned[1 : len(planned) // 2])
    print(f"{queries} questions, 128 cells: {1e3 * mine:.3f} ms each; a bare commit {1e3 * theirs:.3f} ms")
    print(f"planner / bare commits: {theirs / mine:.2f} (>= 0.2); later half / first half: {late:.2f}")


def show_seeds(runs: int) -> None:
    """Other statements of the same generator: their spread is wide."""
    print(f"{'seed':<8}" + "".join(f"{head:>9}" for head in ("COUNT", "GROUP", "AVG", "SUM", "MEDIAN", "bars")))
    for statement_seed in range(1, 6):
        world = Adult(statement_seed)
        total: dict[str, list[tuple[bool, bool | None, bool]]] = defaultdict(list)
        for seed in range(runs):
            for kind, each in world.run("rho", seed, declared=True).items():
                total[kind] += each
        share = [100 * np.mean([right for right, _, _ in total[kind]]) for kind in ("COUNT", "GROUP", "AVG", "SUM",
                                                                                 "MEDIAN")]  # fmt: skip
        bars = 100 * np.mean([bar for v in total.values() for _, bar, _ in v if bar is not None])
        print(f"{statement_seed:<8}" + "".join(f"{cell:>9.1f}" for cell in (*share, bars)), flush=True)


PARTS: dict[str, tuple[Callable[[int], None], int]] = {
    "adult": (show_adult, 20),
    "seeds": (show_seeds, 20),
    "streams": (show_streams, 70_000),
    "sum": (show_sum, 2000),
    "planner": (show_planner, 20_000),
}


def main(wanted: Sequence[str]) -> None:
    """One part with its number, or all."""
    if wanted:
        show, usual = PARTS[wanted[0]]
        show(int(wanted[1]) if len(wanted) > 1 else usual)
        return
    for name, (show, usual) in PARTS.items():
        print(f"-- python -m benchmarks.release {name} {usual}", flush=True)
        try:
            show(usual)
        except SystemExit as missing:  # third-party data that is not here
            print(missing)


if __name__ == "__main__":
    main(sys.argv[1:])
