"""Statements are read first in a process of its own, which has limits of time and memory.

A short text can take long to read: a product of twenty sums has a million terms. Such a text ends the other process
(`python -m keyhole.serve.reading`) and is refused; the server goes on. What was read there in time is read again here,
by the session. The process has the columns of the tables and nothing else of them; it ends with its pipe.
"""

from __future__ import annotations

import json
import pickle
import queue
import resource
import select
import signal
import struct
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from keyhole.errors import KeyholeError
from keyhole.model.schema import Schema

PROCESSES = 2
SECONDS = 3  # of processor time that a statement may take to be read
WALL_SECONDS = 60.0  # of waiting for it, on a machine that is busy with something else
MEGABYTES = 512  # beyond what the process has when it begins
KNOWN = 4096  # latest texts that were read in time
TOO_MUCH = (
    f"it takes more than {SECONDS} s or {MEGABYTES} MB to read: a product of sums multiplies their terms, so ask for "
    "its parts separately"
)


@dataclass(slots=True)
class ReadingProcess:
    """One such process; it is started when it is first needed, and again after a text that was too much."""

    schemas: bytes
    process: subprocess.Popen[bytes] | None = None

    def send(self, job: Mapping[str, Any]) -> Any:
        """What it says to a job; None if it did not come to an end with it."""
        if self.process is None or self.process.poll() is not None:
            self.end()  # one that ended by itself: its pipes are still open
            self.process = subprocess.Popen(
                [sys.executable, "-m", "keyhole.serve.reading"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self._write(self.schemas)
        assert self.process.stdout is not None
        try:
            self._write(json.dumps(job).encode())
            if select.select([self.process.stdout], [], [], WALL_SECONDS)[0]:
                return json.loads(_read_block(self.process.stdout))
        except (OSError, EOFError):
            pass
        self.end()
        return None

    def _write(self, block: bytes) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(struct.pack("!I", len(block)) + block)
        self.process.stdin.flush()

    def end(self) -> None:
        """Stop it; the next job starts another."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            with suppress(OSError):
                process.communicate()


@dataclass(slots=True)
class TrialReader:
    """What the threads of a server try statements on. `schemas` has the columns of each population."""

    schemas: Mapping[str, Schema]
    _idle: queue.LifoQueue[ReadingProcess] = field(default_factory=queue.LifoQueue)
    _known: OrderedDict[tuple[str, str, str], None] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        packed = pickle.dumps(dict(self.schemas))
        for _ in range(PROCESSES):
            self._idle.put(ReadingProcess(packed))

    def explain(self, population: str, sql: str, asker: str) -> str:
        """Why a statement is not read; "" if it may be. What others tried makes it no faster."""
        if (population, sql, asker) in self._known:
            return ""
        if self._send({"population": population, "sql": sql}) is None:
            return TOO_MUCH
        self._remember(population, sql, asker)
        return ""

    def _remember(self, population: str, sql: str, asker: str) -> None:
        self._known[population, sql, asker] = None
        while len(self._known) > KNOWN:
            with suppress(KeyError):  # another thread was first
                self._known.popitem(last=False)

    def translate(
        self, population: str, sql: str, parameters: Sequence[str | None], types: Sequence[int], width: int, asker: str
    ) -> tuple[str, str]:
        """A statement of PostgreSQL in the words of the data's engine and ""; or "" and why not."""
        job = {"population": population, "sql": sql, "parameters": parameters, "types": types, "width": width}
        said = self._send(job)
        if said is None:
            return "", TOO_MUCH
        if not said["reason"]:
            self._remember(population, said["sql"], asker)  # it was read there, too
        return said["sql"], said["reason"]

    def _send(self, job: Mapping[str, Any]) -> Any:
        process = self._idle.get()
        try:
            return process.send(job)
        finally:
            self._idle.put(process)

    def close(self) -> None:
        """End the processes."""
        for _ in range(PROCESSES):
            self._idle.get().end()


def _read_block(pipe: IO[bytes]) -> bytes:
    head = pipe.read(4)
    size = struct.unpack("!I", head)[0] if len(head) == 4 else 0
    block = pipe.read(size)
    if not block or len(block) != size:
        raise EOFError
    return block


def serve_trials(source: IO[bytes], target: IO[bytes]) -> None:
    """The other process: jobs in, what was read out. A signal or a lack of memory ends it."""
    from keyhole.serve.postgres_wire.statements import translate_question
    from keyhole.sql import lower_statement

    schemas: dict[str, Schema] = pickle.loads(_read_block(source))
    _limit_memory()
    while True:
        job = json.loads(_read_block(source))
        schema, sql = schemas[job["population"]], job["sql"]
        said = {"sql": "", "reason": ""}
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)  # its signal ends the process
        if "width" in job:
            said["sql"], said["reason"] = translate_question(sql, job["parameters"], job["types"], job["width"], schema)
        else:
            with suppress(KeyholeError, RecursionError):  # what is wrong with it is told where it is asked
                lower_statement(sql, schema)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        block = json.dumps(said).encode()
        target.write(struct.pack("!I", len(block)) + block)
        target.flush()


def _limit_memory() -> None:
    with suppress(OSError, ValueError):  # only Linux says how much there is now
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + (MEGABYTES << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends it
    with suppress(EOFError):
        serve_trials(sys.stdin.buffer, sys.stdout.buffer)
