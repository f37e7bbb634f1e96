"""`keyhole audit` in pipelines: log formats, SARIF, JUnit, baselines, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from tests.support.commands import run_command
from tests.support.files import write_files

from keyhole.cli.demo import CONFIG, LOG, PEOPLE, SAFE

run = CliRunner()
MORE = "SELECT SUM(\"Blood sugar\") FROM people WHERE Name <> 'Eve Brown';\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(tmp_path, {"people.csv": PEOPLE, "log.sql": LOG, "safe.sql": SAFE, "keyhole.toml": CONFIG})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(*args: str, stdin: str = "") -> tuple[int, str, str]:
    return run_command("audit", *args, "-c", "keyhole.toml", stdin=stdin)


def test_baseline_exit_codes(folder: Path) -> None:
    assert audit("log.sql", "--format", "json", "--out", "base.json")[0] == 1
    code, out, _ = audit("log.sql", "--baseline", "base.json")
    assert code == 0  # nobody new, and everybody else is shown to be open
    assert "Against the baseline: 0 new, 1 known." in out
    assert "known: Jeremy Doe" in out
    (folder / "more.sql").write_text(LOG + MORE, encoding="utf-8")
    code, out, _ = audit("more.sql", "--baseline", "base.json")
    assert code == 1
    assert "1 new, 1 known" in out
    assert "new: Eve Brown" in out
    code, out, _ = audit("more.sql", "--baseline", "base.json", "--format", "json")
    assert code == 1
    assert {i["record"]["Name"]: i["known"] for i in json.loads(out)["exposed"]} == {
        "Jeremy Doe": True, "Eve Brown": False,
    }  # fmt: skip
    (folder / "unread.sql").write_text(LOG + "SELECT 1 +;\n", encoding="utf-8")
    assert audit("unread.sql", "--baseline", "base.json")[0] == 3
    assert audit("log.sql", "--baseline", "missing.json")[0] == 2
    assert audit("log.sql", "--baseline", "log.sql")[0] == 2


def test_sarif_and_junit_have_the_exit_code_of_the_verdict(folder: Path) -> None:
    for kind in ("sarif", "junit"):
        assert audit("log.sql", "--format", kind)[0] == 1
        assert audit("safe.sql", "--format", kind)[0] == 0
    (folder / "keyhole.toml").write_text(CONFIG.partition("min =")[0], encoding="utf-8")
    for kind in ("sarif", "junit"):
        assert audit("safe.sql", "--format", kind)[0] == 0
    code, out, _ = audit("log.sql", "--format", "sarif", "--out", "out.sarif")
    assert (code, out) == (1, "")
    assert json.loads((folder / "out.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"
    _, out, _ = audit("-", "--format", "sarif", stdin=LOG)
    place = json.loads(out)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "standard-input"}
    assert ElementTree.fromstring(audit("log.sql", "--format", "junit")[1]).tag == "testsuites"


def test_the_text_form_to_a_file_has_the_baseline_too(folder: Path) -> None:
    audit("log.sql", "--format", "json", "--out", "base.json")
    assert audit("log.sql", "--baseline", "base.json", "--out", "v.txt")[0] == 0
    assert "0 new, 1 known" in (folder / "v.txt").read_text(encoding="utf-8")


def test_log_formats(folder: Path) -> None:
    rows = "QUERY_TEXT,EXECUTION_STATUS\n" + "".join(
        '"' + line.rstrip(";").replace('"', '""') + '",SUCCESS\n' for line in LOG.splitlines()[1:]
    )
    (folder / "history.csv").write_text(rows, encoding="utf-8")
    for choice in ("auto", "snowflake"):
        code, out, _ = audit("history.csv", "--log-format", choice, "--format", "json")
        assert code == 1
        assert json.loads(out)["exposed"][0]["record"] == {"Name": "Jeremy Doe"}
    code, out, _ = audit("-", "--log-format", "snowflake", stdin=rows)
    assert code == 1
    code, _, err = audit("people.csv")
    assert code == 2
    assert "--log-format" in err
    code, out, _ = audit("history.csv", "--log-format", "pg-stat-statements", "--format", "json")
    assert code == 3
    assert len(json.loads(out)["refused"]) == 3
    assert audit("log.sql", "--log-format", "nonsense")[0] == 2
