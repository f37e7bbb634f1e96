"""A decision over a table that changes, against one over a table that does not.

python -m benchmarks.epochs [--people 100000] [--answered 200] [--asked 12]

Questions about random halves of the people, none of which exposes anybody; the row spaces alone, without SQL. Median
milliseconds of a decision (`probe`) and of recording it (`commit`), as ratios to one epoch in the same run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

from keyhole.basis.bits import pack
from keyhole.solve.rowspace.online import DirectSum, OnlineRowSpace
from keyhole.solve.rowspace.versions import VersionSpace


def measured(space: Any, columns: int, answered: int, asked: int) -> tuple[float, float]:
    """Median milliseconds of a decision, and of recording it."""
    rng = np.random.default_rng(7)
    for _ in range(answered):
        space.take(pack(rng.random(columns) < 0.5))
    space.probe(pack(rng.random(columns) < 0.5))  # whom the history exposes is found once
    probes, commits = [], []
    for _ in range(asked):
        query = pack(rng.random(columns) < 0.5)
        start = time.perf_counter()
        decision = space.probe(query)
        middle = time.perf_counter()
        space.commit(decision)
        probes.append(middle - start)
        commits.append(time.perf_counter() - middle)
    return 1e3 * statistics.median(probes), 1e3 * statistics.median(commits)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--answered", type=int, default=200)
    parser.add_argument("--asked", type=int, default=12)
    given = parser.parse_args()
    n = given.people
    for insiders in (0, 1):
        spaces: list[tuple[str, Any, int]] = [
            ("one epoch", OnlineRowSpace(n, insiders=insiders), n),
            ("secret changes", DirectSum(n, insiders=insiders), n),
        ]
        for share in (0.01, 0.1, 1.0):
            owner = np.append(np.arange(n), np.arange(int(n * share)))
            name = f"public changes, {share:.0%} written once"
            spaces.append((name, VersionSpace(owner, insiders=insiders), len(owner)))
        first = None
        for name, space, columns in spaces:
            probe, commit = measured(space, columns, given.answered, given.asked)
            first = first or probe
            ratio = f"{probe / first:.1f}x"
            print(f"insiders = {insiders}, {name}: {probe:.2f} ms ({ratio}), recording {commit:.2f} ms", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
