"""Exact weights for what an online row space found modulo its prime: verified in integers over all records."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.modular import balance
from keyhole.solve.rowspace import RowMatrix, RowSpace
from keyhole.solve.rowspace.verify import verify

Ints = NDArray[np.int64]


def small_proof(matrix: RowMatrix, line: Ints, record: int, p: int) -> dict[int, Fraction] | None:
    """The row of T itself when d times it, d = 1..12, is a vector of small integers; verified exactly."""
    for d in range(1, 13):
        scaled = [balance(int(w) * d, p) for w in line.tolist()]
        if max(abs(v) for v in scaled) < 1 << 12:
            weights = {i: Fraction(v, d) for i, v in enumerate(scaled) if v}
            if verify(matrix, weights, {record: 1}):
                return weights
    return None


def express(matrix: RowMatrix, columns: list[int], rng: np.random.Generator) -> dict[int, Fraction] | None:
    """Exact weights for e_record (one column), or for e_record + beta e_insider (two)."""
    if len(columns) == 1:
        return RowSpace(matrix, rng=rng).express({columns[0]: 1})
    # Without the insider's column, the record must be determined outright.
    return RowSpace(matrix.restricted(np.arange(matrix.m), np.array(columns[1:])), rng=rng).express({columns[0]: 1})
