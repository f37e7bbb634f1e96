"""Whether Ctrl-C ended an audit: then no other is begun."""

from __future__ import annotations

from collections.abc import Iterable

from keyhole.audit.base import Exposure
from keyhole.audit.promise import INTERRUPTED_GAP


def interrupted(found: Exposure) -> bool:
    """Did Ctrl-C end the search of this audit?"""
    return INTERRUPTED_GAP in found.missed


def ordered(missed: Iterable[str]) -> tuple[str, ...]:
    """What was not searched, the interruption first.

    >>> ordered({"a", INTERRUPTED_GAP})
    ('the audit was interrupted before all was searched', 'a')
    """
    return tuple(sorted(missed, key=lambda why: (why != INTERRUPTED_GAP, why)))
