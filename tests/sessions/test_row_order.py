"""Rows and columns of a reply stand as the statement asks for them: as DuckDB gives them, run on the same data."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import keyhole
from keyhole.config import Config

N = 60
ITEMS = pa.table(
    {
        "id": list(range(N)),
        "dept": ["b" if at % 7 == 0 else None if at % 11 == 0 else "ä" if at % 5 == 0 else "B" for at in range(N)],
        "age": [(at * 37) % 4 + (8 if at % 3 else 9) for at in range(N)],
        "pay": [None if at % 7 == 0 else (at * 53) % 97 for at in range(N)],
    }
)

STATEMENTS = (
    "SELECT dept, SUM(pay) FROM t GROUP BY dept ORDER BY dept DESC",
    "SELECT dept, SUM(pay) FROM t GROUP BY dept ORDER BY dept NULLS FIRST",
    "SELECT SUM(pay) AS total, dept FROM t GROUP BY dept ORDER BY total DESC",
    "SELECT SUM(pay) AS total, dept FROM t GROUP BY dept ORDER BY total DESC NULLS FIRST",
    "SELECT SUM(pay) AS total, dept FROM t GROUP BY dept ORDER BY 1",
    "SELECT age, COUNT(*), SUM(pay) FROM t GROUP BY age ORDER BY age DESC",
    "SELECT SUM(pay), age FROM t GROUP BY age ORDER BY COUNT(*) DESC, age",
    "SELECT age, SUM(pay) FROM t GROUP BY age ORDER BY SUM(pay) / 1 DESC, age",
    "SELECT upper(dept) AS u, 7, SUM(pay) FROM t GROUP BY dept ORDER BY upper(dept), dept DESC",
    "SELECT dept, age, SUM(pay) FROM t GROUP BY ALL ORDER BY ALL DESC",
    "SELECT SUM(pay), dept, age FROM t GROUP BY dept, age ORDER BY age, dept DESC",
    "SELECT SUM(pay) FROM t GROUP BY age ORDER BY MAX(age) DESC",
    "SELECT age % 2 AS odd, SUM(pay) FROM t GROUP BY odd ORDER BY odd DESC",
    "SELECT dept, SUM(pay) FROM t GROUP BY ROLLUP (dept) ORDER BY SUM(pay) DESC, dept",
    "SELECT SUM(pay), COUNT(*) FROM t",
)


def plain(rows: Any) -> list[tuple[Any, ...]]:
    return [tuple(Decimal(str(v)) if isinstance(v, int | float | Decimal) else v for v in row) for row in rows]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_replies_come_as_the_engine_orders_them(tmp_path: Path, sql: str) -> None:
    con = duckdb.connect()
    con.register("t", ITEMS)
    cursor = con.execute(sql)
    names, expected = [d[0] for d in cursor.description or ()], plain(cursor.fetchall())
    config = Config.parse(f"[book]\npath = '{tmp_path / 'b'}'\npolicy = 'monitored'\n")
    with keyhole.session(config, data=ITEMS, private="pay:..10000000000", id="id") as session:
        first, again = session.ask(sql), session.ask(sql)
    con.close()
    assert first.exact is not None
    assert plain(first.rows) == plain(again.rows) == expected
    assert [have for have, want in zip(first.columns, names, strict=True) if want.isidentifier() and have != want] == []


def test_a_recall_has_the_order_of_its_own_statement(tmp_path: Path) -> None:
    config = Config.parse(f"[book]\npath = '{tmp_path / 'b'}'\n")
    with keyhole.session(config, data=ITEMS, private="pay:..10000000000", id="id", exact_above=1) as session:
        up = session.ask("SELECT age, SUM(pay) FROM t GROUP BY age ORDER BY age")
        down = session.ask("SELECT SUM(pay), age FROM t GROUP BY age ORDER BY age DESC")
    assert up.entry == down.entry
    assert [row[::-1] for row in down.rows] == list(up.rows)[::-1]
    assert down.exact == tuple(up.exact or ())[::-1]
