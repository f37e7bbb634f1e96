"""COUNT(DISTINCT ...) where rows are not people, and what a join to rows of people may not be asked."""

from __future__ import annotations

from sqlglot import exp

from keyhole.model.predicate import conjunction, quote_name
from keyhole.model.query import Aggregate, Query, Term
from keyhole.model.schema import Role
from keyhole.sql.lowering.condition import ConditionReader
from keyhole.sql.lowering.names import Scope


def counted_distinct(reader: ConditionReader, node: exp.Expr, label: str) -> Query | None:
    """COUNT(DISTINCT ...) of people, or of any public thing, where a person may have several rows; else None."""
    inner = node.this if isinstance(node, exp.Filter) else node
    schema = reader.scope.schema
    if (answered := _declared(reader, node, inner, label)) is not None:
        return answered
    if not schema.people or not isinstance(inner, exp.Count) or not isinstance(inner.this, exp.Distinct):
        return None
    items = inner.this.expressions
    if len(items) != 1 or reader.touches_private(items[0]):
        return None
    where = reader.scope.where
    if isinstance(node, exp.Filter):
        where = conjunction(where, reader.condition(node.expression.this))
    listed = items[0].expressions if isinstance(items[0], exp.Tuple) else [items[0]]
    made = [reader.public(item) for item in listed]
    text = made[0].sql if len(made) == 1 else f"({', '.join(part.sql for part in made)})"
    if not reader.secrets(where):
        return Query(Aggregate.PUBLIC, (Term(None, where, weight=f"COUNT(DISTINCT {text})"),), label=label)
    return Query(Aggregate.PEOPLE, (Term(None, where, weight=text),), label=label)


def _declared(reader: ConditionReader, node: exp.Expr, inner: exp.Expr, label: str) -> Query | None:
    """Where answers are private: the id or one declared column, under any condition."""
    schema = reader.scope.schema
    if (
        schema.word != str(Role.DECLARED)
        or not isinstance(inner, exp.Count)
        or not isinstance(inner.this, exp.Distinct)
    ):
        return None
    items = inner.this.expressions
    named = schema.find(items[0].name) if len(items) == 1 and isinstance(items[0], exp.Column) else None
    if named is None or named.role not in (Role.ID, Role.DECLARED):
        return None
    where = reader.scope.where
    if isinstance(node, exp.Filter):
        where = conjunction(where, reader.condition(node.expression.this))
    return Query(Aggregate.PEOPLE, (Term(None, where, weight=quote_name(named.name)),), label=label)


def several_rows(reader: ConditionReader, node: exp.Expr) -> bool:
    """Is it a COUNT(DISTINCT ...) where a person may have several rows?"""
    inner = node.this if isinstance(node, exp.Filter) else node
    distinct = isinstance(inner, exp.Count) and isinstance(inner.this, exp.Distinct)
    return distinct and reader.scope.schema.people


def fan_out(scope: Scope, node: exp.Expr) -> None:
    """Refuses what counts a record once for each of its rows of another table."""
    if scope.multiplied:
        ids = ", ".join(c.name for c in scope.schema.of_role(Role.ID)) or "the id"
        raise scope.source.refuse(
            f"a fan-out: a record counts once for each of its rows of {scope.multiplied[0]}; ask "
            f"COUNT(DISTINCT {ids}), MIN or MAX, or write EXISTS instead of the join",
            node,
        )
