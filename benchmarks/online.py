"""One decision of the online auditor against DuckDB answering the same statement.

python -m benchmarks.online [--rows 400000] [--answered 1000] [--asked 300] [--extremes] [--format text|json]

A history of `answered` statements is built first. Then every further statement is run by DuckDB and judged by the
auditor, one after the other (the order alternates), warm, in one process; the ratio is of medians. A decision begins
with the SQL text and ends with the verdict: parsing and the engine's pass over the roster are inside. Bytes a record
are those of the auditor's state, measured as growth of the resident memory, for two sizes of table. Conditions that
come back are kept as bits (people ask for round numbers); `unseen` is the same decision with nothing kept. `validation`
is the check of the reading of a new text, once a text, against DuckDB running that text on the whole table beside it.
Lines that begin with MAX are the same duel on a column of the minmax family, over at most 100,000 records.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb

from benchmarks import workload as work
from keyhole.auditing.online.disclosed import People
from keyhole.auditing.online.online import OnlineAuditor, Permission
from keyhole.config import Columns, PrivateColumn
from keyhole.datasets import Roster, load_roster
from keyhole.sql import lower_statement


def resident() -> int:
    """Bytes of this process in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def fill(auditor: OnlineAuditor, texts: list[str], wanted: int) -> tuple[int, Counter[str]]:
    """Answer admitted statements until `wanted` of them count; returns how many were read."""
    said: Counter[str] = Counter()
    for read, text in enumerate(texts, 1):
        verdict = auditor.admit(text)
        said[str(verdict.verdict)] += 1
        if verdict.allowed:
            auditor.record(text)
        if said["allow"] == wanted:
            return read, said
    raise SystemExit(f"only {said['allow']} of {len(texts)} statements were admitted; {wanted} are needed")


def table(rows: int, statements: int, folder: str) -> tuple[Roster, Path, list[str]]:
    """The roster, its file, and a log without planted attacks."""
    people = work.people(rows)
    path = Path(folder) / f"staff{rows}.parquet"
    work.parquet(path, people)
    log = work.workload(people, statements, groupings=0, pairs=0)
    roster = load_roster(path, Columns(private={work.PRIVATE: PrivateColumn()}))
    return roster, path, list(dict.fromkeys(s.sql for s in log.statements))


def measure(rows: int, answered: int, asked: int) -> dict[str, Any]:
    """The history, then the duel."""
    with tempfile.TemporaryDirectory() as folder:
        small, _, few = table(max(rows // 4, 40_000), 3 * answered + asked, folder)
        warm = OnlineAuditor(small)
        fill(warm, few, 40)  # compiles
        warm = OnlineAuditor(small)
        before = resident()
        fill(warm, few, answered)
        small_bytes = (resident() - before) / small.n
        del warm
        roster, path, texts = table(rows, 3 * answered + asked, folder)
        peer = duckdb.connect()
        peer.execute(f"CREATE TABLE staff AS SELECT * FROM '{path}'")
    auditor = OnlineAuditor(roster)
    before = resident()
    start = time.perf_counter()
    read, said = fill(auditor, texts, answered)
    filling = time.perf_counter() - start
    state = (resident() - before) / rows
    attacks = work.workload(work.people(rows), 40, groupings=0, pairs=20, seed=5)
    ours: dict[str, list[float]] = {}
    theirs: list[float] = []
    parsing: list[float] = []
    every: list[float] = []
    unseen: list[float] = []
    clock = time.perf_counter
    checking: list[float] = []  # a reading is checked against the engine once a text; that is told apart
    beside: list[float] = []  # what the engine itself takes for the same text, right before
    for text in (*texts[read : read + asked], *(s.sql for s in attacks.statements)):
        statement = lower_statement(text, roster.schema)
        start = clock()
        peer.execute(text).fetchall()
        beside.append(clock() - start)
        start = clock()
        auditor._validator.reasons([statement])
        checking.append(clock() - start)
    for i, text in enumerate(texts[read : read + asked]):
        for side in (0, 1) if i % 2 else (1, 0):
            start = clock()
            if side:
                peer.execute(text).fetchall()
                theirs.append(clock() - start)
            else:
                verdict = auditor.admit(text)
                took = clock() - start
                every.append(took)
                kind = "dependent" if verdict.reason.startswith("it follows") else str(verdict.verdict)
                ours.setdefault(kind, []).append(took)
        kept, auditor._people = auditor._people, People(roster)
        start = clock()
        auditor.admit(text)
        unseen.append(clock() - start)
        auditor._people = kept
        start = clock()
        lower_statement(text, roster.schema)
        parsing.append(clock() - start)
    records, found = [], 0
    for one in attacks.statements:  # differencing pairs: the second of each must be denied
        start = clock()
        verdict = auditor.admit(one.sql)
        took = clock() - start
        if verdict.verdict is Permission.DENY:
            ours.setdefault("planted attack", []).append(took)
            found += 1
        else:
            start = clock()
            auditor.record(one.sql)
            records.append(clock() - start)
    assert found >= len(attacks.planted), f"{found} of {len(attacks.planted)} planted attacks were denied"
    ratio = statistics.median(every) / statistics.median(theirs)
    return {
        "rows": rows, "answered": answered, "judged": len(every), "denied while filling": said["deny"],
        "decision_ms": _ms(every), "duckdb_ms": _ms(theirs), "ratio": round(ratio, 2),
        "unseen_ms": _ms(unseen), "unseen_ratio": round(statistics.median(unseen) / statistics.median(theirs), 2),
        "by verdict (median ms)": {kind: _ms(times) for kind, times in sorted(ours.items())},
        "validation_ms": _ms(checking), "validation_least_ms": round(1000 * min(checking), 2),
        "validation_ratio": round(statistics.median(checking) / statistics.median(beside), 2),
        "parse_ms": _ms(parsing), "record_ms": _ms(records), "fill_seconds": round(filling, 1),
        "state_bytes_a_record": round(state), f"state_bytes_a_record at {small.n} rows": round(small_bytes),
    }  # fmt: skip


def measure_extremes(rows: int, answered: int, asked: int) -> dict[str, Any]:
    """The same duel for MAX, on a column of that family: `answered` queries with their answers, then `asked` more."""
    with tempfile.TemporaryDirectory() as folder:
        roster, path, texts = table(rows, 8 * (answered + asked), folder)
        peer = duckdb.connect()
        peer.execute(f"CREATE TABLE staff AS SELECT * FROM '{path}'")
    name = f'MAX("{work.PRIVATE}")'
    texts = list(dict.fromkeys(f"SELECT {name} FROM staff{t[t.index(' WHERE ') :]}" for t in texts if " WHERE " in t))
    auditor = OnlineAuditor(roster, families={work.PRIVATE: "minmax"})
    auditor._validator.reasons(lower_statement(t, roster.schema) for t in texts)
    read, said, clock = 0, Counter[str](), time.perf_counter
    while said["allow"] < answered and read < len(texts) - asked:
        verdict = auditor.decide(texts[read])
        said[str(verdict.verdict)] += 1
        if verdict.allowed:
            auditor.record(texts[read], peer.execute(texts[read]).fetchall()[0][0])
        read += 1
    ours, theirs = [], []
    for i, text in enumerate(texts[read : read + asked]):
        for side in (0, 1) if i % 2 else (1, 0):
            start = clock()
            if side:
                peer.execute(text).fetchall()
                theirs.append(clock() - start)
            else:
                auditor.decide(text)
                ours.append(clock() - start)
    ratio = statistics.median(ours) / statistics.median(theirs)
    return {
        "MAX rows": rows, "MAX answered": said["allow"], "MAX denied while filling": said["deny"],
        "MAX judged": len(ours), "MAX decision_ms": _ms(ours), "MAX duckdb_ms": _ms(theirs),
        "MAX ratio": round(ratio, 2),
    }  # fmt: skip


def _ms(times: list[float]) -> float:
    return round(1000 * statistics.median(times), 2) if times else 0.0


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--answered", type=int, default=1_000)
    parser.add_argument("--asked", type=int, default=300)
    parser.add_argument("--extremes", action="store_true", help="MAX alone")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    args = parser.parse_args()
    found = {} if args.extremes else measure(args.rows, args.answered, args.asked)
    found |= measure_extremes(min(args.rows, 100_000), args.answered, args.asked)
    if args.format == "json":
        json.dump(found, sys.stdout, indent=2)
        print()
        return
    for key, value in found.items():
        print(f"{key:40} {value}")


if __name__ == "__main__":
    main()
