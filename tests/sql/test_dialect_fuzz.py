"""Random expressions in the real PostgreSQL and SQLite, row by row against what Keyhole makes of them in DuckDB."""

from __future__ import annotations

import secrets
from collections import Counter
from decimal import Decimal

import duckdb
import pytest
from dialect_fuzz import Random
from dialect_world import SCHEMA, Engine, RealPostgres, RealSqlite, Translated, differences, exactly
from tests.support.effort import effort
from tests.support.postgres import Postgres

from keyhole.errors import QueryError
from keyhole.model.predicate import format_predicate
from keyhole.sql import lower_statement, translate_to_duckdb


def compared(engine: Engine, seed: int | str, count: int) -> Counter[str]:
    """How many random expressions were judged and found equal, were not judged, or do not run in their engine."""
    maker, ours = Random(seed, engine.dialect), Translated()
    expressions = [maker.any_() for _ in range(count)]
    told: Counter[str] = Counter()
    for expression, said in zip(expressions, engine.values(expressions), strict=True):
        if said is None:
            told["does not run there"] += 1
            continue
        found, reason = ours.values(expression, engine.dialect)
        if reason:
            told["not judged"] += 1
        elif found is None:
            told["does not run in DuckDB"] += 1  # an audit then lists it: the engine refuses to run it
        else:
            exact = exactly(expression, engine.dialect) or not isinstance(found[0], float | Decimal)
            assert differences(said, found, exact) == [], f"seed {seed}: {expression}"
            told["judged"] += 1
            if all(v is None or v in (0, 1) for v in said):
                told["lowered"] += read(expression, engine.dialect, said, ours)
    return told


def read(expression: str, dialect: str, said: list[object], ours: Translated) -> int:
    """The condition as the audit evaluates it: 1 if it was read, and then it matches the same rows."""
    try:
        made = translate_to_duckdb(f"SELECT SUM(pay) FROM t WHERE {expression}", dialect, SCHEMA)
        where = format_predicate(lower_statement(made.sql, SCHEMA).where)
    except (QueryError, duckdb.Error):
        return 0
    if made.reason:
        return 0
    found = ours.run(f"SELECT id, COALESCE({where}, FALSE) FROM t")
    assert found is not None, expression
    assert [bool(v) for v in said] == found, f"{expression} is read as {where}"
    return 1


def test_sqlite() -> None:
    told = compared(RealSqlite(), 1, effort(750))
    assert told["judged"] > effort(250), told


def test_postgres(postgres: Postgres) -> None:
    told = compared(RealPostgres(postgres), 1, effort(750))
    assert told["judged"] > effort(250), told


@pytest.mark.soak
@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_many(name: str, request: pytest.FixtureRequest) -> None:
    engine = RealSqlite() if name == "sqlite" else RealPostgres(request.getfixturevalue("postgres"))
    start = secrets.randbelow(10**9)
    print(f"seeds from {start}")  # noqa: T201 - so that a failure can be repeated
    told: Counter[str] = Counter()
    for seed in range(start, start + 10):
        told += compared(engine, seed, 1000)
    print(name, dict(told))  # noqa: T201
    assert told["judged"] > 1500
