"""Sums over one person's records that the audit names, against ranks in fractions."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from fractions import Fraction

import pyarrow as pa
import pytest
from tests.laws.brute import rank

from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import examine

WHERE: dict[str, Callable[[int, int], bool]] = {
    "TRUE": lambda p, y: True,
    "y = 1": lambda p, y: y == 1,
    "p <> 1": lambda p, y: p != 1,
    "p <= 2": lambda p, y: p <= 2,
    "p <> 2 AND y = 2": lambda p, y: p != 2 and y == 2,
    "p = 1 OR y = 1": lambda p, y: p == 1 or y == 1,
    "p IN (2, 3)": lambda p, y: p in (2, 3),
}


def audited(p: list[int], y: list[int], cost: list[int], wheres: list[str]) -> Exposure:
    log = [f"SELECT SUM(cost) FROM t WHERE {where}" for where in wheres]
    return examine(log, data=pa.table({"p": p, "y": y, "cost": cost}), private="cost:real", id="p", table="t")


def test_a_person_whose_records_no_statement_tells_apart_is_found_beside_one_whose_records_are() -> None:
    found = audited([1, 1, 2, 2, 3, 4], [1, 2, 1, 1, 2, 2], [1, 2, 4, 8, 16, 32], ["p <> 1", "TRUE", "p = 1 OR y = 1"])
    assert {(f.record["p"], f.form, f.value) for f in found.findings} == {
        (1, "total cost of 2 records", 3),
        (2, "total cost of 2 records", 12),
    }


def compared(seed: int) -> int:
    """Everybody of whom some sum is determined is named, and nobody else; how many were."""
    draw = random.Random(seed)
    p = [i for i, k in enumerate([2, *(draw.choice((1, 2, 3)) for _ in range(3))], 1) for _ in range(k)]
    y = [draw.randrange(1, 3) for _ in p]
    cost, wheres = [draw.randrange(1, 1000) for _ in p], draw.sample(list(WHERE), 4)
    rows = [[Fraction(WHERE[where](a, b)) for a, b in zip(p, y, strict=True)] for where in wheres]
    found = audited(p, y, cost, wheres)
    exposed = set()
    for i in set(p):
        others = [r for r, who in enumerate(p) if who != i]
        if rank(rows) > rank([[row[r] for r in others] for row in rows]):
            exposed.add(i)
    assert {f.record["p"] for f in found.findings} == exposed, (seed, wheres)
    assert found.complete
    return len(exposed)


def test_everybody_of_whom_a_sum_is_determined_is_named() -> None:
    assert sum(map(compared, range(8)))


@pytest.mark.soak
def test_soak() -> None:
    first = random.SystemRandom().randrange(10**9)
    for seed in range(first, first + 300):
        sys.stdout.write(f"seed {seed}\n")
        compared(seed)
