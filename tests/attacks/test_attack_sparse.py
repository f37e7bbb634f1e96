"""Sparse logs: never dense, the same as the dense path where both can go, and errors that are honest."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from keyhole.attacks.base import Target
from keyhole.attacks.choose import run_attack
from keyhole.attacks.estimates.sparse_fit import fit_sparse
from keyhole.attacks.estimates.standard_errors import moderate_variances
from keyhole.attacks.methods.bounded import Bounded
from keyhole.attacks.methods.kaczmarz import Kaczmarz
from keyhole.attacks.methods.least_squares import LeastSquares
from keyhole.attacks.problem import arrays, assembly
from keyhole.attacks.problem.arrays import from_arrays, split_into_blocks
from keyhole.attacks.problem.assembly import assemble
from keyhole.attacks.problem.decoding_problem import Problem
from keyhole.basis.atoms import sparse as sparse_module
from keyhole.basis.atoms.sparse import SparseAtoms, group_columns
from keyhole.errors import CannotHonour, ContradictionError, DataError
from keyhole.model.prior import Prior
from keyhole.model.transcript import Noise
from keyhole.solve.decode.bitrows import pack
from keyhole.solve.decode.box import box_least_squares
from keyhole.solve.decode.csr import Csr
from keyhole.solve.decode.lsqr import LANES, lsqr
from keyhole.solve.status import SolverStatus

sp: Any = pytest.importorskip("scipy.sparse")
Floats = NDArray[np.float64]
FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
HUNDRED = Prior(Decimal(0), Decimal(100))


def questions(seed: int, m: int, n: int, each: int = 6) -> Any:
    """m questions about `each` people each."""
    rng = np.random.default_rng(seed)
    people = np.concatenate([rng.choice(n, each, replace=False) for _ in range(m)])
    return sp.csr_array((np.ones(m * each), people, np.arange(0, m * each + 1, each)), shape=(m, n))


@pytest.fixture
def always_sparse(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small matrices take the sparse path too."""
    monkeypatch.setattr(assembly, "FEW_UNKNOWNS", 0)
    monkeypatch.setattr(assembly, "FEW_ENTRIES", 0)
    monkeypatch.setattr(assembly, "SPARSE", 2.0)
    return


@pytest.fixture
def never_dense(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever makes a dense matrix fails."""

    def refuse(*_: object) -> Floats:
        raise AssertionError("a dense matrix was made")

    monkeypatch.setattr(Csr, "dense", refuse)
    monkeypatch.setattr(Problem, "totals", refuse)
    monkeypatch.setattr(Problem, "design", refuse)
    return


@pytest.mark.parametrize("kind", FORMATS)
def test_every_sparse_format_is_the_same_evidence_as_the_array(kind: str) -> None:
    rng = np.random.default_rng(3)
    A = (rng.random((7, 12)) < 0.3) * rng.choice((1.0, 1.0, 2.5, -1.0), (7, 12))
    A[:, 5] = A[:, 2]
    y = A @ np.arange(12.0)
    dense, sparse = from_arrays(A, y), from_arrays(sp.csr_array(A).asformat(kind), y)
    a, b = (assemble(Target.of(e), e) for e in (dense, sparse))
    assert sparse.systems[0].atoms.K == dense.systems[0].atoms.K
    assert np.allclose(a.totals()[:, a.of], b.totals()[:, b.of])
    assert np.allclose(a.totals()[:, a.of], A)


def test_duplicate_entries_add_up_and_stored_zeros_are_none() -> None:
    A = sp.coo_array((np.array([1.0, 1.0, 0.0]), (np.array([0, 0, 1]), np.array([1, 1, 0]))), shape=(2, 3))
    e = from_arrays(A, [4.0, 0.0])
    p = assemble(Target.of(e), e)
    assert p.totals()[:, p.of].tolist() == [[0, 2, 0], [0, 0, 0]]


def test_zeros_and_ones_are_subset_sums_that_an_audit_can_read() -> None:
    A = questions(1, 5, 9, 3)
    atoms = from_arrays(A, np.zeros(5)).systems[0].atoms
    assert isinstance(atoms, SparseAtoms)
    assert not atoms.expressions
    for j, where in enumerate(from_arrays(A, np.zeros(5)).systems[0].constraints):
        mask = atoms.mask(where.parts[0].where)[atoms.of]
        assert mask.tolist() == (A.toarray()[j] != 0).tolist()
        assert np.array_equal(atoms.table[j], atoms.bits(where.parts[0].where))


@pytest.mark.parametrize(
    ("A", "answers", "words"),
    [
        (sp.csr_array(np.array([[1.0, np.nan]])), [1.0], "not a finite number"),
        (np.array([[1.0, np.inf]]), [1.0], "not a finite number"),
        (sp.csr_array(np.array([[1j, 0]])), [1.0], "complex128"),
        (sp.csr_array(np.eye(3)), [1.0], "3 questions with 1 answers"),
        (sp.csr_array(np.eye(2)), [1.0, np.inf], "answer 2 is inf"),
        (sp.csr_array(np.eye(1)), ["a"], "not all numbers"),
        (np.ones((1, 1, 1)), [1.0], "3 dimensions"),
    ],
)
def test_odd_input_is_refused_in_one_sentence(A: Any, answers: Any, words: str) -> None:
    with pytest.raises(DataError, match=words) as error:
        from_arrays(A, answers)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("deceived", [False, True])
def test_equal_columns_are_grouped_even_where_the_hash_deceives(
    deceived: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if deceived:
        monkeypatch.setattr(sparse_module, "splitmix", lambda x: np.ones_like(x))
    A = questions(5, 6, 40, 4).toarray() * np.random.default_rng(1).choice((1.0, 2.0), (6, 40))
    by_column = sp.csc_array(A)
    by_column.sort_indices()
    of, sizes, first = group_columns(by_column.indptr.astype(np.int64), by_column.indices, by_column.data)
    _, twin = np.unique(A.T, axis=0, return_inverse=True)
    same = twin.ravel()[:, None] == twin.ravel()[None, :]
    assert np.array_equal(of[:, None] == of[None, :], same)
    assert sizes.tolist() == np.bincount(of).tolist()
    assert np.array_equal(of[first], np.arange(len(first)))


def test_sparse_rows_are_the_matrix_they_stand_for() -> None:
    A = (np.random.default_rng(0).random((9, 70)) < 0.2) * 1.0
    made = Csr.of_bits(pack(A), 70)
    x, r = np.arange(70.0), np.arange(9.0)
    assert np.array_equal(made.dense(), A)
    assert np.allclose(made.apply(x), A @ x)
    assert np.allclose(made.adjoint(r), A.T @ r)
    assert np.array_equal(made.take(np.array([3, 1])).dense(), A[[3, 1]])
    assert np.array_equal(made.take(r > 6).dense(), A[7:])
    assert np.array_equal(made.stacked(made).dense(), np.vstack([A, A]))
    parent = np.random.default_rng(1).integers(0, 70, 100)
    assert np.array_equal(made.spread(parent).dense(), A[:, parent])
    assert np.allclose(made.scaled(r, x).dense(), r[:, None] * A * x)
    assert np.array_equal(made.touched(), A.any(axis=0))


@pytest.mark.parametrize(("m", "n"), [(40, 40), (30, 50), (60, 30)])
def test_lsqr_is_the_fit_of_least_norm_on_every_lane(m: int, n: int) -> None:
    A = questions(m + n, m, n)
    Y = np.random.default_rng(2).normal(size=(m, LANES))
    made = Csr(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data, n)
    found = lsqr(made, Y, tolerance=1e-14, iterations=20 * (m + n))
    assert np.allclose(found.x, np.linalg.pinv(A.toarray(), rcond=1e-10) @ Y, atol=1e-6)
    assert lsqr(made, np.zeros((m, LANES))).status is SolverStatus.CONVERGED


def test_least_squares_in_a_box_is_that_of_scipy() -> None:
    optimize: Any = pytest.importorskip("scipy.optimize")
    for seed in range(6):
        A = questions(seed, 50, 30)
        y = A @ np.random.default_rng(seed).random(30) + np.random.default_rng(seed).normal(0, 2, 50)
        made = Csr(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data, 30)
        x, status = box_least_squares(made, y, np.zeros(30), np.ones(30), np.full(30, 0.5))
        twin = optimize.lsq_linear(A.toarray(), y, (0, 1), tol=1e-14).x
        assert status is SolverStatus.CONVERGED
        assert np.allclose(x, twin, atol=1e-5)


@pytest.mark.parametrize("noise", [None, Noise("gaussian", Fraction(1, 2))])
def test_the_sparse_path_finds_what_the_dense_one_finds(
    noise: Noise | None, always_sparse: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    A, x = questions(4, 60, 40), np.random.default_rng(0).uniform(10, 90, 40)
    y = A @ x + (0 if noise is None else np.random.default_rng(1).normal(0, 0.5, 60))
    for method, prior in ((LeastSquares, None), (Bounded, HUNDRED)):
        found = {}
        for matrix in ("sparse", "dense"):
            e = from_arrays(A if matrix == "sparse" else A.toarray(), y, noise=noise, prior=prior)
            attack = method(Target.of(e))
            if matrix == "dense":
                monkeypatch.setattr(assembly, "SPARSE", 0.0)
            attack.observe(e)
            assert attack.problem is not None
            assert (attack.problem.csr is None) is (matrix == "dense")
            found[matrix] = attack.estimate()
        monkeypatch.setattr(assembly, "SPARSE", 2.0)
        near = 1e-6 if noise is None else 0.05  # with noise the sparse fit has the prior's spread in it
        assert np.allclose(found["sparse"].values, found["dense"].values, atol=near), method


def test_blocks_of_a_sparse_log_are_the_log(always_sparse: None) -> None:
    A, x = questions(7, 40, 30), np.random.default_rng(0).uniform(0, 9, 30)
    whole = from_arrays(A, A @ x)
    parts = [from_arrays(A[s : s + 15], (A @ x)[s : s + 15], first=s + 1) for s in range(0, 40, 15)]
    for log in (split_into_blocks(whole, 7), parts):
        attack = LeastSquares(Target.of(whole))
        for part in log:
            attack.observe(part)
        assert attack.problem is not None
        assert attack.problem.csr is not None
        assert np.allclose(attack.problem.csr.dense()[:, attack.problem.of], A.toarray())


def test_a_sparse_attack_is_saved_and_resumed(always_sparse: None, never_dense: None) -> None:
    A = questions(7, 40, 30)
    e = from_arrays(A, A @ np.arange(30.0))
    before, after = LeastSquares(Target.of(e)), LeastSquares(Target.of(e))
    before.observe(e)
    after.resume(before.state())
    assert np.array_equal(before.estimate().values, after.estimate().values)


def test_sparse_evidence_too_large_to_pack_is_not_joined_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "PACKED", 10)
    e = from_arrays(questions(7, 40, 30), np.zeros(40))
    with pytest.raises(CannotHonour, match="observe both parts"):
        e.systems[0].atoms.join(e.systems[0].atoms)


def test_a_large_sparse_log_is_solved_without_a_dense_matrix(never_dense: None) -> None:
    A, x = questions(0, 2_500, 2_000), np.random.default_rng(0).integers(0, 101, 2_000).astype(np.float64)
    exact = from_arrays(A, A @ x)
    choice, found = run_attack("auto", Target.of(exact), exact)
    assert choice.method == "least-squares"
    assert found.status is SolverStatus.CONVERGED
    asked = np.isfinite(found.confidence)  # one or two were never asked about
    assert asked.mean() > 0.995
    assert np.abs(found.values - x)[asked].max() < 1e-4
    assert (found.confidence > 0).all()  # not proved, so not certain
    assert "simulated" in found.note
    noisy = from_arrays(
        A, A @ x + np.random.default_rng(1).normal(0, 2, 2_500), noise=Noise("gaussian", Fraction(2)), prior=HUNDRED
    )
    choice, found = run_attack("auto", Target.of(noisy), noisy)
    assert choice.method == "bounded"
    assert found.values.min() >= 0
    assert found.values.max() <= 100
    off = (found.values - x) / found.confidence
    assert 0.7 < float(np.sqrt(np.mean(off**2))) < 1.2
    kaczmarz = Kaczmarz(Target.of(noisy))
    kaczmarz.observe(noisy)
    assert np.isfinite(kaczmarz.estimate().values).all()


def test_errors_without_a_prior_are_those_of_the_noise_and_unknown_where_nothing_is_known() -> None:
    A, x = questions(0, 3_000, 1_600), np.random.default_rng(0).normal(0, 1000, 1_600)
    A = sp.hstack([A, sp.csr_array((3_000, 5))]).tocsr()  # five people whom nobody asked about
    y = A @ np.append(x, np.zeros(5)) + np.random.default_rng(1).normal(0, 3, 3_000)
    e = from_arrays(A, y, noise=Noise("gaussian", Fraction(3)))
    found = run_attack("auto", Target.of(e), e)[1]
    off = (found.values[:-5] - x) / found.confidence[:-5]
    assert 0.8 < float(np.sqrt(np.mean(off**2))) < 1.25
    assert np.isinf(found.confidence[-5:]).all()


def test_what_is_partly_determined_is_told_apart(always_sparse: None) -> None:
    pairs = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [1, 0, 1, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 1, 0]])
    A = sp.csr_array(np.hstack([pairs, [[0], [0], [0], [1], [0]]]))  # the last two are only asked about together
    e = from_arrays(A, A @ np.array([3.0, 50, 70, 20, 10, 40]), prior=HUNDRED)
    found = Bounded(Target.of(e))
    found.observe(e)
    errors = found.estimate().confidence
    assert (errors[:4] < 1e-4).all()
    assert (errors[:4] > 0).all()
    assert (errors[4:] > 5).all()


def test_contradictions_are_found_on_sparse_rows(always_sparse: None) -> None:
    A = sp.csr_array(np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]))
    e = from_arrays(A, [1.0, 2.0, 3.0])
    with pytest.raises(ContradictionError, match="query"):
        run_attack("least-squares", Target.of(e), e)
    high = from_arrays(sp.csr_array(np.eye(2)), [1.0, 200.0], prior=HUNDRED)
    with pytest.raises(ContradictionError, match="query 2"):
        run_attack("bounded", Target.of(high), high)


def test_intervals_and_laplace_noise_on_sparse_rows(always_sparse: None) -> None:
    A, x = questions(2, 90, 30), np.random.default_rng(5).integers(0, 101, 30).astype(np.float64)
    rounded = from_arrays(A, np.round((A @ x) / 10) * 10, noise=Noise("rounded", Fraction(5)), prior=HUNDRED)
    found = run_attack("bounded", Target.of(rounded), rounded)[1]
    assert np.abs(A @ found.values - np.round((A @ x) / 10) * 10).max() <= 5 + 1e-4
    noisy = from_arrays(
        A, A @ x + np.random.default_rng(1).laplace(0, 2, 90), noise=Noise("laplace", Fraction(2)), prior=HUNDRED
    )
    off = run_attack("bounded", Target.of(noisy), noisy)[1]
    assert float(np.sqrt(np.mean((off.values - x) ** 2))) < 3 * float(np.sqrt(np.mean(off.confidence**2)))


@pytest.mark.parametrize("prior", [None, HUNDRED])
def test_kaczmarz_on_sparse_rows_is_kaczmarz(
    prior: Prior | None, always_sparse: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    A, x = questions(8, 80, 30), np.random.default_rng(5).uniform(0, 100, 30)
    found = []
    for share in (2.0, 0.0):
        monkeypatch.setattr(assembly, "SPARSE", share)
        e = from_arrays(A if share else A.toarray(), A @ x, prior=prior)
        attack = Kaczmarz(Target.of(e), rng=np.random.default_rng(1))
        for part in split_into_blocks(e, 33):
            attack.observe(part)
        found.append((attack.estimate(), run_attack("kaczmarz", Target.of(e), e)[1]))
    for sparse, dense in zip(*found, strict=True):
        assert np.allclose(sparse.values, dense.values, atol=1e-6)
        assert np.allclose(sparse.confidence, dense.confidence, rtol=1e-3, atol=1e-4)


def test_interrupted_it_gives_the_best_so_far_and_no_certainty(always_sparse: None) -> None:
    def stop(step: int, _: float) -> None:
        raise KeyboardInterrupt

    A = questions(8, 80, 30)
    e = from_arrays(A, A @ np.ones(30), prior=HUNDRED)
    found = fit_sparse(assemble(Target.of(e), e), stop)
    assert found.status is SolverStatus.INTERRUPTED
    assert np.allclose(found.confidence, Target.of(e).deviation)


def test_moderated_variances_keep_their_mean() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.chisquare(3, 4_000) / 3
    found = moderate_variances(drawn, np.zeros(4_000), np.full(4_000, 3.0))
    assert abs(found.mean() - 1) < 0.05
    assert found.std() < 0.6 * drawn.std()


def test_collection_of_garbage_is_as_it_was_after_evidence_or_an_error() -> None:
    """It is put off while evidence is made, and only then; whole sums that repeat are read once."""
    A = sp.csr_array(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]))
    assert gc.isenabled()
    made = from_arrays(A, [2.5, 2.5, 4.0])
    with pytest.raises(DataError, match="not a finite number"):
        from_arrays(A * np.inf, [2.5, 2.5, 4.0])
    assert gc.isenabled()
    first, second, third = (entry.answer for entry in made.transcript.entries)
    assert first is second
    assert first is not None
    assert third is not None
    assert (first.lo, third.hi) == (Fraction(5, 2), Fraction(4))
    gc.disable()
    try:
        from_arrays(A, [2.5, 2.5, 4.0])
        assert not gc.isenabled()
    finally:
        gc.enable()
