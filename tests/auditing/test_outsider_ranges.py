"""Verdicts about ranges, facts and first statements that were once false, kept small."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import keyhole
from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import examine
from keyhole.auditing.first import First
from keyhole.errors import DataError
from keyhole.report.verdict import Verdict

TOLD = """
[columns]
id = ["name"]
[columns.private.x]
{}
"""
THREE = pa.table({"name": ["p0", "p1", "p2"], "g": ["a", "b", "a"]})


def judged(log: list[Any], data: Mapping[str, list[Any]] | pa.Table, told: str, at: Path, **more: Any) -> Exposure:
    (at / "keyhole.toml").write_text(TOLD.format(told))
    table = data if isinstance(data, pa.Table) else pa.table(dict(data))
    return examine(log, data=table, config=at / "keyhole.toml", **more)


def firsts(found: Exposure) -> dict[str, First]:
    return {f.who: found.firsts[(f.row,), f.column] for f in found}


NINE = [("SELECT SUM(x) > 8 FROM t WHERE g = 'a'", True), ("SELECT MIN(x) FROM t WHERE name = 'p0'", 4)]
TOTAL = """min = 0
max = 9
step = 1
kind = "integer"
[[facts]]
where = "g = 'a'"
sum_max = 9"""


def test_what_a_part_of_the_log_may_prove_unseen_is_not_first_with_the_next(tmp_path: Path) -> None:
    found = judged([*NINE, ("SELECT SUM(x) FROM t WHERE g = 'a'", 9)], THREE, TOTAL, tmp_path)
    by = firsts(found)
    assert (by["p0"], by["p2"].statement <= 3) == (First(2, least=True), True)
    assert by["p2"] in (First(2, least=True), First(2, least=False), First(3, least=False))


def test_an_incomplete_verdict_on_a_part_leaves_the_first_open(tmp_path: Path) -> None:
    log = [
        "SELECT SUM(x) < 1.0 FROM t WHERE name = 'p1' AND x < 1.5",  # true only of 0.5, which is not seen alone
        "SELECT SUM(x) FROM t WHERE name = 'p1' AND x <> 1.0",
    ]
    table = {"name": ["p1", "p2"], "x": [0.5, 1.5]}
    found = judged(log, table, 'min = 0.5\nmax = 1.5\nstep = 0.5\nkind = "double"', tmp_path)
    (first,) = firsts(found).values()
    assert first == First(1, least=True) or not first.least


def test_a_statement_that_was_not_judged_leaves_the_first_open(tmp_path: Path) -> None:
    log = ["SELECT SUM(nothing) FROM t", "SELECT SUM(x) FROM t WHERE name = 'p1'"]
    found = judged(log, {"name": ["p1", "p2"], "x": [1, 2]}, "", tmp_path)
    assert firsts(found) == {"p1": First(2, least=False)}


def test_a_fact_about_a_total_and_one_known_person_can_be_written(tmp_path: Path) -> None:
    found = judged([("SELECT SUM(x) > 7 FROM t WHERE g = 'a'", True), NINE[1]], THREE, TOTAL, tmp_path)
    assert {f.who: (str(f.lo), str(f.hi)) for f in found} == {"p0": ("4", "4"), "p2": ("4", "5")}
    made = Verdict.of(found).to_json()
    assert "fact 1" in str(made["intervals"])
    assert "Qfact" not in str(made)


@pytest.mark.parametrize("within", [None, "10"])
def test_a_range_as_wide_as_the_declared_one_is_no_finding(within: str | None) -> None:
    table = pa.table({"name": ["p0", "p1", "p2"], "x": [1, 2, 4]})
    log = ["SELECT ROUND(SUM(x), -1) FROM t WHERE name = 'p0'"]
    found = examine(log, data=table, id="name", private="x:0..4:1", within=within)
    assert not found.findings
    assert found.complete
    (known,) = examine(log, data=table, id="name", private="x:0..9:1")
    assert (known.lo, known.hi) == (0, 5)


@pytest.mark.parametrize(("unit", "values"), [(10**28, [2, -3, 0]), (10**20, [1, 2, 3]), (10**15, [1, 2, 3])])
def test_numbers_of_38_digits_are_held_against_what_is_declared_exactly(
    unit: int, values: list[int], tmp_path: Path
) -> None:
    held = pa.array([Decimal(v * unit) for v in values], pa.decimal128(38, 0))
    table = pa.table({"name": ["p0", "p1", "p2"], "x": held})
    log = ["SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE name <> 'p2'"]
    told = f"min = {-3 * unit}\nmax = {{}}\nstep = {unit}"
    found = judged(log, table, told.format(3 * unit), tmp_path)
    assert {f.who: f.value for f in found.exposed} == {"p2": values[2] * unit}
    with pytest.raises(DataError, match="outside what was declared"):
        judged(log, table, told.format(max(values) * unit - unit), tmp_path)
    with pytest.raises(DataError, match="not on the step that was declared"):
        judged(log, table, f"min = {-3 * unit - 1}\nmax = {3 * unit}\nstep = {unit}", tmp_path)


def test_a_range_may_end_below_zero_and_contradictions_are_decimals() -> None:
    table = pa.table({"name": ["p0", "p1"], "x": [-3.0, -5.0]})
    log = [("SELECT SUM(x) FROM t", {"lo": 0.004, "hi": 0.004})]
    found = examine(log, data=table, id="name", private="x:-50..-1")
    assert "was answered 0.004, but the data give -8" in found.contradictions[0].reason


def test_a_value_that_a_fact_fixes_is_not_exposed_by_the_log(tmp_path: Path) -> None:
    fact = "min = 0\nmax = 4\nstep = 1\n[[facts]]\nwhere = \"name = 'p2'\"\n"
    log = ["SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE name = 'p2'"]
    table = {"name": ["p0", "p1", "p2"], "x": [1, 2, 3]}
    for told in ("equals = 3", "min = 3\nmax = 3"):
        found = judged(log, table, fact + told, tmp_path)
        assert not found.findings
        assert found.exit_code == 0
    assert [f.who for f in judged(log, table, fact + "min = 3", tmp_path)] == ["p2"]
    more = judged([*log, "SELECT SUM(x) FROM t WHERE name <> 'p0'"], table, fact + "equals = 3", tmp_path)
    assert [f.who for f in more] == ["p0", "p1"]


@pytest.mark.parametrize("text", ["SUM(x) > 0 FROM t WHERE name = 'p0'", "SUM(x) > 2 FROM t", "SUM(x) < 1 FROM t"])
def test_a_strict_comparison_of_doubles_says_the_next_sum(text: str) -> None:
    """The dust of DOUBLE sums let a table count that lies on the threshold itself: everybody here is determined."""
    people = pa.table({"name": ["p0", "p1", "p2"]})
    found = keyhole.audit([(f"SELECT {text}", True)], data=people, private="x:0..1:1", id="name")
    assert found.exit_code == 1
    assert {str(f.value) for f in found.exposed} == {"0" if "<" in text else "1"}
    assert len(found.exposed) == (1 if "p0" in text else 3)
