"""An attack beside others: how it grows with the number of statements, and what other methods make of the same log."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from keyhole.api.attack import Attacked, AttackTerms, attacked
from keyhole.config.settings import Settings
from keyhole.errors import ConfigError, KeyholeError
from keyhole.logs.open import Log

POINTS = 8  # prefixes of the log that are attacked
METHODS = ("least-squares", "bounded", "l1", "integer")


@dataclass(frozen=True, slots=True)
class AttackRun:
    """One attack on a column, with its marks; `cannot` says why there are none."""

    column: str
    method: str
    statements: int
    exact: float | None = None
    within: float | None = None
    error: float | None = None
    seconds: float | None = None
    cannot: str = ""


@dataclass(frozen=True, slots=True)
class AttackComparison:
    """`growth`: the same method on more and more of the log. `methods`: others on all of it."""

    growth: tuple[AttackRun, ...]
    methods: tuple[AttackRun, ...]

    def to_json(self) -> dict[str, Any]:
        """The field `compared`."""
        return {"growth": [asdict(p) for p in self.growth], "methods": [asdict(p) for p in self.methods]}


def compare(log: Log, given: Settings, found: Attacked, terms: AttackTerms) -> AttackComparison:
    """Attack prefixes of the log, and the whole of it by other methods; `terms` are those of the attack itself.

    Needs the truth. Cost: about twice the attack for the prefixes, and one attack a method.
    """
    if not found.scores:
        raise ConfigError("--compare needs --truth FILE: without the true values nothing can be scored")
    chosen = {target.column: choice.method for target, choice, _ in found.found}
    total = len(log.lines)
    sizes = sorted({max(1, round(total ** (k / POINTS))) for k in range(1, POINTS + 1)} | {total})
    method = next(iter(chosen.values()))
    growth = [
        p for size in sizes for p in _played(replace(log, lines=log.lines[:size]), given, replace(terms, method=method))
    ]
    names = dict.fromkeys((*chosen.values(), *METHODS))
    methods = [p for name in names for p in _played(log, given, replace(terms, method=name))]
    return AttackComparison(tuple(growth), tuple(methods))


def _played(log: Log, given: Settings, terms: AttackTerms) -> list[AttackRun]:
    start = time.perf_counter()
    try:
        found = attacked(log, given, terms)
    except KeyholeError as error:
        return [
            AttackRun(name, terms.method, len(log.lines), cannot=str(error).splitlines()[0]) for name in given.asked
        ]
    seconds = round(time.perf_counter() - start, 3)
    return [
        AttackRun(column, terms.method, len(log.lines), s.exact, s.within, s.error, seconds)
        for column, s in found.scores.items()
    ]
