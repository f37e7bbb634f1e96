"""The posterior of discrete units: every way against looking at all tables."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from keyhole.solve.decode.posterior import Units, compute_marginals
from keyhole.solve.decode.posterior.chains import sample_tables
from keyhole.solve.decode.posterior.enumeration import enumerate_tables, list_tables
from keyhole.solve.decode.posterior.expectation_propagation import propagate_chances
from keyhole.solve.decode.posterior.losses import sum_losses
from keyhole.solve.decode.posterior.units import Floats

WORLDS = [  # units, answers, states, features, laws
    (8, 6, 2, 1, [1]),
    (8, 6, 2, 1, [2]),
    (6, 4, 3, 2, [0, 1, 2, 3, 4]),
    (9, 4, 2, 1, [0]),
    (8, 5, 2, 1, [0, 2]),
    (5, 6, 4, 3, [2, 4]),
]


def world(seed: int, n: int, m: int, states: int, F: int, laws: list[int]) -> Units:
    """Random rows, priors, states and answers; laws 3 and 4 are shown as ranges after their noise."""
    rng = np.random.default_rng(seed)
    A = rng.integers(0, 2, (m, n, F)).astype(float)
    phi = [rng.integers(0, 3, (states, F)).astype(float) if F > 1 else np.arange(states, dtype=float)[:, None]] * n
    prior = [np.log(rng.dirichlet(np.ones(states))) for _ in range(n)]
    truth = [rng.choice(states, p=np.exp(p)) for p in prior]
    v = sum(A[:, u] @ phi[u][truth[u]] for u in range(n))
    law, scale = rng.choice(laws, m).astype(np.int8), np.full(m, 1.5)
    y = v + np.where(law == 0, 0.0, np.where(law % 2 == 1, rng.laplace(0, 1.5, m), rng.normal(0, 1.5, m)))
    loose = rng.integers(0, 2, m)
    lo = np.select([law == 0, (law > 2) & (y >= 3)], [v - loose, np.round(y) - 0.5], -np.inf)
    hi = np.select([law == 0, (law > 2) & (y >= 3), law > 2], [v + loose, np.round(y) + 0.5, 3.0], np.inf)
    rows = [np.flatnonzero(A[:, u].any(axis=1)) for u in range(n)]
    start = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    entries = np.concatenate([A[r, u] for u, r in enumerate(rows)])
    ends = np.arange(n + 1) * states
    return Units(
        start, np.concatenate(rows), entries, ends, np.concatenate(phi), np.concatenate(prior), law, y, lo, hi, scale
    )


def brute(units: Units) -> Floats:
    """P(state) by looking at every table."""
    B, logs, tables = units.dense(), [], []
    for table in product(*(range(units.states[u], units.states[u + 1]) for u in range(units.count))):
        at = list(table)
        v = B @ units.features[at].ravel()
        logs.append(units.log_prior[at].sum() - sum_losses(units.law, v, units.y, units.lo, units.hi, units.scale))
        tables.append(at)
    weight = np.exp(np.array(logs) - max(logs))
    found = np.zeros(len(units.features))
    for w, at in zip(weight / weight.sum(), tables, strict=True):
        found[at] += w
    return found


@pytest.mark.parametrize("number", range(len(WORLDS)))
def test_every_way_agrees_with_every_table(number: int) -> None:
    units = world(number, *WORLDS[number])
    expected = brute(units)
    assert np.allclose(enumerate_tables(units).chances, expected, atol=1e-9)
    found = compute_marginals(units, rng=np.random.default_rng(0))
    assert np.allclose(found.chances, expected, atol=1e-9)
    sampled = sample_tables(units, rng=np.random.default_rng(1), sweeps=1500)
    assert sampled is not None
    assert np.abs(sampled.chances - expected).max() < 0.05
    if (units.law == 2).all():
        assert np.abs(propagate_chances(units) - expected).max() < 0.05
    if (units.law == 0).all():
        listed = list_tables(units, 5.0)
        assert listed is not None
        assert np.allclose(listed.chances, expected, atol=1e-9)


def test_a_swap_leaves_a_mode_that_single_steps_do_not() -> None:
    """Two records that almost every row holds together: flips are ruled out, the swap decides."""
    rng = np.random.default_rng(5)
    A = np.concatenate([np.tile([1.0, 1.0], (60, 1)), np.tile([1.0, 0.0], (3, 1))])
    y = A @ np.array([1, 0]) + rng.laplace(0, 0.3, 63)
    rows = [np.flatnonzero(A[:, 0]), np.flatnonzero(A[:, 1])]
    free = np.full(63, np.inf)
    units = Units(
        np.array([0, 63, 123]), np.concatenate(rows), np.ones((123, 1)), np.array([0, 2, 4]),
        np.array([[0.0], [1.0], [0.0], [1.0]]), np.log(np.full(4, 0.5)), np.ones(63, dtype=np.int8), y, -free, free,
        np.full(63, 0.3),
    )  # fmt: skip
    found = sample_tables(units, rng=np.random.default_rng(1), sweeps=600, near=np.array([1.0, 0.0, 0.0, 1.0]))
    assert found is not None
    assert np.abs(found.chances - brute(units)).max() < 0.02


def test_no_table_is_said() -> None:
    units = world(3, *WORLDS[3])
    wrong = Units(
        units.start, units.rows, units.coefficients, units.states, units.features, units.log_prior, units.law,
        units.y, units.lo + 100, units.hi + 100, units.scale,
    )  # fmt: skip
    assert compute_marginals(wrong, rng=np.random.default_rng(0)).impossible is not None


def test_stopped_it_keeps_the_prior_of_what_is_left() -> None:
    def stop(step: int, apart: float) -> None:
        raise KeyboardInterrupt

    apart = Units.of_columns([np.array([0]), np.array([1])], [np.zeros(2)] * 2, 2)
    found = compute_marginals(apart, rng=np.random.default_rng(0), watch=stop)
    assert found.stopped
    assert found.chances.tolist() == [1.0, 0.0, 0.5, 0.5]  # the first was computed
    whole = world(0, *WORLDS[0])
    found = compute_marginals(whole, rng=np.random.default_rng(0), watch=stop)
    assert not found.stopped  # one component: it was computed when it could have been stopped
    assert np.abs(found.chances - brute(whole)).max() < 1e-6
