"""What was released, as a transcript: for every noisy number the statement it truly answers, and the law of its noise.

An outsider sees more than the answers that are printed: AVG is made of a centred sum and a count, a SUM over bins is
that of their middles, a public number outside its declared range counts as the nearest end. Each released number is
written as a statement that means exactly that, so that `keyhole attack` reads what an attacker would know.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from keyhole.basis.cells.domain import Domain
from keyhole.basis.cells.numbers import Range
from keyhole.defence.mechanisms.base import NoiseName, Release
from keyhole.defence.workload import Question, Total
from keyhole.model.numbers import format_fraction, simplify_fraction
from keyhole.model.predicate import (
    TRUE,
    And,
    Comparison,
    IsNull,
    Leaf,
    Membership,
    Not,
    Predicate,
    Scalar,
    format_predicate,
    make_and,
    make_or,
    quote_name,
    replace_leaves,
)
from keyhole.model.query import Statement, Term
from keyhole.model.schema import Role, Schema

Terms = tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class ReleaseLine:
    """One line of a transcript: `value` is the answer to `sql` plus noise of `law` with `scale` (None: not known)."""

    sql: str
    value: Fraction
    law: NoiseName | None
    scale: Fraction | None

    def line(self) -> str:
        """As JSON; an answer that is no decimal is rounded to twelve places.

        >>> ReleaseLine("SELECT COUNT(*) FROM t", Fraction(41), "discrete-laplace", Fraction(2)).line()
        '{"sql": "SELECT COUNT(*) FROM t", "answer": 41, "noise": {"kind": "discrete-laplace", "scale": 2}}'
        """
        noise = '{"kind": "unknown"}'
        if self.law is not None and self.scale is not None:
            whole = self.scale.denominator == 1
            noise = json.dumps({"kind": self.law, "scale": int(self.scale) if whole else float(self.scale)})
        sql = json.dumps(self.sql, ensure_ascii=False)
        return f'{{"sql": {sql}, "answer": {format_fraction(self.value)}, "noise": {noise}}}'


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedStatement:
    """A statement as it was read, as linear queries, and what was released for them."""

    statement: Statement
    question: Question
    releases: tuple[Release, ...]


@dataclass(frozen=True, slots=True)
class Releases:
    """Writes the releases of questions about one table: `domain` is what was declared of it, `n` the public number of
    people, None where it is a secret.
    """

    schema: Schema
    domain: Domain
    n: int | None

    def transcript(self, asked: Iterable[ReleasedStatement]) -> Iterator[ReleaseLine]:
        """Everything released, once: a question that is asked again is given the same noise, which is no news."""
        seen: set[str] = set()
        for one in asked:
            mark = one.question.fingerprint()
            if mark not in seen:
                yield from self.of(one)
            seen.add(mark)

    def of(self, asked: ReleasedStatement) -> Iterator[ReleaseLine]:
        """One for each released number, in the order of the releases; none for what is public anyway."""
        left = list(asked.releases)
        for key, items in asked.question.groups:
            for query, item in zip(asked.statement.group(dict(key)), items, strict=True):
                totals = [(query.terms, item.top)]
                if item.bottom is not None:  # AVG is asked as a centred sum and a count
                    middle = tuple(replace(term, factor=-item.middle * term.factor) for term in query.per)
                    totals = [((*query.terms, *middle), item.top), (query.per, item.bottom)]
                for terms, total in totals:
                    made, left = left[: len(total.asked)], left[len(total.asked) :]
                    yield from self._write_total(terms, total, made)

    def _write_total(self, terms: Terms, total: Total, made: Sequence[Release]) -> Iterator[ReleaseLine]:
        split = len(total.queries) == 2  # what is above and below zero was released apart
        if split and (parts := self._split_by_sign(terms)) is not None:
            for part, c, release in zip(parts, total.coefficients, made, strict=False):
                yield self._write_line(part, abs(c) * release.value, release, abs(c))
        elif split:  # a sum of two noisy numbers: its law is none we name
            yield self._write_line(self._count_bins(terms), total.noisy(made[:2], self.n)[0], None, Fraction(1))
        elif total.queries:
            unit = abs(total.coefficients[0])
            yield self._write_line(
                self._count_bins(terms), total.noisy(made[:1], self.n)[0], made[0], unit or Fraction(1)
            )
        if total.matched is not None:
            off = make_or(*(t.where for t in terms if self._get_binned_column(t) is not None))
            yield self._write_line((Term(None, self._clamp(off)),), made[-1].value, made[-1], Fraction(1))

    def _write_line(self, terms: Terms, value: Fraction, release: Release | None, unit: Fraction) -> ReleaseLine:
        """`unit` is what 1 of the released number is in `value`; all is multiplied until every factor is a decimal."""
        times = math.lcm(1, *(_drop_twos_and_fives(t.factor.denominator) for t in terms))
        whole = tuple(replace(t, factor=t.factor * times) for t in terms)
        law = release.law if release is not None else None
        scale = None if release is None or release.scale is None else release.scale * unit * times
        return ReleaseLine(f"SELECT {self._write_select(whole)}", value * times, law, scale)

    def _count_bins(self, terms: Terms) -> Terms:
        """Sums over bins as counts of the bins, times their middles; conditions on public columns as they were read."""
        made: list[Term] = []
        for term in terms:
            column = self._get_binned_column(term)
            if column is None:
                made.append(replace(term, where=self._clamp(term.where)))
                continue
            amounts, _ = column.amounts()
            for cell in range(column.bins):
                where = make_and(_drop_column(self._clamp(term.where), column.name), _make_bin_condition(column, cell))
                made.append(Term(None, where, term.factor * amounts[cell]))
        return tuple(t for t in made if t.factor)

    def _split_by_sign(self, terms: Terms) -> tuple[Terms, Terms] | None:
        """What records above and below zero add, if one column under one condition decides which they are."""
        terms = tuple(t for t in terms if t.factor)
        summed = {t.column for t in terms if t.column is not None}
        if len({t.where for t in terms}) != 1 or len(summed) != 1 or any(t.power != 1 for t in terms):
            return None
        slope = sum((t.factor for t in terms if t.column is not None), Fraction(0))
        base = sum((t.factor for t in terms if t.column is None), Fraction(0))
        where, name = self._clamp(terms[0].where), summed.pop() or ""
        column = self._get_binned_column(Term(name))
        if column is not None:
            amounts, _ = column.amounts()
            every = [(slope * amounts[k] + base, _make_bin_condition(column, k)) for k in range(column.bins)]
            above, below = (
                tuple(
                    Term(None, make_and(_drop_column(where, name), cell), abs(a)) for a, cell in every if a * sign > 0
                )
                for sign in (1, -1)
            )
            return above, below
        if not slope:
            return None
        at = -base / slope
        if _drop_twos_and_fives(at.denominator) != 1:
            return None
        made: list[Terms] = []
        for sign in (1, -1):
            beyond = Comparison(name, ">" if slope * sign > 0 else "<", _to_scalar(at))
            part = make_and(where, beyond)
            made.append((Term(name, part, slope * sign), *((Term(None, part, base * sign),) if base else ())))
        return made[0], made[1]

    def _get_binned_column(self, term: Term) -> Range | None:
        """The column of a term, if its cells hold more than one value each."""
        if term.column is None:
            return None
        column = self.domain.columns[self.domain.axis(term.column)]
        return column if isinstance(column, Range) and not column.exact else None

    def _clamp(self, predicate: Predicate) -> Predicate:
        """A condition as it was read: public numbers outside their declared range count as the nearest end.

        Private ones do too; there the declaration is all that anybody knows, and the statement keeps its words.
        """
        return replace_leaves(predicate, self._clamp_leaf)

    def _clamp_leaf(self, leaf: Leaf) -> Predicate:
        if not isinstance(leaf, Comparison | Membership):
            return leaf
        named = self.schema.find(leaf.column)
        column = self.domain.columns[self.domain.axis(leaf.column)]
        if not isinstance(column, Range) or named is None or named.role is Role.PRIVATE:
            return leaf
        if isinstance(leaf, Comparison):
            return _clamp_comparison(leaf, column)
        inside = tuple(v for v in leaf.values if v not in (column.lo, column.hi))
        ends = (_clamp_comparison(Comparison(leaf.column, "=", v), column) for v in leaf.values if v not in inside)
        return make_or(*((Membership(leaf.column, inside),) if inside else ()), *ends)

    def _write_select(self, terms: Terms) -> str:
        """The SELECT list, FROM and WHERE of a sum of terms, with what all conditions share in the WHERE."""
        parts = [_split_conjunction(t.where) for t in terms]
        shared = [p for p in parts[0] if all(p in other for other in parts) and _get_present_column(p) is None]
        apart: dict[tuple[Predicate, ...], list[Term]] = {}
        for term, every in zip(terms, parts, strict=True):
            apart.setdefault(tuple(p for p in every if p not in shared), []).append(term)
        items = [_write_aggregate(group, where, alone=len(apart) == 1) for where, group in apart.items()]
        found = f"{' + '.join(items)} FROM {quote_name(self.schema.table)}"
        return f"{found} WHERE {format_predicate(make_and(*shared))}" if shared else found


def _write_aggregate(terms: Sequence[Term], where: Sequence[Predicate], *, alone: bool) -> str:
    """One SUM or COUNT of terms under one condition; a missing one among several adds nothing.

    That a summed or counted column is not NULL is said by the aggregate itself.
    """
    summed = [t.column for t in terms if t.column is not None]
    present = [name for p in where if (name := _get_present_column(p)) is not None]
    counted = present[0] if present and not summed else None
    said = {Not(IsNull(name)) for name in (*summed, *([counted] if counted is not None else []))}
    rest = make_and(*(p for p in where if p not in said))
    only = f" FILTER (WHERE {format_predicate(rest)})" if rest != TRUE else ""
    if not summed:
        factor = sum((t.factor for t in terms), Fraction(0))
        count = f"COUNT({'*' if counted is None else quote_name(counted)}){only}"
        return count if factor == 1 else f"{format_fraction(factor)} * {count}"
    text = ""
    for term in sorted(terms, key=lambda t: t.column is None):
        size = abs(term.factor)
        body = " * ".join([quote_name(term.column)] * term.power) if term.column is not None else format_fraction(size)
        if term.column is not None and size != 1:
            body = f"{format_fraction(size)} * {body}"
        if text:
            text += f" {'-' if term.factor < 0 else '+'} {body}"
        else:
            text = f"-{body}" if term.factor < 0 else body
    return f"SUM({text}){only}" if alone else f"COALESCE(SUM({text}){only}, 0)"


def _get_present_column(predicate: Predicate) -> str | None:
    """The column of `column IS NOT NULL`."""
    if isinstance(predicate, Not) and isinstance(predicate.part, IsNull):
        return predicate.part.column
    return None


def _drop_column(where: Predicate, name: str) -> Predicate:
    """A condition without `name IS NOT NULL`, for one that a comparison of the column joins."""
    return make_and(*(p for p in _split_conjunction(where) if p != Not(IsNull(name))))


def _make_bin_condition(column: Range, cell: int) -> Predicate:
    """The bin with its half-open ends; the first and the last hold what lies outside."""
    low = Comparison(column.name, ">=", _to_scalar(column.lo + cell * column.width))
    high = Comparison(column.name, "<", _to_scalar(column.lo + (cell + 1) * column.width))
    inner = [*([low] if cell > 0 else []), *([high] if cell < column.bins - 1 else [])]
    return make_and(*inner) if inner else Not(IsNull(column.name))


def _clamp_comparison(leaf: Comparison, column: Range) -> Predicate:
    """The comparison of the clamped column, said of the column itself.

    >>> age = Range("age", Fraction(0), Fraction(99), Fraction(10), Fraction(1))
    >>> format_predicate(_clamp_comparison(Comparison("age", "=", 99), age))
    '"age" >= 99'
    >>> format_predicate(_clamp_comparison(Comparison("age", "<", 100), age))
    '"age" < 100 OR "age" >= 100'
    """
    if isinstance(leaf.value, bool) or not isinstance(leaf.value, int | Decimal):
        return leaf
    value, name = Fraction(leaf.value), leaf.column
    below, above = Comparison(name, "<", leaf.value), Comparison(name, ">=", leaf.value)
    always, never = make_or(below, above), make_and(below, above)  # NULL stays NULL
    ends = {column.lo: ("<=", ">"), column.hi: (">=", "<")}
    if column.lo == column.hi == value:
        return always if leaf.op in ("=", "<=", ">=") else never
    if leaf.op in ("=", "<>"):
        pair = ends.get(value)
        return leaf if pair is None else Comparison(name, pair[leaf.op == "<>"], leaf.value)
    under = value > column.hi or (value == column.hi and leaf.op in ("<=", ">"))  # everybody is at or below
    over = value < column.lo or (value == column.lo and leaf.op in ("<", ">="))
    if not under and not over:
        return leaf
    return always if under == (leaf.op in ("<", "<=")) else never


def _split_conjunction(predicate: Predicate) -> tuple[Predicate, ...]:
    return predicate.parts if isinstance(predicate, And) else () if predicate == TRUE else (predicate,)


def _drop_twos_and_fives(denominator: int) -> int:
    """What is left of a denominator without twos and fives: 1 for decimals."""
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    return denominator


def _to_scalar(value: Fraction) -> Scalar:
    return simplify_fraction(value)
