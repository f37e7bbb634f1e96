"""The front of the PostgreSQL door: connections, TLS, who they are, and how they are cancelled and closed."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import secrets
import socket
import ssl
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from keyhole.serve.gate import Gate, Population
from keyhole.serve.keys import ApiKey, KeyRole
from keyhole.serve.limits import TokenBuckets
from keyhole.serve.postgres_wire.messages import (
    MOST_RESPONSE,
    ProtocolViolation,
    pack_error,
    pack_message,
    read_message,
)
from keyhole.serve.postgres_wire.scram import Verifier, find_endpoint, prove_key
from keyhole.serve.postgres_wire.session import WireSession
from keyhole.serve.postgres_wire.shadow import ANALYST, Shadow, start_shadow

log = logging.getLogger("keyhole.serve")
MOST_START = 10_000  # bytes of a first message
MOST_CONNECTIONS = 100  # with a key
MOST_OF_ONE = 50  # of them, those of one analyst
MOST_STRANGERS = 400  # in all: whoever has not logged in yet is given 10 seconds
AUTH_SECONDS = 10.0
FAILURES_A_MINUTE = 30  # wrong keys from one address
ASK_TLS, ASK_GSS, CANCEL = 80877103, 80877104, 80877102
KEPT = ("application_name", "TimeZone", "IntervalStyle", "extra_float_digits", "search_path")  # of a client's settings


class Rejected(Exception):
    """The connection ends with this error."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


@dataclass(slots=True)
class WireDoor:
    """A listening door, its shadow, and the sessions that are open, by the key that cancels them."""

    gate: Gate
    shadow: Shadow
    tls: ssl.SSLContext | None
    endpoint: bytes | None
    server: asyncio.Server | None = None
    sessions: dict[bytes, WireSession] = field(default_factory=dict)
    _failures: TokenBuckets = field(default_factory=TokenBuckets)
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def close(self) -> None:
        """Shut the door, end its sessions and the shadow."""
        if self.server is not None:
            self.server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=10)
        await self.shadow.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its end. Nothing that goes wrong in it is told with its words."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._converse(reader, writer)
        except Rejected as error:
            await _say_last(writer, error.code, error.text)
        except ProtocolViolation as error:
            await _say_last(writer, "08P01", f"the protocol was not kept: {error}")
        except (ValueError, IndexError, KeyError):
            await _say_last(writer, "08P01", "the protocol was not kept")
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, ssl.SSLError, OSError):
            pass  # the other side is gone, or too slow
        except asyncio.CancelledError:
            await _say_last(writer, "57P01", "the server is closing")
        except Exception as error:
            log.error("a connection of the PostgreSQL door met %s", type(error).__name__)
            await _say_last(writer, "XX000", f"this connection cannot go on ({type(error).__name__})")
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(Exception):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) > MOST_STRANGERS:
            raise Rejected("53300", "too many connections")
        async with asyncio.timeout(AUTH_SECONDS):
            settings = await self._read_start(reader, writer)
            if settings is None:
                return
            key, population = await self._authenticate(reader, writer, settings)
        own = sum(session.key.name == key.name for session in self.sessions.values())
        if own >= MOST_OF_ONE or len(self.sessions) >= MOST_CONNECTIONS:
            raise Rejected("53300", "too many connections")
        try:
            shadow_reader, shadow_writer = await asyncio.open_unix_connection(self.shadow.socket)
        except OSError:
            log.error("the shadow of the PostgreSQL door is gone: start the server again")
            raise Rejected("57P03", "this door is out of order: tell its owner") from None
        number = struct.pack("!i", next(self._numbers) % (1 << 31)) + secrets.token_bytes(4)
        session = WireSession(self.gate, population, key, reader, writer, shadow_reader, shadow_writer)
        try:
            await self._begin(session, settings, number)
            await session.run()
        finally:
            self.sessions.pop(number, None)
            await self._cancel_backend(session)  # it would run on, and a client may lift the limit of its time
            shadow_writer.write(pack_message(b"X"))
            shadow_writer.close()
            with suppress(Exception):
                await shadow_writer.wait_closed()

    async def _read_start(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, str] | None:
        """The client's settings, over TLS where there is a certificate; None if it wanted to cancel something."""
        over = False
        for _ in range(4):
            size, code = struct.unpack("!ii", await reader.readexactly(8))
            if not 8 <= size <= MOST_START:
                raise ProtocolViolation("a first message of this size is not read")
            body = await reader.readexactly(size - 8)
            if code == ASK_TLS and self.tls is not None and not over:
                if reader._buffer:  # type: ignore[attr-defined]
                    raise ProtocolViolation("bytes were sent before TLS began")  # CVE-2021-23222
                writer.write(b"S")
                await writer.drain()
                await writer.start_tls(self.tls)
                over = True
            elif code in (ASK_TLS, ASK_GSS):
                writer.write(b"N")
            elif code == CANCEL:
                await self._cancel(body)
                return None
            else:
                if code >> 16 != 3:
                    raise Rejected("0A000", "only version 3 of the protocol is spoken")
                if self.tls is not None and not over:
                    raise Rejected("28000", "TLS is needed: sslmode=require")
                return _read_settings(code, body, writer)
        raise ProtocolViolation("the connection does not begin")

    async def _authenticate(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: dict[str, str]
    ) -> tuple[ApiKey, Population]:
        name, address = settings.get("user", ""), str((writer.get_extra_info("peername") or ("",))[0])
        if self._failures.is_empty(address, FAILURES_A_MINUTE):
            raise Rejected("53300", "too many wrong keys from this address: try again in a minute")
        key = self._find_key(name)
        verifier = Verifier.of_nobody(name, self._secret) if key is None else Verifier.parse(key.scram)
        fits = await prove_key(reader, writer, verifier, self.endpoint)
        if not fits or key is None:
            self._failures.take(address, FAILURES_A_MINUTE, FAILURES_A_MINUTE)
            raise Rejected("28P01", "the name and the key do not fit")
        wanted = settings.get("database") or name
        population = self.gate.reach(wanted if wanted in self.gate.populations else None, key)
        if not isinstance(population, Population):
            raise Rejected(population.row.sqlstate, population.detail)
        return key, population

    def _find_key(self, name: str) -> ApiKey | None:
        """The newest key of an analyst of this name that is good now."""
        now = dt.datetime.now(dt.UTC)
        mine = [k for k in self.gate.keys.keys if k.name == name and k.role is KeyRole.ANALYST and k.scram]
        return next((k for k in reversed(mine) if not k.has_expired(now)), None)

    async def _begin(self, session: WireSession, settings: dict[str, str], number: bytes) -> None:
        """A backend of the shadow, as the one role and in the database of the population."""
        database = self.shadow.databases[session.population.name]
        kept = {name: settings[name] for name in KEPT if name in settings}
        words = {"user": ANALYST, "database": database, "client_encoding": "UTF8", **kept}
        packed = b"".join(f"{name}\0{value}\0".encode() for name, value in words.items()) + b"\0"
        session.shadow_writer.write(struct.pack("!ii", len(packed) + 8, 196608) + packed)
        while True:
            kind, body = await read_message(session.shadow_reader, MOST_RESPONSE)
            if kind == b"K":
                session.backend, body = body, number
                self.sessions[number] = session
            session.writer.write(pack_message(kind, body))
            if kind == b"E":
                raise ConnectionResetError
            if kind == b"Z":
                await session.writer.drain()
                return

    async def _cancel(self, number: bytes) -> None:
        """Before the page a question is cancelled; on it, it ends. What the shadow runs is cancelled there."""
        session = self.sessions.get(number)
        if session is None:
            return
        if session.asking:
            session.cancelled = True
            return
        await self._cancel_backend(session)

    async def _cancel_backend(self, session: WireSession) -> None:
        with suppress(OSError):
            _, writer = await asyncio.open_unix_connection(self.shadow.socket)
            writer.write(struct.pack("!ii", 8 + len(session.backend), CANCEL) + session.backend)
            writer.close()
            await writer.wait_closed()


def _read_settings(code: int, body: bytes, writer: asyncio.StreamWriter) -> dict[str, str]:
    """The pairs of a first message; a newer minor version is turned down, as the protocol has it."""
    words = [part.decode("utf-8") for part in body.split(b"\0")]
    settings = {name: value for name, value in zip(words[0::2], words[1::2], strict=False) if name}
    unknown = [name for name in settings if name.startswith("_pq_.")]
    if code & 0xFFFF or unknown:
        options = b"".join(name.encode() + b"\0" for name in unknown)
        writer.write(pack_message(b"v", struct.pack("!ii", 0, len(unknown)) + options))
    return settings


async def _say_last(writer: asyncio.StreamWriter, code: str, text: str) -> None:
    with suppress(ConnectionError, TimeoutError, ssl.SSLError, OSError, RuntimeError):
        writer.write(pack_error(code, text, "FATAL"))
        async with asyncio.timeout(2):
            await writer.drain()


async def open_door(gate: Gate, listening: socket.socket, context: ssl.SSLContext | None) -> WireDoor:
    """Start the shadow and serve the socket. Called on the thread that lives as long as the process."""
    schemas = {name: population.schema for name, population in gate.populations.items()}
    endpoint = None if context is None else find_endpoint(context)
    door = WireDoor(gate, await start_shadow(schemas), context, endpoint)
    try:
        door.server = await asyncio.start_server(door.serve, sock=listening, limit=1 << 20)
    except BaseException:
        await door.close()
        raise
    return door
