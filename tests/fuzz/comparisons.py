"""Yes-or-no questions against every small table: `python -m tests.fuzz.comparisons --first SEED --count N`.

Rosters with and without data, of DOUBLE, INTEGER and DECIMAL columns on small grids, some with a step that no binary
fraction is. Whether a table gives an answer is asked of the engine, table by table, since next to a threshold floating
point decides. What is claimed must hold in every table with the same answers; exit 0 means that nobody is fixed; a
verdict that is complete misses nobody; and the independent checker replays every proof that it can.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tests.fuzz.engine_tables import agrees
from tests.fuzz.soak import run

from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import examine
from keyhole.checker.replay import Outcome, replay
from keyhole.config import Config
from keyhole.report.documents.json_text import dumps
from keyhole.report.verdict import Verdict

GRIDS = (
    ("0", "1", "1"),
    ("0", "3", "1"),
    ("-2", "1", "1"),
    ("0", "1", "0.5"),
    ("0", "0.3", "0.1"),
    ("-0.2", "0.2", "0.1"),
)
KINDS = {"double": "DOUBLE", "integer": "INTEGER", "decimal": "DECIMAL(9,2)"}
ROUNDED = (
    "FLOOR({})",
    "CEIL({})",
    "TRUNC({})",
    "ROUND({})",
    "ROUND({}, 1)",
    "ROUND({}, -1)",
    "CAST({} AS DECIMAL(12, 1))",
)
OPERATORS = (">", ">=", "<", "<=", ">", "<", "=", "<>")


@dataclass(frozen=True)
class Roster:
    """People with a group and a public weight, and the grid of their private column."""

    k: list[int]
    w: list[int]
    x: list[Fraction]
    kind: str
    grid: tuple[str, str, str]
    known: bool  # are the private values at hand?

    @property
    def values(self) -> list[Fraction]:
        """What everybody may have."""
        lo, hi, step = map(Fraction, self.grid)
        return [lo + step * i for i in range(int((hi - lo) / step) + 1)]

    @property
    def toml(self) -> str:
        """The settings."""
        lo, hi, step = self.grid
        said = f'min = {lo}\nmax = {hi}\nstep = {step}\nkind = "{self.kind}"\n'
        return f'[columns]\nid = ["name"]\n[columns.private.x]\n{said}'

    def frame(self) -> pa.Table:
        """The people; their values too where these are at hand."""
        con = duckdb.connect()
        con.execute(f"CREATE TABLE t (name VARCHAR, k INTEGER, w INTEGER, x {KINDS[self.kind]})")
        rows = [(f"p{i}", k, w, str(float(x))) for i, (k, w, x) in enumerate(zip(self.k, self.w, self.x, strict=True))]
        con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        return con.sql("FROM t" if self.known else "SELECT name, k, w FROM t").to_arrow_table()


def make(rng: random.Random) -> Roster:
    """A small roster."""
    kind = rng.choice(("double", "double", "double", "integer", "decimal"))
    grid = rng.choice([g for g in GRIDS if kind != "integer" or g[2] == "1"])
    n = rng.choice((1, 2, 3, 3, 4))
    k, w = [rng.randrange(2) for _ in range(n)], [rng.randrange(1, 4) for _ in range(n)]
    made = Roster(k, w, [Fraction(0)] * n, kind, grid, known=rng.random() < 0.4)
    return Roster(k, w, [rng.choice(made.values) for _ in range(n)], kind, grid, made.known)


def compared(rng: random.Random, roster: Roster, *, sum_only: bool = False) -> str:
    """A sum compared with a number next to one that it can be."""
    values = roster.values
    cut = sum(rng.choice(values) for _ in range(rng.randrange(1, len(roster.x) + 1)))
    cut += rng.choice((Fraction(0), Fraction(0), Fraction(roster.grid[2]) / 2))
    inner = f"x {rng.choice(('>', '<=', '='))} {float(rng.choice(values))}"
    number = rng.choice(
        (
            "SUM(x)",
            "SUM(x)",
            "AVG(x)",
            "SUM(x * w)",
            "SUM(x / 10)",
            "SUM(x) / 10",
            "SUM(3 * x)",
            "SUM(x) + COUNT(*)",
            "-SUM(x)",
            *(() if sum_only else ("MAX(x)", "MIN(x)", "MEDIAN(x)")),
            *(() if sum_only else (f"SUM(x) FILTER (WHERE {inner})", f"COUNT(*) FILTER (WHERE {inner})")),
            *(() if sum_only else (f"SUM(CASE WHEN {inner} THEN x ELSE 0 END)", f"AVG(x) FILTER (WHERE {inner})")),
        )
    )
    if number in ("MAX(x)", "MIN(x)", "MEDIAN(x)"):
        cut = rng.choice(values) + rng.choice((Fraction(0), Fraction(0), Fraction(roster.grid[2]) / 2))
    elif number == "AVG(x)":
        cut = rng.choice((cut / len(roster.x), cut))
    cut = cut / 10 if "/ 10" in number else 3 * cut if "3 *" in number else -cut if number[0] == "-" else cut
    cut = cut + len(roster.x) if "COUNT(*)" in number and "SUM" in number else cut
    if rng.random() < 0.3:
        number = rng.choice(ROUNDED).format(number)
    shown = f"{round(float(cut), 6):.6f}".rstrip("0").rstrip(".")
    if rng.random() < 0.12:
        return f"{number} BETWEEN {shown} AND {round(float(cut) + float(roster.grid[2]), 6)}"
    return f"{number} {rng.choice(OPERATORS)} {shown}"


def ask(rng: random.Random, roster: Roster) -> str:
    """A statement; at times a sum itself, so that thresholds meet equations."""
    where = rng.choice(("", "", " WHERE k = 0", " WHERE k = 1", " WHERE name <> 'p0'", " WHERE name = 'p0'"))
    kind = rng.random()
    if kind < 0.12:
        return f"SELECT SUM(x) FROM t{where}"
    if kind < 0.2:
        return f"SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY {compared(rng, roster, sum_only=True)}, k"
    if kind < 0.3:
        return f"SELECT k, COUNT(*) FROM t GROUP BY k HAVING {compared(rng, roster, sum_only=True)} ORDER BY k"
    if kind < 0.36:
        return f"SELECT CASE WHEN {compared(rng, roster)} THEN 'yes' ELSE 'no' END FROM t{where}"
    return f"SELECT {compared(rng, roster)} FROM t{where}"


class Worlds:
    """Every table on the grid, and what the engine answers of it."""

    def __init__(self, roster: Roster) -> None:
        self.tables = list(product(roster.values, repeat=len(roster.x)))
        self.at = self.tables.index(tuple(roster.x))
        self.con = duckdb.connect()
        self.con.execute(
            f"CREATE TABLE all_tables (world INTEGER, name VARCHAR, k INTEGER, w INTEGER, x {KINDS[roster.kind]})"
        )
        flat = [
            (number, f"p{i}", roster.k[i], roster.w[i], str(float(table[i])))
            for number, table in enumerate(self.tables)
            for i in range(len(table))
        ]
        names = ("world", "name", "k", "w", "x")
        self.con.register("given", pa.table({name: [row[c] for row in flat] for c, name in enumerate(names)}))
        self.con.execute(f"INSERT INTO all_tables SELECT world, name, k, w, x::{KINDS[roster.kind]} FROM given")

    def answers(self, sql: str, world: int) -> list[tuple[Any, ...]]:
        """Of one table alone, as anybody would ask it."""
        self.con.execute(f"CREATE OR REPLACE TEMP VIEW t AS SELECT name, k, w, x FROM all_tables WHERE world = {world}")
        return self.con.execute(sql).fetchall()

    def same(self, asked: list[str]) -> list[int]:
        """The tables that give the answers of the true one."""
        left = list(range(len(self.tables)))
        for sql in asked:
            told = self.answers(sql, self.at)
            left = [world for world in left if self.answers(sql, world) == told]
        return left


def told(sql: str, rows: list[tuple[Any, ...]]) -> Any:
    """Answers as a log has them."""
    if "GROUP BY" in sql:
        return [{"key": {"k": row[0]}, "values": [row[1]]} for row in rows]
    return rows[0][0]


def audit(roster: Roster, asked: list[str], worlds: Worlds) -> Exposure:
    """The verdict: with the data at hand on the bare statements, else on the answers of the true table."""
    log: list[Any] = asked if roster.known else [(sql, told(sql, worlds.answers(sql, worlds.at))) for sql in asked]
    return examine(log, data=roster.frame(), config=Config.parse(roster.toml))


def refuted(found: Exposure, roster: Roster) -> list[str]:
    """What the independent checker says of the proofs that fail."""
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(roster.frame(), Path(folder) / "t.parquet")
        found_wrong = replay(dumps(Verdict.of(found).to_json()), Path(folder) / "t.parquet").of(Outcome.FAILS)
        return [f"{each.claim.who}: {each.why}" for each in found_wrong]


def play(seed: int, logs: int = 2) -> Counter[str]:
    """Logs about one roster."""
    rng, score = random.Random(seed), Counter[str]()
    roster = make(rng)
    worlds = Worlds(roster)
    for _ in range(logs):
        asked = [ask(rng, roster) for _ in range(rng.randrange(1, 4))]
        left = [worlds.tables[world] for world in worlds.same(asked)]
        found = audit(roster, asked, worlds)
        story = (asked, roster, found.promise, found.exit_code)
        assert not found.contradictions, (found.contradictions, *story)
        for f in (*found, *found.ranges):
            wrong = [v[f.row] for v in left if not agrees(f, v[f.row])]
            assert not wrong, (wrong[0], f, *story)
        fixed = {i for i in range(len(roster.x)) if len({v[i] for v in left}) == 1}
        assert found.exit_code != 0 or not fixed, (fixed, *story)
        if found.complete:
            assert fixed <= {f.row for f in found}, ("missed", fixed, *story)
        failed = refuted(found, roster)
        assert not failed, (failed, *story)
        score["comparisons"] += 1
        score["fixed"] += len(fixed)
        score["exposed"] += len(found.exposed)
        score["missed"] += len(fixed - {f.row for f in found.exposed})
        score["complete"] += bool(found.complete)
        score["all clear"] += found.exit_code == 0
        score["statements"] += len(asked)
        score["judged"] += len(asked) - len(found.unjudged) - len(found.refused)
    return score


if __name__ == "__main__":
    run("comparisons", play)
