"""Every part of a statement is claimed by a reader: what hides a private value in a clause is never an all-clear."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from planting import ANN, BASES, MOST, PEOPLE, depends_on_ann, find_cleared, survivors

from keyhole.cli import app
from keyhole.errors import QueryError
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql import Unread, read_statement


def exit_code(folder: Path, log: str, dialect: str = "duckdb") -> int:
    (folder / "t.csv").write_text(PEOPLE)
    (folder / "log.sql").write_text(log)
    who = ["--data", str(folder / "t.csv"), "--id", "name", "--private", "kids:real"]
    done = CliRunner().invoke(app, ["audit", str(folder / "log.sql"), *who, "--dialect", dialect, "--format", "json"])
    assert done.exit_code in (0, 1, 3), done.output
    counts = json.loads(done.stdout)["statements"]
    assert done.exit_code != 0 or counts["judged"] == counts["total"] > 0
    return done.exit_code


FRAME = "(ORDER BY age ROWS BETWEEN MAX(kids) PRECEDING AND CURRENT ROW)"
TWICE = "(SELECT age AS g, dept, AVG(kids) AS m FROM t GROUP BY age, dept)"
BY_AGE = "SELECT age, COUNT(*) FROM t GROUP BY age"
CLEAR = [
    f"{BY_AGE} ORDER BY age LIMIT 2",
    f"{BY_AGE} ORDER BY age LIMIT 2 OFFSET 1",
    "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t GROUP BY age",
    "SELECT 1 AS k, COUNT(*) FROM t UNION ALL SELECT 2, COUNT(*) FROM t ORDER BY ABS(k - 2), k",
    "SELECT dept, COUNT(*) FROM t GROUP BY dept QUALIFY ROW_NUMBER() OVER (ORDER BY dept) <= 1",
    (
        "WITH a AS (SELECT age, COUNT(*) AS n FROM t GROUP BY age) "
        "SELECT age, COUNT(*), (SELECT n FROM a WHERE a.age = t.age) FROM t GROUP BY age"
    ),
]
HIDING = [
    f"{BY_AGE} ORDER BY age LIMIT {ANN}",
    f"{BY_AGE} ORDER BY age OFFSET {ANN}",
    f"{BY_AGE} ORDER BY age LIMIT 3 OFFSET {ANN}",
    f"{BY_AGE} ORDER BY age FETCH FIRST {ANN} ROWS ONLY",
    f"{BY_AGE} ORDER BY age LIMIT {MOST}",
    f"WITH a AS (SELECT age, COUNT(*) AS n FROM t GROUP BY age) SELECT * FROM a ORDER BY age LIMIT {ANN}",
    f"WITH k AS (SELECT kids FROM t WHERE name = 'Ann') {BY_AGE} ORDER BY age LIMIT (SELECT kids FROM k)",
    f"({BY_AGE}) ORDER BY ABS(age - {ANN})",
    f"({BY_AGE} ORDER BY age) LIMIT {ANN}",
    f"{BY_AGE} UNION ALL {BY_AGE} ORDER BY 1 LIMIT {ANN}",
    f"SELECT age, SUM(COUNT(*)) OVER {FRAME} FROM t GROUP BY age",
    f"SELECT age, SUM(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN {ANN} PRECEDING AND CURRENT ROW) FROM t GROUP BY age",
    f"SELECT age, SUM(COUNT(*)) OVER w FROM t GROUP BY age WINDOW w AS {FRAME}",
    f"{BY_AGE} QUALIFY SUM(COUNT(*)) OVER {FRAME} > 1",
    f"{BY_AGE} QUALIFY ROW_NUMBER() OVER (ORDER BY age) <= {ANN}",
    f"{BY_AGE} QUALIFY COUNT(*) > {MOST}",
    f"SELECT dept, MAX(kids) FROM t GROUP BY dept QUALIFY MAX(kids) > {MOST}",
    f"SELECT 1 AS k, COUNT(*) FROM t UNION ALL SELECT 2, 6 UNION ALL SELECT 3, 6 ORDER BY ABS(k - {ANN}), k",
    f"SELECT 1 AS k, COUNT(*) FROM t UNION SELECT 2, COUNT(*) FROM t ORDER BY ABS(k - {MOST})",
    f"SELECT * FROM (SELECT 1 AS k, COUNT(*) AS n FROM t UNION ALL SELECT 2, 3 ORDER BY ABS(k - {ANN}) LIMIT 1)",
    f"SELECT DISTINCT ON (ABS(age - {ANN})) age, COUNT(*) FROM t GROUP BY age",
    f"SELECT dept, COUNT(*) FILTER (WHERE age > 10 * {ANN}) FROM t GROUP BY dept",
    f"SELECT age, GROUPING(age), COUNT(*) FROM t GROUP BY ROLLUP (age) ORDER BY GROUPING(age) * {MOST}, age",
    f"SELECT COUNT(*) FROM t GROUP BY age % {ANN}",
    f"SELECT COUNT(*) FROM t TABLESAMPLE reservoir({ANN})",
    "SELECT COUNT(*) FROM t USING SAMPLE 3",
    f"SELECT v, COUNT(*) FROM t, (VALUES ({ANN})) AS x(v) GROUP BY v",
    f"SELECT COUNT(*) FROM t, LATERAL (SELECT age WHERE age > 10 * {ANN}) AS x",
    f"SELECT COUNT(*) FROM t CROSS JOIN generate_series(1, {ANN})",
    f"SELECT COUNT(*) FROM t JOIN (SELECT {ANN} AS k) AS x ON age > 10 * k",
    f"SELECT age, COUNT(*) FROM t GROUP BY age ORDER BY ABS(age - 10 * {ANN})",
    f"SELECT g, AVG(m) FROM {TWICE} GROUP BY g ORDER BY ABS(g - 10 * {MOST})",
    f"SELECT COALESCE(COUNT(*), {ANN}) FROM t",
    f"SELECT COUNT(*) FROM t HAVING COUNT(*) > {ANN}",
    f"SELECT CAST(COUNT(*) AS DECIMAL(9, 2)), {ANN} FROM t",
    f"SELECT dept, COUNT(*) FROM t GROUP BY dept ORDER BY (CASE WHEN {ANN} > 1 THEN dept END) COLLATE nocase",
    f"PIVOT t ON dept USING COUNT(*) GROUP BY {ANN}",
    "SELECT age, COUNT(*), (SELECT MAX(kids)) FROM t GROUP BY age",
    "WITH a AS (SELECT COUNT(*) AS n FROM t) SELECT age, COUNT(*), (SELECT MAX(kids) FROM a) FROM t GROUP BY age",
    "WITH a AS (SELECT COUNT(*) AS kids FROM t) SELECT age, COUNT(*), (SELECT MAX(t.kids) FROM a) FROM t GROUP BY age",
    "SELECT age, COUNT(*), (SELECT MAX(k)) FROM (SELECT age, kids * 2 AS k FROM t) AS x GROUP BY age",
    "SELECT age, COUNT(*), (SELECT MAX(name)) FROM t WHERE kids > 2 GROUP BY age",
    "SELECT age, COUNT(*), (SELECT MAX(u.age) + MAX(t.kids) FROM t AS u) FROM t GROUP BY age",
    "SELECT age, COUNT(*) FROM t GROUP BY age HAVING EXISTS (SELECT 1 WHERE MAX(kids) > 1)",
    "SELECT age, COUNT(*) FROM t GROUP BY age ORDER BY (SELECT MAX(kids))",
    "WITH a AS (SELECT * FROM t WHERE name = 'Ann') SELECT COUNT(*) FROM t WHERE kids > (SELECT MAX(kids) FROM a)",
    "WITH a AS (MAX(kids)) SELECT age, n FROM a ORDER BY n",
    "WITH a AS ((SELECT MAX(kids))) SELECT age, n FROM a ORDER BY n",
    "SELECT age, COUNT(*) FROM LATERAL MAX(kids) GROUP BY age",
    "SELECT DISTINCT dept FROM t ORDER BY kids",
    "SELECT DISTINCT dept, age FROM t ORDER BY 1, 2, kids",
    f"SELECT DISTINCT dept FROM t ORDER BY 1, {ANN}",
    f"SELECT CORR(age, age, {ANN}) FROM t",
    f"SELECT COUNT(*), APPROX_COUNT_DISTINCT(age, {ANN}) FROM t",
    f"SELECT dept, COUNT_IF(age > 3, {MOST} > 1) FROM t GROUP BY dept",
    f"SELECT COUNT(*) FROM t WHERE age > CAST('3' AS INT({ANN}))",
]
PRINTING = [
    *("SET LOCATION MAX(kids)", "SET x := MAX(kids)", "SET x TO my_function('t')", "LET x := my_function('t')"),
    *("DECLARE MAX(kids)", "DECLARE x DECIMAL(MAX(kids))", "DECLARE x INT DEFAULT my_function('t')"),
    *("PRAGMA storage_info('t')", "SUMMARIZE t", "SUMMARIZE SELECT kids FROM t", "ANALYZE VERBOSE t", "DESCRIBE t"),
    *("EXPLAIN ANALYZE SELECT COUNT(*) FROM t WHERE kids > 2", "SHOW STATS FOR t", "SELECT * FROM pg_stats"),
    *("SELECT most_common_vals FROM pg_catalog.pg_stats WHERE tablename = 't'", "PRAGMA enable_profiling"),
    *("SELECT MAX(stats) FROM pragma_storage_info('t')", "SELECT COUNT(*) FROM duckdb_tables()", "SELECT stats('t')"),
    *("SELECT estimated_size FROM duckdb_tables()", "SELECT n_live_tup FROM pg_stat_user_tables"),
    *(
        "SELECT reltuples FROM pg_class",
        "SELECT * FROM sqlite_stat1",
        "SELECT table_rows FROM information_schema.tables",
    ),
    *("SELECT SUM(table_rows) FROM information_schema.tables", "SELECT SUM(reltuples) FROM pg_class"),
    *(
        "SELECT MAX(stat) FROM sqlite_stat4",
        "SELECT SUM(kids) FROM mysql.innodb_table_stats",
        "SELECT * FROM sys.stats",
    ),
]


@pytest.mark.parametrize("statement", CLEAR)
def test_without_anything_private_it_is_clear(statement: str, tmp_path: Path) -> None:
    assert exit_code(tmp_path, statement) == 0


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
@pytest.mark.parametrize("statement", HIDING)
def test_what_hides_a_private_subquery_is_never_clear(statement: str, dialect: str, tmp_path: Path) -> None:
    assert exit_code(tmp_path, statement, dialect) != 0


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "mysql"])
@pytest.mark.parametrize("statement", PRINTING)
def test_what_prints_statistics_is_never_clear(statement: str, dialect: str, tmp_path: Path) -> None:
    assert exit_code(tmp_path, f"SELECT COUNT(*) FROM t;\n{statement};", dialect) != 0


@pytest.mark.parametrize(
    ("statement", "dialect"),
    [
        ("SELECT /*+ SET_VAR(sql_mode = '') */ COUNT(*) FROM t", "mysql"),
        ("SELECT /*+ SAMPLE(t 10) */ COUNT(*) FROM t", "spark"),
        ("SELECT COUNT(*) FROM t /*! WHERE kids > 2 */", "mysql"),
        ("SELECT COUNT(*) FROM t /*M! WHERE kids > 2 */", "mysql"),
        ("SELECT COUNT(*) FROM t /*!50000 LIMIT 3 */", "unknown"),
        ("SELECT COUNT(*) FROM t WITH (READPAST)", "tsql"),
        ("SELECT COUNT(*) FROM t OPTION (MAXDOP 1)", "tsql"),
        ("SELECT COUNT(*) FROM t PARTITION (p0)", "mysql"),
        ("SELECT COUNT(*) FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '2020-01-01'", "bigquery"),
        ("SELECT COUNT(*) FROM t AT (OFFSET => -60)", "snowflake"),
        ("SELECT COUNT(*) FROM ONLY t", "postgres"),
        ("SELECT dept COLLATE nocase, COUNT(*) FROM t GROUP BY dept COLLATE nocase", "duckdb"),
        ("SELECT COUNT(*) FROM t WHERE dept = 'A' COLLATE nocase", "sqlite"),
        ("SELECT COUNT(*) FROM t FOR UPDATE SKIP LOCKED", "postgres"),
        ("SELECT SQL_CALC_FOUND_ROWS age, COUNT(*) FROM t GROUP BY age LIMIT 1", "mysql"),
        (
            "SELECT dept, COUNT(*) FROM t GROUP BY dept UNION ALL BY NAME SELECT dept, COUNT(*) FROM t GROUP BY dept",
            "duckdb",
        ),
        ("SELECT COUNT(*) FROM t ASOF JOIN t AS u ON t.age >= u.age", "duckdb"),
        ("SELECT COUNT(*) FROM t POSITIONAL JOIN t AS u", "duckdb"),
        ("SELECT COUNT(*) FROM t NATURAL JOIN t AS u", "duckdb"),
    ],
)
def test_options_that_nobody_reads_are_not_judged(statement: str, dialect: str, tmp_path: Path) -> None:
    assert exit_code(tmp_path, statement, dialect) == 3


def test_the_statements_that_are_planted_into_are_clear() -> None:
    assert find_cleared(BASES, "duckdb") == (list(BASES), len(BASES))


def planted_and_cleared(dialect: str, rng: random.Random | None) -> tuple[int, int, int]:
    """How many statements have a plant, how many of them are read, and how many arguments of nodes take no plant.

    What ends in exit 0 must answer the same whatever Ann has.
    """
    texts, lost = survivors(dialect, rng)
    cleared, readable = find_cleared(list(texts), dialect)
    assert [(texts[text], text) for text in cleared if depends_on_ann(text, dialect)] == []
    return len(texts), readable, lost


def test_no_place_of_the_grammar_hides_a_private_value() -> None:
    planted, readable, _ = planted_and_cleared("duckdb", random.Random(1))
    assert planted > 1000
    assert readable > 50


@pytest.mark.soak
@pytest.mark.parametrize(
    "dialect", ["duckdb", "postgres", "sqlite", "mysql", "tsql", "bigquery", "snowflake", "spark", "trino"]
)
def test_no_place_of_any_grammar_hides_a_private_value(dialect: str) -> None:
    planted, readable, lost = planted_and_cleared(dialect, None)
    print(f"{dialect}: {planted} statements with a plant, {readable} read, {lost} arguments take none")  # noqa: T201
    assert planted > 5000


def form_of(sql: str, dialect: str) -> object:
    """What a statement is read as, without its words; the statement itself if it is not judged."""
    schema = Schema("t", (Column("kids", Kind.INTEGER, Role.PRIVATE), Column("dept", Kind.TEXT)))
    try:
        parts = read_statement(sql, dialect, schema)
    except (QueryError, Unread):
        return sql
    unlabelled = (replace(part, queries=tuple(replace(q, label="") for q in part.queries)) for part in parts)
    return tuple(replace(part, text="", written="") for part in unlabelled)


@pytest.mark.parametrize(
    ("one", "other", "dialect"),
    [
        ("CAST(AVG(kids) AS DECIMAL(9, 1))", "CAST(AVG(kids) AS DECIMAL(9, 2))", "duckdb"),
        ("CAST(AVG(kids) AS DECIMAL(9))", "CAST(AVG(kids) AS DECIMAL(9, 3))", "duckdb"),
        ("SUM(CAST(kids AS DECIMAL(4, 1)))", "SUM(CAST(kids AS DECIMAL(4, 2)))", "duckdb"),
        (
            "MAX(kids) FILTER (WHERE kids = CAST('1.25' AS DECIMAL(9, 1)))",
            "MAX(kids) FILTER (WHERE kids = 1.25)",
            "duckdb",
        ),
        ("TRY_CAST(AVG(kids) AS DECIMAL(9, 1))", "TRY_CAST(AVG(kids) AS DECIMAL(9, 2))", "duckdb"),
        ("CAST(AVG(kids) AS DECIMAL(9, 1))", "CAST(AVG(kids) AS DECIMAL(9, 2))", "postgres"),
        (
            "SUM(CASE CAST(dept AS VARCHAR(1)) WHEN 'a' THEN kids END)",
            "SUM(CASE dept WHEN 'a' THEN kids END)",
            "postgres",
        ),
        (
            "COUNT(CASE WHEN dept = CAST('ab' AS CHAR(1)) THEN 1 END)",
            "COUNT(CASE WHEN dept = 'ab' THEN 1 END)",
            "postgres",
        ),
    ],
)
def test_the_arguments_of_a_type_are_read(one: str, other: str, dialect: str) -> None:
    first, second = (form_of(f"SELECT dept, {item} FROM t GROUP BY dept", dialect) for item in (one, other))
    assert first != second
