"""What a statement wants, as numbers: sums, averages, spreads and quantiles of declared columns under conditions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Literal, TypeAlias

from keyhole.defence.planner.columns import Partitions
from keyhole.defence.tables.noisy_tables import COUNT, Quantity
from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import (
    FALSE,
    Constant,
    IsNull,
    Leaf,
    Predicate,
    Scalar,
    can_hold,
    format_predicate,
    quote_name,
    replace_leaves,
)
from keyhole.model.query import HALF, ORDERED, Aggregate, Query, Statement, Term

WantedKind: TypeAlias = Literal["linear", "average", "variance", "deviation", "quantile"]
EXTREME = Fraction(1, 200)  # MIN and MAX are answered as these outer quantiles
GroupingKeys: TypeAlias = tuple[tuple[str, str], ...]  # (name of the key, column)
Sums: TypeAlias = Mapping[Quantity, tuple[tuple[Fraction, Predicate], ...]]


@dataclass(frozen=True, slots=True)
class WantedNumber:
    """One number of a SELECT list.

    `sums` says what is added up: for each quantity, factors and conditions. An average is `offset` plus that over the
    count under `where`; a spread needs the sum and the square of `column` on its grid (`offset` is the square of half a
    step), a quantile the column's ranks.
    """

    label: str
    kind: WantedKind
    sums: Sums
    where: Predicate
    offset: Fraction = Fraction(0)
    column: str = ""
    level: Fraction = Fraction(1, 2)
    sample: bool = False
    digits: int | None = None
    note: str = ""  # what is answered instead of what was written, if it differs

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """What must be known of each cell."""
        return tuple(sorted({*self.sums} | ({COUNT} if self.kind != "linear" else set())))

    @property
    def is_distinct(self) -> bool:
        """Is it a number of different values? It is bought by itself."""
        return any(m.power == 0 for m in self.sums)

    @property
    def conditions(self) -> tuple[Predicate, ...]:
        """Every condition that it has."""
        return tuple(dict.fromkeys((self.where, *(w for each in self.sums.values() for _, w in each))))


@dataclass(frozen=True, slots=True)
class WantedStatement:
    """A statement as numbers wanted, for each set of grouping columns."""

    sql: str
    statement: Statement
    wanted: tuple[WantedNumber, ...]
    sets: tuple[GroupingKeys, ...]
    unknown: tuple[str, ...] = ()  # columns of a GROUP BY whose keys nobody declared

    def fingerprint(self) -> str:
        """What is asked, whatever its spelling."""
        numbers = [
            (w.kind, sorted((str(m), [(str(f), format_predicate(p)) for f, p in each]) for m, each in w.sums.items()),
             format_predicate(w.where), str(w.offset), w.column, str(w.level), w.sample, w.digits)
            for w in self.wanted
        ]  # fmt: skip
        return repr((numbers, self.sets, self.unknown)) if self.unknown else repr((numbers, self.sets))

    @property
    def mark(self) -> str:
        """Under what it is noted: a digest of what is asked."""
        return hashlib.blake2b(self.fingerprint().encode(), digest_size=16).hexdigest()

    @property
    def is_one_number(self) -> bool:
        """One number of one grouping set?"""
        return len(self.wanted) * len(self.sets) == 1

    @property
    def is_grouped(self) -> bool:
        """Does it have a GROUP BY?"""
        return bool(self.statement.keys)

    @property
    def has_grouped_quantiles(self) -> bool:
        """Does it ask for quantiles of groups?"""
        return self.is_grouped and any(w.kind == "quantile" for w in self.wanted)

    def admits(self, keys: GroupingKeys, values: Sequence[Scalar]) -> bool:
        """Can anybody of a group meet WHERE? A group that it excludes has no row in the answer."""
        named = {column: value for (_, column), value in zip(keys, values, strict=True)}
        return can_hold(self.statement.where, named)

    @property
    def parts(self) -> Iterator[tuple[WantedNumber, GroupingKeys]]:
        """Each number with each set of grouping columns."""
        for keys in self.sets:
            for wanted in self.wanted:
                yield wanted, keys


def read_wanted(statement: Statement, columns: Partitions) -> WantedStatement:
    """What a statement wants; refused with the reason where it cannot be answered privately.

    Depends on the statement and the declaration alone.
    """
    if statement.having:
        raise UnsupportedQuery("HAVING would show which groups are large: ask for the numbers and filter them yourself")
    if columns.unknown & {str(key.column) for key in statement.keys}:
        return _read_unknown_keys(statement, columns)
    sets = []
    for chosen in statement.sets:
        keys = []
        for at in chosen:
            key = statement.keys[at]
            if key.column is None:
                raise UnsupportedQuery(f"GROUP BY {key.sql}: only a declared column has a list of keys")
            columns.of(key.column)
            keys.append((key.name, key.column))
        if len({column for _, column in keys}) < len(keys):
            raise UnsupportedQuery("GROUP BY names a column twice: name it once")
        sets.append(tuple(keys))
    wanted = tuple(_read_number(query, columns) for query in statement.queries)
    if any(w.is_distinct for w in wanted) and (len(wanted) > 1 or statement.keys):
        raise UnsupportedQuery("COUNT(DISTINCT ...) is answered privately by itself: one statement, groups with WHERE")
    question = WantedStatement(statement.text, statement, wanted, tuple(sets))
    if statement.keys and not any(
        question.admits(keys, values)
        for keys in sets
        for values in product(*(columns.key_values(column) for _, column in keys))
    ):
        raise UnsupportedQuery("no declared group meets the WHERE: there is nothing to answer")
    return question


def _read_unknown_keys(statement: Statement, columns: Partitions) -> WantedStatement:
    """COUNT(*) by keys that nobody declared: the one shape in which noise chooses the keys."""
    names = tuple(str(key.column) for key in statement.keys)
    wanted = tuple(_read_number(query, columns) for query in statement.queries)
    counts = len(wanted) == 1 and dict(wanted[0].sums) == {COUNT: ((Fraction(1), wanted[0].where),)}
    if not counts or len(statement.sets) != 1 or any(key.column is None for key in statement.keys):
        raise UnsupportedQuery(
            f"GROUP BY {', '.join(names)}: nobody declared these keys, so COUNT(*) alone finds them; declare those "
            "that it shows, then ask for more of them"
        )
    return WantedStatement(statement.text, statement, wanted, (), names)


def _read_number(query: Query, columns: Partitions) -> WantedNumber:
    if query.test is not None:
        raise UnsupportedQuery(f"{query.label}: ask for the number itself and compare it yourself")
    if query.digits is not None and query.rounding != HALF:
        raise UnsupportedQuery(f"{query.label}: ask for the number itself, or round it with ROUND")
    if query.aggregate is Aggregate.PEOPLE:
        column, where = _find_counted_column(query, columns), _read_condition(query.terms[0].where, columns)
        if column in columns.ids and not columns.several:
            return WantedNumber(query.label, "linear", {COUNT: ((Fraction(1), where),)}, where)
        return WantedNumber(
            query.label, "linear", {Quantity(column, 1, 0): ((Fraction(1), where),)}, where, column=column
        )
    if query.aggregate in ORDERED:
        return _read_quantile(query, columns)
    if query.aggregate is Aggregate.VAR:
        return _read_spread(query, columns)
    if query.aggregate is not Aggregate.SUM:
        raise UnsupportedQuery(
            f"{query.label or query.aggregate.value}: COUNT, SUM, AVG, quantiles and spreads of declared columns are "
            "answered privately"
        )
    sums, where = (
        _read_sums(query.terms, columns),
        _read_condition(query.terms[0].where if query.terms else FALSE, columns),
    )
    if not query.per:
        return WantedNumber(query.label, "linear", sums, where, digits=query.digits)
    if len(query.per) != 1 or query.per[0].column is not None or query.per[0].weight or query.per[0].factor != 1:
        raise UnsupportedQuery(f"{query.label}: a ratio is answered privately only if it is an average over records")
    where = _read_condition(query.per[0].where, columns)
    if any(w != where for each in sums.values() for _, w in each):
        raise UnsupportedQuery(f"{query.label}: an average is of records under one condition; ask for its parts")
    offset = sum((f for f, _ in sums.get(COUNT, ())), Fraction(0))
    rest = {m: each for m, each in sums.items() if m != COUNT}
    return WantedNumber(query.label, "average", rest, where, offset, digits=query.digits)


def _find_counted_column(query: Query, columns: Partitions) -> str:
    """The column whose different values are counted: the id, or a declared one."""
    written = query.terms[0].weight or ""
    for name in (*columns.ids, *columns.columns):
        if written == quote_name(name):
            if name in columns.ids and len(columns.ids) > 1:
                raise UnsupportedQuery(f"{query.label}: a person is named by {', '.join(columns.ids)} together")
            return name
    raise UnsupportedQuery(f"{query.label}: different values of the id or of one declared column are counted privately")


def _read_sums(terms: tuple[Term, ...], columns: Partitions) -> Sums:
    """Terms over quantities: x = middle + step/2 u on its grid, and x^2 likewise."""
    sums: dict[Quantity, dict[Predicate, Fraction]] = {}

    def add(quantity: Quantity, where: Predicate, factor: Fraction) -> None:
        factors = sums.setdefault(quantity, {})
        factors[where] = factors.get(where, Fraction(0)) + factor

    for term in terms:
        if term.weight is not None:
            raise UnsupportedQuery(f"{term.weight}: only declared columns can be summed privately")
        where = _read_condition(term.where, columns)
        if where == FALSE:
            continue
        if term.column is None:
            add(COUNT, where, term.factor)
            continue
        column = columns.number(term.column)
        middle, half = (column.lo + column.hi) / 2, column.step / 2
        if term.power == 1:
            add(COUNT, where, term.factor * middle)
            add(columns.quantity(term.column), where, term.factor * half)
            continue
        square = columns.quantity(term.column, 2)
        add(COUNT, where, term.factor * (middle**2 + half**2 * Fraction(square.reach, 2)))
        add(columns.quantity(term.column), where, 2 * term.factor * middle * half)
        add(square, where, term.factor * half**2 / 2)
    return {m: tuple((f, w) for w, f in each.items() if f) for m, each in sums.items() if any(each.values())}


def _read_quantile(query: Query, columns: Partitions) -> WantedNumber:
    term = query.terms[0]
    if term.column is None or term.weight is not None:
        raise UnsupportedQuery(f"{query.label}: quantiles of declared columns are answered privately")
    columns.number(term.column)
    level, note = query.level, ""
    if query.aggregate in (Aggregate.MIN, Aggregate.MAX):
        level = EXTREME if query.aggregate is Aggregate.MIN else 1 - EXTREME
        note = (
            f"{query.label} is answered as the {float(level):g} quantile: the extreme itself belongs to one person, "
            "and no private answer can give it"
        )
    if term.factor != 1:
        raise UnsupportedQuery(f"{query.label}: ask for the quantile of the column and multiply it yourself")
    where = _read_condition(term.where, columns)
    return WantedNumber(
        query.label, "quantile", {}, where, column=term.column, level=level, digits=query.digits, note=note
    )


def _read_spread(query: Query, columns: Partitions) -> WantedNumber:
    term = query.terms[0]
    if term.column is None or term.weight is not None or term.factor != 1:
        raise UnsupportedQuery(f"{query.label}: spreads of declared columns are answered privately")
    where, name = _read_condition(term.where, columns), query.label.partition("(")[0].upper()
    sums: Sums = {columns.quantity(term.column, power): ((Fraction(1), where),) for power in (1, 2)}
    kind: WantedKind = "deviation" if name.startswith("STDDEV") else "variance"
    unit, sample = (columns.number(term.column).step / 2) ** 2, name.endswith("SAMP")
    return WantedNumber(query.label, kind, sums, where, unit, term.column, sample=sample, digits=query.digits)


def _read_condition(where: Predicate, columns: Partitions) -> Predicate:
    """A condition without what the declaration decides: a column with `missing` is never NULL."""

    def decide(leaf: Leaf) -> Predicate:
        if isinstance(leaf, IsNull) and (leaf.column in columns.ids or columns.of(leaf.column).missing is not None):
            return Constant(False)
        return leaf

    return replace_leaves(where, decide)
