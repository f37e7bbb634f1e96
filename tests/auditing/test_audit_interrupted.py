"""Ctrl-C at every rule of an audit, one after the other: nothing is searched after it, and what is listed is proved."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from keyhole.auditing.base import Exposure
from keyhole.auditing.clock import interrupted
from keyhole.auditing.examine import examine
from keyhole.auditing.known import Known, Rules
from keyhole.auditing.rules import RULES
from keyhole.gather.evidence import System
from keyhole.solve.tables import distinct_rows

STAFF = {"name": list("abcdef"), "team": list("xxyyzz"), "pay": [2.5, 3.5, 4.5, 1.5, 7.0, 8.0]}
LOG = [
    "SELECT team, SUM(pay) FROM t GROUP BY team ORDER BY 2 DESC LIMIT 2",  # what was cut off may have been shown
    "SELECT team, SUM(pay) / SUM(SUM(pay)) OVER () FROM t GROUP BY team",  # computed from what is judged in its place
    "SELECT SUM(pay) FROM t",
    "SELECT SUM(pay) FROM t WHERE name <> 'd'",
]


class Presser:
    """Rules that count their calls; at the call `at` somebody presses Ctrl-C."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def rules(self, *_: Any) -> Rules:
        return tuple(self._counted(rule) for rule in RULES)

    def _counted(self, rule: Any) -> Any:
        def counted(system: System, known: Known) -> Iterator[Any]:
            self.calls += 1
            if self.calls == self.at:
                raise KeyboardInterrupt
            yield from rule(system, known)

        return counted


def pressed(monkeypatch: pytest.MonkeyPatch, at: int, **more: Any) -> tuple[Exposure | None, int]:
    """The verdict, None if there is none, and how many rules were begun."""
    presser = Presser(at)
    monkeypatch.setattr(import_module("keyhole.auditing.examine"), "rules_for", presser.rules)
    log = [{"sql": sql, "analyst": "ab"[i % 2]} for i, sql in enumerate(LOG)]
    try:
        return examine(log, data=pa.table(STAFF), id="name", private="pay:0..9", **more), presser.calls
    except KeyboardInterrupt:
        return None, presser.calls


def said(found: Exposure) -> set[tuple[Any, ...]]:
    return {(f.who, f.column, f.value) for f in found.exposed}


def compare(monkeypatch: pytest.MonkeyPatch, by: str | None, places: int) -> None:
    """Pressed at that many rules, from the first to the last."""
    whole, calls = pressed(monkeypatch, 0, by=by)
    assert whole is not None
    assert said(whole)
    assert calls > 4 * len(RULES)  # several audits
    kept = 0
    for at in sorted(set(np.linspace(1, calls, min(places, calls)).round().astype(int).tolist())):
        found, begun = pressed(monkeypatch, at, by=by)
        assert begun == at
        if found is None:
            assert at <= len(RULES)  # before anything was proved
            continue
        assert said(found) <= said(whole)
        kept += bool(said(found))
        assert found.exit_code in (1, 3)
        assert interrupted(found) or said(found) == said(whole)  # else firsts or views were cut short
        assert list(found.views) == list(whole.views)
        assert not interrupted(found) or all(interrupted(view) for view in found.views.values())
    assert kept


@pytest.mark.parametrize("by", [None, "analyst"])
def test_after_ctrl_c_no_rule_is_begun_and_what_is_listed_stands(
    by: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(monkeypatch, by, 7)


@pytest.mark.soak
@pytest.mark.parametrize("by", [None, "analyst"])
def test_after_ctrl_c_at_any_rule(by: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(monkeypatch, by, 10**6)


def test_rows_as_numbers_are_told_apart_as_numpy_does() -> None:
    rng = np.random.default_rng(1213)
    shapes = [(0, 3), (1, 1), (7, 1), (50, 2), (200, 4), (40, 9)]
    for rows, width in shapes:
        for size in (1, 3, 10**6, 2**40):
            table = rng.integers(-size, size, (rows, width))
            table = table[rng.integers(0, max(rows, 1), rows)]
            distinct, where = np.unique(table, axis=0, return_inverse=True)
            found, inverse = distinct_rows(table)
            assert (found == distinct).all()
            assert (inverse == where.ravel()).all()
