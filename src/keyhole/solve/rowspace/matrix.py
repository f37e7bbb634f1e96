"""The query matrix: m integer rows over K columns, 0/1 rows kept as bits.

A column is an atom (or atom x private cell), a row is a query. Rows that hold only 0 and 1 are stored
bit-packed (K/8 bytes each); a row with public weights is stored sparse, as machine integers when they fit and as
Python integers when they do not (superincreasing weights).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_INT64 = 1 << 62  # entries up to here live in int64 arrays
_SMALL_ROWS, _SMALL_CELLS = 640, 1 << 21


class RowMatrix:
    """An m x K integer matrix whose 0/1 rows are bit-packed.

    `bits[b]` is the b-th 0/1 row, `bit_rows[b]` its row number; column k is bit k % 64 of word k // 64.
    `general[i]` is (columns, entries) of the weighted row i. Memory: m K / 8 bytes for 0/1 rows, 16 bytes a
    non-zero for weighted rows.

    >>> A = RowMatrix.from_dense([[1, 1, 0], [0, 1, 0], [0, 3, -2]])
    >>> A.m, A.K, A.row(2).tolist()
    (3, 3, [0, 3, -2])
    >>> B = RowMatrix.from_sparse([{0: 2**80}], K=3)
    >>> RowMatrix.stack([A, B]).row(3)[0] == 2**80
    True
    """

    __slots__ = ("K", "_bit_of", "_magnitude", "_patterns", "bit_rows", "bits", "general", "m")

    def __init__(
        self,
        bits: Words,
        bit_rows: Ints,
        general: Mapping[int, tuple[Ints, NDArray[Any]]],
        m: int,
        K: int,
    ) -> None:
        self.m, self.K = m, K
        self.bits = bits
        self.bit_rows = bit_rows
        self.general = dict(general)
        self._bit_of = np.full(m, -1, dtype=np.int64)
        self._bit_of[bit_rows] = np.arange(len(bit_rows))
        self._patterns: Words | None = None
        self._magnitude: int | None = None

    @classmethod
    def from_bits(cls, bits: NDArray[np.uint64], K: int) -> RowMatrix:
        """m rows of ceil(K/64) words; column k is bit k % 64 of word k // 64. The words are not copied.

        >>> RowMatrix.from_bits(np.array([[5]], dtype=np.uint64), K=3).row(0).tolist()
        [1, 0, 1]
        """
        words = np.ascontiguousarray(bits, dtype=np.uint64)
        width = (K + 63) // 64
        if words.ndim != 2 or words.shape[1] != width:
            raise ValueError(f"bits has shape {words.shape}; {K} columns need (m, {width}) words of 64 bits")
        if K % 64 and len(words) and np.any(words[:, -1] >> np.uint64(K % 64)):
            raise ValueError(f"bits are set beyond column {K - 1}; clear the unused bits of the last word")
        m = len(words)
        return cls(words, np.arange(m, dtype=np.int64), {}, m, K)

    @classmethod
    def from_patterns(cls, patterns: NDArray[np.uint64], m: int) -> RowMatrix:
        """K columns of ceil(m/64) words; row i is bit i % 64 of word i // 64: atoms as their patterns of matches.

        >>> RowMatrix.from_patterns(np.array([[1], [3]], dtype=np.uint64), m=2).row(1).tolist()
        [0, 1]
        """
        words = np.ascontiguousarray(patterns, dtype=np.uint64)
        width = (m + 63) // 64
        if words.ndim != 2 or words.shape[1] != width:
            raise ValueError(f"patterns has shape {words.shape}; {m} rows need (K, {width}) words of 64 bits")
        if m % 64 and len(words) and np.any(words[:, -1] >> np.uint64(m % 64)):
            raise ValueError(f"bits are set beyond row {m - 1}; clear the unused bits of the last word")
        K = len(words)
        if m <= _SMALL_ROWS and m * K <= _SMALL_CELLS:
            dense = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :m] if K else words[:, :0]
            return cls.from_bits(_pack(dense.T.reshape(m, K).astype(np.int64), K), K)
        from keyhole.solve.rowspace import kernels as kernels

        bits = np.zeros((m, (K + 63) // 64), dtype=np.uint64)
        kernels.spread(kernels.transpose_words, width, 1, words, m, bits)
        out = cls.from_bits(bits, K)
        out._patterns = words
        return out

    @classmethod
    def from_dense(cls, rows: Sequence[Sequence[int]] | NDArray[np.int64]) -> RowMatrix:
        """Rows as lists or as a two-dimensional integer array.

        >>> RowMatrix.from_dense(np.zeros((0, 4), dtype=np.int64)).K
        4
        """
        if isinstance(rows, np.ndarray):
            if rows.ndim != 2 or rows.dtype.kind not in "iub":
                raise ValueError(f"need a two-dimensional integer array, got {rows.dtype} of shape {rows.shape}")
            m, K = rows.shape
            if rows.dtype == np.uint64 and rows.size and int(rows.max()) >= _INT64:
                return cls.from_dense([[int(v) for v in row] for row in rows])
            dense = rows.astype(np.int64, copy=False)
            plain = np.flatnonzero(((dense == 0) | (dense == 1)).all(axis=1))
            general = {}
            for i in np.setdiff1d(np.arange(m), plain):
                cols = np.flatnonzero(dense[i])
                general[int(i)] = (cols.astype(np.int64), dense[i, cols])
            return cls(_pack(dense[plain], K), plain.astype(np.int64), general, m, K)
        K = len(rows[0]) if len(rows) else 0
        if any(len(row) != K for row in rows):
            raise ValueError("rows have different lengths")
        return cls.from_sparse([{k: int(v) for k, v in enumerate(row) if v} for row in rows], K)

    @classmethod
    def from_sparse(cls, rows: Sequence[Mapping[int, int]], K: int) -> RowMatrix:
        """Rows as {column: entry}; entries are Python integers of any size.

        >>> RowMatrix.from_sparse([{1: 1}, {0: -7}], K=2).row(1).tolist()
        [-7, 0]
        """
        m = len(rows)
        width = (K + 63) // 64
        plain: list[int] = []
        general: dict[int, tuple[Ints, NDArray[Any]]] = {}
        for i, row in enumerate(rows):
            bad = next((k for k in row if not 0 <= k < K), None)
            if bad is not None:
                raise ValueError(f"row {i} names column {bad}; columns run from 0 to {K - 1}")
            if all(v == 0 or v == 1 for v in row.values()):
                plain.append(i)
            else:
                items = sorted((int(k), int(v)) for k, v in row.items() if v)
                cols = np.array([k for k, _ in items], dtype=np.int64)
                general[i] = (cols, _entries([v for _, v in items]))
        bits = np.zeros((len(plain), width), dtype=np.uint64)
        for b, i in enumerate(plain):
            cols = np.array(sorted(int(k) for k, v in rows[i].items() if v), dtype=np.int64)
            np.bitwise_or.at(bits[b], cols >> 6, np.uint64(1) << (cols & 63).astype(np.uint64))
        return cls(bits, np.array(plain, dtype=np.int64), general, m, K)

    @classmethod
    def from_entries(cls, rows: Sequence[tuple[Ints, Ints]], K: int) -> RowMatrix:
        """Weighted rows as (columns, entries) arrays, columns ascending, entries below 2^62.

        >>> RowMatrix.from_entries([(np.array([0, 2]), np.array([5, -1]))], K=3).row(0).tolist()
        [5, 0, -1]
        """
        for i, (cols, values) in enumerate(rows):
            if cols.shape != values.shape or cols.ndim != 1 or np.any(np.diff(cols) <= 0):
                raise ValueError(f"row {i}: columns must ascend and match their entries")
            if len(cols) and not (cols[0] >= 0 and cols[-1] < K):
                raise ValueError(f"row {i} names a column outside 0 .. {K - 1}")
            if len(values) and max(-int(values.min()), int(values.max())) >= _INT64:
                raise ValueError(f"row {i} has an entry of 2^62 or more; use from_sparse")
        none = np.zeros((0, (K + 63) // 64), dtype=np.uint64)
        general = {i: (cols.astype(np.int64), values.astype(np.int64)) for i, (cols, values) in enumerate(rows)}
        return cls(none, np.zeros(0, dtype=np.int64), general, len(rows), K)

    @classmethod
    def stack(cls, parts: Sequence[RowMatrix]) -> RowMatrix:
        """The rows of all parts, one part below the other; all must have the same K."""
        if not parts:
            raise ValueError("stack needs at least one matrix")
        K = parts[0].K
        if any(part.K != K for part in parts):
            raise ValueError(f"cannot stack matrices of {sorted({part.K for part in parts})} columns")
        starts = np.cumsum([0] + [part.m for part in parts])
        general = {
            int(at) + i: row for at, part in zip(starts[:-1], parts, strict=True) for i, row in part.general.items()
        }
        bit_rows = np.concatenate([part.bit_rows + at for at, part in zip(starts[:-1], parts, strict=True)])
        return cls(np.concatenate([part.bits for part in parts]), bit_rows, general, int(starts[-1]), K)

    def row(self, i: int) -> NDArray[np.int64] | list[int]:
        """Row i as a dense int64 array, or as a list when some entry does not fit."""
        if not 0 <= i < self.m:
            raise IndexError(f"row {i} of a matrix with {self.m} rows")
        b = int(self._bit_of[i])
        if b >= 0:
            line: NDArray[np.int64] = self.unpack(np.array([b]), 0, self.K)[0].astype(np.int64)
            return line
        cols, values = self.general[i]
        if values.dtype == object:
            dense = [0] * self.K
            for k, v in zip(cols.tolist(), values.tolist(), strict=True):
                dense[k] = v
            return dense
        out = np.zeros(self.K, dtype=np.int64)
        out[cols] = values
        return out

    def items(self, i: int) -> Iterator[tuple[int, int]]:
        """The non-zero (column, entry) pairs of row i."""
        b = int(self._bit_of[i])
        if b >= 0:
            for k in np.flatnonzero(self.unpack(np.array([b]), 0, self.K)[0]).tolist():
                yield k, 1
        else:
            cols, values = self.general[i]
            yield from zip(cols.tolist(), values.tolist(), strict=True)

    def bit_index(self, i: int) -> int:
        """Position of row i among the bit rows, -1 for a weighted row."""
        return int(self._bit_of[i])

    def unpack(self, which: Ints, lo_word: int, K_stop: int) -> NDArray[np.uint8]:
        """Bit rows `which` (positions in `bits`) as 0/1 bytes over columns lo_word*64 .. K_stop."""
        if K_stop <= lo_word * 64:
            return np.zeros((len(which), 0), dtype=np.uint8)
        block = np.ascontiguousarray(self.bits[which, lo_word : (K_stop + 63) // 64])
        return np.unpackbits(block.view(np.uint8), axis=1, bitorder="little")[:, : K_stop - lo_word * 64]

    @property
    def is_small(self) -> bool:
        """Small enough for dense numpy arrays, where compiled kernels would cost more than they save."""
        return self.m <= _SMALL_ROWS and self.m * self.K <= _SMALL_CELLS

    @property
    def patterns(self) -> Words:
        """The bit rows by column: word s of column k holds bit rows 64 s .. 64 s + 63. Built once, m K / 8 bytes."""
        if self._patterns is None:
            from keyhole.solve.rowspace import kernels as kernels

            out = np.zeros((self.K, (len(self.bits) + 63) // 64), dtype=np.uint64)
            kernels.spread(kernels.transpose_words, self.bits.shape[1], 16, self.bits, self.K, out)
            self._patterns = out
        return self._patterns

    def gather(self, columns: Ints, p: int) -> Floats:
        """A[:, columns] mod p, balanced, as float64 (m, len(columns)). For large matrices."""
        from keyhole.solve.rowspace import kernels as kernels

        out = np.zeros((self.m, len(columns)))
        kernels.gather(columns, self.patterns, out, self.bit_rows)
        for i, (cols, values) in self.general.items():
            at = np.searchsorted(cols, columns)
            at[at == len(cols)] = 0
            hit = cols[at] == columns if len(cols) else np.zeros(len(columns), dtype=bool)
            out[i, hit] = balanced(values[at[hit]], p)
        return out

    def left(self, weights: Ints, p: int) -> Ints:
        """weights @ A mod p for every column, in 0 .. p-1. For large matrices."""
        from keyhole.solve.rowspace import kernels as kernels

        out = np.empty(self.K, dtype=np.int64)
        tables = kernels.byte_tables(weights[self.bit_rows] % p)
        kernels.spread(kernels.left_product, self.K, 4096, self.patterns, tables, out)
        for i, (cols, values) in self.general.items():
            out[cols] += (values % p).astype(np.int64) * (int(weights[i]) % p) % p
        out %= p
        return out

    def sums(self, G: Words) -> Words:
        """A G in 64-bit wrap-around for three lanes G (K, 3): (m, 3)."""
        out = np.zeros((self.m, 3), dtype=np.uint64)
        if self.is_small:
            step = max(1, (1 << 21) // max(1, self.K))
            for s in range(0, len(self.bits), step):
                which = np.arange(s, min(len(self.bits), s + step))
                out[self.bit_rows[which]] = self.unpack(which, 0, self.K).astype(np.uint64) @ G
        elif len(self.bits):
            from keyhole.solve.rowspace import kernels as kernels

            out[self.bit_rows] = kernels.row_sums(self.bits, G)
        for i, (cols, values) in self.general.items():
            wrapped = values % (1 << 64) if values.dtype == object else values
            out[i] = wrapped.astype(np.uint64) @ G[cols]
        return out

    def residues(self, p: int) -> Floats:
        """The dense matrix modulo p as float64, balanced. Costs 8 m K bytes: for small tables."""
        out = np.zeros((self.m, self.K), dtype=np.float64)
        if len(self.bits):
            out[self.bit_rows] = self.unpack(np.arange(len(self.bits)), 0, self.K)
        for i, (cols, values) in self.general.items():
            out[i, cols] = balanced(values, p)
        return out

    def block(self, rows: Ints, columns: Ints, dtype: np.dtype[Any]) -> NDArray[Any]:
        """A[rows, columns] over the integers in `dtype` (float64, int64 or object; the caller knows it fits)."""
        out = np.zeros((len(rows), len(columns)), dtype=dtype)
        which = self._bit_of[rows]
        at = np.flatnonzero(which >= 0)
        word, shift = columns >> 6, (columns & 63).astype(np.uint64)
        step = max(1, (1 << 20) // max(1, len(columns)))
        for s in range(0, len(at), step):
            picked = self.bits[which[at[s : s + step], None], word[None, :]]
            bits = ((picked >> shift) & np.uint64(1)).astype(np.int64)
            out[at[s : s + step]] = bits
        for j in np.flatnonzero(which < 0):
            cols, values = self.general[int(rows[j])]
            if len(cols):
                spot = np.minimum(np.searchsorted(cols, columns), len(cols) - 1)
                hit = cols[spot] == columns
                out[j, hit] = values[spot[hit]]
        return out

    def restricted(self, rows: Ints, known: Ints) -> RowMatrix:
        """The given rows, in that order, with the columns `known` set to zero; the width stays."""
        everything = len(rows) == self.m and np.array_equal(rows, np.arange(self.m))
        if everything and not len(known):
            return self
        which = self._bit_of[rows]
        at = np.flatnonzero(which >= 0)
        bits = self.bits[which[at]]
        general = {int(j): self.general[int(rows[j])] for j in np.flatnonzero(which < 0)}
        if len(known):
            keep = np.full(self.bits.shape[1], ~np.uint64(0), dtype=np.uint64)
            np.bitwise_and.at(keep, known >> 6, ~(np.uint64(1) << (known & 63).astype(np.uint64)))
            bits &= keep
            for i, (cols, values) in general.items():
                stay = ~np.isin(cols, known)
                general[i] = (cols[stay], values[stay])
        return RowMatrix(bits, at.astype(np.int64), general, len(rows), self.K)

    def support_bits(self) -> Words:
        """Where each row is non-zero, as bits (m, words)."""
        if not self.general:
            return self.bits
        out = np.zeros((self.m, (self.K + 63) // 64), dtype=np.uint64)
        out[self.bit_rows] = self.bits
        for i, (cols, _) in self.general.items():
            np.bitwise_or.at(out[i], cols >> 6, np.uint64(1) << (cols & 63).astype(np.uint64))
        return out

    def squeeze(self) -> tuple[RowMatrix, Ints]:
        """The matrix without its zero columns, and the names of the columns that stay."""
        from keyhole.solve.rowspace import peel_kernels as kernels

        used = np.bitwise_or.reduce(self.support_bits(), axis=0)
        columns = np.flatnonzero(np.unpackbits(used.view(np.uint8), bitorder="little")[: self.K])
        place = np.full(self.bits.shape[1] * 64, -1, dtype=np.int64)
        place[columns] = np.arange(len(columns))
        width = (len(columns) + 63) // 64
        bits = kernels.squeeze(self.bits, np.arange(len(self.bits)), place, width)
        general = {i: (place[cols], values) for i, (cols, values) in self.general.items()}
        return RowMatrix(bits, self.bit_rows, general, self.m, len(columns)), columns

    def magnitude(self) -> int:
        """The largest |entry|."""
        if self._magnitude is None:
            top = 1 if len(self.bits) else 0
            for _, values in self.general.values():
                if len(values):
                    top = max(top, abs(int(values.min())), abs(int(values.max())))
            self._magnitude = top
        return self._magnitude


def balanced(values: NDArray[Any], p: int) -> Floats:
    """values mod p in (-p/2, p/2], as float64."""
    reduced = (values % p).astype(np.float64)
    reduced[reduced > p / 2] -= p
    return reduced


def _entries(values: list[int]) -> NDArray[Any]:
    if all(abs(v) < _INT64 for v in values):
        return np.array(values, dtype=np.int64)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _pack(dense: Ints, K: int) -> Words:
    padded = np.zeros((len(dense), (K + 63) // 64 * 64), dtype=np.uint8)
    padded[:, :K] = dense
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64).reshape(len(dense), (K + 63) // 64)
