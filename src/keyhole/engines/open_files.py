"""Until when connections stay open, and whose turn it is to use one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from weakref import WeakSet


class Closable(Protocol):
    """Something that is open: a connection, a file."""

    def close(self) -> None:
        """Let go of it."""


T = TypeVar("T", bound=Closable)


class Lifetime:
    """Closes what was given to it, the last first: when it is closed, when nobody has it any more, or at a run's end.

    >>> import io
    >>> life, file = Lifetime(), io.StringIO()
    >>> life.closes(file).closed, life.close(), file.closed
    (False, None, True)
    """

    def __init__(self) -> None:
        self._opened = ExitStack()
        self.lock = threading.RLock()  # a connection has one result at a time: threads take turns
        run = _run.get()
        if run is not None:
            run.add(self)

    def closes(self, opened: T) -> T:
        """Take over what was opened."""
        self._opened.callback(opened.close)
        return opened

    def close(self) -> None:
        """Close all of it; a second time nothing is left."""
        self._opened.close()

    def __del__(self) -> None:
        self.close()


_run: ContextVar[WeakSet[Lifetime] | None] = ContextVar("run", default=None)


@contextmanager
def run_closing_all() -> Iterator[None]:
    """A run at whose end every lifetime that began in it has ended, also on errors.

    >>> import io
    >>> file = io.StringIO()
    >>> with run_closing_all():
    ...     life = Lifetime()
    ...     opened = life.closes(file)
    >>> file.closed
    True
    """
    begun: WeakSet[Lifetime] = WeakSet()
    before = _run.set(begun)
    try:
        yield
    finally:
        _run.reset(before)
        for life in list(begun):
            life.close()


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def in_turn(
    method: Callable[Concatenate[Any, Arguments], Result],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """A method of something with a `life`: threads take turns, since a connection has one result at a time."""

    @wraps(method)
    def waits(self: Any, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with self.life.lock:
            return method(self, *args, **kwargs)

    return waits
