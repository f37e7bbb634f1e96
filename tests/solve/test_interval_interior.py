"""Who can move, against the exact simplex: nobody who cannot, and those at a bound one by one."""

from __future__ import annotations

import random
from fractions import Fraction

from keyhole.model.grid import Grid
from keyhole.solve.interval import Polytope, RangeProblem, ranges
from keyhole.solve.interval.interior import movable
from keyhole.solve.interval.polytope import End

Row = tuple[dict[int, int], End, End]


def world(seed: int) -> tuple[Polytope, list[Fraction]]:
    """Sums over few columns, of which about half sit at a bound; some rows repeat or add up, some are inequalities."""
    rng = random.Random(seed)
    K = rng.randrange(4, 11)
    truth = [Fraction(rng.choice((0, 0, 1, 2, 3, 3))) for _ in range(K)]
    rows: list[Row] = []
    for _ in range(rng.randrange(3, 9)):
        row = {k: rng.choice((1, 1, 1, -1, 2)) for k in rng.sample(range(K), rng.randrange(1, min(K, 5)))}
        if rows and rng.random() < 0.3:
            other = rng.choice(rows)[0]
            row = {k: row.get(k, 0) + other.get(k, 0) for k in {*row, *other} if row.get(k, 0) + other.get(k, 0)}
        said = sum((a * truth[k] for k, a in row.items()), Fraction(0))
        rows.append((row, said, said if rng.random() < 0.8 else said + rng.randrange(2)))
    return Polytope.of([row for row in rows if row[0]], [(Fraction(0), Fraction(3))] * K), truth


def test_who_is_said_to_move_has_a_second_value() -> None:
    moved = inwards = held = 0
    for seed in range(150):
        P, truth = world(seed)
        found, finished = movable(P, truth, range(P.m), range(P.K), frozenset())
        assert finished
        exact = ranges(RangeProblem(P, [Grid(None)] * P.K), small=10**9)
        for k in range(P.K):
            wide = exact.of[k].lo != exact.of[k].hi
            assert wide or k not in found, (seed, k)
            moved += k in found
            inwards += k in found and truth[k] in (0, 3)
            held += not wide
    assert min(moved, inwards, held) > 100, (moved, inwards, held)


def test_one_column_at_a_bound_that_is_held_keeps_no_other_from_moving() -> None:
    three = Fraction(3)
    rows: list[Row] = [({k: 1, 6: 1}, three, three) for k in range(6)]  # of two: whoever is at a bound moves along
    rows += [({7: 1, 8: 1}, Fraction(0), Fraction(0))]  # nobody can
    P = Polytope.of(rows, [(Fraction(0), Fraction(5))] * 9)
    truth = [three] * 6 + [Fraction(0)] * 3
    assert movable(P, truth, range(P.m), range(P.K), frozenset()) == (set(range(7)), True)


def test_of_those_with_room_what_was_finished_stays_when_time_is_up() -> None:
    P = Polytope.of([({0: 1, 1: 1, 2: 1}, Fraction(3), Fraction(3))] * 2, [(Fraction(0), Fraction(3))] * 3)
    truth, asked = [Fraction(0), Fraction(1), Fraction(2)], 0

    def late() -> bool:
        nonlocal asked
        asked += 1
        return asked > limit

    found = set()
    for limit in range(6):
        asked = 0
        found.add((frozenset(movable(P, truth, [0, 1], [0, 1, 2], frozenset(), late)[0]), asked > limit))
    assert found >= {(frozenset[int](), True), (frozenset({1, 2}), True), (frozenset({0, 1, 2}), False)}
