"""What HAVING tells by showing a group or hiding it: judged where no aggregate is listed, and replayed."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import keyhole
from keyhole.checker import Outcome, replay
from keyhole.report.verdict import Verdict

STAFF = "name,dept,pay,ill\nann,a,51,flu\nbob,a,64,cold\ncy,b,70,flu\ndan,b,55,cold\neve,c,80,cold\n"


@pytest.fixture
def staff(tmp_path: Path) -> Path:
    file = tmp_path / "staff.csv"
    file.write_text(STAFF, encoding="utf-8")
    return file


def judged(sql: str, staff: Path, private: str = "pay:0..100") -> Verdict:
    return keyhole.audit([{"sql": sql}], data=staff, id="name", private=private)


def said(verdict: Verdict) -> list[tuple[Any, ...]]:
    entries = verdict.to_json()["intervals"]
    return [(e["record"]["name"], e["lo"], e["hi"], e["status"]) for e in entries]


@pytest.mark.parametrize(
    ("having", "narrowed"),
    [
        ("SUM(pay) > 70", {"eve": [71, 100]}),
        ("SUM(pay) > 117", {"cy": [18, 100], "dan": [18, 100]}),
        ("SUM(pay) <= 117", {"cy": [18, 100], "dan": [18, 100]}),
        ("AVG(pay) > 60 AND COUNT(*) > 1", {"cy": [21, 100], "dan": [21, 100]}),
        ("SUM(pay) > 117 ORDER BY dept", {"cy": [18, 100], "dan": [18, 100]}),
    ],
)
def test_which_groups_are_shown_is_an_answer_without_any_aggregate_in_the_list(
    staff: Path, having: str, narrowed: dict[str, list[int]]
) -> None:
    verdict = judged(f"SELECT dept FROM staff GROUP BY dept HAVING {having}", staff)
    listed = judged(f"SELECT dept, COUNT(*) FROM staff GROUP BY dept HAVING {having}", staff)
    assert verdict.complete
    assert said(verdict) == said(listed)
    found = {e["record"]["name"]: [e["lo"], e["hi"]] for e in verdict.to_json()["intervals"] if e["proof"]}
    assert found == narrowed
    for each in (verdict, listed):
        checked = replay(each.dumps(), staff, bits=16).checked
        assert len(checked) == len(narrowed)
        assert all(c.outcome is Outcome.HOLDS for c in checked), [(c.outcome, c.why) for c in checked]


def test_a_group_by_private_values_is_put_down_to_what_tells_more(staff: Path) -> None:
    verdict = judged("SELECT ill FROM staff GROUP BY ill HAVING COUNT(*) > 2", staff, "ill=flu,cold")
    assert (verdict.exit_code, verdict.unjudged) == (0, ())


def test_keys_with_an_answer_but_no_number(staff: Path) -> None:
    line = {"sql": "SELECT dept FROM staff GROUP BY dept HAVING SUM(pay) > 117"}
    verdict = keyhole.audit(
        [line | {"answer": [{"key": {"dept": "b"}, "values": []}]}], data=staff, id="name", private="pay:0..100"
    )
    assert said(verdict) == said(judged(line["sql"], staff))


def moved(verdict: Verdict, **change: str) -> str:
    """The verdict with another constant, or another statement, in its proofs."""
    told = verdict.to_json()
    for entry in told["intervals"]:
        for item in entry["proof"]:
            if "test" in item and "value" in change:
                item["test"]["value"] = str(Fraction(str(item["test"]["value"])) + Fraction(change["value"]))
            if "sql" in item and "sql" in change:
                item["sql"] = change["sql"]
    return json.dumps(told, default=str)


def test_a_false_proof_by_having_is_rejected(staff: Path) -> None:
    verdict = judged("SELECT dept FROM staff GROUP BY dept HAVING SUM(pay) > 117", staff)
    head = "SELECT dept FROM staff GROUP BY dept HAVING"
    for text in (
        moved(verdict, value="1"),
        moved(verdict, sql=f"{head} SUM(pay) < 117"),
        moved(verdict, sql="SELECT dept FROM staff WHERE name <> 'cy' GROUP BY dept HAVING SUM(pay) > 117"),
    ):
        assert {c.outcome for c in replay(text, staff, bits=16).checked} == {Outcome.FAILS}
    for asked in (
        "SUM(pay) > 117 OR MIN(pay) = 5",
        "SUM(pay) NOT BETWEEN 10 AND 117",
        "SUM(pay) > 117 AND MAX(pay) <> 5",
    ):
        found = replay(moved(verdict, sql=f"{head} {asked}"), staff, bits=16).checked
        assert Outcome.HOLDS not in {c.outcome for c in found}, asked


def test_a_comparison_is_looked_at_far_from_its_constant_too(staff: Path) -> None:
    """NOT BETWEEN turns at its upper end as `>` does, and says yes far below."""
    verdict = judged("SELECT SUM(pay) > 117 FROM staff WHERE dept = 'b'", staff)
    assert verdict.ranges
    false = moved(verdict, sql="SELECT SUM(pay) NOT BETWEEN 10 AND 117 FROM staff WHERE dept = 'b'")
    assert {c.outcome for c in replay(false, staff, bits=16).checked} == {Outcome.FAILS}
