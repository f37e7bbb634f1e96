"""Data in PostgreSQL, read once into DuckDB: the same verdicts, every command, and errors that tell no secret."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.commands import call_command
from tests.support.postgres import Postgres

import keyhole
from keyhole.config.settings import settings
from keyhole.datasets import Use, open_table
from keyhole.engines.engine import DataUrl, Relation, find_relation
from keyhole.engines.postgres.engine import PostgresEngine, connection_fault, describe_copy
from keyhole.errors import ConfigError, DataError
from keyhole.model.schema import Kind

PASSWORD = "p@ss/w:rd?"
SETUP = f"""
DROP SCHEMA IF EXISTS hr CASCADE; CREATE SCHEMA hr;
CREATE TABLE hr.halves (name text PRIMARY KEY, age int, pay int);
INSERT INTO hr.halves VALUES ('Ann', 20, 10), ('Bob', 21, 20), ('Cyd', 22, 30), ('Dan', 40, 40), ('Eve', 50, 50);
CREATE TYPE hr.mood AS ENUM ('low', 'high'); CREATE DOMAIN hr.small AS int CHECK (VALUE < 100);
COLLATION;
CREATE TABLE hr."All ""Types"" here" (
  id bigint PRIMARY KEY, "Full name" text, code char(3), land char(2), alias text CASELESS, mood hr.mood,
  zip hr.small, born date, seen timestamp, key uuid, ok boolean, tags text[], note jsonb, area numeric(12, 2),
  pay numeric, rate float8, bonus smallint);
INSERT INTO hr."All ""Types"" here"
SELECT i, 'P' || i, CASE WHEN i % 2 = 0 THEN 'ab' ELSE 'abc' END, 'de', 'A', 'low', i % 5,
  date '1990-01-01' + i::int, timestamp '2020-01-01 10:30:00.25',
  ('00000000-0000-0000-0000-0000000000' || 10 + i)::uuid,
  i % 2 = 0, ARRAY['x'], '{{}}', i + 0.25, CASE WHEN i <> 3 THEN i * 1.5 END, i / 4.0, i FROM generate_series(1, 40) i;
DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN PASSWORD '{PASSWORD}';
GRANT USAGE ON SCHEMA hr TO clerk; GRANT SELECT ON hr.halves TO clerk;
"""
TYPES = 'hr."All ""Types"" here"'  # a table whose name needs quoting
HALVES = ["SELECT SUM(pay) FROM halves WHERE age / 2 > 10", "SELECT SUM(pay) FROM halves WHERE age >= 21"]


@pytest.fixture(scope="module")
def server(postgres: Postgres) -> Iterator[Postgres]:
    made = "CREATE COLLATION hr.caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    tried = f"DO $$ BEGIN {made}; EXCEPTION WHEN feature_not_supported THEN NULL; END $$;"
    found = "SELECT count(*) FROM pg_collation WHERE collname = 'caseless';"
    with_icu = postgres.run(f"CREATE SCHEMA hr; {tried} {found} DROP SCHEMA hr CASCADE;") == ["1"]
    script = SETUP.replace("COLLATION;", f"{made};" if with_icu else "")
    postgres.run(script.replace("CASELESS", "COLLATE hr.caseless" if with_icu else ""))
    postgres.demand_password("clerk")
    yield postgres
    postgres.run("DROP SCHEMA hr CASCADE; DROP ROLE clerk;")


def run(*words: str) -> tuple[int, str]:
    done = call_command(*words)
    return done.exit_code, done.output


def test_a_log_is_judged_in_the_words_of_the_engine_that_holds_the_data(server: Postgres, tmp_path: Path) -> None:
    """21 / 2 is 10 there, so Bob is in one question and not in the other; DuckDB's own 10.5 would hide him."""
    there = keyhole.audit(HALVES, data=server.url(), table="hr.halves", id="name", private="pay")
    assert [(f.who, f.value) for f in there.exposed] == [("Bob", 20)]
    assert there.exit_code == 1
    file = tmp_path / "halves.csv"
    file.write_text("name,age,pay\nAnn,20,10\nBob,21,20\nCyd,22,30\nDan,40,40\nEve,50,50\n", encoding="utf-8")
    translated = keyhole.audit(HALVES, data=file, id="name", private="pay", dialect="postgres")
    assert translated.to_json()["exposed"] == there.to_json()["exposed"]
    assert keyhole.audit(HALVES, data=file, id="name", private="pay").exit_code == 0


def test_types_come_over_exactly_and_what_compares_differently_is_not_judged(server: Postgres) -> None:
    given = settings(data=server.url(), table=TYPES, id="id", private=("pay", "area"))
    with open_table(given, Use.AUDIT) as opened:
        kinds = {c.name: c.kind for c in opened.roster.schema.columns}
        assert kinds == {
            "id": Kind.INTEGER, "Full name": Kind.TEXT, "code": Kind.OTHER, "land": Kind.TEXT, "alias": kinds["alias"],
            "mood": Kind.TEXT, "zip": Kind.INTEGER, "born": Kind.DATE, "seen": Kind.TIMESTAMP, "key": Kind.TEXT,
            "ok": Kind.BOOLEAN, "tags": Kind.OTHER, "note": Kind.OTHER, "area": Kind.DECIMAL, "pay": Kind.DECIMAL,
            "rate": Kind.DOUBLE, "bonus": Kind.INTEGER,
        }  # fmt: skip
        values = opened.whole.values("pay")
        assert values.present.tolist() == [i != 3 for i in range(1, 41)]
        assert int(values.units[9]) == 15 * 10**values.digits
        assert opened.roster.labels(np.arange(2))[1] == {"id": 2}  # in the order of its key


def test_a_verdict_is_that_of_the_same_table_as_a_frame(server: Postgres) -> None:
    frame = pa.table(
        {
            "id": range(1, 41), "zip": [i % 5 for i in range(1, 41)], "ok": [i % 2 == 0 for i in range(1, 41)],
            "pay": [None if i == 3 else Decimal(i) * 3 / 2 for i in range(1, 41)],
        }
    )  # fmt: skip
    name = '"All ""Types"" here"'
    log = [
        f"SELECT COUNT(*), SUM(pay) FROM {name} WHERE zip > 2 AND ok", f"SELECT SUM(pay) FROM {name} WHERE ok",
        f"SELECT zip, SUM(pay) FROM {name} GROUP BY zip",
        f"SELECT SUM(pay) FROM {name} WHERE zip > 2 AND ok AND id <> 4",
    ]  # fmt: skip
    here = keyhole.audit(log, data=frame, table='All "Types" here', id="id", private="pay", dialect="postgres")
    there = keyhole.audit(log, data=server.url(), table=TYPES, id="id", private="pay")
    assert there.exposed
    alone = [[{**f, "singled_out": None} for f in v.to_json()["exposed"]] for v in (here, there)]  # it has more columns
    assert alone[0] == alone[1]


def test_every_command_takes_the_address(server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.sql").write_text(";\n".join(HALVES), encoding="utf-8")
    Path("plain.sql").write_text(
        "SELECT SUM(pay) FROM halves; SELECT SUM(pay) FROM halves WHERE age <> 21", encoding="utf-8"
    )
    code, output = run("init", server.url(), "--table", "hr.halves", "--private", "pay", "--id", "name", "--yes")
    assert code == 0, output
    made = Path("keyhole.toml").read_text(encoding="utf-8")
    assert f'data = "{server.url()}"' in made
    assert 'table = "halves"' in made
    code, output = run("audit", "log.sql", "-c", "keyhole.toml", "--format", "json", "--out", "v.json")
    assert code == 1, output
    here = ("--data", server.url(), "--table", "hr.halves", "--id", "name", "--private", "pay")
    code, output = run("audit", "plain.sql", *here, "--dialect", "duckdb", "--format", "json", "--out", "plain.json")
    assert code == 1, output
    code, output = run("verify", "plain.json", "--data", server.url(), "--table", "hr.halves")
    assert (code, "1 holds, 0 fail" in output) == (0, True), output
    code, output = run("plan", *here, "--target", "name = 'Bob'")
    assert code == 0, output
    answered = [{"sql": HALVES[1], "answer": 140}, {"sql": "SELECT SUM(pay) FROM halves", "answer": 150}]
    Path("t.jsonl").write_text("\n".join(map(json.dumps, answered)), encoding="utf-8")
    code, output = run("attack", "t.jsonl", *here)
    assert code == 0, output
    roles = '[columns]\nid = ["id"]\n[columns.private.pay]\ndomain = "real"\n'
    many = f"[source]\ndata = '{server.url()}'\ntable = '{TYPES}'\n{roles}"
    Path("many.toml").write_text(many, encoding="utf-8")
    total = 'SELECT SUM(pay) FROM "All ""Types"" here"'
    asked = [
        run("ask", "-c", "many.toml", sql) for sql in (total, f"{total} WHERE zip / 2 <> 9", f"{total} WHERE id <> 4")
    ]
    assert [code for code, _ in asked] == [0, 0, 3], asked
    view = "SELECT name, age, sum(pay) AS pay FROM hr.halves GROUP BY ALL".replace("hr.", "")
    roles = '[columns]\nid = ["name"]\n[columns.private.pay]\ndomain = "real"\n'
    Path("view.toml").write_text(f"[source]\ndata = '{server.url()}'\nview = '{view}'\n{roles}", encoding="utf-8")
    code, output = run("audit", "log.sql", "-c", "view.toml")
    assert (code, "Bob" in output) == (1, True), output


def test_a_password_is_in_no_verdict_book_file_error_or_command(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    address = server.url("clerk", PASSWORD)
    columns = '[columns]\nid = ["name"]\n[columns.private.pay]\n'
    settings_file = f'[source]\ndata = "{address}"\ntable = "hr.halves"\n{columns}'
    Path("keyhole.toml").write_text(settings_file, encoding="utf-8")
    Path("log.sql").write_text(";\n".join(HALVES), encoding="utf-8")
    outputs = []
    for format_ in ("text", "json", "sarif", "junit", "html"):
        code, output = run("audit", "log.sql", "-c", "keyhole.toml", "--format", format_, "--out", f"out.{format_}")
        assert code == 1, output
        outputs.append(output)
    code, output = run("ask", "-c", "keyhole.toml", "SELECT COUNT(*) FROM halves WHERE age > 21")
    assert code == 0, output
    Path("keyhole.toml").unlink()
    outputs.append(output)
    outputs.append(run("audit", "log.sql", "--data", address, "--id", "name", "--private", "pay")[1])
    assert "everybody on this machine can read a password" in outputs[-1]
    wrong_password, wrong_database = server.url("clerk", PASSWORD + "x"), server.url("clerk", PASSWORD, "nowhere")
    for wrong in (f"{address}&password=other", wrong_password, wrong_database):
        with pytest.raises(DataError) as error:
            keyhole.audit(HALVES, data=wrong, table="hr.halves", id="name", private="pay")
        outputs.append(str(error.value))
    assert "refuses the password of 'clerk'" in outputs[-2]
    kept = [path.read_bytes() for path in tmp_path.iterdir() if path.name != "log.sql"]
    for part in (PASSWORD, DataUrl.parse(address).dsn.partition("clerk:")[2].partition("@")[0], "ss/w"):
        assert not [text for text in outputs if part in text]
        assert not [blob for blob in kept if part.encode() in blob]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ('FATAL: database "x" does not exist', "has no database 'hr'"),
        ("connection refused", "no server answers"),
        ('invalid URI query parameter: "secret"', "not written as PostgreSQL reads it"),
        ("something about secret", "cannot be reached"),
    ],
)
def test_words_of_the_driver_are_not_repeated(words: str, sentence: str) -> None:
    message = str(connection_fault(DataUrl.parse("postgresql://ann:secret@db/hr?sslpassword=secret"), words))
    assert sentence in message
    assert "secret" not in message


def test_what_is_wrong_is_said_with_what_to_do(server: Postgres) -> None:
    def fault(data: str, **more: object) -> str:
        with pytest.raises((ConfigError, DataError)) as error:
            keyhole.audit(HALVES, data=data, private="pay", **more)  # type: ignore[arg-type]
        return str(error.value)

    unknown = fault(server.url(), table="nobody", id="name")
    assert "has no table 'nobody' that this role may read; it has" in unknown
    assert 'hr.All "Types" here, hr.halves' in unknown
    assert "tables: choose one with --table" in fault(server.url(), id="name")
    assert "say with --id" in fault(server.url(), table="hr.halves")
    assert "no engine reads mysql://" in fault("mysql://db/hr", id="name")
    assert "no server answers there" in fault("postgresql://ann@127.0.0.1:1/hr", id="name")
    clerk = server.url("clerk", PASSWORD)
    assert "has no table" in fault(clerk, table=TYPES, id="id")
    server.run('CREATE TABLE hr.twice ("Pay" int, pay int, name text); CREATE TABLE hr.nan (name text, pay numeric);')
    server.run("INSERT INTO hr.nan VALUES ('a', 'NaN'); CREATE TABLE hr.long (name text, pay numeric);")
    server.run("INSERT INTO hr.long VALUES ('a', 1.12345678901234);")
    assert "differ in case alone" in fault(server.url(), table="hr.twice", id="name")
    for table in ("nan", "long"):
        message = fault(server.url(), table=f"hr.{table}", id="name")
        assert "column 'pay' holds a value that is not finite" in message
        assert "1.1234" not in message
    server.run("DROP TABLE hr.twice, hr.nan, hr.long; CREATE TABLE hr.empty (name text, pay int);")
    assert "has no rows" in fault(server.url(), table="hr.empty", id="name")
    server.run(f'DROP TABLE hr.empty; GRANT SELECT ("Full name") ON {TYPES} TO clerk;')
    assert "this role may not read" in fault(clerk, table=TYPES, id="id")


def test_all_is_read_from_one_state(server: Postgres) -> None:
    engine = PostgresEngine(DataUrl.parse(server.url()), snapshot=True)
    try:
        before = engine.rows("SELECT count(*) AS c FROM hr.halves")
        server.run("INSERT INTO hr.halves VALUES ('Late', 1, 1);")
        assert engine.rows("SELECT count(*) AS c FROM hr.halves") == before == [(5,)]
        with pytest.raises(DataError, match="SQLSTATE 25006"):
            engine.do("CREATE TABLE hr.mine (a int)")
    finally:
        engine.close()
        server.run("DELETE FROM hr.halves WHERE name = 'Late';")


def test_a_server_that_vanishes_leaves_one_sentence_and_nothing_half_written(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server.run(
        "CREATE FUNCTION hr.slowly(i int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT i FROM pg_sleep(0.02)';"
        "CREATE VIEW hr.slow AS SELECT i AS name, hr.slowly(i) AS pay, 1 AS age FROM generate_series(1, 3000) i;"
    )
    Path("log.sql").write_text(HALVES[1].replace("halves", "slow"), encoding="utf-8")
    ended = threading.Event()

    def end() -> None:
        while not ended.is_set():
            server.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'keyhole' "
                "AND query LIKE '%slow%' AND state = 'active';"
            )
            time.sleep(0.2)

    thread = threading.Thread(target=end)
    thread.start()
    try:
        here = ("--data", server.url(), "--table", "hr.slow", "--id", "name", "--private", "pay")
        code, output = run("audit", "log.sql", *here, "--format", "json", "--out", "v.json")
    finally:
        ended.set()
        thread.join()
    assert (code, "the server ended the connection before all was read" in output) == (2, True), output
    assert [path.name for path in tmp_path.iterdir()] == ["log.sql"]


def test_texts_that_a_collation_merges_come_as_bytes() -> None:
    assert describe_copy("alias", "text", "b", -1, merges=True, zone="UTC").here == "encode({0})"
    assert describe_copy("alias", "text", "b", -1, merges=False, zone="UTC").here == "{0}"
    assert describe_copy("at", "timestamptz", "b", -1, merges=False, zone="Europe/Berlin").here == "encode({0})"
    assert (
        describe_copy("pay", "numeric", "b", 12 << 16 | 2 + 4, merges=False, zone="").here
        == "CAST({0} AS DECIMAL(12, 2))"
    )


def test_a_name_means_one_table() -> None:
    url = DataUrl.parse("postgresql://db/hr")
    tables = [Relation("hr", "Staff", False), Relation("old", "staff", False), Relation("public", "a.b")]
    assert find_relation(tables, "staff", url).schema == "old"
    assert find_relation(tables, "HR.staff", url).schema == "hr"
    assert find_relation(tables, '"a.b"', url).schema == "public"
    with pytest.raises(ConfigError, match="several tables 'STAFF'"):
        find_relation(tables, "STAFF", url)
