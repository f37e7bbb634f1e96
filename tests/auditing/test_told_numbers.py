"""What a GROUP BY over a private column tells of everybody is its domain; what it tells of somebody is a finding."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from keyhole.auditing.examine import examine

TABLE = pa.table(
    {
        "name": list("abcdef"),
        "ward": list("xxyyyy"),
        "sev": [1, 1, 2, 2, 3, 3],
        "pay": [Decimal(units) / 4 for units in (402, 36001, 48002, 52002, 176002, 180002)],
    }
)


@pytest.mark.parametrize(
    ("sql", "column", "declare"),
    [
        ("SELECT sev, COUNT(*) FROM t GROUP BY sev", "sev", "sev=VALUE,VALUE,..., or their range and step"),
        ("SELECT FLOOR(sev / 2) * 2, COUNT(*) FROM t GROUP BY 1", "sev", "sev:MIN..MAX:STEP"),
        ("SELECT FLOOR(pay / 10000) * 10000, COUNT(*) FROM t GROUP BY 1", "pay", "pay:MIN..MAX:STEP"),
    ],
)
def test_undeclared_numbers_are_told_once_and_for_all(sql: str, column: str, declare: str) -> None:
    found = examine([sql], data=TABLE, id="name", private=column)
    assert not found.findings
    assert found.exit_code == 3
    assert f"the answers show which values {column} has, and they are not declared" in found.gap
    assert declare in found.gap


@pytest.mark.parametrize(
    ("sql", "private", "people"),
    [
        ("SELECT sev, COUNT(*) FROM t WHERE ward = 'y' GROUP BY sev", "sev", set("cdef")),  # not of everybody
        ("SELECT ward, sev, COUNT(*) FROM t GROUP BY ward, sev", "sev", set("abcdef")),  # more than the domain
        ("SELECT sev, COUNT(*) FROM t GROUP BY sev", "sev:0..9:1", set("abcdef")),  # less than was declared
        ("SELECT FLOOR(pay / 100000), COUNT(*) FROM t GROUP BY 1", "pay", set("abcdef")),  # one bucket for all
    ],
)
def test_what_says_more_than_the_domain_stays_a_finding(sql: str, private: str, people: set[str]) -> None:
    found = examine([sql], data=TABLE, id="name", private=private)
    assert {f.who for f in found.findings} == people
    assert found.exit_code == 1
