"""SARIF, JUnit and baselines: valid, at the right line, and no more talkative than the verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from keyhole import audit
from keyhole.auditing.base import Group, Status
from keyhole.cli import app
from keyhole.cli.demo import LOG, PEOPLE
from keyhole.errors import ConfigError
from keyhole.logs.open import Log, open_log
from keyhole.report.documents.json_text import read_document, read_json
from keyhole.report.documents.verdict import VerdictDocument
from keyhole.report.exposure import describe_exposure
from keyhole.report.formats.baseline import Baseline, mark_known
from keyhole.report.formats.junit import junit
from keyhole.report.formats.sarif import RULES, sarif
from keyhole.report.verdict import Verdict

TROUBLE = """
SELECT MAX("Blood sugar") FROM people WHERE "Blood sugar" < 6;
SELECT SUM("Blood sugr") FROM people;
"""


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Verdict, Log]:
    (tmp_path / "people.csv").write_text(PEOPLE, encoding="utf-8")
    (tmp_path / "log 1.sql").write_text(LOG + TROUBLE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    log = open_log(Path("log 1.sql"))
    return audit(log, data="people.csv", id="Name", private=["Blood sugar"], group_size=2), log


# The part of the SARIF 2.1.0 schema that we use: type, required members, allowed members, and what is below them.
SHAPE: dict[str, dict[str, str]] = {
    "log": {"$schema": "uri", "version!": "2.1.0", "runs!": "[run"},
    "run": {"tool!": "tool", "columnKind": "text", "originalUriBaseIds": "bases", "results": "[result"},
    "bases": {"SRCROOT": "base"},
    "base": {"description": "message"},
    "tool": {"driver!": "driver"},
    "driver": {"name!": "text", "version": "text", "rules": "[rule"},
    "rule": {"id!": "text", "shortDescription": "message", "defaultConfiguration": "configuration"},
    "configuration": {"level": "level"},
    "result": {
        "ruleId": "text",
        "ruleIndex": "index",
        "level": "level",
        "message!": "message",
        "locations": "[location",
        "relatedLocations": "[location",
        "partialFingerprints": "texts",
        "baselineState": "state",
    },
    "message": {"text!": "text"},
    "location": {"id": "index", "message": "message", "physicalLocation": "physical"},
    "physical": {"artifactLocation!": "artifact", "region": "region"},
    "artifact": {"uri!": "uri", "uriBaseId": "text"},
    "region": {"startLine!": "line"},
}


def fits(value: Any, kind: str, place: str = "$") -> None:
    if kind.startswith("["):
        assert isinstance(value, list), place
        for i, item in enumerate(value):
            fits(item, kind[1:], f"{place}[{i}]")
    elif kind in SHAPE:
        shape = SHAPE[kind]
        assert isinstance(value, dict), place
        assert {k[:-1] for k in shape if k.endswith("!")} <= set(value), place
        allowed = {k.rstrip("!"): below for k, below in shape.items()}
        assert set(value) <= set(allowed), (place, set(value) - set(allowed))
        for key, item in value.items():
            fits(item, allowed[key], f"{place}.{key}")
    elif kind == "texts":
        assert all(isinstance(k, str) and isinstance(v, str) for k, v in value.items()), place
    elif kind in ("index", "line"):
        assert type(value) is int, place
        assert value >= (1 if kind == "line" else 0), place
    elif kind == "level":
        assert value in ("none", "note", "warning", "error"), place
    elif kind == "state":
        assert value in ("new", "unchanged", "updated", "absent"), place
    elif kind == "uri":
        assert isinstance(value, str), place
        assert " " not in value, place
    elif kind == "text":
        assert isinstance(value, str), place
    else:
        assert value == kind, place


def test_sarif_is_valid_and_points_to_the_statement(story: tuple[Verdict, Log]) -> None:
    verdict, log = story
    data = json.loads(sarif(verdict.plain, log))
    fits(data, "log")
    results = data["runs"][0]["results"]
    assert [r["ruleId"] for r in results] == ["exposed", "group", "unjudged", "refused"]
    assert all(RULES[r["ruleIndex"]][0] == r["ruleId"] for r in results)
    place = results[0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "log%201.sql", "uriBaseId": "SRCROOT"}, "region": {"startLine": 4}}
    text = Path("log 1.sql").read_text(encoding="utf-8").splitlines()
    assert "ZIP > 32000" in text[3]
    assert [x["physicalLocation"]["region"]["startLine"] for x in results[0]["relatedLocations"]] == [2, 3]
    assert "Jeremy Doe" in results[0]["message"]["text"]
    assert [r["level"] for r in results] == ["error", "error", "warning", "warning"]


def test_private_values_stay_out_of_pipelines(story: tuple[Verdict, Log]) -> None:
    verdict, log = story
    assert str(verdict.exposed[0].value) == "5.2"
    for text in (sarif(verdict.plain, log), junit(verdict.plain, log)):
        assert "5.2" not in text.replace("2.1.0", "")
        assert "11.4" not in text  # the total of the group


def test_junit_has_a_case_for_every_statement(story: tuple[Verdict, Log]) -> None:
    verdict, log = story
    suite = ElementTree.fromstring(junit(verdict.plain, log)).find("testsuite")
    assert suite is not None
    assert {k: suite.get(k) for k in ("tests", "failures", "errors")} == {"tests": "5", "failures": "1", "errors": "2"}
    cases = suite.findall("testcase")
    assert [c.get("line") for c in cases] == ["2", "3", "4", "6", "7"]
    assert [[child.tag for child in c] for c in cases] == [[], [], ["failure"], ["error"], ["error"]]
    failure = cases[2].find("failure")
    assert failure is not None
    assert "Jeremy Doe" in (failure.text or "")


def test_junit_counts_people_in_the_words_of_the_findings(story: tuple[Verdict, Log]) -> None:
    verdict, log = story
    (found,) = verdict.findings
    narrowed = replace(found, status=Status.INFERRED)
    assert found.proof is not None
    pair = Group(({"Name": "a"}, {"Name": "b"}), (0, 1), found.column, None, found.proof)
    for findings, groups, said in (
        ((found,), (), "1 exposed"),
        ((narrowed,), (), "1 narrowed down"),
        ((found, narrowed, narrowed), (pair,), "1 exposed, 2 narrowed down, 1 determined in total"),
    ):
        text = junit(describe_exposure(replace(verdict.exposure, findings=findings, groups=groups)), log)
        failure = ElementTree.fromstring(text).find("testsuite/testcase/failure")
        assert failure is not None
        assert failure.get("message") == said
        assert len((failure.text or "").splitlines()) == len(findings) + len(groups)


def test_junit_is_xml_whatever_the_statement_holds(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE, encoding="utf-8")
    log = open_log("SELECT SUM(\"Blood sugar\") FROM people WHERE Gender = '\x00\x0b<&>\ud7ff\uffff'; SELECT '\x1b'")
    verdict = audit(log, data=tmp_path / "people.csv", id="Name", private=["Blood sugar"])
    assert ElementTree.fromstring(junit(verdict.plain, log)).find("testsuite") is not None


def test_a_baseline_makes_only_new_people_count(story: tuple[Verdict, Log]) -> None:
    verdict, log = story
    known = Baseline.of(read_document(read_json(verdict.dumps()), VerdictDocument))
    assert known.exit_code(verdict.plain) == 3  # nobody new, but two statements were not judged
    assert Baseline().exit_code(verdict.plain) == 1
    data = json.loads(sarif(verdict.plain, log, known))
    fits(data, "log")
    states = [(r.get("baselineState"), r["level"]) for r in data["runs"][0]["results"]]
    assert states == [("unchanged", "note"), ("unchanged", "note"), (None, "warning"), (None, "warning")]
    fresh = json.loads(sarif(verdict.plain, log, Baseline()))
    assert [r.get("baselineState") for r in fresh["runs"][0]["results"]][:2] == ["new", "new"]
    suite = ElementTree.fromstring(junit(verdict.plain, log, known)).find("testsuite")
    assert suite is not None
    assert suite.get("failures") == "0"
    assert "known: Jeremy Doe" in "".join(suite.itertext())
    assert [each.known for each in mark_known(verdict.document(), verdict.plain, known).exposed] == [True]
    assert [each.known for each in mark_known(verdict.document(), verdict.plain, Baseline()).exposed] == [False]


def test_inferred_before_and_exposed_now_is_new(story: tuple[Verdict, Log]) -> None:
    verdict, _ = story
    data = json.loads(verdict.dumps())
    data["exposed"] = []
    for item in data["intervals"]:
        item["status"] = "inferred" if item["record"] == {"Name": "Jeremy Doe"} else "open"
    assert not Baseline.of(read_document(data, VerdictDocument)).knows(verdict.plain.exposed[0])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"exposed": [{}]}', '{"exposed": 3}'])
def test_a_baseline_that_is_no_verdict_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "base.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="baseline"):
        Baseline.load(tmp_path / "base.json")
    with pytest.raises(ConfigError, match="cannot read the baseline"):
        Baseline.load(tmp_path / "nowhere.json")


def test_ids_of_any_kind_are_recognised_again(tmp_path: Path) -> None:
    rows = "day,no,part,x\n2026-01-02,1,0.5,3\n2026-01-03,2,1.5,4\n"
    (tmp_path / "t.csv").write_text(rows, encoding="utf-8")
    found = audit("SELECT SUM(x) FROM t WHERE no = 1", data=tmp_path / "t.csv", id=["day", "no", "part"], private=["x"])
    assert len(found.exposed) == 1
    assert Baseline.of(read_document(read_json(found.dumps()), VerdictDocument)).knows(found.plain.exposed[0])


@pytest.mark.parametrize("how", ["sarif", "junit"])
def test_contradictions_and_broken_lines_name_the_query_and_no_number(tmp_path: Path, how: str) -> None:
    (tmp_path / "d.csv").write_text("name,sugar\nAnn,5.1375\nBob,6.2513\nCyd,7.1013\n")
    wrong = '{"sql": "SELECT SUM(sugar) FROM d WHERE name = \'Ann\'", "answer": 9.8642}'
    apart = [f'{{"sql": "SELECT SUM(sugar) FROM d", "answer": {n}}}' for n in ("18.4901", "19.7531")]
    broken = '{"sql": "SELECT MAX(sugar) FROM d", "answer": 7.1013,}'
    (tmp_path / "log.jsonl").write_text("\n".join([wrong, *apart, broken]) + "\n")
    options = ["audit", str(tmp_path / "log.jsonl"), "--data", str(tmp_path / "d.csv"), "--id", "name"]
    done = CliRunner().invoke(app, [*options, "--private", "sugar", "--format", how])
    assert done.exit_code == 3
    assert "the answer of Q1 does not fit the data or what is declared: correct it in the log" in done.stdout
    for number in ("5.1375", "9.8642", "18.4901", "19.7531", "7.1013"):
        assert number not in done.stdout
