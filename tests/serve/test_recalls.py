"""A question that is new to an analyst takes the whole way, whoever asked it before: in the book, words, work, time."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

import pytest
from tests.serve.serve_world import NOISY, running
from tests.sessions.session_world import DEPT_A, EXACT, WHOLE, audited

from keyhole.serve.limits import Pace

PRICED = "SELECT COUNT(*) FROM staff WHERE dept = 'a' AND pay >= 7"


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
        session.ask(WHOLE, "eve")  # what a first question of all prepares is no question's own
        session.ask(WHOLE, "ann")
        entries = session.book.state.seq
        again = count_calls(lambda: session.ask(WHOLE, "bob"))
        assert session.book.state.seq == entries + 1
        recalled = count_calls(lambda: session.ask(WHOLE, "bob"))
        assert session.book.state.seq == entries + 1
    for step in ("audited.py:admit", "audited.py:release", "exact_answers.py:compute_exact_answer"):
        assert again[step] == 1
        assert recalled[step] == 0
    assert again["validator.py:_run_batch"] == 1  # it is run on made-up tables again
    assert recalled["validator.py:_run_batch"] == 0


def test_conditions_of_others_are_evaluated_again(tmp_path: Path) -> None:
    with audited(tmp_path) as session:
        asked = {who: count_calls(partial(session.ask, DEPT_A, who))["base.py:_ask_engine"] for who in ("ann", "bob")}
        mine = [count_calls(partial(session.ask, f"{DEPT_A} AND level < {k}", "ann")) for k in (5, 6, 7)]
    assert asked["ann"] == asked["bob"] > 0
    assert [each["base.py:_evaluate_leaf"] for each in mine] == [1, 0, 0]  # one's own are kept


@pytest.mark.parametrize("sql", [DEPT_A, "SELECT dept, SUM(pay) FROM staff GROUP BY dept"])
def test_a_row_that_follows_takes_the_same_steps_as_one_that_does_not(sql: str, tmp_path: Path) -> None:
    with audited(tmp_path) as session:
        session.ask(WHOLE, "eve")
        first, again = (count_calls(partial(session.ask, sql, who)) for who in ("ann", "bob"))
        for step in ("_new_pivot", "_combined", "_transformed", "_exposed", "__deepcopy__", "_border", "_count_in"):
            assert first[f"online.py:{step}"] == again[f"online.py:{step}"]
        assert again["online.py:_border"] == again["online.py:_new_pivot"] > 0
        assert first["epochs.py:to_json"] == again["epochs.py:to_json"] > 0
        state = session.book.state
        rows = [[row["row"] for row in session.book.entry(seq).body["told"]] for seq in state.answers]
        assert rows[1] == rows[2]  # written down like the first, and not taken in again when the book is opened
        assert sorted(state.telling) == state.answers[:2]


def test_a_number_that_others_paid_for_waits_as_long_as_one_that_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paced: list[bool] = []

    def note(_: Pace, seconds: float, *, drawn: bool) -> float:
        paced.append(drawn)
        return 0.0

    monkeypatch.setattr(Pace, "delay", note)
    with running(tmp_path, {"exact": EXACT, "noisy": NOISY}) as server:
        for name in ("ann", "bob"):
            server.query(WHOLE, name, population="exact")
        assert not paced  # exact answers are decided and computed again, and wait for nothing
        for name in ("ann", "bob", "bob"):
            server.query(PRICED, name, population="noisy")
    assert paced == [True, False]  # bob's second is told again, and is fast


def test_times_of_what_was_there_are_those_of_what_is_drawn() -> None:
    pace = Pace()
    drawn = [0.01 * k for k in range(1, 101)]
    assert not any(pace.delay(seconds, drawn=True) for seconds in drawn)
    waited = [0.001 + pace.delay(0.001, drawn=False) for _ in range(4000)]
    later = sum(a < b for a in drawn[-64:] for b in waited) + sum(a == b for a in drawn[-64:] for b in waited) / 2
    assert 0.4 <= later / (64 * len(waited)) <= 0.6
    assert pace.delay(9.0, drawn=False) == 0  # what took longer waits for nothing


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
    with running(tmp_path, {"noisy": NOISY}) as server:
        first, second, again = (server.query(PRICED, name).json() for name in ("ann", "bob", "bob"))
    assert first["cost"] == second["cost"] > 0
    assert first["rows"] == second["rows"]  # one noisy answer: drawn once
    assert again["cost"] == 0
