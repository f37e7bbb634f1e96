"""Advice on a log: which statements to withhold, and what coarser groups, rounding or noise would do instead.

Everything is judged by the same rules on the same evidence, with some rows taken out or made wider. Statements with the
same text are one: who withholds an answer withholds it every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.advice.withhold import SECONDS, Remedy, withhold
from keyhole.auditing.base import Exposure, Finding, Proof, Status
from keyhole.auditing.judge import Judge
from keyhole.auditing.known import Rules
from keyhole.auditing.rules import RULES, quick_rules
from keyhole.gather.evidence import ROUNDED, Constraint, Evidence, System
from keyhole.model.predicate import Predicate

Mask = NDArray[np.bool_]

FEW = (2, 3, 5, 10, 20, 50, 100)  # smallest groups that are tried


@dataclass(frozen=True, slots=True)
class Effect:
    """What is left after a measure: how many people are exposed, how many narrowed down, and how narrowly at worst.

    `complete`: all others are shown to be open.
    """

    exposed: int
    inferred: int
    narrowest: Fraction | None = None
    complete: bool = True

    @property
    def clean(self) -> bool:
        """Is nobody exposed or narrowed down?"""
        return not self.exposed and not self.inferred


@dataclass(frozen=True, slots=True)
class Alternatives:
    """`groups`: the smallest group size that helps, with how many statements it costs; `rounding`: steps and effects.

    `amplified`: with independent noise of standard deviation s on each answer, the best recovered value is off by
    `amplified` * s (standard deviation); None if no value is a sum of answers.
    """

    groups: tuple[int, int] | None
    rounding: tuple[tuple[Fraction, Effect], ...]
    amplified: float | None


class LogAdvice:
    """Advice on one log. Cost: an audit for each round; the first are those by rank, which take milliseconds."""

    def __init__(self, exposure: Exposure, rules: Rules = RULES, seconds: float = SECONDS) -> None:
        self.exposure = exposure
        assumption = exposure.assumption  # with values of undeclared columns put in, where they were assumed
        self.evidence = exposure.evidence if assumption is None else assumption.exposure.evidence
        self.rules = rules
        self.seconds = seconds
        texts: dict[str, str] = {}
        self.first: dict[str, str] = {}  # a statement -> the first with the same text
        for part in (exposure, *exposure.readings):
            for entry in part.evidence.transcript.entries:
                at = statement(entry.number)
                self.first[at] = texts.setdefault(" ".join(entry.sql.split()), at)

    def withholding(self) -> Remedy[str]:
        """The smallest set of statements without which nobody is exposed or narrowed down."""
        return withhold(self.proofs, seconds=self.seconds)

    def proofs(self, gone: frozenset[str]) -> list[frozenset[str]]:
        """The statements that each proof uses, in the log without some of them."""
        left = without(self.evidence, self.every(gone))
        for rules in (quick_rules(), self.rules):
            found = Judge(rules).examine(left, self.exposure.roster)
            used = [cited(f.proof) for f in found.findings if f.proof is not None]
            used += [cited(g.proof) for g in found.groups]
            used += [each for each in self._by_assumption() if not each & self.every(gone)]
            if used:
                return [frozenset(self.first[q] for q in each) for each in used]
        return []

    def _by_assumption(self) -> list[frozenset[str]]:
        """The statements of findings that need assumed values, totals at their ends too: no rule has those."""
        return [cited(f.proof) for f in self.exposure.findings if f.assumed and f.proof is not None]

    def every(self, units: frozenset[str]) -> frozenset[str]:
        """The statements with the texts of these."""
        return frozenset(q for q, first in self.first.items() if first in units)

    def times(self, unit: str) -> int:
        """How often a statement stands in the log."""
        return sum(first == unit for first in self.first.values())

    def alternatives(self) -> Alternatives:
        """What else would do, or not."""
        return Alternatives(self._groups(), tuple(self._rounding()), self._amplified())

    def _groups(self) -> tuple[int, int] | None:
        sizes: dict[str, int] = {}
        for number, size in group_sizes(self.evidence):
            at = self.first.get(statement(number), statement(number))
            sizes[at] = min(size, sizes.get(at, size))
        for least in FEW:
            small = frozenset(at for at, size in sizes.items() if size < least)
            if not self.proofs(small):
                return least, len(small)
        return None

    def _rounding(self) -> Iterator[tuple[Fraction, Effect]]:
        values = [f.value for f in self.exposure.exposed if isinstance(f.value, Decimal)]
        for step in steps_for(values):
            found = Judge(self.rules).examine(rounded(self.evidence, step), self.exposure.roster)
            yield step, effect(found.findings)

    def _amplified(self) -> float | None:
        linear = [f.proof for f in self.exposure.exposed if f.proof is not None and not f.proof.rule]
        sizes = [sum(float(w) ** 2 for w in proof.weights.values()) ** 0.5 for proof in linear if not proof.sides]
        return min(sizes, default=None)


def steps_for(values: Iterable[Decimal]) -> tuple[Fraction, ...]:
    """Steps to round to that may matter for values of this size: a tenth of the power of ten below, it, and ten of it.

    >>> [int(step) for step in steps_for([Decimal(250)])]
    [10, 100, 1000]
    """
    largest = max((abs(v) for v in values), default=Decimal(0))
    if not largest:
        return ()
    return tuple(Fraction(10) ** power for power in range(largest.adjusted() - 1, largest.adjusted() + 2))


def statement(number: str) -> str:
    """The statement of a query: 3 of 3.2."""
    return number.partition(".")[0]


def cited(proof: Proof) -> frozenset[str]:
    """The statements that a proof uses, and those that it rests on use; facts left out."""
    own = {statement(q) for q in proof.weights if not q.startswith("fact")}
    return frozenset(own.union(*(cited(why) for *_, why in proof.known)))


def effect(findings: tuple[Finding, ...]) -> Effect:
    """How many are exposed, how many narrowed down, and how narrowly."""
    inferred = [f for f in findings if f.status is Status.INFERRED]
    widths = [Fraction(f.hi) - Fraction(f.lo) for f in inferred if f.lo is not None and f.hi is not None]
    return Effect(len(findings) - len(inferred), len(inferred), min(widths, default=None))


def without(evidence: Evidence, gone: frozenset[str]) -> Evidence:
    """The evidence of the log without some statements; atoms stay as fine as they are, which changes no verdict."""
    if not gone:
        return evidence

    def kept(number: str) -> bool:
        return statement(number) not in gone

    systems = tuple(
        replace(
            system,
            constraints=tuple(c for c in system.constraints if c.fact is not None or kept(c.number)),
            order=tuple(o for o in system.order if kept(o.number)),
            equal=tuple(e for e in system.equal if kept(e.number) and kept(e.partner)),
        )
        for system in evidence.systems
    )
    entries = tuple(e for e in evidence.transcript.entries if kept(e.number))
    return replace(
        evidence,
        transcript=replace(evidence.transcript, entries=entries),
        systems=systems,
        unjudged=tuple(u for u in evidence.unjudged if kept(u.number)),
        nobody=tuple(u for u in evidence.nobody if kept(u.number)),
        contradictions=(),
    )


def rounded(evidence: Evidence, step: Fraction) -> Evidence:
    """The evidence as if every answer were rounded to multiples of a step."""

    def wider(c: Constraint) -> Constraint:
        if c.fact is not None or c.lo is None or c.hi is None:
            return c
        room = abs(c.scale) * step / 2
        return replace(c, lo=c.lo - room, hi=c.hi + room, exact=False, judged_as=ROUNDED)

    systems = tuple(
        replace(system, constraints=tuple(map(wider, system.constraints)), order=(), equal=())
        for system in evidence.systems
    )
    return replace(evidence, systems=systems, contradictions=())


def group_sizes(evidence: Evidence) -> Iterator[tuple[str, int]]:
    """How many records each row of a system looks at."""
    for system in evidence.systems:
        known: dict[Predicate, Mask] = {}
        for c in system.constraints:
            if c.fact is None and c.parts:
                yield c.number, _size(system, c, known)


def _size(system: System, c: Constraint, known: dict[Predicate, Mask]) -> int:
    inside = np.zeros(system.atoms.K, dtype=np.bool_)
    for part in c.parts:
        if part.where not in known:
            known[part.where] = system.atoms.mask(part.where)
        inside |= known[part.where]
    return int(system.atoms.sizes[inside].sum())
