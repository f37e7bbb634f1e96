"""Exact exposure: a record is exposed iff its functional lies in the row space of the log.

x_i is determined by A x = y for every y iff e_i is in the row space of A; the weights that give e_i, applied to the
answers, give the value. Complete for values that range over all reals and conditions on public columns; sound, not
complete, for bounded or 0/1 columns and private conditions. Reference: [chin1978], [nabar2008].

A person with several records: some form on his own values is determined, though none of them is.

He is exposed iff rank(A) > rank(A without his columns): then a total of his, a difference of his, or another sum over
his own records alone follows from the answers. Complete for values that range over all reals, as the test of single
values is; records that the log does not tell apart from other people's carry no form of his alone.

One person is left: a sum over people whose values are known, but for one of them.

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
from keyhole.auditing.known import Claim, Known, Solved
from keyhole.auditing.matrix import SystemMatrix
from keyhole.auditing.numbers import outward, shown_value
from keyhole.auditing.person_form import PersonForm
from keyhole.auditing.rules.settle import settled, tells
from keyhole.gather.evidence import Constraint, Contradiction, System
from keyhole.model.grid import Grid
from keyhole.model.numbers import shorten_fraction
from keyhole.model.predicate import quote_name
from keyhole.model.prior import Prior
from keyhole.model.schema import Role
from keyhole.solve.rowspace.null_vectors import PRIME, forms_on, null_space
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


MOST_CELLS = 4_000_000  # of the matrix, up to which differences of one person's records are searched
BY_RANK = "sums over records of one person were searched by rank alone, without what is declared of the values"
CONDITIONS = "sums over records of one person were not searched beside conditions on private values"
LARGE = "a difference between records of one person was not searched: the log is too large for it"


def persons(system: System, known: Known) -> Iterator[PersonForm]:
    """Forms on one person's own records; single values are the rule of single records."""
    if not known.schema.repeated or known.roster is None or not system.features:
        return
    if system.partitions:
        known.missed.add(CONDITIONS)
        return  # a part of somebody's records under a private condition is no sum over them
    number = known.number(system)
    if any(form.proof.system == number for form in known.forms):
        return  # what was found does not change
    ids = [quote_name(c.name) for c in known.schema.of_role(Role.ID)]
    person = known.roster.classes(ids)
    solved, alone = known.solved(system), _owned(system, person)
    K, summed = system.atoms.K, _summed(system, known)
    several = {p: [f * K + k for f in summed for k in atoms] for p, atoms in alone.items()}
    wide = any(len(unknowns) > 1 for unknowns in several.values())
    searched = wide and solved.built.matrix.m * solved.built.matrix.K <= MOST_CELLS
    if wide and not searched:
        known.missed.add(LARGE)
    if system.order or system.bounds or any(known.evidence.prior(name) != Prior() for name in system.columns):
        known.missed.add(BY_RANK)
    forms = _Forms(system, solved) if searched else None
    for p, unknowns in several.items():
        rows = np.flatnonzero(person == p)
        for target in forms.of(unknowns) if forms is not None else _single(solved, unknowns):
            yield from _claimed(system, known, solved, rows, target)
    if forms is not None and not forms.complete:
        known.missed.add(LARGE)


def _owned(system: System, person: np.ndarray) -> dict[int, list[int]]:
    """Atoms whose records are all one person's, by person."""
    K = system.atoms.K
    least, most = np.full(K, np.iinfo(np.int64).max), np.full(K, -1)
    np.minimum.at(least, system.atoms.of, person)
    np.maximum.at(most, system.atoms.of, person)
    found: dict[int, list[int]] = {}
    for k in np.flatnonzero(least == most).tolist():
        found.setdefault(int(least[k]), []).append(k)
    return found


def _summed(system: System, known: Known) -> list[int]:
    return [
        f
        for f, feature in enumerate(system.features)
        if feature.column is not None and feature.power == 1 and known.numeric(feature.column)
    ]


def _single(solved: Solved, unknowns: list[int]) -> Iterator[dict[int, int]]:
    yield from ({u: 1} for u in unknowns if u in solved.determined)


class _Forms:
    """The null space of the equations, and what it leaves determined of a few unknowns."""

    def __init__(self, system: System, solved: Solved) -> None:
        matrix = solved.built.matrix
        used = np.array([solved.built.column(u) for u in range(system.unknowns)], dtype=np.int64)
        general = np.dtype(object if matrix.general else np.int64)
        rank, self.basis = null_space(matrix.block(np.arange(matrix.m), used, general))
        self.complete = rank == solved.space.rank  # else the prime was unlucky, and a form may be missed

    def of(self, unknowns: list[int]) -> Iterator[dict[int, int]]:
        """Forms on these unknowns: the total first, if it is one."""
        found, every = forms_on(self.basis, unknowns)
        self.complete &= every
        whole = [1] * len(unknowns)
        if found and not (self.basis[unknowns].sum(axis=0) % PRIME).any():
            yield dict(zip(unknowns, whole, strict=True))
        for form in found:
            if form != whole:
                yield {u: c for u, c in zip(unknowns, form, strict=True) if c}


def _claimed(
    system: System,
    known: Known,
    solved: Solved,
    rows: np.ndarray,
    target: dict[int, int],
) -> Iterator[PersonForm]:
    K = system.atoms.K
    built = solved.built
    found = solved.space.express({built.column(u): c for u, c in target.items()})
    if found is None:
        return
    coefficients: dict[int, Fraction] = {}
    names = {system.features[u // K].column for u in target}
    for u, c in target.items():
        for r in rows[system.atoms.of[rows] == u % K].tolist():
            coefficients[r] = Fraction(c)
    if len(coefficients) < 2 or len(names) != 1:
        return  # a single value is found as such
    column = next(iter(names)) or ""
    weights = built.weights(found)
    offsets = {c.number: c.offset for c in built.constraints}
    constant = -sum((w * offsets[q] for q, w in weights.items()), Fraction(0))
    proof = Proof(known.number(system), weights, dict(target), constant)
    claim = settled(-1, column, proof.ends(solved.by_number), proof, Grid(None))
    value, status = claim.value, claim.status
    if not all(solved.by_number[q].exact for q in weights):  # a rounded answer gives a range, however narrow
        value, status = None, Status.INFERRED
    yield PersonForm(tuple(sorted(coefficients)), column, coefficients, value, claim.lo, claim.hi, status, proof)


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
        asked = [
            c
            for c in system.constraints
            if c.parts and (beyond or not c.equation) and all(p.feature == features[0] for p in c.parts)
        ]
        if not asked:  # who is in which class need not be known then
            continue
        told = np.zeros(len(system.atoms.of), dtype=np.bool_)
        told[list(held)] = True
        open_ = np.bincount(system.atoms.of[~told], minlength=system.atoms.K)
        for c in asked:
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
