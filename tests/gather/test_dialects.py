"""A log of another engine: judged where it means the same in DuckDB, not judged elsewhere, never misread."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import keyhole
from keyhole.cli import app
from keyhole.errors import ConfigError
from keyhole.logs.open import IMPORTERS, LogFormat, open_log
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql import Dialect, translate_to_duckdb

# Bob's pay is the difference of what PostgreSQL answers to W2 (21 / 2 is 10 there), and nobody's in DuckDB.
PEOPLE = """name,age,zip,dept,born,left,pay
Ann,20,32453,a,1990-01-07,2020-01-01,10
Bob,21,43999,a,1991-02-03,2021-01-01,20
Cyd,22,43813,b,1992-03-04,2022-01-01,30
Dan,40,33000,b,1993-04-05,2023-01-01,40
Eve,50,43000,b,1994-05-06,2024-01-01,50
"""
SCHEMA = Schema(
    "t",
    (
        Column("name", Kind.TEXT),
        Column("age", Kind.INTEGER),
        Column("zip", Kind.INTEGER),
        Column("dept", Kind.TEXT),
        Column("born", Kind.DATE),
        Column("left", Kind.DATE),
        Column("pay", Kind.INTEGER),
        Column("rate", Kind.DOUBLE),
    ),
)
W2 = ("SELECT SUM(pay) FROM t WHERE age / 2 > 10", "SELECT SUM(pay) FROM t WHERE age >= 21")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(PEOPLE)
    return tmp_path


def written(kind: LogFormat, *statements: str) -> str:
    """An export with these statements."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    match kind:
        case LogFormat.POSTGRES_CSVLOG:
            for sql in statements:
                row = ["2026-11-15 10:00:00 UTC"] + [""] * 25
                row[13] = f"statement: {sql}"
                rows.writerow(row)
        case LogFormat.PG_STAT_STATEMENTS:
            rows.writerows([("query", "calls"), *((sql, 1) for sql in statements)])
        case LogFormat.SNOWFLAKE:
            rows.writerows([("QUERY_TEXT", "EXECUTION_STATUS"), *((sql, "SUCCESS") for sql in statements)])
        case LogFormat.BIGQUERY:
            rows.writerows([("job_id", "query"), *(("j", sql) for sql in statements)])
        case LogFormat.METABASE:
            cards = [{"name": "q", "dataset_query": {"native": {"query": sql}}} for sql in statements]
            return json.dumps(cards)
        case LogFormat.SUPERSET:
            return json.dumps({"result": [{"label": "q", "sql": sql} for sql in statements]})
        case LogFormat.DBT:
            nodes = {f"model.{i}": {"compiled_code": sql} for i, sql in enumerate(statements)}
            return json.dumps({"metadata": {"adapter_type": "postgres"}, "nodes": nodes})
        case LogFormat.MYSQL_GENERAL_LOG:
            lines = [f"2026-11-16T10:00:0{i}.000001Z\t    8 Query\t{sql}\n" for i, sql in enumerate(statements)]
            return "Time                 Id Command    Argument\n" + "".join(lines)
        case LogFormat.QUERY_STORE:
            head = ("query_id", "query_sql_text", "execution_type_desc")
            rows.writerows([head, *((i, sql, "Regular") for i, sql in enumerate(statements))])
        case LogFormat.REDSHIFT:
            rows.writerows([("userid", "querytxt", "aborted"), *((100, sql, 0) for sql in statements)])
        case LogFormat.DATABRICKS:
            head = ("statement_id", "execution_status", "executed_by", "statement_text")
            rows.writerows([head, *((f"s{i}", "FINISHED", "ann", sql) for i, sql in enumerate(statements))])
        case LogFormat.TRINO:
            state = {"queryState": "FINISHED"}
            events = [{"metadata": {"query": sql, **state}, "context": {"user": "ann"}} for sql in statements]
            return "".join(json.dumps(event) + "\n" for event in events)
        case _:
            raise AssertionError(kind)
    return out.getvalue()


def audited(folder: Path, text: str, *options: str) -> tuple[int, dict[str, Any]]:
    (folder / "log").write_text(text)
    call = ["audit", "log", "--data", "t.csv", "--id", "name", "--private", "pay", "--format", "json", *options]
    done = CliRunner().invoke(app, call)
    assert done.exit_code in (0, 1, 3), done.output
    return done.exit_code, json.loads(done.stdout)


FOREIGN = [kind for kind in IMPORTERS if kind is not LogFormat.DUCKDB]


CUT_SHORT = (  # where 21 / 2 is 10
    *(LogFormat.POSTGRES_CSVLOG, LogFormat.PG_STAT_STATEMENTS, LogFormat.DBT),
    *(LogFormat.QUERY_STORE, LogFormat.REDSHIFT, LogFormat.TRINO),
)


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_division_of_another_engine_is_translated_or_not_judged(folder: Path, kind: LogFormat) -> None:
    code, found = audited(folder, written(kind, *W2), "--log-format", str(kind))
    assert not found["refused"]
    if kind in CUT_SHORT:
        assert code == 1
        assert [(e["record"]["name"], e["value"]) for e in found["exposed"]] == [("Bob", 20)]
        assert found["unjudged"] == []
    else:
        assert code == 3
        assert [u["query"] for u in found["unjudged"]] == ["1"]
        assert "DuckDB" in found["unjudged"][0]["reason"]
        assert found["queries"] == 1


@pytest.mark.parametrize("kind", FOREIGN)
def test_the_portable_core_is_judged(folder: Path, kind: LogFormat) -> None:
    core = ("SELECT SUM(pay) FROM t WHERE age > 20", "SELECT SUM(pay) FROM t WHERE age > 21 AND NOT dept IN ('c')")
    if kind in (LogFormat.MYSQL_GENERAL_LOG, LogFormat.QUERY_STORE):  # texts are compared without case there
        core = (core[0], "SELECT SUM(pay) FROM t WHERE age > 21 AND NOT age IN (20)")
    code, found = audited(folder, written(kind, *core), "--log-format", str(kind))
    assert code == 1
    assert [e["record"]["name"] for e in found["exposed"]] == ["Bob"]
    assert found["unjudged"] == []
    assert found["refused"] == []


def test_the_dialect_of_a_plain_log_can_be_said(folder: Path) -> None:
    text = "; ".join(W2)
    assert audited(folder, text)[0] == 0
    assert audited(folder, text, "--dialect", "duckdb")[0] == 0
    for dialect in ("postgres", "sqlite", "tsql"):
        code, found = audited(folder, text, "--dialect", dialect)
        assert code == 1
        assert [e["record"]["name"] for e in found["exposed"]] == ["Bob"]
        assert found["source"]["dialect"] == dialect
    code, found = audited(folder, "SELECT SUM(pay) FROM t WHERE 90 / age > 2", "--dialect", "tsql")
    assert code == 3
    assert "there 21 / 2 is 10; the data are in DuckDB, where it is 10.5" in found["unjudged"][0]["reason"]
    lines = "\n".join(json.dumps({"sql": sql, "answer": answer}) for sql, answer in zip(W2, (120, 140), strict=True))
    assert audited(folder, lines, "--dialect", "postgres")[0] == 1
    assert audited(folder, lines, "--dialect", "bigquery")[0] == 3
    # and of an export: who knows the engine says so
    assert audited(folder, written(LogFormat.METABASE, *W2), "--dialect", "duckdb")[0] == 0


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        (LogFormat.POSTGRES_CSVLOG, "SELECT SUM(pay) FROM t WHERE SUBSTR(name, 0, 2) = 'A'"),
        (LogFormat.SNOWFLAKE, "SELECT SUM(pay) FROM t WHERE SUBSTR(name, 0, 1) = 'A'"),
        (LogFormat.BIGQUERY, "SELECT SUM(pay) FROM t WHERE SUBSTR(name, 0, 1) = 'A'"),
        (LogFormat.BIGQUERY, "SELECT SUM(pay) FROM t WHERE EXTRACT(DAYOFWEEK FROM born) = 1"),
    ],
)
def test_known_misreadings_are_not_judged(folder: Path, kind: LogFormat, sql: str) -> None:
    code, found = audited(folder, written(kind, sql), "--log-format", str(kind))
    assert code == 3
    assert not found["exposed"]
    assert len(found["unjudged"]) + len(found["refused"]) == 1


@pytest.mark.parametrize(
    ("sql", "who"),
    [
        ("SELECT SUM(pay) FROM t; SELECT SUM(pay) FROM t WHERE zip/1000 <> 32", ["Ann"]),
        ("SELECT SUM(pay) FROM t WHERE age/10 = 4", ["Dan"]),
        ("SELECT SUM(pay) FROM t WHERE age/10 = 3", []),  # nobody is in the thirties
        ("SELECT age/10*10, SUM(pay) FROM t GROUP BY age/10*10", ["Dan", "Eve"]),
        ("SELECT SUM(pay) FROM t WHERE EXTRACT(DOW FROM born) = 0", []),  # Ann and Bob
        ("SELECT SUM(pay) FROM t WHERE DATE_TRUNC('month', born) = '1991-02-01'", ["Bob"]),
        ("SELECT SUM(pay) FROM t WHERE born < DATE '1991-01-31' - INTERVAL '1 month'", ["Ann"]),
    ],
)
def test_postgres_is_judged_as_it_answers(folder: Path, sql: str, who: list[str]) -> None:
    code, found = audited(folder, written(LogFormat.POSTGRES_CSVLOG, sql))
    assert [e["record"]["name"] for e in found["exposed"]] == who
    assert code == (1 if who else 0) or "matches nobody" in str(found)
    assert found["unjudged"] == found["refused"] == []


@pytest.mark.parametrize("kind", [LogFormat.SNOWFLAKE, LogFormat.BIGQUERY])
def test_blocks_are_opened_and_not_dropped(folder: Path, kind: LogFormat) -> None:
    block = "BEGIN SELECT SUM(pay) FROM t; SELECT SUM(pay) FROM t WHERE name <> 'Eve'; END;"
    code, found = audited(folder, written(kind, block), "--log-format", str(kind))
    assert code == 1
    assert [e["record"]["name"] for e in found["exposed"]] == ["Eve"]
    value = "SET x = (SELECT SUM(pay) FROM t WHERE name = 'Eve')"
    code, found = audited(folder, written(kind, value, "SELECT COUNT(*) FROM t"), "--log-format", str(kind))
    assert [e["record"]["name"] for e in found["exposed"]] == ["Eve"]
    code, found = audited(folder, written(kind, "SET x = 1", "USE DATABASE d"), "--log-format", str(kind))
    assert (code, found["statements"]["total"]) == (3, 0)
    code, found = audited(folder, written(kind, "SET x = f((SELECT SUM(pay) FROM t))", "SELECT COUNT(*) FROM t"))
    assert (code, len(found["unjudged"])) == (3, 1)


def test_watch_does_not_take_it_into_the_book(folder: Path) -> None:
    call = ["ask", "--decide-only", "--data", "t.csv", "--id", "name", "--private", "pay:0..", "--exact-above", "1"]
    call += ["--book", "h", "--load", "old.csv"]
    (folder / "old.csv").write_text(written(LogFormat.PG_STAT_STATEMENTS, *W2).replace("age / 2", "age / zip"))
    done = CliRunner().invoke(app, call, input="")
    assert done.exit_code == 2
    assert "1 statement of old.csv cannot be taken into the book" in done.output
    assert "written for PostgreSQL" in done.output
    done = CliRunner().invoke(app, [*call, "--accept-unjudged"], input="SELECT SUM(pay) FROM t WHERE age >= 22;")
    assert "Q3 deny" in done.output  # the portable one counts
    done = CliRunner().invoke(app, call, input="")
    assert "1 publication that no verdict accounts for" in done.output


OUTSIDE = [
    "90 / age > 3",
    "age % 2 = 1",
    "MOD(age, 2) = 1",
    "CAST(age AS TEXT) = '3'",
    "age::text = '3'",
    "EXTRACT(DOW FROM born) = 1",
    "DATE_TRUNC('week', born) = DATE '1990-01-01'",
    "born - left > 3",
    "born + 1 > '1990-01-01'",
    "SUBSTR(name, -1) = 'n'",
    "SUBSTRING(name, 1, 1) = 'A'",
    "dept LIKE 'a\\%'",
    "dept LIKE 'a!%' ESCAPE '!'",
    "dept ILIKE 'A'",
    "dept || 'x' = 'ax'",
    "ROUND(age) = 3",
    "UPPER(dept) = 'A'",
    "name < 'M'",
    "name BETWEEN 'A' AND 'C'",
    "dept = ''",
    "age * 0.1 > 0.3",
    "rate + 1 > 3",
    "age IN (SELECT 90 / age FROM t)",
    "CASE WHEN 90 / age = 1 THEN TRUE ELSE FALSE END",
]
INSIDE = [
    "age = 3",
    "age <> -3 OR NOT zip > 30000",
    "age BETWEEN 3 AND 5",
    "dept IN ('a', 'b') AND dept NOT IN ('c')",
    "dept IS NOT NULL",
    "(age > 3) IS TRUE",
    "dept LIKE 'a%' AND dept NOT LIKE '_b'",
    "age * 2 + zip - 1 > 7.5",
    "rate > 0.1 AND rate <> -0.5",
    "born >= DATE '1990-01-01' AND born < '1995-01-01'",
    "CASE WHEN age > 3 THEN dept = 'a' ELSE FALSE END",
]


@pytest.mark.parametrize("dialect", ["snowflake", "bigquery", "spark", "trino", "unknown"])
def test_the_allow_list(dialect: str) -> None:
    spelt = replace(SCHEMA, spelt={"dept": frozenset({"a", "b", "cb"})})  # no two are equal but for case
    for condition in INSIDE:
        assert translate_to_duckdb(f"SELECT SUM(pay) FROM t WHERE {condition}", dialect, spelt).reason == "", condition
    for condition in OUTSIDE:
        assert translate_to_duckdb(f"SELECT SUM(pay) FROM t WHERE {condition}", dialect, SCHEMA).reason, condition
    for whole in (
        "SELECT dept, SUM(pay * 2), COUNT(*), MIN(pay) FROM s.t AS x GROUP BY ROLLUP (dept) HAVING COUNT(*) > 2",
        "SELECT SUM(CASE WHEN age > 3 THEN pay ELSE 0 END) FROM (SELECT pay, age FROM t WHERE dept = 'a') AS u",
        "SELECT SUM(rate * 0.5 + 1) FROM t",
        "WITH u AS (SELECT * FROM t) SELECT SUM(pay) FROM u ORDER BY 1",
    ):
        assert translate_to_duckdb(whole, dialect, spelt).reason == "", whole
    for whole in (
        "SELECT SUM(pay) / COUNT(*) FROM t",
        "SELECT ROUND(SUM(pay), -1) FROM t",
        "SELECT dept, SUM(pay) FROM t GROUP BY dept ORDER BY dept LIMIT 1 OFFSET 1",
        "SELECT age AS zip, SUM(pay) FROM t GROUP BY zip",
        "SELECT SUM(x) FROM (SELECT age / zip AS x FROM t) AS u",
        "SELECT SUM(x - y) FROM (SELECT born AS x, left AS y FROM t) AS u",
    ):
        assert translate_to_duckdb(whole, dialect, SCHEMA).reason, whole


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_the_core_is_in_every_translation(dialect: str) -> None:
    other = {"born >= DATE '1990-01-01' AND born < '1995-01-01'"} if dialect == "sqlite" else set()
    for condition in set(INSIDE) - other:
        sql = f"SELECT SUM(pay) FROM t WHERE {condition}"
        made = translate_to_duckdb(sql, dialect, SCHEMA)
        assert made.reason == "", condition
        assert made.sql == sql or "LIKE" in sql


def test_averages_and_texts_where_engines_differ() -> None:
    average, text = "SELECT AVG(pay) FROM t", "SELECT SUM(pay) FROM t WHERE dept = 'a'"
    like = "SELECT SUM(pay) FROM t WHERE dept LIKE 'a%'"
    judged = {d: [not translate_to_duckdb(sql, d, SCHEMA).reason for sql in (average, text, like)] for d in Dialect}
    assert judged[Dialect.POSTGRES] == judged[Dialect.BIGQUERY] == judged[Dialect.SNOWFLAKE] == [True, True, True]
    assert judged[Dialect.TSQL] == judged[Dialect.MYSQL] == [False, False, False]
    assert judged[Dialect.REDSHIFT] == [False, True, True]
    assert judged[Dialect.UNKNOWN] == [False, False, False]  # it may be one of those that ignore case
    for values, is_judged in ((("a", "b"), True), (("A", "b"), False), (("a", "A"), False)):
        spelt = replace(SCHEMA, spelt={"dept": frozenset(values)})
        for sql in (text, like):
            assert (translate_to_duckdb(sql, Dialect.UNKNOWN, spelt).reason == "") is is_judged
    assert judged[Dialect.SQLITE] == [True, True, True]
    for sql in ("SELECT dept, SUM(pay) FROM t GROUP BY dept", "SELECT SUM(CASE dept WHEN 'A' THEN pay END) FROM t"):
        assert "without regard to case" in translate_to_duckdb(sql, "mysql", SCHEMA).reason
    assert translate_to_duckdb("SELECT age, SUM(pay) FROM t WHERE zip > 3 GROUP BY age", "mysql", SCHEMA).reason == ""
    assert (
        translate_to_duckdb("SELECT SUM(pay) FROM t WHERE born >= '1990-01-01' LIMIT 10", "tsql", SCHEMA).reason == ""
    )
    assert translate_to_duckdb("SELECT SUM(pay) FROM t WHERE dept = '1990-01-01'", "tsql", SCHEMA).reason


def test_importers_say_what_they_import() -> None:
    said = {kind: open_log(written(kind, "SELECT 1"), kind).lines[0].dialect for kind in FOREIGN}
    assert said == {
        LogFormat.POSTGRES_CSVLOG: "postgres",
        LogFormat.PG_STAT_STATEMENTS: "postgres",
        LogFormat.BIGQUERY: "bigquery",
        LogFormat.SNOWFLAKE: "snowflake",
        LogFormat.DBT: "postgres",
        LogFormat.METABASE: "unknown",
        LogFormat.SUPERSET: "unknown",
        LogFormat.MYSQL_GENERAL_LOG: "mysql",
        LogFormat.QUERY_STORE: "tsql",
        LogFormat.REDSHIFT: "redshift",
        LogFormat.DATABRICKS: "databricks",
        LogFormat.TRINO: "trino",
    }
    card = {"name": "q", "database": {"engine": "sqlserver"}, "dataset_query": {"native": {"query": "SELECT 1"}}}
    assert open_log(json.dumps([card]), LogFormat.METABASE).lines[0].dialect == "tsql"


def test_python_says_the_dialect_too() -> None:
    people = pa.table({"name": ["Ann", "Bob", "Cyd", "Dan"], "age": [20, 21, 22, 40], "pay": [10, 20, 30, 40]})
    asked = {"data": people, "private": "pay", "id": "name"}
    verdict = keyhole.audit(list(W2), dialect="PostgreSQL", **asked)
    assert [(f.who, f.value) for f in verdict.exposed] == [("Bob", Decimal(20))]
    assert not keyhole.audit(list(W2), **asked).exposed
    assert verdict.to_json()["source"]["dialect"] == "postgres"
    assert verdict.to_json()["exposed"][0]["proof"][0]["sql"] == W2[0]  # as it was written
    found = keyhole.attack([(W2[0], 70), (W2[1], 90)], dialect="postgres", **asked)
    assert found.estimates().round(6).tolist()[1:] == [20.0, 35.0, 35.0]
    with pytest.raises(ConfigError, match="not known: write one of duckdb, postgres"):
        keyhole.audit(list(W2), dialect="oracle", **asked)


def test_the_command_line_says_it_to_an_attack(folder: Path) -> None:
    lines = [json.dumps({"sql": sql, "answer": answer}) for sql, answer in zip(W2, (120, 140), strict=True)]
    (folder / "log.jsonl").write_text("\n".join(lines))
    call = ["attack", "log.jsonl", "--data", "t.csv", "--id", "name", "--private", "pay", "--format", "json"]
    done = CliRunner().invoke(app, [*call, "--dialect", "postgres"])
    assert done.exit_code == 0, done.output
    guessed = {e["record"]["name"]: e["value"] for e in json.loads(done.stdout)["estimates"]}
    assert guessed["Bob"] == pytest.approx(20)
    (folder / "log.jsonl").write_text("\n".join(lines).replace("age / 2 > 10", "zip / age > 10"))
    done = CliRunner().invoke(app, [*call, "--dialect", "tsql"])
    assert "query 1 is not used: written for SQL Server: there 21 / 2 is 10" in done.output


def test_another_dialect_is_not_replayed(folder: Path) -> None:
    (folder / "log.sql").write_text("; ".join(W2))
    call = ["audit", "log.sql", "--data", "t.csv", "--id", "name", "--private", "pay", "--dialect", "postgres"]
    technical = CliRunner().invoke(app, [*call, "-v"]).output
    assert "Written for postgres; columns are taken to be of the same kinds there as here." in technical
    done = CliRunner().invoke(app, [*call, "--format", "json", "--out", "verdict.json"])
    assert done.exit_code == 1, done.output
    done = CliRunner().invoke(app, ["verify", "verdict.json", "--data", "t.csv"])
    assert done.exit_code == 3, done.output
    assert "the statements are written for postgres" in done.output


def test_what_duckdb_cannot_parse_is_told_in_the_words_of_its_dialect(folder: Path) -> None:
    code, found = audited(folder, "SELECT SUM(pay) FROM `t` WHERE age DIV zip > 3", "--dialect", "mysql")
    assert code == 3
    assert "written for MySQL" in found["unjudged"][0]["reason"]


@pytest.mark.parametrize(
    ("values", "constant", "judged"),
    [
        (("Legal", "IT"), "Legal", True),
        (("Legal", "IT"), "HR", True),  # nobody there, in either engine
        (("Legal", "IT"), "legal", False),  # matched there, not here
        (("Legal", "legal"), "IT", False),  # one group there, two here
        (("Legal", "Legal "), "IT", False),
        (("Légal", "IT"), "IT", False),
    ],
)
def test_texts_without_regard_to_case_are_judged_where_that_makes_no_difference(
    values: tuple[str, ...], constant: str, judged: bool
) -> None:
    people = Schema(
        "t",
        (Column("dept", Kind.TEXT), Column("ill", Kind.TEXT, Role.PRIVATE), Column("pay", Kind.INTEGER, Role.PRIVATE)),
        spelt={"dept": frozenset(values)},
    )
    for dialect in ("mysql", "tsql"):
        asked = f"SELECT dept, SUM(pay) FROM t WHERE dept = '{constant}' GROUP BY dept"
        assert (translate_to_duckdb(asked, dialect, people).reason == "") is judged
        for other in ("SELECT MAX(dept) FROM t", "SELECT COUNT(*) FROM t WHERE ill = 'flu'"):
            assert translate_to_duckdb(other, dialect, people).reason


def test_a_column_in_double_quotes_may_be_a_text_where_the_engine_is_not_known() -> None:
    """In MySQL "age" < 30 is true of everybody."""
    for sql, is_judged in (
        ('SELECT SUM(pay) FROM t WHERE "age" < 30', False),
        ('SELECT SUM("pay") FROM t', False),
        ('SELECT SUM(pay) AS "all of it" FROM t WHERE age < 30', True),
        ('SELECT SUM("pay") FROM "t" WHERE "age" < 30', True),
        ('SELECT SUM("t"."pay") FROM "hr"."t" WHERE "t"."age" < 30', True),
    ):
        assert (translate_to_duckdb(sql, Dialect.UNKNOWN, SCHEMA).reason == "") is is_judged, sql
