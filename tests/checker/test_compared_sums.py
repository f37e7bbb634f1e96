"""What the checker makes of a yes or no: the next sum of the grid, and no more than the engine's arithmetic allows."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product

import pytest

from keyhole.checker.ranges import ColumnValues, ComparedSum, Place


def column(least: str, most: str, step: str | None, *, floating: bool = True) -> ColumnValues:
    base = Fraction(0) if step is None else Fraction(least)
    return ColumnValues(Fraction(least), Fraction(most), None if step is None else Fraction(step), base, floating)


def summed(at: str, n: int, held: ColumnValues, share: Fraction = Fraction(1)) -> ComparedSum:
    return ComparedSum(Fraction(at), Fraction(0), {("x", r): share for r in range(n)}, {"x": held})


def never(_: Mapping[Place, Fraction]) -> bool:
    raise AssertionError("the engine need not be asked")


@pytest.mark.parametrize(
    ("at", "n", "held", "end"),
    [
        ("0", 1, column("0", "1", "1"), "1"),
        ("-9", 5, column("-2", "0", "1"), "-8"),
        ("0", 3, column("0", "1", None), "0"),
        ("0", 3, column("0", "0.3", "0.1"), "1/10"),
        ("0.25", 3, column("0", "0.3", "0.1"), "3/10"),
        ("7", 3, column("0", "20", "5"), "10"),
        ("0.2", 3, column("0", "0.3", "0.1", floating=False), "3/10"),
    ],
)
def test_the_next_sum_is_known_without_asking(at: str, n: int, held: ColumnValues, end: str) -> None:
    assert summed(at, n, held).end(above=True, strict=True, asked=never) == Fraction(end)


def test_of_tenths_the_engine_decides() -> None:
    said, asked = summed("0.3", 3, column("0", "0.3", "0.1")), list[Mapping[Place, Fraction]]()

    def floats(table: Mapping[Place, Fraction]) -> bool:
        asked.append(table)
        return sum(float(v) for v in table.values()) > 0.3

    below = said.end(above=True, strict=True, asked=lambda _: True)
    assert below == Fraction("0.3")  # it was seen above, so 0.3 itself may be
    said.end(above=True, strict=True, asked=floats)
    assert all(sum(table.values(), Fraction(0)) == Fraction("0.3") for table in asked)
    assert asked


def test_large_doubles_that_cancel_prove_no_next_sum() -> None:
    said = summed("1", 2000, column("-1000000000000000", "1000000000000000", "0.01"))
    assert said.dust > 100
    assert said.end(above=True, strict=True, asked=never) < -100


@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize("strict", [True, False])
def test_every_sum_that_is_answered_so_lies_beyond_the_end(above: bool, strict: bool) -> None:
    held = column("-1", "1", "0.5")
    for at in (Fraction(k, 4) for k in range(-9, 10)):
        said = ComparedSum(at, Fraction(1, 2), {("x", 0): Fraction(1), ("x", 1): Fraction(-2)}, {"x": held})
        end = said.end(above=above, strict=strict, asked=never)
        sums = {Fraction(1, 2) + a - 2 * b for a, b in product((Fraction(k, 2) for k in range(-2, 3)), repeat=2)}
        kept = {s for s in sums if (s > at if above else s < at) or (s == at and not strict)}
        assert all(s >= end if above else s <= end for s in kept)
        assert all(s < end if above else s > end for s in sums - kept)
