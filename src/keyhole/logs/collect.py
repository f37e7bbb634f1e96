"""Statements of a log as they are kept: numbered in their order, those that cannot be judged listed with the reason."""

from __future__ import annotations

from collections.abc import Iterable

from keyhole.logs.exported import Exported, scripted
from keyhole.logs.lines import GROWING, NOT_UTF8, readable, shown
from keyhole.model.transcript import Line, Refusal
from keyhole.sql.dialects.engine import Dialect


class Collection:
    """Takes statements one by one. Those that ask are numbered; those that steer a session, or failed, only counted."""

    def __init__(self, dialect: Dialect | None = None) -> None:
        self.dialect = dialect  # whatever the log says of it
        self.number = self.passed = self.failed = 0
        self.foreign = 0  # statements in another encoding
        self.lines: list[Line] = []
        self.refused: list[Refusal] = []
        self.unjudged: list[Refusal] = []
        self.at: list[tuple[str, int]] = []

    def take_script(self, lines: Iterable[str], dialect: str) -> None:
        """The statements of a script."""
        for found in scripted(lines, dialect):
            self.take(found)

    def take(self, found: Exported) -> None:
        """One statement more."""
        if found.steers or found.failed:
            self.passed += found.steers
            self.failed += found.failed
            return
        self.number += 1
        if found.fault:
            fault = found.fault if found.fault.startswith("line ") else f"line {found.at}: {found.fault}"
            self.list(self.refused, found, shown(found.sql), fault)
        elif not readable(found.sql):
            self.foreign += 1
            self.list(self.refused, found, shown(found.sql), f"line {found.at}: {NOT_UTF8}")
        elif found.unjudged:
            self.list(self.unjudged, found, found.sql, found.unjudged)
        else:
            self.ask(found)

    def ask(self, found: Exported) -> None:
        """A statement that is to be judged."""
        said = (self.number, found.sql, found.answer, found.noise, found.at, self.dialect or found.dialect)
        self.lines.append(Line(*said, found.analyst, found.time))

    def list(self, into: list[Refusal], found: Exported, sql: str, why: str) -> None:
        """A statement that is not."""
        into.append(Refusal(str(self.number), sql, why, analyst=found.analyst, is_raw=found.is_raw))
        self.at.append((str(self.number), found.at))

    def growing(self, text: str, at: int) -> None:
        """The last line of a log that was being written."""
        self.number += 1
        self.refused.append(Refusal(str(self.number), shown(text), f"line {at}: {GROWING}", is_raw=True))
        self.at.append((str(self.number), at))

    def kept(self) -> tuple[Line, ...]:
        """The statements to judge."""
        return tuple(self.lines)
