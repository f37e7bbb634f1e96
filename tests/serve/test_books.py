"""What a server owes whoever goes away, and what it owes the book: nothing is lost, nothing is paid or told twice."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path

import httpx
import psycopg
import pytest
from tests.serve.serve_world import (
    MCP_HEAD,
    NOISY,
    address_of,
    addresses_of,
    cut_request,
    cut_session,
    people,
    running,
    started,
    wait_for,
    write_call,
    write_world,
)
from tests.sessions.session_world import EXACT, WHOLE
from tests.support.effort import FULL
from tests.support.postgres import Postgres
from tests.support.postgres_book import make_book_schema

from keyhole.book import Book
from keyhole.report.book import describe_book
from keyhole.report.html.sessions import draw_spending
from keyhole.serve.dashboard.pages import Dashboard
from keyhole.serve.errors import Problem
from keyhole.serve.gate import ENDINGS, Gate, Population
from keyhole.serve.guard import Guard
from keyhole.serve.keys import KeyRing, KeyRole
from keyhole.serve.replies import AnsweredQuestion

SERIAL, KILLS, PAIRS, CLIENTS, PAID = (20, 200, 1000, 64, 100) if FULL else (20, 10, 30, 16, 40)
DOORS = ("--http", "127.0.0.1:0", "--postgres", "127.0.0.1:0")


def world(folder: Path, n: int = 400) -> Path:
    (config,) = write_world(folder, {"exact": EXACT})
    (config.parent / "staff.csv").write_text(people(n), encoding="utf-8")
    return config


def entries_of(folder: Path) -> list[tuple[str, str]]:
    """(kind, body) of each entry, without any code of ours."""
    db = sqlite3.connect(folder / "book.keyhole")
    try:
        return list(db.execute("SELECT kind, body FROM entry ORDER BY seq"))
    finally:
        db.close()


def test_whoever_goes_away_is_answered_in_the_book(tmp_path: Path) -> None:
    texts = [f"{WHOLE} WHERE level >= {k}" for k in range(SERIAL)]
    with running(tmp_path, {"exact": EXACT}) as server:
        session = server.gate.populations["staff"].session
        before = session.book.state.seq
        for text in texts[:2]:
            cut_request(server.url, server.head("ann"), json.dumps({"sql": text}))
        wait_for(lambda: len(next(iter(server.gate.populations.values())).endings) == 2 and not server.gate.flights)
        after = session.book.state.seq
        replies = [server.query(text) for text in texts[:2]]
        assert session.book.state.seq == after  # recalled: no new entry
        assert after > before
        assert [reply.json()["outcome"] for reply in replies] == ["answered"] * 2


def test_twenty_disconnects_over_each_door_lose_and_double_nothing(tmp_path: Path) -> None:
    config = world(tmp_path)
    key = KeyRing(config.parent / "keys.keyhole").add("ann", KeyRole.ANALYST, per_minute=100_000)
    head = {"authorization": f"Bearer {key}"}
    texts = [f"{WHOLE} WHERE level >= {k}" for k in range(SERIAL)]
    texts += [f"{WHOLE} WHERE level <= {k}" for k in range(SERIAL)]
    texts += [f"{WHOLE} WHERE level <> {k}" for k in range(SERIAL)]
    with started(config.parent, "-c", "keyhole.toml", *DOORS) as process:
        url, port = addresses_of(process)
        for number, text in enumerate(texts):
            if number < SERIAL:
                cut_request(url, head, json.dumps({"sql": text}))
            elif number < 2 * SERIAL:
                cut_request(url, head | MCP_HEAD, json.dumps(write_call(text)), "/mcp")
            else:
                cut_session(f"postgresql://ann:{key}@127.0.0.1:{port}/staff", text)
        wait_for(lambda: sum(kind == "answer" for kind, _ in entries_of(config.parent)) == len(texts), 120)
        entries = len(entries_of(config.parent))
        for text in texts:
            assert httpx.post(f"{url}/v1/query", json={"sql": text}, headers=head, timeout=60).status_code == 200
        assert len(entries_of(config.parent)) == entries  # each was told again for nothing
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_sigterm_ends_what_is_under_way_and_loses_nothing(tmp_path: Path) -> None:
    config = world(tmp_path)
    key = KeyRing(config.parent / "keys.keyhole").add("ann", KeyRole.ANALYST, per_minute=100_000)
    head = {"authorization": f"Bearer {key}"}
    texts = [f"{WHOLE} WHERE level >= {k}" for k in range(8)]

    def ask(url: str, text: str) -> tuple[str, int, object]:
        try:
            answer = httpx.post(f"{url}/v1/query", json={"sql": text}, headers=head, timeout=60)
        except httpx.HTTPError:
            return text, 0, None
        return text, answer.status_code, answer.json().get("entry")

    with started(config.parent, "-c", "keyhole.toml", "--http", "127.0.0.1:0") as process:
        url = address_of(process)
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(ask, url, text) for text in texts]
            wait_for(lambda: any(kind == "answer" for kind, _ in entries_of(config.parent)))
            process.send_signal(signal.SIGTERM)
            ends = [each.result() for each in asked]
        assert process.wait(60) == 0
    assert {status for _, status, _ in ends} <= {200, 503, 0}
    with started(config.parent, "-c", "keyhole.toml", "--http", "127.0.0.1:0") as process:
        url = address_of(process)
        for text, status, entry in ends:
            if status == 200:
                assert ask(url, text) == (text, 200, entry)  # the same entry: recalled


def _has(shown: dict[str, object], wanted: int) -> bool:
    return len(shown) >= wanted


def test_killed_again_and_again(tmp_path: Path) -> None:
    """kill -9 while all doors are asked: the chain is whole, and nothing was shown that is not charged."""
    (config,) = write_world(tmp_path, {"noisy": NOISY})
    ring = KeyRing(config.parent / "keys.keyhole")
    key = ring.add("ann", KeyRole.ANALYST, per_minute=100_000)
    head = {"authorization": f"Bearer {key}"}
    shown: dict[str, object] = {}

    def ask_http(url: str, port: int, text: str) -> object:
        answer = httpx.post(f"{url}/v1/query", json={"sql": text}, headers=head, timeout=60)
        return answer.json()["rows"] if answer.status_code == 200 else None

    def ask_mcp(url: str, port: int, text: str) -> object:
        answer = httpx.post(f"{url}/mcp", json=write_call(text), headers=head | MCP_HEAD, timeout=60)
        return answer.json()["result"]["structuredContent"]["rows"] if answer.status_code == 200 else None

    def ask_psycopg(url: str, port: int, text: str) -> object:
        with psycopg.connect(f"postgresql://ann:{key}@127.0.0.1:{port}/noisy", autocommit=True) as connection:
            return [list(row) for row in connection.execute(text.encode()).fetchall()]

    def ask(door: Callable[[str, int, str], object], url: str, port: int, text: str) -> None:
        try:
            rows = door(url, port, text)
        except (httpx.HTTPError, psycopg.Error):
            return
        if rows is not None:
            assert shown.setdefault(text, rows) == rows

    doors = (ask_http, ask_mcp, ask_psycopg)
    for kill in range(KILLS):
        with started(config.parent, "-c", "keyhole.toml", *DOORS) as process:
            url, port = addresses_of(process)
            with ThreadPoolExecutor(6) as pool:
                for k in range(6):
                    text = f"SELECT COUNT(*) FROM staff WHERE dept = 'a' AND pay >= {kill * 6 + k}"
                    asked = pool.submit(ask, doors[k % 3], url, port, text)
                wait_for(partial(_has, shown, len(shown) + kill % 6), 60)  # 0 to 5 of six were told
                process.kill()
                asked.result(60)
            process.wait(30)
    with Book.open(config.parent / "book.keyhole") as book:  # checks the chain and the totals
        entries = list(book.entries())
    released = {number for e in entries if e.kind == "release" for number in e.body["of"]}
    charged = {e.seq for e in entries if e.kind == "charge"}
    assert released <= charged
    assert len(shown) >= sum(kill % 6 for kill in range(KILLS))
    assert len(shown) <= sum(e.kind == "release" for e in entries)


def test_a_differencing_pair_asked_at_once_is_never_answered_whole(tmp_path: Path) -> None:
    for first in range(0, PAIRS, 30):
        numbers = range(first, min(first + 30, PAIRS))
        configs = write_world(tmp_path, {f"pair{k}": f"{EXACT}[book]\npopulation = 'pair{k}'\n" for k in numbers})
        for number, config in zip(numbers, configs, strict=True):
            rows = "".join(f"p{i},{'ab'[i % 2]},{i % 3},{i * (number + 3) % 89}\n" for i in range(12))
            (config.parent / "staff.csv").write_text(f"name,dept,level,pay\n{rows}", encoding="utf-8")
        assert asyncio.run(ask_pairs(configs, numbers)) == [[200, 403]] * len(numbers)


async def ask_pairs(configs: Sequence[Path], numbers: Sequence[int]) -> list[list[int]]:
    """How two questions end that are put through one gate at the same moment, by two analysts; in each population."""
    gate = Gate.open(configs, configs[0].parent / "keys.keyhole")
    try:
        ann, bob = (gate.keys.find(gate.keys.add(name, KeyRole.ANALYST, per_minute=1000)) for name in ("ann", "bob"))
        assert ann is not None
        assert bob is not None
        ends = []
        for number in numbers:
            other = f"{WHOLE} WHERE name <> 'p{number % 12}'"
            asked = [gate.ask(f"pair{number}", ann, WHOLE), gate.ask(f"pair{number}", bob, other)]
            found = await asyncio.gather(*asked)
            ends.append(sorted(each.row.status if isinstance(each, Problem) else 200 for each in found))
        return ends
    finally:
        gate.close()


def test_a_budget_for_so_many_answers_pays_for_exactly_those(tmp_path: Path) -> None:
    texts = [  # all inside the declared range: what is known to be nobody costs nothing
        f"SELECT COUNT(*) FROM staff WHERE pay BETWEEN {number % 50} AND {50 + number // 50}"
        for number in range(PAID + CLIENTS)
    ]
    with running(tmp_path / "price", {"noisy": NOISY}) as server:
        price = Fraction(str(server.query(texts[0], path="/v1/check").json()["cost"]))
    settings = NOISY.replace("epsilon = 60", f"epsilon = {float(price * PAID + price / 2):.9f}")
    with running(tmp_path / "crowd", {"noisy": settings}) as server:
        names = [f"analyst{k}" for k in range(CLIENTS)]
        for name in names:
            server.key(name)

        def ask(number: int) -> int:
            return server.query(texts[number], names[number % CLIENTS]).status_code

        with ThreadPoolExecutor(CLIENTS) as pool:
            ends = Counter(pool.map(ask, range(len(texts))))
        assert ends == {200: PAID, 402: CLIENTS}
        session = server.gate.populations["noisy"].session
        assert session.book.state.spent("*")[0] == price * PAID


def test_the_cost_of_an_answer_is_its_own_whatever_another_server_charged(tmp_path: Path) -> None:
    (config,) = write_world(tmp_path, {"noisy": NOISY})

    async def ask() -> list[Fraction | None]:
        gates = [Gate.open([config], tmp_path / "keys.keyhole") for _ in range(2)]
        try:
            key = gates[0].keys.find(gates[0].keys.add("ann", KeyRole.ANALYST))
            assert key is not None
            turns = [gates[0], gates[1], gates[1], gates[0]]
            texts = [f"SELECT COUNT(*) FROM staff WHERE pay >= {number}" for number in range(len(turns))]
            replies = [await gate.ask(None, key, text) for gate, text in zip(turns, texts, strict=True)]
            return [each.cost if isinstance(each, AnsweredQuestion) else None for each in replies]
        finally:
            for gate in gates:
                gate.close()

    costs = asyncio.run(ask())
    assert costs[0]
    assert costs == [costs[0]] * 4


def test_figures_are_those_of_the_book_also_after_a_restart(tmp_path: Path) -> None:
    (config,) = write_world(tmp_path, {"exact": EXACT})

    async def ask(count: int) -> Population:
        gate = Gate.open([config], tmp_path / "keys.keyhole")
        try:
            gate.keys.revoke("ann")
            key = gate.keys.find(gate.keys.add("ann", KeyRole.ANALYST))
            assert key is not None
            for _ in range(count):
                await gate.ask(None, key, WHOLE)
            found = gate.populations["staff"]
            assert "no witness" in found.describe_health()
            return found
        finally:
            gate.close()

    first = asyncio.run(ask(ENDINGS + 5))
    assert (first.count_lately(), len(first.endings)) == (ENDINGS + 5, ENDINGS)
    again = asyncio.run(ask(0))
    assert again.seen["ann"] <= first.seen["ann"]
    assert sum(again.asked_today.values()) == 1  # what is told again is no entry


def test_the_budget_is_drawn_as_the_book_has_it_whenever_somebody_looks(tmp_path: Path) -> None:
    with running(tmp_path, {"noisy": NOISY}) as server:
        (found,) = server.gate.populations.values()
        screens = Dashboard(server.gate, Guard(None, server.gate, ()))  # type: ignore[arg-type]
        assert screens.draw_budget(found, "epsilon") is None
        for number, name in enumerate(("ann", "bob", "ann")):
            assert server.query(f"SELECT COUNT(*) FROM staff WHERE pay >= {number}", name).status_code == 200
            book = describe_book(found.session.book)
            whole = draw_spending(book.spending, book.entries[0], book.entries[-1], "epsilon")
            assert len(book.spending) == number + 1
            assert screens.draw_budget(found, "epsilon") == whole


def test_a_book_in_postgresql_is_verified_and_audited(postgres: Postgres, tmp_path: Path) -> None:
    with make_book_schema(postgres, tmp_path) as place:
        book = f'[book]\npolicy = "audited"\npath = "{place.path}"\nkey = "book.key"\nwitness = "witness"\n'
        with running(tmp_path / "served", {"exact": EXACT + book}) as server:
            assert server.query(WHOLE).status_code == 200
            (found,) = server.gate.populations.values()
            audit = httpx.post(f"{server.url}/v1/audit", json={}, headers=server.head("owner"), timeout=120)
            assert (audit.status_code, audit.json()["exit_code"]) == (200, 0), audit.text
            screens = Dashboard(server.gate, Guard(None, server.gate, ()))  # type: ignore[arg-type]
            asyncio.run(screens.run_check(found))
    run = screens.checks[found.name]
    assert "nothing is missing that the witness has seen" in run.verify
    assert run.audit == "keyhole audit: nobody is exposed (exit code 0)"
    assert run.report


def test_all_populations_are_opened_or_none(tmp_path: Path) -> None:
    write_world(tmp_path, {"one": EXACT, "two": EXACT.replace("staff.csv", "gone.csv")})
    with started(tmp_path, "-c", "one/keyhole.toml", "-c", "two/keyhole.toml", "--check") as process:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 2
        assert "gone.csv" in err
        assert "everything opens" not in out
    with started(tmp_path, "-c", "one/keyhole.toml", "--check") as process:
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out.splitlines()[-1]) == (0, "everything opens; nothing was served")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--http", "0.0.0.0:0"], "can be reached from other machines"),
        (["--demo", "--http", "0.0.0.0:0"], "the demo is for this machine alone"),
        (["--http", "nonsense"], "is no address"),
        (["-c", "gone.toml"], "cannot read gone.toml"),
    ],
)
def test_what_cannot_be_served_ends_with_one_sentence(tmp_path: Path, words: list[str], said: str) -> None:
    (config,) = write_world(tmp_path, {"one": EXACT})
    with started(config.parent, *words) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said in err
    assert "Traceback" not in err
    assert "dashboard" not in out
