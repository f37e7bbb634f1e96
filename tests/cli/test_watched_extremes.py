"""MIN and MAX on the command line: decided by the answers that lines and loaded logs carry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from keyhole.cli import app

FIRST = "SELECT MAX(x) FROM p WHERE n IN (1, 2, 3)"
SECOND = "SELECT MAX(x) FROM p WHERE n IN (1, 2)"
THIRD = "SELECT MAX(x) FROM p WHERE n IN (3, 4, 5)"


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "p.csv").write_text("id,n,x\na,1,9\nb,2,5\nc,3,7\nd,4,8\ne,5,6\n")
    path = tmp_path / "keyhole.toml"
    known = '[columns.private.x]\nfamily = "minmax"\nmax = 99\n[online]\nexact_above = 1\n'
    path.write_text(f'[source]\ndata = "p.csv"\n[columns]\nid = ["id"]\n{known}')
    return path


def watched(settings: Path, asked: str, *more: str) -> list[dict[str, str]]:
    said = CliRunner().invoke(
        app, ["ask", "--decide-only", "-c", str(settings), "--format", "json", *more], input=asked
    )
    assert said.exit_code in (0, 3), said.output
    return [json.loads(line) for line in said.stdout.splitlines()]


def test_the_answer_of_a_line_decides_the_next(settings: Path) -> None:
    asked = json.dumps({"sql": FIRST, "answer": 9}) + "\n" + json.dumps({"sql": SECOND, "answer": 9}) + "\n"
    told = watched(settings, asked)
    assert told[0]["verdict"] == "allow"
    assert told[1]["verdict"] == "deny"  # less than 9 would tell that c has 9, whatever it is
    again = watched(settings, f"{SECOND};\n{THIRD};\n")  # the book has the answer
    assert [each["verdict"] for each in again] == ["deny", "allow"]


def test_without_its_answer_the_way_out_is_said(settings: Path) -> None:
    told = watched(settings, f"{FIRST};\n{SECOND};\n")
    assert [each["verdict"] for each in told] == ["allow", "refused"]
    assert "keyhole ask" in told[1]["reason"]
    assert '"answer"' in told[1]["reason"]


def test_an_answer_that_cannot_be_true_ends_it(settings: Path) -> None:
    told = watched(settings, json.dumps({"sql": FIRST, "answer": "nine"}) + f"\n{SECOND};\n")
    assert [each["verdict"] for each in told] == ["allow", "refused"]


def test_a_loaded_maximum_counts_with_its_answer(settings: Path) -> None:
    log = settings.parent / "published.jsonl"
    log.write_text(json.dumps({"sql": FIRST, "answer": 9}) + "\n")
    assert watched(settings, f"{SECOND};\n", "--load", str(log))[0]["verdict"] == "deny"


def test_a_loaded_maximum_without_its_answer_stops_the_command(settings: Path) -> None:
    log = settings.parent / "published.jsonl"
    log.write_text(json.dumps({"sql": FIRST}) + "\n")
    said = CliRunner().invoke(app, ["ask", "--decide-only", "-c", str(settings), "--load", str(log)], input="")
    assert said.exit_code == 2
    assert "its answer is not in the log" in said.output
