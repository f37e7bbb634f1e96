"""`SELECT v.kind, COUNT(DISTINCT p.id) ... JOIN visits v ... GROUP BY v.kind`: a question for each value that is shown.

A person may have rows of several kinds, so the groups do not add up: each is a question of its own, about those who
have such a row. That no other group is shown is one question more, whose answer is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from keyhole.datasets import Source
from keyhole.errors import QueryError, UnsupportedQuery
from keyhole.model.predicate import Scalar, format_literal
from keyhole.model.query import Statement
from keyhole.model.schema import Related, Schema, fold_name
from keyhole.sql import Unread, read_statement
from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.lowering.grammar import orders_by_shown

MOST = 200  # values of one column of rows
_CLAUSES = frozenset(("expressions", "from_", "joins", "where", "group", "order"))


def by_row_groups(tree: exp.Expr, schema: Schema, source: Source) -> tuple[Statement, ...] | None:
    """The questions of a GROUP BY over one column of the rows of people; None if it is none.

    Guarantee: their answers determine the answer of the statement, and are determined by it. Cost: one question to the
    engine for each value.
    """
    if not isinstance(tree, exp.Select) or not {k for k, v in tree.args.items() if v} <= _CLAUSES:
        return None
    group = tree.args.get("group")
    if group is None or any(value for name, value in group.args.items() if name != "expressions"):
        return None
    if not orders_by_shown(tree.args.get("order"), {fold_name(item.alias_or_name) for item in tree.expressions}):
        return None  # the order would be dropped here
    items = [item.unalias() for item in tree.expressions]
    keys = [_meant(part, items, tree) for part in group.expressions]
    pairs = zip(group.expressions, keys, strict=True)
    mine = [(part, key, related) for part, key in pairs if (related := _rows(key, tree, schema)) is not None]
    if len(mine) != 1:
        return None
    part, key, related = mine[0]
    column = exp.column(key.name, table=key.args.get("table"), quoted=True)
    own = related.find(column.name)
    assert own is not None
    values = source.row_values(related.name, own.name)
    if len(values) > MOST:
        raise UnsupportedQuery(
            f"GROUP BY {own.name} of {related.name}: more than {MOST} values; name those you want in WHERE"
        )
    try:
        asked = [(value, _one(tree, part, column, _equals(column, value))) for value in values]
        shown = [(value, each) for value, text in asked for each in read_statement(text, Dialect.DUCKDB, schema)]
        there = [(value, each) for value, each in shown if _some(each, source)]
        rest = _one(tree, part, column, _others(column, [value for value, _ in there]))
        return (*(each for _, each in there), *read_statement(rest, Dialect.DUCKDB, schema))
    except (QueryError, Unread):
        return None  # the statement itself is refused, in its own words


def _meant(part: exp.Expr, items: Sequence[exp.Expr], tree: exp.Select) -> exp.Expr:
    """What a part of GROUP BY stands for: a position or an alias of the SELECT list, or itself."""
    if isinstance(part, exp.Literal) and part.name.isdigit() and 1 <= int(part.name) <= len(items):
        return items[int(part.name) - 1]
    if isinstance(part, exp.Column) and not part.table:
        named = (item.this for item in tree.expressions if isinstance(item, exp.Alias) and item.alias == part.name)
        return next(named, part)
    return part


def _rows(key: exp.Expr, tree: exp.Select, schema: Schema) -> Related | None:
    """The table whose rows a column stands in, if it is joined and has rows of people."""
    if not isinstance(key, exp.Column):
        return None
    tables = [part.this for part in (tree.args["from_"], *(tree.args.get("joins") or ()))]
    for table in tables:
        related = schema.table_named(table.name) if isinstance(table, exp.Table) else None
        if related is None or related.dimension or related.find(key.name) is None:
            continue
        if fold_name(key.table) == fold_name(table.alias or table.name) or (
            not key.table and not schema.find(key.name)
        ):
            return related
    return None


def _one(tree: exp.Select, part: exp.Expr, column: exp.Column, condition: exp.Expr) -> str:
    """The statement about those with such a row, without the key."""
    made = tree.copy()
    kept = [k.copy() for k in tree.args["group"].expressions if k is not part]
    items = [item for item in tree.expressions if not _same(item.unalias(), column)]
    if any(isinstance(k, exp.Literal) for k in kept):
        raise UnsupportedQuery("GROUP BY positions beside a column of rows are not judged: write the names")
    made.set("expressions", [item.copy() for item in items])
    made.set("group", exp.Group(expressions=kept) if kept else None)
    made.set("order", None)
    return str(made.where(condition).sql(dialect="duckdb"))


def _same(one: exp.Expr, other: exp.Column) -> bool:
    if not isinstance(one, exp.Column) or fold_name(one.name) != fold_name(other.name):
        return False
    return not one.table or not other.table or fold_name(one.table) == fold_name(other.table)


def _equals(column: exp.Column, value: Scalar | None) -> exp.Expr:
    if value is None:
        return exp.Is(this=column.copy(), expression=exp.Null())
    return exp.EQ(this=column.copy(), expression=exp.maybe_parse(format_literal(value), dialect="duckdb"))


def _others(column: exp.Column, shown: Sequence[Scalar | None]) -> exp.Expr:
    """Any other value; NULL is one, unless it was shown."""
    parts: list[exp.Expr] = []
    if named := [value for value in shown if value is not None]:
        parts.append(exp.Not(this=exp.or_(*(_equals(column, value) for value in named))))
    else:
        parts.append(exp.Not(this=_equals(column, None)))
    return parts[0] if None in shown else exp.or_(*parts, _equals(column, None))


def _some(statement: Statement, source: Source) -> bool:
    """Is there anybody in the group?"""
    if statement.keys:
        return bool(source.returned_groups(statement))
    return bool(source.evaluate(statement.queries[0]))


__all__ = ["by_row_groups"]
