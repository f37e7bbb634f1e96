"""Made-up public rows on which a statement decides something: who matches it, and both sides of each condition."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain

from keyhole.datasets import Filling
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
    evaluate_leaf,
    evaluate_predicate,
    find_columns,
    find_leaves,
)
from keyhole.model.schema import Column, Kind, Related, Schema
from keyhole.reading.trial import Trial, list_constants

Record = dict[str, Scalar | None]
MOST = 10  # rows for one statement
AGAIN = 7  # copies of the one that matches, if private columns are compared


def make_deciding_rows(
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
    record = _rename_ids(sample[turn % len(sample)], ids, 1000 + turn)
    by_name = split_by_column(statement.where)
    choices: dict[str, list[Scalar | None]] = {}
    for name, mine in by_column.items():
        real = [sample[(turn * 7 + i * 13) % len(sample)].get(name) for i in range(3)]
        near = (
            [] if name in inside else list(chain.from_iterable(list_near_values(leaf, public[name]) for leaf in mine))
        )
        choices[name] = list(dict.fromkeys([*near, *real, *([None] if public[name].nullable else [])]))
        parts = by_name.get(name, [])
        record[name] = next((v for v in choices[name] if are_all_true(parts, v)), record.get(name))
    found = [record]
    for name, values in choices.items():
        found += [{**record, name: value} for value in values if value != record[name]]
    step = max(1, -(-len(found) // MOST))
    return [*found[::step], *([record] * AGAIN if any(map(list_constants, trial.private)) else [])]


def copy_rows(sample: Sequence[Record], ids: Sequence[str], least: int) -> list[Record]:
    """The records again under other ids, until there are enough for made-up values to vary."""
    found: list[Record] = []
    while sample and len(sample) + len(found) < least:
        found.append(_rename_ids(sample[len(found) % len(sample)], ids, len(found)))
    return found


def keep_rows_with_new_ids(extra: Sequence[Record], sample: Sequence[Record], ids: Sequence[str]) -> list[Record]:
    """The rows whose id nobody else has."""
    seen = {tuple(row.get(name) for name in ids) for row in sample} if ids else set()
    kept = []
    for row in extra:
        who = tuple(row.get(name) for name in ids)
        if not ids or who not in seen:
            seen.add(who)
            kept.append(row)
    return kept


def _rename_ids(record: Record, ids: Sequence[str], turn: int) -> Record:
    """The record under an id that nobody has."""
    other = dict(record)
    for name in ids:
        value = record.get(name)
        if isinstance(value, str):
            other[name] = f"{value} {turn} made up"
        elif isinstance(value, int) and not isinstance(value, bool):
            other[name] = -1 - turn - abs(value)
    return other


def split_by_column(where: Predicate) -> dict[str, list[Predicate]]:
    """The parts of a conjunction that look at one column each, by column."""
    found: dict[str, list[Predicate]] = {}
    for part in where.parts if isinstance(where, And) else (where,):
        looked = {part.column} if isinstance(part, Comparison) else find_columns(part)
        if len(looked) == 1:
            found.setdefault(next(iter(looked)), []).append(part)
    return found


def are_all_true(parts: Sequence[Predicate], value: Scalar | None) -> bool:
    """Are all these conditions true of one value?"""

    def truth(leaf: Leaf) -> Truth:
        return evaluate_leaf(leaf, value)

    try:
        return all((truth(p) if isinstance(p, Comparison) else evaluate_predicate(p, truth)) is True for p in parts)
    except TypeError:  # an expression, or values that do not compare
        return False


def list_near_values(leaf: Leaf, column: Column) -> Iterator[Scalar | None]:
    """The constants of a condition, and values next to them."""
    if isinstance(leaf, IsNull | Opaque | Has):
        return
    if isinstance(leaf, Like):
        yield leaf.pattern.replace("%", "").replace("_", "x")
        yield leaf.pattern.replace("%", "yz").replace("_", "x")
        return
    for constant in list_constants(leaf)[:3]:
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


# --- rows of other tables ---------------------------------------------------------------------------------------------
# Made-up rows of other tables: for each condition on rows, records that have one, nearly have one, and have none.
#
# Who has rows is private, so all of it is made up: rows that satisfy the condition, rows that fail it in one part, rows
# of nobody, and rows without a key. Which record has which differs from filling to filling.


COPIES = 7  # of the record that matches, each with rows of its own
NOBODY: dict[Kind, Scalar] = {Kind.TEXT: "nobody", Kind.INTEGER: 987_654_321}
_PLAIN: dict[Kind, tuple[Scalar, ...]] = {
    Kind.TEXT: ("made up", "other"),
    Kind.INTEGER: (7, 8),
    Kind.DATE: (dt.date(2001, 1, 1), dt.date(2001, 1, 2)),
    Kind.TIMESTAMP: (dt.datetime(2001, 1, 1), dt.datetime(2001, 1, 2)),
    Kind.BOOLEAN: (True, False),
}


def assign_new_keys(
    rows: Sequence[Record],
    trial: Trial,
    keys: Mapping[str, Column],
    ids: Sequence[str],
    sample: Sequence[Record],
    at: int,
) -> list[Record]:
    """The deciding rows of a trial, each with keys that nobody else has; two of them are one person's.

    Keys that the statement itself looks at keep their values.
    """
    base = list(rows) or [dict(sample[at % len(sample)])] if sample else []
    asked = {leaf.column for leaf in trial.public if hasattr(leaf, "column")}
    assigned = []
    for i, row in enumerate([*base, *base[:1] * COPIES]):
        made = dict(row)
        for name, column in keys.items():
            if name not in asked:
                number = i // 2 if name in ids else i
                made[name] = None if column.nullable and i % 5 == 4 else _make_key(column, at * 64 + number)
        assigned.append(made)
    return assigned


def _make_key(column: Column, number: int) -> Scalar | None:
    if column.kind is Kind.TEXT:
        return f"key {number} made up"
    return -1_000_000 - number if column.kind is Kind.INTEGER else None


def make_up_rows(
    trials: Sequence[Trial], records: Sequence[Sequence[Record]], schema: Schema, filling: Filling
) -> dict[str, list[Record]]:
    """Rows of each table with rows of people; `records` are the deciding rows of each trial.

    Where rows are public, they are the same in every filling.
    """
    rows_of_tables: dict[str, list[Record]] = {r.name: [] for r in schema.related if not r.dimension}
    tables = {r.name: r for r in schema.related}
    for trial, mine in zip(trials, records, strict=True):
        conditions = (leaf for leaf in trial.private if isinstance(leaf, Has))  # also those that are public
        for j, leaf in enumerate(conditions):
            related = tables[leaf.table]
            right = make_satisfying_row(leaf.where, related)
            wrong = list(_make_failing_rows(leaf.where, related, right)) or [right]
            without_keys = right | dict.fromkeys(own for own, _ in related.keys)
            rows_of_tables[leaf.table] += [without_keys, right | _keys_of_nobody(related)]
            for i, record in enumerate(mine):
                if len(related.keys) > 1 and (i + j + filling) % 4 == 1:  # a row of the person, and of no record
                    rows_of_tables[leaf.table].append(
                        right | _keys_of_nobody(related) | _keys_of_record(related, record, {}, 1)
                    )
                for row in _choose_rows(right, wrong, i, j, filling if related.secret else Filling.FIRST):
                    other = mine[(i + 3) % len(mine)]
                    rows_of_tables[leaf.table].append(
                        row | _keys_of_record(related, record, other if (i + filling) % 3 == 2 else record)
                    )
    return rows_of_tables


def _choose_rows(right: Record, wrong: Sequence[Record], i: int, j: int, filling: Filling) -> list[Record]:
    """What rows the i-th record has for the j-th condition."""
    near = wrong[(i + filling) % len(wrong)]
    place = (i * (2 + j) + j + 2 * filling + i // 5) % 5
    return ([], [right], [near], [right, near, right], [near, *wrong])[place]


def _keys_of_nobody(related: Related) -> Record:
    kinds = ((own, related.find(own)) for own, _ in related.keys)
    return {own: None if column is None else NOBODY.get(column.kind) for own, column in kinds}


def _keys_of_record(related: Related, record: Record, other: Record, most: int = 9) -> Record:
    """The keys of a record's row; where rows were found that name two records, so do some of these."""
    found: Record = {}
    for k, (own, mine) in enumerate(related.keys[:most]):
        found[own] = (other if k and not related.agrees else record).get(mine)
    return found


def make_satisfying_row(where: Predicate, related: Related) -> Record:
    """A row that satisfies the condition, as far as can be seen without an engine."""
    parts = split_by_column(where)
    looked: dict[str, list[Leaf]] = {}
    for leaf in find_leaves(where):
        if hasattr(leaf, "column"):
            looked.setdefault(leaf.column, []).append(leaf)
    row: Record = {}
    for column in related.columns:
        tried = [v for leaf in looked.get(column.name, ()) for v in list_near_values(leaf, column)]
        tried += [*_PLAIN.get(column.kind, ()), None]
        row[column.name] = next((v for v in tried if are_all_true(parts.get(column.name, []), v)), tried[0])
    return row


def _make_failing_rows(where: Predicate, related: Related, right: Record) -> Iterator[Record]:
    """Rows that differ from the one that satisfies it in one column."""
    for part in where.parts if isinstance(where, And) else (where,):
        for leaf in find_leaves(part):
            column = related.find(leaf.column) if hasattr(leaf, "column") else None
            if column is None:
                continue
            tried: list[Scalar | None] = [*list_near_values(leaf, column), *_PLAIN.get(column.kind, ()), None]
            yield from ({**right, column.name: v} for v in tried[:4] if v != right[column.name])
