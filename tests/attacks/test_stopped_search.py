"""Ctrl-C in a reconstruction: what was found is kept and said, and a second one ends the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from keyhole.attacks.microdata import reconstruct as rebuilding
from keyhole.attacks.microdata.reconstruct import reconstruct
from keyhole.report.reconstruction import summarize_reconstruction
from keyhole.solve.integers.search import SharedValues
from keyhole.solve.integers.stopping import ask_on_interrupt

HARD = """
[columns.age]
min = 0
max = 125
[columns.pay]
min = 0
max = 60
[[statistics]]
count = 90
mean = { age = 38.37, pay = 21.31 }
median = { age = 37, pay = 20 }
[[statistics]]
where = "age < 40"
count = 48
mean = { pay = 18.42 }
median = { age = 22 }
"""


def test_the_first_asks_and_the_second_interrupts() -> None:
    calls: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    with ask_on_interrupt(lambda: calls.append(1)) as asked:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        assert (asked(), calls) == (True, [1])
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the signal may arrive a moment later
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("rows", [True, False])
def test_what_was_found_is_kept_and_called_stopped(rows: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("[columns.age]\nmin = 0\nmax = 3\n[[statistics]]\ncount = 2\n")
    had = SharedValues(rebuilding.SolverStatus.FEASIBLE, np.array([1, 1, 0, 0])) if rows else None
    given = had or SharedValues(rebuilding.SolverStatus.ITERATION_LIMIT)
    monkeypatch.setattr(rebuilding, "call_until_stopped", lambda *_: (given, True))
    found = reconstruct(file)
    assert len(found.rows) == (2 if rows else 0)
    assert found.unique is None
    assert found.common is None
    assert "stopped" in str(found.status)
    assert "topped" in summarize_reconstruction(found)
    assert "time" not in summarize_reconstruction(found)


@pytest.mark.soak
def test_the_command_writes_what_it_has(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(HARD)
    program = [sys.executable, "-c", "from keyhole.cli import main; main()", "reconstruct", str(file)]
    running = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(15)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert "topped" in out
