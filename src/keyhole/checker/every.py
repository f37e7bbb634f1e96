"""Proofs by all tables of few people: every table is made, the statements are asked, and only the engine is trusted.

Quotients, comparisons, HAVING and rounded sums are no sums of what single people add, so that people cannot be split
one after the other. Where everybody's declared values leave few tables, each of them is filled in and each statement of
the proof is run as it is: a table in which some answer is another is out. What is left of the person in the tables that
remain must be what is claimed. A statement whose answer is not in the verdict rules nothing out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from .claims import UNSETTLED, Addend, Claimed, number
from .counts import Choice, Counts, allows
from .engine import NOBODY, Cannot, Fails

MOST_TABLES = 1_000
DUST = Fraction(1, 10**11)  # of a quotient, in whatever order it is added up


class EveryTable:
    """Replays proofs by all tables; which tables are left is kept for the claims that follow."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self._left: dict[str, tuple[list[str], list[tuple[Choice, ...]]]] = {}

    def check(self, claim: Claimed, row: int) -> None:
        """Does every table that gives the answers have what is claimed, and is there one?"""
        if claim.status not in ("exposed", "inferred", *UNSETTLED):
            raise Fails("this proof is of a value, or of what a value is not")
        if row in self.counts.engine.null[claim.column]:
            raise Fails("somebody who has no value is said to have one")
        how = claim.certificate
        own = self.counts.own_constants(claim, every=True)
        key = repr((claim.proof, how.get("declared"), how.get("stated"), own))
        if key not in self._left:
            self._left[key] = self._tables(claim)
        names, left = self._left[key]
        if claim.column not in names:
            raise Fails("the statements do not look at this column")
        values = {table[row][names.index(claim.column)] for table in left}
        if not values:
            raise Cannot("the answers contradict each other")
        if not all(allows(claim, value) for value in values):
            raise Fails("there is a table with these answers in which it is not so")
        if claim.status == "exposed" and len(values) != 1:
            raise Fails("there are tables with these answers and different values")

    def _tables(self, claim: Claimed) -> tuple[list[str], list[tuple[Choice, ...]]]:
        """The tables that give all answers of the proof."""
        if not all(c.query or c.fact is not None for c in claim.proof):
            raise Cannot("more than answers is used")
        names, choices = self.counts.choices(claim, every=True, plain=False)
        declared = claim.certificate.get("declared") or {}
        if any(self.counts.cells_sampled(claim, name, declared.get(name) or {}) for name in names):
            raise Cannot("a column has values without end")
        held = [sorted(each) for each in self.counts.start(names, choices, claim.certificate.get("stated") or ())]
        if prod(map(len, held)) > MOST_TABLES:
            raise Cannot(f"it takes more than {MOST_TABLES} tables")
        cited = [c for c in claim.proof if c.answered]
        every = (tuple(choices[i] for i in table) for table in product(*held))
        return names, [table for table in every if self._gives(names, table, cited)]

    def _gives(self, names: Sequence[str], table: Sequence[Choice], cited: Sequence[Addend]) -> bool:
        self.counts.fill(names, table)
        return all(self._same(each) for each in cited)

    def _same(self, cited: Addend) -> bool:
        """Is the answer now what was answered?"""
        if isinstance(cited.answer, bool) and cited.column is None:  # of a HAVING: is the group shown?
            return (self.counts.engine.answer(replace(cited, column=1, test=None)) is not NOBODY) is cited.answer
        said = self.counts.engine.answer(cited)
        if cited.besides is not None:
            return bool((said or 0) == cited.answer)
        if said is NOBODY or said is None or cited.answer is None:  # a group that is not there answers nothing
            return said is None and cited.answer is None
        return _equal(said, cited.answer if cited.exactly is None else cited.exactly)


def _equal(said: Any, answer: Any) -> bool:
    """Are two answers the same, up to dust?

    >>> from decimal import Decimal
    >>> _equal(0.1 + 0.2, Decimal("0.3")), _equal(True, True), _equal(1, Decimal("1.01")), _equal("flu", "cold")
    (True, True, False, False)
    """
    if isinstance(said, bool) or isinstance(answer, bool):
        return said is answer
    one, two = number(said), number(answer)
    if one is None or two is None:
        return str(said) == str(answer)
    return abs(one - two) <= DUST * max(abs(one), abs(two))
