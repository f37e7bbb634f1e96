"""Extreme counts: a count of the whole group proves everybody's category, a count of zero rules it out for everybody.

Each record lies in exactly one private cell. A count (or weighted count) that is as large as the cells still possible
allow forces every matching record into the cells that make it so; likewise for the smallest. Repeated until nothing
changes, since what is ruled out by one count may make another one extreme.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import Proof, Status, query_order
from keyhole.auditing.known import Claim, Known
from keyhole.auditing.rules.linear import linear_proof
from keyhole.gather.evidence import Constraint, Contradiction, System
from keyhole.model.cells import Cell, Piece, find_ends, find_only_value
from keyhole.model.predicate import Scalar
from keyhole.model.prior import Knowledge, Prior
from keyhole.model.schema import Column

WHOLE = "the count is as large as it can be: everybody it matches is counted"
NONE = "the count is as small as it can be: nobody it matches is counted"
SET_ASIDE = "with those set aside of whom the others tell, "
MAX_PAIRS = 300  # counts up to which all pairs are compared


def counts(system: System, known: Known) -> Iterator[Claim | Contradiction]:
    """Records whose category or range follows from extreme counts, or from determined indicators."""
    number = known.number(system)
    if not system.partitions or number in known.counted:
        return  # it looks at answers alone, and they do not change
    known.counted.add(number)
    solved, possible = known.solved(system), Possible(system)
    for unknown in sorted(solved.determined):
        f, k = divmod(unknown, system.atoms.K)
        if system.features[f].column is not None or system.atoms.sizes[k] != 1:
            continue
        weights = solved.space.weights(solved.built.column(unknown))
        if weights is None:
            continue
        proof = linear_proof(number, solved.built, weights, {unknown: 1})
        said = proof.ends(solved.by_number)
        if said is not None and (said[0] > 0 or said[1] < 1):  # an interval that excludes the other value
            possible.indicator(f, k, holds=said[0] > 0, proof=proof)
    _extremes(possible, number)
    yield from possible.contradictions
    yield from _ruled_out(possible, known.knowledge)


class Possible:
    """Which private cells are still possible for each atom. `possible[g, k]`: indicator group g for atom k.

    Groups come in families: of the cells of one column, or of columns that some condition ties. Each record lies in one
    group of every family.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self._group: dict[int, int] = {}  # of each indicator
        self.groups: list[tuple[tuple[Cell, ...], ...]] = []
        self.starts: list[int] = []  # of the families
        indicators = [f for f, feature in enumerate(system.features) if feature.column is None]
        parts = {part.column.name: part for part in system.partitions}
        for names in dict.fromkeys(system.features[f].conditioned for f in indicators):
            self.starts.append(len(self.groups))
            taken: set[tuple[Cell, ...]] = set()
            for f in indicators:
                if system.features[f].conditioned == names:
                    self._group[f] = len(self.groups)
                    self.groups.append(system.features[f].cells)
                    taken.update(system.features[f].cells)
            rest: dict[tuple[bool, ...], list[tuple[Cell, ...]]] = {}
            for cell in product(*(parts[name].cells for name in names)):
                if cell not in taken:
                    rest.setdefault(tuple(c.null for c in cell), []).append(cell)
            self.groups += [tuple(cells) for cells in rest.values()]
        K = system.atoms.K
        self.possible: NDArray[np.bool_] = np.ones((len(self.groups), K), dtype=np.bool_)
        present = {name: system.atoms.mask(where) for name, where in system.present.items()}
        everybody = np.ones(K, dtype=np.bool_)
        for g, group in enumerate(self.groups):
            for each in group[0]:
                at = present.get(each.column, everybody)
                self.possible[g] &= ~at if each.null else at
        self.before = self.possible.copy()
        self.proofs: dict[tuple[int, int], list[Proof]] = {}  # by family and atom
        self.contradictions: list[Contradiction] = []

    @property
    def consistent(self) -> bool:
        """Does everybody have a group left in every family?"""
        return not self.starts or bool(np.logical_or.reduceat(self.possible, self.starts, axis=0).all())

    def family(self, number: int) -> slice:
        """The groups of a family."""
        return slice(self.starts[number], [*self.starts, len(self.groups)][number + 1])

    def ends(self, table: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The least and the greatest coefficient that each atom may still have in each family."""
        low = np.minimum.reduceat(np.where(self.possible, table, table.max(initial=0)), self.starts, axis=0)
        high = np.maximum.reduceat(np.where(self.possible, table, table.min(initial=0)), self.starts, axis=0)
        return low, high

    def by_family(self, found: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Does something hold of a group of each family, atom by atom?"""
        if not self.starts:
            return np.zeros((0, found.shape[1]), dtype=np.bool_)
        told: NDArray[np.bool_] = np.logical_or.reduceat(found, self.starts, axis=0)
        return told

    def by_group(self, ends: NDArray[Any]) -> NDArray[Any]:
        """Numbers of families as those of their groups."""
        return np.repeat(ends, np.diff([*self.starts, len(self.groups)]), axis=0)

    def cells_of(self, name: str, k: int, left: NDArray[np.bool_]) -> set[Cell]:
        """The cells of one column that are left to an atom; none if no count is about it."""
        mine = (group for g, group in enumerate(self.groups) if left[g, k])
        return {cell for group in mine for joint in group for cell in joint if cell.column == name}

    def proof(self, number: int, row: Constraint, touched: NDArray[np.bool_], rule: str) -> Proof:
        """Why a count is extreme: the count itself, and whatever narrowed the people it looks at before."""
        told = list(self._before(touched))
        before = {q for p in told for q in p.weights}
        ordered = sorted({row.number, *before}, key=query_order)
        said = f"{SET_ASIDE}{rule}" if before else rule
        counts = (*_counts(told), {row.number: Fraction(1)})
        return Proof(number, dict.fromkeys(ordered, Fraction(1)), rule=said, counts=counts)

    def impossible(self, row: Constraint, least: int, most: int, scale: Fraction, touched: NDArray[np.bool_]) -> bool:
        """Note a count that is not between the least and the most it can be, or not a whole number."""
        assert row.lo is not None
        assert row.hi is not None
        if row.lo * scale > most or row.hi * scale < least:
            before = {q for p in self._before(touched) for q in p.weights}
            names = tuple(sorted({row.number, *before}, key=query_order))
            told = Fraction(row.lo + row.offset)
            lowest, highest = least / scale + row.offset, most / scale + row.offset
            ends = f"between {_plain(lowest)} and {_plain(highest)}"
            reason = f"Q{row.number} was answered {_plain(told)}, but it must be {ends}"
            self.contradictions.append(Contradiction(names, reason, reducible=len(names) > 1))
            return True
        if row.lo == row.hi and (row.lo * scale).denominator != 1:
            reason = f"Q{row.number} counts people, and {_plain(row.lo + row.offset)} is not a number of people"
            self.contradictions.append(Contradiction((row.number,), reason))
            return True
        return False

    def _before(self, touched: NDArray[np.bool_]) -> Iterator[Proof]:
        """What narrowed some families of some atoms."""
        return (p for at, proofs in self.proofs.items() if touched[at] for p in proofs)

    def indicator(self, feature: int, k: int, *, holds: bool, proof: Proof) -> None:
        """A single record's indicator is determined by the rank test."""
        g = self._group[feature]
        family = bisect_right(self.starts, g) - 1
        near = self.family(family)
        keep = np.zeros(near.stop - near.start, dtype=np.bool_)
        keep[g - near.start] = True
        after = self.possible[near, k] & (keep if holds else ~keep)
        if (after != self.possible[near, k]).any():
            self.possible[near, k] = after
            self.proofs.setdefault((family, k), []).append(proof)

    def coefficients(self, constraint: Constraint) -> tuple[NDArray[Any], Fraction]:
        """(integer coefficient of each group on each atom, what the constraint was multiplied by, above 0)."""
        made = self.system.row(constraint)
        table: NDArray[Any] = np.zeros((len(self.groups), made.count), dtype=object if made.wide else np.int64)
        for f, (at, values) in made.blocks().items():
            table[self._group[f], at] = values
        return (table, made.scale) if made.scale > 0 else (-table, -made.scale)


def _extremes(ruling: Possible, number: int) -> None:
    """Narrow `ruling` by every extreme count of the system, until nothing changes; impossible counts are noted."""
    system = ruling.system
    counted = [
        c
        for c in system.constraints
        if c.equation
        and c.lo is not None
        and c.hi is not None
        and c.parts
        and all(system.features[p.feature].column is None for p in c.parts)
    ]
    tables = {row.number: ruling.coefficients(row) for row in counted}
    _nested(ruling, counted, tables)
    sizes = system.atoms.sizes
    changed = not ruling.contradictions
    while changed:
        changed = False
        for row in counted:
            table, scale = tables[row.number]
            possible = ruling.possible
            if not ruling.consistent:
                return  # contradictory answers: nothing more may be concluded
            low, high = ruling.ends(table)
            least, most = int((sizes * low).sum()), int((sizes * high).sum())
            assert row.lo is not None
            assert row.hi is not None
            touched = ruling.by_family(table != 0)
            if ruling.impossible(row, least, most, scale, touched):
                return
            for end, extreme, rule in ((row.lo * scale >= most, high, WHOLE), (row.hi * scale <= least, low, NONE)):
                after = possible & (table == ruling.by_group(extreme)) if end else possible
                hit = np.argwhere(ruling.by_family(after != possible)).tolist()
                if hit:
                    proof = ruling.proof(number, row, touched, rule)
                    ruling.possible = possible = after
                    changed = True
                    for family, k in hit:
                        ruling.proofs.setdefault((family, k), []).append(proof)


def _nested(ruling: Possible, counted: list[Constraint], tables: dict[str, tuple[NDArray[Any], Fraction]]) -> None:
    """A count over part of what another one counts cannot be larger. Pairs are compared while they are few."""
    few = counted[:MAX_PAIRS]
    if not few:
        return
    each = [ruling.ends(tables[row.number][0]) for row in few]
    scales = [float(tables[row.number][1]) for row in few]
    greatest = np.array([high.sum(axis=0).astype(np.float64) / p for (_, high), p in zip(each, scales, strict=True)])
    for a, most in zip(few, greatest, strict=True):
        assert a.hi is not None
        near = (greatest <= most + 1e-6 * np.abs(most) + 1e-6).all(axis=1)  # nobody can count more in it
        for b in (few[i] for i in np.flatnonzero(near)):
            (whole, p), (part, q) = tables[a.number], tables[b.number]
            assert b.lo is not None
            if a is b or b.lo <= a.hi or not _covers(whole, p, part, q, ruling):
                continue
            ruling.contradictions.append(
                Contradiction(
                    (a.number, b.number),
                    f"Q{a.number} and Q{b.number} cannot both be true: one counts a part of what the other counts",
                )
            )


def _covers(whole: NDArray[Any], p: Fraction, part: NDArray[Any], q: Fraction, ruling: Possible) -> bool:
    """whole / p >= part / q wherever a record can be."""
    left = q / p
    beyond, _ = ruling.ends(whole * left.numerator - part * left.denominator)
    return bool((beyond.sum(axis=0) >= 0).all())


def _ruled_out(ruling: Possible, knowledge: Knowledge) -> Iterator[Claim]:
    """A claim for every record of an atom that lost some of its cells."""
    system = ruling.system
    if not ruling.proofs:
        return
    order = np.argsort(system.atoms.of, kind="stable")
    starts = np.concatenate([[0], np.cumsum(system.atoms.sizes)])
    told: dict[tuple[object, ...], list[Claim]] = {}  # by what is left, and why
    for family, k in sorted(ruling.proofs, key=lambda at: at[::-1]):
        proofs, near = ruling.proofs[family, k], ruling.family(family)
        left = (ruling.possible[near, k].tobytes(), ruling.before[near, k].tobytes())
        key = (family, *left, *map(id, proofs))
        if key not in told:
            told[key] = list(_claims(ruling, family, k, _together(proofs), knowledge))
        rows = order[starts[k] : starts[k + 1]].tolist() if told[key] else []
        yield from (replace(claim, row=int(r)) for claim in told[key] for r in rows)


def _claims(ruling: Possible, family: int, k: int, proof: Proof, knowledge: Knowledge) -> Iterator[Claim]:
    """What is left of each column of a family to the records of an atom, where that is news."""
    names = {cell.column for cell in ruling.groups[ruling.starts[family]][0]}
    for part in ruling.system.partitions:
        if part.column.name not in names:
            continue
        still, was = (ruling.cells_of(part.column.name, k, left) for left in (ruling.possible, ruling.before))
        if still == was or not still or any(c.null for c in still):
            continue
        kept = [c for c in part.cells if c in still]
        lost = [c for c in part.cells if c in was and c not in still]
        yield left_of_cells(-1, part.column, kept, lost, proof, knowledge.prior(part.column.name))


def _together(proofs: Sequence[Proof]) -> Proof:
    """One proof of all that several say."""
    if len(proofs) == 1:
        return proofs[0]
    used = {q: w for p in proofs for q, w in p.weights.items()}
    ordered = dict(sorted(used.items(), key=lambda pair: query_order(pair[0])))
    rule = next((p.rule for p in proofs if p.rule), WHOLE)
    return Proof(proofs[0].system, ordered, rule=rule, counts=_counts(proofs))


def _counts(proofs: Iterable[Proof]) -> tuple[Mapping[str, Fraction], ...]:
    """The sums of counts that proofs rest on, each once; an indicator is one too."""
    found = (row for p in proofs for row in (p.counts if p.rule else (p.weights,)))
    return tuple({frozenset(row.items()): row for row in found}.values())


def _plain(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):g}"


def left_of_cells(row: int, column: Column, kept: list[Cell], lost: list[Cell], proof: Proof, prior: Prior) -> Claim:
    """What is left: one value of the column's kind and step is exposed, more are a range or a list."""
    pieces = [p for cell in kept for p in cell.pieces]
    left = [find_only_value(p, column, prior) for p in pieces]
    if len(pieces) == 1 and left[0] is not None:
        value = left[0]
        end = Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None
        return Claim(row, column.name, Status.EXPOSED, value, end, end, proof)
    lo, hi = _hull(pieces, column, prior)
    excluded = tuple(v for cell in lost for p in cell.pieces if (v := find_only_value(p, column, prior)) is not None)
    allowed = tuple(v for v in left if v is not None)
    whole: tuple[Scalar, ...] = allowed if len(allowed) == len(pieces) else ()
    return Claim(row, column.name, Status.INFERRED, None, lo, hi, proof, excluded=excluded, allowed=whole)


def _hull(pieces: list[Piece], column: Column, prior: Prior) -> tuple[Decimal | None, Decimal | None]:
    """The smallest interval around numeric pieces; None where unbounded or not a number."""
    lows, highs = zip(*(find_ends(p, column, prior) for p in pieces), strict=True)
    low = [end for end in lows if end is not None]
    high = [end for end in highs if end is not None]
    return (min(low) if len(low) == len(lows) else None), (max(high) if len(high) == len(highs) else None)
