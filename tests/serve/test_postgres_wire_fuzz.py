"""The PostgreSQL door against clients that do not keep the protocol, and statements outside the grammar."""

from __future__ import annotations

import logging
import os
import random
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from tests.serve.wire_server import ROWS, WireServer, write_world
from tests.support.effort import FULL, effort

from keyhole.serve.limits import MOST_SQL
from keyhole.serve.postgres_wire import front, session
from keyhole.serve.postgres_wire.messages import MOST_RESPONSE, pack_bind, pack_message, pack_parse
from keyhole.serve.postgres_wire.shadow import OWNER

SESSIONS = 2_500 if FULL else 100  # of clients with a key, and of those without one
LONGEST = 5.0  # seconds that the door may leave a client without a word
PEOPLE = [row[0].encode() for row in ROWS]
TEXTS = (
    "SELECT SUM(pay) FROM staff", "SELECT dept, AVG(pay) FROM staff GROUP BY dept", "SELECT * FROM staff", "SELECT 1",
    "SELECT pay FROM staff WHERE age = $1", "SELECT SUM(pay) FROM staff WHERE dept = $1 AND age > $2", "", ";", "BEGIN",
    "ROLLBACK", "SELEC", "COPY staff FROM STDIN", "COPY (SELECT SUM(pay) FROM staff) TO STDOUT", "SHOW ALL", "'", "$x$",
    "DECLARE c CURSOR FOR SELECT SUM(pay) FROM staff", "FETCH 1 FROM c", "SELECT repeat('x', 100000)", "/* staff",
    "EXPLAIN SELECT SUM(pay) FROM staff", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity", "DISCARD ALL",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireServer]:
    """A door."""
    folder = tmp_path_factory.mktemp("wire")
    made = WireServer(folder, write_world(folder))
    try:
        yield made
    finally:
        made.close()


def read_all(connection: socket.socket, until: bytes = b"") -> bytes:
    """What comes until the other side ends, or says that it is ready; a silence fails the test."""
    got, last = b"", time.monotonic()
    while time.monotonic() - last < LONGEST:
        if select.select([connection], [], [], 0.1)[0]:
            try:
                part = connection.recv(1 << 16)
            except ConnectionError:
                return got
            if not part:
                return got
            got, last = got + part, time.monotonic()
        if until and until in got:
            return got
    raise AssertionError(f"nothing came for {LONGEST} seconds; {len(got)} bytes before: {got[-80:]!r}")


def is_clean(server: WireServer, caplog: pytest.LogCaptureFixture) -> None:
    """No session, backend or unforeseen fault is left."""
    until = time.monotonic() + 20
    backends = -1
    while time.monotonic() < until:
        with psycopg.connect(host=str(server.door.shadow.folder), user=OWNER, dbname="postgres") as owner:
            found = owner.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = 'analyst'").fetchone()
        backends = -1 if found is None else found[0]
        if not backends and not server.door.sessions and not server.door._tasks:
            break
        time.sleep(0.05)
    assert (backends, len(server.door.sessions), len(server.door._tasks)) == (0, 0, 0)
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def random_start(rng: random.Random) -> bytes:
    """The first bytes of somebody without a key."""
    words = {"user": rng.choice(("ann", "", "x" * 500, "ann\u00e9")), "database": rng.choice(("staff", "postgres", ""))}
    packed = b"".join(f"{k}\0{v}\0".encode() for k, v in words.items()) + b"\0"
    good = struct.pack("!ii", len(packed) + 8, rng.choice((196608, 196608, 196610, 131072))) + packed
    match rng.randrange(6):
        case 0:
            return rng.randbytes(rng.randrange(8, 200))
        case 1:
            return struct.pack("!ii", rng.choice((-1, 0, 7, 1 << 30, 8)), rng.choice((80877103, 80877102, 196608)))
        case 2:
            return struct.pack("!ii", 8, 80877103) + good
        case 3:
            return good + pack_message(
                b"p", rng.choice((b"SCRAM-SHA-256\0", b"SCRAM-SHA-256-PLUS\0", b"")) + rng.randbytes(40)
            )
        case 4:
            first = b"n,,n=,r=abc"
            begun = pack_message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first)
            return (
                good
                + begun
                + pack_message(b"p", rng.choice((b"c=biws,r=abc,p=AAAA", b"c=biws", b"", rng.randbytes(30))))
            )
        case _:
            return good[: rng.randrange(1, len(good))]


def test_somebody_without_a_key_is_always_turned_away(server: WireServer, caplog: pytest.LogCaptureFixture) -> None:
    for seed in range(SESSIONS):
        rng = random.Random(seed)
        server.door._failures._levels.clear()
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            with suppress(ConnectionError):
                connection.sendall(random_start(rng))
                connection.shutdown(socket.SHUT_WR)
            assert b"Z\0\0\0\5" not in read_all(connection), seed
    is_clean(server, caplog)


def random_message(rng: random.Random) -> bytes:
    """A message of somebody who has a key."""
    text, name, portal = rng.choice(TEXTS), rng.choice((b"", b"a", b"_keyhole")), rng.choice((b"", b"p", b"_keyhole"))
    match rng.randrange(10):
        case 0 | 1:
            return pack_message(b"Q", text.encode() + b"\0")
        case 2 | 3:
            return pack_parse(name, text)
        case 4:
            values = [rng.choice((None, b"5", b"a", b"\0\0\0\5"))] * rng.randrange(4)
            formats = rng.choice((b"\0\0", b"\0\1\0\1", b"\0\2\0\1\0\0"))
            return pack_bind(portal, name, values, formats, rng.choice((b"\0\0", b"\0\1\0\1")))
        case 5:
            return pack_message(b"E", portal + b"\0" + struct.pack("!i", rng.choice((0, 1, -1))))
        case 6:
            return pack_message(b"D", rng.choice((b"S" + name, b"P" + portal, b"X", b"S")) + b"\0")
        case 7:
            return pack_message(rng.choice((b"S", b"H", b"c", b"d", b"f")))
        case 8:
            return pack_message(b"C", rng.choice((b"S" + name, b"P" + portal)) + b"\0")
        case _:
            return pack_message(bytes([rng.randrange(256)]), rng.randbytes(rng.randrange(20)))


def test_no_client_with_a_key_hangs_the_door_or_sees_a_row(
    server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    ended = 0
    for seed in range(SESSIONS):
        rng = random.Random(seed)
        messages = [random_message(rng) for _ in range(rng.randrange(1, 12))]
        connection = psycopg.connect(server.address(), autocommit=True)
        with socket.socket(fileno=os.dup(connection.pgconn.socket)) as raw:
            try:
                raw.setblocking(True)  # the socket is taken over from libpq
                end = [pack_message(b"c"), pack_message(b"S")]
                end += [pack_message(b"Q", text + b"\0") for text in (b"ROLLBACK", b"SELECT 'the end'")]
                with suppress(ConnectionError):  # the door has closed it, as it does where the protocol is not kept
                    raw.sendall(b"".join([*messages, *end]))
                got = read_all(raw, b"\7the end")
                ended += b"the end" not in got
                assert not any(b"\0" + person in got for person in PEOPLE), seed
                assert b"Traceback" not in got
            finally:
                connection.close()
    assert ended < SESSIONS  # most go on
    is_clean(server, caplog)


# --- statements -------------------------------------------------------------------------------------------------------

PLACES = (
    "staff", "ONLY staff", "public.staff", '"staff"', 'U&"st\\0061ff"', "staff AS s", "(SELECT * FROM staff) AS s",
    "staff TABLESAMPLE SYSTEM (100)", "staff CROSS JOIN generate_series(1, 1) AS g", "(TABLE staff) AS s",
    "(VALUES (1)) AS v(x), LATERAL (SELECT * FROM staff) AS s",
)  # fmt: skip
ITEMS = (
    "name", "pay", "*", "name || ''", "row_to_json(ROW(pay))", "max(name)", "string_agg(name, ',')", "array_agg(pay)",
    "json_agg(pay)", "min(pay) OVER ()", "DISTINCT pay", "first_value(name) OVER ()", "CASE WHEN pay > 0 THEN name END",
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY name)", "mode() WITHIN GROUP (ORDER BY pay)", "bool_or(pay > 5)",
    "count(*) FILTER (WHERE EXISTS (SELECT FROM staff AS t WHERE t.pay > 7))", "md5(name)", "ctid", "tableoid",
)  # fmt: skip
AROUND = (
    "{}", "WITH w AS ({}) SELECT * FROM w", "SELECT * FROM ({}) AS q", "{} UNION ALL {}", "({})", "SELECT EXISTS ({})",
    "SELECT ARRAY({})", "COPY ({}) TO STDOUT", "DECLARE c CURSOR WITH HOLD FOR {}", "EXPLAIN ANALYZE {}",
    "SELECT coalesce(({} LIMIT 1)::text, '')", "PREPARE x AS {}; EXECUTE x", "{} FOR UPDATE",
    "SELECT query_to_xml($q${}$q$, true, false, '')", "DO $q$ BEGIN PERFORM 1; END $q$; {}",
    "VALUES ((({} LIMIT 1))::text)", "CREATE TEMP TABLE z AS {}",
)  # fmt: skip
ALONE = (
    "TABLE staff", "SELECT staff FROM staff", "SELECT s FROM staff s", "COPY staff TO STDOUT", "VACUUM",
    "SELECT pg_read_file('/etc/passwd')", "SELECT lo_import('/etc/passwd')", "COPY (SELECT 1) TO PROGRAM 'id'",
    "SELECT table_to_xml('staff', true, false, '')", "SELECT pg_sleep(100)", "SET ROLE keyhole", "LOCK staff",
    "COPY staff (pay) TO STDOUT",
    "SET SESSION AUTHORIZATION keyhole", "CREATE VIEW v AS SELECT 1", "ANALYZE staff", "NOTIFY x", "LISTEN x",
)  # fmt: skip


# PostgreSQL's own errors, before a statement runs: syntax, grouping, a name that is not there, or is there twice
NOT_SQL = {"42601", "42803", "42703", "42704", "42725", "42809", "42883", "42P01", "42P05", "42P10"}


def test_statements_outside_the_grammar_give_no_row(server: WireServer) -> None:
    rng = random.Random(7)
    texts = [*ALONE]
    for _ in range(effort(300)):
        inner = f"SELECT {rng.choice(ITEMS)} FROM {rng.choice(PLACES)}"
        texts.append(rng.choice(AROUND).replace("{}", inner))
    with psycopg.connect(server.address(), autocommit=True) as connection:
        for text in texts:
            codes = []
            for simple in (True, False):
                try:
                    cursor = psycopg.ClientCursor(connection) if simple else connection.cursor()
                    cursor.execute(text, prepare=None if simple else True)
                    while cursor.nextset():
                        pass
                    rows = cursor.fetchall() if cursor.description else []
                    codes.append(f"{rows}")
                except psycopg.Error as error:
                    codes.append(str(error.sqlstate))
            assert set(codes) <= {"42501", "0A000"} | NOT_SQL, (text, codes)


def test_what_the_door_misses_has_no_right_in_the_shadow(server: WireServer) -> None:
    """If every statement were relayed as it is, nothing would be read: the guard does not lean on the front."""
    database = server.door.shadow.databases["staff"]
    with psycopg.connect(
        host=str(server.door.shadow.folder), user="analyst", dbname=database, autocommit=True
    ) as connection:
        for text in ("SELECT * FROM staff", "SELECT count(*) FROM ONLY staff", "TABLE staff", "COPY staff TO STDOUT"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(text)
        assert connection.execute("SELECT has_table_privilege('staff', 'SELECT')").fetchone() == (False,)
        for text in (
            "CREATE TABLE x (y int)",
            "CREATE TEMP TABLE x (y int)",
            "SELECT lo_create(0)",
            "SELECT pg_sleep(1)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(text)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT pg_terminate_backend(1)")


# --- what one client with a key can take from the others --------------------------------------------------------------


def test_what_a_client_leaves_running_ends_with_its_session(
    server: WireServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SHADOW_SECONDS", 1.0)
    endless = "SELECT count(*) FROM pg_class, pg_class AS b, pg_class AS c, pg_class AS d, pg_class AS e"
    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.execute("SET statement_timeout = 0")
        with pytest.raises(psycopg.OperationalError):
            connection.execute(endless)
    is_clean(server, caplog)


def test_sizes_are_bounded_before_anything_looks_at_them(server: WireServer) -> None:
    with psycopg.connect(server.address(), autocommit=True) as connection:
        for text in ("SELECT 1" + " " * MOST_SQL, f"SELECT SUM(pay) FROM staff -- {'x' * MOST_SQL}"):
            for simple in (True, False):
                with pytest.raises(psycopg.errors.ProgramLimitExceeded):
                    (psycopg.ClientCursor(connection) if simple else connection.cursor()).execute(text)
        assert connection.execute("SELECT length(repeat('x', 1000000))").fetchone() == (1_000_000,)
        with pytest.raises(psycopg.OperationalError):  # it would pass through the memory of the server
            connection.execute(f"SELECT repeat('x', {MOST_RESPONSE})")


def test_one_analyst_does_not_take_every_connection(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "MOST_OF_ONE", 2)
    with psycopg.connect(server.address()), psycopg.connect(server.address()):
        with pytest.raises(psycopg.OperationalError, match="too many connections"):
            psycopg.connect(server.address())
        with psycopg.connect(server.address("bob"), autocommit=True) as other:
            assert other.execute("SELECT 1").fetchone() == (1,)
