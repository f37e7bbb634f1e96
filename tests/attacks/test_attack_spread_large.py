"""Standard errors of logs too large for the formula: what nothing bounds is infinite, not a number."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from keyhole.attacks.base import Attack, Target
from keyhole.attacks.choose import run_attack
from keyhole.attacks.estimates.matrix_free import reconstruct_matrix_free, simulate_errors, solve_cg
from keyhole.attacks.estimates.standard_errors import SPREAD_LIMIT, compute_standard_errors
from keyhole.attacks.methods.extended_kaczmarz import ExtendedKaczmarz
from keyhole.attacks.methods.jacobi import Jacobi
from keyhole.attacks.methods.lbfgs import LBFGS
from keyhole.attacks.methods.least_squares import ConjugateGradient, LeastSquares
from keyhole.attacks.problem.arrays import from_arrays
from keyhole.attacks.problem.assembly import assemble
from keyhole.attacks.problem.decoding_problem import Problem
from keyhole.gather.evidence import Evidence
from keyhole.model.prior import Prior
from keyhole.model.transcript import Noise
from keyhole.solve.status import SolverStatus

N = SPREAD_LIMIT + 1
CODES = np.array([[number >> bit & 1 for number in range(N)] for bit in range(12)])  # tells all records apart
ALONE = np.eye(N, dtype=np.int64)[[5, 70]]  # and two are asked by themselves
RANGE = Prior(Decimal(0), Decimal(10))


def log(prior: Prior | None = None, noise: Noise | None = None) -> Evidence:
    A = np.concatenate([CODES, ALONE])
    return from_arrays(A, (A @ (np.arange(N) % 7)).tolist(), prior=prior, noise=noise)


def problem_of(evidence: Evidence) -> Problem:
    problem = assemble(Target.of(evidence), evidence)
    assert problem.p > SPREAD_LIMIT
    return problem


def test_without_a_range_nothing_is_known_beyond_the_formula() -> None:
    problem = problem_of(log())
    assert np.isinf(compute_standard_errors(problem, problem.design())).all()


def test_with_a_range_its_spread_is_what_is_known() -> None:
    problem = problem_of(log(RANGE))
    assert np.allclose(compute_standard_errors(problem, problem.design()), 10 / np.sqrt(12))


@pytest.mark.parametrize("attack", [LeastSquares, ConjugateGradient, ExtendedKaczmarz, LBFGS, Jacobi])
def test_no_attack_is_sure_of_what_nothing_determines(attack: Callable[[Target], Attack]) -> None:
    made = attack(Target.of(evidence := log()))
    made.observe(evidence)
    found = made.estimate()
    undetermined = np.ones(N, dtype=bool)
    undetermined[[5, 70]] = False
    assert np.isinf(found.confidence[undetermined]).all()
    sure = found.confidence < 0.05  # of those asked alone it may be sure, and then it must be right
    assert np.allclose(found.values[sure], (np.arange(N) % 7)[sure], atol=1e-4)


def test_half_a_range_is_no_range() -> None:
    problem = problem_of(log(Prior(lo=Decimal(0))))
    assert np.isinf(compute_standard_errors(problem, problem.design())).all()


def test_simulated_errors_tell_what_is_determined_from_what_is_not() -> None:
    error = simulate_errors(problem_of(log()), solve_cg, rng=np.random.default_rng(1))
    of = problem_of(log()).of
    assert (error[of[[5, 70]]] < 1e-4).all()
    assert np.isinf(np.delete(error, of[[5, 70]])).all()


def test_simulated_errors_are_no_smaller_than_the_noise() -> None:
    A = np.repeat(np.eye(30), 2, axis=0)
    for scale in (Fraction(1, 1000), Fraction(1, 50), Fraction(3)):
        evidence = from_arrays(A, np.zeros(60), noise=Noise("gaussian", scale))
        problem = assemble(Target.of(evidence), evidence)
        error = simulate_errors(problem, solve_cg, rng=np.random.default_rng(2))
        assert float(np.median(error)) > 0.4 * float(scale)


def test_an_interrupted_attack_knows_no_error() -> None:
    problem = problem_of(log())
    found = reconstruct_matrix_free(problem, np.zeros(problem.p), SolverStatus.INTERRUPTED, solve_cg)
    assert np.isinf(found.confidence).all()


def test_a_stream_over_a_large_log_knows_no_error_either() -> None:
    evidence = log()
    _, found = run_attack("kaczmarz", Target.of(evidence), evidence)
    rest = np.delete(found.confidence, [5, 70])
    assert np.isinf(rest).all()
