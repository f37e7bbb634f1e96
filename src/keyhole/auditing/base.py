"""What an auditor says: a proved statement per record, with its proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.end_proof import EndProof, proved
from keyhole.auditing.promise import COMPLETE, ENDED, NOISE_GAP, NOTHING, SHOWN_OPEN, SOUND, beyond_rank, undeclared
from keyhole.datasets import Roster
from keyhole.gather.evidence import Constraint, Contradiction, Evidence, System, Unjudged
from keyhole.model.predicate import Predicate, Scalar
from keyhole.model.transcript import Entry, HandedOut, Noise, Refusal

if TYPE_CHECKING:
    from keyhole.auditing.first import First
    from keyhole.logs.open import Log


class Status(StrEnum):
    """How much is known of a value: all of it, more than before, nothing new."""

    EXPOSED = "exposed"
    INFERRED = "inferred"
    OPEN = "open"


ROUNDED_WEIGHTS = (
    "some public weight is a rounded floating-point number, and equations between rounded weights can be missed"
)


SHORT_LIST = "all values of a small group are known, and each of its people has one of them"


@dataclass(frozen=True, slots=True)
class SquareSums:
    """What a rule about squares rests on: `squares` answers factor * SUM(x*x) + plain * SUM(x) of those under `where`.

    `kind` is equal, zero or roots; `total` is the query that answers `times` their SUM(x), empty if none is needed.
    With `variance` the query `squares` is their variance or standard deviation.
    """

    kind: str
    where: Predicate
    squares: str
    total: str = ""
    factor: Fraction = Fraction(1)
    plain: Fraction = Fraction(0)
    variance: bool = False
    times: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class RankUsed:
    """An order statistic that a proof rests on: 1 - share of the j-th and share of the k-th of those under `where`."""

    number: str
    where: Predicate
    j: int
    k: int
    share: Fraction


@dataclass(frozen=True, slots=True)
class BothRanges:
    """Two ranges of one value of a column, each with its proof."""

    column: str
    known: tuple[KnownValue, ...]


@dataclass(frozen=True, slots=True)
class OrderSteps:
    """What a proof by order rests on: order statistics, and what was known of single people (row, lo, hi, proof).

    `cases`: it is shown by looking at all cases, not by narrowing bounds alone.
    """

    ranks: tuple[RankUsed, ...]
    known: tuple[KnownValue, ...] = ()
    cases: bool = False


@dataclass(frozen=True, slots=True)
class RestOfSum:
    """What a proof rests on that takes known values off a sum: value = scale * answer - offset - sum of others * times.

    `others` says how often each row counts beside the one person, `known` what was proved of them (row, lo, hi, proof).
    """

    column: str
    number: str
    scale: Fraction
    offset: Fraction
    others: Mapping[int, Fraction]
    known: tuple[KnownValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Proof:
    """Why a value is determined, or lies in a range.

    Of a range: `sides` has a proof for each finite end, and `weights` names the rows of both.

    Linear: the rows of `system`, times `weights`, add up to the functional `target` (unknown -> coefficient); then
    value = sum of weight * scale * answer, plus `constant`. By `rule` (not empty): sums of counts, each in `counts` as
    weights on rows, are as large or as small as they can be once the others are used; or it is about `moments`.
    """

    system: int
    weights: Mapping[str, Fraction]
    target: Mapping[int, int] = field(default_factory=dict)
    constant: Fraction = Fraction(0)
    rule: str = ""
    counts: tuple[Mapping[str, Fraction], ...] = ()
    moments: SquareSums | None = None
    order: OrderSteps | None = None
    rest: RestOfSum | None = None
    tables: str = ""  # all tables on the grid were looked at: those of plain "sums", or with "other" answers
    sides: tuple[EndProof, ...] = ()
    both: BothRanges | None = None
    counted: Mapping[str, Any] | None = None  # counts of people that force it: what a replay needs, `system` is -1

    @property
    def known(self) -> tuple[KnownValue, ...]:
        """What was proved before by other rules, and is used."""
        steps = self.order or self.rest or self.both
        if steps is not None:
            return steps.known
        used = [bound.learned for side in self.sides for bound in side.bounds if bound.learned is not None]
        return tuple({(why[0], id(why[3])): why for why in used}.values())

    @property
    def depth(self) -> int:
        """How many proofs rest on one another."""
        return 1 + max((proof.depth for *_, proof in self.known), default=0)

    def verify(self, evidence: Evidence) -> bool:
        """Check a linear proof, or that of a range, again in exact arithmetic, from the evidence alone.

        False for a proof by `rule`, and for one that rests on such a proof: it is not checked here. `keyhole verify`
        replays it from its certificate.
        """
        if self.rule:
            return False
        system = evidence.systems[self.system]
        if self.sides:
            return all(proved(system, evidence, next(iter(self.target)), side) for side in self.sides)
        total: dict[int, Fraction] = {}
        rows = {row.number: row for row in system.constraints if row.number in self.weights}
        for number, weight in self.weights.items():
            if number not in rows or not rows[number].equation:
                return False
            for at, c in system.row(rows[number]).items().items():
                total[at] = total.get(at, Fraction(0)) + weight * c
        return {at: c for at, c in total.items() if c} == {at: Fraction(c) for at, c in self.target.items()}

    def interval(self, system: System) -> tuple[Fraction, Fraction] | None:
        """The value: the proof applied to the answers; None if an answer is missing. Cost: a pass over all."""
        if self.sides:
            ends = {side.side: side.end for side in self.sides}
            return (ends["lo"], ends["hi"]) if len(ends) == 2 else None
        return self.ends({row.number: row for row in system.constraints if row.number in self.weights})

    def ends(self, rows: Mapping[str, Constraint]) -> tuple[Fraction, Fraction] | None:
        """The same with the constraints by number at hand. Cost: a step for each query that the proof names."""
        lo = hi = Fraction(0)
        for number, weight in self.weights.items():
            row = rows.get(number)
            if row is None:
                continue
            if row.lo is None or row.hi is None:
                return None
            ends = (weight * row.lo, weight * row.hi)
            lo, hi = lo + min(ends), hi + max(ends)
        return lo, hi


KnownValue: TypeAlias = tuple[int, Decimal | None, Decimal | None, Proof]  # of a row: lo, hi, and why


@dataclass(frozen=True, slots=True)
class Finding:
    """What is proved of one record's private value. `lo` and `hi` are None where unbounded or not a number.

    `row` counts from 0, as arrays do; the JSON form counts from 1.
    """

    record: Mapping[str, Scalar | None]
    row: int
    column: str
    status: Status
    value: Scalar | None
    lo: Decimal | None
    hi: Decimal | None
    proof: Proof | None
    singled_out: bool = False
    excluded: tuple[Scalar, ...] = ()
    allowed: tuple[Scalar, ...] = ()
    insider: Mapping[str, Scalar | None] | None = None  # whoever knows this one's value, and only he
    form: str = ""  # what is known, where it is not simply the value
    rows: tuple[int, ...] = ()  # of a person with several records: those that it is about
    grade: str = ""  # of a yes or no: shown to have, shown not to have, one of his, narrowed
    tight: bool = True  # are the ends of a range shown to be reached?
    if_shown: bool = False  # it needs a row that a LIMIT may have cut off
    assumed: bool = False  # it needs that no other values are possible than was assumed from the data

    @property
    def who(self) -> str:
        """The record's id as text."""
        return name_of(self.record)


@dataclass(frozen=True, slots=True)
class Group:
    """People whose total is determined, none of them alone."""

    records: tuple[Mapping[str, Scalar | None], ...]
    rows: tuple[int, ...]
    column: str
    total: Decimal | None
    proof: Proof


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """Vectors along which private values move while all sums of a system stay, entry by entry: which vector, how many
    units, and which column (of `names`, that moves by `units`) of which class. A vector is meant up to its sign.
    """

    names: tuple[str, ...]
    units: tuple[Fraction, ...]
    which: NDArray[np.int64]
    steps: NDArray[np.int64]
    columns: NDArray[np.int64]
    classes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AssumedGroup:
    """People whose value of a column some answers determine, if only the assumed values are possible.

    `end` is greatest or least where the one answer is as large, or as small, as it can be; then `whole` says whether
    they are all the people in it.
    """

    column: str
    queries: tuple[str, ...]
    rows: tuple[int, ...]
    end: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Assumption:
    """What follows if the private columns that nobody declared have the values of the data alone.

    `exposure` is what the proofs of `groups` are about: the audit with these values put in, or without where none had
    to be. `gap` says why not everybody else is shown to have a second value among them, empty if everybody is;
    `promise` then says what is proved.
    """

    exposure: Exposure
    groups: tuple[AssumedGroup, ...]
    gap: str
    promise: str
    columns: Mapping[str, str]  # the columns of which values are assumed -> the line that declares them
    exchanged: frozenset[int] = frozenset()  # systems in which exchange and null vectors show everybody open


@dataclass(frozen=True, slots=True, eq=False)
class Exposure:
    """What an audit proved, as plain data: iterate it for the findings. `keyhole.report` says it in words and files.

    `ranges` are those who stay open, and of whom a narrower range is proved than was known.
    `version` is that of the data, `dialect` the SQL that the log is written in; `index` finds the rows and the queries
    that a proof names. `log` is what was read, with repeats folded; `firsts` says which statement completed a finding.
    """

    evidence: Evidence
    roster: Roster
    findings: tuple[Finding, ...]
    groups: tuple[Group, ...] = ()
    rank: int = 0
    unjudged: tuple[Unjudged, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    assumed: Mapping[str, str] = field(default_factory=dict)  # private columns whose kind was read off their values
    version: str | None = None
    dialect: str = "duckdb"
    shown: frozenset[int] = frozenset()  # systems in which a rule showed everybody else open by a second table
    ranges: tuple[Finding, ...] = ()
    searched: Mapping[int, str] = field(default_factory=dict)  # system -> why not all others are shown open, or empty
    split: Mapping[int, str] = field(default_factory=dict)  # the same where all tables on a grid were looked at
    missed: tuple[str, ...] = ()  # what was not searched, as ends of a sentence
    grades: Mapping[str, int] = field(default_factory=dict)  # people by what counts show of them
    domains: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)  # columns of which all was told but who
    limited: frozenset[tuple[int, str]] = frozenset()  # (row, column) of whom a limit ended the search too early
    log: Log | None = None
    views: Mapping[str, Exposure] = field(default_factory=dict)  # analyst -> what he asked alone gives away
    readings: tuple[Exposure, ...] = ()  # what is found besides where columns that nobody reviewed have other roles
    doubts: tuple[str, ...] = ()  # of `missed`: whether the log is about these people, and what their columns are
    firsts: Mapping[tuple[tuple[int, ...], str], First] = field(default_factory=dict)  # (rows, column) -> statement
    assumption: Assumption | None = None  # where values of undeclared columns were assumed
    directions: Mapping[int, Directions] = field(default_factory=dict)  # system -> how people alone in a class move
    needs_more: bool = False  # with --within and --among a second value is not enough for an all-clear
    index: Index = field(init=False, repr=False)
    judged: int = field(init=False, repr=False)  # queries that were judged, parts counted one by one; public ones are
    noisy: Mapping[str, Noise] = field(init=False, repr=False)  # the law of each answer that is not as it was
    promise: str = field(init=False, repr=False)  # what holds of those who are not listed, and why it is not more
    gap: str = field(init=False, repr=False)  # why the verdict is not complete, as the end of a sentence; else empty

    def __post_init__(self) -> None:
        waiting, judged, noisy = {u.number for u in self.unjudged}, 0, {}
        for entry in self.evidence.transcript.entries:
            judged += entry.number not in waiting and bool(entry.query.terms)  # SELECT 1 asks nothing
            if entry.answer is not None and entry.answer.noise is not None:
                noisy[entry.number] = entry.answer.noise
        object.__setattr__(self, "noisy", noisy)
        object.__setattr__(self, "index", Index.of(self.evidence))
        object.__setattr__(self, "judged", judged)
        object.__setattr__(self, "gap", self._gap())
        complete = SHOWN_OPEN if self.searched or self.shown or self.grades else COMPLETE
        if self.assumption is not None:
            complete = self.assumption.promise
        nothing = f"{NOTHING}; {self.gap}" if self.gap in ENDED else NOTHING
        promise = nothing if not judged else f"{SOUND} {self.gap}" if self.gap else complete
        object.__setattr__(self, "promise", promise)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def exposed(self) -> tuple[Finding, ...]:
        """The people whose value is known exactly."""
        return tuple(f for f in self.findings if f.status is Status.EXPOSED)

    @property
    def inferred(self) -> tuple[Finding, ...]:
        """The people of whom something new is known, but not all."""
        return tuple(f for f in self.findings if f.status is Status.INFERRED)

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """The statements that were not understood."""
        return self.evidence.transcript.refused

    @property
    def handed_out(self) -> tuple[HandedOut, ...]:
        """The statements that show rows with private values, or of people whom a private condition chose."""
        return self.evidence.transcript.handed_out

    @property
    def records(self) -> int:
        """How many records."""
        return self.evidence.n

    @property
    def queries(self) -> int:
        """How many queries were read, parts of statements counted one by one."""
        return len(self.evidence.transcript.entries)

    @property
    def atoms(self) -> int:
        """How many classes of records the log tells apart (added up over separate systems)."""
        return sum(s.atoms.K for s in self.evidence.systems)

    @property
    def complete(self) -> bool:
        """Is everybody who is not listed *shown* to be open? Only then, and if nobody is listed, is the exit code 0.

        Every statement was judged, at least one, under public conditions. Then by the rank theorem, where all are
        equations and nothing is declared that narrows the reals (ranges, grids, categories, facts about single people);
        else by a second table with the same answers, checked in exact arithmetic.
        """
        return not self.gap

    def _gap(self) -> str:
        if not ENDED.isdisjoint(self.missed):
            return self.missed[0]
        if not self.judged:
            return "nothing was judged"
        if self.unjudged or self.refused:
            return "some statement was not judged"
        if self.contradictions:
            return "some answers contradict each other or the data"
        if any(weight.rounded for system in self.evidence.systems for weight in system.atoms.weights):
            return ROUNDED_WEIGHTS
        if not all(noise.bounded for noise in self.noisy.values()):
            return NOISE_GAP
        if self.assumption is not None and self.assumption.gap:
            return self.assumption.gap
        if self.missed:
            return self.missed[0]
        if self.assumption is not None:
            return ""
        for name, values in self.domains.items():
            return undeclared(name, values)
        left = ((i, s) for i, s in enumerate(self.evidence.systems) if i not in self.shown)
        gaps = ((i, beyond_rank(s, self.evidence, self.searched.get(i))) for i, s in left)
        return next((self.split.get(i) or why for i, why in gaps if why), "")

    @property
    def exit_code(self) -> int:
        """0 nobody exposed, and complete; 1 somebody exposed or inferred, or rows handed out; 3 not complete."""
        told = any(part.findings or part.groups or part.handed_out for part in (self, *self.readings))
        return 1 if told else self.doubt

    @property
    def doubt(self) -> int:
        """The exit code as if nobody were exposed: 0 if the verdict is complete, else 3."""
        return 0 if self.complete else 3

    def __repr__(self) -> str:
        return (
            f"<Exposure: {len(self.exposed)} exposed, {len(self.inferred)} inferred of {self.roster.people} people, "
            f"{self.queries} {'query' if self.queries == 1 else 'queries'}>"
        )


class Auditor(Protocol):
    """Evidence to Exposure: says only what it can prove."""

    def examine(self, evidence: Evidence, roster: Roster) -> Exposure:
        """Judge the evidence."""


def name_of(record: Mapping[str, Scalar | None]) -> str:
    r"""A record's id as text: names stand alone, numbers with their column. Control characters are made visible.

    >>> name_of({"Name": "Ann"}), name_of({"id": 7}), name_of({"Name": "\x1b[31mred"})
    ('Ann', 'id 7', '\\x1b[31mred')
    """
    parts = (visible(v) if isinstance(v, str) else f"{visible(k)} {v}" for k, v in record.items())
    return ", ".join(parts)


def visible(text: str) -> str:
    """Text with its control characters written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def query_order(number: str) -> tuple[int, ...]:
    """Sort key of query numbers: 2 before 10, 3.2 after 3."""
    if number.startswith("fact"):
        return (10**9, int(number.split()[1]))
    return tuple(int(part) for part in number.split("."))


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """`constraints[s][number]` is one of system s, `entries[number]` the query with its answer.

    Cost: one pass over the evidence, once; then a proof is read in as many steps as it names queries.
    """

    constraints: tuple[Mapping[str, Constraint], ...]
    entries: Mapping[str, Entry]

    @classmethod
    def of(cls, evidence: Evidence) -> Index:
        """Of all constraints of all systems and all entries of the transcript."""
        return cls(
            tuple({row.number: row for row in system.constraints} for system in evidence.systems),
            {entry.number: entry for entry in evidence.transcript.entries},
        )
