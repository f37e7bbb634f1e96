"""Which names in FROM mean a query of WITH, and which a table: by where they stand.

A query of WITH is seen by the SELECT that it belongs to and by the queries behind it, not by itself or by what stands
outside: in `WITH staff AS (SELECT * FROM staff) SELECT ...` the inner staff is the table. With RECURSIVE, the second
half of a UNION sees its own query.
"""

from __future__ import annotations

from sqlglot import exp

from keyhole.model.schema import folded


def of_with(table: exp.Table) -> bool:
    """Does this name mean a query of WITH?

    >>> import sqlglot
    >>> tree = sqlglot.parse_one("WITH a AS (SELECT 1 FROM a), b AS (SELECT 2 FROM a) SELECT * FROM a, b, c")
    >>> [(table.name, of_with(table)) for table in tree.find_all(exp.Table)]
    [('a', True), ('b', True), ('c', False), ('a', False), ('a', True)]
    """
    if table.args.get("db") is not None or not isinstance(table.this, exp.Identifier):
        return False
    name, node = folded(table.name), table.parent
    inside: exp.Expr | None = None  # the query of WITH that it stands in, on the way up
    while node is not None:
        if isinstance(node, exp.CTE):
            inside = node
        elif (with_ := node.args.get("with_")) is not None:
            if any(folded(cte.alias) == name for cte in _seen(with_, inside, table)):
                return True
            inside = None
        node = node.parent
    return False


def _seen(with_: exp.With, inside: exp.Expr | None, table: exp.Table) -> list[exp.CTE]:
    """The queries of a WITH that a name sees which stands in one of them, or in none."""
    ctes: list[exp.CTE] = with_.expressions
    at = next((at for at, cte in enumerate(ctes) if cte is inside), None)
    if at is None:
        return ctes
    own = ctes[at].this
    recursive = with_.args.get("recursive") and isinstance(own, exp.Union) and _stands_in(table, own.expression)
    return ctes[: at + 1] if recursive else ctes[:at]


def _stands_in(node: exp.Expr, tree: exp.Expr) -> bool:
    above: exp.Expr | None = node
    while above is not None and above is not tree:
        above = above.parent
    return above is not None
