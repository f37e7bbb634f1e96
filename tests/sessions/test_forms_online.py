"""Forms that audits open (subqueries, windows, LIMIT, buckets, ...): before an answer they are refused, with a reason,
or the answer is what the engine says of the text."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import keyhole

STAFF = pa.table(
    {
        "name": [f"p{i}" for i in range(12)],
        "dept": list("aabbaabbaabb"),
        "age": [20 + 3 * i for i in range(12)],
        "day": [f"20{10 + i}-0{1 + i % 9}-15" for i in range(12)],
        "pay": [50 + i * i for i in range(12)],
    }
)
FORMS = [
    "SELECT SUM(pay) FROM staff WHERE age > (SELECT AVG(age) FROM staff)",
    "SELECT SUM(pay) FROM staff WHERE age IN (SELECT age FROM staff WHERE dept = 'a')",
    "SELECT q, SUM(pay) FROM (SELECT pay, NTILE(2) OVER (ORDER BY age, name) AS q FROM staff) GROUP BY q",
    "SELECT q, SUM(pay) FROM (SELECT pay, NTILE(2) OVER (ORDER BY pay) AS q FROM staff) GROUP BY q",
    "SELECT dept, SUM(pay) FROM staff GROUP BY dept ORDER BY dept LIMIT 1",
    "SELECT dept, SUM(pay) FROM staff GROUP BY dept ORDER BY SUM(pay) LIMIT 1",
    "SELECT dept, SUM(pay) FROM staff GROUP BY GROUPING SETS ((dept), (dept), ())",
    "SELECT dept, SUM(pay) FROM staff GROUP BY ROLLUP (dept)",
    "SELECT SUM(pay) FROM staff WHERE YEAR(CAST(day AS DATE)) < 2016",
    "SELECT DATE_TRUNC('year', CAST(day AS DATE)) < DATE '2016-01-01' AS early, SUM(pay) FROM staff GROUP BY early",
    "SELECT COUNT(DISTINCT pay) FROM staff",
    "SELECT CORR(pay, age) FROM staff",
    "SELECT dept, SUM(pay) * 100.0 / (SELECT SUM(pay) FROM staff) FROM staff GROUP BY dept",
    "SELECT SUM(pay) FROM staff UNION ALL SELECT SUM(age) FROM staff",
    "SELECT MAX(s) FROM (SELECT dept, SUM(pay) AS s FROM staff GROUP BY dept)",
    "SELECT FLOOR(pay / 10) * 10 AS b, COUNT(*) FROM staff GROUP BY b",
    "SELECT CASE WHEN pay < 60 THEN 'low' ELSE 'high' END AS b, COUNT(*) FROM staff GROUP BY b",
    "SELECT dept, SUM(pay), RANK() OVER (ORDER BY SUM(pay)) FROM staff GROUP BY dept",
    "SELECT SUM(pay) FROM staff WHERE CURRENT_DATE > DATE '2020-01-01'",
    "WITH a AS (SELECT dept, SUM(pay) AS s FROM staff GROUP BY dept) SELECT s FROM a WHERE dept = 'a'",
    "SELECT SUM(pay) FROM staff QUALIFY ROW_NUMBER() OVER () = 1",
    "SELECT COUNT(*) FROM staff WHERE dept LIKE 'A%'",
    "SELECT SUM(pay) FROM staff WHERE LENGTH(dept) = 1 AND REGEXP_MATCHES(dept, '^[a-b]$')",
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    book: Path = tmp_path_factory.mktemp("forms") / "staff.keyhole"
    with keyhole.session(data=STAFF, private="pay:0..", id="name", exact_above=1, book=book) as opened:
        yield opened


def plain(value: object) -> object:
    return Fraction(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else str(value)


@pytest.mark.parametrize("sql", FORMS)
def test_refused_with_a_reason_or_what_the_engine_says(session: Any, sql: str) -> None:
    reply = session.ask(sql)
    if str(reply.outcome) in ("deny", "refused"):
        assert len(reply.reason) > 20
        assert not reply.exact
        return
    con = duckdb.connect()
    con.register("staff", STAFF)
    said = {tuple(map(plain, (v for v in row if v is not None))) for row in con.execute(sql).fetchall()}
    told = {tuple(map(plain, (*key.values(), *values))) for key, values in reply.exact}
    assert told == said


def test_some_are_answered(session: Any) -> None:
    outcomes = [str(session.ask(sql).outcome) for sql in FORMS]
    assert outcomes.count("refused") > 8
    assert len(outcomes) - outcomes.count("refused") - outcomes.count("deny") > 4
