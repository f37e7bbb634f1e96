"""A comparison is answered yes or no: engines without a BOOLEAN print 1 and 0, and those are no sums."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import keyhole
from keyhole.config import Config
from keyhole.errors import LogError

WHO = pa.table({"who": [0, 1, 2]})
CONFIG = '[columns]\nid = ["who"]\n[columns.private.x]\nmin = 0\nmax = 9\nstep = 1\n'


def range_of(sql: str, answer: Any, **more: Any) -> tuple[float, float]:
    """What an attack proves of person 1."""
    found = keyhole.attack([{"sql": sql, "answer": answer, **more}], data=WHO, config=Config.parse(CONFIG))
    lo, hi = found.ranges["x"]
    return float(lo[1]), float(hi[1])


@pytest.mark.parametrize("what", ["SUM(x)", "MAX(x)", "MEDIAN(x)", "SUM(x) - COUNT(*) + 1"])
@pytest.mark.parametrize(("said", "proved"), [(1, (5.0, 9.0)), (0, (0.0, 4.0))])
def test_one_and_zero_are_yes_and_no(what: str, said: int, proved: tuple[float, float]) -> None:
    sql = f"SELECT {what} > 4 FROM r WHERE who = 1"
    assert range_of(sql, said) == range_of(sql, bool(said)) == proved
    assert range_of(sql, said, noise={"kind": "rounded", "scale": 0.5}) == proved


def test_groups_too() -> None:
    shown = [{"key": {"who": who}, "values": [int(who > 0)]} for who in range(3)]
    assert range_of("SELECT who, SUM(x) > 4 FROM r GROUP BY who", shown) == (5.0, 9.0)


@pytest.mark.parametrize("answer", [2, 0.5, {"lo": 0, "hi": 1}, "yes"])
def test_no_other_number_answers_a_comparison(answer: Any) -> None:
    with pytest.raises(LogError, match="true or false"):
        range_of("SELECT SUM(x) > 4 FROM r WHERE who = 1", answer)


@pytest.mark.parametrize("sql", ["SELECT SUM(x) FROM r", "SELECT COUNT(*) FROM r WHERE x = 1", "SELECT MAX(x) FROM r"])
def test_a_yes_is_no_number(sql: str) -> None:
    with pytest.raises(LogError, match="a number was asked for"):
        range_of(sql, True)
