"""`keyhole demo`: the hospital story, end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyhole.cli.clinic import clinic_csv, clinic_log
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

    from keyhole.api.examine import examine

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
    verdict = examine(folder / "log.sql", data=folder / "people.csv", id="Name", private=["Blood sugar"])
    console.print(verdict)
    console.print("\n[bold]Other questions about the same people, which do not cross[/] (safe.sql):\n")
    console.print(examine(folder / "safe.sql", data=folder / "people.csv", id="Name", private=["Blood sugar"]))
    _reports(console, folder)
    console.print(
        f"\nThe files are in [bold]{folder}/[/]: change log.sql and run keyhole audit again; "
        f"[bold]keyhole --help[/] shows the rest."
    )


def _reports(console: Console, folder: Path) -> None:
    """The same as pages; the second one of a hospital as large as a real one."""
    from keyhole.api.examine import examine
    from keyhole.auditing.deadline import Deadline

    story = examine(folder / "log.sql", config=folder / "keyhole.toml", within="60%")
    write_whole(folder / "report.html", story.to_html("log.sql"))
    clinic = examine(
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
