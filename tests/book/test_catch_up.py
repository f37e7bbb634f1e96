"""What other processes answered is taken in from the rows that the book keeps, not from the texts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.sessions.session_world import WHOLE, audited

from keyhole.auditing.online import online
from keyhole.book import Book
from keyhole.reading import Validator

N = 12


def people(rng: Random) -> pa.Table:
    columns = {name: [rng.randint(0, 3) for _ in range(N)] for name in ("a", "b")}
    return pa.table({"name": [f"p{at}" for at in range(N)], **columns, "pay": [rng.randint(1, 99) for _ in range(N)]})


def draw_statement(rng: Random) -> str:
    items = rng.choice(["SUM(pay)", "AVG(pay)", "SUM(pay * a)", "SUM(pay), COUNT(*)", "a, SUM(pay)"])
    where = " AND ".join(f"{rng.choice('ab')} {rng.choice(['<=', '>', '<>'])} {rng.randint(0, 3)}" for _ in range(2))
    return f"SELECT {items} FROM t WHERE {where}" + (" GROUP BY a" if items.startswith("a,") else "")


@pytest.mark.parametrize("seed", range(4))
def test_two_processes_decide_as_one(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    data, log = people(rng), [draw_statement(rng) for _ in range(25)]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with audited(tmp_path / "one", data) as alone:
        expected = [(str(r.outcome), r.reason, r.exact) for r in map(alone.ask, log)]
    with audited(tmp_path / "two", data) as one, audited(tmp_path / "two", data) as two:
        replies = [rng.choice([one, two]).ask(sql) for sql in log]
    assert [(str(r.outcome), r.reason, r.exact) for r in replies] == expected
    assert len({outcome for outcome, _, _ in expected}) > 1


def test_nothing_is_read_or_validated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise AssertionError("a text was read again")

    with audited(tmp_path) as one, audited(tmp_path) as two:
        for sql in (WHOLE, f"{WHOLE} WHERE dept = 'b'", "SELECT COUNT(*) FROM staff"):
            assert one.ask(sql).answered
        monkeypatch.setattr(Validator, "reasons", fails)
        monkeypatch.setattr(online, "lower_statement", fails)
        with two.book.page():
            two.policy.catch_up()
        monkeypatch.undo()
        assert [past.sql for past in two.policy.auditor.past] == [past.sql for past in one.policy.auditor.past]
        assert str(two.ask(f"{WHOLE} WHERE name <> 'Ann'").outcome) == "deny"


def test_a_long_book_is_opened_by_the_answers_that_told_something_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass over all entries checks the chain; behind it, answers that follow from others are not read again."""
    with audited(tmp_path) as session:
        for who in range(40):  # the same answer, given to each of them
            assert session.ask(WHOLE, f"analyst {who}").answered
    read: list[int] = []
    real = Book.entry
    monkeypatch.setattr(Book, "entry", lambda book, seq: read.append(seq) or real(book, seq))
    with audited(tmp_path) as session:
        assert len(session.book.state.answers) == 40
        assert len(session.book.state.telling) == 1
        assert len(read) < 10
        assert str(session.ask(f"{WHOLE} WHERE name <> 'Ann'").outcome) == "deny"
