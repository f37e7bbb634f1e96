"""A file of statements paid for at once: so many releases of one epsilon, fixed beforehand, priced together."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from keyhole.defend.budget import Budget, Cap
from keyhole.defend.composition import bundle_epsilon, bundle_share
from keyhole.defend.ledger import Ledger
from keyhole.defend.loss import Loss
from keyhole.errors import BudgetExhausted


@dataclass(slots=True, eq=False)
class Bundle:
    """`times` releases of pure epsilon `each`, charged together when the first is made: (epsilon, delta) by optimal
    composition. What is not used when the process ends is lost: it was paid, and nothing was shown for it.
    """

    ledger: Ledger
    each: Fraction
    times: int
    delta: Fraction
    used: int = 0
    paid: tuple[int, str] | None = field(default=None)  # the entry that paid for all

    @classmethod
    def planned(cls, ledger: Ledger, times: int, analyst: str | None) -> Bundle | None:
        """For all that is left, where that gives every release more than an even share; else None."""
        left, delta = ledger.left(analyst), ledger.delta_left()
        if ledger.cap.total.unit != "epsilon" or ledger.rows > 1 or times < 2 or left <= 0 or delta <= 0:
            return None
        each = bundle_share(times, left, delta)
        return cls(ledger, each, times, delta) if each > left / times else None

    @property
    def loss(self) -> Loss:
        """The price of the whole."""
        epsilon = bundle_epsilon(self.each, self.times, self.delta)
        return Loss.of_epsilon(epsilon, self.delta, self.ledger.cap.total.neighbours)

    def __str__(self) -> str:
        return (
            f"one of {self.times} answers of epsilon {float(self.each):.4g} each, fixed beforehand: together "
            f"{self.loss} (optimal composition)"
        )

    def purse(self, analyst: str | None, what: str) -> Budget:
        """A budget of one release; the first charges the book for all, on the open page.

        A charge that is not in the book (its page was given up) pays for nothing: it is made again.
        """
        if self.paid is None or not self.ledger.book.has(*self.paid):
            self.ledger.spend(self.loss, analyst=analyst, what=f"{self}: {what}")
            last = self.ledger.book.state.last
            assert last is not None
            self.paid, self.used = (last.seq, last.hash), 0
        if self.used >= self.times:
            raise BudgetExhausted("all answers that were paid for are given", remaining=0, requested=1)
        self.used += 1
        return Budget(Cap(Loss.of_epsilon(self.each, 0, self.ledger.cap.total.neighbours)))
