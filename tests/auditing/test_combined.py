"""Sums, MIN and MAX of the same people together, against all tables of small worlds and through the checker."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from tests.support.effort import effort

import keyhole
from keyhole.auditing import Status
from keyhole.checker import Outcome, replay
from keyhole.report.verdict import Verdict

NAMES = "abcde"
MOST = 4
ITEMS: dict[str, Callable[[list[int]], int]] = {"SUM(x)": sum, "MAX(x)": max, "MIN(x)": min}


@dataclass(frozen=True)
class Mixed:
    """A table, what was asked of it, and which values the tables with the same answers leave each person."""

    values: tuple[int, ...]
    log: tuple[tuple[str, tuple[int, ...]], ...]
    left: tuple[frozenset[int], ...]

    @classmethod
    def made(cls, rng: random.Random) -> Mixed:
        n = rng.randrange(2, 6)
        values = tuple(rng.randrange(MOST + 1) for _ in range(n))
        log = tuple(
            (
                rng.choice(("SUM(x)", "SUM(x)", "MAX(x)", "MIN(x)")),
                tuple(sorted(rng.sample(range(n), rng.randrange(1, n + 1)))),
            )
            for _ in range(rng.randrange(2, 5))
        )
        told = [ITEMS[item]([values[i] for i in people]) for item, people in log]
        tables = [
            t
            for t in product(range(MOST + 1), repeat=n)
            if all(ITEMS[item]([t[i] for i in people]) == a for (item, people), a in zip(log, told, strict=True))
        ]
        return cls(values, log, tuple(frozenset(t[i] for t in tables) for i in range(n)))

    @property
    def sql(self) -> list[str]:
        names = [", ".join(f"'{NAMES[i]}'" for i in people) for _, people in self.log]
        return [f"SELECT {item} FROM t WHERE n IN ({who})" for (item, _), who in zip(self.log, names, strict=True)]

    def audited(self, **more: str) -> tuple[Verdict, pa.Table]:
        data = pa.table({"n": list(NAMES[: len(self.values)]), "x": list(self.values)})
        return keyhole.audit(self.sql, data=data, private=f"x:0..{MOST}", id="n", **more), data


def judged(seeds: range, folder: Path, *, replayed: int) -> Counter[str]:
    """Every claim is true of all tables, nobody is missed where it is complete, and every proof is replayed."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        world = Mixed.made(random.Random(seed))
        width = seed % 3
        verdict, data = world.audited(**({"within": str(width)} if width else {}))
        case = (seed, world, [(f.who, str(f.status), f.lo, f.hi) for f in (*verdict.findings, *verdict.ranges)])
        assert not verdict.contradictions, (case, verdict.contradictions)
        for f in (*verdict.findings, *verdict.ranges):
            left = world.left[f.row]
            assert f.lo is None or f.lo <= min(left), case
            assert f.hi is None or max(left) <= f.hi, case
            assert f.status is not Status.EXPOSED or left == {f.value}, case
            assert not f.tight or f.status is not Status.OPEN or (f.lo, f.hi) == (min(left), max(left)), case
            seen[str(f.status)] += 1
        if verdict.complete:
            seen["complete"] += 1
            listed = {f.row for f in verdict.findings}
            assert all(max(s) - min(s) > width for r, s in enumerate(world.left) if r not in listed), case
        if seed % 5 < replayed:
            path = folder / "t.csv"
            pyarrow.csv.write_csv(data, path)
            found = replay(verdict.dumps(), path, bits=16).checked
            assert all(c.outcome is Outcome.HOLDS or c.why == "it takes more than 1000 tables" for c in found), (
                case,
                [(c.claim.who, c.outcome, c.why) for c in found],
            )
            kinds = Counter(f"replayed {c.claim.certificate['kind']}" for c in found)
            seen += kinds + Counter("replayed known" for c in found if c.claim.certificate.get("known"))
    return seen


def test_mixed_logs_on_small_worlds(tmp_path: Path) -> None:
    seen = judged(range(effort(120)), tmp_path, replayed=1)
    assert min(
        seen[s] for s in ("exposed", "inferred", "open", "complete", "replayed range", "replayed order")
    ) > effort(5), seen


@pytest.mark.soak
def test_many_mixed_logs(tmp_path: Path) -> None:
    seen = judged(range(1000, 2500), tmp_path, replayed=2)
    assert min(seen[s] for s in ("complete", "replayed known")) > 50, seen
