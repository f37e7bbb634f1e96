"""The row space against a brute-force twin in fractions, on both the numpy and the compiled path."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.effort import effort

from keyhole.solve import modular
from keyhole.solve.certify import Lifting, rational
from keyhole.solve.modular import Echelon, Field, is_prime, random_prime
from keyhole.solve.rowspace import RowMatrix, RowSpace
from keyhole.solve.rowspace import factor as rowspace_factor
from keyhole.solve.rowspace import matrix as rowspace_matrix
from keyhole.solve.rowspace.factor import Factor
from keyhole.solve.rowspace.verify import verify

Rows = list[list[int]]


def rank(rows: Rows) -> int:
    """Rank over the rationals by elimination in fractions."""
    work = [[Fraction(v) for v in row] for row in rows]
    r = 0
    for c in range(len(work[0]) if work else 0):
        at = next((i for i in range(r, len(work)) if work[i][c]), None)
        if at is None:
            continue
        work[r], work[at] = work[at], work[r]
        for i in range(r + 1, len(work)):
            if work[i][c]:
                f = work[i][c] / work[r][c]
                work[i] = [a - f * b for a, b in zip(work[i], work[r], strict=True)]
        r += 1
    return r


def determined_by_deletion(rows: Rows, K: int) -> list[int]:
    """Columns whose deletion lowers the rank."""
    full = rank(rows)
    return [k for k in range(K) if rank([row[:k] + row[k + 1 :] for row in rows]) < full]


def combination(rows: Rows, weights: dict[int, Fraction], K: int) -> list[Fraction]:
    return [sum((w * rows[i][k] for i, w in weights.items()), Fraction(0)) for k in range(K)]


@contextmanager
def everything_is_large() -> Iterator[None]:
    """Send tiny matrices through peeling, components and the compiled kernels."""
    saved = rowspace_matrix._SMALL_CELLS
    rowspace_matrix._SMALL_CELLS = -1
    try:
        yield
    finally:
        rowspace_matrix._SMALL_CELLS = saved


@contextmanager
def as_it_is() -> Iterator[None]:
    yield


PATHS = {"numpy": as_it_is, "compiled": everything_is_large}


@st.composite
def matrices(draw: st.DrawFn) -> tuple[Rows, int]:
    m, K = draw(st.integers(0, 7)), draw(st.integers(0, 8))
    entries = draw(
        st.sampled_from(
            [
                st.integers(0, 1),
                st.integers(-3, 3),
                st.sampled_from([0, 0, 1, 1, 2**40, -(10**25), 7 * 10**30]),
                st.sampled_from([0, 0, 0, 0, 1]),
            ]
        )
    )
    rows = [[draw(entries) for _ in range(K)] for _ in range(m)]
    if m > 1 and draw(st.booleans()):
        rows[draw(st.integers(0, m - 1))] = list(rows[draw(st.integers(0, m - 1))])  # a repeated query
    if m > 2 and draw(st.booleans()):
        rows[0] = [a + b for a, b in zip(rows[1], rows[2], strict=True)]  # a total of two others
    return rows, K


def check_everything(rows: Rows, K: int, rng: np.random.Generator) -> None:
    A = RowMatrix.from_sparse([dict(enumerate(row)) for row in rows], K)
    S = RowSpace(A, rng=rng)
    r = rank(rows)
    assert S.rank == r
    assert S.complete
    truth = determined_by_deletion(rows, K)
    assert S.determined().tolist() == truth
    for k in range(K):
        w = S.weights(k)
        assert (w is not None) == (k in truth)
        if w is not None:
            assert combination(rows, w, K) == [int(j == k) for j in range(K)]
            assert list(w) == sorted(w)
            assert all(w.values())
    relations = S.dependencies()
    assert len(relations) == len(rows) - r
    for w in relations:
        assert not any(combination(rows, w, K))
    if relations:
        assert rank_of_fractions(relations, len(rows)) == len(relations)
    reduced = list(S.reduced_rows())
    assert len(reduced) == r
    for w, functional in reduced:
        assert combination(rows, w, K) == [functional.get(k, 0) for k in range(K)]
    if reduced:
        assert rank([[f.get(k, 0) for k in range(K)] for _, f in reduced]) == r


def rank_of_fractions(relations: list[dict[int, Fraction]], m: int) -> int:
    dense = [[w.get(i, Fraction(0)) for i in range(m)] for w in relations]
    scale = [np.lcm.reduce([v.denominator for v in row], dtype=object) for row in dense]
    return rank([[int(v * s) for v in row] for row, s in zip(dense, scale, strict=True)])


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=effort(700), deadline=None)
@given(case=matrices(), seed=st.integers(0, 2**32 - 1))
def test_equals_brute_force(path: str, case: tuple[Rows, int], seed: int) -> None:
    with PATHS[path]():
        check_everything(*case, np.random.default_rng(seed))


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=effort(300), deadline=None)
@given(case=matrices(), data=st.data())
def test_express_finds_weights_exactly_for_members(path: str, case: tuple[Rows, int], data: st.DataObject) -> None:
    rows, K = case
    member = data.draw(st.booleans())
    if member:
        mix = [data.draw(st.integers(-3, 3)) for _ in rows]
        target = [sum(c * row[k] for c, row in zip(mix, rows, strict=True)) for k in range(K)]
    else:
        target = [data.draw(st.integers(-2, 2)) for _ in range(K)]
    inside = rank([*rows, target]) == rank(rows) if K else True
    assert inside or not member
    with PATHS[path]():
        S = RowSpace(RowMatrix.from_sparse([dict(enumerate(row)) for row in rows], K))
        w = S.express(dict(enumerate(target)))
    assert (w is not None) == inside
    if w is not None:
        assert combination(rows, w, K) == target


def chain(N: int) -> Rows:
    """Queries {k, k-1, k-3}: lower triangular, so everybody is exposed; the inverse grows like 1.47^k."""
    return [[int(k - j in (0, 1, 3)) for j in range(N)] for k in range(N)]


def chain_with_stranger(N: int, at: int) -> Rows:
    """One more person, in query `at` alone. The null vector then has Narayana's cows 1, 1, 1, 2, 3, 4, 6, ... (up to
    sign) in the columns from `at` on, all non-zero: exactly the columns before `at` stay exposed."""
    return [[*row, int(k == at)] for k, row in enumerate(chain(N))]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("N", [1, 4, 40, 120, 300])
def test_chain_all_none_and_half_exposed(path: str, N: int) -> None:
    with PATHS[path]():
        everybody = RowSpace(RowMatrix.from_dense(np.array(chain(N))))
        nobody = RowSpace(RowMatrix.from_dense(np.array(chain_with_stranger(N, 0))))
        half = RowSpace(RowMatrix.from_dense(np.array(chain_with_stranger(N, N // 2))))
        assert everybody.determined().tolist() == list(range(N))
        assert nobody.determined().tolist() == []
        assert half.determined().tolist() == list(range(N // 2))
        assert everybody.rank == nobody.rank == half.rank == N
        w = everybody.weights(N - 1)
        assert w is not None
        a, b, c = 1, 1, 1  # Narayana's cows: the weights of the last column, from the last query back
        for i in range(N - 1, -1, -1):
            assert w.get(i, 0) == (-1) ** (N - 1 - i) * a
            a, b, c = b, c, c + a


@pytest.mark.parametrize("path", PATHS)
def test_fractions_of_a_dense_inverse(path: str) -> None:
    """A random 0/1 matrix of full column rank exposes everybody, with weights of many digits."""
    rng = np.random.default_rng(5)
    dense = rng.integers(0, 2, size=(45, 40))
    with PATHS[path]():
        A = RowMatrix.from_dense(dense)
        S = RowSpace(A)
        assert S.rank == 40
        assert S.determined().tolist() == list(range(40))
        for k in (0, 17, 39):
            w = S.weights(k)
            assert w is not None
            assert verify(A, w, {k: 1})
            assert combination(dense.tolist(), w, 40) == [int(j == k) for j in range(40)]
        assert len(S.dependencies()) == 5


@pytest.mark.parametrize("path", PATHS)
def test_unlucky_primes_are_noticed_and_replaced(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The determinant is the product of two primes; the second row vanishes modulo each of them."""
    bad = [4194319, 4194329]
    assert all(is_prime(p) for p in bad)
    primes = [*bad, 5000011]
    assert is_prime(primes[-1])
    monkeypatch.setattr(rowspace_factor, "random_prime", lambda rng: primes.pop(0))
    A = RowMatrix.from_sparse([{0: 1, 1: 1, 2: 1}, {0: bad[0] * bad[1], 1: -1, 2: -1}], K=3)
    with PATHS[path]():
        S = RowSpace(A)
    assert (S.rank, S.determined().tolist()) == (2, [0])
    assert S.weights(0) == {i: Fraction(1, bad[0] * bad[1] + 1) for i in range(2)}
    # modulo a prime that divides the determinant the two rows coincide
    primes = [*bad, 5000011]
    B = RowMatrix.from_sparse([{0: 1, 1: 1}, {0: bad[0] * bad[1]}], K=2)
    with PATHS[path]():
        S = RowSpace(B)
    assert not primes, "both unlucky primes were tried"
    assert (S.rank, S.determined().tolist()) == (2, [0, 1])
    assert S.weights(0) == {1: Fraction(1, bad[0] * bad[1])}


def test_certificates_fail_on_a_wrong_candidate() -> None:
    """A column that is not determined is refused by the exact check, however it was proposed."""
    with everything_is_large():
        F = Factor(RowMatrix.from_dense([[1, 1, 0], [0, 0, 1]]), np.random.default_rng(0))
        assert set(F.certify([0, 1, 2])) == {2}


@pytest.mark.parametrize("path", PATHS)
def test_short_proofs_are_preferred(path: str) -> None:
    """Person 5 follows from two queries directly, and from six by way of single people."""
    K = 6
    rows = [[int(j == i) for j in range(K)] for i in range(5)]
    rows += [[1] * 6, [1, 1, 1, 1, 1, 0]]
    with PATHS[path]():
        w = RowSpace(RowMatrix.from_dense(np.array(rows))).weights(5)
    assert w == {5: 1, 6: -1}


@pytest.mark.parametrize("path", PATHS)
def test_three_query_proof_is_found(path: str) -> None:
    rng = np.random.default_rng(1)
    K = 40
    base = rng.integers(0, 2, size=(30, K))
    left, right = np.zeros(K, dtype=np.int64), np.zeros(K, dtype=np.int64)
    left[:20] = rng.integers(0, 2, size=20)
    right[20:39] = rng.integers(0, 2, size=19)
    both = left + right
    both[39] = 1
    rows = np.vstack([base, left, right, both, base[:3] * [[1] * K] ^ base[3:6]])
    with PATHS[path]():
        S = RowSpace(RowMatrix.from_dense(np.vstack([rows, base[:1]])))
        assert S.weights(39) == {30: -1, 31: -1, 32: 1}


@pytest.mark.parametrize("path", PATHS)
def test_repeated_and_empty_queries_give_sparse_dependencies(path: str) -> None:
    rows = [[1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 1, 1, 0]]
    with PATHS[path]():
        found = RowSpace(RowMatrix.from_dense(np.array(rows))).dependencies()
    assert sorted(map(sorted, found)) == [[0, 2], [1, 4], [3]]


@settings(max_examples=effort(60), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 90), K=st.integers(1, 200))
def test_paths_agree_with_components_weights_and_differences(seed: int, m: int, K: int) -> None:
    """Block-diagonal logs with differencing pairs and weighted rows: both paths, same verdict, verified proofs."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, max(1, K // 15) + 1, size=K)
    dense = np.zeros((m, K), dtype=np.int64)
    for i in range(m):
        inside = blocks == rng.integers(0, blocks.max() + 1)
        dense[i] = inside & (rng.random(K) < 0.5)
        if i and rng.random() < 0.5:
            dense[i] = dense[rng.integers(0, i)]
            dense[i, rng.integers(0, K)] ^= 1
        if rng.random() < 0.1:
            dense[i] *= rng.integers(-5, 6)
    A = RowMatrix.from_dense(dense)
    small = RowSpace(A)
    with everything_is_large():
        large = RowSpace(A)
        assert small.rank == large.rank
        assert small.determined().tolist() == large.determined().tolist()
        for k in large.determined().tolist():
            w = large.weights(k)
            assert w is not None
            assert verify(A, w, {k: 1})
        assert len(large.dependencies()) == m - large.rank
    float_rank = np.linalg.matrix_rank(dense.astype(np.float64))
    assert small.rank == float_rank or m > 40  # floats may lose rank on long logs, never on short ones here


def differencing_log(people: int, bases: int, K: int, rng: np.random.Generator) -> RowMatrix:
    """`bases` random queries; each of `people` more differs from an earlier query in one person, and one in ten
    lacks a second person who was given away before, so that proofs build on proofs."""
    rows = rng.random((bases + people, K)) < 0.3
    chosen = rng.permutation(K)[:people]
    for t, k in enumerate(chosen.tolist()):
        row = rows[rng.integers(0, bases)].copy()
        row[k] ^= True
        if t % 10 == 9:
            row[chosen[t - 5]] ^= True
        rows[bases + t] = row
    return RowMatrix.from_dense(rows.astype(np.int64))


def test_hundreds_exposed_are_all_certified_by_peeling() -> None:
    A = differencing_log(600, 50, 3000, np.random.default_rng(3))
    assert not A.is_small
    S = RowSpace(A)
    assert S.rank == 650
    exposed = S.determined().tolist()
    assert len(exposed) == 600
    lengths = []
    for k in exposed:
        w = S.weights(k)
        assert w is not None
        assert verify(A, w, {k: 1})
        lengths.append(len(w))
    assert sorted(set(lengths)) == [2, 3, 4] or max(lengths) <= 4
    unpeeled = Factor(A, np.random.default_rng(4))
    assert set(unpeeled.certify(unpeeled.candidates().tolist())) == set(exposed)


def test_large_matrix_in_one_piece_with_long_proofs() -> None:
    """Everybody exposed by a long combination: peeling finds nothing, the lifted proofs have large weights."""
    N = 700
    A = RowMatrix.from_dense(np.array(chain_with_stranger(N, 600))[1:])
    # without query 0 the first columns are open; with one more query over columns 0..2 they close again
    assert not A.is_small
    assert RowSpace(A).determined().tolist() == []
    whole = RowMatrix.stack([A, RowMatrix.from_sparse([{0: 1, 1: 1, 2: 1}, {0: 2, 2: 1}], K=N + 1)])
    S = RowSpace(whole)
    truth = [k for k in range(N + 1) if k < 600]
    assert S.determined().tolist() == truth
    w = S.weights(599)
    assert w is not None
    assert verify(whole, w, {599: 1})


@pytest.mark.parametrize("path", PATHS)
def test_reduced_rows_keep_their_limit(path: str) -> None:
    rows = [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 1]]
    with PATHS[path]():
        S = RowSpace(RowMatrix.from_dense(np.array(rows)), rng=np.random.default_rng(0))
        assert all(len(f) <= 2 for _, f in S.reduced_rows(2))
        assert {0: 1, 1: 1} in [f for _, f in S.reduced_rows(2)]
        assert len(list(S.reduced_rows())) == 3


def test_superincreasing_weights_single_everybody_out_only_with_integrality() -> None:
    """One weighted sum is one equation; with 30 different ones the reals are determined too."""
    K = 30
    rows = [{k: 2 ** (k * (i + 1) % 97) for k in range(K)} for i in range(K)]
    one = RowSpace(RowMatrix.from_sparse(rows[:1], K))
    assert (one.rank, one.determined().tolist()) == (1, [])
    many = RowSpace(RowMatrix.from_sparse(rows, K))
    dense = [[row[k] for k in range(K)] for row in rows]
    assert many.rank == rank(dense)


def test_verify_rejects_every_small_lie() -> None:
    A = RowMatrix.from_dense([[1, 1, 1], [1, 0, 0], [0, 0, 2]])
    honest = {0: Fraction(1), 1: Fraction(-1), 2: Fraction(-1, 2)}
    assert verify(A, honest, {1: 1})
    assert not verify(A, honest, {1: 2})
    assert not verify(A, honest, {0: 1})
    assert not verify(A, {**honest, 2: Fraction(-1, 2) + Fraction(1, 2**80)}, {1: 1})
    assert not verify(A, {**honest, 0: Fraction(1 + 2**64)}, {1: 1})
    assert not verify(A, {7: Fraction(1)}, {1: 1})
    assert not verify(A, {}, {1: 1})
    assert verify(A, {}, {})


@settings(max_examples=effort(200), deadline=None)
@given(case=matrices(), data=st.data())
def test_verify_equals_fractions_on_both_paths(case: tuple[Rows, int], data: st.DataObject) -> None:
    rows, K = case
    A = RowMatrix.from_sparse([dict(enumerate(row)) for row in rows], K)
    size = data.draw(st.sampled_from([3, 10**6, 10**40]))
    w = {i: Fraction(data.draw(st.integers(-size, size)), data.draw(st.integers(1, 9))) for i in range(len(rows))}
    true = combination(rows, w, K)
    scale = int(np.lcm.reduce([v.denominator for v in true], dtype=object)) if K else 1
    w = {i: v * scale for i, v in w.items()}
    target = {k: int(v * scale) for k, v in enumerate(true)}
    lie = dict(target)
    if K:
        lie[data.draw(st.integers(0, K - 1))] += data.draw(st.sampled_from([1, -1, 2**24, 2**62, 2**64]))
    for path in PATHS.values():
        with path():
            assert verify(A, w, target)
            assert not K or not verify(A, w, lie)


def test_bits_and_dense_and_sparse_say_the_same() -> None:
    rng = np.random.default_rng(2)
    dense = rng.integers(0, 2, size=(5, 130))
    bits = np.zeros((5, 3), dtype=np.uint64)
    for i, k in zip(*np.nonzero(dense), strict=True):
        bits[i, k // 64] |= np.uint64(1) << np.uint64(k % 64)
    A, B = RowMatrix.from_bits(bits, 130), RowMatrix.from_dense(dense)
    C = RowMatrix.from_sparse([{int(k): 1 for k in np.flatnonzero(row)} for row in dense], 130)
    for i in range(5):
        assert np.array_equal(A.row(i), dense[i])
        assert np.array_equal(B.row(i), dense[i])
        assert np.array_equal(C.row(i), dense[i])
    assert np.array_equal(A.patterns[:, 0] & np.uint64(31), dense.T @ (1 << np.arange(5)))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("m", "K"), [(0, 3), (3, 0), (1, 1), (64, 64), (65, 130), (200, 70)])
def test_rows_and_patterns_are_transposes(path: str, m: int, K: int) -> None:
    dense = np.random.default_rng(m).integers(0, 2, size=(m, K))
    with PATHS[path]():
        A = RowMatrix.from_dense(dense)
        B = RowMatrix.from_patterns(A.patterns, m)
        assert np.array_equal(A.bits, B.bits)
        assert np.array_equal(RowMatrix.from_bits(B.bits, K).patterns, A.patterns)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RowMatrix.from_bits(np.zeros((2, 2), dtype=np.uint64), 64), "need \\(m, 1\\) words"),
        (lambda: RowMatrix.from_bits(np.full((1, 1), 8, dtype=np.uint64), 3), "beyond column 2"),
        (lambda: RowMatrix.from_dense([[1, 2], [1]]), "different lengths"),
        (lambda: RowMatrix.from_dense(np.zeros((2, 2))), "integer array"),  # type: ignore[arg-type]
        (lambda: RowMatrix.from_sparse([{4: 1}], 3), "row 0 names column 4"),
        (lambda: RowMatrix.from_entries([(np.array([1, 1]), np.array([2, 3]))], 3), "must ascend"),
        (lambda: RowMatrix.from_entries([(np.array([1, 3]), np.array([2, 3]))], 3), "outside 0 .. 2"),
        (lambda: RowMatrix.from_entries([(np.array([1]), np.array([2**62]))], 3), "from_sparse"),
        (lambda: RowMatrix.from_patterns(np.zeros((2, 2), dtype=np.uint64), 64), "need \\(K, 1\\) words"),
        (lambda: RowMatrix.from_patterns(np.full((1, 1), 8, dtype=np.uint64), 3), "beyond row 2"),
        (lambda: RowMatrix.stack([]), "at least one"),
        (lambda: RowMatrix.stack([RowMatrix.from_sparse([], 2), RowMatrix.from_sparse([], 3)]), "2, 3"),
    ],
)
def test_bad_matrices_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("path", PATHS)
def test_weighted_rows_that_were_given_as_arrays(path: str) -> None:
    """SUM(x * w) over everybody and over all but one: his weighted value, divided by his weight."""
    w = np.array([3, 5, -7, 2])
    everybody = (np.arange(4), w)
    others = (np.array([0, 1, 3]), w[[0, 1, 3]])
    with PATHS[path]():
        S = RowSpace(RowMatrix.from_entries([everybody, others], K=4))
        assert S.determined().tolist() == [2]
        assert S.weights(2) == {0: Fraction(-1, 7), 1: Fraction(1, 7)}


def test_columns_and_rows_out_of_range_are_refused() -> None:
    S = RowSpace(RowMatrix.from_dense([[1, 0]]))
    with pytest.raises(IndexError, match="column 2"):
        S.weights(2)
    with pytest.raises(IndexError, match="column -1"):
        S.express({-1: 1})
    with pytest.raises(IndexError, match="row 1"):
        S.matrix.row(1)


def test_small_logs_do_not_load_the_compiler() -> None:
    code = (
        "import sys; from keyhole.solve.rowspace import RowMatrix, RowSpace;"
        "S = RowSpace(RowMatrix.from_dense([[1, 1, 1], [1, 0, 0], [0, 0, 1]]));"
        "S.weights(1); S.dependencies(); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_progress_is_reported() -> None:
    seen: list[tuple[str, int, int]] = []
    with everything_is_large():
        RowSpace(
            RowMatrix.from_dense(np.array(chain(6))[:, :5]),
            progress=lambda *event: seen.append(event),
        )
    assert {stage for stage, _, _ in seen} <= {"screen", "dependencies", "certify"}
    assert all(0 <= done <= total for _, done, total in seen)


@settings(max_examples=effort(60), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 60), K=st.integers(1, 60), rank_cap=st.integers(1, 60))
def test_echelon_is_the_transform_on_both_fields(seed: int, m: int, K: int, rank_cap: int) -> None:
    from keyhole.solve.modular_kernels import CompiledField

    rng = np.random.default_rng(seed)
    p = random_prime(rng)
    low = min(rank_cap, m, K)
    A = (rng.integers(0, p, size=(m, low)) @ rng.integers(0, 2, size=(low, K)) % p).astype(np.float64)
    for field in (Field(p), CompiledField(p)):
        balanced = field.reduce(A.copy())
        E = Echelon(m, field)
        E.absorb(np.arange(K), balanced)
        r = E.rank
        R = E.transform(balanced)
        assert np.array_equal(R[E.pivot_rows[:r]][:, E.pivot_cols[:r]], np.eye(r))
        assert not R[E.free_rows()].any()
        assert np.abs(R).max(initial=0) <= (p + 1) / 2


def test_products_are_exact_at_the_largest_residues() -> None:
    p = 5931641 if is_prime(5931641) else max(n for n in range(5931000, modular.HIGH) if is_prime(n))
    half = float(p // 2)
    X, Y = np.full((2, 1500), half), np.full((1500, 2), -half)
    want = -((p // 2) ** 2) * 1500 % p
    assert (Field(p).product(X, Y).astype(np.int64) % p == want).all()


def test_lifting_in_every_dtype() -> None:
    p = 4194319
    field = Field(p)
    for dtype, size in ((np.float64, 5), (np.int64, 2**29), (object, 10**30)):
        B = np.array([[size, 1], [1, 3]], dtype=dtype)
        inverse = field.inverse(field.residues(np.array([[size, 1], [1, 3]], dtype=object)))
        solution = Lifting(B, inverse, field).solve(np.array([[1, 0]], dtype=dtype), np.array([0, 1]))[0]
        assert solution is not None
        d = 3 * size - 1
        assert solution.weights() == {0: Fraction(3, d), 1: Fraction(-1, d)}


@given(n=st.integers(-(10**9), 10**9), d=st.integers(1, 10**9))
def test_rational_reconstruction_inverts(n: int, d: int) -> None:
    modulus = 2**61 - 1
    f = Fraction(n, d)
    assert rational(n * pow(d, -1, modulus), modulus) == (f.numerator, f.denominator)


@pytest.mark.soak
@pytest.mark.parametrize("path", PATHS)
def test_thousands_of_larger_matrices_equal_brute_force(path: str) -> None:
    rng = np.random.default_rng(11)
    for _ in range(3000):
        m, K = rng.integers(1, 12, size=2)
        top = rng.choice([1, 1, 3, 40])
        rows = rng.integers(-top if top > 1 else 0, top + 1, size=(m, K)).tolist()
        if m > 2 and rng.random() < 0.5:
            rows[0] = [a + b for a, b in zip(rows[1], rows[-1], strict=True)]
        with PATHS[path]():
            check_everything(rows, int(K), rng)


@pytest.mark.soak
def test_ten_thousand_exposed_are_all_certified() -> None:
    A = differencing_log(10_000, 500, 40_000, np.random.default_rng(12))
    S = RowSpace(A)
    exposed = S.determined().tolist()
    assert len(exposed) == 10_000
    assert S.rank == 10_500
    for k in exposed:
        w = S.weights(k)
        assert w is not None
        assert verify(A, w, {k: 1})
