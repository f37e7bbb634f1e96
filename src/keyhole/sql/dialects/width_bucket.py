"""WIDTH_BUCKET of PostgreSQL as the CASE that it is, where every version of it puts every number into the same bucket.

With bounds b1 < b2 and c buckets, a number x is in bucket 0 below b1, in c + 1 from b2 on, else in
floor(c (x - b1) / (b2 - b1)) + 1: lower ends belong to their bucket. With b1 > b2 the order is turned round, and upper
ends belong. Decimals are computed exactly there. Whole numbers between whole bounds are computed with doubles: in
early versions the product first, in later ones the quotient, so that 29 is in bucket 30 or 29 of (n, 0, 100, 100).
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

from sqlglot import exp

from keyhole.model.numbers import round_fraction
from keyhole.sql.dialects.sorts import Differs, number_said

MOST_BUCKETS = 100
FEW_DIGITS = 9  # of a bound behind the point
_LARGEST = 10**15  # whole numbers up to it are doubles


def width_bucket(node: exp.WidthBucket, digits: int | None, whole: bool) -> exp.Case:
    """The CASE that a WIDTH_BUCKET between constants is.

    `digits` are those behind the point that the number can have (None: not known); `whole`: it is a whole number there.
    Guarantee: tests/sql/test_width_bucket.py runs it in PostgreSQL, on the ends and beside them. Raises `Differs`.

    >>> import sqlglot
    >>> node = sqlglot.parse_one("WIDTH_BUCKET(n, 10, 0, 3)", read="postgres")
    >>> width_bucket(node, 0, True).sql()
    'CASE WHEN n IS NULL THEN NULL WHEN n > 10 THEN 0 WHEN n > 6 THEN 1 WHEN n > 3 THEN 2 WHEN n > 0 THEN 3 ELSE 4 END'
    """
    if node.args.get("threshold") is not None:
        return _case(node.this, _listed(node.args["threshold"]), exp.LT)
    said = [number_said(node.args.get(name)) for name in ("min_value", "max_value", "num_buckets")]
    if None in said:
        raise Differs(": WIDTH_BUCKET is judged between constants, with a constant number of buckets")
    first, last, count = (Fraction(text) for text in said if text is not None)
    if not 1 <= count <= MOST_BUCKETS or count.denominator != 1 or first == last:
        raise Differs(f": WIDTH_BUCKET is judged for 1 to {MOST_BUCKETS} buckets between two bounds")
    ends = [first + (last - first) * k / count for k in range(int(count) + 1)]
    falling = first > last
    if digits is not None:
        grid = 10**digits
        ends = [Fraction((math.floor if falling else math.ceil)(end * grid), grid) for end in ends]
    if any((end * 10**FEW_DIGITS).denominator != 1 for end in ends):
        raise Differs(
            f": WIDTH_BUCKET of decimals is judged where its ends have at most {FEW_DIGITS} digits behind the point"
        )
    if whole and not any("." in text for text in said if text is not None) and not _sure(first, last, int(count), ends):
        raise Differs(
            ": WIDTH_BUCKET of whole numbers is computed with doubles there, and versions differ in the bucket of a "
            f"number on a bound: write a bound as a decimal ({said[0]}.0)"
        )
    return _case(node.this, ends, exp.GT if falling else exp.LT)


def _sure(first: Fraction, last: Fraction, count: int, ends: list[Fraction]) -> bool:
    """Do both formulas put each end, and the whole number before it, where it belongs? Both are monotone."""
    if max(abs(first), abs(last)) > _LARGEST:
        return False
    step = 1 if first > last else -1
    places = [(int(end) + by, k + (by == 0)) for k, end in enumerate(ends) for by in (0, step)]
    inside = [(x, bucket) for x, bucket in places if min(first, last) < x < max(first, last) or x == first]
    a, b = float(first), float(last)
    return all(
        bucket == int(count * (x - a) / (b - a)) + 1 == min(int(count * ((x - a) / (b - a))), count - 1) + 1
        for x, bucket in inside
        if x != last
    )


def _listed(array: exp.Expr) -> list[Fraction]:
    """The bounds of WIDTH_BUCKET(x, ARRAY[...]): a number is in the bucket of how many of them it reaches."""
    said = [number_said(each) for each in array.expressions] if isinstance(array, exp.Array) else []
    bounds = [Fraction(text) for text in said if text is not None]
    ascending = all(a < b for a, b in pairwise(bounds))
    if not 1 <= len(said) <= MOST_BUCKETS or len(bounds) < len(said) or not ascending:
        raise Differs(f": WIDTH_BUCKET of an ARRAY is judged for 1 to {MOST_BUCKETS} ascending constants")
    return bounds


def _case(of: exp.Expr, ends: list[Fraction], beyond: type[exp.LT | exp.GT]) -> exp.Case:
    """Bucket k before the k-th end; behind all of them, the last."""
    case = exp.Case(ifs=[_when(exp.Is(this=of.copy(), expression=exp.Null()), exp.Null())])
    for number, end in enumerate(ends):
        case.append("ifs", _when(beyond(this=of.copy(), expression=_constant(end)), exp.Literal.number(number)))
    case.set("default", exp.Literal.number(len(ends)))
    return case


def _when(test: exp.Expr, then: exp.Expr) -> exp.If:
    return exp.If(this=test, true=then)


def _constant(value: Fraction) -> exp.Expr:
    number: exp.Expr = exp.Literal.number(f"{round_fraction(abs(value)):f}")
    return exp.Neg(this=number) if value < 0 else number
