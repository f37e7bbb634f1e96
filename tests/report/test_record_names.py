"""Where a person has several records, records are called so, and it is said which of them is meant."""

from __future__ import annotations

import pyarrow as pa
import pytest

from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import examine
from keyhole.config.arguments import EVERYTHING
from keyhole.report.exposure import describe_exposure
from keyhole.report.formats.document import describe_verdict
from keyhole.report.html.audit import draw_value_ranges, render_audit_page
from keyhole.report.words.sentence import summarize_verdict
from keyhole.report.words.text import render_text

VISITS = pa.table(
    {
        "pid": ["P1", "P1", "P2", "P3", "P3"],
        "visit": [1, 2, 3, 4, 5],
        "month": [1, 2, 2, 3, 3],
        "cost": [10, 20, 30, 40, 50],
    }
)
LOG = ["SELECT month, SUM(cost) FROM t GROUP BY month"]


@pytest.fixture(scope="module")
def found() -> Exposure:
    return examine(LOG, data=VISITS, id="pid", private="cost:0..1000")


def test_ranges_are_counted_by_record(found: Exposure) -> None:
    assert "2 of 3 people are exposed" in summarize_verdict(describe_exposure(found))
    text = render_text(describe_exposure(found))
    assert "The answers narrow the possible range for 4 more records (keyhole audit --ranges)." in text


def test_which_record_is_said_where_an_id_has_several(found: Exposure) -> None:
    said = render_text(describe_exposure(found), EVERYTHING)
    assert "Q1.1 = P1's cost (row 1) = 10" in said
    assert "  P2: cost lies in [0, 50]" in said
    assert "the other record of Q1.3 is at least 0 (known); so cost of any of P3 (row 4), P3 (row 5) is" in said
    assert "the other person" not in said


def test_the_html_report_says_it_too(found: Exposure) -> None:
    written = describe_verdict(describe_exposure(found), ())
    assert "P1 (row 1)" in render_audit_page(written)
    (drawing,) = draw_value_ranges(written)
    assert "P3 (row 5)" in drawing.svg
    assert "5 records" in drawing.caption


def test_people_with_one_record_each_stay_people() -> None:
    alone = VISITS.set_column(0, "pid", pa.array(list("abcde")))
    said = render_text(describe_exposure(examine(LOG, data=alone, id="pid", private="cost:0..1000")), EVERYTHING)
    assert "range for 4 more people." in said
    assert "the other person of Q1.3" in said
    assert "(row " not in said
