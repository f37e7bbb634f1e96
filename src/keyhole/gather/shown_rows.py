"""Which groups a LIMIT surely shows, and which row of a UNION ALL is of which SELECT.

Which groups LIMIT surely shows, and which it surely cuts off: where public things alone order them.

Groups in the order of public keys (or of how many people they have) stand at places that everybody can work out. Those
of equal rank may stand in any order, so that only all or none of them are sure. A group that is surely cut off tells
nothing. Where a grouping set is written twice, each of its groups has two rows, one beside the other, and takes two
places.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import groupby
from typing import Any

from keyhole.datasets import GroupKey, Roster
from keyhole.errors import LogError
from keyhole.model.predicate import Scalar, format_literal, quote_name
from keyhole.model.query import COUNTED, COVERED, FINER, Cut, Shown, Statement
from keyhole.model.schema import Kind
from keyhole.model.transcript import ABSENT

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


# --- union rows -------------------------------------------------------------------------------------------------------
# Which row of a UNION ALL with ORDER BY is of which SELECT: by what is shown beside the numbers, or not at all.
# Without ORDER BY the rows of the first SELECT come first. With it they are one list, and a number without a label of
# its own may be of any of them: `SELECT SUM(x) ... UNION ALL SELECT SUM(x) ... ORDER BY 1` shows a set of numbers.


Label = tuple[str | Decimal, ...]
_TEXT = re.compile(r"'[^']*'")


def told_apart(statements: Sequence[Statement], roster: Roster) -> bool:
    """Has every row that the statements can show a label that no row of another one has?

    The label of a row are its constants and public keys, in the columns where every statement shows one. Conservative:
    texts that differ by blanks or capitals alone are alike, texts are no labels beside numbers, and a function of keys
    is none. Cost: one look at the groups.
    """
    public = {quote_name(column.name) for column in roster.schema.columns if not column.secret}
    places = [
        place
        for place, items in enumerate(zip(*(s.shown for s in statements), strict=False))
        if all(_is_label(item, s, public) for item, s in zip(items, statements, strict=True))
    ]
    seen: set[Label] = set()
    for statement in statements:
        mine = {_label(statement, key, places) for key in (roster.keys(statement) if statement.keys else [{}])}
        if not places or seen & mine:
            return False
        seen |= mine
    return len({tuple(type(part) for part in label) for label in seen}) == 1


def of_each(answer: Any, statements: Sequence[Statement]) -> list[Any]:
    """The answer of a UNION, statement by statement: one row each. What is computed from others is not looked at."""
    if statements[0].certainty == COVERED:
        return [answer, *([ABSENT] * (len(statements) - 1))]
    if any(s.certainty == FINER for s in statements):
        return [ABSENT] * len(statements)
    if any(s.mixed for s in statements):
        raise LogError("the answers of a UNION ALL with ORDER BY are not in the order of its SELECTs: ask one by one")
    if not isinstance(answer, list) or len(answer) != len(statements) or any(s.keys for s in statements):
        raise LogError("the answer of a UNION is a list with a number for each SELECT; of groups, ask them one by one")
    return answer


def _is_label(item: Shown, statement: Statement, public: AbstractSet[str]) -> bool:
    """Is it a constant, or a public column that every group has a value of?"""
    if item.query is not None:
        return False
    if any(key.sql == item.sql for key in statement.keys):
        return item.sql in public and len(statement.sets) == 1
    return _number(item.sql) is not None or _TEXT.fullmatch(item.sql) is not None


def _label(statement: Statement, group: GroupKey, places: Sequence[int]) -> Label:
    values = {key.sql: format_literal(group.get(key.name)) for key in statement.keys}
    return tuple(_plain(values.get(sql, sql)) for sql in (statement.shown[place].sql for place in places))


def _plain(sql: str) -> str | Decimal:
    number = _number(sql)
    return sql.strip("'").strip().casefold() if number is None else number


def _number(sql: str) -> Decimal | None:
    try:
        return Decimal(sql)
    except InvalidOperation:
        return None
