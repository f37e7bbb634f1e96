"""Rules that Ctrl-C stops: what was proved until then is kept, and the verdict is not complete."""

from __future__ import annotations

from typing import Any

from keyhole.auditing.known import Known, Rule, Rules
from keyhole.gather.evidence import System

STOPPED = "the search was stopped (Ctrl-C); what was proved until then is listed"


def stoppable(rules: Rules) -> Rules:
    """The same rules; the first KeyboardInterrupt ends all of them, and is told as what was `missed`.

    A second one, while the verdict is written, passes through.
    """
    return tuple(map(_stopping, rules))


def _stopping(rule: Rule) -> Rule:
    def until_stopped(system: System, known: Known) -> list[Any]:
        found: list[Any] = []
        if STOPPED in known.missed:
            return found
        try:
            found.extend(rule(system, known))
        except KeyboardInterrupt:
            known.missed.add(STOPPED)
        return found

    return until_stopped
