"""How long a whole audit may take: reading, rules, searches and advice share one clock.

What asks how much time is left ends by itself; whatever else is under way when the time is up is ended as Ctrl-C ends
it, and keeps what is proved. That needs the main thread and a system with interval timers (not Windows): elsewhere a
step that has begun is finished first.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from types import FrameType


class Deadline:
    """A clock that was set once; `rang` says that it ended something. `searching`: so long for ends of ranges alone.

    >>> Deadline(None).left(60), Deadline(None).passed, Deadline(1e-9).left(60)
    (60, False, 0.0)
    """

    def __init__(self, seconds: float | None, searching: float | None = None) -> None:
        self.seconds, self.searching, self.rang = seconds, searching, False
        self._until = inf if seconds is None else time.monotonic() + seconds
        self._armed = False

    @property
    def passed(self) -> bool:
        """Is the time up?"""
        return time.monotonic() >= self._until

    def left(self, most: float = inf, share: float = 1.0) -> float:
        """How many seconds are left, `most` at most; with `share` of the whole time alone."""
        spared = 0.0 if self.seconds is None else (1 - share) * self.seconds
        return max(0.0, min(most, self._until - spared - time.monotonic()))

    @contextmanager
    def ringing(self) -> Iterator[None]:
        """Until it is left, KeyboardInterrupt is raised once when the time is up."""
        if self.seconds is None or self._armed or not _can_ring():
            yield
            return
        before = signal.signal(signal.SIGALRM, self._ring)
        self._armed = True
        try:
            signal.setitimer(signal.ITIMER_REAL, max(self.left(), 1e-6))
            yield
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def check(self) -> None:
        """Ring now if the time is up: for steps between which nothing is under way."""
        if self.passed:
            self.rang = True
            raise KeyboardInterrupt

    def _ring(self, _signal: int, _frame: FrameType | None) -> None:
        if self._armed:
            self.rang = True
            raise KeyboardInterrupt


def _can_ring() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
