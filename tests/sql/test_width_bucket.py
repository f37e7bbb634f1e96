"""WIDTH_BUCKET against PostgreSQL itself: on every end, beside it, beyond both; rising and falling."""

from __future__ import annotations

import random
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp
from tests.support.postgres import Postgres

import keyhole
from keyhole.model.schema import Column, Kind, Schema
from keyhole.sql import translate_to_duckdb
from keyhole.sql.dialects.postgres import expand_width_bucket
from keyhole.sql.dialects.types import NotPortable

SCHEMA = Schema("t", (Column("n", Kind.INTEGER), Column("d", Kind.DECIMAL, digits=2), Column("x", Kind.DOUBLE)))
FIXED = (
    "0, 10, 5",
    "10, 0, 5",
    "-10, 90, 4",
    "90, -10, 4",
    "0, 100, 3",
    "100, 0, 7",
    "5, 6, 3",
    "0, 1, 100",
    "3, -3, 1",
)
OURS = duckdb.connect()


def numbers(first: Fraction, last: Fraction, count: int) -> list[Fraction]:
    """Every end on the grid of hundredths, the numbers beside it, and whole numbers around."""
    ends = [first + (last - first) * k / count for k in range(count + 1)]
    near = {Fraction(round(end * 100) + by, 100) for end in ends for by in (-1, 0, 1)}
    return sorted(near | {Fraction(round(end) + by) for end in ends for by in (-1, 0, 1)})


def asked(seed: int, many: int) -> list[str]:
    rng = random.Random(seed)
    drawn = []
    for _ in range(many):
        scale = rng.choice((1, 1, 10, 100))
        first, last = (Fraction(rng.randrange(-200, 200), scale) for _ in range(2))
        if first != last:
            drawn.append(f"{float(first):g}, {float(last):g}, {rng.randrange(1, 101)}")
    return drawn


def compared(postgres: Postgres, bounds: list[str]) -> int:
    """How many translations there were; each of them gives what PostgreSQL gives, on all numbers."""
    script, ours = ["CREATE TEMP TABLE t (n BIGINT, d NUMERIC(20, 2));"], []
    for text in bounds:
        first, last, count = (Fraction(part) for part in text.split(","))
        values = [None, *numbers(first, last, int(count))]
        for column in ("n", "d"):
            held = [
                "NULL" if v is None else f"{float(v):.2f}" for v in values if v is None or column == "d" or v == int(v)
            ]
            made = translate_to_duckdb(f"SELECT WIDTH_BUCKET({column}, {text}) FROM t", "postgres", SCHEMA)
            if made.reason:
                assert "WIDTH_BUCKET" in made.reason
                continue
            rows = ", ".join(f"({v})" for v in held)
            script.append(f"TRUNCATE t; INSERT INTO t ({column}) VALUES {rows};")
            script.append(
                f"SELECT string_agg(coalesce(width_bucket({column}, {text})::text, '-'), ' ' ORDER BY {column}) FROM t;"
            )
            kind = "BIGINT" if column == "n" else "DECIMAL(20, 2)"
            OURS.execute(f"CREATE OR REPLACE TABLE t AS SELECT v::{kind} AS {column} FROM (VALUES {rows}) AS w(v)")
            found = OURS.execute(f"{made.sql} ORDER BY {column} NULLS LAST").fetchall()
            ours.append((text, column, " ".join("-" if b is None else str(b) for (b,) in found)))
    for (text, column, mine), said in zip(ours, postgres.run("\n".join(script)), strict=True):
        assert mine == said, f"WIDTH_BUCKET({column}, {text})"
    return len(ours)


def test_it_gives_what_postgres_gives(postgres: Postgres) -> None:
    assert compared(postgres, [*FIXED, *asked(13, 20)]) > 30


@pytest.mark.soak
def test_it_gives_what_postgres_gives_at_length(postgres: Postgres) -> None:
    seed = random.SystemRandom().randrange(10**9)
    assert compared(postgres, asked(seed, 1500)) > 1000, f"seed {seed}"


def later(x: int, first: int, last: int, count: int) -> int:
    """The formula of PostgreSQL 17 and later for whole numbers, which does not run here."""
    if (x < first) if first < last else (x > first):
        return 0
    if (x >= last) if first < last else (x <= last):
        return count + 1
    return min(int(count * ((float(x) - first) / (float(last) - first))), count - 1) + 1


def test_no_version_puts_a_whole_number_elsewhere() -> None:
    """Either all whole numbers are where later versions put them, too, or it is not judged and the remedy is named."""
    judged = 0
    for first, last in ((0, 100), (100, 0), (-7, 13), (0, 7), (1, 50)):
        for count in (1, 2, 3, 5, 7, 10, 20, 30, 49, 50, 64, 90, 99, 100):
            node = sqlglot.parse_one(f"WIDTH_BUCKET(n, {first}, {last}, {count})", read="postgres")
            assert isinstance(node, exp.WidthBucket)
            try:
                case = expand_width_bucket(node, 0, True).sql(dialect="duckdb")
            except NotPortable:
                continue
            judged += 1
            rows = OURS.execute(f"SELECT n, {case} FROM range(-110, 111) AS r(n)").fetchall()
            assert all(later(n, first, last, count) == bucket for n, bucket in rows), (first, last, count)
    assert judged > 40
    assert "(0.0)" in translate_to_duckdb("SELECT WIDTH_BUCKET(n, 0, 100, 100) FROM t", "postgres", SCHEMA).reason
    assert not translate_to_duckdb("SELECT WIDTH_BUCKET(n, 0.0, 100, 100) FROM t", "postgres", SCHEMA).reason


def test_bounds_in_an_array(postgres: Postgres) -> None:
    for column, bounds in (("n", "1, 5, 10"), ("d", "-2.5, 0, 2.5")):
        made = translate_to_duckdb(f"SELECT WIDTH_BUCKET({column}, ARRAY[{bounds}]) AS b FROM t", "postgres", SCHEMA)
        assert not made.reason, made.reason
        cast = "BIGINT" if column == "n" else "NUMERIC(9, 2)"
        values = "(-3), (-2.5), (0), (1), (2.5), (4), (5), (9.99), (10), (11)"
        t = f"(SELECT v::{cast} AS {column} FROM (VALUES {values}) AS w(v)) AS t"
        said = postgres.run(f"SELECT width_bucket({column}, ARRAY[{bounds}]) FROM {t} ORDER BY {column}")
        assert said == [
            str(b) for (b,) in OURS.execute(f"{made.sql.replace('FROM t', f'FROM {t}')} ORDER BY b").fetchall()
        ]


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("WIDTH_BUCKET(x, 0, 10, 5)", "a fraction stands there"),
        ("WIDTH_BUCKET(n, 0, 10, n)", "between constants"),
        ("WIDTH_BUCKET(n, 5, 5, 3)", "between two bounds"),
        ("WIDTH_BUCKET(n, 0, 5, 0)", "1 to 100 buckets"),
        ("WIDTH_BUCKET(n, 0, 5, 101)", "1 to 100 buckets"),
        ("WIDTH_BUCKET(n, 0, 5, 2.5)", "1 to 100 buckets"),
        ("WIDTH_BUCKET(d * 0.1, 0, 1, 3)", "9 digits"),
        ("WIDTH_BUCKET(n, ARRAY[5, 1])", "ascending constants"),
        ("WIDTH_BUCKET(n, ARRAY[1, n])", "ascending constants"),
        ("n = ANY(ARRAY[1, n])", "may give something else"),
    ],
)
def test_what_is_not_sure_is_not_judged(expression: str, says: str) -> None:
    assert says in translate_to_duckdb(f"SELECT {expression} FROM t", "postgres", SCHEMA).reason


DATA = pa.table({"name": ["Ann", "Bob", "Cyd", "Dan"], "zip": [1, 1, 2, 2], "pay": [5, 15, 25, 99]})


def ranges(log: str, dialect: str) -> list[tuple[str, object, object]]:
    found = keyhole.audit(log, data=DATA, private="pay", id="name", dialect=dialect)
    assert found.statements.judged == 1
    return sorted((str(f.record), f.lo, f.hi) for f in (*found.findings, *found.ranges))


@pytest.mark.parametrize("key", ["zip", "name"])
def test_buckets_of_a_private_column_are_cells(key: str) -> None:
    """Each count of a bucket is a count under a private condition: inside the bounds and beyond both."""
    bucket = "CASE WHEN pay < 10 THEN 0 WHEN pay < 20 THEN 1 WHEN pay < 30 THEN 2 ELSE 3 END"
    rising = ranges(f"SELECT {key}, WIDTH_BUCKET(pay, 10, 30, 2) AS b, COUNT(*) FROM t GROUP BY 1, 2", "postgres")
    assert rising == ranges(f"SELECT {key}, {bucket} AS b, COUNT(*) FROM t GROUP BY 1, 2", "duckdb")
    falling = "CASE WHEN pay > 30 THEN 0 WHEN pay > 20 THEN 1 WHEN pay > 10 THEN 2 ELSE 3 END"
    turned = ranges(f"SELECT {key}, WIDTH_BUCKET(pay, 30, 10, 2) AS b, COUNT(*) FROM t GROUP BY 1, 2", "postgres")
    assert turned == ranges(f"SELECT {key}, {falling} AS b, COUNT(*) FROM t GROUP BY 1, 2", "duckdb")
    assert (key == "zip") or 30 in [lo for _, lo, _ in rising]
