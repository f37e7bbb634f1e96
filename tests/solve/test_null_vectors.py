"""Integer null vectors with room: what moves has a second table, by enumeration; every vector is one."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from tests.support.effort import effort

from keyhole.solve.rowspace import RowMatrix
from keyhole.solve.rowspace.null_vectors import moving_columns


@pytest.mark.parametrize("seed", range(effort(200)))
def test_what_moves_has_a_second_table(seed: int) -> None:
    rng = random.Random(seed)
    K, m, top = rng.randint(1, 6), rng.randint(1, 5), rng.randint(1, 3)
    A = np.array([[rng.choice((0, 0, 1, 1, 2, -1)) for _ in range(K)] for _ in range(m)], dtype=np.int64)
    table = np.array([rng.randint(0, top) for _ in range(K)], dtype=np.int64)
    wanted = np.array([rng.random() < 0.8 for _ in range(K)])
    every = np.arange(K)
    steps = np.ones(K, dtype=np.int64)
    found = moving_columns(RowMatrix.from_dense(A), every, steps, table, top - table, wanted)
    others = [x for x in product(range(top + 1), repeat=K) if (A @ np.array(x) == A @ table).all()]
    for k in range(K):
        assert not found.up[k] or max(x[k] for x in others) >= table[k] + found.up[k]
        assert not found.down[k] or min(x[k] for x in others) <= table[k] - found.down[k]


def test_columns_of_other_steps() -> None:
    A = RowMatrix.from_dense([[1, 1]])
    room = np.array([4, 4])
    found = moving_columns(A, np.array([0, 1]), np.array([2, 3]), room, room, np.ones(2, dtype=bool))
    assert found.up.tolist() == [3, 2]  # 3 steps of 2, or 2 steps of 3
    small = np.array([2, 2])
    found = moving_columns(A, np.array([0, 1]), np.array([2, 3]), small, small, np.ones(2, dtype=bool))
    assert found.up.tolist() == [0, 0]


def test_many_people_alone_move_with_a_large_group() -> None:
    rng = np.random.default_rng(4)
    groups = rng.integers(0, 5, (2, 400))
    rows = np.array([groups[a] == g for a in range(2) for g in range(5)] + [np.ones(400)], dtype=np.int64)
    down, up = np.full(400, 3), np.full(400, 3)
    down[:25], up[:25] = 500, 500
    found = moving_columns(RowMatrix.from_dense(rows), np.arange(400), np.ones(400, dtype=np.int64), down, up, down < 9)
    assert (found.up[25:] > 0).mean() > 0.99
