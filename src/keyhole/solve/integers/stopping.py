"""Stopping a search in the other process: it ends as if its time were up, and what it has is kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPPED = threading.Event()  # in the process that searches: it was asked to end
SIGNAL = getattr(signal, "SIGUSR1", None)  # how it is asked; None where the system has no such signal


def listen_for_stop() -> None:
    """In the process that searches: hear that it is to end."""
    if SIGNAL is not None:
        signal.signal(SIGNAL, lambda _signal, _frame: STOPPED.set())


@contextmanager
def ask_on_interrupt(ask: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """While a search runs the first Ctrl-C calls `ask`, a second one interrupts; gives whether it was asked.

    Only the main thread hears signals: elsewhere, or where the system has no signal to ask with, Ctrl-C is as always.

    >>> with ask_on_interrupt(lambda: None) as asked:
    ...     asked()
    False
    """
    heard = False

    def hear(_signal: int, _frame: object) -> None:
        nonlocal heard
        if heard:
            raise KeyboardInterrupt
        heard = True
        ask()

    if SIGNAL is None or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, hear)
    try:
        yield lambda: heard
    finally:
        signal.signal(signal.SIGINT, before)
