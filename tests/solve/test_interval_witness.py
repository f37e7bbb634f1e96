"""Ends called reached in floating point, against the exact simplex; and liars, which must be caught."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from keyhole.model.grid import Grid
from keyhole.solve.interval import Polytope, RangeProblem, Ranges, ValueRange, ranges
from keyhole.solve.interval.polytope import End
from keyhole.solve.interval.projection import Band, Projection, independent, inverted
from keyhole.solve.interval.projection_kernels import Floats
from keyhole.solve.interval.witness import Witnesses

REALS = Grid(None)
ONE = Fraction(1)
CYCLE = Polytope.of([({k: 1, (k + 1) % 3: 1}, ONE, ONE) for k in range(3)], [(Fraction(0), ONE)] * 3)


def world(seed: int) -> RangeProblem:
    """Tables of disjoint sums with small cells hidden or shown as ranges, and a few other sums."""
    rng = random.Random(seed)
    K = rng.randrange(20, 45)
    sizes = [rng.choice((1, 1, 1, 2, 5)) for _ in range(K)]
    records = [(Fraction(rng.choice((0, 1))), Fraction(rng.choice((9, 10, 99)))) for _ in range(K)]
    truth = [
        size * Fraction(rng.randrange(int(lo), int(hi) + 1)) for size, (lo, hi) in zip(sizes, records, strict=True)
    ]
    rows: list[tuple[dict[int, int], End, End]] = []
    tables: list[list[int]] = []
    for parts in (1, 3, 5, 8):
        cells = [[k for k in range(K) if k * parts // K == p] for p in range(parts)]
        if parts > 3:
            of = [rng.randrange(parts) for _ in range(K)]
            cells = [[k for k in range(K) if of[k] == p] for p in range(parts)]
        tables.append([])
        for cell in cells:
            said = sum((truth[k] for k in cell), Fraction(0))
            if len(cell) > 2:
                tables[-1].append(len(rows))
                blur = rng.choice((0, 0, 0, 3))
                rows.append((dict.fromkeys(cell, 1), said - blur, said + blur if rng.random() < 0.9 else None))
    row = {k: rng.choice((1, 2, -1)) for k in range(K) if rng.random() < 0.3} or {0: 1}
    said = sum((a * truth[k] for k, a in row.items()), Fraction(0))
    rows.append((row, said, said))
    return RangeProblem(Polytope.of(rows, records, sizes), [REALS] * K, tables=tables, truth=truth)


def false_ends(found: Ranges, exact: Ranges) -> list[tuple[int, int]]:
    """Ends that are called reached in floating point and are further than 1e-6 of the width from the exact ones."""
    wrong = []
    for k, (r, e) in enumerate(zip(found.of, exact.of, strict=True)):
        for side, (outer, end) in enumerate(((r.lo, e.lo), (r.hi, e.hi))):
            if r.near[side]:
                assert None not in (outer, end, r.lo, r.hi)
                assert outer <= end if side == 0 else outer >= end
                if abs(outer - end) > Fraction(1, 10**6) * (r.hi - r.lo):
                    wrong.append((k, side))
    return wrong


def test_ends_called_reached_are_those_of_the_exact_simplex() -> None:
    near = missed = beyond = 0
    for seed in range(12):
        question = world(seed)
        if seed % 3 == 0:
            question = replace(question, truth=None)
        found, exact = ranges(question, small=0), ranges(question, small=10**9)
        assert not false_ends(found, exact)
        for r, e in zip(found.of, exact.of, strict=True):
            for side in (0, 1):
                same = (r.lo, r.hi)[side] == (e.lo, e.hi)[side]
                near += r.near[side]
                missed += same and not r.reached(side)
                beyond += not same
    assert near > 300, near
    assert missed < 0.02 * near, (near, missed)
    assert beyond, "no end was truly tighter: the twin has nothing to refute"


def test_a_projection_that_skips_the_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    question = RangeProblem(CYCLE, [REALS] * 3)
    exact = ranges(question, small=10**9)
    honest = ranges(question, small=0)
    assert not any(any(r.near) for r in honest.of)

    def wish(self: Projection, z: Floats, low: Floats, high: Floats) -> tuple[Floats, int]:
        return np.clip(z, low, high), 1

    monkeypatch.setattr(Projection, "nearest", wish)
    assert not any(any(r.near) for r in ranges(question, small=0).of)  # the rows given are looked at once more
    monkeypatch.setattr(Band, "holds", lambda self, x: True)
    assert false_ends(ranges(question, small=0), exact)


def test_a_near_end_makes_a_range_tight_and_nothing_else() -> None:
    found = ValueRange(Fraction(0), ONE, near=(True, True))
    assert found.tight
    assert not found.wider(Fraction(0))
    question = world(1)
    whole = replace(question, grids=[Grid(ONE)] * question.polytope.K)
    assert any(any(r.near) for r in ranges(question, small=0).of)
    assert not any(any(r.near) for r in ranges(whole, small=0).of)  # no table of whole numbers was sought


def test_rows_that_must_not_be_met_with_equality_need_a_table_inside() -> None:
    rows = [({0: 1, 1: 1}, Fraction(1), Fraction(3))]
    P = Polytope.of(rows, [(Fraction(0), Fraction(2))] * 2)
    for truth, reached in (([ONE, ONE], True), ([Fraction(2), ONE], False)):
        question = RangeProblem(P, [REALS] * 2, {0: Fraction(0)}, truth=truth)
        assert any(any(r.near) for r in ranges(question, small=0).of) == reached


def test_no_time_leaves_ends_outer() -> None:
    found = ranges(world(2), seconds=0.0, small=0)
    assert not found.refuted
    assert not any(any(r.near) for r in found.of)


def test_what_was_reached_before_an_interrupt_stays() -> None:
    told = 0

    def stop(what: str, done: int, of: int) -> None:
        nonlocal told
        told += 1
        if told == 2:
            raise KeyboardInterrupt

    found = ranges(world(3), small=0, progress=stop)
    assert found.stopped == "it was interrupted"
    assert any(any(r.near) for r in found.of)


def test_progress_counts_up_to_all_ends() -> None:
    told: list[tuple[str, int, int]] = []
    ranges(world(3), small=0, progress=lambda what, done, of: told.append((what, done, of)))
    assert told
    assert all(what == "ends reached" and 0 <= done <= of for what, done, of in told)


@pytest.mark.parametrize(("n", "rank"), [(0, 0), (5, 3), (150, 70), (150, 150), (700, 520)])
def test_independent_rows_are_as_many_as_the_rank(n: int, rank: int) -> None:
    factor = np.random.default_rng(n + rank).normal(size=(n, rank))
    matrix = factor @ factor.T
    chosen, low = independent(np.tril(matrix), np.full(n, 1e-8))  # what is above the diagonal is not looked at
    assert len(chosen) == len(set(chosen.tolist())) == rank
    assert np.linalg.matrix_rank(factor[chosen]) == rank
    assert np.allclose(low, np.tril(low))
    assert np.allclose(low @ low.T, matrix[np.ix_(chosen, chosen)])


def test_a_row_is_chosen_only_if_more_than_its_floor_is_left() -> None:
    matrix = np.array([[4.0, 4.0, 0.0], [4.0, 4.5, 0.0], [0.0, 0.0, 1.0]])
    for floor, rows in (([0.1, 0.1, 0.1], [1, 2, 0]), ([0.1, 0.1, 2.0], [1, 0]), ([0.6, 0.6, 0.1], [1, 2])):
        assert independent(matrix.copy(), np.array(floor))[0].tolist() == rows


@pytest.mark.parametrize("n", [0, 1, 63, 300, 700])
def test_the_inverse_by_halves_is_the_inverse(n: int) -> None:
    rng = np.random.default_rng(n)
    low = np.tril(rng.normal(size=(n, n)) / max(n, 1)) + np.eye(n)
    scale = rng.uniform(0.5, 2.0, n)
    wanted = np.linalg.inv(low @ low.T) * np.outer(scale, scale)
    found = inverted(low.copy(), scale)
    assert found.dtype == np.float32
    assert np.allclose(found, found.T, rtol=1e-4, atol=1e-6)
    assert np.allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_no_time_for_the_factorisation_leaves_ends_outer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    def late(self: Witnesses) -> bool:
        asked.append("late")
        return True

    monkeypatch.setattr(Witnesses, "_late", property(late))
    monkeypatch.setattr(Projection, "nearest", lambda *_: pytest.fail("nothing is projected when it is late"))
    assert not any(any(r.near) for r in ranges(world(2), small=0).of)
    assert asked == ["late"]
