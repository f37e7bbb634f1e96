"""Fingerprints of a roster: what is public and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from keyhole.config import Columns
from keyhole.datasets import Roster, load_roster


def people(a: tuple[int, ...] = (1, 1, 2), x: tuple[int | None, ...] = (4, 5, 6)) -> Roster:
    roles = Columns.checked({"id": ["name"], "private": {"x": {}}})
    return load_roster(pa.table({"name": [f"p{i}" for i in range(len(a))], "a": list(a), "x": list(x)}), roles)


def test_fingerprints_see_what_is_public_and_nothing_else() -> None:
    base = people().fingerprint()
    assert people(x=(7, 8, 9)).fingerprint() == base
    assert people(a=(2, 1, 1)).fingerprint() != base
    assert people(x=(None, 5, 6)).fingerprint() != base
    roles = Columns.checked({"id": ["name"], "private": {"x": {}}})
    rows = {"name": ["p2", "p0", "p1"], "a": [2, 1, 1]}
    assert load_roster(pa.table({**rows, "x": [6, 4, 5]}), roles).fingerprint() == base  # order of rows
    assert load_roster(pa.table(rows), roles).fingerprint() == base  # the private column need not be there
    renamed = load_roster(pa.table({"name": ["p0", "p1", "p2"], "b": [1, 1, 2], "x": [4, 5, 6]}), roles)
    assert renamed.fingerprint() != base


def test_fingerprints_do_not_depend_on_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = pa.array([0, 1_000_000], type=pa.timestamp("us", tz="UTC"))
    marks = set()
    for zone in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        roster = load_roster(pa.table({"seen": seen, "x": [1, 2]}), Columns.checked({"private": {"x": {}}}))
        marks.add(roster.fingerprint())
        first = roster._con.execute("SELECT seen::VARCHAR FROM people WHERE rowid = 0").fetchone()
        assert first == ("1970-01-01 00:00:00",)
    assert len(marks) == 1
