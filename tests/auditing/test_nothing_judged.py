"""Exit code 0 needs at least one statement that was judged."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.support.files import write_files

from keyhole import audit
from keyhole.cli import app
from keyhole.report.words.sentence import summarize_verdict

PEOPLE = {"name": ["Ann", "Bob", "Cyd"], "age": [20, 30, 40], "pay": [1, 2, 3]}
SESSION = "SET search_path = x; SHOW tables; BEGIN; COMMIT;"
# what a log may be that tells nothing, as .sql and as an export that passes over what steers a session
LOGS = {
    "session.sql": SESSION,
    "history.csv": "QUERY_TEXT,EXECUTION_STATUS\nUSE WAREHOUSE small,SUCCESS\nSET x = 1,SUCCESS\n",
    "statements.csv": "query,calls\nBEGIN,3\nSHOW search_path,1\n",
    "smallest.sql": "SELECT MIN(pay) FROM t WHERE pay > 1",
    "other.csv": "query,calls\nSELECT SUM(pay) FROM t WHERE UPPER(name) = 'ANN',1\n",
    "changes.sql": "DELETE FROM t",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("name,age,pay\nAnn,20,1\nBob,30,2\nCyd,40,3\n")
    write_files(tmp_path, LOGS)
    return tmp_path


def called(log: str, *options: str) -> tuple[int, str]:
    call = ["audit", log, "--data", "t.csv", "--id", "name", "--private", "pay", *options]
    done = CliRunner().invoke(app, call)
    return done.exit_code, done.output


@pytest.mark.parametrize("log", LOGS)
def test_nothing_judged_is_no_all_clear_in_any_format(folder: Path, log: str) -> None:
    code, text = called(log)
    assert code == 3
    assert "Nothing was judged" in text
    assert "not an all-clear" in text
    assert "Nobody" not in text
    assert "Promise: complete" not in text
    code, text = called(log, "--format", "json")
    found = json.loads(text)
    assert code == 3
    assert found["promise"] == "none: nothing was judged"
    assert found["exposed"] == []
    code, text = called(log, "--format", "sarif")
    results = json.loads(text)["runs"][0]["results"]
    assert code == 3
    assert any(r["ruleId"] == "unjudged" and "Nothing was judged" in r["message"]["text"] for r in results)
    code, text = called(log, "--format", "junit")
    suite = ElementTree.fromstring(text.partition("?>")[2]).find("testsuite")
    assert code == 3
    assert suite is not None
    whole = [case for case in suite.iter("testcase") if case.get("name") == "the log as a whole"]
    assert [error.get("message", "")[:18] for case in whole for error in case.iter("error")] == ["Nothing was judged"]
    assert int(suite.get("errors", "0")) >= 1


def test_nor_against_a_baseline(folder: Path) -> None:
    (folder / "before.json").write_text(called("smallest.sql", "--format", "json")[1])
    code, text = called("session.sql", "--baseline", "before.json")
    assert code == 3
    assert "Nothing was judged" in text


def test_an_empty_log_could_not_be_audited(folder: Path) -> None:
    for name, text in (("empty.sql", ""), ("comment.sql", "-- nothing\n"), ("header.csv", "query,calls\n")):
        (folder / name).write_text(text)
        code, said = called(name)
        assert code == 2
        assert "holds no statement" in said


def test_no_statement_at_all_in_python() -> None:
    verdict = audit([], data=pa.table(PEOPLE), private=["pay"], id="name")
    assert (verdict.exit_code, verdict.judged, verdict.queries, len(verdict)) == (3, 0, 0, 0)
    assert summarize_verdict(verdict.plain).startswith("Nothing was judged")
    assert "Nothing was judged" in verdict._repr_html_()
    assert "Nobody" not in summarize_verdict(verdict.plain)


def test_one_judged_statement_is_enough_and_public_ones_count() -> None:
    for log in ("SELECT COUNT(*) FROM t WHERE age > 25", "SELECT SUM(pay) FROM t"):
        verdict = audit(log, data=pa.table(PEOPLE), private=["pay"], id="name")
        assert (verdict.exit_code, verdict.judged) == (0, 1)
        assert summarize_verdict(verdict.plain) == "Nobody of 3 people is exposed by 1 statement."
    mixed = audit(f"{SESSION} SELECT SUM(pay) FROM t", data=pa.table(PEOPLE), private=["pay"], id="name")
    assert (mixed.exit_code, mixed.judged) == (0, 1)  # what steers a session is in no count


def test_a_count_of_nobody_warns_as_a_sum_does(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("name,dept,pay\nAnn,a,10\nBob,b,20\n")
    log = [
        "SELECT COUNT(*) FROM s WHERE dept = 'zzz'",
        "SELECT dept, COUNT(*) FROM s GROUP BY dept",
        "SELECT SUM(pay) FROM s",
    ]
    found = audit(log, data=tmp_path / "s.csv", id="name", private=["pay"])
    assert [each["query"] for each in found.to_json()["warnings"]] == ["1"]
