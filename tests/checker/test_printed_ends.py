"""What a rounded answer leaves is tried at its ends: a verdict that says less of it is not believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyhole.auditing.examine import examine
from keyhole.checker.replay import Outcome, replay
from keyhole.config import Config
from keyhole.report.documents.json_text import dumps
from keyhole.report.verdict import Verdict

PEOPLE = {"n": ["r0", "r1", "r2"], "w": [2, 3, 1], "x": [10, 5, 20]}
Log = list[tuple[str, Any]]


def verdict(log: Log, folder: Path, declared: str) -> dict[str, Any]:
    """What is said of these answers."""
    pq.write_table(pa.table(PEOPLE), folder / "t.parquet")
    toml = f'[columns]\nid = ["n"]\n[columns.private.x]\nkind = "integer"\n{declared}'
    told: dict[str, Any] = json.loads(
        dumps(Verdict.of(examine(log, data=folder / "t.parquet", config=Config.parse(toml))).to_json())
    )
    return told


def outcome(told: dict[str, Any], folder: Path, who: str = "r2") -> set[Outcome]:
    """What becomes of the proofs about one person."""
    found = replay(json.dumps(told), folder / "t.parquet")
    return {o for o in Outcome for each in found.of(o) if each.claim.records[0]["n"] == who}


def forged(told: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The same verdict, with what it says of r2 changed."""
    for each in (*told["exposed"], *told["intervals"]):
        if each["record"]["n"] == "r2":
            change(each)
    return told


def narrower(lo: str | None, hi: str | None, said: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    def change(each: dict[str, Any]) -> None:
        for cited in each["proof"]:
            if "ends" in cited:
                cited["ends"] = [lo or cited["ends"][0], hi or cited["ends"][1]]
        each.update(said)

    return change


@pytest.mark.parametrize(
    ("log", "forge", "declared"),
    [
        ([("SELECT ROUND(SUM(x) / 30, 1) FROM t WHERE w = 1", 0.7)], ("7/10", None, {"lo": 21}), "max = 99"),
        (
            [("SELECT ROUND(SUM(x) / 30, 1) FROM t WHERE w = 1", 0.7)],
            ("7/10", "7/10", {"lo": 21, "hi": 21}),
            'domain = "real"',
        ),
        ([("SELECT FLOOR(SUM(x) / 10) FROM t WHERE w = 1", 2)], (None, "2", {"hi": 20}), "max = 99"),
        ([("SELECT ROUND(SUM(x + w), -1) FROM t WHERE w < 3", 40)], (None, "40", {"hi": 37}), "min = 0\nmax = 99"),
        (
            [("SELECT ROUND(SUM(x + w), -1) FROM t WHERE w < 3", 40), ("SELECT SUM(x + w) FROM t WHERE w <> 1", 20)],
            ("40", None, {"lo": 22}),
            "min = 0\nmax = 99",
        ),
    ],
)
def test_ends_that_are_said_to_be_narrower_fail(log: Log, forge: Any, declared: str, tmp_path: Path) -> None:
    told = verdict(log, tmp_path, declared)
    assert outcome(told, tmp_path) == {Outcome.HOLDS}
    assert outcome(forged(told, narrower(*forge)), tmp_path) == {Outcome.FAILS}


def test_what_is_public_in_a_rounded_answer_is_no_room_for_another_end(tmp_path: Path) -> None:
    told = verdict([("SELECT ROUND(SUM(x + w), -1) FROM t WHERE w < 3", 40)], tmp_path, "min = 0\nmax = 99")

    def change(each: dict[str, Any]) -> None:
        for cited in each["proof"]:
            if "known" in cited:
                cited["known"] = str(Fraction(cited["known"]) - 4)
        each["hi"] -= 4

    assert outcome(forged(told, change), tmp_path) == {Outcome.FAILS}


def test_a_value_is_not_what_a_rounded_answer_prints(tmp_path: Path) -> None:
    told = verdict([("SELECT ROUND(SUM(x), -1) FROM t WHERE w = 1", 20)], tmp_path, "")
    [said] = [each for each in told["intervals"] if each["record"]["n"] == "r2"]
    assert (said["lo"], said["hi"], outcome(told, tmp_path)) == (15, 25, {Outcome.HOLDS})
    whole = {"row": 3, "value": 20, "singled_out": True} | said
    told["exposed"] = [{k: v for k, v in whole.items() if k not in ("status", "lo", "hi", "prior", "why")}]
    said.update(status="exposed", lo=20, hi=20)
    assert Outcome.HOLDS not in outcome(told, tmp_path)
    for cited in (*said["proof"], *told["exposed"][0]["proof"]):
        cited["rounded"] = "1/4"
    assert outcome(told, tmp_path) == {Outcome.FAILS}


@pytest.mark.parametrize("scale", [1, 3])
def test_a_value_that_rounding_leaves_alone_is_replayed(scale: int, tmp_path: Path) -> None:
    log: Log = [(f"SELECT ROUND(SUM(x) / {scale * 3}, 1) FROM t WHERE w = 2", round(10 / scale / 3, 1))]
    told = verdict(log, tmp_path, "min = 0\nmax = 50\nstep = 5")
    assert [(each["record"]["n"], each["value"]) for each in told["exposed"]] == [("r0", 10)]
    assert outcome(told, tmp_path, "r0") == {Outcome.HOLDS}


def test_a_group_that_having_hides_does_not_answer_0(tmp_path: Path) -> None:
    sql = "SELECT w, SUM(CASE WHEN x <= 15 THEN x ELSE 0 END) FROM t GROUP BY w HAVING SUM(x + w) BETWEEN 11 AND 40"
    told = verdict([(sql, [{"key": {"w": 1}, "values": [0]}])], tmp_path, "min = 5\nmax = 20\nstep = 5")
    assert ("r2", 20) in [(each["record"]["n"], each["value"]) for each in told["exposed"]]
    assert outcome(told, tmp_path) == {Outcome.HOLDS}


def test_a_group_that_is_shown_has_somebody(tmp_path: Path) -> None:
    table = pa.table({"n": ["r0", "r1", "r2"], "w": [1, 1, 3], "x": [1, 3, 0], "ill": ["flu", "cold", "flu"]})
    pq.write_table(table, tmp_path / "t.parquet")
    log = ["SELECT w, SUM(x) FROM t WHERE ill <> 'cold' AND w = 3 GROUP BY w"]
    toml = '[columns]\nid = ["n"]\n[columns.private.x]\nmin = 0\nmax = 3\nstep = 1\n'
    toml += '[columns.private.ill]\nvalues = ["cold", "flu", "ok"]\n'
    found = examine(log, data=tmp_path / "t.parquet", config=Config.parse(toml))
    said = [(f.column, f.value, f.excluded) for f in found]
    assert sorted(said) == [("ill", None, ("cold",)), ("x", 0, ())]
    assert outcome(json.loads(dumps(Verdict.of(found).to_json())), tmp_path) == {Outcome.HOLDS}
