"""The classical rules of official statistics: is a cell sensitive by those who contribute to it?

Threshold N < n: too few contributors. Dominance (n, k): the largest n of them make up more than k % of the total.
p % rule: the second largest, who knows his own part, can estimate the largest to within p % of it:
total - largest - second < p/100 * largest. They look at one cell at a time, so a set of cells that passes may still
give one away: that is what the audit is for. Reference: [hundepool2012].
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from keyhole.errors import ConfigError
from keyhole.model.numbers import read_fraction

GRAMMAR = "write N<3, dominance 85% (or dominance 2,85%), or p 15%"


@dataclass(frozen=True, slots=True)
class Contributions:
    """Who makes up a cell: how many, and as far as known the largest, from the largest on. None: not known.

    `net` is the number of the cell where losses make it less than the `total` of sizes.
    """

    total: Fraction
    count: int | None = None
    largest: tuple[Fraction, ...] = ()
    net: Fraction | None = None

    @classmethod
    def of(cls, values: Sequence[Fraction]) -> Contributions:
        """All of them are known. Sizes count: a loss is as large as a gain."""
        sizes = sorted(map(abs, values), reverse=True)
        return cls(sum(sizes, Fraction(0)), len(values), tuple(sizes), sum(values, Fraction(0)))

    def top(self, n: int) -> Fraction | None:
        """The sum of the largest n; None if they are not known."""
        if len(self.largest) < n and (self.count is None or len(self.largest) < self.count):
            return None
        return sum(self.largest[:n], Fraction(0))


@dataclass(frozen=True, slots=True)
class SensitivityRule:
    """One rule: `kind` threshold (fewer than n contributors), dominance (the largest n above a share), or p."""

    kind: str
    n: int = 1
    share: Fraction = Fraction(0)

    @classmethod
    def parse(cls, text: str) -> SensitivityRule:
        """`N<3`, `dominance 85%`, `dominance 2,85%`, `p 15%`.

        >>> SensitivityRule.parse("N <= 3"), SensitivityRule.parse("p 15%").share
        (SensitivityRule(kind='threshold', n=4, share=Fraction(0, 1)), Fraction(3, 20))
        """
        flat = text.replace(" ", "").casefold()
        if found := re.fullmatch(r"n(<=?)(\d{1,9})", flat):
            return cls("threshold", int(found[2]) + (found[1] == "<="))
        if found := re.fullmatch(r"(?:dominance|nk)\(?(?:(\d{1,2})[,:])?(\d+(?:\.\d+)?)%?\)?", flat):
            return cls("dominance", int(found[1] or 1), _share(found[2], text))
        if found := re.fullmatch(r"p(\d+(?:\.\d+)?)%?", flat):
            return cls("p", 2, _share(found[1], text))
        raise ConfigError(f"--rule {text!r} is no rule: {GRAMMAR}")

    def __str__(self) -> str:
        percent = f"{float(self.share * 100):g}%"
        if self.kind == "threshold":
            return f"N<{self.n}"
        return f"p {percent}" if self.kind == "p" else f"dominance {self.n},{percent}"

    def sensitive(self, cell: Contributions) -> bool | None:
        """Does a cell fail the rule? None: too little is known of its contributors.

        >>> cell = Contributions.of([Fraction(90), Fraction(6), Fraction(4)])
        >>> [SensitivityRule.parse(r).sensitive(cell) for r in ("N<3", "dominance 85%", "p 5%", "p 4%")]
        [False, True, True, False]
        """
        if self.kind == "threshold":
            return None if cell.count is None else 0 < cell.count < self.n
        top = cell.top(self.n)
        if top is None:
            return None
        if self.kind == "dominance":
            return cell.total > 0 and top > self.share * cell.total
        return bool(cell.largest) and cell.total - top < self.share * cell.largest[0]


def _share(text: str, rule: str) -> Fraction:
    share = read_fraction(text) / 100
    if not 0 < share <= 1:
        raise ConfigError(f"--rule {rule!r}: a share is above 0% and at most 100%")
    return share
