"""People put in order by a private column (NTILE, RANK, ...) and summed up by their place: what tells more than that.

`SELECT q, AVG(pay) FROM (SELECT pay, NTILE(4) OVER (ORDER BY pay) AS q FROM t) GROUP BY q` looks at each record by its
pay and the place of that in the order. Both follow from how many people have each pay, so `SELECT pay, COUNT(*) FROM t
GROUP BY pay` tells at least as much; who they are plays no part, since people who share a place have the same pay. With
another column beside it that is so only for functions that give equals the same place: RANK, DENSE_RANK, PERCENT_RANK,
CUME_DIST; NTILE and ROW_NUMBER put one of two equals first, and which one is about who he is. Their places alone, not
the pay, follow from how many people there are.
"""

from __future__ import annotations

from sqlglot import exp

from keyhole.model.schema import Column, Kind, Schema, folded

EQUALS_TOGETHER = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
ONE_BY_ONE = (exp.Ntile, exp.RowNumber)
_ADDED = (exp.Sum, exp.Avg, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop)
_AGGREGATES = (*_ADDED, exp.Min, exp.Max, exp.Count, exp.Median)
_OUTER = frozenset(("expressions", "from_", "where", "group", "having", "order", "limit", "with_"))
_INNER = frozenset(("expressions", "from_", "where"))
_PLAIN = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Alias, exp.Star, exp.Distinct),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is, exp.And, exp.Or, exp.Not),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Round, exp.Case, exp.If, exp.Coalesce, exp.Cast, exp.DataType),
    *(exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Filter),
)


def ranked(tree: exp.Expr, schema: Schema) -> list[exp.Select]:
    """The SELECT that tells at least as much as one over places in a private order; none if it is no such statement.

    Guarantee: two tables in which each combination of the columns shown comes equally often give the same answer (but
    for the order of its rows). Cost: one walk over the tree.

    >>> import sqlglot
    >>> from keyhole.model.schema import Role
    >>> staff = Schema("t", (Column("pay", Kind.INTEGER, Role.PRIVATE), Column("dept", Kind.TEXT)))
    >>> inner = "SELECT pay, NTILE(4) OVER (ORDER BY pay) AS q FROM t WHERE dept = 'legal'"
    >>> [found.sql() for found in ranked(sqlglot.parse_one(f"SELECT q, MAX(pay) FROM ({inner}) GROUP BY q"), staff)]
    ["SELECT pay, COUNT(*) FROM t WHERE dept = 'legal' GROUP BY pay"]
    """
    inner = _inner(tree)
    if inner is None or not isinstance(tree, exp.Select) or not _sums_up(tree):
        return []
    windows = [item.unalias() for item in inner.expressions if isinstance(item.unalias(), exp.Window)]
    columns = _looked_at(tree, inner, schema)
    if not windows or columns is None:
        return []
    by = _order(windows, schema)
    if by is None or (by.kind is Kind.DOUBLE and tree.find(*_ADDED) is not None):
        return []
    parts = {folded(part.name): part for window in windows for part in window.args.get("partition_by") or ()}
    alike = all(len(window.args.get("partition_by") or ()) == len(parts) for window in windows)
    known = {folded(c.name): c for c in schema.columns}
    keys = parts | {name: exp.column(name) for name in columns if name != folded(by.name)}
    if any(name not in known or known[name].secret for name in keys):
        return []
    one_by_one = [window for window in windows if isinstance(window.this, ONE_BY_ONE)]
    if one_by_one and (not alike or len(keys) > len(parts)):
        return []
    value = folded(by.name) in columns or len(one_by_one) < len(windows)  # else places alone: one each
    named = (*(known[name].name for name in keys), *([by.name] if value else ()))
    listed = [exp.column(exp.to_identifier(name, quoted=not name.isidentifier())) for name in named]
    made = exp.Select(expressions=[*listed, exp.Count(this=exp.Star())])
    for name in ("from_", "where"):
        if inner.args.get(name) is not None:
            made.set(name, inner.args[name].copy())
    if listed:
        made.set("group", exp.Group(expressions=[key.copy() for key in listed]))
    return [made]


def _inner(tree: exp.Expr) -> exp.Select | None:
    """The SELECT over the table in FROM or WITH, if that is all there is."""
    from_ = tree.args.get("from_")
    source = from_.this if from_ is not None else None
    ctes = tree.args["with_"].expressions if tree.args.get("with_") is not None else []
    if isinstance(source, exp.Table) and len(ctes) == 1 and folded(ctes[0].alias) == folded(source.name):
        found = ctes[0].this if not ctes[0].args["alias"].args.get("columns") else None
    else:
        found = source.this if isinstance(source, exp.Subquery) and not ctes else None
    if not isinstance(found, exp.Select) or not {k for k, v in found.args.items() if v} <= _INNER:
        return None
    table = found.args["from_"].this if found.args.get("from_") is not None else None
    plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier) and table.args.get("alias") is None
    return found if plain and all(query is found for query in found.find_all(exp.Query)) else None


def _looked_at(tree: exp.Select, inner: exp.Select, schema: Schema) -> list[str] | None:
    """The columns of the table that the outer SELECT looks at through the inner one; None if it may be more."""
    passed: dict[str, exp.Expr] = {}
    every = False
    for item in inner.expressions:
        if isinstance(item, exp.Star) and not any(item.args.values()):
            every = True
        elif isinstance(item.unalias(), exp.Column | exp.Window) and item.alias_or_name:
            passed.setdefault(folded(item.alias_or_name), item.unalias())
        else:
            return None
    found = []
    for column in (c for part in _own(tree) for c in part.find_all(exp.Column)):
        name = folded(column.name)
        source = passed.get(name)
        if every and schema.find(name) is not None:
            source = None if isinstance(source, exp.Window) else exp.column(name)  # two columns of a name: not judged
        if source is None and name not in {folded(item.alias) for item in tree.expressions}:
            return None
        if isinstance(source, exp.Column):
            found.append(folded(source.name))
    return list(dict.fromkeys(found))


def _sums_up(tree: exp.Select) -> bool:
    """Is it one SELECT with aggregates of the plain kind, which do not look at the order of rows?"""
    if not {k for k, v in tree.args.items() if v} <= _OUTER:
        return False
    nodes = [node for part in _own(tree) for node in part.walk()]
    grouped = tree.args.get("group") is not None or any(isinstance(node, _AGGREGATES) for node in nodes)
    return grouped and all(type(node) in _PLAIN or isinstance(node, _AGGREGATES) for node in nodes)


def _own(tree: exp.Select) -> list[exp.Expr]:
    return [part for name in sorted(_OUTER - {"from_", "with_"}) for part in _listed(tree.args.get(name))]


def _listed(value: object) -> list[exp.Expr]:
    return [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expr)]


def _order(windows: list[exp.Window], schema: Schema) -> Column | None:
    """The private column by which all of them put people in order, in parts by public columns."""
    found = {_ordered_by(window) for window in windows}
    column = schema.find(found.pop()) if len(found) == 1 else None
    return column if column is not None and column.secret else None


def _ordered_by(window: exp.Window) -> str:
    """The column of ORDER BY; empty if the window is of another kind."""
    order = window.args.get("order")
    keys = [each.this for each in order.expressions] if order is not None else []
    if window.args.get("spec") is not None or window.args.get("alias") is not None or len(keys) != 1:
        return ""
    if not isinstance(window.this, (*EQUALS_TOGETHER, *ONE_BY_ONE)) or window.this.find(exp.Column) is not None:
        return ""
    parts = window.args.get("partition_by") or ()
    plain = all(isinstance(key, exp.Column) for key in (*keys, *parts))
    return str(keys[0].name) if plain else ""
