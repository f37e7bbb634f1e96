"""The pages of attacks, answers and watched streams: drawn by a browser without a network, nothing left unescaped."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

from click.testing import CliRunner
from tests.browser_here import browser_page
from tests.report.test_pages import parsed

from keyhole.cli import app
from keyhole.cli.clinic import PATIENTS, clinic_csv, clinic_log
from keyhole.cli.demo import PEOPLE, ROSTER, TRANSCRIPT
from keyhole.report.html.stream import stream_page

BUDGET = """\
[source]
data = "people.csv"
[columns]
id = ["Name"]
[columns.private."Blood sugar"]
min = 3.0
max = 10.0
step = 0.1
[columns.public.Gender]
values = ["Female", "Male"]
[budget]
epsilon = 4
"""
ASKED = """\
SELECT COUNT(*) FROM people;
SELECT Gender, COUNT(*) FROM people GROUP BY Gender;
SELECT MEDIAN(ZIP) FROM people;
"""


def looked(folder: Path, name: str, charts: int) -> str:
    page = (folder / name).read_text(encoding="utf-8")
    parsed(page)
    with browser_page(folder / name) as seen:
        assert seen.page.locator("svg").count() == charts
        assert not seen.errors
        assert not seen.requests
        return str(seen.page.inner_text("main"))


def run(folder: Path, *arguments: str) -> int:
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, list(arguments))
    assert not done.exception or isinstance(done.exception, SystemExit), done.output
    return done.exit_code


def test_an_attack_shows_truth_against_estimate_and_the_surest_first(tmp_path: Path) -> None:
    for name, text in {"people.csv": PEOPLE, "roster.csv": ROSTER, "t.jsonl": TRANSCRIPT}.items():
        (tmp_path / name).write_text(text)
    who = ("--data", "roster.csv", "--id", "Name", "--private", "Blood sugar:3..10:0.1", "--truth", "people.csv")
    assert run(tmp_path, "attack", "t.jsonl", *who, "--format", "html", "--out", "a.html") == 0
    said = looked(tmp_path, "a.html", 1)
    assert "Jeremy Doe" in said
    assert "rebuilt exactly" in said


def test_answers_show_bars_cost_and_what_is_left(tmp_path: Path) -> None:
    for name, text in {"people.csv": PEOPLE, "keyhole.toml": BUDGET, "q.sql": ASKED}.items():
        (tmp_path / name).write_text(text)
    assert run(tmp_path, "answer", "q.sql", "-c", "keyhole.toml", "--format", "html", "--out", "b.html") == 3
    said = looked(tmp_path, "b.html", 2)
    assert "2 of 3 statements were answered with noise" in said
    assert "Refused" in said
    assert "epsilon left" in said


def test_published_tables_show_what_their_margins_give_away(tmp_path: Path) -> None:
    rows = ["region,sector,turnover", "A,x,10", "A,y,x", "A,Total,30", "B,x,x", "B,y,x", "B,Total,12", "Total,x,x"]
    (tmp_path / "t.csv").write_text("\n".join([*rows, "Total,y,27", "Total,Total,42"]) + "\n")
    given = ("--value", "turnover", "--total", "Total", "--suppressed", "x", "--min", "0")
    assert run(tmp_path, "tables", "t.csv", *given, "--format", "html", "--out", "t.html") == 1
    assert "recovered exactly" in looked(tmp_path, "t.html", 1)


def test_a_plan_shows_its_questions(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE)
    who = ("--data", "people.csv", "--id", "Name", "--private", "Blood sugar", "--target", "Name = 'Jeremy Doe'")
    assert run(tmp_path, "plan", *who, "--min-group", "2", "--format", "html", "--out", "p.html") == 0
    assert "give Jeremy Doe away" in looked(tmp_path, "p.html", 0)


def test_a_stream_names_what_was_held_back(tmp_path: Path) -> None:
    rng = random.Random(3)
    verdicts = [rng.choice(("allow", "deny", "refused")) for _ in range(40)]
    replies = [
        {"query": str(k), "sql": f"SELECT '<b>{k}'", "verdict": v, "reason": "" if v == "allow" else f"<i>{v}</i>"}
        for k, v in enumerate(verdicts, 1)
    ]
    (tmp_path / "s.html").write_text(stream_page(replies))
    said = looked(tmp_path, "s.html", 0)
    assert f"{verdicts.count('deny')} denied" in said
    assert "<i>deny</i>" in said


def test_the_made_up_hospital_is_the_same_each_time() -> None:
    rows = clinic_csv().splitlines()
    assert len(rows) == PATIENTS + 1
    assert len({row.split(",")[0] for row in rows}) == len(rows)
    assert clinic_csv() == clinic_csv()
    assert clinic_log() == clinic_log()
    assert 150 < clinic_log().count("\n") < 400
