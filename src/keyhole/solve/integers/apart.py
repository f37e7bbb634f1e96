"""Where CP-SAT may run: OR-tools and highspy cannot live in one process, so beside highspy it runs in a child."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

T = TypeVar("T")


def apart(work: Callable[..., T], *given: object) -> T:
    """What a function gives: called here, or in a new process where this one has loaded highspy.

    >>> apart(max, 1, 2)
    2
    """
    if "highspy" not in sys.modules:
        return work(*given)
    return in_child(work, *given)


def in_child(work: Callable[..., T], *given: object) -> T:
    """What a function gives in a new process, so that this one can load highspy later."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *given).result()
