"""What SQL answers to a statement, by its lowered form alone, on one filling of a made-up table.

A second, small way from a form to its answers: conditions by Kleene's logic over truths of single leaves, sums in exact
arithmetic group by group, NULL and HAVING as `keyhole.model.meaning` says. No atoms, no systems, no rendering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.bits import Mask
from keyhole.model.meaning import Value, compare_value, compute_quantile, compute_value, evaluate_test
from keyhole.model.predicate import Truth
from keyhole.model.query import CUT, HALF, ZERO, Aggregate, Key, Query, Shown, Statement, Term
from keyhole.model.schema import Kind
from keyhole.reading.filled_table import FilledTable
from keyhole.reading.trial import Trial

Codes = NDArray[np.int64]
_ULP = 2.0**-50
_MOST = 2.0**53
_NOTHING = [Fraction(0)]


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


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of one grouping set: `of` gives each row's group, -1 for none; `at` a row of each group.

    Without keys all rows are one group, even if there are none: then `of` is None.
    """

    keys: tuple[tuple[Any, ...], ...]
    of: Codes | None
    at: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many."""
        return len(self.keys)


_EVERYBODY = Groups(((),), None, (0,))


def compute_rows(trial: Trial, filled: FilledTable) -> list[tuple[Any, ...]] | None:
    """The rows that the statement returns: a `FormAnswer` for each number, the value itself for keys and constants.

    None if rounding decides which groups HAVING shows, or if a bucket of private values is not what its condition says.
    """
    rows = []
    statement = trial.statement
    for chosen in (*statement.sets, *statement.again):
        names = [statement.keys[i].sql for i in chosen]
        groups = _group_rows(names, filled.true(trial, statement.where), filled) if names else _EVERYBODY
        if not all(_matches_buckets(statement.keys[i], place, groups, trial, filled) for place, i in enumerate(chosen)):
            return None
        numbers = [_compute_numbers(query, trial, names, groups, filled) for query in statement.queries]
        tests = {
            query: _compute_numbers(query, trial, names, groups, filled) for query in dict.fromkeys(statement.tested)
        }
        if any(cell.close for cells in tests.values() for cell in cells):
            return None
        for g in range(groups.count):
            if all(evaluate_test(test, _truth(tests, g)) is True for test in statement.having):
                row = [cells[g] for cells in numbers]
                rows.append(
                    tuple(_show_cell(item, statement, names, groups, g, row, filled) for item in statement.shown)
                )
    return rows


def _show_cell(
    item: Shown, statement: Statement, names: list[str], groups: Groups, g: int, row: list[Any], filled: FilledTable
) -> Any:
    """One cell of the row of one group."""
    if item.query is not None:
        return row[item.query]
    if item.sql in names:
        return groups.keys[g][names.index(item.sql)]
    if any(item.sql == key.sql for key in statement.keys):
        return None  # rolled up
    whole = len(names) == len(statement.keys)
    return filled.listed(item.sql)[groups.at[g]] if item.sql and whole and filled.n else FREE


def _truth(tests: Mapping[Query, Sequence[FormAnswer]], g: int) -> Callable[[Query], Truth]:
    return lambda query: tests[query][g].truth


def _group_rows(names: Sequence[str], inside: Mask, filled: FilledTable) -> Groups:
    lists = [filled.listed(name) for name in names]
    apart = [filled.told_apart(name) for name in names]
    of: Codes = np.full(filled.placed.n, -1, dtype=np.int64)
    known: dict[tuple[Any, ...], int] = {}
    at: list[int] = []
    for row in np.flatnonzero(inside).tolist():
        key = tuple(values[row] for values in apart)
        if key not in known:
            known[key] = len(known)
            at.append(row)
        of[row] = known[key]
    return Groups(tuple(tuple(values[row] for values in lists) for row in at), of, tuple(at))


def _matches_buckets(key: Key, place: int, groups: Groups, trial: Trial, filled: FilledTable) -> bool:
    """Is a bucket of private values what its condition says, row by row?"""
    if not key.cases and key.steps is None:
        return True
    assert groups.of is not None
    inside = groups.of >= 0
    at = [values[place] for values in groups.keys]
    for each in dict.fromkeys(at):
        mine = np.isin(groups.of, [g for g, other in enumerate(at) if other == each])
        if not np.array_equal(filled.true(trial, key.equals(each)) & inside, mine):
            return False
    return True


def _compute_numbers(
    query: Query, trial: Trial, names: Sequence[str], groups: Groups, filled: FilledTable
) -> list[FormAnswer]:
    """The answers of one query, group by group."""
    if query.aggregate is Aggregate.PUBLIC:
        return _compute_public_figures(query, names, groups, filled)
    if query.aggregate is Aggregate.PEOPLE or (query.aggregate is not Aggregate.SUM and query.terms[0].column is None):
        inside = [filled.kept if groups.of is None else groups.of == g for g in range(groups.count)]
        return [_compute_public_statistic(query, trial, filled, rows) for rows in inside]
    if query.aggregate is not Aggregate.SUM:
        inside = [filled.kept if groups.of is None else groups.of == g for g in range(groups.count)]
        return [_compute_statistic(query, trial, filled, rows) for rows in inside]
    top, size = _sum_terms(query.terms, trial, groups, filled)
    per, below = _sum_terms(query.per, trial, groups, filled) if query.per else (_NOTHING * groups.count, [])
    met = _are_needs_met(query, trial, groups, filled)
    answers = []
    for g in range(groups.count):
        number = compute_value(query, top[g], per[g], met=met[g])
        slack = (filled.n + 8) * _ULP * size[g]
        if isinstance(number, Fraction) and query.per:
            slack = (slack + abs(float(number)) * (filled.n + 8) * _ULP * below[g]) / abs(float(per[g]))
        zeros = not size[g] and all(term.weight is None for term in query.per)  # 0 in floating point, too
        answers.append(_make_answer(query, number, slack, _is_whole(query.terms, size[g], filled), zeros=zeros))
    return answers


def _is_whole(terms: Sequence[Term], size: float, filled: FilledTable) -> bool:
    """Does the engine sum whole numbers, few enough to be exact in whatever it sums with?"""
    if any(term.factor.denominator != 1 for term in terms):
        return False
    weighted = [filled.summed(term) for term in terms if term.weight is not None] if filled.n else []
    return not weighted or (size < _MOST and all(each.whole for each in weighted))


def _are_needs_met(query: Query, trial: Trial, groups: Groups, filled: FilledTable) -> list[bool]:
    """Does somebody satisfy each of the needs, group by group?"""
    masks = [filled.true(trial, need) for need in query.needs]
    if groups.of is None:
        return [all(bool(mask.any()) for mask in masks)]
    met = np.ones(groups.count, dtype=np.bool_)
    for mask in masks:
        somebody = np.zeros(groups.count, dtype=np.bool_)
        somebody[groups.of[mask & (groups.of >= 0)]] = True
        met &= somebody
    return [bool(m) for m in met]


def _sum_terms(
    terms: Sequence[Term], trial: Trial, groups: Groups, filled: FilledTable
) -> tuple[list[Fraction], list[float]]:
    """(sums of terms, sums of their absolute values), group by group."""
    total, size = _NOTHING * groups.count, [0.0] * groups.count
    for term in terms if filled.n else ():
        summed = filled.summed(term)
        factor, under = term.factor.numerator, term.factor.denominator * summed.over
        rows = np.flatnonzero(filled.true(trial, term.where))
        for g, some in ((0, rows),) if groups.of is None else _by_group(rows, groups.of):
            units, sizes = summed.over_rows(some)
            if sizes:
                part = Fraction(factor * units, under)
                total[g] = total[g] + part if total[g] else part
                size[g] += abs(factor) * float(sizes) / under
    return total, size


def _by_group(rows: Codes, of: Codes) -> Iterator[tuple[int, Codes]]:
    """(group, its rows among these)."""
    order = rows[np.argsort(of[rows], kind="stable")]
    groups, starts = np.unique(of[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    yield from ((g, order[a:b]) for g, a, b in zip(groups.tolist(), starts.tolist(), ends, strict=False) if g >= 0)


def _make_answer(query: Query, number: Value, slack: float, whole: bool = False, *, zeros: bool = False) -> FormAnswer:
    """The answer, or which side of its threshold it is on; a `whole` number, a sum of `zeros` is compared as it is."""
    if query.test is None:
        return FormAnswer(number, slack, query.digits, rounding=query.rounding)
    whole = (whole or query.aggregate is Aggregate.PEOPLE) and not query.per
    exact = (whole or zeros) and query.digits is None
    half = Fraction(1) / Fraction(10) ** query.digits if query.digits is not None else Fraction(0)
    near = isinstance(number, Fraction) and abs(number - Fraction(query.test.value)) <= Fraction(slack) + half
    close = near and not exact
    return FormAnswer(number, asks=True, truth=compare_value(query, number), close=close)


def _compute_statistic(query: Query, trial: Trial, filled: FilledTable, inside: Mask) -> FormAnswer:
    """MIN, MAX, a quantile or a spread of one private column."""
    term = query.terms[0]
    plain = replace(term, factor=Fraction(1), weight=None)
    summed = filled.summed(plain)
    rows = filled.true(trial, term.where) & inside & filled.present(term.column or "")
    values = sorted(Fraction(int(u), summed.over) for u in summed.units[rows])
    size = max((abs(v) for v in values), default=Fraction(0))
    slack = float(abs(term.factor) * size) * 64 * _ULP
    if query.aggregate is Aggregate.VAR:
        return _compute_spread(query, values)
    if not values:
        return _make_answer(query, None, slack)
    number = term.factor * compute_quantile(values, query)
    column = filled.placed.probe.schema.find(term.column or "")
    if column is not None and column.kind is Kind.DECIMAL and query.aggregate in CUT:
        if query.digits is None and query.test is None:
            return FormAnswer(
                number, slack, len(str(summed.over)) - 1, rounding=ZERO
            )  # cut to the digits of the column
        slack += float(abs(term.factor)) / summed.over
    extreme = query.aggregate in (Aggregate.MIN, Aggregate.MAX)
    return _make_answer(query, number, slack, extreme and summed.over == 1 and term.factor.denominator == 1)


def _compute_public_statistic(query: Query, trial: Trial, filled: FilledTable, inside: Mask) -> FormAnswer:
    """How many different values a public expression has, or the least or greatest of them, where a condition holds."""
    term = query.terms[0]
    rows = np.flatnonzero(filled.true(trial, term.where) & inside).tolist() if filled.n else []
    listed = filled.listed(term.weight or "") if rows else []
    values = {listed[row] for row in rows if listed[row] is not None}
    if query.aggregate is Aggregate.PEOPLE:
        return _make_answer(query, Fraction(len(values)), 0.0)
    numbers = [Fraction(v) for v in values]
    if not numbers:
        return _make_answer(query, None, 0.0)
    found = max(numbers) if query.aggregate is Aggregate.MAX else min(numbers)
    return _make_answer(query, found, abs(float(found)) * 2.0**-40)


def _compute_spread(query: Query, values: Sequence[Fraction]) -> FormAnswer:
    n, name = len(values), query.label.split("(")[0].upper()
    below = n if name.endswith("_POP") else n - 1
    if n == 0 or below <= 0:
        return _make_answer(query, None, 0.0)
    mean = sum(values, Fraction(0)) / n
    variance = sum(((v - mean) ** 2 for v in values), Fraction(0)) / below
    size = 1 + sum((v * v for v in values), Fraction(0)) / n
    if name.startswith("VAR"):
        return _make_answer(query, variance, float(size) * 1e-9)
    return _make_answer(query, Fraction(sqrt(variance)), sqrt(size) * 1e-6)


def _compute_public_figures(query: Query, names: Sequence[str], groups: Groups, filled: FilledTable) -> list[Any]:
    """A figure of public columns: the engine's own, of the rendering, since nothing private is in it."""
    rows = filled.placed.probe.figures(names, query.canonical())
    by_key = {row[:-1]: row[-1] for row in rows}
    found = [by_key.get(key) for key in groups.keys]
    return [FormAnswer(asks=True, truth=v) if query.test is not None else v for v in found]
