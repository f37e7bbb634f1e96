"""A fact about the total of one person says his value: it was known before, whatever the log repeats of it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from keyhole.auditing.examine import examine
from keyhole.config import Config

PEOPLE = pa.table({"name": ["Ann", "Bob", "Cyd"], "w": [3, 1, 3], "x": [-1, 1, -1]})
LOG = ["SELECT SUM(x * w) FROM t", "SELECT MIN(x) FROM t WHERE name <> 'Bob'"]


@pytest.mark.parametrize("said", ["sum_min = -1\nsum_max = -1", "sum_max = -1\nmin = -1", "equals = -1"])
def test_what_a_fact_fixes_is_no_finding(said: str) -> None:
    toml = '[columns]\nid = ["name"]\n[columns.private.x]\nmin = -2\nmax = 1\nstep = 1\n'
    toml += f'[[facts]]\nwhere = "name = \'Ann\'"\ncolumn = "x"\n{said}\n'
    found = examine(LOG, data=PEOPLE, config=Config.parse(toml))
    assert (found.findings, found.exit_code, found.complete) == ((), 0, True)
    assert [(f.who, f.lo, f.hi) for f in found.ranges] == [("Cyd", -1, 0)]
