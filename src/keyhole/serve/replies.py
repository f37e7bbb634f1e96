"""What leaves the server in answer to a question: an allow-list, field by field.

A `Reply` has more than an analyst may read: whom an answer would expose, the proof, what it was made from. Nothing of
it goes out but what is copied here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import msgspec

from keyhole.errors import KeyholeError
from keyhole.model.predicate import Scalar
from keyhole.model.query import Statement
from keyhole.model.schema import Role, Schema
from keyhole.report.documents.json_text import Value, json_fraction, json_number
from keyhole.serve.errors import Problem, ProblemKind, explain_refusal
from keyhole.sessions.exact_answers import name_columns
from keyhole.sessions.reply import Outcome, Reply
from keyhole.sql import lower_statement

Cell: TypeAlias = Scalar | Decimal | Fraction | None
MOST_KEY = 200  # characters of a group key that an agent reads
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\U000e0000-\U000e007f]")


class AnsweredQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as every door hands it out. `rows` are as the SELECT list has them; cells keep all their digits.

    `bars` are the error bars of noisy numbers, row by row (None: exact, or nothing can be said). `cost` is what it
    counts on the asker's account, in `unit`; `left` is what that account has left.
    """

    sql: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    exact: bool
    bars: tuple[tuple[Cell, ...], ...] | None = None
    beta: float | None = None
    cost: Fraction | None = None
    left: Fraction | None = None
    unit: str | None = None
    notes: tuple[str, ...] = ()
    entry: int | None = None
    receipt: str | None = None


class CheckedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of a question: it would be answered, for this price."""

    sql: str
    cost: Fraction | None = None
    unit: str | None = None
    notes: tuple[str, ...] = ()


class DescribedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column that questions may name."""

    name: str
    kind: str
    role: str


class DescribedTable(msgspec.Struct, frozen=True, kw_only=True):
    """What may be asked about: names and kinds, no values."""

    population: str
    table: str
    policy: str
    columns: tuple[DescribedColumn, ...]


class AccountBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The asker's own account; no number of another analyst. Without a budget, `unit` is None."""

    analyst: str
    unit: str | None = None
    spent: Fraction | None = None
    left: Fraction | None = None
    asked_today: int = 0
    per_day: int | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """What the asker's account says after a question, and what the question counts on it: the same whoever asked it
    first, because being told counts for everybody who is told.
    """

    unit: str
    left: Fraction
    cost: Fraction = Fraction(0)


def describe_outcome(
    reply: Reply, schema: Schema, account: Account | None
) -> AnsweredQuestion | CheckedQuestion | Problem:
    """A reply through the allow-list."""
    if reply.outcome is Outcome.DENIED:
        why = "the answer would expose somebody, together with what was answered before"
        return Problem(ProblemKind.DENIED, why, instead=reply.instead)
    if reply.outcome is Outcome.REFUSED:
        refused = next((p.refused for p in (reply.noisy, reply.price) if p is not None and p.refused is not None), None)
        if refused is not None and refused.unpaid:
            return Problem(ProblemKind.BUDGET, reply.reason)
        return explain_refusal(reply.sql, schema, reply.reason)
    unit = None if account is None else account.unit
    if reply.outcome is Outcome.ALLOWED:
        price = reply.price
        return CheckedQuestion(
            sql=reply.sql,
            cost=None if price is None else price.cost,
            unit=unit,
            notes=() if price is None else price.notes,
        )
    if reply.noisy is None:
        return AnsweredQuestion(
            sql=reply.sql, columns=reply.columns, rows=reply.rows, exact=True, entry=reply.entry, receipt=reply.receipt
        )
    columns, rows, bars = list_noisy_rows(reply, schema)
    return AnsweredQuestion(
        sql=reply.sql,
        columns=columns,
        rows=rows,
        bars=bars,
        exact=False,
        beta=reply.noisy.beta,
        cost=reply.noisy.cost if account is None else account.cost,
        left=None if account is None else account.left,
        unit=unit,
        notes=reply.noisy.notes,
        entry=reply.entry,
        receipt=reply.receipt,
    )


NoisyRows: TypeAlias = tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...], tuple[tuple[Cell, ...], ...]]


def list_noisy_rows(reply: Reply, schema: Schema) -> NoisyRows:
    """Names, cells and bars of a private answer as its SELECT list has them; keys first where that is not known."""
    assert reply.noisy is not None
    groups = [(dict(key), estimates) for key, estimates in reply.noisy.shown()]
    try:
        statement = lower_statement(reply.sql, schema)
    except KeyholeError:
        return (), (), ()
    items = _find_items(statement, [len(estimates) for _, estimates in groups])
    if items is None:
        names = [key.name for key in statement.keys]
        columns = (*names, *(query.label for query in statement.queries))
        return (
            columns,
            tuple((*map(key.get, names), *(e.value for e in estimates)) for key, estimates in groups),
            tuple((*(None for _ in names), *(e.bar for e in estimates)) for _, estimates in groups),
        )
    return (
        name_columns(reply.sql),
        tuple(tuple(key.get(i) if isinstance(i, str) else e[i].value for i in items) for key, e in groups),
        tuple(tuple(None if isinstance(i, str) else e[i].bar for i in items) for _, e in groups),
    )


def _find_items(statement: Statement, widths: Sequence[int]) -> list[str | int] | None:
    """For each item of the SELECT list the name of its key or the number of its query."""
    own = {key.sql: key.name for key in statement.keys}
    items: list[str | int] = []
    for item in statement.shown:
        if item.query is None and item.sql not in own:
            return None
        items.append(own[item.sql] if item.query is None else item.query)
    wide = len(statement.queries)
    return items if items and all(width == wide for width in widths) else None


def list_cells(rows: Sequence[Sequence[Cell]]) -> list[list[Value]]:
    """Cells as JSON has them: numbers keep all their digits, dates become text."""
    return [[json_fraction(c) if isinstance(c, Fraction) else json_number(c) for c in row] for row in rows]


def describe_table(population: str, policy: str, schema: Schema) -> DescribedTable:
    """The columns that questions may name; a hidden one is not there."""
    return DescribedTable(
        population=population,
        table=schema.table,
        policy=policy,
        columns=tuple(
            DescribedColumn(name=c.name, kind=str(c.kind), role=str(c.role))
            for c in schema.columns
            if c.role is not Role.HIDDEN and not c.computed
        ),
    )


def strip_text(text: str, most: int = MOST_KEY) -> str:
    """Text of the table as an agent may read it: cut, and without characters that are not seen.

    >>> strip_text("a\\x1b[2Jb\\u202e"), strip_text("x" * 300)[-3:]
    ('a[2Jb', 'xx…')
    """
    clean = CONTROL.sub("", text)
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"
