"""Words that an engine takes for truth values (F, T, yes, no) stay the texts that statements compare with."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

import keyhole
from keyhole.cli import app
from keyhole.config import Columns, FileLayout, PrivateColumn
from keyhole.datasets.load import load
from keyhole.datasets.survey import Survey
from keyhole.model.schema import Kind

LOG = "SELECT SUM(pay) FROM p WHERE sex = '{0}';\nSELECT SUM(pay) FROM p WHERE sex = '{0}' AND id <> 1;\n"


def people(folder: Path, words: list[str], empty: int = 0) -> Path:
    data = folder / "p.csv"
    cells = [""] * empty + words
    data.write_text("id,sex,pay\n" + "".join(f"{k},{word},{10 * k}\n" for k, word in enumerate(cells, 1)))
    return data


def kind_of_sex(data: Path) -> Kind:
    found = load(data, Columns(id=("id",), private={"pay": PrivateColumn()})).schema.find("sex")
    assert found is not None
    return found.kind


@pytest.mark.parametrize(
    "words", [["F"] * 3, ["t", "f", "t"], ["T", "F", "T"], ["no", "yes", "no"], ["F", "true", "F"]]
)
def test_words_are_text(tmp_path: Path, words: list[str]) -> None:
    data = people(tmp_path, words)
    found = keyhole.audit(LOG.format(words[0]), data=data, private="pay", id="id")
    assert kind_of_sex(data) is Kind.TEXT
    assert not found.evidence.transcript.refused
    assert found.exit_code == 1  # the first is exposed, alone or by the difference


def test_words_below_many_empty_cells(tmp_path: Path) -> None:
    assert kind_of_sex(people(tmp_path, ["F", "F"], empty=300)) is Kind.TEXT
    assert kind_of_sex(people(tmp_path, ["1", "0"], empty=300)) is Kind.INTEGER


def test_true_and_false_are_truth_values(tmp_path: Path) -> None:
    data = people(tmp_path, ["true", "false", "true"])
    found = keyhole.audit("SELECT SUM(pay) FROM p WHERE sex", data=data, private="pay", id="id")
    assert kind_of_sex(data) is Kind.BOOLEAN
    assert not found.evidence.transcript.refused


def test_letters_that_are_declared_to_be_truth_values(tmp_path: Path) -> None:
    data, settings = people(tmp_path, ["t", "f", "t"]), tmp_path / "k.toml"
    settings.write_text('[columns]\nid = ["id"]\n[columns.private.pay]\n[columns.public.sex]\nkind = "boolean"\n')
    log = tmp_path / "l.sql"
    log.write_text("SELECT SUM(pay) FROM p WHERE sex;\nSELECT SUM(pay) FROM p WHERE sex = 't' AND id <> 1;\n")
    ran = CliRunner().invoke(app, ["audit", str(log), "-c", str(settings), "--data", str(data)])
    assert ran.exit_code == 1
    assert "3 of 3 people" not in ran.output
    assert "2 of 3 people are exposed" in ran.output


def test_every_command_reads_them_alike(tmp_path: Path) -> None:
    data, log, verdict, settings = people(tmp_path, ["F"] * 3), *(tmp_path / n for n in ("l.sql", "v.json", "k.toml"))
    log.write_text(LOG.format("F"))
    told = ["--data", str(data), "--private", "pay", "--id", "id"]
    run = CliRunner().invoke
    assert run(app, ["audit", str(log), *told, "--format", "json", "--out", str(verdict)]).exit_code == 1
    replayed = run(app, ["verify", str(verdict), "--data", str(data)])
    assert replayed.exit_code == 0
    assert "1 holds, 0 fails" in replayed.output
    assert run(app, ["init", str(data), "--yes", "--out", str(settings)]).exit_code == 0
    assert 'values = ["F"]' in settings.read_text()
    watched = run(
        app, ["ask", "--decide-only", *told[:3], "pay:0..", *told[4:], "--exact-above", "1"], input=log.read_text()
    )
    assert "Q1 allow" in watched.output
    assert "Q2 deny" in watched.output
    answers = tmp_path / "a.jsonl"
    answers.write_text(json.dumps({"sql": LOG.splitlines()[0].format("F"), "answer": 60}) + "\n")
    assert "true or false" not in run(app, ["attack", str(answers), *told]).output
    asked = run(app, ["ask", "-c", str(settings), "--dry-run", "--anyway", "SELECT COUNT(*) FROM p WHERE sex = 'F'"])
    assert asked.exit_code == 0, asked.output


def test_tables_beside_the_people(tmp_path: Path) -> None:
    data = tmp_path / "ward"
    data.mkdir()
    (data / "people.csv").write_text("id,pay\n1,10\n2,20\n")
    (data / "visits.csv").write_text("id,urgent\n1,T\n2,F\n")
    with ExitStack() as life:
        assert Survey(data, FileLayout(), life).tables["visits"].column("urgent").kind is Kind.TEXT
