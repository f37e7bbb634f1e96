"""The interior-point decoder against scipy's linear programs and box least squares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, lsq_linear
from tests.support.effort import effort

from keyhole.solve.decode.interior.method import Rows, RowTerm, minimise
from keyhole.solve.status import SolverStatus


def _rows(A: np.ndarray, y: np.ndarray, w: np.ndarray, term: int) -> Rows:
    return Rows(A, y, w, y, y, np.full(len(y), term, dtype=np.int8))


def _l1_by_linprog(
    A: np.ndarray, y: np.ndarray, w: np.ndarray, bounds: list[tuple[float | None, float | None]],
    lasso: float = 0.0, between: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> float:  # fmt: skip
    """min w|Au - y| + lasso |u| by the textbook: an extra variable for each absolute value."""
    m, n = A.shape
    eye = np.eye(m)
    rows = [np.hstack([A, -eye, np.zeros((m, n))]), np.hstack([-A, -eye, np.zeros((m, n))])]
    ends = [y, -y]
    rows += [
        np.hstack([np.eye(n), np.zeros((n, m)), -np.eye(n)]),
        np.hstack([-np.eye(n), np.zeros((n, m)), -np.eye(n)]),
    ]
    ends += [np.zeros(n), np.zeros(n)]
    if between is not None:
        B, lo, hi = between
        pad = np.zeros((len(B), m + n))
        rows += [np.hstack([B, pad]), np.hstack([-B, pad])]
        ends += [hi, -lo]
    cost = np.concatenate([np.zeros(n), w, np.full(n, lasso)])
    whole = [*bounds, *[(0, None)] * (m + n)]
    found = linprog(cost, A_ub=np.vstack(rows), b_ub=np.concatenate(ends), bounds=whole)
    assert found.status == 0
    return float(found.fun)


@given(st.integers(1, 12), st.integers(1, 8), st.integers(0, 2**32 - 1), st.sampled_from(["box", "half", "free"]))
@settings(max_examples=effort(60), deadline=None)
def test_l1_decoding_is_the_linear_program(m: int, n: int, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    A, y, w = rng.integers(0, 2, (m, n)).astype(float), rng.normal(size=m) * 2, rng.random(m) + 0.2
    lo, hi = {"box": (0.0, 1.0), "half": (0.0, np.inf), "free": (-np.inf, np.inf)}[kind]
    found = minimise(_rows(A, y, w, RowTerm.ABSOLUTE), np.full(n, lo), np.full(n, hi), start=np.full(n, 0.5))
    ends = [(lo if np.isfinite(lo) else None, hi if np.isfinite(hi) else None)] * n
    assert found.objective == pytest.approx(_l1_by_linprog(A, y, w, ends), abs=1e-6, rel=1e-6)
    assert (found.u >= lo).all()
    assert (found.u <= hi).all()


@given(st.integers(2, 10), st.integers(2, 8), st.integers(0, 2**32 - 1))
@settings(max_examples=effort(30), deadline=None)
def test_intervals_and_a_lasso_are_honoured(m: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, y = rng.integers(0, 2, (m, n)).astype(float), rng.normal(size=m) * 2
    truth = rng.random(n)
    B = rng.integers(0, 2, (3, n)).astype(float)
    lo, hi = B @ truth - rng.random(3), B @ truth + rng.random(3)
    rows = Rows(
        np.vstack([A, B]), np.concatenate([y, np.zeros(3)]), np.ones(m + 3),
        np.concatenate([y, lo]), np.concatenate([y, hi]),
        np.array([RowTerm.ABSOLUTE] * m + [RowTerm.INTERVAL] * 3, dtype=np.int8),
    )  # fmt: skip
    found = minimise(rows, np.zeros(n), np.ones(n), start=np.full(n, 0.5), lasso=np.full(n, 0.3))
    expected = _l1_by_linprog(A, y, np.ones(m), [(0, 1)] * n, 0.3, (B, lo, hi))
    assert found.objective == pytest.approx(expected, abs=1e-6)
    hair = 1e-8 * (1 + np.abs(lo) + np.abs(hi))  # by what the method widens each interval, and no more
    assert (B @ found.u >= lo - hair - 1e-9).all()
    assert (B @ found.u <= hi + hair + 1e-9).all()


@given(st.integers(1, 14), st.integers(1, 9), st.integers(0, 2**32 - 1))
@settings(max_examples=effort(40), deadline=None)
def test_quadratic_rows_are_box_least_squares(m: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, y = rng.normal(size=(m, n)), rng.normal(size=m) * 2
    found = minimise(_rows(A, y, np.ones(m), RowTerm.QUADRATIC), np.zeros(n), np.ones(n), start=np.full(n, 0.5))
    assert found.status is SolverStatus.CONVERGED
    assert found.objective == pytest.approx(lsq_linear(A, y, (0, 1), tol=1e-12).cost, abs=1e-6)


def test_mixed_losses_agree_with_a_general_solver() -> None:
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(3)
    A, y, w = rng.normal(size=(12, 5)), rng.normal(size=12), rng.random(12) + 0.5
    term = np.array([0] * 5 + [1] * 7, dtype=np.int8)
    found = minimise(Rows(A, y, w, y, y, term), np.full(5, -0.3), np.full(5, 0.4), start=np.zeros(5))
    u = cp.Variable(5)
    loss = cp.sum(cp.multiply(w[:5] / 2, cp.square(A[:5] @ u - y[:5]))) + cp.sum(
        cp.multiply(w[5:], cp.abs(A[5:] @ u - y[5:]))
    )
    task = cp.Problem(cp.Minimize(loss), [u >= -0.3, u <= 0.4])
    task.solve(solver="CLARABEL")
    assert found.objective == pytest.approx(task.value, rel=1e-6)
    assert np.allclose(found.u, u.value, atol=1e-4)


def test_duals_are_the_pull_of_each_row() -> None:
    """Where the box is slack, the rows' pulls cancel."""
    rng = np.random.default_rng(4)
    A = rng.normal(size=(20, 4))
    y = A @ rng.normal(size=4) + rng.laplace(size=20)
    free = np.full(4, np.inf)
    found = minimise(_rows(A, y, np.ones(20), RowTerm.ABSOLUTE), -free, free, start=np.zeros(4))
    assert np.allclose(A.T @ found.dual, 0, atol=1e-6)
    far = np.abs(A @ found.u - y) > 1e-3
    assert np.allclose(np.abs(found.dual[far]), 1, atol=1e-4)


def test_impossible_intervals_do_not_converge() -> None:
    A = np.ones((2, 1))
    rows = Rows(A, np.zeros(2), np.ones(2), np.array([0.0, 2.0]), np.array([1.0, 3.0]), np.full(2, 2, dtype=np.int8))
    free = np.full(1, np.inf)
    assert minimise(rows, -free, free, start=np.zeros(1)).status is not SolverStatus.CONVERGED


def test_it_stops_between_steps_when_asked() -> None:
    rng = np.random.default_rng(5)
    A, y = rng.integers(0, 2, (40, 20)).astype(float), rng.normal(size=40) * 5

    def stop(step: int, _gap: float) -> None:
        if step == 4:
            raise KeyboardInterrupt

    rows = _rows(A, y, np.ones(40), RowTerm.ABSOLUTE)
    found = minimise(rows, np.zeros(20), np.ones(20), start=np.full(20, 0.5), watch=stop)
    assert found.status is SolverStatus.INTERRUPTED
    assert found.objective < float(np.abs(A @ np.full(20, 0.5) - y).sum())
