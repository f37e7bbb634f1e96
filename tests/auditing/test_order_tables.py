"""Order statistics among all tables on a grid: private conditions, sums beside them, the engine's definitions."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from tests.fuzz.engine_tables import play

import keyhole
from keyhole.checker import replay
from keyhole.config import Config
from keyhole.report.documents.json_text import dumps
from keyhole.report.verdict import Verdict

PEOPLE = {"n": list("abcd"), "x": [0, 1, 3, 2]}


def audited(log: list[str], data: Any = None, private: str = "x:0..3:1") -> Verdict:
    return keyhole.audit(log, data=pa.table(PEOPLE) if data is None else data, id="n", private=private)


def found(verdict: Verdict) -> dict[str, Any]:
    return {f.who: f.value for f in verdict.exposed}


TOP_OF_TWO = "SELECT MAX(x) FROM t WHERE x < 3 AND n < 'c'"
LOGS = [
    (
        [TOP_OF_TWO, "SELECT MIN(x) FROM t WHERE x > 0 AND n = 'b'", "SELECT SUM(x) FROM t WHERE n < 'c'"],
        {"a": 0, "b": 1},
    ),
    (["SELECT MEDIAN(x), SUM(x) FROM t WHERE n < 'd'", "SELECT MAX(x) FROM t WHERE n <> 'a' AND n <> 'd'"], {}),
    (["SELECT MIN(x), SUM(x) FROM t WHERE n > 'b' AND x > 0", "SELECT MAX(x) FROM t WHERE n = 'c'"], {"c": 3, "d": 2}),
]


@pytest.mark.parametrize(("log", "exposed"), LOGS)
def test_private_conditions_and_sums_are_judged_together(log: list[str], exposed: Any, tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    pyarrow.csv.write_csv(pa.table(PEOPLE), data)
    verdict = audited(log, data)
    assert found(verdict) == exposed
    assert verdict.complete
    assert verdict.exit_code == bool(exposed)
    assert not verdict.unjudged
    assert {str(c.outcome) for c in replay(dumps(verdict.to_json()), data).checked} <= {"holds"}


def test_the_median_of_decimals_is_cut_and_of_doubles_is_not() -> None:
    """DuckDB cuts medians of DECIMAL toward zero, and keeps those of DOUBLE: 0.5 and 1 have 0.7 and 0.75."""
    values = {"n": ["a", "b"], "x": [0.5, 1.0]}
    cut = pa.table({"n": values["n"], "x": pa.array(values["x"]).cast(pa.decimal128(9, 1))})
    log = ["SELECT MEDIAN(x) FROM t", "SELECT MAX(x) FROM t"]
    shown = [audited(log, data, "x:0..2:0.5") for data in (cut, pa.table(values))]
    assert [str(v.evidence.systems[0].order[0].answer.value) for v in shown] == ["0.7", "0.75"]
    assert [(v.exit_code, v.complete) for v in shown] == [(0, True), (0, True)]
    alone = [
        audited(["SELECT MEDIAN(x) FROM t", "SELECT MIN(x) FROM t WHERE n = 'a'"], d, "x:0..2:0.5")
        for d in (cut, pa.table(values))
    ]
    assert [found(v) for v in alone] == [{"a": 0.5, "b": 1}] * 2


def test_a_group_over_nobody_is_hidden_by_any_comparison() -> None:
    verdict = audited(["SELECT n, SUM(x) FROM t WHERE x > 3 GROUP BY n HAVING AVG(x) > 1"], private="x:0..4:1")
    assert not verdict.contradictions


def test_how_many_are_in_a_cell_is_not_their_value() -> None:
    """Of a DOUBLE column: nobody of group b is below 1, by a count of 0; that 0 is no bound of the value."""
    people = pa.table({"n": list("abc"), "g": list("baa"), "x": [3.0, 1.0, 0.0]})
    log = ["SELECT MEDIAN(x) FROM t", "SELECT COUNT(*) FROM t WHERE x < 1 AND g = 'b'"]
    verdict = audited(log, people)
    assert [(f.who, f.lo, f.hi) for f in verdict.findings] == [("a", 1, 3)]
    assert not [f for f in verdict.ranges if f.lo == 1]


FACT = "[[facts]]\nwhere = \"n = 'a'\"\nmax = 0\n"


@pytest.mark.parametrize(
    ("log", "known"),
    [
        ("SELECT MEDIAN(x) FROM t WHERE n < 'c'", [("b", 1, 1)]),
        ("SELECT COUNT(*) FROM t WHERE x > 0 AND n < 'c'", [("b", 1, 3)]),
    ],
)
def test_facts_enter_the_tables_and_the_certificate(log: str, known: Any, tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    pyarrow.csv.write_csv(pa.table(PEOPLE), data)
    toml = f'[columns]\nid = ["n"]\n[columns.private.x]\nmin = 0\nmax = 3\nstep = 1\n{FACT}'
    verdict = keyhole.audit([log], data=data, config=Config.parse(toml))
    assert [(f.who, f.lo, f.hi) for f in verdict.findings] == known
    assert verdict.complete
    assert {str(c.outcome) for c in replay(dumps(verdict.to_json()), data).checked} == {"holds"}
    forged = json.loads(dumps(verdict.to_json()))
    for item in (*forged["exposed"], *forged["intervals"]):
        (item.get("certificate") or {}).pop("stated", None)
    assert "fails" in {str(c.outcome) for c in replay(json.dumps(forged), data).checked}


def test_every_claim_holds_in_every_table_that_the_engine_makes() -> None:
    score = sum((play(seed, 2) for seed in (3, 4, 103, 130, 132)), Counter[str]())
    assert score["exposed"] > 2
    assert score["complete"] > 1


@pytest.mark.soak
def test_every_claim_holds_in_tables_of_fresh_seeds() -> None:
    start = random.SystemRandom().randrange(10**9)
    print(f"\nfirst seed {start}")  # noqa: T201
    assert sum((play(seed) for seed in range(start, start + 200)), Counter[str]())["complete"] > 100
