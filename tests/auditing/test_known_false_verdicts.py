"""Verdicts that were false once, with their siblings: values, statuses, rules for private conditions, exit codes."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

import keyhole
from keyhole.auditing import Status
from keyhole.cli import app
from keyhole.model.schema import fold_name
from keyhole.report.formats.baseline import Baseline
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
HUGE = 18446744073709551615


def judged(*log: Any, data: Any = D, private: Any = "pay", id: str = "name") -> Verdict:  # noqa: A002
    return keyhole.audit(list(log), data=data, private=private, id=id)


def values(verdict: Verdict) -> dict[str, Any]:
    return {f.who: f.value for f in verdict.exposed}


# squares under a condition say nothing of those outside it

ABC = pa.table({"n": ["A", "B", "C"], "g": ["a", "a", "b"], "x": [7, 0, 3]})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(x*x) FROM t WHERE x < 2 AND g = 'a'",
        "SELECT SUM(x*x), COUNT(*) FROM t WHERE x < 2",
        "SELECT SUM(x*x) FILTER (WHERE x < 2) FROM t WHERE g = 'a'",
        "SELECT SUM(CASE WHEN x < 2 THEN x*x ELSE 0 END) FROM t WHERE g = 'a'",
        "SELECT SUM(x), SUM(x*x) FROM t WHERE x < 2 AND g = 'a'",
    ],
)
def test_squares_under_a_condition_are_not_everybodys(sql: str) -> None:
    verdict = judged(sql, data=ABC, private="x", id="n")
    truth = {"A": 7, "B": 0, "C": 3}
    assert all(truth[f.who] == f.value for f in verdict.exposed)
    assert "A" not in values(verdict)
    assert verdict.exit_code in (1, 3)


def test_squares_that_nothing_splits_still_tell() -> None:
    zeros = pa.table({"n": ["A", "B"], "x": [0, 0]})
    assert values(judged("SELECT SUM(x*x) FROM t", data=zeros, private="x", id="n")) == {"A": 0, "B": 0}


def test_a_noisy_variance_of_zero_proves_nothing() -> None:
    log = [
        {"sql": "SELECT SUM(x) FROM t", "answer": 10},
        {"sql": "SELECT VAR_POP(x) FROM t", "answer": {"lo": 0, "hi": 4}},
    ]
    verdict = judged(*log, data=ABC, private="x", id="n")
    assert not verdict.findings
    assert verdict.exit_code == 3


def test_two_roots_are_claimed_only_where_they_are_numbers() -> None:
    two = pa.table({"n": ["A", "B"], "x": pa.array([Decimal("0.1"), Decimal("2.3")], pa.decimal128(9, 1))})
    verdict = judged("SELECT SUM(x), SUM(x*x) FROM t", data=two, private="x", id="n")
    assert {f.who: f.allowed for f in verdict} == dict.fromkeys("AB", (Decimal("0.1"), Decimal("2.3")))
    assert judged(
        ("SELECT SUM(x) FROM t", 0), ("SELECT SUM(x*x) FROM t", 4), private="x", id="n", data=two
    ).contradictions


# float dust is no equation


@pytest.mark.parametrize("again", [6.199999999999999, 6.2, 6.200000000000001])
def test_the_same_average_printed_twice_is_no_second_equation(again: float) -> None:
    people = pa.table({"n": list("ABCDE"), "x": [2.0, 5.5, 6.5, 7.0, 10.0]})
    roster = people.drop_columns(["x"])
    log = [
        ("SELECT AVG(x) FROM t WHERE x > 1", 6.2),
        ("SELECT AVG(x) FROM t WHERE x > 1", again),
        ("SELECT COUNT(*) FROM t WHERE x >= 5", 4),
    ]
    for data in (people, roster):
        verdict = judged(*log, data=data, private="x", id="n")
        assert not verdict.findings
        assert verdict.exit_code == 3
        assert not verdict.contradictions
        assert {u.number for u in verdict.unjudged} == ({"1"} if again == 6.2 else {"1", "2"})
        # at hand, the sum and the count it is computed from would give somebody away; they were not shown
        reason = "less is not known" if data is people else "quotient"
        assert all(reason in u.reason for u in verdict.unjudged)


def test_a_quotient_that_can_be_one_fraction_alone_is_an_equation() -> None:
    people = pa.table({"n": ["A", "B", "C"], "x": [1, 2, 9]})
    log = [("SELECT AVG(x) FROM t WHERE x > 1", 5.5), ("SELECT COUNT(*) FROM t WHERE x > 1", 2)]
    assert not judged(*log, data=people, private="x", id="n").unjudged
    assert not judged(*log, data=people, private="x", id="n").contradictions


# exact values and their statuses


@pytest.mark.parametrize(
    "x",
    [
        pa.array([HUGE, HUGE - 1, 7], pa.uint64()),
        pa.array([Decimal(10**37), Decimal(10**37 + 1), Decimal(-5)], pa.decimal128(38, 0)),
        pa.array([Decimal("12345678901234567890.12345678"), Decimal("0.00000001"), Decimal(3)], pa.decimal128(38, 8)),
    ],
    ids=["UBIGINT", "DECIMAL(38,0)", "DECIMAL(38,8)"],
)
def test_integers_and_decimals_of_any_size_are_exact(x: Any) -> None:
    people = pa.table({"n": ["A", "B", "C"], "x": x})
    verdict = judged("SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE n <> 'A'", data=people, private="x", id="n")
    assert values(verdict) == {"A": Decimal(x[0].as_py())}
    read = json.loads(verdict.dumps(), parse_float=Decimal, parse_int=Decimal)
    assert read["exposed"][0]["value"] == Decimal(x[0].as_py())
    assert read["intervals"][0]["lo"] == read["intervals"][0]["hi"] == Decimal(x[0].as_py())


def test_huge_integers_and_long_decimals_of_a_text_file(tmp_path: Path) -> None:
    big = f"n,x,y\nA,{HUGE},0.1234567890123456789\nB,10000000000000000001,2\nC,1,3.5\n"
    (tmp_path / "t.csv").write_text(big)
    for column, value in (("x", Decimal(HUGE)), ("y", Decimal("0.1234567890123456789"))):
        log = [f"SELECT SUM({column}) FROM t", f"SELECT SUM({column}) FROM t WHERE n <> 'A'"]
        assert values(judged(*log, data=tmp_path / "t.csv", private=column, id="n")) == {"A": value}
    (tmp_path / "keyhole.toml").write_text('[columns]\nid = ["n"]\n[columns.private.x]\nkind = "integer"\n')
    found = keyhole.audit(
        ["SELECT SUM(x) FROM t WHERE n = 'A'"], data=tmp_path / "t.csv", config=tmp_path / "keyhole.toml"
    )
    assert values(found) == {"A": Decimal(HUGE)}


def test_a_large_integer_stands_in_json_with_all_digits() -> None:
    people = pa.table({"n": ["A", "B"], "x": [10000000000000001, 2]})
    text = judged("SELECT SUM(x) FROM t WHERE n = 'A'", data=people, private="x", id="n").dumps()
    assert '"value": 10000000000000001' in text


@pytest.mark.parametrize("printed", [False, True])
def test_a_value_lost_in_the_dust_of_doubles_is_a_range(printed: bool) -> None:
    people = pa.table({"n": ["A", "B", "C"], "x": [1e16, -1e16, 5.25]})
    log: list[Any] = ["SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE n <> 'C'"]
    if printed:
        log = list(zip(log, (5.25, 0), strict=True))
    verdict = judged(*log, data=people, private="x", id="n")
    (found,) = verdict.findings
    assert (found.who, found.status, found.value) == ("C", Status.INFERRED, None)
    assert found.lo is not None
    assert found.hi is not None
    assert found.lo < Decimal("5.25") < found.hi
    assert "= 5" not in verdict.text()
    assert verdict.exit_code == 1


def test_a_total_lost_in_the_dust_is_not_printed() -> None:
    people = pa.table({"n": list("ABCD"), "x": [1e16, -1e16, 5.25, 1.125]})
    log = ["SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE n IN ('A', 'B')"]
    verdict = keyhole.audit(log, data=people, private="x", id="n", group_size=2)
    assert {g.rows: g.total for g in verdict.groups}[2, 3] is None
    assert "= 6" not in verdict.text()


def test_a_value_with_a_little_dust_is_exposed() -> None:
    people = pa.table({"n": ["A", "B", "C"], "x": [0.1234567890123, 7e9, 5.25]})
    verdict = judged("SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE n <> 'C'", data=people, private="x", id="n")
    (found,) = verdict.findings
    assert found.status is Status.EXPOSED
    assert found.value is not None
    assert abs(Decimal(found.value) - Decimal("5.25")) < Decimal("0.05")  # type: ignore[arg-type]


def test_a_weight_that_is_a_double_blurs_a_printed_sum() -> None:
    people = pa.table({"n": list("ABC"), "w": [0.1, 0.2, 0.3], "x": [1, 1, 1]})
    log = [
        ("SELECT SUM(x * w) FROM t", 0.6000000000000001),
        ("SELECT SUM(x * w) FROM t WHERE n <> 'C'", 0.30000000000000004),
    ]
    verdict = judged(*log, data=people, private="x:real", id="n")
    assert not verdict.contradictions
    assert values(verdict) == {"C": 1}


def test_equality_with_a_printed_average_is_as_blurred_as_the_average() -> None:
    people = pa.table({"n": list("ABC"), "x": [1.1, 2.2, 3.3]})
    verdict = judged(
        ("SELECT AVG(x) = 2.2 FROM t", True), ("SELECT SUM(x) FROM t", 6.6), data=people, private="x", id="n"
    )
    assert not verdict.contradictions


def test_a_rounded_sum_of_huge_numbers_is_judged_and_stops_nothing() -> None:
    people = pa.table({"n": ["A", "B"], "x": pa.array([Decimal(10**36), Decimal(7)], pa.decimal128(38, 0))})
    verdict = judged("SELECT ROUND(SUM(x), 2), SUM(x) FROM t", data=people, private="x", id="n")
    assert not verdict.unjudged
    assert not verdict.contradictions
    assert not verdict.findings


# one value of the column's kind and step left is exposed


@pytest.mark.parametrize(
    ("where", "private"),
    [
        ("pay > 50 AND pay < 52", "pay"),
        ("pay BETWEEN 50.5 AND 51.5", "pay"),
        ("pay > 45 AND pay < 60", "pay:1..91:10"),
        ("pay < 52", "pay:51..100"),
    ],
)
def test_one_value_left_is_exposed(where: str, private: str) -> None:
    verdict = judged(f"SELECT COUNT(*) FROM t WHERE {where} AND name = 'Ann'", data=D.slice(0, 1), private=private)
    assert values(verdict) == {"Ann": 51}


def test_one_day_left_is_exposed_and_decimals_are_not_whole() -> None:
    born = pd.to_datetime(["2026-01-02", "2026-03-01"]).date
    days = pa.table({"n": ["A", "B"], "born": pa.array(born, pa.date32())})
    where = "born > DATE '2026-01-01' AND born < DATE '2026-01-03' AND n = 'A'"
    assert (
        str(values(judged(f"SELECT COUNT(*) FROM t WHERE {where}", data=days, private="born", id="n"))["A"])
        == "2026-01-02"
    )
    pay = D.set_column(4, "pay", pa.array([51, 64, 70, 80], pa.decimal128(9, 1)))
    verdict = judged("SELECT COUNT(*) FROM t WHERE pay > 50 AND pay < 52 AND name = 'Ann'", data=pay)
    assert [(f.status, f.lo, f.hi) for f in verdict if not f.assumed] == [(Status.INFERRED, 50, 52)]
    assert [(f.status, f.value) for f in verdict if f.assumed] == [(Status.EXPOSED, 51)]  # all are whole there


# nanoseconds and names


def test_people_who_differ_by_nanoseconds_are_kept_apart() -> None:
    frame = pd.DataFrame({"n": list("ABC"), "ts": np.array([1, 2, 2], dtype="datetime64[ns]"), "x": [1, 2, 3]})
    assert values(judged("SELECT ts, SUM(x) FROM t GROUP BY ts", data=frame, private="x", id="n")) == {"A": 1}
    asked = judged("SELECT SUM(x) FROM t WHERE ts > '1970-01-01 00:00:00.000000001'", data=frame, private="x", id="n")
    assert asked.exit_code == 3
    whole = frame.assign(ts=np.array([1000, 2000, 2000], dtype="datetime64[ns]"))
    assert values(judged("SELECT ts, SUM(x) FROM t GROUP BY ts", data=whole, private="x", id="n")) == {"A": 1}


def test_private_times_are_told_apart_by_zone_and_nanosecond() -> None:
    fine = pd.DataFrame({"n": list("ABC"), "ts": np.array([1, 2, 2], dtype="datetime64[ns]")})
    verdict = judged("SELECT ts, COUNT(*) FROM t WHERE n = 'A' GROUP BY ts", data=fine, private="ts", id="n")
    assert values(verdict) == {"A": "1970-01-01 00:00:00.000000001"}
    zoned = pa.table({"n": list("ABC"), "ts": pa.array([1, 2, 2], pa.timestamp("us", tz="Europe/Berlin"))})
    verdict = judged("SELECT ts, COUNT(*) FROM t WHERE n = 'A' GROUP BY ts", data=zoned, private="ts", id="n")
    assert str(values(verdict)["A"]) == "1970-01-01 00:00:00.000001"
    public = zoned.append_column("x", pa.array([1, 2, 3]))
    assert values(judged("SELECT ts, SUM(x) FROM t GROUP BY ts", data=public, private="x", id="n")) == {"A": 1}


def test_names_are_matched_as_the_engine_does() -> None:
    import duckdb

    con = duckdb.connect()
    con.execute('CREATE TABLE t ("straße" INT, "Ähre" INT, "İx" INT, "Pay" INT)')
    held = ["straße", "Ähre", "İx", "Pay"]
    for name in ["strasse", "STRASSE", "STRAßE", "ähre", "ÄHRE", "ix", "İX", "i̇x", "PAY", "pay", "ＰＡＹ"]:
        try:
            con.execute(f'SELECT "{name}" FROM t')
            known = True
        except duckdb.BinderException:
            known = False
        assert known == any(fold_name(name) == fold_name(each) for each in held), name
    street = pa.table({"n": ["A", "B"], "straße": [1, 2], "x": [3, 4]})
    assert judged("SELECT SUM(x) FROM t WHERE strasse = 1", data=street, private="x", id="n").refused
    assert values(judged('SELECT SUM(x) FROM t WHERE "STRAßE" = 1', data=street, private="x", id="n")) == {"A": 3}


# exit 0 means complete

ILL = pa.table({"n": ["A", "B", "C", "D"], "age": [30, 41, 52, 38], "ill": ["flu", "cold", "flu", "cold"]})


@pytest.mark.parametrize(
    ("log", "private", "code"),
    [
        (["SELECT SUM(age) FROM t WHERE ill = 'flu'"], "ill", 1),
        (["SELECT COUNT(*) FROM t WHERE ill = 'flu'"], "ill", 0),
        (["SELECT SUM(age) FROM t"], "age", 0),
        (["SELECT SUM(age), AVG(age) FROM t"], "age", 0),
        (["SELECT SUM(age) FROM t"], "age:0..120", 0),
        (["SELECT SUM(age) FROM t"], "age:..:1", 0),  # two people exchanged
        (["SELECT SUM(age*age) FROM t"], "age", 0),  # two people exchanged
        (["SELECT SUM(age*age) FROM t WHERE n <> 'A'", "SELECT SUM(age*age) FROM t WHERE n <> 'B'"], "age", 1),
        (["SELECT AVG(age), VAR_POP(age) FROM t"], "age", 3),
        (["SELECT AVG(age) FROM t WHERE age > 20"], "age", 3),
        (["SELECT COUNT(*) FROM t"], "age:0..120", 0),
        (["SET x = 1"], "age", 3),
        (["SELECT MAX(age) FROM t"], "age", 0),
        (["SELECT MAX(age), SUM(age) FROM t"], "age", 0),
        (["SELECT SUM(age) FROM t WHERE n = 'A'"], "age", 1),
    ],
)
def test_exit_0_means_complete(log: list[str], private: str, code: int) -> None:
    verdict = judged(*log, data=ILL, private=private, id="n")
    assert verdict.exit_code == code
    assert verdict.to_json()["complete"] is verdict.complete is (verdict.exposure.doubt == 0)
    known = Baseline.of(verdict.document())
    assert known.exit_code(verdict.plain) == (0 if verdict.complete else 3)
    if code == 3:
        assert "not an all-clear" in verdict.text()
        assert "not complete" in verdict.promise or "nothing was judged" in verdict.promise


def test_the_command_agrees_with_its_json(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("n,g,x\nA,1,4\nB,1,5\nC,2,6\n")
    for sql in ("SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE x > 1", "SELECT SUM(x*x) FROM t"):
        for private in ("x", "x:0..9"):
            call = ["audit", "-", "--data", str(tmp_path / "t.csv"), "--id", "n", "--private", private]
            done = CliRunner().invoke(app, [*call, "--format", "json"], input=sql)
            found = json.loads(done.stdout)
            nobody = all(i["status"] == "open" for i in found["intervals"])
            assert (done.exit_code == 0) == (nobody and found["complete"])


def test_a_floating_sum_that_cancels_is_no_contradiction() -> None:
    """-2.5 + 3.33... less a count is next to 0; the dust is that of what was added up, not of what is left."""
    people = pa.table({"n": ["Ann", "Bob", "Dan"], "w": [-2, 3, -2], "x": [5, 10, None], "y": [None, None, 13]})
    asked = "SELECT SUM(x / NULLIF(w, 0)) - COUNT((y + w) * 0.5) FROM t"
    for answer in ("-0.16666666666666652", "-0.16666666666666674"):
        found = keyhole.audit([(asked, Decimal(answer))], data=people, private=["x", "y"], id="n")
        assert not found.contradictions
    assert keyhole.audit([(asked, Decimal("-0.166"))], data=people, private=["x", "y"], id="n").contradictions


def test_a_square_that_exposes_somebody_is_not_taken_off_a_total() -> None:
    """20 - 9 was called the total of the other three, where 9 is the square of the one who is exposed."""
    people = pa.table({"n": ["r0", "r1", "r2", "r3", "r4"], "a": [3, 1, 1, 2, 0], "x": [3, 5, 5, 2, 7]})
    log = ["SELECT SUM(x) FROM t WHERE a <> 2", "SELECT SUM(x * x) FROM t WHERE a > 2"]
    found = keyhole.audit(log, data=people, private="x:0..10", id="n", group_size=3)
    assert ({f.who: f.value for f in found.exposed}, found.groups) == ({"r0": 3}, ())
    plain = keyhole.audit([log[0], "SELECT SUM(x) FROM t WHERE a > 2"], data=people, private="x", id="n", group_size=3)
    assert [(g.rows, g.total) for g in plain.groups] == [((1, 2, 4), 17)]


def test_of_two_values_as_frequent_mode_tells_whose_came_first() -> None:
    """Read as a function of how many people have each value, it could be an all-clear: r0 has 3 and r1 has 7."""
    first = [duckdb.sql(f"SELECT MODE(x) FROM (VALUES ({a}), ({10 - a})) v(x)").fetchall() for a in (3, 7)]
    assert first == [[(3,)], [(7,)]]
    people = pa.table({"n": ["r0", "r1"], "x": [3, 7]})
    found = keyhole.audit(["SELECT SUM(x) FROM t", "SELECT MODE(x) FROM t"], data=people, private="x:3..7:4", id="n")
    assert (found.exit_code, [u.number for u in (*found.unjudged, *found.refused)]) == (3, ["2"])


def test_a_quotient_by_a_public_column_is_no_decimal_that_was_cut_off() -> None:
    """x / 3 weighed 0.3333333333333333, so that Q2 - Q1 / 6 = -Ann / 2 did not hold, and the log was an all-clear."""
    people = pa.table({"n": ["Ann", "Bob", "Cyd", "Dan", "Eve"], "w": [-2, 0, -2, 3, 0], "x": [23, 14, 34, 59, 27]})
    log = [
        "SELECT SUM(CASE n WHEN 'Cyd' THEN -3 * x WHEN 'Dan' THEN 2 * x END) FROM t",
        "SELECT SUM(x / NULLIF(w, 0)) FROM t",
    ]
    assert [(f.who, f.value) for f in keyhole.audit(log, data=people, private="x", id="n").exposed] == [("Ann", 23)]


@pytest.mark.parametrize("weight", ["w * v", "SQRT(w) * v"])
def test_rounded_weights_are_no_all_clear(weight: str) -> None:
    """0.1 * 3 is 0.30000000000000004, so that three times the other sum did not cancel, and Ann was called open."""
    people = pa.table({"n": ["Ann", "Bob", "Cyd"], "w": [0.1, 0.2, 0.7], "v": [3, 3, 3], "x": [23, 14, 9]})
    log = [f"SELECT SUM(x * ({weight})) FROM t", f"SELECT SUM(x * ({weight} / v)) FROM t WHERE n <> 'Ann'"]
    assert keyhole.audit(log, data=people, private="x", id="n").exit_code in (1, 3)
    short = keyhole.audit(["SELECT SUM(x * w) FROM t"], data=people, private="x:real", id="n")
    assert short.exit_code == 0
