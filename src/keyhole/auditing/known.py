"""What is known of each private value, with its proof: a lattice in which claims only narrow.

A rule is a function (System, Known) -> claims. It says only what it can prove; what is not news is passed over. Rules
run in a row, again and again, until none of them narrows anything: see `keyhole.auditing.judge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import Directions, Finding, Group, Proof, Status
from keyhole.auditing.bounded import BoundedSystem
from keyhole.auditing.matrix import SystemMatrix, system_matrix
from keyhole.auditing.meet import STRENGTH, meet
from keyhole.auditing.person_form import PersonForm
from keyhole.datasets import Roster, Source
from keyhole.gather.evidence import Constraint, Contradiction, Evidence, System
from keyhole.gather.totals import Totals
from keyhole.model.grid import Grid
from keyhole.model.predicate import Scalar
from keyhole.model.prior import Knowledge
from keyhole.model.schema import Kind, Schema
from keyhole.solve.interval import Ranges, ValueRange
from keyhole.solve.rowspace import RowSpace

Progress: TypeAlias = Callable[[str, int, int], None]
MOST_FLOATS = 1_000_000  # records up to which DOUBLE values are added as fractions


@dataclass(frozen=True, slots=True)
class Claim:
    """One record's value of a column: known (`status` exposed), or narrowed to [lo, hi] or to the `allowed` values.

    `value` is None for an exposed value whose answers are not at hand; `excluded` are values that it cannot be.
    """

    row: int
    column: str
    status: Status
    value: Scalar | None
    lo: Decimal | None
    hi: Decimal | None
    proof: Proof
    excluded: tuple[Scalar, ...] = ()
    allowed: tuple[Scalar, ...] = ()
    tight: bool = True

    def narrows(self, known: Claim | None) -> bool:
        """Is this news? The first proof of a thing stays; an exact value beats any range, and inferred beats open."""
        if known is None:
            return True
        if known.status is not self.status:
            return STRENGTH[self.status] > STRENGTH[known.status]
        if known.status is Status.EXPOSED:
            return False
        if self.allowed and (not known.allowed or len(self.allowed) < len(known.allowed)):
            return not known.allowed or set(self.allowed) < set(known.allowed)
        higher = self.lo is not None and (known.lo is None or self.lo > known.lo)
        lower = self.hi is not None and (known.hi is None or self.hi < known.hi)
        wider = (known.lo is not None and (self.lo is None or self.lo < known.lo)) or (
            known.hi is not None and (self.hi is None or self.hi > known.hi)
        )
        return (higher or lower) and not wider and not known.allowed


@dataclass(frozen=True, slots=True)
class ShownOpen:
    """Everybody of a system of whom nothing is claimed has another value in a second table with the same answers."""

    system: int


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The equations of one system, factorised: shared by all rules that need the row space."""

    built: SystemMatrix
    space: RowSpace
    determined: frozenset[int]  # unknowns that are fixed by the equations
    by_number: Mapping[str, Constraint]


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """The ranges of one system, and how far apart two values must be for a person to count as open; after `runs`."""

    bounded: BoundedSystem
    ranges: Ranges
    apart: Callable[[ValueRange], Fraction]
    runs: int = 1
    seconds: float | None = None  # that may be spent on it


class Known:
    """All that was proved so far. `learn` takes claims in and says whether any of them was news."""

    def __init__(
        self,
        evidence: Evidence,
        schema: Schema,
        progress: Progress | None = None,
        source: Source | None = None,
        roster: Roster | None = None,
    ) -> None:
        self.evidence = evidence
        self.searched: dict[int, Searched] = {}  # systems whose ranges were solved
        self._source = source
        self.schema = schema
        self.roster = roster
        self.split: dict[int, str] = {}  # systems whose tables were looked at -> why not everybody is shown open
        self.encoded: dict[int, str] = {}  # systems whose worlds were searched -> why not everybody is shown open
        self.counted: set[int] = set()  # systems whose extreme counts were looked at
        self.put_in: set[str] = set()  # queries whose answers entered the search over all tables
        self.limits: set[int] = set()  # systems with more tables than are looked at
        self.progress = progress
        self._solved: dict[int, Solved] = {}
        self._claims: dict[tuple[int, str], Claim] = {}
        self._beside: dict[tuple[int, str], Claim] = {}  # the same without what the ranges of sums say
        self._groups: dict[tuple[str, tuple[int, ...]], Group] = {}
        self._contradictions: dict[Contradiction, None] = dict.fromkeys(evidence.contradictions)
        self._open_rows: dict[int, Mapping[str, NDArray[np.bool_]] | None] = {}
        self.directions: dict[int, Directions] = {}  # systems whose people were moved along null vectors
        self.shown: set[int] = set()  # systems in which everybody else is open, by a second table
        self.forms: list[PersonForm] = []  # sums over one person's records that are determined
        self.missed: set[str] = set()  # what was not searched, as ends of a sentence

    @classmethod
    def prior(
        cls, evidence: Evidence, roster: Roster, progress: Progress | None = None, source: Source | None = None
    ) -> Known:
        """Nothing beyond what was declared. With a `source` the true table is at hand, as one that is possible."""
        return cls(evidence, roster.schema, progress, source, roster)

    def numeric(self, name: str) -> bool:
        """Does a column hold numbers?"""
        column = self.schema.find(name)
        return column is not None and column.kind.numeric

    def exact(self, name: str) -> bool:
        """Are sums of a column exact, whatever their order? Those of DOUBLE are not."""
        column = self.schema.find(name)
        return column is not None and column.kind is not Kind.DOUBLE

    def grid(self, name: str) -> Grid:
        """The numbers that a column can hold."""
        column = self.schema.find(name)
        prior = self.evidence.prior(name)
        return Grid.of(Kind.DOUBLE, prior) if column is None else Grid.of(column.kind, prior, column.digits)

    def holds(self, name: str, lo: Decimal, hi: Decimal) -> bool:
        """Can a column hold some number from lo to hi?"""
        return self.grid(name).between(Fraction(lo), Fraction(hi)) is not None

    @property
    def knowledge(self) -> Knowledge:
        """What was declared beforehand."""
        return self.evidence.knowledge

    def adopt(self, other: Known, number: int) -> None:
        """What was proved of one system before, beside other answers about other columns."""
        names = frozenset(self.evidence.systems[number].columns)
        self._claims |= {at: claim for at, claim in other._claims.items() if at[1] in names}
        self._beside |= {at: claim for at, claim in other._beside.items() if at[1] in names}
        self._groups |= {at: group for at, group in other._groups.items() if at[0] in names}
        self.forms += [form for form in other.forms if form.column in names]
        self.put_in |= other.put_in
        self.missed |= other.missed
        self.shown |= other.shown & {number}
        self.limits |= other.limits & {number}
        self.searched |= {at: each for at, each in other.searched.items() if at == number}
        self.split |= {at: each for at, each in other.split.items() if at == number}
        self.encoded |= {at: each for at, each in other.encoded.items() if at == number}
        self._solved |= {at: each for at, each in other._solved.items() if at == number}
        self._open_rows |= {at: each for at, each in other._open_rows.items() if at == number}
        self.directions |= {at: each for at, each in other.directions.items() if at == number}

    def number(self, system: System) -> int:
        """The place of a system in the evidence."""
        return next(i for i, s in enumerate(self.evidence.systems) if s is system)

    def solved(self, system: System) -> Solved:
        """The row space of a system's equations; factorised once."""
        number = self.number(system)
        if number not in self._solved:
            built = system_matrix(system, [c for c in system.constraints if c.equation and c.parts])
            space = RowSpace(built.matrix, progress=self.progress)
            fixed = frozenset(built.unknown(int(column)) for column in space.determined())
            self._solved[number] = Solved(built, space, fixed, {c.number: c for c in system.constraints})
        return self._solved[number]

    def grids(self, system: System) -> dict[str, Grid]:
        """The numbers that each numeric column of a system can hold."""
        return {name: self.grid(name) for name in system.columns if self.numeric(name)}

    def truth(self, system: System) -> dict[int, list[Fraction]] | None:
        """The true total of each numeric column over each atom; None without the data."""
        floats = any(not self.exact(name) for name in system.columns)
        if self._source is None or (floats and self._source.n > MOST_FLOATS):
            return None
        totals = Totals(system.atoms, system.features, system.partitions, self._source)
        wanted = [f for f, x in enumerate(system.features) if x.power == 1 and x.column and self.numeric(x.column)]
        return {f: totals.of_atoms(f) for f in wanted}

    def open_rows(
        self, system: System, show_open: Callable[[System, Known, Source], Mapping[str, NDArray[np.bool_]] | None]
    ) -> Mapping[str, NDArray[np.bool_]] | None:
        """column -> who has no value or a second one in a table made from the true one; looked for once."""
        number = self.number(system)
        if number not in self._open_rows:
            self._open_rows[number] = None if self._source is None else show_open(system, self, self._source)
        return self._open_rows[number]

    def decided(self, system: System) -> bool:
        """Is everybody else shown open where values are assumed alone, so that no narrower range would be told?"""
        assumed = all(self.evidence.prior(name).is_assumed for name in system.columns)
        return assumed and self.number(system) in self.shown

    def unopened(self, system: System) -> Counter[tuple[int, str]]:
        """How many people of each atom are neither listed nor shown open by exchange, by column."""
        of, opened = system.atoms.of, self._open_rows.get(self.number(system)) or {}
        left = {
            name: np.bincount(of[~opened[name]] if name in opened else of, minlength=system.atoms.K)
            for name in system.columns
        }
        found = Counter(
            {(k, name): int(people) for name, each in left.items() for k, people in enumerate(each.tolist())}
        )
        for (row, name), claim in self._claims.items():
            if claim.status is not Status.OPEN and name in left and not (name in opened and opened[name][row]):
                found[int(of[row]), name] -= 1
        return found

    def of(self, row: int, column: str) -> Claim | None:
        """What is known of one value."""
        return self._claims.get((row, column))

    def identities(self, column: str) -> dict[int, Proof]:
        """The records whose value is an identity over answers, with that identity."""
        return {
            c.row: c.proof
            for c in self._claims.values()
            if c.column == column and c.status is Status.EXPOSED and not c.proof.rule and len(c.proof.target) > 0
        }

    def claims(self, column: str) -> list[Claim]:
        """All that is known of the values of a column, in the order of the table."""
        return sorted((c for c in self._claims.values() if c.column == column), key=lambda c: c.row)

    def beside(self, column: str) -> list[Claim]:
        """What all rules but the ranges of sums know of the values of a column."""
        return sorted((c for c in self._beside.values() if c.column == column), key=lambda c: c.row)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Groups with a determined total."""
        return tuple(self._groups.values())

    @property
    def contradictions(self) -> tuple[Contradiction, ...]:
        """What cannot be true together."""
        return tuple(self._contradictions)

    @property
    def something(self) -> bool:
        """Is anything proved?"""
        return bool(self._claims or self._groups or self._contradictions or self.forms)

    @property
    def rank(self) -> int:
        """Independent equations, added up over the systems."""
        return sum(solved.space.rank for solved in self._solved.values())

    def learn(self, said: Iterable[Claim | Group | Contradiction | ShownOpen | PersonForm]) -> bool:
        """Take claims in; True if something was news. What a fact says by itself exposes nobody."""
        news = False
        for each in said:
            if isinstance(each, Contradiction):
                news |= each not in self._contradictions
                self._contradictions[each] = None
            elif isinstance(each, Group):
                at = (each.column, each.rows)
                news |= at not in self._groups
                self._groups.setdefault(at, each)
            elif isinstance(each, ShownOpen):
                self.shown.add(each.system)
            elif isinstance(each, PersonForm):
                self.forms.append(each)
            elif each.status is Status.OPEN or not all(q.startswith("fact") for q in each.proof.weights):
                news |= self._take(self._claims, each)
                if not each.proof.sides:
                    self._take(self._beside, each)
        return news

    def _take(self, claims: dict[tuple[int, str], Claim], said: Claim) -> bool:
        """Narrow what is known of a value by a claim; True if it was news."""
        key = (said.row, said.column)
        held = claims.get(key)
        found = said if held is None else meet(held, said, self.grid(said.column))
        if found is None:
            return False
        if isinstance(found, Contradiction):
            return self.learn([found])
        claims[key] = found
        return True

    def findings(self, roster: Roster, *statuses: Status) -> list[Finding]:
        """The claims of these statuses with names put to them, in the order of the table."""
        chosen = (c for c in self._claims.values() if c.status in statuses)
        ordered = sorted(chosen, key=lambda c: (c.row, c.column))
        rows = np.array([c.row for c in ordered], dtype=np.int64)
        if not len(rows):
            return []
        labels, alone = roster.labels(rows), roster.singled_out(rows)
        return [
            Finding(
                label,
                c.row,
                c.column,
                c.status,
                c.value,
                c.lo,
                c.hi,
                c.proof,
                one,
                c.excluded,
                c.allowed,
                tight=c.tight,
            )
            for c, label, one in zip(ordered, labels, alone, strict=True)
        ]

    def personal(self, roster: Roster) -> list[Finding]:
        """Sums over records of one person, with his name put to them; not where every record of them is known alone."""
        found = []
        for each in self.forms:
            alone = [self._claims.get((row, each.column)) for row in each.rows]
            if all(claim is not None and claim.status is Status.EXPOSED for claim in alone):
                continue
            label = roster.labels(np.array(each.rows[:1], dtype=np.int64))[0]
            said = (each.value, each.lo, each.hi, each.proof)
            found.append(Finding(label, each.rows[0], each.column, each.status, *said, form=each.form, rows=each.rows))
        return found

    def named_groups(self, roster: Roster) -> list[Group]:
        """The groups with names put to them."""
        return [
            replace(g, records=tuple(roster.labels(np.array(g.rows, dtype=np.int64)))) for g in self._groups.values()
        ]


Rule: TypeAlias = Callable[[System, Known], Iterable[Claim | Group | Contradiction | ShownOpen | PersonForm]]
Rules: TypeAlias = Sequence[Rule]
