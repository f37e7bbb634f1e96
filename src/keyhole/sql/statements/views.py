"""Views whose SQL is at hand: a statement that reads one, with the view's query written in front of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from keyhole.model.schema import fold_name
from keyhole.sql.dialects.engine import find_engine
from keyhole.sql.statements.parse import parse_statement
from keyhole.sql.statements.table_names import is_with_query

CYCLE = "its views read each other in a circle, so none of them has rows: is this the right script or manifest?"
DROPPED = "it reads a view that was dropped before: nobody says what stands under that name now"
UNREADABLE = "it reads a view whose query cannot be put into it: audit the query of the view with it, or use a view"

HIDDEN = "it reads a view and has a query of WITH under the same name: give that query another name"


class NotResolved(Exception):
    """A view that is read cannot be put into the statement; the text says why."""


def insert_views(sql: str, dialect: str, views: Mapping[str, str]) -> str:
    """The statement with the views that it reads as queries of WITH; the text itself if it reads none.

    `views` are queries by name (case folded, without what stands before the dot; empty: it was dropped). Raises
    `NotResolved`. Cost: one parse of the statement and of each view that it needs.

    >>> insert_views("SELECT SUM(p) FROM legal", "duckdb", {"legal": "SELECT pay AS p FROM staff WHERE dept = 'legal'"})
    "WITH legal AS (SELECT pay AS p FROM staff WHERE dept = 'legal') SELECT SUM(p) FROM legal"
    """
    if not any(re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE) for name in views):
        return sql
    tree = parse_statement(sql, dialect)
    if not isinstance(tree, exp.Query):
        return sql  # refused where it is read
    wanted = _find_views_read(tree, views)
    if not wanted:
        return sql
    made: dict[str, exp.Expr] = {}
    for name in wanted:
        _add_view(name, dialect, views, made, ())
    own = tree.args.get("with_")
    ctes = [exp.CTE(this=query, alias=exp.TableAlias(this=exp.to_identifier(name))) for name, query in made.items()]
    kept = own.expressions if own is not None else []
    tree.set("with_", exp.With(expressions=[*ctes, *kept], recursive=own is not None and own.args.get("recursive")))
    return str(tree.sql(dialect=find_engine(dialect).parser))


def _add_view(
    name: str, dialect: str, views: Mapping[str, str], made: dict[str, exp.Expr], above: tuple[str, ...]
) -> None:
    """The query of a view, behind those of the views that it reads."""
    if name in above:
        raise NotResolved(CYCLE)
    if name in made:
        return
    if not views[name]:
        raise NotResolved(DROPPED)
    tree = parse_statement(views[name], dialect)
    if not isinstance(tree, exp.Query):
        raise NotResolved(UNREADABLE)
    for other in _find_views_read(tree, views):
        _add_view(other, dialect, views, made, (*above, name))
    made[name] = tree


def _find_views_read(tree: exp.Expr, views: Mapping[str, str]) -> list[str]:
    """The views that a query reads, each under its bare name from now on."""
    own = {fold_name(cte.alias) for cte in tree.find_all(exp.CTE)}
    names: dict[str, None] = {}
    for table in tree.find_all(exp.Table):
        name = fold_name(table.name)
        if name in views and not is_with_query(table):
            if name in own:  # in front of it, the view would hide it, or be hidden
                raise NotResolved(HIDDEN)
            table.set("db", None)
            table.set("catalog", None)
            names[name] = None
    return list(names)
