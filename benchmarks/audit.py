"""The whole audit (parse, atoms, answers, screen, certify, values) against DuckDB running the statements one by one.

python -m benchmarks.audit [--rows 1000000] [--statements 1000] [--repeats 3] [--format text|json]

`validation_share` is the check of the readings as a share of the whole audit (at most 0.3 is the aim), and
`validation_to_the_rest` against all else, both as least and median of the repeats. `weights` is another log: three
statements that weigh every record by a number of its own, so that each is an atom, against DuckDB running the same
three. Both sides work on tables already in memory, in one process, warm: a small audit runs first, so that imports and
compilation are reported apart.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks import workload as work
from keyhole.auditing import Exposure, Judge
from keyhole.config import Columns, PrivateColumn
from keyhole.datasets import Source, load
from keyhole.gather import gather
from keyhole.gather.transcribe import checked, expanded, lowered
from keyhole.model.prior import Knowledge
from keyhole.model.transcript import Line

WEIGHTED = (
    "SELECT SUM(weight * pay) FROM staff",
    "SELECT SUM(weight * pay) FROM staff WHERE age < 40",
    "SELECT SUM(pay) FROM staff WHERE age >= 40",
)


def audit(source: Source, statements: list[str], laps: dict[str, float]) -> Exposure:
    """One audit, with the time of each stage."""
    clock = time.perf_counter
    start = clock()
    lines = [Line(i, text, at=i) for i, text in enumerate(statements, 1)]
    read = lowered(lines, source.schema)
    laps["parse"] = clock() - start
    start = clock()
    read = checked(read, source.roster)
    laps["validation"] = clock() - start
    start = clock()
    transcript = expanded(read, source.roster, source=source)
    laps["groups"] = clock() - start
    start = clock()
    evidence = gather(transcript, source.roster, Knowledge(), source=source)
    laps["atoms and answers"] = clock() - start
    start = clock()
    verdict = Judge().examine(evidence, source.roster)
    laps["screen, certify, values"] = clock() - start
    return verdict


def measure(rows: int, statements: int, repeats: int) -> dict[str, Any]:
    """Interleaved runs of both sides; the ratio is of medians."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.parquet"
        few = work.people(20_000, seed=3)
        work.parquet(small, few)
        warm = work.workload(few, 200)
        audit(_load(small), [s.sql for s in warm.statements], {})
        warm_up = time.perf_counter() - start
        people = work.people(rows)
        path = Path(folder) / "staff.parquet"
        work.parquet(path, people)
        log = work.workload(people, statements)
        texts = [s.sql for s in log.statements]
        start = time.perf_counter()
        source = _load(path)
        loading = time.perf_counter() - start
        peer = duckdb.connect()
        peer.execute(f"CREATE TABLE staff AS SELECT * FROM '{path}'")
    ours, theirs, stages = [], [], []
    for _ in range(repeats):
        start = time.perf_counter()
        for text in texts:
            peer.execute(text).fetchall()
        theirs.append(time.perf_counter() - start)
        laps: dict[str, float] = {}
        start = time.perf_counter()
        verdict = audit(source, texts, laps)
        ours.append(time.perf_counter() - start)
        stages.append(laps)
    exposed = {f.row for f in verdict.exposed}
    missing = set(log.planted) - exposed
    assert not missing, f"planted people were missed: {missing}"
    ratio = statistics.median(ours) / statistics.median(theirs)
    return {
        "rows": rows, "statements": statements, "queries": verdict.queries, "atoms": verdict.atoms,
        "rank": verdict.rank, "exposed": len(exposed), "planted": len(log.planted),
        "audit_seconds": round(statistics.median(ours), 3), "duckdb_seconds": round(statistics.median(theirs), 3),
        "ratio": round(ratio, 3),
        "validation_share": _spread([s["validation"] / sum(s.values()) for s in stages]),
        "validation_to_the_rest": _spread([s["validation"] / (sum(s.values()) - s["validation"]) for s in stages]),
        "stages": {k: round(statistics.median(s[k] for s in stages), 3) for k in stages[0]},
        "load_seconds": round(loading, 3), "imports_and_compilation_seconds": round(warm_up, 1),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }  # fmt: skip


def weighted(rows: int, repeats: int) -> dict[str, Any]:
    """As many distinct public weights as records: interleaved runs of both sides."""
    rng = np.random.default_rng(1)
    columns = {"weight": rng.permutation(rows) + 1, "age": rng.integers(*work.AGES, rows)}
    columns["pay"] = rng.integers(20_000, 250_000, rows)
    peer = duckdb.connect()
    peer.register("columns", columns)
    peer.execute("CREATE TABLE staff AS SELECT * FROM columns")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weighted.parquet"
        peer.execute(f"COPY staff TO '{path}' (FORMAT parquet)")
        source = load(path, Columns(private={"pay": PrivateColumn()}))
    ours, theirs = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        for text in WEIGHTED:
            peer.execute(text).fetchall()
        theirs.append(time.perf_counter() - start)
        start = time.perf_counter()
        verdict = audit(source, list(WEIGHTED), {})
        ours.append(time.perf_counter() - start)
    assert verdict.atoms == rows, f"{verdict.atoms} atoms"
    return {
        "atoms": verdict.atoms, "audit_seconds": _spread(ours), "duckdb_seconds": _spread(theirs),
        "ratio": _spread([a / b for a, b in zip(ours, theirs, strict=True)]),
    }  # fmt: skip


def _spread(found: list[float]) -> dict[str, float]:
    return {"min": round(min(found), 3), "median": round(statistics.median(found), 3)}


def _load(path: Path) -> Source:
    return load(path, Columns(private={work.PRIVATE: PrivateColumn()}))


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--statements", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    args = parser.parse_args()
    found = measure(args.rows, args.statements, args.repeats)
    found[f"weights: {args.rows} rows with as many distinct weights, 3 queries"] = weighted(args.rows, args.repeats)
    if args.format == "json":
        json.dump(found, sys.stdout, indent=2)
        print()
        return
    for key, value in found.items():
        print(f"{key:34} {value}")


if __name__ == "__main__":
    main()
