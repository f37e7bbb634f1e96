"""A name in FROM is a query of WITH or a table by where it stands: held against the tables that the engine scans."""

from __future__ import annotations

import random
import re

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

import keyhole
from keyhole.model.schema import Column, Kind, Related, Schema
from keyhole.sql.read import read_public_statement
from keyhole.sql.statements.table_names import is_with_query, reads_nothing_of_people

STAFF = pa.table({"name": ["Ann", "Bob", "Cyd", "Dan"], "pay": [51, 64, 70, 80]})
SHADOWED = (
    "WITH t AS (SELECT * FROM t WHERE name = 'Ann') SELECT SUM(pay) FROM t",
    "SELECT (SELECT SUM(pay) FROM t WHERE name = 'Ann') FROM (WITH t AS (SELECT 1 AS a) SELECT a FROM t) q",
    "WITH q AS (SELECT SUM(pay) FROM t WHERE name = 'Ann'), t AS (SELECT 1) SELECT * FROM q",
    "WITH RECURSIVE t AS (SELECT pay FROM t WHERE name = 'Ann') SELECT SUM(pay) FROM t",
    "WITH RECURSIVE t AS (SELECT 1 AS n FROM t UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT * FROM t",
)


def nested(draw: random.Random, depth: int) -> str:
    """A query over tables a, b and c, and queries of WITH that may be called so."""
    before = ""
    if depth and draw.random() < 0.6:
        recursive, parts = draw.random() < 0.3, []
        for name in draw.sample("abcde", draw.choice((1, 2, 2))):
            again = f"{nested(draw, 0)} UNION ALL SELECT k + 1, v FROM {name} WHERE k < 2"
            parts.append(f"{name}(k, v) AS ({again if recursive and draw.random() < 0.6 else nested(draw, depth - 1)})")
        before = f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(parts)} "
    found = f"SELECT z.k, z.v FROM {draw.choice('abcde')} AS z"
    if depth and draw.random() < 0.4:
        found += f" WHERE z.k >= (SELECT MIN(k) FROM ({nested(draw, depth - 1)}) AS y)"
    if depth and draw.random() < 0.3:
        found += f" UNION ALL SELECT k, v FROM ({nested(draw, depth - 1)}) AS x"
    return before + found


def test_no_table_that_the_engine_reads_is_taken_for_a_query_of_with() -> None:
    con, draw, ran = duckdb.connect(), random.Random(7), 0
    for name in "abc":
        con.execute(f"CREATE TABLE {name} AS SELECT 1 AS k, 2 AS v")
    for _ in range(600):
        sql = nested(draw, 3)
        try:
            plan = con.execute(f"EXPLAIN {sql}").fetchall()[0][1]
        except duckdb.Error:
            continue  # it names a table that is not there
        ran += 1
        tables = {t.name for t in sqlglot.parse_one(sql, read="duckdb").find_all(exp.Table) if not is_with_query(t)}
        assert set(re.findall(r"memory\.main\.([abc])\b", plan)) <= tables, sql
    assert ran > 100


@pytest.mark.parametrize("sql", SHADOWED)
def test_a_table_behind_a_query_of_its_name_is_not_elsewhere(sql: str) -> None:
    """Followed, such a statement was passed over as one about nothing of these people."""
    assert not reads_nothing_of_people(sql)
    assert not reads_nothing_of_people(sql, "postgres", ("orders",))


def test_a_query_of_with_is_elsewhere_where_it_is_seen() -> None:
    assert reads_nothing_of_people("WITH a AS (SELECT 1 AS s), b AS (SELECT s FROM a) SELECT * FROM b")
    assert reads_nothing_of_people(
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r"
    )


@pytest.mark.parametrize(
    "ask", ["WITH v AS (SELECT * FROM v) SELECT SUM(pay) FROM v", f"{SHADOWED[1].replace(' t', ' v')}"]
)
def test_a_view_behind_a_query_of_its_name_is_not_the_whole_table(ask: str) -> None:
    """The view has Ann alone: the statement was read as about everybody, and passed."""
    script = f"CREATE VIEW v AS SELECT * FROM t WHERE name = 'Ann'; {ask}"
    verdict = keyhole.audit(script, data=STAFF, private="pay", id="name")
    assert verdict.exit_code == 3
    assert "under the same name" in verdict.unjudged[0].reason


def test_people_behind_a_query_of_their_name_are_no_dimension() -> None:
    states = Related("states", (Column("code", Kind.TEXT),), (("code", "state"),), dimension=True, secret=False)
    schema = Schema("people", (Column("state", Kind.TEXT),), related=(states,))
    hidden = "WITH people AS (SELECT pay FROM people) SELECT SUM(pay) FROM people, states"
    assert read_public_statement(hidden, "duckdb", schema) is None
    assert (
        read_public_statement("WITH q AS (SELECT code FROM states) SELECT COUNT(*) FROM q", "duckdb", schema)
        is not None
    )
