"""MIN, MAX, MEDIAN and quantiles beside sums, counts and noise: probabilities against looking at every table."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keyhole
from keyhole.api.attack_result import Attacked
from keyhole.config import Config
from keyhole.errors import ContradictionError

Fact = tuple[dict[str, Any], Callable[[np.ndarray], np.ndarray]]  # a line, and the log weight of tables (t, n)
PEOPLE = pa.table({"p": list(range(14)), "g": ["x", "y"] * 7, "z": [0, 0, 0, 1, 1, 1, 2] * 2})


def attacked(lines: list[dict[str, Any]], n: int, top: int, method: str = "auto", rates: str = "") -> Attacked:
    columns = f"[columns]\nid = ['p']\n[columns.private.v]\nmin = 0\nmax = {top}\nstep = 1\n{rates}"
    data = PEOPLE.slice(0, n)
    return keyhole.attack(lines, data=data, config=Config.parse(columns), table="t", method=method)


def statistic(name: str, held: np.ndarray) -> np.ndarray:
    """Of every table (t, members), as DuckDB has it."""
    ordered = np.sort(held, axis=1)
    if name == "MEDIAN":
        return np.median(ordered, axis=1)
    if name.startswith("QUANTILE_DISC"):
        q = float(name.partition(":")[2])
        return ordered[:, max(1, int(np.ceil(q * held.shape[1]))) - 1]
    if name.startswith("QUANTILE_CONT"):
        return np.quantile(ordered, float(name.partition(":")[2]), axis=1)
    return ordered[:, 0 if name == "MIN" else -1]


def hard(sql: str, answer: float, of: Callable[[np.ndarray], np.ndarray]) -> Fact:
    shown: float | int = int(answer) if float(answer).is_integer() else float(answer)
    return (
        {"sql": sql, "answer": shown},
        lambda tables: np.where(np.abs(of(tables) - answer) < 1e-6, 0.0, -np.inf),
    )


def made_up(rng: np.random.Generator, n: int, top: int) -> list[Fact]:
    """A log of a made-up secret: extremes, and sums, counts under private conditions or noisy sums beside them."""
    x = rng.integers(0, top + 1, n)
    g, z = np.array(PEOPLE["g"][:n]), np.array(PEOPLE["z"][:n])
    groups = [("1 = 1", np.ones(n, dtype=bool)), ("g = 'x'", g == "x"), ("z = 0", z == 0), ("z <> 1", z != 1)]
    groups.append((f"p IN (0, 1, {n - 1})", np.isin(np.arange(n), (0, 1, n - 1))))
    facts = []
    for _ in range(int(rng.integers(1, 4))):
        where, held = groups[int(rng.integers(len(groups)))]
        name = ("MIN", "MAX", "MEDIAN", "QUANTILE_DISC:0.25", "QUANTILE_CONT:0.25")[int(rng.integers(5))]
        call = f"{name.partition(':')[0]}(v{', 0.25' if ':' in name else ''})"
        of: Callable[[np.ndarray], np.ndarray] = lambda t, h=held, s=name: statistic(s, t[:, h])  # noqa: E731
        facts.append(hard(f"SELECT {call} FROM t WHERE {where}", float(of(x[None, :])[0]), of))
    where, held = groups[int(rng.integers(len(groups)))]
    kind = int(rng.integers(4))
    if kind == 0:
        facts.append(
            hard(f"SELECT SUM(v) FROM t WHERE {where}", float(x[held].sum()), lambda t: t[:, held].sum(axis=1))
        )
    elif kind == 1:
        count: Callable[[np.ndarray], np.ndarray] = lambda t: (t[:, held] >= 1).sum(axis=1)  # noqa: E731
        facts.append(hard(f"SELECT COUNT(*) FROM t WHERE v >= 1 AND {where}", float(count(x[None, :])[0]), count))
    elif kind == 2:
        shown = round(float(x[held].sum() + rng.normal(0, 1)), 6)
        line = {"sql": f"SELECT SUM(v) FROM t WHERE {where}", "answer": shown}
        noise = {"noise": {"kind": "gaussian", "scale": 1}}
        facts.append((line | noise, lambda t: -((t[:, held].sum(axis=1) - shown) ** 2) / 2))
    return facts


def equals_every_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    top, n = ((1, 12), (2, 7), (3, 6))[seed % 3]
    facts = made_up(rng, n, top)
    tables = np.array(list(product(range(top + 1), repeat=n)))
    log = np.sum([weigh(tables) for _, weigh in facts], axis=0)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    reply = attacked([line for line, _ in facts], n, top).to_json()
    assert reply["method"] == "integer"
    for i, each in enumerate(reply["estimates"]):
        chance = float(weight[tables[:, i] == each["value"]].sum())
        assert each["confidence"] == pytest.approx(chance, abs=1e-3), (seed, i, json.dumps([f[0] for f in facts]))
        below = float(weight[tables[:, i] < each["value"]].sum())
        assert below <= 0.5 + 1e-6  # the median
        assert below + chance >= 0.5 - 1e-6


@pytest.mark.parametrize("seed", range(9))
def test_probabilities_beside_extremes_equal_every_table(seed: int) -> None:
    equals_every_table(seed)


@pytest.mark.soak
def test_probabilities_beside_extremes_on_fresh_logs() -> None:
    for seed in np.random.SeedSequence().generate_state(150):
        equals_every_table(int(seed))


def test_the_greatest_of_two_bits_at_fourteen() -> None:
    """MAX = 1 of two: (0,1), (1,0), (1,1); and with a base rate."""
    asked = [{"sql": "SELECT MAX(v) FROM t WHERE p < 2", "answer": 1}]
    reply = attacked(asked, 14, 1).to_json()
    assert [e["confidence"] for e in reply["estimates"][:3]] == pytest.approx([2 / 3, 2 / 3, 1 / 2])
    assert "MAX" not in reply["note"]
    assert not reply["warnings"]
    rare = attacked(asked, 14, 1, rates="prior = {0 = 0.9, 1 = 0.1}").to_json()
    assert [e["confidence"] for e in rare["estimates"][:3]] == pytest.approx([0.1 / 0.19, 0.1 / 0.19, 0.9])


def test_an_extreme_under_a_private_condition_is_said_to_be_left_out() -> None:
    reply = attacked([{"sql": "SELECT MAX(v) FROM t WHERE v < 3", "answer": 2}], 4, 3).to_json()
    assert "without queries 1" in reply["note"]
    assert any("query 1 (MAX)" in said for said in reply["warnings"])


def test_the_residual_is_that_of_what_is_printed() -> None:
    """Medians of each record need not meet a MAX: of four below 2 with somebody at 2, everybody's median is 1."""
    reply = attacked([{"sql": "SELECT MAX(v) FROM t WHERE p < 4", "answer": 2}], 4, 2).to_json()
    assert {e["value"] for e in reply["estimates"]} == {1.0}
    assert reply["residual"] == pytest.approx(1.0)
    assert "together they need not meet the answers" in reply["note"]


def test_extremes_that_cannot_be_are_refused() -> None:
    asked = [{"sql": "SELECT SUM(v) FROM t WHERE p < 2", "answer": 6}, {"sql": "SELECT MAX(v) FROM t", "answer": 2}]
    with pytest.raises(ContradictionError, match="query 1, query 2"):
        attacked(asked, 4, 3)


def test_large_groups_keep_the_ranges_and_say_so() -> None:
    """Too many people for indicators: values stay in the proved range, and the note tells what is missing."""
    n = 900
    data = pa.table({"p": list(range(n))})
    columns = "[columns]\nid = ['p']\n[columns.private.v]\nmin = 0\nmax = 9\nstep = 1\n"
    asked = [("SELECT MAX(v) FROM t", 2), ("SELECT SUM(v) FROM t WHERE p < 3", 4)]
    reply = keyhole.attack(asked, data=data, config=Config.parse(columns), table="t").to_json()
    assert max(e["value"] for e in reply["estimates"]) <= 2
    assert reply["estimates"][5]["confidence"] == pytest.approx(1 / 3)
    assert "without queries 1" in reply["note"]
