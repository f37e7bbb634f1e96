"""A server for tests: the five people of the sessions' tests, behind real sockets on loopback."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from psycopg.pq import PGconn
from tests.sessions.session_world import CSV, DECLARED, EXACT, NAMES, TOML
from tests.support.files import write_files

from keyhole.serve.gate import Gate
from keyhole.serve.keys import KeyRing, KeyRole
from keyhole.serve.postgres_wire.front import WireDoor, open_door
from keyhole.serve.server import QuietServer, ServerSettings, bind, configure_http

SECRETS = (*NAMES, "kh_")  # what no reply to an analyst and no log line may contain
NOISY = f"""{TOML}{DECLARED}
[book]
population = "noisy"
[budget]
epsilon = 60
mechanism = "laplace"
accuracy = 0.05
"""


@dataclass
class RunningServer:
    """Its address, its gate (which lives on another thread), and a key for everybody who asks."""

    url: str
    gate: Gate
    folder: Path
    port: int = 0  # of the PostgreSQL door, if it is open
    lines: list[str] = field(default_factory=list)  # of its log
    _keys: dict[str, str] = field(default_factory=dict)

    def key(self, name: str, role: KeyRole = KeyRole.ANALYST, **more: Any) -> str:
        if name not in self._keys:
            self._keys[name] = KeyRing(self.gate.keys.path).add(name, role, **more)
        return self._keys[name]

    def head(self, name: str) -> dict[str, str]:
        role = KeyRole.OWNER if name == "owner" else KeyRole.ANALYST
        return {"authorization": f"Bearer {self.key(name, role)}"}

    def query(self, sql: str, name: str = "ann", path: str = "/v1/query", **more: Any) -> httpx.Response:
        body = {"sql": sql, **more}
        return httpx.post(f"{self.url}{path}", json=body, headers=self.head(name), timeout=60)

    def get(self, path: str, name: str = "owner", **more: Any) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=self.head(name), timeout=60, **more)

    def address(self, name: str, database: str) -> str:
        """For libpq."""
        return f"postgresql://{name}:{self.key(name)}@127.0.0.1:{self.port}/{database}"

    def said(self) -> str:
        """Everything that was logged."""
        return "\n".join(self.lines)


class _Kept(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def people(n: int) -> str:
    """So many in two departments, as CSV."""
    return "name,dept,level,pay\n" + "".join(f"p{i},{'ab'[i % 2]},{i % 50},{i * 7 % 101}\n" for i in range(n))


def write_world(folder: Path, settings: Mapping[str, str]) -> list[Path]:
    """Settings files, each in a folder of its own beside its people."""
    for name, text in settings.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        write_files(folder / name, {"staff.csv": people(400) if "noisy" in name else CSV, "keyhole.toml": text})
    return [folder / name / "keyhole.toml" for name in settings]


@contextmanager
def running(
    folder: Path, settings: Mapping[str, str] | None = None, *, code: str = "", wire: bool = False
) -> Iterator[RunningServer]:
    """The HTTP door with everything behind it, on a thread of its own; `wire`: the PostgreSQL door, too."""
    configs = write_world(folder, {"exact": EXACT} if settings is None else settings)
    opened: list[RunningServer] = []
    ready, stop = threading.Event(), threading.Event()
    faults: list[BaseException] = []
    lines: list[str] = []
    handler, log = _Kept(lines), logging.getLogger()
    log.addHandler(handler)
    logging.getLogger("keyhole.serve").setLevel(logging.INFO)

    async def live() -> None:
        gate = Gate.open(configs, folder / "keys.keyhole", per_minute=100_000)
        door: WireDoor | None = None
        try:
            port = 0
            if wire:
                beside = bind("127.0.0.1:0", None)
                port, door = beside.getsockname()[1], await open_door(gate, beside, None)
            listening = bind("127.0.0.1:0", None)
            server = QuietServer(configure_http(gate, ServerSettings(code=code), listening))
            task = asyncio.create_task(server.serve([listening]))
            while not server.started:
                await asyncio.sleep(0.01)
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            opened.append(RunningServer(url, gate, folder, port, lines))
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.02)
            await gate.drain(10)
            server.should_exit = True
            await task
        finally:
            if door is not None:
                await door.close()
            gate.close()

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:
            faults.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        ready.wait(60)
        if faults:
            raise faults[0]
        yield opened[0]
    finally:
        stop.set()
        thread.join(60)
        log.removeHandler(handler)
    assert not thread.is_alive()
    if faults:
        raise faults[0]


@contextmanager
def started(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """`keyhole serve` as a process; killed at the end if it still runs."""
    command = [sys.executable, "-c", "from keyhole.cli import main; main()", "serve", *words]
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(30)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def addresses_of(process: subprocess.Popen[str]) -> tuple[str, int]:
    """The addresses that a started server announces: of HTTP, and the port of the PostgreSQL door (0: it is shut)."""
    assert process.stdout is not None
    port = 0
    for line in process.stdout:
        if line.startswith("PostgreSQL"):
            port = int(line.strip().rstrip("/").rpartition(":")[2])
        if line.startswith("dashboard"):
            return line.split()[-1].removesuffix("/dashboard"), port
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


def address_of(process: subprocess.Popen[str]) -> str:
    """Of HTTP alone."""
    return addresses_of(process)[0]


def wait_for(what: Any, seconds: float = 30.0) -> None:
    """Until something holds."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.01)


def write_call(sql: str) -> dict[str, Any]:
    """A question as an agent's tool call."""
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": {"sql": sql}}}


MCP_HEAD = {"accept": "application/json, text/event-stream"}


def cut_session(address: str, sql: str) -> None:
    """The same over the PostgreSQL door."""
    connection = PGconn.connect(address.encode())
    try:
        connection.send_query(sql.encode())
        with socket.socket(fileno=os.dup(connection.socket)) as raw:
            raw.shutdown(socket.SHUT_RDWR)
    finally:
        connection.finish()


def cut_request(url: str, head: Mapping[str, str], body: str, path: str = "/v1/query") -> None:
    """A question whose asker goes away as soon as it is sent."""
    host, port = url.removeprefix("http://").split(":")
    lines = [f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in head.items()]
    text = f"{''.join(lines)}Content-Length: {len(body)}\r\n\r\n{body}"
    with socket.create_connection((host, int(port)), 10) as sending:
        sending.sendall(text.encode())
