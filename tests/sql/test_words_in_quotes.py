"""Text in double quotes: read where the engine takes it for text, as SQLite answers; elsewhere shown corrected."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import product

import pytest

from keyhole.errors import QueryError
from keyhole.model.schema import Column, Kind, Schema
from keyhole.sql import lower_statement
from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.dialects.to_duckdb import translate_to_duckdb

SCHEMA = Schema("t", (Column("s", Kind.TEXT), Column("u", Kind.TEXT), Column("n", Kind.INTEGER)))
TEXTS = (None, "s", "u", "S", "a", "A", "rowid", "it's", "n", "t", "")
WORDS = ("a", "A", "s", "U", "n", "rowid", "b c", "t")
CONDITIONS = (
    's = "{}"',
    '"{}" = s',
    's <> "{}"',
    's IN ("{}", "a")',
    "s = '{}'",
    'n = "{}"',
    't.s = "{}"',
    '"s" = "{}"',
)


def counted(engine: sqlite3.Connection, sql: str) -> list[tuple[object, ...]]:
    try:
        return engine.execute(sql).fetchall()
    except sqlite3.OperationalError:
        return []


@pytest.mark.parametrize("condition", CONDITIONS)
def test_as_sqlite_answers(condition: str) -> None:
    """What is read gives, in single quotes and run by SQLite, what SQLite gives for the statement as it was written."""
    read = 0
    with closing(sqlite3.connect(":memory:")) as engine:
        engine.execute("CREATE TABLE t (s TEXT, u TEXT, n INTEGER)")
        rows = [(a, b, k) for k, (a, b) in enumerate(product(TEXTS, TEXTS))]
        engine.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        for word in WORDS:
            sql = f"SELECT COUNT(*) FROM t WHERE {condition.format(word)}"
            found = translate_to_duckdb(sql, Dialect.SQLITE, SCHEMA)
            if not found.reason:
                assert counted(engine, found.sql) == counted(engine, sql), (sql, found.sql)
                read += found.sql != sql
    assert read >= 3 or condition in ("s = '{}'", 'n = "{}"', 't.s = "{}"')


def test_no_text_where_the_word_may_be_a_name() -> None:
    for sql in (
        'SELECT COUNT(*) AS "a" FROM t WHERE s = "a"',
        'SELECT COUNT(*) FROM t JOIN o ON t.n = o.n WHERE s = "a"',
        'SELECT COUNT(*) FROM (SELECT s AS a, s FROM t) WHERE s = "a"',
        'WITH c AS (SELECT s AS a, s FROM t) SELECT COUNT(*) FROM c WHERE s = "a"',
        "SELECT COUNT(*) FROM t WHERE s = `a`",
        "SELECT COUNT(*) FROM t WHERE s = [a]",
        'SELECT COUNT(*) FROM t WHERE s = "rowid"',
    ):
        found = translate_to_duckdb(sql, Dialect.SQLITE, SCHEMA)
        assert "'a'" not in found.sql
        assert "'rowid'" not in found.sql


@pytest.mark.parametrize("dialect", [Dialect.BIGQUERY, Dialect.SQLITE])
def test_engines_that_take_it_for_text(dialect: Dialect) -> None:
    found = translate_to_duckdb('SELECT COUNT(*) FROM t WHERE s = "male"', dialect, SCHEMA)
    assert not found.reason
    assert "'male'" in found.sql


def test_elsewhere_the_corrected_statement_is_shown() -> None:
    with pytest.raises(QueryError) as error:
        lower_statement('SELECT COUNT(*) FROM t WHERE s = "it\'s so"', SCHEMA)
    assert error.value.message.endswith("Write: SELECT COUNT(*) FROM t WHERE s = 'it''s so'")


def test_postgres_says_that_text_takes_single_quotes() -> None:
    """Of words that no column and no alias has; a column of another kind is still told by its kind."""
    found = translate_to_duckdb('SELECT COUNT(*) FROM t WHERE u = "a" OR s = "it\'s so"', Dialect.POSTGRES, SCHEMA)
    right = "SELECT COUNT(*) FROM t WHERE u = 'a' OR s = 'it''s so'"
    said = "no column \"it's so\" is known here. Text takes single quotes: 'it''s so'"
    assert found.reason.endswith(f"{said}. Write: {right}")
    assert not translate_to_duckdb(right, Dialect.POSTGRES, SCHEMA).reason
    for sql in ('SELECT COUNT(*) FROM t WHERE s = "n"', "SELECT COUNT(*) FROM t WHERE s = it"):
        assert "single quotes" not in translate_to_duckdb(sql, Dialect.POSTGRES, SCHEMA).reason


@pytest.mark.parametrize("dialect", [Dialect.MYSQL, Dialect.BIGQUERY, Dialect.SPARK, Dialect.DATABRICKS])
def test_a_column_in_double_quotes_is_shown_in_backticks_where_these_are_texts(dialect: Dialect) -> None:
    """The statement that is shown is read as the same one in DuckDB's double quotes; a text stays a text."""
    schema = Schema("t", (Column("pay x", Kind.INTEGER), Column("s", Kind.TEXT), Column("n", Kind.INTEGER)))
    for sql in (
        'SELECT SUM("pay x") FROM t',
        'SELECT SUM("pay x" + 1) FROM t WHERE n = 2',
        'SELECT COUNT(DISTINCT "n") FROM t WHERE "pay x" > 3',
    ):
        reason = translate_to_duckdb(sql, dialect, schema).reason
        right = reason.partition(". Write: ")[2]
        assert right == sql.replace('"', "`"), reason
        assert translate_to_duckdb(right, dialect, schema).sql == sql
    assert translate_to_duckdb('SELECT COUNT(*) AS "n" FROM t WHERE n > 3', dialect, schema).reason.count("`") == 0
    assert "`" not in translate_to_duckdb("SELECT SUM('pay x') FROM t", dialect, schema).reason
