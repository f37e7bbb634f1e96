"""Ranges: between what each private value lies in every table that answers and knowledge leave possible.

Known ranges, facts, rounded and suppressed answers and thresholds make inequalities of what the rank test reads as
equations; the ends of a value over all tables are then linear programs (`keyhole.solve.interval`). Every end is proved
by weights on the answers and bounds for whoever they leave, evaluated in fractions; a table that reaches it shows that
it is the best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import ceil, floor

import numpy as np

from keyhole.audit.base import Proof, Status, query_order
from keyhole.audit.bounded import BoundedSystem, bounded
from keyhole.audit.conflict import conflict
from keyhole.audit.known import Claim, Known, Rule, Searched
from keyhole.audit.rules.settle import settled
from keyhole.errors import ConfigError
from keyhole.evidence import Contradiction, System
from keyhole.solve.interval import ValueRange, ranges
from keyhole.solve.interval.polytope import End
from keyhole.solve.interval.ranges import SIDES
from keyhole.transcript import shifted

SECONDS = 60.0
DIGITS = 12  # of an end that is no decimal


@dataclass(frozen=True, slots=True)
class Within:
    """How narrow a range must be to count as inferred: a width, or a share of the larger of its ends.

    >>> Within.parse("5%").width(Fraction(90), Fraction(100)), Within.parse("0.5").width(None, None)
    (Fraction(5, 1), Fraction(1, 2))
    """

    amount: Fraction
    relative: bool = False

    @classmethod
    def parse(cls, text: str) -> Within:
        """`0.5`, or `5%`."""
        try:
            amount = Fraction(Decimal(text.strip().removesuffix("%")))
        except (InvalidOperation, ValueError, OverflowError):
            raise ConfigError(
                f"--within {text!r} is no width: write a number, such as 0.5, or a share, such as 5%"
            ) from None
        if amount < 0:
            raise ConfigError(f"--within {text!r} is below 0")
        relative = text.strip().endswith("%")
        return cls(amount / 100 if relative else amount, relative)

    def width(self, *ends: End) -> Fraction:
        """The widest range that counts, between these ends."""
        return (
            self.amount * max((abs(e) for e in ends if e is not None), default=Fraction(0))
            if self.relative
            else self.amount
        )


def interval(within: Within | None = None, seconds: float | None = SECONDS) -> Rule:
    """The rule: exposed where one value is left, inferred within a width, else open with its range."""

    def apart(found: ValueRange) -> Fraction:
        return Fraction(0) if within is None else within.width(found.lo, found.hi, *(found.inner or ()))

    def rule(system: System, known: Known) -> Iterator[Claim | Contradiction]:
        number = known.number(system)
        if number in known.searched:
            return  # it looks at answers and knowledge alone, and they do not change
        made = bounded(system, known.evidence, known.grids(system))
        if made is None:
            return
        impossible = list(_no_value(made))
        if not impossible:
            made = made.with_truth(known.truth(system))
            found = ranges(made.question, seconds, progress=known.progress)
            known.searched[number] = Searched(made, found, apart)
            impossible = [conflict(made, known.evidence, weights) for weights in found.refuted]
        if impossible:
            said = [set(c.queries) for c in known.contradictions]
            yield from (c for c in impossible if not any(each <= set(c.queries) for each in said))
            return
        yield from _claims(number, known, known.searched[number])

    return rule


def _no_value(made: BoundedSystem) -> Iterator[Contradiction]:
    """Facts about one person that leave no value between them."""
    for j, (lo, hi) in enumerate(made.question.polytope.records):
        if lo is not None and hi is not None and lo > hi:
            holds = [b for b in made.system.bounds if made.system.atoms.holds(b.where, made.atom(j))]
            names = tuple(sorted((f"fact {b.fact}" for b in holds if b.column == made.column(j)), key=query_order))
            yield Contradiction(names, f"what is known leaves somebody no {made.column(j)}: {', '.join(names)}")
            return


def _claims(number: int, known: Known, searched: Searched) -> Iterator[Claim | Contradiction]:
    """A claim for every record whose range is news."""
    made, system = searched.bounded, searched.bounded.system
    order = np.argsort(system.atoms.of, kind="stable")
    starts = np.concatenate([[0], np.cumsum(system.atoms.sizes)])
    for j, found in enumerate(searched.ranges.of):
        if not any(found.weights.values()) and not _told(made, j, known):
            continue
        k = made.atom(j)
        claim = _claim(number, known, searched, j)
        if isinstance(claim, Contradiction):
            yield claim
            return
        yield from (replace(claim, row=int(r)) for r in order[starts[k] : starts[k + 1]])


def _told(made: BoundedSystem, j: int, known: Known) -> bool:
    """Does a fact say more of these records than is declared of their column?"""
    prior = known.evidence.prior(made.column(j))
    ends = tuple(None if end is None else Fraction(end) for end in (prior.lo, prior.hi))
    return made.question.polytope.records[j] != ends


def _claim(number: int, known: Known, searched: Searched, j: int) -> Claim | Contradiction:
    """What is proved of each record of one column of the polytope."""
    made, found = searched.bounded, searched.ranges.of[j]
    column, grid = made.column(j), known.grid(made.column(j))
    sides = tuple(
        made.proof(j, side, end, found.weights[side])
        for side, end in zip(SIDES, (found.lo, found.hi), strict=True)
        if end is not None
    )
    weights = {q: w for side in sides for q, w in side.weights.items()}
    ordered = dict(sorted(weights.items(), key=lambda pair: query_order(pair[0])))
    proof = Proof(number, ordered, {made.unknowns[j]: 1}, sides=sides)
    left = grid.between(found.lo, found.hi)
    if left is None:
        listed = ", ".join(q if q.startswith("fact") else f"Q{q}" for q in ordered)
        return Contradiction(tuple(ordered), f"{listed} leave somebody no value that {column} can have")
    lo, hi = left if grid.step is not None else (found.lo, found.hi)
    if lo is not None and hi is not None and hi - lo <= _dust(made, found):
        return settled(-1, column, (lo, hi), proof, grid)
    narrow = lo is not None and hi is not None and 0 < hi - lo <= searched.apart(found)
    status = Status.INFERRED if narrow else Status.OPEN
    tight = found.inner == (lo, hi) or (grid.step is None and found.tight)
    return Claim(-1, column, status, None, _decimal(lo, floor), _decimal(hi, ceil), proof, tight=tight)


def _dust(made: BoundedSystem, found: ValueRange) -> Fraction:
    """How much of a width is floating-point sums: what the radii of the equations used add up to."""
    total = Fraction(0)
    for weights in found.weights.values():
        for i, weight in weights.items():
            lo, hi = made.question.polytope.rows[i]
            if made.constraints[i].exact and lo is not None and hi is not None:
                total += abs(weight) * (hi - lo)
    return total


def _decimal(end: End, outward: object) -> Decimal | None:
    """An end as a decimal: exactly where that ends, else rounded outwards."""
    if end is None:
        return None
    digits = next((d for d in range(41) if 10**d % end.denominator == 0), None)
    if digits is not None:
        return shifted(int(end * 10**digits), digits)
    return shifted((floor if outward is floor else ceil)(end * 10**DIGITS), DIGITS)


def unshown(known: Known, number: int) -> str:
    """Why not everybody else is shown to be open, as the end of a sentence; empty if everybody is.

    Open is who has two values, further apart than `--within`, in two tables that give the same answers. Who was known
    that narrowly beforehand is nobody's finding.
    """
    searched = known.searched[number]
    made, found = searched.bounded, searched.ranges
    if found.refuted:
        return "some answers contradict each other or the data"
    if not made.whole:
        return "some answer is not at hand, and what is declared can give away more with it"
    P, people, listed = made.question.polytope, 0, known.listed(made.system)
    for j, each in enumerate(found.of):
        width = searched.apart(each)
        prior = P.records[j]
        if each.wider(width) or (prior[0] is not None and prior[1] is not None and prior[1] - prior[0] <= width):
            continue
        if each.lo == each.hi and each.lo is not None and all(map(made.beforehand, each.weights.values())):
            continue
        people += P.sizes[j] - listed[made.atom(j), made.column(j)]
    if not people:
        return ""
    who = "1 person is" if people == 1 else f"{people} people are"
    why = f" ({found.stopped})" if found.stopped else ""
    return f"{who} neither exposed nor shown to be open by a second table with the same answers{why}"
