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

from keyhole.basis import row
from keyhole.basis.cells import Cells, Domain
from keyhole.basis.cells.base import ColumnCache
from keyhole.defence.budget.loss import Neighbours
from keyhole.defence.linear import LARGEST_UNIT, LinearQuery, Place
from keyhole.defence.mechanisms.base import Release
from keyhole.errors import UnsupportedQuery
from keyhole.model.forms import Form, Part, build_weighted_form, combine_parts
from keyhole.model.predicate import Opaque, Scalar, can_hold, find_leaves
from keyhole.model.query import HALF, Aggregate, Query, Statement

MOST_GROUPS = 10_000
GroupKey = tuple[tuple[str, Scalar], ...]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number made from released ones, with its error bar (None: nothing can be said).

    A total's bar may be read as a share of n; a ratio's may not. A quantile's is in `ranks`: so many people.
    """

    value: Fraction | None
    bar: Fraction | None
    ratio: bool = False
    ranks: int | None = None


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

    def is_vague_average(self, bar: Fraction, n: int) -> bool:
        """Is it a ratio whose bar is half of all it could be, if its numbers have this bar and n people are counted?"""
        if self.bottom is None or self.high == self.low:
            return False
        off, miscount = (bar * sum(map(abs, total.coefficients)) for total in (self.top, self.bottom))
        return off / max(Fraction(1), n - miscount) + self.top.half >= (self.high - self.low) / 2

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

    left_out: tuple[str, ...] = ()
    statement: Statement | None = None

    def factors(self) -> list[Fraction]:
        """By what the released numbers enter the answer, smallest first: 1 for counts, the range for sums."""
        totals = [t for _, items in self.groups for i in items for t in (i.top, i.bottom) if t is not None]
        found = {abs(c) for t in totals for c in t.coefficients} | {
            Fraction(1) for t in totals if t.matched is not None
        }
        return sorted(found)

    def has_vague_average(self, bar: Fraction, n: int) -> bool:
        """Would the bar of an average reach over all averages, even if everybody were in its group?"""
        return any(item.is_vague_average(bar, n) for _, items in self.groups for item in items)

    def say_bar(self, bar: Fraction, n: int | None) -> str:
        """What an error bar of so many people is in the units of the answer, and between what the answer lies anyhow.

        Of the first number that anything is released for; from the question, the declaration and public n alone.
        """
        item = next(item for _, items in self.groups for item in items if item.asked)
        label = item.label or self.sql
        if item.bottom is not None:
            span = f"{float(item.low):g} and {float(item.high):g}"
            return f"{label}: with its error bar it could be any number between {span}, where all averages lie"
        wide = sum((abs(c) for c in item.top.coefficients), Fraction(0))
        least = item.top.each * (n or 0)
        ends = f"{float(least):g} and {float(least + wide * (n or 0)):g}"
        return (
            f"{label}: the error bar would be ± {float(wide * bar):g}, and it lies between {ends} whatever the data are"
        )

    def notes(self, n: int | None, accuracy: Fraction | None) -> tuple[str, ...]:
        """What a reader should know; from the question and the declaration alone. `accuracy` is what was asked for."""
        made = []
        if self.left_out:
            made.append(
                f"groups are the declared values of {', '.join(self.left_out)}: records with NULL or any other value "
                "there are in no group; ask for NULL with IS NULL"
            )
        coarse = {i.label: i.top for _, items in self.groups for i in items if i.bottom is None and i.top.half}
        for label, top in coarse.items():
            widest = max((abs(c) for c in top.coefficients), default=Fraction(1))
            if accuracy is None:
                continue
            cure = "declare a step and no width, or a narrower width, or ask for AVG and COUNT"
            if n is not None:
                made.append(
                    f"{label}: accuracy {float(accuracy):g} is that of the noise; half a bin ({float(top.half):g}) for "
                    f"each of {n} people is added to the bar, so at best {float(top.half / widest):.4g} is reached: "
                    f'{cure}, or set neighbours = "add-remove"'
                )
            else:
                made.append(
                    f"{label}: accuracy {float(accuracy):g} is that of the noise; half a bin ({float(top.half):g}) for "
                    f"each record counted is added to the bar: {cure}"
                )
        return tuple(made)

    def why_free(self, neighbours: Neighbours) -> str:
        """Why a question that asks nothing of anybody has an answer."""
        if neighbours == "replace-one" and any(t.top.each for _, items in self.groups for t in items):
            return "public: under replace-one neighbours n is no secret"
        return "public: no declared cell meets the condition, so nobody is asked about"

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
                            digest.update(repr((q.place, q.unit)).encode() + q.stored.tobytes())
        return digest.hexdigest()


def pose_statement(statement: Statement, domain: Domain, neighbours: Neighbours) -> Question:
    """The linear queries that answer a statement; refused with the reason if none do.

    Depends on the statement and the declared domain only. Every combination of declared key values that WHERE admits is
    a group, whether anybody is in it or not. Cost: for each number one pass over the cells of the columns it looks at,
    within its group.

    >>> from keyhole.basis.cells.categories import Categories
    >>> from keyhole.model.query import Key, Term
    >>> domain = Domain((Categories("sex", ("F", "M")),))
    >>> count, sex = Query(Aggregate.SUM, (Term(None),)), Key("sex", '"sex"', "sex")
    >>> by_sex = Statement("SELECT sex, COUNT(*) ...", (count,), keys=(sex,), sets=((0,),))
    >>> groups = pose_statement(by_sex, domain, "replace-one").groups
    >>> [(dict(key), items[0].asked[0].weights.tolist()) for key, items in groups]
    [({'sex': 'F'}, [1, 0, 0, 0]), ({'sex': 'M'}, [0, 1, 0, 0])]
    """
    if statement.having:
        raise UnsupportedQuery("HAVING would show which groups are large: ask for the numbers and filter them yourself")
    groups: list[tuple[GroupKey, tuple[Item, ...]]] = []
    cache = ColumnCache()
    for chosen in statement.sets:
        keys = [statement.keys[i] for i in chosen]
        values, axes = [], []
        for key in keys:
            if key.column is None:
                raise UnsupportedQuery(f"GROUP BY {key.sql}: only a declared column has a list of keys")
            axes.append(domain.axis(key.column))
            values.append(domain.columns[axes[-1]].keys())
        if math.prod(map(len, values)) + len(groups) > MOST_GROUPS:
            raise UnsupportedQuery(f"more than {MOST_GROUPS} groups: group by fewer columns")
        for cells in product(*(range(len(v)) for v in values)):  # keys stand in cell order
            named = tuple((k.name, v[cell]) for k, v, cell in zip(keys, values, cells, strict=True))
            own = {str(k.column): value for k, (_, value) in zip(keys, named, strict=True)}
            if keys and not can_hold(statement.where, own):
                continue  # nobody in the group can meet WHERE: it has no row in the answer
            if len(set(axes)) < len(axes):  # a column twice
                items = tuple(pose_query(q, domain, neighbours) for q in statement.group(dict(named)))
            else:
                within = tuple(sorted(zip(axes, cells, strict=True)))
                items = tuple(_pose_within(q, domain, neighbours, within, cache) for q in statement.queries)
            groups.append((named, items))
    if not groups:
        raise UnsupportedQuery("no declared group meets the WHERE: there is nothing to answer")
    names = tuple(dict.fromkeys(key.column for key in statement.keys if key.column is not None))
    return Question(statement.text, bool(statement.keys), tuple(groups), names, statement)


def pose_query(query: Query, domain: Domain, neighbours: Neighbours) -> Item:
    """The linear queries that answer one query; refused with the reason if none do."""
    return _pose_within(query, domain, neighbours, (), ColumnCache())


def _pose_within(
    query: Query, domain: Domain, neighbours: Neighbours, keys: tuple[tuple[int, int], ...], cache: ColumnCache
) -> Item:
    """The same, asked of the records in the cells `keys` only."""
    if query.aggregate is not Aggregate.SUM:
        raise UnsupportedQuery(
            f"{query.label or query.aggregate.value}: this mechanism answers COUNT, SUM and AVG of declared columns; "
            "the planner answers more (give a delta under [budget])"
        )
    if query.test is not None:
        raise UnsupportedQuery(f"{query.label}: ask for the number itself and compare it yourself")
    if query.digits is not None and query.rounding != HALF:
        raise UnsupportedQuery(f"{query.label}: ask for the number itself, or round it with ROUND")
    none = Fraction(0)
    form, cells = build_weighted_form(query), _find_cells(query, domain, keys, cache)
    if not query.per:
        total = _make_total(form.top, cells, neighbours, query.label)
        return Item(query.label, total, None, none, none, none, query.digits)
    low, high = _bound_average(form, cells, query.label)
    middle = (low + high) / 2
    centred = combine_parts(form.top, (-middle, form.per))
    top = replace(_make_total(centred, cells, neighbours, query.label), matched=None)
    bottom = _make_total(form.per, cells, neighbours, query.label)
    return Item(query.label, top, bottom, low, high, middle, query.digits)


def _find_cells(query: Query, domain: Domain, keys: tuple[tuple[int, int], ...], cache: ColumnCache) -> Cells:
    """The cells of the query's columns, within one cell of each key column."""
    used = set()
    for term in (*query.terms, *query.per):
        if term.weight is None and term.column is not None:
            used.add(domain.axis(term.column))
        used |= {domain.axis(leaf.column) for leaf in find_leaves(term.where) if not isinstance(leaf, Opaque)}
    axes = tuple(sorted(used - dict(keys).keys()))
    if not axes and not keys:
        axes = (0,)  # nothing is looked at: any column will do
    return Cells(domain, axes, keys, cache)


def _weigh(parts: Sequence[Part], cells: Cells, name: str) -> tuple[Numbers, Fraction]:
    """What a record of each cell adds, in whole multiples of 1/scale."""
    made = row(parts, cells)
    flat = np.zeros(cells.count, dtype=np.int64)
    for at, values in made.blocks().values():
        if made.wide or np.abs(values).max(initial=0) >= 2**60:
            raise UnsupportedQuery(f"{name}: the numbers summed need more than 60 bits; declare a coarser step")
        flat[at] = values
    return (flat, made.scale) if made.scale > 0 else (-flat, -made.scale)


def _list_halves(parts: Sequence[Part], cells: Cells) -> list[Part]:
    """How far from what its cell adds a record may be: half a bin for each part that sums a binned column."""
    halves = [(p, cells.half(p.weight) if p.weight is not None else Fraction(0)) for p in parts]
    return [replace(p, factor=abs(p.factor) * half, weight=None) for p, half in halves if half]


def _bound_average(form: Form, cells: Cells, name: str) -> tuple[Fraction, Fraction]:
    """Between what an average lies: the least and the most that one counted record adds."""
    counted, unit = _weigh(form.per, cells, name)
    if unit != 1 or not np.isin(counted, (0, 1)).all():
        raise UnsupportedQuery(f"{name}: a ratio is answered privately only if it is an average over records")
    counted_cells = counted > 0
    if not counted_cells.any():
        return Fraction(0), Fraction(0)
    off = _list_halves(form.top, cells)
    least, down = _weigh(combine_parts(form.top, (Fraction(-1), off)), cells, name)
    most, up = _weigh(combine_parts(form.top, (Fraction(1), off)), cells, name)
    return int(least[counted_cells].min()) / down, int(most[counted_cells].max()) / up


def _make_total(parts: Sequence[Part], cells: Cells, neighbours: Neighbours, name: str) -> Total:
    flat, scale = _weigh(parts, cells, name)
    spread, fine = _weigh(_list_halves(parts, cells), cells, name)
    half = int(spread.max()) / fine
    if neighbours == "replace-one":
        # n is public, so weights may be shifted to start at zero: one person then moves the sum by its range only.
        low, high = int(flat.min()), int(flat.max())
        if cells.keys:  # records of other groups add nothing
            low, high = min(low, 0), max(high, 0)
        queries = _make_queries(flat - low, high - low, name, cells, -low)
        return Total(queries, ((high - low) / scale,) * len(queries), low / scale, half, None)
    most = int(np.abs(flat).max())
    above, below = np.maximum(flat, 0), np.maximum(-flat, 0)
    signed = [(part, sign) for part, sign in ((above, 1), (below, -1)) if part.any()]
    queries = tuple(q for side, _ in signed for q in _make_queries(side, most, name, cells, 0))
    touched = _make_queries((spread > 0).astype(np.int64), 1, f"records behind {name}", cells, 0)
    matched = touched[0] if half else None
    return Total(queries, tuple(sign * most / scale for _, sign in signed), Fraction(0), half, matched)


def _make_queries(numerators: Numbers, unit: int, name: str, cells: Cells, rest: int) -> tuple[LinearQuery, ...]:
    """numerators / unit as a linear query in lowest terms, `rest` / unit outside the group; none if the unit is 0."""
    if unit == 0:
        return ()
    shared = math.gcd(unit, int(np.gcd.reduce(numerators)), rest if cells.keys else 0)
    if unit // shared > LARGEST_UNIT:
        raise UnsupportedQuery(f"{name}: the numbers summed need a grid of {unit // shared:.3g} steps; at most 2^31")
    # A column that makes no difference is left out, so that a question has one form however it is written.
    shaped = (numerators // shared).reshape(cells.shape)
    axes = list(cells.axes)
    for axis in cells.axes:
        at = axes.index(axis)
        first = shaped.take([0], axis=at)
        if (shaped == first).all():
            shaped = first.squeeze(axis=at)
            axes.remove(axis)
    place = Place(cells.domain.shape, tuple(axes), cells.keys, rest // shared if cells.keys else 0)
    return (LinearQuery.of(np.atleast_1d(shaped).ravel(), unit // shared, name, place),)
