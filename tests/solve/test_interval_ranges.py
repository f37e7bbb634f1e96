"""Ranges against a slow twin: all vertices of small polytopes, in fractions. And liars, which must be caught."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations

import pytest

from keyhole.model.grid import Grid
from keyhole.solve.interval import Polytope, RangeProblem, ranges
from keyhole.solve.interval.polytope import End, room
from keyhole.solve.interval.propagate import Propagation
from keyhole.solve.interval.remainder import with_remainders
from keyhole.solve.interval.simplex import Simplex

REALS = Grid(None)
Plane = tuple[list[Fraction], Fraction]


def world(rng: random.Random, *, bounded: bool = True) -> tuple[Polytope, list[Fraction]]:
    """A polytope of one to four atoms around a table that is possible."""
    K = rng.randrange(1, 5)
    sizes = [rng.choice((1, 1, 1, 2, 3)) for _ in range(K)]
    truth, records = [], []
    for size in sizes:
        one = Fraction(rng.randrange(0, 11), rng.choice((1, 2)))
        low = one - rng.choice((0, 0, 1, 3)) if bounded or rng.random() < 0.7 else None
        high = one + rng.choice((0, 0, 1, 4)) if bounded or rng.random() < 0.7 else None
        truth.append(one * size)
        records.append((low, high))
    rows: list[tuple[dict[int, int], End, End]] = []
    for _ in range(rng.randrange(1, 5)):
        row = {k: rng.choice((1, 1, 1, 1, 2, -1)) for k in range(K) if rng.random() < 0.6}
        said = sum((a * truth[k] for k, a in row.items()), Fraction(0))
        less, more = rng.choice(((0, 0), (0, 0), (0, 0), (1, 2), (0, 1)))
        if row:
            rows.append((row, said - less, said + more if rng.random() < 0.9 else None))
    rows = rows or [({0: 1}, truth[0], truth[0])]
    return Polytope.of(rows, records, sizes), truth


def solve(planes: Sequence[Plane]) -> list[Fraction] | None:
    """The one point on as many planes as there are coordinates."""
    work = [[*row, right] for row, right in planes]
    n = len(work)
    for c in range(n):
        pivot = next((i for i in range(c, n) if work[i][c]), None)
        if pivot is None:
            return None
        work[c], work[pivot] = work[pivot], work[c]
        work[c] = [v / work[c][c] for v in work[c]]
        for i in range(n):
            if i != c and work[i][c]:
                work[i] = [a - work[i][c] * b for a, b in zip(work[i], work[c], strict=True)]
    return [row[-1] for row in work]


def vertices(P: Polytope) -> Iterator[list[Fraction]]:
    """All of them: every K planes among the ends of rows and bounds that meet in one possible point."""
    planes: list[Plane] = []
    for k in range(P.K):
        unit = [Fraction(int(j == k)) for j in range(P.K)]
        planes += [(unit, end) for end in P.total(k) if end is not None]
    for i, ends in enumerate(P.rows):
        row = dict(zip(*P.row(i), strict=True))
        dense = [Fraction(row.get(k, 0)) for k in range(P.K)]
        planes += [(dense, end) for end in dict.fromkeys(ends) if end is not None]
    for chosen in combinations(planes, P.K):
        point = solve(chosen)
        if point is not None and P.holds(point):
            yield point


@pytest.mark.parametrize("seed", range(80))
def test_ranges_are_those_of_all_vertices(seed: int) -> None:
    P, truth = world(random.Random(seed))
    rooms = [[room(P.records[k], P.sizes[k], v[k]) for v in vertices(P)] for k in range(P.K)]
    found = ranges(RangeProblem(P, [REALS] * P.K, truth=truth))
    assert not found.refuted
    touched = {k for _, columns in P.parts() for k in columns}
    for k in touched:
        lows, highs = zip(*rooms[k], strict=True)
        assert (found.of[k].lo, found.of[k].hi) == (min(lows), max(highs))
        assert found.of[k].tight
        assert (P.bound(found.of[k].weights["lo"], k, "lo"), P.bound(found.of[k].weights["hi"], k, "hi")) == (
            min(lows),
            max(highs),
        )


@pytest.mark.parametrize("seed", range(200, 260))
def test_propagation_and_remainders_are_outer_and_prove_themselves(seed: int) -> None:
    """Where no part is walked the ends are looser at most, and the truth is inside."""
    P, truth = world(random.Random(seed), bounded=False)
    question = RangeProblem(P, [REALS] * P.K, tables=[range(P.m)], truth=truth)
    outer, exact = ranges(question, small=0), ranges(question)
    assert not outer.refuted
    for k in range(P.K):
        low, high = room(P.records[k], P.sizes[k], truth[k])
        for found in (outer.of[k], exact.of[k]):
            assert found.lo is None or low is None or found.lo <= low
            assert found.hi is None or high is None or found.hi >= high
        assert outer.of[k].lo is None or (exact.of[k].lo is not None and exact.of[k].lo >= outer.of[k].lo)
        assert outer.of[k].hi is None or (exact.of[k].hi is not None and exact.of[k].hi <= outer.of[k].hi)


@pytest.mark.parametrize("seed", range(300, 350))
def test_what_is_impossible_is_refuted_by_weights_that_prove_it(seed: int) -> None:
    rng = random.Random(seed)
    P, _ = world(rng)
    rows = [(dict(zip(*P.row(i), strict=True)), *P.rows[i]) for i in range(P.m)]
    off = rng.choice((-9, 9, 1))
    more = (rows[-1][0], *(None if end is None else end + off for end in rows[-1][1:]))
    Q = Polytope.of([*rows, more], P.records, P.sizes)
    possible = any(True for _ in vertices(Q))
    found = ranges(RangeProblem(Q, [REALS] * Q.K))
    assert bool(found.refuted) == (not possible)
    for weights in found.refuted:
        low, high = Q.bound(weights, None, "lo"), Q.bound(weights, None, "hi")
        assert (low is not None and low > 0) or (high is not None and high < 0)


@pytest.mark.parametrize("seed", range(500, 540))
def test_whoever_is_shown_to_move_has_a_range(seed: int) -> None:
    P, truth = world(random.Random(seed), bounded=False)
    question = RangeProblem(P, [REALS] * P.K, truth=truth, equations=frozenset(range(0, P.m, 2)))
    exact, large = ranges(question), ranges(question, small=0)
    for k, found in enumerate(large.of):
        assert not found.moves or exact.of[k].wider(Fraction(0))
        assert not found.wider(Fraction(1)) or exact.of[k].wider(Fraction(1))


def test_inside_its_bounds_the_rank_decides() -> None:
    """Three people of one sum, all inside their bounds: all move. One of them alone in a row: he does not."""
    rows = [({0: 1, 1: 1, 2: 1}, Fraction(9), Fraction(9)), ({0: 1}, Fraction(2), Fraction(2))]
    P = Polytope.of(rows, [(Fraction(0), Fraction(10))] * 3)
    found = ranges(RangeProblem(P, [REALS] * 3, truth=[Fraction(2), Fraction(3), Fraction(4)]), small=0)
    assert [r.moves for r in found.of] == [False, True, True]
    edge = ranges(RangeProblem(P, [REALS] * 3, truth=[Fraction(2), Fraction(0), Fraction(7)]), small=0)
    assert [r.moves for r in edge.of] == [
        False,
        True,
        True,
    ]  # who sits at a bound moves inwards, and takes another along
    corner = ranges(RangeProblem(P, [REALS] * 3, truth=[Fraction(2), Fraction(3), Fraction(3)]), small=0)
    assert not any(r.moves for r in corner.of)  # no possible table: it is not believed
    whole = RangeProblem(P, [Grid(Fraction(1))] * 3, truth=[Fraction(2), Fraction(3), Fraction(4)])
    assert [r.moves for r in ranges(whole, small=0).of] == [False, True, True]  # totally unimodular: as reals do
    weighted = [({1: 5, 2: 7}, Fraction(43), Fraction(43)), ({0: 1}, Fraction(2), Fraction(2))]
    P = Polytope.of(weighted, [(Fraction(0), Fraction(10))] * 3)
    table = [Fraction(2), Fraction(3), Fraction(4)]
    assert [r.moves for r in ranges(RangeProblem(P, [REALS] * 3, truth=table), small=0).of] == [False, True, True]
    only = RangeProblem(P, [Grid(Fraction(1))] * 3, truth=table)
    assert not any(r.moves for r in ranges(only, small=0).of)  # small steps do not exist: 3 and 4 alone give 43


def hospital(first: Fraction | None = Fraction(3)) -> Polytope:
    """Atoms: x1, x2, x5 and the three women; x1 <= 5, all at least `first`."""
    ends = [Fraction(s) for s in ("32.1", "15.5", "11.4")]
    rows = [({0: 1, 1: 1, 2: 1, 3: 1}, ends[0], ends[0]), ({3: 1}, ends[1], ends[1]), ({0: 1, 2: 1}, ends[2], ends[2])]
    return Polytope.of(rows, [(first, Fraction(5)), (first, None), (first, None), (first, None)], [1, 1, 1, 3])


def test_known_answers_of_the_hospital() -> None:
    found = ranges(RangeProblem(hospital(), [REALS] * 4)).of
    assert [(float(r.lo or 0), float(r.hi or 0)) for r in found] == [(3, 5), (5.2, 5.2), (6.4, 8.4), (3, 9.5)]
    assert all(r.tight for r in found)
    found = ranges(RangeProblem(hospital(None), [REALS] * 4)).of
    assert [(r.lo, r.hi) for r in found] == [
        (None, 5),
        (Fraction("5.2"), Fraction("5.2")),
        (Fraction("6.4"), None),
        (None, None),
    ]
    assert all(r.tight for r in found)


# --- liars ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(400, 440))
def test_a_wrong_sign_never_proves_what_is_false(seed: int) -> None:
    """Any weights prove: with one sign turned, the bound is recomputed, and holds in every vertex."""
    P, _ = world(random.Random(seed))
    points = list(vertices(P))
    found = ranges(RangeProblem(P, [REALS] * P.K))
    for k, r in enumerate(found.of):
        for i in r.weights["hi"]:
            lie = {**r.weights["hi"], i: -r.weights["hi"][i]}
            end = P.bound(lie, k, "hi")
            assert end is None or all(end >= (room(P.records[k], P.sizes[k], point[k])[1] or 0) for point in points)


def test_weights_on_an_infinite_end_prove_nothing() -> None:
    P = Polytope.of([({0: 1, 1: 1}, Fraction(1), Fraction(9))], [(None, None), (Fraction(0), None)])
    assert P.bound({0: Fraction(1)}, 0, "hi") == 9
    assert P.bound({0: Fraction(1)}, 0, "lo") is None
    assert P.bound({0: Fraction(1, 2)}, 0, "hi") is None  # half of an unbounded unknown is left


def test_an_inner_table_is_not_sold_as_a_bound() -> None:
    """The truth is seen, but without walks the outer end stays what is proved."""
    P = Polytope.of(
        [
            ({0: 1, 1: 1}, Fraction(1), Fraction(1)),
            ({1: 1, 2: 1}, Fraction(1), Fraction(1)),
            ({0: 1, 2: 1}, Fraction(1), Fraction(1)),
        ],
        [(Fraction(0), Fraction(1))] * 3,
    )
    half = [Fraction(1, 2)] * 3
    found = ranges(RangeProblem(P, [REALS] * 3, truth=half), small=0)
    assert [(r.lo, r.hi, r.inner, r.tight) for r in found.of] == [(0, 1, (half[0], half[0]), False)] * 3
    assert [(r.lo, r.hi, r.tight) for r in ranges(RangeProblem(P, [REALS] * 3)).of] == [(half[0], half[0], True)] * 3
    whole = ranges(RangeProblem(P, [Grid(Fraction(1))] * 3))
    assert all(r.inner is None for r in whole.of)  # no table of whole numbers is possible, so none is shown


def test_a_table_on_the_edge_of_a_threshold_needs_one_inside() -> None:
    """x > 3 is answered yes: 3 itself is not possible, but everything above it is."""
    P = Polytope.of([({0: 1}, Fraction(3), None)], [(Fraction(0), Fraction(4))])
    assert ranges(RangeProblem(P, [REALS], {0: Fraction(0)})).of[0].inner == (3, 4)
    one = Polytope.of([({0: 1}, Fraction(4), None)], [(Fraction(0), Fraction(4))])
    assert ranges(RangeProblem(one, [REALS], {0: Fraction(0)})).of[0].inner is None
    assert ranges(RangeProblem(P, [Grid(Fraction(1))], {0: Fraction(0)})).of[0].inner == (4, 4)


def test_a_wrong_truth_is_not_seen() -> None:
    P = Polytope.of([({0: 1, 1: 1}, Fraction(5), Fraction(5))], [(Fraction(0), Fraction(9))] * 2)
    found = ranges(RangeProblem(P, [REALS] * 2, truth=[Fraction(9), Fraction(9)]), small=0)
    assert all(r.inner is None for r in found.of)


def test_entries_beyond_64_bits() -> None:
    big = 10**30
    P = Polytope.of([({0: big, 1: 1}, Fraction(big), Fraction(big))], [(Fraction(0), None), (Fraction(0), Fraction(1))])
    found = ranges(RangeProblem(P, [REALS] * 2)).of
    assert (found[0].lo, found[0].hi) == (1 - Fraction(1, big), 1)


def test_remainders_find_what_propagation_misses() -> None:
    """A margin of ten people less the cells shown: two are left, and one of them is known to be small."""
    cells = [dict.fromkeys((0, 1, 2, 3), 1), dict.fromkeys((4, 5, 6, 7), 1)]
    said = [Fraction(20), Fraction(20)]
    margin = dict.fromkeys(range(10), 1)
    rows = [(margin, Fraction(58), Fraction(58)), *((c, s, s) for c, s in zip(cells, said, strict=True))]
    P = Polytope.of(rows, [(Fraction(0), Fraction(10))] * 10)
    assert (8, "lo") not in Propagation(P).moved
    plus = with_remainders(P, [[1, 2]])
    assert (8, "lo") in Propagation(plus.polytope).moved
    weights = plus.given(Propagation(plus.polytope).weights(8, "lo"))
    assert weights == {0: 1, 1: -1, 2: -1}
    assert P.bound(weights, 8, "lo") == 8
    assert ranges(RangeProblem(P, [REALS] * 10, tables=[[1, 2]]), small=0).of[8].lo == 8


def test_the_walk_keeps_its_dictionary_exact_beyond_64_bits() -> None:
    """A dense random 0/1 system of 14 rows: minors grow, and every end is still proved by its weights."""
    rng = random.Random(7)
    K, m = 24, 14
    truth = [Fraction(rng.randrange(1, 9)) for _ in range(K)]
    rows = []
    for _ in range(m):
        row = {k: rng.choice((1, 1, 3, 7)) for k in range(K) if rng.random() < 0.5}
        said = sum((a * truth[k] for k, a in row.items()), Fraction(0))
        rows.append((row, said, said))
    P = Polytope.of(rows, [(Fraction(0), Fraction(10))] * K)
    walk = Simplex(P)
    assert walk.infeasible() is None
    for k in range(K):
        assert walk.reach(k, "hi")
        assert P.bound(walk.weights(k), k, "hi") == walk.value(k) >= truth[k]
        assert P.holds([walk.value(j) for j in range(K)])


def test_a_limit_keeps_what_is_proved() -> None:
    found = ranges(RangeProblem(hospital(), [REALS] * 4), seconds=-1.0)
    assert found.stopped == "the time limit was reached"
    assert [r.hi for r in found.of][2] == Fraction("8.4")


def test_the_walk_to_the_ends_says_how_far_it_is() -> None:
    half = [({k: 1, k + 1: 1}, Fraction(3), Fraction(9)) for k in range(5)]
    said: list[tuple[str, int, int]] = []
    P = Polytope.of(half, [(Fraction(0), Fraction(8))] * 6)
    ranges(RangeProblem(P, [Grid(None)] * 6), progress=lambda *told: said.append(told))
    walked = [(done, of) for what, done, of in said if what == "ends of ranges"]
    assert walked == sorted(walked)
    assert {of for _, of in walked} == {12}
    assert all(0 <= done < 12 for done, _ in walked)
    assert len(set(walked)) > 1
