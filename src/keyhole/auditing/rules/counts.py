"""Extreme counts: a count of the whole group proves everybody's category, a count of zero rules it out for everybody.

Each record lies in exactly one private cell. A count (or weighted count) that is as large as the cells still possible
allow forces every matching record into the cells that make it so; likewise for the smallest. Repeated until nothing
changes, since what is ruled out by one count may make another one extreme.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
    if not system.partitions:
        return
    number, solved, possible = known.number(system), known.solved(system), Possible(system)
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
    """Which private cells are still possible for each atom. `possible[g, k]`: indicator group g for atom k."""

    def __init__(self, system: System) -> None:
        self.system = system
        joint = list(product(*(p.cells for p in system.partitions)))
        self.features = [f for f, feature in enumerate(system.features) if feature.column is None]
        taken = {cell for f in self.features for cell in system.features[f].cells}
        rest: dict[tuple[bool, ...], list[tuple[Cell, ...]]] = {}
        for cell in joint:
            if cell not in taken:
                rest.setdefault(tuple(c.null for c in cell), []).append(cell)
        self.groups: list[tuple[tuple[Cell, ...], ...]] = [system.features[f].cells for f in self.features]
        self.groups += [tuple(cells) for cells in rest.values()]
        K = system.atoms.K
        self.possible: NDArray[np.bool_] = np.ones((len(self.groups), K), dtype=np.bool_)
        for j, part in enumerate(system.partitions):
            at = system.present.get(part.column.name)
            present = np.ones(K, dtype=np.bool_) if at is None else system.atoms.mask(at)
            for g, cells in enumerate(self.groups):
                self.possible[g] &= ~present if cells[0][j].null else present
        self.before = self.possible.copy()
        self.proofs: dict[int, list[Proof]] = {}
        self.contradictions: list[Contradiction] = []

    def proof(self, number: int, row: Constraint, touched: NDArray[np.bool_], rule: str) -> Proof:
        """Why a count is extreme: the count itself, and whatever narrowed the people it looks at before."""
        before = self._before(touched)
        ordered = sorted({row.number, *before}, key=query_order)
        said = f"{SET_ASIDE}{rule}" if before else rule
        told = [p for k, proofs in self.proofs.items() if touched[k] for p in proofs]
        counts = (*_counts(told), {row.number: Fraction(1)})
        return Proof(number, dict.fromkeys(ordered, Fraction(1)), rule=said, counts=counts)

    def impossible(self, row: Constraint, least: int, most: int, scale: Fraction, touched: NDArray[np.bool_]) -> bool:
        """Note a count that is not between the least and the most it can be, or not a whole number."""
        assert row.lo is not None
        assert row.hi is not None
        if row.lo * scale > most or row.hi * scale < least:
            names = tuple(sorted({row.number, *self._before(touched)}, key=query_order))
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

    def _before(self, touched: NDArray[np.bool_]) -> set[str]:
        return {q for k, proofs in self.proofs.items() if touched[k] for p in proofs for q in p.weights}

    def indicator(self, feature: int, k: int, *, holds: bool, proof: Proof) -> None:
        """A single record's indicator is determined by the rank test."""
        g = self.features.index(feature)
        keep = np.zeros(len(self.groups), dtype=np.bool_)
        keep[g] = True
        after = self.possible[:, k] & (keep if holds else ~keep)
        if (after != self.possible[:, k]).any():
            self.possible[:, k] = after
            self.proofs.setdefault(k, []).append(proof)

    def coefficients(self, constraint: Constraint) -> tuple[NDArray[Any], Fraction]:
        """(integer coefficient of each group on each atom, what the constraint was multiplied by, above 0)."""
        made = self.system.row(constraint)
        table: NDArray[Any] = np.zeros((len(self.groups), made.count), dtype=object if made.wide else np.int64)
        for f, (at, values) in made.blocks().items():
            table[self.features.index(f), at] = values
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
            if not possible.any(axis=0).all():
                return  # contradictory answers: nothing more may be concluded
            low = np.where(possible, table, table.max(initial=0)).min(axis=0)
            high = np.where(possible, table, table.min(initial=0)).max(axis=0)
            least, most = int((sizes * low).sum()), int((sizes * high).sum())
            assert row.lo is not None
            assert row.hi is not None
            touched = (table != 0).any(axis=0)
            if ruling.impossible(row, least, most, scale, touched):
                return
            for end, extreme, rule in ((row.lo * scale >= most, high, WHOLE), (row.hi * scale <= least, low, NONE)):
                after = possible & (table == extreme)
                hit = np.flatnonzero((after != possible).any(axis=0))
                if end and len(hit) and after.any(axis=0).all():
                    proof = ruling.proof(number, row, touched, rule)
                    ruling.possible = possible = after
                    changed = True
                    for k in hit.tolist():
                        ruling.proofs.setdefault(k, []).append(proof)


def _nested(ruling: Possible, counted: list[Constraint], tables: dict[str, tuple[NDArray[Any], Fraction]]) -> None:
    """A count over part of what another one counts cannot be larger. Pairs are compared while they are few."""
    for a in counted[:MAX_PAIRS]:
        for b in counted[:MAX_PAIRS]:
            (whole, p), (part, q) = tables[a.number], tables[b.number]
            assert a.hi is not None
            assert b.lo is not None
            if a is b or b.lo <= a.hi or not _covers(whole, p, part, q, ruling.possible):
                continue
            ruling.contradictions.append(
                Contradiction(
                    (a.number, b.number),
                    f"Q{a.number} and Q{b.number} cannot both be true: one counts a part of what the other counts",
                )
            )


def _covers(whole: NDArray[Any], p: Fraction, part: NDArray[Any], q: Fraction, possible: NDArray[np.bool_]) -> bool:
    """whole / p >= part / q wherever a record can be."""
    left, right = q / p, Fraction(1)
    over = left.denominator
    return bool((whole * int(left * over) >= part * int(right * over))[possible].all())


def _ruled_out(ruling: Possible, knowledge: Knowledge) -> Iterator[Claim]:
    """A claim for every record of an atom that lost some of its cells."""
    system = ruling.system
    touched = sorted(ruling.proofs)
    if not touched:
        return
    order = np.argsort(system.atoms.of, kind="stable")
    starts = np.concatenate([[0], np.cumsum(system.atoms.sizes)])
    for k in touched:
        proofs = ruling.proofs[k]
        proof = proofs[0]
        if len(proofs) > 1:
            used = {q: w for p in proofs for q, w in p.weights.items()}
            ordered = dict(sorted(used.items(), key=lambda pair: query_order(pair[0])))
            rule = next((p.rule for p in proofs if p.rule), WHOLE)
            proof = Proof(proof.system, ordered, rule=rule, counts=_counts(proofs))
        for j, part in enumerate(system.partitions):
            still = {cells[j] for g, group in enumerate(ruling.groups) if ruling.possible[g, k] for cells in group}
            was = {cells[j] for g, group in enumerate(ruling.groups) if ruling.before[g, k] for cells in group}
            if still == was or not still or any(c.null for c in still):
                continue
            kept = [c for c in part.cells if c in still]
            lost = [c for c in part.cells if c in was and c not in still]
            prior = knowledge.prior(part.column.name)
            claim = left_of_cells(-1, part.column, kept, lost, proof, prior)
            for r in order[starts[k] : starts[k + 1]].tolist():
                yield replace(claim, row=int(r))


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
