"""What variances give away: squares of single people, and groups in which everybody is equal."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from math import isqrt

import numpy as np

from keyhole.audit.base import Finding, Proof, Status, shown_value
from keyhole.evidence import System
from keyhole.knowledge import Knowledge

ALL_EQUAL = "the variance is zero, so everybody has the average"


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
