"""Whether Ctrl-C or the clock ended an audit: then no other is begun."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from keyhole.auditing.base import Exposure
from keyhole.auditing.promise import ENDED, INTERRUPTED_GAP, TIME_GAP


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
