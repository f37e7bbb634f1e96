"""Proved ranges, at scale and against a float solver: `python -m benchmarks.intervals [--only NAME] [--adult FOLDER]`.

small      214 x 20 and 755 x 30: every end by the exact walk, against one cold HiGHS program an end (20 ends sampled);
           the sampled ends must agree to 1e-6
audit      81,307 people, 925 statements: the whole audit (reading, checking, atoms, rules) with and without a range
wide       6,000 x 900 and 81,307 x 925: all outer ranges, by the interior rank test who has a second value, and which
           ends projected tables reach in floating point; beside them the rank test of the same rows (the audit itself)
programs   6,000 x 900: the same ends by one HiGHS simplex kept warm from end to end, primal and dual (20 ends drawn)
adult      the UCI Adult table (adult.data in FOLDER), 300 statements over SUM(hours), about one in seven with GROUP BY
           (`--grouped` says otherwise): the audit alone, and with real hours from 1 to 99; once more with HAVING
           COUNT(*) >= 3
exchange   AVG(hours), COUNT(*) of the Adult table by six groupings: exit code and seconds with any number possible,
           with nothing declared, and with whole hours from 1 to 99
many       the Adult log with a quarter of GROUP BYs, its rows alone: 10,402 rows, and HAVING COUNT(*) >= 3
huge       120,000 people in 32 GROUP BYs over three of ten columns, HAVING COUNT(*) >= 5: 10^5 atoms, 10^4 rows;
           with as many people of each value, and with few of most, over two or three columns (`--draw`)

CPU seconds of this process, and so are those of `--most`, which ranges of `adult`, `audit`, `many` and `huge` may
take. Ranges of `wide` and `adult` are outer: how many ends a table reaches is printed as it is.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import time
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from keyhole.auditing.examine import examine
from keyhole.model.grid import Grid
from keyhole.solve.interval import Polytope, RangeProblem, Ranges, ranges, witness
from keyhole.solve.interval.interior import _restricted
from keyhole.solve.rowspace import RowSpace

Report = dict[str, Any]
ranges_module = import_module("keyhole.solve.interval.ranges")  # the name of the package is that of its function
GROUPED, MANY = 0.13, 0.25  # of the statements of adult, and of many
CLOCK = 10  # seconds of the clock for one of the process, on a busy machine
NAMES_OF_PARTS = ("small", "audit", "wide", "programs", "adult", "exchange", "many", "huge")
DRAWS = ("even", "skewed")
NAMES = "age workclass fnlwgt education years marital occupation relationship race sex gain loss hours country income"


def ranges_asked(
    rng: np.random.Generator, public: np.ndarray[Any, Any], m: int, levels: int
) -> tuple[list[np.ndarray[Any, np.dtype[np.bool_]]], list[str]]:
    """SUMs over one or two ranges of public columns with five people at least: who is in each, and its condition."""
    masks: list[np.ndarray[Any, np.dtype[np.bool_]]] = []
    conditions = []
    while len(masks) < m:
        inside, said = np.ones(len(public), dtype=np.bool_), []
        for c in rng.choice(public.shape[1], rng.integers(1, 3), replace=False):
            a, b = np.sort(rng.integers(0, levels, 2))
            inside &= (public[:, c] >= a) & (public[:, c] <= b)
            said.append(f"c{c} BETWEEN {a} AND {b}")
        if inside.sum() >= 5:
            masks.append(inside)
            conditions.append(" AND ".join(said))
    return masks, conditions


def world(n: int, m: int, seed: int, columns: int = 6, levels: int = 60) -> tuple[Polytope, list[Fraction]]:
    """SUMs over one or two ranges of public columns, of people with whole numbers from 1 to 99."""
    rng = np.random.default_rng(seed)
    public = rng.integers(0, levels, (n, columns))
    masks, _ = ranges_asked(rng, public, m, levels)
    packed = np.packbits(np.array(masks).T, axis=1)
    _, first, of, sizes = np.unique(packed, axis=0, return_index=True, return_inverse=True, return_counts=True)
    A = np.array(masks)[:, first]
    totals = np.bincount(of.ravel(), weights=rng.integers(1, 100, n), minlength=len(first)).astype(np.int64)
    keep = np.flatnonzero(A.any(axis=0))
    A, totals, sizes = A[:, keep], totals[keep], sizes[keep]
    start = np.concatenate([[0], np.cumsum(A.sum(axis=1))]).astype(np.int64)
    at = np.concatenate([np.flatnonzero(row) for row in A])
    said = tuple((Fraction(int(b)), Fraction(int(b))) for b in A @ totals)
    records = ((Fraction(1), Fraction(99)),) * len(keep)
    P = Polytope(start, at, np.ones(len(at), dtype=np.int64), said, records, tuple(sizes.tolist()))
    return P, [Fraction(int(t)) for t in totals]


def reached(found: Ranges) -> float:
    """The share of ends that a table reaches, those in floating point included."""
    ends = [r.reached(s) for r in found.of for s in (0, 1)]
    return sum(ends) / max(len(ends), 1)


def timed(problem: RangeProblem, **more: Any) -> tuple[float, Ranges]:
    """Ranges, and the CPU seconds they took."""
    start = time.process_time()
    found = ranges(problem, **more)
    return time.process_time() - start, found


class Stages:
    """Seconds of the search for projected tables, which is a part of `ranges`."""

    def __init__(self) -> None:
        self.projected = 0.0
        self._near = witness.near_ends

    def near_ends(self, *given: Any) -> list[tuple[int, tuple[bool, bool]]]:
        """The same, timed."""
        start = time.process_time()
        found = list(self._near(*given))
        self.projected += time.process_time() - start
        return found

    def timed(self, problem: RangeProblem, **more: Any) -> tuple[float, Ranges]:
        """Ranges, and the CPU seconds they took without projected tables."""
        self.projected = 0.0
        own = [mock.patch.object(module, "monotonic", time.process_time) for module in (witness, ranges_module)]
        with mock.patch.object(witness, "near_ends", self.near_ends), own[0], own[1]:
            seconds, found = timed(problem, **more)
        return seconds - self.projected, found


def small(scale: float) -> Report:
    """The exact walk against a float program an end."""
    report: Report = {}
    for n, m in ((300, 20), (1000, 30)):
        P, truth = world(int(n * scale), m, 0, 4, 40)
        seconds, found = timed(RangeProblem(P, [Grid(None)] * P.K, truth=truth), small=10**9)
        each, worst = highs(P, found, 20)
        ends = 2 * P.K
        report[f"{P.K} x {P.m}"] = {
            "seconds": round(seconds, 2),
            "reached": round(reached(found), 4),
            "HiGHS an end": round(each, 4),
            "ratio": round(each * ends / seconds, 2),
            "worst difference": worst,
        }
    return report


def highs(P: Polytope, found: Ranges, sample: int) -> tuple[float, float]:
    """Seconds an end of a cold HiGHS program on a sample, and how far its ends are from ours."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    A = csr_array((P.entries.astype(float), P.columns, P.start), shape=(P.m, P.K)).toarray()
    right = [float(lo or 0) for lo, _ in P.rows]
    bounds = [(float(P.total(k)[0] or 0), float(P.total(k)[1] or 0)) for k in range(P.K)]
    worst, start = 0.0, time.process_time()
    for k in np.random.default_rng(0).choice(P.K, sample, replace=False).tolist():
        goal = np.zeros(P.K)
        goal[k] = -1.0
        solved = linprog(goal, A_eq=A, b_eq=right, bounds=bounds)
        assert solved.x is not None
        low, high = P.records[k]
        assert solved.x is not None
        assert low is not None
        assert high is not None
        end = min(float(high), float(solved.x[k]) - (P.sizes[k] - 1) * float(low))
        worst = max(worst, abs(end - float(found.of[k].hi or 0)))
    return (time.process_time() - start) / sample, worst


def wide(scale: float) -> Report:
    """Outer ranges, second tables and ends reached of large logs."""
    warm, truth = world(1_500, 60, 1)
    timed(RangeProblem(warm, [Grid(None)] * warm.K, truth=truth))  # compile
    report: Report = {}
    stages = Stages()
    for n, m in ((6_000, 900), (81_307, 925)):
        P, truth = world(int(n * scale), m, 1)
        question = RangeProblem(P, [Grid(None)] * P.K, truth=truth)
        start = time.process_time()
        rank = RowSpace(_restricted(P, range(P.m), range(P.K))).rank
        itself = time.process_time() - start
        seconds, found = stages.timed(question)
        report[f"{P.K} x {P.m}, {len(P.columns)} entries, rank {rank}"] = {
            "seconds of the rank test": round(itself, 2),
            "seconds of ranges and second tables": round(seconds, 2),
            "seconds of projected tables": round(stages.projected, 2),
            "all of it in rank tests": round((seconds + stages.projected) / itself, 1),
            "ends narrowed": sum(bool(w) for r in found.of for w in r.weights.values()),
            "shown to have a second value": round(sum(r.wider(Fraction(0)) for r in found.of) / P.K, 4),
            "ends reached": round(reached(found), 6),
        }
    return report


def searched(kept: list[Ranges], stages: Stages, most: float) -> Any:
    """`ranges` as the interval rule sees it, with what it found kept; it may take `most` seconds of the process."""

    def search(problem: RangeProblem, seconds: float | None = None, **more: Any) -> Ranges:
        kept.append(stages.timed(problem, seconds=most, **more)[1])
        return kept[-1]

    return mock.patch.object(import_module("keyhole.auditing.rules.interval"), "ranges", search)


def audit(scale: float, most: float) -> Report:
    """What ranges cost beside the audit that they are a part of."""
    import pyarrow as pa

    n, m, levels = int(81_307 * scale), 925, 60
    rng = np.random.default_rng(1)
    public = rng.integers(0, levels, (n, 6))
    log = [f"SELECT SUM(x) FROM t WHERE {where}" for where in ranges_asked(rng, public, m, levels)[1]]
    table = pa.table({**{f"c{c}": public[:, c] for c in range(6)}, "x": rng.integers(1, 100, n).astype(np.float64)})
    start = time.process_time()
    examine(log, data=table, private="x:real")
    itself = time.process_time() - start
    kept, stages, start = list[Ranges](), Stages(), time.process_time()
    with searched(kept, stages, most):
        found = examine(log, data=table, private="x:1..99")
    seconds = time.process_time() - start
    return {
        "people": n,
        "statements": m,
        "atoms": found.atoms,
        "seconds of the audit alone": round(itself, 1),
        "seconds with ranges": round(seconds, 1),
        "ratio": round(seconds / itself, 2),
        "ends reached": [round(reached(each), 6) for each in kept],
        "promise": found.promise,
    }


def grouped(n: int, tables: int, least: int, draw: str = "even", seed: int = 1) -> RangeProblem:
    """Whole numbers from 1 to 99 added up over groups of three of ten columns each, groups of few left out.

    "skewed": of two or three columns, where each value has a quarter to three quarters fewer people than the last.
    """
    rng = np.random.default_rng(seed)
    even, skewed = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12), (4, 4, 5, 6, 7, 8, 9, 10, 12, 14)
    if draw == "even":
        public = np.stack([rng.integers(0, levels, n) for levels in even], axis=1)
    else:
        public = np.stack([np.minimum(rng.geometric(3.0 / levels, n), levels) for levels in skewed], axis=1)
    values, cells, listed = rng.integers(1, 100, n), list[np.ndarray[Any, Any]](), list[list[int]]()
    for _ in range(tables):
        width = 3 if draw == "even" else int(rng.integers(2, 4))
        listed.append(shown(public[:, rng.choice(10, width, replace=False)], np.arange(n), least, cells))
    return summed(cells, values, listed)


def shown(
    key: np.ndarray[Any, Any], people: np.ndarray[Any, Any], least: int, cells: list[np.ndarray[Any, Any]]
) -> list[int]:
    """The groups of a table among some people, those of few left out, added to `cells`: their places."""
    _, group, sizes = np.unique(key[people], axis=0, return_inverse=True, return_counts=True)
    order, ends = np.argsort(group.ravel(), kind="stable"), np.cumsum(sizes)
    begin = len(cells)
    cells += [people[order[e - s : e]] for s, e in zip(sizes.tolist(), ends.tolist(), strict=True) if s >= least]
    return list(range(begin, len(cells)))


def summed(cells: list[np.ndarray[Any, Any]], values: np.ndarray[Any, Any], listed: list[list[int]]) -> RangeProblem:
    """The sums of values from 1 to 99 over sets of people, as a question about atoms."""
    marks = np.random.default_rng(0).integers(1, 1 << 62, (len(cells), 2), dtype=np.uint64)
    seen = np.zeros((len(values), 2), dtype=np.uint64)
    for people, mark in zip(cells, marks, strict=True):
        seen[people] += mark
    _, of, sizes = np.unique(seen, axis=0, return_inverse=True, return_counts=True)
    totals = np.bincount(of.ravel(), weights=values).astype(int).tolist()
    rows = [np.unique(of.ravel()[people]) for people in cells]
    start = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    said = tuple((Fraction(b), Fraction(b)) for b in (int(values[people].sum()) for people in cells))
    records = ((Fraction(1), Fraction(99)),) * len(sizes)
    entries = np.ones(int(start[-1]), dtype=np.int64)
    P = Polytope(start, np.concatenate(rows), entries, said, records, tuple(sizes.tolist()))
    return RangeProblem(P, [Grid(None)] * P.K, tables=listed, truth=[Fraction(t) for t in totals])


def huge(scale: float, most: float, draw: str) -> Report:
    """How far a log of many GROUP BYs over many people gets."""
    return far(grouped(int(120_000 * scale), 32, 5, draw), most)


def far(problem: RangeProblem, most: float) -> Report:
    """How far ranges get in so many seconds."""
    P, stages = problem.polytope, Stages()
    seconds, found = stages.timed(problem, seconds=most)
    return {
        "atoms x rows": f"{P.K} x {P.m}, {len(P.columns)} entries",
        "seconds of ranges and second tables": round(seconds, 1),
        "seconds of projected tables": round(stages.projected, 1),
        "records with an outer range": round(sum(r.lo is not None and r.hi is not None for r in found.of) / P.K, 4),
        "ends narrowed": sum(bool(w) for r in found.of for w in r.weights.values()),
        "shown to have a second value": round(sum(r.wider(Fraction(0)) for r in found.of) / P.K, 4),
        "ends reached": round(reached(found), 4),
        "stopped": found.stopped,
    }


def programs(scale: float, most: float = 60.0) -> Report:
    """Projected tables against a linear program an end, warm; about `most` seconds for either method."""
    warm, truth = world(1_500, 60, 1)
    timed(RangeProblem(warm, [Grid(None)] * warm.K, truth=truth))  # compile
    P, truth = world(int(6_000 * scale), 900, 1)
    question = RangeProblem(P, [Grid(None)] * P.K, truth=truth)
    stages = Stages()
    _, found = stages.timed(question)
    ends = sum(not r.reached(s) or r.near[s] for r in found.of for s in (0, 1))
    each = stages.projected / max(ends, 1)
    report: Report = {"ends": ends, "left": sum(not r.reached(s) for r in found.of for s in (0, 1))}
    report["projected, seconds for all"] = round(stages.projected, 2)
    before = time.process_time()
    warm_start = first_table(P)
    report["first table by the interior point method, seconds"] = round(time.process_time() - before, 1)
    for name, strategy in (("primal", 4), ("dual", 1)):
        taken, solved, worst = warm_programs(P, found, warm_start, strategy, most)
        report[f"warm {name}"] = {
            "ends solved": solved,
            "seconds an end": round(taken / max(solved, 1), 3),
            "ratio": round(taken / solved / each) if solved else _at_least(taken, each),
            "worst difference in widths": worst,
        }
        print(json.dumps(report), file=sys.stderr, flush=True)
    return report


def _at_least(taken: float, each: float) -> str:
    """What is said of a method that finished no end."""
    return f"at least {round(taken / each)}: no end in time"


def first_table(P: Polytope) -> tuple[Any, Any, Any]:
    """A HiGHS solver that stands on a vertex: the best one for random costs.

    With no costs at all its simplex finds no table in minutes, and its interior point method says that there is none.
    """
    import highspy as untyped

    highspy: Any = untyped
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = P.K, P.m
    model.col_cost_ = np.random.default_rng(0).standard_normal(P.K)
    model.col_lower_, model.col_upper_ = (np.array([float(P.total(k)[s] or 0) for k in range(P.K)]) for s in (0, 1))
    model.row_lower_, model.row_upper_ = (np.array([float(ends[s] or 0) for ends in P.rows]) for s in (0, 1))
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_ = P.start.astype(np.int32), P.columns.astype(np.int32)
    model.a_matrix_.value_ = P.entries.astype(np.float64)
    solver: Any = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("presolve", "off"), ("solver", "ipm")):
        solver.setOptionValue(option, value)
    solver.passModel(model)
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal, solver.getModelStatus()
    solver.setOptionValue("solver", "simplex")
    solver.changeColsCost(P.K, np.arange(P.K, dtype=np.int32), np.zeros(P.K))
    return solver, solver.getBasis(), highspy.HighsModelStatus.kOptimal


def warm_programs(
    P: Polytope, found: Ranges, warm_start: tuple[Any, Any, Any], strategy: int, most: float
) -> tuple[float, int, float]:
    """CPU seconds, upper ends solved (of 20 drawn), and how far from those called reached; each end from the last one.

    Ends at which the solver stands already are counted too.
    """
    solver, basis, optimal = warm_start
    solver.setOptionValue("simplex_strategy", strategy)
    solver.setBasis(basis)
    start, solved, worst = time.process_time(), 0, 0.0
    for k in np.random.default_rng(0).choice(P.K, 20, replace=False).tolist():
        solver.changeColCost(k, -1.0)
        solver.setOptionValue("time_limit", solver.getRunTime() + CLOCK * most)  # of the clock, as all its limits
        solver.run()
        if solver.getModelStatus() != optimal or time.process_time() - start > most:
            break
        solved += 1
        (low, high), r = P.records[k], found.of[k]
        assert None not in (low, high, r.lo, r.hi)
        end = min(float(high or 0), -solver.getObjectiveValue() - (P.sizes[k] - 1) * float(low or 0))
        if r.near[1]:
            worst = max(worst, abs(end - float(r.hi or 0)) / float((r.hi or 0) - (r.lo or 0)))
        solver.changeColCost(k, 0.0)
    return time.process_time() - start, solved, worst


def statements(read: Any, hidden: str, share: float = GROUPED, seed: int = 1) -> list[str]:
    """Three hundred of them: one or two columns of GROUP BY, at times in a range of years of age, or conditions."""
    rng = random.Random(seed)
    keys = ("workclass", "education", "marital", "occupation", "relationship", "race", "sex", "country", "income")
    values = {key: sorted(set(read[key].to_pylist())) for key in keys}
    log = dict[str, None]()
    while len(log) < 300:
        low = rng.randrange(17, 70)
        where = f"age BETWEEN {low} AND {low + rng.randrange(3, 40)}"
        if rng.random() < share:
            key = ", ".join(rng.sample(keys, rng.choice((1, 2, 2, 3))))
            where = f" WHERE {where}" if rng.random() < 0.5 else ""
            log[f"SELECT {key}, SUM(hours) FROM t{where} GROUP BY {key}{hidden}"] = None
        else:
            key = rng.choice(keys)
            more = f" AND {key} = '{rng.choice(values[key])}'" if rng.random() < 0.5 else ""
            log[f"SELECT SUM(hours) FROM t WHERE {where}{more}"] = None
    return list(log)


def table(folder: Path) -> Any:
    """The Adult table, with real hours; None where it is not."""
    import pyarrow.csv as pc

    path = folder / "adult.data"
    if not path.is_file():
        return None
    options = pc.ConvertOptions(strings_can_be_null=False)
    read = pc.read_csv(path, pc.ReadOptions(column_names=NAMES.split()), convert_options=options)
    return read.set_column(read.column_names.index("hours"), "hours", read["hours"].cast("float64"))


def many(folder: Path, most: float, hidden: str | None, share: float) -> Report:
    """The rows of an Adult log with many GROUP BYs, without an audit around them."""
    read = table(folder)
    if read is None:
        return {"skipped": f"no adult.data in {folder}"}
    log = statements(read, "", share)
    people = {name: np.array(read[name].to_pylist()) for name in NAMES.split()}
    report: Report = {}
    for hides, least in (("", 1), (" HAVING COUNT(*) >= 3", 3)):
        if hidden is not None and hides != hidden:
            continue
        cells, listed = list[np.ndarray[Any, Any]](), list[list[int]]()
        for text in log:
            asked = re.search(r"age BETWEEN (\d+) AND (\d+)(?: AND (\w+) = '(.*)')?", text)
            inside = np.ones(len(people["age"]), dtype=np.bool_)
            if asked is not None:
                inside &= (people["age"] >= int(asked[1])) & (people["age"] <= int(asked[2]))
                inside &= people[asked[3]] == asked[4] if asked[3] else True
            group = re.search(r"GROUP BY (.*)", text)
            keys = group[1].split(", ") if group else []
            key = np.stack(
                [np.unique(people[k], return_inverse=True)[1] for k in keys] or [inside.astype(np.int64)], axis=1
            )
            listed.append(shown(key, np.flatnonzero(inside), least if group else 1, cells))
        report[f"{len(log)} statements{hides}"] = far(summed(cells, people["hours"], listed), most)
    return report


def adult(folder: Path, most: float, hidden: str | None, share: float) -> Report:
    """A log with GROUP BYs over the Adult table, small cells shown or hidden."""
    read = table(folder)
    if read is None:
        return {"skipped": f"no adult.data in {folder}"}
    report: Report = {}
    for hides in ("", " HAVING COUNT(*) >= 3") if hidden is None else (hidden,):
        log = statements(read, hides, share)
        start = time.process_time()
        examine(log, data=read, private="hours:real")
        itself = time.process_time() - start
        stages, kept = Stages(), list[Ranges]()
        start = time.process_time()
        with searched(kept, stages, most):
            found = examine(log, data=read, private="hours:1..99")
        seconds = time.process_time() - start
        report[f"{len(log)} statements{hides}"] = {
            "queries": found.queries,
            "atoms": found.atoms,
            "seconds of the audit alone": round(itself, 1),
            "seconds with ranges": round(seconds, 1),
            "of these, projected tables": round(stages.projected, 1),
            "ratio": round(seconds / itself, 1),
            "ends reached": [round(reached(each), 4) for each in kept],
            "exposed": [len(found.exposed)],
            "narrowed": sum(f.proof is not None and bool(f.proof.weights) for f in found.ranges),
            "promise": found.promise,
        }
    return report


GROUPS = ("sex", "education", "marital", "occupation", "relationship", "sex, education")


def exchange(folder: Path) -> Report:
    """Averages and counts by group over the Adult table: is everybody shown open, and for how much more time?"""
    read = table(folder)
    if read is None:
        return {"skipped": f"no adult.data in {folder}"}
    read = read.set_column(read.column_names.index("hours"), "hours", read["hours"].cast("int64"))
    log = [f"SELECT {keys}, AVG(hours), COUNT(*) FROM t GROUP BY {keys}" for keys in GROUPS]
    report: Report = {}
    for private in ("hours:real", "hours", "hours:1..99:1"):
        seconds = []
        for _ in range(4):
            start = time.process_time()
            found = examine(log, data=read, private=private)
            seconds.append(time.process_time() - start)
        report[private] = {
            "exit": found.exit_code,
            "exposed": len(found.exposed),
            "seconds": round(statistics.median(seconds[1:]), 2),
        }
    for private in ("hours", "hours:1..99:1"):
        report[private]["ratio"] = round(report[private]["seconds"] / report["hours:real"]["seconds"], 2)
    return report


def main() -> None:
    """Run the parts and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=NAMES_OF_PARTS)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--adult", type=Path, default=Path("adult"))
    parser.add_argument("--most", type=float, default=600.0, help="seconds of this process for ranges")
    parser.add_argument("--programs", type=float, default=60.0, help="CPU seconds for either method of programs")
    parser.add_argument("--hidden", help="only this HAVING of adult, such as '' or ' HAVING COUNT(*) >= 10'")
    parser.add_argument("--grouped", type=float, help="share of the statements of adult and many with GROUP BY")
    parser.add_argument("--draw", choices=DRAWS, help="only this draw of huge")
    given = parser.parse_args()
    for name in NAMES_OF_PARTS:
        if given.only in (None, name):
            if name == "adult":
                part = adult(given.adult, given.most, given.hidden, given.grouped or GROUPED)
            elif name == "many":
                part = many(given.adult, given.most, given.hidden, given.grouped or MANY)
            elif name == "huge":
                draws = DRAWS if given.draw is None else (given.draw,)
                part = {draw: huge(given.scale, given.most, draw) for draw in draws}
            elif name == "exchange":
                part = exchange(given.adult)
            elif name == "audit":
                part = audit(given.scale, given.most)
            elif name == "programs":
                part = programs(given.scale, given.programs)
            else:
                part = {"small": small, "wide": wide}[name](given.scale)
            print(json.dumps({name: part}, indent=2), flush=True)


if __name__ == "__main__":
    main()
