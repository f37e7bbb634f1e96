"""Cells of a declared domain are counted alike by PostgreSQL and DuckDB, whatever kind of number a column has."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest
from tests.support.postgres import Postgres

from keyhole.basis.cells.numbers import Cuts, Range
from keyhole.engines.engine import DataUrl
from keyhole.engines.postgres.engine import PostgresEngine

VALUES = """
(1, 1500, 0, -3.5, 'NaN'), (2, 2499, 15, 0.25, 'Infinity'),
(3, 2504, 25, 0.125, '-Infinity'), (4, 9000, 99999, 7.75, '1e300'),
(5, NULL, NULL, NULL, NULL), (6, 0, -5, 0.375, '0.375'), (7, 100000, 1000000, 12.5, '0.3'), (8, 4137, 35, 3.3, '1e-300')
"""
KINDS = "id int, pay int, bonus smallint, rate numeric(6, 3), score double precision"


def cells() -> list[str]:
    """Texts of declared columns, over whole numbers, decimals and floating point, with steps of 1, 10 and 0.25."""
    texts = []
    for name in ("pay", "bonus", "rate", "score"):
        for lo, step, steps in ((1500, 1, 7500), (0, 10, 10000), (0, Fraction(1, 4), 40), (-4, Fraction(1, 2), 30)):
            cuts = Cuts(name, Fraction(lo), Fraction(step), steps, (0, steps // 3, steps // 2))
            texts += [cuts.point(), cuts.code(), Cuts(name, Fraction(lo), Fraction(step), steps, missing=2).point()]
    for name in ("pay", "bonus", "rate"):
        texts.append(Range(name, Fraction(0), Fraction(9000), Fraction(700)).code())
        texts.append(Range(name, Fraction(0), Fraction(9000), Fraction(100), Fraction(10)).code())
        texts.append(Range(name, Fraction(0), Fraction(10), Fraction(1, 2), Fraction(1, 4)).code())
    return texts


@pytest.fixture(scope="module")
def tables(postgres: Postgres) -> Iterator[tuple[PostgresEngine, duckdb.DuckDBPyConnection]]:
    rows = VALUES.replace("99999", "32000").replace("1000000", "-32000")
    script = f"DROP TABLE IF EXISTS cells; CREATE TABLE cells ({KINDS}); INSERT INTO cells VALUES {rows};"
    postgres.run(script)
    con = duckdb.connect()
    con.execute(script)
    yield PostgresEngine(DataUrl.parse(postgres.url()), snapshot=True), con
    postgres.run("DROP TABLE cells;")


def counted(engine: PostgresEngine, con: duckdb.DuckDBPyConnection, text: str) -> tuple[list[object], list[object]]:
    there = engine.rows(f"SELECT coalesce(CAST({text} AS BIGINT), -1) AS cell, count(*) AS c FROM cells GROUP BY 1")
    asked = f"SELECT coalesce(CAST({text} AS BIGINT), -1) AS cell, count(*) FROM cells GROUP BY 1"
    return sorted(there), sorted(con.execute(asked).fetchall())


def test_both_engines_count_the_same_cells(tables: tuple[PostgresEngine, duckdb.DuckDBPyConnection]) -> None:
    texts = cells()
    assert len(texts) > 50
    for text in texts:
        there, here = counted(*tables, text)
        assert there == here, text
    engine, con = tables
    engine.close()
    con.close()


def test_dividing_integers_would_be_noticed(postgres: Postgres) -> None:
    """The liar: the quotient as it was written before, cut by PostgreSQL and not by DuckDB."""
    con = duckdb.connect()
    con.execute(f"CREATE TABLE cells ({KINDS}); INSERT INTO cells (id, bonus) VALUES (1, 15), (2, 25), (3, 35)")
    text = "CAST(FLOOR((LEAST(GREATEST(bonus, 0), 100000) - 0) / 10 + 0.5) AS BIGINT)"
    rows = "INSERT INTO cells VALUES (1, 15), (2, 25), (3, 35)"
    postgres.run(f"DROP TABLE IF EXISTS cells; CREATE TABLE cells (id int, bonus smallint); {rows};")
    engine = PostgresEngine(DataUrl.parse(postgres.url()), snapshot=True)
    there, here = counted(engine, con, text)
    engine.close()
    con.close()
    assert there != here
