"""Statements that surely tell nothing of our people: they ask no table, or only tables that hold nothing about them."""

from __future__ import annotations

from collections.abc import Collection

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from keyhole.sql.engines import Dialect
from keyhole.sql.scopes import of_with
from keyhole.sql.split import comment_in_doubt

_HARMLESS = frozenset(
    {"version", "pg_backend_pid", "pg_is_in_recovery", "connection_id", "last_query_id", "user", "serverproperty"}
)
# variables of the server that say something of the statement before: how many rows it touched, which id it gave
_OF_THE_LAST = frozenset(
    {"rowcount", "identity", "last_insert_id", "insert_id", "warning_count", "error_count", "error", "fetch_status"}
)


def elsewhere(sql: str, dialect: str = Dialect.DUCKDB, beside: Collection[str] = ()) -> bool:
    """Does a statement name no table but those `beside` (`orders`, `sales.orders`, or a schema: `sales.*`)?

    False for whatever cannot be read, for functions that are not known (they may look anywhere), and for variables that
    may hold what another statement answered.

    >>> elsewhere("SELECT 1"), elsewhere("SELECT SUM(x) FROM t"), elsewhere("SELECT my_function()")
    (True, False, False)
    >>> elsewhere("WITH t AS (SELECT x FROM t) SELECT SUM(x) FROM t"), elsewhere("WITH q AS (SELECT 1) SELECT * FROM q")
    (False, True)
    >>> elsewhere("SELECT @@version_comment LIMIT 1", "mysql"), elsewhere("SELECT @total", "mysql")
    (True, False)
    >>> elsewhere("SELECT * FROM orders JOIN sales.items USING (id)", beside=("orders", "sales.*"))
    True
    """
    if comment_in_doubt(sql, dialect):
        return False
    known = "" if dialect in (Dialect.UNKNOWN, "") else dialect
    try:
        trees = sqlglot.parse(sql, read=known or None)
    except (SqlglotError, RecursionError, ValueError):
        return False
    allowed = {name.casefold() for name in beside}
    return bool(trees) and all(tree is not None and _is_elsewhere(tree, allowed) for tree in trees)


def _is_elsewhere(tree: exp.Expr, allowed: set[str]) -> bool:
    if not isinstance(tree, exp.Query | exp.Insert | exp.Update | exp.Delete):
        return False
    if tree.find(exp.Table) is None and tree.find(exp.Column) is not None:
        return False  # a name of no table: a variable of the session, or a mistake
    for node in tree.walk():
        if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) and str(node.this).casefold() not in _HARMLESS:
            return False
        if isinstance(node, exp.Command | exp.Into | exp.Placeholder) or _is_variable(node):
            return False
        if isinstance(node, exp.Table) and not (of_with(node) or _allowed(node, allowed)):
            return False
    return True


def _is_variable(node: exp.Expr) -> bool:
    """A variable that a statement may have filled: @x, $x, @@ROWCOUNT; not one of the server's settings, @@VERSION."""
    if isinstance(node, exp.SessionParameter):
        return node.name.casefold() in _OF_THE_LAST
    if not isinstance(node, exp.Parameter) or isinstance(node.parent, exp.Parameter):
        return False
    return not isinstance(node.this, exp.Parameter) or node.this.name.casefold() in _OF_THE_LAST


def _allowed(table: exp.Table, allowed: set[str]) -> bool:
    if not isinstance(table.this, exp.Identifier):
        return False  # a function in FROM
    name, schema = table.name.casefold(), table.db.casefold()
    return bool({name if not schema else "", f"{schema}.{name}", f"{schema}.*" if schema else ""} & allowed - {""})
