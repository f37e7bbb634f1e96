"""What is not sold or told without being asked to, what is said when nothing is left, and what a pilot answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.defend.test_planner import TOLD, answer, people

import keyhole
from keyhole.book import Book, Mark
from keyhole.defend.answering import Answered
from keyhole.knowledge import Config

WORTHLESS = 10**9  # questions expected: the share of one buys nothing


def with_epsilon(epsilon: str, statements: list[str], folder: Path, **options: object) -> list[Answered]:
    told = TOLD.replace("epsilon = 1\n", f"epsilon = {epsilon}\n").format(budget="")
    return list(
        keyhole.answer(
            statements, data=people(), config=Config.parse(told), ledger=folder / "book.keyhole", table="people",
            **options,
        ).answers
    )  # fmt: skip


NEW = [
    "SELECT AVG(pay) FROM people WHERE sex = 'M'",
    "SELECT MEDIAN(age) FROM people",
    "SELECT COUNT(DISTINCT town) FROM people",
]


@pytest.mark.parametrize("options", [{"horizon": 1}, {"accuracy": 0.1}])
def test_with_nothing_left_what_is_known_is_told_and_the_rest_is_refused_alone(
    options: dict[str, object], tmp_path: Path
) -> None:
    """The cap was lowered below what was spent: no statement stops the others, in a file or by itself."""
    known = "SELECT COUNT(*) FROM people WHERE sex = 'F'"
    with_epsilon("1", [known], tmp_path, horizon=2)
    follows = "SELECT sex, COUNT(*) FROM people GROUP BY sex"  # never asked before
    told = with_epsilon("0.5", [known, follows, *NEW], tmp_path, **options)
    assert [one.refused is None for one in told] == [True, True, False, False, False]
    assert all("raise the budget" in one.refused.reason for one in told if one.refused is not None)
    (alone,) = with_epsilon("0.5", NEW[:1], tmp_path, **options)
    assert alone.refused is not None
    assert alone.cost == 0


def test_quantiles_and_numbers_of_values_that_say_nothing_are_neither_sold_nor_told_again(tmp_path: Path) -> None:
    for sql in (["SELECT MEDIAN(age) FROM people"], ["SELECT COUNT(DISTINCT age) FROM people"]):
        (refused,) = answer(sql, tmp_path, horizon=WORTHLESS)
        assert refused.refused is not None
        assert "--anyway" in refused.refused.reason
        (vague,) = answer(sql, tmp_path, horizon=WORTHLESS, anyway=True)
        assert vague.refused is None
        assert answer(sql, tmp_path, horizon=WORTHLESS)[0].refused is not None
        (better,) = answer(sql, tmp_path, horizon=6)
        assert better.cost > 0
        (again,) = answer(sql, tmp_path, horizon=6)
        assert (again.cost, again.groups) == (0, better.groups)  # the better one, whichever was bought last


def test_a_tree_that_says_nothing_is_not_sold(tmp_path: Path) -> None:
    sql = [f"SELECT QUANTILE_CONT(age, {q}) FROM people" for q in (0.25, 0.5, 0.75)]
    made = answer(sql, tmp_path, spend="0.0000001")
    assert all(one.refused is not None and one.cost == 0 for one in made)
    assert all(one.refused is None for one in answer(sql, tmp_path, spend=1))


def test_no_answer_is_made_from_a_pilot(tmp_path: Path) -> None:
    """What the plan leaves to the pilot was chosen by the pilot's own errors; later purchases keep away from it too."""
    sql = ["SELECT town, COUNT(*) FROM people GROUP BY town", "SELECT AVG(pay) FROM people WHERE sex = 'M'"]
    answer(sql, tmp_path, spend="0.1")
    answer(["SELECT COUNT(*) FROM people WHERE age >= 40"], tmp_path, horizon=5)
    with Book.open(tmp_path / "book.keyhole") as book:
        entries = list(book.entries())
    released = {e.seq: e.body for e in entries if e.kind == Mark.RELEASE}
    pilots = {b["answer"]["generation"] for b in released.values() if b["sql"] == "pilot"}
    assert pilots == {1}
    assert not pilots & {b["answer"]["generation"] for b in released.values() if b["sql"] != "pilot"}
    lines = keyhole.answer(sql, data=people(), config=Config.parse(TOLD.format(budget="")), table="people",
                           ledger=tmp_path / "book.keyhole").releases  # fmt: skip
    said = sum(1 for _ in lines)
    tables = [b["answer"] for b in released.values() if b["sql"] == "a plan for a whole file"]
    assert 0 < said <= sum(len(t["values"]) * max(1, _cells(t["shape"])) for t in tables)


def _cells(shape: list[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found
