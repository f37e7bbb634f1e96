"""Answers of a transcript against the data at hand: what is not true of them proves nothing, and is no all-clear."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from keyhole.cli import app

PAY = "name,g,pay\nAnn,a,53\nBob,a,54\nCyd,a,104\nDan,b,61\nEve,b,77\nFay,c,80\nGus,c,140\n"
TEXTS = "name,g,note\nAnn,a,x\nBob,a,\nCyd,b,y\nDan,b,y\n"
WEIGHTS = "name,wt,x\nAnn,1.1,2\nBob,0.05,2\n"


def audited(folder: Path, data: str, private: str, log: str, *more: str) -> tuple[int, dict[str, object]]:
    (folder / "t.csv").write_text(data)
    suffix = "jsonl" if log.startswith("{") else "sql"
    (folder / f"log.{suffix}").write_text(log)
    who = ["--data", str(folder / "t.csv"), "--id", "name", "--private", private]
    done = CliRunner().invoke(app, ["audit", str(folder / f"log.{suffix}"), *who, "--format", "json", *more])
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("item", "where", "right", "wrong"),
    [
        ("MAX(pay)", "g = 'c'", 140, 500),
        ("MIN(pay)", "g = 'c'", 80, 79),
        ("MAX(pay)", "name = 'Ann'", 53, 999),
        ("MEDIAN(pay)", "g = 'a'", 54, 60),
        ("MEDIAN(pay)", "g = 'b'", 69, 70),
        ("QUANTILE_DISC(pay, 0.25)", "g = 'a'", 53, 54),
        ("VAR_POP(pay)", "g = 'c'", 900, 61),
        ("ROUND(MAX(pay / 7), 1)", "g = 'c'", 20, 21),
        ("MAX(pay) > 100", "g = 'c'", True, False),
        ("MAX(pay)", "g = 'nobody'", None, 5),
        ("MAX(pay)", "pay > 900", None, 950),
        ("MAX(pay)", "g = 'c'", 140, None),
    ],
)
def test_an_order_statistic_that_is_not_so_in_the_data_is_a_contradiction(
    tmp_path: Path, item: str, where: str, right: object, wrong: object
) -> None:
    """They were believed: exit 0 for a maximum of 500 where it is 140, and Ann exposed with 999."""
    line = {"sql": f"SELECT {item} FROM t WHERE {where}"}
    _, said = audited(tmp_path, PAY, "pay:0..1000:1", json.dumps(line | {"answer": right}))
    assert said["contradictions"] == []
    code, said = audited(tmp_path, PAY, "pay:0..1000:1", json.dumps(line | {"answer": wrong}))
    assert code == 3
    assert said["contradictions"]
    assert said["exposed"] == []


def test_a_list_of_values_that_nobody_has_is_refuted(tmp_path: Path) -> None:
    line = json.dumps({"sql": "SELECT MIN(pay), MAX(pay) FROM t WHERE g = 'b'", "answer": [1, 2]})
    code, said = audited(tmp_path, PAY, "pay:0..1000:1", line)
    assert (code, said["exposed"]) == (3, [])


def test_a_text_that_somebody_does_not_have_is_refuted(tmp_path: Path) -> None:
    """Ann's note was exposed and proved to be flu13; it is x."""
    groups = [{"key": {"g": "a", "note": "flu13"}, "values": [1]}]
    line = json.dumps({"sql": "SELECT g, note, COUNT(*) FROM t GROUP BY g, note", "answer": groups})
    code, said = audited(tmp_path, TEXTS, "note", line)
    assert (code, said["exposed"]) == (3, [])
    assert said["contradictions"]


@pytest.mark.parametrize(
    ("data", "private", "sql"),
    [
        (WEIGHTS, "x:1..2:1", "SELECT SUM(x * wt) > 2.3 FROM t"),
        ("name,wt,x\nAnn,0.05,1\nBob,1.1,1\n", "x:0..1:1", "SELECT SUM(x * wt) > 1.15 FROM t"),
        ("name,wt,x\nAnn,0.7,1\nBob,0.6,1\n", "x:1..2:1", "SELECT SUM(x * wt) >= 1.3 FROM t"),
        ("name,wt,x\nAnn,0.7,1\nBob,0.6,1\n", "x:0..1:1", "SELECT SUM(x * wt) = 1.3 FROM t"),
        ("name,wt,x\nAnn,0.7,1\nBob,0.1,2\n", "x:1..3:1", "SELECT SUM(x * wt) < 0.9 FROM t"),
        ("name,wt,x\nAnn,2.3,1\nBob,.2,1\nCyd,1.1,1\nDan,.2,1\n", "x:0..1:1", "SELECT SUM(x * wt) <= 3.8 FROM t"),
        ("name,wt,x\nAnn,0.7,3\nBob,1.1,3\nCyd,0.2,3\n", "x:1..3:1", "SELECT SUM(x - wt) - SUM(x) >= -2.0 FROM t"),
    ],
)
def test_where_floating_point_decides_a_comparison_it_is_not_judged(
    tmp_path: Path, data: str, private: str, sql: str
) -> None:
    """2.2 + 0.1 > 2.3 is true in DOUBLE, and only if both have 2; in fractions it is false, and said nothing."""
    code, said = audited(tmp_path, data, private, sql)
    assert code == 3
    assert said["exposed"] == []
    assert said["unjudged"]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY t TO 'x.csv'",
        "SUMMARIZE SELECT * FROM t WHERE name = 'Ann'",
        "PRAGMA storage_info('t')",
        "EXECUTE p(1)",
        "CALL f()",
        "SELECT name, pay FROM backup.t2",
        "SELECT MAX(pay || 'x') FROM t WHERE name = 'Ann'",
        "/* open SELECT name, pay FROM t",
    ],
)
def test_what_may_show_private_values_counts_for_every_fail_on(tmp_path: Path, sql: str) -> None:
    """What a log's own reader sets aside was not asked whether values may stand in its answer."""
    log = f"SELECT SUM(pay) FROM t;\n{sql}"
    assert audited(tmp_path, PAY, "pay:real", log, "--fail-on", "exposed")[0] == 3
