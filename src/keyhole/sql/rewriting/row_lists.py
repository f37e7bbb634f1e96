"""Statements that hand out rows: private values as they are, or people under a private condition.

`SELECT name, pay FROM staff` says as much as `SELECT name, pay, COUNT(*) FROM staff GROUP BY name, pay`. So a row list
is read as a grouping, and everything behind the reader stays as it is. Where the public columns of a row point to one
record, the private columns are told one by one instead: a number by its SUM, anything else by a COUNT for each value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from keyhole.model.schema import Schema, fold_name
from keyhole.sql.rewriting.moments import is_aggregate
from keyhole.sql.statements.table_names import is_file_or_catalog, is_with_query
from keyhole.sql.statements.tree import (
    SPREADS,
    find_source,
    list_children,
    list_sources,
    name_table,
    strip_query,
)

_READ = frozenset(("kind", "expressions", "from_", "joins", "where", "with_", "order", "limit", "offset", "distinct"))
_CUT = ("limit", "offset", "fetch")
_FIGURES = (
    *(exp.Sum, exp.Avg, exp.Count, exp.CountIf, exp.Min, exp.Max, exp.Median, exp.Quantile, exp.PercentileCont),
    *(exp.PercentileDisc, *SPREADS, exp.Corr, exp.CovarPop, exp.CovarSamp, exp.ApproxDistinct, exp.ApproxQuantile),
    *(exp.LogicalAnd, exp.LogicalOr, exp.Exists),
)
_VALUES = (exp.Min, exp.Max, exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.ApproxQuantile)
_LISTS = (
    *(exp.ArrayAgg, exp.List, exp.GroupConcat, exp.ArrayUniqueAgg, exp.ArrayConcatAgg, exp.JSONArrayAgg),
    exp.JSONObjectAgg,
)
_LIST_NAMES = frozenset(
    (
        *("list", "array_agg", "string_agg", "group_concat", "listagg", "json_agg", "jsonb_agg", "json_group_array"),
        *("json_group_object", "json_object_agg", "jsonb_object_agg", "xmlagg", "collect_list", "collect_set"),
        *("histogram", "map_agg", "wm_concat"),
    )
)


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column of the answer: its name there, what it is, how it is written, and its place from 1."""

    name: str
    node: exp.Expr
    written: exp.Expr
    place: int


@dataclass(frozen=True, slots=True)
class RowGrouping:
    """A row list, ready to be read as groupings.

    `in_order`: ORDER BY says all about the order of the rows, so that this tells nothing more. `is_cut`: LIMIT or
    OFFSET may have left rows out. `plain`: FROM is the table itself, so that names mean its columns.
    """

    select: exp.Select
    columns: tuple[ShownColumn, ...]  # without constants
    width: int  # how many columns the answer has
    in_order: bool
    is_cut: bool
    plain: bool

    def group_by_all_columns(self) -> exp.Select:
        """The grouping by all columns, which says the same as the rows without their order."""
        if not self.select.args.get("distinct"):
            return self._grouped(self.columns, (_count_rows(),))
        somebody = exp.GT(this=_count_rows(), expression=exp.Literal.number(0))
        return self._grouped(self.columns, ()).having(somebody)

    def group_by_public_columns(
        self, private: Collection[ShownColumn], numbers: Collection[ShownColumn], *, counted: bool
    ) -> Iterator[tuple[exp.Select, tuple[int, ...]]]:
        """Groupings by the public columns, which say the same where these point to one record each.

        Each with the places in the answer of its figures; 0 is the number of rows. `numbers` of the `private` columns
        are added up, for each of the others records are counted by its value; `counted`: also without any.
        """
        public = [column for column in self.columns if column not in private]
        sums = [exp.Sum(this=column.node.copy()) for column in private if column in numbers]
        places = [column.place for column in private if column in numbers]
        if sums or counted:
            figures = (*sums, _count_rows()) if counted else sums
            yield self._grouped(public, figures), (*places, 0) if counted else tuple(places)
        for column in private:
            if column not in numbers:
                yield self._grouped((*public, column), (_count_rows(),)), (0,)

    def _grouped(self, keys: Collection[ShownColumn], figures: Iterable[exp.Expr]) -> exp.Select:
        made = self.select.copy()
        for name in ("distinct", "order", *_CUT):
            made.set(name, None)
        made.set("expressions", [*(key.written.copy() for key in keys), *figures])
        if keys:
            made.set("group", exp.Group(expressions=[key.node.copy() for key in keys]))
        return made


def group_rows(tree: exp.Expr, schema: Schema) -> RowGrouping | None:
    """A plain row list as groupings; None if the statement is none.

    FROM and WHERE are left as they are: whoever reads the groupings refuses what is not understood there. Cost: a walk.

    >>> import sqlglot
    >>> from keyhole.model.schema import Column, Kind, Role
    >>> staff = Schema("t", (Column("pay", Kind.INTEGER, Role.PRIVATE), Column("dept", Kind.TEXT)))
    >>> found = group_rows(sqlglot.parse_one("SELECT dept, pay FROM t"), staff)
    >>> found.group_by_all_columns().sql()
    'SELECT dept, pay, COUNT(*) FROM t GROUP BY dept, pay'
    >>> [part.sql() for part, _ in found.group_by_public_columns(found.columns[1:], found.columns[1:], counted=False)]
    ['SELECT dept, SUM(pay) FROM t GROUP BY dept']
    """
    if not isinstance(tree, exp.Select) or any(v and name not in _READ for name, v in tree.args.items()):
        return None
    distinct, source = tree.args.get("distinct"), find_source(tree)
    if source is None or (distinct is not None and distinct.args.get("on") is not None):
        return None
    plain = isinstance(source, exp.Table) and not is_with_query(source) and not tree.args.get("joins")
    shown_columns = _shown_columns(tree, schema, plain=plain)
    if shown_columns is None or any(_is_computed(column.node) for column in shown_columns):
        return None
    columns = tuple(column for column in shown_columns if column.node.find(exp.Column) is not None)
    if len({fold_name(column.name) for column in shown_columns}) != len(shown_columns) or (
        distinct is not None and not columns
    ):
        return None  # the answer does not say which of two columns is meant
    secret = set(map(fold_name, schema.private_names))
    in_order = _covers_order(tree, columns, secret if plain else None)
    if in_order is None:
        return None
    return RowGrouping(tree, columns, len(shown_columns), in_order, any(tree.args.get(name) for name in _CUT), plain)


def shows_private_values(tree: exp.Expr, schema: Schema) -> bool:
    """Does the answer surely have a column of private values as they are, or lists of them?

    >>> import sqlglot
    >>> from keyhole.model.schema import Column, Kind, Role
    >>> staff = Schema("t", (Column("pay", Kind.INTEGER, Role.PRIVATE), Column("dept", Kind.TEXT)))
    >>> shows_private_values(sqlglot.parse_one("SELECT dept, list(pay) FROM t GROUP BY dept"), staff)
    True
    >>> shows_private_values(sqlglot.parse_one("SELECT * FROM pg_stats"), staff)  # not judged, and no finding
    False
    """
    secret = set(map(fold_name, schema.private_names))
    for select in _outer_selects(tree):
        tables = [node for node in list_sources(select) if isinstance(node, exp.Table) and not is_with_query(node)]
        names = list(map(name_table, tables))
        if not any(name and (schema.is_people(name) or not is_file_or_catalog(name)) for name in names):
            continue
        for item in select.expressions:
            node = item.unalias()
            if isinstance(node, exp.Star | exp.Column) and node.is_star:
                return bool(secret)
            if isinstance(node, exp.Column) and fold_name(node.name) in secret:
                return True
            if any(list_columns(part) & secret for part in node.walk() if _is_list_aggregate(part)):
                return True
    return False


def may_show_private_values(tree: exp.Expr | None, schema: Schema) -> bool:
    """Can it not be excluded that rows with private values are handed out? True for what cannot be parsed.

    A private column must stand inside an aggregate that gives one figure, or decide (in WHERE and the like of a SELECT
    that shows nothing else) whom such aggregates are about.
    """
    if tree is None:
        return True
    secret = set(map(fold_name, schema.private_names))
    for select in tree.find_all(exp.Select):
        items = [item.unalias() for item in select.expressions]
        if any(isinstance(i, exp.Star | exp.Column) and i.is_star for i in items):
            return True
        if any(_outside_of_figures(item, secret) for item in items):
            return True
        figures = all(_is_figure(item) or item.find(exp.Column, exp.Query) is None for item in items)
        clauses = list_children(select, "expressions", "with_", "from_")
        if not figures and any(list_columns(part) & secret for part in clauses):
            return True
    return tree.find(exp.Select) is None


def _count_rows() -> exp.Expr:
    return exp.Count(this=exp.Star())


def _shown_columns(select: exp.Select, schema: Schema, *, plain: bool) -> list[ShownColumn] | None:
    """The columns of the answer, * written out; None if they cannot be named."""
    columns: list[ShownColumn] = []
    for item in select.expressions:
        node = item.unalias()
        star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
        if not isinstance(star, exp.Star):
            name = item.alias or (node.name if isinstance(node, exp.Column) else node.sql(dialect="duckdb"))
            columns.append(ShownColumn(name, node, item, len(columns) + 1))
            continue
        if not plain or any(star.args.values()):
            return None
        for column in schema.columns:
            of_dimension = any(r.dimension and column.name.startswith(f"{r.name}.") for r in schema.related)
            if not column.computed and not of_dimension:
                named = exp.column(exp.to_identifier(column.name, quoted=True))
                columns.append(ShownColumn(column.name, named, named, len(columns) + 1))
    return columns


def _covers_order(select: exp.Select, columns: Collection[ShownColumn], secret: set[str] | None) -> bool | None:
    """Does ORDER BY leave nothing open but the order of equal rows? None if it looks at private values not shown.

    `secret` are the names of private columns; None if names may mean something else.
    """
    order = select.args.get("order")
    themselves = {fold_name(column.node.name) for column in columns if isinstance(column.node, exp.Column)}
    names = {fold_name(column.name) for column in columns}
    ordered: set[int] = set()
    for term in order.expressions if order is not None else ():
        node = term.this if isinstance(term, exp.Ordered) else term
        if isinstance(node, exp.Var) and node.name.upper() == "ALL":
            return True
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            ordered.add(int(node.name))
            continue
        looked_at = list_columns(node) if secret is None else list_columns(node) & secret
        alias = isinstance(node, exp.Column) and not node.table and fold_name(node.name) in names
        if _is_computed(node) or not (alias or looked_at <= themselves):
            return None
        same = fold_name(node.name) if alias else None
        ordered |= {c.place for c in columns if fold_name(c.name) == same or (same is None and c.node == node)}
    return all(column.place in ordered for column in columns)


def _is_computed(node: exp.Expr) -> bool:
    """Is there an aggregate, a window or a subquery in it? Then it is no column of a record."""
    return any(is_aggregate(part) or isinstance(part, exp.Window | exp.Query | exp.Unnest) for part in node.walk())


def list_columns(node: exp.Expr | None) -> set[str]:
    """The names of columns in an expression, case folded."""
    return set() if node is None else {fold_name(column.name) for column in node.find_all(exp.Column)}


def _outer_selects(tree: exp.Expr) -> Iterator[exp.Select]:
    tree = strip_query(tree)
    if isinstance(tree, exp.SetOperation):
        yield from _outer_selects(tree.this)
        yield from _outer_selects(tree.expression)
    elif isinstance(tree, exp.Select):
        yield tree


def _is_list_aggregate(node: exp.Expr) -> bool:
    """Is it an aggregate that lists values?"""
    called = str(node.this).lower() if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) else ""
    return isinstance(node, _LISTS) or called in _LIST_NAMES


def _is_figure(node: exp.Expr) -> bool:
    """Is it made of aggregates that give one figure, and constants?"""
    if isinstance(node, _FIGURES):
        return not any(map(_is_list_aggregate, node.walk()))
    if isinstance(node, exp.Column | exp.Query | exp.Window):
        return False
    return all(map(_is_figure, node.iter_expressions()))


def _outside_of_figures(node: exp.Expr, secret: set[str]) -> bool:
    """Is there a private column outside of aggregates that give one figure?"""
    if isinstance(node, _VALUES) and list_columns(node) & secret:
        return True  # somebody's value as it is
    if isinstance(node, _FIGURES) and not isinstance(node.parent, exp.Window):
        return any(list_columns(part) & secret for part in node.walk() if _is_list_aggregate(part))
    if isinstance(node, exp.Column):
        return fold_name(node.name) in secret
    if isinstance(node, exp.Query):
        return bool(list_columns(node) & secret)  # a figure for each row
    return any(_outside_of_figures(part, secret) for part in node.iter_expressions())
