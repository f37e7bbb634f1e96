"""Laws of every budget, in memory or in a file, and a liar for each."""

from __future__ import annotations

import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path

from tests.laws.law import Law, Specimen

from keyhole.book import EVERYBODY, Book
from keyhole.defence.budget.budget import Budget, Cap
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss
from keyhole.errors import BudgetExhausted

Open = Callable[[Cap], Budget]


def _in_a_file(cap: Cap) -> Ledger:
    """A ledger in a folder of its own. Book and folder go with the ledger."""
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="keyhole-"))
        book = opened.enter_context(Book.open(Path(folder) / "book.keyhole", "staff"))
        ledger = Ledger(book, cap)
        weakref.finalize(ledger, opened.pop_all().close)
    return ledger


SPECIMENS: tuple[Specimen[Open], ...] = (Specimen("Budget", Budget), Specimen("Ledger", _in_a_file))


def a_refusal_changes_nothing_and_leaves_less_possible(make: Open) -> None:
    """After a refusal the books are as before, and a smaller loss can still be charged, down to exactly zero."""
    budget = make(Cap(Loss.of_epsilon(1, Fraction(1, 10))))
    budget.spend(Loss.of_epsilon(Fraction(2, 3)))
    for loss in (Loss.of_epsilon(Fraction(1, 2)), Loss.of_epsilon(Fraction(1, 9), Fraction(1, 5))):
        try:
            budget.spend(loss)
        except BudgetExhausted:
            pass
        else:
            raise AssertionError("more than the cap was spent")
        assert budget.left() == Fraction(1, 3), "a refusal was charged"
    budget.spend(Loss.of_epsilon(Fraction(1, 3), Fraction(1, 10)))
    assert budget.left() == 0


def the_sum_is_exact_after_many_charges(make: Open) -> None:
    """A thousand tenths of a per mille are a tenth, exactly."""
    budget = make(Cap(Loss.of_epsilon("0.1")))
    for i in range(1000):
        try:
            budget.spend(Loss.of_epsilon("0.0001"))
        except BudgetExhausted:
            raise AssertionError(f"refused after {i} of 1000") from None
    assert budget.left() == 0
    assert budget.spent() == Fraction(1, 10)


def analysts_together_never_pass_the_global_cap(make: Open) -> None:
    """Each analyst has a cap, and all together have another, against collusion."""
    shares = {"alice": Fraction(3, 5), "bob": Fraction(3, 5)}
    budget = make(Cap(Loss.of_epsilon(1), shares))
    budget.spend(Loss.of_epsilon("0.6"), analyst="alice")
    assert budget.left("alice") == 0
    assert budget.left("bob") == Fraction(2, 5)
    for analyst, amount in (("alice", "0.1"), ("bob", "0.5")):
        try:
            budget.spend(Loss.of_epsilon(amount), analyst=analyst)
        except BudgetExhausted:
            continue
        raise AssertionError(f"{analyst} spent {amount} beyond a cap")
    budget.spend(Loss.of_epsilon("0.4"), analyst="bob")


def the_budget_is_never_overspent_by_threads(make: Open) -> None:
    """Eight threads ask for more than there is: exactly the cap is spent."""
    budget = make(Cap(Loss.of_epsilon(1)))
    granted: list[int] = []

    def ask() -> None:
        for _ in range(25):
            try:
                budget.spend(Loss.of_epsilon("0.01"))
            except BudgetExhausted:
                continue
            granted.append(1)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(granted) == 100, f"{len(granted)} hundredths were granted of one"
    assert budget.left() == 0


class ChargesRefusals(Budget):
    """Books a loss before it looks whether there is room."""

    def spend(self, loss: Loss, *, analyst: str | None = None, what: str = "") -> None:
        """Charge, then check."""
        spent, delta = self._spent(EVERYBODY)
        self._record(EVERYBODY, spent + loss.amount, delta + loss.delta)
        if spent + loss.amount > self.cap.total.amount:
            raise BudgetExhausted("too much", remaining=0, requested=loss.amount)


class AddsFloats(Budget):
    """Sums in floating point: a tenth is not a tenth."""

    def _record(self, account: str, amount: Fraction, delta: Fraction) -> None:
        super()._record(account, Fraction(float(amount)), delta)


class ForgetsTheCap(Budget):
    """Knows each analyst's cap but not the one of all together."""

    def _accounts(self, analyst: str | None) -> tuple[str, ...]:
        return (EVERYBODY,) if analyst is None else (analyst,)


class Unlocked(Budget):
    """Lets two threads read the same total."""

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        yield

    def _spent(self, account: str) -> tuple[Fraction, Fraction]:
        found = super()._spent(account)
        time.sleep(0)  # another thread may come in here
        return found


LAWS: tuple[Law[Open], ...] = (
    Law(a_refusal_changes_nothing_and_leaves_less_possible, (Specimen("ChargesRefusals", ChargesRefusals),)),
    Law(the_sum_is_exact_after_many_charges, (Specimen("AddsFloats", AddsFloats),)),
    Law(analysts_together_never_pass_the_global_cap, (Specimen("ForgetsTheCap", ForgetsTheCap),)),
    Law(the_budget_is_never_overspent_by_threads, (Specimen("Unlocked", Unlocked),)),
)
