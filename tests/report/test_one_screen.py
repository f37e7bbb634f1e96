"""A verdict fits one screen, always says what to do, and promises no more than its exit code."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import keyhole
from keyhole.auditing.clock import Deadline
from keyhole.cli import app
from keyhole.cli.demo import CONFIG, LOG, PEOPLE
from keyhole.report.verdict import Verdict

SHORT = Deadline(None, searching=1)  # ranges are not what is looked at
WARDS = ("cardiology", "surgery", "oncology", "maternity")
TOWNS = ("Northfield", "Eastbrook", "Southwell")


def hospital(seed: int, people: int = 3000) -> pa.Table:
    rng = random.Random(seed)
    return pa.table(
        {
            "patient": [f"P{k:04}" for k in range(people)],
            "ward": [rng.choice(WARDS) for _ in range(people)],
            "town": [rng.choice(TOWNS) for _ in range(people)],
            "age": [rng.randrange(18, 99) for _ in range(people)],
            "cost": [rng.randrange(100, 90_000) for _ in range(people)],
        }
    )


def hospital_log(seed: int, questions: int = 40) -> list[str]:
    """Sums, averages and counts by age and ward, some not judged, some that single people out."""
    rng = random.Random(seed)
    log = []
    for _ in range(questions):
        age, ward, town = rng.randrange(18, 99), rng.choice(WARDS), rng.choice(TOWNS)
        log.append(
            rng.choice(
                (
                    f"SELECT SUM(cost) FROM t WHERE ward = '{ward}' AND town = '{town}' AND age >= {age}",
                    f"SELECT age, AVG(cost) FROM t WHERE ward = '{ward}' GROUP BY age",
                    f"SELECT town, SUM(cost), COUNT(*) FROM t WHERE age = {age} GROUP BY town",
                    f"SELECT MAX(cost) FROM t WHERE cost > {100 * age}",
                    f"SELECT ward, town, age, SUM(cost) FROM t WHERE age >= {max(age, 70)} GROUP BY ALL",
                )
            )
        )
    return log


def test_forty_statements_of_a_hospital_fit_a_screen() -> None:
    verdict = keyhole.audit(hospital_log(0), data=hospital(0), id="patient", private="cost:0..100000", time_limit=SHORT)
    lines = verdict.text().splitlines()
    assert verdict.exit_code == 1
    assert len(lines) <= 45, "\n".join(lines)
    assert lines[0].endswith(".")
    assert lines[0].count(". ") == 0  # one sentence
    assert "What to do:" in lines


def test_the_story_is_short(tmp_path: Path) -> None:
    for name, text in (("people.csv", PEOPLE), ("log.sql", LOG), ("keyhole.toml", CONFIG)):
        (tmp_path / name).write_text(text)
    who = ["--data", str(tmp_path / "people.csv"), "--id", "Name", "--private", "Blood sugar"]
    short = CliRunner().invoke(app, ["audit", str(tmp_path / "log.sql"), *who]).output
    assert len(short.splitlines()) <= 25
    assert short.splitlines()[0] == "1 of 6 people is exposed by 3 statements."
    assert "Withhold Q3: the proof uses it." in short
    assert "Proved: no other person's value can be computed from these answers." in short
    assert not {"rank", "atoms", "class", "Promise"} & set(short.replace(":", " ").split())
    long = CliRunner().invoke(app, ["audit", str(tmp_path / "log.sql"), *who, "-v"]).output
    assert "rank 3" in long
    assert "Promise: complete" in long


STAFF = pa.table({"name": ["Ann", "Bob", "Cyd", "Dan"], "dept": ["a", "a", "b", "b"], "pay": [10, 20, 30, 40]})
ALL, NOT_READ = "SELECT SUM(pay) FROM t", "SELECT MAX(pay) FROM t WHERE pay > 15"


def audited(*log: str, private: str = "pay:real") -> Verdict:
    return keyhole.audit(list(log), data=STAFF, id="name", private=private)


@pytest.mark.parametrize(
    ("log", "code", "proved", "measure"),
    [
        ((ALL,), 0, "Proved: no person's value", "Nothing needs to be withheld."),
        ((ALL, NOT_READ), 3, "Proved: nothing about anybody. More may follow", "Write the statements that were not"),
        ((NOT_READ,), 3, "Proved: nothing, because no statement was judged.", "Write the statements that were not"),
        ((ALL, f"{ALL} WHERE name <> 'Ann'"), 1, "Proved: no other person's value", "Withhold Q2: the proof uses it."),
        (
            ("SELECT name, SUM(pay) FROM t GROUP BY name",),
            1,
            "Proved: no other person's",
            "groups of Q1 with one person",
        ),
        (("SELECT name, pay FROM t",), 1, "Proved: ", "Answer counts, sums or averages of groups instead of the rows"),
    ],
)
def test_the_promise_is_that_of_the_exit_code(log: tuple[str, ...], code: int, proved: str, measure: str) -> None:
    verdict = audited(*log)
    text = verdict.text()
    assert verdict.exit_code == code
    assert proved in text
    assert measure in text
    assert verdict.to_json()["measures"]
    assert verdict.to_json()["proved"] in text.replace("\n  ", " ")
    if code == 3:
        assert "not an all-clear" in text.splitlines()[0]
        assert "no person's value can be computed" not in text


def test_withholding_what_is_named_breaks_every_proof() -> None:
    rng = random.Random(5)
    for _ in range(30):
        log = [f"{ALL} WHERE name IN ({', '.join(repr(n) for n in rng.sample(['Ann', 'Bob', 'Cyd', 'Dan'], k))})"
               for k in (rng.randrange(1, 5) for _ in range(5))]  # fmt: skip
        verdict = audited(*log)
        named = [part for part in verdict.to_json()["measures"] if part.startswith("Withhold Q")]
        if not verdict.exposed:
            continue
        withheld = {int(word.strip(",:")[1:]) for word in named[0].split() if word.startswith("Q")}
        for case in verdict.plain.exposed:
            assert withheld & {int(q.partition(".")[0]) for q in case.argument.queries}
