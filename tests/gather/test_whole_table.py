"""Windows and subqueries over the whole table: computed by the engine where public, put down to more where private."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlglot

import keyhole
from keyhole.auditing import Status
from keyhole.checker.replay import replay
from keyhole.config import Columns
from keyhole.datasets import load
from keyhole.engines.duckdb.roster import CHANGES
from keyhole.errors import DIFFERS
from keyhole.gather import whole_table as reader
from keyhole.model.schema import WholeTableColumn
from keyhole.sql.rewriting.upper_bound import NoUpperBound
from keyhole.sql.rewriting.whole_table import replace_whole_table_parts

STAFF = pa.table(
    {
        "name": ["Ann", "Bob", "Cyd", "Dan", "Eve", "Fay", "Gus", "Hal"],
        "dept": list("aabbbccc"),
        "zip": [1, 1, 2, 2, None, 3, 1, 2],
        "age": [30, 41, 52, 38, 38, 60, 44, 29],
        "pay": [51, 64, 70, 80, 33, 90, 20, 10],
        "ill": ["flu", "cold", "flu", "flu", "cold", "cold", "flu", "cold"],
    }
)


def audit(*log: Any, **more: Any) -> keyhole.Verdict:
    return keyhole.audit(list(log), data=STAFF, private=["pay", "ill"], id="name", **more)


def exposed(verdict: keyhole.Verdict) -> dict[str, Any]:
    return {f.who: f.value for f in verdict.exposure.findings if f.status is Status.EXPOSED}


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("SELECT q, SUM(pay) FROM (SELECT pay, NTILE(3) OVER (ORDER BY age, name) AS q FROM t) GROUP BY q",
         "SELECT IF(age < 38 OR name = 'Dan', 1, IF(age < 50, 2, 3)) AS q, SUM(pay) FROM t GROUP BY 1"),
        ("SELECT SUM(pay) FROM t WHERE zip IN (SELECT zip FROM t WHERE dept = 'c' AND age > 50)",
         "SELECT SUM(pay) FROM t WHERE zip = 3"),
        ("SELECT SUM(pay) FROM t WHERE zip NOT IN (SELECT zip FROM t WHERE dept = 'a')",
         "SELECT SUM(pay) FROM t WHERE zip <> 1"),
        ("SELECT SUM(pay) FROM t WHERE age = (SELECT MAX(age) FROM t)", "SELECT SUM(pay) FROM t WHERE age = 60"),
        ("SELECT SUM(pay) FROM t AS o WHERE age > (SELECT AVG(age) FROM t AS i WHERE i.dept = o.dept)",
         "SELECT SUM(pay) FROM t WHERE name IN ('Bob', 'Cyd', 'Fay')"),
        ("SELECT SUM(pay) FROM t WHERE EXISTS (SELECT * FROM t AS i WHERE i.zip = t.zip AND i.age = 60)",
         "SELECT SUM(pay) FROM t WHERE zip = 3"),
        ("SELECT SUM(pay) FROM t WHERE age <= ALL (SELECT age FROM t WHERE dept = 'a')",
         "SELECT SUM(pay) FROM t WHERE age <= 30"),
        ("SELECT SUM(pay) FROM t WHERE (dept, age) IN (SELECT dept, MIN(age) FROM t GROUP BY dept)",
         "SELECT SUM(pay) FROM t WHERE name IN ('Ann', 'Dan', 'Eve', 'Hal')"),
        ("WITH k AS (SELECT zip AS z FROM t WHERE age = 60) SELECT SUM(pay) FROM t WHERE zip IN (SELECT z FROM k)",
         "SELECT SUM(pay) FROM t WHERE zip = 3"),
        ("SELECT dept, SUM(pay) FROM (SELECT *, RANK() OVER (ORDER BY age) AS r FROM t) WHERE r <= 3 GROUP BY dept",
         "SELECT dept, SUM(pay) FROM t WHERE age <= 38 GROUP BY dept"),
        ("SELECT SUM(pay) FROM (SELECT *, COUNT(*) OVER (PARTITION BY zip) AS n FROM t WHERE dept <> 'b') WHERE n = 1",
         "SELECT SUM(pay) FROM t WHERE name IN ('Fay', 'Hal')"),
        ("SELECT CASE WHEN age > (SELECT AVG(age) FROM t) THEN 1 ELSE 0 END AS old, SUM(pay) FROM t GROUP BY 1",
         "SELECT CASE WHEN age > 41 THEN 1 ELSE 0 END AS old, SUM(pay) FROM t GROUP BY 1"),
        ("SELECT SUM(pay) FROM (SELECT pay, LAG(age) OVER (ORDER BY age, name) AS b FROM t) WHERE b IS NULL",
         "SELECT SUM(pay) FROM t WHERE name = 'Hal'"),
    ],
)  # fmt: skip
def test_what_is_public_of_the_whole_table_is_judged_as_if_it_were_spelled_out(one: str, same: str) -> None:
    beside = "SELECT SUM(pay) FROM t WHERE name <> 'Fay'"
    found, wanted = audit(one, beside), audit(same, beside)
    assert not found.refused
    assert not found.unjudged
    assert exposed(found) == exposed(wanted)
    assert found.exit_code == wanted.exit_code
    assert found.to_json()["atoms"] == wanted.to_json()["atoms"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT q, SUM(pay) FROM (SELECT pay, NTILE(2) OVER (ORDER BY age) AS q FROM t) GROUP BY q", CHANGES),
        ("SELECT SUM(pay) FROM (SELECT pay, ROW_NUMBER() OVER () AS q FROM t) WHERE q = 1", CHANGES),
        ("SELECT age, COUNT(*) FROM (SELECT age, NTILE(2) OVER (ORDER BY pay) AS q FROM t) GROUP BY 1, q", "by fixed"),
        ("SELECT SUM(age) FROM (SELECT age, NTILE(2) OVER (ORDER BY age, name) AS q FROM t WHERE pay > 5) WHERE q = 1",
         "pay, which is private"),
        ("SELECT SUM(pay) FROM t WHERE dept IN (SELECT dept FROM t WHERE ill = 'flu')", "ill, which is private"),
        ("SELECT COUNT(*) FROM t AS o WHERE pay > (SELECT AVG(pay) FROM t AS i WHERE i.dept = o.dept)", "pay, which"),
        ("SELECT SUM(pay) FROM t WHERE age > (SELECT age FROM t LIMIT 1)", "LIMIT"),
        ("SELECT SUM(pay) FROM t WHERE age > (SELECT RANDOM() FROM t)", "RAND"),
        ("SELECT SUM(pay) FROM t WHERE age IN (SELECT rowid FROM t)", "no public column"),
        ("SELECT SUM(pay) FROM t WHERE age > (SELECT * FROM t)", "name the columns"),
        ("SELECT SUM(pay) FROM t WHERE age > (SELECT age FROM t)", "cannot compute"),
    ],
)  # fmt: skip
def test_what_is_not_the_same_at_each_run_or_private_is_listed_with_the_reason(sql: str, said: str) -> None:
    verdict = audit(sql)
    assert verdict.exit_code == 3
    (refused,) = verdict.refused
    assert said in refused.error


def test_a_sum_of_doubles_below_a_condition_is_not_judged() -> None:
    data = STAFF.append_column("size", pa.array([1.1] * 8))
    log = "SELECT SUM(pay) FROM t WHERE size > (SELECT AVG(size) FROM t)"
    verdict = keyhole.audit(log, data=data, private="pay", id="name")
    assert "order of its rows" in verdict.refused[0].error


def test_a_private_figure_that_decides_who_is_meant_gives_the_all_clear_alone() -> None:
    open_ = audit("SELECT COUNT(*) FROM t WHERE pay > (SELECT AVG(pay) FROM t)")
    assert not open_.refused
    assert not open_.exposure.findings
    alone = audit("SELECT SUM(pay) FROM t WHERE name = 'Ann' AND pay < (SELECT MAX(pay) FROM t)")
    assert not exposed(alone)
    assert alone.exit_code == 3
    text = json.dumps(open_.to_json(), default=str) + open_.text()
    assert "52.25" not in text  # the average: nobody asked for it


def test_an_average_with_endless_digits_decides_as_the_half_beside_it() -> None:
    third = "(SELECT AVG(pay) FROM t WHERE zip = 2)"  # 160 / 3
    assert audit(f"SELECT dept, COUNT(*) FROM t WHERE pay > {third} GROUP BY dept").refused == ()
    odd = audit(f"SELECT COUNT(*) FROM t WHERE pay > 2 * {third}")
    assert reader.BY_ITSELF in odd.refused[0].error


def test_a_column_that_the_engine_made_is_no_column_of_the_data() -> None:
    plain = audit("SELECT SUM(pay) FROM t WHERE age = 60")
    found = audit("SELECT SUM(pay) FROM t WHERE age = (SELECT MAX(age) FROM t)")
    singled = [[e["singled_out"] for e in v.to_json()["exposed"]] for v in (plain, found)]
    assert singled[0] == singled[1]
    assert plain.to_json()["source"] == found.to_json()["source"]


def test_the_proof_is_replayed_by_the_checker_that_runs_the_text_itself(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    rows = STAFF.to_pylist()
    head = ",".join(STAFF.column_names)
    lines = (",".join("" if v is None else str(v) for v in row.values()) for row in rows)
    data.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    log = (
        "SELECT SUM(pay) FROM t WHERE age = (SELECT MAX(age) FROM t);"
        "SELECT q, SUM(pay) FROM (SELECT pay, NTILE(2) OVER (ORDER BY age, name) AS q FROM t) GROUP BY q;"
        "SELECT q, SUM(pay) FROM (SELECT pay, NTILE(2) OVER (ORDER BY age, name) AS q FROM t WHERE age < 60) GROUP BY q"
    )
    verdict = keyhole.audit(log, data=data, private=["pay", "ill"], id="name")
    assert "Fay" in exposed(verdict)
    said = replay(verdict.dumps(), data)
    assert said.checked
    assert said.exit_code == 0


def test_a_statement_that_reads_otherwise_with_the_columns_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The liar: a column that is not what the statement asks for."""

    def lie(tree: Any, schema: Any) -> Any:
        made, columns = replace_whole_table_parts(tree, schema)
        wrong = [WholeTableColumn(c.name, c.sql.replace("MAX(age)", "MIN(age)")) for c in columns]
        return made, tuple(wrong)

    monkeypatch.setattr(reader, "replace_whole_table_parts", lie)
    verdict = audit("SELECT SUM(pay) FROM t WHERE age = (SELECT MAX(age) FROM t)")
    assert [u.reason for u in verdict.unjudged] == [DIFFERS]


def test_columns_are_added_in_the_order_of_the_records_and_once() -> None:
    source = load(STAFF, Columns.checked({"id": ["name"], "private": {"pay": {}, "ill": {}}}))
    roster = source.roster
    column = WholeTableColumn("r", "SELECT rowid AS r, RANK() OVER (ORDER BY age) AS v FROM people")
    before = source.connection.execute("SELECT name FROM everything").fetchall()
    for _ in range(2):
        assert roster.compute([column]) == ""
        source.adopt(roster.schema)
    assert [c.name for c in roster.schema.columns if c.computed] == ["r"]
    after = source.connection.execute("SELECT name, r, pay FROM everything").fetchall()
    assert [row[:1] for row in after] == before
    ages = STAFF["age"].to_pylist()
    assert [row[1] for row in after] == [1 + sum(other < age for other in ages) for age in ages]
    assert [row[2] for row in after] == STAFF["pay"].to_pylist()


def test_texts_that_differ_by_case_are_two_columns() -> None:
    data = STAFF.set_column(1, "dept", pa.array(list("aAbbbccc")))
    ask = "SELECT SUM(pay) FROM t WHERE age = (SELECT MAX(age) FROM t WHERE dept = '{}')"
    verdict = keyhole.audit([ask.format("a"), ask.format("A")], data=data, private=["pay", "ill"], id="name")
    assert exposed(verdict) == {"Ann": 51, "Bob": 64}


def test_names_of_a_window_below_a_subquery_are_not_those_of_the_table() -> None:
    schema = load(STAFF, Columns.checked({"id": ["name"], "private": {"pay": {}, "ill": {}}})).schema
    below = "SELECT *, RANK() OVER (ORDER BY age) AS r FROM (SELECT zip, pay AS age FROM t)"
    text = f"SELECT SUM(zip) FROM ({below}) WHERE r = 1"
    with pytest.raises(NoUpperBound):
        replace_whole_table_parts(sqlglot.parse_one(text, read="duckdb"), schema)
