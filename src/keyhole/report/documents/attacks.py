"""The JSON of plans and reconstructions: what to ask about a person, and rows that were rebuilt from statistics."""

from __future__ import annotations

from keyhole.report.documents.json_text import Document, Labels, Value
from keyhole.report.documents.sessions import ReplyDocument


class PlayedDocument(Document, frozen=True, kw_only=True):
    """A plan that was asked through a session; `value` is null where it was not found out."""

    policy: str
    value: Value
    noisy: bool
    denied: bool
    replies: tuple[ReplyDocument, ...]


class PlanDocument(Document, frozen=True, kw_only=True):
    """What to ask about one person, or why it cannot be found out."""

    target: Labels
    column: str
    how: str
    queries: tuple[str, ...]
    weights: tuple[str, ...]
    formula: str
    exposes: tuple[Labels, ...]
    fewest: bool
    categories: tuple[Value, ...] = ()
    impossible: bool | None = None
    reason: str | None = None
    by_luck: str | None = None
    shared: tuple[Labels, ...] | None = None
    run: tuple[PlayedDocument, ...] = ()


class RecordPlan(Document, frozen=True, kw_only=True):
    """How one record is given away, or why not; `questions` is null where no chain does it."""

    record: Labels
    how: str
    questions: int | None


class FormulaDocument(Document, frozen=True, kw_only=True):
    """A value (of `people` > 1: a total) as weights on answers, by number of the question, and on formulas before it.

    Both empty: it is the only value of its domain with which all answers agree.
    """

    record: Labels
    people: int
    answers: dict[str, str]
    before: dict[str, str]


class PlayedListDocument(Document, frozen=True, kw_only=True):
    """A list that was asked through a session; `values` by the number of the formula."""

    policy: str
    answered: int
    refusal: str
    noisy: bool
    values: dict[str, Value]


class SharedListDocument(Document, frozen=True, kw_only=True):
    """One list of questions for everybody: no fewer than `bound` give all its people away.

    The auditor judged the first `judged` questions and found `exposed` people. Of a long list it reads the first `read`
    as planned; if these are all, the formulas of `proved` people are right by multiplication.
    """

    bound: int
    fewest: bool
    complete: bool
    people: int
    judged: int
    exposed: int
    read: int
    proved: int
    categories: tuple[Value, ...]
    formulas: tuple[FormulaDocument, ...]
    run: tuple[PlayedListDocument, ...]


class PlansDocument(Document, frozen=True, kw_only=True):
    """`keyhole plan --target all`: everybody at once."""

    target: str
    queries: tuple[str, ...]
    list: SharedListDocument
    exposes: tuple[Labels, ...]
    people: int
    counts: dict[str, int]
    seconds: float
    allowed: str
    by_luck: str
    plans: tuple[RecordPlan, ...]


class ReconstructionDocument(Document, frozen=True, kw_only=True):
    """Rows that give the statistics; `common` are those that all solutions are proved to share."""

    sentence: str
    unique: bool | None
    rows: tuple[Labels, ...]
    common: tuple[Labels, ...] | None
    status: str
    cells: int
    of: int
