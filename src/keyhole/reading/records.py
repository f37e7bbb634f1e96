"""Made-up rows of other tables: for each condition on rows, records that have one, nearly have one, and have none.

Who has rows is private, so all of it is made up: rows that satisfy the condition, rows that fail it in one part, rows
of nobody, and rows without a key. Which record has which differs from filling to filling.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

from keyhole.datasets import Filling
from keyhole.model.predicate import And, Has, Leaf, Predicate, Scalar, leaves
from keyhole.model.schema import Column, Kind, Related, Schema
from keyhole.reading.rows import Record, about, all_true, alone
from keyhole.reading.trial import Trial

COPIES = 7  # of the record that matches, each with rows of its own
NOBODY: dict[Kind, Scalar] = {Kind.TEXT: "nobody", Kind.INTEGER: 987_654_321}
_PLAIN: dict[Kind, tuple[Scalar, ...]] = {
    Kind.TEXT: ("made up", "other"),
    Kind.INTEGER: (7, 8),
    Kind.DATE: (dt.date(2001, 1, 1), dt.date(2001, 1, 2)),
    Kind.TIMESTAMP: (dt.datetime(2001, 1, 1), dt.datetime(2001, 1, 2)),
    Kind.BOOLEAN: (True, False),
}


def with_keys_of_their_own(
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
    found = []
    for i, row in enumerate([*base, *base[:1] * COPIES]):
        made = dict(row)
        for name, column in keys.items():
            if name not in asked:
                number = i // 2 if name in ids else i
                made[name] = None if column.nullable and i % 5 == 4 else _fresh(column, at * 64 + number)
        found.append(made)
    return found


def _fresh(column: Column, number: int) -> Scalar | None:
    if column.kind is Kind.TEXT:
        return f"key {number} made up"
    return -1_000_000 - number if column.kind is Kind.INTEGER else None


def made_up_rows(
    trials: Sequence[Trial], records: Sequence[Sequence[Record]], schema: Schema, filling: Filling
) -> dict[str, list[Record]]:
    """Rows of each table with rows of people; `records` are the deciding rows of each trial.

    Where rows are public, they are the same in every filling.
    """
    found: dict[str, list[Record]] = {r.name: [] for r in schema.related if not r.dimension}
    tables = {r.name: r for r in schema.related}
    for trial, mine in zip(trials, records, strict=True):
        for j, leaf in enumerate(_has(trial)):
            related = tables[leaf.table]
            right = satisfying(leaf.where, related)
            wrong = list(_failing(leaf.where, related, right)) or [right]
            found[leaf.table] += [right | dict.fromkeys(_keys(related)), right | _nobodys(related)]
            for i, record in enumerate(mine):
                if len(related.keys) > 1 and (i + j + filling) % 4 == 1:  # a row of the person, and of no record
                    found[leaf.table].append(right | _nobodys(related) | _owned(related, record, {}, 1))
                for row in _chosen(right, wrong, i, j, filling if related.secret else Filling.FIRST):
                    other = mine[(i + 3) % len(mine)]
                    found[leaf.table].append(row | _owned(related, record, other if (i + filling) % 3 == 2 else record))
    return found


def _has(trial: Trial) -> Iterator[Has]:
    """Conditions on rows, also those that are public because their columns are."""
    yield from (leaf for leaf in trial.private if isinstance(leaf, Has))


def _chosen(right: Record, wrong: Sequence[Record], i: int, j: int, filling: Filling) -> list[Record]:
    """What rows the i-th record has for the j-th condition."""
    near = wrong[(i + filling) % len(wrong)]
    place = (i * (2 + j) + j + 2 * filling + i // 5) % 5
    return ([], [right], [near], [right, near, right], [near, *wrong])[place]


def _keys(related: Related) -> list[str]:
    return [own for own, _ in related.keys]


def _nobodys(related: Related) -> Record:
    kinds = ((own, related.find(own)) for own, _ in related.keys)
    return {own: None if column is None else NOBODY.get(column.kind) for own, column in kinds}


def _owned(related: Related, record: Record, other: Record, most: int = 9) -> Record:
    """The keys of a record's row; where rows were found that name two records, so do some of these."""
    found: Record = {}
    for k, (own, mine) in enumerate(related.keys[:most]):
        found[own] = (other if k and not related.agrees else record).get(mine)
    return found


def satisfying(where: Predicate, related: Related) -> Record:
    """A row that satisfies the condition, as far as can be seen without an engine."""
    parts = alone(where)
    looked: dict[str, list[Leaf]] = {}
    for leaf in leaves(where):
        if hasattr(leaf, "column"):
            looked.setdefault(leaf.column, []).append(leaf)
    row: Record = {}
    for column in related.columns:
        tried = [v for leaf in looked.get(column.name, ()) for v in about(leaf, column)]
        tried += [*_PLAIN.get(column.kind, ()), None]
        row[column.name] = next((v for v in tried if all_true(parts.get(column.name, []), v)), tried[0])
    return row


def _failing(where: Predicate, related: Related, right: Record) -> Iterator[Record]:
    """Rows that differ from the one that satisfies it in one column."""
    for part in where.parts if isinstance(where, And) else (where,):
        for leaf in leaves(part):
            column = related.find(leaf.column) if hasattr(leaf, "column") else None
            if column is None:
                continue
            tried: list[Scalar | None] = [*about(leaf, column), *_PLAIN.get(column.kind, ()), None]
            yield from ({**right, column.name: v} for v in tried[:4] if v != right[column.name])
