"""Public rows on which a statement decides something: who matches it, and on both sides of each of its conditions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain

from keyhole.model.predicate import (
    And,
    Comparison,
    Has,
    IsNull,
    Leaf,
    Like,
    Opaque,
    Predicate,
    Scalar,
    Truth,
    columns,
    evaluate,
    leaf_truth,
)
from keyhole.model.schema import Column, Kind
from keyhole.reading.trial import Trial, constants

Record = dict[str, Scalar | None]
MOST = 10  # rows for one statement
AGAIN = 7  # copies of the one that matches, if private columns are compared


def deciding_rows(
    trial: Trial, public: Mapping[str, Column], ids: Sequence[str], sample: Sequence[Record], turn: int
) -> list[Record]:
    """A row that matches, as far as can be seen without an engine, and rows that differ from it in one column each.

    Those differ in the columns with conditions: below, at and above each constant, and NULL where there may be NULL.
    Columns that an expression looks at keep values that occur, since an expression may fail on others. Where private
    columns are compared, the row that matches is there several times, for values on both sides of each constant.
    """
    statement = trial.statement
    inside = {name for leaf in trial.public if isinstance(leaf, Opaque) for name in leaf.columns}
    inside |= {name for key in statement.keys if key.column is None for name in key.columns}
    by_column: dict[str, list[Leaf]] = {}
    for leaf in trial.public:
        if not isinstance(leaf, Opaque):
            by_column.setdefault(leaf.column, []).append(leaf)
    if not by_column or not sample:
        return []
    record = _renamed(sample[turn % len(sample)], ids, 1000 + turn)
    by_name = alone(statement.where)
    choices: dict[str, list[Scalar | None]] = {}
    for name, mine in by_column.items():
        real = [sample[(turn * 7 + i * 13) % len(sample)].get(name) for i in range(3)]
        near = [] if name in inside else list(chain.from_iterable(about(leaf, public[name]) for leaf in mine))
        choices[name] = list(dict.fromkeys([*near, *real, *([None] if public[name].nullable else [])]))
        parts = by_name.get(name, [])
        record[name] = next((v for v in choices[name] if all_true(parts, v)), record.get(name))
    found = [record]
    for name, values in choices.items():
        found += [{**record, name: value} for value in values if value != record[name]]
    step = max(1, -(-len(found) // MOST))
    return [*found[::step], *([record] * AGAIN if any(map(constants, trial.private)) else [])]


def copies(sample: Sequence[Record], ids: Sequence[str], least: int) -> list[Record]:
    """The records again under other ids, until there are enough for made-up values to vary."""
    found: list[Record] = []
    while sample and len(sample) + len(found) < least:
        found.append(_renamed(sample[len(found) % len(sample)], ids, len(found)))
    return found


def with_ids_of_their_own(extra: Sequence[Record], sample: Sequence[Record], ids: Sequence[str]) -> list[Record]:
    """The rows whose id nobody else has."""
    seen = {tuple(row.get(name) for name in ids) for row in sample} if ids else set()
    kept = []
    for row in extra:
        who = tuple(row.get(name) for name in ids)
        if not ids or who not in seen:
            seen.add(who)
            kept.append(row)
    return kept


def _renamed(record: Record, ids: Sequence[str], turn: int) -> Record:
    """The record under an id that nobody has."""
    other = dict(record)
    for name in ids:
        value = record.get(name)
        if isinstance(value, str):
            other[name] = f"{value} {turn} made up"
        elif isinstance(value, int) and not isinstance(value, bool):
            other[name] = -1 - turn - abs(value)
    return other


def alone(where: Predicate) -> dict[str, list[Predicate]]:
    """The parts of a conjunction that look at one column each, by column."""
    found: dict[str, list[Predicate]] = {}
    for part in where.parts if isinstance(where, And) else (where,):
        looked = {part.column} if isinstance(part, Comparison) else columns(part)
        if len(looked) == 1:
            found.setdefault(next(iter(looked)), []).append(part)
    return found


def all_true(parts: Sequence[Predicate], value: Scalar | None) -> bool:
    """Are all these conditions true of one value?"""

    def truth(leaf: Leaf) -> Truth:
        return leaf_truth(leaf, value)

    try:
        return all((truth(p) if isinstance(p, Comparison) else evaluate(p, truth)) is True for p in parts)
    except TypeError:  # an expression, or values that do not compare
        return False


def about(leaf: Leaf, column: Column) -> Iterator[Scalar | None]:
    """The constants of a condition, and values next to them."""
    if isinstance(leaf, IsNull | Opaque | Has):
        return
    if isinstance(leaf, Like):
        yield leaf.pattern.replace("%", "").replace("_", "x")
        yield leaf.pattern.replace("%", "yz").replace("_", "x")
        return
    for constant in constants(leaf)[:3]:
        yield constant
        if isinstance(constant, bool):
            yield not constant
        elif isinstance(constant, int | Decimal):
            step = Decimal(1) if column.kind is Kind.INTEGER else Decimal("0.25")
            yield from (constant + step, constant - step)
        elif isinstance(constant, dt.date):
            yield from (constant + dt.timedelta(days=1), constant - dt.timedelta(days=1))
        else:
            yield from (constant + " ", constant.swapcase())
