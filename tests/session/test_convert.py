"""Files of earlier versions: what they say counts in the book, once, and the old copy is kept aside.

The old files are written here as the programs of then wrote them: bytes and SQL, no code of theirs.
"""

from __future__ import annotations

import io
import json
import sqlite3
import subprocess
import sys
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from session_world import (
    COUNT,
    CSV,
    DECLARED,
    DEPT_A,
    EXACT,
    NOT_ANN,
    WHOLE,
    audited,
    call,
    listed,
    private,
    staff,
    written,
)

import keyhole
from keyhole.book import Book, Mark
from keyhole.defend.budget import Cap
from keyhole.defend.ledger import Ledger
from keyhole.defend.loss import Loss
from keyhole.errors import BookError, ConfigError, KeyholeError, LogError
from keyhole.knowledge import Config
from keyhole.session.open import Watching
from keyhole.settings import settings
from keyhole.tables.fingerprint import fingerprint
from keyhole.tables.open import Table, Use, open_table
from keyhole.verbs.watch import Watch, watched

KEY = bytes(range(32))


# --- a history --------------------------------------------------------------------------------------------------------


def opened(data: object = None) -> Table:
    config = Config.parse(DECLARED)
    return open_table(settings(config, data=staff() if data is None else data, private="pay:0..", id="name"), Use.WATCH)


def line(fields: dict[str, Any], before: int = 0) -> tuple[bytes, int]:
    body = json.dumps(fields)
    crc = zlib.crc32(body.encode(), before)
    return f'{body[:-1]}, "crc": "{crc:08x}"}}\n'.encode(), crc


def history(format_: int, *past: dict[str, Any], values: bool = True, version: str | None = "1") -> bytes:
    """A history about the staff; its key is KEY."""
    header: dict[str, Any] = {"keyhole": "history", "format": format_, "fingerprint": fingerprint(opened().roster)}
    header["version"] = version
    seal = opened().seal
    assert seal is not None
    if format_ == 3:
        header["values"] = dict(seal(KEY)) if values else {}
    text, chain = line(header)
    for fields in past:
        more, chain = line(fields, chain if format_ > 1 else 0)
        text += more
    return text


def answered(number: int, sql: str, how: str = "answered", **more: object) -> dict[str, Any]:
    return {"query": number, "sql": sql, "how": how} | more


def keep(folder: Path, content: bytes) -> Path:
    path = folder / "book.keyhole"
    path.write_bytes(content)
    path.with_name("book.keyhole.key").write_bytes(KEY)
    return path


def watching(path: Path) -> Watch:
    """The history, by somebody who vouches that values did not change."""
    given = settings(Config.parse(DECLARED), data=staff(), private="pay:0..", id="name")
    return watched(given, None, Watching(path, vouched=True, explain=True, exact_above=1))[0]


@pytest.mark.parametrize("format_", [1, 2, 3])
def test_a_history_is_converted_where_it_stands_and_counts_as_before(tmp_path: Path, format_: int) -> None:
    odd = answered(2, "SELECT MAX(pay) FROM staff", "unjudged", error="not decided beforehand")
    old = history(format_, answered(1, WHOLE, answer=150), odd, answered(3, DEPT_A, "published"))
    path = keep(tmp_path, old)
    with watching(path) as session:
        said = session.ask(NOT_ANN)
        assert said.admission is not None
        assert (str(said.outcome), said.admission.number) == ("deny", "4")
        assert [step["query"] for step in said.admission.steps()] == ["1", "4"]  # numbers of then
    assert path.with_name("book.keyhole.before-book").read_bytes() == old
    with Book.open(path) as book:
        kinds = [e.kind for e in map(book.entry, book.state.answers)]
        assert (kinds, book.state.epochs) == ([Mark.ANSWER, Mark.UNJUDGED, Mark.PUBLISHED], [{"version": "1"}])
    before = listed(tmp_path)
    assert {"book.keyhole.lock"}.isdisjoint(before)
    watching(path).close()
    assert [name for name in listed(tmp_path) if "before-book" in name] == ["book.keyhole.before-book"]  # once


def test_values_that_changed_since_the_history_are_noticed(tmp_path: Path) -> None:
    keep(tmp_path, history(3, answered(1, WHOLE)))
    with pytest.raises(BookError, match="private values of 'pay' changed"):
        audited(tmp_path, staff((10, 27, 30, 40, 50)))
    with pytest.raises(BookError, match="people and public values, private"):
        audited(tmp_path, staff((10, 20, 30, 40), ("Ann", "Bob", "Cyd", "Dan")))
    audited(tmp_path).close()


def test_a_history_without_digests_needs_the_custodians_word(tmp_path: Path) -> None:
    path = keep(tmp_path, history(2, answered(1, WHOLE)))
    path.with_name("book.keyhole.key").unlink()
    written(
        tmp_path,
        {
            "staff.csv": CSV,
            "keyhole.toml": f"{EXACT}[book]\npath='book.keyhole'",
        },
    )
    config = ("-c", str(tmp_path / "keyhole.toml"))
    code, _, err = call("watch", *config, stdin=NOT_ANN)
    assert (code, "--same-values" in err) == (2, True)
    code, out, _ = call("watch", *config, "--same-values", stdin=NOT_ANN)
    assert (code, out[:7]) == (3, "Q2 deny")
    assert call("watch", *config, stdin=NOT_ANN)[0] == 3  # said once


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda lines: [lines[0], *lines[2:]], "line 2 is damaged, or one before it is missing"),
        (lambda lines: [lines[0], lines[2], lines[1], lines[3]], "is damaged"),
        (lambda lines: [lines[0], lines[1].replace(b"SUM", b"MAX"), *lines[2:]], "is damaged"),
        (lambda lines: [lines[0].replace(b'"1"', b'"2"'), *lines[1:]], "first line is damaged"),
    ],
)
def test_a_damaged_history_is_not_believed(tmp_path: Path, damage: Any, why: str) -> None:
    whole = history(3, answered(1, WHOLE), answered(2, DEPT_A), answered(3, DEPT_A)).splitlines(keepends=True)
    path = keep(tmp_path, b"".join(damage(whole)))
    before = listed(tmp_path)
    for dry_run in (True, False):
        with pytest.raises(LogError, match=why):
            audited(tmp_path, dry_run=dry_run)
    assert listed(tmp_path) == before
    keep(tmp_path, b"".join(whole)[:-5])  # a line cut short by a crash was never acknowledged
    with audited(tmp_path) as session:
        assert len(session.book.state.answers) == 2
    assert path.with_name("book.keyhole.before-book").exists()


def test_a_history_of_a_later_version_is_refused(tmp_path: Path) -> None:
    keep(tmp_path, line({"keyhole": "history", "format": 4, "fingerprint": "f", "version": None})[0])
    with pytest.raises(LogError, match="format 4"):
        audited(tmp_path)


def test_a_statement_that_can_no_longer_be_read_is_not_forgotten(tmp_path: Path) -> None:
    keep(tmp_path, history(3, answered(1, "SELECT MODE(pay) FROM staff")))
    with pytest.raises(LogError, match="statement 1 counts, but can no longer be read"):
        audited(tmp_path)


def test_a_history_in_use_is_not_converted(tmp_path: Path) -> None:
    import fcntl

    path = keep(tmp_path, history(3, answered(1, WHOLE)))
    with path.open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BookError, match="is in use"):
            audited(tmp_path)
    audited(tmp_path).close()


# --- a ledger ---------------------------------------------------------------------------------------------------------

TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE totals (account TEXT PRIMARY KEY, amount TEXT NOT NULL, delta TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE charges (
  number INTEGER PRIMARY KEY, at TEXT NOT NULL, version TEXT NOT NULL, analyst TEXT,
  amount TEXT NOT NULL, delta TEXT NOT NULL, what TEXT NOT NULL);
CREATE TABLE contents (version TEXT PRIMARY KEY, digest TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE releases (
  version TEXT, domain TEXT, question TEXT, answer TEXT NOT NULL, PRIMARY KEY (version, domain, question));
CREATE TABLE runs (
  version TEXT, domain TEXT, name TEXT, plan TEXT NOT NULL, fired INTEGER NOT NULL, asked INTEGER NOT NULL,
  open INTEGER NOT NULL, state BLOB NOT NULL, generation INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (version, domain, name));
INSERT INTO about VALUES ('layout', '1'), ('unit', 'epsilon'), ('neighbours', 'replace-one');
"""


def ledger(path: Path, *, digest: str | None = None, version: str = "1", domain: str = "d") -> None:
    """Two charges (2/5 in all, 3/10 of them ann's), one release and one prepaid run in use."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.executescript(TABLES)
    db.execute("INSERT INTO totals VALUES ('*', '2/5', '0'), ('ann', '3/10', '0')")
    for number, (who, amount) in enumerate((("ann", "3/10"), (None, "1/10")), 1):
        at = "2026-01-01T00:00:00+00:00"
        db.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?, '0', 'q')", (number, at, version, who, amount))
    if digest is not None:
        db.execute("INSERT INTO contents VALUES (?, ?)", (version, digest))
    kept = {"beta": 0.05, "how": "discrete Laplace", "numbers": [["3", "30"]]}
    db.execute("INSERT INTO releases VALUES (?, ?, 'q', ?)", (version, domain, json.dumps(kept)))
    blob = io.BytesIO()
    np.save(blob, np.arange(3.0), allow_pickle=False)
    row = (version, domain, "a run", json.dumps({"firings": 9}), 2, 5, 1, blob.getvalue())
    db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, 4)", row)
    db.close()


def test_a_ledger_is_converted_where_it_stands_and_what_was_spent_stays_spent(tmp_path: Path) -> None:
    path = tmp_path / "book.keyhole"
    source = open_table(settings(Config.parse(DECLARED), data=staff(), id="name"), Use.ANSWER).whole
    ledger(path, digest=source.digest(KEY))
    path.with_name("book.keyhole.key").write_bytes(KEY)
    with pytest.raises(BookError, match="the whole table changed"):
        private(tmp_path, staff((10, 27, 30, 40, 50)))
    with private(tmp_path) as session:
        reply = session.ask(COUNT)
        assert reply.noisy is not None
        assert (reply.noisy.cost, reply.noisy.left) == (Fraction(1, 10), Fraction(1, 2))
    old = sqlite3.connect(path.with_name("book.keyhole.before-book"))
    assert old.execute("SELECT count(*) FROM charges").fetchone() == (2,)
    old.close()
    with Book.open(path) as book:
        assert [str(book.state.spent(who)[0]) for who in ("*", "ann")] == ["1/2", "3/10"]
        kept = Ledger(book, Cap(Loss.of_epsilon(1)), domain="d")
        assert [k.answer["numbers"] for k in kept.recall("q")] == [[["3", "30"]]]
        ((name, run),) = kept.runs("a run")
        assert (run.fired, run.asked, run.open, run.level, run.plan) == (2, 5, True, None, {"firings": 9})
        assert kept.load_state(name).tolist() == [0.0, 1.0, 2.0]
        assert not list(Ledger(book, Cap(Loss.of_epsilon(1)), domain="other").recall("q"))
        capped = Ledger(book, Cap.declared(Loss.of_epsilon(1), {"bob": 1}), domain="d")
        assert not list(capped.recall("q", "bob"))  # nobody can say what it would cost him


def test_a_ledger_that_is_open_elsewhere_is_not_converted(tmp_path: Path) -> None:
    path = tmp_path / "book.keyhole"
    ledger(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT * FROM charges").fetchall()
    with pytest.raises(BookError, match="in use"):
        private(tmp_path)
    other.close()
    private(tmp_path).close()


def test_totals_that_no_charge_explains_are_spent_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "book.keyhole"
    ledger(path)
    db = sqlite3.connect(path)
    db.execute("DELETE FROM charges WHERE number = 1")
    db.execute("UPDATE totals SET delta = '1/1000' WHERE account = '*'")
    db.commit()
    db.close()
    with private(tmp_path, budget="epsilon = 1\ndelta = 0.01") as session:
        state = session.book.state
        assert [str(part) for part in state.spent("*")] == ["2/5", "1/1000"]
        assert str(state.spent("ann")[0]) == "3/10"


def test_another_unit_than_the_ledgers_is_refused(tmp_path: Path) -> None:
    ledger(tmp_path / "book.keyhole")
    with pytest.raises(KeyholeError, match="counts another unit"):
        private(tmp_path, budget="epsilon = 1\nunit = 'rho'")
    private(tmp_path).close()


def test_a_dry_run_of_an_older_file_writes_nothing_and_knows_what_was_spent(tmp_path: Path) -> None:
    ledger(tmp_path / "book.keyhole")
    before = listed(tmp_path)
    with private(tmp_path, dry_run=True) as session:
        assert session.book.state.spent("*")[0] == Fraction(2, 5)
    assert listed(tmp_path) == before
    (tmp_path / "h").mkdir()
    keep(tmp_path / "h", history(3, answered(1, WHOLE)))
    before = listed(tmp_path)
    with audited(tmp_path / "h", dry_run=True) as session:
        assert str(session.ask(NOT_ANN).outcome) == "deny"
    with pytest.raises(BookError, match="'pay' changed"):
        audited(tmp_path / "h", staff((10, 27, 30, 40, 50)), dry_run=True)
    assert listed(tmp_path) == before


# --- both -------------------------------------------------------------------------------------------------------------


def test_a_history_and_a_ledger_become_one_book(tmp_path: Path) -> None:
    """The history where it stands, the ledger taken into it; then both doors go on, and nothing is forgotten."""
    path, old = keep(tmp_path, history(3, answered(1, WHOLE))), tmp_path / "budget.keyhole"
    ledger(old)
    budget, both = "epsilon = 1", f"[online]\nhistory = '{path}'\n[budget]\nledger = '{old}'\nepsilon = 1"
    with pytest.raises(ConfigError, match=r"one population has one book.*keyhole book import"):
        keyhole.watch(staff(), private="pay:0..", id="name", exact_above=1, config=Config.parse(both))
    audited(tmp_path).close()
    code, out, err = call("book", "import", str(path), str(old))
    assert (code, "put the old file away" in out) == (0, True), err
    code, _, err = call("book", "import", str(path), str(old))
    assert (code, "before: what it says counts already" in err) == (2, True)
    for _ in range(2):
        with private(tmp_path, budget=budget) as session:
            assert session.ask(COUNT).answered
            assert session.book.state.spent("*")[0] == Fraction(1, 2)
        with audited(tmp_path) as session:
            assert str(session.ask(NOT_ANN).outcome) == "deny"
            assert [e["version"] for e in session.book.state.epochs] == ["1"]


def test_a_ledger_of_other_versions_leaves_the_books_epochs_alone(tmp_path: Path) -> None:
    for version in ("1", "2"):
        with audited(tmp_path, version=version) as session:
            session.ask(WHOLE)
    for at, version in enumerate(("1", "2", "3", "")):
        old = tmp_path / f"old{at}"
        ledger(old, version=version)
        assert call("book", "import", str(tmp_path / "book.keyhole"), str(old))[0] == 0
    with audited(tmp_path, version="2") as session:
        assert [e["version"] for e in session.book.state.epochs] == ["1", "2"]
        assert session.book.state.spent("*")[0] == 4 * Fraction(2, 5)
        kept = Ledger(session.book, Cap(Loss.of_epsilon(9)), domain="d")
        assert len(list(kept.recall("q"))) == 1  # of version 2
    for what in ("staff.csv", "book.keyhole"):
        (tmp_path / "staff.csv").write_text(CSV)
        code, _, err = call("book", "import", str(tmp_path / "book.keyhole"), str(tmp_path / what))
        assert (code, "no history or ledger" in err) == (2, True)


RUSH = """
import sys
from pathlib import Path
from keyhole.book import Book
from keyhole.book.convert import converted
from keyhole.defend.budget import Cap
from keyhole.defend.ledger import Ledger
from keyhole.defend.loss import Loss
path = Path(sys.argv[1])
sys.stdin.read()
for _ in range(5):
    converted(path, "staff")
    with Book.open(path, "staff", begun=True) as book:
        Ledger(book, Cap(Loss.of_epsilon(1000))).spend(Loss.of_epsilon(1))
"""


def test_several_processes_convert_once_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "book.keyhole"
    ledger(path)
    children = [
        subprocess.Popen([sys.executable, "-c", RUSH, str(path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    said = [child.communicate()[1] for child in children]
    assert said == [b""] * 3
    with Book.open(path) as book:
        assert book.state.spent("*")[0] == Fraction(2, 5) + 15
    assert sorted(p.name for p in tmp_path.iterdir()) == ["book.keyhole", "book.keyhole.before-book"]
