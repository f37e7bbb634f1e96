"""Rows from statistics: known answers, bad input, and a twin that enumerates every table."""

from __future__ import annotations

import random
import statistics as plain
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path

import pytest
from tests.support.third_party import folder

from keyhole.attacks.microdata.reconstruct import RebuiltStatus, from_statistics, reconstruct
from keyhole.attacks.microdata.statistics import (
    Attribute,
    Figure,
    GroupFigures,
    Statistics,
    load_statistics,
    parse_statistics,
)
from keyhole.errors import ContradictionError, KeyholeError

HERE = Path(__file__).parent
BLOCK = HERE / "block.toml"
PEOPLE = {"8FBS", "18MWS", "24FWS", "30MWM", "36FBM", "66FBM", "84MBM"}


def test_the_block_of_garfinkel_abowd_and_martindale_is_unique() -> None:
    found = reconstruct(BLOCK)
    assert {f"{r['age']}{r['sex']}{r['race']}{r['marital']}" for r in found.rows} == PEOPLE
    assert (len(found.rows), found.unique, found.status, found.common) == (7, True, RebuiltStatus.PROVED, found.rows)


def test_statistics_that_contradict_are_named_and_none_can_be_left_out() -> None:
    given = load_statistics(BLOCK)
    wrong = GroupFigures("", (Figure("count", "", (Fraction(8), Fraction(8))),), "1A total")
    with pytest.raises(ContradictionError, match=r"no rows give these 3 statements \(none .*1A.*; 2A.*; 2B") as told:
        from_statistics(Statistics(given.columns, (wrong, *given.statistics[1:]), given.impossible))
    assert "3B" not in str(told.value)


def test_the_count_of_all_rows_is_named_where_it_is_needed() -> None:
    text = "[columns.a]\nvalues = ['x', 'y']\n[[statistics]]\ncount = 3\n"
    text += "[[statistics]]\nwhere = \"a = 'x'\"\ncount = 4\n"
    with pytest.raises(ContradictionError, match=r"all rows: count = 3; a = 'x': count = 4"):
        from_statistics(parse_statistics(text))


@pytest.mark.parametrize(("model", "cells", "people"), [("29183980000", 2, 1), ("29165030307", 22, 11)])
def test_census_tracts_are_unique(model: str, cells: int, people: int) -> None:
    found = reconstruct(folder("census") / f"model_{model}.lp.gz")
    assert (found.unique, found.cells, len(found.rows)) == (True, cells, people)


# --- the twin --------------------------------------------------------------------------------------------------------

AGES, SEXES = range(4), ("F", "M")
CELLS = list(product(AGES, SEXES))
Row = tuple[int, str]


def figure(kind: str, ages: list[int]) -> Fraction | None:
    """A figure of a group, by the standard library; None for a group that is empty."""
    if kind == "count":
        return Fraction(len(ages))
    if kind == "sum":
        return Fraction(sum(ages))
    if not ages:
        return None
    named = {"mean": plain.mean, "median": plain.median, "min": min, "max": max}
    return Fraction(named[kind]([Fraction(a) for a in ages]))


def ages_of(rows: list[Row], where: str) -> list[int]:
    return [age for age, sex in rows if eval(where or "True", {}, {"age": age, "sex": sex})]


CONDITIONS = {
    "": "",
    "sex = 'F'": "sex == 'F'",
    "age >= 2": "age >= 2",
    "sex = 'M' AND age < 3": "sex=='M' and age < 3",
}


def statistics_of(rng: random.Random, rows: list[Row]) -> list[GroupFigures]:
    found = [GroupFigures("", (Figure("count", "", (Fraction(len(rows)),) * 2),))]
    for where, told in CONDITIONS.items():
        for kind in ("count", "sum", "mean", "median", "min", "max"):
            value = figure(kind, ages_of(rows, told))
            if value is not None and rng.random() < 0.35:
                low, high = (Fraction(rng.choice((0, 0, 0, 1)), 2) for _ in range(2))
                column = "" if kind == "count" else "age"
                found.append(GroupFigures(where, (Figure(kind, column, (value - low, value + high)),)))
    if rng.random() < 0.3:  # something wrong
        found.append(GroupFigures("age >= 2", (Figure("count", "", (Fraction(rng.randint(0, 4)),) * 2),)))
    return found


def enumerated(n: int, given: list[GroupFigures]) -> list[Counter[Row]]:
    found = []
    for rows in combinations_with_replacement(CELLS, n):

        def holds(statistic: GroupFigures, rows: tuple[Row, ...] = rows) -> bool:
            (said,) = statistic.figures
            value = figure(said.kind, ages_of(list(rows), CONDITIONS[statistic.where]))
            lo, hi = said.ends
            return value is not None and (lo is None or lo <= value) and (hi is None or value <= hi)

        if all(map(holds, given)):
            found.append(Counter(rows))
    return found


def compare(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.randint(1, 4)
    given = statistics_of(rng, [rng.choice(CELLS) for _ in range(n)])
    columns = (Attribute("age", tuple(AGES)), Attribute("sex", SEXES))
    truth = enumerated(n, given)
    if not truth:
        with pytest.raises(ContradictionError):
            from_statistics(Statistics(columns, tuple(given)))
        return
    found = from_statistics(Statistics(columns, tuple(given)))
    rows = Counter((r["age"], r["sex"]) for r in found.rows)
    assert rows in truth, seed
    assert found.unique == (len(truth) == 1), seed
    common = truth[0]
    for each in truth:
        common &= each
    assert Counter((r["age"], r["sex"]) for r in found.common or ()) == common, seed


@pytest.mark.parametrize("seed", range(12))
def test_as_enumeration_of_all_tables_says(seed: int) -> None:
    compare(seed)


@pytest.mark.soak
def test_as_enumeration_of_all_tables_says_for_fresh_seeds() -> None:
    start = random.SystemRandom().randrange(10**9)
    for seed in range(start, start + 300):
        compare(seed)


# --- bad input -------------------------------------------------------------------------------------------------------

AGE = "[columns.age]\nmin = 0\nmax = 9\n"
ALL = "[[statistics]]\ncount = 3\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column is declared"),
        (AGE, "there is no \\[\\[statistics\\]\\]"),
        (AGE + "[[statistics]]\nmean = { age = 3.0 }\n", "nothing says how many rows there are"),
        (AGE + ALL + "[[statistics]]\nwhere = 'agee < 3'\ncount = 1\n", "agee"),
        (AGE + ALL + "mean = { pay = 3 }\n", "no declared column of numbers"),
        (AGE + "[[statistics]]\ncont = 3\n", "'cont' is not known"),
        (AGE + "[[statistics]]\ncount = [3, 1]\n", "is empty"),
        (AGE + "[[statistics]]\ncount = 'x'\n", "is no number"),
        ("[columns.age]\nmin = 0\n" + ALL, "no end of values"),
        ("[columns.age]\nmin = 0\nmax = 99999999\n" + ALL, "100000000 values are too many"),
        (AGE + "".join(f"[columns.x{k}]\nmin = 0\nmax = 99\n" for k in range(3)) + ALL, "10000000 cells .*narrow 'x0'"),
        (AGE + "[[statistics]]\ncount = 99999999\n", "rows are too many"),
        ("age = [", "is not valid TOML"),
    ],
)
def test_faults_are_said(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(text)
    with pytest.raises(KeyholeError, match=message):
        reconstruct(file)


def test_a_time_limit_claims_nothing() -> None:
    found = reconstruct(BLOCK, time_limit=1e-9)
    assert (found.status, found.unique, found.rows, found.common) == (RebuiltStatus.LIMIT, None, (), None)


def test_tables_of_counts_give_rows(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("sex,town,n\nf,A,x\nf,B,2\nm,A,1\nm,B,x\nf,Total,3\nm,Total,1\nTotal,A,2\nTotal,B,2\n")
    found = reconstruct(file, value="n", suppressed=["x=0..3"])
    counted = Counter((r["sex"], r["town"]) for r in found.rows)
    assert (found.unique, counted) == (True, Counter({("f", "B"): 2, ("f", "A"): 1, ("m", "A"): 1}))
    file.write_text("town,n\nA,3\nTotal,4\n")
    with pytest.raises(ContradictionError, match="do not add up: the grand total is 1 more"):
        reconstruct(file, value="n")
