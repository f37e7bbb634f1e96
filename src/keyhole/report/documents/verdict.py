"""The JSON of `keyhole audit`: every other form of output that leaves the command reads these structs."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from keyhole.report.documents.json_text import Document, JsonAnswer, Labels, Value


class Completion(Document, frozen=True, kw_only=True):
    """A statement of the log that completed a finding. `least`: the statements before it do not prove it; else it is
    the last that the proof needs, and by then at the latest it was known.
    """

    query: str
    least: bool
    analyst: str | None = None
    time: str | None = None

    def __str__(self) -> str:
        """`Q3 (by ann, 2026-11-15 10:00)`, with `at the latest` where that is all that is known."""
        about = [f"by {self.analyst}" if self.analyst else "", self.time or ""]
        asked = ", ".join(part for part in about if part)
        return f"Q{self.query}{f' ({asked})' if asked else ''}{'' if self.least else ', at the latest'}"


class Comparison(Document, frozen=True, kw_only=True):
    """What a statement compares its sum with: `value` less the public `offset`, blurred by `noise` at most."""

    op: str
    value: str
    offset: str
    noise: str | None = None
    shown: bool = False  # a HAVING asks it: yes is that the group is shown


class SquareSum(Document, frozen=True, kw_only=True):
    """A variance as a sum of squares: times * answer^power + (scale * sum - offset)^2 / people."""

    times: str
    power: int
    people: str
    sum: ProofItem
    scale: str
    offset: str


class ProofItem(Document, frozen=True, kw_only=True):
    """One addend of a proof: a statement, a public number (`known`), a fact, or people at a bound of their values."""

    query: str | None = None
    sql: str | None = None
    known: str | None = None
    fact: int | None = None
    bound: str | None = None
    each: Value | UnsetType = UNSET
    weight: str | None = None
    own: bool = False  # the bound of the person himself
    record: Labels | None = None  # of one person
    people: int | None = None  # of so many
    of: str | None = None  # a query that all of them are in
    answer: JsonAnswer | UnsetType = UNSET
    form: str = ""  # what of the answer is added up, where it is not the answer itself
    rule: str = ""
    key: Labels | None = None
    noise: str | None = None
    exactly: str | None = None
    besides: tuple[Labels, ...] | None = None
    rows: bool = False
    where: str | None = None
    column: int | str | None = None  # the place of the number in the answer; of a fact, its column
    total: Value = None
    rounded: str | None = None
    ends: tuple[str | None, str | None] | None = None
    offset: str | None = None
    test: Comparison | None = None
    squares: SquareSum | None = None
    side: str = ""


class ExposedValue(Document, frozen=True, kw_only=True):
    """One person's value that is determined; or, with `form`, what is of a person with several records."""

    cell: dict[str, str] | None = None  # of published tables
    record: Labels
    row: int
    column: str
    value: Value
    why: tuple[str, ...]
    proof: tuple[ProofItem, ...]
    certificate: dict[str, Any]
    singled_out: bool
    first: Completion | None
    person: Labels | None = None
    form: str = ""
    rows: tuple[int, ...] = ()
    grade: str = ""
    private: tuple[str, ...] = ()
    assumed: bool = False
    known: bool | None = None  # was it in the baseline?


class AssumedValues(Document, frozen=True, kw_only=True):
    """People whose value follows if only the values are possible that an undeclared column has in the data."""

    column: str
    people: int
    why: str
    proof: tuple[ProofItem, ...]


class InferredFeature(Document, frozen=True, kw_only=True):
    """What is inferred of a person by his records."""

    person: Labels
    form: str
    rows: tuple[int, ...]
    grade: str = ""
    column: str
    status: str
    why: tuple[str, ...]
    proof: tuple[ProofItem, ...]
    certificate: dict[str, Any]
    first: Completion | None
    if_shown: bool = False
    private: tuple[str, ...] = ()
    assumed: bool = False


class GroupTotal(Document, frozen=True, kw_only=True):
    """A small group whose total is determined."""

    records: tuple[Labels, ...]
    rows: tuple[int, ...]
    column: str
    total: Value
    why: tuple[str, ...]
    proof: tuple[ProofItem, ...]
    certificate: dict[str, Any]
    first: Completion | None
    private: tuple[str, ...] = ()
    known: bool | None = None  # was it in the baseline?


class RowsHandedOut(Document, frozen=True, kw_only=True):
    """A statement that shows private values as they are, or people whom a private condition chose."""

    query: str
    sql: str
    columns: tuple[str, ...]
    records: int | None
    singled_out: int | None


class Interval(Document, frozen=True, kw_only=True):
    """What is left of one record's value: `status` is exposed, inferred, open or limit."""

    cell: dict[str, str] | None = None  # of published tables
    record: Labels
    column: str
    lo: Value
    hi: Value
    prior: tuple[Value, Value]
    status: str
    proof: tuple[ProofItem, ...]
    row: int | None = None
    certificate: dict[str, Any] | None = None
    first: Completion | None = None
    why: tuple[str, ...] | None = None
    tight: bool | None = None
    if_shown: bool = False
    assumed: bool = False
    excluded: tuple[Value, ...] = ()
    allowed: tuple[Value, ...] = ()
    value: str | None = None
    private: tuple[str, ...] = ()


class UnjudgedStatement(Document, frozen=True, kw_only=True):
    """A statement that no rule judges."""

    query: str
    sql: str
    reason: str
    report: str | None = None  # what may be sent to us: the statement without its constants
    may_show_rows: bool = False


class RefusedStatement(Document, frozen=True, kw_only=True):
    """A statement that was not understood."""

    query: str
    sql: str
    error: str
    may_show_rows: bool = False


class ContradictingAnswers(Document, frozen=True, kw_only=True):
    """Answers that cannot all be true."""

    queries: tuple[str, ...]
    sql: tuple[str, ...]
    reason: str


class JudgedWarning(Document, frozen=True, kw_only=True):
    """A statement that was judged, and perhaps not what was meant."""

    query: str
    sql: str
    reason: str


class StatementCounts(Document, frozen=True, kw_only=True):
    """Statements counted as they were written, repeats included: one with a part that is not judged is not judged.

    `distinct` are the different texts. `failed` are beside these: they ended in an error and were not answered.
    """

    total: int
    judged: int
    unjudged: int
    refused: int
    distinct: int
    noisy: int  # of those judged: with an answer that noise was added to
    failed: int
    ignored: int  # about tables that hold nothing about these people


class Provenance(Document, frozen=True, kw_only=True):
    """What was judged: the table, the roles of its columns, the dialect of the log, the version of the data."""

    table: str
    id: tuple[str, ...]
    private: tuple[str, ...]
    hidden: tuple[str, ...]
    dialect: str
    version: str | None
    kinds: dict[str, str]


class WithheldStatement(Document, frozen=True, kw_only=True):
    """A statement that advice would withhold, and how often it was asked."""

    query: str
    sql: str
    times: int


class LargerGroups(Document, frozen=True, kw_only=True):
    """Answering about groups of a least size alone, and how many statements would not be answered."""

    least: int
    withheld: int


class RoundingEffect(Document, frozen=True, kw_only=True):
    """What rounding every answer to a multiple of `step` would leave."""

    step: Value
    exposed: int
    inferred: int
    narrowest: Value
    complete: bool


class AdviceAlternatives(Document, frozen=True, kw_only=True):
    """What would do instead of withholding."""

    groups: LargerGroups | None
    rounding: tuple[RoundingEffect, ...]
    noise: float | None


class StatementAdvice(Document, frozen=True, kw_only=True):
    """What to withhold from analysts; `bound`: no fewer do."""

    withhold: tuple[WithheldStatement, ...]
    enough: bool
    smallest: bool
    bound: int
    verified: bool
    stopped: bool
    of: int
    after: str
    alternatives: AdviceAlternatives | None


class RuledStatement(Document, frozen=True, kw_only=True):
    """An answer that fails a classical rule, or of which it cannot be decided."""

    query: str
    sql: str
    contributors: int | None
    reason: str


class RuleResult(Document, frozen=True, kw_only=True):
    """What a classical rule says of the answers of a log."""

    rule: str
    answers: int
    failing: tuple[RuledStatement, ...]
    untold: tuple[RuledStatement, ...]


class SignedOff(Document, frozen=True, kw_only=True):
    """How much of the verdict was signed off, and what counts for the exit code."""

    waived: int
    expired: int
    left: int
    fail_on: str


class QueryMap(Document, frozen=True, kw_only=True):
    """Which query is about whom: of the people of each column, the share that the query of each row counts."""

    queries: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    shares: tuple[tuple[float, ...], ...] = ()


class LoggedStatement(Document, frozen=True, kw_only=True):
    """A statement that was judged, with the answer and the noise that the log has."""

    sql: str
    answer: Any | UnsetType = UNSET
    noise: dict[str, Value] | None = None


class AlikePart(Document, frozen=True, kw_only=True):
    """Private columns that the log ties together: `classes` of records that it does not tell apart (rows from 1, as in
    `2-4 7`), and `vectors` along which values move while all answers stay: `row:times` or `row:times:column`, where a
    row stands for its class. `units` say how far each column moves at a time, where the first moves by 1; a vector is
    meant up to its sign.
    """

    columns: tuple[str, ...]
    units: tuple[str, ...]
    classes: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()


class Witness(Document, frozen=True, kw_only=True):
    """Where second tables are in which everybody who is not listed has another value, and all answers are the same.

    `domains` are what was declared of private columns; `facts` what is known besides. `whole`: the parts are meant to
    show everybody. No value of the data is in it.
    """

    kind: str
    statements: tuple[LoggedStatement, ...]
    domains: dict[str, dict[str, Any]]
    facts: tuple[dict[str, Value], ...] = ()
    whole: bool = False
    parts: tuple[AlikePart, ...]


class VerdictDocument(Document, frozen=True, kw_only=True):
    """The verdict of an audit. `map` and `log_sha256` stand in pages alone."""

    analyst: str | None = None  # of a view: who asked the statements
    sentence: str
    measures: tuple[str, ...] = ()
    proved: str = ""
    records: int
    people: int
    queries: int
    statements: StatementCounts
    complete: bool
    atoms: int
    rank: int
    promise: str
    assumed: dict[str, str]
    source: Provenance
    exposed: tuple[ExposedValue, ...]
    by_assumption: tuple[AssumedValues, ...]
    features: tuple[InferredFeature, ...]
    grades: dict[str, int]
    groups: tuple[GroupTotal, ...]
    rows: tuple[RowsHandedOut, ...]
    intervals: tuple[Interval, ...]
    unjudged: tuple[UnjudgedStatement, ...]
    refused: tuple[RefusedStatement, ...]
    contradictions: tuple[ContradictingAnswers, ...]
    warnings: tuple[JudgedWarning, ...]
    by: tuple[VerdictDocument, ...] = ()
    accepted: SignedOff | None = None
    rules: tuple[RuleResult, ...] = ()
    advice: StatementAdvice | None = None
    witness: Witness | None = None
    map: QueryMap | None = None
    log_sha256: str | None = None
