"""The process: addresses, doors, and how it ends.

Every door that is not on loopback needs TLS. On SIGTERM no new question is taken, those under way end, and what was
committed is in the book; a second signal ends the process at once, which loses nothing that was committed either.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import uvicorn

from keyhole.config.config import TlsTable
from keyhole.errors import ConfigError
from keyhole.serve.gate import Gate
from keyhole.serve.guard import MOST_HEADERS, SlowClientProtocol
from keyhole.serve.http import make_app

log = logging.getLogger("keyhole.serve")
MOST_CONNECTIONS = 512
HTTP, POSTGRES = "127.0.0.1:8300", "127.0.0.1:6432"  # where doors are if nothing says otherwise


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Which doors are open, and where; None: that one is shut. `code` opens the dashboard of the demo once."""

    http: str | None = HTTP
    postgres: str | None = None
    mcp: bool = True
    hosts: tuple[str, ...] = ()
    tls: TlsTable | None = None
    code: str = ""


class Door(Protocol):
    """A door that is open."""

    async def close(self) -> None:
        """Shut it."""


def split_address(address: str) -> tuple[str, int]:
    """Host and port of an address.

    >>> split_address("127.0.0.1:8300"), split_address("[::1]:80"), split_address("8300")
    (('127.0.0.1', 8300), ('::1', 80), ('127.0.0.1', 8300))
    """
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{address!r} is no address: write 127.0.0.1:8300")
    return host.strip("[]") or "127.0.0.1", int(port)


def is_loopback(host: str) -> bool:
    """Does only this machine reach it?

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("db.example")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind(address: str, tls: TlsTable | None) -> socket.socket:
    """A socket that listens. Without TLS it must be on loopback."""
    host, port = split_address(address)
    if tls is None and not is_loopback(host):
        raise ConfigError(
            f"{address} can be reached from other machines, and keys would be readable on the way: write tls = "
            '{ cert = "cert.pem", key = "key.pem" } under [serve], or listen on 127.0.0.1'
        )
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=256
        )
    except OSError as error:
        raise ConfigError(f"cannot listen on {address}: {error.strerror}") from None
    # its connections inherit this; without it each answer on a kept connection waits 40 ms for the client's receipt
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def check_tls(tls: TlsTable | None) -> ssl.SSLContext | None:
    """The certificate and its key, held against each other; None without TLS."""
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.cert, tls.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate {tls.cert} and the key {tls.key} cannot be used: {error}") from None
    return context


def list_hosts(listening: socket.socket, more: tuple[str, ...]) -> list[str]:
    """What a request may call this server."""
    host, port = listening.getsockname()[:2]
    own = [host if ":" not in host else f"[{host}]", *(["localhost"] if is_loopback(host) else ())]
    return [name for each in (*own, *more) for name in (each, f"{each}:{port}")]


class QuietServer(uvicorn.Server):
    """uvicorn without signal handlers of its own: the gate is drained first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """They are ours."""
        yield


async def run_server(gate: Gate, settings: ServerSettings, announce: Callable[[str], None]) -> None:
    """Open the doors, tell where they are, and stay until a signal comes."""
    context = check_tls(settings.tls)
    http = None if settings.http is None else bind(settings.http, settings.tls)
    scheme = "http" if settings.tls is None else "https"
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stop)
    doors: list[Door] = []
    server: QuietServer | None = None
    running: asyncio.Task[None] | None = None
    try:
        if settings.postgres is not None:
            doors.append(await _open_postgres(gate, settings, context, announce))
        if http is not None:
            server = QuietServer(configure_http(gate, settings, http))
            running = asyncio.create_task(server.serve([http]))
            place = f"{scheme}://{_name_socket(http)}"
            announce(f"HTTP       {place}/v1/query")
            if settings.mcp:
                announce(f"MCP        {place}/mcp")
            announce(f"dashboard  {place}/dashboard")
        shared = [each for each in gate.populations.values() if each.session.book.store.shared]
        following = [asyncio.create_task(gate.follow_book(each)) for each in shared]
        waiting = {asyncio.create_task(stop.wait())} | ({running} if running is not None else set())
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        announce("closing: no new question is taken")
        left = await gate.drain()
        await asyncio.gather(*following)
        if left:
            log.warning("%d questions were still under way; what they commit is in the book", left)
    finally:
        for door in doors:
            await door.close()
        if server is not None and running is not None:
            server.should_exit = True
            await running
        elif http is not None:
            http.close()


def _stop(stop: asyncio.Event) -> None:
    if stop.is_set():
        sys.exit(130)
    stop.set()


def _name_socket(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def configure_http(gate: Gate, settings: ServerSettings, listening: socket.socket) -> uvicorn.Config:
    """How uvicorn runs the HTTP door."""
    tls = settings.tls
    hosts = list_hosts(listening, settings.hosts)
    app = make_app(gate, hosts, secure=tls is not None, mcp=settings.mcp, code=settings.code)
    return uvicorn.Config(
        app,
        http=SlowClientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",  # what goes wrong is told by the guard, without a traceback that could quote a value
        access_log=False,
        server_header=False,
        date_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=MOST_HEADERS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
        ssl_certfile=None if tls is None else tls.cert,
        ssl_keyfile=None if tls is None else tls.key,
    )


async def _open_postgres(
    gate: Gate, settings: ServerSettings, context: ssl.SSLContext | None, announce: Callable[[str], None]
) -> Door:
    assert settings.postgres is not None
    from keyhole.serve.postgres_wire.front import open_door

    listening = bind(settings.postgres, settings.tls)
    door = await open_door(gate, listening, context)
    announce(f"PostgreSQL postgresql://{_name_socket(listening)}/")
    return door


def choose_settings(configs: tuple[Path, ...]) -> tuple[ServerSettings, Path, int]:
    """The doors, the file of keys and the rate, from the one settings file that has a [serve]; else what is usual."""
    from keyhole.config import Config
    from keyhole.config.config import ServeTable

    tables = {path: Config.load(path).serve for path in configs}
    written = [path for path, table in tables.items() if table != ServeTable()]
    if len(written) > 1:
        raise ConfigError(f"[serve] is in {written[0]} and in {written[1]}: write it once")
    table = tables[written[0]] if written else ServeTable()
    keys = Path(table.keys) if table.keys is not None else (written or configs)[0].resolve().parent / "keys.keyhole"
    settings = ServerSettings(table.http or HTTP, table.postgres, table.mcp, table.hosts, table.tls)
    return settings, keys, table.per_minute
