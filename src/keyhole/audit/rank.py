"""Exact exposure: a record is exposed iff its functional lies in the row space of the log.

x_i is determined by A x = y for every y iff e_i is in the row space of A; the weights that give e_i, applied to the
answers, give the value. Complete for values that range over all reals and conditions on public columns; sound, not
complete, for bounded or 0/1 columns and private conditions. Reference: [chin1978], [nabar2008].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.audit.base import Exposure, Finding, Group, Proof, Status, outward, query_order, shown_value
from keyhole.audit.extreme import Ruling, extremes, rule_out
from keyhole.audit.groups import determined_groups
from keyhole.audit.matrix import SystemMatrix, system_matrix
from keyhole.audit.variance import equal_values, roots, square_sums
from keyhole.evidence import Contradiction, Evidence, System, Unjudged
from keyhole.query import Aggregate
from keyhole.solve.rowspace import RowSpace
from keyhole.solve.rowspace_screen import plausible
from keyhole.tables import Roster

COMPLETE = (
    "complete for values that range over all reals: nobody else is determined by the queries that were judged; "
    "known ranges, grids and 0/1 values may give away more"
)
SOUND = (
    "sound, not complete: every exposure is proved, but squares of private values and conditions on them are tied to "
    "the values in ways the rank test does not see"
)

_REASONS = {
    Aggregate.MIN: "MIN: needs the order-statistic auditor",
    Aggregate.MAX: "MAX: needs the order-statistic auditor",
    Aggregate.MEDIAN: "MEDIAN: needs the order-statistic auditor",
    Aggregate.VAR: "a variance is judged where SUM or AVG of the same people was asked too",
    Aggregate.PUBLIC: "a public figure under a private condition is not linear in the private values",
}

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Rank:
    """The rank auditor. `group_size` g > 1 also reports groups of up to g people whose total is determined.

    Cost: one factorisation modulo a prime per system, one exact certificate per exposed record.
    """

    group_size: int = 1
    progress: Progress | None = None

    def examine(self, evidence: Evidence, roster: Roster) -> Exposure:
        """Judge the equations of the evidence and the extreme counts among them."""
        drafts: list[Finding] = []
        groups: list[Group] = []
        contradictions = list(evidence.contradictions)
        rank = 0
        for number, system in enumerate(evidence.systems):
            rows = [row for row in system.rows if row.exact and row.entries]
            built = system_matrix(system, rows)
            space = RowSpace(built.matrix, progress=self.progress)
            rank += space.rank
            contradictions.extend(_inconsistent(space, built))
            linear = list(_linear(number, system, built, space, roster))
            drafts.extend(linear)
            known = {(f.row, f.column) for f in linear}
            for f in (
                *equal_values(number, system),
                *square_sums(number, system),
                *_ruled(number, system, built, space, contradictions),
                *_squares(number, system, built, space, evidence),
            ):
                if (f.row, f.column) not in known:
                    known.add((f.row, f.column))
                    drafts.append(f)
            if self.group_size > 1:
                groups.extend(determined_groups(number, system, built, space, self.group_size, linear))
        findings = _named(drafts, roster)
        contradictions.extend(_outside(findings, evidence))
        unjudged = (*evidence.unjudged, *_unjudged(evidence))
        conditional = any(
            system.partitions or any(f.power > 1 for f in system.features) or system.equal
            for system in evidence.systems
        )
        return Exposure(
            evidence,
            roster,
            tuple(findings),
            tuple(_named_groups(groups, roster)),
            rank,
            SOUND if conditional else COMPLETE,
            tuple(sorted(unjudged, key=lambda u: query_order(u.number))),
            tuple(contradictions),
        )


def _linear(number: int, system: System, built: SystemMatrix, space: RowSpace, roster: Roster) -> Iterator[Finding]:
    """Records whose value lies in the row space."""
    alone = np.flatnonzero(system.atoms.sizes == 1)
    if not len(alone):
        return
    determined = {built.unknown(int(c)) for c in space.determined()}
    K = system.atoms.K
    for column in system.columns:
        schema = roster.schema.find(column)
        if schema is None or not schema.kind.numeric:
            continue
        features = [f for f, feature in enumerate(system.features) if feature.column == column and feature.power == 1]
        if not features:
            continue
        if len(features) == 1:
            candidates = sorted(u - features[0] * K for u in determined if u // K == features[0])
            candidates = [k for k in candidates if system.atoms.sizes[k] == 1]
        else:
            candidates = _screened(system, built, space, alone, features, determined)
        for k in candidates:
            if column in system.present and not system.holds(system.present[column], k):
                continue
            finding = _value(number, system, built, space, column, k) or _cell_value(
                number, system, built, space, column, k, features, determined
            )
            if finding is not None:
                yield finding


def _screened(
    system: System,
    built: SystemMatrix,
    space: RowSpace,
    alone: NDArray[np.int64],
    features: list[int],
    determined: set[int],
) -> list[int]:
    """Single-record atoms whose value may be determined: all of them screened at once."""
    K = system.atoms.K
    label = np.full(built.matrix.K, -1, dtype=np.int64)
    for f in features:
        guard = system.features[f].guard
        use = alone if guard is None else alone[system.atoms.mask(guard)[alone]]
        label[f * built.stride + use] = use
    whole = plausible(space, label, K)
    by_cell = {u % K for u in determined if u // K in features}
    return [k for k in alone.tolist() if whole[k] or k in by_cell]


def _value(number: int, system: System, built: SystemMatrix, space: RowSpace, column: str, k: int) -> Finding | None:
    target = system.value_of(column, k)
    if target is None:
        return None
    if len(target) == 1:
        weights = space.weights(built.column(next(iter(target))))
    else:
        weights = space.express({built.column(u): c for u, c in target.items()})
    if weights is None:
        return None
    proof = linear_proof(number, built, weights, target)
    return _exposed(system, column, k, proof)


def _cell_value(
    number: int,
    system: System,
    built: SystemMatrix,
    space: RowSpace,
    column: str,
    k: int,
    features: list[int],
    determined: set[int],
) -> Finding | None:
    """x*1[x in cell] is determined and is not zero: then it is x."""
    for f in features:
        unknown = f * system.atoms.K + k
        if unknown not in determined:
            continue
        weights = space.weights(built.column(unknown))
        if weights is None:
            continue
        proof = linear_proof(number, built, weights, {unknown: 1})
        ends = proof.interval(system)
        if ends is not None and (ends[0] > 0 or ends[1] < 0):
            return _exposed(system, column, k, proof)
    return None


def _squares(
    number: int, system: System, built: SystemMatrix, space: RowSpace, evidence: Evidence
) -> Iterator[Finding]:
    """Records whose square is determined (from variances and SUM(x*x))."""
    if all(feature.power == 1 for feature in system.features):
        return
    for column in space.determined().tolist():
        unknown = built.unknown(column)
        f, k = divmod(unknown, system.atoms.K)
        feature = system.features[f]
        whole = system.value_of(feature.column, k, 2) if feature.column is not None else None
        if feature.power != 2 or system.atoms.sizes[k] != 1 or whole != {unknown: 1}:
            continue
        weights = space.weights(column)
        if weights is not None:
            assert feature.column is not None
            proof = linear_proof(number, built, weights, {unknown: 1})
            finding = roots(proof, system, feature.column, k, evidence.knowledge)
            if finding is not None:
                yield finding


def linear_proof(number: int, built: SystemMatrix, weights: dict[int, Fraction], target: dict[int, int]) -> Proof:
    """A certificate as a proof over queries."""
    by_query = built.weights(weights)
    offsets = {row.number: row.offset for row in built.rows}
    constant = -sum((w * offsets[q] for q, w in by_query.items()), Fraction(0))
    return Proof(number, by_query, target, constant)


def _exposed(system: System, column: str, k: int, proof: Proof) -> Finding:
    ends = proof.interval(system)
    value = shown_value(ends)
    lo = hi = value
    if ends is not None and ends[1] - ends[0] > max(Fraction(1), abs(ends[0])) / 10**9:
        lo, hi = outward(*ends)  # printed answers leave this much room
    return Finding({}, int(system.atoms.first[k]), column, Status.EXPOSED, value, lo, hi, proof)


def _ruled(
    number: int, system: System, built: SystemMatrix, space: RowSpace, contradictions: list[Contradiction]
) -> Iterator[Finding]:
    """Records whose category or range follows from extreme counts, or from determined indicators."""
    if not system.partitions:
        return
    ruling = Ruling(system)
    K = system.atoms.K
    for column in space.determined().tolist():
        unknown = built.unknown(column)
        f, k = divmod(unknown, K)
        if system.features[f].column is not None or system.atoms.sizes[k] != 1:
            continue
        weights = space.weights(column)
        if weights is None:
            continue
        proof = linear_proof(number, built, weights, {unknown: 1})
        ends = proof.interval(system)
        if ends is not None:
            ruling.indicator(f, k, holds=ends[0] > Fraction(1, 2), proof=proof)
    extremes(ruling, number)
    contradictions.extend(ruling.contradictions)
    yield from rule_out(ruling)


def _inconsistent(space: RowSpace, built: SystemMatrix) -> Iterator[Contradiction]:
    """Dependent queries must have dependent answers."""
    for dependency in space.dependencies():
        lo = hi = Fraction(0)
        unknown = False
        for i, weight in dependency.items():
            row = built.rows[i]
            if row.lo is None or row.hi is None:
                unknown = True
                break
            ends = (weight * built.scales[i] * row.lo, weight * built.scales[i] * row.hi)
            lo, hi = lo + min(ends), hi + max(ends)
        if not unknown and not lo <= 0 <= hi:
            names = tuple(sorted((built.rows[i].number for i in dependency), key=query_order))
            off = shown_value((lo, hi))
            if len(names) == 1:
                reason = f"Q{names[0]} cannot be true: it is about nobody with a value, so it must be 0 or NULL"
            else:
                listed = ", ".join("Q" + n for n in names)
                reason = f"{listed} cannot all be true: a combination that must be 0 is {off:.12g}"
            yield Contradiction(names, reason)


def _outside(findings: list[Finding], evidence: Evidence) -> Iterator[Contradiction]:
    """Values that the answers give but the declared range does not allow."""
    for f in findings:
        prior = evidence.prior(f.column)
        if f.status is not Status.EXPOSED or not isinstance(f.value, Decimal) or f.proof is None:
            continue
        low = prior.lo is not None and f.hi is not None and f.hi < prior.lo
        high = prior.hi is not None and f.lo is not None and f.lo > prior.hi
        if low or high:
            names = tuple(sorted(f.proof.weights, key=query_order))
            reason = f"the answers give {f.who}'s {f.column} = {f.value}, outside the declared range"
            yield Contradiction(names, reason)


def _unjudged(evidence: Evidence) -> Iterator[Unjudged]:
    for system in evidence.systems:
        for row in system.rows:
            if not row.exact and row.fact is None:
                yield Unjudged(row.number, evidence.sql_of(row.number), f"{row.judged_as}: needs the interval auditor")
        for fact in system.order:
            yield Unjudged(fact.number, evidence.sql_of(fact.number), _REASONS[fact.query.aggregate])


def _named(drafts: list[Finding], roster: Roster) -> list[Finding]:
    """Put names to row numbers, in the order of the table. What a fact says by itself is not news."""
    drafts = [f for f in drafts if f.proof is None or not all(q.startswith("fact") for q in f.proof.weights)]
    drafts = sorted(drafts, key=lambda f: (f.row, f.column))
    rows = np.array([f.row for f in drafts], dtype=np.int64)
    if not len(rows):
        return []
    labels = roster.labels(rows)
    alone = roster.singled_out(rows)
    return [replace(f, record=r, singled_out=s) for f, r, s in zip(drafts, labels, alone, strict=True)]


def _named_groups(groups: list[Group], roster: Roster) -> list[Group]:
    return [replace(g, records=tuple(roster.labels(np.array(g.rows, dtype=np.int64)))) for g in groups]
