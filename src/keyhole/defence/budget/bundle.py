"""A file of statements paid for at once: releases whose epsilons are fixed beforehand, priced together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from keyhole.defence.budget.budget import Budget, Cap
from keyhole.defence.budget.composition import LossDistribution, bundle_epsilon, bundle_share
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss
from keyhole.errors import BudgetExhausted


@dataclass(slots=True, eq=False)
class Bundle:
    """One release of pure epsilon for each question in `parts`, charged together when the first is made: (epsilon,
    delta) by optimal composition. What is not used when the process ends is lost: it was paid, and nothing was shown.

    Gaussian releases have no place here: no discrete law of theirs is proved to be within a continuous one, so their
    rho adds up, and the distribution of it is told as information alone (`accounting.py`).
    """

    ledger: Ledger
    parts: Mapping[str, Fraction]
    loss: Loss
    used: set[str] = field(default_factory=set)
    paid: tuple[int, str] | None = field(default=None)  # the entry that paid for all

    @classmethod
    def shared(cls, ledger: Ledger, questions: Iterable[str], analyst: str | None) -> Bundle | None:
        """All that is left in equal parts, where that gives every release more than an even share; else None."""
        listed = list(dict.fromkeys(questions))
        left, delta, times = ledger.left(analyst), ledger.delta_left(), len(listed)
        if not cls._possible(ledger, times, left, delta):
            return None
        each = bundle_share(times, left, delta)
        if each <= left / times:
            return None
        loss = Loss.of_epsilon(bundle_epsilon(each, times, delta), delta, ledger.cap.total.neighbours)
        return cls(ledger, dict.fromkeys(listed, each), loss)

    @classmethod
    def priced(cls, ledger: Ledger, parts: Mapping[str, Fraction], analyst: str | None) -> Bundle | None:
        """Releases whose epsilons are given, where all together cost less than their sum, and are paid; else None."""
        left, delta = ledger.left(analyst), ledger.delta_left()
        if not cls._possible(ledger, len(parts), left, delta):
            return None
        epsilon = LossDistribution.of(list(parts.values())).epsilon(delta)
        if epsilon >= sum(parts.values()) or epsilon > left:
            return None
        return cls(ledger, parts, Loss.of_epsilon(epsilon, delta, ledger.cap.total.neighbours))

    @staticmethod
    def _possible(ledger: Ledger, times: int, left: Fraction, delta: Fraction) -> bool:
        return ledger.cap.total.unit == "epsilon" and ledger.rows == 1 and times >= 2 and left > 0 and delta > 0

    def holds(self, question: str) -> bool:
        """Is there a release for it that was not made yet?"""
        return question in self.parts and question not in self.used

    def told(self, question: str) -> str:
        """How a release was paid for."""
        return (
            f"one of {len(self.parts)} answers fixed beforehand, of epsilon {float(self.parts[question]):.4g}: all "
            f"{self.loss} (optimal composition)"
        )

    def purse(self, question: str, analyst: str | None, what: str) -> Budget:
        """A budget of one release; the first charges the book for all, on the open page.

        A charge that is not in the book (its page was given up) pays for nothing: it is made again.
        """
        if self.paid is None or not self.ledger.book.has(*self.paid):
            self.ledger.spend(self.loss, analyst=analyst, what=f"{self.told(question)}: {what}")
            last = self.ledger.book.state.last
            assert last is not None
            self.paid = (last.seq, last.hash)
            self.used.clear()
        if not self.holds(question):
            raise BudgetExhausted("the answer that was paid for is given", remaining=0, requested=1)
        self.used.add(question)
        return Budget(Cap(Loss.of_epsilon(self.parts[question], 0, self.ledger.cap.total.neighbours)))
