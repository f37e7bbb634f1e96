"""What answers or facts give, and the data at hand refute, exposes nobody: it is a contradiction that names them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import keyhole
from keyhole.config import Config

BITS = pa.table({"id": ["a", "b", "c"], "g": [1, 2, 3], "x": [0, 1, 0]})
STAFF = pa.table({"name": ["ann", "bob"], "dept": ["A", "A"], "pay": [50, 60]})
TRIANGLE = [(f"SELECT SUM(x) FROM t WHERE g IN {pair}", 1) for pair in ((1, 2), (2, 3), (1, 3))]


def test_half_a_bit_is_nobodys_value() -> None:
    for private in ("x", "x:0..1:1"):
        found = keyhole.audit(TRIANGLE, data=BITS, private=private, id="id")
        assert (found.findings, found.exit_code) == ((), 3)
        assert any("which is not so in the data" in c.reason for c in found.contradictions)


def test_a_false_fact_exposes_nobody_and_is_named() -> None:
    told = Config.parse("[columns.private.pay]\n[[facts]]\nwhere = \"name = 'ann'\"\nequals = 20\n")
    found = keyhole.audit(["SELECT SUM(pay) FROM t"], data=STAFF, private="pay", id="name", config=told)
    assert (found.findings, found.exit_code) == ((), 3)
    said = "Q1 and fact 1 together give bob's pay = 90, which is not so in the data"
    assert said in [c.reason for c in found.contradictions]


def test_a_true_answer_beside_a_false_one_still_exposes() -> None:
    log = [("SELECT SUM(x) FROM t WHERE g = 1", 0), ("SELECT SUM(x) FROM t WHERE g = 2", 5)]
    found = keyhole.audit(log, data=BITS, private="x", id="id")
    assert {f.who: f.value for f in found.exposed} == {"a": 0}


def words(log: list[Any], private: str = "pay:0..100") -> str:
    return keyhole.audit(log, data=STAFF.drop(["pay"]), private=private, id="name").text()


def test_answers_stand_in_proofs_as_they_were_given() -> None:
    ann = "SELECT SUM(pay) FROM t WHERE name = 'ann'"
    noisy = {"sql": ann, "answer": 4.2, "noise": {"kind": "uniform", "scale": 0.25}}
    said = words([noisy])
    assert "Q1: ann's pay lies in [3.95, 4.45]" in said
    assert "→ 4.2 ± 0.25" in said
    said = words([{"sql": ann, "answer": {"lo": 1, "hi": 9.7}}])
    assert "Q1: ann's pay lies in [1, 9.7]" in said
    assert "Q1 = " not in said
    both = words([noisy, {"sql": "SELECT SUM(pay) FROM t", "answer": {"suppressed": [5, 8]}}])
    assert "Q2 - Q1; " in both
    assert "Q2 - Q1 = " not in both


def test_a_combination_that_is_off_is_written_out() -> None:
    log = [
        ("SELECT SUM(pay) FROM t", 10),
        ("SELECT SUM(pay) FROM t WHERE name = 'ann'", 5),
        ("SELECT AVG(pay) FROM t", 7),
    ]
    assert "Q1 - 2 × Q3 must be 0, and is -4" in words(log, "pay")


def test_a_median_is_not_called_a_greatest_value() -> None:
    people = pa.table({"name": list("abc")})
    log = [("SELECT MEDIAN(pay) FROM t", 5), ("SELECT SUM(pay) FROM t WHERE name = 'a'", 3)]
    found = keyhole.audit(log, data=people, private="pay:0..9", id="name")
    rules = {f.proof.rule for f in (*found.ranges, *found.findings) if f.proof is not None and "1" in f.proof.weights}
    assert rules
    assert not any("greatest" in rule for rule in rules)
