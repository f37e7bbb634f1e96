"""What other rules proved of single people, as bounds of the unknowns of a system.

The greatest value of a group bounds everybody in it; a count or a square bounds one person. None of this is linear in
the answers, but its outcome is: a range of every record of an atom, which the ranges of sums can
start from. Each end keeps the claim that it rests on, so that a proof can name it and a stranger can replay it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from keyhole.auditing.base import KnownValue, Status
from keyhole.gather.evidence import System

if TYPE_CHECKING:
    from keyhole.auditing.known import Claim, Known

DEEPEST = 3  # claims that rest on claims that rest on claims: a proof has to be read


@dataclass(frozen=True, slots=True)
class Learned:
    """Between what every record of an unknown lies, by the claim `why`."""

    lo: Fraction | None
    hi: Fraction | None
    why: KnownValue


def learned(system: System, known: Known) -> Mapping[int, Learned]:
    """The unknowns of whose records other rules know a range. Cost: a pass over what is known.

    Of an atom of several people only what order statistics say of all of them. In a system of several columns, and
    where a column has no grid, only order statistics: other ends are shown without the dust of floating-point sums.
    """
    if system.partitions:
        return {}
    found: dict[int, Learned] = {}
    for column in filter(known.numeric, system.columns):
        found |= _of_column(system, known, column)
    return found


def _of_column(system: System, known: Known, column: str) -> dict[int, Learned]:
    feature = next((f for f, x in enumerate(system.features) if x.column == column and x.power == 1), None)
    stepped = known.grid(column).step is not None and len(system.columns) == 1
    claims = [c for c in known.beside(column) if _usable(c, stepped=stepped)]
    if feature is None or not claims:
        return {}
    atoms, found = system.atoms, dict[int, Learned]()
    rows = np.array([c.row for c in claims], dtype=np.int64)
    for k, mine in _by_atom(atoms.of[rows].tolist(), claims).items():
        size, first = int(atoms.sizes[k]), mine[0]
        shared = len(mine) == size and all(c.proof is first.proof and _ends(c) == _ends(first) for c in mine)
        if size == 1 or (shared and first.proof.order is not None):
            why = (first.row, first.lo, first.hi, first.proof)
            found[feature * atoms.K + k] = Learned(*_ends(first), why)
    return found


def _usable(claim: Claim, *, stepped: bool) -> bool:
    proof = claim.proof
    ordered = proof.order is not None and not proof.order.known
    sums = proof.rest is not None  # a rest of a sum is a row itself
    whole = bool(proof.tables) and claim.status is Status.OPEN  # of all tables: sums cannot make it narrower
    ruled = bool(proof.rule) and not sums and not whole and (stepped or ordered)
    return ruled and (claim.lo is not None or claim.hi is not None) and proof.depth <= DEEPEST


def _ends(claim: Claim) -> tuple[Fraction | None, Fraction | None]:
    lo, hi = (None if end is None else Fraction(end) for end in (claim.lo, claim.hi))
    return lo, hi


def _by_atom(atoms: Iterable[int], claims: Iterable[Claim]) -> dict[int, list[Claim]]:
    found: dict[int, list[Claim]] = {}
    for k, claim in zip(atoms, claims, strict=True):
        found.setdefault(k, []).append(claim)
    return found


def narrowed(ends: tuple[Fraction | None, Fraction | None], told: Learned) -> tuple[Fraction | None, Fraction | None]:
    """A range and what was learned, together; they may leave nothing."""
    lows, highs = (ends[0], told.lo), (ends[1], told.hi)
    low = max((end for end in lows if end is not None), default=None)
    return low, min((end for end in highs if end is not None), default=None)
