"""Replays of what a fact about a total leaves, and of order statistics that HAVING hides in groups of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import keyhole
from keyhole.checker import Outcome, replay

PEOPLE = "name,dept,pay\na,x,10\nb,y,20\nc,y,30\nd,z,40\ne,z,50\nf,z,60\n"
FACT = "[[facts]]\nwhere = \"dept = 'y'\"\ncolumn = 'pay'\nsum_min = 45\nsum_max = 51\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(PEOPLE, encoding="utf-8")
    path.with_name("facts.toml").write_text(FACT, encoding="utf-8")
    return path


def outcomes(verdict: Any, data: Path) -> set[Outcome]:
    return {c.outcome for c in replay(json.dumps(verdict), data, bits=16).checked}


def test_the_rest_of_a_total_that_a_fact_bounds(data: Path) -> None:
    log, config = "SELECT MAX(pay) FROM t WHERE name = 'b'; SELECT SUM(pay) FROM t", data.with_name("facts.toml")
    verdict = keyhole.audit(log, data=data, private="pay", id="name", config=config)
    raw = json.loads(verdict.dumps())
    (told,) = [i for i in raw["intervals"] if i["record"]["name"] == "c"]
    assert (told["lo"], told["hi"], told["status"]) == (25, 31, "inferred")
    assert outcomes(raw, data) == {Outcome.HOLDS}
    for field, lie in (("where", "dept <> 'x'"), ("max", 60)):
        false = json.loads(json.dumps(raw))
        next(i for i in false["intervals"] if i["record"]["name"] == "c")["certificate"]["stated"][field] = lie
        assert Outcome.FAILS in outcomes(false, data)


def test_order_statistics_of_groups_that_having_hides_when_small(data: Path) -> None:
    log = "SELECT dept, MIN(pay), MAX(pay) FROM t GROUP BY dept HAVING COUNT(*) > 1"
    raw = json.loads(keyhole.audit(log, data=data, private="pay", id="name").dumps())
    assert {i["record"]["name"] for i in raw["intervals"] if i["status"] == "inferred"} == {"b", "c"}
    assert outcomes(raw, data) == {Outcome.HOLDS}
    for interval in raw["intervals"]:
        for fact in interval.get("certificate", {}).get("facts", ()):
            fact["where"] = "dept <> 'x'"
    assert Outcome.HOLDS not in outcomes(raw, data)
