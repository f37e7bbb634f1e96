"""Quotients, HAVING, comparisons and rounded sums over grids: replayed by all tables, and planted claims rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checker_world import alone, claims, judged

from keyhole.checker import Outcome, replay
from keyhole.report.documents.json_text import dumps

TABLE = "name,g,x,d\na,p,2,flu\nb,p,1,cold\nc,q,0,flu\n"
LOGS = [
    ["SELECT AVG(x) FROM t WHERE d = 'flu'", "SELECT COUNT(*) FROM t WHERE d = 'flu'", "SELECT SUM(x) FROM t"],
    ["SELECT g, COUNT(*) FROM t WHERE x > 0 GROUP BY g HAVING SUM(x) > 2", "SELECT SUM(x) FROM t"],
    ["SELECT ROUND(SUM(x) / 3, 0), COUNT(*) FROM t WHERE x > 1", "SELECT SUM(x) FROM t WHERE g = 'p'"],
    ["SELECT SUM(x) > 2 FROM t WHERE x > 0 AND g = 'p'", "SELECT COUNT(*) FROM t WHERE x > 1"],
    ["SELECT AVG(x) FROM t WHERE x > 0", "SELECT COUNT(*) FROM t WHERE x > 0 AND d = 'flu'"],
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def outcomes(text: str, data: Path) -> list[tuple[str, str]]:
    return [(str(c.outcome), c.why) for c in replay(text, data).checked]


def test_all_tables_are_asked(data: Path) -> None:
    seen = planted = 0
    for log in LOGS:
        verdict = judged(log, data, private=["x:0..2:1", "d=flu,cold"])
        found = replay(dumps(verdict), data)
        assert all(c.outcome is Outcome.HOLDS for c in found.checked), (log, outcomes(dumps(verdict), data))
        for k, claim in enumerate(claims(verdict)):
            if not claim["certificate"].get("every"):
                continue
            seen += 1
            liar, false = alone(verdict, k)
            tell_another(false)
            planted += 1
            assert [o for o, _ in outcomes(dumps(liar), data)] == [str(Outcome.FAILS)], (log, false)
    assert seen > 3, seen
    assert planted


def tell_another(claim: dict[str, Any]) -> None:
    """Something else than is claimed."""
    other = {"flu": "cold", "cold": "flu"}
    if claim["status"] == "exposed" if "status" in claim else "value" in claim:
        value = claim["value"]
        claim["value"] = other[value] if value in other else (int(value) + 1) % 3
        for end in ("lo", "hi"):
            if claim.get(end) is not None:
                claim[end] = claim["value"]
    else:
        claim["lo"] = claim["hi"] = 7
        claim.pop("allowed", None)
        claim.pop("excluded", None)


def test_too_many_tables_are_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name,g,x,d\n" + "".join(f"n{i},p,{2 - (i > 0)},flu\n" for i in range(8)), encoding="utf-8")
    verdict = judged(
        ["SELECT COUNT(*) > 0, AVG(x) FROM t WHERE x > 1", "SELECT SUM(x) FROM t"], path, private=["x:0..2:1"]
    )
    text = json.dumps(json.loads(dumps(verdict)))
    assert all(o != str(Outcome.FAILS) for o, _ in outcomes(text, path))
