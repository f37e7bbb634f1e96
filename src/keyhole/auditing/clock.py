"""How long a whole audit may take, and what is done when the time is up or Ctrl-C is pressed.

Reading, rules, searches and advice share one clock. A log is read statement by statement in their order, for half of
the time at most; what ends early keeps what was proved, and no other audit is begun.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from types import FrameType

from keyhole.auditing.base import Exposure
from keyhole.auditing.promise import ENDED, INTERRUPTED_GAP, TIME_GAP
from keyhole.model.transcript import Line, Refusal, Transcript


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


def interrupted(found: Exposure) -> bool:
    """Did Ctrl-C, or the time limit, end the search of this audit?"""
    return not ENDED.isdisjoint(found.missed)


def by_the_clock(found: Exposure) -> Exposure:
    """The same, where it was the time limit that ended it."""
    return replace(found, missed=ordered(TIME_GAP if why == INTERRUPTED_GAP else why for why in found.missed))


def ordered(missed: Iterable[str]) -> tuple[str, ...]:
    """What was not searched, the interruption first.

    >>> ordered({"a", INTERRUPTED_GAP})
    ('the audit was interrupted before all was searched', 'a')
    """
    return tuple(sorted(missed, key=lambda why: (why not in ENDED, why)))


NOT_READ = "it was not read: the time limit was reached (--time-limit)"
SHARE = 0.5  # of the time may be spent on reading; the rest is for judging what was read
FEW = 16  # statements that are read at first, before it is known how long that takes


def read_in_time(
    lines: Sequence[Line], transcribe: Callable[[Sequence[Line]], Transcript], deadline: Deadline
) -> Transcript:
    """The transcript; what was not read in time is listed as not judged. Without a limit all is read at once.

    Parts are twice as large as the one before, while a tenth of the time that is left for reading suffices for them.
    """
    if deadline.seconds is None:
        return transcribe(lines)
    parts, at, size = list[Transcript](), 0, FEW
    while at < len(lines) and (left := deadline.left(share=SHARE)) > 0:
        began = time.monotonic()
        parts.append(transcribe(lines[at : at + size]))
        took = time.monotonic() - began
        at, size = at + size, max(1, min(2 * size, int(size * left / 10 / max(took, 1e-9))))
    return Transcript(
        tuple(e for part in parts for e in part.entries),
        tuple(r for part in parts for r in part.refused),
        (*(u for part in parts for u in part.unjudged), *not_read(lines[at:])),
        tuple(rows for part in parts for rows in part.handed_out),
        frozenset[str]().union(*(part.may_show_rows for part in parts), (str(line.number) for line in lines[at:])),
    )


def not_read(lines: Sequence[Line]) -> list[Refusal]:
    """Statements as not judged, since there was no time for them."""
    return [Refusal(str(line.number), line.sql, NOT_READ) for line in lines]
