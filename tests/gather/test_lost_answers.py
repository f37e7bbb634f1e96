"""Answers in which something is missing or too much: never an all-clear."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import keyhole

PEOPLE = pa.table(
    {
        "name": ["Ann", "Bob", "Cyd", "Dan", "Eve", "Fay"],
        "dept": ["a", "a", "b", "b", "b", "a"],
        "age": [30, 41, 52, 38, 29, 30],
        "kids": [2, 0, 3, 1, 1, 4],
    }
)
BY_DEPT = "SELECT dept, SUM(kids) FROM t GROUP BY dept"
BOTH = [{"key": {"dept": "a"}, "values": [6]}, {"key": {"dept": "b"}, "values": [5]}]


def exit_code(tmp_path: Path, sql: str, answer: Any) -> int:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"sql": sql, "answer": answer}) + "\n")
    return keyhole.audit(log, data=PEOPLE, id="name", private="kids:real").exit_code


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(kids) FROM t WHERE name = 'Ann'",
        "SELECT SUM(kids) FROM t WHERE name = 'Ann' LIMIT 1",
        "SELECT SUM(kids) FROM t WHERE name = 'Ann' GROUP BY ()",
        "SELECT SUM(kids) FROM t WHERE name = 'Ann' HAVING COUNT(*) > 0",
        "SELECT SUM(kids) + COUNT(*) FROM t WHERE name = 'Ann'",
        "SELECT ROUND(SUM(kids), 0) FROM t WHERE name = 'Ann'",
        "SELECT MAX(kids) FROM t WHERE name = 'Ann'",
        "SELECT COUNT(*) FROM t WHERE kids > 1 AND name = 'Ann'",
        "SELECT COUNT(DISTINCT name) FROM t WHERE kids > 1 AND name = 'Ann'",
        "WITH a AS (SELECT SUM(kids) AS s FROM t WHERE name = 'Ann') SELECT s FROM a",
        "SELECT SUM(age) FROM t WHERE name = 'Ann'",
        "SELECT name, SUM(kids) FROM t GROUP BY name",
        "SELECT name, SUM(kids) FROM t GROUP BY name HAVING COUNT(*) > 0",
        "SELECT dept, SUM(kids) FROM t GROUP BY dept LIMIT 5",
        "SELECT dept, SUM(kids) FROM t GROUP BY ROLLUP (dept)",
        "SELECT kids, COUNT(*) FROM t GROUP BY kids HAVING COUNT(*) >= 1",
        "SELECT kids, COUNT(*) FROM t WHERE name = 'Ann' GROUP BY kids HAVING COUNT(*) >= 1",
    ],
)
def test_an_answer_without_rows_is_no_all_clear(tmp_path: Path, sql: str) -> None:
    assert exit_code(tmp_path, sql, []) != 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT AVG(kids) FROM t WHERE name = 'Ann'",
        "SELECT AVG(kids * age) FROM t",
        "SELECT SUM(kids) / COUNT(kids) FROM t",
        "SELECT AVG(kids) > 1 FROM t",
        "SELECT AVG(kids) FILTER (WHERE dept = 'a') FROM t",
        "SELECT AVG(age) FROM t WHERE name = 'Ann'",
        "SELECT COUNT(*) FROM t WHERE name = 'Ann'",
    ],
)
def test_null_where_somebody_has_a_value_is_no_all_clear(tmp_path: Path, sql: str) -> None:
    assert exit_code(tmp_path, sql, None) == 3


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT SUM(kids), COUNT(*) FROM t", [11]),
        ("SELECT SUM(kids), COUNT(*) FROM t", 11),
        ("SELECT SUM(kids), COUNT(*) FROM t", [11, 6, 6]),
        ("SELECT SUM(kids), COUNT(*) FROM t", [11, None]),
        ("SELECT SUM(kids) FROM t", [{"values": [11]}, {"values": [11]}]),
        ("SELECT SUM(kids) FROM t", "11"),
        ("SELECT SUM(kids) FROM t", [[]]),
        ("SELECT SUM(kids) FROM t", [{}]),
        ("SELECT SUM(kids) FROM t UNION ALL SELECT SUM(kids) FROM t WHERE dept = 'a'", [[], []]),
        (BY_DEPT, BOTH[:1]),
        (BY_DEPT, [*BOTH, BOTH[0]]),
        (BY_DEPT, [*BOTH, {"key": {"dept": "z"}, "values": [1]}]),
        (BY_DEPT, [{"key": {"department": "a"}, "values": [6]}, BOTH[1]]),
        (BY_DEPT, [{"key": {"dept": "a", "DEPT": "b"}, "values": [6]}, BOTH[1]]),
        (BY_DEPT, [{"key": {}, "values": [6]}, BOTH[1]]),
        (BY_DEPT, [{"key": None, "values": [6]}, BOTH[1]]),
        (BY_DEPT, [{"key": "a", "values": [6]}, BOTH[1]]),
        (BY_DEPT, [{"key": {"dept": "a"}, "values": []}, BOTH[1]]),
        (BY_DEPT, [{"key": {"dept": "a"}, "values": [None]}, BOTH[1]]),
        (BY_DEPT + " LIMIT 1", BOTH),
        (BY_DEPT + " ORDER BY dept LIMIT 1", BOTH[1:]),
        (BY_DEPT + " HAVING COUNT(*) > 5", BOTH),
        (BY_DEPT + " HAVING COUNT(*) > 0", BOTH[:1]),
        (BY_DEPT + " HAVING SUM(kids) > 1", [*BOTH, {"key": {"dept": "z"}, "values": [6]}]),
    ],
)
def test_rows_that_no_engine_gives_are_no_all_clear(tmp_path: Path, sql: str, answer: Any) -> None:
    assert exit_code(tmp_path, sql, answer) != 0


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        (BY_DEPT, BOTH),
        (BY_DEPT + " HAVING COUNT(*) > 2", BOTH),
        (BY_DEPT + " HAVING COUNT(*) > 5", []),
        (BY_DEPT + " ORDER BY dept LIMIT 1", BOTH[:1]),
        ("SELECT dept, SUM(kids) FROM t GROUP BY GROUPING SETS ((dept), (dept))", BOTH * 2),
        ("SELECT dept, SUM(kids) FROM t GROUP BY ROLLUP (dept)", [*BOTH, {"key": {}, "values": [11]}]),
        ("SELECT SUM(kids) FROM t WHERE name = 'Zed'", None),
        ("SELECT name, SUM(kids) FROM t WHERE name = 'Zed' GROUP BY name", []),
        ("SELECT SUM(kids) FROM t WHERE name = 'Ann' HAVING COUNT(*) > 5", []),
    ],
)
def test_rows_as_an_engine_gives_them_are_judged(tmp_path: Path, sql: str, answer: Any) -> None:
    assert exit_code(tmp_path, sql, answer) == 0
