"""EXISTS and IN (SELECT ...) over rows of people: "some row of his satisfies all of these together"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import And, Has, IsNull, Opaque, Predicate, find_columns, format_has, make_and, make_not
from keyhole.model.schema import Related, Role, Schema, fold_name
from keyhole.sql.lowering.names import DerivedColumn, Scope
from keyhole.sql.statements.parse import SourceText
from keyhole.sql.statements.tree import find_condition, find_source, strip_parentheses

Read = Callable[[Scope, exp.Expr], Predicate]  # a condition, read in a scope
_INNER = ("expressions", "from_", "where", "distinct")


def split_conjunction(node: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a conjunction, from left to right, brackets taken off."""
    parts: list[exp.Expr] = []
    while isinstance(node, exp.Paren | exp.And):
        if isinstance(node, exp.And):
            parts += reversed(split_conjunction(node.expression))
        node = node.this
    return parts if node is None else [node, *reversed(parts)]


def make_row_scope(source: SourceText, related: Related, alias: str) -> Scope:
    """The names of another table's rows. What is asked of one row is part of one yes or no, so any column will do."""
    columns = tuple(replace(c, role=Role.PUBLIC) for c in related.columns)
    return Scope(source, Schema(related.name, columns), frozenset((fold_name(alias),)))


def require_row(related: Related, on: Iterable[tuple[str, str]], where: Predicate) -> Predicate:
    """The condition that a record has a row of another table; `on` pairs (own column, column of the record).

    Public if rows and all columns it looks at are public: then the engine evaluates it over public things. If only some
    columns are private, that there is a row which satisfies the public part is public.

    >>> from keyhole.model.predicate import Comparison
    >>> from keyhole.model.schema import Column, Kind
    >>> columns = Column("who", Kind.INTEGER), Column("ward", Kind.TEXT)
    >>> visits = Related("visits", columns, (("who", "id"),), secret=False)
    >>> require_row(visits, [("who", "id")], Comparison("ward", "=", "B")).columns
    frozenset({'id'})
    """
    pairs = tuple(sorted((mine, own) for own, mine in on))
    leaf = Has(related.name, pairs, where)
    if related.secret:
        return leaf
    private = {c.name for c in related.columns if c.secret}
    parts = where.parts if isinstance(where, And) else (where,)
    public = Has(related.name, pairs, make_and(*(p for p in parts if not find_columns(p) & private)))
    seen = Opaque(format_has(public), frozenset(mine for mine, _ in pairs))
    return seen if public == leaf else make_and(seen, leaf)


def find_declared_key(source: SourceText, related: Related, own: str, other: str, node: exp.Expr) -> tuple[str, str]:
    """The declared key that an equality of two columns is; refuses any other, with what to declare."""
    for a, b in related.keys:
        if fold_name(a) == fold_name(own) and fold_name(b) == fold_name(other):
            return a, b
    written = own if fold_name(own) == fold_name(other) else f"{own}={other}"
    raise source.refuse(
        f'{related.name} is not joined on a declared key: if {written} names whose row it is, add "{written}" to keys '
        f"under [tables.{related.name}]",
        node,
    )


def read_exists(scope: Scope, node: exp.Exists, read: Read) -> Predicate:
    """EXISTS (SELECT ... FROM other WHERE other.key = key AND ...)."""
    if not isinstance(node.this, exp.Select):
        raise scope.source.refuse("EXISTS takes a simple SELECT over one table here", node)
    return _subquery(scope, node.this, (), read)


def read_in_query(scope: Scope, node: exp.In, read: Read) -> Predicate:
    """key IN (SELECT key FROM other WHERE ...), where it is true; `is_null_safe` says where it is false otherwise."""
    select = _select(node)
    if select is None or len(select.expressions) != 1:
        raise scope.source.refuse("IN takes a simple SELECT of one column here", node)
    item, left = select.expressions[0].unalias(), strip_parentheses(node.this)
    if not isinstance(item, exp.Column) or not isinstance(left, exp.Column):
        raise scope.source.refuse("IN (SELECT ...) compares a key of the record with that of the rows here", node)
    return _subquery(scope, select, ((item, left),), read)


def _select(node: exp.In) -> exp.Select | None:
    query = node.args.get("query")
    inner = query.this if isinstance(query, exp.Subquery) else query
    return inner if isinstance(inner, exp.Select) else None


def is_null_safe(scope: Scope, node: exp.In) -> bool:
    """Is the IN false wherever it is not true? Not if the subquery may hold NULL, or the record's own key."""
    select = _select(node)
    if select is None or not isinstance(node.this, exp.Column):
        return False
    related = _table(scope, select)[0]
    name = select.expressions[0].unalias().name
    column, mine = related.find(name), scope.resolve(node.this)
    if isinstance(mine, DerivedColumn) or mine.nullable or column is None:
        return False
    asked = [part for part in split_conjunction(find_condition(select)) if isinstance(part, exp.Not)]
    filtered = any(
        isinstance(p.this, exp.Is) and isinstance(p.this.expression, exp.Null) and p.this.this.name == name
        for p in asked
    )
    return filtered or not column.nullable


def refuse_null(scope: Scope, node: exp.Not) -> None:
    """NOT IN (SELECT ...) keeps nobody as soon as the subquery has one NULL: a count of 0 then says nothing."""
    for part in node.find_all(exp.In) if scope.schema.several else ():
        if isinstance(part.args.get("query"), exp.Expr) and not is_null_safe(scope, part):
            raise scope.source.refuse(
                "NOT IN (SELECT ...) keeps nobody if the subquery has a NULL: use NOT EXISTS, or add "
                "WHERE column IS NOT NULL inside",
                part,
            )


def _table(scope: Scope, select: exp.Select) -> tuple[Related, str]:
    source, table = scope.source, find_source(select)
    for name, value in select.args.items():
        if value and name not in _INNER:
            raise source.refuse(
                f"{name.strip('_').upper()} in such a subquery is not judged: write a simple SELECT", select
            )
    if not isinstance(table, exp.Table):
        raise source.refuse("such a subquery is judged over one table of [tables.*]", select)
    related = scope.schema.table_named(table.name)
    if related is None and scope.schema.unread:
        raise refuse_unknown_table(source, scope.schema, table.name, table)
    if related is None or related.dimension:
        raise source.refuse(
            f"subqueries inside an expression are judged over rows of people only: declare {table.name} under "
            f'[tables.{table.name}] with its keys and private = "all", or write the value',
            table,
        )
    return related, table.alias or table.name


def _subquery(
    scope: Scope, select: exp.Select, pairs: Sequence[tuple[exp.Column, exp.Column]], read: Read
) -> Predicate:
    """`pairs` are (column of the subquery, column of the record) besides those that its WHERE equates."""
    source = scope.source
    related, alias = _table(scope, select)
    inner = make_row_scope(source, related, alias)

    def own(column: exp.Column) -> bool:
        return fold_name(column.table) in inner.qualifiers if column.table else related.find(column.name) is not None

    on = [_pair(scope, inner, related, a, b) for a, b in pairs]
    parts = []
    for part in split_conjunction(find_condition(select)):
        found = list(part.find_all(exp.Column))
        if all(own(column) for column in found):
            parts.append(read(inner, part))
        elif isinstance(part, exp.EQ) and isinstance(part.this, exp.Column) and isinstance(part.expression, exp.Column):
            a, b = (part.this, part.expression) if own(part.this) else (part.expression, part.this)
            on.append(_pair(scope, inner, related, a, b))
        else:
            raise source.refuse("a condition between a row and the record is judged only if it equates a key", part)
    if not on:
        raise source.refuse(f"the subquery does not say whose rows of {related.name} it means: equate a key", select)
    return require_row(related, dict.fromkeys(on), make_and(*parts))


def _pair(scope: Scope, inner: Scope, related: Related, a: exp.Column, b: exp.Column) -> tuple[str, str]:
    mine, theirs = scope.resolve(b), inner.resolve(a)
    if isinstance(mine, DerivedColumn) or isinstance(theirs, DerivedColumn):
        raise scope.source.refuse("a computed column is no key: equate the column itself", b)
    return find_declared_key(scope.source, related, theirs.name, mine.name, a)


def require_no_row(related: Related, on: Iterable[tuple[str, str]], where: Predicate) -> Predicate:
    """No such row: a record without a key has none."""
    return make_not(require_row(related, on, where))


def require_null_rejected(predicate: Predicate, source: SourceText, node: exp.Expr) -> None:
    """Refuses a condition that may hold for the NULLs of an outer join: then it does not make it an inner one."""
    from keyhole.model.predicate import evaluate_predicate, find_leaves

    found = find_leaves(predicate)
    if any(isinstance(leaf, Opaque) for leaf in found) or evaluate_predicate(
        predicate, lambda leaf: True if isinstance(leaf, IsNull) else None
    ):
        raise source.refuse(
            "behind a LEFT JOIN only `key IS NULL` asks for those without rows: use NOT EXISTS, or an inner join", node
        )


def refuse_unknown_table(source: SourceText, schema: Schema, name: str, node: exp.Expr) -> UnsupportedQuery:
    """The error for a joined table that was not declared, or that is not looked at here."""
    if any(fold_name(name) == fold_name(each) for each in schema.unread):
        return source.refuse(f"conditions on rows of {name} are judged by `keyhole audit` alone: not here", node)
    return source.refuse(
        f'{name} was not declared: add [tables.{name}] with keys = ["..."] and private = "all" (rows of people) or '
        'public = "all" (a dimension)',
        node,
    )
