"""Grouping records into atoms against DuckDB: python -m benchmarks.atoms [--rows N] [--format json|text].

Peers, in the same run: DuckDB running the statements of the log one by one, and DuckDB grouping by the hash of all
booleans (which is not exact: it says what exactness costs). Sides take turns and the least time of each counts; the
first call of `group_records`, which also loads the compiled kernels, is reported apart.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable

import duckdb

from benchmarks.workload import Workload, people, table, workload
from keyhole.basis import Atoms
from keyhole.engines.duckdb.patterns import explain_grouping, group_records
from keyhole.model.predicate import Opaque, Or, format_predicate
from keyhole.model.schema import Column, Kind, Schema

SCHEMA = Schema(
    "staff",
    (
        Column("age", Kind.INTEGER),
        Column("zip", Kind.INTEGER),
        Column("dept", Kind.TEXT),
        Column("sex", Kind.TEXT),
        Column("grade", Kind.INTEGER),
        Column("hired", Kind.DATE),
    ),
)


def one_by_one(con: duckdb.DuckDBPyConnection, log: Workload) -> None:
    """Every statement of the log, answered."""
    for asked in log.statements:
        con.execute(asked.sql).fetchall()


def by_hash(con: duckdb.DuckDBPyConnection, log: Workload) -> int:
    """Groups by a 64-bit hash of all booleans, with their sizes and first records."""
    held = ", ".join(f"({format_predicate(p)})" for p in log.predicates)
    text = f"SELECT count(*), min(rowid) FROM staff GROUP BY hash({held})"
    return len(con.execute(text).fetchnumpy()["count_star()"])


def measure(n: int, m: int, groupings: int, rounds: int) -> dict[str, object]:
    """Seconds of each side and the ratios."""
    rows = people(n)
    log = workload(rows, m, groupings)
    con = duckdb.connect()
    table(con, rows)
    del rows
    predicates = log.predicates
    start = time.perf_counter()
    atoms: Atoms = group_records(con, "staff", SCHEMA, predicates, [])
    first = time.perf_counter() - start
    K = atoms.K
    del atoms
    sides: dict[str, Callable[[], object]] = {
        "atoms": lambda: group_records(con, "staff", SCHEMA, predicates, []),
        "one_by_one": lambda: one_by_one(con, log),
        "hash": lambda: by_hash(con, log),
    }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    best = dict.fromkeys(sides, float("inf"))
    busy = dict.fromkeys(sides, float("inf"))  # seconds of all cores: what other programs on the machine change least
    for _ in range(rounds):
        for name, run in sides.items():
            start, cpu = time.perf_counter(), time.process_time()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
            busy[name] = min(busy[name], time.process_time() - cpu)
    return {
        "rows": n,
        "statements": m,
        "predicates": len(predicates),
        "K": K,
        "first_call_seconds": round(first, 3),
        **{f"{name}_seconds": round(seconds, 3) for name, seconds in best.items()},
        **{f"{name}_cpu_seconds": round(seconds, 3) for name, seconds in busy.items()},
        **{f"ratio_{name}": round(best["atoms"] / best[name], 3) for name in ("one_by_one", "hash")},
        **{f"ratio_{name}_cpu": round(busy["atoms"] / busy[name], 3) for name in ("one_by_one", "hash")},
        "peak_mb": round(peak / 1024),  # table and first grouping, before the peers ran
    }


def plan_text(n: int, m: int, groupings: int) -> str:
    """The plan of the same log, with a two-column condition, a disjunction of conjunctions and a weight added."""
    rows = people(n)
    con = duckdb.connect()
    table(con, rows)
    asked = workload(rows, m, groupings).predicates
    older = Opaque("zip % 100 > age", frozenset({"zip", "age"}))
    return explain_grouping(con, "staff", SCHEMA, [*asked, older, Or((asked[0], asked[1]))], ["grade"])


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--statements", type=int, default=1_000)
    parser.add_argument("--groupings", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--explain", action="store_true", help="print the plan and measure nothing")
    parser.add_argument("--format", choices=("json", "text"), default="text")
    chosen = parser.parse_args()
    if chosen.explain:
        print(plan_text(chosen.rows, chosen.statements, chosen.groupings))
        return
    found = measure(chosen.rows, chosen.statements, chosen.groupings, chosen.rounds)
    if chosen.format == "json":
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:20} {value}")


if __name__ == "__main__":
    main()
