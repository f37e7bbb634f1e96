"""The book as a file: append-only, chained, durable; whatever was done to it from outside is noticed."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.sessions.session_world import COUNT, NOT_ANN, WHOLE, audited, call, listed, private, raw, staff
from tests.support.effort import effort
from tests.support.postgres_book import BookPlace

import keyhole.book.book as book_module
from keyhole.book import Book, BookEntry, Mark
from keyhole.errors import BookError, ConfigError, KeyholeError

PAID = {"amount": "1/10", "delta": "0", "what": "a question"}


def filled(path: str | Path, entries: int = 4, witness: Path | None = None) -> None:
    with Book.open(path, "staff", witness=witness) as book:
        for number in range(entries):
            with book.page():
                book.append(Mark.CHARGE, PAID | {"what": f"question {number}"}, analyst="ann")


# --- what it is -------------------------------------------------------------------------------------------------------


def test_the_chain_goes_on_and_the_totals_are_what_it_adds_up_to(place: BookPlace) -> None:
    filled(place.path, 2, place.seen_by)
    filled(place.path, 2, place.seen_by)
    with place.open() as book:
        entries = list(book.entries())
        assert [e.seq for e in entries] == [1, 2, 3, 4, 5]
        assert all(e.is_whole() for e in entries)
        assert all(late.follows(early) for early, late in zip([None, *entries], entries, strict=False))
        assert {who: str(amount) for who, (amount, _) in book.state.totals.items()} == {"*": "2/5", "ann": "2/5"}
    code, out, _ = call("book", "verify", place.path)
    assert (code, "5 entries, the chain is whole and the totals add up" in out) == (0, True)


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    with audited(tmp_path) as session:
        session.ask(WHOLE)
        names = {p.name for p in tmp_path.iterdir()}
        assert {"book.keyhole", "book.keyhole.key", "book.keyhole-wal"} <= names
        assert {name: (tmp_path / name).stat().st_mode & 0o077 for name in names} == dict.fromkeys(names, 0)


def test_it_is_append_only(tmp_path: Path) -> None:
    filled(tmp_path / "book.keyhole")
    db = sqlite3.connect(tmp_path / "book.keyhole")
    for text in ("DELETE FROM entry WHERE seq = 5", "UPDATE entry SET body = '{}'"):
        with pytest.raises(sqlite3.DatabaseError, match="append-only"):
            db.execute(text)
    db.close()


def test_a_page_that_fails_leaves_nothing(place: BookPlace) -> None:
    with place.open("staff") as book:

        def half_done() -> None:
            with book.page():
                book.append(Mark.CHARGE, PAID)
                with book.page():  # part of the same page
                    book.append(Mark.CHARGE, PAID)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            half_done()
        assert (book.state.seq, book.state.totals) == (1, {})
        with book.page():
            book.append(Mark.CHARGE, PAID)
    with place.open() as book:
        assert (book.state.seq, str(book.state.spent("*")[0])) == (2, "1/10")


def test_nothing_hangs_on_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Earlier(book_module.dt.datetime):
        @classmethod
        def now(cls, tz: object = None) -> Earlier:
            return cls(1999, 12, 31, tzinfo=book_module.dt.UTC)

    filled(tmp_path / "book.keyhole", 2)
    monkeypatch.setattr(book_module.dt, "datetime", Earlier)
    filled(tmp_path / "book.keyhole", 2)
    with Book.open(tmp_path / "book.keyhole") as book:
        assert [e.at[:4] for e in book.entries()][-2:] == ["1999", "1999"]
        assert [e.seq for e in book.entries()] == [1, 2, 3, 4, 5]


# --- what was done to it ----------------------------------------------------------------------------------------------

TAMPERED = (
    "UPDATE entry SET body = replace(body, '1/10', '1/90') WHERE seq = 3",
    "UPDATE entry SET body = body || ' ' WHERE seq = 3",
    "UPDATE entry SET analyst = 'bob' WHERE seq = 3",
    "UPDATE entry SET analyst = NULL WHERE seq = 3",
    "UPDATE entry SET at = '2000-01-01T00:00:00+00:00' WHERE seq = 3",
    "UPDATE entry SET kind = 'told' WHERE seq = 3",
    "UPDATE entry SET body = CAST(body AS BLOB) WHERE seq = 3",
    "UPDATE entry SET body = CAST(x'7bff7d' AS TEXT) WHERE seq = 3",
    "UPDATE entry SET analyst = x'00' WHERE seq = 3",
    "UPDATE entry SET epoch = 'x' WHERE seq = 3",
    "UPDATE entry SET epoch = 7 WHERE seq = 3",
    "UPDATE entry SET prev = hash WHERE seq = 3",
    "DELETE FROM entry WHERE seq = 3",
    "DELETE FROM entry WHERE seq = 1",
    "UPDATE entry SET seq = 9 WHERE seq = 5",
    "UPDATE entry SET seq = -7 + seq WHERE seq IN (3, 4); UPDATE entry SET seq = -seq WHERE seq < 0",  # exchanged
    "UPDATE total SET amount = '1/10'",
    "DELETE FROM total WHERE account = 'ann'",
    "INSERT INTO total VALUES ('bob', '0', '0')",
    "INSERT INTO sealed VALUES (1, 'a run', 1, '{}', x'00')",
    "DELETE FROM entry",
    "DELETE FROM entry WHERE seq = 5",  # its total stays
)


@pytest.mark.parametrize("text", TAMPERED)
def test_whatever_is_changed_is_noticed(place: BookPlace, text: str) -> None:
    filled(place.path, witness=place.seen_by)
    if place.server is not None:
        if (
            "AS TEXT" in text
            or "AS BLOB" in text
            or "= x'00'" in text
            or "= 'x' " in text
            or text == "DELETE FROM entry"
        ):
            return  # PostgreSQL has no such text or number; and without entries there is no book, as the witness knows
        text = text.replace("x'00'", "'\\x00'")
    place.tamper(text)
    noticed = r"damaged|add up|no entry|older than what was answered"
    with pytest.raises(BookError, match=noticed):
        place.open("staff")
    with pytest.raises(BookError, match=noticed):
        Book.rehearsal(place.path)
    code, _, err = call("book", "verify", place.path)
    assert (code, "question" in err) == (2, False)  # nothing of what it says is shown


def test_an_entry_made_up_by_who_knows_the_rule_is_noticed_by_the_witness(tmp_path: Path) -> None:
    path, witness = tmp_path / "book.keyhole", tmp_path / "witness"
    filled(path, 2, witness)
    db = raw(tmp_path)
    fields = "seq, prev, hash, at, kind, epoch, analyst, body"
    rows = [BookEntry(*row) for row in db.execute(f"SELECT {fields} FROM entry ORDER BY seq")]
    cheap = BookEntry.after(rows[1], Mark.CHARGE, PAID | {"amount": "1/1000"}, at=rows[2].at, analyst="ann")
    db.execute("UPDATE entry SET hash = ?, body = ? WHERE seq = 3", (cheap.hash, cheap.text))
    db.execute("UPDATE total SET amount = '101/1000'")
    db.close()
    Book.open(path).close()  # whole in itself
    with pytest.raises(BookError, match="another one"):
        Book.open(path, witness=witness)


@given(at=st.integers(0, 10**9), value=st.integers(1, 255))
@example(at=203_812, value=128)  # SQLite names a table in bytes that are no text
@settings(max_examples=effort(25))
def test_a_changed_byte_is_noticed_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, at: int, value: int
) -> None:
    path = tmp_path_factory.mktemp("book") / "book.keyhole"
    filled(path, 2)
    with Book.open(path) as book:
        before = (list(book.entries()), book.state.totals)
    bytes_ = bytearray(path.read_bytes())
    bytes_[at % len(bytes_)] ^= value
    path.write_bytes(bytes(bytes_))
    try:
        book = Book.open(path)
    except BookError:
        return
    with book:
        assert (list(book.entries()), book.state.totals) == before  # free space, or how SQLite keeps it


def test_a_file_that_is_no_book(tmp_path: Path) -> None:
    path = tmp_path / "book.keyhole"
    path.write_text("this is not a database, " * 100)
    for call_ in (Book.open, Book.rehearsal):
        with pytest.raises(BookError, match="it is no book"):
            call_(path, "staff")
    with pytest.raises(BookError, match="cannot be begun: No such file"):
        Book.open(tmp_path / "no such folder" / "book.keyhole", "staff")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(BookError, match="no such table"):
        Book.open(tmp_path / "other.db", "staff")
    filled(path.with_name("later"))
    with sqlite3.connect(path.with_name("later")) as db:
        db.execute("UPDATE about SET value = 'keyhole book 9'")
    db.close()
    with pytest.raises(BookError, match="has the layout 'keyhole book 9'"):
        Book.open(path.with_name("later"))


# --- the witness ------------------------------------------------------------------------------------------------------


def test_a_restored_older_copy_is_refused(tmp_path: Path) -> None:
    path, old, witness = tmp_path / "book.keyhole", tmp_path / "old", tmp_path / "elsewhere" / "witness"
    witness.parent.mkdir()
    filled(path, 2, witness)
    shutil.copy(path, old)
    filled(path, 1, witness)
    assert witness.stat().st_mode & 0o077 == 0
    shutil.copy(old, path)
    with pytest.raises(BookError, match=r"older than what was answered.* has seen entry 4 and it has 3"):
        Book.open(path, "staff", witness=witness)
    with pytest.raises(BookError, match="older than what was answered"):
        Book.rehearsal(path, witness=witness)
    code, _, err = call("book", "verify", str(path), "--witness", str(witness))
    assert (code, "older than what was answered" in err) == (2, True)
    Book.open(path).close()  # in itself it is whole: only the witness knows


def test_a_missing_tail_is_noticed_even_if_the_totals_were_mended(place: BookPlace) -> None:
    filled(place.path, 3, place.witness)
    place.tamper("DELETE FROM entry WHERE seq = 4; UPDATE total SET amount = '1/5'")
    Book.rehearsal(place.path).close()  # in itself it is whole
    with pytest.raises(BookError, match="older than what was answered"):
        Book.open(place.path, witness=place.witness)


def test_a_crash_before_the_witness_wrote_is_no_harm(tmp_path: Path) -> None:
    path, witness = tmp_path / "book.keyhole", tmp_path / "witness"
    filled(path, 2, witness)
    filled(path, 1)  # committed, and the process died
    filled(path, 1, witness)
    assert witness.read_text().split()[0] == "5"


def test_a_vanished_book_is_refused_while_anything_knows_it(tmp_path: Path) -> None:
    book, key, witness = (tmp_path / name for name in ("book.keyhole", "book.keyhole.key", "witness"))
    watched = f"witness = '{witness}'"
    with audited(tmp_path, more=watched) as session:
        session.ask(WHOLE)
    kept = {p: p.read_bytes() for p in (book, key, witness)}
    for empty in (False, True):
        for knows, more in ((witness, watched), (key, ""), (None, "begun = true")):
            for path in kept:
                path.unlink(missing_ok=True)
            if knows is not None:
                knows.write_bytes(kept[knows])
            if empty:
                book.touch()
            before = listed(tmp_path)
            for dry_run in (False, True):
                with pytest.raises(BookError, match="restore"):
                    audited(tmp_path, more=more, dry_run=dry_run)
            assert listed(tmp_path) == before
    for path, content in kept.items():
        path.write_bytes(content)
    with audited(tmp_path, more=f"{watched}\nbegun = true") as session:
        assert str(session.ask(NOT_ANN).outcome) == "deny"


def test_an_empty_file_that_nobody_knows_is_one_to_begin(tmp_path: Path) -> None:
    (tmp_path / "book.keyhole").touch(mode=0o600)
    with audited(tmp_path) as session:
        assert session.book.new
    with pytest.raises(BookError, match="there is no book"):
        Book.open(tmp_path / "other")  # to be read
    assert not (tmp_path / "other").exists()


def test_a_witness_that_cannot_be_written_shows_nothing_and_a_repeat_is_free(tmp_path: Path) -> None:
    witness = tmp_path / "elsewhere" / "witness"
    witness.parent.mkdir()
    with private(tmp_path, more=f"witness = '{witness}'") as session:
        first = witness.read_text()
        witness.unlink()
        witness.mkdir()
        with pytest.raises(ConfigError, match=r"witness .* cannot be"):
            session.ask(COUNT)
        witness.rmdir()
        witness.write_text(first)
        again = session.ask(COUNT)
        assert again.noisy is not None
        assert (again.noisy.cost, "released before" in again.noisy.how) == (0, True)
        assert session.book.state.spent("*")[0] * 10 == 1
    witness.write_text("1234 not a digest\n")
    with pytest.raises(ConfigError, match="not the witness of a book"):
        private(tmp_path, more=f"witness = '{witness}'")


# --- places where nothing can be written ------------------------------------------------------------------------------


def test_a_full_disk_answers_nothing_and_spends_nothing(tmp_path: Path) -> None:
    with private(tmp_path) as session:
        pages = session.book.store.db.execute("PRAGMA page_count").fetchone()[0]
        before = session.book.state.seq
        session.book.store.db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(BookError, match=r"the disk is full.*Nothing was answered or spent"):
            session.ask(COUNT)
        assert (session.book.state.seq, session.book.state.totals) == (before, {})
        session.book.store.db.execute("PRAGMA max_page_count = 100000")
        assert session.ask(COUNT).answered
    with audited(tmp_path) as session:
        pages = session.book.store.db.execute("PRAGMA page_count").fetchone()[0]
        session.book.store.db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(BookError, match="the disk is full"):
            session.ask(WHOLE)
        session.book.store.db.execute("PRAGMA max_page_count = 100000")
        assert session.ask(NOT_ANN).answered  # the sum was never told, so this is the first
        assert str(session.ask(WHOLE).outcome) == "deny"


def test_what_an_entry_takes_does_not_depend_on_the_answer(tmp_path: Path) -> None:
    sizes = set()
    for pay in ((1, 2, 3, 4, 5), (10**9, -(10**9) + 7, 12345678, 3, 10**8)):
        folder = tmp_path / str(len(sizes) + pay[0])
        folder.mkdir()
        with audited(folder, data=staff(pay)) as session:
            session.ask(WHOLE)
        db = raw(folder)
        sizes.add(db.execute("SELECT length(CAST(body AS BLOB)) FROM entry WHERE kind = 'answer'").fetchone()[0] % 4096)
        db.close()
    assert sizes == {0}


def test_a_file_that_may_not_be_written(tmp_path: Path) -> None:
    filled(tmp_path / "book.keyhole")
    with Book.open(tmp_path / "book.keyhole") as book:
        book.store.db.execute("PRAGMA query_only = 1")

        def write() -> None:
            with book.page():
                book.append(Mark.CHARGE, PAID)

        with pytest.raises(BookError, match="may not be written: mend the rights"):
            write()
        assert book.state.seq == 5


def test_a_book_is_read_where_nothing_can_be_written_and_without_a_trace(tmp_path: Path) -> None:
    with audited(tmp_path) as session:
        session.ask(WHOLE)
    (tmp_path / "book.keyhole").chmod(0o400)
    before = listed(tmp_path)
    for words in (("show",), ("show", "--format", "json"), ("verify",), ("export",)):
        code, out, err = call("book", words[0], str(tmp_path / "book.keyhole"), *words[1:])
        assert (code, bool(out)) == (0, True), err
    assert listed(tmp_path) == before
    assert call("book", "show", str(tmp_path / "none"))[0] == 2
    assert listed(tmp_path) == before


def test_a_reader_sees_what_a_running_session_wrote(tmp_path: Path) -> None:
    with audited(tmp_path) as session:
        session.ask(WHOLE)  # in the journal, not yet in the file
        assert WHOLE in call("book", "show", str(tmp_path / "book.keyhole"))[1]
        with Book.rehearsal(tmp_path / "book.keyhole") as copy:
            assert copy.state.seq == session.book.state.seq


# --- several at once --------------------------------------------------------------------------------------------------

SPENDER = """
import sys
from pathlib import Path
from keyhole.book import Book
from keyhole.defence.budget.budget import Cap
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss
with Book.open(sys.argv[1], "staff", witness=Path(sys.argv[2])) as book:
    ledger = Ledger(book, Cap(Loss.of_epsilon(1000)))
    while True:
        ledger.spend(Loss.of_epsilon("0.5"))
        sys.stdout.write("x")
        sys.stdout.flush()
"""


def test_no_acknowledged_charge_is_lost_when_killed(place: BookPlace) -> None:
    acknowledged = 0
    for seen in (1, 30):
        words = [sys.executable, "-c", SPENDER, place.path, str(place.witness)]
        child = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.read(seen)
        child.send_signal(signal.SIGKILL)
        acknowledged += seen + len(child.stdout.read())
        child.stdout.close()
        child.wait()
        with Book.open(place.path, witness=place.witness) as book:
            charged = int(book.state.spent("*")[0] * 2)
            assert acknowledged <= charged <= acknowledged + 1  # at most one unacknowledged a kill
            assert len(book.state.losses) == charged
        acknowledged = charged


def test_processes_share_one_cap(place: BookPlace) -> None:
    Book.open(place.path, "staff", witness=place.witness).close()
    text = SPENDER.replace("1000", "10").replace("while True:", "for _ in range(15):")
    words = [sys.executable, "-c", text, place.path, str(place.witness)]
    children = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    outputs = [child.communicate() for child in children]
    assert sum(len(out) for out, _ in outputs) == 20
    assert all(b"BudgetExhausted" in err for _, err in outputs if err)
    with Book.open(place.path, witness=place.witness) as book:
        assert book.state.spent("*")[0] == 10


def test_two_open_books_queue_and_see_each_other(place: BookPlace) -> None:
    with place.open("staff") as first, place.open("staff") as second:
        assert (first.new, second.new) == (True, False)
        inside, done = threading.Event(), threading.Event()

        def late() -> None:
            inside.wait()
            with second.page():
                seen.append(second.state.seq)
            done.set()

        seen: list[int] = []
        thread = threading.Thread(target=late)
        thread.start()
        with first.page():
            inside.set()
            first.append(Mark.CHARGE, PAID)
            assert not done.wait(0.1)  # it waits for the page to end
        thread.join()
        assert seen == [2]


def test_a_book_that_is_held_for_too_long_says_so(tmp_path: Path) -> None:
    filled(tmp_path / "book.keyhole")
    with Book.open(tmp_path / "book.keyhole") as book, Book.open(tmp_path / "book.keyhole") as other, book.page():
        other.store.db.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(KeyholeError, match="another process holds it for too long"), other.page():
            pass


def test_a_statement_of_a_megabyte(tmp_path: Path) -> None:
    def long(characters: int) -> str:
        return f"{WHOLE} WHERE dept IN ('a', 'b', '{'x' * characters}')"

    with audited(tmp_path) as session:
        assert "the limit is" in session.ask(long(1_000_000)).reason
        assert session.ask(long(400_000)).answered
    with audited(tmp_path) as session:
        assert session.ask(long(400_000)).reason == "answered before"
        assert str(session.ask(NOT_ANN).outcome) == "deny"
    code, out, _ = call("book", "show", str(tmp_path / "book.keyhole"))
    assert (code, len(out) < 3000) == (0, True)
