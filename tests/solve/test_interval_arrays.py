"""What is done with whole arrays, against the definitions in fractions, row by row and column by column."""

from __future__ import annotations

import random
from fractions import Fraction
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np
import pytest

from keyhole.solve.interval import Polytope
from keyhole.solve.interval.interior import _restricted
from keyhole.solve.interval.polytope import End, inside
from keyhole.solve.interval.projection import Band, weighted_gram
from keyhole.solve.interval.projection_kernels import Sparse, connected
from keyhole.solve.interval.propagate import Propagation

SEEDS = range(60)
POLYTOPE = import_module("keyhole.solve.interval.polytope")
PROJECTION = import_module("keyhole.solve.interval.projection")
GRAM = import_module("keyhole.solve.interval.projection")


def world(seed: int) -> tuple[Polytope, list[Fraction]]:
    """Rows of ones mostly, ends that many columns share, some of them missing or huge; and a table near them."""
    rng = random.Random(seed)
    large = rng.choice((1, 1, 1, 2**70))
    K, plain = rng.randrange(1, 12), rng.random() < 0.8
    shared: list[tuple[End, End]] = [
        (Fraction(rng.randrange(-4, 1) * large, 3), Fraction(rng.randrange(0, 9) * large, 2)),
        (Fraction(0), None if rng.random() < 0.3 else Fraction(large)),
        (Fraction(2), Fraction(2)),
    ]
    records = [rng.choice(shared) for _ in range(K)]
    sizes = [rng.choice((1, 1, 2, 5)) for _ in range(K)]
    table = [Fraction(rng.randrange(-3, 20) * rng.choice((1, large)), rng.choice((1, 2, 6))) for _ in range(K)]
    rows: list[tuple[dict[int, int], End, End]] = []
    for _ in range(rng.randrange(0, 7)):
        row = {k: 1 if plain else rng.choice((1, 2, -3)) for k in rng.sample(range(K), rng.randrange(0, K + 1))}
        middle = sum(a * sizes[k] * (records[k][0] or Fraction(0)) for k, a in row.items()) + rng.randrange(0, 9)
        rows.append((row, middle - rng.randrange(0, 3), None if rng.random() < 0.2 else Fraction(middle)))
    return Polytope.of(rows, records, sizes), table


def check_tables(seed: int) -> None:
    P, table = world(seed)
    ends, kind = P.totals
    assert [ends[kind[k]] for k in range(P.K)] == [P.total(k) for k in range(P.K)]
    assert P.products(table) == [P.said(i, table) for i in range(P.m)]
    outside = {k for k, x in enumerate(table) if not inside(x, P.total(k))}
    assert P.broken(table) == ({i for i in range(P.m) if not inside(P.said(i, table), P.rows[i])}, outside)
    room = [P.total(k) for k in range(P.K)]
    strictly = [(lo is None or table[k] > lo) and (hi is None or table[k] < hi) for k, (lo, hi) in enumerate(room)]
    assert P.between(table).tolist() == strictly


def check_parts(seed: int) -> None:
    P, _ = world(seed)
    least = list(range(P.K))
    for _ in range(P.K):
        for i in range(P.m):
            columns = P.row(i)[0]
            for k in columns:
                least[k] = min(least[j] for j in columns)
    assert connected(P.start, P.columns, P.K).tolist() == least
    listed = P.parts()
    with mock.patch.object(POLYTOPE, "MANY", 0):
        compiled = Polytope(P.start, P.columns, P.entries, P.rows, P.records, P.sizes).parts()
    assert listed == compiled
    assert sorted(i for rows, _ in listed for i in rows) == [i for i in range(P.m) if P.row(i)[0]]
    assert all(len({least[k] for k in columns}) == 1 for _, columns in listed)
    assert len({least[columns[0]] for _, columns in listed}) == len(listed)


def check_propagation(seed: int) -> None:
    """Rows that are passed over because they leave much room move nothing: the whole trail is the same."""
    P, _ = world(seed)
    fast = Propagation(P)
    with mock.patch.object(Propagation, "_tight", lambda _, rows: rows):
        slow = Propagation(P)
    assert fast._trail == slow._trail
    assert fast.clash == slow.clash
    for one, two in (
        (fast._lo, slow._lo),
        (fast._hi, slow._hi),
        (fast._no_lo, slow._no_lo),
        (fast._no_hi, slow._no_hi),
    ):
        assert one.tolist() == two.tolist()


def check_matrices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, K = int(rng.integers(1, 9)), int(rng.integers(1, 150))
    plain = bool(seed % 3)
    A = (rng.random((m, K)) < 0.4) * (1.0 if plain else rng.integers(1, 4, (m, K)))
    weight = rng.choice([0.0, 1.0, 1.0, 2.5, 0.1], K)
    for cheap in (10**9, 1e-9):  # all weights as bits, and none
        with mock.patch.object(GRAM, "WORDS_AN_ADDITION", cheap):
            assert np.allclose(weighted_gram(_sparse(A, plain), _sparse(A.T, plain), weight), A * weight @ A.T)
    band = Band(_sparse(A, plain), rng.random(m), rng.random(m) + 1, K)
    rows = rng.permutation(m)[: int(rng.integers(0, m + 1))]
    for long in (0, 10**9):
        with mock.patch.object(PROJECTION, "LONG_ROWS", long):
            some = band.chosen(rows)
        assert (some.lo.tolist(), some.hi.tolist()) == (band.lo[rows].tolist(), band.hi[rows].tolist())
        assert np.allclose(some.sums(weight), A[rows] @ weight)


def check_restricted(seed: int) -> None:
    P, _ = world(seed)
    rng = random.Random(seed)
    rows, columns = rng.sample(range(P.m), rng.randrange(P.m + 1)), rng.sample(range(P.K), rng.randrange(1, P.K + 1))
    dense = [[dict(zip(*P.row(i), strict=True)).get(k, 0) for k in columns] for i in rows]
    made = _restricted(P, rows, columns)
    assert sorted([int(v) for v in made.row(i)] for i in range(made.m)) == sorted(dense)


def _sparse(A: np.ndarray[Any, Any], plain: bool) -> Sparse:
    row, column = np.nonzero(A)
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(A)))]).astype(np.int64)
    return start, column, np.zeros(0) if plain else A[row, column].astype(np.float64)


CHECKS = (check_tables, check_parts, check_propagation, check_matrices, check_restricted)


@pytest.mark.parametrize("check", CHECKS)
def test_arrays_do_what_the_definitions_say(check: Any) -> None:
    for seed in SEEDS:
        check(seed)


@pytest.mark.soak
@pytest.mark.parametrize("check", CHECKS)
def test_arrays_do_what_the_definitions_say_on_fresh_seeds(check: Any) -> None:
    for _ in range(500):
        seed = random.SystemRandom().randrange(10**9)
        try:
            check(seed)
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed}") from wrong
