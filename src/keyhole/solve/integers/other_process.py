"""Where CP-SAT runs: OR-tools and highspy cannot be loaded into one process, in either order, so it has its own.

The child is this module (`python -m keyhole.solve.integers.other_process`), started at the first call and kept, since
loading OR-tools costs more than most searches. It reads pickled calls from its parent and writes pickled results, over
a pipe between two ends of one program. It ends with the pipe, and is ended where a call is interrupted; a call that may
be stopped (`call_until_stopped`) gives what it has. Where it dies of itself (out of memory) that call fails alone.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, TypeVar

from keyhole.errors import SolverEnded
from keyhole.extras import require_extra
from keyhole.solve.integers.stopping import SIGNAL, STOPPED, ask_on_interrupt, listen_for_stop

T = TypeVar("T")


class _Child:
    """The other process: one call at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None

    def call(self, job: bytes) -> Any:
        """The result of a pickled call; what it raised is raised here."""
        with self.lock:
            pipes = self._started()
            try:
                done, result = _exchange(pipes, job)
            except BaseException:  # interrupted in the middle: nothing that it says later belongs to another call
                self.end()
                raise
        if done:
            return result
        raise result

    def _started(self) -> tuple[IO[bytes], IO[bytes]]:
        if self.process is None or self.process.poll() is not None:
            self.end()  # one that died by itself: its pipes are still open
            program = [sys.executable, "-m", "keyhole.solve.integers.other_process"]
            self.process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        return self.process.stdin, self.process.stdout

    def ask(self) -> None:
        """Tell it that its time is up."""
        if self.process is not None and SIGNAL is not None:
            self.process.send_signal(SIGNAL)

    def end(self) -> None:
        """Stop it; the next call starts another."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()


_CHILD = _Child()
atexit.register(_CHILD.end)


def call_apart(work: Callable[..., T], *given: object) -> T:
    """What a function gives, called in the other process; it and its arguments are pickled.

    Raises MissingExtra where OR-tools is not installed, SolverEnded where the process died, and what `work` raises.

    >>> call_apart(max, 1, 2)
    2
    """
    require_extra("ortools", "solving in whole numbers")
    result: T = _CHILD.call(pickle.dumps((work, given)))
    return result


def call_until_stopped(work: Callable[..., T], *given: object) -> tuple[T, bool]:
    """The same, and whether Ctrl-C ended the search early: it then gives what it has.

    >>> call_until_stopped(max, 1, 2)
    (2, False)
    """
    with ask_on_interrupt(_CHILD.ask) as asked:
        return call_apart(work, *given), asked()


def _exchange(pipes: tuple[IO[bytes], IO[bytes]], job: bytes) -> tuple[bool, Any]:
    to, back = pipes
    try:
        to.write(job)
        to.flush()
        reply: tuple[bool, Any] = pickle.load(back)
    except (EOFError, BrokenPipeError, pickle.UnpicklingError):
        raise SolverEnded from None
    return reply


def _serve() -> None:
    """Runs in the child: answer calls until there are none. What libraries print goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is heard by the parent, who ends this process
    listen_for_stop()
    back = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            work, given = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        STOPPED.clear()
        try:
            reply = True, work(*given)
        except Exception as error:  # raised again where it was asked for
            reply = False, error
        pickle.dump(reply, back)
        back.flush()


if __name__ == "__main__":
    _serve()
