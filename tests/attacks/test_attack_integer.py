"""Integer decoding: exact search and posteriors against enumeration."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.effort import effort

from keyhole.attacks.base import Target
from keyhole.attacks.estimates.posterior import count_log_ways
from keyhole.attacks.methods.integer import Integer
from keyhole.attacks.problem.arrays import from_arrays
from keyhole.errors import CannotHonour, ContradictionError
from keyhole.model.prior import Prior
from keyhole.model.transcript import Noise
from keyhole.solve.decode.cpsat import solve_integers
from keyhole.solve.status import SolverStatus

BIT = Prior(Decimal(0), Decimal(1), Decimal(1))


@given(st.integers(1, 5), st.integers(1, 3))
@settings(max_examples=effort(15), deadline=None)
def test_ways_to_make_a_total(size: int, top: int) -> None:
    counts = np.zeros(size * top + 1)
    for values in product(range(top + 1), repeat=size):
        counts[sum(values)] += 1
    assert np.allclose(np.exp(count_log_ways(size, np.zeros(top + 1))), counts)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=4, deadline=None)
def test_exact_search_agrees_with_looking_at_every_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    C, truth = rng.integers(0, 2, (3, 5)), rng.integers(0, 3, 5)
    y = C @ truth
    tables = [t for t in product(range(3), repeat=5) if (C @ np.array(t) == y).all()]
    found = solve_integers(C, y, y, np.full(5, 2), samples=4)
    assert found.unique == (len(tables) == 1)
    for solution in found.solutions:
        assert tuple(solution) in tables


def test_impossible_answers_are_infeasible() -> None:
    found = solve_integers(np.array([[1, 1], [1, 1]]), *(np.array([1, 2]),) * 2, np.ones(2, dtype=np.int64))
    assert found.status is SolverStatus.INFEASIBLE


def test_small_noisy_logs_are_enumerated() -> None:
    rng = np.random.default_rng(6)
    A, x = rng.integers(0, 2, (30, 6)), rng.integers(0, 2, 6)
    evidence = from_arrays(A, (A @ x + rng.laplace(0, 1, 30)).tolist(), noise=Noise("laplace", Fraction(1)), prior=BIT)
    attack = Integer(Target.of(evidence))
    attack.observe(evidence)
    found = attack.estimate()
    assert found.status is SolverStatus.OPTIMAL
    assert "every table" in found.note
    assert (found.confidence >= 0.5).all()


def test_a_group_that_no_question_splits_shares_one_answer() -> None:
    evidence = from_arrays(np.array([[1, 1, 1, 1]]), [1], prior=BIT)
    attack = Integer(Target.of(evidence))
    attack.observe(evidence)
    found = attack.estimate()
    assert found.values.tolist() == [0.0] * 4
    assert found.confidence.tolist() == pytest.approx([0.75] * 4)


def test_exact_and_noisy_answers_enter_one_posterior() -> None:
    exact = from_arrays(np.array([[1, 1, 0]]), [2], prior=BIT)
    noisy = from_arrays(np.array([[0, 0, 1]]), [0.2], noise=Noise("gaussian", Fraction(1, 2)), prior=BIT, first=2)
    attack = Integer(Target.of(exact))
    attack.observe(exact)
    attack.observe(noisy)
    found = attack.estimate()
    assert found.values.tolist() == [1.0, 1.0, 0.0]
    assert found.status is SolverStatus.OPTIMAL
    odds = np.exp((0.8**2 - 0.2**2) / (2 * 0.5**2))  # the noisy answer .2 is of 0 or of 1
    assert found.confidence.tolist() == pytest.approx([1.0, 1.0, odds / (1 + odds)])


def test_without_a_grid_it_says_what_to_give() -> None:
    with pytest.raises(CannotHonour, match="min, max and step"):
        Integer(Target("x", 3))


def test_answers_off_the_grid_contradict() -> None:
    evidence = from_arrays(np.array([[1, 1]]), [0.5], prior=BIT)
    attack = Integer(Target.of(evidence))
    attack.observe(evidence)
    with pytest.raises(ContradictionError, match="query 1"):
        attack.estimate()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=effort(25), deadline=None)
def test_probabilities_without_noise_are_those_of_every_table(seed: int) -> None:
    """Each table of records that meets the answers is as likely as any other: counted by brute force."""
    rng = np.random.default_rng(seed)
    A, truth = rng.integers(0, 3, (2, 6)), rng.integers(0, 2, 6)
    y = A @ truth
    evidence = from_arrays(A, y.tolist(), prior=BIT)
    attack = Integer(Target.of(evidence))
    attack.observe(evidence)
    found = attack.estimate()
    tables = np.array([t for t in product(range(2), repeat=6) if (A @ np.array(t) == y).all()])
    share = np.where(found.values == 1, tables.mean(axis=0), 1 - tables.mean(axis=0))
    assert found.confidence == pytest.approx(share)
    assert found.residual == pytest.approx(np.sqrt(np.mean((A @ found.values - y) ** 2)), abs=1e-9)
    assert ("together they need not meet" in found.note) == (found.residual > 1e-9)


def test_every_table_is_listed_where_they_are_few_and_none_twice_where_not() -> None:
    C, y = np.ones((1, 20), dtype=np.int64), np.array([2])
    few = solve_integers(C, y, y, np.ones(20, dtype=np.int64))
    assert few.complete
    assert not few.unique
    assert len({tuple(t) for t in few.solutions}) == len(few.solutions) == 190
    many = solve_integers(C, np.array([10]), np.array([10]), np.ones(20, dtype=np.int64))
    assert not many.complete
    assert many.status is SolverStatus.FEASIBLE
    assert len({tuple(t) for t in many.solutions}) == len(many.solutions) > 1


def test_records_told_apart_by_their_weights() -> None:
    """24 records told apart only by weights: the chance of each is counted by convolution."""
    weights, total = np.arange(1, 25), 150
    evidence = from_arrays(weights[None, :], [total], prior=BIT)
    attack = Integer(Target.of(evidence))
    attack.observe(evidence)
    found = attack.estimate()
    ways = np.zeros((2, total + 1))
    for i, weight in enumerate(weights):
        ways[0] = np.eye(1, total + 1)[0]
        for other in np.delete(weights, i):
            ways[0] += np.concatenate([np.zeros(other), ways[0]])[: total + 1]
        chance = ways[0, total - weight] / (ways[0, total] + ways[0, total - weight])
        right = chance if found.values[i] == 1 else 1 - chance
        assert found.confidence[i] == pytest.approx(right, abs=0.03), (i, found.note)
