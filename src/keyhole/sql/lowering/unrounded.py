"""A comparison of a rounded number as one of the number itself: FLOOR(y) > 5.2 is y >= 6.

With s the unit (1, or 10^-d for d digits) a rounded number is k s, k whole, so that `> c` and `>= c` are k >= k0, and
`< c` and `<= c` are not(k >= k0). Rounding never turns an order round, hence k >= k0 is y >= e or y > e:

    FLOOR  y >= k0 s            CEIL   y > (k0 - 1) s
    TRUNC  y >= k0 s if k0 > 0, else y > (k0 - 1) s
    ROUND  y >= (k0 - 1/2) s if k0 > 0, else y > (k0 - 1/2) s      (a half goes away from zero)

It is exact of the number that the engine rounds. With digits, a DOUBLE is multiplied and divided on the way, which
moves the edge by an ulp: `Threshold.unit` says so. What is not sure (a CAST of a DOUBLE, which adds 10^-9 first; digits
of a statistic of DOUBLEs; constants that a DOUBLE does not hold) is refused.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from keyhole.model.meaning import NEGATED
from keyhole.model.query import CEIL, CUT, FLOOR, HALF, ORDERED, Aggregate, Query, Threshold
from keyhole.model.schema import Kind, Schema
from keyhole.sql.lowering.constants import to_decimal

LARGEST, LARGEST_FLOAT = 2**53, 2**24  # whole numbers below these are all held by a DOUBLE, by a FLOAT
MOST_DIGITS = 15
ASK_RANGE = "= and <> of a rounded number ask for a range: compare it by >= and <="
UNSURE = "where a rounded number turns here is not sure: compare the number itself"


def unrounded(op: str, at: Fraction, rounding: str, unit: Fraction) -> tuple[str, Fraction]:
    """The comparison of y that is that of y rounded to multiples of `unit`; `op` is one of > >= < <=.

    >>> [(op, str(at)) for op, at in (unrounded(">", Fraction("5.2"), FLOOR, Fraction(1)),
    ...     unrounded(">", Fraction("2.75"), HALF, Fraction(1)), unrounded("<", Fraction(0), HALF, Fraction(1)))]
    [('>=', '6'), ('>=', '5/2'), ('<=', '-1/2')]
    """
    if op in ("<", "<="):
        opposite, edge = unrounded(NEGATED[op], at, rounding, unit)
        return NEGATED[opposite], edge
    k = floor(at / unit) + 1 if op == ">" else ceil(at / unit)
    if rounding == HALF:
        return (">=" if k > 0 else ">"), (k - Fraction(1, 2)) * unit
    down = rounding == FLOOR or (rounding != CEIL and k > 0)
    return (">=", k * unit) if down else (">", (k - 1) * unit)


def compared_unrounded(query: Query, op: str, at: Fraction, schema: Schema, *, cast: bool) -> Query | str:
    """A query with digits, compared with a constant, as a comparison of its number; a reason where it cannot be.

    `cast`: the digits are those of a CAST to DECIMAL.
    """
    assert query.digits is not None
    if op in ("=", "<>"):
        return ASK_RANGE
    unit = Fraction(1) / Fraction(10) ** query.digits
    op, edge = unrounded(op, at, query.rounding, unit)
    kinds = {column.kind for name in query.columns if (column := schema.find(name)) is not None}
    whole = all(t.factor.denominator == 1 and t.weight is None for t in query.terms) and not query.per
    held = whole and len(kinds) <= 1 and kinds <= {Kind.INTEGER, Kind.DECIMAL}  # by the engine, with all its digits
    ordered = query.aggregate in ORDERED
    if ordered and query.aggregate in CUT and kinds != {Kind.DECIMAL}:
        held = False
    narrow = ordered and not held
    unsure = (cast or (query.digits != 0 and (ordered or query.aggregate is Aggregate.VAR))) and not held
    number = to_decimal(edge)
    if unsure or number is None or abs(query.digits) > MOST_DIGITS:
        return UNSURE
    if max(abs(edge), abs(at)) / min(unit, Fraction(1)) >= (LARGEST_FLOAT if narrow else LARGEST):
        return UNSURE
    return replace(query, digits=None, rounding=HALF, test=Threshold(op, Decimal(number), unit))
