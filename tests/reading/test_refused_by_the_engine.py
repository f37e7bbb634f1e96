"""No statement counts as judged unless the engine runs its own text: neither a finding nor an all-clear."""

from __future__ import annotations

import random
import re
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import keyhole

STAFF = pa.table(
    {
        "name": ["Ann", "Bob", "Cyd", "Dan", "Eve", "Fay"],
        "dept": ["a", "a", "a", "b", "b", "b"],
        "age": [20, 21, 22, 40, 41, 42],
        "pay": [10, 20, 30, 40, 50, 60],
    }
)
GOOD = "SELECT SUM(pay) FROM staff"
REFUSED = """
SELECT ISNULL(SUM(pay), 0) FROM staff WITH (NOLOCK) WHERE age / 2 > 10
SELECT ISNULL(SUM(pay), 0) FROM staff
SELECT SUM(pay) FROM staff WITH (NOLOCK)
SELECT SUM(pay) FROM staff (NOLOCK)
SELECT SUM(pay) FROM staff WITH (INDEX(1))
SELECT SUM(pay) FROM staff WITH (INDEX(1)) WHERE age / 2 > 10
SELECT SUM(pay) FROM staff WITH (NOLOCK, READPAST)
SELECT dept, SUM(pay) FROM staff WITH (NOLOCK) GROUP BY dept
SELECT SAFE_DIVIDE(SUM(pay), COUNT(*)) FROM staff
SELECT FOO(SUM(pay), 2) FROM staff
SELECT FOO(SUM(pay)) + 1 FROM staff
SELECT FOO(SUM(pay), SUM(age)) FROM staff
SELECT dbo.FOO(SUM(pay)) FROM staff
SELECT ROUND(SUM(pay), 2, 1) FROM staff
SELECT SUM(pay) DIV 2 FROM staff
SELECT FORMAT(SUM(pay), 2) FROM staff
SELECT DECODE(SUM(pay), 0, 1) FROM staff
SELECT DECODE(SUM(pay), 0, 1, 2) FROM staff
SELECT NVL2(SUM(pay), 1, 0) FROM staff
SELECT ZEROIFNULL(SUM(pay)) FROM staff
SELECT DIV0(SUM(pay), COUNT(*)) FROM staff
SELECT IFF(SUM(pay) > 3, 1, 0) FROM staff
SELECT CHOOSE(2, SUM(pay), SUM(age)) FROM staff
SELECT STR(SUM(pay)) FROM staff
SELECT CONVERT(VARCHAR, SUM(pay)) FROM staff
SELECT CAST(SUM(pay) AS NVARCHAR2) FROM staff
SELECT CAST(SUM(pay) AS NCLOB) FROM staff
SELECT TO_CHAR(SUM(pay), '999') FROM staff
SELECT TO_NUMBER(SUM(pay)) FROM staff
SELECT TRUNCATE(SUM(pay), -2) FROM staff
SELECT CONCAT_WS(SUM(pay)) FROM staff
SELECT LOG(SUM(pay), 2, 3) FROM staff
SELECT POWER(SUM(pay)) FROM staff
SELECT MOD(SUM(pay)) FROM staff
SELECT ABS(SUM(pay), 1) FROM staff
SELECT SIGN() + SUM(pay) FROM staff
SELECT SUM(pay) FROM staff HAVING SUM(pay) > NOSUCH(1)
SELECT dept, SUM(pay) FROM staff GROUP BY dept HAVING NOSUCH(SUM(pay)) > 1
SELECT dept, SUM(pay) FROM staff GROUP BY dept ORDER BY NOSUCH(SUM(pay))
SELECT dept, SUM(pay) FROM staff GROUP BY dept LIMIT 0, 5
SELECT age, SUM(pay) FROM staff GROUP BY age LIMIT 0, 5
SELECT age, SUM(pay) FROM staff GROUP BY age LIMIT -1
SELECT age, SUM(pay) FROM staff GROUP BY age LIMIT 'x'
SELECT age, SUM(pay) FROM staff GROUP BY age QUALIFY NOSUCH(SUM(pay)) OVER () > 1
SELECT TOP 5 dept, SUM(pay) FROM staff GROUP BY dept
SELECT TOP (5) PERCENT dept, SUM(pay) FROM staff GROUP BY dept
SELECT SUM([pay]) FROM [staff]
SELECT SUM(pay) FROM staff WHERE name <> N'Bob' AND NOSUCH(age) = 1
SELECT SUM(pay) FROM staff UNION ALL SELECT FOO(SUM(age)) FROM staff
SELECT SUM(pay) FROM staff UNION ALL SELECT SUM(pay), COUNT(*) FROM staff
SELECT SUM(pay) FROM staff UNION ALL SELECT SUM(pay) FROM staff WITH (NOLOCK)
SELECT SUM(pay) FROM staff MINUS SELECT SUM(pay) FROM staff WHERE age > 21
SELECT SUM(pay) * 100 / (SELECT FOO(SUM(pay)) FROM staff) FROM staff
SELECT SUM(pay) * 100 / (SELECT SUM(pay), COUNT(*) FROM staff) FROM staff
SELECT SUM(pay) * 100 / (SELECT SUM(pay) FROM staff WITH (NOLOCK)) FROM staff
SELECT FOO(x) FROM (SELECT SUM(pay) AS x FROM staff) q
WITH q AS (SELECT dept, SUM(pay) AS x FROM staff GROUP BY dept) SELECT NOSUCH(x) FROM q
WITH q AS (SELECT dept, SUM(pay) AS x FROM staff GROUP BY dept) SELECT MAX(y) FROM q
SELECT dept, RATIO_TO_REPORT(SUM(pay)) OVER () FROM staff GROUP BY dept
SELECT dept, NOSUCH(SUM(pay)) OVER () FROM staff GROUP BY dept
SELECT dept, SUM(SUM(pay)) OVER (ORDERED BY dept) FROM staff GROUP BY dept
SELECT TOTAL(pay) FROM staff
SELECT SUM(pay) FROM staff FOR XML PATH
SELECT SUM(pay) FROM staff OPTION (MAXDOP 1)
SELECT SUM(pay) FROM staff AT EPOCH LATEST
SELECT SUM(pay) FROM staff FINAL FINAL
SELECT STRAIGHT_JOIN SUM(pay) FROM staff
SELECT SUM(pay) FROM staff FORCE INDEX (i)
SELECT dept, SUM(pay) FROM staff GROUP BY dept WITH ROLLUP
SELECT SUM(pay) || INTERVAL FROM staff
SELECT CAST('x' AS INTEGER) + SUM(pay) FROM staff
""".strip().splitlines()
HINTS = {
    "SELECT ISNULL(SUM(pay), 0) FROM staff": "SQL Server (ISNULL): if so, say --dialect tsql",
    "SELECT SUM(pay) FROM staff WITH (INDEX(1))": "SQL Server (WITH (NOLOCK)): if so, say --dialect tsql",
    "SELECT SAFE_DIVIDE(SUM(pay), 2) FROM staff": "BigQuery (SAFE_DIVIDE): if so, say --dialect bigquery",
    "SELECT dept, SUM(pay) FROM staff GROUP BY dept LIMIT 0, 5": "MySQL (LIMIT a, b): if so, say --dialect mysql",
    "SELECT SUM(pay) DIV 2 FROM staff": "MySQL (DIV): if so, say --dialect mysql",
    "SELECT SUM(`pay`) FROM staff": "MySQL (`names` in backticks): if so, say --dialect mysql",
    "SELECT TOP 5 dept, SUM(pay) FROM staff GROUP BY dept": "SQL Server (TOP): if so, say --dialect tsql",
    "SELECT SUM(pay) FROM staff WHERE name = N'Bob'": "SQL Server (N'texts'): if so, say --dialect tsql",
}
PARTS = {  # good statements of every way to be read: as they are, opened, cut off, taken apart
    "item": (
        "SUM(pay)",
        "AVG(pay)",
        "SUM(pay) * 2 + 1",
        "COALESCE(SUM(pay), 0)",
        "MAX(pay) - MIN(pay)",
        "SQRT(SUM(pay))",
    ),
    "where": ("", " WHERE age > 21", " WHERE dept = 'a'", " WHERE age / 2 > 10"),
    "tail": ("", " HAVING COUNT(*) > 1", " ORDER BY 1", " LIMIT 3"),
}
SHAPES = (
    "SELECT {item} FROM staff{where}",
    "SELECT dept, {item} FROM staff{where} GROUP BY dept{tail}",
    "SELECT {item} FROM staff{where} UNION ALL SELECT {item} FROM staff",
    "SELECT {item} * 100.0 / (SELECT SUM(pay) FROM staff) FROM staff{where}",
    "SELECT dept, {item}, RANK() OVER (ORDER BY SUM(pay)) FROM staff{where} GROUP BY dept",
    "WITH q AS (SELECT dept, {item} AS x FROM staff{where} GROUP BY dept) SELECT MAX(x) FROM q",
    "SELECT ROUND(x, 1) FROM (SELECT {item} AS x FROM staff{where}) q",
)
WORDS = (
    "FOO(",
    "ISNULL(",
    "NVL2(",
    "WITH (NOLOCK)",
    "DIV",
    "TOP 3",
    "FINAL",
    ", 1",
    "N'a'",
    "x",
    "OVER ()",
    "[pay]",
    "'",
    "2",
)
TOKEN = re.compile(r"\s+|'[^']*'|\w+|.")


def judged(log: list[str], **given: Any) -> tuple[set[int], Any]:
    """The numbers of the statements that count, and the verdict."""
    found = keyhole.audit(log, data=STAFF, private="pay", id="name", table="staff", **given)
    left = {int(each.number) for each in (*found.unjudged, *found.refused)}
    return set(range(1, len(log) + 1)) - left, found


@lru_cache(maxsize=1)
def engine() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(":memory:")
    con.execute("SET threads = 1")
    con.register("staff", STAFF)
    return con


def runs(sql: str) -> bool:
    """Does the engine run it? The question itself, asked of the engine itself."""
    try:
        engine().execute(sql).fetchall()
    except (duckdb.Error, RuntimeError):
        return False
    return True


def test_there_are_many_that_the_engine_refuses() -> None:
    assert len(REFUSED) >= 60
    assert [sql for sql in REFUSED if runs(sql)] == []


def test_what_the_engine_refuses_is_never_judged() -> None:
    mine, found = judged(REFUSED)
    assert (mine, found.exit_code, list(found.exposed)) == (set(), 3, [])


@pytest.mark.parametrize("sql", [*REFUSED[:3], *(pytest.param(s, marks=pytest.mark.soak) for s in REFUSED[3:])])
def test_nor_alone(sql: str) -> None:
    mine, alone = judged([sql])
    assert (mine, alone.exit_code, list(alone.exposed)) == (set(), 3, [])


def test_nor_beside_good_ones() -> None:
    log = [text for sql in REFUSED for text in (sql, GOOD)]
    mine, found = judged(log)
    assert mine == set(range(2, len(log) + 1, 2))
    assert found.exit_code == 3


def test_nor_with_answers() -> None:
    log = [{"sql": sql, "answer": 5} for sql in REFUSED]
    assert judged(log)[0] == set()  # type: ignore[arg-type]


def test_the_engine_it_looks_like_is_named() -> None:
    _, found = judged(list(HINTS))
    said = {each.number: each.reason for each in found.unjudged} | {r.number: r.error for r in found.refused}
    for number, (sql, hint) in enumerate(HINTS.items(), 1):
        assert hint in said[str(number)], sql


def mutated(rng: random.Random) -> str:
    """A good statement with one or two changes: a word put in, taken out, doubled or exchanged, a function around."""
    chosen = {name: rng.choice(options) for name, options in PARTS.items()}
    tokens = TOKEN.findall(rng.choice(SHAPES).format(**chosen))
    for _ in range(rng.choice((0, 1, 1, 2))):
        at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        change = rng.randrange(5)
        if change == 0:
            tokens.insert(at, f" {rng.choice(WORDS)} ")
        elif change == 1:
            del tokens[at]
        elif change == 2:
            tokens.insert(at, f" {tokens[at]} ")
        elif change == 3:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        else:
            text = "".join(tokens)
            tokens = TOKEN.findall(
                re.sub(r"\b(SUM|AVG|MAX)\(pay\)", rf"{rng.choice(('FOO', 'NVL2', 'STR', 'ABS'))}(\g<0>)", text, count=1)
            )
    return "".join(tokens)


def lies(seed: int, count: int) -> tuple[list[str], int, int]:
    """(judged texts that the engine refuses, how many were judged, how many the engine refuses)."""
    rng = random.Random(seed)
    log = [text for text in dict.fromkeys(mutated(rng) for _ in range(count)) if text.strip() and ";" not in text]
    mine, _ = judged(log)
    fails = {i for i, sql in enumerate(log, 1) if not runs(sql)}
    return [log[i - 1] for i in sorted(mine & fails)], len(mine), len(fails)


def test_what_is_judged_runs() -> None:
    wrong, counted, refused = lies(1, 60)
    assert wrong == []
    assert counted > 8
    assert refused > 12


@pytest.mark.soak
@pytest.mark.parametrize("seed", [random.SystemRandom().randrange(10**9) for _ in range(6)])
def test_what_is_judged_runs_with_fresh_seeds(seed: int) -> None:
    assert lies(seed, 300)[0] == []


def test_hints_and_texts_of_sql_server() -> None:
    log = [
        "SELECT ISNULL(SUM(pay), 0) FROM staff WITH (NOLOCK) WHERE age >= 21",
        "SELECT SUM(pay) FROM staff WITH (NOLOCK) WHERE dept = N'a'",
        "SELECT SUM(pay) FROM staff WITH (READPAST)",
        "SELECT ISNULL(SUM(pay), 0) FROM staff WITH (NOLOCK) WHERE CHECKSUM(age) > 10",
        "SELECT dbo.f(SUM(pay)) FROM staff",
    ]
    assert judged(log, dialect="tsql")[0] == {1, 2}
    assert judged(log)[0] == set()
