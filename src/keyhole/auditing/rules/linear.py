"""Exact exposure: a record is exposed iff its functional lies in the row space of the log.

x_i is determined by A x = y for every y iff e_i is in the row space of A; the weights that give e_i, applied to the
answers, give the value. Complete for values that range over all reals and conditions on public columns; sound, not
complete, for bounded or 0/1 columns and private conditions. Reference: [chin1978], [nabar2008].
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import Proof, Status, query_order
from keyhole.auditing.known import Claim, Known, Solved
from keyhole.auditing.matrix import SystemMatrix
from keyhole.auditing.numbers import shown_value
from keyhole.auditing.rules.settle import settled, tells
from keyhole.gather.evidence import Contradiction, System
from keyhole.solve.rowspace.space import plausible


def linear(system: System, known: Known) -> Iterator[Claim | Contradiction]:
    """Records whose value lies in the row space, and dependent queries whose answers are not.

    Cost: one factorisation modulo a prime per system, one exact certificate per exposed record.
    """
    solved = known.solved(system)
    yield from _inconsistent(solved)
    number = known.number(system)
    alone = np.flatnonzero(system.atoms.sizes == 1)
    if not len(alone):
        return
    for column in system.columns:
        features = [f for f, feature in enumerate(system.features) if feature.column == column and feature.power == 1]
        if not features or not known.numeric(column):
            continue
        for k in _candidates(system, solved, alone, features):
            if column in system.present and not system.atoms.holds(system.present[column], k):
                continue
            row = int(system.atoms.first[k])
            held = known.of(row, column)
            if held is not None and held.status is Status.EXPOSED:
                continue
            proof = _whole(number, system, solved, column, k) or _in_a_cell(number, system, solved, k, features)
            if proof is not None:
                blurred = any(solved.by_number[q].judged_as for q in proof.weights)
                grid, ends = known.grid(column), proof.ends(solved.by_number)
                claim = settled(row, column, ends, proof, grid, rounded=blurred)
                # an equation up to dust that hides the steps may fix the value all the same: it is no all-clear
                if tells(claim, grid) or (grid.step is not None and not blurred):
                    yield claim


def linear_proof(number: int, built: SystemMatrix, weights: dict[int, Fraction], target: dict[int, int]) -> Proof:
    """A certificate over matrix rows as a proof over queries."""
    by_query = built.weights(weights)
    offsets = {c.number: c.offset for i in weights for c in [built.constraints[i]]}
    constant = -sum((w * offsets[q] for q, w in by_query.items()), Fraction(0))
    return Proof(number, by_query, target, constant)


def _candidates(system: System, solved: Solved, alone: NDArray[np.int64], features: list[int]) -> list[int]:
    """Single-record atoms whose value may be determined."""
    K = system.atoms.K
    by_cell = sorted({u % K for u in solved.determined if u // K in features and system.atoms.sizes[u % K] == 1})
    if len(features) == 1:
        return by_cell
    label = np.full(solved.built.matrix.K, -1, dtype=np.int64)  # sums over cells: all of them screened at once
    for f in features:
        guard = system.features[f].guard
        use = alone if guard is None else alone[system.atoms.mask(guard)[alone]]
        label[f * solved.built.stride + use] = use
    whole = plausible(solved.space, label, K)
    cells = set(by_cell)
    return [k for k in alone.tolist() if whole[k] or k in cells]


def _whole(number: int, system: System, solved: Solved, column: str, k: int) -> Proof | None:
    """The value itself lies in the row space."""
    target = system.value_of(column, k)
    if target is None:
        return None
    built, space = solved.built, solved.space
    if len(target) == 1:
        weights = space.weights(built.column(next(iter(target))))
    else:
        weights = space.express({built.column(u): c for u, c in target.items()})
    return None if weights is None else linear_proof(number, built, weights, target)


def _in_a_cell(number: int, system: System, solved: Solved, k: int, features: list[int]) -> Proof | None:
    """x*1[x in cell] is determined and is not zero: then it is x."""
    for f in features:
        unknown = f * system.atoms.K + k
        if unknown not in solved.determined:
            continue
        weights = solved.space.weights(solved.built.column(unknown))
        if weights is None:
            continue
        proof = linear_proof(number, solved.built, weights, {unknown: 1})
        ends = proof.ends(solved.by_number)
        if ends is not None and (ends[0] > 0 or ends[1] < 0):
            return proof
    return None


def _inconsistent(solved: Solved) -> Iterator[Contradiction]:
    """Dependent queries must have dependent answers."""
    built = solved.built
    for dependency in solved.space.dependencies():
        lo = hi = Fraction(0)
        unknown = False
        for i, weight in dependency.items():
            said = built.constraints[i]
            if said.lo is None or said.hi is None:
                unknown = True
                break
            ends = (weight * built.scales[i] * said.lo, weight * built.scales[i] * said.hi)
            lo, hi = lo + min(ends), hi + max(ends)
        if not unknown and not lo <= 0 <= hi:
            names = tuple(sorted((built.constraints[i].number for i in dependency), key=query_order))
            listed = ", ".join(map(_named, names))
            if len(names) == 1:
                reason = f"{listed} cannot be true: it is about nobody with a value, so it must be 0 or NULL"
            else:
                reason = f"{listed} cannot all be true: {_combined(solved, dependency, (lo, hi))}"
            yield Contradiction(names, reason)


def _named(number: str) -> str:
    return number if number.startswith("fact") else f"Q{number}"


def _combined(solved: Solved, dependency: dict[int, Fraction], ends: tuple[Fraction, Fraction]) -> str:
    """`Q1 - Q2 - Q4 must be 0, and is -15`: the answers as they were given, with what was taken off them on the right.

    A quotient is no multiple of its answer: then only how far the combination is off is said.
    """
    built = solved.built
    rows = [(built.constraints[i], weight * built.scales[i]) for i, weight in dependency.items()]
    rows.sort(key=lambda pair: query_order(pair[0].number))
    if any(not row.scale for row, _ in rows):
        return f"a combination that must be 0 is {shown_value(ends):.12g}"
    one = rows[0][1] * rows[0][0].scale
    must = sum((w * row.offset for row, w in rows), Fraction(0)) / one
    said = ""
    for row, w in rows:
        times = w * row.scale / one
        factor = "" if abs(times) == 1 else f"{abs(times)} × "
        said += f"{'' if not said else ' - ' if times < 0 else ' + '}{factor}{_named(row.number)}"
    lo, hi = sorted(end / one + must for end in ends)
    return f"{said} must be {float(must):.12g}, and is {shown_value((lo, hi)):.12g}"
