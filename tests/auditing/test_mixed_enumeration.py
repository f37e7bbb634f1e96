"""Facts, rounding, noise, suppressed cells, HAVING and private conditions in one log, by enumeration."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.fuzz.mixed import play

RANGE_OF_AN_AVERAGE = 1281  # the end of a given range was a number that the engine had printed: 1.3333333333333333
FIXED = (RANGE_OF_AN_AVERAGE, *range(5000, 5006))


def test_mixed_logs_hold_in_every_table() -> None:
    found = sum(map(play, FIXED), Counter[str]())
    assert found["logs"] == len(FIXED)
    assert found["claims"] > 5


@pytest.mark.soak
def test_many_mixed_logs_hold_in_every_table() -> None:
    first = random.randrange(10**9)
    found = sum(map(play, range(first, first + 150)), Counter[str]())
    assert found["fixed"] > 50
    assert found["exit 0"] > 5
