"""Proofs by answers that were cast, rounded or suppressed are replayed, and false ones are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import keyhole
from keyhole.checker import Outcome, replay

STAFF = "name,dept,pay,ill\nann,a,51,flu\nbob,a,64,cold\ncy,b,70,flu\ndan,b,55,cold\neve,c,80,cold\n"
FLU = "SELECT COUNT(*) FROM staff WHERE ill = 'flu'"


@pytest.fixture
def staff(tmp_path: Path) -> Path:
    file = tmp_path / "staff.csv"
    file.write_text(STAFF, encoding="utf-8")
    return file


def told(log: list[dict[str, Any]], staff: Path, private: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(keyhole.audit(log, data=staff, id="name", private=private).dumps())
    return found


def outcomes(verdict: dict[str, Any], staff: Path) -> set[Outcome]:
    return {c.outcome for c in replay(json.dumps(verdict), staff, bits=16).checked}


@pytest.mark.parametrize("digits", ["12,2", "9,1"])
def test_a_cast_to_few_digits_is_tried_on_smaller_numbers(staff: Path, digits: str) -> None:
    log = [
        {"sql": f"SELECT SUM(pay)::numeric({digits}) FROM staff"},
        {"sql": f"SELECT SUM(pay)::numeric({digits}) FROM staff WHERE name <> 'ann'"},
    ]
    verdict = told(log, staff, "pay")
    assert [e["value"] for e in verdict["exposed"]] == [51]
    assert outcomes(verdict, staff) == {Outcome.HOLDS}
    verdict["exposed"][0]["record"] = {"name": "bob"}
    assert Outcome.FAILS in outcomes(verdict, staff)


ROUNDED = {"kind": "rounded", "scale": 0.5}


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ({"answer": 320, "noise": ROUNDED}, {"answer": 240, "noise": ROUNDED}),
        ({"answer": {"lo": 319.5, "hi": 320.5}}, {"answer": {"lo": 239.1, "hi": 240.9}}),
    ],
)
def test_rounded_sums_of_whole_numbers_are_whole(staff: Path, first: dict[str, Any], last: dict[str, Any]) -> None:
    log = [
        {"sql": "SELECT SUM(pay) FROM staff", **first},
        {"sql": "SELECT SUM(pay) FROM staff WHERE dept <> 'c'", **last},
    ]
    verdict = told(log, staff, "pay")
    assert [e["value"] for e in verdict["exposed"]] == [80]
    assert outcomes(verdict, staff) == {Outcome.HOLDS}
    for entry in (*verdict["exposed"], *verdict["intervals"]):
        if entry.get("value") == 80:
            entry["value"] = entry["lo"] = entry["hi"] = 81
    assert Outcome.HOLDS not in outcomes(verdict, staff)


def test_a_rounded_average_of_whole_numbers_is_not_whole(staff: Path) -> None:
    """115 / 2 is printed as 58, and nothing more: who is left of it has several values."""
    log = [
        {"sql": "SELECT AVG(pay) FROM staff WHERE dept = 'a'", "answer": 58, "noise": ROUNDED},
        {"sql": "SELECT SUM(pay) FROM staff WHERE name = 'ann'", "answer": 51},
    ]
    verdict = told(log, staff, "pay")
    assert [e["record"]["name"] for e in verdict["exposed"]] == ["ann"]
    assert outcomes(verdict, staff) <= {Outcome.HOLDS, Outcome.CANNOT}


def test_suppressed_counts_rule_out_by_their_ends(staff: Path) -> None:
    parts = [{"sql": f"{FLU} AND dept = '{d}'", "answer": {"suppressed": [1, 2]}} for d in "ab"]
    verdict = told([{"sql": FLU, "answer": {"suppressed": [0, 2]}}, *parts], staff, "ill=flu,cold")
    assert [(e["record"]["name"], e["value"]) for e in verdict["exposed"]] == [("eve", "cold")]
    assert outcomes(verdict, staff) == {Outcome.HOLDS}
    for item in (i for e in (*verdict["exposed"], *verdict["intervals"]) for i in e["proof"] or ()):
        if item["query"] == "1":
            item["answer"] = {"lo": 0, "hi": 3}  # three people may have it
    assert outcomes(verdict, staff) == {Outcome.FAILS}
