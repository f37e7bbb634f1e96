"""GROUP BY over a private column that nobody declared; DOUBLE columns with a step; what the time limit leaves."""

from __future__ import annotations

import pyarrow as pa
import pytest

from keyhole.auditing.base import Status
from keyhole.auditing.examine import examine

PEOPLE = pa.table(
    {
        "name": list("abcdef"),
        "dept": ["x", "x", "x", "y", "y", "z"],
        "ill": ["flu", "cold", "flu", "none", "cold", "flu"],
        "pay": [10, 20, 30, 40, 50, 60],
    }
)
EACH = "SELECT ill, COUNT(*) FROM t GROUP BY ill"
ALL = "SELECT SUM(pay) FROM t"
BUT_ONE = "SELECT SUM(pay) FROM t WHERE dept <> 'z'"


def test_which_values_there_are_is_said_once_and_not_of_everybody() -> None:
    found = examine([EACH, ALL, BUT_ONE], data=PEOPLE, id="name", private=["ill", "pay"])
    assert [(f.who, f.column, f.status) for f in found] == [("f", "pay", Status.EXPOSED)]
    assert "--private ill=VALUE,VALUE,..." in found.promise
    assert not [value for value in ("cold", "flu", "none") if value in found.promise]
    assert not found.complete


def test_it_is_no_all_clear() -> None:
    found = examine([EACH], data=PEOPLE, id="name", private=["ill"])
    assert not found.findings
    assert found.exit_code == 3
    declared = examine([EACH], data=PEOPLE, id="name", private=["ill=cold,flu,none"])
    assert declared.exit_code == 0


def test_who_is_known_more_narrowly_stays_a_finding() -> None:
    inside = "SELECT ill, COUNT(*) FROM t WHERE dept = 'x' GROUP BY ill"
    found = examine([EACH, inside], data=PEOPLE, id="name", private=["ill"])
    assert {f.who for f in found} == set("abc")
    assert all(set(f.allowed) == {"flu", "cold"} for f in found)
    alone = examine([inside], data=PEOPLE, id="name", private=["ill"])  # of the others nothing was told
    assert {f.who for f in alone} == set("abc")
    one = examine([EACH, inside.replace("'x'", "'z'")], data=PEOPLE, id="name", private=["ill"])
    assert [(f.who, f.value) for f in one.exposed] == [("f", "flu")]


def test_all_values_that_occur_are_nothing_new_of_some_people() -> None:
    """The list is the assumed domain: nothing is known of the people in the GROUP BY, and the list is not printed."""
    wards = pa.table(
        {
            "name": [f"p{i}" for i in range(60)],
            "ward": ["a", "b", "c"] * 20,
            "ill": (["asthma"] * 3 + ["cancer"] * 3 + ["flu"] * 3 + ["stroke"] * 3) * 5,
        }
    )
    inside = "SELECT ill, COUNT(*) FROM t WHERE ward = 'a' GROUP BY ill"
    for log in ([inside], [inside, EACH], [EACH, inside, inside.replace("'a'", "'b'")]):
        found = examine(log, data=wards, id="name", private=["ill"])
        assert (found.findings, found.exit_code) == ((), 3), log
        assert "--private ill=VALUE,VALUE,..." in found.gap
        assert "asthma" not in found.gap + found.promise
    declared = examine([inside], data=wards, id="name", private=["ill=asthma,cancer,flu,stroke"])
    assert declared.exit_code == 0
    wider = examine([inside], data=wards, id="name", private=["ill=asthma,cancer,flu,gout,stroke"])
    assert (len(wider.findings), wider.exit_code) == (20, 1)


def test_a_list_written_down_is_the_domain_too_and_a_value_written_down_is_excluded() -> None:
    none = "SELECT COUNT(*) FROM t WHERE ill NOT IN ('flu', 'cold', 'none')"
    found = examine([none], data=PEOPLE, id="name", private=["ill"])
    assert (found.findings, found.exit_code) == ((), 3)
    found = examine(["SELECT COUNT(*) FROM t WHERE ill = 'gout'"], data=PEOPLE, id="name", private=["ill"])
    assert [f.excluded for f in found.findings] == [("gout",)] * 6


@pytest.mark.parametrize(
    "log",
    [
        ["SELECT MAX(pay) FROM t WHERE dept = 'x'", "SELECT SUM(pay) FROM t"],
        ["SELECT dept, SUM(pay) FROM t GROUP BY dept HAVING MAX(pay) > 0.3"],
        ["SELECT dept, SUM(pay) FROM t GROUP BY dept HAVING MIN(pay) >= 0.30000000000000004"],
        [("SELECT MAX(pay) FROM t WHERE dept = 'x'", 0.30000000000000004)],
        ["SELECT COUNT(*) FROM t WHERE name = 'a' AND pay > 0.3", "SELECT SUM(pay) FROM t WHERE dept = 'x'"],
    ],
)
def test_dust_is_no_contradiction_and_no_value_of_a_grid(log: list[str]) -> None:
    pay = pa.array([0.1 * 3, 0.1, 0.7, 0.2], pa.float64())  # 0.30000000000000004
    data = pa.table({"name": list("abcd"), "dept": ["x", "x", "y", "y"], "pay": pay})
    found = examine(log, data=data, id="name", private="pay:0..1:0.1")
    assert not found.contradictions
    truth = dict(zip("abcd", (0.3, 0.1, 0.7, 0.2), strict=True))
    for f in (*found, *found.ranges):
        assert f.lo is None or float(f.lo) <= truth[f.who]
        assert f.hi is None or float(f.hi) >= truth[f.who]
