"""Logs that are not as they should be: the wrong dialect, several encodings, a file that grows, a locked database."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from keyhole.auditing.examine import examine
from keyhole.errors import DataError, LogError
from keyhole.logs.fold import fold_log
from keyhole.logs.lines import LogLines
from keyhole.logs.open import LogFormat, open_log
from keyhole.sql import Dialect, split_statements
from keyhole.sql.statements.engine_guess import guess_engine

TABLE = pa.table({"name": ["a", "b", "c"], "city": ["Köln", "Ulm", "Ulm"], "pay": [1, 2, 4]})
GOOD = "SELECT SUM(pay) FROM t"


@pytest.mark.parametrize(
    ("sql", "dialect"),
    [
        ("SELECT TOP 3 SUM([pay]) FROM [t]", "tsql"),
        ("SELECT SUM(pay) FROM t WHERE hired > GETDATE()", "tsql"),
        ("SELECT SUM(`pay`) FROM t", "mysql"),
        ("SELECT SUM(pay) FROM `p.d.t`", "bigquery"),
        ("SELECT SUM(pay) FROM t LIMIT 5, 10", "mysql"),
        ("SELECT IFF(a > 1, 1, 0), SUM(pay) FROM t GROUP BY 1", "snowflake"),
        ("SELECT TO_CHAR(d, 'YYYY'), SUM(pay) FROM t GROUP BY 1", "postgres"),
        ("SELECT SUM(pay) FROM t WHERE a RLIKE 'b'", "spark"),
        ("SELECT SUM(pay) FROM t WHERE DATE_PARSE(d, 'x') > e", "trino"),
        ("SELECT SUM(pay) FROM t WHERE city = '`[a]` TOP 5 IFF('", None),
        ("SELECT SUM(pay) FROM t -- GETDATE()", None),
        ("SELECT SUM(pay) FROM t WHERE tags[1] = 'x'", None),
    ],
)
def test_which_engine_a_statement_looks_like(sql: str, dialect: str | None) -> None:
    found = guess_engine(sql)
    assert (found and str(found[0])) == dialect
    assert dialect is None or guess_engine(sql, dialect) is None


def test_a_log_in_the_wrong_dialect_says_which_one_it_looks_like() -> None:
    found = examine(["SELECT SUM([pay]) FROM [t] WITH (NOLOCK)", GOOD], data=TABLE, private="pay", id="name")
    assert found.exit_code == 3
    assert "looks like SQL Server" in found.refused[0].error
    assert "--dialect tsql" in found.refused[0].error
    assert not examine([GOOD], data=TABLE, private="pay", id="name").refused


def test_one_line_in_another_encoding_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "log.sql"
    lines = [GOOD, "SELECT SUM(pay) FROM t WHERE city = 'Köln'", "SELECT SUM(pay) FROM t WHERE city = 'Ulm'"]
    path.write_bytes(b";\n".join(line.encode("latin-1" if at == 1 else "utf-8") for at, line in enumerate(lines)))
    for log in (open_log(path), fold_log(path)):
        assert [line.sql for line in log.lines] == [lines[0], lines[2]]
        assert [(r.number, r.sql) for r in log.refused] == [("2", "SELECT SUM(pay) FROM t WHERE city = 'K\\xf6ln'")]
        assert "not UTF-8" in log.refused[0].error
    verdict = examine(log, data=TABLE, private="pay", id="name")
    assert verdict.exit_code == 1
    path.write_bytes("SELECT SUM(pay) FROM t WHERE city = 'Köln'".encode("latin-1"))
    with pytest.raises(LogError, match="not UTF-8"):
        open_log(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_logs_in_unicode(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "log.sql"
    text = "SELECT SUM(pay) FROM t WHERE city = 'Köln';\n"
    path.write_bytes((b"\xff\xfe" if encoding == "utf-16-le" else b"") + text.encode(encoding))
    assert [line.sql for line in open_log(path).lines] == [text.rstrip(";\n")]


def test_a_file_that_grows_is_read_as_far_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    whole = json.dumps({"sql": GOOD}) + "\n"
    path.write_text(whole + whole[:20], encoding="utf-8")
    lines = LogLines.of_file(path)
    with path.open("a", encoding="utf-8") as file:
        file.write(whole[20:] + whole)
    assert list(lines) == [whole]
    assert lines.cut == whole[:20]
    path.write_text(f"{GOOD};\n{GOOD} WHERE city = 'U", encoding="utf-8")
    still = open_log(path.rename(tmp_path / "log.sql"))
    assert len(still.lines) == 1  # it did not grow: the quote of the last statement never closes
    assert still.unjudged[0].error.startswith("line 2: the quote ' is never closed")
    assert examine(still, data=TABLE, private="pay", id="name").exit_code == 3


def test_a_statement_that_was_still_being_written_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.sql"
    path.write_text(f"{GOOD};\n{GOOD} WHERE name = 'a", encoding="utf-8")
    real = LogLines.of_file.__func__  # type: ignore[attr-defined]

    def and_grows(cls: type[LogLines], given: Path) -> LogLines:
        made: LogLines = real(cls, given)
        with path.open("a", encoding="utf-8") as file:
            file.write("' OR name = 'b';\n")
        return made

    monkeypatch.setattr(LogLines, "of_file", classmethod(and_grows))
    log = fold_log(path)
    assert [line.sql for line in log.lines] == [GOOD]
    assert "still being written" in log.refused[0].error


HOLD = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


def test_a_database_that_another_process_holds(tmp_path: Path) -> None:
    path = tmp_path / "staff.duckdb"
    make = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute(\"CREATE TABLE t AS SELECT 'a' AS name, 1 AS pay\")"
    subprocess.run([sys.executable, "-c", make, str(path)], check=True)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DataError, match=r"staff.duckdb is in use by another process"):
            examine([GOOD], data=path, private="pay", id="name")
    finally:
        holder.communicate()


def test_a_quote_that_never_closes_in_a_csv_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyhole.logs.records._LONGEST", 1000)
    path = tmp_path / "history.csv"
    path.write_text('query_text,execution_status\n"SELECT 1,SUCCESS\n' + "SELECT 2,SUCCESS\n" * 100, encoding="utf-8")
    log = open_log(path)
    assert log.refused[0].error.startswith("line 2: a quote of this CSV row is never closed")
    assert {line.sql for line in log.lines} == {"SELECT 2"}  # behind the longest field that is read


def test_a_cte_of_ten_thousand_lines_is_listed_and_hides_no_other() -> None:
    parts = "".join(f",\nc{i} AS (\nSELECT *\nFROM c{i - 1}\n)" for i in range(1, 2500))
    long = f"WITH c0 AS (\nSELECT * FROM t\n){parts}\nSELECT SUM(pay) FROM c2499"
    assert long.count("\n") > 9_990
    verdict = examine([long, "SELECT SUM(pay) FROM t WHERE name = 'a'"], data=TABLE, private="pay", id="name")
    assert [u.number for u in verdict.unjudged] == ["1"]
    assert "queries that read from one another" in verdict.unjudged[0].reason
    assert [f.who for f in verdict] == ["a"]


@pytest.mark.parametrize("kind", [LogFormat.AUTO, LogFormat.SQL])
def test_a_pipe_is_read_once_to_its_end(tmp_path: Path, kind: LogFormat) -> None:
    """It has no size, and what is looked at to see whether it is a book is gone: it was called empty."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    texts = [f"SELECT SUM(x) FROM t WHERE a > {k};\n" for k in range(20_000)]
    writer = threading.Thread(target=lambda: pipe.write_text("".join(texts)))
    writer.start()
    found = open_log(pipe, kind)
    writer.join(timeout=30)
    assert (len(found.lines), found.lines[-1].sql) == (20_000, "SELECT SUM(x) FROM t WHERE a > 19999")


ANN = "SELECT SUM(pay) FROM t WHERE name = 'a'"
OPENINGS = {
    "comment": f"/* all;\n{ANN};\n",
    "comment behind a word": f"COMMIT /* all;\n{ANN};\n",
    "comment behind a query": f"{GOOD} /* all;\n{ANN};\n",
    "comment in a comment": f"/* one /* two */;\n{ANN};\n",
    "quote": "SET x = 'all;\nCOMMIT;\n",
    "quote that a later one closes": "SET x = 'all;\nSELECT 1;\nSET y = 'b';\n",
    "name": 'SET x = "all;\nCOMMIT;\n',
    "dollars": "SET x = $a$ all;\nCOMMIT;\n",
    "block": "DO $$ BEGIN;\nCOMMIT;\n",
    "text alone": "'all';\nCOMMIT;\n",
}


@pytest.mark.parametrize("kind", OPENINGS)
def test_what_never_closes_is_a_statement_that_is_not_judged(tmp_path: Path, kind: str) -> None:
    """An unclosed comment hid the rest of a log: exit 0, and nobody said so."""
    path = tmp_path / "log.sql"
    path.write_text(f"{GOOD};\n{OPENINGS[kind]}", encoding="utf-8")
    for log in (open_log(path), fold_log(path)):
        assert examine(log, data=TABLE, private="pay", id="name").exit_code == 3
        if kind != "text alone":
            assert log.unjudged[0].error.startswith("line 2: the ")
            assert dict(log.at)[log.unjudged[0].number] == 2


@pytest.mark.parametrize("dialect", ["mysql", "bigquery", "spark", "sqlite", "tsql"])
def test_names_that_never_close(dialect: str) -> None:
    mark = "[" if dialect == "tsql" else "`"
    assert [(f.sql, f.unclosed) for f in split_statements(f"SET x = {mark}all;\nSELECT 1;\n", dialect)] == [
        (f"SET x = {mark}all", mark),
        ("SELECT 1", ""),
    ]


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_comment_in_a_comment_ends_where_the_engine_ends_it_or_is_in_doubt(dialect: str) -> None:
    """The same text is one comment to some engines and asks about Ann in others."""
    found = split_statements(f"/* one /* two */; {ANN}; -- */\n", dialect)
    if dialect in (Dialect.DUCKDB, Dialect.POSTGRES, Dialect.TSQL):
        assert not found
    else:
        assert found[-1] == replace(found[-1], sql=ANN, unclosed="")
        assert [f.unclosed for f in found[:-1]] in ([], ["/* /*"])
        assert bool(found[:-1]) == (dialect not in ("mysql", "sqlite", "bigquery", "trino"))


@pytest.mark.parametrize("dialect", ["mysql", "sqlite", "tsql", "bigquery", "trino"])
def test_dollars_quote_nothing_where_the_engine_has_no_such_quotes(dialect: str) -> None:
    assert ANN in [f.sql for f in split_statements(f"SET x = $$; {ANN}; SET y = $$", dialect)]


def test_an_escaped_quote_does_not_hide_what_follows() -> None:
    """DuckDB ends E'a\\' /* ' behind the comment's mark: the next statement is asked."""
    text = f"SET x = E'a\\' /* '; {ANN}; -- */"
    assert [f.sql for f in split_statements(text)] == ["SET x = E'a\\' /* '", ANN]


def as_csvlog(sql: str) -> str:
    row = ["2026-11-15 10:00:00 UTC", *[""] * 12, f"statement: {sql}", *[""] * 12]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(row)
    return text.getvalue()


EXPORTS = {
    "log.csv": as_csvlog,
    "snowflake.csv": lambda sql: f'"{sql}",SUCCESS\n',
    "log.jsonl": lambda sql: json.dumps({"sql": sql}) + "\n",
    "general.log": lambda sql: f"2026-11-15T10:00:00.000000Z\t    8 Query\t{sql}\n",
    "databricks.json": lambda sql: json.dumps({"statement_text": sql, "executed_as": "a", "statement_id": "1"}) + "\n",
}


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("broken", ["COMMIT /* all; SELECT 1", "SET x = 'all; SELECT 1"])
def test_what_never_closes_in_one_record_of_an_export(tmp_path: Path, name: str, broken: str) -> None:
    path = tmp_path / name
    head = "query_text,execution_status\n" if name.startswith("snowflake") else ""
    path.write_text(head + "".join(map(EXPORTS[name], (GOOD, broken, ANN))), encoding="utf-8")
    for log in (open_log(path), fold_log(path)):
        assert [line.sql for line in log.lines] == [GOOD, ANN]
        assert log.unjudged[0].error.startswith(f"line {3 if head else 2}: the ")


@pytest.mark.parametrize("closed", [True, False])
def test_a_quote_in_the_last_field_of_a_csv_does_not_swallow_the_rows_behind_it(tmp_path: Path, closed: bool) -> None:
    """The rows behind it were taken for the name of a user."""
    path = tmp_path / "snowflake.csv"
    end = 'SELECT 1,SUCCESS,"ann"\n' if closed else ""
    path.write_text(
        f'query_text,execution_status,user_name\n{GOOD},SUCCESS,"ann\n{ANN},SUCCESS,bob\n{end}', encoding="utf-8"
    )
    log = open_log(path)
    assert [r.error[:47] for r in log.refused] == ["line 2: a quote of this CSV row is never closed"]
    assert examine(log, data=TABLE, private="pay", id="name").exit_code == 3
    row = as_csvlog(GOOD).rstrip("\n") + '"psql\n'
    path.write_text(row + as_csvlog(ANN), encoding="utf-8")
    log = open_log(path, LogFormat.POSTGRES_CSVLOG)
    assert "never closed" in log.refused[0].error


def test_dbt_models_are_split_in_the_words_of_their_engine(tmp_path: Path) -> None:
    """Split as DuckDB's, a name in backticks with a quote in it opened a text that swallowed the second statement."""
    path = tmp_path / "manifest.json"
    node = {"resource_type": "model", "compiled_code": f"SET `it's` = 1; {ANN}"}
    whole = {"metadata": {"adapter_type": "bigquery"}, "nodes": {"model.p.m": node}}
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert [line.sql for line in open_log(path, LogFormat.DBT).lines] == [ANN]
