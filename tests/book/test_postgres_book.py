"""A book in PostgreSQL that several gateways share: who may keep it, what a lost connection leaves, who gets what."""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.laws.crowd import Errand, together, trampled
from tests.laws.session_worlds import AUDITED, BOOK, CONFIG, COUNTS, LAPLACE, WITNESS, SessionWorld
from tests.sessions.session_world import call
from tests.support.effort import effort
from tests.support.postgres import Postgres
from tests.support.postgres_book import BookPlace, make_book_schema

from keyhole.book import Book, Mark
from keyhole.book.store import refuse_network_file
from keyhole.errors import BookError, ConfigError
from keyhole.serve.gate import Gate
from keyhole.sessions.session import Session

PAID = {"amount": "1/10", "delta": "0", "what": "a question"}


@pytest.fixture
def shared(postgres: Postgres, tmp_path: Path) -> Iterator[BookPlace]:
    """A schema for a book, on the server of the tests."""
    with make_book_schema(postgres, tmp_path) as made:
        yield made


def move(world: SessionWorld, folder: Path, place: BookPlace) -> Path:
    """The files of a world; its book is in PostgreSQL if the place is."""
    world.at(folder)
    if place.server is None:
        return folder
    text = (folder / CONFIG).read_text(encoding="utf-8")
    kept = f'path = "{place.path}"\nkey = "book.key"'
    (folder / CONFIG).write_text(text.replace(f'path = "{BOOK}"', kept), encoding="utf-8")
    return folder


def charge(book: Book) -> None:
    with book.page():
        book.append(Mark.CHARGE, PAID, analyst="ann")


# --- who may keep it --------------------------------------------------------------------------------------------------


def test_the_role_of_a_gateway_changes_no_entry(shared: BookPlace) -> None:
    with shared.open("staff") as book:
        charge(book)
        for text in ("DELETE FROM entry", "UPDATE entry SET body = '{}'", "TRUNCATE entry", "DELETE FROM asked"):
            with pytest.raises(BookError, match="the role may not do that"):
                book.store.run(text)
    owner = shared.path.replace(f"keeper_{shared.schema}", "postgres") + f"&options=-csearch_path%3D{shared.schema}"
    with pytest.raises(BookError, match="this role may UPDATE, DELETE, TRUNCATE entries"):
        Book.open(owner, witness=shared.witness)


def test_a_server_that_may_lose_what_it_acknowledged_is_refused(shared: BookPlace) -> None:
    shared.tamper(f"ALTER ROLE keeper_{shared.schema} SET synchronous_commit = off")
    with pytest.raises(BookError, match="synchronous_commit is off on this server"):
        shared.open("staff")


def test_what_is_missing_is_named(shared: BookPlace, tmp_path: Path) -> None:
    with pytest.raises(BookError, match="give this gateway a file, witness ="):
        Book.open(shared.path, "staff")
    with pytest.raises(BookError, match="run what `keyhole book setup` prints"):
        Book.open(shared.path + "&options=-csearch_path%3Dpublic", "staff", witness=tmp_path / "w")
    with pytest.raises(ConfigError, match=r"PGPASSWORD or \.pgpass"):
        Book.open("postgresql://keeper:secret@localhost/books", "staff", witness=tmp_path / "w")
    with pytest.raises(BookError, match="the connection to it was lost"):
        Book.open(f"postgresql://keeper@/books?host={tmp_path}", "staff", witness=tmp_path / "w")
    folder = move(AUDITED, tmp_path / "world", shared)
    text = (folder / CONFIG).read_text(encoding="utf-8")
    (folder / CONFIG).write_text(text.replace('key = "book.key"', ""), encoding="utf-8")
    with pytest.raises(ConfigError, match="name the file with its key under"):
        AUDITED.opened(folder)


def test_a_file_on_a_network_is_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n", encoding="utf-8")
    with pytest.raises(BookError, match=r"on a network file system \(nfs4"):
        refuse_network_file(tmp_path / "book.keyhole", mounts)
    refuse_network_file(tmp_path.parent / "book.keyhole", mounts)


# --- what is lost with a connection -----------------------------------------------------------------------------------


def end_sessions(place: BookPlace) -> None:
    """The server ends the connections of the gateways."""
    assert place.server is not None
    place.server.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keeper_{place.schema}'")


def test_a_connection_that_is_lost_inside_a_page_leaves_nothing(shared: BookPlace) -> None:
    with shared.open("staff") as book:
        charge(book)
        for lost in range(3):

            def fail() -> None:
                with book.page():
                    book.append(Mark.CHARGE, PAID, analyst="ann")
                    end_sessions(shared)

            with pytest.raises(BookError, match="the connection to it was lost"):
                fail()
            assert book.state.seq == 2 + lost
            charge(book)  # over another connection
            assert book.state.seq == 3 + lost
        assert book.state.spent("ann")[0] == Fraction(4, 10)
    with shared.open() as book:
        assert book.state.seq == 5


def test_a_page_waits_no_longer_than_it_must(shared: BookPlace) -> None:
    with shared.open("staff") as book, shared.open() as other:
        other.store.run("SET lock_timeout = '50ms'")
        with book.page(), pytest.raises(BookError, match="another gateway holds it for too long"), other.page():
            pass
        book.store.run("SET idle_in_transaction_session_timeout = '50ms'")

        def dawdle() -> None:
            with book.page():
                assert shared.server is not None
                shared.server.run("SELECT pg_sleep(0.5)")
                book.append(Mark.CHARGE, PAID)

        with pytest.raises(BookError, match="the connection to it was lost"):
            dawdle()
        charge(other)  # whoever holds it without a word is passed over


def test_an_answer_is_given_again_while_somebody_else_decides(place: BookPlace, tmp_path: Path) -> None:
    """It needs no page; what is new waits, and the book that waits too long says so."""
    folder = move(AUDITED, tmp_path / "world", place)
    whole, other = AUDITED.pool[1], AUDITED.pool[3]
    with AUDITED.opened(folder) as first, AUDITED.opened(folder) as second:
        told = first.ask(whole, "ann")
        short = "SET lock_timeout = '50ms'" if place.server is not None else "PRAGMA busy_timeout = 50"
        first.book.store.run(short)
        with second.book.page():
            second.book.append(Mark.FOLLOWED, {"file": "a log"})
            again = first.ask(whole, "ann")
            assert (again.exact, again.entry, again.reason) == (told.exact, told.entry, "answered before")
            for sql, who in ((whole, "bob"), (other, "ann")):
                with pytest.raises(BookError, match="for too long"):
                    first.ask(sql, who)
        assert first.ask(whole, "ann").entry == told.entry
        assert first.book.state.seq == second.book.state.seq  # what the other wrote was looked at


def test_a_gateway_hears_what_another_wrote(shared: BookPlace, tmp_path: Path) -> None:
    """Whoever is idle takes it in before anybody asks; its own commits wake nobody."""
    folder = move(AUDITED, tmp_path / "world", shared)
    with AUDITED.opened(folder) as first, AUDITED.opened(folder) as second:
        store = second.book.store
        assert store.wait_for_others(0.1)  # it listens from now on, and has not heard what was before
        assert not store.wait_for_others(0.1)
        second.ask(AUDITED.pool[3], "bob")
        assert not store.wait_for_others(0.1)
        assert first.ask(AUDITED.pool[1], "ann").answered
        assert store.wait_for_others(30)
        assert second.book.state.seq < first.book.state.seq
        second.catch_up()
        assert second.book.state.seq == first.book.state.seq
        assert len(second.policy.auditor.past) == len(first.policy.auditor.past)


def test_a_gate_follows_the_book_while_nobody_asks_it(shared: BookPlace, tmp_path: Path) -> None:
    folder = move(AUDITED, tmp_path / "world", shared)

    async def main(other: Session[Any]) -> tuple[int, int]:
        gate = Gate.open([folder / CONFIG], folder / "keys.keyhole")
        (found,) = gate.populations.values()
        following = asyncio.create_task(gate.follow_book(found))
        try:
            before = found.session.book.state.seq
            assert other.ask(AUDITED.pool[1], "ann").answered
            async with asyncio.timeout(60):
                while found.session.book.state.seq == before:
                    await asyncio.sleep(0.02)
            return found.session.book.state.seq, other.book.state.seq
        finally:
            await gate.drain()
            await following
            gate.close()

    with AUDITED.opened(folder) as other:
        here, there = asyncio.run(main(other))
    assert here == there


# --- which copy it is -------------------------------------------------------------------------------------------------


def test_another_gateway_begins_with_a_digest_alone(shared: BookPlace, tmp_path: Path) -> None:
    with shared.open("staff") as book:
        charge(book)
    mine = tmp_path / "another"
    with pytest.raises(BookError, match="run keyhole book adopt"):
        Book.open(shared.path, "staff", witness=mine)
    code, _, err = call("book", "adopt", shared.path, "0" * 64, "--witness", str(mine))
    assert (code, "has no entry with the digest" in err, mine.exists()) == (2, True, False)
    _, out, _ = call("book", "verify", shared.path)
    digest = re.findall(r"last (\w{64})", out)[0]
    assert call("book", "adopt", shared.path, digest, "--witness", str(mine))[0] == 0
    with Book.open(shared.path, "staff", witness=mine) as second, shared.open() as first:
        charge(first)
        charge(second)
        assert second.state.seq == 4


def test_an_older_copy_is_refused_by_the_witness_of_any_gateway(shared: BookPlace, tmp_path: Path) -> None:
    kept = ("entry", "total")
    with shared.open("staff") as book:
        charge(book)
        shared.tamper("".join(f"CREATE TABLE old_{name} AS TABLE {name};" for name in kept))
        charge(book)
        last = book.state.last
        assert last is not None
        shared.tamper("".join(f"DELETE FROM {name}; INSERT INTO {name} TABLE old_{name};" for name in kept))
        with pytest.raises(BookError, match="is older than what was answered"):
            charge(book)
    with pytest.raises(BookError, match="older than what was answered"):
        shared.open()
    with pytest.raises(BookError, match="is older than the one where the digest was read"):
        Book.open(shared.path, "staff", witness=tmp_path / "another", adopt=last.hash)
    shared.tamper("DELETE FROM entry")
    with pytest.raises(BookError, match="knows a book with 3 entries"):
        shared.open("staff")


# --- who answers what -------------------------------------------------------------------------------------------------


def test_processes_that_are_killed_leave_a_whole_book(shared: BookPlace, tmp_path: Path) -> None:
    """kill -9 of gateways: the chain is whole, every answer was paid, nothing was paid twice."""
    folder = move(LAPLACE, tmp_path / "world", shared)
    LAPLACE.opened(folder).close()

    def errand(rng: random.Random) -> Errand:
        return Errand(LAPLACE.opened, folder, tuple(rng.sample(LAPLACE.pool, len(LAPLACE.pool))), LAPLACE.analysts)

    crowd = trampled(errand, processes=3, kills=effort(50), seconds=60, seed=1)
    assert crowd.told
    with LAPLACE.opened(folder) as session:
        LAPLACE.owed(session, crowd.told)
        told = {a.entry: a.receipt for a in crowd.told if a.outcome == "answered"}
        assert all(session.book.receipt(int(str(entry))) == receipt for entry, receipt in told.items())


GROUPS = 30
CLIENTS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from keyhole.errors import BudgetExhausted
from tests.laws.session_worlds import COUNTS, LAPLACE
with LAPLACE.opened(Path(sys.argv[1])) as session:
    def ask(text):
        try:
            return session.ask(text, "ann").answered
        except BudgetExhausted:
            return False
    with ThreadPoolExecutor(8) as pool:
        print(sum(pool.map(ask, COUNTS[int(sys.argv[2])::2])))
"""


def test_many_clients_of_two_gateways_get_exactly_what_the_budget_pays_for(shared: BookPlace, tmp_path: Path) -> None:
    folder = move(LAPLACE, tmp_path / "world", shared)
    text = (folder / CONFIG).read_text(encoding="utf-8")
    with LAPLACE.opened(folder) as session:
        session.ask(COUNTS[0], "bob")
        price = session.book.state.spent("*")[0]
    paid = 7
    cap = float(price * paid + price / 2)
    (folder / CONFIG).write_text(re.sub("epsilon = 8", f"epsilon = {cap}", text), encoding="utf-8")
    words = [[sys.executable, "-c", CLIENTS, str(folder), str(at)] for at in range(2)]
    children = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in words]
    answered = sum(int(child.communicate(timeout=120)[0]) for child in children)
    with LAPLACE.opened(folder) as session:
        charges = [e for e in session.book.entries() if e.kind == Mark.CHARGE]
        assert len(charges) == paid
        assert session.book.state.spent("*")[0] == price * paid
        assert paid - 1 <= answered <= paid  # the first may be one that is told again


def _lay_groups(folder: Path) -> None:
    rows = [f"p{g}_{k},{g},{g * 10 + k}" for g in range(GROUPS) for k in range(4)]
    (folder / "t.csv").write_text("\n".join(["name,team,x", *rows]) + "\n", encoding="utf-8")
    book = f'[book]\npath = "{BOOK}"\nwitness = "{WITNESS}"\n'
    columns = '[columns]\nid = ["name"]\n[columns.private.x]\ndomain = "real"\n'
    (folder / CONFIG).write_text(f'[source]\ndata = "t.csv"\ntable = "t"\n{columns}{book}', encoding="utf-8")


def test_of_a_pair_that_two_gateways_are_asked_at_once_one_is_answered(shared: BookPlace, tmp_path: Path) -> None:
    world = SessionWorld("groups", _lay_groups, AUDITED.opened, (), AUDITED.owed)
    folder = move(world, tmp_path / "world", shared)
    AUDITED.opened(folder).close()
    whole = tuple(f"SELECT SUM(x) FROM t WHERE team = {g}" for g in range(GROUPS))
    but_one = tuple(f"{text} AND name <> 'p{g}_0'" for g, text in enumerate(whole))
    crowd = together([Errand(AUDITED.opened, folder, texts, in_step=True) for texts in (whole, but_one)])
    outcome = {a.text: a.outcome for a in crowd.told}
    pairs = [sorted((outcome[one], outcome[other])) for one, other in zip(whole, but_one, strict=True)]
    assert pairs == [["answered", "deny"]] * GROUPS
