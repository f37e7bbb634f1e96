"""Compressed sparse rows: the entries of a matrix that are not zero, row after row, and the compiled passes over them.

A log of m questions about ten people each has 10 m entries whatever the number of people; 12 bytes an entry. Row j has
the columns `columns[starts[j]:starts[j + 1]]`, increasing, with as many `values`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from keyhole.solve.decode.bitrows import Floats, Words, unpack

Starts = NDArray[np.int64]
Columns = NDArray[np.int32]
_FAST = {"reassoc", "contract", "nsz"}
_UNPACKED = 1 << 24  # bits that are unpacked at a time


@dataclass(frozen=True, slots=True, eq=False)
class Csr:
    """An (m, p) matrix by rows.

    >>> made = Csr.of_rows([([0, 2], [1.0, 2.0]), ([1], [5.0])], 3)
    >>> made.dense().tolist(), made.apply(np.ones(3)).tolist(), made.adjoint(np.ones(2)).tolist()
    ([[1.0, 0.0, 2.0], [0.0, 5.0, 0.0]], [3.0, 5.0], [1.0, 5.0, 2.0])
    """

    starts: Starts
    columns: Columns
    values: Floats
    p: int

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[Any, Any]], p: int) -> Csr:
        """From (columns, values) of every row."""
        starts = np.concatenate([[0], np.cumsum([len(columns) for columns, _ in rows], dtype=np.int64)])
        columns = [np.asarray(c, dtype=np.int32) for c, _ in rows]
        values = [np.asarray(v, dtype=np.float64) for _, v in rows]
        return cls(
            starts.astype(np.int64),
            np.concatenate(columns) if rows else np.zeros(0, dtype=np.int32),
            np.concatenate(values) if rows else np.zeros(0),
            p,
        )

    @classmethod
    def of_bits(cls, words: Words, p: int) -> Csr:
        """From bit-packed rows, a slice of them unpacked at a time."""
        counts = np.bitwise_count(words).sum(axis=1, dtype=np.int64) if len(words) else np.zeros(0, dtype=np.int64)
        starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        columns = np.empty(int(starts[-1]), dtype=np.int32)
        size = max(1, _UNPACKED // max(1, p))
        for first in range(0, len(words), size):
            found = np.nonzero(unpack(words[first : first + size], p))[1]
            columns[starts[first] : starts[first] + len(found)] = found
        return cls(starts, columns, np.ones(len(columns)), p)

    @property
    def m(self) -> int:
        """Rows."""
        return len(self.starts) - 1

    @property
    def entries(self) -> int:
        """How many entries are not zero."""
        return len(self.columns)

    def rows(self) -> NDArray[np.int64]:
        """The row of every entry."""
        return np.repeat(np.arange(self.m), np.diff(self.starts))

    def apply(self, x: Floats) -> Floats:
        """The matrix times x."""
        return _apply(self.starts, self.columns, self.values, np.ascontiguousarray(x, dtype=np.float64))

    def adjoint(self, r: Floats) -> Floats:
        """The transposed matrix times r."""
        return _adjoint(self.starts, self.columns, self.values, np.ascontiguousarray(r, dtype=np.float64), self.p)

    def scaled(self, rows: Floats, columns: Floats) -> Csr:
        """diag(rows) A diag(columns)."""
        values = self.values * columns[self.columns] * np.repeat(rows, np.diff(self.starts))
        return Csr(self.starts, self.columns, values, self.p)

    def squared(self) -> Csr:
        """Every entry squared."""
        return Csr(self.starts, self.columns, self.values**2, self.p)

    def take(self, index: NDArray[Any] | slice) -> Csr:
        """Some of the rows, in the given order."""
        chosen = np.arange(self.m)[index]
        counts = np.diff(self.starts)[chosen]
        starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        at = np.repeat(self.starts[chosen] - starts[:-1], counts) + np.arange(starts[-1])
        return Csr(starts, self.columns[at], self.values[at], self.p)

    def stacked(self, other: Csr) -> Csr:
        """The rows of both."""
        return Csr(
            np.concatenate([self.starts, self.starts[-1] + other.starts[1:]]),
            np.concatenate([self.columns, other.columns]),
            np.concatenate([self.values, other.values]),
            self.p,
        )

    def spread(self, parent: NDArray[Any]) -> Csr:
        """The same rows over finer columns: column k of the result is a copy of column `parent[k]`.

        >>> Csr.of_rows([([1], [3.0])], 2).spread(np.array([0, 1, 1])).dense().tolist()
        [[0.0, 3.0, 3.0]]
        """
        order = np.argsort(parent, kind="stable").astype(np.int32)
        sizes = np.bincount(parent, minlength=self.p)
        first = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        copies = sizes[self.columns]
        ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(copies)])
        at = np.repeat(first[self.columns] - ends[:-1], copies) + np.arange(ends[-1])
        made = Csr(ends[self.starts], order[at], np.repeat(self.values, copies), len(parent))
        return made.ordered()

    def ordered(self) -> Csr:
        """With the columns of every row increasing."""
        order = np.argsort(self.rows() * np.int64(max(1, self.p)) + self.columns, kind="stable")
        return Csr(self.starts, self.columns[order], self.values[order], self.p)

    def touched(self) -> NDArray[np.bool_]:
        """The columns that some row has."""
        found = np.zeros(self.p, dtype=np.bool_)
        found[self.columns[self.values != 0]] = True
        return found

    def dense(self) -> Floats:
        """All of it, zeros too."""
        found = np.zeros((self.m, self.p))
        found[self.rows(), self.columns] = self.values
        return found


@njit(cache=True, fastmath=_FAST, nogil=True)
def _apply(starts: Starts, columns: Columns, values: Floats, x: Floats) -> Floats:
    out = np.zeros(len(starts) - 1)
    for j in range(len(out)):
        total = 0.0
        for e in range(starts[j], starts[j + 1]):
            total += values[e] * x[columns[e]]
        out[j] = total
    return out


@njit(cache=True, fastmath=_FAST, nogil=True)
def _adjoint(starts: Starts, columns: Columns, values: Floats, r: Floats, p: int) -> Floats:
    out = np.zeros(p)
    for j in range(len(starts) - 1):
        for e in range(starts[j], starts[j + 1]):
            out[columns[e]] += values[e] * r[j]
    return out
