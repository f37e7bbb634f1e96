"""Statements to linear queries: COUNT, SUM and AVG over the cells of a domain, for every declared GROUP BY key."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from keyhole.defend.base import Release
from keyhole.defend.cells import select
from keyhole.defend.domain import Domain
from keyhole.defend.linear import LARGEST_UNIT, LinearQuery
from keyhole.defend.loss import Neighbours
from keyhole.errors import UnsupportedQuery
from keyhole.predicate import Scalar
from keyhole.query import Aggregate, Query, Statement, Term

MOST_GROUPS = 10_000
GroupKey = tuple[tuple[str, Scalar], ...]
Cells = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number made from released ones, with its error bar (None: nothing can be said).

    A total's bar may be read as a share of n; a ratio's may not.
    """

    value: Fraction | None
    bar: Fraction | None
    ratio: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """A weighted count: `each` * n + sum(coefficient * query), where a record may be `half` off its cell's weight.

    `matched` counts the records that may be off, where n is not public.
    """

    queries: tuple[LinearQuery, ...]
    coefficients: tuple[Fraction, ...]
    each: Fraction
    half: Fraction
    matched: LinearQuery | None

    @property
    def asked(self) -> tuple[LinearQuery, ...]:
        """All that must be released for it."""
        return self.queries if self.matched is None else (*self.queries, self.matched)

    def noisy(self, releases: Sequence[Release], n: int | None) -> tuple[Fraction, Fraction]:
        """The number and the bar of its noise alone: sum |coefficient| alpha."""
        value = self.each * n if n is not None else Fraction(0)
        bar = Fraction(0)
        for c, r in zip(self.coefficients, releases, strict=False):
            value += c * r.value
            bar += abs(c) * r.alpha
        return value, bar

    def estimate(self, releases: Sequence[Release], n: int | None) -> Estimate:
        """The number and its bar: that of the noise, and half a bin's width for each record that may be off."""
        value, bar = self.noisy(releases, n)
        if n is not None:
            return Estimate(value, bar + self.half * n)
        if self.matched is not None:
            bar += self.half * max(Fraction(0), releases[-1].value + releases[-1].alpha)
        return Estimate(value, bar)


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One number of an answer: a total, or for AVG `middle` plus a ratio of two, between `low` and `high`.

    AVG(x) is asked as middle + SUM(x - middle) / COUNT(x), with the middle of the declared range: one person then moves
    the sum by less, and an error of the count moves the average by its distance from the middle only.
    """

    label: str
    top: Total
    bottom: Total | None
    low: Fraction
    high: Fraction
    middle: Fraction
    digits: int | None

    @property
    def asked(self) -> tuple[LinearQuery, ...]:
        """All that must be released for it."""
        return self.top.asked if self.bottom is None else (*self.top.asked, *self.bottom.asked)

    def estimate(self, releases: Sequence[Release], n: int | None) -> Estimate:
        """The number with its bar; a ratio's bar follows from the two released numbers and is never promised before."""
        cut = len(self.top.asked)
        if self.bottom is None:
            made = self.top.estimate(releases, n)
        else:
            made = self._ratio(self.top.noisy(releases[:cut], n), self.bottom.noisy(releases[cut:], n))
        if self.digits is None or made.value is None or made.bar is None:
            return made
        shown = Fraction(round(made.value * 10**self.digits), 10**self.digits)
        return Estimate(shown, made.bar + abs(shown - made.value), made.ratio)

    def _ratio(self, top: tuple[Fraction, Fraction], bottom: tuple[Fraction, Fraction]) -> Estimate:
        (total, off), (count, miscount) = top, bottom
        if count <= 0:
            return Estimate(None, None, ratio=True)
        value = min(max(self.middle + total / count, self.low), self.high)
        few, many = max(Fraction(1), count - miscount), max(Fraction(1), count + miscount)
        corners = [self.middle + (total + s * off) / d for s in (-1, 1) for d in (few, many)]
        # each record is at most half a bin off, hence so is their average; and it lies between low and high
        least = max(min(corners) - self.top.half, self.low)
        most = min(max(corners) + self.top.half, self.high)
        return Estimate(value, max(most - value, value - least, Fraction(0)), ratio=True)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One statement as linear queries: for each declared group the items of its SELECT list."""

    sql: str
    grouped: bool
    groups: tuple[tuple[GroupKey, tuple[Item, ...]], ...]

    @property
    def asked(self) -> tuple[LinearQuery, ...]:
        """All linear queries, in the order of groups and items; those of a joint release."""
        return tuple(q for _, items in self.groups for item in items for q in item.asked)

    def estimates(self, releases: Sequence[Release], n: int | None) -> Iterator[tuple[GroupKey, list[Estimate]]]:
        """The numbers of each group, from the releases of `asked`."""
        at = 0
        for key, items in self.groups:
            made = []
            for item in items:
                made.append(item.estimate(releases[at : at + len(item.asked)], n))
                at += len(item.asked)
            yield key, made

    def fingerprint(self) -> str:
        """A digest of what is asked, whatever the spelling of the SQL."""
        digest = hashlib.blake2b(digest_size=16)
        for key, items in self.groups:
            digest.update(repr(key).encode())
            for item in items:
                for total in (item.top, item.bottom):
                    if total is not None:
                        digest.update(repr((total.coefficients, total.each, item.digits)).encode())
                        for q in total.asked:
                            digest.update(q.unit.to_bytes(8, "little") + q.weights.tobytes())
        return digest.hexdigest()


def pose(statement: Statement, domain: Domain, neighbours: Neighbours) -> Question:
    """The linear queries that answer a statement; refused with the reason if none do.

    Depends on the statement and the declared domain only. Every combination of declared key values is a group, whether
    anybody is in it or not. Cost: one pass over the cells for each number.

    >>> from keyhole.defend.categories import Categories
    >>> from keyhole.query import Key
    >>> domain = Domain((Categories("sex", ("F", "M")),))
    >>> count, sex = Query(Aggregate.SUM, (Term(None),)), Key("sex", '"sex"', "sex")
    >>> by_sex = Statement("SELECT sex, COUNT(*) ...", (count,), keys=(sex,), sets=((0,),))
    >>> [(dict(key), items[0].asked[0].weights.tolist()) for key, items in pose(by_sex, domain, "replace-one").groups]
    [({'sex': 'F'}, [1, 0, 0, 0]), ({'sex': 'M'}, [0, 1, 0, 0])]
    """
    if statement.having:
        raise UnsupportedQuery("HAVING would show which groups are large: ask for the numbers and filter them yourself")
    groups: list[tuple[GroupKey, tuple[Item, ...]]] = []
    for chosen in statement.sets:
        keys = [statement.keys[i] for i in chosen]
        values = []
        for key in keys:
            if key.column is None:
                raise UnsupportedQuery(f"GROUP BY {key.sql}: only a declared column has a list of keys")
            values.append(domain.columns[domain.axis(key.column)].keys())
        if math.prod(map(len, values)) + len(groups) > MOST_GROUPS:
            raise UnsupportedQuery(f"more than {MOST_GROUPS} groups: group by fewer columns")
        for combination in product(*values):
            named = tuple((k.name, v) for k, v in zip(keys, combination, strict=True))
            items = tuple(pose_query(q, domain, neighbours) for q in statement.group(dict(named)))
            groups.append((named, items))
    return Question(statement.text, bool(statement.keys), tuple(groups))


def pose_query(query: Query, domain: Domain, neighbours: Neighbours) -> Item:
    """The linear queries that answer one query; refused with the reason if none do."""
    if query.aggregate is not Aggregate.SUM:
        raise UnsupportedQuery(
            f"{query.label or query.aggregate.value}: COUNT, SUM and AVG of declared columns are answered privately"
        )
    if query.test is not None:
        raise UnsupportedQuery(f"{query.label}: ask for the number itself and compare it yourself")
    none = Fraction(0)
    if not query.per:
        total = _total(query.terms, domain, neighbours, query.label)
        return Item(query.label, total, None, none, none, none, query.digits)
    low, high = _bounds(query, domain)
    middle = (low + high) / 2
    centred = (*query.terms, *(replace(t, factor=-middle * t.factor) for t in query.per))
    top = replace(_total(centred, domain, neighbours, query.label), matched=None)
    bottom = _total(query.per, domain, neighbours, query.label)
    return Item(query.label, top, bottom, low, high, middle, query.digits)


def _amounts(term: Term, domain: Domain) -> tuple[int, list[Fraction], Fraction]:
    """The axis of a term's column, what each of its cells adds, and half the width of its bins."""
    if term.weight is not None:
        raise UnsupportedQuery(f"{term.weight}: only declared columns can be summed privately")
    if term.column is None:
        return 0, [term.factor] * domain.shape[0], Fraction(0)
    axis = domain.axis(term.column)
    amounts, half = domain.columns[axis].amounts()
    if term.power == 2:
        if half:
            raise UnsupportedQuery(f"the square of {term.column!r} is not known within its bins: declare a step")
        amounts = [a * a for a in amounts]
    return axis, [term.factor * a for a in amounts], abs(term.factor) * half


def _weigh(terms: Sequence[Term], domain: Domain, name: str) -> tuple[Cells, Cells, int]:
    """What a record of each cell adds, and how far from it a record may be, in whole multiples of 1/scale."""
    parts = [(select(t.where, domain), *_amounts(t, domain)) for t in terms]
    scale = math.lcm(1, *(a.denominator for _, _, amounts, half in parts for a in (*amounts, half)))
    if any(abs(a) * scale * len(parts) >= 2**60 for _, _, amounts, half in parts for a in (*amounts, half)):
        raise UnsupportedQuery(f"{name}: the numbers summed need more than 60 bits; declare a coarser step")
    weights = np.zeros(domain.shape, dtype=np.int64)
    spread = np.zeros(domain.shape, dtype=np.int64)
    for kept, axis, amounts, half in parts:
        shape = [1] * len(domain.shape)
        shape[axis] = domain.shape[axis]
        weights += kept * np.array([int(a * scale) for a in amounts], dtype=np.int64).reshape(shape)
        spread += kept * int(half * scale)
    return weights, spread, scale


def _bounds(query: Query, domain: Domain) -> tuple[Fraction, Fraction]:
    """Between what an average lies: the least and the most that one counted record adds."""
    weights, spread, scale = _weigh(query.terms, domain, query.label)
    counted, _, unit = _weigh(query.per, domain, query.label)
    if not np.isin(counted, (0, unit)).all():
        raise UnsupportedQuery(f"{query.label}: a ratio is answered privately only if it is an average over records")
    held = counted > 0
    if not held.any():
        return Fraction(0), Fraction(0)
    low, high = int((weights - spread)[held].min()), int((weights + spread)[held].max())
    return Fraction(low, scale), Fraction(high, scale)


def _total(terms: Sequence[Term], domain: Domain, neighbours: Neighbours, name: str) -> Total:
    weights, spread, scale = _weigh(terms, domain, name)
    half = Fraction(int(spread.max()), scale)
    flat = weights.ravel()
    if neighbours == "replace-one":
        # n is public, so weights may be shifted to start at zero: one person then moves the sum by its range only.
        low, high = int(flat.min()), int(flat.max())
        queries = _parts(flat - low, high - low, name)
        return Total(queries, (Fraction(high - low, scale),) * len(queries), Fraction(low, scale), half, None)
    most = int(np.abs(flat).max())
    above, below = np.maximum(flat, 0), np.maximum(-flat, 0)
    signed = [(part, sign) for part, sign in ((above, 1), (below, -1)) if part.any()]
    queries = tuple(q for part, _ in signed for q in _parts(part, most, name))
    matched = LinearQuery.of((spread.ravel() > 0).astype(np.uint8), name=f"records behind {name}") if half else None
    return Total(queries, tuple(Fraction(sign * most, scale) for _, sign in signed), Fraction(0), half, matched)


def _parts(numerators: NDArray[np.int64], unit: int, name: str) -> tuple[LinearQuery, ...]:
    """numerators / unit as a linear query in lowest terms; none if all are zero."""
    if unit == 0:
        return ()
    shared = math.gcd(unit, int(np.gcd.reduce(numerators)))
    if unit // shared > LARGEST_UNIT:
        raise UnsupportedQuery(f"{name}: the numbers summed need a grid of {unit // shared:.3g} steps; at most 2^31")
    return (LinearQuery.of(numerators // shared, unit // shared, name),)
