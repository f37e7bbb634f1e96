"""What a statement shows as it is, beside what it computes from it: `SELECT dept, SUM(pay), RANK() OVER (...) ...`.

The sums stand in the answer, whatever is computed beside them. So the SELECT with its plain items alone was shown, and
counts as such; what the whole is computed from (`finer.py`) still stands beside it, for the all-clear.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlglot import exp

from keyhole.model.schema import folded
from keyhole.sql.rewriting.finer import NotTold, resolved_keys

MAX_ITEMS = 40
_CUT = ("limit", "offset", "qualify", "fetch", "distinct")


def plain_part(
    tree: exp.Expr, columns: Collection[str], can_be_read: Callable[[exp.Select], bool]
) -> exp.Select | None:
    """The SELECT with its keys and those of its aggregates that can be read, if it shows all of its rows and keys.

    Guarantee: each column of its answer is that column of the answer of `tree`, or 0. `columns` are those of the table,
    case folded. None if there is no such aggregate, or nothing else. Cost: one reading for each item.

    >>> import sqlglot
    >>> tree = sqlglot.parse_one("SELECT d AS dept, SUM(x) AS s, RANK() OVER (ORDER BY SUM(x)) FROM t GROUP BY 1")
    >>> plain_part(tree, {"d", "x"}, lambda made: True).sql()
    'SELECT d, SUM(x), 0 FROM t GROUP BY d'
    >>> tree = sqlglot.parse_one("SELECT SUM(x), RANK() OVER (ORDER BY SUM(x)) FROM t GROUP BY d")
    >>> plain_part(tree, {"d", "x"}, lambda made: True)
    """
    if not isinstance(tree, exp.Select) or any(tree.args.get(name) is not None for name in _CUT):
        return None
    items = [item.unalias() for item in tree.expressions]
    aliases = {folded(item.alias): item.this for item in tree.expressions if isinstance(item, exp.Alias)}
    try:
        clause, keys = resolved_keys(tree, items, {n: part for n, part in aliases.items() if n not in columns})
    except NotTold:
        return None
    if len(items) > MAX_ITEMS or not all(key in items for key in keys):
        return None
    bare = tree.copy()
    bare.set("order", None)
    bare.set("group", clause)
    rest = [item for item in items if item not in keys and item.find(exp.Window, exp.Query, exp.Grouping) is None]
    told = [item for item in rest if can_be_read(_showing(bare, [*keys, item]))]
    if not told or len(told) + len(keys) >= len(items):
        return None
    return _showing(bare, [item if item in keys or item in told else exp.Literal.number(0) for item in items])


def _showing(bare: exp.Select, items: list[exp.Expr]) -> exp.Select:
    made = bare.copy()
    made.set("expressions", [item.copy() for item in items])
    return made
