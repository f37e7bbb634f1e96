"""Total unimodularity against all determinants, and what is said of grids because of it against all tables."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from keyhole.model.grid import Grid
from keyhole.solve.interval import Polytope, RangeProblem, ranges
from keyhole.solve.interval.polytope import End
from keyhole.solve.interval.ranges import unimodular

WHOLE = Grid(Fraction(1))


def all_determinants(rows: list[list[int]], K: int) -> bool:
    """The definition: every square part has determinant -1, 0 or 1."""
    A = np.array([[int(k in row) for k in range(K)] for row in rows], dtype=np.float64)
    for size in range(2, min(len(rows), K) + 1):
        for some in combinations(range(len(rows)), size):
            for columns in combinations(range(K), size):
                if abs(np.linalg.det(A[np.ix_(some, columns)])) > 1.5:
                    return False
    return True


def drawn(rng: random.Random) -> tuple[list[list[int]], int]:
    """Ranges of one column, two GROUP BYs with a hierarchy, or any sets."""
    K = rng.randrange(3, 7)
    kind = rng.randrange(3)
    if kind == 0:
        ends = [sorted(rng.sample(range(K + 1), 2)) for _ in range(rng.randrange(2, 5))]
        shuffled = rng.sample(range(K), K)
        return [[shuffled[k] for k in range(a, b)] for a, b in ends], K
    if kind == 1:
        of = [rng.randrange(3) for _ in range(K)], [rng.randrange(2) for _ in range(K)]
        cells = [[k for k in range(K) if each[k] == p] for each in of for p in range(3)]
        return [cell for cell in cells if cell] + [list(range(K))], K
    return [rng.sample(range(K), rng.randrange(1, K)) for _ in range(rng.randrange(2, 5))], K


def test_what_is_called_unimodular_is() -> None:
    called = missed = 0
    for seed in range(150):
        rows, K = drawn(random.Random(seed))
        truth = all_determinants(rows, K)
        found = unimodular(rows, K)
        assert truth or not found, (seed, rows)
        called += found
        missed += truth and not found
    assert called > 60, called
    assert missed < called / 2, (called, missed)


def agrees(seed: int) -> tuple[int, int]:
    """Ranges of a part that is never walked, against all its tables; how many moved, how many ends were reached."""
    rng = random.Random(seed)
    rows, K = drawn(rng)
    records = [(Fraction(0), Fraction(rng.choice((1, 2, 3)))) for _ in range(K)]
    truth = [Fraction(rng.randrange(int(hi) + 1)) for _, hi in records]
    said: list[tuple[dict[int, int], End, End]] = []
    for row in rows:
        b = sum((truth[k] for k in row), Fraction(0))
        said.append((dict.fromkeys(row, 1), b - rng.choice((0, 0, 1)), b))
    P = Polytope.of(said, records)
    found = ranges(RangeProblem(P, [WHOLE] * K, truth=truth), small=0)
    boxes = [range(int(hi) + 1) for _, hi in records]
    tables = [t for t in product(*boxes) if P.holds([Fraction(v) for v in t])]
    moved = near = 0
    for k, r in enumerate(found.of):
        values = {t[k] for t in tables}
        assert r.lo is not None
        assert r.hi is not None
        assert r.lo <= min(values) <= max(values) <= r.hi
        if r.moves:
            moved += 1
            assert len(values) > 1, (seed, k)
        for side, end in enumerate((min(values), max(values))):
            if r.near[side]:
                near += 1
                assert (r.lo, r.hi)[side] == end, (seed, k)
    return moved, near


def test_grids_of_unimodular_parts_are_judged_as_reals_are() -> None:
    moved, near = map(sum, zip(*(agrees(seed) for seed in range(60)), strict=True))
    assert moved > 40, moved
    assert near > 40, near


def test_the_odd_cycle_is_not() -> None:
    rows = [({k: 1, (k + 1) % 3: 1}, Fraction(2), Fraction(2)) for k in range(3)]
    P = Polytope.of(rows, [(Fraction(0), Fraction(2))] * 3)
    found = ranges(RangeProblem(P, [WHOLE] * 3, truth=[Fraction(1)] * 3), small=0)
    assert not any(r.moves or any(r.near) for r in found.of)


@pytest.mark.soak
def test_grids_of_unimodular_parts_with_fresh_seeds() -> None:
    for _ in range(400):
        agrees(random.randrange(10**9))
