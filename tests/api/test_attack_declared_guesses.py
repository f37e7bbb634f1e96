"""Guesses are numbers that can be computed with, and values that were declared, with a probability that is earned."""

from __future__ import annotations

import warnings
from itertools import product
from operator import ge, gt, le, lt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from keyhole.api.attack import attack
from keyhole.api.attack_result import Attacked
from keyhole.errors import KeyholeError

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
def test_a_set_of_categories_goes_by_one_name(method: str) -> None:
    made = guesses(found([(f"{BOTH}IN (1, 2)", 2), (f"{BOTH}= 0", 1)], "x=A,B,C", method=method))
    assert {value for value, _ in made} == {"A or B"}
    assert all(sure == pytest.approx(1, abs=0.02) for _, sure in made)


OPS = {">": gt, ">=": ge, "<": lt, "<=": le}


@pytest.mark.parametrize(
    ("op", "held", "private", "at"),
    [
        (">", True, "x:0..1:1", 1),
        ("<=", False, "x:0..1:0.5", 1.5),
        ("<", True, "x:-1..1:1", 0),
        (">=", False, "x:0..1:0.5", 0.5),
        (">=", True, "x:0..1:1", 1),
    ],
)
def test_a_strict_threshold_leaves_out_its_number(op: str, held: bool, private: str, at: float) -> None:
    lo, _, rest = private[2:].partition("..")
    hi, _, step = rest.partition(":")
    grid = [float(lo) + k * float(step) for k in range(round((float(hi) - float(lo)) / float(step)) + 1)]
    tables = [t for t in product(grid, repeat=2) if OPS[op](sum(t), at) is held]
    made = found([(f"SELECT SUM(x) {op} {at} FROM r", held)], private, n=2)
    for value, sure in guesses(made):
        assert sure == pytest.approx(sum(t[0] == value for t in tables) / len(tables), abs=1e-6)
    ranges = [e["range"] for e in made.to_json()["estimates"]]
    assert ranges == [[min(t[0] for t in tables), max(t[0] for t in tables)]] * 2


@pytest.mark.parametrize("method", ["auto", "integer"])
def test_a_log_without_sums_gives_declared_values(method: str) -> None:
    top = [("SELECT MAX(x) FROM r WHERE k < 2", 1)]
    for value, sure in guesses(found(top, "x:0..1:1", method=method)):
        assert value in (0.0, 1.0)
        assert 0.5 <= sure <= 1
    wide = found([("SELECT MAX(x) FROM r", 1)], "x:0..4:1", method=method).to_json()
    assert wide["confidence"] == "probability of being right"
    assert {e["value"] for e in wide["estimates"]} <= {0.0, 1.0}


def test_the_scale_of_noise_counts_what_was_suppressed() -> None:
    rng, log = np.random.default_rng(5), []
    bits = np.array([1, 0, 1, 1, 0, 0, 1, 0])
    for _ in range(60):
        some = rng.random(8) < 0.6
        some[0] |= not some.any()
        told = round(bits[some].sum() + rng.normal(0, 1.5))
        who = ", ".join(str(k) for k in np.flatnonzero(some))
        sql = f"SELECT SUM(x) FROM r WHERE k IN ({who})"
        log.append((sql, told if told >= 3 else {"suppressed": [0, 2]}))
    made = found(log, "x:0..1:1", n=8, noise="auto", method="bounded")
    said = next(w for w in made.warnings if "gaussian:" in w)
    assert 1.2 < float(said.split("gaussian:")[1].split()[0]) < 1.8
