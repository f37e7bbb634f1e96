"""Certificates of rounded order statistics: accepted as they are, and rejected where less rounding is claimed."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from checker_world import alone, claims, judged

from keyhole.checker import Outcome, replay
from keyhole.report.documents.json_text import dumps

TABLE = "name,g,x\na,p,3.14159\nb,p,2.5\nc,q,7.77777\nd,r,1.2\ne,r,1.25\n"


@pytest.mark.parametrize("item", ["ROUND(MAX(x), 1)", "ROUND(MIN(x), 2)", "ROUND(MEDIAN(x), 1)"])
@pytest.mark.parametrize("text", [TABLE, TABLE.replace("7.77777", "7.777777777777")], ids=["decimal", "double"])
def test_what_is_rounded_is_replayed_with_its_rounding(item: str, text: str, tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text(text, encoding="utf-8")
    log = [f"SELECT {item} FROM t WHERE g = 'q'", f"SELECT g, {item} FROM t GROUP BY g"]
    verdict = judged(log, data, private="x:0..9")
    found = replay(dumps(verdict), data)
    held = [c for c in found.checked if c.claim.certificate["kind"] == "order"]
    assert held
    assert {c.outcome for c in held} == {Outcome.HOLDS}, [(c.outcome, c.why) for c in found.checked]
    (k,) = [k for k, each in enumerate(claims(verdict)) if each["record"] == {"name": "c"}]
    liar, claim = alone(verdict, k)
    for fact in claim["certificate"]["facts"]:
        fact["rounded"] = str(Fraction(str(fact["rounded"])) / 100)
    low, high = Decimal(str(claim["lo"])), Decimal(str(claim["hi"]))
    claim["lo"], claim["hi"] = (low + high) / 2 - (high - low) / 50, (low + high) / 2 + (high - low) / 50
    assert [c.outcome for c in replay(dumps(liar), data).checked] == [Outcome.FAILS]
