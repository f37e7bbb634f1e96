"""The script of --proof-sql runs in DuckDB and in PostgreSQL, and says FALSE where a proof is false."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from tests.support.postgres import Postgres

from keyhole.cli import app

PEOPLE = """name,team,zip,pay,bonus
Ann,a,1,10,1
Bob,a,2,20,2
O'Neil,b,3,30,
Dan,b,4,40,4
Eve,b,5,50,5
"""
LOG = """SELECT SUM(pay) FROM staff;
SELECT team, 'note' AS note, AVG(pay), COUNT(*) FROM staff WHERE zip <> 3 GROUP BY team;
SELECT SUM(pay * zip) - COUNT(*) FROM staff WHERE zip IN (4, 5);
SELECT AVG(bonus) FROM staff WHERE zip < 4 -- a comment
;
SELECT SUM(bonus) FROM staff WHERE name = 'Ann';
SELECT COUNT(*) FROM staff WHERE pay > 5 AND zip = 1;
"""
CLAIMS = {"O'Neil: pay", "Dan: pay", "Eve: pay", "Ann: bonus", "Bob: bonus"}


def script_of(folder: Path) -> str:
    (folder / "staff.csv").write_text(PEOPLE, encoding="utf-8")
    (folder / "log.sql").write_text(LOG, encoding="utf-8")
    options = ["--data", str(folder / "staff.csv"), "--id", "name", "--private", "pay", "--private", "bonus"]
    done = CliRunner().invoke(
        app, ["audit", str(folder / "log.sql"), *options, "--proof-sql", str(folder / "proofs.sql")]
    )
    assert done.exit_code == 1, done.output
    return (folder / "proofs.sql").read_text(encoding="utf-8")


def in_duckdb(script: str, folder: Path) -> list[tuple[str, bool, bool]]:
    con = duckdb.connect(":memory:")
    con.execute(f"CREATE TABLE staff AS SELECT * FROM read_csv('{folder / 'staff.csv'}')")
    found = []
    for statement in con.extract_statements(script):
        ran = con.execute(statement)
        if statement.type == duckdb.StatementType.SELECT:
            found += ran.fetchall()
    assert con.execute("SELECT SUM(pay) FROM staff").fetchall() == [(150,)]
    return found


def test_it_runs_in_duckdb(tmp_path: Path) -> None:
    script = script_of(tmp_path)
    found = in_duckdb(script, tmp_path)
    assert {claim for claim, _, _ in found} == CLAIMS
    assert len(found) == 2 * len(CLAIMS)
    assert all(holds is True and adds_up is True for _, holds, adds_up in found)
    assert "a proof by rule" in script  # the count is named as left out


def test_a_false_proof_is_false_there(tmp_path: Path) -> None:
    script = script_of(tmp_path)
    wrong = script.replace("1 * (SELECT c1", "2 * (SELECT c1")
    assert any(holds is False for _, holds, _ in in_duckdb(wrong, tmp_path))
    other = script.replace("IS NOT DISTINCT FROM 'Dan'", "IS NOT DISTINCT FROM 'Eve'")
    assert [holds for claim, holds, _ in in_duckdb(other, tmp_path) if claim == "Dan: pay"] == [False, False]
    value = re.sub(r"\(40\)", "(41)", script)
    assert [adds for claim, _, adds in in_duckdb(value, tmp_path) if claim == "Dan: pay"] == [False, False]


def test_it_runs_in_postgresql(tmp_path: Path, postgres: Postgres) -> None:
    script = script_of(tmp_path)
    rows = ", ".join(
        "({})".format(
            ", ".join(
                f"'{v.replace(chr(39), 2 * chr(39))}'" if v.isalpha() or "'" in v else v or "NULL"
                for v in line.split(",")
            )
        )
        for line in PEOPLE.splitlines()[1:]
    )
    postgres.run(
        f"CREATE TABLE staff (name text, team text, zip int, pay int, bonus int);INSERT INTO staff VALUES {rows};"
    )
    found = [line.split("|") for line in postgres.run(script)]
    assert {claim for claim, _, _ in found} == CLAIMS
    assert all(rest == ["t", "t"] for _, *rest in found)
    wrong = [line.split("|") for line in postgres.run(script.replace("FROM 'Dan'", "FROM 'Eve'"))]
    assert [holds for claim, holds, _ in wrong if claim == "Dan: pay"] == ["f", "f"]
    assert postgres.run("SELECT SUM(pay) FROM staff") == ["150"]


def test_who_has_no_id_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "staff.csv").write_text(PEOPLE, encoding="utf-8")
    (tmp_path / "log.sql").write_text("SELECT SUM(pay) FROM staff WHERE zip = 1", encoding="utf-8")
    out = tmp_path / "proofs.sql"
    options = ["--data", str(tmp_path / "staff.csv"), "--private", "pay", "--proof-sql", str(out)]
    assert CliRunner().invoke(app, ["audit", str(tmp_path / "log.sql"), *options]).exit_code == 1
    assert "0 of 1 proofs" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["x\ny", "x'); DROP TABLE staff; --"])
def test_names_cannot_break_out(tmp_path: Path, name: str) -> None:
    quoted = '"' + name + '"'
    (tmp_path / "staff.csv").write_text(f"name,pay\n{quoted},10\nBob,20\n", encoding="utf-8")
    (tmp_path / "log.sql").write_text("SELECT SUM(pay) FROM staff; SELECT SUM(pay) FROM staff WHERE name = 'Bob'")
    out = tmp_path / "proofs.sql"
    options = ["--data", str(tmp_path / "staff.csv"), "--id", "name", "--private", "pay", "--proof-sql", str(out)]
    assert CliRunner().invoke(app, ["audit", str(tmp_path / "log.sql"), *options]).exit_code == 1
    con = duckdb.connect(":memory:")
    con.execute(f"CREATE TABLE staff AS SELECT * FROM read_csv('{tmp_path / 'staff.csv'}')")
    for statement in con.extract_statements(out.read_text(encoding="utf-8")):
        con.execute(statement)
    assert con.execute("SELECT COUNT(*) FROM staff").fetchall() == [(2,)]
