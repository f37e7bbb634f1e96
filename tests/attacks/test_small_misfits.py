"""Answers that miss every table: said however few they are, and no error of 0 that contradictions do not earn."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from keyhole import attack

ROSTER = pa.table({"name": list("abcdef")})


def lines(seed: int, scale: float, times: float, count: int = 9) -> list[dict[str, Any]]:
    """Sums of three of six people, whose noise is so many times what it is said to be."""
    r = random.Random(seed)
    x = [r.randint(0, 3) for _ in range(6)]
    found = []
    for _ in range(count):
        some = r.sample(range(6), 3)
        asked = ",".join(repr("abcdef"[i]) for i in some)
        said = round(sum(x[i] for i in some) + r.gauss(0, scale * times), 3)
        noise = {"kind": "gaussian", "scale": scale}
        found.append({"sql": f"SELECT SUM(c) FROM t WHERE name IN ({asked})", "answer": said, "noise": noise})
    return found


def loud(log: list[dict[str, Any]]) -> bool:
    said = attack(log, data=ROSTER, id="name", private="c:0..3:1").warnings
    return any("THE STATED NOISE DOES NOT FIT" in each for each in said)


def test_nine_answers_far_off_are_said() -> None:
    assert all(loud(lines(seed, 0.2, 20)) for seed in range(4))


def test_nine_answers_of_the_stated_noise_are_not() -> None:
    assert not any(loud(lines(seed, 0.2, 1)) for seed in range(4))


def test_two_answers_that_cannot_both_be_near_are_said() -> None:
    sql, noise = "SELECT SUM(c) FROM t WHERE name IN ('a','b')", {"kind": "gaussian", "scale": 0.1}
    assert loud([{"sql": sql, "answer": each, "noise": noise} for each in (0, 5)])


def test_an_answer_between_two_declared_values_is_said() -> None:
    noise = {"kind": "gaussian", "scale": 0.01}
    assert loud([{"sql": "SELECT SUM(c) FROM t WHERE name = 'c'", "answer": 1.5, "noise": noise}])


def test_contradictory_answers_leave_an_error() -> None:
    sql = "SELECT SUM(c) FROM t WHERE name = 'c'"
    log = [(sql, 2), (sql + " ", 2), ("SELECT SUM(c) FROM t WHERE name >= 'c' AND name < 'd'", 5)]
    found = attack(log, data=ROSTER, id="name", private="c", method="extended-kaczmarz")
    assert found.estimates()[2] == pytest.approx(3)
    assert found.found[0][2].confidence[2] > 0.9
