"""What SQL answers to a statement, by its lowered form alone, on one filling of a made-up table.

A second, small way from a form to its answers: conditions by Kleene's logic over truths of single leaves, sums in exact
arithmetic group by group, NULL and HAVING as `keyhole.meaning` says. No atoms, no systems, no rendering.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.meaning import OPERATIONS, Value, compared, passed, quantile, value
from keyhole.predicate import (
    IsNull,
    Kleene,
    Leaf,
    Like,
    Membership,
    Opaque,
    Predicate,
    Truth,
    fold,
    leaves,
    quote_name,
)
from keyhole.query import CUT, HALF, ZERO, Aggregate, Query, Statement, Term
from keyhole.reading.rows import conditions
from keyhole.schema import Column, Kind
from keyhole.tables import MadeUp, ProbeTable

Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]
_ULP = 2.0**-50


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """A number of the answer; `slack`: how far floating-point arithmetic may take it; `digits` of its ROUND.

    `truth` is the answer to a yes/no question instead; `close`: rounding may turn it.
    """

    number: Value = None
    slack: float = 0.0
    digits: int | None = None
    asks: bool = False
    truth: Truth = None
    close: bool = False
    rounding: str = HALF


class Free:
    """A cell that is not compared: it holds public things that the form does not spell out."""


FREE = Free()


class Filled:
    """One filling, with what was computed on it."""

    def __init__(self, probe: ProbeTable, n: int) -> None:
        self.probe, self.n = probe, n
        self._truths: dict[Leaf, tuple[Mask, Mask]] = {}
        self._true: dict[Predicate, Mask] = {}
        self._arrays: dict[str, tuple[NDArray[Any], Mask]] = {}
        self._values: dict[str, MadeUp] = {}
        self._weights: dict[str, list[Fraction]] = {}
        self._listed: dict[str, list[Any]] = {}

    def prepare(self, statements: Iterable[Statement]) -> None:
        """Look up the truths of all their conditions at once."""
        asked = dict.fromkeys(leaf for s in statements for p in conditions(s) for leaf in leaves(p))
        for leaf in asked:
            if leaf not in self._truths and (simple := self._simple(leaf)) is not None:
                self._truths[leaf] = simple
        wanted = [leaf for leaf in asked if leaf not in self._truths]
        for leaf, found in self.probe.truths(wanted).items():
            self._truths[leaf] = (found == 1, found == 0)

    def _simple(self, leaf: Leaf) -> tuple[Mask, Mask] | None:
        """Conditions that need no engine: whole numbers, days, and equal text; None for the others."""
        if isinstance(leaf, Opaque | Like):
            return None
        column = self.probe.schema.find(leaf.column)
        if column is None or column.secret or column.kind not in (Kind.INTEGER, Kind.TEXT, Kind.DATE):
            return None
        values, present = self._array(column)
        if isinstance(leaf, IsNull):
            return ~present, present
        constants = leaf.values if isinstance(leaf, Membership) else (leaf.value,)
        wanted = {Kind.INTEGER: int, Kind.TEXT: str, Kind.DATE: dt.date}[column.kind]
        if any(type(c) is not wanted or (isinstance(c, int) and abs(c) >= 2**62) for c in constants):
            return None
        if isinstance(leaf, Membership):
            found = np.isin(values, np.array(constants, dtype=values.dtype))
        elif column.kind is Kind.TEXT and leaf.op not in ("=", "<>"):
            return None
        else:
            found = OPERATIONS[leaf.op](values, np.array(constants, dtype=values.dtype)[0])
        return found & present, ~found & present

    def _array(self, column: Column) -> tuple[NDArray[Any], Mask]:
        if column.name not in self._arrays:
            listed = self.listed(quote_name(column.name))
            empty, dtype = {
                Kind.INTEGER: (0, "int64"), Kind.TEXT: ("", "object"), Kind.DATE: (dt.date(1970, 1, 1), "datetime64[D]")
            }[column.kind]  # fmt: skip
            present = np.array([v is not None for v in listed], dtype=np.bool_)
            self._arrays[column.name] = np.array([empty if v is None else v for v in listed], dtype=dtype), present
        return self._arrays[column.name]

    def true(self, predicate: Predicate) -> Mask:
        """The rows on which a condition is true."""
        if predicate not in self._true:
            self._true[predicate] = fold(predicate, self._algebra())[0]
        return self._true[predicate]

    def _algebra(self) -> Kleene[tuple[Mask, Mask]]:
        def constant(truth: Truth) -> tuple[Mask, Mask]:
            return np.full(self.n, truth is True), np.full(self.n, truth is False)

        return Kleene(
            constant,
            self._truths.__getitem__,
            lambda part: (part[1], part[0]),
            lambda part: (part[0], ~part[0]),
            lambda parts: (_every([t for t, _ in parts]), _some([f for _, f in parts])),
            lambda parts: (_some([t for t, _ in parts]), _every([f for _, f in parts])),
        )

    def listed(self, sql: str) -> list[Any]:
        """An expression over public columns, or a column, row by row."""
        if sql not in self._listed:
            self._listed[sql] = [row[0] for row in self.probe.listed([sql])]
        return self._listed[sql]

    def told_apart(self, sql: str) -> list[Any]:
        """The same, to be grouped by: times as text, since Python's have microseconds only."""
        found = self.listed(sql)
        timed = any(isinstance(v, dt.datetime) for v in found[:20])
        return self.listed(f"CAST({sql} AS VARCHAR)") if timed else found

    def units(self, term: Term) -> tuple[Any, int]:
        """(what a term sums, row by row, in units; units in one)."""
        units: Any = np.ones(self.n, dtype=np.int64)
        over = 1
        if term.column is not None:
            made = self._column(term.column)
            units, over = made.units**term.power, made.over**term.power
        if term.weight is not None:
            if term.weight not in self._weights:
                self._weights[term.weight] = [_fraction(v) for v in self.listed(term.weight)]
            units = np.array([int(u) * w for u, w in zip(units, self._weights[term.weight], strict=True)], dtype=object)
        return units, over

    def present(self, name: str) -> Mask:
        """The rows on which a private column has a value."""
        return self._column(name).present

    def _column(self, name: str) -> MadeUp:
        if name not in self._values:
            column = self.probe.schema.find(name)
            assert column is not None
            self._values[name] = self.probe.values(column)
        return self._values[name]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of one grouping set: `of` gives each row's group, -1 for none; `at` a row of each group."""

    keys: tuple[tuple[Any, ...], ...]
    of: Codes
    at: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many."""
        return len(self.keys)


def rows_of(statement: Statement, filled: Filled) -> list[tuple[Any, ...]] | None:
    """The rows that the statement returns: a `FormAnswer` for each number, the value itself for keys and constants.

    None if rounding decides which groups HAVING shows.
    """
    found = []
    for chosen in statement.sets:
        names = [statement.keys[i].sql for i in chosen]
        whole = len(names) == len(statement.keys)
        groups = _groups(names, filled.true(statement.where), filled)
        numbers = [_numbers(query, names, groups, filled) for query in statement.queries]
        tests = {query: _numbers(query, names, groups, filled) for query in dict.fromkeys(statement.tested)}
        if any(cell.close for cells in tests.values() for cell in cells):
            return None
        for g in range(groups.count):
            if not all(passed(test, _truth(tests, g)) is True for test in statement.having):
                continue
            cells: list[Any] = []
            for item in statement.shown:
                if item.query is not None:
                    cells.append(numbers[item.query][g])
                elif item.sql in names:
                    cells.append(groups.keys[g][names.index(item.sql)])
                elif any(item.sql == key.sql for key in statement.keys):
                    cells.append(None)  # rolled up
                else:
                    cells.append(filled.listed(item.sql)[groups.at[g]] if item.sql and whole and filled.n else FREE)
            found.append(tuple(cells))
    return found


def _truth(tests: Mapping[Query, Sequence[FormAnswer]], g: int) -> Callable[[Query], Truth]:
    return lambda query: tests[query][g].truth


def _groups(names: Sequence[str], inside: Mask, filled: Filled) -> Groups:
    if not names:
        return Groups(((),), np.zeros(filled.n, dtype=np.int64), (0,))
    lists = [filled.listed(name) for name in names]
    apart = [filled.told_apart(name) for name in names]
    of: Codes = np.full(filled.n, -1, dtype=np.int64)
    known: dict[tuple[Any, ...], int] = {}
    at: list[int] = []
    for row in np.flatnonzero(inside).tolist():
        key = tuple(values[row] for values in apart)
        if key not in known:
            known[key] = len(known)
            at.append(row)
        of[row] = known[key]
    return Groups(tuple(tuple(values[row] for values in lists) for row in at), of, tuple(at))


def _numbers(query: Query, names: Sequence[str], groups: Groups, filled: Filled) -> list[FormAnswer]:
    """The answers of one query, group by group."""
    if query.aggregate is Aggregate.PUBLIC:
        return _figures(query, names, groups, filled)
    if query.aggregate is not Aggregate.SUM:
        return [_statistic(query, filled, groups.of == g if names else groups.of == 0) for g in range(groups.count)]
    top, size = _totals(query.terms, groups, filled)
    per, below = _totals(query.per, groups, filled)
    met = np.ones(groups.count, dtype=np.bool_)
    for need in query.needs:
        somebody = np.zeros(groups.count, dtype=np.bool_)
        somebody[groups.of[filled.true(need) & (groups.of >= 0)]] = True
        met &= somebody
    found = []
    for g in range(groups.count):
        number = value(query, top[g], per[g], met=bool(met[g]))
        slack = (filled.n + 8) * _ULP * size[g]
        if query.per and per[g]:
            slack = (slack + abs(float(top[g] / per[g])) * (filled.n + 8) * _ULP * below[g]) / abs(float(per[g]))
        found.append(_cell(query, number, slack))
    return found


def _totals(terms: Sequence[Term], groups: Groups, filled: Filled) -> tuple[list[Fraction], list[float]]:
    """(sums of terms, sums of their absolute values), group by group."""
    total, size = [Fraction(0)] * groups.count, [0.0] * groups.count
    for term in terms:
        units, over = filled.units(term)
        rows = np.flatnonzero(filled.true(term.where) & (groups.of >= 0))
        sums: Any = np.zeros(groups.count, dtype=units.dtype)
        sizes: Any = np.zeros(groups.count, dtype=units.dtype)
        np.add.at(sums, groups.of[rows], units[rows])
        np.add.at(sizes, groups.of[rows], abs(units[rows]))
        for g in range(groups.count):
            if sizes[g]:
                total[g] += term.factor * _whole(sums[g]) / over
                size[g] += abs(float(term.factor)) * float(sizes[g]) / over
    return total, size


def _cell(query: Query, number: Value, slack: float) -> FormAnswer:
    if query.test is None:
        return FormAnswer(number, slack, query.digits, rounding=query.rounding)
    whole = all(t.factor.denominator == 1 and t.weight is None for t in query.terms)
    exact = query.aggregate is Aggregate.SUM and whole and not query.per and query.digits is None
    half = Fraction(1) / Fraction(10) ** query.digits if query.digits is not None else Fraction(0)
    near = isinstance(number, Fraction) and abs(number - Fraction(query.test.value)) <= Fraction(slack) + half
    close = near and not exact
    return FormAnswer(number, asks=True, truth=compared(query, number), close=close)


def _statistic(query: Query, filled: Filled, inside: Mask) -> FormAnswer:
    """MIN, MAX, a quantile or a spread of one private column."""
    term = query.terms[0]
    plain = replace(term, factor=Fraction(1), weight=None)
    units, over = filled.units(plain)
    rows = filled.true(term.where) & inside & filled.present(term.column or "")
    values = sorted(Fraction(int(u), over) for u in units[rows])
    size = max((abs(v) for v in values), default=Fraction(0))
    slack = float(abs(term.factor) * size) * 64 * _ULP
    if query.aggregate is Aggregate.VAR:
        return _spread(query, values)
    if not values:
        return _cell(query, None, slack)
    found = term.factor * quantile(values, query)
    column = filled.probe.schema.find(term.column or "")
    if column is not None and column.kind is Kind.DECIMAL and query.aggregate in CUT:
        if query.digits is None and query.test is None:
            return FormAnswer(found, slack, len(str(over)) - 1, rounding=ZERO)  # cut to the digits of the column
        slack += float(abs(term.factor)) / over
    return _cell(query, found, slack)


def _spread(query: Query, values: Sequence[Fraction]) -> FormAnswer:
    n, name = len(values), query.label.split("(")[0].upper()
    below = n if name.endswith("_POP") else n - 1
    if n == 0 or below <= 0:
        return _cell(query, None, 0.0)
    mean = sum(values, Fraction(0)) / n
    variance = sum(((v - mean) ** 2 for v in values), Fraction(0)) / below
    size = 1 + sum((v * v for v in values), Fraction(0)) / n
    if name.startswith("VAR"):
        return _cell(query, variance, float(size) * 1e-9)
    return _cell(query, Fraction(sqrt(variance)), sqrt(size) * 1e-6)


def _figures(query: Query, names: Sequence[str], groups: Groups, filled: Filled) -> list[Any]:
    """A figure of public columns: the engine's own, of the rendering, since nothing private is in it."""
    rows = filled.probe.figures(names, query.canonical())
    by_key = {row[:-1]: row[-1] for row in rows}
    found = [by_key.get(key) for key in groups.keys]
    return [FormAnswer(asks=True, truth=v) if query.test is not None else v for v in found]


def _every(masks: Sequence[Mask]) -> Mask:
    return np.asarray(np.logical_and.reduce(masks), dtype=np.bool_)


def _some(masks: Sequence[Mask]) -> Mask:
    return np.asarray(np.logical_or.reduce(masks), dtype=np.bool_)


def _whole(total: Any) -> Any:
    return total if isinstance(total, Fraction) else int(total)


def _fraction(found: Any) -> Fraction:
    """A weight; one that is NULL or no number has no row that counts it."""
    if found is None or (isinstance(found, float) and not np.isfinite(found)):
        return Fraction(0)
    return Fraction(found)
