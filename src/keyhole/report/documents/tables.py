"""The JSON of `keyhole tables`: a verdict over hidden cells, with what is said of tables."""

from __future__ import annotations

from typing import Any

from keyhole.report.documents.json_text import Document, Value
from keyhole.report.documents.verdict import (
    AssumedValues,
    ExposedValue,
    GroupTotal,
    InferredFeature,
    Interval,
    JudgedWarning,
    RefusedStatement,
    RoundingEffect,
    RowsHandedOut,
    StatementCounts,
    UnjudgedStatement,
)


class ReadCell(Document, frozen=True, kw_only=True):
    """A cell of a table: its categories (null: all), its name in findings, its number, and what is said of it.

    `status`: shown, suppressed, recovered, nearly (known nearly), narrowed, unprotected (in too narrow a range),
    by_rule (follows from knowing the rule), against_rule (shown, and fails a rule).
    """

    categories: tuple[str | None, ...]
    cell: dict[str, str]
    number: Value
    status: str


class ReadTable(Document, frozen=True, kw_only=True):
    """A table that was read."""

    name: str
    columns: tuple[str, ...]
    cells: int
    content: tuple[ReadCell, ...]


class TableContradiction(Document, frozen=True, kw_only=True):
    """What does not add up."""

    reason: str


class SensitiveCell(Document, frozen=True, kw_only=True):
    """A cell that fails a rule."""

    cell: dict[str, str]
    rule: str
    shown: bool


class UnprotectedCell(Document, frozen=True, kw_only=True):
    """A hidden cell whose range is narrower than its rule asks for."""

    cell: dict[str, str]
    rule: str
    needs: tuple[Value, Value]
    lo: Value
    hi: Value


class CellByRule(Document, frozen=True, kw_only=True):
    """A hidden cell that follows for somebody who knows the rule: every group of suppressed cells has one it hid."""

    cell: dict[str, str]
    value: Value


class UnevenLine(Document, frozen=True, kw_only=True):
    """A margin that is off by no more than rounding explains."""

    reason: str
    off: Value


class UnroundedCell(Document, frozen=True, kw_only=True):
    """A shown cell whose rounded number is one number only."""

    cell: dict[str, str]
    value: Value


class CoarserTables(Document, frozen=True, kw_only=True):
    """Publishing without a column, or less finely, and what that leaves."""

    what: str
    cells: int
    exposed: int
    inferred: int
    narrowest: Value
    complete: bool


class SuggestionAlternatives(Document, frozen=True, kw_only=True):
    """What would do instead of suppressing more cells."""

    coarser: tuple[CoarserTables, ...]
    rounding: tuple[RoundingEffect, ...]


class CellSuggestion(Document, frozen=True, kw_only=True):
    """Which cells to suppress besides; `bound`: no fewer do."""

    withhold: tuple[dict[str, str], ...]
    enough: bool
    smallest: bool
    bound: int
    verified: bool
    stopped: bool
    alternatives: SuggestionAlternatives


class TablesDocument(Document, frozen=True, kw_only=True):
    """What published tables give away. The fields of an audit are there where some line says anything of a cell."""

    tables: tuple[ReadTable, ...]
    cells: int
    suppressed: int
    lines: int
    groups: tuple[GroupTotal, ...]
    unjudged: tuple[UnjudgedStatement, ...]
    refused: tuple[RefusedStatement, ...]
    source: dict[str, Any]  # that of an audit, or nothing
    sentence: str
    records: int | None = None
    people: int | None = None
    queries: int | None = None
    statements: StatementCounts | None = None
    complete: bool
    atoms: int | None = None
    rank: int | None = None
    promise: str
    assumed: dict[str, str] | None = None
    exposed: tuple[ExposedValue, ...]
    by_assumption: tuple[AssumedValues, ...] | None = None
    features: tuple[InferredFeature, ...] | None = None
    grades: dict[str, int] | None = None
    rows: tuple[RowsHandedOut, ...] | None = None
    intervals: tuple[Interval, ...]
    contradictions: tuple[TableContradiction, ...]
    warnings: tuple[JudgedWarning, ...] | None = None
    inferred: tuple[Interval, ...]
    rules: tuple[str, ...]
    rules_applied: bool
    sensitive: tuple[SensitiveCell, ...]
    protection: tuple[UnprotectedCell, ...]
    by_rule: tuple[CellByRule, ...]
    rounding: Value
    rounding_given: bool
    uneven: tuple[UnevenLine, ...]
    unrounded: tuple[UnroundedCell, ...]
    suggestion: CellSuggestion | None = None
