"""Two ranges of one value: it lies in both.

Rules look at different things (order, counts, squares, sums), so that one may know the lower end and another the upper.
The intersection rests on both proofs.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from keyhole.auditing.base import SHORT_LIST, BothRanges, Proof, Status, query_order
from keyhole.gather.evidence import Contradiction
from keyhole.model.grid import Grid
from keyhole.model.numbers import shorten_fraction

if TYPE_CHECKING:
    from keyhole.auditing.known import Claim

BOTH = "two ranges of it are proved, and it lies in both"
STRENGTH = {Status.OPEN: 0, Status.INFERRED: 1, Status.EXPOSED: 2}


def meet(held: Claim, said: Claim, grid: Grid) -> Claim | Contradiction | None:
    """What a second claim about a value adds to the first; None if nothing."""
    same = held.proof.system == said.proof.system and Status.EXPOSED not in (held.status, said.status)
    if same and (held.proof.rule == SHORT_LIST) is not (said.proof.rule == SHORT_LIST):
        short, other = (held, said) if held.proof.rule == SHORT_LIST else (said, held)
        if not other.allowed and not other.excluded:
            return _within(short, other, held)
    plain = not any(c.allowed or c.excluded or c.status is Status.EXPOSED for c in (held, said))
    if not plain or held.proof.system != said.proof.system:
        return said if said.narrows(held) else None
    lows = [end for end in (held.lo, said.lo) if end is not None]
    highs = [end for end in (held.hi, said.hi) if end is not None]
    ends = (max(lows, default=None), min(highs, default=None))
    status = max(held.status, said.status, key=STRENGTH.__getitem__)
    if ends == (held.lo, held.hi):
        return None if status is held.status else replace(held, status=status)
    if ends == (said.lo, said.hi):
        return replace(said, status=status)
    low, high = (None if end is None else Fraction(end) for end in ends)
    proof, left = _both(held, said), grid.between(low, high)
    if left is None or (low is not None and high is not None and low > high):
        names = tuple(proof.weights)
        listed = ", ".join(q if q.startswith("fact") else f"Q{q}" for q in names)
        reason = f"{listed} cannot all be true: they leave somebody no value of {held.column}"
        return Contradiction(names, reason, reducible=True)
    if left[0] is not None and left[0] == left[1]:
        value = shorten_fraction(left[0])
        return replace(said, status=Status.EXPOSED, value=value, lo=value, hi=value, proof=proof, tight=True)
    return replace(said, status=status, lo=ends[0], hi=ends[1], proof=proof, tight=False)


def _within(listed: Claim, ranged: Claim, held: Claim) -> Claim | Contradiction | None:
    """A short list of values of which some lie in a range; None if that is no news."""
    low, high = (None if end is None else Fraction(end) for end in (ranged.lo, ranged.hi))
    left = tuple(
        v
        for v in listed.allowed
        if isinstance(v, Decimal) and (low is None or Fraction(v) >= low) and (high is None or Fraction(v) <= high)
    )
    if left == listed.allowed:
        return None if held is listed else listed
    names = sorted({*listed.proof.weights, *ranged.proof.weights}, key=query_order)
    if not left:
        numbers = ", ".join(q if q.startswith("fact") else f"Q{q}" for q in names)
        reason = f"{numbers} cannot all be true: they leave somebody no value of {listed.column}"
        return Contradiction(tuple(names), reason, reducible=True)
    proof = replace(listed.proof, weights=dict.fromkeys(names, Fraction(1)))
    claim = replace(listed, lo=left[0], hi=left[-1], allowed=left, proof=proof)
    return claim if len(left) > 1 else replace(claim, status=Status.EXPOSED, value=left[0], allowed=())


def _both(held: Claim, said: Claim) -> Proof:
    names = sorted({*held.proof.weights, *said.proof.weights}, key=query_order)
    told = tuple((c.row, c.lo, c.hi, c.proof) for c in (held, said))
    weights = dict.fromkeys(names, Fraction(1))
    return Proof(held.proof.system, weights, rule=BOTH, both=BothRanges(held.column, told))
