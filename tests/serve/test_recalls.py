"""A question that is new to an analyst takes the whole way, whoever asked it before: in the book, in words, in work."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from tests.serve.serve_world import NOISY, running
from tests.sessions.session_world import EXACT, WHOLE, audited


def count_calls(work: Callable[[], object]) -> Counter[str]:
    """How often each function of ours is called."""
    calls = Counter[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "keyhole" in frame.f_code.co_filename:
            calls[f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def test_somebody_elses_question_is_decided_computed_and_written_again(tmp_path: Path) -> None:
    with audited(tmp_path) as session:
        session.ask(WHOLE, "ann")
        entries = session.book.state.seq
        again = count_calls(lambda: session.ask(WHOLE, "bob"))
        assert session.book.state.seq == entries + 1
        recalled = count_calls(lambda: session.ask(WHOLE, "bob"))
        assert session.book.state.seq == entries + 1
    for step in ("audited.py:admit", "audited.py:release", "exact_answers.py:compute_exact_answer"):
        assert again[step] == 1
        assert recalled[step] == 0


@pytest.fixture
def replies(tmp_path: Path) -> Iterator[tuple[dict[str, object], dict[str, object]]]:
    with running(tmp_path, {"exact": EXACT}) as server:
        first, second = (server.query(WHOLE, name) for name in ("ann", "bob"))
        yield first.json(), second.json()


def test_the_words_are_the_same(replies: tuple[dict[str, object], dict[str, object]]) -> None:
    first, second = replies
    assert first.keys() == second.keys()
    assert {k: v for k, v in first.items() if k not in ("entry", "receipt")} == {
        k: v for k, v in second.items() if k not in ("entry", "receipt")
    }
    assert first["entry"] != second["entry"]


def test_the_price_is_the_same(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM staff WHERE dept = 'a' AND pay >= 7"
    with running(tmp_path, {"noisy": NOISY}) as server:
        first, second, again = (server.query(sql, name).json() for name in ("ann", "bob", "bob"))
    assert first["cost"] == second["cost"] > 0
    assert first["rows"] == second["rows"]  # one noisy answer: drawn once
    assert again["cost"] == 0
