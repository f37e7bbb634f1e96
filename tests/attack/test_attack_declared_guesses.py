"""Guesses are numbers that can be computed with, and values that were declared, with a probability that is earned."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa
import pytest

from keyhole.errors import KeyholeError
from keyhole.verbs.attack import Attacked, attack

SUM, PAIR = "SELECT SUM(x) FROM r", "SELECT SUM(x) FROM r WHERE k < 2"


def found(log: list[tuple[str, Any]], private: str, n: int = 3, **more: Any) -> Attacked:
    people = pa.table({"name": [f"p{i}" for i in range(n)], "k": list(range(n))})
    return attack(log, data=people, id="name", private=private, table="r", **more)


def guesses(made: Attacked) -> list[tuple[Any, float]]:
    return [(e["value"], e["confidence"]) for e in made.to_json()["estimates"]]


@pytest.mark.parametrize(
    ("log", "private", "noise"),
    [
        ([(SUM, 1e308), (PAIR, -1e308)], "x", None),
        ([(SUM, 1.0), (PAIR, 0.0)], "x", "gaussian:1e308"),
        ([(SUM, 1.0), (PAIR, 0.0)], "x", "gaussian:1e-308"),
        ([(SUM, 1.0)], "x:0..1e308", None),
        ([("SELECT MAX(x) FROM r", 1e308), (SUM, 1.0)], "x", None),
    ],
)
def test_numbers_that_overflow_are_refused_with_a_sentence(
    log: list[tuple[str, Any]], private: str, noise: str | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyholeError, match="to compute with"):
            found(log, private, noise=noise)


BOTH = "SELECT COUNT(*) FROM r WHERE x IN ('A', 'B') AND k "
METHODS = ("bounded", "l1", "sparse", "convex", "lbfgs", "jacobi", "least-squares", "extended-kaczmarz")


@pytest.mark.parametrize("method", [*METHODS, "conjugate-gradient", "integer"])
def test_a_set_of_categories_gives_the_most_probable_of_them(method: str) -> None:
    made = guesses(found([(f"{BOTH}IN (1, 2)", 2), (f"{BOTH}= 0", 1)], "x=A,B,C", method=method))
    assert {value for value, _ in made} <= {"A", "B"}
    assert all(sure == pytest.approx(0.5, abs=0.01) for _, sure in made)
