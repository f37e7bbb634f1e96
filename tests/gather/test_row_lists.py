"""Statements that hand out rows are findings, and what they hand out counts in everything else."""

import json
from itertools import product
from random import Random

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.support.effort import effort

import keyhole
from keyhole.cli import app

STAFF = "name,dept,age,pay\nAnn,a,30,50\nBob,a,41,60\nCyd,b,52,70\nDan,b,38,60\nEve,b,29,90\nFay,a,30,45\n"


def call(*arguments):
    return CliRunner().invoke(app, arguments).exit_code


def run_audit(folder, sql, *options):
    (folder / "staff.csv").write_text(STAFF)
    (folder / "log.sql").write_text(sql)
    who = ("--data", str(folder / "staff.csv"), "--id", "name", "--private", "pay")
    out = folder / "verdict.json"
    code = call("audit", str(folder / "log.sql"), *who, "--format", "json", "--out", str(out), *options)
    return code, json.loads(out.read_text())


@pytest.mark.parametrize("fail_on", ["exposed", "inferred", "unjudged"])
@pytest.mark.parametrize(
    ("sql", "exposed"),
    [
        ("SELECT name, pay FROM staff", 6),
        ("SELECT * FROM staff", 6),
        ("SELECT name, pay * 2 AS twice FROM staff", 6),
        ("SELECT p FROM (SELECT name, pay AS p FROM staff) WHERE name = 'Ann'", 1),
        ("SELECT name, pay FROM staff ORDER BY name LIMIT 2", 2),
        ("SELECT age, dept, pay FROM staff ORDER BY ALL", 4),
        ("SELECT name FROM staff WHERE pay > 55", 0),
        ("SELECT pay FROM staff ORDER BY name", 0),
        ("SELECT dept, list(pay) FROM staff GROUP BY dept", 0),
        ("SELECT dept, string_agg(pay, ',') FROM staff GROUP BY dept", 0),
        ("SELECT a.name, b.pay FROM staff a JOIN staff b ON a.name = b.name", 0),
    ],
)
def test_rows_are_a_finding_for_every_fail_on(tmp_path, sql, exposed, fail_on):
    code, verdict = run_audit(tmp_path, sql, "--fail-on", fail_on)
    assert (code, len(verdict["rows"]), len(verdict["exposed"])) == (1, 1, exposed)


def test_rows_say_how_many_they_are_and_how_many_are_singled_out(tmp_path):
    _, verdict = run_audit(tmp_path, "SELECT age, dept, pay FROM staff WHERE age < 50 ORDER BY ALL")
    rows = verdict["rows"][0]
    assert (rows["query"], rows["columns"], rows["records"], rows["singled_out"]) == ("1", ["age", "dept", "pay"], 5, 3)


def test_public_rows_give_nobody_away(tmp_path):
    code, verdict = run_audit(tmp_path, "SELECT name, dept FROM staff WHERE age > 30")
    assert (code, verdict["rows"], verdict["complete"]) == (0, [], True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM staff ORDER BY pay",
        "SELECT name, RANK() OVER (ORDER BY pay) FROM staff",
        "SELECT dept, FIRST(pay) FROM staff GROUP BY dept",
        "SELECT name, (SELECT MAX(pay) FROM staff b WHERE b.pay < a.pay) FROM staff a",
    ],
)
def test_what_may_show_private_values_and_is_not_judged_counts_for_every_fail_on(tmp_path, sql):
    assert run_audit(tmp_path, sql, "--fail-on", "exposed")[0] in (1, 3)


def test_rows_that_were_signed_off_still_count_in_everything_else(tmp_path):
    dump = "SELECT name, pay FROM staff WHERE name <> 'Ann'"
    _, verdict = run_audit(tmp_path, dump)
    waivers = tmp_path / "waivers.toml"
    verdict_file = tmp_path / "verdict.json"
    signed = ("--signed-by", "Ada", "--why", "agreed", "--yes")
    assert call("review", str(verdict_file), "--waivers", str(waivers), *signed) == 0
    assert run_audit(tmp_path, dump, "--accept", str(waivers))[0] == 0
    code, verdict = run_audit(tmp_path, f"{dump}; SELECT SUM(pay) FROM staff", "--accept", str(waivers))
    exposed = {item["record"]["name"]: item["value"] for item in verdict["exposed"]}
    assert (code, exposed["Ann"]) == (1, 50)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name, pay FROM staff",
        "SELECT name FROM staff WHERE pay > 55",
        "SELECT age, dept, pay FROM staff ORDER BY ALL; SELECT SUM(pay) FROM staff WHERE name <> 'Ann'",
    ],
)
def test_proofs_from_rows_hold(tmp_path, sql):
    run_audit(tmp_path, sql)
    assert call("verify", str(tmp_path / "verdict.json"), "--data", str(tmp_path / "staff.csv")) == 0


def test_rows_of_a_transcript_are_read():
    people = pa.table({"name": ["Ann", "Bob", "Cyd"], "pay": [None, None, None]})
    line = ("SELECT name, pay FROM staff WHERE name <> 'Ann'", [["Bob", 60], {"name": "Cyd", "pay": 70}])
    log = [line, ("SELECT SUM(pay) FROM staff", 180)]
    verdict = keyhole.audit(log, data=people.drop(["pay"]), table="staff", id="name", private="pay:0..100:1")
    assert {f.who: int(f.value) for f in verdict.exposure.exposed} == {"Ann": 50, "Bob": 60, "Cyd": 70}


def make_log(random):
    items = random.sample(["name", "dept", "pay"], random.randint(1, 3))
    wheres = ["", "WHERE pay > 1", "WHERE dept = 'a'", "WHERE name <> 'p0'", "WHERE pay = 2 AND dept = 'b'"]
    where = random.choice(wheres)
    distinct = random.choice(["", "", "DISTINCT "])
    order = random.choice(["", "ORDER BY ALL"])
    log = [f"SELECT {distinct}{', '.join(items)} FROM t {where} {order}".strip()]
    if random.random() < 0.6:
        log.append(f"SELECT SUM(pay) FROM t {random.choice(wheres)}".strip())
    return log


def answers_of(con, log, names, depts, values):
    con.execute("CREATE OR REPLACE TABLE t (name VARCHAR, dept VARCHAR, pay INTEGER)")
    con.executemany("INSERT INTO t VALUES (?, ?, ?)", [list(row) for row in zip(names, depts, values, strict=True)])
    return tuple(tuple(sorted(map(repr, con.execute(sql).fetchall()))) for sql in log)


@pytest.mark.parametrize("seed", range(effort(120)))
def test_against_all_tables(seed):
    random = Random(seed)
    size = random.randint(2, 4)
    names, depts = [f"p{i}" for i in range(size)], [random.choice("ab") for _ in range(size)]
    values = [random.randint(0, 2) for _ in range(size)]
    log, con = make_log(random), duckdb.connect()
    mine = answers_of(con, log, names, depts, values)
    tables = product(range(3), repeat=size)
    alike = [table for table in tables if answers_of(con, log, names, depts, table) == mine]
    con.close()
    possible = {name: {table[i] for table in alike} for i, name in enumerate(names)}
    people = pa.table({"name": names, "dept": depts, "pay": values})
    verdict = keyhole.audit(log, data=people, table="t", id="name", private="pay:0..2:1").exposure
    exposed = {finding.who: int(finding.value) for finding in verdict.exposed}
    assert all(possible[who] == {value} for who, value in exposed.items()), log
    if verdict.complete:
        assert {who for who, left in possible.items() if len(left) == 1} == set(exposed), log
    if "pay" in log[0].split("FROM")[0]:
        assert verdict.exit_code == 1
