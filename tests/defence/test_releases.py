"""What `keyhole ask -f FILE --format transcript` writes means what was released, and `keyhole attack` reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
from click.testing import CliRunner
from tests.support.settings import write_into

from keyhole.book import Book
from keyhole.cli import app
from keyhole.config import Config
from keyhole.datasets import load
from keyhole.defence.answering import Answering, AnswerSetting
from keyhole.defence.budget.budget import Cap
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss, Neighbours
from keyhole.defence.declared_domain import declare_domain
from keyhole.defence.histogram import CountedHistogram
from keyhole.defence.releases import ReleaseLine, Releases
from keyhole.defence.strategies.separate_releases import SeparateReleases
from keyhole.model.query import Refused
from keyhole.sessions.private import Private
from keyhole.sessions.session import Session

SETTINGS = """
[source]
data = "people.csv"
[columns]
id = ["name"]
[columns.public.sex]
values = ["F", "M"]
[columns.public.age]
min = 0
max = 99
width = 10
[columns.private.sugar]
min = 3.0
max = 10.0
step = 0.1
[columns.private.pulse]
min = 40
max = 180
width = 20
[columns.private.sick]
min = 0
max = 1
[budget]
epsilon = 1000
[book]
path = "b.keyhole"
"""
STATEMENTS = [
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(*) FROM people WHERE sex = 'F' AND age < 50",
    "SELECT COUNT(*) FROM people WHERE age >= 90 OR age < 10 OR NOT (age < 100)",
    "SELECT sex, COUNT(*), AVG(sugar) FROM people GROUP BY sex",
    "SELECT SUM(sugar) FROM people WHERE sex = 'M' AND age <= 99 AND sick = 1",
    "SELECT ROUND(AVG(sugar / 3), 1), COUNT(sick) FROM people WHERE age >= 30",
    "SELECT SUM(sugar) - 2 * SUM(sick) FROM people WHERE age >= 20 AND age < 40",
    "SELECT SUM(pulse), AVG(pulse) FROM people WHERE sex = 'F'",
    "SELECT SUM(sick - 0.5), SUM(0.5 - sick) FROM people WHERE sex = 'M'",
    "SELECT SUM(sugar * sugar) FROM people WHERE NOT (sick = 1)",
    "SELECT COUNT(*) FROM people WHERE sugar IS NULL",
    "SELECT sick, AVG(sugar) FROM people GROUP BY sick",
]


class Silent:
    """A door through which no noise comes."""

    def laplace(self, scale: Fraction) -> int:
        return 0

    def gaussian(self, variance: Fraction) -> int:
        return 0

    def choose(self, scores: Sequence[int], scale: Fraction) -> int:
        return 0


@pytest.fixture
def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": [f"p{i}" for i in range(12)],
            "sex": list("FMFMFMFFMMFF"),
            "age": [5, 20, 31, 44, 58, 99, 120, -3, 36, 20, 71, 95],  # two outside the declared range
            "sugar": [4.2, None, 3.0, 10.0, 5.5, 6.5, 6.4, 7.7, 8.1, 9.9, None, 3.3],
            "pulse": [40, 59, 60, 61, 99, 120, 180, 179, 77, 141, 160, 80],
            "sick": [0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1],
        }
    )


def answered(
    people: pd.DataFrame, kind: Literal["laplace", "gaussian"], neighbours: Neighbours
) -> tuple[Any, list[ReleaseLine], list[str]]:
    settings = Config.parse(SETTINGS)
    source = load(people, settings.columns, table="people")
    domain = declare_domain(settings.columns, source.schema)
    histogram = CountedHistogram(source, domain, neighbours)
    total = Loss.of_rho(1000, neighbours) if kind == "gaussian" else Loss.of_epsilon(1000, 0, neighbours)
    with Book.rehearsal(None, "people") as book:
        setting = AnswerSetting(
            histogram, Ledger(book, Cap.declared(total, {}), domain=domain.fingerprint()), 0.05, None, 1000
        )
        answering = Answering(source.schema, domain, setting, SeparateReleases(setting, kind, Silent()))
        replies = Session(book, Private(answering, book.state.epoch)).ask_all(STATEMENTS)
        made = [r.noisy or answering.refused(r.sql, Refused(r.reason), None) for r in replies]
        writer = Releases(source.schema, domain, setting.n)
        found = list(writer.transcript(a.source for a in made if a.source is not None))
        return source, found, [a.sql for a in made if a.refused is not None]


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_each_statement_means_exactly_what_was_released(
    people: pd.DataFrame, kind: Literal["laplace", "gaussian"], neighbours: Neighbours
) -> None:
    """Without noise the released number is what the engine answers to the written statement."""
    source, found, refused = answered(people, kind, neighbours)
    assert not refused
    assert len(found) >= 20
    for one in found:
        (value,) = source.connection.execute(one.sql.replace('FROM "people"', "FROM everything")).fetchone()
        assert float(one.value) == pytest.approx(float(value or 0), abs=1e-9), one.sql
        assert one.scale is None or one.law == f"discrete-{kind}"
    assert sum(one.law is None for one in found) == (neighbours == "add-remove")  # two columns decide a sign


def test_the_scale_is_in_the_unit_of_the_answer(people: pd.DataFrame) -> None:
    _, found, _ = answered(people, "laplace", "replace-one")
    by_sex = [one for one in found if one.sql.endswith("WHERE \"sex\" = 'F'")][:3]
    count, centred, counted = (one.scale for one in by_sex)
    assert [one.sql.partition(" FROM ")[0] for one in by_sex] == [
        "SELECT COUNT(*)",
        'SELECT SUM("sugar" - 6.5)',
        'SELECT COUNT("sugar")',
    ]
    assert count is not None
    assert centred is not None
    assert counted == count
    assert centred == 7 * count  # the range of sugar - 6.5, which stands beside 0 outside the group


class Table:
    """A folder with a table, settings and questions."""

    def __init__(self, folder: Path, people: pd.DataFrame, settings: str, questions: list[str]) -> None:
        self.folder = folder
        people.to_csv(folder / "people.csv", index=False)
        people[["name", "sex", "age"]].to_csv(folder / "roster.csv", index=False)
        (folder / "keyhole.toml").write_text(settings)
        (folder / "q.sql").write_text(";\n".join(questions))

    def run(self, *words: str) -> Any:
        settings, left = write_into(self.folder / "keyhole.toml", words)
        words = tuple(settings.name if word == "keyhole.toml" else word for word in left)
        return CliRunner().invoke(app, [str(self.folder / w) if "." in w else w for w in words])

    def attack(self, *options: str) -> dict[str, Any]:
        words = ["t.jsonl", "--data", "roster.csv", "-c", "keyhole.toml", "--truth", "people.csv"]
        result = self.run("attack", *words, "--format", "json", *options)
        assert result.exit_code == 0, result.output
        return dict(json.loads(result.stdout))


QUESTIONS = [
    *(f"SELECT SUM(sugar) FROM people WHERE age >= {10 * k} AND age < {10 * k + 10}" for k in range(10)),
    "SELECT sex, COUNT(*), AVG(sugar) FROM people GROUP BY sex",
    "SELECT SUM(sugar) FROM people WHERE age >= 0 AND age < 10",  # asked again: the same noise
    "SELECT COUNT(*) FROM people WHERE age < 45",  # refused: cuts through a bin
]


@pytest.mark.parametrize(("mechanism", "law"), [("laplace", "discrete-laplace"), ("gaussian", "discrete-gaussian")])
def test_attack_reads_what_defence_writes(tmp_path: Path, people: pd.DataFrame, mechanism: str, law: str) -> None:
    settings = SETTINGS.replace(
        "epsilon = 1000", "epsilon = 1000000\nunit = 'rho'" if mechanism == "gaussian" else "epsilon = 100000"
    )
    table = Table(tmp_path, people.fillna({"sugar": 5.0}), settings, QUESTIONS)
    result = table.run("ask", "-f", "q.sql", "-c", "keyhole.toml", "--mechanism", mechanism, "--format", "transcript")
    assert result.exit_code == 3, result.output  # one statement was refused
    assert "not in the transcript: SELECT COUNT(*) FROM people WHERE age < 45" in result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(lines) == 10 + 6
    assert {line["noise"]["kind"] for line in lines} == {law}
    assert all(line["noise"]["scale"] > 0 for line in lines)
    (tmp_path / "t.jsonl").write_text(result.stdout)
    reply = table.attack("--private", "sugar")
    alone = {"p4": 5.5, "p10": 5.0}  # nobody else in their bins of age
    guesses = {e["record"]["name"]: e["value"] for e in reply["estimates"]}
    assert all(guesses[name] == pytest.approx(value, abs=0.11) for name, value in alone.items())
    assert reply["score"]["error"] < reply["score"]["prior_error"]
    private = [word for name in ("sugar", "pulse", "sick") for word in ("--private", name)]
    audited = table.run("audit", "t.jsonl", "--data", "people.csv", "--id", "name", *private)
    assert audited.exit_code == 3, audited.output  # noisy answers prove nothing, and nobody is called safe
    assert "Nobody of 12 people is exposed" in audited.stdout


@pytest.mark.parametrize("mechanism", ["online-ic", "iterative"])
def test_answers_from_a_hypothesis_state_no_law(tmp_path: Path, mechanism: str) -> None:
    many = pd.DataFrame({"name": range(4000), "sex": ["F", "M"] * 2000, "age": [5, 25, 45, 65] * 1000})
    many["sugar"], many["pulse"], many["sick"] = 5.0, 60, [1, 0, 0, 0] * 1000
    small = SETTINGS.replace(
        "[columns.private.sugar]\nmin = 3.0\nmax = 10.0\nstep = 0.1\n", "[columns.private.sugar]\n"
    )
    small = small.replace("[columns.private.pulse]\nmin = 40\nmax = 180\nwidth = 20\n", "[columns.private.pulse]\n")
    asked = ["SELECT COUNT(*) FROM people WHERE sick = 1 AND sex = 'F'", "SELECT SUM(sick) FROM people WHERE age < 10"]
    table = Table(tmp_path, many, small.replace("epsilon = 1000", "epsilon = 100000"), asked)
    options = ["--mechanism", mechanism, "--format", "transcript"]
    result = table.run("ask", "-f", "q.sql", "-c", "keyhole.toml", *options)
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    kinds = {line["noise"]["kind"] for line in lines}
    assert kinds <= ({"unknown", "discrete-laplace"} if mechanism == "online-ic" else {"unknown"})
    again = table.run("ask", "-f", "q.sql", "-c", "keyhole.toml", *options)
    assert again.stdout == result.stdout  # remembered with its law
    (tmp_path / "t.jsonl").write_text(result.stdout)
    reply = table.attack("--private", "sick")
    lawless = sum(line["noise"]["kind"] == "unknown" for line in lines)
    said = "1 answer states" if lawless == 1 else f"{lawless} answers state"
    told = [w for w in reply["warnings"] if "no law of noise" in w]
    assert told == ([f"{said} no law of noise: not used"] if lawless else [])


def test_a_dry_run_has_no_transcript(tmp_path: Path, people: pd.DataFrame) -> None:
    table = Table(tmp_path, people, SETTINGS, QUESTIONS[:1])
    result = table.run("ask", "-f", "q.sql", "-c", "keyhole.toml", "--dry-run", "--format", "transcript")
    assert result.exit_code == 2
    assert "releases nothing" in result.stderr
