"""A book in a schema of PostgreSQL: for several gateways, who queue at one row.

The tables belong to their owner. The role of the gateways may read and add entries, and may not change or delete one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from keyhole.book.store import WAIT, Row, Store
from keyhole.errors import BookError, ConfigError
from keyhole.extras import import_extra

if TYPE_CHECKING:
    import psycopg

IDLE = 30  # seconds that a gateway may hold the book without a word to it
CONNECT = 10  # seconds to reach the server
CHANNEL = "keyhole_book"  # on which a commit is announced to the other gateways
DURABLE = ("fsync", "full_page_writes", "synchronous_commit")  # none may be off
CHANGING = ("UPDATE", "DELETE", "TRUNCATE")  # what nobody who answers may do to an entry
SETUP = """\
-- once, by the owner of the database; then give the role a password or a certificate
CREATE ROLE {role} LOGIN;
CREATE SCHEMA {schema};
ALTER ROLE {role} SET search_path = {schema};
SET search_path = {schema};
CREATE TABLE about (key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE entry (seq bigint PRIMARY KEY, prev text NOT NULL, hash text NOT NULL, at text NOT NULL,
  kind text NOT NULL, epoch integer NOT NULL, analyst text, body text NOT NULL);
CREATE TABLE total (account text PRIMARY KEY, amount text NOT NULL, delta text NOT NULL);
CREATE TABLE sealed (epoch integer, name text, generation bigint NOT NULL, fields text NOT NULL, state bytea NOT NULL,
  PRIMARY KEY (epoch, name));
CREATE TABLE asked (number bigint GENERATED ALWAYS AS IDENTITY, at text NOT NULL, analyst text, sql text NOT NULL,
  verdict text NOT NULL, reason text NOT NULL);
CREATE TABLE head (one integer PRIMARY KEY);
INSERT INTO head VALUES (1);
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT ON about, entry, asked TO {role};
GRANT SELECT, INSERT, UPDATE ON total, sealed TO {role};
GRANT SELECT, UPDATE ON head TO {role};
"""
CURES = {
    "42P01": "it has no tables: run what `keyhole book setup` prints as the owner of the database",
    "3F000": "it has no schema: run what `keyhole book setup` prints as the owner of the database",
    "42501": "the role may not do that: run what `keyhole book setup` prints as the owner of the database",
    "55P03": "another gateway holds it for too long: try again when that has ended",
    "25006": "this server may not be written, since it is a standby: give the address of the primary",
    "53100": "the disk is full: make room and ask again",
    "28P01": "the password is wrong: PGPASSWORD or .pgpass has it",
}
LOST = "the connection to it was lost: ask again when it is back, nothing is paid twice"


class PostgresStore(Store):
    """One connection; a turn is a transaction that has locked the row of `head`. A lost connection ends the turn, and
    the next one begins with a new connection to the same schema.
    """

    order = "number"
    shared = True

    def __init__(self, path: str, connection: psycopg.Connection[Row]) -> None:
        self.path, self._connection = path, connection
        self._place = self._now = self._find_place()
        self._listening: psycopg.Connection[Row] | None = None

    @classmethod
    def open(cls, path: str) -> Self:
        """Refused if the server may lose what it acknowledged."""
        connection = _connect(path)
        try:
            return cls(path, connection)
        except BaseException:
            connection.close()
            raise

    def _find_place(self) -> Row:
        """Which server and which table are they, whatever the address?"""
        text = "SELECT system_identifier, to_regclass('entry')::oid FROM pg_control_system()"
        place = self.run(text)[0]
        if place[1] is None:
            raise BookError(f"the book {self.path}: {CURES['42P01']}")
        return place

    def refuse_powerful_role(self) -> None:
        """Who answers may add entries and do nothing else to them."""
        asked = ", ".join(f"has_table_privilege('entry', '{what}')" for what in CHANGING)
        able = [what for what, may in zip(CHANGING, self.run(f"SELECT {asked}")[0], strict=True) if may]
        if able:
            raise BookError(
                f"the book {self.path}: this role may {', '.join(able)} entries, so a book that it keeps proves "
                "nothing: give the role that `keyhole book setup` makes, which is no owner and no superuser"
            )

    def reach(self) -> None:
        """A new connection, if the last was lost; whether it leads to the same book is seen before it is used."""
        if self._connection.closed:
            self._connection = _connect(self.path)
            self._now = self._find_place()

    def begin(self) -> None:
        """Behind whoever holds the row, first come first served."""
        self.reach()
        try:
            self.run("BEGIN")
            self.run("SELECT one FROM head FOR UPDATE")
        except BaseException:
            self.roll_back()
            raise

    def commit(self) -> None:
        """On disk when it returns; if the connection is lost here, the next turn reads whether it is."""
        with self._explained():
            if self._connection.info.transaction_status is _errors().pq.TransactionStatus.INTRANS:
                self._connection.execute(f"NOTIFY {CHANNEL}".encode())
            status = self._connection.execute("COMMIT").statusmessage
        if status != "COMMIT":  # a turn in which something failed ends so
            raise BookError(f"the book {self.path}: what was to be written was not. Nothing was answered or spent")

    def wait_for_others(self, seconds: float) -> bool:
        """Did another gateway commit something? Waits so long at most, for one thread, on a connection of its own."""
        with self._explained():
            if self._listening is None or self._listening.closed:
                self._listening = _connect(self.path)
                self._listening.execute(f"LISTEN {CHANNEL}".encode())
                return True  # nobody heard what was committed before
            own = self._connection.info.backend_pid
            return any(each.pid != own for each in self._listening.notifies(timeout=seconds, stop_after=1))

    def roll_back(self) -> None:
        """Nothing of this turn stays: a lost connection leaves nothing."""
        try:
            self._connection.execute("ROLLBACK")
        except _errors().Error:
            self._connection.close()

    def run(self, text: str, values: Row = ()) -> list[Row]:
        """One statement."""
        with self._explained():
            cursor = self._connection.execute(text.replace("?", "%s").encode(), values)
            return cursor.fetchall() if cursor.description is not None else []

    def note(self, at: str, analyst: str | None, sql: str, verdict: str, reason: str) -> None:
        """PostgreSQL has no text with a zero byte."""
        super().note(at, analyst, sql.replace("\0", "\ufffd"), verdict, reason.replace("\0", "\ufffd"))

    def is_blank(self) -> bool:
        """The tables are there, and nothing is in them."""
        return not self.run("SELECT 1 FROM entry LIMIT 1")

    def create(self) -> None:
        """The owner has made the tables: see `keyhole book setup`."""

    def was_replaced(self) -> bool:
        """Another server, or another table, answers to the same address."""
        return self._now != self._place

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """To be read as it is now, while others write."""
        self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            self.roll_back()

    def close(self) -> None:
        """Let go of the connections."""
        for each in (self._connection, self._listening):
            with suppress(_errors().Error):
                if each is not None:
                    each.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except _errors().Error as error:
            raise _explain(self.path, error) from None


def _errors() -> Any:
    return import_extra("psycopg", "a book in PostgreSQL")


def _connect(path: str) -> psycopg.Connection[Row]:
    """Refused where an acknowledged entry may be lost; how long anybody waits is bounded."""
    if urlsplit(path).password is not None:
        raise ConfigError('write no password into path = "postgresql://...": PGPASSWORD or .pgpass has it')
    driver = _errors()
    try:
        connection: psycopg.Connection[Row] = driver.connect(
            path, autocommit=True, connect_timeout=CONNECT, application_name="keyhole"
        )
    except driver.Error as error:
        raise _explain(path, error) from None
    try:
        settings = {name: str(connection.execute(f"SHOW {name}".encode()).fetchall()[0][0]) for name in DURABLE}
        off = [name for name, value in settings.items() if value == "off"]
        if off:
            raise BookError(
                f"the book {path}: {' and '.join(off)} is off on this server, so what was acknowledged may be lost and "
                "paid twice: switch it on"
            )
        # a reload of the server's settings changes nothing for this session
        connection.execute(f"SET synchronous_commit = {settings['synchronous_commit']}".encode())
        connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE}s'".encode())
        connection.execute(f"SET lock_timeout = '{WAIT:.0f}s'".encode())
    except driver.Error as error:
        connection.close()
        raise _explain(path, error) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _explain(path: str, error: Exception) -> BookError:
    """One clear sentence; the server's own words may quote what was asked, so its code stands for them."""
    code = getattr(error, "sqlstate", None)
    if code is None or code.startswith(("08", "57P")) or code == "25P03":
        return BookError(f"the book {path}: {LOST}")
    return BookError(f"the book {path}: {CURES.get(code, f'the server says {code}')}. Nothing was answered or spent")
