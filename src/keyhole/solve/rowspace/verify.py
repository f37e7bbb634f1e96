"""Exact sums of weighted rows: the last word on every proof. Integers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.rowspace.matrix import RowMatrix

Ints = NDArray[np.int64]

_WORD = 1 << 62  # sums that stay below are done in int64
_LIMB = 24  # bits a limb in exact sums: 2^24 * (number of rows) stays far below 2^53


def verify(matrix: RowMatrix, weights: Mapping[int, Fraction | int], target: Mapping[int, int]) -> bool:
    """Whether sum_i weights[i] * row_i equals `target` in every column, in exact integer arithmetic.

    Weights are brought to a common denominator d and sum_i (d w_i) a_i = d * target is checked: in 64-bit integers
    when a bound on the sums shows that they fit, else in limbs of 24 bits with the carries propagated. No rounding and
    no overflow can occur. Cost O(rows with weight x K).

    >>> A = RowMatrix.from_dense([[1, 1, 1], [1, 0, 0], [0, 0, 1]])
    >>> verify(A, {0: 1, 1: -1, 2: -1}, {1: 1}), verify(A, {0: 1, 1: -1}, {1: 1})
    (True, False)
    """
    if any(not 0 <= i < matrix.m for i in weights) or any(not 0 <= k < matrix.K for k in target):
        return False
    exact = {i: Fraction(w) for i, w in weights.items() if w}
    d = lcm(*(w.denominator for w in exact.values())) if exact else 1
    scaled = {i: w.numerator * (d // w.denominator) for i, w in exact.items()}
    return verify_integers(matrix, scaled, {k: d * v for k, v in target.items() if v})


def verify_integers(matrix: RowMatrix, weights: Mapping[int, int], target: Mapping[int, int]) -> bool:
    """`verify` for integer weights and an integer target."""
    weights = {i: c for i, c in weights.items() if c}
    spots = np.array(sorted(k for k in target if target[k]), dtype=np.int64)
    bound = _bound(matrix, weights) + max((abs(v) for v in target.values()), default=0)
    if bound >= _WORD:
        return _verify_limbs(matrix, weights, target)
    values = np.array([target[k] for k in spots.tolist()], dtype=np.int64)
    planes = sum(abs(c).bit_count() for c in weights.values())
    short = planes < 64 or planes * 8 < len(matrix.bits)
    if not matrix.is_small and short and len(spots) <= 64 and not any(i in matrix.general for i in weights):
        from keyhole.solve.rowspace import kernels as kernels

        which, w = _bit_rows(matrix, weights)
        return bool(kernels.combination_is(matrix.bits, which, w, spots, values, bound.bit_length() + 1))
    total = _sums(matrix, weights)
    total[spots] -= values
    return not total.any()


def combine(matrix: RowMatrix, weights: Mapping[int, int]) -> dict[int, int]:
    """sum_i weights[i] * row_i as {column: non-zero entry}, exactly.

    >>> combine(RowMatrix.from_dense([[1, 1, 0], [0, 1, 1]]), {0: 1, 1: -1})
    {0: 1, 2: -1}
    """
    weights = {i: c for i, c in weights.items() if c}
    if _bound(matrix, weights) < _WORD:
        total = _sums(matrix, weights)
        return {int(k): int(total[k]) for k in np.flatnonzero(total)}
    out: dict[int, int] = {}
    for i, c in weights.items():
        for k, v in matrix.items(i):
            out[k] = out.get(k, 0) + c * v
    return {k: v for k, v in out.items() if v}


def _bound(matrix: RowMatrix, weights: Mapping[int, int]) -> int:
    """No column of the weighted sum, nor any partial sum, exceeds this."""
    plain = sum(abs(c) for i, c in weights.items() if i not in matrix.general)
    return plain + matrix.magnitude() * sum(abs(c) for i, c in weights.items() if i in matrix.general)


def _bit_rows(matrix: RowMatrix, weights: Mapping[int, int]) -> tuple[Ints, Ints]:
    """Positions among the bit rows, and weights, of the weighted 0/1 rows."""
    pairs = [(matrix.bit_index(i), c) for i, c in weights.items() if i not in matrix.general]
    return np.array([b for b, _ in pairs], dtype=np.int64), np.array([c for _, c in pairs], dtype=np.int64)


def _sums(matrix: RowMatrix, weights: Mapping[int, int]) -> Ints:
    """sum_i weights[i] * row_i in int64; the caller knows that it fits."""
    which, w = _bit_rows(matrix, weights)
    if not len(which):
        total = np.zeros(matrix.K, dtype=np.int64)
    elif matrix.is_small:
        block = matrix.unpack(which, 0, matrix.K)
        if int(np.abs(w).sum()) < 1 << 53:  # then float64 is exact and has the BLAS
            total = (w.astype(np.float64) @ block.astype(np.float64)).astype(np.int64)
        else:
            total = w @ block.astype(np.int64)
    else:
        from keyhole.solve.rowspace import kernels as kernels

        full = np.zeros(len(matrix.bits), dtype=np.int64)
        full[which] = w
        total = np.empty(matrix.K, dtype=np.int64)
        kernels.spread(kernels.left_product, matrix.K, 4096, matrix.patterns, kernels.byte_tables(full), total)
    for i, c in weights.items():
        if i in matrix.general:
            cols, values = matrix.general[i]
            total[cols] += c * values.astype(np.int64)
    return total


def _verify_limbs(matrix: RowMatrix, weights: Mapping[int, int], target: Mapping[int, int]) -> bool:
    """For integers of any size: bit rows in limbs, weighted rows and target in Python integers."""
    plain = {i: c for i, c in weights.items() if i not in matrix.general}
    rest: dict[int, int] = dict(target)
    for i, c in weights.items():
        if i in matrix.general:
            for k, v in matrix.items(i):
                rest[k] = rest.get(k, 0) - c * v
    rest = {k: v for k, v in sorted(rest.items()) if v}
    w = list(plain.values())
    total = sum(abs(c) for c in w)
    if any(abs(v) > total for v in rest.values()):
        return False
    count = -(-total.bit_length() // _LIMB)
    limbs = _limbs(w, count)
    carry_in = _limbs(list(rest.values()), count)
    spots = np.array(list(rest), dtype=np.int64)
    which = np.array([matrix.bit_index(i) for i in plain], dtype=np.int64)
    step = max(64, (1 << 22) // max(1, len(w)) // 64 * 64)
    for start in range(0, matrix.K, step):
        stop = min(matrix.K, start + step)
        block = matrix.unpack(which, start // 64, stop).astype(np.float64)
        sums = (limbs.astype(np.float64) @ block).astype(np.int64)
        a, b = np.searchsorted(spots, [start, stop])
        sums[:, spots[a:b] - start] -= carry_in[:, a:b]
        carry = np.zeros(stop - start, dtype=np.int64)
        for s in sums:
            carry = s + carry
            if np.any(carry & ((1 << _LIMB) - 1)):
                return False
            carry >>= _LIMB
        if np.any(carry):
            return False
    return True


def _limbs(values: Sequence[int], at_least: int = 1) -> Ints:
    """Signed limbs (count, len(values)): value = sum_l limb_l 2^(24 l), all limbs of one sign."""
    bits = max((abs(v).bit_length() for v in values), default=0)
    count = max(at_least, -(-bits // _LIMB), 1)
    out = np.zeros((count, len(values)), dtype=np.int64)
    mask = (1 << _LIMB) - 1
    for j, v in enumerate(values):
        a, sign, at = abs(v), (1 if v >= 0 else -1), 0
        while a:
            out[at, j] = sign * (a & mask)
            a >>= _LIMB
            at += 1
    return out
