"""A log that comes in pieces cut anywhere, followed, committed and killed in between: in the book stands what a reading
of the whole file gives, in its order, once.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyhole.api.session import open_watch
from keyhole.book import Book, Mark
from keyhole.config.settings import settings, with_private
from keyhole.logs.importers import LogFormat
from keyhole.logs.open import open_log
from keyhole.sessions import follow as following
from keyhole.sessions.follow import Entered, Follower
from keyhole.sessions.open import AuditTerms

SETTINGS = '[source]\ndata = "t.csv"\n[columns]\nid = ["name"]\n[columns.private.pay]\n[book]\npath = "book.keyhole"\n'
ALL = "SELECT SUM(pay) FROM t"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = "".join(f"p{i},{'ab'[i % 2]},{20 + i},{100 + i * i}\n" for i in range(6))
    (tmp_path / "t.csv").write_text("name,team,age,pay\n" + rows, encoding="utf-8")
    (tmp_path / "keyhole.toml").write_text(SETTINGS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Killed(BaseException):
    """The process is gone: nothing is done any more."""


class Mortal(Follower):
    """A follower whose process may be killed while it waits or tells: then it commits nothing more."""

    dead = False

    def _commit(self, lines: following.TailedFile, *, paused: bool = False) -> None:
        if not self.dead:
            super()._commit(lines, paused=paused)


def followed(log: Path, kind: LogFormat, steps: Iterator[Callable[[], bool]], dies_at: int) -> bool:
    """One life of a follower: between two looks a step happens, that says whether it is killed then; it is killed too
    when it has told `dies_at` statements. True if all steps have happened.
    """
    over: list[bool] = []
    told: list[Entered] = []

    def die() -> None:
        follower.dead = True
        raise Killed

    def tell(entered: Entered) -> None:
        told.append(entered)
        if len(told) == dies_at:
            die()

    def wait() -> None:
        step = next(steps, None)
        if step is None:
            over.append(True)
        elif step():
            die()

    terms = AuditTerms(despite=True, explain=True)
    session, _ = open_watch(with_private(settings("keyhole.toml")), "keyhole.toml", terms)
    with session:
        follower = Mortal(session.auditing, log, tell, wait, lambda: bool(over), lambda _: None, kind)
        try:
            follower.run()
        except Killed:
            return False
    return True


def published() -> list[str]:
    with Book.rehearsal("book.keyhole") as book:
        return [e.body["sql"] for e in book.entries() if e.kind in (Mark.PUBLISHED, Mark.UNJUDGED)]


def in_chunks(rng: random.Random, log: Path, kind: LogFormat, text: str) -> None:
    """The text comes in chunks of bytes; the follower is killed now and then, and started again."""
    whole = text.encode()
    cuts = [0, *sorted(rng.randrange(1, len(whole)) for _ in range(8)), len(whole)]
    log.write_bytes(b"")

    def write(chunk: bytes) -> Callable[[], bool]:
        def step() -> bool:
            with log.open("ab") as file:
                file.write(chunk)
            return rng.random() < 0.15

        return step

    pauses: list[Callable[[], bool]] = [lambda: rng.random() < 0.1] * 2
    chunks = (whole[a:b] for a, b in itertools.pairwise(cuts))
    steps = iter([step for chunk in chunks for step in (write(chunk), *pauses[: rng.randrange(3)])])
    while not followed(log, kind, steps, rng.choice([0, 0, 1, 2, 3])):
        pass


def asked(rng: random.Random, count: int) -> list[str]:
    gap = ["", " ", "\n", "\n  "]
    names = ["x", "é", "😀", "a;b", "--", "/*"]
    return [
        f"{ALL} {rng.choice(gap)}WHERE age > {20 + i % 5}{rng.choice(gap)} AND team <> '{rng.choice(names)}{i}'"
        for i in range(count)
    ]


def script(rng: random.Random, texts: list[str]) -> str:
    """One after the other, several on one line, with comments between."""
    between = [";", "; ", ";\n", " ;\n\n", "; -- é; no\n", ";/* 😀\n;*/ ", ";BEGIN; "]
    return "".join(text + rng.choice(between) for text in texts[:-1]) + texts[-1] + ";\n"


def transcript(_rng: random.Random, texts: list[str]) -> str:
    return "".join(json.dumps({"sql": text}, ensure_ascii=False) + "\n" for text in texts)


def events(rng: random.Random, texts: list[str]) -> str:
    """Some events hold several statements, some are written over several lines."""
    found, rest = "", list(texts)
    while rest:
        size = rng.randrange(1, 4)
        query, rest = ";\n\n".join(rest[:size]), rest[size:]
        event = {"metadata": {"query": query, "queryState": "FINISHED"}, "context": {"user": "ann"}}
        found += json.dumps(event, ensure_ascii=False, indent=rng.choice([None, 1])) + "\n"
    return found


def server_log(rng: random.Random, texts: list[str]) -> str:
    rows = []
    for text in texts:
        row = ["2026-11-16 10:00:00 UTC", "ann", "hr", str(rng.randrange(3)), *[""] * 22]
        row[11], row[12], row[13] = "LOG", "00000", f"statement: {text}"
        rows.append(",".join('"' + part.replace('"', '""') + '"' for part in row) + "\n")
    return "".join(rows)


def general_log(rng: random.Random, texts: list[str]) -> str:
    """A line each: it does not say where a statement that goes on over a line ends."""
    lines = (" ".join(text.split()) for text in texts)
    return "".join(f"2026-11-16T10:00:01.000001Z\t    {rng.randrange(3)} Query\t{line}\n" for line in lines)


FORMATS: list[tuple[LogFormat, Callable[[random.Random, list[str]], str]]] = [
    (LogFormat.SQL, script),
    (LogFormat.JSONL, transcript),
    (LogFormat.TRINO, events),
    (LogFormat.POSTGRES_CSVLOG, server_log),
    (LogFormat.MYSQL_GENERAL_LOG, general_log),
]


def compare(seed: int, kind: LogFormat, write: Callable[[random.Random, list[str]], str], count: int) -> None:
    rng = random.Random(seed)
    texts = asked(rng, count)
    text = write(rng, texts)
    Path("whole.log").write_text(text, encoding="utf-8")
    whole = [line.sql for line in open_log(Path("whole.log"), kind).lines]
    assert [" ".join(sql.split()) for sql in whole] == [" ".join(sql.split()) for sql in texts]
    for old in Path().glob("*book.keyhole*"):
        old.unlink()
    in_chunks(rng, Path("came.log"), kind, text)
    assert published() == whole, f"seed {seed}"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("kind", "write"), FORMATS, ids=[kind.value for kind, _ in FORMATS])
def test_what_comes_in_pieces_is_what_the_whole_file_holds(
    kind: LogFormat, write: Callable[[random.Random, list[str]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "BATCH", 2)
    for seed in range(2 if kind is LogFormat.SQL else 1):
        compare(seed, kind, write, 6)


@pytest.mark.soak
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("kind", "write"), FORMATS, ids=[kind.value for kind, _ in FORMATS])
def test_what_comes_in_pieces_with_fresh_seeds(
    kind: LogFormat, write: Callable[[random.Random, list[str]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "BATCH", 2)
    for _ in range(30):
        compare(random.randrange(10**9), kind, write, 12)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("restarted", [False, True])
def test_a_statement_begun_on_the_line_of_another_is_not_lost(restarted: bool) -> None:
    """The first is in the book when the rest of the second comes."""
    log = Path("log.sql")
    log.write_text(f"{ALL}; {ALL}\n", encoding="utf-8")

    def rest() -> bool:
        with log.open("a", encoding="utf-8") as file:
            file.write("WHERE name = 'p3';\nSELECT AVG(pay) FROM t;\n")
        return restarted

    steps = iter([lambda: False, rest])
    while not followed(log, LogFormat.SQL, steps, 0):
        pass
    assert published() == [ALL, f"{ALL}\nWHERE name = 'p3'", "SELECT AVG(pay) FROM t"]


HEADER = """/usr/sbin/mysqld, Version: 8.0.36 (MySQL Community Server - GPL). started with:
Tcp port: 3306  Unix socket: /run/mysqld/mysqld.sock
Time                 Id Command    Argument
"""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("header", ["", HEADER], ids=["rotated", "started"])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_statement_of_a_general_log_that_goes_on_is_not_lost(restarted: bool, header: str) -> None:
    """The format does not say where a statement ends: what there was of it is in the book, and then all of it."""
    log, line = Path("general.log"), "2026-11-16T10:00:01.000001Z\t    8 Query\t"
    log.write_text(f"{header}{line}{ALL}\n", encoding="utf-8")

    def rest() -> bool:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"WHERE name = 'p3'\n{line}SELECT AVG(pay) FROM t\n")
        return restarted

    steps = iter([lambda: False, rest])
    while not followed(log, LogFormat.MYSQL_GENERAL_LOG, steps, 0):
        pass
    assert published() == [ALL, f"{ALL}\nWHERE name = 'p3'", "SELECT AVG(pay) FROM t"]
