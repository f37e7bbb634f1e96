"""A text that takes too long or too much to read is refused, and nobody else notices."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.serve_world import RunningServer, running
from tests.sessions.session_world import EXACT, WHOLE

from keyhole.serve.limits import MOST_OF_ONE, FairTurns, TooManyWaiting
from keyhole.serve.postgres_wire.statements import translate_question
from keyhole.serve.reading import TOO_MUCH, TrialReader

FACTORS = "*".join(f"(level + {k} + LENGTH(dept))" for k in range(20))
LONG = f"SELECT SUM(pay * {FACTORS}) FROM staff"  # 3^20 terms in 500 characters


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("reading"), {"exact": EXACT}) as opened:
        yield opened


@pytest.fixture(scope="module")
def trials(server: RunningServer) -> TrialReader:
    return server.gate.trials


def test_a_product_of_sums_is_refused_while_others_are_answered(server: RunningServer) -> None:
    ends: list[dict[str, object]] = []
    asking = threading.Thread(target=lambda: ends.append(server.query(LONG, "ann").json()))
    asking.start()
    others = [server.query(WHOLE, "bob").status_code for _ in range(5)]
    during = asking.is_alive()
    asking.join(120)
    assert (ends[0]["code"], ends[0]["detail"]) == ("refused", TOO_MUCH)
    assert (others, during) == ([200] * 5, True)  # the refusal took longer than five answers
    assert server.query(LONG, "ann", "/v1/check").json()["code"] == "refused"
    noted = server.get("/v1/denials").json()["denials"]
    assert [(each["sql"], each["analyst"]) for each in noted] == [(LONG, "ann")]  # a check is not noted


def test_a_process_that_ended_is_started_again(trials: TrialReader) -> None:
    for number in range(4):
        assert trials.explain("staff", f"{WHOLE} WHERE level = {number}", "ann") == ""
        processes = list(trials._idle.queue)
        for each in processes:
            if each.process is not None:
                each.process.kill()
                each.process.wait(30)
    assert trials.explain("staff", LONG, "ann") == TOO_MUCH


def test_a_text_is_tried_once(trials: TrialReader, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = f"{WHOLE} WHERE level = 77"
    assert trials.explain("staff", sql, "ann") == ""
    monkeypatch.setattr(TrialReader, "_send", lambda *_: None)
    assert trials.explain("staff", sql, "ann") == ""
    assert trials.explain("staff", f"{sql}7", "ann") == TOO_MUCH
    assert trials.explain("staff", sql, "bob") == TOO_MUCH  # that others tried it does not show


@pytest.mark.parametrize(
    ("sql", "values", "types", "width"),
    [
        ("SELECT SUM(pay) FROM staff WHERE level / 2 > $1", ["3"], [23], 1),
        ("SELECT SUM(pay) FROM staff WHERE dept = $1", ["'; x"], [25], 1),
        ("SELECT SUM(pay) FROM staff WHERE dept = $2", ["a"], [25], 1),
        ("SELECT SUM(pay), COUNT(*) FROM staff", [], [], 1),
        ("SELEC", [], [], 1),
        ("SELECT SUM(wage) FROM staff", [], [], 1),
    ],
)
def test_what_is_translated_there_is_what_would_be_translated_here(
    server: RunningServer, sql: str, values: list[str | None], types: list[int], width: int
) -> None:
    schema = server.gate.populations["staff"].schema
    there = server.gate.trials.translate("staff", sql, values, types, width, "ann")
    assert there == translate_question(sql, values, types, width, schema)
    assert (("staff", there[0], "ann") in server.gate.trials._known) is (there[1] == "")  # it was read there, too


def test_one_with_many_texts_stops_nobody() -> None:
    async def read(turns: FairTurns, who: str, done: list[str]) -> None:
        async with turns.take(who):
            await asyncio.sleep(0)
            done.append(who)

    async def crowd() -> tuple[list[str], list[object]]:
        turns, done = FairTurns(2), list[str]()
        asked = [read(turns, who, done) for who in [*["ann"] * (MOST_OF_ONE + 5), "bob"]]
        return done, list(await asyncio.gather(*asked, return_exceptions=True))

    done, ends = asyncio.run(crowd())
    assert done.index("bob") <= 4  # behind the two that were read, and at most one more in each place
    assert sum(isinstance(end, TooManyWaiting) for end in ends) == 3  # two were read, so many waited


def test_memory_has_an_end() -> None:
    program = "from keyhole.serve.reading import _limit_memory as limit; limit(); len(bytearray({} << 20))"
    ends = [subprocess.run([sys.executable, "-c", program.format(size)], capture_output=True) for size in (100, 600)]
    assert [end.returncode for end in ends] == [0, 1]
    assert b"MemoryError" in ends[1].stderr


def test_the_processes_end_with_the_server(tmp_path: Path) -> None:
    with running(tmp_path, {"exact": EXACT}) as opened:
        assert opened.query(WHOLE).status_code == 200
        started = [each.process for each in list(opened.gate.trials._idle.queue) if each.process is not None]
        assert started
    assert all(each.poll() is not None for each in started)
