"""Ranges of all tables on a grid are shown of who stays open, and `--within` changes nobody's range."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from pathlib import Path
from statistics import median

import pyarrow as pa
import pytest

import keyhole
from keyhole.auditing import Exposure, Status

VALUES = (3, 5, 4)
TOP = 10
LOGS = {
    "under a private condition": ["SELECT COUNT(*) FROM p WHERE x > 3", "SELECT SUM(x) FROM p WHERE x > 3"],
    "a median": ["SELECT MEDIAN(x) FROM p WHERE g = 1"],
}


def answers(table: tuple[int, ...], name: str) -> object:
    """What the statements of a log say of a table."""
    over = [x for x in table if x > 3]
    return (len(over), sum(over) if over else None) if name.startswith("under") else median(table[:2])


def audited(log: list[str], within: str | None) -> Exposure:
    data = pa.table({"name": list("abc"), "g": [1, 1, 2], "x": list(VALUES)})
    return keyhole.audit(log, data=data, id="name", private=f"x:0..{TOP}:1", within=within)


def ranges(found: Exposure) -> dict[str, tuple[object, object]]:
    return {f.who: (f.lo, f.hi) for f in (*found.findings, *found.ranges)}


@pytest.mark.parametrize("name", LOGS)
def test_every_table_says_the_range_with_and_without_a_width(name: str) -> None:
    tables = [t for t in product(range(TOP + 1), repeat=3) if answers(t, name) == answers(VALUES, name)]
    told = {who: (min(t[i] for t in tables), max(t[i] for t in tables)) for i, who in enumerate("abc")}
    narrowed = {who: ends for who, ends in told.items() if ends != (0, TOP)}
    plain = audited(LOGS[name], None)
    assert ranges(plain) == narrowed
    assert (plain.exit_code, plain.findings) == (0, ())
    assert all(f.tight for f in plain.ranges)
    for within, status, code in (("1", Status.OPEN, 0), ("9", Status.INFERRED, 1), ("100", Status.INFERRED, 1)):
        found = audited(LOGS[name], within)
        assert (ranges(found), found.exit_code) == (narrowed, code)
        assert {f.status for f in (*found.findings, *found.ranges)} == {status}


def test_a_median_of_decimals_beside_a_fact(tmp_path: Path) -> None:
    data = pa.table({"name": ["ann", "bob"], "pay": [Decimal("1.00"), Decimal("1.03")]})
    settings = tmp_path / "keyhole.toml"
    settings.write_text(
        '[columns]\nid = ["name"]\n[columns.private.pay]\nmin = 0.9\nmax = 1.05\nstep = 0.01\n'
        "[[facts]]\nwhere = \"name = 'ann'\"\nequals = 1.00\n"
    )
    for within in (None, "1"):
        found = keyhole.audit(["SELECT MEDIAN(pay) FROM p"], data=data, config=settings, within=within)
        assert ranges(found)["bob"] == (Decimal("1.02"), Decimal("1.03"))  # cut toward zero: 1.01
