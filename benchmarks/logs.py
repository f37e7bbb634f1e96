"""Logs as they are: what repeats cost, and what a large log costs in memory and time.

python -m benchmarks.logs [--megabytes 50] [--lines 20000] [--texts 100] [--repeats 3] [--format text|json]

`folding` is the audit of a log of so many lines that are repeats of few texts, against the audit of those texts alone,
from the file to the verdict, in one process, warm, interleaved (at most 1.5 is the aim). `streaming` writes logs of the
given size (a script of SQL, and PostgreSQL's csvlog with several analysts and some errors) into a temporary folder,
reads them in a process of its own, and gives its peak memory (below 1 GB whatever the size) and its time against
reading the file line by line as text and doing nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from keyhole.auditing.examine import examine
from keyhole.logs.fold import fold_log

ANALYSTS = ("ann", "bob", "cyd", "dan")


def people(n: int = 2_000) -> pa.Table:
    """People with a department, an age and a private pay."""
    rng = random.Random(5)
    return pa.table(
        {
            "name": [f"p{i}" for i in range(n)],
            "dept": [f"d{rng.randrange(40)}" for _ in range(n)],
            "age": [rng.randrange(18, 90) for _ in range(n)],
            "pay": [rng.randrange(1_000, 9_000) for _ in range(n)],
        }
    )


def texts(count: int) -> list[str]:
    """Different statements, as a dashboard has them."""
    found = [f"SELECT SUM(pay) FROM staff WHERE dept = 'd{i % 40}' AND age < {20 + i // 40}" for i in range(count // 2)]
    found += [f"SELECT AVG(pay), COUNT(*) FROM staff WHERE age >= {18 + i}" for i in range(count - len(found))]
    return found


def folding(lines: int, count: int, repeats: int) -> dict[str, Any]:
    """The audit of many lines against that of their texts."""
    rng, few = random.Random(7), texts(count)
    table = people()
    with tempfile.TemporaryDirectory() as folder:
        short, long = Path(folder) / "short.sql", Path(folder) / "long.sql"
        short.write_text("".join(f"{text};\n" for text in few), encoding="utf-8")
        more = few + [rng.choice(few) for _ in range(lines - len(few))]
        long.write_text("".join(f"{text};\n" for text in more), encoding="utf-8")
        laps: dict[Path, list[float]] = {short: [], long: []}
        for _ in range(repeats + 1):
            for path in (short, long):
                start = time.perf_counter()
                found = examine(fold_log(path), data=table, private="pay", id="name")
                laps[path].append(time.perf_counter() - start)
        once, many = (statistics.median(laps[path][1:]) for path in (short, long))
    return {
        "lines": lines,
        "texts": count,
        "exposed": len(found.exposed),
        "seconds": round(many, 3),
        "seconds_of_the_texts": round(once, 3),
        "ratio": round(many / once, 2),
    }


def script(rng: random.Random, few: list[str]) -> Iterator[str]:
    """Statements, one a line."""
    while True:
        yield f"{rng.choice(few)};\n"


def csvlog(rng: random.Random, few: list[str]) -> Iterator[str]:
    """Lines of PostgreSQL's csvlog; one in fifty fails."""
    at = 0
    while True:
        at += 1
        text, who, process = rng.choice(few).replace('"', '""'), rng.choice(ANALYSTS), rng.randrange(500, 530)
        when = f"2026-11-{1 + at // 500_000 % 28:02} {at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02}.000 UTC"
        start = f'{when},"{who}","hr",{process},"[local]",6afa.{process},{at},"SELECT",{when},3/{at},0,'
        end = ',"psql","client backend",,0\n'
        yield f'{start}LOG,00000,"statement: {text}",,,,,,,,{end}'
        if at % 50 == 0:
            yield f'{start}ERROR,57014,"canceling statement due to user request",,,,,,"{text}",,{end}'


def streaming(kind: str, megabytes: int) -> dict[str, Any]:
    """A log of this size, read in a process of its own."""
    rng = random.Random(3)
    lines = script(rng, texts(100)) if kind == "sql" else csvlog(rng, texts(100))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("log.sql" if kind == "sql" else "log.csv")
        size = 0
        with path.open("w", encoding="utf-8") as file:
            while size < megabytes * 1_000_000:
                size += file.write(next(lines))
        command = [sys.executable, "-m", "benchmarks.logs", "--read", str(path)]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
    return {"log": kind, "megabytes": megabytes, **json.loads(told.stdout)}


def read(path: Path) -> dict[str, Any]:
    """Plainly, and as a log: seconds and the peak of memory."""
    start = time.perf_counter()
    with path.open(encoding="utf-8") as file:
        lines = sum(1 for _ in file)
    plain = time.perf_counter() - start
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    log = fold_log(path)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "lines": lines,
        "statements": sum(line.repeats for line in log.lines),
        "distinct": len(log.lines),
        "failed": log.failed,
        "seconds": round(seconds, 1),
        "seconds_of_reading_the_file": round(plain, 2),
        "ratio": round(seconds / plain, 1),
        "megabytes_a_second": round(path.stat().st_size / 1e6 / seconds, 1),
        "peak_megabytes": round(peak / 1024),
        "peak_megabytes_before": round(before / 1024),
    }


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read is not None:
        print(json.dumps(read(args.read)))
        return
    found = {
        "folding": folding(args.lines, args.texts, args.repeats),
        "sql": streaming("sql", args.megabytes),
        "csvlog": streaming("csvlog", args.megabytes),
    }
    if args.format == "json":
        print(json.dumps(found, indent=2))
        return
    for name, part in found.items():
        print(name)
        for key, value in part.items():
            print(f"  {key:32} {value}")


if __name__ == "__main__":
    main()
