"""Which columns of an answer are aggregates: so that a proof can say which cell it means."""

from __future__ import annotations

import sqlglot
from sqlglot import exp


def aggregate_positions(sql: str) -> tuple[int, ...]:
    """Places (from 1) of the items of the outermost SELECT that aggregate; none if the text cannot be parsed.

    >>> aggregate_positions("SELECT dept, SUM(pay), 'x' AS note, COUNT(*) - 1 FROM t GROUP BY dept")
    (2, 4)
    """
    try:
        tree = sqlglot.parse_one(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return ()
    if not isinstance(tree, exp.Select) or any(isinstance(e, exp.Star) for e in tree.expressions):
        return ()
    return tuple(i for i, item in enumerate(tree.expressions, 1) if item.find(exp.AggFunc) is not None)


def item_names(sql: str) -> tuple[str, ...]:
    """The names of the columns of an answer, empty where an item has none; nothing if the text cannot be parsed.

    >>> item_names("SELECT dept AS d, zip, SUM(pay) FROM t GROUP BY dept, zip")
    ('d', 'zip', '')
    """
    try:
        tree = sqlglot.parse_one(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return ()
    if not isinstance(tree, exp.Select) or any(isinstance(e, exp.Star) for e in tree.expressions):
        return ()
    return tuple(item.alias_or_name for item in tree.expressions)


def table_names(sql: str) -> frozenset[str]:
    """The names that a statement selects from, as written; with a dot where they are qualified.

    >>> sorted(table_names("WITH q AS (SELECT * FROM staff) SELECT SUM(pay) FROM q JOIN hr.pay USING (id)"))
    ['hr.pay', 'staff']
    """
    try:
        tree = sqlglot.parse_one(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return frozenset()
    made = {cte.alias for cte in tree.find_all(exp.CTE)}
    found = (".".join(part.name for part in table.parts) for table in tree.find_all(exp.Table))
    return frozenset(name for name in found if name not in made)
