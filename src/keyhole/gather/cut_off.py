"""Which groups LIMIT surely shows, and which it surely cuts off: where public things alone order them.

Groups in the order of public keys (or of how many people they have) stand at places that everybody can work out. Those
of equal rank may stand in any order, so that only all or none of them are sure. A group that is surely cut off tells
nothing. Where a grouping set is written twice, each of its groups has two rows, one beside the other, and takes two
places.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from keyhole.datasets import GroupKey, Roster
from keyhole.model.predicate import Scalar
from keyhole.model.query import COUNTED, Cut, Statement
from keyhole.model.schema import Kind

Named = frozenset[tuple[str, Scalar | None]]
_SORTED_ALIKE = (Kind.INTEGER, Kind.DATE)  # in all engines, where it is not NULL


@dataclass(frozen=True, slots=True)
class Certain:
    """Groups that are surely shown, and such as surely are not; of others it is not known."""

    shown: frozenset[Named] = frozenset()
    hidden: frozenset[Named] = frozenset()


def certain(statement: Statement, roster: Roster, present: Collection[Named] | None = None) -> Certain:
    """What is sure of a statement whose WHERE and keys are public; `present` are its groups where HAVING took some.

    Guarantee: whatever the private values are, and however the engine orders rows of equal rank, the groups `shown` are
    in the result and the groups `hidden` are not. Cost: one GROUP BY over the public columns.
    """
    cut = statement.cut
    if cut is None or not statement.keys or statement.sets != (tuple(range(len(statement.keys))),):
        return Certain()
    ranked = roster.ranked(statement, cut.order)
    if cut.foreign and not _alike(statement, cut, [key for key, _ in ranked], roster):
        return Certain()
    if present is not None:
        ranked = [(key, rank) for key, rank in ranked if group_of(key) in present]
    shown: set[Named] = set()
    hidden: set[Named] = set()
    before = 0
    times = 1 + len(statement.again)  # there is one set, so that each repeat is one of it
    end = times * len(ranked) if cut.shown is None else cut.skipped + cut.shown
    for _, peers in groupby(ranked, key=lambda each: each[1]):
        alike = [group_of(key) for key, _ in peers]
        first, last = before + 1, before + times * len(alike)
        before = last
        inside = max(0, min(last, end) - max(first, cut.skipped + 1) + 1)
        if times * len(alike) - inside < times:  # fewer places are cut off than one of them has
            shown.update(alike)
        elif not inside:
            hidden.update(alike)
    return Certain(frozenset(shown), frozenset(hidden))


def group_of(key: GroupKey) -> Named:
    """A group's key as something that can be compared."""
    return frozenset(key.items())


def _alike(statement: Statement, cut: Cut, keys: Sequence[GroupKey], roster: Roster) -> bool:
    """Does every engine order these groups the same way? Texts have collations, and NULL is first or last."""
    by_sql = {key.sql: key for key in statement.keys}
    for sort in cut.order:
        if sort.sql == COUNTED:
            continue
        key = by_sql.get(sort.sql)
        column = None if key is None or key.column is None else roster.schema.find(key.column)
        if key is None or column is None or column.kind not in _SORTED_ALIKE:
            return False
        if any(each[key.name] is None for each in keys):
            return False
    return True
