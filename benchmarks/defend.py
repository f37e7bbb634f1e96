"""Private answering: the update against numpy, throughput, online against offline, and what the constants cost.

python -m benchmarks.defend [--cells 1000000] [--repeats 41] [--seeds 10] [--format text|json]

update      one multiplicative-weights update against `h *= v; h /= h.sum()` on the same number of cells, in one
            process, alternating; the ratio is of medians. Building v is not counted for numpy.
throughput  questions a second through OnlineIC with the exact noise door, hypothesis passes included.
error       the same questions and epsilon: IterativeConstruction and OnlineIC, promised bar and largest error seen
            (median over the seeds), as shares of n.
price       epsilon for 70,000 counts on 128 cells of 1,008,532 people, all within 0.05 n with probability 0.999.
door        a draw of exact noise and a durable charge, in microseconds.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from keyhole.book import Book
from keyhole.defence.budget.budget import Cap, epsilon_budget
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.iterative import IterativeConstruction, plan_offline
from keyhole.defence.mechanisms.online_ic import OnlineIC, OnlinePlan, plan_online
from keyhole.defence.noise import ExactNoise
from keyhole.defence.simulate.release import SeededNoise
from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights
from keyhole.errors import PrivacyParameterError

Rows = list[dict[str, Any]]


def alternated(first: Callable[[], object], second: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median seconds of each, measured in turns."""
    first()
    second()
    times: tuple[list[float], list[float]] = ([], [])
    for i in range(repeats):
        for which in (0, 1) if i % 2 else (1, 0):
            start = time.perf_counter()
            (first, second)[which]()
            times[which].append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def update(cells: int, repeats: int) -> Rows:
    """One update against one numpy pass."""
    rng = np.random.default_rng(1)
    rows: Rows = []
    for name, unit, target in (("0/1", 1, 1.0), ("weighted, 1/100", 100, 3.0), ("weighted, 1/1000", 1000, 3.0)):
        q = LinearQuery.of(rng.integers(0, unit + 1, cells), unit)
        mw = MultiplicativeWeights(cells, 0.1)
        state = mw.start()
        h, v = np.full(cells, 1 / cells), np.exp(-0.05 * q.dense())

        def ours(mw: MultiplicativeWeights = mw, q: LinearQuery = q) -> None:
            nonlocal state
            state = mw.update(state, q, 0.0)

        def numpys(h: Any = h, v: Any = v) -> None:
            h *= v
            h /= h.sum()

        mine, theirs = alternated(ours, numpys, repeats)
        rows.append(
            {
                "query": name,
                "cells": cells,
                "ours_ms": mine * 1e3,
                "numpy_ms": theirs * 1e3,
                "ratio": mine / theirs,
                "at_most": target,
            }
        )
    return rows


def throughput(seconds: float) -> Rows:
    """Questions a second through OnlineIC, for questions that do not fire and for questions that all do."""
    rows: Rows = []
    rng = np.random.default_rng(2)
    for cells in (10**4, 10**6):
        counts = rng.integers(0, 3, cells) * (10**7 // cells)
        histogram = Histogram.of(counts)
        n = histogram.public_n
        queries = [LinearQuery.of(rng.integers(0, 2, cells)) for _ in range(8)]
        for name, threshold in (("answered from the hypothesis", n), ("every one measured and learned", -n)):
            plan = OnlinePlan(n, cells, 10**9, 0.1, 0.05, "1000", "0", 10**6, threshold, n, n)
            run = OnlineIC(histogram, epsilon_budget(1000), plan, MultiplicativeWeights(cells, 0.1))
            for q in queries:
                run.answer(q)
            asked, start = 0, time.perf_counter()
            while time.perf_counter() - start < seconds:
                run.answer(queries[asked % 8])
                asked += 1
            rows.append({"cells": cells, "questions": name, "per_second": asked / (time.perf_counter() - start)})
    return rows


def error(seeds: int) -> Rows:
    """IterativeConstruction and OnlineIC side by side."""
    rows: Rows = []
    cells, n = 16, 10**6
    for epsilon in (1, 3, 10):
        worst: dict[str, list[float]] = {"iterative": [], "online-ic": []}
        learned: dict[str, list[int]] = {"iterative": [], "online-ic": []}
        offline = plan_offline(MultiplicativeWeights, n=n, cells=cells, queries=200, beta=0.05, epsilon=epsilon)
        online = plan_online(MultiplicativeWeights, n=n, cells=cells, queries=200, beta=0.05, epsilon=epsilon)
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            histogram = Histogram.of(rng.multinomial(n, rng.dirichlet(np.full(cells, 0.2))))
            queries = [LinearQuery.of(rng.integers(0, 2, cells)) for _ in range(200)]
            truths = [histogram.total(q) for q in queries]
            made = IterativeConstruction(
                histogram, epsilon_budget(epsilon), offline, MultiplicativeWeights, None, SeededNoise(rng)
            ).construct(queries)
            run = OnlineIC(
                histogram,
                epsilon_budget(epsilon),
                online,
                MultiplicativeWeights(cells, online.alpha),
                noise=SeededNoise(rng),
            )
            said = {"iterative": [made.value(q) for q in queries], "online-ic": [run.answer(q).value for q in queries]}
            for name, values in said.items():
                worst[name].append(max(abs(float(v) - t) for v, t in zip(values, truths, strict=True)) / n)
            learned["iterative"].append(made.rounds)
            learned["online-ic"].append(run.fired)
        for name, bar, limit in (
            ("iterative", offline.bar, offline.rounds),
            ("online-ic", online.bar, online.firings),
        ):
            rows.append(
                {
                    "epsilon": epsilon,
                    "mechanism": name,
                    "promised": bar / n,
                    "largest_seen": statistics.median(worst[name]),
                    "updates": statistics.median(learned[name]),
                    "updates_paid": limit,
                }
            )
    return rows


def price() -> Rows:
    """What the published constants cost on a stream of counts, against the Laplace mechanism."""
    n, cells, queries, beta, accuracy = 1_008_532, 128, 70_000, 0.001, 0.05
    common = {"n": n, "cells": cells, "queries": queries, "beta": beta, "accuracy": accuracy}
    rows: Rows = []
    for story, chance in (("each bar by itself", beta), ("all bars together", beta / queries)):
        each = math.log(1 / chance) / (accuracy * n)
        rows.append({"mechanism": f"laplace, {story}", "delta": 0.0, "epsilon": queries * each})
    for name, plan in (("online-ic", plan_online), ("iterative", plan_offline)):
        for delta in ("0", "1e-6"):
            try:
                made = plan(MultiplicativeWeights, delta=delta, **common)  # type: ignore[arg-type]
                rows.append({"mechanism": name, "delta": float(delta), "epsilon": float(Fraction(made.epsilon))})
            except PrivacyParameterError as refusal:
                rows.append({"mechanism": name, "delta": float(delta), "epsilon": None, "why": str(refusal)})
    return rows


def door() -> Rows:
    """The price of a draw and of a charge, in microseconds."""
    noise = ExactNoise()
    rows: Rows = []
    for name, draw in (
        ("discrete Laplace draw", lambda: noise.laplace(Fraction(45))),
        ("discrete Gaussian draw", lambda: noise.gaussian(Fraction(2000))),
        ("exponential mechanism, 200 scores", lambda: noise.choose(list(range(200)), Fraction(45))),
    ):
        rows.append({"what": name, "microseconds": timed(draw, 2000)})
    with tempfile.TemporaryDirectory() as folder, Book.open(Path(folder, "b"), "people") as book:
        ledger = Ledger(book, Cap(Loss.of_epsilon(10**6)))
        rows.append({"what": "durable charge", "microseconds": timed(lambda: ledger.spend(Loss.of_epsilon(1)), 500)})
    return rows


def timed(call: Callable[[], object], times: int) -> float:
    """Microseconds a call."""
    call()
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times * 1e6


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=10**6)
    parser.add_argument("--repeats", type=int, default=41)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    args = parser.parse_args()
    found = {
        "update": update(args.cells, args.repeats),
        "throughput": throughput(args.seconds),
        "error": error(args.seeds),
        "price": price(),
        "door": door(),
    }
    if args.format == "json":
        json.dump(found, sys.stdout, indent=2)
        print()
        return 0
    for title, rows in found.items():
        print(f"{title}")
        names = [k for k in rows[0] if k != "why"]
        table = [names] + [[shown(row.get(k)) for k in names] for row in rows]
        widths = [max(len(line[i]) for line in table) for i in range(len(names))]
        for line in table:
            print("  " + "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip())
        print()
    return 0


def shown(value: object) -> str:
    """A number as a person reads it."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
