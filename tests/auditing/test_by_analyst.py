"""`--by analyst`: each analyst's own view. The twin audits each analyst's lines alone."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from click.testing import CliRunner

import keyhole
from keyhole.cli.root import app
from keyhole.errors import ConfigError, LogError
from keyhole.logs.fold import UNNAMED

TEXTS = (
    "SELECT SUM(pay) FROM t",
    "SELECT SUM(pay) FROM t WHERE team = 'a'",
    "SELECT SUM(pay) FROM t WHERE name <> 'c'",
    "SELECT team, AVG(pay), COUNT(*) FROM t GROUP BY team",
    "SELECT COUNT(*) FROM t WHERE pay > 15",
    "SELECT SUM(nothing) FROM t",
)


def world(seed: int) -> tuple[pa.Table, list[dict[str, Any]]]:
    rng = random.Random(seed)
    n = rng.randrange(4, 7)
    table = pa.table(
        {
            "name": [chr(97 + i) for i in range(n)],
            "team": [rng.choice("ab") for _ in range(n)],
            "pay": [rng.randrange(1, 40) for _ in range(n)],
        }
    )
    who = ["ann", "bob", None]
    log = [{"sql": rng.choice(TEXTS), "analyst": rng.choice(who)} for _ in range(rng.randrange(3, 9))]
    return table, [*log, {"sql": TEXTS[0], "analyst": "ann"}]


def said(verdict: keyhole.Verdict) -> tuple[object, ...]:
    found = [(f.row, f.column, f.status, f.value, f.lo, f.hi, f.excluded) for f in verdict.findings]
    return found, verdict.complete, verdict.exit_code, verdict.statements


def compared(seed: int) -> None:
    table, log = world(seed)
    verdict = keyhole.audit(log, data=table, private="pay", id="name", by="analyst")
    names = {line["analyst"] for line in log}
    assert set(verdict.views) == {name or UNNAMED for name in names}
    for name in names:
        mine = [line for line in log if line["analyst"] == name]
        alone = keyhole.audit(mine, data=table, private="pay", id="name")
        assert said(verdict.views[name or UNNAMED]) == said(alone), (seed, name)
    together = keyhole.audit(log, data=table, private="pay", id="name")
    assert said(verdict)[:2] == said(together)[:2]
    codes = [together.exit_code, *(view.exit_code for view in verdict.views.values())]
    assert verdict.exit_code == (1 if 1 in codes else 3 if 3 in codes else 0)


@pytest.mark.parametrize("seed", range(4))
def test_each_view_is_that_of_his_own_lines(seed: int) -> None:
    compared(seed)


@pytest.mark.soak
def test_each_view_is_that_of_his_own_lines_at_length() -> None:
    for _ in range(100):
        compared(random.randrange(10**9))


def test_a_log_that_names_nobody_cannot_be_judged_by_analyst() -> None:
    table = pa.table({"name": ["a", "b"], "pay": [1, 2]})
    with pytest.raises(LogError, match="does not say who asked"):
        keyhole.audit([TEXTS[0]], data=table, private="pay", id="name", by="analyst")
    with pytest.raises(ConfigError, match="by analyst, not by 'team'"):
        keyhole.audit([TEXTS[0]], data=table, private="pay", id="name", by="team")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "t.csv").write_text("name,pay\nAnn,1\nBob,2\nCyd,4\n", encoding="utf-8")
    asked = [
        ("ann", "SELECT SUM(pay) FROM t"),
        ("bob", "SELECT SUM(pay) FROM t WHERE name <> 'Ann'"),
        ("bob", "SELECT SUM(pay) FROM t WHERE name = 'Bob'"),
    ]
    lines = [{"sql": sql, "analyst": who, "time": f"2026-11-16 10:0{at}"} for at, (who, sql) in enumerate(asked)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(*options: str) -> tuple[int, str]:
    given = ["audit", "log.jsonl", "--data", "t.csv", "--id", "name", "--private", "pay", *options]
    ran = CliRunner().invoke(app, given)
    return ran.exit_code, ran.stdout


@pytest.mark.usefixtures("folder")
def test_text_and_json_show_every_view() -> None:
    code, text = audit("--by", "analyst")
    assert code == 1
    assert "First known with Q2 (by bob, 2026-11-16 10:01): Ann's pay" in text
    assert "To bob alone: 2 of 3 people are exposed by 2 statements." in text
    assert "To ann alone" not in text
    code, text = audit("--by", "analyst", "--format", "json")
    data = json.loads(text)
    assert [(view["analyst"], len(view["exposed"])) for view in data["by"]] == [("ann", 0), ("bob", 2)]
    first = {item["record"]["name"]: item["first"] for item in data["exposed"]}
    assert first["Ann"] == {"query": "2", "least": True, "analyst": "bob", "time": "2026-11-16 10:01"}


@pytest.mark.usefixtures("folder")
def test_redacted_views_name_nobody_and_agree() -> None:
    _, text = audit("--by", "analyst", "--redact")
    assert not any(word in text for word in ("ann", "bob", "Ann", "Bob", "10:0"))
    _, text = audit("--by", "analyst", "--redact", "--format", "json")
    assert not any(word in text for word in ('"ann"', '"bob"', "Ann", "Bob", "10:0"))


@pytest.mark.usefixtures("folder")
def test_pipelines_see_every_view() -> None:
    code, text = audit("--by", "analyst", "--format", "sarif")
    assert code == 1
    whole, ann, bob = json.loads(text)["runs"]
    assert "automationDetails" not in whole
    assert [run["automationDetails"]["id"] for run in (ann, bob)] == ["keyhole/analyst/ann/", "keyhole/analyst/bob/"]
    assert [len(run["results"]) for run in (whole, ann, bob)] == [3, 0, 2]
    code, text = audit("--by", "analyst", "--format", "junit")
    suites = ElementTree.fromstring(text).findall("testsuite")
    assert [(s.get("name", "").rpartition(": ")[2], s.get("tests"), s.get("failures")) for s in suites] == [
        ("keyhole audit log.jsonl", "3", "2"),
        ("ann alone", "1", "0"),
        ("bob alone", "2", "1"),
    ]
    assert [case.get("name", "")[:3] for case in suites[2]] == ["Q2:", "Q3:"]
    for how in ("sarif", "junit"):
        _, text = audit("--by", "analyst", "--format", how, "--redact")
        assert not any(word in text for word in ("/ann", "/bob", "bob alone", "Ann", "Bob", "10:0"))
