"""What squares give away: variances and sums of squares, of single people and of groups in which everybody is equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from keyhole.audit.base import Proof, SquareSums, Status, shown_value
from keyhole.audit.known import Claim, Known, Solved
from keyhole.audit.rules.linear import linear_proof
from keyhole.evidence import Constraint, System
from keyhole.knowledge import Knowledge
from keyhole.predicate import Predicate
from keyhole.transcript import simplest_decimal

ALL_EQUAL = "the variance is zero, so everybody has the average"
ALL_ZERO = "the squares add up to zero, so every value is zero"
TWO_ROOTS = "two values with this sum and these squares are known up to their order"


def squares(system: System, known: Known) -> Iterator[Claim]:
    """Everybody in a group without variance, sums with their sums of squares, and single squares."""
    number = known.number(system)
    yield from _equal_values(number, system)
    yield from _square_sums(number, system)
    if any(feature.power == 2 for feature in system.features):
        yield from _single_squares(number, system, known)


def _equal_values(number: int, system: System) -> Iterator[Claim]:
    """A variance of zero exposes everybody in the group: each value is the average."""
    said = {c.number: c for c in system.constraints}
    for equal in system.equal:
        partner = said[equal.partner]
        inside = system.atoms.records(equal.where)
        value = None
        if partner.lo is not None and partner.hi is not None:
            value = shown_value((partner.lo / len(inside), partner.hi / len(inside)))
        told = SquareSums("equal", equal.where, equal.number, equal.partner, variance=True)
        proof = Proof(number, {equal.partner: Fraction(1), equal.number: Fraction(1)}, rule=ALL_EQUAL, moments=told)
        for r in inside.tolist():
            yield Claim(r, equal.column, Status.EXPOSED, value, value, value, proof)


def _square_sums(number: int, system: System) -> Iterator[Claim]:
    """SUM(x) and SUM(x*x) of the same people: equal values where n SUM(x*x) = SUM(x)^2, and two people up to order.

    Only exact answers count. A sum of squares that is zero makes everybody zero.
    """
    linear: dict[tuple[str, Predicate], Constraint] = {}
    for c in system.constraints:
        if _exact(c) and len(c.parts) == 1:
            part = c.parts[0]
            feature = system.features[part.feature]
            if feature.column is not None and feature.power == 1 and part.factor == 1 and part.weight is None:
                linear[feature.column, part.where] = c
    for c in system.constraints:
        if not _exact(c) or c.lo is None or any(p.weight is not None for p in c.parts):
            continue
        square = [p for p in c.parts if system.features[p.feature].power == 2]
        plain = [p for p in c.parts if system.features[p.feature].power == 1]
        if len(square) != 1 or len(plain) > 1 or len(square) + len(plain) != len(c.parts):
            continue
        column, at = system.features[square[0].feature].column, square[0].where
        if column is None or any(system.features[p.feature].column != column or p.where != at for p in plain):
            continue
        inside = system.atoms.records(at)
        partner = linear.get((column, at))
        if not plain and c.lo == 0:
            told = SquareSums("zero", at, c.number, factor=square[0].factor)
            proof = Proof(number, {c.number: Fraction(1)}, rule=ALL_ZERO, moments=told)
            yield from _all(inside, column, Fraction(0), proof)
            continue
        if partner is None or partner.lo is None or not len(inside):
            continue
        factor, linearly = square[0].factor, plain[0].factor if plain else Fraction(0)
        told = SquareSums("", at, c.number, partner.number, factor, linearly)
        yield from _two_moments(number, inside, column, partner.lo, (c.lo - linearly * partner.lo) / factor, told)


def _two_moments(
    number: int, inside: NDArray[np.int64], column: str, total: Fraction, squared: Fraction, told: SquareSums
) -> Iterator[Claim]:
    """What a sum and a sum of squares of the same people tell of each of them."""
    weights = dict.fromkeys((told.total, told.squares), Fraction(1))
    left = len(inside) * squared - total * total
    if left == 0:
        proof = Proof(number, weights, rule=ALL_EQUAL, moments=replace(told, kind="equal"))
        yield from _all(inside, column, total / len(inside), proof)
    elif len(inside) == 2 and left > 0:
        gap = Fraction(_root(left, left))
        low, high = (simplest_decimal(v, v) for v in ((total - gap) / 2, (total + gap) / 2))
        proof = Proof(number, weights, rule=TWO_ROOTS, moments=replace(told, kind="roots"))
        for r in inside.tolist():
            yield Claim(r, column, Status.INFERRED, None, low, high, proof, allowed=(low, high))


def _exact(c: Constraint) -> bool:
    return c.exact and c.lo is not None and c.lo == c.hi


def _all(inside: NDArray[np.int64], column: str, value: Fraction, proof: Proof) -> Iterator[Claim]:
    shown = simplest_decimal(value, value)
    for r in inside.tolist():
        yield Claim(r, column, Status.EXPOSED, shown, shown, shown, proof)


def _single_squares(number: int, system: System, known: Known) -> Iterator[Claim]:
    """Records whose square is determined (from variances and SUM(x*x))."""
    solved, K = known.solved(system), system.atoms.K
    for unknown in sorted(solved.determined):
        f, k = divmod(unknown, K)
        feature = system.features[f]
        if feature.power != 2 or feature.column is None or system.atoms.sizes[k] != 1:
            continue
        if system.value_of(feature.column, k, 2) != {unknown: 1}:
            continue
        weights = solved.space.weights(solved.built.column(unknown))
        if weights is not None:
            proof = linear_proof(number, solved.built, weights, {unknown: 1})
            yield _roots(proof, solved, feature.column, int(system.atoms.first[k]), known.knowledge)


def _roots(proof: Proof, solved: Solved, column: str, row: int, knowledge: Knowledge) -> Claim:
    """A determined square x^2: then |x| is known, and x where its sign is."""
    ends = proof.ends(solved.by_number)
    if ends is None:
        return Claim(row, column, Status.INFERRED, None, None, None, proof)
    root = _root(max(ends[0], Fraction(0)), max(ends[1], Fraction(0)))
    prior = knowledge.prior(column)
    if (prior.lo is not None and prior.lo >= 0) or root == 0:
        return Claim(row, column, Status.EXPOSED, root, root, root, proof)
    if prior.hi is not None and prior.hi <= 0:
        return Claim(row, column, Status.EXPOSED, -root, -root, -root, proof)
    return Claim(row, column, Status.INFERRED, None, -root, root, proof, allowed=(-root, root))


def _root(lo: Fraction, hi: Fraction) -> Decimal:
    """The shortest decimal whose square lies in [lo, hi], to twelve digits."""

    def floor_root(value: Fraction, digits: int) -> int:
        return isqrt(value.numerator * 10 ** (2 * digits) // value.denominator)

    low, high = Fraction(floor_root(lo, 15), 10**15), Fraction(floor_root(hi, 15) + 1, 10**15)
    found = shown_value((low, high))
    assert found is not None
    return found
