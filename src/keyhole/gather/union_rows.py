"""Which row of a UNION ALL with ORDER BY is of which SELECT: by what is shown beside the numbers, or not at all.

Without ORDER BY the rows of the first SELECT come first. With it they are one list, and a number without a label of its
own may be of any of them: `SELECT SUM(x) ... UNION ALL SELECT SUM(x) ... ORDER BY 1` shows a set of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal, InvalidOperation
from typing import Any

from keyhole.datasets import GroupKey, Roster
from keyhole.errors import LogError
from keyhole.model.predicate import format_literal, quote_name
from keyhole.model.query import COVERED, FINER, Shown, Statement
from keyhole.model.transcript import ABSENT

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
