"""A SELECT over a grouped subquery as one SELECT over the table, where that says the same.

`WITH s AS (SELECT dept, SUM(pay) AS total FROM t GROUP BY dept) SELECT dept, total FROM s WHERE total > 9` is a GROUP
BY with a HAVING. A second aggregation is one where it is linear in the cells: a SUM of SUMs or COUNTs, a MAX of MAXs.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from keyhole.model.schema import fold_name
from keyhole.sql.rewriting.moments import is_aggregate
from keyhole.sql.rewriting.upper_bound import NoUpperBound, resolve_group_keys
from keyhole.sql.statements.tree import find_condition, find_source, list_with_queries, map_aliases, strip_parentheses

_KEPT = ("expressions", "from_", "where", "group", "having", "order", "limit", "offset", "qualify", "with_", "joins")
_INNER = ("expressions", "from_", "where", "group", "having", "with_")


def flatten_subquery(tree: exp.Expr, columns: Collection[str] = ()) -> exp.Select | None:
    """The statement with its grouped subquery opened; None if it has none, or if that would not say the same.

    `columns` are those of the table, case folded: in GROUP BY they go before an alias of their name.

    >>> import sqlglot
    >>> tree = sqlglot.parse_one("SELECT d, n FROM (SELECT d, COUNT(*) AS n FROM t GROUP BY d) AS s WHERE n > 9")
    >>> flatten_subquery(tree).sql()
    'SELECT d AS "d", COUNT(*) AS "n" FROM t GROUP BY d HAVING COUNT(*) > 9'
    >>> flatten_subquery(sqlglot.parse_one("SELECT SUM(n) FROM (SELECT d, COUNT(*) AS n FROM t GROUP BY d) AS s")).sql()
    'SELECT SUM(1) FROM t'
    """
    while isinstance(tree, exp.Subquery | exp.Paren) and tree.args.get("alias") is None:
        tree = tree.this
    found = None
    while isinstance(tree, exp.Select) and (opened := _flatten_once(tree, columns)) is not None:
        tree = found = opened
    return found


def _flatten_once(outer: exp.Select, columns: Collection[str]) -> exp.Select | None:
    inner, alias = find_subquery(outer)
    if (
        inner is None
        or not has_only_clauses(outer, _KEPT)
        or not has_only_clauses(inner, _INNER)
        or outer.args.get("joins")
    ):
        return None
    names = name_columns(inner)
    if names is None or not (inner.args.get("group") or any(map(has_aggregate, names.values()))):
        return None
    aliases = {name: part for name, part in names.items() if name not in columns}
    try:
        clause, _ = resolve_group_keys(inner, [item.unalias() for item in inner.expressions], aliases)
    except NoUpperBound:
        return None
    inner.set("group", clause)
    if outer.args.get("group") is not None or any(has_aggregate(item.unalias()) for item in outer.expressions):
        return _flatten_second_aggregation(outer, inner, names, alias)
    return _flatten_columns(outer, inner, names, alias)


def find_subquery(outer: exp.Select) -> tuple[exp.Select | None, str]:
    """The subquery that a SELECT is about, with the name it has there."""
    node = find_source(outer)
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        return node.this.copy(), node.alias
    ctes = list_with_queries(outer)
    if not isinstance(node, exp.Table) or not ctes or node.args.get("db") or outer.args["with_"].args.get("recursive"):
        return None, ""
    at = next((i for i, cte in enumerate(ctes) if fold_name(cte.alias) == fold_name(node.name)), None)
    if at is None or not isinstance(ctes[at].this, exp.Select) or ctes[at].args["alias"].args.get("columns"):
        return None, ""
    used = [table for table in outer.find_all(exp.Table) if fold_name(table.name) == fold_name(node.name)]
    if len(used) != 1:
        return None, ""
    inner = ctes[at].this.copy()
    if at and inner.args.get("with_") is not None:
        return None, ""
    if at:
        inner.set("with_", exp.With(expressions=[cte.copy() for cte in ctes[:at]]))
    return inner, node.alias or node.name


def has_only_clauses(select: exp.Select, known: tuple[str, ...]) -> bool:
    return not any(value and name not in known for name, value in select.args.items())


def name_columns(inner: exp.Select) -> dict[str, exp.Expr] | None:
    """The columns of a subquery by name; None if one has no name of its own."""
    columns: dict[str, exp.Expr] = {}
    for item in inner.expressions:
        name = fold_name(item.alias or (item.name if isinstance(item, exp.Column) else ""))
        if not name or name in columns or item.is_star or item.find(exp.Window, exp.Query):
            return None
        columns[name] = item.unalias()
    return columns


def has_aggregate(node: exp.Expr) -> bool:
    """Is there an aggregate other than the function of a window?"""
    if isinstance(node, exp.Window):
        return any(map(has_aggregate, node.this.iter_expressions()))
    return is_aggregate(node) or any(map(has_aggregate, node.iter_expressions()))


def _flatten_columns(outer: exp.Select, inner: exp.Select, names: dict[str, exp.Expr], alias: str) -> exp.Select | None:
    """Columns of the subquery, chosen, computed with and ordered: its SELECT list, HAVING and ORDER BY."""
    made = inner.copy()
    items: list[exp.Expr] = []
    for item in outer.expressions:
        if item.is_star:
            if any(isinstance(v, list) and v for k, v in item.args.items() if k in ("except_", "replace", "rename")):
                return None
            items += [exp.alias_(part.copy(), name, quoted=True) for name, part in names.items()]
            continue
        part = replace_columns(item.unalias(), names, alias)
        if part is None:
            return None
        items.append(exp.alias_(part, item.alias or item.name, quoted=True) if item.alias_or_name else part)
    made.set("expressions", items)
    where = find_condition(outer)
    if where is not None:
        test = replace_columns(where, names, alias)
        if test is None or not inner.args.get("group"):
            return None
        made = made.having(test)
    shown = map_aliases(outer).keys()
    for name in ("order", "limit", "offset", "qualify"):
        clause = outer.args.get(name)
        if clause is not None:
            other = {n: p for n, p in names.items() if n not in shown} if name == "order" else names
            placed = replace_columns(clause, other, alias, shown if name == "order" else ())
            if placed is None:
                return None
            made.set(name, placed)
    return made


def _flatten_second_aggregation(
    outer: exp.Select, inner: exp.Select, names: dict[str, exp.Expr], alias: str
) -> exp.Select | None:
    """A second aggregation: sums of sums and of counts, extremes of extremes, by some of the keys."""
    if inner.args.get("having") is not None or not inner.args.get("group") or outer.args.get("having") is not None:
        return None
    made = inner.copy()
    plain = {name: part for name, part in names.items() if not has_aggregate(part)}
    items = []
    for item in outer.expressions:
        part = _read_second_item(item.unalias(), names, plain, alias)
        if part is None:
            return None
        items.append(exp.alias_(part, item.alias, quoted=True) if item.alias else part)
    made.set("expressions", items)
    where, group = find_condition(outer), outer.args.get("group")
    if where is not None:
        test = replace_columns(where, plain, alias)
        if test is None:
            return None
        made = made.where(test)
    clause = None
    if group is not None:
        if not all(isinstance(part, exp.Column | exp.Literal) for part in group.expressions) or not is_plain_group(
            group
        ):
            return None
        keys = [
            part.copy() if isinstance(part, exp.Literal) else replace_columns(part, plain, alias)
            for part in group.expressions
        ]
        if any(key is None for key in keys):
            return None
        clause = exp.Group(expressions=keys)
    made.set("group", clause)
    for name in ("order", "limit", "offset"):
        if (said := outer.args.get(name)) is not None:
            aliases = frozenset(fold_name(item.alias) for item in outer.expressions if item.alias)
            placed = replace_columns(said, plain, alias, aliases)
            if placed is None:
                return None
            made.set(name, placed)
    return made


def is_plain_group(group: exp.Group) -> bool:
    return not any(value for name, value in group.args.items() if name != "expressions")


def _read_second_item(
    node: exp.Expr, names: dict[str, exp.Expr], plain: dict[str, exp.Expr], alias: str
) -> exp.Expr | None:
    """An item of a second aggregation over the records; None if it is not linear in the cells."""
    node = strip_parentheses(node)
    if not has_aggregate(node):
        return replace_columns(node, plain, alias)
    if isinstance(node, exp.Binary) and not isinstance(node, exp.Connector):
        left, right = (_read_second_item(part, names, plain, alias) for part in (node.this, node.expression))
        return None if left is None or right is None else exp.paren(type(node)(this=left, expression=right))
    if not isinstance(node, exp.Sum | exp.Min | exp.Max) or not isinstance(node.this, exp.Column):
        return None
    first = replace_columns(node.this, names, alias)
    first = None if first is None else strip_parentheses(first)
    if isinstance(node, exp.Min | exp.Max):
        return first if type(first) is type(node) else None
    if isinstance(first, exp.Sum) and not isinstance(first.this, exp.Distinct):
        return first
    if not isinstance(first, exp.Count) or isinstance(first.this, exp.Distinct) or first.expressions:
        return None
    one = exp.Literal.number(1)
    if first.this is None or isinstance(first.this, exp.Star):
        return exp.Sum(this=one)
    there = exp.Not(this=exp.Is(this=first.this.copy(), expression=exp.Null()))
    return exp.Sum(this=exp.Case(ifs=[exp.If(this=there, true=one)], default=exp.Literal.number(0)))


def replace_columns(
    node: exp.Expr, names: dict[str, exp.Expr], alias: str, kept: Collection[str] = ()
) -> exp.Expr | None:
    """The expression with the subquery's columns replaced by what they are; None if it looks at anything else."""
    missing = False

    def replaced(part: exp.Expr) -> exp.Expr:
        nonlocal missing
        if isinstance(part, exp.Query):
            missing = missing or part.find(exp.Column) is not None
        if not isinstance(part, exp.Column) or not isinstance(part.this, exp.Identifier):
            return part
        if len(part.parts) == 1 and fold_name(part.name) in kept:
            return part
        if len(part.parts) > 2 or (len(part.parts) == 2 and fold_name(part.parts[0].name) != fold_name(alias)):
            missing = True
            return part
        known = names.get(fold_name(part.name))
        if known is None:
            missing = True
            return part
        return known.copy() if isinstance(known, exp.Column | exp.Func) else exp.paren(known.copy())

    made = node.copy().transform(replaced)
    return None if missing else made
