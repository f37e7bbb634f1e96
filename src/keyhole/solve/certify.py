"""From weights modulo a prime to exact rational weights: p-adic lifting and rational reconstruction.

Dixon, "Exact solution of linear equations using p-adic expansions" (1982); Wang, "A p-adic algorithm for univariate
partial fractions" (1981). Two things are our own: digits are balanced, so the expansion of an integer solution ends
with residual 0, and that residual is kept over all columns, so its end *is* the exact verification.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.modular import Field, balance

Floats = NDArray[np.float64]
Digits = NDArray[np.int32]  # digits are below 2^22

_DIGITS_AT_ONCE = 1 << 16  # targets x pivot rows lifted together
_GUESSES = 4  # different denominators tried at one length


@dataclass(frozen=True, slots=True)
class Combination:
    """Exact weights over rows, w_j = (sum_k digits[k, j] p^k) / denominator, kept as digits until they are asked for.

    >>> Combination(np.array([[3, -1], [0, 2]], dtype=np.int32), 101, 2, np.array([7, 9])).weights()
    {7: Fraction(3, 2), 9: Fraction(201, 2)}
    """

    digits: Digits  # (length, rows)
    p: int
    denominator: int
    rows: NDArray[np.int64]

    def numerators(self) -> dict[int, int]:
        """Row -> non-zero integer; divide by `denominator`."""
        used = np.flatnonzero(self.digits.any(axis=0))
        value = self.digits[-1, used].astype(object)
        for line in self.digits[-2::-1]:
            value = value * self.p + line[used]
        return {int(i): int(v) for i, v in zip(self.rows[used].tolist(), value, strict=True)}

    def weights(self) -> dict[int, Fraction]:
        """Row -> weight, ascending by row."""
        return {i: Fraction(n, self.denominator) for i, n in sorted(self.numerators().items())}


def rational(a: int, modulus: int) -> tuple[int, int] | None:
    """The fraction n/d = a (mod modulus) with |n|, d <= sqrt(modulus/2), if there is one.

    >>> rational(pow(7, -1, 10007) * 3 % 10007, 10007)
    (3, 7)
    """
    bound = isqrt(modulus // 2)
    r0, r1, t0, t1 = modulus, a % modulus, 0, 1
    while r1 > bound:
        q = r0 // r1
        r0, r1, t0, t1 = r1, r0 - q * r1, t1, t0 - q * t1
    if t1 == 0 or abs(t1) > bound:
        return None
    return (r1, t1) if t1 > 0 else (-r1, -t1)


def common_denominator(residues: list[int], modulus: int) -> int | None:
    """A denominator that clears all the fractions behind `residues`, or None if the modulus is too small.

    >>> M = 10007**2
    >>> common_denominator([pow(4, -1, M) * 3 % M, pow(6, -1, M), 5], M)
    12
    """
    d, bound = 1, isqrt(modulus // 2)
    for a in residues:
        v = balance(a * d, modulus)
        if abs(v) > bound:
            fraction = rational(v, modulus)
            if fraction is None:
                return None
            d *= fraction[1]
            if d > bound:
                return None
    return d


class Lifting:
    """Solves w A = c exactly over the rationals, for a factor B of A that is non-singular mod p.

    `A` (r, K) holds the pivot rows over the integers, its first r columns are B; `B_inverse` is B^-1 mod p. The
    product of a digit vector (|x| < p) with A must be exact in A's dtype: float64 when r |A| p < 2^53, else int64,
    else Python integers (`exact_dtype` chooses).

    Cost O(r K) a digit and target, where the number of digits is the bit length of the solution over 22.

    >>> p = 4194319
    >>> L = Lifting(np.array([[2.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), Field(p).inverse(np.diag([2.0, 1.0])), Field(p))
    >>> w = L.solve(np.array([[1.0, 5.0, 6.0], [1.0, 5.0, 7.0]]), np.array([0, 1]))
    >>> w[0].weights(), w[1]
    ({0: Fraction(1, 2), 1: Fraction(5, 1)}, None)
    """

    def __init__(self, A: NDArray[Any], B_inverse: Floats, field: Field) -> None:
        self.A, self.B_inverse, self.field = A, B_inverse, field
        self.r = len(B_inverse)
        # Python integers are cut into float64 limbs, so that the BLAS does the products and only sums are slow.
        self._shift = 52 - 22 - len(A).bit_length()
        self._limbs = _float_limbs(A, self._shift) if A.dtype == object else []

    def solve(self, targets: NDArray[Any], rows: NDArray[np.int64]) -> list[Combination | None]:
        """For each row c of `targets` (count, K): w with w A = c in every column, or None when there is none."""
        step = max(16, _DIGITS_AT_ONCE // max(1, self.r))
        out: list[Combination | None] = []
        for s in range(0, len(targets), step):
            out += self._solve(targets[s : s + step], rows)
        return out

    def _solve(self, targets: NDArray[Any], rows: NDArray[np.int64]) -> list[Combination | None]:
        found: list[Combination | None] = [None] * len(targets)
        live = np.arange(len(targets))
        residual = targets.astype(self.A.dtype, copy=True)
        digits: list[Digits] = []
        modulus, check = 1, 2
        while len(live):
            X, residual, inside = self._digit(residual)
            digits.append(X.astype(np.int32))
            modulus *= self.field.p
            ended = inside & ~np.any(residual != 0, axis=1)
            for e in np.flatnonzero(ended):
                found[live[e]] = self._combination(digits, int(e), 1, rows)
            keep = inside & ~ended
            if len(digits) == check:  # these are not (short) integers: look for their denominators
                check = check * 3 // 2 + 1
                keep = self._clear_denominators(targets, live, keep, digits, modulus, rows, found)
            if not keep.all():
                live, residual = live[keep], residual[keep]
                digits = [X[keep] for X in digits]
        return found

    def _clear_denominators(
        self,
        targets: NDArray[Any],
        live: NDArray[np.int64],
        keep: NDArray[np.bool_],
        digits: list[Digits],
        modulus: int,
        rows: NDArray[np.int64],
        found: list[Combination | None],
    ) -> NDArray[np.bool_]:
        """Guess a denominator from one target and try it on all: they mostly share one, a divisor of det B."""
        keep = keep.copy()
        for _ in range(_GUESSES):
            open_ = np.flatnonzero(keep)
            if not len(open_):
                break
            value = self._combination(digits, int(open_[0]), 1, rows).numerators()
            d = common_denominator(list(value.values()), modulus)
            if d is None or d == 1:
                break  # too few digits yet
            for e, solution in zip(open_, self._integers(targets[live[open_]], d, len(digits), rows), strict=True):
                if solution is not None:
                    found[live[e]] = solution
                    keep[e] = False
            if keep[open_[0]]:
                break
        return keep

    def weights_mod_p(self, heads: Floats) -> Floats:
        """heads B^-1 mod p; columns that are zero in all heads (unit targets) cost nothing."""
        used = np.flatnonzero(heads.any(axis=0))
        if 2 * len(used) < self.r:
            return self.field.product(heads[:, used], self.B_inverse[used])
        return self.field.product(heads, self.B_inverse)

    def _digit(self, residual: NDArray[Any]) -> tuple[Floats, NDArray[Any], NDArray[np.bool_]]:
        """The next digits X, the next residual (residual - X A) / p, and which residuals were divisible by p."""
        p = self.field.p
        head = residual[:, : self.r]
        if residual.dtype == np.float64:
            X = self.weights_mod_p(self.field.reduce(head.copy()))
            rest = residual - X @ self.A
            quotient = np.rint(rest / p)
            return X, quotient, ~np.any(rest != quotient * p, axis=1)
        X = self.weights_mod_p(self.field.residues(head))
        if residual.dtype == object:
            rest = residual.copy()
            for at, limb in enumerate(self._limbs):
                rest -= (X @ limb).astype(np.int64).astype(object) << at * self._shift
        else:
            rest = residual - X.astype(np.int64) @ self.A
        return X, rest // p, ~np.any(rest % p != 0, axis=1)

    def _integers(self, targets: NDArray[Any], d: int, most: int, rows: NDArray[np.int64]) -> list[Combination | None]:
        """Integer solutions of w A = d c in about `most` digits; d enters digit by digit, so residuals stay small."""
        p = self.field.p
        found: list[Combination | None] = [None] * len(targets)
        live = np.arange(len(targets))
        spare = d
        residual = np.zeros((len(targets), self.A.shape[1]), dtype=self.A.dtype)
        digits: list[Digits] = []
        while len(digits) <= most + 1 and len(live):
            low = balance(spare, p)
            spare = (spare - low) // p
            residual = residual + low * targets[live]
            X, residual, inside = self._digit(residual)
            digits.append(X.astype(np.int32))
            ended = inside & ~np.any(residual != 0, axis=1) if spare == 0 else np.zeros(len(live), dtype=bool)
            for e in np.flatnonzero(ended):
                found[live[e]] = self._combination(digits, int(e), d, rows)
            keep = inside & ~ended
            if not keep.all():
                live, residual = live[keep], residual[keep]
                digits = [X[keep] for X in digits]
        return found

    def _combination(self, digits: list[Digits], e: int, d: int, rows: NDArray[np.int64]) -> Combination:
        return Combination(np.array([X[e] for X in digits]), self.field.p, d, rows)


def _float_limbs(A: NDArray[Any], shift: int) -> list[Floats]:
    """A = sum_l limbs[l] 2^(l shift) with limbs below 2^shift in magnitude."""
    sign, rest = np.where(A < 0, -1, 1), np.abs(A)
    out: list[Floats] = []
    while rest.any():
        out.append((rest % (1 << shift) * sign).astype(np.float64))
        rest = rest >> shift
    return out


def exact_dtype(rows: int, magnitude: int) -> np.dtype[Any]:
    """The cheapest dtype in which sums of `rows` products digit x entry are exact (digits are below 2^21.6)."""
    size = max(1, rows) * max(1, magnitude)
    if size < 1 << 30:
        return np.dtype(np.float64)
    return np.dtype(np.int64) if size < 1 << 39 else np.dtype(object)
