"""Evidence straight from arrays: for experiments and benchmarks without SQL or a table."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Atoms, Weights
from keyhole.basis.atoms.sparse import PACKED, SparseAtoms, group_columns, packed_rows
from keyhole.errors import DataError
from keyhole.gather.evidence import Constraint, Evidence, System
from keyhole.model.forms import UNIT, Feature, Part
from keyhole.model.predicate import Opaque, Predicate
from keyhole.model.prior import Knowledge, Prior
from keyhole.model.query import Aggregate, Query, Term
from keyhole.model.transcript import Answer, Noise, Transcript
from keyhole.model.transcript import Entry as Asked
from keyhole.solve.decode.bitrows import pack

NOTHING = Fraction(0)
PUBLIC: frozenset[str] = frozenset()


def from_arrays(
    A: Any,
    answers: Sequence[float] | NDArray[Any],
    *,
    noise: Noise | None = None,
    prior: Prior | None = None,
    column: str = "x",
    first: int = 1,
) -> Evidence:
    """Evidence that the questions A (m, n) about n records were answered so. 0/1 rows are subset sums; others weights.

    A is an array or a scipy.sparse matrix of any format, which is never made dense. Records with equal columns of A
    form one atom. `first` numbers the first row, for blocks of one log. O(mn), or O(entries + n log n) if sparse.

    >>> e = from_arrays(np.array([[1, 1, 0], [0, 0, 1]]), [3.0, 1.0])
    >>> e.n, e.systems[0].atoms.K, [c.number for c in e.systems[0].constraints]
    (3, 2, ['1', '2'])
    """
    given = _answers(answers, first)
    sparse = hasattr(A, "tocsc") and hasattr(A, "nnz")
    matrix = A if sparse else np.atleast_2d(np.asarray(A))
    if len(matrix.shape) != 2:
        raise DataError(f"A has {len(matrix.shape)} dimensions: give a matrix with a row for each question")
    m = matrix.shape[0]
    if len(given) != m:
        raise DataError(f"{m} questions with {len(given)} answers: give one answer for each row of A")
    with _without_collection():
        return _evidence(matrix, sparse, answers, noise, Knowledge({column: prior or Prior()}), column, first)


@contextmanager
def _without_collection() -> Iterator[None]:
    """A million objects are made that all stay: to look for cycles among them again and again took as long again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _evidence(
    matrix: Any, sparse: bool, answers: Any, noise: Noise | None, knowledge: Knowledge, column: str, first: int
) -> Evidence:
    m, n = matrix.shape
    conditions = [row_condition(j) for j in range(m)]
    atoms, binary = (_sparse_atoms if sparse else _dense_atoms)(matrix, conditions)
    rows, asked = [], []
    terms, exact = (Term(column),), noise is None
    read: dict[float, Answer] = {}  # whole sums repeat: each number is read once
    for j, value in enumerate(np.asarray(answers).ravel().tolist()):
        answer = read.get(value)
        if answer is None:
            answer = read[value] = _answer(Decimal(repr(value)), noise)
        number = str(first + j)
        part = Part(0, conditions[j], UNIT, None if binary else f"weight {j}")
        rows.append(Constraint(number, (part,), UNIT, NOTHING, answer.lo, answer.hi, noise, exact))
        label = f"row {number}"
        asked.append(Asked(number, label, Query(Aggregate.SUM, terms, label=label), answer))
    system = System((column,), (), (Feature(column, 1, ()),), atoms, tuple(rows))
    return Evidence(n, Transcript(tuple(asked)), knowledge, (system,))


def _answers(answers: Sequence[float] | NDArray[Any], first: int) -> NDArray[np.float64]:
    try:
        given = np.asarray(answers, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise DataError("the answers are not all numbers: give one finite number for each row of A") from None
    if not np.isfinite(given).all():
        wrong = int(np.flatnonzero(~np.isfinite(given))[0])
        raise DataError(f"answer {first + wrong} is {given[wrong]}: an answer must be a finite number")
    return given


def _dense_atoms(A: NDArray[Any], conditions: list[Predicate]) -> tuple[Atoms, bool]:
    """The atoms of an array, and whether it is one of zeros and ones."""
    m, n = A.shape
    binary = bool(np.isin(A, (0, 1)).all())
    if not binary:
        _refuse_odd(A)
    patterns = pack(A.T) if binary and m else np.ascontiguousarray(A.T)
    if m:
        patterns = np.ascontiguousarray(patterns)
        keys = patterns.view([("", patterns.dtype)] * patterns.shape[1]).ravel()
        _, at, of, sizes = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        order = np.argsort(at)  # in the order of the first record of each
        at, sizes, of = at[order], sizes[order], np.argsort(order)[of.ravel()]
    else:
        at, of, sizes = np.zeros(1, dtype=np.int64), np.zeros(n, dtype=np.int64), np.array([n])
    coefficients = A[:, at]
    masks = coefficients != 0
    weights: tuple[Weights, ...] = ()
    if not binary:
        weights = tuple(Weights.of(Fraction(str(c)) for c in row.tolist()) for row in coefficients)
    atoms = Atoms(
        of.astype(np.int32).ravel(), sizes.astype(np.int64), at.astype(np.int64),
        pack(masks) if m else np.zeros((0, 1), dtype=np.uint64), weights,
    )  # fmt: skip
    return atoms.named(conditions, [f"weight {j}" for j in range(len(weights))]), binary


def _sparse_atoms(A: Any, conditions: list[Predicate]) -> tuple[Atoms, bool]:
    """The same of a scipy.sparse matrix: duplicate entries are added up, stored zeros are none."""
    by_column = A.tocsc(copy=True)
    if np.dtype(by_column.dtype).kind not in "buif":
        raise DataError(f"A has entries of type {by_column.dtype}: give a sparse matrix of real numbers")
    by_column = by_column.astype(np.float64)
    _refuse_odd(by_column.data)
    by_column.sum_duplicates()
    by_column.eliminate_zeros()
    by_column.sort_indices()
    m, _ = by_column.shape
    starts, inside = by_column.indptr.astype(np.int64), by_column.indices.astype(np.int32)
    of, sizes, at = group_columns(starts, inside, by_column.data)
    rows = by_column[:, at].tocsr()
    rows.sort_indices()
    binary = bool((rows.data == 1).all())
    K = len(sizes)
    table = np.zeros((0, max(1, (K + 63) // 64)), dtype=np.uint64)
    if 0 < m * K <= PACKED:
        table = packed_rows(rows.indptr, rows.indices, K)
    made = SparseAtoms(
        of, sizes, at, table, (),
        starts=rows.indptr.astype(np.int64), columns=rows.indices.astype(np.int32), values=rows.data,
    )  # fmt: skip
    return made.named(conditions, [] if binary else [f"weight {j}" for j in range(m)]), binary


def _refuse_odd(entries: NDArray[Any]) -> None:
    try:
        fine = bool(np.isfinite(entries).all())
    except TypeError:
        raise DataError(f"A has entries of type {entries.dtype}: give a matrix of real numbers") from None
    if not fine:
        raise DataError("A has an entry that is not a finite number: a question adds up people with finite weights")


def row_condition(j: int) -> Predicate:
    """The condition that stands for the records of row j."""
    return Opaque(f"row {j}", PUBLIC)


def _answer(value: Decimal, noise: Noise | None) -> Answer:
    if noise is None:
        exact = Fraction(value)
        return Answer(value, exact, exact)
    if noise.kind in ("uniform", "rounded"):
        return Answer(value, Fraction(value) - noise.scale, Fraction(value) + noise.scale, noise)
    return Answer(value, None, None, noise)


def split_into_blocks(evidence: Evidence, size: int) -> list[Evidence]:
    """The same evidence in blocks of at most `size` rows: how a log arrives over time.

    >>> len(split_into_blocks(from_arrays(np.eye(5), np.ones(5)), 2))
    3
    """
    found = []
    longest = max((len(s.constraints) for s in evidence.systems), default=0)
    for start in range(0, longest, size):
        systems = tuple(replace(s, constraints=s.constraints[start : start + size]) for s in evidence.systems)
        found.append(replace(evidence, systems=systems))
    return found or [evidence]
