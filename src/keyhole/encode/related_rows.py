"""Which conditions on rows of other tables can hold together, of all records of a person.

A row has a truth for each condition, and any number of rows may belong to a record, so that the conditions that its
rows satisfy are a union of such truths, the empty one included. Where the declared keys say that a row that names a
record names its person too, rows of his records are his, and he may have others that name no record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

from keyhole.errors import UnsupportedQuery
from keyhole.model.cells import partition_column
from keyhole.model.predicate import (
    Comparison,
    Has,
    IsNull,
    Leaf,
    Like,
    Membership,
    Predicate,
    Truth,
    evaluate_predicate,
    find_leaves,
)
from keyhole.model.prior import Prior
from keyhole.model.schema import Related, Schema

MOST_KINDS = 4096  # of rows, by what conditions say of them
Truths: TypeAlias = tuple[bool, ...]
Keys: TypeAlias = Sequence[int]  # of each record of a person; -1: none


class NotTogether(Exception):
    """Conditions on rows whose truths are not listed: too many, or on keys that say nothing of each other."""


def truths_of_rows(
    asked: Sequence[Has], keys: Sequence[Keys], records: int, schema: Schema, most: int
) -> list[tuple[Truths, ...]]:
    """All that can be: for each record which of the conditions hold. Raises NotTogether, also for more than `most`.

    `keys[i]` are the keys by which rows belong to the person's records in condition i.
    """
    found: list[list[list[bool]]] = [[[False] * len(asked) for _ in range(records)]]
    for table in dict.fromkeys(leaf.table for leaf in asked):
        mine = [i for i, leaf in enumerate(asked) if leaf.table == table]
        related = schema.table_named(table)
        if related is None or not related.secret:
            raise NotTogether  # who has rows is public, so that not all unions can be
        ways = list(_of_table(related, {i: asked[i] for i in mine}, keys, records, most))
        if len(ways) * len(found) > most:
            raise NotTogether
        found = [_with(before, mine, way) for before in found for way in ways]
    return [tuple(tuple(each) for each in way) for way in found]


def _with(before: Sequence[Sequence[bool]], mine: Sequence[int], way: Sequence[Truths]) -> list[list[bool]]:
    made = [list(each) for each in before]
    for record, truths in zip(made, way, strict=True):
        for i, holds in zip(mine, truths, strict=True):
            record[i] = holds
    return made


def _of_table(
    related: Related, asked: dict[int, Has], keys: Sequence[Keys], records: int, most: int
) -> Iterator[tuple[Truths, ...]]:
    """The truths of the conditions on rows of one table."""
    joins = dict.fromkeys(leaf.on for leaf in asked.values())
    of_join = {on: [n for n, leaf in enumerate(asked.values()) if leaf.on == on] for on in joins}
    at = {on: tuple(keys[next(i for i, leaf in asked.items() if leaf.on == on)]) for on in joins}
    wheres = [leaf.where for leaf in asked.values()]
    order = sorted(joins, key=lambda on: sum(_is_finer(related, on, other) for other in joins), reverse=True)
    if len(order) > 2:
        raise NotTogether
    fine, coarse = order[0], order[-1]
    nested = fine != coarse and _is_finer(related, fine, coarse)
    owner = _owners(at[fine], at[coarse]) if nested else {}
    pools = [
        _unions(related, wheres, [n for n in range(len(wheres)) if nested or n in of_join[fine]])
        for _ in sorted(set(at[fine]) - {-1})
    ]
    loose = (
        [] if fine == coarse else [_unions(related, wheres, of_join[coarse]) for _ in sorted(set(at[coarse]) - {-1})]
    )
    if prod(map(len, (*pools, *loose))) > most:
        raise NotTogether
    seen: dict[tuple[Truths, ...], None] = {}
    for chosen in product(*pools, *loose):
        own = dict(zip(sorted(set(at[fine]) - {-1}), chosen, strict=False))
        others = dict(zip(sorted(set(at[coarse]) - {-1}), chosen[len(pools) :], strict=True)) if loose else {}
        for instance, whose in owner.items():
            others[whose] = tuple(a or b for a, b in zip(others[whose], own[instance], strict=True))
        nothing = (False,) * len(wheres)
        seen[
            tuple(
                tuple(
                    (own if n in of_join[fine] else others).get(at[fine if n in of_join[fine] else coarse][r], nothing)[
                        n
                    ]
                    for n in range(len(wheres))
                )
                for r in range(records)
            )
        ] = None
    yield from seen


def _is_finer(related: Related, one: tuple[tuple[str, str], ...], two: tuple[tuple[str, str], ...]) -> bool:
    """Is a row that one join finds found by the other, too: joined on fewer keys, or by the person's of one record?"""
    if set(two) < set(one):
        return True
    if not related.agrees or one == two:
        return False
    names = [own for own, _ in related.keys]
    by_record = any(own in names[1:] for own, _ in one) and {own for own, _ in two} <= set(names)
    return by_record and not (any(own in names[1:] for own, _ in two))


def _owners(fine: Keys, coarse: Keys) -> dict[int, int]:
    """The wider key of each narrower one."""
    found: dict[int, int] = {}
    for one, other in zip(fine, coarse, strict=True):
        if one >= 0 and (other < 0 or found.setdefault(one, other) != other):
            raise NotTogether
    return found


def _unions(related: Related, wheres: Sequence[Predicate], asked: Sequence[int]) -> list[Truths]:
    """What rows satisfy together, of the conditions that are asked of them."""
    kinds = {tuple(t and n in asked for n, t in enumerate(truths)) for truths in _kinds(related, wheres)}
    found = {(False,) * len(wheres)}
    for kind in kinds:
        found |= {tuple(a or b for a, b in zip(kind, other, strict=True)) for other in found}
        if len(found) > MOST_KINDS:
            raise NotTogether
    return sorted(found)


def _kinds(related: Related, wheres: Sequence[Predicate]) -> Iterator[Truths]:
    """The truths of all conditions on one row, whatever it has in its columns."""
    every = dict.fromkeys(leaf for where in wheres for leaf in find_leaves(where))
    asked = [leaf for leaf in every if isinstance(leaf, Comparison | Membership | Like | IsNull)]
    if len(asked) < len(every):
        raise NotTogether
    named = dict.fromkeys(leaf.column for leaf in asked)
    pools = []
    for name in named:
        column = related.find(name)
        if column is None:
            raise NotTogether
        mine = [leaf for leaf in asked if leaf.column == name]
        try:
            cells = partition_column(column, mine, Prior()).cells
        except UnsupportedQuery:
            raise NotTogether from None
        pools.append([dict(zip(mine, cell.truths, strict=True)) for cell in cells])
    if prod(map(len, pools)) > MOST_KINDS:
        raise NotTogether
    for chosen in product(*pools):
        truth: dict[Leaf, Truth] = {leaf: said for part in chosen for leaf, said in part.items()}
        yield tuple(evaluate_predicate(where, truth.__getitem__) is True for where in wheres)
