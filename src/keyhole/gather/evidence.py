"""Transcript and knowledge in mathematics: lo <= A x <= hi over atoms.

Atoms are classes of records that every query of the log treats alike. The unknowns of a `System` are the
(feature, atom) pairs, in feature-major order: unknown number f*K + k is the total of feature f over atom k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from keyhole.basis import Atoms, Row, row
from keyhole.errors import CannotHonour
from keyhole.model.cells import Partition
from keyhole.model.forms import UNIT, Feature, Part
from keyhole.model.people import Counting
from keyhole.model.predicate import Predicate
from keyhole.model.prior import Knowledge, Prior
from keyhole.model.query import Query
from keyhole.model.transcript import Answer, Entry, Noise, Transcript

ROUNDED = "a rounded answer"
GIVEN = "an interval"  # an answer whose ends are possible answers themselves
OF_TABLE = "table "  # before the name of a table, where a warning is about that and not about a query


@dataclass(frozen=True, slots=True)
class Constraint:
    """One linear statement: `lo <= sum of parts <= hi`, where answer * scale - offset is the sum of parts.

    `exact` constraints are equations (up to the stated radius of floating-point sums); the others are intervals,
    one-sided or noisy. `judged_as` names why one is not exact. Of these a table surely gives the answer only if it lies
    inside the ends by more than `edge`; None: on them too.
    """

    number: str
    parts: tuple[Part, ...]
    scale: Fraction
    offset: Fraction
    lo: Fraction | None
    hi: Fraction | None
    noise: Noise | None = None
    exact: bool = True
    judged_as: str = ""
    fact: int | None = None
    edge: Fraction | None = Fraction(0)

    @property
    def equation(self) -> bool:
        """Is it an equation up to a radius: of floating-point sums, of rounding, or of an answer with two ends?"""
        return self.exact or (self.judged_as in (ROUNDED, GIVEN) and self.lo is not None and self.hi is not None)


@dataclass(frozen=True, slots=True)
class OrderFact:
    """A MIN, MAX, quantile or VAR answer over the records of one condition: carried for the auditors that judge them.

    `where` is None under a private condition. The statistic of the column itself lies in [lo, hi] (None: unbounded);
    `exact`: the answer says this, and nothing more.
    """

    number: str
    query: Query
    where: Predicate | None
    answer: Answer | None
    lo: Fraction | None = None
    hi: Fraction | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Equal:
    """A variance of zero: everybody under a condition has the same value, the average that `partner` answered."""

    number: str
    partner: str
    column: str
    where: Predicate


@dataclass(frozen=True, slots=True)
class Bound:
    """Known bounds of single records of a system's column: those that satisfy a condition lie in [lo, hi]."""

    column: str
    where: Predicate
    lo: Fraction | None
    hi: Fraction | None
    fact: int


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """The joint linear system of private columns that the log ties together."""

    columns: tuple[str, ...]
    partitions: tuple[Partition, ...]
    features: tuple[Feature, ...]
    atoms: Atoms
    constraints: tuple[Constraint, ...]
    order: tuple[OrderFact, ...] = ()
    bounds: tuple[Bound, ...] = ()
    equal: tuple[Equal, ...] = ()
    present: dict[str, Predicate] = field(default_factory=dict)  # column -> "IS NOT NULL", absent if never NULL

    @property
    def unknowns(self) -> int:
        """Number of columns of A."""
        return len(self.features) * self.atoms.K

    def row(self, constraint: Constraint) -> Row:
        """A row of A."""
        return row(constraint.parts, self.atoms)

    def plain(self, constraint: Constraint) -> Predicate | None:
        """The condition of a constraint that is simply 0/1 on the only feature, else None."""
        if len(self.features) == 1 and len(constraint.parts) == 1:
            part = constraint.parts[0]
            if part.weight is None and (part.factor is UNIT or part.factor == 1):
                return part.where
        return None

    def value_of(self, column: str, atom: int, power: int = 1) -> dict[int, int] | None:
        """The functional "total of `column` over this atom" in unknowns; None if the log never sums the column."""
        K = self.atoms.K
        found = {}
        for f, feature in enumerate(self.features):
            if feature.column != column or feature.power != power:
                continue
            if feature.guard is None or self.atoms.holds(feature.guard, atom):
                found[f * K + atom] = 1
        return found or None


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Queries whose answers cannot all be true, and why. `reducible`: some of them may be left out."""

    queries: tuple[str, ...]
    reason: str
    reducible: bool = False


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A query that is carried but that no auditor judged."""

    number: str
    sql: str
    reason: str

    @property
    def of_table(self) -> bool:
        """Is it about a table of the data, and no query?"""
        return self.number.startswith(OF_TABLE)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """All that follows from a transcript before any auditor or attack looks at it."""

    n: int
    transcript: Transcript
    knowledge: Knowledge
    systems: tuple[System, ...]
    contradictions: tuple[Contradiction, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    nobody: tuple[Unjudged, ...] = ()  # their public condition matches nobody: judged, with a warning
    counting: Counting | None = None  # people counted by conditions on their records
    computed: frozenset[str] = frozenset()  # queries whose answers the log lacked, and the data gave

    def sql_of(self, number: str) -> str:
        """The statement text behind a query number."""
        return self._texts[number]

    @property
    def _texts(self) -> dict[str, str]:
        return {entry.number: entry.sql for entry in self.transcript.entries}

    def prior(self, column: str) -> Prior:
        """What was known of a column beforehand."""
        return self.knowledge.prior(column)

    def join(self, other: Evidence) -> Evidence:
        """Both pieces of evidence together: atoms are refined, queries of `other` are numbered on.

        Systems of the same private columns are merged if their private conditions are the same; otherwise the two
        logs must be gathered as one. Cost: one pass over the records for every merged system.
        """
        if self.counting is not None or other.counting is not None:
            raise CannotHonour("counts by conditions on records of people are gathered as one log")
        if self.n != other.n:
            raise CannotHonour(f"evidence about {self.n} records cannot be joined with evidence about {other.n}")
        last = max((int(e.number.split(".")[0]) for e in self.transcript.entries), default=0)

        def renumbered(number: str) -> str:
            head, dot, part = number.partition(".")
            return number if not head.isdigit() else f"{int(head) + last}{dot}{part}"

        entries = tuple(replace(e, number=renumbered(e.number)) for e in other.transcript.entries)
        refused = tuple(replace(r, number=renumbered(r.number)) for r in other.transcript.refused)
        rows = tuple(replace(r, number=renumbered(r.number)) for r in other.transcript.handed_out)
        may_show = frozenset(map(renumbered, other.transcript.may_show_rows))
        transcript = Transcript(
            (*self.transcript.entries, *entries),
            (*self.transcript.refused, *refused),
            handed_out=(*self.transcript.handed_out, *rows),
            may_show_rows=self.transcript.may_show_rows | may_show,
        )
        systems = {s.columns: s for s in self.systems}
        for theirs in other.systems:
            ours = systems.get(theirs.columns)
            tied = {c for columns in systems if columns != theirs.columns for c in columns} & set(theirs.columns)
            if tied:
                raise CannotHonour(f"the logs tie {sorted(tied)[0]!r} to different columns: gather them as one log")
            numbered = _renumber(theirs, renumbered)
            systems[theirs.columns] = numbered if ours is None else _merge(ours, numbered)
        contradictions = tuple(
            replace(c, queries=tuple(renumbered(q) for q in c.queries)) for c in other.contradictions
        )
        unjudged = tuple(replace(u, number=renumbered(u.number)) for u in other.unjudged)
        return Evidence(
            self.n,
            transcript,
            self.knowledge,
            tuple(systems.values()),
            (*self.contradictions, *contradictions),
            (*self.unjudged, *unjudged),
            (*self.nobody, *(replace(u, number=renumbered(u.number)) for u in other.nobody)),
        )


def _renumber(system: System, renumbered: Callable[[str], str]) -> System:
    return replace(
        system,
        constraints=tuple(replace(c, number=renumbered(c.number)) for c in system.constraints),
        order=tuple(replace(o, number=renumbered(o.number)) for o in system.order),
        equal=tuple(replace(e, number=renumbered(e.number), partner=renumbered(e.partner)) for e in system.equal),
    )


def _merge(a: System, b: System) -> System:
    """One system over atoms that tell apart what either tells apart."""
    if a.partitions != b.partitions or a.features != b.features:
        raise CannotHonour("the logs have different private conditions: gather them as one log")
    facts = {c.fact for c in a.constraints if c.fact is not None}
    known = {x.fact for x in a.bounds}
    return replace(
        a,
        atoms=a.atoms.join(b.atoms),
        constraints=(*a.constraints, *(c for c in b.constraints if c.fact is None or c.fact not in facts)),
        order=(*a.order, *b.order),
        bounds=(*a.bounds, *(x for x in b.bounds if x.fact not in known)),
        equal=(*a.equal, *b.equal),
    )


# --- notes ------------------------------------------------------------------------------------------------------------
# What is noticed on the way from answers to constraints, beside the constraints themselves.


@dataclass(slots=True)
class Notes:
    """Answers as they are used (given or computed), contradictions, and what is not judged, collected as found."""

    answers: dict[str, Answer] = field(default_factory=dict)
    contradictions: list[Contradiction] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)
    nobody: list[Unjudged] = field(default_factory=list)  # statements that ask about nobody: judged, but look twice

    def contradict(self, reason: str, *numbers: str) -> None:
        """The named queries cannot all be true."""
        self.contradictions.append(Contradiction(numbers, reason))

    def leave(self, entry: Entry, reason: str) -> None:
        """A query is not judged."""
        self.unjudged.append(Unjudged(entry.number, entry.sql, reason))
