"""What dashboards ask: cut-off lists, shares, grouped subqueries, unions, buckets; and what is claimed of each."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.fuzz import dashboards
from tests.fuzz.soak import attempt

import keyhole
from keyhole.auditing import Status, shown
from keyhole.auditing.shown import TELLS_MORE

STAFF = pa.table(
    {
        "name": ["Ann", "Bob", "Cyd", "Dan", "Eve", "Fay"],
        "dept": list("aabbbc"),
        "age": [30, 41, 52, 38, 38, 60],
        "pay": [51, 64, 70, 80, 33, 90],
        "ill": ["flu", "cold", "flu", "flu", "cold", "cold"],
    }
)


def audit(*log: Any, **more: Any) -> keyhole.Verdict:
    return keyhole.audit(list(log), data=STAFF, private=["pay", "ill"], id="name", **more)


def told(verdict: keyhole.Verdict) -> list[tuple[str, str, bool]]:
    return [(f.who, str(f.status), f.if_shown) for f in verdict.exposure.findings]


@pytest.mark.parametrize(
    ("sql", "code", "found"),
    [
        # a row that may have been cut off: inferred, if shown; one that surely was not: exposed
        ("SELECT dept, SUM(pay) FROM t GROUP BY dept ORDER BY 2 DESC LIMIT 2", 1, [("Fay", "inferred", True)]),
        ("SELECT dept, SUM(pay) FROM t GROUP BY dept ORDER BY 2 DESC LIMIT 3", 1, [("Fay", "exposed", False)]),
        ("SELECT dept, SUM(pay) FROM t GROUP BY dept LIMIT 9 OFFSET 1", 1, [("Fay", "inferred", True)]),
        ("SELECT dept, SUM(pay) AS s FROM t GROUP BY dept QUALIFY RANK() OVER (ORDER BY SUM(pay)) < 3", 1,
         [("Fay", "inferred", True)]),
        # the same through a subquery
        ("WITH s AS (SELECT dept, SUM(pay) AS p FROM t GROUP BY 1) SELECT * FROM s ORDER BY p", 1,
         [("Fay", "exposed", False)]),
        ("SELECT p FROM (SELECT dept, SUM(pay) AS p, COUNT(*) AS n FROM t GROUP BY 1) WHERE n = 1", 1,
         [("Fay", "exposed", False)]),
        # a second aggregation is linear in the cells, or only its cells are looked at
        ("SELECT SUM(p) FROM (SELECT dept, SUM(pay) AS p FROM t WHERE dept = 'c' GROUP BY 1)", 1,
         [("Fay", "exposed", False)]),
        ("SELECT AVG(p) FROM (SELECT dept, AVG(pay) AS p FROM t WHERE dept <> 'c' GROUP BY 1)", 3, []),  # last digits
        ("SELECT ROUND(AVG(p), 6) FROM (SELECT dept, AVG(pay) AS p FROM t WHERE dept <> 'c' GROUP BY 1)", 0, []),
        ("SELECT MAX(p) FROM (SELECT dept, SUM(pay) AS p FROM t GROUP BY 1)", 3, []),
        # shares, ranks, differences, scalar subqueries
        ("SELECT dept, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () FROM t GROUP BY dept", 0, []),
        ("SELECT dept, SUM(pay) / SUM(SUM(pay)) OVER () FROM t WHERE dept <> 'c' GROUP BY dept", 0, []),
        ("SELECT dept, SUM(pay) / SUM(SUM(pay)) OVER () FROM t GROUP BY dept", 3, []),
        ("SELECT dept, RANK() OVER (ORDER BY AVG(pay)) FROM t WHERE dept <> 'c' GROUP BY dept", 0, []),
        # a sum that stands in the answer was shown, whatever is computed beside it; without its key it was not
        ("SELECT dept, SUM(pay), RANK() OVER (ORDER BY SUM(pay)) FROM t GROUP BY dept", 1, [("Fay", "exposed", False)]),
        ("SELECT dept, AVG(pay), MAX(AVG(pay)) OVER () FROM t GROUP BY 1 ORDER BY 3", 1, [("Fay", "exposed", False)]),
        ("SELECT dept, GROUPING(dept), SUM(pay) FROM t GROUP BY ROLLUP (dept)", 1, [("Fay", "exposed", False)]),
        ("WITH s AS (SELECT dept, SUM(pay) AS p FROM t GROUP BY 1) SELECT dept, p, LAG(p) OVER (ORDER BY dept) FROM s",
         1, [("Fay", "exposed", False)]),
        ("SELECT dept, COUNT(*), SUM(pay) / SUM(SUM(pay)) OVER () FROM t GROUP BY dept", 3, []),
        ("SELECT SUM(pay), RANK() OVER (ORDER BY SUM(pay)) FROM t GROUP BY dept", 3, []),
        ("SELECT dept, SUM(pay), RANK() OVER (ORDER BY SUM(pay)) FROM t GROUP BY dept LIMIT 2", 3, []),
        ("SELECT SUM(pay) - (SELECT SUM(pay) FROM t WHERE name <> 'Ann') FROM t", 3, []),
        ("SELECT COUNT(*) * 100.0 / (SELECT COUNT(*) FROM t) FROM t WHERE dept = 'a'", 0, []),
        ("SELECT AVG(pay) FILTER (WHERE dept = 'a') - AVG(pay) FILTER (WHERE dept = 'b') FROM t", 0, []),
        # unions
        ("SELECT 'all' AS k, SUM(pay) FROM t UNION ALL SELECT 'ab', SUM(pay) FROM t WHERE dept <> 'c'", 1,
         [("Fay", "exposed", False)]),
        ("SELECT SUM(pay) FROM t UNION SELECT SUM(pay) FROM t WHERE dept <> 'c'", 3, []),
        # windows over records: public columns beside them, no frame
        ("SELECT DISTINCT dept, AVG(pay) OVER (PARTITION BY dept) FROM t WHERE dept <> 'c'", 0, []),
        ("SELECT name, SUM(pay) OVER (ORDER BY age ROWS UNBOUNDED PRECEDING) FROM t", 3, []),
        ("SELECT name, RANK() OVER (ORDER BY pay) FROM t", 3, []),
        # buckets
        ("SELECT CASE WHEN pay < 60 THEN 'low' WHEN pay < 85 THEN 'mid' END AS b, COUNT(*) FROM t GROUP BY b", 0, []),
        ("SELECT CASE WHEN pay < 60 THEN 'low' ELSE '?' END AS b, COUNT(*) FROM t WHERE dept = 'c' GROUP BY b", 1,
         [("Fay", "inferred", False)]),
    ],
)  # fmt: skip
def test_what_a_tile_gives_away(sql: str, code: int, found: list[tuple[str, str, bool]]) -> None:
    verdict = audit(sql)
    assert told(verdict) == found
    assert verdict.exit_code == code, (verdict.promise, verdict.unjudged, verdict.refused)


def test_what_is_computed_from_more_is_listed_with_what_to_do() -> None:
    verdict = audit("SELECT dept, SUM(pay) / SUM(SUM(pay)) OVER () FROM t GROUP BY dept", "SELECT SUM(pay) FROM t")
    assert [(u.number, u.reason) for u in verdict.unjudged] == [("1", TELLS_MORE)]
    assert verdict.plain.statements.judged == 1


def test_a_cut_off_list_with_its_answers_is_exact_where_it_is_listed() -> None:
    sql = "SELECT dept, SUM(pay) FROM t GROUP BY dept ORDER BY 2 DESC LIMIT 1"
    shown_c = audit({"sql": sql, "answer": [{"key": {"dept": "c"}, "values": [90]}]})
    assert told(shown_c) == [("Fay", "exposed", False)]
    shown_b = audit({"sql": sql, "answer": [{"key": {"dept": "b"}, "values": [183]}]})
    assert told(shown_b) == [("Fay", "inferred", True)]


def test_the_finding_of_a_row_that_may_be_cut_off_says_so() -> None:
    verdict = audit("SELECT dept, SUM(pay) FROM t GROUP BY dept LIMIT 2")
    (item,) = [i for i in verdict.to_json()["intervals"] if i["status"] == "inferred"]
    assert item["if_shown"] is True
    assert "if shown" in verdict.text()


def test_a_clock_comes_from_now_or_is_refused() -> None:
    sql = "SELECT SUM(pay) FROM t WHERE DATE '2025-06-30' >= CURRENT_DATE - INTERVAL 30 DAY AND dept = 'c'"
    assert told(audit(sql, now="2025-07-01")) == [("Fay", "exposed", False)]
    assert audit(sql).refused


def test_a_quotient_of_private_sums_is_as_blurred_as_the_sum_below_is_large() -> None:
    data = pa.table({"name": ["Ann"], "x": [1000], "y": [70001]})
    log = ["SELECT ROUND(SUM(x) / SUM(y), 1) FROM t", "SELECT SUM(y) FROM t"]
    verdict = keyhole.audit(log, data=data, private=["x:0..100000", "y:0..100000"], id="name")
    assert not any(f.column == "x" and f.status is Status.EXPOSED for f in verdict.exposure.findings)
    assert not verdict.contradictions


def test_taking_what_is_computed_from_for_shown_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The liar: findings from answers of which only something computed was shown."""
    monkeypatch.setattr(shown, "DOUBTFUL", frozenset())
    assert any(attempt(dashboards.play, seed)[1] for seed in range(1, 9))


def test_a_proof_names_the_column_of_a_sum_beside_what_is_computed_from_it() -> None:
    verdict = audit("SELECT dept, SUM(pay) / SUM(SUM(pay)) OVER () AS share, SUM(pay) FROM t GROUP BY dept")
    (case,) = verdict.to_json()["exposed"]
    assert [(part["column"], part["answer"]) for part in case["proof"]] == [(3, 90)]


def test_given_answers_of_what_is_computed_are_not_used() -> None:
    sql = "SELECT dept, SUM(pay), RANK() OVER (ORDER BY SUM(pay)) FROM t GROUP BY dept"
    verdict = audit({"sql": sql, "answer": [["a", 115, 2], ["b", 183, 3], ["c", 91, 1]]})
    assert (verdict.exit_code, told(verdict), [u.reason for u in verdict.unjudged]) == (3, [], [TELLS_MORE])
