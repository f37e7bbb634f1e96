"""Answers and knowledge that no table fits: found where ranges are searched, said, and made irreducible.

A sum that is on no grid of its column; rows and bounds that no table fits, by the weights that show it; and the
deletion filter of infeasible systems (Chinneck & Dravnieks 1991) over statements, facts and declared ends. Rules that
look at order, counts or several proofs name all that they used; here the log is judged again with one of these less,
and what is refuted all the same stays smaller. Every set that is named was refuted by the rules themselves; that none
of it can be left out is said only if each smaller set was shown to have a table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, gcd, lcm

import numpy as np

from keyhole.auditing.base import Exposure, query_order
from keyhole.auditing.bounded import BoundedSystem
from keyhole.auditing.end_proof import Knowing, known_ends
from keyhole.auditing.learned import narrowed
from keyhole.gather.evidence import Contradiction, Evidence
from keyhole.model.prior import Fact, Knowledge, Prior
from keyhole.model.transcript import Transcript
from keyhole.solve.interval import Polytope
from keyhole.solve.interval.polytope import Weights
from keyhole.solve.interval.simplex import Simplex


def off_grid(made: BoundedSystem) -> Iterator[Contradiction]:
    """The answers that the steps of their columns cannot meet. Cost: a pass over the entries of the rows."""
    P, grids = made.question.polytope, made.question.grids
    stepped = np.array([grid.step is not None for grid in grids], dtype=np.bool_)
    for i, c in enumerate(made.constraints):
        if not stepped[P.columns[P.start[i] : P.start[i + 1]]].all():
            continue
        (lo, hi), at = P.rows[i], slice(int(P.start[i]), int(P.start[i + 1]))
        columns, entries = P.columns[at].tolist(), P.entries[at].tolist()
        if lo is None or hi is None or not columns:
            continue
        people: dict[int, list[tuple[int, int]]] = {}  # by grid, which columns share: the entry and the size of each
        for k, a in zip(columns, entries, strict=True):
            people.setdefault(id(grids[k]), []).append((a, P.sizes[k]))
        held = {id(grids[k]): grids[k] for k in columns}
        shift = sum((grid.base * sum(a * c for a, c in people[g]) for g, grid in held.items()), Fraction(0))
        unit = _divisor([gcd(*(a for a, _ in people[g])) * grid.step for g, grid in held.items() if grid.step])
        if ceil((lo - shift) / unit) > floor((hi - shift) / unit):
            name = c.number if c.number.startswith("fact") else f"Q{c.number}"
            names = " and ".join(sorted({made.column(k) for k in columns}))
            yield Contradiction((c.number,), f"{name} cannot be true: no values of {names}, in its steps, add up to it")


def _divisor(parts: list[Fraction]) -> Fraction:
    """The greatest number of which all are multiples.

    >>> _divisor([Fraction(1, 2), Fraction(3, 4)])
    Fraction(1, 4)
    """
    over = lcm(*(part.denominator for part in parts))
    return Fraction(gcd(*(int(part * over) for part in parts)), over)


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


Again = Callable[[Transcript, Knowledge], Exposure]
SECONDS = 5.0  # for all contradictions of a log
MOST = 40  # statements, facts and ends of one
MAYBE = "a smaller set may do"
END_WORDS = {"min": "lo", "max": "hi", "step": "step"}


@dataclass(frozen=True, slots=True)
class Member:
    """A statement or a fact by its number, or a declared end of a column: ("min", "pay")."""

    word: str
    name: str

    def said(self, knowledge: Knowledge) -> str:
        """In words.

        >>> from decimal import Decimal
        >>> Member("min", "pay").said(Knowledge({"pay": Prior(lo=Decimal(0))}))
        'the min of pay, 0'
        """
        if self.word in END_WORDS:
            return f"the {self.word} of {self.name}, {getattr(knowledge.prior(self.name), END_WORDS[self.word])}"
        return self.name if self.word == "fact" else f"Q{self.name}"


def irreducible(found: Exposure, again: Again) -> Exposure:
    """The same verdict, its contradictions made smaller. Cost: one short audit of the named statements per member."""
    if not any(c.reducible for c in found.contradictions):
        return found
    until = time.monotonic() + SECONDS
    made = [_smaller(c, found.evidence, again, until) if c.reducible else c for c in found.contradictions]
    return replace(found, contradictions=tuple(dict.fromkeys(made)))


def _smaller(said: Contradiction, evidence: Evidence, again: Again, until: float) -> Contradiction:
    members = list(_members(said, evidence))
    if len(members) > MOST or not _judged(members, evidence, again)[0]:
        return replace(said, reason=f"{said.reason} ({MAYBE})", reducible=False)
    kept, shown = _filtered(members, evidence, again, until)
    if not shown and len(kept) < len(members):  # the tables that fit fewer answers are found sooner
        kept, shown = _filtered(kept, evidence, again, until)
    names = tuple(sorted((m.name for m in kept if m.word not in END_WORDS), key=query_order))
    return Contradiction(names, _reason_of(kept, evidence.knowledge, shown=shown))


def _filtered(members: list[Member], evidence: Evidence, again: Again, until: float) -> tuple[list[Member], bool]:
    """What is left of a refuted set, and whether a table was shown for each set with one less."""
    shown = True
    for each in tuple(members):
        if time.monotonic() > until:
            return members, False
        fewer = [m for m in members if m != each]
        refuted, fits = _judged(fewer, evidence, again)
        members, shown = (fewer, shown) if refuted else (members, shown and fits)
    return members, shown


def _members(said: Contradiction, evidence: Evidence) -> Iterator[Member]:
    """Statements, then facts, then ends: the order in which they are left out."""
    yield from (Member("query", q) for q in said.queries if not q.startswith("fact "))
    yield from (Member("fact", f"fact {n}") for n in range(1, len(evidence.knowledge.facts) + 1))
    for column, prior in evidence.knowledge.priors.items():
        ends = [word for word in ("step", "max", "min") if getattr(prior, END_WORDS[word]) is not None]
        yield from (Member(word, column) for word in ends)


def _judged(members: Sequence[Member], evidence: Evidence, again: Again) -> tuple[bool, bool]:
    """(are they refuted, is a table shown that fits them) by an audit of these alone."""
    asked = {m.name for m in members if m.word == "query"}
    log = Transcript(tuple(e for e in evidence.transcript.entries if e.number in asked), ())
    known = _knowledge_of(members, evidence.knowledge)
    if not log.entries:
        ends = [m for m in members if m.word in END_WORDS]
        return False, sum(fact != Fact(fact.where, fact.column) for fact in known.facts) + len(ends) <= 1
    found = again(log, known)
    return bool(found.contradictions), found.complete


def _knowledge_of(members: Sequence[Member], knowledge: Knowledge) -> Knowledge:
    """What is known without the facts and ends that are left out; a fact that says nothing keeps the place of one."""
    kept = {(m.word, m.name) for m in members}
    facts = tuple(
        fact if ("fact", f"fact {n}") in kept else Fact(fact.where, fact.column)
        for n, fact in enumerate(knowledge.facts, 1)
    )
    return Knowledge({name: _prior(name, prior, kept) for name, prior in knowledge.priors.items()}, facts)


def _prior(name: str, prior: Prior, kept: set[tuple[str, str]]) -> Prior:
    """A prior without some of its ends; a minimum that the steps are counted from stays with them."""
    step = prior.step if ("step", name) in kept else None
    counted = step is not None and prior.lo is not None and prior.lo % step != 0
    lo = prior.lo if counted or ("min", name) in kept else None
    return replace(prior, lo=lo, hi=prior.hi if ("max", name) in kept else None, step=step)


def _reason_of(members: Sequence[Member], knowledge: Knowledge, *, shown: bool) -> str:
    numbered = [m for m in members if m.word not in END_WORDS]
    order = [*sorted(numbered, key=lambda m: query_order(m.name)), *(m for m in members if m not in numbered)]
    said = [m.said(knowledge) for m in order]
    listed = said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"
    maybe = "" if shown else f" ({MAYBE})"
    return f"{listed} cannot {'all ' if len(said) > 1 else ''}be true: no table fits{maybe}"
