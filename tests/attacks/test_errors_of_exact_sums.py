"""Errors of guesses on exact sums of grid columns, against looking at every table."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import numpy as np
import pytest

from keyhole.attacks.base import Measure, Target
from keyhole.attacks.choose import run_attack
from keyhole.attacks.problem.arrays import from_arrays
from keyhole.model.prior import Prior

BIT = Prior(Decimal(0), Decimal(1), Decimal(1))
FOUR = Prior(Decimal(0), Decimal(3), Decimal(1))
FINE = Prior(Decimal(0), Decimal(40), Decimal(1))


def test_two_bits_with_the_sum_one() -> None:
    e = from_arrays(np.array([[1, 1, 0, 0], [0, 0, 1, 1]]), [1, 2], prior=BIT)
    for method in ("bounded", "l1", "lbfgs", "kaczmarz", "sparse"):
        _, found = run_attack(method, Target.of(e), e)
        assert found.confidence.tolist() == pytest.approx([0.5, 0.5, 0, 0]), method


def stated_is_that_of_the_posterior(seed: int) -> None:
    """sqrt E[(guess - x)^2] over every table that meets the answers, for any method's guess."""
    rng = np.random.default_rng(seed)
    prior, n, m = (BIT, 9, 4) if seed % 3 else (FOUR, 6, 3)
    levels = 2 if prior is BIT else 4
    A = (rng.random((m, n)) < 0.4).astype(int)
    x = rng.integers(0, levels, n)
    tables = np.array(list(product(range(levels), repeat=n)))
    met = tables[(tables @ A.T == A @ x).all(axis=1)]
    e = from_arrays(A, (A @ x).tolist(), prior=prior)
    for method in ("bounded", "kaczmarz"):
        _, found = run_attack(method, Target.of(e), e)
        assert found.measure is Measure.STANDARD_ERROR
        true = np.sqrt(((met - found.values) ** 2).mean(axis=0))
        touched = A.any(axis=0)
        assert found.confidence[touched] == pytest.approx(true[touched], abs=2e-3), (seed, method)


@pytest.mark.parametrize("seed", range(6))
def test_stated_errors_are_those_of_the_posterior(seed: int) -> None:
    stated_is_that_of_the_posterior(seed)


@pytest.mark.soak
def test_stated_errors_are_those_of_the_posterior_on_fresh_logs() -> None:
    for seed in np.random.SeedSequence().generate_state(60):
        stated_is_that_of_the_posterior(int(seed))


def test_a_finer_grid_in_small_groups() -> None:
    e = from_arrays(np.array([[1, 1, 0], [0, 0, 1]]), [40, 7], prior=FINE)
    _, found = run_attack("bounded", Target.of(e), e)
    assert found.confidence[:2] == pytest.approx(np.arange(41).std())  # even on 0..40
    assert found.confidence[2] == 0


def test_a_stream_that_has_not_arrived_is_not_certain() -> None:
    e = from_arrays(np.array([[1, 1]]), [2], prior=BIT)  # both are 1, which a sigmoid reaches never
    _, found = run_attack("sgd", Target.of(e), e)
    assert found.confidence == pytest.approx(1 - found.values, rel=1e-6)
    assert (found.confidence > 0).all()
