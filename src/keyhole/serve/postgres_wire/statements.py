"""What a client's text asks for, and the text that gives its answer: a SELECT of constants with the same columns.

Which statements are protected decides nothing about privacy: one that is missed fails in the shadow for want of a
right. Texts of ours are written with E'...', which no setting of a client reads otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from keyhole.errors import KeyholeError
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Schema
from keyhole.sql import lower_statement, translate_to_duckdb
from keyhole.sql.dialects.engine import Dialect

if TYPE_CHECKING:
    from keyhole.serve.replies import Cell

TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n\r]*)|(?P<comment>/\*)|(?P<text>[eE]'(?:[^'\\]|\\.|'')*'|(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*')
    |(?P<quoted>(?:[uU]&)?"(?:[^"]|"")*")|(?P<dollar>\$(?:[^\W\d]\w*)?\$)|(?P<parameter>\$\d+)
    |(?P<word>[^\W\d][\w$]*)|(?P<number>\d[\w.]*)|(?P<end>;)|(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
RELAYED = frozenset({
    "select", "with", "values", "table", "show", "set", "reset", "begin", "start", "commit", "end", "rollback", "abort",
    "savepoint", "release", "discard", "deallocate", "close", "fetch", "move", "declare", "prepare", "execute",
    "explain", "copy",
})  # fmt: skip
COPY = re.compile(
    r"\s*copy\s*\((?P<sql>.*)\)(?P<after>\s*to\s+stdout\b[^)(]*(?:\([^)(]*\)\s*)?)\Z", re.IGNORECASE | re.DOTALL
)
WHOLE_TYPES = frozenset({20, 21, 23})  # int8, int2, int4
NUMBERS = WHOLE_TYPES | {26, 700, 701, 1700}  # oid, float4, float8, numeric
TEXTS = frozenset({18, 19, 25, 705, 1042, 1043})
DIGITS = 30  # behind the point, of a fraction that has no end
BOOLEAN, DATE, TIMESTAMP = 16, 1082, 1114
TYPE_NAMES = {BOOLEAN: "boolean", DATE: "date", TIMESTAMP: "timestamp"}


class Purpose(StrEnum):
    """What is to be done with the question inside a statement."""

    ROWS = "rows"
    EXPLAIN = "explain"
    COPY = "copy"
    CURSOR = "cursor"


@dataclass(frozen=True, slots=True)
class ClientStatement:
    """One statement of a message: its text, and its words (names folded to lower case, literals left out)."""

    text: str
    words: tuple[tuple[str, int, int], ...]  # word, where it begins and ends in the text

    @property
    def first(self) -> str:
        """Its first word."""
        return self.words[0][0] if self.words else ""

    def names_any(self, tables: Collection[str]) -> bool:
        """Does it name one of these tables?"""
        return any(word in tables for word, _, _ in self.words)


@dataclass(frozen=True, slots=True)
class ProtectedQuestion:
    """A statement over protected tables: the question, and the text around it that stays."""

    purpose: Purpose
    before: str
    sql: str
    after: str


def split_statements(text: str) -> list[ClientStatement]:
    """The statements of a text, as PostgreSQL's lexer has them; empty ones are left out.

    >>> [s.text for s in split_statements("SELECT ';' FROM a /* ; */; SHOW x")]
    ["SELECT ';' FROM a /* ; */", ' SHOW x']
    """
    found: list[ClientStatement] = []
    begun, words = 0, []
    for kind, start, end in _scan(text):
        if kind == "word":
            words.append((text[start:end].lower(), start - begun, end - begun))
        elif kind == "quoted":
            name = text[text.index('"', start) + 1 : end - 1].replace('""', '"')
            words.append((name, start - begun, end - begun))
        elif kind == "end":
            if text[begun:start].strip():
                found.append(ClientStatement(text[begun:start], tuple(words)))
            begun, words = end, []
    if text[begun:].strip():
        found.append(ClientStatement(text[begun:], tuple(words)))
    return found


def _scan(text: str) -> Iterator[tuple[str, int, int]]:
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        assert match is not None
        kind, start, at = str(match.lastgroup), at, match.end()
        if kind == "comment":
            at = _end_comment(text, at)
        elif kind == "dollar":
            end = text.find(match[0], at)
            at = len(text) if end < 0 else end + len(match[0])
        yield kind, start, at


def _end_comment(text: str, at: int) -> int:
    """Comments nest."""
    depth = 1
    while depth and at < len(text):
        if text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif text.startswith("*/", at):
            depth, at = depth - 1, at + 2
        else:
            at += 1
    return at


def is_other_copy(statement: ClientStatement) -> bool:
    """Is it a COPY of something else than the rows of a query to the client?"""
    return statement.first == "copy" and COPY.match(statement.text) is None


def find_question(statement: ClientStatement) -> ProtectedQuestion | None:
    """The question inside a statement over protected tables; None if it is no question."""
    text, first = statement.text, statement.first
    if first in ("select", "with"):
        return ProtectedQuestion(Purpose.ROWS, "", text, "")
    if first == "explain":
        start = next((at for word, at, _ in statement.words[1:] if word in ("select", "with")), None)
        return None if start is None else ProtectedQuestion(Purpose.EXPLAIN, "", text[start:], "")
    if first == "declare":
        after = [word for word, _, _ in statement.words]
        if "cursor" not in after or "for" not in after[after.index("cursor") :]:
            return None
        end = statement.words[after.index("for", after.index("cursor"))][2]
        return ProtectedQuestion(Purpose.CURSOR, f"{text[:end]} ", text[end:], "")
    if first == "copy":
        copied = COPY.match(text)
        if copied is not None:
            return ProtectedQuestion(Purpose.COPY, "COPY (", copied["sql"], f"){copied['after']}")
    return None


def translate_question(
    sql: str, parameters: Sequence[str | None], types: Sequence[int], width: int, schema: Schema
) -> tuple[str, str]:
    """The question in the words of the data's engine and "", or "" and why not. Parameters become literals in the tree,
    never in the text.

    It must have as many columns as the client was told: what can fail fails before anything is charged.
    """
    try:
        tree = sqlglot.parse_one(sql, read="postgres")
    except (SqlglotError, RecursionError):
        return "", "this is not one SELECT that can be read"
    for node in list(tree.find_all(exp.Parameter)):
        number = node.this.name if isinstance(node.this, exp.Expression) else str(node.this)
        at = int(number) - 1 if number.isdigit() else -1
        if not 0 <= at < len(parameters):
            return "", f"there is no parameter ${number}"
        made = make_literal(parameters[at], types[at])
        if made is None:
            return "", f"parameter ${number} is of a type, or has a value, that is not read"
        node.replace(made)
    written = tree.sql(dialect="postgres") if parameters else sql
    translated = translate_to_duckdb(written, Dialect.POSTGRES, schema)
    if translated.reason:
        return "", translated.reason
    try:
        shown = len(lower_statement(translated.sql, schema).shown)
    except KeyholeError:  # whatever is wrong with it is told, and noted in the book, where it is asked
        return translated.sql, ""
    if shown != width:
        return "", "write each column of the answer by itself in the SELECT list"
    return translated.sql, ""


def make_literal(value: str | None, kind: int) -> exp.Expression | None:
    """A parameter as a literal of its type; None for what is not read."""
    if value is None:
        return exp.Null()
    if kind in NUMBERS:
        try:
            number = Decimal(value)
        except InvalidOperation:
            return None
        if not number.is_finite():
            return None
        made = exp.Literal.number(format(abs(number), "f"))
        return exp.Paren(this=exp.Neg(this=made)) if number < 0 else made
    if kind in TEXTS:
        return exp.Literal.string(value)
    if kind == BOOLEAN:
        return exp.Boolean(this=value in ("t", "true"))
    if kind == DATE:
        return exp.cast(exp.Literal.string(value), "date")
    return exp.cast(exp.Literal.string(value), "timestamp") if kind == TIMESTAMP else None


def write_parameter(number: int, kind: int) -> str:
    """A parameter as text, whatever the client's settings say of dates."""
    if kind == DATE:
        return f"pg_catalog.to_char(${number}, 'YYYY-MM-DD')"
    if kind == TIMESTAMP:
        return f"pg_catalog.to_char(${number}, 'YYYY-MM-DD HH24:MI:SS.US')"
    return f"${number}::text"


def write_text(text: str) -> str:
    r"""A text literal that is read alike under every setting.

    >>> print(write_text("it's \\ so"))
    E'it''s \\ so'
    """
    escaped = text.replace("\0", "\ufffd").replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def write_rows(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str | None]]) -> str:
    """A SELECT of constants: the columns (name and type) of the client's statement, with these values."""
    cells = [write_text(_write_array(rows, at)) for at in range(len(columns))]
    arrays = [f"pg_catalog.unnest({text}::{kind}[])" for text, (_, kind) in zip(cells, columns, strict=True)]
    names = [f"c{at} AS {quote_name(name)}" for at, (name, _) in enumerate(columns)]
    places = ", ".join(f"c{at}" for at in range(len(columns)))
    return f"SELECT {', '.join(names)} FROM ROWS FROM ({', '.join(arrays)}) AS t({places})"


def _write_array(rows: Sequence[Sequence[str | None]], at: int) -> str:
    cells = (row[at] for row in rows)
    quoted = ("NULL" if c is None else '"' + c.replace("\\", "\\\\").replace('"', '\\"') + '"' for c in cells)
    return "{" + ",".join(quoted) + "}"


def write_guard(columns: Sequence[tuple[str, str]]) -> str:
    """A SELECT with these columns that ends in an error: an empty answer would be taken for the truth."""
    denied = write_denial("55000", "this portal is answered when it is executed", "").removeprefix("SELECT ")
    cells = (f"CASE WHEN {denied} IS NULL THEN NULL::{kind} END AS {quote_name(name)}" for name, kind in columns)
    return f"SELECT {', '.join(cells)}"


def write_denial(code: str, message: str, hint: str) -> str:
    """A statement that ends in this error, in whatever transaction it is."""
    first, *more = message.splitlines() or ["it was not answered"]
    parts = (code, first, "\n".join(more), hint)
    return f"SELECT keyhole.deny({', '.join(map(write_text, parts))})"


def write_cell(cell: Cell, kind: int) -> str | None:
    """A value as PostgreSQL reads it in a column of this type: a noisy number in a column of whole numbers is rounded.

    >>> write_cell(Decimal("41.30"), 20), write_cell(Fraction(1, 3), 1700), write_cell(True, 16), write_cell(None, 25)
    ('41', '0.333333333333333333333333333333', 't', None)
    """
    if cell is None:
        return None
    if isinstance(cell, bool):
        return "t" if cell else "f"
    if isinstance(cell, float | Decimal | Fraction) and kind in WHOLE_TYPES:
        return str(round(cell))
    if isinstance(cell, Fraction):
        whole, rest = divmod(abs(round(cell * 10**DIGITS)), 10**DIGITS)
        return f"{'-' if cell < 0 else ''}{whole}.{rest:0{DIGITS}}" if cell.denominator != 1 else str(cell.numerator)
    if isinstance(cell, Decimal):
        return f"{cell:f}"
    return str(cell).replace("\0", "\ufffd")
