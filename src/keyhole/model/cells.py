"""Private conditions refined to common cells.

All conditions of a log on a private column cut its range into cells on which every condition is constant:
SUM(x) = SUM(x*1[x>5]) + SUM(x*1[x<=5]). A cell is a set of pieces (points, open intervals, or "any other text").
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product

from keyhole.errors import UnsupportedQuery
from keyhole.model.grid import Grid
from keyhole.model.numbers import shorten_fraction, simplify_fraction
from keyhole.model.predicate import Comparison, Leaf, Like, Membership, Scalar, evaluate_leaf
from keyhole.model.prior import Prior
from keyhole.model.schema import Column, Kind


@dataclass(frozen=True, slots=True)
class Piece:
    """A point (`lo == hi`), an open interval (None: unbounded), or with `other` all text not listed elsewhere."""

    lo: Scalar | None
    hi: Scalar | None
    other: bool = False

    @property
    def point(self) -> Scalar | None:
        """The value, if the piece is a single one."""
        return self.lo if not self.other and self.lo is not None and self.lo == self.hi else None


@dataclass(frozen=True, slots=True)
class Cell:
    """The values of one private column on which every condition of the log answers alike; `null`: the NULL cell."""

    column: str
    pieces: tuple[Piece, ...]
    truths: tuple[bool | None, ...]
    null: bool = False

    @property
    def point(self) -> Scalar | None:
        """The value, if the cell is a single one."""
        return self.pieces[0].point if len(self.pieces) == 1 else None


@dataclass(frozen=True, slots=True)
class Partition:
    """The cells of one private column, with the conditions that made them."""

    column: Column
    leaves: tuple[Leaf, ...]
    cells: tuple[Cell, ...]

    def truth(self, leaf: Leaf, cell: Cell) -> bool | None:
        """Truth of a condition on a cell."""
        return cell.truths[self.leaves.index(leaf)]


def partition_column(column: Column, leaves: Iterable[Leaf], prior: Prior) -> Partition:
    """Cut a private column by all conditions asked of it.

    Cost: conditions x pieces. Cells that cannot hold a value (no integer inside, outside the declared range) are left
    out; this makes the audit more complete and never unsound.

    >>> x = Column("x", Kind.INTEGER, nullable=False)
    >>> p = partition_column(x, [Comparison("x", ">", 5), Comparison("x", ">=", 6)], Prior())
    >>> len(p.cells)
    2
    """
    constants = tuple(dict.fromkeys(leaves))
    found: dict[tuple[bool | None, ...], list[Piece]] = {}
    for piece, sample, free in _pieces(column, constants, prior):
        for choice in product((True, False), repeat=len(free)):
            forced = dict(zip(free, choice, strict=True))
            truths = tuple(forced[f] if f in forced else evaluate_leaf(f, sample) for f in constants)
            found.setdefault(truths, []).append(piece)
    cells = [Cell(column.name, tuple(pieces), truths) for truths, pieces in found.items()]
    # the broadest cell last: its indicator is the one left out of the unknowns
    cells.sort(key=lambda c: (c.point is None, any(p.other or p.lo is None or p.hi is None for p in c.pieces)))
    if column.nullable:
        cells.append(Cell(column.name, (), tuple(evaluate_leaf(f, None) for f in constants), null=True))
    return Partition(column, constants, tuple(cells))


def _pieces(column: Column, leaves: Sequence[Leaf], prior: Prior) -> Iterable[tuple[Piece, Scalar, tuple[Leaf, ...]]]:
    """Pieces with a sample value each, and the conditions that are not constant on it (LIKE on unknown text)."""
    if column.kind is Kind.BOOLEAN:
        for truth in (True, False):
            yield Piece(truth, truth), truth, ()
        return
    if prior.values is not None:
        for text in prior.values:
            yield Piece(text, text), text, ()
        return
    constants: set[Scalar] = set()
    for leaf in leaves:
        if isinstance(leaf, Comparison):
            constants.add(leaf.value)
        elif isinstance(leaf, Membership):
            constants.update(leaf.values)
    likes = tuple(leaf for leaf in leaves if isinstance(leaf, Like))
    if column.kind is Kind.OTHER and not all(isinstance(value, str) for value in constants):
        raise UnsupportedQuery(
            f"{column.name} has a type that cannot be compared with a constant here: cast it in a view"
        )
    if column.kind in (Kind.TEXT, Kind.OTHER):
        yield from _text_pieces(sorted(map(str, constants)), leaves, likes)
        return
    ordered = sorted(constants, key=_place)
    for value in ordered:
        if _holds(value, column.kind, prior):
            yield Piece(value, value), value, ()
    for lo, hi in zip([None, *ordered], [*ordered, None], strict=True):
        sample = _sample(lo, hi, column.kind, prior)
        if sample is not None:
            yield Piece(lo, hi), sample, ()


def _text_pieces(
    cuts: list[str], leaves: Sequence[Leaf], likes: tuple[Leaf, ...]
) -> Iterable[tuple[Piece, Scalar, tuple[Leaf, ...]]]:
    for text in cuts:
        yield Piece(text, text), text, ()
    ordered = any(isinstance(leaf, Comparison) and leaf.op not in ("=", "<>") for leaf in leaves)
    if not ordered:  # only equality is asked: all other text is one piece
        sample = max(cuts, default="") + "\x00"
        yield Piece(None, None, other=True), sample, likes
        return
    for lo, hi in zip([None, *cuts], [*cuts, None], strict=True):
        sample = "" if lo is None else lo + "\x00"  # the smallest text above lo
        if hi is None or sample < hi:
            yield Piece(lo, hi, other=lo is None and hi is None), sample, likes


def _holds(value: Scalar, kind: Kind, prior: Prior) -> bool:
    place = _place(value)
    return _between(place, False, place, False, kind, prior) is not None


def _sample(lo: Scalar | None, hi: Scalar | None, kind: Kind, prior: Prior) -> Scalar | None:
    """Some value strictly between lo and hi that the column can hold, or None."""
    low, high = (None if end is None else _place(end) for end in (lo, hi))
    found = _between(low, True, high, True, kind, prior)
    if found is None:
        return None
    return _value(found, kind)


def _value(place: Fraction, kind: Kind) -> Scalar:
    """A place on the number line as a value of the kind."""
    if kind is Kind.DATE:
        return _EPOCH.date() + dt.timedelta(days=int(place))
    if kind is Kind.TIMESTAMP:
        return _EPOCH + dt.timedelta(microseconds=int(place))
    return simplify_fraction(place)


_EPOCH = dt.datetime(2000, 1, 1)


def find_only_value(piece: Piece, column: Column, prior: Prior) -> Scalar | None:
    """The one value of the column that a piece holds; None if there are several, or none can be told.

    >>> pay = Column("pay", Kind.INTEGER)
    >>> find_only_value(Piece(50, 52), pay, Prior()), find_only_value(Piece(50, 53), pay, Prior())
    (51, None)
    """
    if piece.point is not None or piece.other or column.kind in (Kind.TEXT, Kind.BOOLEAN, Kind.OTHER):
        return piece.point
    low, high = (None if end is None else _place(end) for end in (piece.lo, piece.hi))
    if prior.numbers is not None:
        inside = _listed_between(low, True, high, True, prior.numbers)
        return _value(inside[0], column.kind) if len(inside) == 1 else None
    found = Grid.of(column.kind, prior).sole(low, high, open=True)
    return None if found is None else _value(found, column.kind)


def find_ends(piece: Piece, column: Column, prior: Prior) -> tuple[Decimal | None, Decimal | None]:
    """The least and greatest number of a piece (the ends of an open one); None where unbounded, or not a number."""
    if not column.kind.numeric or piece.other:
        return None, None
    low, high = (None if end is None else _place(end) for end in (piece.lo, piece.hi))
    found = Grid.of(column.kind, prior).between(low, high, open=piece.point is None)
    if found is None:
        return None, None
    low, high = found
    return (None if low is None else shorten_fraction(low)), (None if high is None else shorten_fraction(high))


def _place(value: Scalar) -> Fraction:
    """A value on the number line: days or microseconds for dates and timestamps."""
    if isinstance(value, dt.datetime):
        return Fraction((value - _EPOCH) // dt.timedelta(microseconds=1))
    if isinstance(value, dt.date):
        return Fraction((value - _EPOCH.date()).days)
    return Fraction(value)


def _listed_between(
    low: Fraction | None, low_open: bool, high: Fraction | None, high_open: bool, numbers: Sequence[Decimal]
) -> list[Fraction]:
    """The listed numbers between two ends."""
    return [
        n
        for n in map(Fraction, numbers)
        if (low is None or low < n or (low == n and not low_open))
        and (high is None or n < high or (n == high and not high_open))
    ]


def _between(
    low: Fraction | None, low_open: bool, high: Fraction | None, high_open: bool, kind: Kind, prior: Prior
) -> Fraction | None:
    """Some place between the ends, inside the prior's range and on its grid, or None."""
    if prior.numbers is not None:
        return next(iter(_listed_between(low, low_open, high, high_open, prior.numbers)), None)
    if prior.lo is not None and (low is None or Fraction(prior.lo) > low):
        low, low_open = Fraction(prior.lo), False
    if prior.hi is not None and (high is None or Fraction(prior.hi) < high):
        high, high_open = Fraction(prior.hi), False
    step = None if kind in (Kind.DECIMAL, Kind.DOUBLE) else Fraction(1)
    base = Fraction(0)
    if prior.step is not None:
        step, base = Fraction(prior.step), Fraction(prior.lo or 0)
    if step is None:
        if low is None:
            return Fraction(0) if high is None else high - 1
        if high is None:
            return low + 1
        if low < high:
            return (low + high) / 2
        return low if low == high and not (low_open or high_open) else None
    if low is None:
        if high is None:
            return base
        count = (high - base) / step
        return base + step * (math.ceil(count) - 1 if high_open else math.floor(count))
    count = (low - base) / step
    value = base + step * (math.floor(count) + 1 if low_open else math.ceil(count))
    return value if high is None or value < high or (value == high and not high_open) else None
