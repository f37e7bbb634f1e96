"""Logs against every small table, asked of the engine: `python -m tests.fuzz.engine_tables --first SEED --count N`.

All tables that declarations and facts allow stand in one DuckDB table with a column `world`; a statement is asked of
all of them at once, grouped by it. What is claimed must hold in every world with the same answers, and exit 0 means
that nobody has one value in all of them: ROUND, HAVING, thresholds, order statistics, private conditions, facts.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
from tests.fuzz.soak import run
from tests.fuzz.twin import is_ordered

from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import examine
from keyhole.config import Config

ILLS = ("cold", "flu")
TYPES = {"INTEGER": (0, 3, 1), "DECIMAL(9,2)": (-1, 1, "0.5"), "DECIMAL(9,1)": (-1, 1, "0.5"), "DOUBLE": (0, 3, 1)}


@dataclass(frozen=True)
class World:
    """People with a group and a weight, and what their private values can be."""

    g: list[str]
    w: list[int]
    x: list[Decimal]
    ill: list[str]  # empty: nobody asks
    kind: str
    facts: tuple[tuple[str, str], ...]  # (condition, what it says in TOML)
    allowed: tuple[tuple[Decimal, ...], ...]

    @property
    def toml(self) -> str:
        """The settings."""
        lo, hi, step = TYPES[self.kind]
        told = "".join(f'[[facts]]\nwhere = "{where}"\n{said}\n' for where, said in self.facts)
        also = f"[columns.private.ill]\nvalues = {list(ILLS)}\n" if self.ill else ""
        return f'[columns]\nid = ["n"]\n[columns.private.x]\nmin = {lo}\nmax = {hi}\nstep = {step}\n{also}{told}'

    def frame(self) -> pa.Table:
        """The people, as data."""
        connection = duckdb.connect()
        ills = self.ill or [None] * len(self.x)
        rows = [(f"r{i}", *row) for i, row in enumerate(zip(self.g, self.w, self.x, ills, strict=True))]
        connection.execute(f"CREATE TABLE t (n VARCHAR, g VARCHAR, w INTEGER, x {self.kind}, ill VARCHAR)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
        if not self.ill:
            connection.execute("ALTER TABLE t DROP COLUMN ill")
        return connection.sql("FROM t").to_arrow_table()


def make(rng: random.Random) -> World:
    """A small world; at times somebody knows something of some of them."""
    kind = rng.choice(list(TYPES))
    lo, hi, step = (Decimal(v) for v in TYPES[kind])
    values = tuple(lo + step * k for k in range(int((hi - lo) / step) + 1))
    n = rng.choice((2, 3, 3, 4))
    g, w = [rng.choice("ab") for _ in range(n)], [rng.randrange(1, 3) for _ in range(n)]
    x = [rng.choice(values) for _ in range(n)]
    ill = [rng.choice(ILLS) for _ in range(n)] if n < 4 and rng.random() < 0.4 else []
    facts, allowed = [], [values] * n
    for i in range(n):
        if rng.random() < 0.15:
            below = rng.random() < 0.5
            said = f"max = {x[i] + step}" if below else f"min = {x[i] - step}"
            facts.append((f"n = 'r{i}'", f'column = "x"\n{said}'))
            allowed[i] = tuple(v for v in values if (v <= x[i] + step if below else v >= x[i] - step))
    return World(g, w, x, ill, kind, tuple(facts), tuple(allowed))


def leaf(rng: random.Random, cuts: tuple[int, ...]) -> str:
    """A condition, private or public."""
    if len(cuts) > 4 and rng.random() < 0.4:  # the last one stands for a second private column
        return rng.choice(("ill = 'flu'", "ill <> 'flu'", "ill IN ('cold')"))
    cuts = cuts[:4]
    if rng.random() < 0.5:
        return f"x {rng.choice(('>', '>=', '<', '<=', '=', '<>'))} {rng.choice(cuts[:4])}"
    return rng.choice(("g = 'a'", "g = 'b'", "n = 'r0'", "n <> 'r1'", "w = 1", "n IN ('r0', 'r2')"))


def condition(rng: random.Random, cuts: tuple[int, ...]) -> str:
    """One or two of them."""
    kind = rng.random()
    if kind < 0.25:
        return "TRUE"
    if kind < 0.7:
        return leaf(rng, cuts)
    return f"({leaf(rng, cuts)} {rng.choice(('AND', 'OR'))} {leaf(rng, cuts)})"


def aggregate(rng: random.Random, cuts: tuple[int, ...], calm: bool) -> str:
    """An aggregate; @ stands where FILTER may be put."""
    cut, inner = rng.choice(cuts[:4]), leaf(rng, cuts)
    plain = ["SUM(x)@", "AVG(x)@", "COUNT(*)@", "MIN(x)@", "MAX(x)@", "MEDIAN(x)@", "SUM(x * w)@"]
    odd = [
        "ROUND(AVG(x)@, 1)",
        "ROUND(SUM(x)@, 0)",
        "ROUND(SUM(x)@ / 2, 0)",
        "FLOOR(AVG(x)@)",
        "CEIL(AVG(x)@)",
        f"SUM(x)@ > {cut}",
        f"AVG(x)@ >= {cut}",
        f"MAX(x)@ > {cut}",
        f"MIN(x)@ <= {cut}",
        f"MEDIAN(x)@ > {cut}",
        f"COUNT(*)@ > {abs(cut)}",
        "quantile_cont(x, 0.25)@",
        "quantile_disc(x, 0.75)@",
        "quantile_disc(x, 0.5)@",
        "quantile_cont(x, 0.9)@",
        "CAST(AVG(x)@ AS DECIMAL(9,1))",
        "VAR_POP(x)@",
        "STDDEV_SAMP(x)@",
        "SUM(x * x)@",
        "SUM(ABS(x))@",
        "MAX(x)@ - MIN(x)@",
        "SUM(x)@ / COUNT(*)@",
        "COUNT(DISTINCT x)@",
        f"SUM(CASE WHEN {inner} THEN x ELSE 0 END)@",
        f"SUM(CASE WHEN {inner} THEN 1 ELSE 0 END)@",
        f"AVG(CASE WHEN {inner} THEN 1.0 ELSE 0.0 END)@",
        "MODE(x)@",
        "SUM(x)@ + MAX(x)@",
        "BOOL_OR(x > 1)@",
        "COALESCE(SUM(x)@, 0)",
        "SUM(GREATEST(x, 1))@",
    ]
    return rng.choice(plain if calm or rng.random() < 0.4 else odd)


@dataclass(frozen=True)
class Ask:
    """A statement, and the same asked of all worlds."""

    sql: str
    everywhere: str


def ask(rng: random.Random, cuts: tuple[int, ...], calm: bool) -> Ask:
    """A statement."""
    where = condition(rng, cuts)
    items = [aggregate(rng, cuts, calm) for _ in range(rng.choice((1, 1, 1, 2)))]
    listed = ", ".join(items)
    bare = listed.replace("@", "")
    if rng.random() < 0.35:
        key = rng.choice(("g", "w"))
        having = ""
        if rng.random() < 0.5:
            inner = aggregate(rng, cuts, True).replace("@", "")
            having = f" HAVING {inner} {rng.choice(('>', '>=', '<'))} {rng.choice(cuts[:4])}"
        asked = f"SELECT {key}, {bare} FROM t WHERE {where} GROUP BY {key}{having}"
        everywhere = f"SELECT world, {key}, {bare} FROM worlds WHERE {where} GROUP BY world, {key}{having}"
        if rng.random() < 0.4:
            order = rng.choice((key, f"{aggregate(rng, cuts, True).replace('@', '')}, {key}", f"{bare}, {key}"))
            return Ask(f"{asked} ORDER BY {order}", f"{everywhere} ORDER BY world, {order}")
        return Ask(asked, everywhere)
    spread = listed.replace("@", f" FILTER (WHERE {where})")
    return Ask(f"SELECT {bare} FROM t WHERE {where}", f"SELECT world, {spread} FROM worlds GROUP BY world")


def worlds(world: World) -> tuple[duckdb.DuckDBPyConnection, list[tuple[Any, ...]]]:
    """Every table that is possible, in one: the values of x, then those of the other private column."""
    ills = list(product(*[ILLS if world.ill else ("",)] * len(world.x)))
    tables = [x + ill for x in product(*world.allowed) for ill in ills]
    connection = duckdb.connect()
    names = ("world", "n", "g", "w", "x", "ill")
    flat = [
        (number, f"r{i}", world.g[i], world.w[i], table[i], table[i + len(world.x)])
        for number, table in enumerate(tables)
        for i in range(len(world.x))
    ]
    connection.register("given", pa.table({name: [row[c] for row in flat] for c, name in enumerate(names)}))
    connection.execute(f"CREATE TABLE worlds AS SELECT * REPLACE (x::{world.kind} AS x) FROM given")
    return connection, tables


def same(asked: list[Ask], world: World) -> list[tuple[Any, ...]]:
    """The tables that give the answers of the true one."""
    connection, tables = worlds(world)
    truth = (*world.x, *(world.ill or [""] * len(world.x)))
    at, keep = tables.index(truth), set(range(len(tables)))
    for each in asked:
        said: dict[int, list[tuple[Any, ...]]] = {number: [] for number in keep}
        for number, *row in connection.execute(each.everywhere).fetchall():
            if number in said:
                said[number].append(tuple(row))
        if not is_ordered(each.sql):
            said = {number: sorted(rows, key=repr) for number, rows in said.items()}
        keep = {number for number in keep if said[number] == said[at]}
    return [tables[number] for number in sorted(keep)]


def audit(asked: list[Ask], world: World, **more: Any) -> Exposure:
    """The verdict."""
    return examine([each.sql for each in asked], data=world.frame(), config=Config.parse(world.toml), **more)


def agrees(finding: Any, given: Any) -> bool:
    """Does what is claimed hold of a value?"""
    if isinstance(given, str):
        told = (finding.value is None or given == finding.value) and given not in finding.excluded
        return told and (not finding.allowed or given in finding.allowed)
    value = Fraction(given)
    if finding.value is not None and finding.lo is None and finding.hi is None and value != Fraction(finding.value):
        return False
    if finding.lo is not None and value < Fraction(finding.lo):
        return False
    if finding.hi is not None and value > Fraction(finding.hi):
        return False
    if value in [Fraction(e) for e in finding.excluded]:
        return False
    return not finding.allowed or value in [Fraction(a) for a in finding.allowed]


def play(seed: int, logs: int = 6) -> Counter[str]:
    """Logs about one world."""
    rng, score = random.Random(seed), Counter[str]()
    world = make(rng)
    cuts = (-1, 0, 1, 0) if world.kind.startswith("DECIMAL") else (0, 1, 2, 3)
    cuts = (*cuts, 0) if world.ill else cuts
    n = len(world.x)
    for _ in range(logs):
        calm = rng.random() < 0.3
        asked = [ask(rng, cuts, calm) for _ in range(rng.randrange(1, 5))]
        left = same(asked, world)
        found = audit(asked, world)
        story = ([each.sql for each in asked], world, found.promise, found.exit_code)
        assert not found.contradictions, (found.contradictions, *story)
        for f in (*found, *found.ranges):
            held = (v[f.row + (n if f.column == "ill" else 0)] for v in left)
            wrong = [v for v in held if not agrees(f, v)]
            assert not wrong, (wrong[0], f, *story)
        free = [len(each) > 1 for each in world.allowed] + [bool(world.ill)] * n
        fixed = [i for i in range(2 * n) if len({v[i] for v in left}) == 1 and free[i]]
        assert found.exit_code != 0 or not fixed, (fixed, *story)
        if found.exit_code in (0, 1) and found.complete:
            missed = set(fixed) - {f.row + (n if f.column == "ill" else 0) for f in found}
            assert not missed, ("missed", missed, *story)
        score["engine tables"] += 1
        score["fixed"] += len(fixed)
        score["exposed"] += len(found.exposed)
        score["complete"] += bool(found.complete)
        score["all clear"] += found.exit_code == 0
        score["statements"] += len(asked)
        score["judged"] += len(asked) - len(found.unjudged) - len(found.refused)
        score["unjudged"] += len(found.unjudged)
        score["refused"] += len(found.refused)
    return score


if __name__ == "__main__":
    run("engine tables", play)
