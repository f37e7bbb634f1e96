"""A question from text to durable answer, against bare commits of SQLite in the same run.

python -m benchmarks.session [--questions 300] [--people 100000] [--many 1000000] [--entries 10000] [--format text|json]

Commits, recalled answers and fresh private answers (laplace, 128 cells) take turns in one process, on one disk. A bare
commit is one INSERT in a transaction of its own (WAL, synchronous=FULL). `recall` must reach 0.05 of its rate and
`fresh` 0.01. Then: opening a book with many entries; audited answers, recalled and fresh, over `people`; keys of `many`
people, and what one audited answer about them adds to the book.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from keyhole.auditing.online.population import person_keys
from keyhole.book import Book, Mark
from keyhole.config import Config
from keyhole.config.arguments import BudgetArguments
from keyhole.config.settings import settings
from keyhole.datasets.open import Use, open_table
from keyhole.sessions.open import AuditTerms, open_audited_session, open_private_session
from keyhole.sessions.session import Session

DEPTS = [f"d{k}" for k in range(14)]
BLOCK = 10  # questions of one kind in a row


def config(folder: Path, *, private: bool) -> Config:
    """Settings with a book in the folder; 16 x 8 cells where answers are private."""
    text = (
        f"[columns]\nid = ['name']\n[book]\npath = '{folder}/book.keyhole'\n[columns.private.pay]\nkind = 'integer'\n"
    )
    if private:
        text += f"[columns.public.dept]\nvalues = {DEPTS}\n[columns.public.age]\nmin = 0\nmax = 69\nwidth = 10\n"
        text += "[budget]\nepsilon = 1000000\n"
    else:
        text += "min = 0\n[online]\nexact_above = 1\n"
    return Config.parse(text)


def people(n: int) -> pa.Table:
    """n people in 14 departments."""
    rng = np.random.default_rng(1)
    names = pa.array(np.char.add("p", np.arange(n).astype(str)))
    dept = pa.array(np.array(DEPTS)[rng.integers(14, size=n)])
    pay = rng.integers(1000, 9000, size=n)
    return pa.table({"name": names, "dept": dept, "age": rng.integers(70, size=n), "k": np.arange(n), "pay": pay})


def counts() -> Iterator[str]:
    """Different questions, without end."""
    rng = random.Random(2)
    seen: set[str] = set()
    while True:
        some = ", ".join(f"'{d}'" for d in sorted(rng.sample(DEPTS, rng.randint(1, 13))))
        text = f"SELECT COUNT(*) FROM t WHERE dept IN ({some}) AND age < {rng.randrange(10, 70, 10)}"
        if text not in seen:
            seen.add(text)
            yield text


def bare(folder: Path) -> Callable[[], None]:
    """One INSERT, durable."""
    db = sqlite3.connect(folder / "bare.db", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")

    def commit() -> None:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO t (b) VALUES ('0123456789')")
        db.execute("COMMIT")

    return commit


def turns(kinds: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Median seconds of each kind, block by block."""
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, act in kinds.items():
            start = time.perf_counter()
            for _ in range(BLOCK):
                act()
            times[name].append((time.perf_counter() - start) / BLOCK)
    return {name: statistics.median(found) for name, found in times.items()}


def private(folder: Path, questions: int) -> dict[str, Any]:
    """Recalled and fresh answers with noise, against bare commits."""
    told = config(folder, private=True)
    given = settings(told, data=people(2_000), table="t")
    fresh = counts()
    with open_private_session(given, BudgetArguments(accuracy=0.05), told) as session:
        cells = session.policy.answering.setting.histogram.cells  # type: ignore[attr-defined]
        asked = [next(fresh) for _ in range(20)]
        for text in asked:
            session.ask(text)
        kinds = {
            "bare": bare(folder),
            "recall": _again(session, asked),
            "fresh": lambda: _answered(session, next(fresh)),
        }
        found = turns(kinds, max(1, questions // BLOCK))
        seq = session.book.state.seq
    start = time.perf_counter()
    Book.open(folder / "book.keyhole").close()
    opening = time.perf_counter() - start
    return {
        "cells": cells,
        "bare_commit_ms": _ms(found["bare"]),
        "recall_ms": _ms(found["recall"]),
        "fresh_ms": _ms(found["fresh"]),
        "recall / bare (>= 0.05)": round(found["bare"] / found["recall"], 3),
        "fresh / bare (>= 0.01)": round(found["bare"] / found["fresh"], 3),
        f"opening_seconds ({seq} entries)": round(opening, 3),
    }


def _again(session: Session[Any], texts: list[str]) -> Callable[[], None]:
    rng = random.Random(3)
    return lambda: _answered(session, rng.choice(texts))


def _answered(session: Session[Any], text: str) -> None:
    reply = session.ask(text)
    assert reply.answered, f"{text}: {reply.reason}"


def opening(folder: Path, entries: int) -> dict[str, Any]:
    """A book with many charges and releases."""
    path = folder / "many.keyhole"
    answer = {"together": False, "beta": 0.05, "how": "laplace", "numbers": [["12", "3"]], "noise": [None]}
    with Book.open(path, "t") as book, book.page():
        for k in range(entries // 2):
            at = book.append(Mark.CHARGE, {"amount": "1/100", "delta": "0", "what": "a count"}).seq
            body = {"question": f"q{k}", "answer": answer, "of": [at], "sql": "SELECT COUNT(*) FROM t"}
            book.append(Mark.RELEASE, body, room=900)
    start = time.perf_counter()
    Book.open(path).close()
    took = time.perf_counter() - start
    return {f"opening_seconds ({entries} entries)": round(took, 3)}


def audited(folder: Path, n: int, questions: int) -> dict[str, Any]:
    """Exact answers that expose nobody, over n people: decided, answered, written down."""
    told = config(folder, private=False)
    given = settings(told, data=people(n), table="t")
    start = time.perf_counter()
    session, _ = open_audited_session(given, told, AuditTerms(), "audited")
    opened = time.perf_counter() - start
    rng = random.Random(4)
    with session:
        fresh = [
            f"SELECT SUM(pay) FROM t WHERE k BETWEEN {rng.randrange(n // 2)} AND {rng.randrange(n // 2, n)}"
            for _ in range(questions)
        ]
        before = _size(folder)
        times = [_timed(session, text) for text in fresh]
        again = [_timed(session, text) for text in fresh[:20] * 3]
        between = _size(folder)
        scattered = [text for text, _ in zip(counts(), range(questions), strict=False)]
        for text in scattered:
            _timed(session, text.replace("COUNT(*)", "SUM(pay)"))
        answers = (between - before) / len(fresh), (_size(folder) - between) / len(scattered)
    return {
        f"audited_opening_seconds ({n} people)": round(opened, 2),
        f"audited_fresh_ms ({n} people)": _ms(statistics.median(times)),
        f"audited_recall_ms ({n} people)": _ms(statistics.median(again)),
        f"book_bytes_an_answer_of_a_range ({n} people)": round(answers[0]),
        f"book_bytes_an_answer_of_a_mixture ({n} people)": round(answers[1]),
    }


def _timed(session: Session[Any], text: str) -> float:
    start = time.perf_counter()
    session.ask(text)
    return time.perf_counter() - start


def _size(folder: Path) -> int:
    db = sqlite3.connect(folder / "book.keyhole")
    (pages,), (size,) = (db.execute(f"PRAGMA {what}").fetchone() for what in ("page_count", "page_size"))
    db.close()
    return int(pages) * int(size)


def keys(n: int) -> dict[str, Any]:
    """Everybody's key, from the roster."""
    roster = open_table(settings(data=people(n), table="t", id="name", private="pay"), Use.WATCH).roster
    start = time.perf_counter()
    person_keys(roster, bytes(32))
    return {f"person_keys_seconds ({n} people)": round(time.perf_counter() - start, 2)}


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    args = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for part in ("private", "audited", "many"):
            (Path(name) / part).mkdir()
        found |= private(Path(name) / "private", args.questions)
        found |= opening(Path(name) / "private", args.entries)
        found |= audited(Path(name) / "audited", args.people, 60)
        found |= keys(args.many)
        found |= audited(Path(name) / "many", args.many, 10)
    if args.format == "json":
        json.dump(found, sys.stdout, indent=2)
        print()
        return
    for key, value in found.items():
        print(f"{key:50} {value}")


if __name__ == "__main__":
    main()
