"""A page stays below 3 MB, whatever the log holds."""

from __future__ import annotations

import pyarrow as pa
import pytest
from msgspec.structs import replace
from tests.report.test_pages import parsed

import keyhole
from keyhole.report.documents.verdict import (
    Completion,
    Interval,
    JudgedWarning,
    ProofItem,
    RefusedStatement,
    UnjudgedStatement,
    VerdictDocument,
)
from keyhole.report.html.audit import render_audit_page


@pytest.fixture(scope="module")
def verdict() -> VerdictDocument:
    people = pa.table({"name": ["Ann", "Bob", "Cy"], "pay": [1, 2, 3]})
    log = ["SELECT SUM(pay) FROM t WHERE name = 'Ann'", "SELECT foo(pay) FROM t"]
    return keyhole.audit(log, data=people, private="pay", id="name").document()


def test_everybody_is_exposed_by_proofs_of_a_thousand_statements(verdict: VerdictDocument) -> None:
    sql = "SELECT SUM(pay) FROM t WHERE " + " AND ".join(f"k <> {k}" for k in range(100))
    proof = tuple(ProofItem(query=str(k), sql=sql, weight="1", answer=k, column=1) for k in range(1, 1001))
    why = (" + ".join(f"Q{k}" for k in range(1, 1001)) + " = 5", " + ".join(map(str, range(1000))) + " = 5")
    one = replace(verdict.exposed[0], proof=proof, why=why, first=Completion(query="1000", least=True))
    many = tuple(replace(one, record={"name": f"Person {k}"}, row=k) for k in range(50_000))
    ranges = tuple(
        Interval(record={"name": f"Person {k}"}, column="pay", lo=1, hi=2, prior=(0, 9), status="open", proof=())
        for k in range(50_000)
    )
    page = render_audit_page(replace(verdict, exposed=many, intervals=ranges))
    assert len(page.encode()) < 3_000_000
    said = " ".join(parsed(page).text)
    assert "(the first 40; the JSON verdict has all)" in said
    assert "(the first 2,000 of" in said


def test_statements_of_a_megabyte_each(verdict: VerdictDocument) -> None:
    long = "SELECT " + "x" * 1_000_000
    unjudged = tuple(UnjudgedStatement(query=str(k), sql=long, reason=f"reason {k}") for k in range(50))
    warnings = tuple(JudgedWarning(query=str(k), sql=long, reason=f"reason {k}") for k in range(50))
    refused = tuple(RefusedStatement(query=str(k), sql=long, error=long) for k in range(50))
    page = render_audit_page(replace(verdict, unjudged=unjudged, refused=refused, warnings=warnings))
    assert len(page.encode()) < 3_000_000
