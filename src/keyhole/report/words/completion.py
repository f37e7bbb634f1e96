"""Which statement completed what was found: its number, and who asked it when, where the log says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from keyhole.auditing.base import Exposure
from keyhole.report.documents.verdict import Completion

if TYPE_CHECKING:
    from keyhole.report.plain import Case

NAMED = 5  # people that one line names


class Completions:
    """The statements that completed the findings of an exposure."""

    def __init__(self, exposure: Exposure) -> None:
        self._firsts = exposure.firsts
        self._lines = {} if exposure.log is None else {line.number: line for line in exposure.log.lines}

    def of(self, rows: tuple[int, ...], column: str) -> Completion | None:
        """That of one finding, by its rows from 0; None if facts alone prove it."""
        first = self._firsts.get((rows, column))
        if first is None:
            return None
        line = self._lines.get(first.statement)
        who, when = (None, None) if line is None else (line.analyst, line.time)
        return Completion(query=str(first.statement), least=first.least, analyst=who, time=when)


def completed(cases: Iterable[Case]) -> Iterator[str]:
    """Who was completed by which statement, for logs that say who asked or when; others show it in their proofs."""
    found: dict[Completion, list[str]] = {}
    for case in cases:
        if case.first is not None and (case.first.analyst or case.first.time):
            found.setdefault(case.first, []).append(f"{case.who}'s {case.column}{case.place}")
    for first, whose in sorted(found.items(), key=lambda item: int(item[0].query)):
        more = f" and {len(whose) - NAMED} more" if len(whose) > NAMED else ""
        yield f"First known with {first}: {', '.join(whose[:NAMED])}{more}"
