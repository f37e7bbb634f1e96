"""Atoms of a sparse matrix of questions: which of them each question holds is listed, not packed into bits.

A table of bits takes m K / 8 bytes: 12 GB for 100,000 questions about a million groups, of which ten each are asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.atoms.base import Atoms
from keyhole.basis.base import Ints, Weights
from keyhole.basis.bits import Words, pack, splitmix
from keyhole.errors import CannotHonour
from keyhole.model.predicate import Predicate

PACKED = 1 << 29  # bits up to which the table is packed too, for readers that want it


@dataclass(frozen=True, slots=True, eq=False)
class SparseAtoms(Atoms):
    """Row j of the matrix holds the atoms `columns[starts[j]:starts[j + 1]]`, with as many `values`.

    Condition j of `conditions` is row j; with weights, row j has the weight of the same number. `table` is empty above
    `PACKED` bits: nothing that needs it can then run.
    """

    starts: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    columns: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    values: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def entries(self, j: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The atoms of row j and their coefficients."""
        part = slice(int(self.starts[j]), int(self.starts[j + 1]))
        return self.columns[part], self.values[part]

    def bits(self, where: Predicate) -> Words:
        """Which atoms satisfy a condition, packed."""
        mask = np.zeros(self.K, dtype=np.bool_)
        mask[self.entries(self.number(where))[0]] = True
        return pack(mask)

    def join(self, other: Atoms) -> Atoms:
        """Atoms that tell apart what either tells apart; refused where the table is too large to be packed."""
        if len(self.table) < len(self.conditions):
            raise CannotHonour("sparse evidence of this size cannot be joined: let an attack observe both parts")
        return Atoms.join(self, other)

    def weight(self, sql: str) -> Weights:
        """The value of a public weight on each atom: 0 where its row has none."""
        at, values = self.entries(self.expressions[sql])
        found = np.zeros(self.K)
        found[at] = values
        return Weights.of(Fraction(str(v)) for v in found.tolist())


def packed_rows(starts: NDArray[np.integer], columns: NDArray[np.integer], count: int) -> Words:
    """The same rows as bits, in slices.

    >>> packed_rows(np.array([0, 2, 2]), np.array([0, 2]), 3).tolist()
    [[5], [0]]
    """
    m = len(starts) - 1
    made = np.zeros((m, (count + 63) // 64), dtype=np.uint64)
    size = max(1, (1 << 24) // max(1, count))
    for first in range(0, m, size):
        last = min(m, first + size)
        mask = np.zeros((last - first, count), dtype=np.bool_)
        rows = np.repeat(np.arange(last - first), np.diff(starts[first : last + 1]))
        mask[rows, columns[starts[first] : starts[last]]] = True
        made[first:last] = pack(mask)
    return made


def group_columns(
    starts: Ints, rows: NDArray[np.int32], values: NDArray[np.float64]
) -> tuple[NDArray[np.int32], Ints, Ints]:
    """Columns of a matrix that are equal, entry by entry: (group of each, size of each group, one column of each).

    Column i has the entries `rows[starts[i]:starts[i + 1]]`, increasing. Columns are sorted by length and a hash, and
    neighbours compared in full; where a hash deceives, by their bytes. Cost: O(entries + n log n).

    >>> starts, rows = np.array([0, 1, 2, 3]), np.array([0, 1, 0], dtype=np.int32)
    >>> group_columns(starts, rows, np.ones(3))[0].tolist()
    [0, 1, 0]
    """
    n = len(starts) - 1
    lengths = np.diff(starts)
    with np.errstate(over="ignore"):
        mixed = splitmix(rows.astype(np.uint64) + np.uint64(1)) * (splitmix(values.view(np.uint64)) | np.uint64(1))
        ends = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        key = ends[starts[1:]] - ends[starts[:-1]]
    order = np.lexsort((key, lengths))
    same = (key[order][1:] == key[order][:-1]) & (lengths[order][1:] == lengths[order][:-1])
    if not _equal(starts, rows, values, order[1:][same], order[:-1][same]):
        spelt = [rows[a:b].tobytes() + values[a:b].tobytes() for a, b in pairwise(starts.tolist())]
        known: dict[bytes, int] = {}
        sorted_of = np.array([known.setdefault(text, len(known)) for text in spelt], dtype=np.int64)
    else:
        sorted_of = np.empty(n, dtype=np.int64)
        sorted_of[order] = np.concatenate([[0], np.cumsum(~same)])[:n]
    _, first, of, sizes = np.unique(sorted_of, return_index=True, return_inverse=True, return_counts=True)
    by_first = np.argsort(first)  # groups in the order of their first column
    place = np.empty(len(first), dtype=np.int32)
    place[by_first] = np.arange(len(first), dtype=np.int32)
    return place[of.ravel()], sizes[by_first].astype(np.int64), first[by_first].astype(np.int64)


def _equal(starts: Ints, rows: NDArray[np.int32], values: NDArray[np.float64], a: Ints, b: Ints) -> bool:
    """Are columns a equal to columns b, of the same lengths, entry by entry?"""
    lengths = np.diff(starts)[a]
    ends = np.cumsum(lengths)
    inside = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    left, right = np.repeat(starts[a], lengths) + inside, np.repeat(starts[b], lengths) + inside
    return bool((rows[left] == rows[right]).all() and (values[left] == values[right]).all())
