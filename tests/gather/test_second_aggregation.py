"""A second aggregation over groups is linear in the records; the twin asks DuckDB for each coefficient."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from tests.laws.brute import rank

import keyhole
from keyhole.auditing import Status
from keyhole.checker.replay import replay
from keyhole.gather import whole_table
from keyhole.gather.answers import ULP
from keyhole.sql.rewriting.second_aggregation import SecondAggregation

CON = duckdb.connect()
INNER = ("SUM(pay)", "AVG(pay)", "COUNT(*)", "SUM(2 * pay + age)", "AVG(pay - age)")
WHERE = ("", "", "WHERE age > 30", "WHERE name <> 'p1'", "WHERE dept IN ('a', 'b')", "WHERE dept = 'c' OR age < 45")
OUTER = ("AVG(t)", "SUM(t)", "AVG(t), SUM(t), COUNT(*), COUNT(t)", "AVG(t), AVG(n)", "2 * AVG(t) - SUM(t)")


def made(rng: random.Random) -> pa.Table:
    n = rng.randint(4, 8)
    pay: list[Any] = [None if rng.random() < 0.15 else rng.randint(-50, 99) for _ in range(n)]
    return pa.table(
        {
            "name": [f"p{i}" for i in range(n)],
            "dept": [rng.choice("abc") for _ in range(n)],
            "region": [rng.choice("ns") for _ in range(n)],
            "age": [rng.randint(20, 60) for _ in range(n)],
            "pay": pa.array(pay, pa.int64() if rng.random() < 0.6 else pa.float64()),
        }
    )


def asked(rng: random.Random) -> str:
    by = rng.choice((["dept"], ["dept", "region"], ["name"], ["region", "age > 40"]))
    inner = (
        f"SELECT {by[0]}, {rng.choice(INNER)} AS t, COUNT(*) AS n FROM t {rng.choice(WHERE)} GROUP BY {', '.join(by)}"
    )
    keyed = rng.random() < 0.3
    head = f"SELECT {by[0] + ', ' if keyed else ''}{rng.choice(OUTER)}"
    tail = f"{rng.choice(('', f'WHERE {by[0]} > {chr(39)}a{chr(39)}'))} {f'GROUP BY {by[0]}' if keyed else ''}"
    return f"WITH g AS ({inner}) {head} FROM g {tail}" if rng.random() < 0.4 else f"{head} FROM ({inner}) AS g {tail}"


def rows_of(sql: str, table: pa.Table, pay: list[Any]) -> dict[Any, list[Any]]:
    t = table.set_column(table.column_names.index("pay"), "pay", pa.array(pay, table.schema.field("pay").type))
    CON.register("t", t)
    keyed = "GROUP BY" in sql.rsplit("g ", 1)[-1]
    found = CON.execute(sql).fetchall()
    return {row[0]: list(row[1:]) for row in found} if keyed else {(): list(found[0])}


def coefficients(sql: str, table: pa.Table) -> list[list[Fraction]]:
    """Each number that a statement shows, as a linear form of the private values."""
    there = [i for i, v in enumerate(table["pay"].to_pylist()) if v is not None]

    def ask(one: int | None) -> dict[Any, list[Any]]:
        return rows_of(sql, table, [None if i not in there else int(i == one) for i in range(table.num_rows)])

    base, units = ask(None), {i: ask(i) for i in there}
    found = []
    for key, values in base.items():
        for at, zero in enumerate(values):
            if zero is not None:
                each = [Fraction(units[i][key][at] - zero).limit_denominator(5000) for i in there]
                found.append(each)
    return found


def determined(rows: list[list[Fraction]], table: pa.Table) -> set[str]:
    there = [i for i, v in enumerate(table["pay"].to_pylist()) if v is not None]
    whole = rank(rows)
    unit = [[Fraction(int(a == b)) for b in range(len(there))] for a in range(len(there))]
    return {f"p{i}" for at, i in enumerate(there) if rows and rank([*rows, unit[at]]) == whole}


def exposed(verdict: keyhole.Verdict) -> dict[str, Any]:
    return {f.who: f.value for f in verdict.exposure.findings if f.status is Status.EXPOSED}


def audit(log: list[Any], table: pa.Table, **more: Any) -> keyhole.Verdict:
    return keyhole.audit(log, data=table, private=["pay"], id="name", **more)


@pytest.mark.parametrize("seed", range(6))
def test_exposure_is_the_row_space_of_what_the_engine_adds_up(seed: int) -> None:
    rng = random.Random(seed)
    table = made(rng)
    log = [asked(rng) for _ in range(rng.randint(1, 3))]
    verdict = audit(log, table)
    assert not verdict.refused
    assert not verdict.unjudged
    found = exposed(verdict)
    assert set(found) == determined([row for sql in log for row in coefficients(sql, table)], table)
    assert all(abs(float(value) - table["pay"][int(who[1:])].as_py()) < 1e-6 for who, value in found.items())


STAFF = pa.table(
    {
        "name": [f"p{i}" for i in range(8)],
        "dept": list("aabbccdd"),
        "region": list("nnnsssss"),
        "pay": pa.array([100, 250, 310, 420, None, 515, 77, 81], pa.int64()),
    }
)
GROUPS = "SELECT dept, {} AS t FROM t{} GROUP BY dept"


def test_a_sum_of_averages_less_one_group_is_that_group_and_the_checker_runs_the_text_itself(tmp_path: Path) -> None:
    averages = GROUPS.format("AVG(pay)", "")
    log = [f"WITH g AS ({averages}) SELECT AVG(t) FROM g", f"SELECT SUM(t) FROM ({averages}) AS g WHERE dept <> 'c'"]
    data = tmp_path / "t.csv"
    pa_csv.write_csv(STAFF, data)
    verdict = keyhole.audit(log, data=data, private=["pay"], id="name")
    assert exposed(verdict) == {"p5": 515}  # the only value in its group
    said = replay(verdict.dumps(), data)
    assert len(said.checked) == 1
    assert said.exit_code == 0


def test_what_is_not_linear_stands_beside_what_is() -> None:
    inner = "SELECT region, dept, SUM(pay) AS t FROM t GROUP BY 1, 2"
    sql = f"SELECT MAX(t), region, ROUND(AVG(t), 1) AS a FROM ({inner}) GROUP BY region"
    verdict = audit([sql, "SELECT SUM(pay) FROM t WHERE dept = 'a'"], STAFF)
    assert exposed(verdict) == {"p2": 310}  # region n has departments a and b, of which he is the one there
    assert [u.number for u in verdict.unjudged] == ["1"]  # for MAX


def test_records_of_one_person_are_added_up_over_people_who_have_a_value() -> None:
    visits = pa.table({"id": [1, 1, 2, 2, 3, 3, 4], "cost": pa.array([100, 50, 70, None, 20, 30, None], pa.int64())})
    sums = "SELECT AVG(t) FROM (SELECT id, SUM(cost) AS t FROM t{} GROUP BY 1)"
    verdict = keyhole.audit([sums.format(""), sums.format(" WHERE id <> 2")], data=visits, private=["cost"], id="id")
    assert [f.value for f in verdict.exposure.findings if f.status is Status.EXPOSED] == [70]


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT AVG(t) FROM ({GROUPS.format('SUM(pay)', '')} HAVING COUNT(*) > 1)",
        f"SELECT AVG(t) FROM ({GROUPS.format('SUM(pay)', '')} LIMIT 2)",
        f"SELECT AVG(t) FROM ({GROUPS.format('SUM(pay)', '')}) WHERE t > 80",
        f"SELECT AVG(t) FROM ({GROUPS.format('MAX(pay)', '')})",
        f"SELECT AVG(t) FROM ({GROUPS.format('SUM(pay)', ' WHERE pay > 80')})",
        f"SELECT STDDEV(t) FROM ({GROUPS.format('SUM(pay)', '')})",
        f"SELECT AVG(DISTINCT t) FROM ({GROUPS.format('SUM(pay)', '')})",
        "SELECT AVG(t) FROM (SELECT pay, SUM(pay) AS t FROM t GROUP BY pay)",
        "SELECT AVG(t) FROM (SELECT dept, AVG(pay) FILTER (WHERE region = 'n') AS t FROM t GROUP BY dept)",
    ],
)
def test_what_depends_on_private_values_otherwise_proves_nothing_of_anybody(sql: str) -> None:
    verdict = audit(
        [sql, "SELECT SUM(pay) FROM t WHERE name <> 'p5'", "SELECT SUM(pay) FROM t WHERE dept <> 'c'"], STAFF
    )
    assert not exposed(verdict)
    assert verdict.exit_code == 3


@pytest.mark.parametrize("cause", ["divisors", "columns", "the engine disagrees"])
def test_too_many_terms_or_another_answer_of_the_engine_leave_it_as_if_all_groups_were_shown(
    cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [f"SELECT AVG(t) FROM ({GROUPS.format('AVG(pay)', where)})" for where in ("", " WHERE dept = 'c'")]
    assert set(exposed(audit(log, STAFF))) == {"p5"}
    if cause == "divisors":
        monkeypatch.setattr(whole_table, "MAX_DIVISORS", 0)
    elif cause == "columns":
        monkeypatch.setattr(whole_table, "MAX_COLUMNS", 0)
    else:
        written = SecondAggregation.over_records
        monkeypatch.setattr(SecondAggregation, "over_records", lambda s, v: written(s, v).replace("/ 1", "/ 3"))
    verdict = audit(log, STAFF)
    assert not exposed(verdict)
    assert verdict.exit_code == 3


def test_a_printed_average_of_averages_lies_within_its_radius() -> None:
    rng = random.Random(5)
    n = 1500
    pay = [rng.randint(10**14, 10**15) for _ in range(n)]
    table = pa.table({"name": [f"p{i}" for i in range(n)], "dept": [i // 3 for i in range(n)], "pay": pay})
    sql = "SELECT SUM(t) FROM (SELECT dept, AVG(pay) AS t FROM t GROUP BY dept)"
    con = duckdb.connect(config={"threads": 1})  # else the order of addition, and the sum, differ from run to run
    con.register("t", table)
    (printed,) = con.execute(sql).fetchall()[0]
    truth = Fraction(sum(pay), 3)
    assert abs(Fraction(printed) - truth) > 2 * ULP * truth  # further than a quotient that is rounded once
    verdict = audit([{"sql": sql, "answer": printed}], table)
    assert not verdict.exposure.evidence.contradictions
    (said,) = verdict.exposure.evidence.systems[0].constraints
    assert said.lo is not None
    assert said.hi is not None
    assert said.lo <= truth * said.scale <= said.hi
