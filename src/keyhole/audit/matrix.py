"""A system as the integer matrix of the row-space engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.evidence import Row, System
from keyhole.solve.rowspace import RowMatrix


@dataclass(frozen=True, slots=True, eq=False)
class SystemMatrix:
    """The exact rows of a system, scaled to integers. Columns are padded: unknown f*K + k is column f*stride + k."""

    matrix: RowMatrix
    rows: tuple[Row, ...]
    scales: tuple[int, ...]
    stride: int
    K: int

    def column(self, unknown: int) -> int:
        """Matrix column of an unknown."""
        return unknown // self.K * self.stride + unknown % self.K

    def unknown(self, column: int) -> int:
        """Unknown of a matrix column."""
        return column // self.stride * self.K + column % self.stride

    def weights(self, found: Mapping[int, Fraction]) -> dict[str, Fraction]:
        """Certificate over matrix rows to weights over queries."""
        return {self.rows[i].number: w * self.scales[i] for i, w in found.items() if w}


def system_matrix(system: System, rows: Sequence[Row]) -> SystemMatrix:
    """0/1 rows stay bit-packed; weighted ones are scaled to integers."""
    atoms = system.atoms
    words = atoms.bits.shape[1]
    stride = 64 * words
    total = len(system.features) * stride
    packed: list[Row] = []
    general: list[Row] = []
    for row in rows:
        simple = all(e.weight is None and e.factor == 1 for e in row.entries)
        distinct = len({e.feature for e in row.entries}) == len(row.entries)
        (packed if simple and distinct else general).append(row)
    if len(system.features) == 1 and not general:
        bits = atoms.bits[[row.entries[0].predicate for row in packed]]
    else:
        bits = np.zeros((len(packed), len(system.features) * words), dtype=np.uint64)
        for i, row in enumerate(packed):
            for e in row.entries:
                bits[i, e.feature * words : (e.feature + 1) * words] = atoms.bits[e.predicate]
    parts = [RowMatrix.from_bits(np.ascontiguousarray(bits), total)] if packed or not general else []
    scales = [1] * len(packed)
    weights = [_integers(w) for w in atoms.weights]
    found = [(row, *_integer_row(system, row, weights, stride)) for row in general]
    found.sort(key=lambda each: _wide(each[3]))
    general = [row for row, _, _, _ in found]
    scales += [scale for _, scale, _, _ in found]
    narrow = [(columns, values) for _, _, columns, values in found if not _wide(values)]
    wide = [
        dict(zip(columns.tolist(), values.tolist(), strict=True)) for _, _, columns, values in found if _wide(values)
    ]
    if narrow:
        parts.append(RowMatrix.from_entries(narrow, total))
    if wide:
        parts.append(RowMatrix.from_sparse(wide, total))
    matrix = parts[0] if len(parts) == 1 else RowMatrix.stack(parts)
    return SystemMatrix(matrix, (*packed, *general), tuple(scales), stride, atoms.K)


def _wide(values: NDArray[Any]) -> bool:
    """Do the entries need more than 62 bits?"""
    return len(values) > 0 and max(abs(int(values.min())), abs(int(values.max()))) >= 2**62


def _integers(weights: tuple[Fraction, ...]) -> tuple[NDArray[Any], int]:
    """Weights as integers over their common denominator."""
    scale = lcm(*(w.denominator for w in weights))
    values = [int(w * scale) for w in weights]
    wide = max((abs(v) for v in values), default=0) >= 2**31
    return np.array(values, dtype=object if wide else np.int64), scale


def _integer_row(
    system: System, row: Row, weights: Sequence[tuple[NDArray[Any], int]], stride: int
) -> tuple[int, NDArray[np.int64], NDArray[Any]]:
    """(scale, columns, values): the row times `scale` is integer."""
    scale = 1
    for e in row.entries:
        scale = lcm(scale, (e.factor / (1 if e.weight is None else weights[e.weight][1])).denominator)
    by_feature: dict[int, NDArray[Any]] = {}
    for e in row.entries:
        values, over = (np.ones(1, dtype=np.int64), 1) if e.weight is None else weights[e.weight]
        factor = int(e.factor * scale / over)
        wide = abs(factor) >= 2**30 or values.dtype == np.dtype(object)
        addend = system.atoms.mask(e.predicate).astype(object if wide else np.int64) * values * factor
        before = by_feature.get(e.feature)
        by_feature[e.feature] = addend if before is None else before + addend
    columns, entries = [], []
    for feature, dense in sorted(by_feature.items()):
        at = np.flatnonzero(dense)
        columns.append(at + feature * stride)
        entries.append(dense[at])
    if not columns:
        return scale, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return scale, np.concatenate(columns), np.concatenate(entries)
