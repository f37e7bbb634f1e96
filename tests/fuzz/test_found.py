"""What the fuzzers found, each once: the smallest log that showed it, and what must be said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import keyhole
from keyhole.checker import Outcome, replay
from keyhole.report.verdict import Verdict


def audit(*log: Any, x: list[int | None], private: tuple[str, ...] = ("x",), **public: list[Any]) -> Verdict:
    """A log about people A, B, C, ... with a private column x."""
    names = [chr(ord("A") + i) for i in range(len(x))]
    data = pa.table({"name": names, **{k: pa.array(v) for k, v in public.items()}, "x": pa.array(x, pa.int64())})
    return keyhole.audit(list(log), data=data, private=private, id="name")


def test_null_over_a_divisor_of_zero_does_not_say_that_nobody_matched() -> None:
    """SUM(...) / NULLIF(0, 0) is NULL whoever matches: it was taken to say that nobody with x <> 2 is there."""
    text = "SELECT SUM(IF(x = 2, NULL, h)) / NULLIF(COUNT(*) FILTER (WHERE h = 5), 0) FROM t"
    verdict = audit(text, x=[2], h=[0])
    assert (verdict.exit_code, verdict.findings) == (3, ())
    given = audit({"sql": text, "answer": None}, x=[2], h=[0])
    assert (given.exit_code, given.findings) == (3, ())


def test_a_total_that_has_no_certificate_is_not_called_false(tmp_path: Path) -> None:
    """The total of B and D rests on an average under a private condition: it cannot be replayed, and is true."""
    text = "SELECT g, AVG(x) FROM t WHERE NOT (g = 'p' AND x > 3) GROUP BY g"
    data = tmp_path / "t.csv"
    data.write_text("name,g,x\nA,p,3\nB,q,3\nC,q,\nD,q,3\n", encoding="utf-8")
    verdict = keyhole.audit([text], data=data, private=["x"], id="name", group_size=3)
    assert [group.total for group in verdict.groups] == [6]
    checked = replay(verdict.dumps(), data).checked
    assert [each.outcome for each in checked if each.claim.status == "group"] == [Outcome.CANNOT]


@pytest.mark.parametrize("partner", ["SUM(2 * x) FROM t WHERE g = 'a'", "SUM(x) / 4 FROM t WHERE NOT g = 'b'"])
def test_squares_find_their_sum_however_it_is_spelled(partner: str, tmp_path: Path) -> None:
    """A and B are equal by sum and squares; with the sum written otherwise that ended in exit 3."""
    data = tmp_path / "t.csv"
    data.write_text("name,g,x\nA,a,3\nB,a,3\nC,b,5\n", encoding="utf-8")
    log = [f"SELECT {partner}", "SELECT SUM(x * x) FROM t WHERE g = 'a'"]
    verdict = keyhole.audit(log, data=data, private=["x"], id="name")
    assert [(f.who, f.value) for f in verdict.exposed] == [("A", 3), ("B", 3)]
    assert {each.outcome for each in replay(verdict.dumps(), data).checked} == {Outcome.HOLDS}


@pytest.mark.parametrize("name", ["'t.csv'", '"/etc/hostname"', "'https://example.org/t.parquet'", "sqlite_master"])
def test_a_file_and_the_tables_of_the_engine_are_not_taken_for_the_table(name: str) -> None:
    people = pa.table({"name": ["Ann", "Bob"], "x": [1, 2]})
    verdict = keyhole.audit([f"SELECT SUM(x) FROM {name} WHERE name = 'Ann'"], data=people, private="x", id="name")
    assert verdict.exit_code == 3
    assert not list(verdict)


@pytest.mark.parametrize("item", ["CEIL(SUM(x) / 2)", "CEIL(SUM(x) * 0.5)", "CEIL(100.0 * SUM(x) / COUNT(*) / 1000)"])
def test_the_open_end_of_a_rounded_answer_is_no_second_value(item: str) -> None:
    """CEIL is 1 only above 0; 0 lay inside the ends by less than their own dust, and B was called open."""
    verdict = audit(f"SELECT {item} FROM t WHERE name = 'B'", x=[0, 1, 0, 1], private=("x:0..1:1",))
    assert verdict.exit_code != 0
    assert not verdict.complete


@pytest.mark.parametrize("key", ["ill", "CASE WHEN ill = 'flu' THEN 1 ELSE 0 END"])
def test_the_key_of_a_group_that_is_not_shown_is_not_known(key: str) -> None:
    """One row with a count of 1 does not say of which illness it is: A was said to have the flu."""
    data = pa.table({"name": ["A", "B", "C"], "ill": ["flu", "cold", "flu"]})

    def judge(text: str) -> Verdict:
        return keyhole.audit([text], data=data, private=["ill=cold,flu"], id="name")

    hidden = judge(f"SELECT COUNT(*) FROM t WHERE name = 'A' GROUP BY {key}")
    assert (hidden.exit_code, hidden.findings) == (3, ())
    shown = judge(f"SELECT {key} AS k, COUNT(*) FROM t WHERE name = 'A' GROUP BY {key}")
    assert [(f.who, f.value) for f in shown.exposed] == [("A", "flu")]


def test_the_classes_of_a_witness_look_at_the_whole_condition_of_a_maximum(tmp_path: Path) -> None:
    """Of MAX under a private condition the public one was left out: a true all-clear was called false."""
    data = tmp_path / "t.csv"
    data.write_text("name,g,x\nA,p,1\nB,p,2\nC,q,0\nD,q,3\n", encoding="utf-8")
    log = ["SELECT MAX(x) FILTER (WHERE x < 2) FROM t WHERE g = 'p'"]
    verdict = keyhole.audit(log, data=data, private=["x:0..3:1"], id="name")
    assert (verdict.exit_code, replay(verdict.dumps(), data).exit_code) == (0, 0)


@pytest.mark.parametrize(
    ("text", "private", "outcome"),
    [
        ("SELECT COUNT(*) FROM t WHERE ill LIKE 'f%' AND g = 'x'", "ill", 3),
        ("SELECT COUNT(*) FROM t WHERE ill BETWEEN 'd' AND 'fz' AND g = 'x'", "ill", 0),
        ("SELECT g, ill, COUNT(*) FROM t GROUP BY g, ill HAVING COUNT(*) > 1", "ill=cold,flu,gout", 0),
    ],
)
def test_true_findings_about_texts_and_hidden_groups_are_not_called_false(
    text: str, private: str, outcome: int, tmp_path: Path
) -> None:
    """What is not told of a text was compared with it, and a group that HAVING hid was taken for one of nobody."""
    data = tmp_path / "t.csv"
    data.write_text("name,g,ill\nA,x,flu\nB,x,flu\nC,y,cold\nD,y,cold\n", encoding="utf-8")
    verdict = keyhole.audit([text], data=data, private=[private], id="name")
    assert verdict.exit_code == 1
    assert replay(verdict.dumps(), data).exit_code == outcome


def test_a_finding_that_says_nothing_needs_a_value_that_is_excluded(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text("name,g,ill\nA,x,flu\nB,x,cold\nC,y,cold\n", encoding="utf-8")
    log = ["SELECT COUNT(*) FROM t WHERE ill BETWEEN 'd' AND 'fz' AND name = 'A'"]
    told = keyhole.audit(log, data=data, private=["ill"], id="name").dumps()
    assert replay(told, data).exit_code == 0
    forged = told.replace("name = 'A'", "g = 'x'")
    assert replay(forged, data).exit_code == 1


def test_an_answer_that_is_nan_is_the_same_in_a_second_table(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text("name,age,pay\nA,1,1\nB,1,3\nC,1,2\nD,1,0\n", encoding="utf-8")
    verdict = keyhole.audit(["SELECT CORR(pay, age) FROM t"], data=data, private=["pay:0..3:1"], id="name")
    assert (verdict.exit_code, replay(verdict.dumps(), data).exit_code) == (0, 0)
