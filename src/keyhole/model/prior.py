"""What an attacker is assumed to know beforehand: priors of columns, and facts about people."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

DomainState = Literal["declared", "real", "undeclared"]
FEW_VALUES = 20  # a column with at most so many possible values is one of categories


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known of a private column beforehand: a range, a grid, or the list of its values.

    >>> Prior(lo=Decimal(0)).state, Prior(is_real=True).state, Prior().state
    ('declared', 'real', 'undeclared')
    """

    lo: Decimal | None = None
    hi: Decimal | None = None
    step: Decimal | None = None
    values: tuple[str, ...] | None = None
    rates: tuple[tuple[str, Decimal], ...] = field(default=(), compare=False)  # how common single values are
    numbers: tuple[Decimal, ...] | None = None  # the only ones in the range, where it was assumed so
    is_assumed: bool = field(default=False, compare=False)  # it was not declared, but assumed from the data
    is_real: bool = field(default=False, compare=False)  # called unbounded: any number is possible

    @property
    def state(self) -> DomainState:
        """Was a domain declared, was the column called unbounded, or was nothing said?"""
        if any(end is not None for end in (self.lo, self.hi, self.step, self.values)):
            return "declared"
        return "real" if self.is_real else "undeclared"

    def admits(self, value: Decimal) -> bool:
        """True if a number lies in the range and on the grid."""
        if (self.lo is not None and value < self.lo) or (self.hi is not None and value > self.hi):
            return False
        return self.step is None or (value - (self.lo or Decimal(0))) % self.step == 0


@dataclass(frozen=True, slots=True)
class Fact:
    """Background knowledge about the records that match `where`: each value, or the group's total, lies in a range."""

    where: str
    column: str
    lo: Decimal | None = None
    hi: Decimal | None = None
    sum_lo: Decimal | None = None
    sum_hi: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Priors per private column and facts about single records or groups. Empty: the attacker knows nothing."""

    priors: dict[str, Prior] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()

    def prior(self, column: str) -> Prior:
        """The prior of a column; the empty one if nothing was declared."""
        return self.priors.get(column, Prior())
