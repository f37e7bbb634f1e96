"""Conditions on who is NULL in a private column that the file does not have: nobody is."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

import keyhole
from keyhole.auditing.examine import examine

PEOPLE = pa.table({"name": ["Ann", "Bob", "Cyd"], "team": ["a", "a", "b"]})
PRIVATE = ["pay:0..9:1", "ill=cold,flu"]


@pytest.mark.parametrize(
    ("sql", "answer", "code"),
    [
        ("SELECT SUM(pay) FROM t WHERE pay IS NOT NULL", 12, 0),
        ("SELECT SUM(pay) FILTER (WHERE pay IS NULL) FROM t", None, 0),
        ("SELECT SUM(CASE WHEN pay IS NULL THEN 0 ELSE pay END) FROM t", 0, 1),
        ("SELECT COUNT(*) FROM t WHERE pay IS NULL OR pay > 3", 3, 1),
        ("SELECT MAX(pay) FROM t WHERE pay IS NOT NULL AND team = 'b'", 7, 1),
        ("SELECT COUNT(*) FROM t WHERE ill IS NULL", 0, 0),
        ("SELECT COUNT(*) FROM t WHERE ill IS NULL", 1, 3),
    ],
)
def test_nobody_is_null_in_a_column_that_is_not_there(sql: str, answer: Any, code: int) -> None:
    found = examine([(sql, answer)], data=PEOPLE, private=PRIVATE, id="name")
    assert (found.exit_code, found.refused, found.unjudged) == (code, (), ())


def test_online_it_is_the_same_question() -> None:
    with closing(keyhole.watch(PEOPLE, private="pay:0..", id="name", exact_above=1)) as auditor:
        asked = ["SELECT SUM(pay) FROM t WHERE pay IS NOT NULL", "SELECT SUM(pay) FROM t WHERE team = 'a'"]
        assert [auditor.ask(sql).answered for sql in asked] == [True, False]
