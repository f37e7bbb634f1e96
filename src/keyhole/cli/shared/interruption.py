"""Ctrl-C in a command whose work goes in steps: the first press asks to stop, a second one ends the command."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StopRequest:
    """Whether somebody asked to stop. To call it is to go on, or to raise KeyboardInterrupt once somebody has.

    `is_waiting` says whether there is no next step to wait for, so that the first press ends what is under way.
    """

    def __init__(self) -> None:
        self.asked = False
        self.is_waiting: Callable[[], bool] = lambda: False

    def __call__(self) -> None:
        if self.asked:
            raise KeyboardInterrupt

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside, the first Ctrl-C is not kept for a next step."""
        before, self.is_waiting = self.is_waiting, lambda: True
        try:
            yield
        finally:
            self.is_waiting = before

    def hear(self, _signal: int, _frame: object) -> None:
        """What SIGINT does."""
        again, self.asked = self.asked, True
        if again or self.is_waiting():
            raise KeyboardInterrupt


@contextmanager
def ask_to_stop() -> Iterator[StopRequest]:
    """Inside, SIGINT is a request to stop; afterwards it is what it was."""
    request = StopRequest()
    before = signal.signal(signal.SIGINT, request.hear)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before)
