"""People with several rows: which rows count, what one person can move, what it costs; COUNT(DISTINCT ...)."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keyhole
from keyhole.basis.cells.numbers import Cuts
from keyhole.book import Book
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.datasets.open import Use, open_table
from keyhole.defence.answering import PrivateAnswer
from keyhole.defence.budget.budget import Cap
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss
from keyhole.defence.planner.columns import Partitions
from keyhole.defence.planner.purchases import Order
from keyhole.defence.tables.margins import SourceMargins
from keyhole.defence.tables.noisy_tables import COUNT, Dose, price
from keyhole.errors import KeyholeError

TOLD = """
[budget]
epsilon = 1
delta = 1e-6
{budget}
[columns]
id = ["who"]
[columns.public.ward]
values = ["a", "b", "c"]
missing = "a"
[columns.private.days]
min = 0
max = 4
missing = 0
"""
Visit = tuple[str, str, int]


def table(visits: list[Visit]) -> pa.Table:
    whos, wards, days = zip(*visits, strict=True) if visits else ((), (), ())
    kinds = pa.schema([("who", pa.string()), ("ward", pa.string()), ("days", pa.int64())])
    return pa.table({"who": list(whos), "ward": list(wards), "days": list(days)}, schema=kinds)


def margins(visits: list[Visit], rows: int) -> tuple[SourceMargins, Partitions]:
    given = settings(Config.parse(TOLD.format(budget=f"rows_per_person = {rows}")), data=table(visits), table="visits")
    source = open_table(given, Use.ANSWER).whole
    source.limit_rows_per_person(["who"], rows, b"key")
    columns = Partitions.declared(given.columns, source.schema)
    numbers = {k: c for k, c in columns.columns.items() if isinstance(c, Cuts)}
    return SourceMargins(source, numbers, "add-remove"), columns


def counted(visits: list[Visit], rows: int) -> tuple[np.ndarray, np.ndarray, int, int]:  # type: ignore[type-arg]
    made, columns = margins(visits, rows)
    days = columns.quantity("days")
    ward = columns.of("ward")
    count, total = made.tables([ward], [COUNT, days])
    everybody = np.ones(3, dtype=bool)
    people = made.distinct(columns.distinct_code("who"), [ward], everybody)
    wards = made.distinct(columns.distinct_code("ward"), [ward], everybody)
    return count, total, people, wards


@pytest.mark.parametrize("rows", [1, 2])
def test_one_person_moves_what_the_price_says_at_most(rows: int) -> None:
    """Brute force: everybody's rows drawn from all, one person taken out or put in another's place."""
    rng = np.random.default_rng(rows)
    kinds = [(ward, day) for ward in "abc" for day in (0, 4)]
    for _ in range(3):
        world = {who: [kinds[k] for k in rng.integers(0, 6, rng.integers(1, 5))] for who in "xyz"}
        other = world | {"x": [kinds[k] for k in rng.integers(0, 6, rng.integers(1, 5))]}
        without = {who: seen for who, seen in world.items() if who != "x"}
        found = [
            counted([(who, *row) for who, seen in w.items() for row in seen], rows) for w in (world, other, without)
        ]
        doses = [Dose(COUNT, Fraction(4)), Dose(margins([], rows)[1].quantity("days"), Fraction(7))]
        for neighbours, pair in (("replace-one", found[:2]), ("add-remove", found[::2])):
            for law, unit in (("gaussian", "rho"), ("laplace", "epsilon")):
                cap = Cap(Loss(unit, Fraction(9**9), Fraction(0), neighbours))  # type: ignore[arg-type]
                with Book.rehearsal(None, "t") as book:
                    ledger = Ledger(book, cap, rows=rows)
                paid = ledger.per_person(price(doses, law, "table", neighbours)).amount  # type: ignore[arg-type]
                moved = Fraction(0)
                for at, dose in enumerate(doses):
                    off = [int(v) for v in pair[0][at] - pair[1][at]]
                    moved += sum(Fraction(v * v, 2) / dose.noise if unit == "rho" else abs(v) / dose.noise for v in off)
                assert moved <= paid
            assert abs(pair[0][2] - pair[1][2]) <= 1  # people
            assert abs(pair[0][3] - pair[1][3]) <= rows  # different wards


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(("law", "unit"), [("gaussian", "rho"), ("laplace", "epsilon")])
@pytest.mark.parametrize("summed", [False, True])
def test_a_table_of_everybody_costs_exactly_what_one_person_can_move(
    rows: int, law: Any, unit: Any, summed: bool
) -> None:
    """All pairs of what a person may have, none to `rows` rows: the dearest pair is the price, no more and no less."""
    days = margins([], rows)[1].quantity("days")
    doses = [Dose(COUNT, Fraction(4)), *([Dose(days, Fraction(7))] if summed else [])]
    person = [
        (m, sum(units))
        for m in range(rows + 1)
        for units in itertools.combinations_with_replacement(range(-days.reach, days.reach + 1), m)
    ]
    for neighbours in ("replace-one", "add-remove"):
        dearest = Fraction(0)
        for one, other in itertools.product(person, person if neighbours == "replace-one" else [(0, 0)]):
            off = [a - b for a, b in zip(one, other, strict=True)]
            moved = [Fraction(v * v, 2) if unit == "rho" else Fraction(abs(v)) for v in off]
            dearest = max(dearest, sum((v / d.noise for v, d in zip(moved, doses, strict=False)), Fraction(0)))
        cap = Cap(Loss(unit, Fraction(9**9), Fraction(0), neighbours))  # type: ignore[arg-type]
        with Book.rehearsal(None, "t") as book:
            ledger = Ledger(book, cap, rows=rows)
        assert Order((), tuple(doses), law).cost(ledger, neighbours).amount == dearest  # type: ignore[arg-type]


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_the_number_of_rows_costs_its_share_and_answers_whoever_asks_for_everybody(
    tmp_path: Path, neighbours: str
) -> None:
    budget = f'rows_per_person = 3\nneighbours = "{neighbours}"'
    (total,) = asked(["SELECT COUNT(*) FROM visits"], tmp_path, budget, many(), horizon=20)
    (share, told) = (total.cost, total.groups[0][1][0])
    assert share == pytest.approx((total.cost + total.left) / 20, rel=1e-4)
    for where in ("ward = 'a' OR ward <> 'a' OR ward IS NULL", "days >= 0 OR days IS NULL"):
        sql = f"SELECT COUNT(*) FROM visits WHERE {where}"
        (again,) = asked([sql], tmp_path, budget, many(), horizon=20)
        assert (again.refused, again.cost, again.groups[0][1][0]) == (None, 0, told)


def test_which_rows_count_follows_from_the_persons_own_rows() -> None:
    """The order of the file, other people and equal rows of others change nothing."""
    mine = [("x", "a", 1), ("x", "b", 2), ("x", "c", 3), ("x", "c", 3)]
    others = [("y", "a", 1), ("y", "b", 2), ("z", "c", 0)]
    alone = counted(mine, 2)[0]
    rest = counted(others, 2)[0]
    for order in itertools.islice(itertools.permutations(mine + others), 0, 5000, 700):
        assert (counted(list(order), 2)[0] - rest == alone).all()
    assert alone.sum() == 2


def asked(statements: list[str], folder: Path, budget: str, data: pa.Table, **options: object) -> list[PrivateAnswer]:
    told = Config.parse(TOLD.format(budget=budget))
    found = keyhole.ask(statements, data=data, config=told, book=folder / "b.keyhole", table="visits", **options)
    return list(found.answers)


def many() -> pa.Table:
    rng = np.random.default_rng(0)
    return table([(f"p{k % 400}", "abc"[rng.integers(3)], int(rng.integers(5))) for k in range(1600)])


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_repeated_ids_are_answered_within_their_bars(tmp_path: Path, neighbours: str) -> None:
    budget = f'rows_per_person = 3\nneighbours = "{neighbours}"'
    sql = ["SELECT COUNT(DISTINCT who) FROM visits", "SELECT COUNT(*) FROM visits",
           "SELECT ward, AVG(days) FROM visits GROUP BY ward", "SELECT COUNT(DISTINCT ward) FROM visits"]  # fmt: skip
    people, rows, averages, wards = asked(sql, tmp_path, budget, many(), spend=1, beta=1e-6, anyway=True)
    for one, true in ((people, 400), (rows, 1200), (wards, 3)):
        estimate = one.groups[0][1][0]
        assert estimate.value is not None, one
        assert abs(estimate.value - true) <= (estimate.bar or 0)
        assert (estimate.bar or 0) > 0  # nothing of it is public
    assert "at most 3 rows" in averages.notes[0]
    assert (people.groups[0][1][0].bar or 0) < (wards.groups[0][1][0].bar or 0)  # people cost a person once


def test_without_a_bound_a_repeated_id_is_a_fault_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KeyholeError, match="rows_per_person"):
        asked(["SELECT COUNT(*) FROM visits"], tmp_path, "", many())
    with pytest.raises(KeyholeError, match="rows_per_person"):
        asked(["SELECT COUNT(*) FROM visits"], tmp_path, "rows_per_person = 0", many())


def test_people_are_rows_where_ids_are_not_repeated(tmp_path: Path) -> None:
    data = table([(f"p{k}", "abc"[k % 3], k % 5) for k in range(300)])
    (everybody,) = asked(["SELECT COUNT(DISTINCT who) FROM visits"], tmp_path, "", data)
    assert everybody.groups[0][1][0].value == 300
    assert everybody.cost == 0
    (some,) = asked(["SELECT COUNT(DISTINCT who) FROM visits WHERE ward = 'a'"], tmp_path, "", data, horizon=2)
    assert some.refused is None
    (together,) = asked(["SELECT ward, COUNT(DISTINCT days) FROM visits GROUP BY ward"], tmp_path, "", data)
    assert "by itself" in str(together.refused)


def test_who_has_repeated_ids_is_told_what_private_answers_need() -> None:
    given = settings(
        Config.parse(TOLD.format(budget="")), data=table([("Ann", "a", 1), ("Ann", "b", 2)]), table="visits"
    )
    with pytest.raises(KeyholeError, match=r"rows_per_person = K with a delta under \[budget\]"):
        open_table(given, Use.ANSWER)
