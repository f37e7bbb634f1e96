"""One end of a range, proved: weights on rows, bounds for whoever they leave; recomputed from the evidence alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from keyhole.gather.evidence import Evidence, System

if TYPE_CHECKING:
    from keyhole.auditing.base import KnownValue


@dataclass(frozen=True, slots=True)
class BoundUsed:
    """Values that a proof puts in for people it does not add up to zero: `people` at their `bound`, `each`, by weight.

    `fact` says which fact gives the bound (None: the column's own); `of` is a query of the proof that all of them are
    in, empty if there is none; `row` is the person where it is one, `own` whether it is the one the proof is about.
    `learned` is the claim that gives the bound, where another rule proved it.
    """

    bound: str  # min or max
    each: Fraction
    weight: Fraction
    people: int
    fact: int | None = None
    of: str = ""
    row: int | None = None
    own: bool = False
    learned: KnownValue | None = None


@dataclass(frozen=True, slots=True)
class EndProof:
    """Why a value is at least (`side` lo) or at most (hi) `end`: weights on rows, and bounds for what they leave."""

    side: str
    end: Fraction
    weights: Mapping[str, Fraction]
    bounds: tuple[BoundUsed, ...] = ()
    constant: Fraction = Fraction(0)


def proved(system: System, evidence: Evidence, unknown: int, claimed: EndProof) -> bool:
    """Do weights on rows, with the bounds of whoever they leave, prove an end? Recomputed from the evidence alone."""
    K, sign = system.atoms.K, 1 if claimed.side == "hi" else -1
    rows = {row.number: row for row in system.constraints if row.number in claimed.weights}
    total, left = Fraction(0), {unknown: Fraction(0)}
    for number, weight in claimed.weights.items():
        end = None if number not in rows else rows[number].hi if weight * sign > 0 else rows[number].lo
        if end is None:
            return False
        total += weight * end
        for at, c in system.row(rows[number]).items().items():
            left[at] = left.get(at, Fraction(0)) - weight * c
    for at, w in left.items():
        mine = int(at == unknown)
        for people, weight in ((int(system.atoms.sizes[at % K]) - mine, w), (mine, w + 1)):
            if not people or not weight:
                continue
            end = known_ends(system, evidence, at)[1 if weight * sign > 0 else 0]
            if end is None:
                return False
            total += people * weight * end
    return total <= claimed.end if sign > 0 else total >= claimed.end


Knowing = tuple[str, str]  # ("min" or "max", column), ("fact", its number), or ("learned", which)


def known_ends(
    system: System, evidence: Evidence, unknown: int, without: frozenset[Knowing] = frozenset()
) -> tuple[Fraction | None, Fraction | None]:
    """Between what each record of an unknown lies beforehand: what is declared of its column, and facts about it."""
    f, k = divmod(unknown, system.atoms.K)
    column = system.features[f].column or ""
    if column in system.present and not system.atoms.holds(system.present[column], k):
        return Fraction(0), Fraction(0)  # nobody there has a value: they add nothing
    prior = evidence.prior(column)
    said = [("min", column, prior.lo, None), ("max", column, None, prior.hi)]
    facts = (b for b in system.bounds if b.column == column and system.atoms.holds(b.where, k))
    ends = [(lo, hi) for word, name, lo, hi in said if (word, name) not in without]
    told = [(b.lo, b.hi) for b in facts if ("fact", str(b.fact)) not in without]
    low = [Fraction(lo) for lo, _ in (*ends, *told) if lo is not None]
    high = [Fraction(hi) for _, hi in (*ends, *told) if hi is not None]
    return max(low, default=None), min(high, default=None)
