"""What one private condition says of another, for certain: containment, and values of one column of which one holds.

Of a column of the record itself: `= a` excludes `= b`, and ranges contain or exclude each other. Of rows: a row that
satisfies more conditions satisfies fewer; never that rows with two values cannot both be there. Rows with a record's
key are rows of its person, where rows were found to name both alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np

from keyhole.model.people import Atom, Tied
from keyhole.model.predicate import TRUE, And, Comparison, Has, Leaf, Membership, Predicate, Scalar, evaluate_leaf
from keyhole.model.prior import Knowledge, Prior
from keyhole.model.schema import Column, Kind, Schema


def ties(atoms: Sequence[Atom], schema: Schema, knowledge: Knowledge) -> tuple[Tied, ...]:
    """Implications between atoms, with the instances that they are about."""
    found: list[Tied] = []
    by_column: dict[str, list[int]] = {}
    by_table: dict[str, list[int]] = {}
    for number, atom in enumerate(atoms):
        if isinstance(atom.leaf, Has):
            by_table.setdefault(atom.leaf.table, []).append(number)
        else:
            by_column.setdefault(atom.leaf.column, []).append(number)
    for name, numbers in by_column.items():
        column = schema.find(name)
        if column is not None:
            found += _of_column(atoms, numbers, column, knowledge.prior(name))
    for table, numbers in by_table.items():
        related = schema.table_named(table)
        found += _of_rows(atoms, numbers, related.keys if related is not None and related.agrees else ())
    return tuple(found)


def exclusive(atoms: Sequence[Atom], schema: Schema) -> tuple[tuple[int, ...], ...]:
    """Sets of atoms of which at most one holds of a record: a column equal to different values."""
    found: dict[str, list[int]] = {}
    for number, atom in enumerate(atoms):
        if isinstance(atom.leaf, Comparison) and atom.leaf.op == "=":
            column = schema.find(atom.leaf.column)
            if column is None or column.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.TEXT):
                continue  # two ways to write one value would exclude each other
            found.setdefault(atom.leaf.column, []).append(number)
    return tuple(tuple(numbers) for numbers in found.values() if len(numbers) > 1)


def _of_column(atoms: Sequence[Atom], numbers: Sequence[int], column: Column, prior: Prior) -> Iterator[Tied]:
    tried = _tried([atoms[i].leaf for i in numbers], column, prior)
    truths = {i: [evaluate_leaf(atoms[i].leaf, v) for v in tried] for i in numbers} if tried else {}
    for i in truths:
        for j in truths:
            if i >= j:
                continue
            plain = all(isinstance(x := atoms[k].leaf, Comparison) and x.op == "=" for k in (i, j))
            pairs = list(zip(truths[i], truths[j], strict=True))
            same = atoms[i].at[atoms[i].at >= 0]
            if all(not a or b for a, b in pairs):
                yield Tied((i, True), (j, True), (same, same))
            if all(not b or a for a, b in pairs):
                yield Tied((j, True), (i, True), (same, same))
            if not plain and not any(a and b for a, b in pairs):
                yield Tied((i, True), (j, False), (same, same))
            if all(a or b for a, b in pairs):
                yield Tied((i, False), (j, True), (same, same))


def _tried(leaves: Sequence[Leaf], column: Column, prior: Prior) -> list[Scalar]:
    """Values of which every cell that the conditions cut has one; none where that cannot be said."""
    constants: list[Scalar] = []
    for leaf in leaves:
        if isinstance(leaf, Comparison):
            constants.append(leaf.value)
        elif isinstance(leaf, Membership):
            constants += leaf.values
        else:
            return []
    if column.kind.numeric:
        if not all(isinstance(c, int | Decimal) for c in constants):
            return []
        cuts = sorted({Decimal(c) for c in constants})  # type: ignore[arg-type]
        if column.kind is Kind.INTEGER:
            return [v for c in cuts for v in (c - 1, c, c + 1) if prior.admits(v)]
        between = [(a + b) / 2 for a, b in itertools.pairwise(cuts)]
        return [v for v in (cuts[0] - 1, *cuts, *between, cuts[-1] + 1) if prior.step is not None or prior.admits(v)]
    if column.kind is Kind.BOOLEAN:
        return [True, False]
    ordered = any(isinstance(leaf, Comparison) and leaf.op not in ("=", "<>") for leaf in leaves)
    if column.kind is not Kind.TEXT or ordered:
        return []
    if prior.values is not None:
        return list(prior.values)
    texts = [str(c) for c in dict.fromkeys(constants)]
    return [*texts, "".join(texts) + " and other"]


def _of_rows(atoms: Sequence[Atom], numbers: Sequence[int], agreed: Sequence[tuple[str, str]]) -> Iterator[Tied]:
    """Fewer conditions on the same rows, or on more: joined on fewer keys, or on the person's instead of the record's.

    A row with a key of `agreed` other than the first, which names the person, names one record by all of them.
    """
    records = {own for own, _ in agreed[1:]}
    for i in numbers:
        for j in numbers:
            a, b = atoms[i].leaf, atoms[j].leaf
            assert isinstance(a, Has)
            assert isinstance(b, Has)
            if i == j or not _parts(b.where) <= _parts(a.where):
                continue
            by_record = any(own in records for _, own in a.on) and {own for _, own in b.on} <= {o for o, _ in agreed}
            if set(b.on) <= set(a.on) or by_record:
                both = (atoms[i].at >= 0) & (atoms[j].at >= 0)
                pairs = np.unique(np.stack([atoms[i].at[both], atoms[j].at[both]]), axis=1)
                yield Tied((i, True), (j, True), (pairs[0], pairs[1]))


def _parts(where: Predicate) -> frozenset[Predicate]:
    return frozenset(where.parts) if isinstance(where, And) else frozenset((where,)) - {TRUE}
