"""Ranges that the answers prove, for an attack to show beside its guesses: what the auditor leaves each record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Target
from keyhole.auditing.base import Finding
from keyhole.auditing.judge import Judge
from keyhole.auditing.rules import RULES
from keyhole.datasets import Roster
from keyhole.errors import ContradictionError
from keyhole.gather.evidence import Contradiction, Evidence, System

LARGEST = 200_000  # rows times groups up to which ranges are searched


@dataclass(frozen=True, slots=True, eq=False)
class Proved:
    """[lo, hi] per record, and sums over several records of one person that are determined.

    `extremes`: answers that no method of attack reads had a part in it.
    """

    lo: Floats
    hi: Floats
    sums: tuple[Finding, ...] = ()
    extremes: bool = False


def proved_ranges(evidence: Evidence, people: Roster, target: Target) -> Proved | None:
    """[min, max] per record by the auditor's rules (sums, MIN and MAX, bounds); None where none was searched.

    Only answers that are exact or within stated limits prove anything. Infinite ends are unknown. Raises
    ContradictionError where a MIN or a MAX contradicts other answers: no method of attack reads those.
    """
    systems = [s for s in evidence.systems if target.column in s.columns]
    if target.categories is not None or not systems:
        return None
    rows = sum(len(s.constraints) + len(s.order) for s in systems)
    hard = [c for s in systems for c in s.constraints if c.lo is not None or c.hi is not None]
    order = [o for s in systems for o in s.order if o.lo is not None or o.hi is not None]
    if not (hard or order) or rows * max(s.atoms.K for s in systems) > LARGEST:
        return None
    exposure = Judge(rules=RULES).examine(replace(evidence, systems=tuple(systems), counting=None), people)
    if exposure.contradictions:  # from what cannot be true anything follows
        _refuse_unread(systems, exposure.contradictions)
        return None
    lo, hi = np.full(people.n, target.lower), np.full(people.n, target.upper)
    for bound in (b for s in systems for b in s.bounds if b.column == target.column):
        held = _held(systems[0].atoms.mask(bound.where), systems[0].atoms.of)
        lo = np.where(held, np.maximum(lo, -np.inf if bound.lo is None else float(bound.lo)), lo)
        hi = np.where(held, np.minimum(hi, np.inf if bound.hi is None else float(bound.hi)), hi)
    for finding in (*exposure.findings, *exposure.ranges):
        if finding.column != target.column or finding.form or finding.if_shown:
            continue
        row = finding.row
        lo[row] = max(lo[row], -np.inf if finding.lo is None else float(finding.lo))
        hi[row] = min(hi[row], np.inf if finding.hi is None else float(finding.hi))
    sums = (f for f in exposure.findings if f.column == target.column and f.rows and not f.grade and not f.if_shown)
    return Proved(lo, hi, tuple(sums), bool(order))


def _refuse_unread(systems: Sequence[System], found: Sequence[Contradiction]) -> None:
    """Contradictions among sums are the method's to find, within its rounding; it passes those with an extreme by."""
    unread = {o.number for s in systems for o in s.order}
    named = [c for c in found if unread.intersection(c.queries)]
    if named:
        listed = "; ".join(f"{c.reason} (queries {', '.join(c.queries)})" for c in named[:5])
        raise ContradictionError(f"the answers contradict each other: {listed}")


def _held(mask: NDArray[np.bool_], of: NDArray[np.int32]) -> NDArray[np.bool_]:
    return np.asarray(mask[of])
