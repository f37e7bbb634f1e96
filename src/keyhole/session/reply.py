"""What somebody who asked is told."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from keyhole.audit.admission import Admission
from keyhole.defend.answering import Answered, Priced
from keyhole.query import Refused
from keyhole.tables import GroupKey

Exact: TypeAlias = tuple[tuple[GroupKey, tuple[Decimal | bool | None, ...]], ...]


class Ending(StrEnum):
    """ANSWERED: with numbers. ALLOWED: it may be answered elsewhere. DENIED: it would expose somebody. REFUSED: it is
    not understood, not decided beforehand, or cannot be paid.
    """

    ANSWERED = "answered"
    ALLOWED = "allow"
    DENIED = "deny"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Reply:
    """One question's end: the numbers and what they cost, or why there are none.

    `exact` has the groups of an exact answer with their numbers, `noisy` a private answer with bars and price, `price`
    what a private answer would cost (a dry run has no other),
    `admission` the auditor's decision (with people's names: for the custodian). `instead` is a statement that would be
    allowed now. `entry` and `receipt` are number and digest of the entry of the book that says so.
    """

    sql: str
    outcome: Ending
    reason: str = ""
    exact: Exact | None = None
    grouped: bool = False
    noisy: Answered | None = None
    price: Priced | None = None
    admission: Admission | None = None
    instead: str | None = None
    entry: int | None = None
    receipt: str | None = None

    @classmethod
    def refused(cls, sql: str, why: Refused) -> Reply:
        """It is not answered, for a reason that depends on the statement and on public things."""
        return cls(sql, Ending.REFUSED, why.reason)

    @property
    def answered(self) -> bool:
        """Was it answered, or may it be?"""
        return self.outcome in (Ending.ANSWERED, Ending.ALLOWED)
