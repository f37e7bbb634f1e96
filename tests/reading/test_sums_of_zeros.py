"""HAVING over sums with DOUBLE weights: a group whose addends are all 0 meets `> 0` without any dust."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from keyhole.config import Columns, PrivateColumn
from keyhole.datasets.load import load
from keyhole.errors import DIFFERS
from keyhole.reading import Validator
from keyhole.sql import lower_statement

DATA = pa.table(
    {
        "id": list(range(8)),
        "g": ["a", "b"] * 4,
        "f": [0.1, 0.3, 0.7, 1.1, 2.2, 3.3, 0.1, -0.4],
        "x": [3, 0, 4, 9, 1, 1, 2, 5],
    }
)
ASKED = "SELECT g, COUNT(*) FROM t GROUP BY g HAVING {} {} 0"
OPS = (">", ">=", "<", "=", "<>")


@pytest.mark.parametrize("what", ["AVG(x * f)", "SUM(x * f)"])
def test_they_are_judged_and_another_comparison_is_told_from_it(what: str) -> None:
    roster = load(DATA, Columns(id=("id",), private={"x": PrivateColumn()}))
    read = {op: lower_statement(ASKED.format(what, op), roster.schema) for op in OPS}
    assert Validator(roster).reasons(read.values()) == [""] * len(OPS)
    for op, other in ((">", ">="), (">=", ">"), ("=", "<"), ("<>", ">=")):
        lie = replace(read[other], text=read[op].text)
        assert Validator(roster).reasons([lie]) == [DIFFERS], (op, other)
