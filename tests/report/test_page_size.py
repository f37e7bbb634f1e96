"""A page stays below 3 MB, whatever the log holds."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.report.test_pages import parsed

import keyhole
from keyhole.report.html.audit import render_audit_page


@pytest.fixture(scope="module")
def verdict() -> dict[str, Any]:
    people = pa.table({"name": ["Ann", "Bob", "Cy"], "pay": [1, 2, 3]})
    log = ["SELECT SUM(pay) FROM t WHERE name = 'Ann'", "SELECT foo(pay) FROM t"]
    data: dict[str, Any] = json.loads(keyhole.examine(log, data=people, private="pay", id="name").dumps())
    return data


def test_everybody_is_exposed_by_proofs_of_a_thousand_statements(verdict: dict[str, Any]) -> None:
    sql = "SELECT SUM(pay) FROM t WHERE " + " AND ".join(f"k <> {k}" for k in range(100))
    proof = [{"query": str(k), "sql": sql, "weight": "1", "answer": k, "column": 1} for k in range(1, 1001)]
    why = [" + ".join(f"Q{k}" for k in range(1, 1001)) + " = 5", " + ".join(map(str, range(1000))) + " = 5"]
    one = {**verdict["exposed"][0], "proof": proof, "why": why, "first": {"query": "1000", "least": True}}
    many = [{**one, "record": {"name": f"Person {k}"}, "row": k} for k in range(50_000)]
    told = {"column": "pay", "lo": 1, "hi": 2, "prior": [0, 9], "status": "open", "proof": []}
    ranges = [{"record": {"name": f"Person {k}"}, **told} for k in range(50_000)]
    page = render_audit_page({**verdict, "exposed": many, "intervals": ranges})
    assert len(page.encode()) < 3_000_000
    said = " ".join(parsed(page).text)
    assert "(the first 40; the JSON verdict has all)" in said
    assert "(the first 2,000 of" in said


def test_statements_of_a_megabyte_each(verdict: dict[str, Any]) -> None:
    long = "SELECT " + "x" * 1_000_000
    each = [{"query": str(k), "sql": long, "reason": f"reason {k}"} for k in range(50)]
    refused = [{"query": str(k), "sql": long, "error": long} for k in range(50)]
    page = render_audit_page({**verdict, "unjudged": each, "refused": refused, "warnings": each})
    assert len(page.encode()) < 3_000_000
