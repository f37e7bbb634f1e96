"""Ids that differ only by capitals or blanks: pointed out, and still people of their own."""

from __future__ import annotations

import pyarrow as pa
import pytest

import keyhole


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["Ann", "ann", "Bob ", "Bob", "Cyd", "Cyd"], "4 ids (name) differ from another only by capitals or blanks"),
        (["Ann", "Bob", "Cyd", "Dan", "Ann", "Eve"], ""),
        (["1", "2", "3", "4", "5", "6"], ""),
    ],
)
def test_they_are_pointed_out(names: list[str], said: str) -> None:
    data = pa.table({"name": names, "pay": [1, 2, 3, 4, 5, 6]})
    found = keyhole.audit("SELECT SUM(pay) FROM t", data=data, private="pay:real", id="name")
    warned = [each.reason for each in found.evidence.nobody]
    assert [said in each for each in warned] == ([True] if said else [])
    assert found.exit_code == 0
    assert all("such as 'Ann' and 'ann'" in each for each in warned)


def test_ids_of_several_columns_and_of_numbers() -> None:
    data = pa.table({"first": ["A", "a", "A"], "year": [1, 1, 2], "pay": [1, 2, 3]})
    found = keyhole.audit("SELECT SUM(pay) FROM t", data=data, private="pay", id=["first", "year"])
    assert ["2 ids (first and year)" in each.reason for each in found.evidence.nobody] == [True]
    found = keyhole.audit("SELECT SUM(pay) FROM t", data=data.drop(["first"]), private="pay", id="year")
    assert not found.evidence.nobody
