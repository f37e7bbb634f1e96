"""Second tables of whole numbers that CP-SAT proposes, against all tables; and a solver that lies."""

from __future__ import annotations

import os
import random
import sys
from importlib import import_module
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import examine
from keyhole.auditing.exchange import records
from keyhole.errors import SolverEnded
from keyhole.solve import tables
from keyhole.solve.integers.other_process import call_apart

RANGES = import_module("keyhole.auditing.rules.interval")

pytest.importorskip("ortools")
TOP = 3
NEEDED, FIXED = (9, 14), (5, 41)  # seeds: vertices alone show not everybody open; somebody is fixed over the integers


def asked(seed: int) -> tuple[list[int], list[list[int]]]:
    """Values of eight people and sums over sets of three to five of them: no vertex need be whole."""
    rng = random.Random(seed)
    values = [rng.randrange(TOP + 1) for _ in range(8)]
    return values, [sorted(rng.sample(range(8), rng.randrange(3, 6))) for _ in range(5)]


def audited(values: list[int], sets: list[list[int]]) -> Exposure:
    data = pa.table({"name": [f"n{k}" for k in range(8)], "x": values})
    log = [f"SELECT SUM(x) FROM t WHERE name IN ({', '.join(repr(f'n{k}') for k in each)})" for each in sets]
    return examine(log, data=data, id="name", private=f"x:0..{TOP}:1")


def left(values: list[int], sets: list[list[int]]) -> list[set[int]]:
    """The values of each person over all tables that give the sums."""
    fits = [
        t
        for t in product(range(TOP + 1), repeat=8)
        if all(sum(t[k] for k in each) == sum(values[k] for k in each) for each in sets)
    ]
    return [{t[k] for t in fits} for k in range(8)]


@pytest.fixture(autouse=True)
def nobody_is_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables made from the true one would show all of them open before any is searched."""
    monkeypatch.setattr(records, "show_open", lambda *_: None)


def test_people_are_shown_open_where_cases_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "STEPS", 0)  # the case split says nothing
    for seed in NEEDED:
        values, sets = asked(seed)
        assert audited(values, sets).complete
        assert all(len(v) > 1 for v in left(values, sets))
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "ortools", None)
            found = audited(values, sets)
            assert not found.complete
            assert any(RANGES.NOT_INSTALLED in why for why in found.searched.values())
    for seed in FIXED:
        assert not audited(*asked(seed)).complete


def test_a_table_that_breaks_a_row_or_leaves_the_grid_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "STEPS", 0)

    def liar(C: object, lo: object, hi: object, top: np.ndarray, wanted: object, *, seconds: float) -> np.ndarray:
        return np.stack([np.zeros_like(top), top])

    monkeypatch.setattr(RANGES, "extreme_tables", liar)
    for seed in (*NEEDED, *FIXED):
        assert not audited(*asked(seed)).complete


def test_a_solver_that_dies_has_found_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "STEPS", 0)
    with pytest.raises(SolverEnded, match="memory"):
        call_apart(os._exit, 9)
    assert call_apart(max, 1, 2) == 2  # another one
    values, sets = asked(NEEDED[0])
    with monkeypatch.context() as killed:
        killed.setattr(RANGES, "extreme_tables", lambda *given, seconds: call_apart(os._exit, 9))
        found = audited(values, sets)
    assert not found.complete
    assert any(RANGES.ENDED in why for why in found.searched.values())
    assert found.limited
    assert audited(values, sets).complete
