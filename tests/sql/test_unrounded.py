"""Comparisons of rounded numbers against the engine: each as the comparison of the number itself that it stands for."""

from __future__ import annotations

import random
from fractions import Fraction

import duckdb
import pytest

from keyhole.model.meaning import compare_numbers
from keyhole.model.query import CEIL, FINER, FLOOR, HALF, ZERO, Query, list_questions
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql import Dialect, read_statement
from keyhole.sql.lowering.aggregate import unround_threshold

HOW = {"FLOOR({})": FLOOR, "CEIL({})": CEIL, "TRUNC({})": ZERO, "ROUND({}, {})": HALF}
CASTS = ("HUGEINT", "DECIMAL(20, 3)", "DOUBLE")


def values(kind: str) -> list[str]:
    """Numbers at and beside the places where rounding turns."""
    if kind == "HUGEINT":
        return [str(i) for i in (*range(-31, 32), 145, 155, -145)]
    return [f"{i / 8:.3f}" for i in range(-36, 37)] + ["5.2", "14.999", "15", "25", "-25", "0.125"]


@pytest.mark.parametrize("kind", CASTS)
@pytest.mark.parametrize("op", [">", ">=", "<", "<="])
def test_the_engine_compares_the_number_itself_like_that(kind: str, op: str) -> None:
    con = duckdb.connect()
    rng, checked = random.Random(len(kind) + len(op)), 0
    for text, how in HOW.items():
        for digits in (0,) if how != HALF else (0, -1) if kind == "DOUBLE" else (0, 1, 2, -1):
            unit = Fraction(1) / Fraction(10) ** digits
            for cut in rng.sample(["-3", "-2.5", "-0.5", "0", "0.2", "0.5", "1", "2.75", "3", "5.2", "20", "-20"], 6):
                shown = text.format("v", digits)
                rows = con.execute(
                    f"SELECT v::VARCHAR, ({shown}) {op} {cut} "
                    f"FROM (SELECT unnest({values(kind)})::DECIMAL(20,3)::{kind} AS v)"
                ).fetchall()
                meant, at = unround_threshold(op, Fraction(cut), how, unit)
                for number, told in rows:
                    assert compare_numbers(Fraction(number), meant, at) is told, (shown, op, cut, number)
                    checked += 1
    assert checked > 1000


def test_a_half_of_a_cast_between_decimals_goes_away_from_zero() -> None:
    con = duckdb.connect()
    for number in ("2.5", "3.5", "-2.5", "-3.5", "2.49", "-0.5", "0.5"):
        meant, at = unround_threshold(">=", Fraction(3), HALF, Fraction(1))
        (told,) = con.execute(f"SELECT {number}::DECIMAL(20,2)::DECIMAL(18,0) >= 3").fetchone() or ()
        assert compare_numbers(Fraction(number), meant, at) is told, number


def asked(sql: str, kind: Kind = Kind.DOUBLE) -> list[Query]:
    """What a statement compares."""
    columns = (Column("name", Kind.TEXT, Role.ID), Column("x", kind, Role.PRIVATE), Column("k", Kind.TEXT))
    own = [s for s in read_statement(sql, Dialect.DUCKDB, Schema("t", columns)) if s.certainty != FINER]
    return [q for s in own for q in (*s.queries, *(q for test in s.having for q in list_questions(test)))]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("FLOOR(SUM(x)) > 5.2", (">=", "6")),
        ("ROUND(AVG(x)) > 2.75", (">=", "2.5")),
        ("2.75 >= ROUND(AVG(x))", ("<", "2.5")),
        ("CEIL(SUM(x)) <= -1.5", ("<=", "-2")),
        ("TRUNC(SUM(x)) >= 0", (">", "-1")),
        ("ROUND(AVG(x), 2) > 10", (">=", "10.005")),
        ("ROUND(MEDIAN(x), 0) > 2.75", (">=", "2.5")),
        ("ROUND(COUNT(*), -1) >= 20", (">=", "15")),
    ],
)
def test_no_rounding_is_left_beside_a_comparison(item: str, said: tuple[str, str]) -> None:
    (query,) = asked(f"SELECT {item} FROM t")
    assert query.test is not None
    assert (query.digits, query.test.op, str(query.test.value)) == (None, *said)


def test_equality_of_a_rounded_number_is_a_range_in_having() -> None:
    for op, meant in (("=", [(">=", "2.5"), ("<", "3.5")]), ("<>", [("<", "2.5"), (">=", "3.5")])):
        found = asked(f"SELECT k, COUNT(*) FROM t GROUP BY k HAVING ROUND(SUM(x)) {op} 3")[1:]
        assert [(q.test.op, str(q.test.value)) for q in found if q.test is not None] == meant


@pytest.mark.parametrize(
    "item",
    [
        "ROUND(SUM(x)) = 3",
        "FLOOR(SUM(x)) <> 3",
        "CAST(SUM(x) AS DECIMAL(20, 1)) > 3",
        "ROUND(MIN(x), 1) > 3",
        "ROUND(MEDIAN(x), 1) > 3",
        "ROUND(SUM(x), 20) > 3",
        "FLOOR(SUM(x)) > 9007199254740993",
        "ROUND(MAX(x)) > 16777217",
    ],
)
def test_what_is_not_sure_is_refused(item: str) -> None:
    assert asked(f"SELECT {item} FROM t") == []  # the number itself is judged in its place, for the all-clear


def test_decimals_are_cast_and_rounded_with_all_their_digits() -> None:
    for item in ("CAST(SUM(x) AS DECIMAL(20, 1)) > 3", "ROUND(MIN(x), 1) > 3"):
        (query,) = asked(f"SELECT {item} FROM t", Kind.DECIMAL)
        assert query.test is not None
        assert (query.test.op, str(query.test.value)) == (">=", "3.05")
