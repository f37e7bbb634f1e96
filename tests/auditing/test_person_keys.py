"""The keys of people, made by the engine, are those that Python makes of each id."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from keyhole.auditing.online.population import id_key, person_keys
from keyhole.config import Columns
from keyhole.datasets import Roster, load_roster

KEY = bytes(range(32))


def roster_of(**columns: list[object]) -> Roster:
    names = list(columns)
    table = pa.table({**columns, "pay": list(range(len(columns[names[0]])))})
    return load_roster(table, Columns.checked({"id": names, "private": {"pay": {}}}))


@pytest.mark.parametrize(
    "ids",
    [
        [1, -2, 3], [2**62, 0, -(2**62)], ["a", "ß", "e\u0301x"], ["👩‍👩‍👧", "日本", " 7 "], ["7", "7.0", "07"],
        ["", "1:", "\n"], ["x" * 300, "'", "\\"],
    ],
)  # fmt: skip
def test_the_engine_makes_the_same_keys(ids: list[object]) -> None:
    roster = roster_of(id=ids, part=["1", "2:2", "3"])
    one_by_one = tuple(id_key(label.values(), KEY) for label in roster.labels(np.arange(roster.n)))
    assert roster.sign_ids(KEY) is not None
    assert person_keys(roster, KEY) == one_by_one
    assert len(set(one_by_one)) == 3


def test_other_kinds_of_ids_are_written_one_by_one() -> None:
    roster = roster_of(id=[Decimal("7.50"), Decimal("1.00")])
    assert roster.sign_ids(KEY) is None
    assert person_keys(roster, KEY) == (id_key([Decimal("7.5")], KEY), id_key([1], KEY))
    assert person_keys(roster_of(id=[7]), KEY) == person_keys(roster_of(id=["7"]), KEY)  # by value, not by type
