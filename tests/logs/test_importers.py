"""Every export: recognised, its statements read, what is no statement listed, and the audit of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyhole.auditing.examine import examine
from keyhole.errors import LogError
from keyhole.logs.exported import CUT_SHORT, SEVERAL, TELLS, filled, has_parameters
from keyhole.logs.open import IMPORTERS, LogFormat, detect, open_log, read_log

EXPORTS = Path(__file__).parent / "exports"
PEOPLE = """name,zip,gender,sugar
John Smith,32453,Male,4.3
Jeremy Doe,43813,Male,5.2
Susan Atkinson,43765,Female,6.1
Eve Brown,32187,Female,3.2
Joseph Sky,33745,Male,7.1
Alison Moon,22983,Female,6.2
"""

# file, format, numbers of the statements read, words of each entry listed as refused
CASES = [
    ("postgres_csvlog.csv", LogFormat.POSTGRES_CSVLOG, [1, 2, 3, 4, 5, 6, 7, 8], []),
    ("pg_stat_statements.csv", LogFormat.PG_STAT_STATEMENTS, [2, 3, 6], ["INSERT", "PREPARE", "normalised"]),
    ("duckdb_logs.csv", LogFormat.DUCKDB, [1, 2, 3], ["parameter values"]),
    ("duckdb_logs.json", LogFormat.DUCKDB, [1, 2, 3, 5], ["parameter values"]),
    ("bigquery_jobs.csv", LogFormat.BIGQUERY, [1, 2, 3], ["job_5"]),
    ("bigquery_audit.jsonl", LogFormat.BIGQUERY, [1, 2, 3], ["cut short", "not a BigQuery audit entry"]),
    ("snowflake_query_history.csv", LogFormat.SNOWFLAKE, [1, 2, 3, 4], ["2 fields"]),
    ("snowflake_query_history.json", LogFormat.SNOWFLAKE, [1, 2, 3, 4], []),
    ("dbt_manifest.json", LogFormat.DBT, [1, 2, 3], ["dbt compile", "python"]),
    ("dbt_run_results.json", LogFormat.DBT, [1, 2, 3], ["model.clinic.old"]),
    ("metabase_cards.json", LogFormat.METABASE, [1, 2, 3], ["without SQL", "template"]),
    ("superset_saved_queries.json", LogFormat.SUPERSET, [1, 2, 3], ["template"]),
    ("superset_history.json", LogFormat.SUPERSET, [1, 2, 3], []),
    ("superset_chart_query.json", LogFormat.SUPERSET, [1, 2, 3], []),
    ("metabase_native.json", LogFormat.METABASE, [1, 2, 3], ["template"]),
    ("mysql_general.log", LogFormat.MYSQL_GENERAL_LOG, [1, 2, 3], ["Binlog Dump"]),
    ("mysql_general_log.csv", LogFormat.MYSQL_GENERAL_LOG, [1, 2, 3], []),
    ("query_store.csv", LogFormat.QUERY_STORE, [1, 2, 3], ["Query Store"]),
    ("redshift_stl_query.csv", LogFormat.REDSHIFT, [1, 2, 3], ["line breaks"]),
    ("redshift_sys_query_history.json", LogFormat.REDSHIFT, [1, 2, 3], ["cut at 4,000"]),
    ("databricks_query_history.csv", LogFormat.DATABRICKS, [1, 2, 3], ["customer-managed"]),
    ("trino_events.jsonl", LogFormat.TRINO, [1, 2, 3], ["no event of a query"]),
]
IDS = [case[0] for case in CASES]


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clinic") / "people.csv"
    path.write_text(PEOPLE, encoding="utf-8")
    return path


@pytest.mark.parametrize(("name", "kind", "numbers", "listed"), CASES, ids=IDS)
def test_recognised_and_read(name: str, kind: LogFormat, numbers: list[int], listed: list[str]) -> None:
    log = open_log(EXPORTS / name)
    assert log.format is kind
    assert [line.number for line in log.lines] == numbers
    assert len(log.refused) == len(listed)
    for refusal, words in zip(log.refused, listed, strict=True):
        assert words in f"{refusal.sql} {refusal.error}"
        assert refusal.error.startswith("line ")
    every = sorted([line.number for line in log.lines] + [int(r.number) for r in (*log.refused, *log.unjudged)])
    assert every == list(range(1, len(every) + 1)), "numbers follow the order of the export, without gaps"
    assert open_log(EXPORTS / name, kind) == log


@pytest.mark.parametrize(("name", "kind", "numbers", "listed"), CASES, ids=IDS)
def test_lines_point_into_the_file(name: str, kind: LogFormat, numbers: list[int], listed: list[str]) -> None:
    log = open_log(EXPORTS / name)
    text = (EXPORTS / name).read_text(encoding="utf-8").splitlines()
    places = log.places()
    assert all(1 <= at <= len(text) for at in places.values())
    for line in log.lines:
        near = "\n".join(text[line.at - 1 : line.at + 12])
        assert line.sql.split()[0].lower() in near.lower(), (line, text[line.at - 1])


# MySQL and SQL Server compare texts without regard to capitals: their statements about gender are not judged
NOT_JUDGED = ("pg_stat_statements.csv", "mysql_general.log", "mysql_general_log.csv", "query_store.csv")


@pytest.mark.parametrize("case", [c for c in CASES if c[0] not in NOT_JUDGED], ids=lambda c: c[0])
def test_the_audit_finds_the_same_person(case: tuple[str, LogFormat, list[int], list[str]], people: Path) -> None:
    verdict = examine(EXPORTS / case[0], data=people, id="name", private=["sugar"])
    assert [(f.who, str(f.value)) for f in verdict] == [("Jeremy Doe", "5.2")]
    assert {r.number for r in verdict.refused} >= {r.number for r in open_log(EXPORTS / case[0]).refused}
    order = [int(r.number) for r in verdict.refused]
    assert order == sorted(order)


def test_normalised_statements_are_never_an_all_clear(people: Path) -> None:
    verdict = examine(EXPORTS / "pg_stat_statements.csv", data=people, id="name", private=["sugar"])
    assert not verdict.findings
    assert verdict.exit_code == 3
    assert any("parameter values" in r.error for r in verdict.refused)


def test_parameters_come_from_the_detail_field() -> None:
    found = [line.sql for line in open_log(EXPORTS / "postgres_csvlog.csv").lines]
    assert (
        "SELECT SUM(sugar) FROM people WHERE zip > 32000 AND zip < 35000 AND gender = 'Male'" in found
    )  # EXECUTE q(..)
    assert "SELECT SUM(sugar) FROM people WHERE zip > '32000' AND zip < '35000' AND gender = 'Male'" in found


def csvlog(
    message: str, detail: str = "", columns: int = 26, *, severity: str = "", query: str = "", leader: str = ""
) -> str:
    row = [""] * columns
    row[0], row[3], row[11], row[13], row[14], row[19] = (
        "2026-11-15 10:00:00 UTC",
        "7",
        severity,
        message,
        detail,
        query,
    )
    if leader:
        row[3], row[24] = "8", leader
    return ",".join('"' + part.replace('"', '""') + '"' for part in row)


@pytest.mark.parametrize(
    ("text", "sql", "fault"),
    [
        (csvlog("duration: 1.25 ms  statement: SELECT SUM(x) FROM t"), "SELECT SUM(x) FROM t", ""),
        (csvlog("statement: SELECT 1", columns=23), "SELECT 1", ""),
        (csvlog("execute s: SELECT $1", "parameters: $1 = 'it''s'"), "SELECT 'it''s'", ""),
        (csvlog("execute s: SELECT $1", "parameters: $1 = 'abc...'"), "SELECT $1", "cut short"),
        (csvlog("execute s: SELECT $2", "parameters: $1 = '1'"), "SELECT $2", "parameter values"),
        (csvlog("statement: EXECUTE q(now())", "prepare: PREPARE q AS SELECT $1"), "EXECUTE q(now())", "no constants"),
        (
            csvlog('AUDIT: SESSION,1,1,READ,SELECT,,,"SELECT SUM(x), 1 FROM t",<not logged>'),
            "SELECT SUM(x), 1 FROM t",
            "",
        ),
        (csvlog("AUDIT: SESSION,1,1,WRITE,DELETE,,,DELETE FROM t,<none>"), "DELETE FROM t", "class WRITE"),
        (csvlog("AUDIT: broken"), "AUDIT: broken", "without a statement"),
        ("2026-11-15 10:00:00 UTC,too,few", "2026-11-15 10:00:00 UTC,too,few", "3 columns"),
    ],
)
def test_csvlog_messages(text: str, sql: str, fault: str) -> None:
    (found,) = IMPORTERS[LogFormat.POSTGRES_CSVLOG](text, "log.csv")
    assert found.sql == sql
    assert fault in found.fault + found.unjudged
    assert bool(found.fault + found.unjudged) == bool(fault)


PLAN = "duration: 3.001 ms  plan:\nQuery Text: {}\nAggregate  (cost=0.00..1.01 rows=1 width=8)\n  ->  Seq Scan on t"
ASKED = "SELECT SUM(x) FROM t WHERE name = 'c'"
TWO = "SELECT SUM(x)\nFROM t WHERE (cost=5)"
JSON_PLAN = "duration: 1.0 ms  plan:\n" + json.dumps(
    {"Query Text": ASKED, "Plan": {"Node Type": "Aggregate"}}, indent=1
)


@pytest.mark.parametrize(
    ("line", "sql", "fault"),
    [
        (csvlog(PLAN.format(ASKED), severity="LOG"), ASKED, ""),
        (csvlog(PLAN.format(TWO), severity="LOG"), TWO, ""),
        (csvlog(PLAN.format("SELECT $1\nQuery Parameters: $1 = 'v'")), "SELECT 'v'", ""),
        (csvlog(PLAN.format("SELECT $1")), "SELECT $1", "parameter values"),
        (csvlog(PLAN.format("PREPARE q (text) AS " + ASKED)), ASKED, ""),
        (csvlog(JSON_PLAN), ASKED, ""),
        (csvlog("duration: 1.0 ms  plan:\n{broken"), "duration: 1.0 ms plan: {broken", "log_format"),
        (csvlog("duration: 1.0 ms  plan:\n<explain/>"), "duration: 1.0 ms plan: <explain/>", "log_format"),
        (csvlog("Anweisung: " + ASKED, severity="LOG"), "Anweisung: " + ASKED, "lc_messages"),
        (csvlog("Anweisung: TABLE t", severity="LOG"), "Anweisung: TABLE t", "lc_messages"),
        (csvlog("Anweisung: /* app */ ( TABLE t )"), "Anweisung: /* app */ ( TABLE t )", "lc_messages"),
        (csvlog(ASKED, severity="WARNING"), ASKED, "lc_messages"),
        (csvlog("temporary file: path x, size 5", severity="LOG", query=ASKED), ASKED, ""),
        (csvlog("process 5 still waiting for ShareLock", severity="LOG", query=ASKED), ASKED, ""),
        (csvlog("temporary file: x", severity="LOG", query="SELECT $1"), "SELECT $1", "parameter values"),
    ],
)
def test_csvlog_lines_about_a_statement_that_ran(line: str, sql: str, fault: str) -> None:
    (found,) = IMPORTERS[LogFormat.POSTGRES_CSVLOG](line, "log.csv")
    assert found.sql == sql
    assert fault in found.fault
    assert bool(found.fault) == bool(fault)


def test_csvlog_reads_once_what_was_logged_before_it_ran() -> None:
    said = csvlog("execute s: SELECT $1", "parameters: $1 = 'v'", severity="LOG")
    remarks = [
        csvlog("temporary file: x", severity="LOG", query="SELECT $1"),
        csvlog("temporary file: y", severity="LOG", query="SELECT $1", leader="7"),
        csvlog(PLAN.format("SELECT $1"), severity="LOG"),
    ]
    read = IMPORTERS[LogFormat.POSTGRES_CSVLOG]
    assert [f.sql for f in read("\n".join([said, *remarks]), "log.csv")] == ["SELECT 'v'"]
    timed = csvlog("duration: 9 ms  execute s: SELECT $1", "parameters: $1 = 'v'", severity="LOG")
    found = list(read("\n".join([timed, remarks[0]]), "log.csv"))  # another execution, that was not logged
    assert [bool(f.fault) for f in found] == [False, True]


def error(state: str, query: str, severity: str = "ERROR") -> str:
    row = csvlog("it failed", severity=severity, query=query)
    return row.replace(f'"{severity}",""', f'"{severity}","{state}"')


@pytest.mark.parametrize("severity", ["ERROR", "FEHLER"])
@pytest.mark.parametrize("state", ["42703", "42501"])
def test_csvlog_passes_over_and_counts_what_failed(severity: str, state: str) -> None:
    alone = open_log(error(state, ASKED, severity) + "\n", LogFormat.POSTGRES_CSVLOG)
    assert (alone.lines, alone.failed) == ((), 1)
    said = csvlog("statement: " + ASKED, severity="LOG")
    again = csvlog("statement: SELECT 2", severity="LOG")
    log = open_log("\n".join([said, error(state, ASKED, severity), again, ""]), LogFormat.POSTGRES_CSVLOG)
    assert [line.sql for line in log.lines] == ["SELECT 2"]
    assert log.failed == 1


@pytest.mark.parametrize("state", ["57014", "57P01", "40001", "53200"])
def test_csvlog_does_not_judge_what_was_cut_short(state: str) -> None:
    said = csvlog("statement: " + ASKED, severity="LOG")
    for rows in ([said, error(state, ASKED)], [error(state, ASKED)]):
        log = open_log("\n".join([*rows, ""]), LogFormat.POSTGRES_CSVLOG)
        assert (log.lines, log.failed, [r.sql for r in log.unjudged]) == ((), 0, [ASKED])
    reset = open_log(error(state, "SET a = 1") + "\n", LogFormat.POSTGRES_CSVLOG)
    assert (reset.failed, reset.unjudged) == (1, ())


SET = "SELECT 1; SET no_such_setting TO 2"  # PostgreSQL answers the first, and then fails


def test_csvlog_takes_back_what_only_commands_stand_before() -> None:
    text = f"BEGIN; SET search_path TO hr; {ASKED}"
    log = open_log("\n".join([csvlog("statement: " + text, severity="LOG"), error("42703", text), ""]))
    assert (log.lines, log.failed) == ((), 1)


FAILURES = (
    ("query_text,execution_status,error_message\n{},FAIL,{}", LogFormat.SNOWFLAKE),
    ("statement_text,execution_status,error_message\n{},FAILED,{}", LogFormat.DATABRICKS),
    ("query_text,status,error_message\n{},failed,{}", LogFormat.REDSHIFT),
    ('job_id,job_type,state,error_result,query\nj,QUERY,DONE,"{{""message"":""{1}""}}",{0}', LogFormat.BIGQUERY),
    ('{{"metadata": {{"query": "{}", "queryState": "FAILED"}}, "failureInfo": {{"m": "{}"}}}}', LogFormat.TRINO),
    ('[{{"sql": "{}", "status": "failed", "error_message": "{}"}}]', LogFormat.SUPERSET),
)


@pytest.mark.parametrize(("export", "kind"), FAILURES, ids=[str(kind) for _, kind in FAILURES])
def test_what_failed_is_passed_over_only_if_it_told_nothing(export: str, kind: LogFormat) -> None:
    """An error about a value is an answer of its kind, and statements before the error may have been answered."""

    def read(sql: str, error: str) -> tuple[int, list[str]]:
        log = open_log(export.format(sql, error) + "\n", kind)
        assert not log.lines
        return log.failed, [each.error for each in log.unjudged]

    asked = "SELECT 1 / SUM(x - 51) FROM t"
    assert read(asked, "SQL compilation error: Table T does not exist") == (1, [])
    for words in ("Query was cancelled", "USER_CANCELED", "Statement reached its statement timeout", "job was stopped"):
        assert read(asked, words) == (0, [CUT_SHORT])
    assert read("SET a = 1", "Query was cancelled") == (1, [])
    assert read(asked, "Division by zero") == (0, [TELLS])
    assert read("SELECT IF(x > 5 ERROR('not found') 1) FROM t", "not found") == (0, [TELLS])
    assert read("SELECT SUM(x) FROM t; SELECT nothing", "nothing not found") == (0, [SEVERAL])
    assert kind is LogFormat.TRINO or read(asked, "") == (1, [])  # the export does not say why


def test_csvlog_keeps_what_may_have_been_answered_before_the_error() -> None:
    two = "SELECT 1; SELECT 1/0"
    kept = {
        "two statements in one text": [csvlog("statement: " + two, severity="LOG"), error("42703", two)],
        "a command that failed behind it": [csvlog("statement: " + SET, severity="LOG"), error("42704", SET)],
        "an error about another text": [csvlog("statement: SELECT 1", severity="LOG"), error("42703", "SELECT 3")],
        "the connection broke": [csvlog("statement: SELECT 1", severity="LOG"), error("08006", "SELECT 1")],
        "it had ended": [csvlog("statement: SELECT 1"), csvlog("duration: 3 ms"), error("42703", "SELECT 1")],
        "an error without its text": [csvlog("statement: SELECT 1", severity="LOG"), error("42703", "")],
    }
    for why, rows in kept.items():
        log = open_log("\n".join(rows) + "\n", LogFormat.POSTGRES_CSVLOG)
        assert log.lines[0].sql == "SELECT 1", why


def test_csvlog_does_not_pass_over_an_error_that_tells_of_a_value() -> None:
    for rows in ([error("22012", ASKED)], [csvlog("statement: " + ASKED, severity="LOG"), error("22012", ASKED)]):
        log = open_log("\n".join(rows) + "\n", LogFormat.POSTGRES_CSVLOG)
        assert (log.lines, log.failed) == ((), 0)
        assert [(r.sql, "SQLSTATE 22012" in r.error) for r in log.unjudged] == [(ASKED, True)]


def test_csvlog_keeps_the_order_of_the_log_over_several_processes() -> None:
    rows = [csvlog(f"statement: SELECT {i}", severity="LOG").replace('"7"', f'"{i % 3}"', 1) for i in range(9)]
    log = open_log("\n".join(rows) + "\n", LogFormat.POSTGRES_CSVLOG)
    assert [line.sql for line in log.lines] == [f"SELECT {i}" for i in range(9)]


@pytest.mark.parametrize(
    "message",
    [
        "connection received: host=[local]",
        "duration: 3 ms",
        "statement: COMMIT;",
        "bind s: SELECT $1",
        "checkpoint starting: time",
        'automatic vacuum of table "t"',
        "duration: 1.5 ms  parse s: SELECT $1",
    ],
)
def test_csvlog_passes_over_what_is_no_statement(message: str) -> None:
    assert all(f.steers for f in IMPORTERS[LogFormat.POSTGRES_CSVLOG](csvlog(message), "log.csv"))
    assert open_log(csvlog(message) + "\n", LogFormat.POSTGRES_CSVLOG).lines == ()


@pytest.mark.parametrize(
    ("kind", "text", "fault"),
    [
        (LogFormat.SNOWFLAKE, json.dumps([{"QUERY_TEXT": "SELECT " + "1" * 100_000}]), "cut at"),
        (LogFormat.SNOWFLAKE, json.dumps([{"QUERY_ID": "1"}]), "QUERY_TEXT"),
        (LogFormat.SNOWFLAKE, "[3]", "not an object"),
        (LogFormat.PG_STAT_STATEMENTS, json.dumps([{"query": "<insufficient privilege>", "calls": 1}]), "pg_read_all"),
        (LogFormat.PG_STAT_STATEMENTS, "query,calls\nSELECT 1", "1 fields"),
        (LogFormat.BIGQUERY, "[3]", "not an object"),
        (LogFormat.DUCKDB, json.dumps([{"type": "QueryLog"}]), "no message"),
        (LogFormat.METABASE, "[3]", "not an object"),
        (LogFormat.METABASE, json.dumps({"name": "n", "dataset_query": None}), "without SQL"),
        (LogFormat.SUPERSET, json.dumps({"result": [{"label": "l"}]}), "no sql"),
        (LogFormat.DBT, json.dumps({"nodes": {"model.a": 3}}), "not a node"),
    ],
)
def test_what_is_no_statement_is_listed_with_the_reason(kind: LogFormat, text: str, fault: str) -> None:
    (found,) = IMPORTERS[kind](text, "export")
    assert fault in found.fault


def test_broken_exports_say_so() -> None:
    for kind in IMPORTERS:
        if kind not in (LogFormat.POSTGRES_CSVLOG,):
            with pytest.raises(LogError, match="not JSON"):
                list(IMPORTERS[kind]('{"a": ', "export.json"))
    with pytest.raises(LogError, match="neither nodes"):
        list(IMPORTERS[LogFormat.DBT]("{}", "x.json"))
    with pytest.raises(LogError, match="--log-format"):
        detect("a,b\n1,2\n", "unknown.csv")
    with pytest.raises(LogError, match="--log-format"):
        detect('[{"a": 1}]', "unknown.json")


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        (LogFormat.SNOWFLAKE, {"QUERY_TEXT": "SELECT 1", "EXECUTION_STATUS": "SUCCESS"}),
        (LogFormat.BIGQUERY, {"job_id": "j", "state": "DONE", "query": "SELECT 1"}),
        (LogFormat.DUCKDB, {"type": "QueryLog", "message": "SELECT 1"}),
    ],
)
@pytest.mark.parametrize("broken", ['{"QUERY_TEXT": "SELECT SUM(x', '{"type": ', "}", "garbage", '{"a": 1} tail', "[3"])
def test_a_broken_json_line_is_listed_and_the_others_are_read(
    kind: LogFormat, record: dict[str, str], broken: str
) -> None:
    good = json.dumps(record)
    for lines, numbers in (([good, broken, good], {1, 3}), ([good, good, broken], {1, 2}), ([broken, good], {2})):
        if lines[0] == broken and not broken.startswith("{"):
            continue  # then it is no JSON lines
        log = open_log("\n".join(lines) + "\n", kind)
        extra = 1 if "tail" in broken else 0  # that line holds a record, of nothing, and the tail
        assert len(log.refused) == 1 + extra
        assert [line.sql for line in log.lines] == ["SELECT 1"] * len(numbers)
        assert any("not JSON" in r.error and "SELECT 1" not in r.sql for r in log.refused)
    assert detect(f"{{broken\n{good}\n", "x.json") is kind


def test_a_second_array_is_not_dropped() -> None:
    page = json.dumps([{"QUERY_TEXT": "SELECT 1"}])
    log = open_log(page + "\n" + page, LogFormat.SNOWFLAKE)
    assert [line.sql for line in log.lines] == ["SELECT 1"]
    assert "one array a file" in log.refused[0].error


@pytest.mark.parametrize("fields", [{"label": "a"}, {"executed_sql": "SELECT 1", "status": "success"}])
def test_one_page_of_superset_is_not_all(fields: dict[str, str]) -> None:
    page = json.dumps({"count": 50, "result": [{"id": 1, "sql": "SELECT 1", **fields}]})
    log = open_log(page)
    assert log.format is LogFormat.SUPERSET
    assert [line.sql for line in log.lines] == ["SELECT 1"]
    assert "1 of 50" in log.refused[0].error
    assert "page_size" in log.refused[0].error
    empty = list(IMPORTERS[LogFormat.SUPERSET](json.dumps({"count": 2, "result": []}), "x.json"))
    assert ["0 of 2" in f.fault for f in empty] == [True]


def test_unknown_log_types_of_duckdb_are_listed() -> None:
    rows = [("QueryLog", "SELECT 1"), ("FileSystem", "open"), ("Slow", "SELECT 2"), ("Metrics", "select 3")]
    log = open_log("type,message\n" + "\n".join(",".join(row) for row in rows))
    assert [line.sql for line in log.lines] == ["SELECT 1"]
    assert [r.sql for r in log.refused] == ["SELECT 2", "select 3"]
    assert "type Slow" in log.refused[0].error


def test_a_python_model_of_dbt_is_listed_as_such() -> None:
    node = {"resource_type": "model", "language": "python", "compiled_code": "def model(dbt, session): ..."}
    (found,) = IMPORTERS[LogFormat.DBT](json.dumps({"nodes": {"model.p.m": node}}), "manifest.json")
    assert found.sql == "model.p.m"
    assert "written in python" in found.fault


def test_json_of_unknown_content_is_not_taken_for_a_transcript() -> None:
    with pytest.raises(LogError, match="cannot tell"):
        detect('{"a": 1}', "unknown.json")
    assert detect('{"sql": "SELECT 1", "mine": 1}', "x.json") is LogFormat.JSONL


def test_plain_logs_are_still_plain() -> None:
    assert detect("SELECT SUM(x), y FROM t", "standard input") is LogFormat.SQL
    assert detect('{"sql": "SELECT 1"}\n', "standard input") is LogFormat.JSONL
    assert detect("", "empty.sql") is LogFormat.SQL
    assert open_log("SELECT 1; SELECT 2").lines == tuple(read_log("SELECT 1; SELECT 2"))
    assert [line.answer for line in open_log('{"sql": "SELECT 1", "answer": 3}\n').lines] == [3]


def test_a_profile_of_duckdb() -> None:
    (found,) = IMPORTERS[LogFormat.DUCKDB](json.dumps({"query_name": "SELECT SUM(x) FROM t", "latency": 0.1}), "p.json")
    assert found.sql == "SELECT SUM(x) FROM t"
    assert detect(json.dumps({"query_name": "SELECT 1"}), "p.json") is LogFormat.DUCKDB


@given(
    st.lists(st.text(alphabet="ab'\"$1 \n", max_size=8), max_size=4), st.dictionaries(st.integers(1, 3), st.just("7"))
)
def test_filling_in_leaves_quoted_text_alone(parts: list[str], values: dict[int, str]) -> None:
    quoted = ["'" + p.replace("'", "''") + "'" for p in parts]
    sql = "SELECT " + ", ".join([*quoted, "$1", "$2"])
    done = filled(sql, values)
    assert has_parameters(sql)
    if {1, 2} <= set(values):
        assert done == "SELECT " + ", ".join([*quoted, "7", "7"])
    else:
        assert done is None


# who asked first, when, in which dialect, and how many failed
STAMPS = {
    "mysql_general.log": ("ann", "2026-11-16T10:00:01.000001Z", "mysql", 0),
    "mysql_general_log.csv": ("ann", "2026-11-16 10:00:01.000001", "mysql", 0),
    "query_store.csv": (None, "2026-11-16 10:00:00.0000000 +00:00", "tsql", 0),
    "redshift_stl_query.csv": ("100", "2026-11-16 10:00:00.131358", "redshift", 0),
    "redshift_sys_query_history.json": ("ann", "2026-11-16 10:00:00", "redshift", 1),
    "databricks_query_history.csv": ("ann@clinic.org", "2026-11-16T10:00:00.000Z", "databricks", 1),
    "trino_events.jsonl": ("ann", "2026-11-16T10:00:00.000Z", "trino", 1),
    "postgres_csvlog.csv": ("postgres", "2026-11-15 21:07:22.664 UTC", "postgres", 2),
}


@pytest.mark.parametrize("name", STAMPS)
def test_who_asked_when_and_what_failed(name: str) -> None:
    log = open_log(EXPORTS / name)
    first = log.lines[0]
    assert (first.analyst, first.time, first.dialect, log.failed) == STAMPS[name]


def test_a_line_of_sql_is_not_taken_for_a_command_of_mysql() -> None:
    text = "2026-11-16T10:00:01.000001Z\t    8 Query\tSELECT SUM(x) FROM t WHERE a =\n 12 AND b = 3\n    9 Query\n"
    (found,) = IMPORTERS[LogFormat.MYSQL_GENERAL_LOG](text, "general.log")
    assert found.sql == "SELECT SUM(x) FROM t WHERE a =\n 12 AND b = 3\n    9 Query"
    old = "070101 10:00:00\t    1 Connect\tann@localhost on hr\n\t\t    1 Query\tSELECT 1\n\t\t    1 Query\tSELECT 2\n"
    found = [(f.sql, f.analyst, f.time) for f in IMPORTERS[LogFormat.MYSQL_GENERAL_LOG](old, "general.log")]
    assert found == [("SELECT 1", "ann", "070101 10:00:00"), ("SELECT 2", "ann", "070101 10:00:00")]
    assert detect(old, "general.log") is LogFormat.MYSQL_GENERAL_LOG


def test_charts_without_their_sql_are_listed() -> None:
    log = open_log(EXPORTS / "superset_charts.json")
    assert log.format is LogFormat.SUPERSET
    assert [(r.sql, "type=query" in r.error) for r in log.refused] == [("Sugar by gender", True), ("All", True)]


def test_queries_that_were_only_created_are_no_all_clear() -> None:
    event = {"metadata": {"query": "SELECT 1", "queryState": "QUEUED"}, "context": {"user": "ann"}}
    log = open_log(json.dumps(event) + "\n", LogFormat.TRINO)
    assert (log.lines, len(log.refused)) == ((), 1)
    assert "log-completed" in log.refused[0].error


def test_errors_of_a_real_server() -> None:
    """Written by PostgreSQL 15 with log_statement = all: what failed, was cancelled, or told a value by failing."""
    log = open_log(EXPORTS / "postgres_errors.csv")
    asked = [line.sql for line in log.lines]
    assert "SELECT SUM(payyy) FROM t" not in asked  # in a transaction, which is then aborted
    assert "SELECT SUM(pay) FROM t WHERE pay > 0" not in asked
    assert not any("pg_sleep" in sql for sql in asked)  # cancelled
    assert "SELECT SUM(pay) FROM t WHERE name = 'a'" in asked  # answered, before the next in the same text failed
    assert [r.sql for r in log.unjudged] == [
        "SELECT SUM(pay), pg_sleep(3) FROM t",
        "SELECT 1/(SUM(pay)-7) FROM t",
        "EXECUTE q(1/0)",
        "SELECT SUM(CAST(name AS int)) FROM t",
    ]
    assert CUT_SHORT in log.unjudged[0].error
    assert log.failed == 3


def test_an_importer_is_registered_in_one_place() -> None:
    """Every file is the reader of a registered format, and the page lists every format in their order."""
    root = Path(__file__).resolve().parents[2]
    files = {path.stem for path in (root / "src/keyhole/logs/importers").glob("*.py")} - {"__init__"}
    assert files == {importer.module for importer in IMPORTERS.values()} | {"transcript"}
    page = (root / "docs/logs.md").read_text(encoding="utf-8")
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `") and "--log" not in line]
    assert listed == [str(kind) for kind in LogFormat if kind is not LogFormat.AUTO]
