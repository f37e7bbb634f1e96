"""One book, twenty processes, two hundred kill -9: nothing acknowledged is lost, nothing unpaid is given."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest
from tests.laws.crowd import Crowd, Errand, trampled
from tests.laws.session_worlds import AUDITED, BOOK, LAPLACE, WITNESS, WORLDS, SessionWorld
from tests.laws.sessions import settles

from keyhole.book import Book
from keyhole.errors import BookError

LENGTH = 400  # questions that a process asks, if it lives


def _trampled(world: SessionWorld, folder: Path, processes: int, kills: int, seconds: float, seed: int) -> Crowd:
    def make(rng: random.Random) -> Errand:
        return Errand(world.opened, folder, tuple(rng.choices(world.pool, k=LENGTH)), world.analysts)

    return trampled(make, processes=processes, kills=kills, seconds=seconds, seed=seed)


def _checked(world: SessionWorld, folder: Path, crowd: Crowd) -> None:
    """What the law says, and the file itself read without any code of ours."""
    assert not crowd.failed, crowd.failed
    with world.opened(folder) as session:
        settles(world, folder, crowd.told, session)
    rows, totals = _raw(folder / BOOK)
    marks = {seq: mark for seq, mark, *_ in rows}
    for each in crowd.told:
        assert each.entry is None or marks[each.entry] == each.receipt
    paid = sum((Fraction(json.loads(body)["amount"]) for _, _, kind, body in rows if kind == "charge"), Fraction(0))
    assert Fraction(totals.get("*", "0")) == paid
    assert sum(each.fresh for each in crowd.told) <= sum(kind in ("release", "answer") for _, _, kind, _ in rows)


def _raw(path: Path) -> tuple[list[tuple[int, str, str, str]], dict[str, str]]:
    """(number, digest, kind, body) of each entry, the chain checked here; and the totals."""
    db = sqlite3.connect(path)
    try:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found, before = [], (0, "0" * 64)
        columns = "seq, prev, hash, kind, epoch, at, analyst, body"
        for seq, prev, mark, kind, *rest, body in db.execute(f"SELECT {columns} FROM entry ORDER BY seq"):
            assert (seq, prev) == (before[0] + 1, before[1]), f"the chain is broken at {seq}"
            parts = json.dumps([prev, seq, kind, *rest, body]).encode()
            assert hashlib.sha256(parts).hexdigest() == mark
            found.append((seq, mark, kind, body))
            before = (seq, mark)
        return found, dict(db.execute("SELECT account, amount FROM total"))
    finally:
        db.close()


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_a_few_kills(world: SessionWorld, tmp_path: Path) -> None:
    folder = world.at(tmp_path / "world")
    crowd = _trampled(world, folder, processes=3, kills=6, seconds=60, seed=1)
    assert crowd.kills == 6
    assert crowd.told
    _checked(world, folder, crowd)


@pytest.mark.soak
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_twenty_processes_and_two_hundred_kills(world: SessionWorld, tmp_path: Path) -> None:
    folder = world.at(tmp_path / "world")
    copy = tmp_path / "older.keyhole"
    first = _trampled(world, folder, processes=20, kills=20, seconds=60, seed=random.randrange(10**9))
    with Book.open(folder / BOOK) as book:
        book.store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(folder / BOOK, copy)
    crowd = _trampled(world, folder, processes=20, kills=180, seconds=400, seed=random.randrange(10**9))
    assert crowd.kills == 180
    assert crowd.told, "nobody was told anything: the kills came too fast"
    crowd.told = [*first.told, *crowd.told]
    _checked(world, folder, crowd)
    for rest in folder.glob(f"{BOOK}-*"):
        rest.unlink()
    shutil.copy(copy, folder / BOOK)
    with pytest.raises(BookError, match="older than what was answered"):
        Book.open(folder / BOOK, witness=folder / WITNESS)


def test_an_older_copy_is_refused_where_there_is_a_witness(tmp_path: Path) -> None:
    folder, copy = AUDITED.at(tmp_path / "world"), tmp_path / "older.keyhole"
    for text in AUDITED.pool[:8]:
        with AUDITED.opened(folder) as session:
            session.ask(text)
        if not copy.exists():
            shutil.copy(folder / BOOK, copy)
    shutil.copy(copy, folder / BOOK)
    with pytest.raises(BookError, match="older than what was answered"):
        AUDITED.opened(folder)


def test_a_book_that_is_replaced_while_it_is_open(tmp_path: Path) -> None:
    """Another file has its name: it is noticed before the next answer, and the older copy is not gone on with."""
    folder, copy = AUDITED.at(tmp_path / "world"), tmp_path / "older.keyhole"
    with AUDITED.opened(folder) as session:
        session.ask(AUDITED.pool[1])
    shutil.copy(folder / BOOK, copy)
    with AUDITED.opened(folder) as session:
        session.ask(AUDITED.pool[3])
        session.book.store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        copy.rename(folder / BOOK)
        with pytest.raises(BookError, match="replaced while it was open"):
            session.ask(AUDITED.pool[5])
    with pytest.raises(BookError, match="older than what was answered"):
        AUDITED.opened(folder)


def test_a_failed_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """The commit fails: nothing is told, and the same session goes on from what is on disk."""
    folder = LAPLACE.at(tmp_path / "world")
    with LAPLACE.opened(folder) as session:
        last = session.ask(LAPLACE.pool[0], "ann").entry
        (pages,) = session.book.store.db.execute("PRAGMA page_count").fetchone()
        session.book.store.db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(BookError, match="disk is full"):
            session.ask_all(LAPLACE.pool[1:], "ann")
        told = {e.seq for e in session.book.entries() if e.kind == "release"}
        assert session.book.state.seq == max(told) >= (last or 0)
        session.book.store.db.execute("PRAGMA max_page_count = 100000")
        assert session.ask(LAPLACE.pool[-1], "ann").answered
        settles(LAPLACE, folder, [], session)
