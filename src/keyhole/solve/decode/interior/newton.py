"""The Newton system of the interior-point decoder: rows by family, the matrix they share, and its factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Far from the optimum (gap above _COARSE), while no row is much stiffer than the others (_EVEN), a Newton matrix summed
# in single precision is accurate enough; later steps, summed in double, remove its error of about 1e-6.
_COARSE = 1e-3
_EVEN = 1e3
# Rows whose curvature is this far below that of the p stiffest rows cannot turn a Newton step by more than rounding.
_NEGLIGIBLE = 1e-11


class RowTerm(IntEnum):
    """What a row asks of its value a_j u."""

    QUADRATIC = 0
    ABSOLUTE = 1
    INTERVAL = 2


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a decoding problem: `A u` against `y` (quadratic, absolute) or [lo, hi] (interval)."""

    A: Floats
    y: Floats
    weight: Floats
    lo: Floats
    hi: Floats
    term: NDArray[np.int8]


def _weighted_gram(A: Floats, single: NDArray[np.float32] | None, D: Floats, p: int) -> Floats:
    """A^T diag(D) A, leaving out rows of negligible curvature."""
    if D.size > p:
        stiff = np.partition(D, D.size - p)[D.size - p]
        keep = stiff * _NEGLIGIBLE < D
        if keep.sum() < 0.8 * D.size:
            A, D = A[keep], D[keep]
            single = single[keep] if single is not None else None
    if single is not None:
        narrow = single * np.sqrt(D).astype(np.float32)[:, None]
        return (narrow.T @ narrow).astype(np.float64)
    scaled = A * np.sqrt(D)[:, None]
    return np.asarray(scaled.T @ scaled)


def _even(curvatures: list[Floats]) -> bool:
    """Is the stiffest row within _EVEN of the tenth-softest?"""
    every = np.concatenate([D[D > 0] for D in curvatures])
    return bool(every.size and every.max() <= _EVEN * np.quantile(every, 0.1))


def factorise(H: Floats) -> Callable[[Floats], Floats]:
    """x with H x = right-hand side, by Cholesky."""
    from scipy.linalg import cho_factor, cho_solve

    diagonal = H.diagonal().copy()
    ridge = 0.0
    for _ in range(12):  # the matrix is positive definite in exact arithmetic; a ridge repairs rounding
        try:
            factor = cho_factor(H, overwrite_a=False, check_finite=False)
        except np.linalg.LinAlgError:
            ridge = max(1e-14, 100 * ridge)
            np.fill_diagonal(H, diagonal * (1 + ridge) + ridge)
            continue
        return lambda rhs: np.asarray(cho_solve(factor, rhs, check_finite=False))
    raise ArithmeticError("the Newton matrix is not positive definite: are the weights finite and positive?")


@dataclass(frozen=True, slots=True, eq=False)
class Families:
    """The rows by family (absolute, quadratic, interval), and what stays of the Newton matrix from step to step."""

    kinds: list[NDArray[np.int64]]
    parts: list[Floats]
    coarse: list[NDArray[np.float32]]
    constant: Floats
    rho: float

    @classmethod
    def of(cls, rows: Rows, gram: Floats | None) -> Families:
        """`gram` is A^T W A of the quadratic rows, if it is known."""
        m, p = rows.A.shape
        kinds = [np.flatnonzero(rows.term == t) for t in (RowTerm.ABSOLUTE, RowTerm.QUADRATIC, RowTerm.INTERVAL)]
        parts = [rows.A if k.size == m else rows.A[k] for k in kinds]
        weight, B = rows.weight[kinds[1]], parts[1]
        constant = gram if gram is not None else (B.T * weight) @ B if kinds[1].size else np.zeros((p, p))
        diagonal = np.einsum("ij,ij->j", rows.A, rows.A) if m else np.zeros(p)
        rho = 1e-12 * (1.0 + float(diagonal.max(initial=0.0)))
        return cls(kinds, parts, [B.astype(np.float32) for B in parts], constant, rho)

    @property
    def separate(self) -> bool:
        """May primal and dual take steps of their own? Not where quadratic rows tie them."""
        return self.kinds[1].size == 0

    def matrix(self, curvatures: list[Floats], gap: float) -> Floats:
        """The Newton matrix sum B^T D B + rho, in single precision where that is accurate enough."""
        p = len(self.constant)
        H = self.constant.copy()
        for k in (0, 2):
            if curvatures[k].size:
                single = self.coarse[k] if gap > _COARSE and _even(curvatures) else None
                H += _weighted_gram(self.parts[k], single, curvatures[k], p)
        for D in curvatures[3:]:
            H[np.diag_indices(p)] += D
        H[np.diag_indices(p)] += self.rho
        return H

    def pulled(self, duals: list[Floats]) -> Floats:
        """sum B^T z over the blocks: of rows through their part, of unknowns as they are."""
        total = sum(duals[3:], np.zeros(len(self.constant)))
        for B, z in zip(self.parts, duals, strict=False):
            total = total + B.T @ z
        return total

    def changes(self, du: Floats) -> list[Floats]:
        """The change of every block's values for a change of the unknowns."""
        return [*(B @ du for B in self.parts), du, du]
