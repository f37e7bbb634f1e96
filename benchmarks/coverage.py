"""What is judged of what people really ask: `python -m benchmarks.coverage [--shared FOLDER] [--why] [NAME ...]`.

For each corpus of statements: how many are judged (their answer entered a sound rule), read and not judged, refused,
and the reasons. The corpora in benchmarks/corpora are audited over seeded tables; those of a folder of shared data
(--shared, or KEYHOLE_DATA) over its tables. A corpus that is not there is said to be missing.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.corpora import tables
from keyhole.auditing import Judge
from keyhole.auditing.rules import interval, quick_rules
from keyhole.config import Config
from keyhole.config.settings import settings, with_private
from keyhole.datasets.open import Use, compared_with_text, open_table
from keyhole.gather import gather, transcribe
from keyhole.logs.open import as_log
from keyhole.report.exposure import count_statements

HERE = Path(__file__).parent / "corpora"
NOW = dt.datetime(2025, 6, 30, 12)
SECONDS = 0.3  # for ranges, in each system
ADULT = (
    "age,workclass,fnlwgt,education,education_num,marital,occupation,relationship,race,sex,capital_gain,capital_loss,"
    "hours,country,income"
)


MIMIC = """
[columns]
id = ["SUBJECT_ID"]
[columns.private.DIAGNOSIS]
[tables.DIAGNOSES]
keys = ["SUBJECT_ID", "HADM_ID"]
private = "all"
[tables.PROCEDURES]
keys = ["SUBJECT_ID", "HADM_ID"]
private = "all"
[tables.PRESCRIPTIONS]
keys = ["SUBJECT_ID", "HADM_ID"]
private = "all"
[tables.LAB]
keys = ["SUBJECT_ID", "HADM_ID"]
private = "all"
"""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Statements with the table that they are about."""

    name: str
    dialect: str
    log: str
    data: pa.Table | Path
    private: tuple[str, ...]
    id: tuple[str, ...]
    table: str | None = None
    config: str = ""


@dataclass(frozen=True, slots=True)
class Covered:
    """How many statements of a corpus were judged, and why the others were not."""

    name: str
    dialect: str
    total: int
    judged: int
    unjudged: int
    refused: int
    causes: Counter[str]
    seconds: float


SHAPES = {
    "hospital": (tables.hospital, ("charges", "severity", "diagnosis"), ("patient_id",)),
    "business": (tables.business, ("revenue", "orders", "churned"), ("customer_id",)),
    "adult": (tables.adult, ("capital_gain", "capital_loss", "income"), ("person",)),
}


def ours() -> Iterator[Corpus]:
    """The corpora of the repository."""
    for path in sorted(HERE.glob("*.sql")):
        shape, dialect, _ = path.name.split(".")
        make, private, who = SHAPES[shape]
        yield Corpus(f"{shape} ({dialect})", dialect, path.read_text(encoding="utf-8"), make(), private, who)


def shared(folder: Path | None) -> Iterator[Corpus | str]:
    """The corpora of the shared folder, or the names of those that are not there."""
    if folder is None or not folder.is_dir():
        yield "shared data: no such folder; name it with --shared or KEYHOLE_DATA"
        return
    asked = folder / "adult" / "adult_statements.sql"
    data = folder / "adult" / "adult.data"
    if asked.exists() and data.exists():
        rows = [line.split(",") for line in data.read_text(encoding="utf-8").splitlines() if line.strip()]
        columns: dict[str, list[str | int]] = {}
        for at, name in enumerate(ADULT.split(",")):
            values = [row[at].strip() for row in rows]
            columns[name] = [int(v) for v in values] if all(v.isdigit() for v in values) else list(values)
        columns["person"] = list(range(len(rows)))
        private = ("capital_gain", "capital_loss", "income")
        yield Corpus(
            "adult statements", "duckdb", asked.read_text(encoding="utf-8"), pa.table(columns), private, ("person",)
        )
    else:
        yield "adult statements: not there"
    yield from _mimic(folder / "sql")


def _mimic(folder: Path) -> Iterator[Corpus | str]:
    asked, make = folder / "mimicsql_dev.sql", folder / "make_mimic_like.py"
    if not asked.exists() or not make.exists():
        yield "mimicsql_dev: not there"
        return
    made = Path(tempfile.mkdtemp()) / "mimic.duckdb"
    subprocess.run([sys.executable, str(make), str(asked), str(made)], check=True, capture_output=True)
    text = asked.read_text(encoding="utf-8")
    yield Corpus("mimicsql_dev", "duckdb", text, made, (), (), "DEMOGRAPHIC", MIMIC)


def covered(corpus: Corpus) -> Covered:
    """Audit a corpus as one log; tables on a grid are not searched, since that decides more and judges no more."""
    start = time.perf_counter()
    config = Config.parse(corpus.config) if corpus.config else None
    given = with_private(settings(config, data=corpus.data, private=corpus.private, id=corpus.id, table=corpus.table))
    log = as_log(corpus.log, corpus.dialect)
    opened = open_table(given, Use.AUDIT, text=compared_with_text(log.lines, given.columns.private))
    transcript = transcribe(log.lines, opened.roster, source=opened.source, now=NOW)
    evidence = gather(transcript, opened.roster, given.knowledge(), source=opened.source)
    found = Judge((*quick_rules(), interval(seconds=SECONDS))).examine(evidence, opened.roster)
    said = count_statements(found)
    first = {u.number.partition(".")[0]: cause(u.reason) for u in reversed(found.unjudged)}
    first |= {r.number.partition(".")[0]: "refused: " + cause(r.error) for r in reversed(found.refused)}
    numbers = (said.total, said.judged, said.unjudged, said.refused)
    return Covered(corpus.name, corpus.dialect, *numbers, Counter(first.values()), time.perf_counter() - start)


def cause(reason: str) -> str:
    """A reason without what is of one statement alone: places, names and constants.

    >>> cause("line 3: DATE_ADD is not among the functions that are judged (see docs/sql.md)")
    'DATE_ADD is not among the functions that are judged (see docs/sql.md)'
    """
    first = reason.splitlines()[0]
    return re.sub(r"^line \d+: ", "", first)[:150]


def table(found: list[Covered]) -> str:
    """The scoreboard as a table of Markdown."""
    lines = ["| corpus | statements | judged | not judged | refused | judged |", "|---|---|---|---|---|---|"]
    for c in found:
        share = f"{100 * c.judged / c.total:.0f} %" if c.total else "-"
        lines.append(f"| {c.name} | {c.total} | {c.judged} | {c.unjudged} | {c.refused} | {share} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Print the scoreboard."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only corpora whose name has one of these words")
    parser.add_argument("--shared", type=Path, help="folder of shared data (default: KEYHOLE_DATA)")
    parser.add_argument("--why", action="store_true", help="list the reasons, most frequent first")
    args = parser.parse_args(argv)
    folder = args.shared or (Path(os.environ["KEYHOLE_DATA"]) if "KEYHOLE_DATA" in os.environ else None)
    found = []
    for corpus in (*ours(), *shared(folder)):
        if isinstance(corpus, str):
            print(corpus, file=sys.stderr)
        elif not args.names or any(word in corpus.name for word in args.names):
            found.append(covered(corpus))
            if args.why:
                print(f"{corpus.name}: {found[-1].judged} of {found[-1].total}, {found[-1].seconds:.0f} s")
                for reason, count in found[-1].causes.most_common():
                    print(f"  {count:4} {reason}")
    print(table(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
