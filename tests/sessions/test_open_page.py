"""What happens while a page of the book is open: others wait for it, so a statement is read before."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from session_world import COUNT, DEPT_A, NOT_ANN, PAY, WHOLE, audited, staff

import keyhole
from keyhole.book import Book
from keyhole.engines.duckdb.probe import DuckDBProbe
from keyhole.reading import Validator
from keyhole.sessions.session import Session

LOG = (WHOLE, DEPT_A, NOT_ANN, COUNT, WHOLE, "SELECT MEDIAN(pay) FROM staff", "nonsense", f"{WHOLE} WHERE level > 0")


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How often a made-up table was used or a reading validated: on an open page (True), and on none."""
    depth, counts = [0], Counter[bool]()
    begin, commit, back = Book._begin_transaction, Book._commit, Book._roll_back

    def begins(self: Book) -> None:
        begin(self)
        depth[0] += 1

    def ends(self: Book, how: Any) -> None:
        depth[0] -= 1
        how(self)

    def counted(kind: type, name: str) -> None:
        real = getattr(kind, name)

        def counts_it(self: Any, *args: Any, **kwargs: Any) -> Any:
            counts[depth[0] > 0] += 1
            return real(self, *args, **kwargs)

        monkeypatch.setattr(kind, name, counts_it)

    monkeypatch.setattr(Book, "_begin_transaction", begins)
    monkeypatch.setattr(Book, "_commit", lambda self: ends(self, commit))
    monkeypatch.setattr(Book, "_roll_back", lambda self: ends(self, back))
    for name in ("sample", "place", "fill", "run", "truths", "figures", "evaluate_rows"):
        counted(DuckDBProbe, name)
    counted(Validator, "reasons")
    return counts


@pytest.mark.parametrize("policy", ["audited", "monitored"])
def test_no_statement_is_validated_while_a_page_is_open(tmp_path: Path, probes: Counter[bool], policy: str) -> None:
    with audited(tmp_path, more=f"policy = '{policy}'") as session:
        probes.clear()
        assert {str(session.ask(sql).outcome) for sql in LOG} >= {"answered", "refused"}
    assert probes[False]
    assert not probes[True]


def test_nor_by_deciding_without_answering(probes: Counter[bool]) -> None:
    with keyhole.watch(staff(), private="pay:..10000000000", id="name", exact_above=1) as session:
        probes.clear()
        assert {str(session.ask(sql).outcome) for sql in LOG} == {"allow", "deny", "refused"}
        session.admit(f"{WHOLE} WHERE level < 1")
        session.record(f"{WHOLE} WHERE level < 1")
    assert probes[False]
    assert not probes[True]


def test_threads_read_and_decide_at_the_same_time(tmp_path: Path) -> None:
    """Each thread asks other questions of one session; each is answered as one after the other would be."""
    log = [f"SELECT SUM(pay), COUNT(*) FROM staff WHERE level >= {-at} AND dept <> 'x{at}'" for at in range(40)]
    replies: dict[str, Any] = {}

    def asks(session: Session[Any], texts: list[str]) -> None:
        for sql in texts:
            replies[sql] = session.ask(sql).exact

    with audited(tmp_path) as session:
        threads = [threading.Thread(target=asks, args=(session, log[at::4])) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(session.book.state.answers) == len(log)
    assert [replies[sql] for sql in log] == [(({}, (sum(PAY), len(PAY))),)] * len(log)
