"""Statements that were once judged wrongly, each with the verdict it must have, and what stands beside them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import keyhole
from keyhole.auditing.online.online import OnlineAuditor
from keyhole.config import Columns
from keyhole.datasets import load_roster
from keyhole.report.verdict import Verdict

D = pa.table(
    {
        "name": ["Ann", "Bob", "Cyd", "Dan"],
        "dept": ["a", "a", "b", "b"],
        "zip": [32453, 43999, 43813, 33000],
        "age": [30, 41, 52, 38],
        "pay": [51, 64, 70, 80],
    }
)
ANN = {"Ann": Decimal(51)}
EVERYBODY = ("Ann", "Bob", "Cyd", "Dan")


def audit(*log: Any, data: object = D, private: tuple[str, ...] = ("pay",)) -> Verdict:
    return keyhole.audit(list(log), data=data, private=private, id="name")


def exposed(*log: Any, data: object = D, private: tuple[str, ...] = ("pay",)) -> dict[str, object]:
    return {f.who: f.value for f in audit(*log, data=data, private=private).exposed}


def admitted(text: str) -> str:
    roster = load_roster(D, Columns.checked({"id": ["name"], "private": {"pay": {}}}))
    return str(OnlineAuditor(roster).admit(text).verdict)


SHADOWED = "SELECT SUM(pay) FROM (SELECT t.*, 'x' AS name FROM t) WHERE name = 'Ann'"
DIVIDED = "SELECT SUM(pay) FROM t WHERE zip // 1000.0 = 32.453"


@pytest.mark.parametrize(
    "text",
    [
        SHADOWED,
        "SELECT SUM(pay) FROM (SELECT *, 'x' AS name FROM t) AS q WHERE q.name = 'Ann'",
        "WITH q AS (SELECT t.*, 'x' AS name FROM t) SELECT SUM(pay) FROM q WHERE name = 'Ann'",
        "WITH q AS (SELECT name, 'Ann' AS NAME, pay FROM t) SELECT SUM(pay) FROM q WHERE name = 'Ann'",
        DIVIDED,
        "SELECT SUM(pay) FROM t WHERE zip // 1e3 = 32.453",
        "SELECT SUM(pay) FROM t WHERE zip // (999.0 + 1) = 32.453",
        "SELECT SUM(pay) FROM t WHERE zip % 1000.5 = 437.0",
        "SELECT NULL AS note, SUM(pay - 1) FROM t WHERE name = 'Ann'",
        "SELECT 7, 'x', SUM(pay - 1), NULL FROM t WHERE name = 'Ann'",
        "SELECT COUNT(*) FROM t WHERE name = 'Ann' HAVING SUM(pay) <> 51",
        "SELECT COUNT(*) FROM t WHERE name = 'Ann' HAVING NOT SUM(pay) = 51",
        "SELECT COUNT(*) FROM t WHERE name = 'Ann' HAVING SUM(pay) <> 51 OR COUNT(*) > 3",
        "SELECT COUNT(*) FROM t WHERE name = 'Ann' HAVING SUM(pay) = 51 AND COUNT(*) < 3",
    ],
)
def test_ann_is_exposed(text: str) -> None:
    if "1000.5" in text:
        assert audit(text).exit_code in (1, 3)  # judged or honestly not: never an all-clear
        return
    assert exposed(text) == ANN


@pytest.mark.parametrize("text", [SHADOWED, DIVIDED, "SELECT NULL AS note, SUM(pay - 1) FROM t WHERE name = 'Ann'"])
def test_ann_is_denied_before_the_answer(text: str) -> None:
    assert admitted(text) == "deny"


def test_what_the_engine_fails_on_is_refused_before_the_answer() -> None:
    assert admitted("SELECT SUM(pay) FROM t WHERE CAST(dept AS INTEGER) = 1") == "refused"


def test_a_total_beside_its_groups_exposes_whom_having_hides() -> None:
    text = (
        "SELECT dept, SUM(pay - 1) FROM t WHERE name <> 'Dan' GROUP BY GROUPING SETS ((), (dept)) "
        "HAVING COUNT(*) > 1 ORDER BY 1 NULLS FIRST"
    )
    assert exposed(text) == {"Cyd": Decimal(70)}
    assert exposed(text.replace("GROUPING SETS ((), (dept))", "ROLLUP (dept)")) == {"Cyd": Decimal(70)}
    assert exposed(text.replace("GROUPING SETS ((), (dept))", "CUBE (dept)")) == {"Cyd": Decimal(70)}


def test_one_statement_that_fails_does_not_stop_the_others() -> None:
    verdict = audit(
        "SELECT dept, SUM(pay) - COUNT(*) FROM t GROUP BY ROLLUP (dept)",
        "SELECT SUM(pay) FROM t WHERE CAST(dept AS INTEGER) = 1",
        "SELECT SUM(pay) FROM t WHERE name = 'Ann'",
    )
    assert [u.number for u in verdict.unjudged] == ["2"]
    assert {f.who: f.value for f in verdict.exposed} == {"Ann": Decimal(51), "Bob": Decimal(64)}
    assert audit("SELECT dept, SUM(pay) - COUNT(*) FROM t GROUP BY ROLLUP (dept)").exit_code == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT name, COUNT(*) FROM t WHERE pay > 1000 GROUP BY name HAVING COUNT(*) >= 1",
        "SELECT name, COUNT(*) FROM t WHERE pay > 1000 GROUP BY name HAVING COUNT(*) >= 0",
        "SELECT name, COUNT(*) FROM t WHERE pay > 1000 GROUP BY name",
        "SELECT SUM(pay) + COUNT(*) FROM t WHERE pay > 1000",
        "SELECT SUM(pay) FROM t WHERE pay > 1000",
        "SELECT AVG(pay) FROM t WHERE pay > 1000",
        "SELECT SUM(pay) / COUNT(*) FROM t WHERE pay > 1000",
        {"sql": "SELECT SUM(pay) + COUNT(*) FROM t WHERE pay > 1000", "answer": None},
        {"sql": "SELECT name, COUNT(*) FROM t WHERE pay > 1000 GROUP BY name HAVING COUNT(*) >= 1", "answer": []},
        {"sql": "SELECT COUNT(*) FROM t HAVING COUNT(*) FILTER (WHERE pay > 1000) > 0", "answer": []},
    ],
)
def test_everybody_is_at_most_1000(text: Any) -> None:
    verdict = audit(text)
    assert {f.who: (f.lo, f.hi) for f in verdict.inferred} == dict.fromkeys(EVERYBODY, (None, Decimal(1000)))


def test_a_hidden_group_fails_its_private_test() -> None:
    verdict = audit("SELECT dept, COUNT(*) FROM t GROUP BY dept HAVING SUM(pay) > 100000 AND COUNT(*) > 0")
    assert verdict.exit_code == 0  # each group says that its sum is at most 100000: everybody is shown to be open
    assert not verdict.unjudged


def test_several_private_tests_that_failed_do_not_say_which() -> None:
    of_two = audit("SELECT dept, COUNT(*) FROM t GROUP BY dept HAVING SUM(pay) > 1000 AND AVG(pay) > 1000")
    assert (of_two.exit_code, of_two.findings) == (0, ())  # nor would both numbers themselves
    of_one = audit("SELECT name, COUNT(*) FROM t GROUP BY name HAVING SUM(pay) > 1000 AND MAX(pay) > 1000")
    assert (of_one.exit_code, of_one.findings) == (3, ())
    assert "somebody would be given away" in of_one.unjudged[0].reason


@pytest.mark.parametrize("x", [[5, 5, 3], [5, 5, 0]])
@pytest.mark.parametrize(
    "item",
    [
        "SUM(CASE WHEN x <> 5 THEN x ELSE 0 END) FROM t",
        "COALESCE(SUM(x), 0) FROM t WHERE x <> 5",
        "IFNULL(SUM(x) FILTER (WHERE x <> 5), 0) FROM t",
        "SUM(IF(x <> 5, x, 0)) FROM t",
    ],
)
def test_zero_says_less_than_null(item: str, x: list[int]) -> None:
    verdict = audit(f"SELECT {item}", data=pa.table({"name": ["A", "B", "C"], "x": x}), private=("x",))
    assert not verdict.findings
    given = audit({"sql": f"SELECT {item}", "answer": 0}, data=pa.table({"name": ["A", "B", "C"]}), private=("x",))
    assert not given.findings


def test_null_under_a_private_condition_says_that_nobody_matched() -> None:
    same = pa.table({"name": ["A", "B"], "x": [5, 5]})
    assert exposed("SELECT SUM(x) FROM t WHERE x <> 5", data=same, private=("x",)) == dict.fromkeys("AB", Decimal(5))


def test_a_sum_with_an_empty_side_is_null() -> None:
    data = pa.table({"name": list("ABC"), "g": list("aab"), "x": [5, 6, 3], "y": pa.array([None, None, 4], pa.int64())})
    for text in (
        "SELECT (SUM(y) - SUM(x)) / COUNT(*) FROM t WHERE name = 'A'",
        "SELECT g, (SUM(y) - SUM(x)) / COUNT(*) FROM t WHERE name <> 'B' AND g = 'a' GROUP BY g",
        "SELECT SUM(y) - SUM(x) FROM t WHERE name = 'A'",
    ):
        assert not audit(text, data=data, private=("x", "y")).findings, text
    guarded = "SELECT (COALESCE(SUM(y), 0) - SUM(x)) / COUNT(*) FROM t WHERE name = 'A'"
    assert exposed(guarded, data=data, private=("x", "y")) == {"A": Decimal(5)}


def test_two_sums_of_which_one_was_over_nobody_are_not_judged() -> None:
    verdict = audit("SELECT SUM(pay) FILTER (WHERE pay > 1000) - SUM(pay) FILTER (WHERE pay < 60) FROM t")
    assert (verdict.exit_code, verdict.findings) == (3, ())


def test_a_quotient_over_zero_is_no_number() -> None:
    verdict = audit("SELECT COALESCE(SUM(pay), 0) / COUNT(*) FILTER (WHERE age > 200) FROM t WHERE name = 'Ann'")
    assert (verdict.exit_code, verdict.findings) == (3, ())


def test_nanoseconds_are_kept_apart() -> None:
    day = pd.Timestamp("2026-01-01").value
    times = pd.to_datetime([day + 1, day + 2, day + 10**9, day + 10**9])
    frame = pd.DataFrame({"name": list("ABCD"), "ts": times, "pay": [1, 2, 3, 4]})
    verdict = audit("SELECT ts, SUM(pay) FROM t GROUP BY ts", data=frame)
    assert {f.who: f.value for f in verdict.exposed} == {"A": Decimal(1), "B": Decimal(2)}


def test_names_are_compared_as_the_engine_does() -> None:
    data = pa.table({"name": list("ABC"), "straße": [1, 2, 3], "Größe": [1, 2, 3], "pay": [5, 6, 3]})
    assert audit("SELECT SUM(pay) FROM t WHERE strasse = 1", data=data).exit_code == 3
    assert audit('SELECT SUM(pay) FROM t WHERE "GRÖSSE" = 1', data=data).exit_code == 3
    assert exposed("SELECT SUM(PAY) FROM t WHERE STRAßE = 1 AND größe = 1", data=data) == {"A": Decimal(5)}


@pytest.mark.parametrize("constant", [" a", "A", "a ", " A"])
def test_a_value_that_is_nearly_there_is_named(constant: str) -> None:
    verdict = audit(f"SELECT SUM(pay) FROM t WHERE dept = '{constant}'")
    assert verdict.exit_code == 3
    assert "'a'" in verdict.unjudged[0].reason
    assert audit(f"SELECT SUM(pay) FROM t WHERE dept IN ('b', '{constant}')").exit_code == 3


def test_a_condition_that_nobody_matches_warns() -> None:
    verdict = audit("SELECT SUM(pay) FROM t WHERE dept = 'zz'")
    assert "Warning: nobody matches Q1; is that what was meant?" in verdict.text().splitlines()
    text = "SELECT SUM(pay) FROM t WHERE dept = 'zz'"
    assert verdict.to_json()["warnings"] == [{"query": "1", "sql": text, "reason": "nobody matches it"}]


NEARLY = [
    "= 'ann'",
    "= 'Ann '",
    "IN ('ann', 'zed')",
    "NOT IN ('ANN', 'zed')",
    "<> 'ANN'",
    "LIKE 'an%'",
    "NOT LIKE '_NN'",
]


@pytest.mark.parametrize("condition", NEARLY)
def test_an_id_that_is_nearly_there_is_not_judged_and_not_named(condition: str) -> None:
    """An engine that ignores case or blanks answered of Ann alone, and the audit took it for nobody."""
    data = pa.table({"name": ["Ann", "Bob", "Cyd", "Dan"], "dept": ["a", "a", "b", "b"], "pay": [1, 2, 3, 5]})
    for sql in (
        f"SELECT SUM(pay) FROM t WHERE name {condition}",
        f"SELECT SUM(CASE WHEN name {condition} THEN pay ELSE 0 END) FROM t",
        f"SELECT name, SUM(pay) FROM t GROUP BY name HAVING name {condition}",
    ):
        verdict = audit(sql, data=data)
        assert verdict.exit_code in ((1, 3) if "GROUP" in sql else (3,))
        assert [u.number for u in verdict.unjudged] == ["1"]
        assert "'Ann'" not in verdict.unjudged[0].reason


@pytest.mark.parametrize("condition", ["= 'Ann'", "= 'zed'", "LIKE 'A%'", "LIKE 'z%'", "NOT IN ('Bob', 'zed')"])
def test_an_id_that_is_there_or_surely_not_is_judged(condition: str) -> None:
    data = pa.table({"name": ["Ann", "Bob", "Cyd", "Dan"], "pay": [1, 2, 3, 5]})
    assert not audit(f"SELECT SUM(pay) FROM t WHERE name {condition}", data=data).unjudged


def test_nothing_judged_is_no_all_clear() -> None:
    assert audit("SET x = 1", "SHOW TABLES").exit_code == 3


@pytest.mark.parametrize(
    "having", ["SUM(h) > 1", "SUM(h) BETWEEN 1 AND 4", "SUM(2 * h - 1) >= 1", "MAX(pay) >= 1", "NOT MIN(pay) > 2"]
)
def test_whole_numbers_at_their_threshold_are_compared_as_they_are(having: str) -> None:
    """Sums with whole weights, and extremes of whole numbers: no rounding can turn such a comparison."""
    data = pa.table({"name": EVERYBODY, "dept": ["a", "a", "b", "b"], "h": [1, 0, 2, 1], "pay": [1, 2, 3, 1]})
    assert not audit(f"SELECT dept, SUM(pay) FROM t GROUP BY dept HAVING {having}", data=data).unjudged
