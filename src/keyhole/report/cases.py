"""What a verdict says, as plain data: whatever is printed, written or compared reads this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from keyhole.auditing.base import name_of
from keyhole.auditing.end_proof import BoundUsed
from keyhole.gather.evidence import Contradiction, Unjudged
from keyhole.model.numbers import find_simplest_decimal
from keyhole.model.predicate import Scalar
from keyhole.model.prior import Prior
from keyhole.model.transcript import Answer, HandedOut, Refusal
from keyhole.report.documents.verdict import Completion, ProofItem, Provenance, StatementCounts

Record = Mapping[str, Scalar | None]

EXPOSED = "exposed"
INFERRED = "inferred"
OPEN = "open"
LIMIT = "limit"
GROUP = "group"


@dataclass(frozen=True, slots=True)
class Cited:
    """A query, or a fact, that proofs name.

    `form` says what of it is added up where that is not the printed answer; `ends` are the ends of what is added up,
    None if the answer is missing; `scale` is how often a row counts its answer (an AVG over 3 people: three times).
    """

    number: str
    scale: Fraction
    ends: tuple[Fraction, Fraction] | None
    fact: int | None = None
    sql: str = ""
    key: tuple[tuple[str, Scalar | None], ...] = ()
    answer: Answer | None = None
    form: str = ""
    replayed: ProofItem = field(default_factory=ProofItem)  # what a replay needs besides: see docs/json.md

    @property
    def name(self) -> str:
        """Q3, fact 1, or what of Q3 is meant where the answer itself is not what is added up."""
        if self.fact is not None:
            return f"fact {self.fact}"
        return f"({self.form} of Q{self.number})" if self.form else f"Q{self.number}"

    @property
    def value(self) -> str | None:
        """What is added up, as a number that a person would write; None if the answer is missing."""
        return None if self.ends is None else str(find_simplest_decimal(*self.ends))


@dataclass(frozen=True, slots=True)
class Step:
    """One addend of a proof: a weight on what is cited."""

    cited: Cited
    weight: Fraction


@dataclass(frozen=True, slots=True)
class Bounding:
    """What is put in for people whom the steps of an end leave: their `bound`, by a fact or what is declared."""

    used: BoundUsed
    record: Record | None = None  # where it is one person
    place: str = ""  # and which of his records, if he has several
    thing: str = "person"  # what is counted: people, or records where somebody has several
    replayed: ProofItem = field(default_factory=ProofItem)  # what a fact says


@dataclass(frozen=True, slots=True)
class EndArgument:
    """Why a value is at least (`side` lo) or at most (hi) `end`: steps, a public constant, and bounds."""

    side: str
    end: Fraction
    steps: tuple[Step, ...]
    constant: Fraction
    bounds: tuple[Bounding, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """A proof: the steps add up, with a public `constant`, to what is claimed; or a `rule` about the queries cited.

    `holds` is 1 or 0 where the steps show that one person is, or is not, in a private cell. Of a range: `ends`, and the
    steps are what they cite.
    """

    steps: tuple[Step, ...] = ()
    constant: Fraction = Fraction(0)
    rule: str = ""
    holds: int | None = None
    certificate: Mapping[str, Any] = field(default_factory=dict)
    known: tuple[Case, ...] = ()  # what was proved of others before, and is used
    ends: tuple[EndArgument, ...] = ()

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries cited, in order; facts left out."""
        return tuple(step.cited.number for step in self.steps if step.cited.fact is None)


@dataclass(frozen=True, slots=True)
class Case:
    """What is proved of one person's private value, or (`status` group) of the total of several people.

    `status` is exposed, inferred, open (a narrower range than was known) or group; rows count from 1.
    """

    status: str
    records: tuple[Record, ...]
    rows: tuple[int, ...]
    column: str
    value: Scalar | None
    lo: Scalar | None
    hi: Scalar | None
    argument: Argument
    singled_out: bool = False
    excluded: tuple[Scalar, ...] = ()
    allowed: tuple[Scalar, ...] = ()
    tight: bool = True
    if_shown: bool = False  # it needs a row that a LIMIT may have cut off
    first: Completion | None = None
    form: str = ""  # what is known, where it is no value of one record
    grade: str = ""  # of a yes or no: shown to have, shown not to have, one of his
    place: str = ""  # the row, where the id has several records and this is about one of them
    private: tuple[str, ...] = ()  # the private columns, where they are others than those of the verdict
    assumed: str = ""  # what it rests on, where it needs that only the values assumed from the data are possible

    @property
    def named(self) -> str:
        """The id, and which of its records is meant."""
        return f"{self.who}{self.place}"

    @property
    def who(self) -> str:
        """The id as text; of a group all ids."""
        return ", ".join(name_of(record) for record in self.records)

    @property
    def completed_by(self) -> str | None:
        """The statement that completed it, else the last query that the proof needs. None if it has facts alone."""
        if self.first is not None:
            return self.first.query
        queries = self.argument.queries
        return queries[-1] if queries else None


@dataclass(frozen=True, slots=True)
class AssumedFinding:
    """People whose value follows if only the assumed values are possible: by statements and a count, without names."""

    column: str
    queries: tuple[str, ...]
    people: int
    why: str
    steps: tuple[Step, ...]
    rule: str = ""  # about the queries cited, if the steps do not add up to the values


@dataclass(frozen=True, slots=True, eq=False)
class PlainVerdict:
    """All that a verdict says, except the names of those who stay open."""

    records: int
    people: int
    queries: int
    judged: int
    atoms: int
    rank: int
    promise: str
    assumed: Mapping[str, str]
    nobody: tuple[Unjudged, ...]  # the queries that nobody matches: judged, and perhaps not what was meant
    complete: bool
    gap: str  # why it is not complete
    exit_code: int
    doubt: int  # the exit code as if nobody were found
    statements: StatementCounts
    source: Provenance
    priors: Mapping[str, Prior]
    findings: tuple[Case, ...]
    groups: tuple[Case, ...]
    unjudged: tuple[Unjudged, ...]
    refused: tuple[Refusal, ...]
    contradictions: tuple[Contradiction, ...]
    ranges: tuple[Case, ...] = ()  # those who stay open, in a narrower range than was declared
    grades: Mapping[str, int] = field(default_factory=dict)  # people by what counts show of them
    limited: frozenset[tuple[int, str]] = frozenset()  # (row, column) of whom a limit ended the search too early
    rows: tuple[HandedOut, ...] = ()  # statements that hand out rows
    may_show_rows: frozenset[str] = frozenset()  # numbers of what is not judged, and may hand out rows
    disputed: Mapping[str, str] = field(default_factory=dict)  # the statements of contradictions, by their numbers
    by_assumption: tuple[AssumedFinding, ...] = ()
    declaring: Mapping[str, str] = field(default_factory=dict)  # columns whose values were assumed -> what to write

    @property
    def narrowed(self) -> tuple[Case, ...]:
        """Those who stay open, and of whom the log tells a narrower range."""
        return tuple(case for case in self.ranges if case.argument.queries)

    @property
    def cases(self) -> tuple[Case, ...]:
        """Everything found: people first, then groups."""
        return (*self.findings, *self.groups)

    @property
    def exposed(self) -> tuple[Case, ...]:
        """The people whose value is known exactly."""
        return tuple(case for case in self.findings if case.status == EXPOSED)

    @property
    def inferred(self) -> tuple[Case, ...]:
        """The people of whom something new is known, but not all."""
        return tuple(case for case in self.findings if case.status == INFERRED)
