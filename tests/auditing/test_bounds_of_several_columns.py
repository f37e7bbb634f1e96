"""Sums over several private columns beside MIN and MAX of them: what these prove of each is a bound in the sums."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import keyhole
from keyhole.checker import Outcome, replay

ASKED = {
    "SUM(p + q)": lambda p, q: sum(p) + sum(q),
    "SUM(p - q)": lambda p, q: sum(p) - sum(q),
    "SUM(p)": lambda p, _: sum(p),
    "MAX(p)": lambda p, _: max(p),
    "MAX(q)": lambda _, q: max(q),
    "MIN(p)": lambda p, _: min(p),
    "MIN(q)": lambda _, q: min(q),
}


def table(folder: Path, p: tuple[float, ...], q: tuple[float, ...]) -> Path:
    file = folder / "t.csv"
    rows = [f"{i},{'ab'[i % 2]},{x},{y}\n" for i, (x, y) in enumerate(zip(p, q, strict=True))]
    file.write_text("".join(["id,g,p,q\n", *rows]), encoding="utf-8")
    return file


def judged(file: Path, asked: list[str], private: list[str]) -> dict[str, Any]:
    log = [{"sql": f"SELECT {a.replace('|', ' FROM t WHERE ') if '|' in a else a + ' FROM t'}"} for a in asked]
    found: dict[str, Any] = json.loads(keyhole.audit(log, data=file, id="id", private=private).dumps())
    return found


@pytest.mark.parametrize("half", [1, 0.5])
def test_a_sum_at_the_maxima_of_its_columns_exposes_everybody(tmp_path: Path, half: float) -> None:
    file = table(tmp_path, (half, half), (2 * half, 2 * half))
    verdict = judged(file, ["SUM(p + q)", "MAX(p)", "MAX(q)"], ["p:real", "q:real"])
    assert [(e["column"], e["value"]) for e in verdict["exposed"]] == [("p", half), ("q", 2 * half)] * 2
    assert verdict["complete"]
    assert {c.outcome for c in replay(json.dumps(verdict), file, bits=16).checked} == {Outcome.HOLDS}
    for entry in (*verdict["exposed"], *verdict["intervals"]):
        for known in entry["certificate"]["known"]:
            for item in known["proof"]:
                item["answer"] = 3  # a larger MAX leaves more
    assert {c.outcome for c in replay(json.dumps(verdict), file, bits=16).checked} == {Outcome.FAILS}


def test_one_short_of_the_maxima_leaves_everybody_open(tmp_path: Path) -> None:
    """p + q = 5 with p at most 1 and q at most 2 of two people: somebody is 1 below, and it may be anybody."""
    file = table(tmp_path, (1, 0), (2, 2))
    verdict = judged(file, ["SUM(p + q)", "MAX(p)", "MAX(q)"], ["p:real", "q:real"])
    assert (verdict["complete"], verdict["exposed"]) == (True, [])
    assert {(e["column"], e["lo"], e["hi"]) for e in verdict["intervals"]} == {("p", 0, 1), ("q", 1, 2)}


def test_no_claim_is_false_of_any_whole_table(tmp_path: Path) -> None:
    rng, listed = random.Random(7), 0
    for _ in range(16):
        n = rng.randint(2, 3)
        p, q = (tuple(rng.choice((0, 1, 2)) for _ in range(n)) for _ in "pq")
        groups = {"": range(n), "|g = 'a'": range(0, n, 2), "|g = 'b'": range(1, n, 2)}
        asked = [(a, w) for a in ASKED for w in groups if rng.random() < 0.3] or [("SUM(p + q)", "")]

        def answers(p: tuple[int, ...], q: tuple[int, ...], asked: Any = asked, groups: Any = groups) -> list[int]:
            return [ASKED[a]([p[i] for i in groups[w]], [q[i] for i in groups[w]]) for a, w in asked]

        file = table(tmp_path, p, q)
        verdict = judged(file, [a + w for a, w in asked], ["p:0..2", "q:0..2"])
        true = answers(p, q)
        fits = [
            (x, y) for x in product(range(3), repeat=n) for y in product(range(3), repeat=n) if answers(x, y) == true
        ]
        for e in verdict["intervals"]:
            held = {pair["pq".index(e["column"])][e["record"]["id"]] for pair in fits}
            assert all(e["lo"] <= value <= e["hi"] for value in held), (p, q, asked, e)
            listed += e["status"] == "exposed"
        outcomes = {c.outcome for c in replay(json.dumps(verdict), file, bits=16).checked}
        assert outcomes <= {Outcome.HOLDS, Outcome.CANNOT}, (p, q, asked)
    assert listed > 5
