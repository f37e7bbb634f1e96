"""Fewest queries: sizes of designs, plans on a real roster. `python -m benchmarks.plan [--adult FOLDER] [--people 100]`

The UCI Adult table (adult.data in FOLDER, default: adult under KEYHOLE_DATA), hours a secret, eleven public columns,
groups of at least 10, at most 3 columns, = and <>: how many can be given away and how, set-up and milliseconds a
person; the plans of a random sample are confirmed by the auditor, run as SQL and compared with the truth.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from keyhole.api.plan import Asking, Plans, plan
from keyhole.attacks.design import DobkinJonesLipton, Hadamard, Lindstrom, Superincreasing, fewest_for_bits
from keyhole.attacks.plan import How, QueryPlan, plan_jointly, question_sql
from keyhole.cli.demo import PEOPLE
from keyhole.config.settings import settings

NAMES = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital",
    "occupation",
    "relationship",
    "race",
    "sex",
    "gain",
    "loss",
    "hours",
    "country",
    "income",
]
LEFT_OUT = ("fnlwgt", "gain", "loss")
Report = dict[str, Any]


def designs() -> Report:
    """How few queries each design needs."""
    lindstrom = {n: len(Lindstrom(n).queries) for n in (1, 4, 12, 32, 80, 1000)}
    return {
        "fewest for 1..5 bits, by search": [len(fewest_for_bits(n)) for n in range(1, 6)],
        "Lindstrom, bits: queries": lindstrom,
        "Dobkin-Jones-Lipton, group size: (queries, records)": {
            k: (len(DobkinJonesLipton(k).queries), DobkinJonesLipton(k).n) for k in (2, 3, 4, 10)
        },
        "Hadamard for noisy answers, bits: queries": {n: Hadamard(n).size for n in (100, 1000)},
        "one weighted sum, bits": len(Superincreasing(80).queries),
    }


def hospital(folder: Path) -> Report:
    """Jeremy Doe, with groups of at least two."""
    path = folder / "people.csv"
    path.write_text(PEOPLE, encoding="utf-8")
    found = plan("Name = 'Jeremy Doe'", data=path, id="Name", private="Blood sugar", min_group=2)
    return {"queries": list(found.queries), "formula": found.formula, "fewest": found.found.fewest}


def adult(folder: Path, people: int) -> Report:
    """Everybody counted, and a sample planned, confirmed and run."""
    path = folder / "adult.data"
    if not path.is_file():
        return {"skipped": f"{path} is not there: name its folder with --adult, or set KEYHOLE_DATA"}
    con = duckdb.connect()
    read = f"read_csv('{path}', header = false, names = {NAMES})"
    con.execute(f"CREATE TABLE adult AS SELECT row_number() OVER () AS id, * FROM {read}")
    frame = con.sql("SELECT * FROM adult").to_arrow_table()
    given = settings(data=frame, table="adult", id="id", private="hours", hidden=LEFT_OUT)
    busy = time.process_time()
    made = Plans(given, Asking(least=10))
    busy = time.process_time() - busy
    seen = made.everybody()
    n = len(seen.how)
    exposed = [e.exposed for e in seen.how]
    share = {str(how): f"{100 * count / n:.1f} %" for how, count in seen.counts().items()}
    two = sum(e and 0 < c <= 2 for e, c in zip(exposed, seen.cost, strict=True))
    chained = sum(e and c > 0 for e, c in zip(exposed, seen.cost, strict=True))
    return {
        "people": n, "kinds of people": made.planner.profiles.count, "groups": made.planner.cells.count - 1,
        "set-up seconds": round(made.seconds, 1), "set-up processor seconds": round(busy, 1),
        "by two queries": f"{100 * two / n:.1f} %",
        "after peeling": f"{100 * _peeled(made) / n:.1f} %",
        "after peeling kinds of people, too": f"{100 * chained / n:.1f} %",
        "with the row space": f"{100 * sum(exposed) / n:.1f} %",
        "undecided": seen.how.count(How.UNDECIDED), "how": share, "sample": sample(made, con, people),
        "one list for everybody": together(made),
    }  # fmt: skip


def together(made: Plans) -> Report:
    """One list for everybody: how long it is beside its bound, as a ratio, and what it took."""
    busy = time.process_time()
    found = plan_jointly(made.planner, made.domain, lambda: False)
    busy = time.process_time() - busy
    return {
        "people": len(found.targets), "questions": len(found.questions), "bound": found.bound,
        "questions : bound": round(len(found.questions) / max(1, found.bound), 3), "processor seconds": round(busy, 1),
        "complete": found.complete,
    }  # fmt: skip


def _peeled(made: Plans) -> int:
    """How many single people follow if only single people, found out before, help: the classic peeling."""
    cells, profiles = made.planner.cells, made.planner.profiles
    known = np.zeros(profiles.count, dtype=np.bool_)
    while True:
        left = np.bincount(
            cells.cell.ravel(), weights=np.tile(profiles.people * ~known, len(cells.sets)), minlength=cells.count
        )
        new = (left[cells.cell] == 1).any(axis=0) & ~known
        if not new.any():
            return int(known.sum())
        known |= new


def sample(made: Plans, con: duckdb.DuckDBPyConnection, people: int) -> Report:
    """Random people: planned (timed), then confirmed by the auditor, run as SQL, compared with the truth."""
    rows = np.random.default_rng(0).permutation(made.roster.n)[:people].tolist()
    planner = made.planner
    times, found = [], []
    for row in rows:
        start = time.perf_counter()
        found.append(planner.plan(int(planner.profiles.of[row])))
        times.append(1000 * (time.perf_counter() - start))
    right = confirmed = 0
    start = time.perf_counter()
    for row, each in zip(rows, found, strict=True):
        if not each.weights:
            continue
        confirmed += bool(made.of(row).exposes)  # raises if the auditor does not confirm
        total = Fraction(0)
        for question, weight in each.weights.items():
            sql = question_sql(question, planner.profiles.columns, "hours", "adult")
            [(count,)] = con.execute(sql.replace('SUM("hours")', "COUNT(*)")).fetchall()
            assert count >= planner.ways.least
            total += weight * int(con.execute(sql).fetchall()[0][0])
        [(truth,)] = con.execute(f"SELECT hours FROM adult WHERE id = {row + 1}").fetchall()
        right += total == truth
    planned = sum(bool(each.weights) for each in found)
    assert planned == right == confirmed, (planned, right, confirmed)
    return {
        "people": len(rows), "how": {str(how): count for how, count in Counter(p.how for p in found).most_common()},
        "planned": planned, "confirmed by the auditor": confirmed, "right when run as SQL": right,
        "most questions in one plan": max(len(each.weights) for each in found),
        "milliseconds a person, not counting who shares all columns": _quantiles(times, found),
        "seconds to confirm and run them": round(time.perf_counter() - start, 1),
    }  # fmt: skip


def _quantiles(times: list[float], found: list[QueryPlan]) -> dict[str, float]:
    took = [t for t, each in zip(times, found, strict=True) if each.how is not How.SHARED]
    return {"median": round(float(np.median(took)), 1), "nine of ten": round(float(np.quantile(took, 0.9)), 1),
            "most": round(max(took), 1)}  # fmt: skip


def main() -> None:
    """Print what was measured, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adult", type=Path, default=Path(os.environ.get("KEYHOLE_DATA", ".")) / "adult")
    parser.add_argument("--people", type=int, default=100)
    given = parser.parse_args()
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        report = {"designs": designs(), "hospital": hospital(Path(folder))}
    report["adult"] = adult(given.adult, given.people)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
