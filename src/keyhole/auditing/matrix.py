"""A system as the integer matrix of the row-space engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from keyhole.basis import Row
from keyhole.gather.evidence import Constraint, System
from keyhole.solve.rowspace import RowMatrix


@dataclass(frozen=True, slots=True, eq=False)
class SystemMatrix:
    """The exact constraints of a system, scaled to integers. Columns are padded: unknown f*K + k is f*stride + k."""

    matrix: RowMatrix
    constraints: tuple[Constraint, ...]
    scales: tuple[Fraction, ...]
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
        return {self.constraints[i].number: w * self.scales[i] for i, w in found.items() if w}


def system_matrix(system: System, constraints: Sequence[Constraint]) -> SystemMatrix:
    """0/1 rows stay bit-packed; weighted ones are integers, of any size."""
    words, F = system.atoms.table.shape[1], len(system.features)
    stride = 64 * words
    made = [(c, system.row(c)) for c in constraints]
    packed = [(c, r) for c, r in made if r.masks is not None]
    narrow = [(c, r) for c, r in made if r.masks is None and not r.wide]
    wide = [(c, r) for c, r in made if r.masks is None and r.wide]
    parts = []
    if packed or not made:
        bits = np.zeros((len(packed), F * words), dtype=np.uint64)
        for i, (_, r) in enumerate(packed):
            for f, mask in (r.masks or {}).items():
                bits[i, f * words : (f + 1) * words] = mask
        parts.append(RowMatrix.from_bits(bits, F * stride))
    if narrow:
        parts.append(RowMatrix.from_entries([r.sparse(stride) for _, r in narrow], F * stride))
    if wide:
        parts.append(RowMatrix.from_sparse([_mapping(r, stride) for _, r in wide], F * stride))
    ordered = [*packed, *narrow, *wide]
    matrix = parts[0] if len(parts) == 1 else RowMatrix.stack(parts)
    return SystemMatrix(
        matrix, tuple(c for c, _ in ordered), tuple(r.scale for _, r in ordered), stride, system.atoms.K
    )


def _mapping(row: Row, stride: int) -> dict[int, int]:
    columns, values = row.sparse(stride)
    return dict(zip(columns.tolist(), values.tolist(), strict=True))
