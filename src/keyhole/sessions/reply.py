"""What somebody who asked is told."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias

from keyhole.auditing.online.admission import Admission
from keyhole.datasets import GroupKey
from keyhole.defence.answering import PriceQuote, PrivateAnswer
from keyhole.model.predicate import Scalar
from keyhole.model.query import Refused

ExactAnswer: TypeAlias = tuple[tuple[GroupKey, tuple[Decimal | bool | None, ...]], ...]


class Outcome(StrEnum):
    """ANSWERED: with numbers. ALLOWED: it may be answered elsewhere. DENIED: it would expose somebody. REFUSED: it is
    not understood, not decided beforehand, or cannot be paid.
    """

    ANSWERED = "answered"
    ALLOWED = "allow"
    DENIED = "deny"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, repr=False)
class Reply:
    """One question's end: the numbers and what they cost, or why there are none.

    `exact` has the groups of an exact answer with their numbers, in the order that the statement asks for; `columns`
    and `rows` are the same as its SELECT list has them. `noisy` is a private answer with bars and price, `price` what a
    private answer would cost (a dry run has no other), `admission` the auditor's decision (with people's names: for the
    custodian). `instead` is a statement that would be allowed now. `entry` and `receipt` are number and digest of the
    entry of the book that says so.
    """

    sql: str
    outcome: Outcome
    reason: str = ""
    exact: ExactAnswer | None = None
    grouped: bool = False
    noisy: PrivateAnswer | None = None
    price: PriceQuote | None = None
    admission: Admission | None = None
    instead: str | None = None
    entry: int | None = None
    receipt: str | None = None
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Scalar | None, ...], ...] = ()

    @classmethod
    def refused(cls, sql: str, why: Refused) -> Reply:
        """It is not answered, for a reason that depends on the statement and on public things."""
        return cls(sql, Outcome.REFUSED, why.reason)

    def __repr__(self) -> str:
        """What an analyst may read: never whom it would expose."""
        if self.exact is not None:
            rows = [", ".join("NULL" if v is None else str(v) for v in values) for _, values in self.exact]
            summary = rows[0] if len(rows) == 1 else f"{len(rows)} rows"
        elif self.noisy is not None and self.noisy.refused is None:
            groups = self.noisy.groups
            made = groups[0][1] if len(groups) == 1 else ()
            pairs = (
                f"{float(e.value):g} ± {float(e.bar):g}" for e in made if e.value is not None and e.bar is not None
            )
            price = f"cost {float(self.noisy.cost):.4g}, left {float(self.noisy.left):.4g}"
            summary = f"{', '.join(pairs) or f'{len(groups)} rows'}; {price}"
        else:
            summary = f"would cost {float(self.price.cost):g}" if self.price and self.answered else self.reason
        return f"<Reply: {self.outcome}: {summary.splitlines()[0] if summary else ''}>"

    @property
    def answered(self) -> bool:
        """Was it answered, or may it be?"""
        return self.outcome in (Outcome.ANSWERED, Outcome.ALLOWED)


@dataclass(frozen=True, slots=True)
class BudgetState:
    """What a price is held against: the cap of the book and what is left of it, in its unit."""

    unit: str
    total: Fraction
    left: Fraction

    def describe_price(self, cost: Fraction) -> str:
        """`costs 1 % of your budget (epsilon 0.011); 97 such questions left`."""
        if not cost:
            return f"free; {self._share(self.left)} of your budget left ({self.unit} {format_remainder(self.left)})"
        more = max(int(self.left / cost), 0)
        questions = "1 such question" if more == 1 else f"{more} such questions"
        return f"costs {self._share(cost)} of your budget ({self.unit} {float(cost):.4g}); {questions} left"

    def _share(self, amount: Fraction) -> str:
        share = float(100 * max(amount, Fraction(0)) / self.total) if self.total else 100.0
        return f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"


def format_remainder(left: Fraction) -> str:
    """What is left, for people."""
    return f"{float(left):.4g}" if left >= 0 else "0 (the cap was lowered below what had been spent)"
