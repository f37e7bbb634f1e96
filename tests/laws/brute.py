"""Brute-force twins: slow, obvious, and in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from keyhole.gather.evidence import Evidence

Matrix = Sequence[Sequence[Fraction]]


def rank(rows: Matrix) -> int:
    """Rank by Gaussian elimination in fractions.

    >>> rank([[Fraction(1), Fraction(1)], [Fraction(2), Fraction(2)]])
    1
    """
    work = [list(row) for row in rows]
    found = 0
    for column in range(len(work[0]) if work else 0):
        pivot = next((i for i in range(found, len(work)) if work[i][column]), None)
        if pivot is None:
            continue
        work[found], work[pivot] = work[pivot], work[found]
        for i in range(found + 1, len(work)):
            factor = work[i][column] / work[found][column]
            if factor:
                work[i] = [a - factor * b for a, b in zip(work[i], work[found], strict=True)]
        found += 1
    return found


def determined_rows(evidence: Evidence) -> set[int]:
    """Row numbers of the records whose value is determined, by appending each functional and comparing ranks.

    Works on record coordinates: atom columns are written out once per record. Only for single-feature systems.
    """
    found: set[int] = set()
    for system in evidence.systems:
        if len(system.features) != 1:
            continue
        of = system.atoms.of
        rows = []
        for constraint in system.constraints:
            if constraint.equation:
                coefficients = system.row(constraint).items()
                rows.append([coefficients.get(int(k), Fraction(0)) for k in of])
        before = rank(rows)
        for r in range(len(of)):
            unit = [Fraction(int(i == r)) for i in range(len(of))]
            if rank([*rows, unit]) == before:
                found.add(r)
    return found
