"""A value that an identity fixes, up to the dust of floating-point sums: exposed, or only narrowed down?"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from keyhole.auditing.base import Proof, Status
from keyhole.auditing.known import Claim
from keyhole.auditing.numbers import outward
from keyhole.model.grid import Grid
from keyhole.model.numbers import find_simplest_decimal

SHARE = Fraction(1, 100)  # of a value: dust below it leaves the value exposed
FINE = Fraction(1, 10**9)  # of a value: dust below it is not shown
ROOT_DIGITS = 20


def settled(
    row: int,
    column: str,
    ends: tuple[Fraction, Fraction] | None,
    proof: Proof,
    grid: Grid,
    *,
    rounded: bool = False,
) -> Claim:
    """A claim about a value that lies between `ends` by an identity, blurred by floating-point sums or by rounding.

    Exposed, if one number of the column is left, or if nothing is `rounded` and the range is below 1 % of the value;
    else inferred, within what is declared. Without answers (`ends` None) the value is determined, and not at hand.

    >>> proof, pay = Proof(0, {"1": Fraction(1)}), (Fraction("4.995"), Fraction("5.005"))
    >>> str(settled(0, "pay", pay, proof, Grid(Fraction(1)), rounded=True).value)
    '5'
    >>> str(settled(0, "pay", pay, proof, Grid(None), rounded=True).status)
    'inferred'
    """
    if ends is None:
        return Claim(row, column, Status.EXPOSED, None, None, None, proof)
    only = grid.sole(*ends) if grid.step is not None else None
    if only is not None:
        ends = (only, only)
    lo, hi = _declared(ends, grid)
    value, width = find_simplest_decimal(lo, hi), hi - lo
    low, high = (value, value) if Fraction(value) == lo == hi else outward(lo, hi)
    if width == 0:
        return Claim(row, column, Status.EXPOSED, value, low, high, proof)
    if rounded or width >= SHARE * abs(lo + hi) / 2 or _several(lo, hi, grid):
        return Claim(row, column, Status.INFERRED, None, low, high, proof)
    if width <= max(Fraction(1), abs(lo)) * FINE:
        low = high = value
    return Claim(row, column, Status.EXPOSED, value, low, high, proof)


def tells(claim: Claim, grid: Grid) -> bool:
    """Does a claim say more of a value than that it is one that the column can hold?

    >>> grid, ends = Grid(None, lo=Fraction(0)), (Fraction(-5), Fraction(5))
    >>> some = settled(0, "pay", ends, Proof(0, {}), grid, rounded=True)
    >>> tells(some, grid), tells(some, Grid(None, lo=Fraction(0), hi=Fraction(4)))
    (True, False)
    """
    if claim.status is Status.EXPOSED or claim.allowed or claim.excluded:
        return True
    ends = [None if end is None else Fraction(end) for end in (claim.lo, claim.hi)]
    return grid.between(*ends) != grid.between(None, None)


def _several(lo: Fraction, hi: Fraction, grid: Grid) -> bool:
    """Is more than one number of a declared grid left, so that none of them is the value for sure?"""
    left = grid.between(lo, hi) if grid.step is not None else None
    return left is not None and left[0] != left[1]


def _declared(ends: tuple[Fraction, Fraction], grid: Grid) -> tuple[Fraction, Fraction]:
    """What of a range lies inside the declared one; all of it where nothing does, which is told elsewhere."""
    low = ends[0] if grid.lo is None else max(ends[0], grid.lo)
    high = ends[1] if grid.hi is None else min(ends[1], grid.hi)
    return (low, high) if low <= high else ends


def exact_root(square: Fraction) -> Fraction | None:
    """The square root of a fraction, if that is a fraction.

    >>> exact_root(Fraction(9, 4)), exact_root(Fraction(2))
    (Fraction(3, 2), None)
    """
    if square < 0:
        return None
    top, per = isqrt(square.numerator), isqrt(square.denominator)
    return Fraction(top, per) if Fraction(top, per) ** 2 == square else None


def root_ends(lo: Fraction, hi: Fraction) -> tuple[Fraction, Fraction]:
    """Between what the square root of a number in [lo, hi] lies, 0 <= lo: exactly where it can be, else outwards."""
    low, high = exact_root(lo), exact_root(hi)
    if low is None:
        low = Fraction(_floor(lo), 10**ROOT_DIGITS)
    if high is None:
        high = Fraction(_floor(hi) + 1, 10**ROOT_DIGITS)
    return low, high


def _floor(value: Fraction) -> int:
    return isqrt(value.numerator * 10 ** (2 * ROOT_DIGITS) // value.denominator)
