"""A row that an online row space is asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Probed:
    """A row over the records: `mask` for 0/1 rows, else columns and integer entries."""

    mask: NDArray[np.bool_] | None
    columns: Ints
    entries: Ints

    def at(self, records: Ints) -> Ints:
        """The entries of the row at the given records."""
        if self.mask is not None:
            return self.mask[records].astype(np.int64)
        if not len(self.columns):
            return np.zeros(len(records), dtype=np.int64)
        spot = np.minimum(np.searchsorted(self.columns, records), len(self.columns) - 1)
        return np.where(self.columns[spot] == records, self.entries[spot], 0)

    @classmethod
    def of(cls, query: NDArray[np.uint64] | Mapping[int, int], n: int) -> Probed:
        """Bits over n records (ceil(n/64) words) or {record: weight}; ValueError for anything else."""
        none = np.zeros(0, dtype=np.int64)
        if isinstance(query, np.ndarray):
            words = np.ascontiguousarray(query, dtype=np.uint64)
            if words.shape != ((n + 63) // 64,):
                raise ValueError(f"bits of shape {words.shape}; {n} records need ({(n + 63) // 64},)")
            bits = np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_)
            if bits[n:].any():
                raise ValueError(f"bits are set beyond record {n - 1}")
            return cls(bits[:n], none, none)
        items = sorted((int(k), int(v)) for k, v in query.items() if v)
        bad = next((k for k, _ in items if not 0 <= k < n), None)
        if bad is not None:
            raise ValueError(f"record {bad}; records run from 0 to {n - 1}")
        columns = np.array([k for k, _ in items], dtype=np.int64)
        if all(v == 1 for _, v in items):
            mask = np.zeros(n, dtype=bool)
            mask[columns] = True
            return cls(mask, none, none)
        if any(abs(v) >= 1 << 62 for _, v in items):
            raise ValueError("weights of 2^62 and more are not supported online; scale the weights down")
        return cls(None, columns, np.array([v for _, v in items], dtype=np.int64))
