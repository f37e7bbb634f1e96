"""Small groups whose total is determined.

Finding every such group is hard in general (it is a search for sparse vectors in a row space). This is a heuristic
that tests what an analyst would: atoms, the queries themselves, differences of nested queries, and reduced rows. Each
group it reports is proved; it may miss some.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import numpy as np

from keyhole.auditing.base import Group, Proof
from keyhole.auditing.known import Known, Rule
from keyhole.auditing.matrix import SystemMatrix
from keyhole.auditing.rules.settle import settled
from keyhole.basis.bits import unpack
from keyhole.gather.evidence import System
from keyhole.model.grid import Grid
from keyhole.solve.rowspace import RowSpace

MAX_PAIRS = 2_000  # queries up to which all pairs are compared

Combination = dict[int, Fraction]


def groups(size: int) -> Rule:
    """The rule that reports groups of 2 to `size` people with a determined total and nobody exposed among them."""

    def rule(system: System, known: Known) -> Iterator[Group]:
        if all(g.proof.system != known.number(system) for g in known.groups):  # what was found does not change
            yield from _determined(system, known, size)

    return rule


def _determined(system: System, known: Known, size: int) -> list[Group]:
    """The groups, smallest first."""
    number, built, space = known.number(system), known.solved(system).built, known.solved(system).space
    found: dict[tuple[str, frozenset[int]], Group] = {}
    for weights, functional in _candidates(system, built, space, size):
        column, atoms, c = _total_of(system, built, functional)
        if column is None:
            continue
        target = {built.unknown(u): 1 for u in functional}
        # sums of this very value: a square that exposes somebody is no number to take off a total
        own = known.identities(column).items()
        alone = {r: p for r, p in own if p.system == number and p.target.keys() <= target.keys()}
        rows = np.flatnonzero(np.isin(system.atoms.of, atoms))
        if len(rows) - sum(1 for r in rows.tolist() if r in alone) > size:
            continue
        by_query = {q: w / c for q, w in built.weights(weights).items()}
        for r in rows.tolist():  # take those out who are exposed anyway
            proof = alone.get(r)
            if proof is not None:
                for q, w in proof.weights.items():
                    by_query[q] = by_query.get(q, Fraction(0)) - w
                for u in proof.target:
                    target.pop(u, None)
        members = frozenset(r for r in rows.tolist() if r not in alone)
        if not 2 <= len(members) <= size or (column, members) in found:
            continue
        by_query = {q: w for q, w in by_query.items() if w}
        offsets = {c.number: c.offset for c in built.constraints}
        constant = -sum((w * offsets[q] for q, w in by_query.items()), Fraction(0))
        proof = Proof(number, by_query, target, constant)
        ends = proof.ends(known.solved(system).by_number)
        value = settled(-1, column, ends, proof, Grid(None)).value  # None where the dust of doubles hides it
        total = value if isinstance(value, Decimal) else None
        found[column, members] = Group((), tuple(sorted(members)), column, total, proof)
    kept: list[Group] = []
    for group in sorted(found.values(), key=lambda g: (len(g.rows), g.rows)):
        if not any(g.column == group.column and set(g.rows) <= set(group.rows) for g in kept):
            kept.append(group)
    return kept


def _candidates(
    system: System, built: SystemMatrix, space: RowSpace, size: int
) -> Iterator[tuple[Combination, dict[int, int]]]:
    for column in space.determined().tolist():
        weights = space.weights(column)
        if weights is not None:
            yield weights, {column: 1}
    for i in range(built.matrix.m):
        functional = dict(built.matrix.items(i)) if _population(system, built, i) <= size + 64 else None
        if functional:
            yield {i: Fraction(1)}, functional
    yield from _differences(system, built, size)
    yield from ((w, f) for w, f in space.reduced_rows(limit=size * len(system.features) + 64) if f)


def _population(system: System, built: SystemMatrix, i: int) -> int:
    parts = built.constraints[i].parts
    return max((int(system.atoms.sizes[system.atoms.mask(p.where)].sum()) for p in parts), default=0)


def _differences(system: System, built: SystemMatrix, size: int) -> Iterator[tuple[Combination, dict[int, int]]]:
    """Q_a - Q_b where b lies inside a and few people are left."""
    plain = [(i, system.plain(c)) for i, c in enumerate(built.constraints)]
    rows = [(i, system.atoms.number(p)) for i, p in plain if p is not None][:MAX_PAIRS]
    if len(rows) < 2:
        return
    bits = system.atoms.table[[p for _, p in rows]]
    sizes = system.atoms.sizes
    for a, (i, _) in enumerate(rows):
        nested = np.flatnonzero(~(bits & ~bits[a]).any(axis=1))
        for b in nested.tolist():
            if b == a:
                continue
            left = bits[a] & ~bits[b]
            if 0 < int(np.bitwise_count(left).sum()) <= size + 64:
                mask = unpack(left, len(sizes))
                yield {i: Fraction(1), rows[b][0]: Fraction(-1)}, {int(k): 1 for k in np.flatnonzero(mask)}


def _total_of(
    system: System, built: SystemMatrix, functional: dict[int, int]
) -> tuple[str | None, list[int], Fraction]:
    """The private column and atoms of which a functional is a multiple of the total, if it is one."""
    values = set(functional.values())
    if len(values) != 1:
        return None, [], Fraction(1)
    unknowns = {built.unknown(c) for c in functional}
    K = system.atoms.K
    atoms = sorted({u % K for u in unknowns})
    names = {system.features[u // K].column for u in unknowns}
    column = next(iter(names))
    if len(names) != 1 or column is None:
        return None, [], Fraction(1)
    whole: set[int] = set()
    for k in atoms:
        whole |= set(system.value_of(column, k) or {})
    return (column, atoms, Fraction(next(iter(values)))) if whole == unknowns else (None, [], Fraction(1))
