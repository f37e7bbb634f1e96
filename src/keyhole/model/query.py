"""What an analyst asks, as values: no rows, no data.

A `Term` is `factor * SUM(weight * column) WHERE where`; a `Query` is a sum of terms, or a ratio of two such sums
(AVG), or an order statistic; a `Statement` is one SELECT, which its GROUP BY keys expand to many queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias

from keyhole.model.numbers import fraction_to_scalar, round_fraction
from keyhole.model.predicate import (
    FALSE,
    TRUE,
    Comparison,
    IsNull,
    Opaque,
    Predicate,
    Scalar,
    find_columns,
    format_literal,
    format_predicate,
    make_and,
    quote_name,
)


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a statement has no answer: this depends on the text, the declaration and what is left, never on the data."""

    reason: str
    unpaid: bool = False  # the budget does not pay for it

    def __str__(self) -> str:
        return self.reason


# of a statement: some rows may be cut off; something computed from it was shown; shown, and others stand for it
IF_SHOWN, FINER, COVERED, IN_PART = "if shown", "finer", "covered", "covered in part"
DOUBTFUL = frozenset((IF_SHOWN, FINER))
COUNTED = "COUNT(*)"
HALF, FLOOR, CEIL, ZERO = "half", "floor", "ceil", "zero"  # where a rounded number goes: to the nearest, down, up, to 0
_ROUNDED = {HALF: "ROUND({}, {})", FLOOR: "FLOOR({})", CEIL: "CEIL({})", ZERO: "TRUNC({})"}


class Aggregate(StrEnum):
    """What is computed over the matching records. SUM covers COUNT and AVG too: see `Query`."""

    SUM = "SUM"
    MIN = "MIN"
    MAX = "MAX"
    MEDIAN = "MEDIAN"  # QUANTILE_CONT at level 1/2
    QUANTILE_CONT = "QUANTILE_CONT"  # at Query.level, between two values
    QUANTILE_DISC = "QUANTILE_DISC"  # at Query.level, one of the values
    VAR = "VAR"  # Query.terms hold the column; Query.label tells sample from population
    PEOPLE = "PEOPLE"  # COUNT(DISTINCT person) under private conditions; the term's weight is the id
    PUBLIC = "PUBLIC"  # public columns under public conditions: the term's weight is the whole aggregate; no secret


QUANTILES = (Aggregate.QUANTILE_CONT, Aggregate.QUANTILE_DISC)
CUT = (Aggregate.MEDIAN, Aggregate.QUANTILE_CONT)  # of DECIMAL, DuckDB cuts them toward zero to the column's digits
OTHER_GROUPS = "every other group"  # the label of what a GROUP BY says of keys that it does not show
COUNTED_ROWS = -1
ORDERED = (Aggregate.MIN, Aggregate.MAX, Aggregate.MEDIAN, *QUANTILES)


@dataclass(frozen=True, slots=True)
class Term:
    """`factor * SUM(weight * column ** power) WHERE where`; `column=None` counts records (weight times one).

    `column` is private; `weight` is an SQL expression over public columns, `None` for one. Records whose column is
    NULL are outside `where` by construction (`lower` adds `IS NOT NULL`).
    """

    column: str | None
    where: Predicate = TRUE
    factor: Fraction = Fraction(1)
    weight: str | None = None
    power: int = 1

    def sql(self) -> str:
        """The term as SQL, with its condition in a FILTER; 0 where nobody matches."""
        return self._times(f"COALESCE({self._summed()}, 0)")

    def plain(self) -> str:
        """The term as SQL; NULL where nobody matches."""
        return self._times(self._summed())

    def _summed(self) -> str:
        body = quote_name(self.column) if self.column is not None else "1"
        if self.power == 2:
            body = f"{body} * {body}"
        if self.weight is not None:
            body = self.weight if self.column is None else f"{body} * ({self.weight})"
        text = f"SUM({body})"
        if self.where != TRUE:
            text += f" FILTER (WHERE {format_predicate(self.where)})"
        return text

    def _times(self, text: str) -> str:
        if self.factor == 1:
            return text
        if self.factor.denominator == 1:
            return f"{self.factor.numerator} * {text}"
        return f"({text} * {self.factor.numerator} / {self.factor.denominator})"


@dataclass(frozen=True, slots=True)
class Threshold:
    """A yes/no question: is the aggregate `op value`? `unit`: rounded to multiples of it, it was compared otherwise."""

    op: str
    value: Decimal
    unit: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One number asked for: the sum of `terms` (divided by the sum of `per`, if any), or an order statistic.

    COUNT(*) is a term without column; AVG(x) is SUM(x) per COUNT(x). `digits` is the ROUND applied to the answer,
    `test` makes it a yes/no question. `key` is the GROUP BY key, `label` the SELECT item as written.

    `rounding` is how `digits` are reached: half (ROUND, CAST), floor, ceil or zero (TRUNC); `level` is a quantile's.

    `needs` is what SQL's NULL depends on: one condition for each SUM that the item has, COALESCE(SUM(x), 0) aside. If
    nobody satisfies one of them, that sum was over nobody and the answer is NULL; so it is if `per` adds up to 0.
    """

    aggregate: Aggregate
    terms: tuple[Term, ...]
    per: tuple[Term, ...] = ()
    digits: int | None = None
    test: Threshold | None = None
    key: tuple[tuple[str, Scalar | None], ...] = ()
    label: str = ""
    needs: tuple[Predicate, ...] = ()
    rounding: str = HALF
    level: Fraction = Fraction(1, 2)
    roundings: int = 0  # numbers that an engine adds up on the way, each a rounded DOUBLE: an average of averages
    # which column of the answer (from 1), where its text does not tell; COUNTED_ROWS: how many rows have this key
    item: int = field(default=0, compare=False)

    @property
    def columns(self) -> frozenset[str]:
        """The private columns that are summed or ordered."""
        return frozenset(t.column for t in (*self.terms, *self.per) if t.column is not None)

    @property
    def named_columns(self) -> frozenset[str]:
        """Every column that is added up, ordered, or looked at by a condition, private or public."""
        terms = (*self.terms, *self.per)
        wheres = (*(t.where for t in terms), *self.needs)
        return self.columns.union(*(find_columns(where) for where in wheres))

    def under(self, condition: Predicate, key: tuple[tuple[str, Scalar | None], ...]) -> Query:
        """The same question asked of one group only."""

        def narrow(terms: tuple[Term, ...]) -> tuple[Term, ...]:
            return tuple(replace(t, where=make_and(t.where, condition)) for t in terms)

        needs = tuple(make_and(need, condition) for need in self.needs)
        return replace(self, terms=narrow(self.terms), per=narrow(self.per), key=key, needs=needs)

    def canonical(self) -> str:
        """The question as one SELECT item, in canonical SQL: what we claim the statement means.

        >>> from keyhole.model.predicate import Comparison
        >>> Query(Aggregate.SUM, (Term("pay", Comparison("dept", "=", "legal")),)).canonical()
        'COALESCE(SUM("pay") FILTER (WHERE "dept" = \\'legal\\'), 0)'
        >>> Query(Aggregate.SUM, (Term("pay"),), needs=(TRUE,)).canonical()
        'SUM("pay")'
        """
        if self.aggregate is not Aggregate.SUM:
            term = self.terms[0]
            where = f" FILTER (WHERE {format_predicate(term.where)})" if term.where != TRUE else ""
            name = self.label.split("(")[0] if self.aggregate is Aggregate.VAR else self.aggregate.value
            at = f", {round_fraction(self.level):f}" if self.aggregate in QUANTILES else ""
            text = f"{name}({quote_name(term.column or '') if term.weight is None else term.weight}{at}){where}"
            if self.aggregate is Aggregate.PEOPLE:
                text = f"COUNT(DISTINCT {term.weight}){where}"
            if self.aggregate is Aggregate.PUBLIC:
                text = f"{term.weight}{where}"
            if term.factor != 1:
                text = f"({text} * {term.factor.numerator} / {term.factor.denominator})"
        else:
            text = self._sum()
        if self.digits is not None:
            text = _ROUNDED[self.rounding].format(text, self.digits)
        if self.test is not None:
            text = f"({text}) {self.test.op} {self.test.value}"
        return text

    def _sum(self) -> str:
        if len(self.terms) == 1 and not self.per and self.needs == (self.terms[0].where,):
            return self.terms[0].plain()
        text = " + ".join(t.sql() for t in self.terms) or "0"
        if self.per:
            text = f"CAST({text} AS DOUBLE) / NULLIF({' + '.join(t.sql() for t in self.per)}, 0)"
        needs = [need for need in self.needs if self.per != (Term(None, need),)]  # NULLIF says that one
        if needs:
            met = " AND ".join(f"COUNT(*) FILTER (WHERE {format_predicate(need)}) > 0" for need in needs)
            text = f"CASE WHEN {met} THEN {text} END"
        return text


@dataclass(frozen=True, slots=True)
class AllOf:
    """A conjunction of tests in HAVING."""

    parts: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A disjunction of tests in HAVING."""

    parts: tuple[Test, ...]


Test: TypeAlias = Query | AllOf | AnyOf
"""What a group must pass to be shown: a yes/no question, or several joined. A test that is NULL does not pass; NOT was
moved into the questions, so that NULL and FALSE need not be told apart further up."""


def list_questions(test: Test) -> tuple[Query, ...]:
    """The yes/no questions of a test, from left to right."""
    return (test,) if isinstance(test, Query) else tuple(q for part in test.parts for q in list_questions(part))


def _under(test: Test, condition: Predicate, key: tuple[tuple[str, Scalar | None], ...]) -> Test:
    if isinstance(test, Query):
        return test.under(condition, key)
    return replace(test, parts=tuple(_under(part, condition, key) for part in test.parts))


@dataclass(frozen=True, slots=True)
class Shown:
    """One item of the SELECT list: the number of a query, else the SQL of a key (or of a function of keys).

    Constants have neither: their `sql` looks at no column.
    """

    query: int | None = None
    sql: str = ""


@dataclass(frozen=True, slots=True)
class Steps:
    """Buckets of a private column: `start + size * q`, q being `factor * column` rounded down, up or toward zero.

    >>> format_predicate(Steps("pay", Fraction(1, 100), Fraction(100), Fraction(0)).holding(200))
    '"pay" >= 200 AND "pay" < 300'
    """

    column: str
    factor: Fraction
    size: Fraction
    start: Fraction
    rounding: str = FLOOR

    def holding(self, value: Scalar | None) -> Predicate:
        """The condition that a record is in the bucket of this value."""
        if value is None:
            return IsNull(self.column)
        q = (Fraction(value) - self.start) / self.size  # type: ignore[arg-type]
        return self.of(q.numerator) if q.denominator == 1 else FALSE

    def of(self, q: int) -> Predicate:
        """The condition that a record is in the q-th bucket."""
        up = self.rounding == CEIL or (self.rounding == ZERO and q < 0)
        low, high = (q - 1, q) if up else (q, q + 1)
        ends = (">" if up else ">=", Fraction(low)), ("<=" if up else "<", Fraction(high))
        if self.rounding == ZERO and q == 0:
            ends = (">", Fraction(-1)), ("<", Fraction(1))
        return make_and(*(Comparison(self.column, op, fraction_to_scalar(end / self.factor)) for op, end in ends))


@dataclass(frozen=True, slots=True)
class Key:
    """One GROUP BY key: a column, or an expression over public columns.

    A function of a private column is a key if it cuts the column into buckets: `cases` are (value, condition) of a CASE
    with constant results, `steps` those of FLOOR(column / constant).
    """

    name: str
    sql: str
    column: str | None
    columns: frozenset[str] = frozenset()  # those an expression looks at
    cases: tuple[tuple[Scalar | None, Predicate], ...] = ()
    steps: Steps | None = None

    def hidden(self, secret: AbstractSet[str]) -> bool:
        """Does it depend on private values in which group somebody is?"""
        return self.column in secret or bool(self.cases) or self.steps is not None

    def equals(self, value: Scalar | None) -> Predicate:
        """The condition that a record belongs to the group with this key value."""
        if self.steps is not None:
            return self.steps.holding(value)
        if self.cases:
            return next((condition for each, condition in self.cases if each == value), FALSE)
        if self.column is None:
            return Opaque(f"({self.sql}) IS NOT DISTINCT FROM {format_literal(value)}", self.columns)
        return IsNull(self.column) if value is None else Comparison(self.column, "=", value)


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """A term of ORDER BY: `sql` is a key, a public function of keys, or `COUNTED`, how many records a group has."""

    sql: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """Of the groups in this `order`, those after the first `skipped` are shown, and of them `shown` (None: all).

    `foreign`: it was written for another engine, which may order texts and NULL in its own way.
    """

    order: tuple[OrderTerm, ...]
    skipped: int
    shown: int | None
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class RowList:
    """The rows that a statement hands out, read as groupings by the columns that it shows (`sql.rewriting.row_lists`).

    `whole` counts records by all columns; None if it cannot be read so. `alone` say the same where the public columns
    of each row point to one record; then no order of rows tells more. Elsewhere that is so if they are `in_order`.
    `private` are the columns that show private values.
    """

    columns: tuple[tuple[str, int], ...]  # name and place from 1, without constants
    width: int  # how many columns the answer has
    private: tuple[str, ...]
    whole: Statement | None
    alone: tuple[Statement, ...]
    in_order: bool

    @property
    def readings(self) -> tuple[Statement, ...]:
        """All groupings that it is read as."""
        return self.alone if self.whole is None else (self.whole, *self.alone)


@dataclass(frozen=True, slots=True)
class Statement:
    """One SELECT over the one table.

    `queries` are the aggregates of the SELECT list in order; `keys` the GROUP BY keys; `sets` the grouping sets as
    tuples of indices into `keys` (plain GROUP BY: one set with all). `having` tests decide whether a group is shown.
    `where` is the condition of the whole statement, already part of every query. `shown` are the columns of the result
    from left to right, `table` the name (with what stands before its dots) under which the text knows the table.

    `certainty` is empty if all of it was shown, `IF_SHOWN` if rows may have been cut off (`limit` of them were shown,
    where that is known), `FINER` if only something was shown that is computed from it, `COVERED` if it was shown and
    FINER ones stand for it where it cannot be judged itself: see `keyhole.sql.read`. `order` is ORDER BY (None for a
    term that is not public), `cut` which groups of a public order are shown.
    """

    text: str
    queries: tuple[Query, ...]
    where: Predicate = TRUE
    keys: tuple[Key, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ((),)
    having: tuple[Test, ...] = ()
    shown: tuple[Shown, ...] = ()
    table: tuple[str, ...] = ()
    certainty: str = ""
    limit: int | None = None
    tables: tuple[tuple[tuple[str, ...], str], ...] = ()  # other tables: (name as written, name as declared)
    order: tuple[OrderTerm | None, ...] = field(default=(), compare=False)
    cut: Cut | None = None
    written: str = ""  # the text that it came from, in DuckDB's words, if that is another
    original: tuple[str, str] = field(default=("", ""), compare=False)  # (dialect, `text` as it was in its words)
    again: tuple[tuple[int, ...], ...] = ()  # grouping sets that are written once more: their rows come again
    mixed: bool = False  # one of a UNION ALL with ORDER BY: its rows are known by what is shown beside the numbers
    rows: RowList | None = None  # it shows rows, not aggregates: this is what they say

    @property
    def tested(self) -> tuple[Query, ...]:
        """The yes/no questions of HAVING, however they are joined."""
        return tuple(q for test in self.having for q in list_questions(test))

    def group(self, key: Mapping[str, Scalar | None]) -> tuple[Query, ...]:
        """The queries of one group; `key` gives a value for some or all of `keys` (the others are rolled up)."""
        chosen = [k for k in self.keys if k.name in key]
        condition = make_and(*(k.equals(key[k.name]) for k in chosen))
        named = tuple((k.name, key[k.name]) for k in chosen)
        return tuple(q.under(condition, named) for q in self.queries)

    def tests(self, key: Mapping[str, Scalar | None]) -> tuple[Test, ...]:
        """The HAVING tests of one group; all of them must pass."""
        chosen: Sequence[Key] = [k for k in self.keys if k.name in key]
        condition = make_and(*(k.equals(key[k.name]) for k in chosen))
        named = tuple((k.name, key[k.name]) for k in chosen)
        return tuple(_under(test, condition, named) for test in self.having)
