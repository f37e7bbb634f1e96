"""Conditions on one record, as values: a small algebra with SQL's three-valued logic.

A leaf asks one thing of one column; `Opaque` carries an expression over public columns that only the engine
evaluates. Every predicate renders to SQL text, and evaluates under Kleene's logic where `None` is SQL's NULL.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Generic, TypeAlias, TypeVar

Scalar: TypeAlias = int | Decimal | str | bool | dt.date | dt.datetime
Truth: TypeAlias = bool | None
T = TypeVar("T")

OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL."""

    value: Truth


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column op value`, op one of = <> < <= > >=."""

    column: str
    op: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class Membership:
    """`column IN (values)`; no NULL among the values."""

    column: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`column LIKE pattern` (`fold`: ILIKE), with % and _ and no escape character."""

    column: str
    pattern: str
    fold: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`: public even for a private column."""

    column: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """A boolean SQL expression over public columns that only the engine evaluates."""

    sql: str
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class Has:
    """Some row of another table with the record's key satisfies `where`: EXISTS, true or false, private.

    `on` pairs columns of the record with columns of that table; a NULL key has no rows.
    """

    table: str
    on: tuple[tuple[str, str], ...]
    where: Predicate = Constant(True)

    @property
    def column(self) -> str:
        """What stands where a column is named: the rows of that table, which is no column of the record."""
        return f"{self.table} rows"


@dataclass(frozen=True, slots=True)
class IsTrue:
    """`(part) IS TRUE`: two-valued; its negation is what CASE ... ELSE needs."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class Not:
    """Negation; NULL stays NULL."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction of two or more parts."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction of two or more parts."""

    parts: tuple[Predicate, ...]


PrivateLeaf: TypeAlias = Comparison | Membership | Like | Has  # what can look at a private value: one column, or rows
Leaf: TypeAlias = PrivateLeaf | IsNull | Opaque
Predicate: TypeAlias = Constant | Leaf | IsTrue | Not | And | Or

TRUE, FALSE, NULL = Constant(True), Constant(False), Constant(None)


def make_and(*parts: Predicate) -> Predicate:
    """AND, flattened and simplified.

    >>> make_and(TRUE, IsNull("a"))
    IsNull(column='a')
    """
    flat: dict[Predicate, None] = {}  # keeps the order, drops repetitions, and stays linear for thousands of parts
    for part in parts:
        for p in part.parts if isinstance(part, And) else (part,):
            if p == FALSE:
                return FALSE
            if p != TRUE:
                flat[p] = None
    return TRUE if not flat else next(iter(flat)) if len(flat) == 1 else And(tuple(flat))


def make_or(*parts: Predicate) -> Predicate:
    """OR, flattened and simplified."""
    flat: dict[Predicate, None] = {}
    for part in parts:
        for p in part.parts if isinstance(part, Or) else (part,):
            if p == TRUE:
                return TRUE
            if p != FALSE:
                flat[p] = None
    return FALSE if not flat else next(iter(flat)) if len(flat) == 1 else Or(tuple(flat))


def make_not(part: Predicate) -> Predicate:
    """NOT, simplified."""
    if isinstance(part, Constant):
        return Constant(None if part.value is None else not part.value)
    return part.part if isinstance(part, Not) else Not(part)


def make_is_true(part: Predicate) -> Predicate:
    """`part IS TRUE`, simplified."""
    if isinstance(part, Constant):
        return Constant(part.value is True)
    return part if isinstance(part, IsTrue | IsNull) else IsTrue(part)


@dataclass(frozen=True, slots=True)
class Kleene(Generic[T]):
    """An algebra of three-valued logic over values T: what `fold` computes with.

    `certain` is IS TRUE; `every` is AND, `some` is OR, of two or more parts.
    """

    constant: Callable[[Truth], T]
    leaf: Callable[[Leaf], T]
    negate: Callable[[T], T]
    certain: Callable[[T], T]
    every: Callable[[Sequence[T]], T]
    some: Callable[[Sequence[T]], T]


def fold(predicate: Predicate, algebra: Kleene[T]) -> T:
    """The one walk over a predicate: every reader of conditions is an algebra.

    >>> depth = Kleene(lambda _: 0, lambda _: 1, lambda d: d + 1, lambda d: d + 1, max, max)
    >>> fold(And((IsNull("a"), Not(Not(IsNull("b"))))), depth)
    3
    """
    if isinstance(predicate, And):
        return algebra.every([fold(part, algebra) for part in predicate.parts])
    if isinstance(predicate, Or):
        return algebra.some([fold(part, algebra) for part in predicate.parts])
    if isinstance(predicate, Not):
        return algebra.negate(fold(predicate.part, algebra))
    if isinstance(predicate, IsTrue):
        return algebra.certain(fold(predicate.part, algebra))
    if isinstance(predicate, Constant):
        return algebra.constant(predicate.value)
    return algebra.leaf(predicate)


def _same(found: T) -> T:
    return found


_LEAVES: Kleene[tuple[Leaf, ...]] = Kleene(
    constant=lambda _: (),
    leaf=lambda leaf: (leaf,),
    negate=_same,
    certain=_same,
    every=lambda parts: tuple(chain.from_iterable(parts)),
    some=lambda parts: tuple(chain.from_iterable(parts)),
)


def find_leaves(predicate: Predicate) -> tuple[Leaf, ...]:
    """Every leaf, from left to right."""
    return fold(predicate, _LEAVES)


def find_columns(predicate: Predicate) -> frozenset[str]:
    """The columns a predicate looks at."""
    names: set[str] = set()
    for leaf in find_leaves(predicate):
        if isinstance(leaf, Has):
            names |= {mine for mine, _ in leaf.on}
        else:
            names |= leaf.columns if isinstance(leaf, Opaque) else {leaf.column}
    return frozenset(names)


def replace_leaves(predicate: Predicate, decide: Callable[[Leaf], Predicate]) -> Predicate:
    """Replace every leaf by `decide(leaf)` and simplify: how a condition reads once a private cell is fixed.

    >>> p = Or((Comparison("x", ">", 5), Comparison("sex", "=", "F")))
    >>> replace_leaves(p, lambda leaf: FALSE if leaf.column == "x" else leaf)
    Comparison(column='sex', op='=', value='F')
    """
    both = (lambda parts: make_and(*parts)), (lambda parts: make_or(*parts))
    return fold(predicate, Kleene(Constant, decide, make_not, make_is_true, *both))


def can_hold(predicate: Predicate, values: Mapping[str, Scalar]) -> bool:
    """Can a condition be true of a record with these values? Other columns may have any.

    >>> where = And((Comparison("sex", "=", "F"), Comparison("x", ">", 5)))
    >>> can_hold(where, {"sex": "F"}), can_hold(where, {"sex": "M"})
    (True, False)
    """

    def decide(leaf: Leaf) -> Predicate:
        if isinstance(leaf, Opaque | Has) or leaf.column not in values:
            return leaf
        return Constant(evaluate_leaf(leaf, values[leaf.column]))

    left = replace_leaves(predicate, decide)
    return not isinstance(left, Constant) or left.value is True


def kleene_and(values: Sequence[Truth]) -> Truth:
    """Kleene's AND: false if any part is, else unknown if any part is."""
    return False if False in values else None if None in values else True


def kleene_or(values: Sequence[Truth]) -> Truth:
    """Kleene's OR: true if any part is, else unknown if any part is."""
    return True if True in values else None if None in values else False


def kleene_not(value: Truth) -> Truth:
    """Kleene's NOT: unknown stays unknown."""
    return None if value is None else not value


def evaluate_predicate(predicate: Predicate, truth: Callable[[Leaf], Truth]) -> Truth:
    """Kleene's three-valued truth of the whole, given the truth of each leaf."""
    return fold(predicate, Kleene(_same, truth, kleene_not, lambda t: t is True, kleene_and, kleene_or))


def evaluate_leaf(leaf: Leaf, value: Scalar | None) -> Truth:
    """Truth of a leaf on one value of its column, as the engine would say. `Opaque` has no single column.

    >>> evaluate_leaf(Comparison("x", ">", 5), 6), evaluate_leaf(Comparison("x", ">", 5), None)
    (True, None)
    >>> evaluate_leaf(Like("d", "fl_"), "flu"), evaluate_leaf(IsNull("d"), None)
    (True, True)
    """
    if isinstance(leaf, Opaque | Has):
        raise TypeError("an opaque expression is evaluated by the engine only")
    if isinstance(leaf, IsNull):
        return value is None
    if value is None:
        return None
    if isinstance(leaf, Membership):
        return any(_compare(value, "=", v) for v in leaf.values)
    if isinstance(leaf, Like):
        return _like(leaf.pattern, leaf.fold).fullmatch(str(value)) is not None
    return _compare(value, leaf.op, leaf.value)


def _compare(left: Scalar, op: str, right: Scalar) -> bool:
    # a date compares with a timestamp as midnight, as in SQL
    if isinstance(left, dt.datetime) != isinstance(right, dt.datetime):
        left, right = _midnight(left), _midnight(right)
    if op == "=":
        return left == right
    if op == "<>":
        return left != right
    if op == "<":
        return left < right  # type: ignore[operator]
    if op == "<=":
        return left <= right  # type: ignore[operator]
    if op == ">":
        return left > right  # type: ignore[operator]
    return left >= right  # type: ignore[operator]


def _midnight(value: Scalar) -> Scalar:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    return value


@lru_cache(maxsize=1024)
def _like(pattern: str, fold: bool) -> re.Pattern[str]:
    body = "".join(".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern)
    return re.compile(body, re.DOTALL | (re.IGNORECASE if fold else re.NOFLAG))


def quote_name(name: str) -> str:
    """A column or table name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def format_literal(value: Scalar | None) -> str:
    """A constant as SQL.

    >>> [format_literal(value) for value in ("O'Neil", Decimal("1.50"), dt.date(2026, 1, 2), None)]
    ["'O''Neil'", '1.50', "DATE '2026-01-02'", 'NULL']
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def format_predicate(predicate: Predicate, spell: Callable[[str], str] | None = None) -> str:
    """The predicate as canonical SQL text (portable between engines, but for expressions, which `spell` writes).

    >>> format_predicate(And((Comparison("ZIP", ">", 32000), Not(Membership("sex", ("M", "F"))))))
    '"ZIP" > 32000 AND NOT ("sex" IN (\\'M\\', \\'F\\'))'
    """
    if spell is None:
        return fold(predicate, _SQL)[0]

    def spelled(leaf: Leaf) -> tuple[str, bool]:
        return (f"({spell(leaf.sql)})" if isinstance(leaf, Opaque) else _leaf_sql(leaf), False)

    return fold(predicate, replace(_SQL, leaf=spelled))[0]


def _leaf_sql(leaf: Leaf) -> str:
    if isinstance(leaf, Opaque):
        return f"({leaf.sql})"
    if isinstance(leaf, Has):
        return format_has(leaf)
    name = quote_name(leaf.column)
    if isinstance(leaf, Comparison):
        return f"{name} {leaf.op} {format_literal(leaf.value)}"
    if isinstance(leaf, Membership):
        return f"{name} IN ({', '.join(format_literal(v) for v in leaf.values)})"
    if isinstance(leaf, Like):
        return f"{name} {'ILIKE' if leaf.fold else 'LIKE'} {format_literal(leaf.pattern)}"
    return f"{name} IS NULL"


def name_held_table(table: str) -> str:
    """The name under which an engine of ours holds another table: nobody's text can name it by chance."""
    return quote_name(f"keyhole {table}")


def format_has(leaf: Has) -> str:
    """EXISTS as an IN over keys without NULL, so that no name of the other table hides one of the record.

    >>> format_has(Has("visits", (("id", "who"),), Comparison("ward", ">", 3)))
    '(("id" IN (SELECT "who" FROM "keyhole visits" WHERE "who" IS NOT NULL AND ("ward" > 3))) IS TRUE)'
    """
    mine, theirs = zip(*((quote_name(a), quote_name(b)) for a, b in leaf.on), strict=True)
    there = " AND ".join(f"{name} IS NOT NULL" for name in theirs)
    if len(mine) == 1:
        left, right = mine[0], theirs[0]
    else:
        left, right = f"({', '.join(mine)})", f"({', '.join(theirs)})"
    there += f" AND ({format_predicate(leaf.where)})"
    inside = f"{left} IN (SELECT {right} FROM {name_held_table(leaf.table)} WHERE {there})"
    if len(mine) > 1:
        inside = f"{' AND '.join(f'{name} IS NOT NULL' for name in mine)} AND {inside}"
    return f"(({inside}) IS TRUE)"


def _joined(word: str) -> Callable[[Sequence[tuple[str, bool]]], tuple[str, bool]]:
    return lambda parts: (word.join(f"({text})" if compound else text for text, compound in parts), True)


_SQL: Kleene[tuple[str, bool]] = Kleene(  # text, and whether it needs parentheses beside another AND or OR
    constant=lambda value: ("NULL::BOOLEAN" if value is None else format_literal(value), False),
    leaf=lambda leaf: (_leaf_sql(leaf), False),
    negate=lambda part: (f"NOT ({part[0]})", False),
    certain=lambda part: (f"(({part[0]}) IS TRUE)", False),
    every=_joined(" AND "),
    some=_joined(" OR "),
)
