"""A verdict about several tables, replayed with one of them: the reason says what to give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from keyhole.cli import app

SETTINGS = '[source]\ndata = "data"\ntable = "visits"\n[columns]\nid = ["person"]\n[columns.private.cost]\n'
SETTINGS += '[tables.diag]\nkeys = ["visit"]\nprivate = "all"\n'
LOG = """
SELECT COUNT(DISTINCT person) FROM visits JOIN diag ON visits.visit = diag.visit WHERE code = 'flu';
SELECT COUNT(DISTINCT person) FROM visits WHERE visit IN (SELECT visit FROM diag WHERE code = 'mumps');
SELECT SUM(cost) FROM visits WHERE person = 2;
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("several")
    (here / "data").mkdir()
    (here / "data" / "visits.csv").write_text("person,visit,cost\n1,10,5\n2,12,9\n3,13,4\n", encoding="utf-8")
    (here / "data" / "diag.csv").write_text("visit,code\n10,flu\n12,flu\n13,flu\n", encoding="utf-8")
    (here / "keyhole.toml").write_text(SETTINGS, encoding="utf-8")
    (here / "log.sql").write_text(LOG, encoding="utf-8")
    return here


def audited(folder: Path, settings: str) -> Path:
    (folder / "s.toml").write_text(settings, encoding="utf-8")
    done = CliRunner().invoke(app, ["audit", str(folder / "log.sql"), "-c", str(folder / "s.toml"), "--format", "json"])
    assert done.exit_code == 1, done.output
    (folder / "verdict.json").write_text(done.stdout, encoding="utf-8")
    return folder / "verdict.json"


def verified(verdict: Path, *options: str) -> dict[str, object]:
    done = CliRunner().invoke(app, ["verify", str(verdict), *options, "--format", "json"])
    assert done.exit_code in (0, 3), done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_with_all_tables_everything_is_replayed(folder: Path) -> None:
    verdict = audited(folder, SETTINGS)
    for options in (["-c", str(folder / "keyhole.toml")], ["--data", str(folder / "data"), "--table", "visits"]):
        found = verified(verdict, *options)
        assert found["hold"] == found["proofs"] != 0


def test_with_one_table_every_reason_says_what_to_give(folder: Path) -> None:
    found = verified(audited(folder, SETTINGS), "--data", str(folder / "data" / "visits.csv"))
    assert isinstance(found["cannot"], list)
    assert found["cannot"]
    for left in found["cannot"]:
        assert "--data FOLDER --table visits" in left["why"]
    alone = folder / "alone"
    alone.mkdir()
    (alone / "visits.csv").write_bytes((folder / "data" / "visits.csv").read_bytes())
    found = verified(folder / "verdict.json", "--data", str(alone), "--table", "visits")
    assert isinstance(found["cannot"], list)
    assert {left["why"] for left in found["cannot"]} == {
        "the folder alone has no file for the table diag: put it there"
    }


def test_rows_that_are_public_have_a_remedy_too(folder: Path) -> None:
    settings = SETTINGS.replace('private = "all"', 'private = ["code"]')
    found = verified(audited(folder, settings), "-c", str(folder / "s.toml"))
    assert isinstance(found["cannot"], list)
    assert any('private = "all"' in left["why"] for left in found["cannot"])
    again = verified(audited(folder, SETTINGS), "-c", str(folder / "keyhole.toml"))
    assert again["hold"] == again["proofs"]
