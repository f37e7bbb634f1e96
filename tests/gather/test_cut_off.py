"""Rows that a LIMIT surely shows or surely cuts off: compared with the rows that DuckDB gives."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import keyhole

PEOPLE = pa.table(
    {
        "name": ["Ann", "Bob", "Cyd", "Dan", "Eve", "Fay"],
        "zip": [1, 2, 3, 4, None, 5],
        "town": ["b", "B", "a", "c", None, "ä"],
        "side": ["l", "l", "l", "r", "r", "r"],
        "pay": [10, 20, 30, 40, 50, 60],
    }
)


def told(sql: str, dialect: str = "duckdb") -> dict[str, tuple[str, bool]]:
    verdict = keyhole.audit([sql], data=PEOPLE, private=["pay:0..1000"], id="name", dialect=dialect)
    assert not verdict.refused, verdict.refused
    return {f.who: (str(f.status), f.if_shown) for f in verdict.exposure.findings}


def shown_by_duckdb(sql: str) -> set[str]:
    """Who is alone in a row of the result, by their pay."""
    people = PEOPLE  # noqa: F841  (the engine finds it by its name)
    rows = duckdb.sql(sql).fetchall()
    owner = dict(zip(PEOPLE["pay"].to_pylist(), PEOPLE["name"].to_pylist(), strict=True))
    return {owner[row[-1]] for row in rows}


@pytest.mark.parametrize(
    "tail",
    [
        "GROUP BY zip ORDER BY zip LIMIT 1",
        "GROUP BY zip ORDER BY zip LIMIT 0",
        "GROUP BY zip ORDER BY 1 DESC LIMIT 2",
        "GROUP BY zip ORDER BY zip NULLS FIRST LIMIT 2",
        "GROUP BY zip ORDER BY -zip LIMIT 2 OFFSET 1",
        "GROUP BY zip ORDER BY zip DESC OFFSET 4",
        "GROUP BY zip ORDER BY zip OFFSET 9",
        "GROUP BY zip ORDER BY zip FETCH FIRST 3 ROWS ONLY",
        "WHERE zip > 2 GROUP BY zip ORDER BY zip LIMIT 1",
        "GROUP BY zip HAVING COUNT(*) = 1 AND zip > 1 ORDER BY zip LIMIT 2",
        "GROUP BY zip ORDER BY COUNT(*), zip LIMIT 2",
        "GROUP BY zip QUALIFY ROW_NUMBER() OVER (ORDER BY zip) <= 2",
        "GROUP BY zip QUALIFY ROW_NUMBER() OVER (ORDER BY zip DESC) = 2",
        "GROUP BY zip QUALIFY ROW_NUMBER() OVER (ORDER BY zip DESC) < 3 ORDER BY 2",
    ],
)
def test_a_public_order_says_which_rows_are_shown(tail: str) -> None:
    sql = f"SELECT zip, SUM(pay) FROM people {tail}"
    assert told(sql) == dict.fromkeys(shown_by_duckdb(sql), ("exposed", False))


@pytest.mark.parametrize("way", ["", " DESC", " NULLS FIRST", " DESC NULLS FIRST"])
def test_texts_are_ordered_as_the_engine_orders_them(way: str) -> None:
    sql = f"SELECT town, SUM(pay) FROM people GROUP BY town ORDER BY town{way} LIMIT 3"
    assert told(sql) == dict.fromkeys(shown_by_duckdb(sql), ("exposed", False))


def test_random_cuts_are_those_of_the_engine() -> None:
    rng = random.Random(13)
    for _ in range(8):
        key = rng.choice(("zip", "town", "name", "zip + 1", "LOWER(name)"))
        order = f"{rng.choice(('k', '1'))}{rng.choice(('', ' DESC', ' NULLS FIRST'))}"
        cut = f"LIMIT {rng.randrange(7)}" + (f" OFFSET {rng.randrange(4)}" if rng.random() < 0.5 else "")
        sql = f"SELECT {key} AS k, SUM(pay) FROM people GROUP BY {key} ORDER BY {order} {cut}"
        assert told(sql) == dict.fromkeys(shown_by_duckdb(sql), ("exposed", False)), sql


IF_SHOWN = ("inferred", True)


@pytest.mark.parametrize(
    ("tail", "found"),
    [
        ("GROUP BY name LIMIT 2", dict.fromkeys(("Ann", "Bob", "Cyd", "Dan", "Eve", "Fay"), IF_SHOWN)),
        ("GROUP BY name, side ORDER BY side LIMIT 2", dict.fromkeys(("Ann", "Bob", "Cyd"), IF_SHOWN)),
        ("GROUP BY name, side ORDER BY side LIMIT 4",
         dict.fromkeys(("Ann", "Bob", "Cyd"), ("exposed", False)) | dict.fromkeys(("Dan", "Eve", "Fay"), IF_SHOWN)),
        ("WHERE name < 'C' GROUP BY name ORDER BY SUM(pay) LIMIT 1", dict.fromkeys(("Ann", "Bob"), IF_SHOWN)),
        ("WHERE name < 'C' GROUP BY name ORDER BY name LIMIT 50%", dict.fromkeys(("Ann", "Bob"), IF_SHOWN)),
        ("WHERE name < 'C' GROUP BY name ORDER BY pay_all LIMIT 1", dict.fromkeys(("Ann", "Bob"), IF_SHOWN)),
    ],
)  # fmt: skip
def test_ties_and_private_orders_are_not_sure(tail: str, found: dict[str, Any]) -> None:
    assert told(f"SELECT name, SUM(pay) AS pay_all FROM people {tail}") == found


@pytest.mark.parametrize(
    ("dialect", "sql", "sure"),
    [
        ("postgres", "SELECT zip, SUM(pay) FROM people WHERE zip > 0 GROUP BY zip ORDER BY zip LIMIT 1", True),
        ("tsql", "SELECT TOP 1 zip, SUM(pay) AS s FROM people WHERE zip > 0 GROUP BY zip ORDER BY zip", True),
        ("mysql", "SELECT zip, SUM(pay) FROM people WHERE zip > 0 GROUP BY zip ORDER BY zip LIMIT 0, 1", True),
        ("postgres", "SELECT zip, SUM(pay) FROM people GROUP BY zip ORDER BY zip LIMIT 1", False),  # NULL first or last
        ("postgres", "SELECT name, SUM(pay) FROM people GROUP BY name ORDER BY name LIMIT 1", False),  # collation
        ("tsql", "SELECT TOP 1 PERCENT zip, SUM(pay) AS s FROM people WHERE zip > 0 GROUP BY zip ORDER BY zip", False),
    ],
)
def test_other_engines_order_whole_numbers_alike(dialect: str, sql: str, sure: bool) -> None:
    found = told(sql, dialect)
    assert found["Ann"] == (("exposed", False) if sure else IF_SHOWN)
    assert (len(found) == 1) is sure


def test_what_is_listed_of_a_public_order_leaves_nothing_to_guess() -> None:
    sql = "SELECT zip, SUM(pay) FROM people WHERE zip > 0 GROUP BY zip ORDER BY zip LIMIT 1"
    line = {"sql": sql, "answer": [{"key": {"zip": 1}, "values": [10]}]}
    verdict = keyhole.audit([line], data=PEOPLE, private=["pay"], id="name")
    assert [(f.who, f.if_shown) for f in verdict.exposure.findings] == [("Ann", False)]
