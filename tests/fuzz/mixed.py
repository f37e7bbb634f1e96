"""Logs of mixed forms against all small tables, by seed: `python -m tests.fuzz.mixed --first SEED --count N`.

Facts, rounding, bounded noise, suppressed cells, HAVING, MIN, MAX, MEDIAN, private conditions and two private columns
in one log. The twin is DuckDB: it answers every statement over all tables at once, and those that give the answers of
the log, within what is said of them, are the tables that are possible.
"""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from tests.fuzz.soak import run

import keyhole
from keyhole.auditing import Status
from keyhole.checker.replay import Outcome, replay

PEOPLE = ("a", "b", "c", "d")
TEAM = {"a": "x", "b": "x", "c": "y", "d": "y"}
PAYS, ILLS, MOST = (0, 1, 2, 3), ("cold", "flu"), 2
WHERE = ["TRUE", "team = 'x'", "name <> 'a'", "name IN ('a', 'c')", "name <> 'd'", "name = 'b'"]
PRIVATE = ["ill = 'flu'", "pay > 1", "pay <= 2", "ill <> 'flu' AND pay > 0"]
SUMS = ["SUM(pay)", "AVG(pay)", "ROUND(AVG(pay), 1)", "SUM(pay * pay)"]
ORDER = ["MIN(pay)", "MAX(pay)", "MEDIAN(pay)"]
QUOTIENTS = [
    "SUM(pay) FILTER (WHERE name <> 'a') / SUM(pay)",
    "SUM(pay) / SUM(pay + 1)",
    "SUM(pay) FILTER (WHERE ill = 'flu') / SUM(pay)",
    "SUM(pay) * 1.0 / COUNT(*) FILTER (WHERE ill = 'flu')",
]
ROUNDED = [
    "CEIL(SUM(pay) / 2)",
    "FLOOR(AVG(pay))",
    "TRUNC(SUM(pay) / 2)",
    "ROUND(SUM(pay) * 0.5)",
    "CEIL(AVG(pay) / 3)",
    "CAST(AVG(pay) AS DECIMAL(9, 0))",
    "CEIL(MEDIAN(pay))",
    "CEIL(100.0 * COUNT(*) FILTER (WHERE ill = 'flu') / COUNT(*) / 1000)",
]
COUNTS = ["COUNT(*)", "COUNT(*) FILTER (WHERE ill = 'flu')", "COUNT(*) FILTER (WHERE pay > 1)"]
HAVING = ["COUNT(*) > 1", "SUM(pay) > 2", "MAX(pay) > 1", "MIN(pay) < 2"]
Answers = dict[int, dict[Any, Any]]


@cache
def everything() -> duckdb.DuckDBPyConnection:
    """All tables, one below the other, each with its number."""
    con = duckdb.connect()
    con.execute("CREATE TABLE t (world INTEGER, name VARCHAR, team VARCHAR, pay INTEGER, ill VARCHAR)")
    tables = enumerate(product(product(PAYS, ILLS), repeat=len(PEOPLE)))
    rows = [(w, p, TEAM[p], *cell) for w, table in tables for p, cell in zip(PEOPLE, table, strict=True)]
    world, name, team, pay, ill = zip(*rows, strict=True)
    made = pa.table({"world": world, "name": name, "team": team, "pay": pay, "ill": ill})
    con.register("made", made)
    con.execute("INSERT INTO t SELECT * FROM made")
    return con


@cache
def worlds() -> dict[int, dict[str, tuple[int, str]]]:
    """world -> person -> (pay, ill)."""
    found: dict[int, dict[str, tuple[int, str]]] = {}
    for world, name, pay, ill in everything().execute("SELECT world, name, pay, ill FROM t").fetchall():
        found.setdefault(world, {})[name] = (pay, ill)
    return found


def answers(select: str, where: str, grouped: bool, having: str) -> Answers:
    """world -> team, or nothing -> what the engine answers."""
    keys = "team, " if grouped else ""
    tail = f" HAVING {having}" if having else ""
    sql = f"SELECT world, {keys}{select} FROM t WHERE {where} GROUP BY world{', team' if grouped else ''}{tail}"
    found: Answers = {world: {} for world in worlds()}
    for world, *key, value in everything().execute(sql).fetchall():
        found[world][key[0] if key else ""] = value
    if not grouped:
        empty = 0 if select.startswith("COUNT") else None
        for told in found.values():
            told.setdefault("", empty)
    return found


class Mixed:
    """One random log, its true table, and the tables that are possible."""

    def __init__(self, seed: int, sums: list[str] = SUMS) -> None:
        self.random, self.sums = random.Random(seed), sums
        self.true = self.random.choice(sorted(worlds()))
        self.left, self.lines, self.facts = set(worlds()), list[dict[str, Any]](), list[str]()
        for _ in range(self.random.choice([0, 0, 1, 2])):
            self.fact()
        self.before = set(self.left)
        for _ in range(self.random.randint(1, 4)):
            self.ask()

    def fact(self) -> None:
        who, held = self.random.choice(PEOPLE), worlds()
        pay, kind = held[self.true][who][0], self.random.choice(["min", "max", "sum"])
        if kind == "sum":
            team = TEAM[who]
            total = sum(held[self.true][p][0] for p in PEOPLE if TEAM[p] == team)
            low, high = max(0, total - self.random.randrange(3)), total + self.random.randrange(3)
            self.facts.append(f"where = \"team = '{team}'\"\ncolumn = 'pay'\nsum_min = {low}\nsum_max = {high}")
            inside = {w for w in self.left if low <= sum(held[w][p][0] for p in PEOPLE if TEAM[p] == team) <= high}
        else:
            end = max(0, pay - 1) if kind == "min" else min(max(PAYS), pay + 1)
            self.facts.append(f"where = \"name = '{who}'\"\ncolumn = 'pay'\n{kind} = {end}")
            inside = {w for w in self.left if (held[w][who][0] >= end if kind == "min" else held[w][who][0] <= end)}
        self.left &= inside

    def ask(self) -> None:
        draw = self.random
        select = draw.choice(draw.choice([self.sums, ORDER, COUNTS]))
        where = draw.choice(WHERE)
        if draw.random() < 0.35:
            where = f"{where} AND {draw.choice(PRIVATE)}"
        grouped = draw.random() < 0.4
        having = draw.choice(HAVING) if grouped and draw.random() < 0.5 else ""
        told = answers(select, where, grouped, having)
        keys = "team, " if grouped else ""
        tail = (" GROUP BY team" if grouped else "") + (f" HAVING {having}" if having else "")
        line: dict[str, Any] = {"sql": f"SELECT {keys}{select} FROM t WHERE {where}{tail}"}
        true = told[self.true]
        if any(isinstance(value, float) and not math.isfinite(value) for value in true.values()):
            return  # a quotient over 0: no engine prints a number
        numbers = not grouped and isinstance(true[""], int | float | Decimal)
        how = draw.choice(["plain", "noise", "ends", "suppressed"]) if numbers else "plain"
        value = Fraction(str(true[""])) if numbers else None
        if (
            how == "plain"
            or value is None
            or (how == "suppressed" and (not select.startswith("COUNT") or value > MOST))
        ):
            line["answer"] = _given(true, grouped)
            self.left = {w for w in self.left if told[w] == true}
        else:
            off = Fraction(draw.choice([1, 2, 4]), 4)
            at = value + off * draw.choice([-1, 0, 1])
            low, high = (Fraction(0), Fraction(MOST)) if how == "suppressed" else (at - off, at + off)
            if how == "noise":
                kind = draw.choice(["uniform", "rounded"])
                line |= {"answer": float(at), "noise": {"kind": kind, "scale": float(off)}}
            else:
                line["answer"] = (
                    {"suppressed": [0, MOST]} if how == "suppressed" else {"lo": float(low), "hi": float(high)}
                )
            kept = ((w, told[w][""]) for w in self.left)
            self.left = {w for w, v in kept if v is not None and math.isfinite(v) and low <= Fraction(str(v)) <= high}
        self.lines.append(line)


def _given(true: dict[Any, Any], grouped: bool) -> Any:
    said = {key: float(v) if isinstance(v, Decimal) else v for key, v in true.items()}
    if not grouped:
        return said[""]
    return [{"key": {"team": key}, "values": [v]} for key, v in sorted(said.items())]


def judged(log: Mixed, folder: Path, *, declared: bool) -> keyhole.Verdict:
    """The verdict; `declared`: the grid of the column is known."""
    data, text, facts = folder / "t.csv", folder / "log.jsonl", folder / "facts.toml"
    held = worlds()[log.true]
    data.write_text("name,team,pay,ill\n" + "".join(f"{p},{TEAM[p]},{held[p][0]},{held[p][1]}\n" for p in PEOPLE))
    text.write_text("\n".join(map(json.dumps, log.lines)))
    facts.write_text("".join(f"[[facts]]\n{fact}\n" for fact in log.facts))
    pay = f"pay:{PAYS[0]}..{PAYS[-1]}:1" if declared else "pay"
    private = [pay, f"ill={','.join(ILLS)}"]
    return keyhole.audit(text, data=data, private=private, id="name", config=facts if log.facts else None)


def compare(seed: int, folder: Path, sums: list[str] = SUMS) -> Counter[str]:
    """One log: nothing that is said is false of a possible table, and an all-clear leaves everybody two values."""
    log = Mixed(seed, sums)
    declared = log.random.random() < 0.8
    verdict, held, found = judged(log, folder, declared=declared), worlds(), Counter(logs=1)
    why = (seed, declared, log.facts, log.lines, held[log.true])
    assert not verdict.exposure.contradictions, (why, verdict.exposure.contradictions)
    for f in (*verdict, *verdict.exposure.ranges):
        if f.form or f.rows or f.assumed:
            continue
        at = 0 if f.column == "pay" else 1
        here = {held[w][f.who][at] for w in log.left}
        assert f.status is not Status.EXPOSED or here == {f.value}, (why, f, here)
        assert not f.allowed or here <= set(f.allowed), (why, f, here)
        assert here.isdisjoint(f.excluded), (why, f, here)
        if f.column == "pay":
            assert all((f.lo is None or f.lo <= v) and (f.hi is None or v <= f.hi) for v in here), (why, f, here)
        found["claims"] += 1
    fixed = {
        (p, at)
        for p in PEOPLE
        for at in (0, 1)
        if len({held[w][p][at] for w in log.left}) == 1 and len({held[w][p][at] for w in log.before}) > 1
    }
    found["fixed"] += len(fixed)
    listed = {(f.who, 0 if f.column == "pay" else 1) for f in verdict if f.status is Status.EXPOSED}
    found["fixed and listed"] += len(fixed & listed)
    found[f"exit {verdict.exit_code}"] += 1
    found["unjudged"] += bool(verdict.exposure.unjudged)
    assert not declared or not verdict.exposure.complete or fixed <= listed, (why, fixed - listed)
    assert not declared or not fixed or verdict.exit_code != 0, (why, fixed)
    if verdict.exit_code != 3 and log.random.random() < 0.3:
        replayed = replay(verdict.dumps(), folder / "t.csv")
        found[f"replayed with {replayed.exit_code}"] += 1
        failed = [c.why for c in replayed.of(Outcome.FAILS)]
        assert replayed.exit_code != 1, (why, failed, replayed.cleared, replayed.beside)
    return found


def play(seed: int) -> Counter[str]:
    """The log of one seed."""
    with tempfile.TemporaryDirectory() as folder:
        return compare(seed, Path(folder))


def play_rounded(seed: int) -> Counter[str]:
    """The log of one seed, with rounded numbers in the place of sums."""
    with tempfile.TemporaryDirectory() as folder:
        return compare(seed, Path(folder), ROUNDED)


def play_quotients(seed: int) -> Counter[str]:
    """The log of one seed, with quotients of sums in the place of sums."""
    with tempfile.TemporaryDirectory() as folder:
        return compare(seed, Path(folder), QUOTIENTS)


if __name__ == "__main__":
    run("mixed", play)
