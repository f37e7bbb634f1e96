"""The PostgreSQL door with the clients that people have: unchanged, and what they get for each kind of question."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import pandas as pd
import psycopg
import pytest
import sqlalchemy as sa
from tests.serve.wire_server import ROWS, WireServer, start_process, write_world
from tests.support.postgres import programs, skip_outside_ci

from keyhole.serve.keys import KeyRole
from keyhole.serve.postgres_wire.messages import pack_bind, pack_message, pack_parse
from keyhole.serve.postgres_wire.scram import find_endpoint

TOTALS = {d: sum(row[4] for row in ROWS if row[1] == d) for d in "abc"}
WHOLE = "SELECT SUM(pay) FROM staff"
BUT_ONE = f"{WHOLE} WHERE name <> 'p3'"  # with WHOLE it tells p3's
GROUPS = "SELECT dept, SUM(pay) AS total, COUNT(*) FROM staff GROUP BY dept ORDER BY dept DESC"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireServer]:
    """Two populations behind one door."""
    folder = tmp_path_factory.mktemp("wire")
    made = WireServer(folder, write_world(folder))
    try:
        with psycopg.connect(made.address()) as connection:
            connection.execute(WHOLE)
        yield made
    finally:
        made.close()


@pytest.fixture
def ann(server: WireServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection of psycopg."""
    with psycopg.connect(server.address(), autocommit=True) as connection:
        yield connection


def psql(server: WireServer, script: str, *more: str) -> tuple[str, str]:
    """What psql prints, with the states of its errors."""
    where = programs()
    assert where is not None
    environment = {"PATH": os.environ["PATH"], "PGPASSWORD": server.keys["ann"]}
    words = [where / "psql", "-h", "127.0.0.1", "-p", str(server.port), "-U", "ann", "-d", "staff", "-XAt"]
    words += ["-v", "VERBOSITY=verbose", *more]
    done = subprocess.run(words, input=script, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout, done.stderr


# --- clients ----------------------------------------------------------------------------------------------------------


def test_psql(server: WireServer) -> None:
    out, err = psql(server, f"{GROUPS};\n\\d staff\n\\dt\n\\conninfo\n")
    assert out.splitlines()[:3] == [f"{d}|{TOTALS[d]}|8" for d in "cba"]
    assert "age|bigint" in out
    assert "public|staff|table" in out
    assert not err
    out, err = psql(server, f"{BUT_ONE};\nSELECT * FROM staff;\nSELECT nothing FROM staff;\nDROP TABLE staff;\n")
    assert not out
    assert [line.split(":")[1].strip() for line in err.splitlines() if line.startswith("ERROR")] == [
        "42501", "0A000", "42703", "0A000"
    ]  # fmt: skip
    assert "HINT:  Try instead: SELECT" in err
    assert "LINE 1: SELECT nothing FROM staff;" in err  # PostgreSQL's own caret


def test_psql_with_several_statements(server: WireServer) -> None:
    """They are taken one by one, and the first error ends them."""
    text = f"SET application_name = 'x;y'; {WHOLE} /* ; */; SHOW application_name; {BUT_ONE}; SELECT 1"
    out, err = psql(server, "", "-c", text)
    assert out.split() == ["SET", str(sum(TOTALS.values())), "x;y"]
    assert "42501" in err


def test_psycopg_with_parameters_in_text_and_binary(ann: psycopg.Connection[Any]) -> None:
    sql = (
        "SELECT dept, SUM(pay), AVG(bonus) FROM staff WHERE dept IN (%s, %s) AND age > %s AND hired >= %s GROUP BY dept"
    )
    values = ("a", "b", 1, dt.date(2026, 1, 1))
    rows = [ann.execute(sql, values, binary=binary).fetchall() for binary in (False, True)]
    assert rows[0] == rows[1] == [("a", TOTALS["a"], Decimal(11)), ("b", TOTALS["b"], Decimal(12))]
    assert ann.execute("SELECT SUM(pay) FROM staff WHERE age > %s", (1000,)).fetchone() == (None,)  # of nobody
    assert ann.execute("SELECT COUNT(*) FROM staff WHERE age > %s AND age < %b", (-5, 1000)).fetchone() == (24,)
    assert ann.execute("SELECT SUM(pay) FROM staff WHERE dept = %s", ("'; DROP TABLE staff --",)).fetchone() == (None,)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=r"parameter \$1 is of a type"):
        ann.execute("SELECT SUM(pay) FROM staff WHERE age = ANY(%s)", ([21, 22],))


def test_psycopg_prepared_pipelined_and_with_a_cursor_on_the_server(ann: psycopg.Connection[Any]) -> None:
    for _ in range(8):
        assert ann.execute(WHOLE, prepare=True).fetchone() == (sum(TOTALS.values()),)
    with ann.pipeline():
        cursors = [ann.execute(f"{WHOLE} WHERE dept = %s", (d,)) for d in "abc"]
    assert [cursor.fetchone() for cursor in cursors] == [(TOTALS[d],) for d in "abc"]
    with ann.transaction(), ann.cursor("mine") as cursor:
        cursor.execute(GROUPS)
        assert cursor.fetchmany(2) + cursor.fetchall() == [(d, TOTALS[d], 8) for d in "cba"]
    with ann.cursor() as cursor, cursor.copy(f"COPY ({GROUPS}) TO STDOUT (FORMAT csv)") as copy:
        assert b"".join(copy).decode().splitlines() == [f"{d},{TOTALS[d]},8" for d in "cba"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege), ann.cursor("mine") as cursor:
        cursor.execute(BUT_ONE)


def test_an_error_leaves_the_transaction_as_postgresql_does(ann: psycopg.Connection[Any]) -> None:
    ann.execute("BEGIN")
    assert [find_state(ann, sql) for sql in (BUT_ONE, "SELECT 1", WHOLE)] == ["42501", "25P02", "25P02"]
    ann.execute("ROLLBACK")
    with ann.transaction():
        with pytest.raises(psycopg.errors.InsufficientPrivilege), ann.transaction():  # a savepoint
            ann.execute(BUT_ONE, prepare=True)
        assert ann.execute(WHOLE).fetchone() == (sum(TOTALS.values()),)


def test_explain_is_the_verdict(ann: psycopg.Connection[Any]) -> None:
    (first,), (second,) = ann.execute(f"EXPLAIN (ANALYZE) {WHOLE}").fetchall()
    assert first == "allow: it would be answered"
    assert second == f"judged as: {WHOLE}"
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ann.execute(f"EXPLAIN {BUT_ONE}")


def test_noise_comes_with_its_bar_and_ends_with_the_budget(server: WireServer) -> None:
    notices: list[str] = []
    with psycopg.connect(server.address("bob"), autocommit=True) as bob:
        bob.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        price = bob.execute("EXPLAIN SELECT COUNT(*) FROM visits WHERE dept = 'a'").fetchall()
        assert "it would be answered for " in price[0][0]
        cursor = bob.execute("SELECT COUNT(*) FROM visits WHERE dept = 'a'", binary=True)
        (count,) = cursor.fetchall()[0]
        assert isinstance(count, int)
        assert any("error at most ±" in text for text in notices)
        assert any("left" in text for text in notices)
        some = ("'a'", "'b'", "'c'", "'a', 'b'", "'a', 'c'", "'b', 'c'")
        asked = [f"SELECT {what} FROM visits WHERE dept IN ({d})" for what in ("COUNT(*)", "SUM(pay)") for d in some]
        states = [find_state(bob, sql) for sql in asked]
        spent = next(at for at, state in enumerate(states) if state)
        assert set(states[spent:]) <= {"53400", ""}  # "": told again for nothing


def find_state(connection: psycopg.Connection[Any], sql: str) -> str:
    """The SQLSTATE of an error; "" if there are rows."""
    try:
        connection.execute(sql).fetchall()
    except psycopg.Error as error:
        return str(error.sqlstate)
    return ""


def test_asyncpg(server: WireServer) -> None:
    async def main() -> None:
        connection = await asyncpg.connect(server.address())
        try:
            rows = await connection.fetch("SELECT dept, SUM(pay) FROM staff WHERE dept = $1 GROUP BY dept", "b")
            assert [tuple(row) for row in rows] == [("b", TOTALS["b"])]
            statement = await connection.prepare(GROUPS)
            assert [a.name for a in statement.get_attributes()] == ["dept", "total", "count"]
            async with connection.transaction():
                found = [tuple(row) async for row in connection.cursor(GROUPS, prefetch=1)]
            assert found == [(d, TOTALS[d], 8) for d in "cba"]
            with pytest.raises(asyncpg.InsufficientPrivilegeError) as denied:
                await connection.fetch(BUT_ONE)
            assert "Try instead: SELECT" in str(denied.value.hint)
            with pytest.raises(asyncpg.FeatureNotSupportedError):
                await connection.fetch("SELECT name, pay FROM staff")
        finally:
            await connection.close()

    asyncio.run(main())


def test_sqlalchemy_and_pandas(server: WireServer) -> None:
    engine = sa.create_engine(server.address().replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.connect() as connection:
            names = [column["name"] for column in sa.inspect(connection).get_columns("staff")]
            assert names == ["name", "dept", "age", "hired", "pay", "bonus"]
            staff = sa.Table("staff", sa.MetaData(), autoload_with=connection)
            asked = sa.select(staff.c.dept, sa.func.sum(staff.c.pay)).where(staff.c.dept != "a").group_by(staff.c.dept)
            assert sorted(map(tuple, connection.execute(asked))) == [("b", TOTALS["b"]), ("c", TOTALS["c"])]
            with warnings.catch_warnings():
                frame = pd.read_sql(sa.text(GROUPS), connection)
            assert frame["dept"].tolist() == ["c", "b", "a"]
            with pytest.raises(sa.exc.ProgrammingError, match="would expose somebody"):
                connection.execute(sa.text(BUT_ONE))
    finally:
        engine.dispose()


JAVA = """
import java.sql.*;
public class Ask {
  public static void main(String[] a) throws Exception {
    try (Connection c = DriverManager.getConnection(a[0], "ann", System.getenv("PGPASSWORD"))) {
      try (ResultSet r = c.getMetaData().getColumns(null, "public", "staff", null)) {
        while (r.next()) System.out.print(r.getString("COLUMN_NAME") + " ");
      }
      System.out.println();
      c.setAutoCommit(false);
      String sql = "SELECT dept, SUM(pay) FROM staff WHERE dept <> ? AND age > ? GROUP BY dept";
      for (int k = 0; k < 7; k++) {  // prepared on the server, and binary, from the fifth on
        try (PreparedStatement s = c.prepareStatement(sql)) {
          s.setString(1, "c"); s.setInt(2, 0); s.setFetchSize(1);
          try (ResultSet r = s.executeQuery()) {
            while (r.next()) System.out.print(r.getString(1) + "=" + r.getBigDecimal(2) + " ");
          }
        }
        System.out.println();
      }
      try (Statement s = c.createStatement()) { s.executeQuery("SELECT SUM(pay) FROM staff WHERE name <> 'p3'"); }
      catch (SQLException e) { System.out.println(e.getSQLState()); }
    }
  }
}
"""


def test_jdbc(server: WireServer, tmp_path: Path) -> None:
    jar, java = Path(os.environ.get("POSTGRESQL_JAR", "/usr/share/java/postgresql.jar")), shutil.which("java")
    if java is None or shutil.which("javac") is None or not jar.exists():
        skip_outside_ci("no JDK or no JDBC driver here: make test installs them where it may")
    (tmp_path / "Ask.java").write_text(JAVA, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "PGPASSWORD": server.keys["ann"]}
    address = f"jdbc:postgresql://127.0.0.1:{server.port}/staff"
    words = [java, "-cp", str(jar), str(tmp_path / "Ask.java"), address]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines == ["name dept age hired pay bonus", *[f"a={TOTALS['a']} b={TOTALS['b']}"] * 7, "42501"], done.stderr


# --- who may come in --------------------------------------------------------------------------------------------------


def test_whoever_has_no_key_stays_outside(server: WireServer) -> None:
    good = server.address()
    for address in (
        good.replace(server.keys["ann"], "kh_" + "x" * 43),
        good.replace("ann:", "nobody:"),
        good.replace("ann:" + server.keys["ann"], "olga:" + server.keys["olga"]),  # an owner asks nothing
    ):
        with pytest.raises(psycopg.OperationalError, match="the name and the key do not fit") as error:
            psycopg.connect(address)
        assert server.keys["ann"] not in str(error.value)


def test_many_wrong_keys_from_one_address_are_turned_away(server: WireServer) -> None:
    wrong = server.address().replace(server.keys["ann"], "kh_" + "x" * 43)
    told = []
    for _ in range(40):
        with pytest.raises(psycopg.OperationalError) as error:
            psycopg.connect(wrong)
        told.append("too many wrong keys" in str(error.value))
    assert told[-1]
    assert not told[0]
    server.door._failures._levels.clear()  # the clock is not waited for


def test_a_key_that_was_revoked_asks_nothing_over_an_open_connection(server: WireServer) -> None:
    key = server.gate.keys.add("eve", KeyRole.ANALYST, populations=("staff",))
    with psycopg.connect(f"postgresql://eve:{key}@127.0.0.1:{server.port}/staff", autocommit=True) as connection:
        assert connection.execute(WHOLE).fetchone() == (sum(TOTALS.values()),)
        server.gate.keys.revoke("eve")
        assert find_state(connection, WHOLE) == "28P01"


def test_what_is_not_translated_counts_for_the_day_and_stops_with_the_server(server: WireServer) -> None:
    key = server.gate.keys.add("tom", KeyRole.ANALYST, populations=("staff",), per_day=2)
    with psycopg.connect(f"postgresql://tom:{key}@127.0.0.1:{server.port}/staff", autocommit=True) as connection:
        power = "SELECT SUM(pay) FROM staff WHERE age / 2.0 ^ 2 > 1"
        assert [find_state(connection, text) for text in (power, power, power)] == ["0A000", "0A000", "53300"]
        entries = len(server.gate.populations["staff"].session.book.refusals())
        server.gate.closing = True
        try:
            assert find_state(connection, power) == "57P01"
        finally:
            server.gate.closing = False
    assert len(server.gate.populations["staff"].session.book.refusals()) == entries


def test_a_portal_that_is_not_executed_gives_no_empty_answer(ann: psycopg.Connection[Any]) -> None:
    """A client that binds a portal and reads it with FETCH gets an error, not an empty table."""
    bound = [pack_parse(b"s", WHOLE), pack_bind(b"mine", b"s", []), pack_message(b"D", b"Pmine\0")]
    with ann.transaction(force_rollback=True), socket.socket(fileno=os.dup(ann.pgconn.socket)) as raw:
        raw.setblocking(True)
        fetch = pack_message(b"Q", b'FETCH ALL FROM "mine"\0')
        raw.sendall(b"".join([*bound, pack_message(b"H"), pack_message(b"S"), fetch]))
        got = b""
        while got.count(b"Z\0\0\0\5") < 2:
            got += raw.recv(1 << 16)
        assert b"sum\0" in got  # it was described
        assert b"C55000\0" in got
        raw.sendall(pack_message(b"Q", b"ROLLBACK\0"))
        while got.count(b"Z\0\0\0\5") < 3:
            got += raw.recv(1 << 16)


def make_certificate(folder: Path, digest: str) -> ssl.SSLContext:
    """A certificate of its own for localhost."""
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost", f"-{digest}"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_tls_binds_the_channel(tmp_path: Path) -> None:
    assert find_endpoint(make_certificate(tmp_path, "sha384")) is not None
    context = make_certificate(tmp_path, "sha256")
    server = WireServer(tmp_path, write_world(tmp_path), context)
    try:
        more = f"?sslmode=verify-ca&sslrootcert={tmp_path / 'cert.pem'}&channel_binding=require"
        with psycopg.connect(server.address(more=more)) as connection:
            assert connection.execute(WHOLE).fetchone() == (sum(TOTALS.values()),)
        with pytest.raises(psycopg.OperationalError, match="TLS is needed"):
            psycopg.connect(server.address(more="?sslmode=disable"))
    finally:
        server.close()


# --- how it ends ------------------------------------------------------------------------------------------------------


def test_a_question_is_cancelled_before_its_page_alone(server: WireServer) -> None:
    """The page is held by somebody else: the question waits, is cancelled, and nothing of it is in the book."""
    population = server.gate.populations["staff"]
    free = threading.Event()
    entries = population.session.book.state.seq
    held = server.run(_hold(population.turns, free))
    with psycopg.connect(server.address(), autocommit=True) as connection:
        failures: list[str | None] = []

        def ask() -> None:
            try:
                connection.execute(f"{WHOLE} WHERE age > 30 AND dept <> 'zz'")
            except psycopg.Error as error:
                failures.append(error.sqlstate)

        asking = threading.Thread(target=ask)
        asking.start()
        until = time.monotonic() + 20
        while not population.turns.waiting and time.monotonic() < until:
            time.sleep(0.01)
        connection.cancel_safe()
        free.set()
        asking.join(30)
        server.run(_wait(held))
        assert failures == ["57014"]
        assert connection.execute(WHOLE).fetchone() == (sum(TOTALS.values()),)
    assert population.session.book.state.seq == entries


async def _hold(turns: Any, free: threading.Event) -> asyncio.Task[None]:
    taken = asyncio.Event()

    async def hold() -> None:
        async with turns.take("somebody"):
            taken.set()
            while not free.is_set():
                await asyncio.sleep(0.01)

    task = asyncio.create_task(hold())
    await taken.wait()
    return task


async def _wait(task: asyncio.Task[None]) -> None:
    await task


def test_a_killed_gateway_leaves_no_server_and_a_whole_book(tmp_path: Path) -> None:
    keys = write_world(tmp_path)
    with start_process(tmp_path) as child:
        try:
            assert child.stdout is not None
            port, shadow, folder = child.stdout.readline().split()
            address = f"postgresql://ann:{keys['ann']}@127.0.0.1:{port}/staff"
            with psycopg.connect(address, autocommit=True) as connection:
                assert connection.execute(WHOLE).fetchone() == (sum(TOTALS.values()),)
                child.kill()
        finally:
            child.kill()
    until = time.monotonic() + 20
    while Path(f"/proc/{shadow}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{shadow}").exists()
    assert Path(folder).exists()  # columns and no rows; the next start removes it
    server = WireServer(tmp_path, keys)
    try:
        assert not Path(folder).exists()
        with psycopg.connect(server.address(), autocommit=True) as connection:
            assert connection.execute(WHOLE).fetchone() == (sum(TOTALS.values()),)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(BUT_ONE)
        answers = [e for e in server.gate.populations["staff"].session.book.entries() if e.kind == "answer"]
        assert len(answers) == 1  # told again, not answered again
    finally:
        server.close()
