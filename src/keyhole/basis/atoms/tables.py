"""Keys and tables: the classes of a record's slots packed into words, and the patterns they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]
Ints: TypeAlias = NDArray[np.int64]
Place: TypeAlias = tuple[int, int, int]  # word, shift, mask

JOINT = 1 << 19  # bytes of a table that several slots share: it should stay in the second-level cache


class Keys:
    """Small integers side by side in 64-bit words, one row of words a record.

    >>> keys = Keys(3)
    >>> keys.add(np.array([0, 2, 1]), 3), keys.add(np.array([1, 1, 0]), 2)
    ((0, 0, 3), (0, 2, 1))
    >>> keys.words().tolist()
    [[4], [6], [1]]
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._words: list[Words] = []
        self._used = 64

    def add(self, codes: NDArray[Any], count: int, lookup: Words | None = None) -> Place:
        """Append codes (or lookup[codes]), all below `count`; returns where they are."""
        bits = max(count - 1, 0).bit_length()
        if bits == 0:
            return 0, 0, 0
        if self._used + bits > 64:
            self._words.append(np.zeros(self._n, dtype=np.uint64))
            self._used = 0
        shift = np.uint64(self._used)
        if lookup is None:
            self._words[-1] |= codes.astype(np.uint64) << shift
        else:
            self._words[-1] |= (lookup << shift)[codes]
        self._used += bits
        return len(self._words) - 1, int(shift), (1 << bits) - 1

    def words(self) -> Words:
        """All keys, one row a record."""
        if not self._words:
            return np.zeros((self._n, 1), dtype=np.uint64)
        return self._words[0][:, None] if len(self._words) == 1 else np.stack(self._words, axis=1)


def packed(verdicts: NDArray[np.bool_]) -> Words:
    """Columns of booleans as rows of little-endian words.

    >>> packed(np.array([[True, False], [True, True]])).tolist()
    [[3], [2]]
    """
    out = np.zeros((verdicts.shape[1], max(1, (len(verdicts) + 63) // 64) * 8), dtype=np.uint8)
    for at in range(0, len(verdicts), 512):
        part = np.packbits(verdicts[at : at + 512], axis=0, bitorder="little")
        out[:, at // 8 : at // 8 + len(part)] = part.T
    return out.view(np.uint64)


def mask_table(verdicts: NDArray[np.bool_], unit_of: Ints) -> Words:
    """Row c: bit t is 1 if class c satisfies unit unit_of[t], or if term t has no unit here (-1)."""
    rows = np.concatenate([verdicts, np.ones((1, verdicts.shape[1]), dtype=np.bool_)])
    words = [packed(rows[unit_of[at : at + 512]]) for at in range(0, len(unit_of), 512)]
    return np.concatenate(words, axis=1) if words else np.zeros((verdicts.shape[1], 1), dtype=np.uint64)


def join_tables(tables: Sequence[Words], places: Sequence[Place], width: int) -> tuple[Ints, Ints, Words]:
    """Let small tables share one: (fields, starts, all rows one after the other) as the kernel `decode` reads them.

    The row of a joint table is the AND of one row of each of its parts, so a pattern takes fewer look-ups.
    """
    groups: list[tuple[Words, list[tuple[int, int]]]] = []  # table, [(slot, stride)]
    for i in sorted(range(len(tables)), key=lambda i: len(tables[i])):
        joined = groups[-1] if groups else None
        if joined is not None and len(joined[0]) * tables[i].nbytes <= JOINT:
            table = (joined[0][:, None, :] & tables[i][None, :, :]).reshape(-1, width)
            parts = [(slot, stride * len(tables[i])) for slot, stride in joined[1]]
            groups[-1] = (table, [*parts, (i, 1)])
        else:
            groups.append((tables[i], [(i, 1)]))
    if not groups:
        groups.append((np.full((1, width), ~np.uint64(0)), []))
    starts = np.cumsum([0, *(len(table) for table, _ in groups[:-1])]).astype(np.int64)
    fields = [(j, *places[slot], stride) for j, (_, parts) in enumerate(groups) for slot, stride in parts]
    lines = np.array(fields, dtype=np.int64).reshape(-1, 5)
    return lines, starts, np.ascontiguousarray(np.concatenate([table for table, _ in groups]))
