"""What an aggregate is computed from: sums, or the distinct values of a column with their counts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from keyhole.model.schema import fold_name
from keyhole.sql.statements.tree import OF_PAIRS, POLYNOMIALS, SPREADS


@dataclass(frozen=True, slots=True)
class Moments:
    """`sums` determine the aggregate; or the counts of each `value` (a tuple: of each combination) do, among those who
    satisfy `where` (None: all).
    """

    sums: tuple[exp.Expr, ...] = ()
    value: exp.Expr | None = None
    where: exp.Expr | None = None


def is_aggregate(node: exp.Expr) -> bool:
    """Is this node an aggregate, with its FILTER or WITHIN GROUP?"""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() == "total" and len(node.expressions) == 1
    return isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup) and not isinstance(node, exp.Grouping)


def find_moments(node: exp.Expr, secret: Collection[str]) -> Moments:
    """What determines one aggregate: itself, where that is a sum, a count or an order statistic.

    An average is SUM(x) / COUNT(x); a variance is a function of SUM(x), SUM(x*x) and COUNT(x); CORR, COVAR_* and REGR_*
    are of the moments of those who have both values; COUNT(DISTINCT x) of a private x of the number of people with each
    value.

    >>> import sqlglot
    >>> [part.sql() for part in find_moments(sqlglot.parse_one("STDDEV_POP(x)"), ()).sums]
    ['SUM(x)', 'SUM(x * x)', 'COUNT(x)']
    """
    where = node.expression.this if isinstance(node, exp.Filter) else None
    inner = node.this if isinstance(node, exp.Filter) else node
    if (together := _find_joint_columns(inner, secret)) is not None:
        return Moments(value=together, where=where)
    if isinstance(inner, SPREADS) and inner.this is not None:
        x = inner.this
        sums: list[exp.Expr] = [exp.Sum(this=x.copy()), exp.Sum(this=_multiply(x, x)), exp.Count(this=x.copy())]
        return Moments(tuple(_filter(part, where) for part in sums))
    if isinstance(inner, exp.Anonymous):  # SQLite's TOTAL, 0 over nobody
        return Moments((_filter(exp.Sum(this=inner.expressions[0].copy()), where),))
    if isinstance(inner, exp.CountIf) and inner.this is not None:
        one = exp.Case(ifs=[exp.If(this=inner.this.copy(), true=exp.Literal.number(1))], default=exp.Literal.number(0))
        return Moments((_filter(exp.Sum(this=one), where),))
    if isinstance(inner, exp.Avg) and inner.this is not None and not isinstance(inner.this, exp.Distinct):
        sums = [exp.Sum(this=inner.this.copy()), exp.Count(this=inner.this.copy())]
        return Moments(tuple(_filter(part, where) for part in sums))
    if isinstance(inner, OF_PAIRS) and inner.this is not None and isinstance(inner.args.get("expression"), exp.Expr):
        return Moments(tuple(_filter(part, where) for part in _list_joint_sums(inner.this, inner.expression)))
    distinct = inner.this if isinstance(inner.this, exp.Distinct) else None
    value = distinct.expressions[0] if distinct is not None and len(distinct.expressions) == 1 else None
    if isinstance(inner, exp.ApproxDistinct):  # not MODE: of values as frequent the first is taken, which is about who
        value = inner.this
    if isinstance(value, exp.Expr) and any(fold_name(c.name) in secret for c in value.find_all(exp.Column)):
        return Moments(value=value, where=where)
    return Moments((node,))


def _find_joint_columns(inner: exp.Expr, secret: Collection[str]) -> exp.Tuple | None:
    """The columns that a product of two private ones looks at, or CORR of two: how many people have each combination
    of their values determines it.
    """
    if not isinstance(inner, (exp.Sum, exp.Avg, *OF_PAIRS)) or isinstance(inner.this, exp.Distinct):
        return None
    if not all(isinstance(part, POLYNOMIALS) for each in inner.iter_expressions() for part in each.walk()):
        return None
    columns = {fold_name(c.name): c for c in inner.find_all(exp.Column)}
    if len(columns.keys() & set(secret)) < 2 or any(len(c.parts) > 1 for c in columns.values()):
        return None
    return exp.Tuple(expressions=[columns[name].copy() for name in sorted(columns)])


def _list_joint_sums(y: exp.Expr, x: exp.Expr) -> list[exp.Expr]:
    def where_both(part: exp.Expr, other: exp.Expr) -> exp.Expr:
        there = exp.Not(this=exp.Is(this=other.copy(), expression=exp.Null()))
        return exp.Case(ifs=[exp.If(this=there, true=part.copy())])

    both = where_both(exp.Literal.number(1), x)
    return [
        exp.Sum(this=where_both(y, x)),
        exp.Sum(this=where_both(x, y)),
        exp.Sum(this=_multiply(x, y)),
        exp.Sum(this=where_both(_multiply(y, y), x)),
        exp.Sum(this=where_both(_multiply(x, x), y)),
        exp.Count(this=where_both(both, y)),
    ]


def _multiply(x: exp.Expr, y: exp.Expr) -> exp.Expr:
    left, right = (part.copy() if isinstance(part, exp.Column) else exp.paren(part.copy()) for part in (x, y))
    return exp.Mul(this=left, expression=right)


def _filter(node: exp.Expr, where: exp.Expr | None) -> exp.Expr:
    return node if where is None else exp.Filter(this=node, expression=exp.Where(this=where.copy()))
