"""Small databases with known truth, named for their difficulty. Laws are checked on all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyhole.auditing import Auditor, Exposure
from keyhole.config import Columns, PrivateColumn
from keyhole.datasets import Source, load
from keyhole.gather import gather, transcribe
from keyhole.gather.evidence import Evidence
from keyhole.model.prior import Knowledge
from keyhole.model.transcript import ABSENT, Line


@dataclass(frozen=True, slots=True)
class World:
    """A table as CSV text with a log; `x` is private and `name` the id. Answers of the log are computed if absent."""

    name: str
    table: str
    log: tuple[str | tuple[str, Any], ...]
    consistent: bool = True

    def source(self) -> Source:
        """The table, loaded."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.csv"
            path.write_text(self.table, encoding="utf-8")
            return load(path, Columns(id=("name",), private={"x": PrivateColumn()}))

    def lines(self) -> list[Line]:
        """The log as numbered lines."""
        pairs = [(item, ABSENT) if isinstance(item, str) else item for item in self.log]
        return [Line(i, sql, answer, at=i) for i, (sql, answer) in enumerate(pairs, 1)]

    def truth(self) -> dict[str, str]:
        """Name -> private value, as text of the table; empty for NULL."""
        head, *rows = [line.split(",") for line in self.table.strip().splitlines()]
        return {row[head.index("name")]: row[head.index("x")] for row in rows}


def evidence_of(world: World, source: Source, lines: Sequence[Line] | None = None) -> Evidence:
    """What the world's log (or some lines of it) says."""
    chosen = world.lines() if lines is None else lines
    transcript = transcribe(chosen, source.roster, source=source)
    return gather(transcript, source.roster, Knowledge(), source=source)


def verdict(auditor: Auditor, world: World, lines: Sequence[Line] | None = None) -> Exposure:
    """What an auditor says of a world."""
    source = world.source()
    return auditor.examine(evidence_of(world, source, lines), source.roster)


_HOSPITAL = """name,zip,sex,x
John,32453,M,4.3
Jeremy,43813,M,5.2
Susan,43765,F,6.1
Eve,32187,F,3.2
Joseph,33745,M,7.1
Alison,22983,F,6.2
"""
_NULLS = """name,zip,sex,x
Ann,1,F,2
Bob,2,,3
Cyd,,F,
Dan,4,M,5
Eli,5,M,8
"""
_INTEGERS = """name,zip,sex,x
a,1,F,3
b,2,F,9
c,3,M,4
d,4,M,6
e,5,M,6
"""

WORLDS: tuple[World, ...] = (
    World("empty_log", _HOSPITAL, ()),
    World(
        "differencing_pair",
        _HOSPITAL,
        ("SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE zip <> 43813"),
    ),
    World(
        "three_queries",
        _HOSPITAL,
        (
            "SELECT SUM(x) FROM t",
            "SELECT SUM(x) FROM t WHERE sex = 'F'",
            "SELECT SUM(x) FROM t WHERE zip > 32000 AND zip < 35000 AND sex = 'M'",
        ),
    ),
    World(
        "rank_deficient",
        _INTEGERS,
        (
            "SELECT SUM(x) FROM t WHERE zip <= 2",
            "SELECT SUM(x) FROM t WHERE zip > 2",
            "SELECT SUM(x) FROM t",
            "SELECT sex, AVG(x), COUNT(*) FROM t GROUP BY sex",
        ),
    ),
    World("duplicate_queries", _INTEGERS, ("SELECT AVG(x) FROM t WHERE sex = 'M'",) * 3),
    World(
        "nulls",
        _NULLS,
        (
            "SELECT SUM(x) FROM t WHERE sex IS NULL",
            "SELECT SUM(x) FROM t",
            "SELECT SUM(x) FROM t WHERE NOT (sex = 'F')",
            "SELECT AVG(x), COUNT(x) FROM t WHERE zip > 1 OR sex IS NULL",
        ),
    ),
    World(
        "rounded",
        _HOSPITAL,
        ("SELECT ROUND(SUM(x), 0) FROM t", "SELECT SUM(x) FROM t WHERE sex = 'F'", "SELECT MAX(x) FROM t"),
    ),
    World("weights", _INTEGERS, ("SELECT SUM(x * zip) FROM t WHERE sex = 'F'", "SELECT SUM(x) FROM t WHERE sex = 'F'")),
    World(
        "private_conditions",
        _INTEGERS,
        (
            "SELECT SUM(x) FROM t WHERE x > 5",
            "SELECT SUM(x) FROM t WHERE x <= 5 AND zip <> 3",
            "SELECT COUNT(*) FROM t WHERE x > 2",
            "SELECT COUNT(*) FROM t WHERE x > 5 AND sex = 'M'",
        ),
    ),
    World(
        "contradictory",
        _INTEGERS,
        (("SELECT SUM(x) FROM t", 28), ("SELECT SUM(x) FROM t", 29)),
        consistent=False,
    ),
)
