"""What LIMIT and its kin cut off: how many rows, and after which order; as far as public things alone say it.

`LIMIT n OFFSET m`, `TOP n`, `FETCH FIRST n ROWS` and `QUALIFY ROW_NUMBER() OVER (ORDER BY ...) <= n` all show the rows
m + 1 to m + n of an order. Where the order looks at public keys and counts only, everybody knows which groups those are
(`keyhole.gather.transcribe`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from keyhole.model.predicate import quote_name
from keyhole.model.query import COUNTED, Aggregate, OrderTerm, Query, Term
from keyhole.model.schema import fold_name
from keyhole.sql.lowering.aggregate import AggregateReader
from keyhole.sql.statements.tree import read_whole_number, strip_parentheses


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows `skipped` + 1 to `skipped` + `shown` (None: to the end); `order` is that of a window, else the SELECT's."""

    skipped: int
    shown: int | None
    order: tuple[exp.Expr, ...] | None = None


def count_shown_rows(tree: exp.Select) -> int | None:
    """How many rows are shown at least, if there are so many; None if that is not said as a number.

    >>> import sqlglot
    >>> trees = [sqlglot.parse_one(f"SELECT a FROM t LIMIT {n}", read="duckdb") for n in ("3", "3%", "3 OFFSET 1")]
    >>> [count_shown_rows(tree) for tree in trees]
    [3, None, None]
    """
    limit = tree.args.get("limit")
    if tree.args.get("qualify") is not None or tree.args.get("offset") is not None or limit is None:
        return None
    return _read_amount(limit)


def read_row_range(tree: exp.Select) -> RowRange | None:
    """Which rows of the order are shown; None if that is not said as numbers, or is said twice.

    >>> import sqlglot
    >>> found = read_row_range(sqlglot.parse_one("SELECT a FROM t ORDER BY a LIMIT 3 OFFSET 2"))
    >>> found.skipped, found.shown
    (2, 3)
    """
    limit, offset, qualify = (tree.args.get(name) for name in ("limit", "offset", "qualify"))
    if tree.args.get("fetch") is not None or tree.args.get("distinct") is not None:
        return None
    if qualify is not None:
        return (
            None
            if limit is not None or offset is not None
            else _read_row_number_test(strip_parentheses(qualify.this), tree)
        )
    skipped = 0 if offset is None else _read_number(offset.args.get("expression"))
    shown = None if limit is None else _read_amount(limit)
    options = None if limit is None else limit.args.get("limit_options")
    ties = options is not None and options.args.get("with_ties")
    if skipped is None or (shown is None and limit is not None) or ties:
        return None
    return RowRange(skipped, shown)


def read_order_term(
    node: exp.Expr, ordered: exp.Expr, reader: AggregateReader, key_of: Mapping[str, int], *, key: bool
) -> OrderTerm | None:
    """A term of ORDER BY over public keys, or the count of a group; None for any other."""
    how = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
    if ordered.args.get("with_fill") is not None:
        return None
    if reader.has_aggregate(node):
        asked = reader.read_question(node, "")
        whole = Query(Aggregate.SUM, (Term(None, reader.scope.where),), label=asked.label)
        return (
            OrderTerm(COUNTED, *how) if asked == whole and not reader.list_private_columns(reader.scope.where) else None
        )
    if not key or reader.touches_private(node):
        return None
    if isinstance(node, exp.Column):
        found = reader.list_columns(node)
        if len(found) == 1 and quote_name(found[0].name) in key_of:
            return OrderTerm(quote_name(found[0].name), *how)
    return OrderTerm(reader.read_public(node).sql, *how)


def _read_amount(limit: exp.Expr) -> int | None:
    options = limit.args.get("limit_options")
    if limit.this is not None or limit.args.get("offset") is not None or limit.expressions:
        return None
    if options is not None and options.args.get("percent"):
        return None
    return _read_number(limit.args.get("expression") or limit.args.get("count"))


def _read_number(node: object) -> int | None:
    return read_whole_number(strip_parentheses(node)) if isinstance(node, exp.Expr) else None


def _read_row_number_test(test: exp.Expr, tree: exp.Select) -> RowRange | None:
    """ROW_NUMBER() OVER (ORDER BY ...) <= n, < n or = n."""
    if not isinstance(test, exp.LTE | exp.LT | exp.EQ) or not isinstance(
        window := strip_parentheses(test.this), exp.Window
    ):
        return None
    count, order = _read_number(strip_parentheses(test.expression)), window.args.get("order")
    more = any(value for name, value in window.args.items() if name not in ("this", "order", "over"))
    if not isinstance(window.this, exp.RowNumber) or count is None or order is None or more:
        return None
    if not all(_plain(each.this, tree) for each in order.expressions):
        return None
    terms = tuple(order.expressions)
    if isinstance(test, exp.EQ):
        return RowRange(count - 1, 1, terms) if count else None
    return RowRange(0, max(count - isinstance(test, exp.LT), 0), terms)


def _plain(node: exp.Expr, tree: exp.Select) -> bool:
    """Does it mean the same in ORDER BY: no position, and no alias of something else?"""
    if not isinstance(strip_parentheses(node), exp.Column):
        return False
    mine = [
        i
        for i in tree.expressions
        if isinstance(i, exp.Alias) and fold_name(i.alias) == fold_name(strip_parentheses(node).name)
    ]
    return all(i.this == strip_parentheses(node) for i in mine)
