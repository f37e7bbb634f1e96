"""WHERE clauses without parentheses: who matches by our reading, and who by the engine.

`python -m tests.fuzz.conditions --first SEED --count N`. What binds tighter (NOT, AND, OR, BETWEEN, IN, IS, LIKE,
comparisons in a row, arithmetic, unary minus, ||, casts) is decided by the grammar alone. What the reader refuses is
counted; what it reads otherwise than the engine must be caught by the check of readings, and is counted too.
"""

from __future__ import annotations

import atexit
import random
from collections import Counter

import duckdb
import numpy as np
from tests.fuzz.soak import FalseVerdict, run, say
from tests.fuzz.twin import SLOW, _literal
from tests.fuzz.world import PUBLIC, World, make_world

from keyhole.config import Columns, PrivateColumn
from keyhole.datasets import Roster, load_roster
from keyhole.errors import QueryError
from keyhole.model.query import Statement
from keyhole.reading import Validator
from keyhole.sql import lower_statement

CONDITIONS = 40  # about one table
MISREAD: list[str] = []  # what the check of readings caught: worth mending, and no danger


def number(rng: random.Random) -> str:
    """Arithmetic without parentheses."""
    atoms = ("h", "w", "h", "1", "2", "3", "-h", "- -w", "-2", "h::INTEGER", "w::VARCHAR::BIGINT", "LENGTH(name)", "+h")
    found = rng.choice(atoms)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        found += f" {rng.choice(('+', '-', '*', '//', '%', '/'))} {rng.choice(atoms)}"
    return found


def text(rng: random.Random) -> str:
    """Text, joined or not."""
    found = rng.choice(("g", "name", "'a'", "'b'", "h::VARCHAR", "LOWER(name)"))
    return f"{found} || {rng.choice(('g', chr(39) + 'x' + chr(39), 'name'))}" if rng.random() < 0.25 else found


def leaf(rng: random.Random) -> str:
    """One comparison, or several in a row."""
    op = rng.choice(("=", "<>", "<", "<=", ">", ">=", "!=", "=="))
    n, kind = rng.choice(("", "NOT ")), rng.random()
    if kind < 0.3:
        found = f"{number(rng)} {op} {number(rng)}"
    elif kind < 0.4:
        found = f"{number(rng)} {n}BETWEEN {number(rng)} AND {number(rng)}"
    elif kind < 0.5:
        found = f"{number(rng)} {n}IN ({number(rng)}, {rng.choice(('1', 'NULL', '7'))})"
    elif kind < 0.6:
        found = f"{rng.choice((number(rng), text(rng), 'b', 'day'))} IS {n}NULL"
    elif kind < 0.7:
        found = f"{text(rng)} {n}{rng.choice(('LIKE', 'ILIKE'))} '{rng.choice(('a%', '%n', '_', 'b_', '%', 'A%'))}'"
    elif kind < 0.8:
        found = f"{text(rng)} {op} {text(rng)}"
    elif kind < 0.86:
        found = f"b IS {n}{rng.choice(('TRUE', 'FALSE', 'NULL'))}"
    elif kind < 0.92:
        found = f"{number(rng)} IS {n}DISTINCT FROM {number(rng)}"
    else:
        found = rng.choice(
            ("b", "TRUE", "NULL", "day = '2026-01-31'", "day < DATE '2026-02-01'", "day::VARCHAR > '2026'")
        )
    if rng.random() < 0.12:
        found += rng.choice(
            (" = b", " IS NULL", " IS NOT TRUE", " <> TRUE", " IN (TRUE)", f" {op} {number(rng)}", " = TRUE")
        )
    return found


def condition(rng: random.Random) -> str:
    """Leaves joined by AND, OR and NOT, without parentheses."""
    parts = []
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        parts.append(rng.choice(("", "", "", "NOT ", "NOT NOT ")) + leaf(rng))
    found = parts[0]
    for part in parts[1:]:
        found += f" {rng.choice(('AND', 'OR'))} {part}"
    return found


def engine_of(world: World) -> duckdb.DuckDBPyConnection:
    """The same people, in a plain table."""
    con = duckdb.connect(":memory:")
    con.execute(f"SET threads = 1; SET disabled_optimizers = '{SLOW}'")
    con.execute(f"CREATE TABLE t ({', '.join(f'{c} {k}' for c, k in PUBLIC.items())}, x BIGINT)")
    for i in range(world.n):
        con.execute(f"INSERT INTO t VALUES ({', '.join(_literal(world.public[c][i]) for c in PUBLIC)}, {i})")
    return con


def ours(statements: list[Statement], roster: Roster) -> list[list[int]]:
    """The rows that match, by the atoms of the conditions as they were read."""
    wheres = tuple(dict.fromkeys(s.where for s in statements))
    atoms = roster.atoms(wheres, ())
    return [np.flatnonzero(atoms.mask(s.where)[atoms.of]).tolist() for s in statements]


def play(seed: int) -> Counter[str]:
    """Random conditions about one table."""
    rng = random.Random(seed)
    world = make_world(rng)
    con = engine_of(world)
    roster = load_roster(world.arrow(), Columns(id=("name",), private={"x": PrivateColumn(), "y": PrivateColumn()}))
    validator, score = Validator(roster), Counter[str]()
    for _ in range(CONDITIONS):
        where = condition(rng)
        sql = f"SELECT COUNT(*) FROM t WHERE {where}"
        score["conditions"] += 1
        score["statements"] += 1
        try:
            statement = lower_statement(sql, roster.schema)
        except QueryError:
            continue
        score["judged"] += 1
        try:
            theirs = [r[0] for r in con.execute(f"SELECT rowid FROM t WHERE {where} ORDER BY rowid").fetchall()]
        except duckdb.Error:
            theirs = None
        try:
            mine = ours([statement], roster)[0]
        except (duckdb.Error, QueryError):
            mine = None
        if mine == theirs and mine is not None:
            continue
        reason = validator.reasons([statement])[0]
        if not reason:
            raise FalseVerdict(f"{where}: read as {mine}, the engine says {theirs}\n{world.public}")
        if theirs is None:
            score["failing in the engine"] += 1
        else:
            score["misread and caught"] += 1
            MISREAD.append(f"{where}: {mine}, {theirs}")
    return score


if __name__ == "__main__":
    atexit.register(lambda: say("\n".join(f"  misread and caught: {text}" for text in MISREAD[:20])))
    run("conditions", play)
