"""Scripts: what steers a session passes, what asks in a wrapping is opened or listed, and nothing is dropped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import keyhole
from keyhole.cli import app
from keyhole.logs.open import LogFormat, open_log
from keyhole.sql import Dialect
from keyhole.sql.statements.scripts import Prepared, Script
from keyhole.sql.statements.split import mask_quotes, split_statements
from keyhole.sql.statements.views import DROPPED

ASK = "SELECT SUM(pay) FROM t WHERE name <> 'Eve'"


def asked(text: str, dialect: str = "postgres") -> list[str]:
    return [s.sql for s in Script(dialect).steps(text) if not s.steers and not s.unjudged]


def listed(text: str, dialect: str = "postgres") -> list[str]:
    return [s.unjudged for s in Script(dialect).steps(text) if s.unjudged]


STEERING = """
BEGIN; BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY; START TRANSACTION; COMMIT; ROLLBACK TO SAVEPOINT a
SET search_path = public; SET LOCAL application_name TO 'SELECT 1'; RESET ALL; USE db; DISCARD ALL; DEALLOCATE q
END; CLOSE c; SAVEPOINT a; RELEASE SAVEPOINT a; PRAGMA table_info(t); DECLARE @x INT; PREPARE q AS SELECT 1; ABORT
"""


@pytest.mark.parametrize("statement", [s.strip() for line in STEERING.strip().splitlines() for s in line.split("; ")])
@pytest.mark.parametrize("dialect", ["postgres", "duckdb", "tsql", "bigquery"])
def test_what_steers_passes(statement: str, dialect: str) -> None:
    (step,) = Script(dialect).steps(statement)
    assert step.steers
    (step,) = Script(dialect).steps(f"/* SELECT 1 */ {statement} -- SELECT 2")
    assert step.steers


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("postgres", f"\\timing on\n\\d t\n{ASK};"),
        ("postgres", f"{ASK}\n\\g out.txt\n\\x"),
        ("mysql", f"{ASK}\\G\nSHOW VARIABLES LIKE 'x';"),
        ("postgres", f"COPY ({ASK}) TO '/tmp/x' WITH (FORMAT csv)"),
        ("postgres", f"\\copy ({ASK}) TO 'x.csv' csv\n\\q"),
        ("postgres", f"DECLARE c NO SCROLL CURSOR WITH HOLD FOR {ASK}; FETCH ALL FROM c; CLOSE c"),
        ("postgres", f"DO $$ DECLARE v int; BEGIN {ASK}; v := 3; RAISE NOTICE '%', v; END $$ LANGUAGE plpgsql"),
        ("postgres", f"PREPARE q AS {ASK}; EXECUTE q"),
        ("postgres", "PREPARE q(text) AS SELECT SUM(pay) FROM t WHERE name <> $1; EXECUTE q('Eve'); DEALLOCATE q"),
        ("postgres", f"COPY t FROM stdin;\nSELECT 1;\t'\n\\.\n{ASK}"),
        ("snowflake", f"BEGIN {ASK}; END;"),
        ("snowflake", f"BEGIN IF (x > 3) THEN {ASK}; END IF; END;"),
        ("snowflake", f"DECLARE r RESULTSET; BEGIN r := ({ASK}); RETURN TABLE(r); END"),
        ("snowflake", "EXECUTE IMMEDIATE 'SELECT SUM(pay) FROM t WHERE name <> ''Eve'''"),
        ("bigquery", f"DECLARE x INT64 DEFAULT ({ASK}); # SELECT 1;\nBEGIN END;"),
        ("bigquery", f"FOR r IN ({ASK}) DO SET y = 1; END FOR"),
        ("mysql", f"SET @x := ({ASK})"),
        ("tsql", f"USE db\nGO\nSET NOCOUNT ON\n{ASK}\nGO 3\nBEGIN TRAN"),
        ("tsql", f"BEGIN TRY\n{ASK}\nEND TRY\nBEGIN CATCH\nPRINT 'x'\nEND CATCH"),
        ("sqlite", f".mode csv\n.headers on\n{ASK};\n.quit"),
        ("duckdb", f"COPY ({ASK}) TO 'x.parquet'"),
    ],
)
def test_what_asks_in_a_wrapping_is_opened(dialect: str, text: str) -> None:
    steps = list(Script(dialect).steps(text))
    assert [s.sql for s in steps if not s.steers and "FROM stdin" not in s.sql] == [ASK]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"EXPLAIN ANALYZE {ASK}", "runs the query"),
        (f"EXPLAIN (ANALYZE, BUFFERS) {ASK}", "runs the query"),
        (f"EXPLAIN {ASK}", "planner expects"),
        (f"CREATE TABLE x AS {ASK}", "kept in a table"),
        (f"CREATE OR REPLACE VIEW x AS ({ASK})", "kept in a table"),
        (f"INSERT INTO x (a) {ASK}", "kept in a table"),
        ("COPY t TO STDOUT", "records themselves"),
        ("\\copy t TO 'x.csv'", "records themselves"),
        ("COPY t FROM 'x.csv'", "changes the table"),
        ("EXECUTE q(1)", "PREPARE is not in the log"),
        ("PREPARE q AS SELECT $1; EXECUTE q(now())", "no constants"),
        ("CALL report()", "procedure"),
        ("EXECUTE IMMEDIATE 'SELECT ' || x", "put together"),
        ("FETCH ALL FROM c", "cursor whose query is not in the log"),
        (f"SET x = f(({ASK}))", "cannot be taken out"),
        (f"IF EXISTS ({ASK}) THEN SET @y = 1; END IF", "cannot be taken out"),
        ("\\i other.sql", "another file"),
        (".dump", "records themselves"),
        ("SELECT 'SELECT 1' \\gexec", "runs what the query answered"),
    ],
)
def test_what_cannot_be_judged_is_listed_with_a_reason(text: str, why: str) -> None:
    (reason,) = listed(text)
    assert why in reason


HARMLESS = [
    *("SHOW search_path", "SHOW TIME ZONE", "SHOW t", "PRAGMA table_info('t')", "PRAGMA main.journal_mode = wal"),
    *(
        "SHOW TABLES",
        "SHOW VARIABLES LIKE 'x'",
        "SET work_mem = 3",
        "SET search_path TO 'a', 'b'",
        "DECLARE @x VARCHAR(20) = 'a'",
    ),
    *("\\timing on", "\\d t", "\\pset format csv", ".mode csv", "RESET ALL", "CHECKPOINT", "DECLARE @x TABLE (a INT)"),
    *("VACUUM t", "VACUUM (FREEZE) t"),
]
MAY_PRINT = [
    *("PRAGMA storage_info('t')", "PRAGMA enable_profiling", "PRAGMA database_size", "PRAGMA page_count"),
    *("SUMMARIZE t", "SUMMARIZE SELECT kids FROM t", "DESCRIBE t", "DESC t", "ANALYZE", "ANALYZE VERBOSE t"),
    *("ANALYZE TABLE t", "SHOW TABLE STATUS", "SHOW INDEX FROM t", "SHOW STATS FOR t", "SHOW CREATE TABLE t"),
    *("SHOW PROFILE FOR QUERY 1", "VACUUM VERBOSE t", "VACUUM (VERBOSE) t", "SET STATISTICS IO ON"),
    *("SET profiling = 1", "SET SHOWPLAN_ALL ON", "SET enable_profiling = 'json'", "SET work_mem = f(3)"),
    *("PRINT dbo.f('Ann')", "RETURN f(1)", "RAISE NOTICE '%', f(1)", "x := f(1)"),
]
COMMANDS = [
    *("\\! psql -c 'TABLE t'", "\\dt+", "\\lo_export 1 x", ".stats on", ".sha3sum", ".backup x", ".scanstats on"),
    *(".shell ls", ".clone x", ".changes on", ".eqp on"),
]


CHANGES = [
    *(("duckdb", f"SET {each}") for each in ("default_collation = 'NOCASE'", "integer_division = true", "x TO 3")),
    *(("duckdb", f"SET {each}") for each in ("default_order = 'DESC'", "GLOBAL default_null_order = 'nulls_first'")),
    *(("duckdb", each) for each in ("PRAGMA default_collation = 'NOCASE'", "SET TimeZone = 'Asia/Tokyo'")),
    *(("tsql", f"SET {each}") for each in ("ANSI_NULLS OFF", "ANSI_WARNINGS, ANSI_NULLS OFF", "ROWCOUNT 1")),
    *(("tsql", f"SET {each}") for each in ("DATEFIRST 1", "DATEFORMAT dmy", "LANGUAGE French", "CONTEXT_INFO 0x1")),
    *(("mysql", f"SET {each}") for each in ("sql_mode = 'ANSI_QUOTES'", "@@SESSION.sql_mode = 'ANSI'")),
    *(("mysql", f"SET {each}") for each in ("autocommit = 1, sql_mode = 'ANSI_QUOTES'", "NAMES latin1")),
    *(
        ("mysql", f"SET {each}")
        for each in ("sql_select_limit = 1", "`sql_mode` = 'ANSI'", "@x = 1, sql_mode = 'ANSI'")
    ),
    *(("postgres", f"SET {each}") for each in ("datestyle = 'DMY'", "standard_conforming_strings = off")),
    *(
        ("postgres", f"SET {each}")
        for each in ("TIME ZONE 'Asia/Tokyo'", "app.tenant = '3'", "transform_null_equals = on")
    ),
    *(("sqlite", f"PRAGMA {each}") for each in ("case_sensitive_like = 1", "case_sensitive_like(1)")),
    *(
        ("snowflake", f"ALTER SESSION SET {each}")
        for each in ("WEEK_START = 1", "QUERY_TAG = 'a' ROWS_PER_RESULTSET = 1")
    ),
    *(("spark", each) for each in ("SET spark.sql.ansi.enabled = true", "SET spark.sql.caseSensitive=true")),
    ("bigquery", "SET @@time_zone = 'Asia/Tokyo'"),
    ("postgres", "DO $$ BEGIN SET datestyle = 'DMY'; END $$"),
    ("trino", "SET SESSION legacy_x = true"),
]
CHANGES_NOTHING = [
    *(("postgres", f"SET {each}") for each in ("application_name = 'a'", "statement_timeout TO 0", "ROLE bob")),
    *(
        ("postgres", f"SET {each}")
        for each in ("SESSION AUTHORIZATION 'bob'", "client_encoding = 'UTF8'", "TIME ZONE 'UTC'")
    ),
    *(
        ("postgres", f"SET {each}")
        for each in ("extra_float_digits = 3", "datestyle TO 'ISO, MDY'", "enable_seqscan = off")
    ),
    *(("postgres", f"SET {each}") for each in ("standard_conforming_strings = on", "row_security = off", "jit = off")),
    *(("postgres", f"SET {each}") for each in ("SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SCHEMA 'hr'")),
    *(("postgres", each) for each in ("RESET ALL", "RESET work_mem", "RESET SESSION AUTHORIZATION", "DISCARD ALL")),
    *(
        ("mysql", f"SET {each}")
        for each in ("NAMES utf8mb4", "NAMES 'utf8' COLLATE 'utf8_bin'", "@x = 3", "autocommit=0")
    ),
    *(("mysql", f"SET {each}") for each in ("sql_mode='STRICT_TRANS_TABLES,NO_ZERO_DATE'", "SESSION wait_timeout = 9")),
    *(("tsql", f"SET {each}") for each in ("NOCOUNT ON", "ANSI_NULLS ON", "XACT_ABORT, NOCOUNT ON", "ROWCOUNT 0")),
    *(
        ("tsql", f"SET {each}")
        for each in ("TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", "@x = 3", "LOCK_TIMEOUT 1800")
    ),
    *(
        ("snowflake", each)
        for each in ("ALTER SESSION SET QUERY_TAG = 'a'", "SET x = 3", "ALTER SESSION UNSET QUERY_TAG")
    ),
    *(("duckdb", each) for each in ("SET threads = 4", "SET VARIABLE x = 3", "SET memory_limit TO '1GB'", "USE db")),
    *(
        ("spark", each)
        for each in ("SET", "SET -v", "SET spark.sql.ansi.enabled", "SET spark.sql.shuffle.partitions=8")
    ),
]


@pytest.mark.parametrize(("dialect", "text"), CHANGES)
def test_what_may_change_the_meaning_of_later_statements_is_not_skipped(dialect: str, text: str) -> None:
    """SET default_collation = 'NOCASE' was skipped, and name = 'ann' behind it was of Ann alone."""
    steps = [step for step in Script(dialect).steps(f"{ASK}; {text}; {ASK}") if not step.steers]
    before, mine, behind = steps
    assert not before.unjudged
    assert "what later statements mean may depend on that" in mine.unjudged
    assert "was set before it" in behind.unjudged


@pytest.mark.parametrize(("dialect", "text"), CHANGES_NOTHING)
def test_what_changes_no_meaning_is_skipped(dialect: str, text: str) -> None:
    mine, behind = Script(dialect).steps(f"{text}; {ASK}")
    assert mine.steers
    assert not behind.unjudged


def test_what_is_taken_back_was_set() -> None:
    mine, behind = Script("postgres").steps(f"RESET datestyle; {ASK}")
    assert "what statements before it mean" in mine.unjudged
    assert not behind.unjudged


@pytest.mark.parametrize("name", ["log.sql", "log.jsonl"])
def test_a_setting_in_a_log_is_no_all_clear(tmp_path: Path, name: str) -> None:
    steps = ["SELECT SUM(pay) FROM t", "SET default_collation = 'NOCASE'", "SELECT SUM(pay) FROM t"]
    text = ";\n".join([*steps, ""]) if name == "log.sql" else "\n".join(json.dumps({"sql": s}) for s in steps)
    code, found = audited(tmp_path, name, text)
    assert (code, [each["query"] for each in found["unjudged"]]) == (3, ["2", "3"])


@pytest.mark.parametrize("text", HARMLESS)
def test_what_cannot_show_data_is_skipped(text: str) -> None:
    (step,) = Script("duckdb").steps(text)
    assert step.steers


@pytest.mark.parametrize(
    ("text", "inside"),
    [(text, inside) for text in MAY_PRINT for inside in ("{}", "BEGIN; {}", "DO $$ BEGIN {}; END $$")]
    + [(text, "{}") for text in COMMANDS],
)
def test_what_may_print_statistics_is_not_skipped(text: str, inside: str) -> None:
    (mine,) = [step for step in Script("postgres").steps(inside.format(text)) if not step.steers]
    assert mine.unjudged


def test_the_same_words_print_statistics_in_some_engines() -> None:
    for dialect, text in (("snowflake", "SHOW TABLES"), ("mysql", "SHOW WARNINGS"), ("mysql", "SHOW STATUS")):
        (step,) = Script(dialect).steps(text)
        assert step.unjudged, text


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'BEGIN; COPY (SELECT 1) TO x' AS a FROM t",
        'SELECT "begin", "EXPLAIN" FROM t',
        "/* EXECUTE q; */ SELECT 1 FROM t",
        "-- \\d t; GO\nSELECT 1 FROM t",
        "SELECT 1 AS a -- GO\nFROM t",
        "SELECT 'a\nGO\nb' FROM t",
        "SELECT ';\n\\i x\n' FROM t",
    ],
)
def test_words_in_quotes_and_comments_do_not_fool_it(text: str, dialect: str) -> None:
    (found,) = Script(dialect).steps(text)
    assert not found.steers
    assert not found.unjudged
    assert found.sql in text


def test_dialects_quote_in_their_own_ways() -> None:
    assert len(split_statements("SELECT `a;b`; SELECT 'it\\'s;' # c; d\n; SELECT 1", "mysql")) == 3
    assert len(split_statements("SELECT [a;b'] FROM t; SELECT 1", "tsql")) == 2
    assert len(split_statements("SELECT E'it\\'s;'; SELECT 'a\\'; SELECT 1", "postgres")) == 3
    assert (
        len(split_statements("SELECT 1 WHERE a IN (E'it\\'s;', 'name'';'); SELECT 'type\\'; SELECT 2", "postgres")) == 3
    )
    assert len(mask_quotes("SELECT E'it\\'s SELECT'", "postgres").split()) == 2  # SELECT and E
    assert len(split_statements("SELECT 1 /* /* */; SELECT 2", "sqlite")) == 2
    assert len(split_statements("SELECT 1\nUNION ALL\nSELECT 2\n\nSELECT 3\nGO\nSELECT 4", "tsql")) == 3
    assert len(split_statements("WITH a AS (SELECT 1 AS b)\n\nSELECT b FROM a", "tsql")) == 1
    assert len(split_statements("SELECT CASE WHEN a = 1\nTHEN 2\nEND FROM t\nWITH (NOLOCK)", "tsql")) == 1


def test_values_enter_as_typed_constants() -> None:
    ask = Prepared(
        "SELECT SUM(x) FROM t WHERE a / $1 > $2 AND d < $3 AND s = '$1'", ("numeric", "int", "date"), "postgres"
    )
    said = "SELECT SUM(x) FROM t WHERE a / CAST(10 AS DECIMAL) > -2 AND d < CAST('2024-01-07' AS DATE) AND s = '$1'"
    assert ask.fill("10, -2, '2024-01-07'") == said
    assert ask.fill("10, -2") is None
    assert ask.fill("10, a, '2024-01-07'") is None
    two = Prepared("SELECT SUM(x) FROM t WHERE a > ? AND b < ?", (), "mysql")
    assert two.fill("1, 2") == "SELECT SUM(x) FROM t WHERE a > 1 AND b < 2"


def test_sessions_do_not_share_what_they_prepared() -> None:
    rows = []
    for process, message in (
        ("1", "PREPARE q AS SELECT SUM(pay) FROM t"),
        ("2", "PREPARE q AS SELECT COUNT(*) FROM t"),
        ("1", "EXECUTE q"),
        ("3", "EXECUTE q"),
    ):
        row = ["2026-11-15 10:00:00 UTC"] + [""] * 25
        row[3], row[13] = process, f"statement: {message}"
        rows.append(",".join(row))
    log = open_log("\n".join(rows) + "\n", LogFormat.POSTGRES_CSVLOG)
    assert [line.sql for line in log.lines] == ["SELECT SUM(pay) FROM t"]
    assert [(u.number, u.sql) for u in log.unjudged] == [("2", "EXECUTE q")]
    assert log.passed == 2


def test_lines_are_those_of_the_file() -> None:
    log = open_log(f"BEGIN;\n\\timing\n\n{ASK};\nEXPLAIN {ASK};\nCOPY (\n{ASK}\n) TO 'x';", LogFormat.SQL)
    assert log.places() == {"1": 4, "2": 5, "3": 7}
    assert log.passed == 2


PEOPLE = "name,pay\nAnn,10\nBob,20\nEve,50\n"


def audited(folder: Path, name: str, text: str, *options: str) -> tuple[int, dict[str, Any]]:
    (folder / "t.csv").write_text(PEOPLE)
    (folder / name).write_text(text)
    call = ["audit", str(folder / name), "--data", str(folder / "t.csv"), "--id", "name", "--private", "pay"]
    done = CliRunner().invoke(app, [*call, "--format", "json", *options])
    assert done.exit_code in (0, 1, 3), done.output
    return done.exit_code, json.loads(done.stdout)


def test_a_script_is_audited_as_what_it_asks(tmp_path: Path) -> None:
    script = f"\\timing\nBEGIN;\nSET work_mem = 1;\nSELECT SUM(pay) FROM t;\nCOPY ({ASK}) TO 'x';\nCOMMIT;\n"
    code, found = audited(tmp_path, "log.sql", script)
    assert (code, found["statements"]["total"], found["statements"]["judged"]) == (1, 2, 2)
    assert [e["record"]["name"] for e in found["exposed"]] == ["Eve"]
    code, found = audited(tmp_path, "log.sql", f"SELECT COUNT(*) FROM t; CREATE TABLE x AS {ASK};")
    assert code == 3
    assert [(u["query"], u["reason"][:30]) for u in found["unjudged"]] == [("2", "its result is kept in a table ")]


@pytest.mark.parametrize("name", ["log.sql", "log.jsonl"])
def test_a_log_that_only_steers_is_no_all_clear(tmp_path: Path, name: str) -> None:
    steps = ["BEGIN", "SET work_mem = 1", "SHOW x", "COMMIT"]
    text = ";\n".join(steps) if name == "log.sql" else "\n".join(json.dumps({"sql": s}) for s in steps)
    code, found = audited(tmp_path, name, text)
    assert (code, found["statements"]["total"], found["complete"]) == (3, 0, False)


@given(
    st.sampled_from(["postgres", "duckdb", "tsql", "mysql", "bigquery", "sqlite"]),
    st.text(alphabet="aSELCT ;'\"$-/*\n\\.`[]#()GObegin", max_size=80),
)
def test_any_text_is_split_masked_and_opened(dialect: str, text: str) -> None:
    assert len(mask_quotes(text, dialect)) == len(text)
    for step in Script(dialect).steps(text):
        assert step.sql.strip()
        assert step.line >= 1
    for fragment in split_statements(text, dialect):
        assert fragment.sql in text


def test_a_view_is_opened_where_it_is_read() -> None:
    views = "CREATE VIEW c AS SELECT * FROM t WHERE dept = 'c'; CREATE TEMP VIEW d AS SELECT pay FROM c"
    script = f"{views}; SELECT SUM(pay) FROM d"
    steps = list(Script(whole=True).steps(script))
    assert [step.steers for step in steps] == [True, True, False]
    opened = "WITH c AS (SELECT * FROM t WHERE dept = 'c'), d AS (SELECT pay FROM c) SELECT SUM(pay) FROM d"
    assert steps[2].sql == opened
    data = pa.table({"name": ["Ann", "Bob"], "dept": ["a", "c"], "pay": [1, 2]})
    verdict = keyhole.audit(script, data=data, private="pay", id="name")
    assert [(f.who, f.value) for f in verdict] == [("Bob", 2)]


def test_a_view_that_other_sessions_may_read_is_listed_and_a_circle_too() -> None:
    (kept,) = Script().steps("CREATE VIEW c AS SELECT * FROM t")
    assert kept.unjudged
    circle = "CREATE VIEW a AS SELECT * FROM b; CREATE VIEW b AS SELECT * FROM a"
    *_, asked = Script(whole=True).steps(f"{circle}; SELECT COUNT(*) FROM a")
    assert "in a circle" in asked.unjudged
    kept_list = list(Script(whole=True).steps("CREATE VIEW v (a) AS SELECT 1; CREATE TABLE w AS SELECT 2"))
    assert all(step.unjudged for step in kept_list)


@pytest.mark.parametrize("drop", ["DROP VIEW c", "DROP VIEW IF EXISTS main.C CASCADE", 'drop view d, "c"'])
def test_a_view_that_was_dropped_is_not_read_any_more(drop: str) -> None:
    made = "CREATE VIEW c AS SELECT * FROM t WHERE dept = 'c'; CREATE VIEW d AS SELECT pay FROM c"
    ask = "SELECT SUM(pay) FROM c"
    before, gone, after = list(Script(whole=True).steps(f"{made}; {ask}; {drop}; {ask}"))[2:]
    assert "dept = 'c'" in before.sql
    assert gone.steers
    assert after.unjudged == DROPPED
    *_, through = Script(whole=True).steps(f"{made}; {drop}; SELECT SUM(pay) FROM d")
    assert through.unjudged == DROPPED
    *_, again = Script(whole=True).steps(f"{made}; {drop}; CREATE VIEW c AS SELECT * FROM t WHERE dept = 'a'; {ask}")
    assert "dept = 'a'" in again.sql
    data = pa.table({"name": ["Ann", "Bob"], "dept": ["a", "c"], "pay": [1, 2]})
    verdict = keyhole.audit(f"{made}; {drop}; {ask}", data=data, private="pay", id="name")
    assert not list(verdict)
    assert verdict.exit_code == 3


def test_dropping_a_view_of_others_is_no_news_of_ours() -> None:
    made = "CREATE VIEW c AS SELECT * FROM t WHERE dept = 'c'"
    *_, asked = Script(whole=True).steps(f"{made}; DROP VIEW IF EXISTS t; SELECT SUM(pay) FROM c")
    assert "dept = 'c'" in asked.sql


def test_remarks_of_the_parser_do_not_reach_the_terminal() -> None:
    program = (
        "import keyhole.sql, sqlglot;"
        "print(sqlglot.transpile('SELECT DATE_TRUNC(d, WEEK(SUNDAY)) FROM t', read='bigquery', write='sqlite'))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout
    assert ran.stderr == ""
