"""Variances, HAVING and grouping sets, from SQL to the verdict."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest

import keyhole
from keyhole.auditing import Status
from keyhole.gather import having
from keyhole.report.verdict import Verdict

PEOPLE = pa.table({"n": list("abcdef"), "g": [1, 1, 1, 2, 2, 3], "x": [3, 3, 3, 4, 8, 5]})


def audit(*log: str, private: str = "x:0..100") -> Verdict:
    return keyhole.audit(list(log), data=PEOPLE, private=[private], id="n")


def exposed(verdict: Verdict) -> dict[str, object]:
    for finding in verdict:
        assert finding.proof is not None
        assert finding.proof.verify(verdict.evidence) is not bool(finding.proof.rule)
    return {f.who: f.value for f in verdict.exposed}


def test_a_variance_of_zero_exposes_everybody() -> None:
    for name in ("VAR_SAMP", "VAR_POP", "STDDEV", "STDDEV_POP"):
        verdict = audit(f"SELECT AVG(x), {name}(x) FROM t WHERE g = 1")
        assert exposed(verdict) == dict.fromkeys("abc", Decimal(3)), name


def test_a_difference_of_variances_exposes_a_square() -> None:
    log = ("SELECT AVG(x), VAR_POP(x) FROM t WHERE g >= 2", "SELECT VAR_SAMP(x) FROM t WHERE g = 2")
    assert exposed(audit(*log)) == {}
    squares = ("SELECT SUM(x*x) FROM t WHERE g >= 2", "SELECT SUM(x*x) FROM t WHERE g = 2")
    assert exposed(audit(*squares)) == {"f": Decimal(5)}
    unsigned = audit(*squares, private="x:real")
    assert [(f.status, f.allowed) for f in unsigned] == [(Status.INFERRED, (Decimal(-5), Decimal(5)))]


def test_a_variance_without_its_average_is_not_judged() -> None:
    """As if its average were shown too it gives nobody away, or it is named; it is no finding, and no all-clear."""
    for private in ("x", "x:0..100"):
        three = audit("SELECT VAR_POP(x) FROM t WHERE g >= 2", private=private)
        assert (three.exit_code, three.complete, three.unjudged) == (3, False, ())
        for group in (1, 2):  # with the average, all three or the two values would follow
            few = audit(f"SELECT VAR_POP(x) FROM t WHERE g = {group}", private=private)
            assert (few.exit_code, [u.number for u in few.unjudged]) == (3, ["1"])
            assert "less is not known" in few.unjudged[0].reason


def test_a_question_that_is_judged_itself_needs_nothing_beside_it() -> None:
    asked = keyhole.audit([("SELECT SUM(x) > 200 FROM t", True)], data=PEOPLE.drop(["x"]), private="x:0..100", id="n")
    assert [e.query.test is not None for e in asked.evidence.transcript.entries] == [True]
    assert (asked.exit_code, asked.unjudged) == (0, ())


def test_having_on_public_counts_hides_small_groups() -> None:
    assert audit("SELECT g, SUM(x) FROM t GROUP BY g HAVING COUNT(*) >= 2", private="x:real").exit_code == 0
    assert exposed(audit("SELECT g, SUM(x) FROM t GROUP BY g HAVING COUNT(*) >= 1")) == {"f": Decimal(5)}


def test_having_on_private_sums_is_a_threshold_question() -> None:
    verdict = audit("SELECT g, SUM(x) FROM t GROUP BY g HAVING SUM(x) >= 9")
    shown = [e.query.key for e in verdict.evidence.transcript.entries if e.query.test is None]
    assert shown == [(("g", 1),), (("g", 2),)]
    assert not verdict.unjudged  # two groups passed, one did not: each says something
    assert [(f.who, f.hi) for f in verdict.inferred] == [("f", 8)]  # alone in the group that is not shown
    assert verdict.exit_code == 1


def test_rollup_gives_the_groups_and_the_total() -> None:
    verdict = audit("SELECT g, SUM(x) FROM t GROUP BY ROLLUP (g) HAVING COUNT(*) >= 2")
    assert exposed(verdict) == {"f": Decimal(5)}  # the total less the groups shown


def test_public_figures_are_not_counted_as_unjudged() -> None:
    assert audit("SELECT COUNT(DISTINCT g), MAX(g) FROM t").exit_code == 0


def test_a_difference_with_an_empty_side_is_null_and_says_nothing() -> None:
    assert audit("SELECT SUM(x) FILTER (WHERE g = 3) - SUM(x) FILTER (WHERE g = 9) FROM t").exit_code == 0
    guarded = audit("SELECT SUM(x) FILTER (WHERE g = 3) - COALESCE(SUM(x) FILTER (WHERE g = 9), 0) FROM t")
    assert exposed(guarded) == {"f": Decimal(5)}


def test_empty_parts_of_one_sum_are_not_null() -> None:
    for item in (
        "SUM(x) + COUNT(*) FILTER (WHERE g > 200)",
        "SUM(CASE WHEN g > 200 THEN 3 * x ELSE x END)",
        "IFNULL(SUM(x) FILTER (WHERE g > 200), 0) + SUM(x)",
    ):
        assert exposed(audit(f"SELECT {item} FROM t WHERE n = 'f'")) == {"f": Decimal(5)}, item
    assert exposed(audit("WITH a AS (SELECT x, n FROM t WHERE g = 3) SELECT SUM(x), SUM(2 * x) + COUNT(*) FROM a")) == {
        "f": Decimal(5)
    }


def test_sums_of_squares_are_judged_like_variances() -> None:
    same = dict.fromkeys("abc", Decimal(3))
    assert exposed(audit("SELECT SUM(x), SUM(x*x) FROM t WHERE g = 1")) == same
    assert exposed(audit("SELECT SUM(x - 3), SUM((x - 3) * (x - 3)) FROM t WHERE g = 1")) == same
    two = audit("SELECT AVG(x), VAR_POP(x) FROM t WHERE g = 2", private="x")
    assert "not complete" in two.promise
    assert {f.who: f.allowed for f in two.inferred} == dict.fromkeys("de", (Decimal(4), Decimal(8)))  # integers
    halves = PEOPLE.set_column(2, "x", pa.array([3, 3, 3, 4, 8, 5], pa.decimal128(9, 1)))
    two = keyhole.audit(["SELECT AVG(x), VAR_POP(x) FROM t WHERE g = 2"], data=halves, private=["x:real"], id="n")
    assert (two.findings, two.exit_code) == ((), 3)  # of decimals a printed variance proves no two roots
    pair = audit("SELECT SUM(x), SUM(x*x) FROM t WHERE g = 2", private="x")
    assert {f.who: f.allowed for f in pair.inferred} == dict.fromkeys("de", (Decimal(4), Decimal(8)))
    assert pair.complete  # nobody else was asked about
    zero = pa.table({"n": ["a", "b"], "x": [0, 0]})
    verdict = keyhole.audit(["SELECT SUM(x*x) FROM t"], data=zero, private=["x"], id="n")
    assert exposed(verdict) == {"a": Decimal(0), "b": Decimal(0)}


def test_an_average_over_one_possible_person_is_his_value() -> None:
    for item in ("AVG(x)", "SUM(x)/COUNT(*)"):
        assert exposed(audit(f"SELECT {item} FROM t WHERE x > 3 AND n = 'f'")) == {"f": Decimal(5)}, item


def test_a_quotient_that_says_nothing_does_no_harm() -> None:
    assert exposed(audit("SELECT SUM(x)/SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE g = 3")) == {"f": Decimal(5)}


def test_the_proof_of_a_quotient_says_what_is_added_up() -> None:
    verdict = audit(
        "SELECT SUM(x) FILTER (WHERE n = 'f')/SUM(x) FROM t WHERE g > 1 AND n <> 'd'",
        "SELECT SUM(x) FROM t WHERE g > 1 AND n <> 'd'",
    )
    text = verdict.why(next(f for f in verdict if f.who == "f"))
    assert "numerator - 0.384615384615 × denominator of Q1" in text


def test_public_tests_of_many_groups_are_asked_of_all_groups_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """HAVING COUNT(*) >= 3 took two looks at the table for each group: minutes for dashboards of thousands of cells."""
    n = 240
    rng = random.Random(5)
    people = pa.table(
        {
            "name": [f"p{k}" for k in range(n)],
            "a": [rng.choice([None, 1, 2, 3]) for _ in range(n)],
            "b": [rng.choice(["u", "v", "W'w"]) for _ in range(n)],
            "x": [rng.randrange(50) for _ in range(n)],
        }
    )
    log = [
        "SELECT a, b, SUM(x) FROM t WHERE a IS NULL OR a < 3 GROUP BY a, b HAVING COUNT(*) >= 19 OR MAX(b) = 'u'",
        "SELECT a, SUM(x) FROM t GROUP BY ROLLUP (a) HAVING COUNT(*) > 55 AND SUM(x) > 1400",
        "SELECT b, COUNT(*) FROM t WHERE x > 20 GROUP BY b HAVING COUNT(*) >= 40",
    ]
    at_once = keyhole.audit(log, data=people, private="x", id="name").to_json()
    monkeypatch.setattr(having, "_figures", lambda *given: {})
    one_by_one = keyhole.audit(log, data=people, private="x", id="name").to_json()
    assert at_once == one_by_one
    assert at_once["statements"]["judged"] >= 2
