"""A system as the integer matrix of the row-space engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

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
    sparse = []
    for row in general:
        coefficients = system.coefficients(row)
        scale = lcm(*(c.denominator for c in coefficients.values())) if coefficients else 1
        scales.append(scale)
        sparse.append({at // atoms.K * stride + at % atoms.K: int(c * scale) for at, c in coefficients.items()})
    if sparse:
        parts.append(RowMatrix.from_sparse(sparse, total))
    matrix = parts[0] if len(parts) == 1 else RowMatrix.stack(parts)
    return SystemMatrix(matrix, (*packed, *general), tuple(scales), stride, atoms.K)
