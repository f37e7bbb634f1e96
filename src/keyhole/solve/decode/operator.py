"""A matrix that is only ever multiplied: bit-packed, sparse or dense rows, with a weight per column and per row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyhole.solve.decode.bitrows import Floats, Words, matvec, padded, rmatvec
from keyhole.solve.decode.csr import Csr


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """diag(rows) B diag(columns), with B given as bits (m, words), dense (m, p) or sparse.

    >>> from keyhole.solve.decode.bitrows import pack
    >>> op = Operator(pack(np.array([[1, 0, 1]])), None, np.array([1.0, 1.0, 2.0]), np.array([10.0]))
    >>> op.apply(np.ones(3)).tolist(), op.adjoint(np.ones(1)).tolist()
    ([30.0], [10.0, 0.0, 20.0])
    """

    bits: Words | None
    dense: Floats | None
    columns: Floats
    rows: Floats
    csr: Csr | None = None

    @property
    def m(self) -> int:
        """Rows."""
        return len(self.rows)

    @property
    def p(self) -> int:
        """Columns."""
        return len(self.columns)

    def apply(self, u: Floats) -> Floats:
        """The matrix times u."""
        if self.bits is not None:
            return np.asarray(self.rows * matvec(self.bits, padded(self.columns * u)))
        if self.csr is not None:
            return np.asarray(self.rows * self.csr.apply(self.columns * u))
        assert self.dense is not None
        return np.asarray(self.rows * (self.dense @ (self.columns * u)))

    def adjoint(self, r: Floats) -> Floats:
        """The transposed matrix times r."""
        if self.bits is not None:
            return np.asarray(self.columns * rmatvec(self.bits, self.rows * r)[: self.p])
        if self.csr is not None:
            return np.asarray(self.columns * self.csr.adjoint(self.rows * r))
        assert self.dense is not None
        return np.asarray(self.columns * (self.dense.T @ (self.rows * r)))

    def column_squares(self) -> Floats:
        """Squared norm of every column."""
        if self.bits is not None:
            return np.asarray(self.columns**2 * rmatvec(self.bits, self.rows**2)[: self.p])
        if self.csr is not None:
            return np.asarray(self.columns**2 * self.csr.squared().adjoint(self.rows**2))
        assert self.dense is not None
        return np.asarray(self.columns**2 * ((self.dense**2).T @ self.rows**2))
