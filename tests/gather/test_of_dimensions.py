"""What is asked of dimensions alone is about nobody; grouping sets that are written twice say everything twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import keyhole

SETTINGS = """
[source]
data = "data"
table = "visits"
[columns]
id = ["person"]
[columns.private.cost]
[tables.diag]
keys = ["visit"]
private = "all"
[tables.dept]
keys = ["dept"]
public = "all"
"""
VISITS = "person,visit,dept,cost\n1,10,a,5\n1,11,b,7\n2,12,a,9\n3,13,b,4\n"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hospital")
    (folder / "data").mkdir()
    (folder / "data" / "visits.csv").write_text(VISITS, encoding="utf-8")
    (folder / "data" / "diag.csv").write_text("visit,code\n10,flu\n10,cold\n13,cold\n", encoding="utf-8")
    (folder / "data" / "dept.csv").write_text("dept,floor\na,1\nb,2\n", encoding="utf-8")
    (folder / "keyhole.toml").write_text(SETTINGS, encoding="utf-8")
    return folder / "keyhole.toml"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM dept",
        "SELECT floor, COUNT(*) FROM dept GROUP BY floor ORDER BY 2 DESC LIMIT 1",
        "SELECT * FROM dept",
        "WITH d AS (SELECT floor FROM dept) SELECT MAX(floor) FROM d",
        "SELECT COUNT(*) FROM dept WHERE floor > (SELECT AVG(floor) FROM dept)",
    ],
)
def test_dimensions_are_about_nobody(settings: Path, sql: str) -> None:
    found = keyhole.audit(sql, config=settings)
    assert found.statements.judged == 1
    assert not found.findings
    both = keyhole.audit(f"{sql}; SELECT SUM(cost) FROM visits WHERE person = 2", config=settings)
    assert both.statements.judged == 2
    assert both.exit_code == 1  # what is asked of people beside it is judged as ever


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM diag",
        "SELECT COUNT(*) FROM dept, diag",
        "SELECT COUNT(*) FROM dept WHERE dept IN (SELECT dept FROM visits WHERE cost > 5)",
        "SELECT COUNT(*) FROM dept WHERE how_many(dept) > 1",
        "WITH dept AS (SELECT * FROM diag) SELECT COUNT(*) FROM dept",
        "SELECT COUNT(*) FROM dept UNION ALL SELECT COUNT(*) FROM diag",
        "SELECT COUNT(*) FROM read_csv('diag.csv')",
    ],
)
def test_what_looks_at_people_besides_is_no_such_statement(settings: Path, sql: str) -> None:
    assert keyhole.audit(sql, config=settings).statements.judged == 0


STAFF = pa.table({"name": ["Ann", "Bob", "Cyd"], "dept": ["a", "a", "b"], "pay": [51, 64, 70]})


@pytest.mark.parametrize(
    ("sets", "same"),
    [
        ("GROUPING SETS ((dept), (dept), ())", "GROUPING SETS ((dept), ())"),
        ("GROUPING SETS ((dept), (dept))", "dept"),
        ("ROLLUP (dept), ROLLUP (dept)", "ROLLUP (dept)"),
        ("ROLLUP (dept, dept)", "ROLLUP (dept)"),
        ("CUBE (dept), dept", "dept"),
    ],
)
def test_sets_written_twice_are_judged_as_once(sets: str, same: str) -> None:
    twice, once = (
        keyhole.audit(f"SELECT dept, SUM(pay) FROM t GROUP BY {by}", data=STAFF, private="pay", id="name")
        for by in (sets, same)
    )
    assert twice.statements.judged == 1
    assert [(f.record, f.value) for f in twice.exposed] == [(f.record, f.value) for f in once.exposed]
    assert len(twice.exposed) == 1
