"""CORR, COVAR and sums of products of two private columns: cleared by how many people have each pair."""

from __future__ import annotations

import itertools

import duckdb
import pyarrow as pa
import pytest
import sqlglot

import keyhole
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql.rewriting.upper_bound import find_upper_bound

SCHEMA = Schema(
    "t",
    (
        Column("name", Kind.TEXT, Role.ID),
        Column("dept", Kind.TEXT),
        Column("pay", Kind.INTEGER, Role.PRIVATE),
        Column("bonus", Kind.INTEGER, Role.PRIVATE),
    ),
)
NUMBERS = ["CORR(pay, bonus)", "COVAR_POP(bonus, pay)", "REGR_SLOPE(pay, bonus)", "SUM(pay * bonus)"]
NUMBERS += ["SUM(pay * bonus + 2) FILTER (WHERE pay > 5)", "AVG((pay - 1) * bonus)", "REGR_COUNT(pay, bonus)"]
PAIRS = [(5, 2), (6, 3), (7, 2), (5, 3)]


@pytest.mark.parametrize("number", NUMBERS)
def test_the_pairs_determine_it(number: str) -> None:
    """Whoever has which pair: the engine gives the same, up to the last digits of a double."""
    (told,) = find_upper_bound(sqlglot.parse_one(f"SELECT {number} FROM t", read="duckdb"), SCHEMA)
    con = duckdb.connect()
    con.execute("CREATE TABLE t (name TEXT, dept TEXT, pay INTEGER, bonus INTEGER)")
    seen, counts = set(), set()
    for dealt in itertools.permutations(PAIRS):
        con.execute("DELETE FROM t")
        con.executemany("INSERT INTO t VALUES (?, 'a', ?, ?)", [(str(i), *pair) for i, pair in enumerate(dealt)])
        (value,) = con.execute(f"SELECT {number} FROM t").fetchall()[0]
        seen.add(round(float(value), 9))
        counts.add(tuple(sorted(con.execute(told.sql(dialect="duckdb")).fetchall())))
    assert len(seen) == len(counts) == 1


@pytest.mark.parametrize("number", NUMBERS)
def test_it_is_cleared_and_never_accuses(number: str) -> None:
    pays, bonuses = zip(*PAIRS, strict=True)
    data = pa.table({"name": list("ABCD"), "dept": list("aabb"), "pay": pays, "bonus": bonuses})
    domains = {"private": ["pay:5..7:1", "bonus:2..3:1"], "id": "name", "data": data}
    clear = keyhole.audit(f"SELECT {number} FROM t", **domains)
    assert (clear.statements.judged, len(clear.findings)) == (1, 0)
    assert clear.exit_code == 0 or "FILTER" in number
    alone = keyhole.audit(f"SELECT {number} FROM t WHERE name = 'A'", **domains)
    assert (alone.exit_code, len(alone.findings)) == (3, 0)
