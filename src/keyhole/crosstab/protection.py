"""How wide a range a sensitive cell needs: protection levels of the p % rule and of dominance.

A rule that hides a cell asks for more than that nobody finds its number out: a range [lo, hi] from which nobody may
estimate the largest contribution too closely either. With contributions x1 >= x2 >= ... of total T:

    p % rule         hi >= T + (p/100 * x1 - (T - x1 - x2)): who knows x2 finds x1 up to no less than p %
    dominance (n,k)  hi >= (x1 + ... + xn) / (k/100): if the total may be so large, the largest do not dominate it

and below T by as much, as far as numbers go down. A threshold on the number of contributors asks for no range.
Reference: [hundepool2012], 4.3 (upper and lower protection level).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from keyhole.crosstab.cells import Key
from keyhole.crosstab.contributors import Sensitive
from keyhole.crosstab.sensitivity import Contributions, SensitivityRule

Range = tuple[Fraction | None, Fraction | None]


@dataclass(frozen=True, slots=True)
class Unprotected:
    """A hidden cell whose proved range [lo, hi] does not reach what a rule needs."""

    key: Key
    rule: SensitivityRule
    needs: tuple[Fraction, Fraction]
    lo: Fraction | None
    hi: Fraction | None


@dataclass(frozen=True, slots=True)
class ProtectionInterval:
    """What a rule needs of one hidden cell: a range that reaches from `lo` to `hi`."""

    key: Key
    rule: SensitivityRule
    lo: Fraction
    hi: Fraction

    def against(self, known: Range, least: Decimal | None) -> Iterator[Unprotected]:
        """The cell, if what is known of it is narrower. No number is below `least`, whoever asks.

        >>> need = ProtectionInterval(frozenset(), SensitivityRule.parse("p 10%"), Fraction(91), Fraction(109))
        >>> [len(list(need.against((Fraction(lo), Fraction(hi)), None))) for lo, hi in ((80, 120), (80, 105))]
        [0, 1]
        """
        lo, hi = known
        low = self.lo if least is None else max(self.lo, Fraction(least))
        if (lo is not None and lo > low) or (hi is not None and hi < self.hi):
            yield Unprotected(self.key, self.rule, (low, self.hi), lo, hi)


def protection_level(rule: SensitivityRule, cell: Contributions) -> Fraction | None:
    """How far above the total, and below it, a range must reach; None: the rule asks for none, or it cannot be told.

    >>> cell = Contributions.of([Fraction(90), Fraction(6), Fraction(4)])
    >>> [int(protection_level(SensitivityRule.parse(rule), cell) or 0) for rule in ("p 10%", "dominance 75%", "N<3")]
    [5, 20, 0]
    """
    top = cell.top(rule.n)
    if rule.kind == "threshold" or top is None or not cell.largest:
        return None
    if rule.kind == "dominance":
        return max(Fraction(0), top / rule.share - cell.total)
    return max(Fraction(0), rule.share * cell.largest[0] - (cell.total - top))


def protection_intervals(
    sensitive: Iterable[Sensitive], known: Mapping[Key, Contributions], hidden: Iterable[Key]
) -> Iterator[ProtectionInterval]:
    """What the rules need of the hidden cells that fail them."""
    gone = set(hidden)
    for each in sensitive:
        cell = known.get(each.key)
        level = None if cell is None or each.key not in gone else protection_level(each.rule, cell)
        if cell is not None and level:
            middle = cell.total if cell.net is None else cell.net
            yield ProtectionInterval(each.key, each.rule, middle - level, middle + level)
