"""Statements that ask less than a statement does: what somebody may ask instead."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError


def coarser(text: str) -> list[str]:
    """The statement with one part of its WHERE or one key of its GROUP BY left out, and with several, fewest first.

    From the text alone. What cannot be parsed has none.

    >>> coarser("SELECT AVG(pay) FROM staff WHERE dept = 'law' AND age < 30")
    ['SELECT AVG(pay) FROM staff WHERE age < 30', "SELECT AVG(pay) FROM staff WHERE dept = 'law'", \
'SELECT AVG(pay) FROM staff']
    """
    try:
        tree = sqlglot.parse_one(text, dialect="duckdb")
    except (SqlglotError, RecursionError):
        return []
    if not isinstance(tree, exp.Select):
        return []
    found = [*_without_a_conjunct(tree), *_without_a_key(tree)]
    where = tree.args.get("where")
    if where is not None and isinstance(where.this, exp.And):
        bare = tree.copy()
        bare.set("where", None)
        found.append(bare.sql(dialect="duckdb"))
    return list(dict.fromkeys(each for each in found if each != tree.sql(dialect="duckdb")))


def _without_a_conjunct(tree: exp.Select) -> list[str]:
    where = tree.args.get("where")
    if where is None:
        return []
    parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    found = []
    for at in range(len(parts)):
        kept = [part.copy() for k, part in enumerate(parts) if k != at]
        made = tree.copy()
        made.set("where", exp.Where(this=exp.and_(*kept)) if kept else None)
        found.append(made.sql(dialect="duckdb"))
    return found


def _without_a_key(tree: exp.Select) -> list[str]:
    group = tree.args.get("group")
    keys = list(group.expressions) if group is not None else []
    if group is None or any(part for name, part in group.args.items() if name != "expressions" and part):
        return []
    found = []
    for at, key in enumerate(keys):
        made = tree.copy()
        kept = [k.copy() for place, k in enumerate(keys) if place != at]
        made.set("group", exp.Group(expressions=kept) if kept else None)
        made.set("expressions", [e.copy() for e in tree.expressions if e.unalias().sql() != key.sql()])
        if made.expressions:
            found.append(made.sql(dialect="duckdb"))
    return found
