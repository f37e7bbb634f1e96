"""The audit command as a user meets it: exit codes, JSON, errors, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.commands import run_command
from tests.support.files import write_files

from keyhole.cli import app
from keyhole.cli.demo import CONFIG, LOG, PEOPLE, ROSTER, SAFE, TRANSCRIPT

run = CliRunner()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {"people.csv": PEOPLE, "roster.csv": ROSTER, "log.sql": LOG, "safe.sql": SAFE, "t.jsonl": TRANSCRIPT}
    write_files(tmp_path, {**files, "keyhole.toml": CONFIG})
    return tmp_path


def audit(folder: Path, *args: str, stdin: str = "") -> tuple[int, str, str]:
    chosen = [str(folder / a) if (folder / a).is_file() else a for a in args]
    return run_command("audit", *chosen, stdin=stdin)


WHO = ("--id", "Name", "--private", "Blood sugar")


def test_exit_codes(folder: Path) -> None:
    assert audit(folder, "log.sql", "--data", "people.csv", *WHO)[0] == 1
    assert audit(folder, "safe.sql", "--data", "people.csv", *WHO)[0] == 0
    (folder / "max.sql").write_text('SELECT MAX("Blood sugar") FROM people WHERE "Blood sugar" < 6')
    assert audit(folder, "max.sql", "--data", "people.csv", *WHO)[0] == 3
    (folder / "bad.sql").write_text("SELECT 1 +")
    assert audit(folder, "bad.sql", "--data", "people.csv", *WHO)[0] == 3
    assert audit(folder, "nowhere.sql", "--data", "people.csv", *WHO)[0] == 2
    assert audit(folder, "log.sql", "--data", "nowhere.csv", *WHO)[0] == 2
    assert audit(folder, "log.sql")[0] == 2


def test_json_fields(folder: Path) -> None:
    code, out, _ = audit(folder, "t.jsonl", "--data", "roster.csv", *WHO, "--format", "json")
    verdict = json.loads(out)
    assert code == 1
    assert set(verdict) == {
        "sentence", "measures", "proved", "by_assumption", "features", "grades",
        "records", "people", "queries", "statements", "complete", "atoms", "rank", "promise", "assumed", "source",
        "exposed", "groups", "rows", "intervals", "unjudged", "refused", "contradictions",
        "warnings",
    }  # fmt: skip
    assert verdict["assumed"] == {}  # the roster has no private column to read a kind off
    assert json.loads(audit(folder, "log.sql", "--data", "people.csv", *WHO, "--format", "json")[1])["assumed"] == {
        "Blood sugar": "decimal"
    }
    assert verdict["exposed"][0]["record"] == {"Name": "Jeremy Doe"}
    assert verdict["exposed"][0]["value"] == 5.2
    assert verdict["exposed"][0]["singled_out"] is True
    assert len(verdict["intervals"]) == 6
    statuses = {i["record"]["Name"]: i["status"] for i in verdict["intervals"]}
    assert statuses == {**dict.fromkeys(statuses, "open"), "Jeremy Doe": "exposed"}


def test_text_output_has_the_arithmetic(folder: Path) -> None:
    _, out, _ = audit(folder, "log.sql", "--data", "people.csv", *WHO)
    assert "1 of 6 people is exposed by 3 statements." in out
    assert "Q1 - Q2 - Q3 = Jeremy Doe's Blood sugar = 5.2" in out
    assert "32.1 - 15.5 - 11.4 = 5.2" in out


def test_standard_input_and_settings_file(folder: Path) -> None:
    code, out, _ = audit(folder, "-", "-c", "keyhole.toml", stdin=LOG)
    assert (code, "Jeremy Doe" in out) == (1, True)
    code, out, _ = audit(folder, "-", "-c", "keyhole.toml", "--format", "json", stdin=TRANSCRIPT)
    assert (code, json.loads(out)["rank"]) == (1, 3)


def test_out_appears_complete_or_not_at_all(folder: Path) -> None:
    target = folder / "verdict.json"
    code, out, _ = audit(folder, "log.sql", "-c", "keyhole.toml", "--format", "json", "--out", str(target))
    assert (code, out) == (1, "")
    assert json.loads(target.read_text())["rank"] == 3
    code, _, err = audit(folder, "log.sql", "-c", "keyhole.toml", "--out", str(folder / "no" / "v.json"))
    assert code == 2
    assert "cannot write" in err
    before = target.read_text()
    assert audit(folder, "missing.sql", "-c", "keyhole.toml", "--out", str(target))[0] == 2
    assert target.read_text() == before
    assert sorted(p.name for p in folder.iterdir() if p.name.startswith(".")) == []


def test_errors_say_what_to_do(folder: Path) -> None:
    def err(*args: str) -> str:
        code, _, text = audit(folder, *args)
        assert code == 2
        return " ".join(text.split())

    assert "did you mean 'Blood sugar'" in err("log.sql", "--data", "people.csv", "--private", "Blood suger")
    assert "no column is private" in err("log.sql", "--data", "people.csv")
    assert "not a number" in err("log.sql", "--data", "people.csv", "--private", "Blood sugar:low..high")
    (folder / "c.toml").write_text("[colums]\nid = ['Name']")
    assert "did you mean 'columns'" in err("log.sql", "-c", "c.toml")
    (folder / "c.toml").write_text("[columns\n")
    assert "not valid TOML" in err("log.sql", "-c", "c.toml")
    (folder / "x.bin").write_bytes(b"\x00\xff\xfe")
    assert "not UTF-8" in err("x.bin", "-c", "keyhole.toml")
    assert "Write a .csv" in err("log.sql", "--data", "x.bin", *WHO)
    (folder / "empty.sql").write_text("-- nothing\n")
    assert "holds no statement" in err("empty.sql", "-c", "keyhole.toml")


def test_a_broken_line_is_listed(folder: Path) -> None:
    (folder / "t2.jsonl").write_text('{"sql": "SELECT 1"\n' + TRANSCRIPT)
    code, out, _ = audit(folder, "t2.jsonl", "-c", "keyhole.toml", "--format", "json")
    assert code == 1
    assert "line 1: not JSON" in json.loads(out)["refused"][0]["error"]


def test_a_bug_does_not_look_like_a_verdict(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object, **_more: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(import_module("keyhole.api.audit"), "audit", broken)
    code, _, err = audit(folder, "log.sql", "-c", "keyhole.toml")
    assert code == 2
    assert "internal error" in err


def test_two_thousand_statements_one_bad(folder: Path) -> None:
    lines = [f'SELECT SUM("Blood sugar") FROM people WHERE ZIP > {z};' for z in range(20000, 29999, 5)]
    (folder / "long.sql").write_text("\n".join([*lines[:1000], "SELECT FROM WHERE;", *lines[1000:]]))
    code, out, _ = audit(folder, "long.sql", "-c", "keyhole.toml", "--format", "json")
    verdict = json.loads(out)
    assert [r["query"] for r in verdict["refused"]] == ["1001"]
    assert (code, [e["record"]["Name"] for e in verdict["exposed"]]) == (1, ["Alison Moon"])


def test_help_teaches_by_example() -> None:
    text = run.invoke(app, ["audit", "--help"]).stdout
    assert "keyhole audit log.sql --data patients.csv" in text
    assert "Exit code" in text
    assert "demo" in run.invoke(app, ["--help"]).stdout


def test_the_installed_command_runs_the_demo(tmp_path: Path) -> None:
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}
    result = subprocess.run(
        [sys.executable, "-c", "from keyhole.cli import main; main()", "demo", "story"],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "Q1 - Q2 - Q3 = Jeremy Doe's Blood sugar = 5.2" in result.stdout
    assert {p.name for p in (tmp_path / "story").iterdir()} >= {"people.csv", "log.sql", "keyhole.toml"}
