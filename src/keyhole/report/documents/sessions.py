"""The JSON of sessions: answers and prices, replies, and the book of what was asked, answered and paid."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from keyhole.report.documents.json_text import Document, Labels, Value


class AnsweredGroup(Document, frozen=True, kw_only=True):
    """The numbers of one group; `error` has the bar of each, where noise was added."""

    key: Labels
    values: tuple[Value, ...]
    error: tuple[Value, ...] | None = None


class ReplyDocument(Document, frozen=True, kw_only=True):
    """What a statement was told: numbers, a price, or why there are none."""

    sql: str
    refused: str | None = None  # by `keyhole ask -f`
    outcome: str | None = None  # of `keyhole ask`
    reason: str | None = None
    value: Value | UnsetType = UNSET
    groups: tuple[AnsweredGroup, ...] | None = None
    error: Value | UnsetType = UNSET
    ranks: int | None = None
    alpha: Value | tuple[Value, ...] | UnsetType = UNSET
    beta: float | None = None
    cost: float | None = None
    share: float | None = None  # of the budget
    left: float | None = None
    neighbours: str | None = None
    how: str | None = None
    notes: tuple[str, ...] = ()
    instead: str | None = None
    who: list[dict[str, Any]] | None = None
    proof: list[dict[str, Any]] | None = None
    entry: int | None = None
    receipt: str | None = None


class AskDocument(Document, frozen=True, kw_only=True):
    """What `keyhole ask --format json` writes; `unit` is what a private policy counts `cost` and `left` in."""

    policy: str
    replies: tuple[ReplyDocument, ...]
    unit: str | None = None
    bounds: tuple[str, ...] = ()
    dry_run: bool = False


class AnswersDocument(Document, frozen=True, kw_only=True):
    """What `keyhole ask -f FILE --format json` writes."""

    answers: tuple[ReplyDocument, ...]
    spent: float
    budget: float
    unit: str
    left: float | None = None
    dry_run: bool = False
    ledger: str | UnsetType | None = UNSET


class BookVersion(Document, frozen=True, kw_only=True):
    """A version of the data that a book was begun or gone on with."""

    epoch: int
    version: str | None


class AccountTotal(Document, frozen=True, kw_only=True):
    """What an account has spent, exactly; `limit` and `left` where the settings say what it may spend."""

    amount: str
    delta: str
    limit: str | None = None
    left: str | None = None


class SpendingStep(Document, frozen=True, kw_only=True):
    """The amounts after an entry that changed them, by account."""

    entry: int
    spent: dict[str, str]


class BookEntryDocument(Document, frozen=True, kw_only=True):
    """An entry of a book, without what is sealed."""

    entry: int
    at: str
    kind: str
    epoch: int
    analyst: str | None
    says: dict[str, Any]
    receipt: str


class UnansweredStatement(Document, frozen=True, kw_only=True):
    """A statement that was denied or refused."""

    at: str
    analyst: str | None
    sql: str
    verdict: str
    reason: str


class BookDocument(Document, frozen=True, kw_only=True):
    """What `keyhole book show --format json` writes; the account `*` is everybody together."""

    population: str
    epochs: tuple[BookVersion, ...]
    budget: dict[str, Any]
    spent: dict[str, AccountTotal]
    spending: tuple[SpendingStep, ...]
    entries: tuple[BookEntryDocument, ...]
    not_answered: tuple[UnansweredStatement, ...]
