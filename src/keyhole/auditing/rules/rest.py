"""One person is left: a sum over people whose values are known, but for one of them.

Identities among answers are the linear rule's; this one uses values that other rules found (the largest of a group, a
count, a square), and answers that are only ranges (suppressed, compared with a constant): over one person, or over
people who are known but for one, such an answer is a range of his value. Conditions are public, weights too.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import Proof, RestOfSum, Status, query_order
from keyhole.auditing.known import Claim, Known
from keyhole.auditing.numbers import outward
from keyhole.auditing.rules.settle import settled, tells
from keyhole.gather.evidence import Constraint, System
from keyhole.model.numbers import shorten_fraction

REST = "all others of the group are known"
ALONE = "it is about one person alone"


def rest(system: System, known: Known) -> Iterator[Claim]:
    """The value, or a range of it, of whoever is left alone in a sum. Cost: a pass over the rows."""
    if system.partitions:
        return
    for column in system.columns:
        features = [f for f, feature in enumerate(system.features) if feature.column == column]
        if len(features) != 1 or system.features[features[0]].power != 1 or not known.numeric(column):
            continue
        held = {c.row: c for c in known.claims(column) if c.status is Status.EXPOSED and c.lo is not None}
        beyond = any(c.proof.rule for c in held.values())  # what the linear rule does not know
        told = np.zeros(len(system.atoms.of), dtype=np.bool_)
        told[list(held)] = True
        open_ = np.bincount(system.atoms.of[~told], minlength=system.atoms.K)
        for c in system.constraints:
            whole = all(p.feature == features[0] for p in c.parts)
            if c.parts and whole and (beyond or not c.equation):
                claim = _left(system, known, column, c, held, open_)
                if claim is not None:
                    yield claim


def _left(
    system: System, known: Known, column: str, c: Constraint, held: dict[int, Claim], open_: NDArray[np.int64]
) -> Claim | None:
    """What a row says of the one person in it who is not known; None if there are several, or none."""
    made = system.row(c)
    ((at, values),) = made.blocks().values() if made.blocks() else ((np.zeros(0, np.int64), np.zeros(0, np.int64)),)
    here = open_[at]
    if int(here.sum()) != 1:
        return None
    k, weight = next((int(a), int(v)) for a, v, n in zip(at, values, here, strict=True) if n)
    row = next(r for r in np.flatnonzero(system.atoms.of == k).tolist() if r not in held)
    others = {
        r: Fraction(int(v), weight)
        for a, v in zip(at.tolist(), values.tolist(), strict=True)
        for r in np.flatnonzero(system.atoms.of == a).tolist()
        if r in held
    }
    share = made.scale / weight  # value = share * (sum of parts) - what the others count
    ends = [None if end is None else share * end for end in (c.lo, c.hi)]
    lo, hi = reversed(ends) if share < 0 else ends
    for r, times in others.items():
        less = sorted(times * Fraction(end) for end in (held[r].lo, held[r].hi) if end is not None)
        lo, hi = None if lo is None else lo - less[-1], None if hi is None else hi - less[0]
    used = {c.number, *(q for r in others for q in held[r].proof.weights)}
    weights = dict.fromkeys(sorted(used, key=query_order), Fraction(1))
    before = tuple((r, held[r].lo, held[r].hi, held[r].proof) for r in others)
    steps = RestOfSum(column, c.number, share * c.scale, share * c.offset, others, before)
    proof = Proof(known.number(system), weights, rule=REST if others else ALONE, rest=steps)
    if c.equation and lo is not None and hi is not None:
        claim = settled(row, column, (lo, hi), proof, known.grid(column), rounded=bool(c.judged_as))
        return claim if tells(claim, known.grid(column)) else None
    return _claim(row, column, lo, hi, proof, known)


def _claim(row: int, column: str, lo: Fraction | None, hi: Fraction | None, proof: Proof, known: Known) -> Claim | None:
    """A value if one is left, else a range inside what is declared; None if it is no news."""
    grid = known.grid(column)
    inside = grid.between(lo, hi)
    if inside is None or inside == grid.between(None, None):
        return None  # it cannot be, which is told elsewhere; or it says nothing
    low, high = inside
    if low is not None and low == high:
        value = shorten_fraction(low)
        return Claim(row, column, Status.EXPOSED, value, value, value, proof)
    least, most = _outward(low, high)
    return Claim(row, column, Status.INFERRED, None, least, most, proof)


def _outward(lo: Fraction | None, hi: Fraction | None) -> tuple[Decimal | None, Decimal | None]:
    least = None if lo is None else outward(lo, lo)[0]
    return least, None if hi is None else outward(hi, hi)[1]
