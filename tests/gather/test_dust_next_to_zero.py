"""Numbers next to 0 that a floating-point engine prints for 0: they prove nothing else, and contradict nothing."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import keyhole

DUST = [Decimal("5E-324"), Decimal("-5E-324")]
ITEMS = [
    "AVG(x)",
    "SUM(x)",
    "STDDEV(x)",
    "STDDEV_POP(x)",
    "VAR_POP(x)",
    "VAR_SAMP(x)",
    "SUM(x * x)",
    "ROUND(AVG(x), 2)",
]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()], ids=str)
@pytest.mark.parametrize("dust", DUST, ids=str)
@pytest.mark.parametrize("item", ITEMS)
def test_dust_for_zero_contradicts_nothing(item: str, dust: Decimal, kind: pa.DataType) -> None:
    people = pa.table({"n": ["a", "b", "c"], "x": pa.array([0, 0, 0]).cast(kind)})
    for first in ([("SELECT SUM(x) FROM t", 0)], [("SELECT AVG(x) FROM t", dust)]):
        log = [*first, (f"SELECT {item} FROM t", dust)]
        for private in ("x", "x:0..3:1"):
            verdict = keyhole.audit(log, data=people, private=private, id="n")
            assert not verdict.contradictions, (log, private, verdict.contradictions)
            for f in (*verdict.findings, *verdict.ranges):
                assert f.value is None or abs(f.value) < Decimal("1E-300"), (log, private, f)
                assert f.lo is None or f.lo <= 0, (log, private, f)
                assert f.hi is None or f.hi >= 0, (log, private, f)
