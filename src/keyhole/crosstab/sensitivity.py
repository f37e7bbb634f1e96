"""The classical rules of official statistics: is a cell sensitive by those who contribute to it?

Threshold N < n: too few contributors. Dominance (n, k): the largest n of them make up more than k % of the total.
p % rule: the second largest, who knows his own part, can estimate the largest to within p % of it:
total - largest - second < p/100 * largest. They look at one cell at a time, so a set of cells that passes may still
give one away: that is what the audit is for. Reference: [hundepool2012].

A rule that hides a cell asks for more than that nobody finds its number out: a range [lo, hi] from which nobody may
estimate the largest contribution too closely either. With contributions x1 >= x2 >= ... of total T:

    p % rule         hi >= T + (p/100 * x1 - (T - x1 - x2)): who knows x2 finds x1 up to no less than p %
    dominance (n,k)  hi >= (x1 + ... + xn) / (k/100): if the total may be so large, the largest do not dominate it

and below T by as much, as far as numbers go down. A threshold on the number of contributors asks for no range.
Reference: [hundepool2012], 4.3 (upper and lower protection level).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from keyhole.crosstab.cells import Key, TableLayout
from keyhole.crosstab.nesting import Nesting
from keyhole.crosstab.numbers import read_number
from keyhole.crosstab.publication import Publication
from keyhole.crosstab.sheet import Sheet
from keyhole.errors import ConfigError, DataError
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


@dataclass(frozen=True, slots=True)
class Sensitive:
    """A cell that fails a rule."""

    key: Key
    rule: SensitivityRule


def count_contributors(sheet: Sheet, value: str, keys: Iterable[Key], nested: Nesting) -> dict[Key, Contributions]:
    """The contributors of each cell: one row of the file a contributor. Cost: rows times distinct sets of columns."""
    if value not in sheet.header:
        raise ConfigError(f"{sheet.name} has no column {value!r}; it has {', '.join(sheet.header)}")
    at, wanted = {name: k for k, name in enumerate(sheet.header)}, set(keys)
    shapes = {frozenset(column for column, _ in key) for key in wanted}
    inside = {parent: (child, of) for child, above in nested.inside.items() for parent, of in above.items()}
    missing = {c for shape in shapes for c in shape} - at.keys() - {p for p, (c, _) in inside.items() if c in at}
    if missing:
        raise ConfigError(f"{sheet.name} has no column {sorted(missing)[0]!r}, so whom a cell counts is not known")
    found: dict[Key, list[Fraction]] = {key: [] for key in wanted}
    for line, row in sheet.rows:
        amount = read_number(row[at[value]], sheet.delimiter)
        if amount is None:
            raise DataError(f"{sheet.name}, line {line}: {value} is no number")
        codes = {c: _find_categories(c, row, at, nested, inside) for shape in shapes for c in shape}
        for shape in shapes:
            for key in _find_keys(sorted(shape), codes):
                if key in found:
                    found[key].append(Fraction(amount))
    return {key: Contributions.of(values) for key, values in found.items()}


def _find_categories(
    column: str,
    row: tuple[str, ...],
    at: Mapping[str, int],
    nested: Nesting,
    inside: Mapping[str, tuple[str, Mapping[str, str]]],
) -> list[str]:
    """The categories of a column that a contributor counts in: its own, and those above."""
    if column in at:
        found = [row[at[column]]]
    else:
        child, of = inside[column]
        found = [of.get(row[at[child]], "")]
    above = nested.parents.get(column, {})
    while found[-1] in above:
        found.append(above[found[-1]])
    return found


def _find_keys(columns: list[str], codes: Mapping[str, list[str]]) -> Iterable[Key]:
    found: list[list[tuple[str, str]]] = [[]]
    for column in columns:
        found = [[*pairs, (column, code)] for pairs in found for code in codes[column]]
    return map(frozenset, found)


def read_contributors(
    publication: Publication, layout: TableLayout, rules: Iterable[SensitivityRule]
) -> dict[Key, Contributions]:
    """What the tables say of the contributors of each cell; in a table of counts the number itself is N.

    A count that was rounded to more than units is not known.
    """
    counts = layout.count is None and not layout.largest and all(r.kind == "threshold" for r in rules)
    found = {}
    for key, cell in publication.cells.items():
        value = publication.values.get(key, publication.truth.get(key))
        top = tuple(map(Fraction, cell.largest))
        if counts and value is not None and value.denominator == 1:
            found[key] = Contributions(value, int(value) if publication.radii.get(key, 0) < 1 else None)
        elif cell.count is not None or (value is not None and top):
            count = None if cell.count is None else int(cell.count)
            found[key] = Contributions(value or Fraction(0), count, top if value is not None else ())
    return found


def find_sensitive_cells(
    publication: Publication, known: Mapping[Key, Contributions], rules: Iterable[SensitivityRule]
) -> tuple[list[Sensitive], dict[SensitivityRule, int]]:
    """The cells that fail each rule, and of how many each rule cannot be decided."""
    found, unknown = [], {}
    for rule in rules:
        verdicts = {key: rule.sensitive(known[key]) if key in known else None for key in publication.cells}
        found += [Sensitive(key, rule) for key, verdict in verdicts.items() if verdict]
        unknown[rule] = sum(verdict is None and key in publication.values for key, verdict in verdicts.items())
    return found, unknown


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


def find_protection_level(rule: SensitivityRule, cell: Contributions) -> Fraction | None:
    """How far above the total, and below it, a range must reach; None: the rule asks for none, or it cannot be decided.

    >>> cell = Contributions.of([Fraction(90), Fraction(6), Fraction(4)])
    >>> rules = [SensitivityRule.parse(rule) for rule in ("p 10%", "dominance 75%", "N<3")]
    >>> [int(find_protection_level(rule, cell) or 0) for rule in rules]
    [5, 20, 0]
    """
    top = cell.top(rule.n)
    if rule.kind == "threshold" or top is None or not cell.largest:
        return None
    if rule.kind == "dominance":
        return max(Fraction(0), top / rule.share - cell.total)
    return max(Fraction(0), rule.share * cell.largest[0] - (cell.total - top))


def find_protection_intervals(
    sensitive: Iterable[Sensitive], known: Mapping[Key, Contributions]
) -> Iterator[ProtectionInterval]:
    """What the rules need of the cells that fail them, once they are hidden."""
    for each in sensitive:
        cell = known.get(each.key)
        level = None if cell is None else find_protection_level(each.rule, cell)
        if cell is not None and level:
            middle = cell.total if cell.net is None else cell.net
            yield ProtectionInterval(each.key, each.rule, middle - level, middle + level)
