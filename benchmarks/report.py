"""What it costs to say a verdict, against proving it: thousands of people exposed by two or three queries each.

python -m benchmarks.report [--people 4002] [--repeats 3] [--format text|json]

The table is in threes (a, b, c); of each three the log has SUM(a, b, c), SUM(b, c) and AVG(a, b). Then a and c take two
queries and b takes three. Printed are medians; `ratio` is (plain data + to_json) / audit, which must stay below 0.2.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from typing import Any

import pyarrow as pa

from keyhole.auditing.examine import examine
from keyhole.report.verdict import Verdict


def people(n: int) -> pa.Table:
    """n people in threes, with a private pay."""
    rows = range(n)
    return pa.table(
        {
            "name": [f"p{i}" for i in rows],
            "k": list(rows),
            "three": [i // 3 for i in rows],
            "pay": [1_000 + 37 * i % 911 for i in rows],
        }
    )


def log(n: int) -> list[str]:
    """Three statements for each three people."""
    found = []
    for three in range(n // 3):
        first = 3 * three
        found.append(f"SELECT SUM(pay) FROM t WHERE three = {three}")
        found.append(f"SELECT SUM(pay) FROM t WHERE three = {three} AND k > {first}")
        found.append(f"SELECT AVG(pay) FROM t WHERE three = {three} AND k < {first + 2}")
    return found


def measure(n: int, repeats: int) -> dict[str, Any]:
    """Medians of the stages, after a small run that imports and compiles."""
    Verdict.of(examine(log(300), data=people(300), private=["pay"], id="name")).dumps()
    stages: dict[str, list[float]] = {"audit": [], "plain": [], "to_json": [], "dumps": [], "text": []}
    stages |= {"to_frame": [], "to_html": []}
    clock = time.perf_counter
    for _ in range(repeats):
        start = clock()
        exposure = examine(log(n), data=people(n), private=["pay"], id="name")
        stages["audit"].append(clock() - start)
        start = clock()
        verdict = Verdict.of(exposure)
        stages["plain"].append(clock() - start)
        for name in ("to_json", "dumps", "text", "to_frame", "to_html"):
            start = clock()
            getattr(verdict, name)()
            stages[name].append(clock() - start)
    proofs = Counter(len(item["proof"]) for item in verdict.to_json()["exposed"])
    assert len(verdict.exposed) == n // 3 * 3, f"{len(verdict.exposed)} of {n} people are exposed"
    median = {name: statistics.median(times) for name, times in stages.items()}
    return {
        "people": n,
        "queries": verdict.queries,
        "exposed": len(verdict.exposed),
        "proofs": {f"{size} queries": count for size, count in sorted(proofs.items())},
        **{f"{name}_seconds": round(seconds, 3) for name, seconds in median.items()},
        "html_megabytes": round(len(verdict.to_html().encode()) / 1e6, 3),
        "ratio": round((median["plain"] + median["to_json"]) / median["audit"], 4),
    }


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=4_002)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    args = parser.parse_args()
    found = measure(args.people, args.repeats)
    if args.format == "json":
        json.dump(found, sys.stdout, indent=2)
        print()
        return
    for key, value in found.items():
        print(f"{key:34} {value}")


if __name__ == "__main__":
    main()
