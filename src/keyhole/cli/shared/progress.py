"""How far a long run has come: on standard error, where somebody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Said: TypeAlias = Callable[[str, int, int], None]
EVERY = 1.0  # seconds between two lines


@contextmanager
def progress_on_stderr(asked: bool = False) -> Iterator[Said]:
    """What is under way, how much of it is done: a line that is written over on a terminal; where standard error is
    none, nothing, or (`asked`) a line a second.
    """
    if sys.stderr is not None and sys.stderr.isatty():
        yield from _on_a_terminal()
    elif asked and sys.stderr is not None:
        yield _by_lines()
    else:
        yield lambda _what, _done, _of: None


def said(what: str, done: int, of: int) -> str:
    """`reading log.csv: 120,000 statements, 31 MB at 40 MB/s, 12 %`, or `certifying 3/8`.

    >>> said("reading x", 5_000_000, 10_000_000), said("certifying", 3, 8), said("atoms", 0, 0)
    ('reading x, 50 %', 'certifying 3/8', 'atoms')
    """
    if not of:
        return what
    return f"{what}, {100 * done // of} %" if what.startswith("reading ") else f"{what} {done}/{of}"


def _by_lines() -> Said:
    last = [time.monotonic()]

    def write(what: str, done: int, of: int) -> None:
        if time.monotonic() - last[0] >= EVERY:
            last[0] = time.monotonic()
            sys.stderr.write(f"{said(what, done, of)}\n")
            sys.stderr.flush()

    return write


def _on_a_terminal() -> Iterator[Said]:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda what, done, of: bar.update(task, description=said(what, done, of))
