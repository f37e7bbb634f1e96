"""A person with several records: some form on his own values is determined, though none of them is.

He is exposed iff rank(A) > rank(A without his columns): then a total of his, a difference of his, or another sum over
his own records alone follows from the answers. Complete for values that range over all reals, as the test of single
values is; records that the log does not tell apart from other people's carry no form of his alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from keyhole.auditing.base import Proof, Status
from keyhole.auditing.known import Known, Solved
from keyhole.auditing.person_form import PersonForm
from keyhole.auditing.rules.settle import settled
from keyhole.gather.evidence import System
from keyhole.model.grid import Grid
from keyhole.model.predicate import quote_name
from keyhole.model.prior import Prior
from keyhole.model.schema import Role
from keyhole.solve.rowspace.null_vectors import PRIME, forms_on, null_space

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
