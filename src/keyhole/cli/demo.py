"""`keyhole demo`: the hospital story, end to end.

The story has six patients; beside it stands a made-up hospital of 5,000, and what five analysts asked about it in two
weeks.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import console as stdout
from keyhole.cli.shared.terminal import write_whole
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

CLINIC_SECONDS = 1  # how long ranges of the 5,000 are searched for; all of the log is read

PEOPLE = """\
Name,ZIP,Gender,Blood sugar
John Smith,32453,Male,4.3
Jeremy Doe,43813,Male,5.2
Susan Atkinson,43765,Female,6.1
Eve Brown,32187,Female,3.2
Joseph Sky,33745,Male,7.1
Alison Moon,22983,Female,6.2
"""

LOG = """\
-- Three questions an analyst asked. Each is about at least two people.
SELECT SUM("Blood sugar") FROM people;
SELECT SUM("Blood sugar") FROM people WHERE Gender = 'Female';
SELECT SUM("Blood sugar") FROM people WHERE ZIP > 32000 AND ZIP < 35000 AND Gender = 'Male';
"""

ANSWERS = (32.1, 15.5, 11.4)
TRANSCRIPT = "".join(
    json.dumps({"sql": sql.rstrip(";"), "answer": answer}) + "\n"
    for sql, answer in zip(LOG.splitlines()[1:], ANSWERS, strict=True)
)

ROSTER = """\
Name,ZIP,Gender
John Smith,32453,Male
Jeremy Doe,43813,Male
Susan Atkinson,43765,Female
Eve Brown,32187,Female
Joseph Sky,33745,Male
Alison Moon,22983,Female
"""

CONFIG = """\
[source]
data = "people.csv"

[columns]
id = ["Name"]

[columns.private."Blood sugar"]
min = 3.0
max = 10.0
step = 0.1

[online]
# `keyhole ask` answers exactly about more than 2 people. An exact answer at an end of the range (everybody at 10.0)
# tells every value in its group, so a real table says more (10, say), or answers privately: write a [budget].
exact_above = 2
"""

SAFE = """\
SELECT SUM("Blood sugar") FROM people;
SELECT SUM("Blood sugar") FROM people WHERE Gender = 'Female';
SELECT AVG("Blood sugar"), COUNT(*) FROM people GROUP BY Gender;
"""


HELP = """Tell the hospital story: three harmless sums give one patient away.

Leaves the files of the story in FOLDER, to play with.
"""


@options.command("demo", HELP, click.Argument(["folder"], type=options.FILE, default="keyhole-demo", required=False))
def demo(folder: Path) -> None:
    """Write the files, ask, audit, show."""
    from rich.markup import escape
    from rich.table import Table

    from keyhole.api.audit import audit

    console = stdout()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file: name a folder for the files of the story")
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "people.csv": PEOPLE,
        "roster.csv": ROSTER,
        "log.sql": LOG,
        "safe.sql": SAFE,
        "transcript.jsonl": TRANSCRIPT,
        "keyhole.toml": CONFIG,
        "patients.csv": clinic_csv(),
        "clinic.jsonl": clinic_log(),
    }
    changed = [name for name, text in files.items() if _differs(folder / name, text)]
    if changed:
        raise ConfigError(
            f"{folder / changed[0]} is there already and is not the story's: nothing was written. Name another folder"
        )
    for name, text in files.items():
        write_whole(folder / name, text)
    console.print(
        "[bold]A hospital keeps one row per patient.[/] Name, ZIP and gender are public, blood sugar is not:\n"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    rows = [line.split(",") for line in PEOPLE.splitlines()]
    for name in rows[0]:
        table.add_column(name)
    for row in rows[1:]:
        table.add_row(*row[:3], "[dim]secret[/]")
    console.print(table)
    console.print("\n[bold]An analyst asked for three sums[/], none of them about a single person:\n")
    for number, line in enumerate(LOG.splitlines()[1:], 1):
        console.print(f"  Q{number}: {escape(line)}")
    shown = f"keyhole audit {folder / 'log.sql'} --data {folder / 'people.csv'} --id Name --private 'Blood sugar'"
    console.print(f"\n[bold]$ {shown}[/]\n")
    verdict = audit(folder / "log.sql", data=folder / "people.csv", id="Name", private=["Blood sugar"])
    console.print(verdict)
    console.print("\n[bold]Other questions about the same people, which do not cross[/] (safe.sql):\n")
    console.print(audit(folder / "safe.sql", data=folder / "people.csv", id="Name", private=["Blood sugar"]))
    _reports(console, folder)
    console.print(
        f"\nThe files are in [bold]{folder}/[/]: change log.sql and run keyhole audit again; "
        f"[bold]keyhole --help[/] shows the rest."
    )


def _reports(console: Console, folder: Path) -> None:
    """The same as pages; the second one of a hospital as large as a real one."""
    from keyhole.api.audit import audit
    from keyhole.auditing.clock import Deadline

    story = audit(folder / "log.sql", config=folder / "keyhole.toml", within="60%")
    write_whole(folder / "report.html", story.to_html("log.sql"))
    clinic = audit(
        folder / "clinic.jsonl",
        data=folder / "patients.csv",
        id="patient",
        private=["blood_sugar:3..20:0.1"],
        time_limit=Deadline(None, searching=CLINIC_SECONDS),
    )
    write_whole(folder / "clinic.html", clinic.to_html("clinic.jsonl"))
    console.print("\n[bold]Two reports to look at[/], each one file that any browser opens:\n")
    console.print(f"  {folder / 'report.html'}: these six patients")
    console.print(f"  {folder / 'clinic.html'}: a made-up hospital, 5,000 patients and two weeks of five analysts:")
    console.print(f"    {clinic.to_json()['sentence']}")


def _differs(path: Path, text: str) -> bool:
    return path.exists() and (not path.is_file() or path.read_bytes() != text.encode())


PATIENTS = 5_000
START = dt.date(2026, 3, 2)  # a Monday
WARDS = ("cardiology", "surgery", "oncology", "neurology", "maternity", "orthopaedics", "intensive care", "geriatrics")
TOWNS = ("Northfield", "Eastbrook", "Southwell", "Westham", "Kingsford", "Millbank", "Oakham", "Redhill", "Stonebridge")
GIVEN = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hugo", "Ines", "Jon", "Kim", "Leo", "Mia", "Noah", "Olga")
FAMILY = (
    "Abel",
    "Berg",
    "Cole",
    "Dahl",
    "Eder",
    "Frost",
    "Gray",
    "Holm",
    "Iden",
    "Jung",
    "Kern",
    "Lund",
    "Moor",
    "Nagy",
)
SEED = 20260302


def clinic_csv() -> str:
    """One row a patient: name, ward, town, age, sex and day of admission are public, blood sugar is not."""
    return "".join(f"{','.join(row)}\n" for row in _patients())


def _patients() -> Iterator[list[str]]:
    rng = random.Random(SEED)
    yield ["patient", "ward", "town", "age", "sex", "admitted", "blood_sugar"]
    for number in range(1, PATIENTS + 1):
        ward = rng.choices(WARDS, weights=(9, 10, 6, 5, 6, 7, 2, 5))[0]
        old = {"maternity": (18, 45), "geriatrics": (70, 101)}.get(ward, (0, 97))
        age = min(old[1], max(old[0], round(rng.gauss(sum(old) / 2, (old[1] - old[0]) / 5))))
        sex = "f" if ward == "maternity" or rng.random() < 0.51 else "m"
        day = START - dt.timedelta(days=rng.randrange(0, 60))
        sugar = max(3.0, min(20.0, rng.gauss(5.6, 0.9) + (3 if rng.random() < 0.08 else 0)))
        who = f"{rng.choice(GIVEN)} {rng.choice(FAMILY)} {number:04d}"
        yield [who, ward, rng.choice(TOWNS), str(age), sex, day.isoformat(), f"{sugar:.1f}"]


def clinic_log() -> str:
    """A transcript without answers, so that they are computed: {"sql", "analyst", "time"} a line, earliest first."""
    rng = random.Random(SEED + 1)
    asked = []
    for day in range(14):
        date = START + dt.timedelta(days=day)
        for analyst, questions in _ANALYSTS.items():
            count = 0 if date.weekday() >= 5 and analyst != "night report" else rng.randint(2, 6)
            for _ in range(count):
                minute = rng.randrange(8 * 60, 18 * 60)
                time = f"{date.isoformat()}T{minute // 60:02d}:{minute % 60:02d}:00"
                asked.append((time, analyst, questions(rng)))
    lines = [{"sql": sql, "analyst": who, "time": time} for time, who, sql in sorted(asked)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def _by_ward(rng: random.Random) -> str:
    measure = rng.choice(("AVG(blood_sugar)", "SUM(blood_sugar)", "COUNT(*)"))
    return f"SELECT {rng.choice(('ward', 'town', 'sex'))}, {measure} FROM patients GROUP BY 1"


def _by_age(rng: random.Random) -> str:
    low = rng.randrange(0, 9) * 10
    return f"SELECT AVG(blood_sugar), COUNT(*) FROM patients WHERE age >= {low} AND age < {low + 10}"


def _epidemiology(rng: random.Random) -> str:
    ward, sex = rng.choice(WARDS), rng.choice("fm")
    older = rng.randint(60, 96)
    return f"SELECT SUM(blood_sugar) FROM patients WHERE ward = '{ward}' AND sex = '{sex}' AND age >= {older}"


def _quality(rng: random.Random) -> str:
    day = START - dt.timedelta(days=rng.randrange(0, 20))
    town = rng.choice(TOWNS)
    return f"SELECT AVG(blood_sugar) FROM patients WHERE town = '{town}' AND admitted >= DATE '{day.isoformat()}'"


def _research(rng: random.Random) -> str:
    wards = sorted(rng.sample(WARDS, 2))
    return f"SELECT town, SUM(blood_sugar) FROM patients WHERE ward IN ('{wards[0]}', '{wards[1]}') GROUP BY town"


_ANALYSTS = {
    "night report": _by_ward,
    "Amira (controlling)": _by_age,
    "Bo (epidemiology)": _epidemiology,
    "Chen (quality)": _quality,
    "Dora (research)": _research,
}
