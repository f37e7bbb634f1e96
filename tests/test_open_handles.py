"""What a run opens, it closes, also where it fails: books, databases in memory, files. On every Python alike."""

from __future__ import annotations

import os
import sqlite3
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
from click.testing import CliRunner

from keyhole.cli.demo import CONFIG, LOG, PEOPLE, SAFE, TRANSCRIPT
from keyhole.cli.root import app
from keyhole.solve.integers.other_process import _CHILD

loading = import_module("keyhole.datasets.load")  # the package has a function of that name
COULD_NOT_RUN = 2


class Run(NamedTuple):
    """A command line, and whether it can run: what it says then is another test's business."""

    line: tuple[str, ...]
    can_run: bool = True


WHO = ("--data", "people.csv", "--id", "Name", "--private", "Blood sugar")
EXACT, NOISY, DAMAGED = ("-c", "keyhole.toml"), ("-c", "noisy.toml"), ("-c", "damaged.toml")
ALL = 'SELECT SUM("Blood sugar") FROM people'
COUNT = "SELECT COUNT(*) FROM people"
JEREMY = "Name = 'Jeremy Doe'"
RUNS = {
    "init": Run(("init", "people.csv", "--yes", "--out", "made.toml", "--force")),
    "init of several tables": Run(("init", "people.duckdb", "--yes", "--out", "made.toml", "--force")),
    "init of a table that is not there": Run(("init", "people.csv", "--yes", "--out", "x.toml", "--table", "x"), False),
    "init of a row with a cell too many": Run(("init", "uneven.csv", "--yes", "--out", "x.toml"), False),
    "audit": Run(("audit", "log.sql", *EXACT)),
    "audit with rules and advice": Run(("audit", "log.sql", *EXACT, "--rule", "N<3", "--advise")),
    "audit of a transcript": Run(("audit", "transcript.jsonl", *EXACT)),
    "audit of a book": Run(("audit", "book.keyhole", *EXACT)),
    "audit of a table": Run(("audit", "people.csv", *EXACT), False),
    "audit of half a text": Run(("audit", "utf16.sql", *EXACT), False),
    "audit without a budget of time": Run(("audit", "log.sql", *EXACT, "--group-size", "0"), False),
    "audit of data with NaN": Run(("audit", "log.sql", "--data", "nan.csv", "--id", "Name", "--private", "pay"), False),
    "tables": Run(("tables", "counts.csv", "--value", "n", "--suppressed", "x=0..3")),
    "tables of nothing": Run(("tables", "counts.csv", "--value", "nothing"), False),
    "attack": Run(("attack", "transcript.jsonl", *EXACT)),
    "attack on nobody": Run(("attack", "transcript.jsonl", *EXACT, "--target", "Name = 'Nobody'"), False),
    "plan": Run(("plan", *WHO, "--target", JEREMY)),
    "plan about nobody": Run(("plan", *WHO, "--target", "Name = 'Nobody'"), False),
    "ask": Run(("ask", *EXACT, ALL)),
    "ask about one person": Run(("ask", *EXACT, f"{ALL} WHERE {JEREMY}")),
    "ask for a price": Run(("ask", "--anyway", *NOISY, "--dry-run", COUNT)),
    "ask privately": Run(("ask", "--anyway", *NOISY, COUNT)),
    "ask for bounds that cannot be bought": Run(("ask", *EXACT, "--clip", "ZIP"), False),
    "ask with a damaged book": Run(("ask", *DAMAGED, ALL), False),
    "ask for a price with a damaged book": Run(("ask", *DAMAGED, "--dry-run", ALL), False),
    "ask in another population": Run(("ask", "-c", "others.toml", ALL), False),
    "answer": Run(("ask", "-f", "count.sql", *NOISY)),
    "answer with another unit": Run(("ask", "-f", "count.sql", "-c", "rho.toml"), False),
    "watch": Run(("ask", "--decide-only", *EXACT, "--load", "log.sql")),
    "watch with a damaged book": Run(("ask", "--decide-only", *DAMAGED), False),
    "simulate attack": Run(("simulate", "attack", "safe.sql", *EXACT, "--epsilon", "1")),
    "book show": Run(("book", "show", "book.keyhole")),
    "book show of no book": Run(("book", "show", "people.csv"), False),
    "book verify": Run(("book", "verify", "book.keyhole")),
    "book verify of a damaged one": Run(("book", "verify", "damaged.keyhole"), False),
    "book export": Run(("book", "export", "book.keyhole")),
    "book import of no ledger": Run(("book", "import", "book.keyhole", "log.sql"), False),
    "report of a book": Run(("report", "book.keyhole", "--out", "page.html")),
    "report of a verdict": Run(("report", "verdict.json", "--out", "page.html")),
    "verify": Run(("verify", "verdict.json", "--data", "people.csv")),
    "verify with other data": Run(("verify", "verdict.json", "--data", "nan.csv"), False),
}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the runs read: data, logs, settings, a book, a damaged one, a verdict."""
    folder = tmp_path_factory.mktemp("story")
    noisy = CONFIG + "\n[budget]\nepsilon = 1\n[book]\npath = 'noisy.keyhole'\n"
    texts = {
        "people.csv": PEOPLE, "nan.csv": "Name,pay\nAnn,1\nBob,NaN\nCyd,2.5\n", "uneven.csv": "a,b\n1,2\n1,2,3\n4,5\n",
        "counts.csv": "town,sex,n\nA,f,x\nA,m,x\nB,f,3\nB,m,4\nA,Total,4\nB,Total,7\n",
        "log.sql": LOG, "safe.sql": SAFE, "count.sql": COUNT, "transcript.jsonl": TRANSCRIPT,
        "keyhole.toml": CONFIG, "noisy.toml": noisy,
        "rho.toml": noisy.replace("epsilon = 1", "epsilon = 1\nunit = 'rho'"),
        "damaged.toml": f"{CONFIG}[book]\npath = 'damaged.keyhole'\n",
        "others.toml": f"{CONFIG}[book]\npopulation = 'others'\n",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "utf16.sql").write_bytes(b"\xff\xfe" + LOG.encode("utf-16-le")[:-1])
    with duckdb.connect(str(folder / "people.duckdb")) as made:
        made.execute(f"CREATE TABLE people AS FROM read_csv('{folder}/people.csv')")
        made.execute("CREATE TABLE visits AS SELECT Name, 1 AS days FROM people")
    before = Path.cwd()
    os.chdir(folder)
    try:
        for line in (("ask", *EXACT, ALL), ("ask", "--anyway", *NOISY, COUNT)):
            assert CliRunner().invoke(app, line).exit_code != COULD_NOT_RUN
        line = ("audit", "log.sql", *EXACT, "--format", "json", "--out", "verdict.json")
        assert CliRunner().invoke(app, line).exit_code == 1
    finally:
        os.chdir(before)
    (folder / "damaged.keyhole").write_bytes((folder / "book.keyhole").read_bytes())
    damaged = sqlite3.connect(folder / "damaged.keyhole")
    damaged.executescript("DROP TRIGGER entry_unchanged; UPDATE entry SET body = '{}' WHERE seq = 1")
    damaged.close()
    return folder


def open_files() -> set[str]:
    """What this process has open, by number and name."""
    listed = list(Path("/proc/self/fd").iterdir())
    return {f"{entry.name} {entry.readlink()}" for entry in listed if entry.is_symlink()}


def is_open(connection: Any) -> bool:
    """Was it not closed yet, of whichever engine it is?"""
    try:
        connection.execute("SELECT 1")
    except (duckdb.Error, sqlite3.Error):
        return False
    return True


class Opened:
    """Keeps every connection that is made from now on, so that none is closed by going."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.connections: list[tuple[str, Any]] = []
        shared = loading._without_secrets()  # the engine of all public halves lives as long as the process
        for module in (sqlite3, duckdb):
            monkeypatch.setattr(module, "connect", self.keeping(module.__name__, module.connect))
        cursor = self.keeping("cursor of the public halves", shared.cursor)
        monkeypatch.setattr(loading, "_without_secrets", lambda: type("Shared", (), {"cursor": staticmethod(cursor)}))

    def keeping(self, what: str, make: Any) -> Any:
        def connect(*args: Any, **kwargs: Any) -> Any:
            made = make(*args, **kwargs)
            place = "".join(traceback.format_stack(limit=4)[:-1])
            self.connections.append((f"{what} {args}\n{place}", made))
            return made

        return connect

    def left(self) -> list[str]:
        return [what for what, made in self.connections if is_open(made)]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted where the system lists them")
@pytest.mark.parametrize("name", RUNS)
def test_a_command_closes_what_it_opens(name: str, story: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(story)
    opened, before = Opened(monkeypatch), open_files()
    done = CliRunner().invoke(app, RUNS[name].line)
    assert done.exit_code in (0, 1, COULD_NOT_RUN, 3), done.output
    assert (done.exit_code != COULD_NOT_RUN) is RUNS[name].can_run, done.output
    assert "internal error" not in done.output
    left = opened.left()
    _CHILD.end()  # the solver's process is kept from call to call
    assert not left, "\n".join(left)
    assert open_files() - before == set()
