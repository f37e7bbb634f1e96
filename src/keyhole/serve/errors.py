"""The one table of what can go wrong, for all doors: outcome -> SQLSTATE, HTTP status, MCP.

A problem's words come from the statement, the schema, the declaration and the asker's own account. An error that was
not foreseen is told by its type alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from keyhole.errors import (
    BookError,
    BudgetExhausted,
    CannotHonour,
    ConfigError,
    ContradictionError,
    KeyholeError,
    NotAvailable,
    ParseError,
    PrivacyParameterError,
    QueryError,
    UnknownColumn,
)
from keyhole.model.schema import Schema
from keyhole.serve.limits import TooManyWaiting
from keyhole.sql import lower_statement


class ProblemKind(StrEnum):
    """What went wrong, in one word; the `code` of every door."""

    DENIED = "deny"
    REFUSED = "refused"
    SYNTAX = "syntax"
    COLUMN = "column"
    BUDGET = "budget"
    ACCURACY = "accuracy"
    KEY = "key"
    ROLE = "role"
    REQUEST = "request"
    NOT_FOUND = "not-found"
    METHOD = "method"
    TOO_LARGE = "too-large"
    RATE = "rate"
    BOOK = "book"
    CLOSING = "closing"
    CANCELLED = "cancelled"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """A row of the table. `tool_error`: does MCP call it an error of the tool? A denial is a normal result."""

    sqlstate: str
    status: int
    tool_error: bool
    title: str


ERRORS = {
    ProblemKind.DENIED: ErrorRow("42501", 403, False, "The answer would expose somebody"),
    ProblemKind.REFUSED: ErrorRow("0A000", 422, True, "The question is not understood or not decided"),
    ProblemKind.SYNTAX: ErrorRow("42601", 422, True, "The statement is not SQL"),
    ProblemKind.COLUMN: ErrorRow("42703", 422, True, "There is no such column"),
    ProblemKind.BUDGET: ErrorRow("53400", 402, True, "The budget does not pay for this answer"),
    ProblemKind.ACCURACY: ErrorRow("22023", 422, True, "This accuracy cannot be had"),
    ProblemKind.KEY: ErrorRow("28P01", 401, True, "No key, or not one that is known"),
    ProblemKind.ROLE: ErrorRow("42501", 403, True, "This key may not do that"),
    ProblemKind.REQUEST: ErrorRow("08P01", 400, True, "The request is not as it must be"),
    ProblemKind.NOT_FOUND: ErrorRow("3D000", 404, True, "There is no such thing"),
    ProblemKind.METHOD: ErrorRow("08P01", 405, True, "This path takes another method"),
    ProblemKind.TOO_LARGE: ErrorRow("54000", 413, True, "The request is too large"),
    ProblemKind.RATE: ErrorRow("53300", 429, True, "Too many questions"),
    ProblemKind.BOOK: ErrorRow("55P03", 503, True, "The book cannot be written now"),
    ProblemKind.CLOSING: ErrorRow("57P01", 503, True, "The server is closing"),
    ProblemKind.CANCELLED: ErrorRow("57014", 499, True, "Cancelled before it was decided"),
    ProblemKind.INTERNAL: ErrorRow("XX000", 500, True, "Something went wrong here"),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there is no answer. `instead` is a statement that would be allowed, `position` a character of the SQL from 0,
    `retry_after` whole seconds.
    """

    kind: ProblemKind
    detail: str
    instead: str | None = None
    position: int | None = None
    retry_after: int | None = None

    @property
    def row(self) -> ErrorRow:
        """Its row of the table."""
        return ERRORS[self.kind]


def explain_refusal(sql: str, schema: Schema, reason: str) -> Problem:
    """A refusal, told apart by its class and place: the text is read again, which no data enters."""
    try:
        lower_statement(sql, schema)
    except QueryError as error:
        kind = (
            ProblemKind.SYNTAX
            if isinstance(error, ParseError)
            else ProblemKind.COLUMN
            if isinstance(error, UnknownColumn)
            else ProblemKind.REFUSED
        )
        return Problem(kind, reason, position=error.position)
    except KeyholeError:
        return Problem(ProblemKind.REFUSED, reason)
    return Problem(ProblemKind.REFUSED, reason)


def explain_error(error: BaseException) -> Problem:
    """An exception as a problem. What is not ours, or may quote a value, is told by its type."""
    match error:
        case BudgetExhausted():
            return Problem(ProblemKind.BUDGET, str(error))
        case CannotHonour() | PrivacyParameterError():
            return Problem(ProblemKind.ACCURACY, str(error))
        case QueryError():
            return Problem(ProblemKind.REFUSED, str(error), position=error.position)
        case BookError() | ConfigError():  # the book, or its witness; the words name files of the owner
            return Problem(ProblemKind.BOOK, "the book cannot be gone on with: ask its owner", retry_after=5)
        case TooManyWaiting():
            return Problem(ProblemKind.RATE, "too many questions wait for their turn: try again later", retry_after=5)
        case ContradictionError() | NotAvailable():
            return Problem(
                ProblemKind.INTERNAL, f"this question was not answered ({type(error.__cause__ or error).__name__})"
            )
    return Problem(ProblemKind.INTERNAL, f"this question was not answered ({type(error).__name__})")
