"""Proofs of one shape are told once, in the text alone: JSON has every one of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import keyhole


def audit(people: int, *log: str) -> keyhole.Verdict:
    names = [f"P{k:02}" for k in range(people)]
    data = pa.table({"name": names, "team": ["a"] * people, "pay": list(range(1, people + 1))})
    return keyhole.audit(list(log), data=data, private="pay", id="name")


EACH = "SELECT name, SUM(pay) + COUNT(*) FROM t GROUP BY name"


@pytest.mark.parametrize(("people", "folded"), [(3, False), (4, True), (12, True)])
def test_many_proofs_of_one_shape_are_one_line(people: int, folded: bool) -> None:
    verdict = audit(people, EACH)
    text = verdict.text()
    assert text.count("'s pay = ") == (1 if folded else people)
    assert (f"the same for {people - 1} others: P01 (Q1.2), P02 (Q1.3)" in " ".join(text.split())) is folded
    assert text.count("SELECT name") == (1 if folded else people)  # the statements behind them
    assert len(verdict.to_json()["exposed"]) == people
    assert all(f"P{k:02}  pay" in text for k in range(people))  # the table names everybody


def test_of_many_others_the_first_are_named() -> None:
    text = " ".join(audit(12, EACH).text().split())
    assert "P08 (Q1.9) and 3 more" in text
    assert "P09 (" not in text


def test_proofs_of_other_shapes_stay() -> None:
    text = audit(5, EACH, "SELECT SUM(pay) FROM t WHERE name <> 'P00'", "SELECT SUM(pay) FROM t").text()
    assert text.count("'s pay = ") in (1, 2)
    assert "the same for" in text
