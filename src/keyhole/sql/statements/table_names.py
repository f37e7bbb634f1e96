"""The tables that a statement reads: is it about the people's table, or surely about nothing of theirs?

A name in FROM means a query of WITH or a table by where it stands. A query of WITH is seen by the SELECT that it
belongs to and by the queries behind it, not by itself or by what stands outside: in `WITH staff AS (SELECT * FROM
staff) SELECT ...` the inner staff is the table. With RECURSIVE, the second half of a UNION sees its own query.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from sqlglot import exp

from keyhole.model.schema import fold_name
from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.statements.parse import parse_script
from keyhole.sql.statements.split import explain_doubtful_comment


def is_with_query(table: exp.Table) -> bool:
    """Does this name mean a query of WITH?

    >>> import sqlglot
    >>> tree = sqlglot.parse_one("WITH a AS (SELECT 1 FROM a), b AS (SELECT 2 FROM a) SELECT * FROM a, b, c")
    >>> [(table.name, is_with_query(table)) for table in tree.find_all(exp.Table)]
    [('a', True), ('b', True), ('c', False), ('a', False), ('a', True)]
    """
    if table.args.get("db") is not None or not isinstance(table.this, exp.Identifier):
        return False
    name, node = fold_name(table.name), table.parent
    inside: exp.Expr | None = None  # the query of WITH that it stands in, on the way up
    while node is not None:
        if isinstance(node, exp.CTE):
            inside = node
        elif (with_ := node.args.get("with_")) is not None:
            if any(fold_name(cte.alias) == name for cte in _list_visible_queries(with_, inside, table)):
                return True
            inside = None
        node = node.parent
    return False


def _list_visible_queries(with_: exp.With, inside: exp.Expr | None, table: exp.Table) -> list[exp.CTE]:
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


_HARMLESS = frozenset(
    {"version", "pg_backend_pid", "pg_is_in_recovery", "connection_id", "last_query_id", "user", "serverproperty"}
)
# variables of the server that say something of the statement before: how many rows it touched, which id it gave
_OF_THE_LAST = frozenset(
    {"rowcount", "identity", "last_insert_id", "insert_id", "warning_count", "error_count", "error", "fetch_status"}
)


TableName: TypeAlias = tuple[str, ...]  # its parts, case folded: (schema, table), or (table,)

# A file, and what the engine keeps about itself: surely something else than the people's table.
_FILE = re.compile(
    r"[/\\*?]|\.(csv|tsv|txt|json|jsonl|ndjson|parquet|arrow|xlsx?|db|sqlite|duckdb|gz|zst|zip)$", re.IGNORECASE
)
_CATALOG = re.compile(
    r"(information_schema|pg_catalog|mysql|sys|performance_schema|account_usage|system)\.|\w*\.(sqlite_|pg_|duckdb_)",
    re.IGNORECASE,
)
# Constants beside quoted names, in texts without anything else that may hold a quotation mark.
_CONSTANT = re.compile(
    r""" "[^"]*" | `[^`]*` | (?P<text>'[^']*') | (?P<number>(?<![-.\w])\d+(?:\.\d+)?\b(?!-)) """, re.VERBOSE
)
_OTHER_QUOTES = re.compile(r"""--|/\*|[\\#$\[]|\w'|'''|\"\"\"""")


def is_file_or_catalog(name: Sequence[str]) -> bool:
    """Does a name in FROM mean a file, or a table of the engine's own?

    >>> is_file_or_catalog(("a.csv",)), is_file_or_catalog(("pg_catalog", "pg_class")), is_file_or_catalog(("staff",))
    (True, True, False)
    """
    schema, table = ("", *name)[-2:]
    return _FILE.search(table) is not None or _CATALOG.match(f"{schema}.{table}") is not None


def list_tables_read(sql: str, dialect: str = Dialect.DUCKDB) -> frozenset[TableName]:
    """The names of tables that a query reads; queries of WITH are none. Empty for what is no query, or cannot be read.

    Cost: one parse for all texts that differ in constants alone.

    >>> sorted(list_tables_read("WITH q AS (SELECT x FROM hr.Staff) SELECT SUM(x) FROM q, Orders WHERE x > 3"))
    [('hr', 'staff'), ('orders',)]
    """
    plain = sql if _OTHER_QUOTES.search(sql) else _CONSTANT.sub(_plain_constant, sql)
    names = _list_tables_read(plain, dialect)
    return (_list_tables_read(sql, dialect) if names is None else names) or frozenset()


def _plain_constant(constant: re.Match[str]) -> str:
    if constant["text"]:
        return "'0'"
    return "0" if constant["number"] else constant[0]


@lru_cache(maxsize=4096)
def _list_tables_read(sql: str, dialect: str) -> frozenset[TableName] | None:
    trees = parse_script(sql, dialect)
    if not trees:
        return None
    found = (table for tree in trees if isinstance(tree, exp.Query) for table in tree.find_all(exp.Table))
    return frozenset(
        tuple(fold_name(part) for part in (table.catalog, table.db, table.name) if part)
        for table in found
        if isinstance(table.this, exp.Identifier) and not is_with_query(table)
    )


def is_ignored(name: Sequence[str], ignored: Iterable[str]) -> bool:
    """Is it one of these tables (`orders`, `sales.orders`), or in one of these schemas (`sales.*`)?

    >>> is_ignored(("sales", "orders"), ["sales.*"]), is_ignored(("hr", "orders"), ["orders"])
    (True, False)
    """
    schema, table = ("", *name)[-2:]
    forms = {f"{schema}.{table}", f"{schema}.*"} if schema else {table}
    return not forms.isdisjoint(fold_name(each) for each in ignored)


def reads_nothing_of_people(sql: str, dialect: str = Dialect.DUCKDB, ignored: Collection[str] = ()) -> bool:
    """Does a statement name no table but those that are `ignored` (`orders`, `sales.orders`, or a schema: `sales.*`)?

    False for whatever cannot be read, for functions that are not known (they may look anywhere), and for variables that
    may hold what another statement answered.

    >>> asked = ["SELECT 1", "SELECT SUM(x) FROM t", "SELECT my_function()", "WITH q AS (SELECT 1) SELECT * FROM q"]
    >>> [reads_nothing_of_people(sql) for sql in asked]
    [True, False, False, True]
    >>> reads_nothing_of_people("WITH t AS (SELECT x FROM t) SELECT SUM(x) FROM t")
    False
    >>> reads_nothing_of_people("WITH q AS (MAX(x)) SELECT * FROM q")
    False
    >>> [reads_nothing_of_people(sql, "mysql") for sql in ("SELECT @@version_comment LIMIT 1", "SELECT @total")]
    [True, False]
    >>> reads_nothing_of_people("SELECT * FROM orders JOIN sales.items USING (id)", ignored=("orders", "sales.*"))
    True
    """
    if explain_doubtful_comment(sql, dialect):
        return False
    trees = parse_script(sql, dialect)
    return bool(trees) and all(tree is not None and _reads_nothing(tree, ignored) for tree in trees)


def _reads_nothing(tree: exp.Expr, ignored: Collection[str]) -> bool:
    if not isinstance(tree, exp.Query | exp.Insert | exp.Update | exp.Delete):
        return False
    if tree.find(exp.Table) is None and tree.find(exp.Column) is not None:
        return False  # a name of no table: a variable of the session, or a mistake
    for node in tree.walk():
        if isinstance(node, exp.Select) and node.args.get("from_") is None and node.find(exp.Column) is not None:
            return False  # a column from outside, in a query that stands in another
        if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) and str(node.this).casefold() not in _HARMLESS:
            return False
        if isinstance(node, exp.CTE) and not isinstance(node.this, exp.Query):
            return False  # WITH q AS (MAX(x)): an expression over what stands elsewhere
        if isinstance(node, exp.Command | exp.Into | exp.Placeholder) or _is_variable(node):
            return False
        if isinstance(node, exp.Table) and not (is_with_query(node) or _is_ignored_table(node, ignored)):
            return False
    return True


def _is_variable(node: exp.Expr) -> bool:
    """A variable that a statement may have filled: @x, $x, @@ROWCOUNT; not one of the server's settings, @@VERSION."""
    if isinstance(node, exp.SessionParameter):
        return node.name.casefold() in _OF_THE_LAST
    if not isinstance(node, exp.Parameter) or isinstance(node.parent, exp.Parameter):
        return False
    return not isinstance(node.this, exp.Parameter) or node.this.name.casefold() in _OF_THE_LAST


def _is_ignored_table(table: exp.Table, ignored: Collection[str]) -> bool:
    if not isinstance(table.this, exp.Identifier):
        return False  # a function in FROM
    return is_ignored([fold_name(part) for part in (table.db, table.name) if part], ignored)
