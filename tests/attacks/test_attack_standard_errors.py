"""Standard errors: against repeated draws, and against the range that a linear program leaves."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.support.effort import effort

from keyhole.attacks.base import Target
from keyhole.attacks.batch import BatchAttack
from keyhole.attacks.estimates.standard_errors import bound_feasible_width, compute_standard_errors
from keyhole.attacks.methods.bounded import Bounded
from keyhole.attacks.methods.l1 import L1
from keyhole.attacks.methods.sparse import BasisPursuit
from keyhole.attacks.problem.arrays import from_arrays
from keyhole.attacks.problem.assembly import assemble
from keyhole.errors import DataError
from keyhole.model.prior import Prior
from keyhole.model.transcript import Noise

UNIT = Prior(Decimal(0), Decimal(1))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=effort(20), deadline=None)
def test_the_width_is_never_below_what_a_linear_program_leaves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, x = rng.integers(-1, 3, (3, 6)), rng.choice([0.0, 0.25, 1.0], 6)
    evidence = from_arrays(A, (A @ x).tolist(), prior=UNIT)
    problem = assemble(Target.of(evidence), evidence)
    width = bound_feasible_width(problem, problem.design())[problem.of]
    error = compute_standard_errors(problem, problem.design())[problem.of]
    for k in range(6):
        ends = [linprog(s * np.eye(6)[k], A_eq=A, b_eq=A @ x, bounds=(0, 1)).fun * s for s in (1, -1)]
        assert width[k] >= ends[1] - ends[0] - 1e-7
    assert (error <= width / 2 + 1e-9).all()


def test_bounds_that_pin_a_value_leave_no_error() -> None:
    evidence = from_arrays(np.array([[1, 1, 1, 0, 0], [0, 0, 0, 2, 1]]), [3, 2.9], prior=UNIT)
    problem = assemble(Target.of(evidence), evidence)
    error = compute_standard_errors(problem, problem.design())[problem.of]
    assert error[:3].tolist() == [0, 0, 0]
    assert 0 < error[3] <= 0.025 + 1e-6
    assert 0 < error[4] <= 0.05 + 1e-6


@pytest.mark.parametrize("repeats", [1, 3, 15])
@pytest.mark.parametrize("attack", [Bounded, L1])
def test_laplace_errors_are_as_large_as_stated(attack: type[BatchAttack], repeats: int) -> None:
    """Each of 40 records asked by itself: the root mean square error over them is what is stated, within a fifth."""
    rng, n = np.random.default_rng(repeats), 40
    A, ratios = np.tile(np.eye(n), (repeats, 1)), []
    for _ in range(6):
        x = rng.normal(0, 5, n)
        y = A @ x + rng.laplace(0, 1, len(A))
        evidence = from_arrays(A, y.tolist(), noise=Noise("laplace", Fraction(1)))
        told = attack(Target.of(evidence))
        told.observe(evidence)
        found = told.estimate()
        ratios.append(np.sqrt(np.mean((found.values - x) ** 2)) / np.sqrt(np.mean(found.confidence**2)))
    assert np.mean(ratios) == pytest.approx(1, abs=0.2)


def test_sparse_errors_are_no_smaller_than_they_are() -> None:
    rng, errors, stated = np.random.default_rng(4), [], []
    for _ in range(10):
        A, x = rng.integers(0, 2, (8, 20)), rng.random(20)
        evidence = from_arrays(A, (A @ x).tolist(), prior=UNIT)
        told = BasisPursuit(Target.of(evidence))
        told.observe(evidence)
        found = told.estimate()
        errors.append(np.mean((found.values - x) ** 2))
        stated.append(np.mean(found.confidence**2))
    assert np.sqrt(np.mean(errors)) <= 1.1 * np.sqrt(np.mean(stated))


def test_answers_of_another_number_or_none_are_refused() -> None:
    with pytest.raises(DataError, match="2 questions with 1 answers"):
        from_arrays(np.eye(2), [1.0])
    with pytest.raises(DataError, match="answer 2 is nan"):
        from_arrays(np.eye(2), [1.0, float("nan")])


def test_an_answer_inside_its_interval_is_met() -> None:
    evidence = from_arrays(np.array([[1, 1], [1, 0], [0, 1]]), [2, 1.4, 1.4], noise=Noise("uniform", Fraction(1, 2)))
    told = L1(Target.of(evidence))
    told.observe(evidence)
    assert told.estimate().note == "0 of 3 answers not met"
