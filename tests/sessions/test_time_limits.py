"""Statements that run too long are interrupted, all by one thread."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from session_world import WHOLE, audited

from keyhole.engines.duckdb.connections import with_timeout

ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = -1"

FORKED = """
import os, time
from keyhole.engines.duckdb.connections import with_timeout

class Connection:
    interrupted = False
    def interrupt(self):
        self.interrupted = True

with with_timeout(Connection(), 60):
    child = os.fork()
    if child == 0:
        mine = Connection()
        with with_timeout(mine, 0.05):
            until = time.monotonic() + 10
            while not mine.interrupted and time.monotonic() < until:
                time.sleep(0.01)
        os._exit(0 if mine.interrupted else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_questions_start_no_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with audited(tmp_path) as session:
        session.ask(WHOLE)
        started: list[threading.Thread] = []
        monkeypatch.setattr(threading.Thread, "start", started.append)
        assert session.ask(f"{WHOLE} WHERE level >= 0").answered
        assert started == []


def test_whoever_is_late_is_interrupted_and_nobody_else() -> None:
    slow, other = duckdb.connect(), duckdb.connect()
    began = time.monotonic()
    with with_timeout(other, 60), pytest.raises(duckdb.InterruptException), with_timeout(slow, 0.2):
        slow.execute(ENDLESS).fetchall()
    assert time.monotonic() - began < 30
    for con in (slow, other):
        assert con.execute("SELECT 1").fetchall() == [(1,)]
        con.close()


def test_what_ended_in_time_is_left_alone() -> None:
    class Connection:
        interrupts = 0

        def interrupt(self) -> None:
            self.interrupts += 1

    ended: Any = Connection()
    late: Any = Connection()
    for _ in range(50):
        with with_timeout(ended, 0.1):
            pass
    with with_timeout(late, 0.2):
        until = time.monotonic() + 20
        while not late.interrupts and time.monotonic() < until:
            time.sleep(0.01)
    assert (ended.interrupts, late.interrupts) == (0, 1)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_child_process_has_a_thread_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]
