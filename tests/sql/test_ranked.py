"""NTILE, RANK and their kin by a private column: what stands for them determines them, in the engine itself."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest
import sqlglot

import keyhole
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql.rewriting.upper_bound import count_ranked_values

SCHEMA = Schema(
    "t",
    (
        Column("name", Kind.TEXT, Role.ID),
        Column("dept", Kind.TEXT),
        Column("age", Kind.INTEGER),
        Column("pay", Kind.INTEGER, Role.PRIVATE),
        Column("ill", Kind.TEXT, Role.PRIVATE),
    ),
)
TWO = "NTILE(2) OVER (ORDER BY pay) AS q"
BY_DEPT = "OVER (PARTITION BY dept ORDER BY pay)"
STATEMENTS = [
    "SELECT q, COUNT(*), MIN(pay), AVG(pay) FROM (SELECT pay, NTILE(3) OVER (ORDER BY pay) AS q FROM t) GROUP BY q",
    f"SELECT q, SUM(pay) FROM (SELECT name, age, pay, {TWO} FROM t) GROUP BY q HAVING q < 2",
    "SELECT q, COUNT(DISTINCT pay) FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY pay DESC) AS q FROM t) GROUP BY q",
    f"WITH r AS (SELECT dept, pay, RANK() {BY_DEPT} AS q FROM t) SELECT dept, SUM(pay) FROM r WHERE q < 3 GROUP BY 1",
    f"SELECT dept, q, MEDIAN(pay) FROM (SELECT *, NTILE(2) {BY_DEPT} AS q FROM t) GROUP BY 1, 2",
    "SELECT age, q, COUNT(*) FROM (SELECT age, DENSE_RANK() OVER (ORDER BY pay) AS q FROM t) GROUP BY age, q",
    "SELECT COUNT(*) FROM (SELECT CUME_DIST() OVER (ORDER BY pay) AS q FROM t WHERE age > 2) WHERE q > 0.5",
    f"SELECT q, COUNT(*) FROM (SELECT {TWO} FROM t) GROUP BY q",
    f"SELECT dept, q, COUNT(*) FROM (SELECT dept, NTILE(2) {BY_DEPT} AS q FROM t) GROUP BY dept, q",
    "SELECT dept, AVG(q) FROM (SELECT dept, PERCENT_RANK() OVER (ORDER BY pay) AS q FROM t) GROUP BY dept",
]


def drawn(con: duckdb.DuckDBPyConnection, rng: random.Random) -> None:
    """A small table with ties and NULL."""
    rows = [(f"p{i}", rng.choice("ab"), rng.randrange(5)) for i in range(rng.randrange(2, 8))]
    pays = [rng.choice((None, 1, 2, 3)) for _ in rows]
    con.execute("CREATE OR REPLACE TABLE t (name TEXT, dept TEXT, age INTEGER, pay INTEGER, ill TEXT)")
    for row, pay in zip(rows, pays, strict=True):
        con.execute("INSERT INTO t VALUES (?, ?, ?, ?, 'x')", [*row, pay])


def dealt(con: duckdb.DuckDBPyConnection, keys: list[str], rng: random.Random) -> None:
    """Private values dealt out anew among those who are alike in the keys; rows in another order."""
    rows = con.execute("SELECT * FROM t").fetchall()
    at = {name: i for i, name in enumerate(("name", "dept", "age", "pay", "ill"))}
    pools: dict[tuple[object, ...], list[object]] = {}
    for row in rows:
        pools.setdefault(tuple(row[at[k]] for k in keys), []).append(row[3])
    for pool in pools.values():
        rng.shuffle(pool)
    made = [(*row[:3], pools[tuple(row[at[k]] for k in keys)].pop(), row[4]) for row in rows]
    rng.shuffle(made)
    con.execute("DELETE FROM t")
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", made)


def determined(seed: int, rounds: int) -> None:
    con, rng = duckdb.connect(), random.Random(seed)
    con.execute("SET threads = 1")
    for sql in STATEMENTS:
        (told,) = count_ranked_values(sqlglot.parse_one(sql, read="duckdb"), SCHEMA)
        grouped = told.args["group"].expressions if told.args.get("group") else []
        keys = [key.name for key in grouped if key.name != "pay"]
        looked = [*keys, *(["age"] if "age > 2" in sql else [])]  # WHERE is of what it was before
        for _ in range(rounds):
            drawn(con, rng)
            before = con.execute(sql).fetchall()
            finer = con.execute(told.sql(dialect="duckdb")).fetchall()
            dealt(con, looked, rng)
            assert sorted(map(str, con.execute(told.sql(dialect="duckdb")).fetchall())) == sorted(map(str, finer))
            assert sorted(map(str, con.execute(sql).fetchall())) == sorted(map(str, before)), sql


def test_the_counts_of_values_determine_every_place() -> None:
    determined(3, 5)


@pytest.mark.soak
def test_the_counts_of_values_determine_every_place_at_length() -> None:
    seed = random.SystemRandom().randrange(10**9)
    determined(seed, 300)  # what fails names its statement, and every seed finds it


@pytest.mark.parametrize(
    "sql",
    [
        # which of two equals comes first is about who they are
        "SELECT age, q, COUNT(*) FROM (SELECT age, NTILE(2) OVER (ORDER BY pay) AS q FROM t) GROUP BY 1, 2",
        "SELECT q, MAX(name) FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY pay) AS q FROM t) GROUP BY q",
        f"SELECT r, q, COUNT(*) FROM (SELECT {TWO}, NTILE(2) {BY_DEPT} AS r FROM t) GROUP BY 1, 2",
        # other private columns, other orders, lists of records, what depends on the order of rows
        "SELECT q, COUNT(*) FROM (SELECT NTILE(2) OVER (ORDER BY pay, age) AS q FROM t) GROUP BY q",
        "SELECT ill, q, COUNT(*) FROM (SELECT ill, RANK() OVER (ORDER BY pay) AS q FROM t) GROUP BY 1, 2",
        "SELECT q, pay FROM (SELECT pay, NTILE(2) OVER (ORDER BY pay) AS q FROM t)",
        "SELECT q, ARRAY_AGG(pay) FROM (SELECT pay, NTILE(2) OVER (ORDER BY pay) AS q FROM t) GROUP BY q",
        "SELECT q, SUM(LAG(pay) OVER ()) FROM (SELECT pay, NTILE(2) OVER (ORDER BY pay) AS q FROM t) GROUP BY q",
        "SELECT q, COUNT(*) FROM (SELECT age + NTILE(2) OVER (ORDER BY pay) AS q FROM t) GROUP BY q",
        f"SELECT q, COUNT(*) FROM (SELECT {TWO} FROM t WHERE age IN (SELECT age FROM t)) GROUP BY q",
        "SELECT q, COUNT(*) FROM (SELECT NTILE(2) OVER (ORDER BY pay) AS q FROM t) JOIN t ON q = age GROUP BY q",
        "SELECT age, COUNT(*) FROM (SELECT *, NTILE(2) OVER (ORDER BY pay) AS age FROM t) GROUP BY age",
    ],
)
def test_nothing_stands_for_any_other(sql: str) -> None:
    assert count_ranked_values(sqlglot.parse_one(sql, read="duckdb"), SCHEMA) == []


DATA = pa.table({"name": list("ABCDEF"), "dept": list("aabbab"), "pay": [1, 2, 3, 3, 1, 2]})
TILES = "SELECT q, COUNT(*){} FROM (SELECT pay, NTILE(2) OVER (ORDER BY pay) AS q FROM t{}) GROUP BY q"


def test_parts_by_pay_are_cleared_and_never_accuse() -> None:
    for number in ("", ", MIN(pay)", ", AVG(pay), MAX(pay)"):
        clear = keyhole.audit(TILES.format(number, ""), data=DATA, private="pay:1..3:1", id="name")
        assert (clear.exit_code, clear.statements.judged) == (0, 1)
    alone = keyhole.audit(TILES.format(", SUM(pay)", " WHERE name = 'A'"), data=DATA, private="pay:1..3:1", id="name")
    assert (alone.exit_code, len(alone.unjudged), len(alone.findings)) == (3, 1, 0)
    log = f"{TILES.format('', '')}; SELECT SUM(pay) FROM t WHERE name = 'A'"
    both = keyhole.audit(log, data=DATA, private="pay:1..3:1", id="name")
    assert [f.value for f in both.exposed] == [1]
