"""Small things that the commands say: each names what is meant, not what is near it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.commands import call_command

from keyhole.auditing.examine import examine
from keyhole.cli import app
from keyhole.config import Config
from keyhole.config.arguments import EVERYTHING
from keyhole.errors import ConfigError, DataError
from keyhole.report.exposure import describe_exposure
from keyhole.report.words.text import render_text

PEOPLE = "name,dept,sev,pay\nAnn,a,1,30\nBob,a,2,41\nCyd,b,2,52\nDan,b,3,38\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(PEOPLE)
    return tmp_path


def test_a_value_off_the_step_is_said_to_be_off_the_step(folder: Path) -> None:
    asked = ["SELECT SUM(pay) FROM people"]
    with pytest.raises(DataError, match="row 1: its value is not on the step that was declared for it"):
        examine(asked, data="people.csv", id="name", private="pay:0..100:7")
    with pytest.raises(DataError, match="row 2: its value lies outside what was declared for it"):
        examine(asked, data="people.csv", id="name", private="pay:0..40:1")


def test_crossed_bounds_of_a_fact_are_called_crossed() -> None:
    for low, high in (("min", "max"), ("sum_min", "sum_max")):
        with pytest.raises(ConfigError, match=f"{low} = 50 is above {high} = 5: they are crossed"):
            Config.checked({"facts": [{"where": "name = 'Ann'", low: 50, high: 5}]})


def test_the_groups_that_were_not_shown_are_any_other_value(folder: Path) -> None:
    asked = ["SELECT sev, COUNT(*) FROM people GROUP BY sev"]
    said = render_text(
        describe_exposure(examine(asked, data="people.csv", id="name", private="sev:0..9:1")), EVERYTHING
    )
    assert "GROUP BY sev [any other value]  → 0" in said


def test_an_analyst_who_is_not_clear_is_not_shown_as_nothing(folder: Path) -> None:
    log = [
        {"sql": "SELECT SUM(pay) FROM people", "analyst": "ann"},
        {"sql": "SELECT sev, COUNT(*) FROM people GROUP BY sev", "analyst": "bob"},
    ]
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, log)))
    table = ("--data", "people.csv", "--id", "name", "--private", "pay", "--private", "sev", "--by", "analyst")
    said = call_command("audit", "log.jsonl", *table).stdout
    rows = {line.split()[0]: line.split()[-1] for line in said.splitlines() if line.startswith(("  ann ", "  bob "))}
    assert rows == {"ann": "yes", "bob": "no"}
    assert "To bob alone: Nobody of 4 people is exposed by 1 statement; this is not an all-clear, because" in said
    refused = call_command("audit", "log.jsonl", *table, "--format", "baseline")
    assert refused.exit_code == 2
    assert "--by is shown as text, JSON, HTML, SARIF or JUnit, not as baseline" in refused.stderr


def test_a_hint_is_named_as_it_is_written(folder: Path) -> None:
    (folder / "log.sql").write_text("SELECT COUNT(*) FROM people WITH (READPAST)")
    table = ("--data", "people.csv", "--id", "name", "--private", "pay", "--dialect", "tsql")
    assert "WITH (READPAST) may give something else there" in call_command("audit", "log.sql", *table).stdout


@pytest.mark.parametrize("word", ["json", "sarif", "html"])
def test_a_format_that_is_written_as_an_option_is_shown_as_it_is_meant(word: str) -> None:
    done = CliRunner().invoke(app, ["audit", f"--{word}"])
    assert done.exit_code == 2
    assert f"No such option '--{word}': write --format {word}. (" in " ".join(done.output.split())


def test_a_hint_ends_with_one_mark() -> None:
    done = CliRunner().invoke(app, ["audit", "--dat", "x"])
    assert "?." not in done.output


@pytest.mark.parametrize(("word", "entry"), [("determined", "exposed"), ("narrowed down", "inferred")])
def test_words_of_findings_are_explained(word: str, entry: str) -> None:
    done = CliRunner().invoke(app, ["explain", *word.split()])
    assert done.exit_code == 0
    assert done.output.startswith(f"{entry}: ")
