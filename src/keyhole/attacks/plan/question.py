"""What an attacker may ask: sums under conditions on few public columns, as values that become masks and SQL.

A condition is about the codes of one column: values are numbered in their order, NULL is the last code. A question is a
conjunction of conditions on different columns, or (with OR) one of several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import ConfigError
from keyhole.model.predicate import Scalar, format_literal, quote_name

OPERATORS = ("=", "<>", "<", ">", "BETWEEN", "IN", "OR")
DEFAULT = ("=", "<>")
COMPARED: dict[str, Callable[[NDArray[np.int64], int], NDArray[np.bool_]]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


@dataclass(frozen=True, slots=True, order=True)
class CodeCondition:
    """`column op codes`: = and <> and <, <=, >, >= have one code, BETWEEN two, IN any number."""

    column: int
    op: str
    codes: tuple[int, ...]

    def among(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For which of these codes it holds, NULL being a code like any other.

        >>> CodeCondition(0, "BETWEEN", (1, 2)).among(np.arange(4)).tolist()
        [False, True, True, False]
        """
        if self.op == "IN":
            return np.isin(codes, self.codes)
        if self.op == "BETWEEN":
            return (codes >= self.codes[0]) & (codes <= self.codes[1])
        return COMPARED[self.op](codes, self.codes[0])


Conjunction: TypeAlias = tuple[CodeCondition, ...]
Question: TypeAlias = tuple[Conjunction, ...]  # one conjunction, or several joined by OR
EVERYBODY: Question = ((),)


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """A public column as the planner sees it: its name, its values in order, whether it has NULLs."""

    name: str
    values: tuple[Scalar, ...]
    nullable: bool

    @property
    def codes(self) -> int:
        """How many codes: the values, and NULL where there is one."""
        return len(self.values) + self.nullable

    def sql(self, condition: CodeCondition) -> str:
        """The condition as SQL. In a column with NULLs <> means "not this value", NULLs included."""
        name, at = quote_name(self.name), condition.codes
        null = at[0] == len(self.values)
        if condition.op == "=":
            return f"{name} IS NULL" if null else f"{name} = {format_literal(self.values[at[0]])}"
        if condition.op == "<>":
            if null:
                return f"{name} IS NOT NULL"
            plain = f"{name} <> {format_literal(self.values[at[0]])}"
            return f"({plain} OR {name} IS NULL)" if self.nullable else plain
        if condition.op == "BETWEEN":
            return f"{name} BETWEEN {format_literal(self.values[at[0]])} AND {format_literal(self.values[at[1]])}"
        if condition.op == "IN":
            return f"{name} IN ({', '.join(format_literal(self.values[v]) for v in at)})"
        return f"{name} {condition.op} {format_literal(self.values[at[0]])}"


def question_sql(question: Question, columns: tuple[CodedColumn, ...], private: str, table: str) -> str:
    """The question as one SELECT.

    >>> sex = CodedColumn("sex", ("F", "M"), False)
    >>> question_sql(((CodeCondition(0, "<>", (1,)),),), (sex,), "pay", "staff")
    'SELECT SUM("pay") FROM "staff" WHERE "sex" <> \\'M\\''
    """
    return _about(f"SELECT SUM({quote_name(private)}) FROM {quote_name(table)}", question, columns)


def counts_sql(
    question: Question, columns: tuple[CodedColumn, ...], private: str, values: Sequence[Scalar], table: str
) -> str:
    """The question about a column of categories: how many of the group have each, as one SELECT.

    >>> sex = CodedColumn("sex", ("F", "M"), False)
    >>> counts_sql(((CodeCondition(0, "=", (1,)),),), (sex,), "ill", ("flu",), "staff")
    'SELECT COUNT(*) FILTER (WHERE "ill" = \\'flu\\') FROM "staff" WHERE "sex" = \\'M\\''
    """
    counts = (f"COUNT(*) FILTER (WHERE {quote_name(private)} = {format_literal(value)})" for value in values)
    return _about(f"SELECT {', '.join(counts)} FROM {quote_name(table)}", question, columns)


def group_sql(question: Question, columns: tuple[CodedColumn, ...], table: str) -> str:
    """How many the question is about."""
    return _about(f"SELECT COUNT(*) FROM {quote_name(table)}", question, columns)


def _about(head: str, question: Question, columns: tuple[CodedColumn, ...]) -> str:
    parts = [" AND ".join(columns[c.column].sql(c) for c in conjunction) for conjunction in question]
    if not all(parts):
        return head
    joined = " OR ".join(f"({part})" if " AND " in part else part for part in parts) if len(parts) > 1 else parts[0]
    return f"{head} WHERE {joined}"


def parse_operators(text: str | Iterable[str]) -> frozenset[str]:
    """The operators of `--operators "=,<>,<,>,BETWEEN,IN,OR"`.

    >>> sorted(parse_operators("=, between"))
    ['=', 'BETWEEN']
    """
    given = text.split(",") if isinstance(text, str) else list(text)
    found = [word.strip().upper() for word in given if word.strip()]
    unknown = [word for word in found if word not in OPERATORS]
    if unknown or not found:
        what = f"there is no operator {unknown[0]!r}" if unknown else "no operator is given"
        raise ConfigError(f"--operators: {what}; write some of {','.join(OPERATORS)}")
    if set(found) == {"OR"}:
        raise ConfigError("--operators: OR joins conditions, so another operator is needed beside it")
    return frozenset(found)
