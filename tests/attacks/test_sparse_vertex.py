"""Basis pursuit gives a vertex: at most rank(A) records differ from the common value, and no table is nearer to it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from keyhole.attacks.base import Target
from keyhole.attacks.choose import run_attack
from keyhole.attacks.methods.kaczmarz import RandomizedKaczmarz
from keyhole.attacks.methods.sparse import BasisPursuit
from keyhole.attacks.problem.arrays import from_arrays


@pytest.mark.parametrize("seed", range(12))
def test_few_records_differ_and_the_sum_is_least(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(2, 8)), int(rng.integers(10, 40))
    A = rng.integers(0, 2, (m, n))
    x = rng.integers(0, 4, n).astype(float)
    evidence = from_arrays(A, A @ x)
    attack = BasisPursuit(Target.of(evidence))
    attack.observe(evidence)
    found = attack.estimate().values
    least = linprog(np.ones(2 * n), A_eq=np.hstack([A, -A]), b_eq=A @ x).fun
    assert np.allclose(A @ found, A @ x, atol=1e-6)
    assert np.abs(found).sum() <= least + 1e-6 * (1 + least)
    # records that no question tells apart share one guess: groups, not records, are counted
    groups = {tuple(column): value for column, value in zip(A.T.tolist(), found, strict=True)}
    assert sum(abs(v) > 1e-7 for v in groups.values()) <= np.linalg.matrix_rank(A)


def test_rows_by_squared_norm_reach_the_least_norm() -> None:
    """Weighted questions, one of them three times as long: drawn as often as its length says."""
    rng = np.random.default_rng(0)
    A = rng.integers(0, 3, (6, 12))
    A[0] *= 3
    y = A @ rng.integers(1, 9, 12)
    evidence = from_arrays(A, y.astype(float))
    choice, found = run_attack("randomized-kaczmarz", Target.of(evidence), evidence)
    assert choice.method == RandomizedKaczmarz.name
    assert np.allclose(found.values, np.linalg.pinv(A) @ y, atol=1e-4)
