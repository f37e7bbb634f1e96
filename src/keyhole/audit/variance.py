"""What variances give away: squares of single people, and groups in which everybody is equal."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from keyhole.audit.base import Finding, Proof, Status, shown_value
from keyhole.evidence import Row, System
from keyhole.knowledge import Knowledge
from keyhole.transcript import simplest_decimal

ALL_EQUAL = "the variance is zero, so everybody has the average"
ALL_ZERO = "the squares add up to zero, so every value is zero"
TWO_ROOTS = "two values with this sum and these squares are known up to their order"


def equal_values(number: int, system: System) -> Iterator[Finding]:
    """A variance of zero exposes everybody in the group: each value is the average."""
    rows = {row.number: row for row in system.rows}
    for equal in system.equal:
        partner = rows[equal.partner]
        inside = np.flatnonzero(system.atoms.mask(equal.predicate)[system.atoms.of])
        value = None
        if partner.lo is not None and partner.hi is not None:
            value = shown_value((partner.lo / len(inside), partner.hi / len(inside)))
        proof = Proof(number, {equal.partner: Fraction(1), equal.number: Fraction(1)}, rule=ALL_EQUAL)
        for r in inside.tolist():
            yield Finding({}, int(r), equal.column, Status.EXPOSED, value, value, value, proof)


def square_sums(number: int, system: System) -> Iterator[Finding]:
    """SUM(x) and SUM(x*x) of the same people: equal values where n SUM(x*x) = SUM(x)^2, and two people up to order.

    Only exact answers count. A sum of squares that is zero makes everybody zero.
    """
    linear: dict[tuple[str, int], Row] = {}
    for row in system.rows:
        if row.exact and len(row.entries) == 1 and row.lo is not None and row.lo == row.hi:
            e = row.entries[0]
            feature = system.features[e.feature]
            if feature.column is not None and feature.power == 1 and e.factor == 1 and e.weight is None:
                linear[feature.column, e.predicate] = row
    for row in system.rows:
        if not row.exact or row.lo is None or row.lo != row.hi or any(e.weight is not None for e in row.entries):
            continue
        square = [e for e in row.entries if system.features[e.feature].power == 2]
        plain = [e for e in row.entries if system.features[e.feature].power == 1]
        if len(square) != 1 or len(plain) > 1 or len(square) + len(plain) != len(row.entries):
            continue
        column, at = system.features[square[0].feature].column, square[0].predicate
        if column is None or any(system.features[e.feature].column != column or e.predicate != at for e in plain):
            continue
        inside = np.flatnonzero(system.atoms.mask(at)[system.atoms.of])
        partner = linear.get((column, at))
        if not plain and row.lo == 0:
            yield from _all(inside, column, Fraction(0), Proof(number, {row.number: Fraction(1)}, rule=ALL_ZERO))
            continue
        if partner is None or partner.lo is None or not len(inside):
            continue
        total = partner.lo
        squares = (row.lo - (plain[0].factor * total if plain else 0)) / square[0].factor
        weights = {partner.number: Fraction(1), row.number: Fraction(1)}
        if len(inside) * squares == total * total:
            yield from _all(inside, column, total / len(inside), Proof(number, weights, rule=ALL_EQUAL))
        elif len(inside) == 2 and 2 * squares > total * total:
            gap = _root(2 * squares - total * total, 2 * squares - total * total)
            low, high = (simplest_decimal(v, v) for v in ((total - Fraction(gap)) / 2, (total + Fraction(gap)) / 2))
            proof = Proof(number, weights, rule=TWO_ROOTS)
            for r in inside.tolist():
                yield Finding({}, int(r), column, Status.INFERRED, None, low, high, proof, allowed=(low, high))


def _all(inside: NDArray[np.int64], column: str, value: Fraction, proof: Proof) -> Iterator[Finding]:
    shown = simplest_decimal(value, value)
    for r in inside.tolist():
        yield Finding({}, int(r), column, Status.EXPOSED, shown, shown, shown, proof)


def roots(proof: Proof, system: System, column: str, k: int, knowledge: Knowledge) -> Finding | None:
    """A determined square x^2: then |x| is known, and x where its sign is."""
    ends = proof.interval(system)
    row = int(system.atoms.first[k])
    if ends is None:
        return Finding({}, row, column, Status.INFERRED, None, None, None, proof)
    root = _root(max(ends[0], Fraction(0)), max(ends[1], Fraction(0)))
    prior = knowledge.prior(column)
    if (prior.lo is not None and prior.lo >= 0) or root == 0:
        return Finding({}, row, column, Status.EXPOSED, root, root, root, proof)
    if prior.hi is not None and prior.hi <= 0:
        return Finding({}, row, column, Status.EXPOSED, -root, -root, -root, proof)
    return Finding({}, row, column, Status.INFERRED, None, -root, root, proof, allowed=(-root, root))


def _root(lo: Fraction, hi: Fraction) -> Decimal:
    """The shortest decimal whose square lies in [lo, hi], to twelve digits."""

    def floor_root(value: Fraction, digits: int) -> int:
        return isqrt(value.numerator * 10 ** (2 * digits) // value.denominator)

    low, high = Fraction(floor_root(lo, 15), 10**15), Fraction(floor_root(hi, 15) + 1, 10**15)
    found = shown_value((low, high))
    assert found is not None
    return found
