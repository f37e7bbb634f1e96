"""From weights modulo a prime to exact rational weights: Dixon's p-adic lifting and rational reconstruction."""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.modular import product, reduce

Floats = NDArray[np.float64]
Solution = tuple[list[int], int]  # integer numerators over the pivot rows, one common denominator


def rational(a: int, modulus: int) -> tuple[int, int] | None:
    """The fraction n/d = a (mod modulus) with |n|, d <= sqrt(modulus/2), if there is one (Wang 1981).

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


def reconstruct(residues: list[int], modulus: int) -> Solution | None:
    """A vector of fractions with one common denominator from its residues, or None if the modulus is too small."""
    d = 1
    bound = isqrt(modulus // 2)
    numerators: list[int] = []
    for a in residues:
        v = a * d % modulus
        if v > modulus // 2:
            v -= modulus
        if abs(v) > bound:
            fraction = rational(v, modulus)
            if fraction is None:
                return None
            v, more = fraction
            d *= more
            if d > bound:
                return None
            numerators = [n * more for n in numerators]
        numerators.append(v)
    return numerators, d


def lift(B: NDArray[Any], B_inverse: Floats, targets: NDArray[Any], p: int) -> list[Solution]:
    """Exact solutions w of w B = c for every row c of `targets`, given B^-1 mod p (Dixon 1982).

    B is square and non-singular mod p, hence over the rationals; every solution exists and is unique. With balanced
    digits the residual of an integer solution reaches 0, which proves w B = c at once; the rest is reconstructed
    when enough digits are known and checked against B in integers. Cost O(r^2) a digit and target; the number of
    digits is the bit length of the solution over 22.

    >>> B = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> p = 4194319
    >>> lift(B, np.array([[(p + 1) // 2 - p, 0.0], [0.0, 1.0]]), np.array([[1.0, 5.0]]), p)
    [([1, 10], 2)]
    """
    count, r = targets.shape
    found: list[Solution | None] = [None] * count
    if r == 0:
        return [([], 1)] * count
    live = np.arange(count)
    residual = targets.copy()
    digits: list[NDArray[Any]] = []  # per step: (live, r)
    power, check = 1, 2
    while len(live):
        X = product(balanced_rows(residual, p), B_inverse, p)
        digits.append(X)
        residual = residual - exact_product(X, B)
        residual = residual // p if residual.dtype == object else np.rint(residual / p)
        power *= p
        done = ~np.any(residual != 0, axis=1)
        for e in np.flatnonzero(done):
            found[live[e]] = ([int(v) for v in combine(digits, int(e), p)], 1)
        if len(digits) == check:
            check = check * 3 // 2 + 1
            for e in np.flatnonzero(~done):
                solution = reconstruct([int(v) for v in combine(digits, int(e), p)], power)
                if solution is not None and solves(B, solution, targets[live[e]]):
                    found[live[e]] = solution
                    done[e] = True
        if done.any():
            keep = ~done
            live, residual = live[keep], residual[keep]
            digits = [X[keep] for X in digits]
    return [s for s in found if s is not None]


def combine(digits: list[NDArray[Any]], e: int, p: int) -> NDArray[Any]:
    """sum_k digits[k][e] p^k as Python integers, by Horner's rule."""
    value = digits[-1][e].astype(np.int64).astype(object)
    for X in reversed(digits[:-1]):
        value = value * p + X[e].astype(np.int64)
    return value


def solves(B: NDArray[Any], solution: Solution, target: NDArray[Any]) -> bool:
    """Whether w B = c exactly for w = numerators / denominator."""
    numerators, d = solution
    big = np.empty(len(numerators), dtype=object)
    big[:] = numerators
    exact = as_integers(B)
    return bool(np.all(big @ exact == as_integers(target) * d))


def as_integers(values: NDArray[Any]) -> NDArray[Any]:
    """Float64 integers as Python integers in an object array."""
    return values if values.dtype == object else values.astype(np.int64).astype(object)


def balanced_rows(residual: NDArray[Any], p: int) -> Floats:
    """residual mod p, balanced, as float64."""
    if residual.dtype == object:
        small = (residual % p).astype(np.float64)
        return reduce(small, p)
    return reduce(residual.copy(), p)


def exact_product(X: Floats, B: NDArray[Any]) -> NDArray[Any]:
    """X B over the integers: float64 when B is (the caller keeps r * |B| * p below 2^53), else Python integers."""
    if B.dtype == object:
        return as_integers(X) @ B
    out: NDArray[Any] = X @ B
    return out
