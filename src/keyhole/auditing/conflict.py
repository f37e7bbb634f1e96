"""Answers and knowledge that no table fits: an irreducible set of them, named.

Weights on rows that make the functional 0 something else (Farkas) prove the conflict. The rows they use are taken out
one after the other, then facts and the ends of columns; whatever the rest is impossible without stays out, and every
set is refuted by weights that are checked in fractions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from keyhole.auditing.base import query_order
from keyhole.auditing.bounded import BoundedSystem
from keyhole.auditing.end_proof import Knowing, known_ends
from keyhole.auditing.learned import narrowed
from keyhole.gather.evidence import Contradiction, Evidence
from keyhole.solve.interval import Polytope
from keyhole.solve.interval.polytope import Weights
from keyhole.solve.interval.simplex import Simplex

MOST_CELLS = 2_000_000  # rows x columns of a conflict up to which it is made irreducible


def conflict(made: BoundedSystem, evidence: Evidence, refuted: Weights) -> Contradiction:
    """The statements, facts and declared ends that cannot all be true. Cost: one walk for each of them."""
    P = made.question.polytope
    rows = sorted(refuted)
    columns = sorted({k for i in rows for k in P.row(i)[0]})
    known = _knowing(made, columns)
    few = len(rows) * len(columns) <= MOST_CELLS
    if few:
        for i in rows:
            fewer = [r for r in rows if r != i]
            if (weights := refutation(P, fewer, columns)) is not None:
                rows = sorted(weights)
        for each in list(known):
            less = [k for k in known if k != each]
            if refutation(_without(made, evidence, columns, less), rows, columns) is not None:
                known = less
    told = any(word == "learned" for word, _ in known)  # what another rule used is named with it, needed or not
    reducible = told or not few
    return Contradiction(_names(made, rows, known), _reason(made, evidence, rows, known), reducible)


def refutation(P: Polytope, rows: list[int], columns: list[int]) -> Weights | None:
    """Weights that refute some rows, checked; None if a table fits them."""
    weights = Simplex(P, rows, columns).infeasible()
    if weights is None:
        return None
    lo, hi = P.bound(weights, None, "lo"), P.bound(weights, None, "hi")
    if not ((lo is not None and lo > 0) or (hi is not None and hi < 0)):
        raise ArithmeticError("a refutation that was built exactly failed its verification; please report this")
    return weights


def _knowing(made: BoundedSystem, columns: Iterable[int]) -> list[Knowing]:
    """All that was known beforehand of the people of a conflict; facts first, so that they are dropped first."""
    atoms = {(made.column(j), made.atom(j)) for j in columns}
    names = sorted({name for name, _ in atoms})
    facts = [
        ("fact", str(b.fact))
        for b in made.system.bounds
        if any(name == b.column and made.system.atoms.holds(b.where, k) for name, k in atoms)
    ]
    told = dict.fromkeys(_which(made, j) for j in columns if made.unknowns[j] in made.learned)
    return [*facts, *told, *((word, name) for name in names for word in ("min", "max"))]


def _which(made: BoundedSystem, j: int) -> Knowing:
    """The claim of another rule about the records of column j: the same for all whom one proof bounds."""
    row, _, _, why = made.learned[made.unknowns[j]].why
    return "learned", str(id(why)) if why.order is not None else str(row)


def _without(made: BoundedSystem, evidence: Evidence, columns: Iterable[int], kept: list[Knowing]) -> Polytope:
    dropped = frozenset(_knowing(made, columns)) - frozenset(kept)
    records = list(made.question.polytope.records)
    for j in columns:
        records[j] = known_ends(made.system, evidence, made.unknowns[j], dropped)
        said = made.learned.get(made.unknowns[j])
        if said is not None and _which(made, j) not in dropped:
            records[j] = narrowed(records[j], said)
    return replace(made.question.polytope, records=tuple(records))


def _names(made: BoundedSystem, rows: list[int], known: list[Knowing]) -> tuple[str, ...]:
    facts = {f"fact {name}" for word, name in known if word == "fact"}
    for j, u in enumerate(made.unknowns):
        if u in made.learned and _which(made, j) in known:
            facts |= made.learned[u].why[3].weights.keys()
    return tuple(sorted({made.constraints[i].number for i in rows} | facts, key=query_order))


def _reason(made: BoundedSystem, evidence: Evidence, rows: list[int], known: list[Knowing]) -> str:
    said = [n if n.startswith("fact") else f"Q{n}" for n in _names(made, rows, known)]
    for word, name in known:
        if word not in ("min", "max"):
            continue
        end: Decimal | None = evidence.prior(name).lo if word == "min" else evidence.prior(name).hi
        if end is not None:
            said.append(f"the {word} of {name}, {end}")
    listed = said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"
    return f"{listed} cannot {'all ' if len(said) > 1 else ''}be true: no table fits"
