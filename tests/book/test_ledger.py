"""The budget in a book: durable, shared, exact, and never forgetful."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from keyhole.book import Book, Mark
from keyhole.defence.budget.budget import Budget, Cap, epsilon_budget
from keyhole.defence.budget.ledger import Ledger, Purchase, SavedRun
from keyhole.defence.budget.loss import Loss, check_positive, check_probability, parse_exact, round_up
from keyhole.errors import BudgetExhausted, ConfigError, PrivacyParameterError

ONE = Cap(Loss.of_epsilon(1))


def test_a_second_run_continues_the_first(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    with Book.open(path, "people") as book:
        Ledger(book, ONE).spend(Loss.of_epsilon("0.4"), what="one")
    with Book.open(path) as book:
        second = Ledger(book, ONE)
        assert second.left() == Fraction(3, 5)
        with pytest.raises(BudgetExhausted) as refused:
            second.spend(Loss.of_epsilon("0.7"))
        assert (refused.value.remaining, refused.value.requested) == (Fraction(3, 5), Fraction(7, 10))
        second.spend(Loss.of_epsilon("0.6"), what="two")
        said = [(e.body["amount"], e.body["what"]) for e in book.entries() if e.kind == Mark.CHARGE]
        assert said == [("2/5", "one"), ("3/5", "two")]


def test_the_cap_is_the_ledgers_not_the_runs(tmp_path: Path) -> None:
    with Book.open(tmp_path / "b.keyhole", "people") as book:
        Ledger(book, ONE).spend(Loss.of_epsilon(1))
        assert Ledger(book, Cap(Loss.of_epsilon("1.5"))).left() == Fraction(1, 2)
        lowered = Ledger(book, Cap(Loss.of_epsilon("0.5")))
        assert lowered.left() == Fraction(-1, 2)
        with pytest.raises(BudgetExhausted):
            lowered.spend(Loss.of_epsilon("0.0001"))


def test_another_unit_or_other_neighbours_are_refused(tmp_path: Path) -> None:
    with Book.open(tmp_path / "b.keyhole", "people") as book:
        ledger = Ledger(book, ONE)
        with pytest.raises(PrivacyParameterError, match="counts another unit: unit is 'epsilon' there and 'rho' here"):
            Ledger(book, Cap(Loss.of_rho(1)))
        with pytest.raises(PrivacyParameterError, match="other neighbours"):
            Ledger(book, Cap(Loss.of_epsilon(1, 0, "add-remove")))
        with pytest.raises(PrivacyParameterError, match="never mixed"):
            ledger.spend(Loss.of_epsilon(1, 0, "add-remove"))
        with pytest.raises(PrivacyParameterError, match="counts epsilon, and a rho"):
            ledger.spend(Loss.of_rho(1))
        assert ledger.left() == 1


def test_rho_budgets_take_pure_epsilon_by_the_theorem() -> None:
    budget = Budget(Cap(Loss.of_rho(1)))
    budget.spend(Loss.of_epsilon(1))
    assert budget.left() == Fraction(1, 2)
    with pytest.raises(PrivacyParameterError, match="delta"):
        budget.spend(Loss.of_epsilon("0.1", "1e-6"))
    assert budget.left() == Fraction(1, 2)


def test_delta_is_a_budget_too() -> None:
    budget = epsilon_budget(10, "1e-6")
    budget.spend(Loss.of_epsilon(1, "1e-6"))
    with pytest.raises(BudgetExhausted, match="delta"):
        budget.spend(Loss.of_epsilon(1, "1e-9"))
    budget.spend(Loss.of_epsilon(9))
    assert budget.left() == 0
    assert budget.delta_left() == 0


def test_what_was_released_is_of_its_epoch_and_domain_and_what_was_spent_stays_spent(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    with Book.open(path, "people") as book:
        ledger = Ledger(book, ONE, domain="d")
        with book.page():
            book.append(Mark.EPOCH, {"version": "1"})
            ledger.spend(Loss.of_epsilon("0.5"))
            generation = ledger.save_run("d/r/1", SavedRun({}, 1, 2, True, 7, np.zeros(3), ledger.charged[-1]))
            ledger.remember("q", {"x": 1}, Purchase("a question", 1, run=("d/r/1", generation)))
    with Book.open(path) as book:
        same = Ledger(book, ONE, domain="d")
        assert [kept.answer for kept in same.recall("q")] == [{"x": 1}]
        ((name, saved),) = same.runs("r")
        assert (saved.fired, saved.asked, saved.open, saved.level) == (1, 2, True, 7)
        assert same.load_state(name).tolist() == [0.0, 0.0, 0.0]
        other = Ledger(book, ONE, domain="e")
        assert (list(other.recall("q")), list(other.runs("r"))) == ([], [])
        with book.page():
            book.append(Mark.EPOCH, {"version": "2"})
        assert same.left() == Fraction(1, 2)
        assert (list(same.recall("q")), list(same.runs("r"))) == ([], [])


def test_a_rehearsal_knows_the_book_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    with Book.open(path, "people") as book:
        Ledger(book, ONE).spend(Loss.of_epsilon("0.4"))
    before = path.read_bytes()
    with Book.rehearsal(path) as copy:
        ledger = Ledger(copy, ONE)
        ledger.spend(Loss.of_epsilon("0.6"))
        assert ledger.left() == 0
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["b.keyhole"]


def test_analysts_must_be_known() -> None:
    budget = Budget(Cap.declared(Loss.of_epsilon(1), {"alice": 0.3}))
    with pytest.raises(ConfigError, match="say who asks"):
        budget.spend(Loss.of_epsilon("0.1"))
    with pytest.raises(ConfigError, match="'eve' has no budget"):
        budget.spend(Loss.of_epsilon("0.1"), analyst="eve")
    with pytest.raises(BudgetExhausted, match="for alice"):
        budget.spend(Loss.of_epsilon("0.4"), analyst="alice")
    with pytest.raises(ConfigError, match="everybody"):
        Cap.declared(Loss.of_epsilon(1), {"*": 1})
    assert budget.left("alice") == Fraction(3, 10)


@pytest.mark.parametrize("epsilon", [0, -1, "-0.5", "nan", "inf", "x"])
def test_bad_epsilon(epsilon: str | int) -> None:
    with pytest.raises(PrivacyParameterError, match="epsilon must be"):
        Loss.of_epsilon(epsilon)


@pytest.mark.parametrize("delta", [1, 2, -0.1, "nan"])
def test_bad_delta(delta: str | float) -> None:
    with pytest.raises(PrivacyParameterError, match="delta must be"):
        Loss.of_epsilon(1, delta)


def test_numbers_are_read_as_written() -> None:
    assert parse_exact(0.1) == Fraction(1, 10)
    assert check_positive("1e-3", "x") == Fraction(1, 1000)
    assert check_probability(0, "delta", zero=True) == 0
    assert round_up(0.1) >= Fraction(0.1)
    with pytest.raises(PrivacyParameterError, match="beta"):
        check_probability(0, "beta")
