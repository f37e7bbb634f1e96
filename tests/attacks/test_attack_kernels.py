"""Compiled passes over bit-packed rows, against numpy."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.effort import effort

from keyhole.attacks.base import Target
from keyhole.attacks.methods.kaczmarz import Kaczmarz
from keyhole.attacks.methods.sgd import SigmoidSGD
from keyhole.attacks.problem.arrays import from_arrays
from keyhole.model.prior import Prior
from keyhole.solve.decode.bitrows import axpy, dot, matvec, overlaps, pack, padded, rmatvec, transpose, unpack
from keyhole.solve.decode.jacobi import projected_jacobi
from keyhole.solve.decode.kaczmarz import sweep, sweep_dense
from keyhole.solve.decode.lstsq import cgls, minimum_norm, posterior_deviation
from keyhole.solve.decode.operator import Operator
from keyhole.solve.decode.sigmoid import sgd_block, sgd_dense
from keyhole.solve.status import SolverStatus

sizes = st.tuples(st.integers(1, 9), st.integers(1, 150), st.integers(0, 2**32 - 1))


@given(sizes)
@settings(max_examples=effort(40), deadline=None)
def test_bit_passes_are_matrix_products(size: tuple[int, int, int]) -> None:
    m, n, seed = size
    rng = np.random.default_rng(seed)
    A, x, r = rng.random((m, n)) < 0.5, rng.normal(size=n), rng.normal(size=m)
    words = pack(A)
    assert np.array_equal(unpack(words, n), A)
    assert np.array_equal(unpack(transpose(words, n), m), A.T)
    assert np.array_equal(overlaps(words), A.astype(int) @ A.T.astype(int))
    assert np.allclose(matvec(words, padded(x)), A @ x)
    assert np.allclose(rmatvec(words, r)[:n], A.T @ r)
    assert dot(words[0], padded(x)) == pytest.approx(x[A[0]].sum(), abs=1e-12)
    moved = padded(x)
    axpy(words[0], 2.0, moved)
    assert np.allclose(moved[:n], x + 2 * A[0])


def _one_by_one(A: np.ndarray, lo: np.ndarray, hi: np.ndarray, x: np.ndarray, soft: np.ndarray) -> np.ndarray:
    met = []
    for a, low, high, s in zip(A, lo, hi, soft, strict=True):
        at = a @ x
        r = low - at if at < low else high - at if at > high else 0.0
        met.append(r)
        if a @ a > 0:
            x += r / (a @ a + s) * a
    return np.array(met)


@given(sizes)
@settings(max_examples=effort(30), deadline=None)
def test_a_block_of_projections_is_what_single_ones_give(size: tuple[int, int, int]) -> None:
    m, n, seed = size
    rng = np.random.default_rng(seed)
    A = (rng.random((m, n)) < 0.5).astype(float)
    lo = rng.normal(size=m)
    hi = lo + (rng.random(m) < 0.3) * rng.random(m)
    soft = (rng.random(m) < 0.5) * rng.random(m)
    plain = rng.normal(size=n)
    X, D = padded(plain)[None, :], plain[None, :].copy()
    expected = _one_by_one(A, lo, hi, plain, soft)
    met = sweep(pack(A), lo[None], hi[None], X, soft)
    assert np.allclose(met[0], expected)
    assert np.allclose(X[0, :n], plain)
    assert not X[0, n:].any()
    sweep_dense(A, lo[None], hi[None], D, soft)
    assert np.allclose(D[0], plain)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=effort(20), deadline=None)
def test_sigmoid_steps_on_bits_are_those_on_numbers_and_stay_in_the_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = (rng.random((6, 70)) < 0.4).astype(float)
    wide = np.zeros((6, 128))
    wide[:, :70] = A
    y = A @ rng.random(70)
    lower, upper = np.zeros(128), np.ones(128)
    upper[70:] = 0
    upper[3] = lower[3] = 0.5  # a record that is known
    clip, rate = np.full(6, np.inf), np.full(6, 0.1)
    z1, z2 = np.zeros(128), np.zeros(128)
    x1 = (lower + upper) / 2
    x2 = x1.copy()
    for _ in range(5):
        a = sgd_block(pack(A), y, y, clip, rate, z1, x1, lower, upper)
        b = sgd_dense(wide, y, y, clip, rate, z2, x2, lower, upper)
    assert np.allclose(a, b)
    assert np.allclose(x1, x2)
    assert (x1 >= lower).all()
    assert (x1 <= upper).all()


@given(sizes)
@settings(max_examples=effort(30), deadline=None)
def test_minimum_norm_and_conjugate_gradients_are_the_pseudoinverse(size: tuple[int, int, int]) -> None:
    m, n, seed = size
    n = min(n, 20)
    rng = np.random.default_rng(seed)
    A, y = (rng.random((m, n)) < 0.5).astype(float), rng.normal(size=m)
    expected = np.linalg.pinv(A, rcond=1e-9) @ y
    assert np.allclose(minimum_norm(A, y, np.ones(m)), expected, atol=1e-7)
    assert np.allclose(minimum_norm(A, y, np.zeros(m)), expected, atol=1e-7)
    found, status, _ = cgls(Operator(pack(A), None, np.ones(n), np.ones(m)), y)
    assert status is SolverStatus.CONVERGED
    assert np.allclose(found, expected, atol=1e-5)


def test_exact_rows_come_before_noisy_ones() -> None:
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(9, 5)), rng.normal(size=9)
    noise = np.array([0, 0, 1, 2, 1, 3, 1, 1, 1.0])
    x = minimum_norm(A, y, noise)
    assert np.allclose(A[:2] @ x, y[:2])
    # the twin: exact rows with a huge weight
    w = 1 / np.where(noise == 0, 1e-6, noise)
    assert np.allclose(x, np.linalg.lstsq(A * w[:, None], y * w, rcond=None)[0], atol=1e-6)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=effort(15), deadline=None)
def test_projected_jacobi_is_box_least_squares(seed: int) -> None:
    from scipy.optimize import lsq_linear

    rng = np.random.default_rng(seed)
    A, y = rng.normal(size=(12, 6)), rng.normal(size=12) * 3
    found, status, _ = projected_jacobi(
        Operator(None, A, np.ones(6), np.ones(12)), y, y, np.zeros(6), np.ones(6), np.full(6, 0.5)
    )
    assert status is SolverStatus.CONVERGED
    assert np.allclose(found, lsq_linear(A, y, (0, 1), tol=1e-14).x, atol=1e-5)


def test_standard_errors_are_those_of_the_gaussian_posterior() -> None:
    rng = np.random.default_rng(1)
    A, w, p = rng.normal(size=(7, 4)), rng.random(7) + 0.1, rng.random(4) + 0.1
    expected = np.sqrt(np.linalg.inv(np.diag(p) + A.T @ np.diag(w) @ A).diagonal())
    assert np.allclose(posterior_deviation(A, w, p), expected)
    assert not np.isnan(posterior_deviation(A, np.full(7, 1e10), p)).any()


def test_a_stopped_solver_keeps_the_best_so_far() -> None:
    rng = np.random.default_rng(2)
    A, y = rng.normal(size=(30, 20)), rng.normal(size=30)

    def stop(step: int, _residual: float) -> None:
        if step == 3:
            raise KeyboardInterrupt

    op = Operator(None, A, np.ones(20), np.ones(30))
    x, status, steps = cgls(op, y, watch=stop)
    assert (status, steps) == (SolverStatus.INTERRUPTED, 3)
    assert np.linalg.norm(A @ x - y) < np.linalg.norm(y)
    free = np.full(20, np.inf)
    x, status, steps = projected_jacobi(op, y, y, -free, free, np.zeros(20), watch=stop)
    assert (status, steps) == (SolverStatus.INTERRUPTED, 3)
    assert np.linalg.norm(A @ x - y) < np.linalg.norm(y)


@pytest.mark.parametrize("seed", range(6))
def test_shadows_never_call_an_undetermined_record_sure(seed: int) -> None:
    """Pairs that only their sum was asked of: the error left is about the prior's spread, whatever is drawn."""
    A = np.kron(np.eye(20), np.ones((1, 2)))
    evidence = from_arrays(A, np.ones(20), prior=Prior(Decimal(0), Decimal(1)))
    for cls in (Kaczmarz, SigmoidSGD):
        attack = cls(Target.of(evidence), rng=np.random.default_rng(seed))
        attack.observe(evidence)
        error = attack.estimate().confidence
        assert (error > 0.07).all(), (cls, error.min())
        assert error.mean() == pytest.approx(0.2, abs=0.1)
