"""`WHERE pay > (SELECT AVG(pay) FROM t)`: a private figure that decides who is meant, put down to what tells more.

Whoever sees the average, and the count of those above that number, sees at least the count of those above the average.
So both are judged in its place, for the all-clear alone (`keyhole.model.query.FINER`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal

from sqlglot import exp

from keyhole.datasets import Source
from keyhole.errors import QueryError
from keyhole.model.query import FINER, Aggregate, Statement
from keyhole.model.schema import Kind, Schema, fold_name
from keyhole.sql import Unread, read_statement
from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.statements.table_names import is_with_query

DIGITS = 12  # behind the point, of a constant that is read


@dataclass(frozen=True, slots=True)
class PrivateFigures:
    """A statement with numbers in the place of private figures, and the statements that ask for these."""

    tree: exp.Expr
    asked: tuple[Statement, ...]


def with_thresholds(tree: exp.Expr, schema: Schema, source: Source) -> PrivateFigures | None:
    """Subqueries of one private number, each by its value in the data; None if there are none that can be.

    Guarantee: the answers of `asked`, together with that of `tree`, determine the answer of the statement. The numbers
    are private: they stand in what is judged, never in what is printed.
    """
    made = tree.copy()
    secret = {fold_name(c.name) for c in schema.columns if c.secret}
    asked: list[Statement] = []
    for node in list(made.find_all(exp.Subquery)):
        names = {fold_name(c.name) for c in node.find_all(exp.Column)}
        if node.find_ancestor(exp.Subquery) is not None or isinstance(node.parent, exp.From | exp.Join | exp.In):
            continue
        if names & secret:
            figure = _figure(node, schema, _kinds(tree, schema))
            value = None if figure is None else source.evaluate(figure.queries[0])
            if figure is None or not isinstance(value, Decimal):
                return None
            asked.append(replace(figure, certainty=FINER))
            value = _short(value, node, schema)
            number = exp.Literal.number(f"{abs(value):f}")
            node.replace(exp.Paren(this=number if value >= 0 else exp.Neg(this=number)))
    return PrivateFigures(made, tuple(asked)) if asked else None


def _short(value: Decimal, node: exp.Subquery, schema: Schema) -> Decimal:
    """A number that whole numbers are compared with alike, where the number itself has more digits than are read.

    >>> from keyhole.model.schema import Column
    >>> tree = __import__("sqlglot").parse_one("SELECT COUNT(*) FROM t WHERE days > (SELECT AVG(days) FROM t)")
    >>> _short(Decimal(14) / 3, tree.find(exp.Subquery), Schema("t", (Column("days", Kind.INTEGER),)))
    Decimal('4.5')
    """
    compared = node.parent
    if value == round(value, DIGITS) or not isinstance(
        compared, exp.GT | exp.GTE | exp.LT | exp.LTE | exp.EQ | exp.NEQ
    ):
        return value
    other = compared.expression if compared.this is node else compared.this
    column = schema.find(other.name) if isinstance(other, exp.Column) else None
    whole = column is not None and column.kind is Kind.INTEGER
    return value.to_integral_value(ROUND_FLOOR) + Decimal("0.5") if whole else value


def _kinds(tree: exp.Expr, schema: Schema) -> set[Kind]:
    """Of the private numbers that a statement looks at."""
    found = (schema.find(column.name) for column in tree.find_all(exp.Column))
    return {column.kind for column in found if column is not None and column.secret and column.kind.numeric}


def _figure(node: exp.Subquery, schema: Schema, kinds: set[Kind]) -> Statement | None:
    """The subquery as a statement of one exact number that looks at its own records alone."""
    inner = node.this
    if not isinstance(inner, exp.Select) or inner.find(exp.Subquery) is not None:
        return None
    if any(is_with_query(table) for table in inner.find_all(exp.Table)):
        return None  # by itself it would be read as the table
    own = {fold_name(table.alias or table.name) for table in inner.find_all(exp.Table)}
    if any(column.table and fold_name(column.table) not in own for column in inner.find_all(exp.Column)):
        return None
    try:
        found = read_statement(inner.sql(dialect="duckdb"), Dialect.DUCKDB, schema)
    except (QueryError, Unread):
        return None
    if len(found) != 1 or found[0].certainty or found[0].keys or found[0].having or len(found[0].queries) != 1:
        return None
    query = found[0].queries[0]
    exact = kinds <= {Kind.INTEGER} or (kinds <= {Kind.INTEGER, Kind.DECIMAL} and not query.per)
    sums = query.aggregate in (Aggregate.SUM, Aggregate.MIN, Aggregate.MAX) and query.test is None
    return found[0] if exact and sums else None


__all__ = ["PrivateFigures", "with_thresholds"]
