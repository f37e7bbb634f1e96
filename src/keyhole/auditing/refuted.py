"""Claims that the data at hand refute: answers or facts that are not true of them give values that nobody has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import Finding, Status, query_order
from keyhole.datasets import Source
from keyhole.gather.evidence import Contradiction, Evidence
from keyhole.model.predicate import Comparison, Leaf, Membership, to_sql

DUST = Fraction(1, 10**6)  # how far a value of floats may be from what exact answers give, as a share


class Refuted:
    """Which findings are false of the data. Nothing is looked up unless some answer or fact is not true of them."""

    def __init__(self, evidence: Evidence, source: Source | None) -> None:
        self._source = source if evidence.contradictions else None
        self._truths: dict[str, list[Fraction | None]] = {}
        self._conditions: dict[Leaf, NDArray[np.int8]] = {}

    def by_data(self, f: Finding) -> bool:
        """Is a value, a range or a list not the one that the record has? A form over several is not looked at."""
        if self._source is None or f.form or f.rows:
            return False
        if f.lo is None and f.hi is None:
            return any(self._truth(condition)[f.row] == 0 for condition in _conditions(f))
        truth = self._values(f.column)[f.row]
        if truth is None:
            return False
        dust = DUST * max(Fraction(1), abs(truth))
        return (f.lo is not None and truth < Fraction(f.lo) - dust) or (
            f.hi is not None and truth > Fraction(f.hi) + dust
        )

    def among(self, findings: Iterable[Finding]) -> list[tuple[Finding, Contradiction]]:
        """The findings that are false, each with what gives it."""
        return [(f, _said(f)) for f in findings if f.proof is not None and self.by_data(f)]

    def _truth(self, condition: Leaf) -> NDArray[np.int8]:
        if condition not in self._conditions:
            assert self._source is not None
            self._conditions[condition] = self._source.truths([condition])[condition]
        return self._conditions[condition]

    def _values(self, column: str) -> list[Fraction | None]:
        if column not in self._truths:
            assert self._source is not None
            held = self._source.values(column)
            exact = held.units
            numbers = (
                (Fraction(float(v)) for v in held.floats)
                if exact is None
                else (Fraction(int(v), 10**held.digits) for v in exact)
            )
            self._truths[column] = [v if there else None for v, there in zip(numbers, held.present, strict=True)]
        return self._truths[column]


def _conditions(f: Finding) -> Iterator[Leaf]:
    """What a claim without ends says of the record's value."""
    if f.status is Status.EXPOSED and f.value is not None:
        yield Comparison(f.column, "=", f.value)
    if f.allowed:
        yield Membership(f.column, f.allowed)
    yield from (Comparison(f.column, "<>", value) for value in f.excluded)


def _said(f: Finding) -> Contradiction:
    assert f.proof is not None
    names = tuple(sorted(f.proof.weights, key=query_order))
    listed = " and ".join(n if n.startswith("fact") else f"Q{n}" for n in names)
    given = f"in [{f.lo}, {f.hi}]"
    if f.lo is None and f.hi is None:
        given = " and ".join(to_sql(condition).partition(" ")[2] for condition in _conditions(f))
    elif f.status is Status.EXPOSED and isinstance(f.value, Decimal):
        given = f"= {f.value}"
    gives = "gives" if len(names) == 1 else "together give"
    return Contradiction(names, f"{listed} {gives} {f.who}'s {f.column} {given}, which is not so in the data")
