"""Every law on every specimen, and every law on each of its liars: all families, one way."""

from __future__ import annotations

from typing import Any

import pytest
from tests.laws.families import FAMILIES
from tests.laws.law import Law, LawCase, Specimen

CASES = [pytest.param(case, id=f"{family.name}: {case}") for family in FAMILIES for case in family.cases()]
LIES = [pytest.param(case, id=f"{family.name}: {case}") for family in FAMILIES for case in family.lies()]


@pytest.mark.parametrize("case", CASES)
def test_law_holds(case: LawCase[Any]) -> None:
    case.check()


@pytest.mark.parametrize("case", LIES)
def test_liar_is_caught(case: LawCase[Any]) -> None:
    case.must_fail()


def test_names_are_told_apart() -> None:
    for params in (CASES, LIES):
        names = [param.id for param in params]
        assert len(set(names)) == len(names), sorted({n for n in names if names.count(n) > 1})


def _it_is_even(number: int) -> None:
    assert number % 2 == 0


def test_a_liar_that_passes_is_an_error() -> None:
    law = Law(_it_is_even, (Specimen("two", 2),))
    with pytest.raises(AssertionError, match="does not catch its liar two"):
        LawCase(law, law.liars[0]).must_fail()


def test_a_law_without_a_liar_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no liar"):
        Law(_it_is_even, ())
