"""`keyhole verify` from the command line: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import keyhole
from keyhole.cli import app

LOG = """SELECT SUM(pay) FROM staff;
SELECT SUM(pay) FROM staff WHERE name <> 'Ann';
SELECT COUNT(*) FROM staff WHERE pay > 15 AND team = 'b';
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "staff.csv").write_text("name,team,pay\nAnn,a,10\nBob,a,20\nCyd,b,30\nDan,b,40\n", encoding="utf-8")
    (tmp_path / "log.sql").write_text(LOG, encoding="utf-8")
    options = ["--data", str(tmp_path / "staff.csv"), "--id", "name", "--private", "pay", "--format", "json"]
    done = CliRunner().invoke(
        app, ["audit", str(tmp_path / "log.sql"), *options, "--out", str(tmp_path / "verdict.json")]
    )
    assert done.exit_code == 1, done.output
    return tmp_path


def verify(folder: Path, *more: str, data: str = "staff.csv") -> tuple[int, str]:
    done = CliRunner().invoke(app, ["verify", str(folder / "verdict.json"), "--data", str(folder / data), *more])
    return done.exit_code, done.output


def changed(folder: Path, old: str, new: str) -> None:
    path = folder / "verdict.json"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_all_replayed(folder: Path) -> None:
    assert verify(folder) == (
        0,
        "3 of 3 proofs replayed: 3 hold, 0 fail.\nIt checks what is claimed, not that nobody is missing.\n",
    )


def test_a_proof_fails_and_is_named_without_its_value(folder: Path) -> None:
    changed(folder, '"value": 10', '"value": 11')
    code, text = verify(folder)
    assert code == 1
    assert "3 of 3 proofs replayed: 2 hold, 1 fail." in text
    assert "fails: Ann: pay (exposed): the answers of the verdict do not add up to the claimed value" in text
    assert "11" not in text


def test_what_cannot_be_replayed_is_counted(folder: Path) -> None:
    changed(folder, '"kind": "counts"', '"kind": "unheard of"')
    code, text = verify(folder)
    assert code == 3
    assert "1 of 3 proofs replayed: 1 hold, 0 fail. 2 cannot be replayed here, and may be right or wrong." in text


def test_as_json(folder: Path) -> None:
    changed(folder, '"value": 10', '"value": 11')
    code, text = verify(folder, "--format", "json")
    found = json.loads(text)
    assert (code, found["proofs"], found["replayed"], found["hold"], found["cannot"]) == (1, 3, 3, 2, [])
    assert found["fails"][0]["records"] == [{"name": "Ann"}]


def test_other_data_is_not_the_data(folder: Path) -> None:
    (folder / "other.csv").write_text("name,team,pay\nAnn,a,10\nBob,a,20\n", encoding="utf-8")
    assert verify(folder, data="other.csv")[0] == 3


def test_could_not_run(folder: Path) -> None:
    assert verify(folder, data="missing.csv")[0] == 2
    (folder / "verdict.json").write_text("{}", encoding="utf-8")
    assert verify(folder)[0] == 2
    (folder / "verdict.json").write_text("not JSON", encoding="utf-8")
    assert verify(folder)[0] == 2


def test_nothing_claimed_is_nothing_to_replay(folder: Path) -> None:
    (folder / "log.sql").write_text("SELECT SUM(pay) FROM staff", encoding="utf-8")
    options = ["--data", str(folder / "staff.csv"), "--id", "name", "--private", "pay", "--format", "json"]
    CliRunner().invoke(app, ["audit", str(folder / "log.sql"), *options, "--out", str(folder / "verdict.json")])
    code, text = verify(folder)
    assert (code, text.splitlines()[0]) == (0, "The verdict claims nothing of anybody: there is no proof to replay.")


def test_data_read_without_the_settings_of_the_audit_is_said_and_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "plain.data").write_text("Ann,51\nBob,64\n")
    settings = tmp_path / "k.toml"
    settings.write_text(
        '[source]\ndata = "plain.data"\ncolumns = ["name", "pay"]\n[columns]\nid = ["name"]\n[columns.private.pay]\n'
    )
    found = keyhole.examine(["SELECT SUM(pay) FROM t WHERE name = 'Ann'"], config=settings)
    verdict = tmp_path / "v.json"
    verdict.write_text(found.dumps())
    (tmp_path / "plain.csv").write_text("Ann,51\nBob,64\n")
    without = CliRunner().invoke(app, ["verify", str(verdict), "--data", str(tmp_path / "plain.csv")])
    assert without.exit_code == 2
    assert "-c keyhole.toml" in without.output
    assert CliRunner().invoke(app, ["verify", str(verdict), "-c", str(settings)]).exit_code == 0
