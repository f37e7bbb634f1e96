"""A second aggregation over groups as one sum over the records, each divided by a public whole number.

An average of the sums of groups is the sum of the records over the number of groups, an average of averages divides
each record by how many its group has, too. Keys, conditions and who has no value are public, so these numbers are: the
engine computes them, as public columns of the table, and each of their values is a term with an exact factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import sqlglot
from sqlglot import exp

from keyhole.model.predicate import quote_name
from keyhole.model.schema import Kind, Role, Schema, WholeTableColumn, fold_name
from keyhole.sql.lowering.grammar import orders_by_shown
from keyhole.sql.rewriting.flatten import (
    find_subquery,
    has_aggregate,
    has_only_clauses,
    is_plain_group,
    name_columns,
    replace_columns,
)
from keyhole.sql.rewriting.moments import is_aggregate
from keyhole.sql.rewriting.upper_bound import NoUpperBound, resolve_group_keys
from keyhole.sql.rewriting.whole_table import ALLOWED, PEOPLE
from keyhole.sql.statements.tree import (
    POLYNOMIALS,
    find_condition,
    find_source,
    list_with_queries,
    map_aliases,
    strip_parentheses,
)

_OUTER = ("expressions", "from_", "where", "group", "order", "with_")
_INNER = ("expressions", "from_", "where", "group")


@dataclass(frozen=True, slots=True)
class SecondAggregation:
    """`kept` is the statement with those of its items that are linear; their `places` are those in the statement.

    `text` is the same over the records, with a mark for each of the `divisors`: a sum with a term for each value of
    that column, which are `summands` over it. `figures` are public columns that it shows as they are.
    `rounded`: the engine adds up DOUBLEs on the way, and rounds each.
    """

    kept: exp.Select
    divisors: tuple[WholeTableColumn, ...]
    figures: tuple[WholeTableColumn, ...]
    text: exp.Select
    summands: tuple[str, ...]
    places: tuple[int, ...]
    rounded: bool

    def over_records(self, values: Mapping[str, Sequence[int]]) -> str:
        """The statement over the records, given the values of each divisor."""
        made = self.text.copy()
        marks = {_mark(at): at for at in range(len(self.divisors))}
        for node in list(made.find_all(exp.Column)):
            if (at := marks.get(node.name)) is not None:
                name, each = self.divisors[at].name, self.summands[at]
                cases = " ".join(f"WHEN {v} THEN {each} / {v}" for v in values[name])
                node.replace(sqlglot.parse_one(f"SUM(CASE {quote_name(name)} {cases} END)", read="duckdb"))
        return str(made.sql(dialect="duckdb"))


def open_second_aggregation(tree: exp.Expr, schema: Schema) -> SecondAggregation | None:
    """A SELECT over one grouped subquery of the table, opened; None if it is none, or nothing in it is linear.

    Guarantee: `kept` and `over_records` give the same rows, whatever the private values are, if each column holds what
    its `sql` computes. Only public keys and conditions; sums, counts and averages of private columns. Cost: one walk.

    >>> from keyhole.model.schema import Column
    >>> staff = Schema("t", (Column("pay", Kind.INTEGER, Role.PRIVATE), Column("dept", Kind.TEXT)))
    >>> text = "SELECT AVG(m) FROM (SELECT dept, AVG(pay) AS m FROM t GROUP BY dept)"
    >>> found = open_second_aggregation(sqlglot.parse_one(text, read="duckdb"), staff)
    >>> found.over_records({found.divisors[0].name: [6, 4]}).replace(found.divisors[0].name, "n")
    'SELECT SUM(CASE "n" WHEN 6 THEN (pay) / 6 WHEN 4 THEN (pay) / 4 END) FROM t'
    """
    try:
        return _SecondAggregationReader(tree, schema).made() if isinstance(tree, exp.Select) else None
    except NoUpperBound:
        return None


def _mark(at: int) -> str:
    return f"keyhole divisor {at}"


class _SecondAggregationReader:
    def __init__(self, outer: exp.Select, schema: Schema) -> None:
        self.outer, self.schema = outer, schema
        inner, self.alias = find_subquery(outer)
        if (
            inner is None
            or not has_only_clauses(outer, _OUTER)
            or not has_only_clauses(inner, _INNER)
            or outer.args.get("joins")
        ):
            raise NoUpperBound("no grouped subquery")
        if not orders_by_shown(outer.args.get("order"), {fold_name(item.alias_or_name) for item in outer.expressions}):
            raise NoUpperBound("an order by what is not shown")
        names = name_columns(inner)
        table: Any = find_source(inner)
        if names is None or inner.args.get("group") is None or not _plain_table(table, outer, schema):
            raise NoUpperBound("no groups of the records of a table")
        self.inner, self.names = inner, names
        self.table_alias = quote_name(table.alias or table.name)
        self.keys = self.grouped(inner, {n: p for n, p in names.items() if schema.find(n) is None})
        self.plain = {name: part for name, part in names.items() if not has_aggregate(part)}
        self.aliases = {name: part for name, part in map_aliases(outer).items() if name not in names}
        self.by = [self.placed(key) for key in self.grouped(outer, self.aliases)] if outer.args.get("group") else []
        first, then = find_condition(inner), find_condition(outer)
        tests = [] if first is None else [first]
        if then is not None:
            tests.append(self.placed(then))
        self.where = exp.and_(*(exp.paren(test.copy()) for test in tests)) if tests else None
        for part in (*self.keys, *self.by, *tests):
            self.check(part)
        self.divisors: dict[str, WholeTableColumn] = {}
        self.figures: dict[str, WholeTableColumn] = {}
        self.summands: list[str] = []
        self.rounded = self.private = False

    def made(self) -> SecondAggregation:
        kept: list[exp.Expr] = []
        items: list[exp.Expr] = []
        places: list[int] = []
        for place, item in enumerate(self.outer.expressions, 1):
            try:
                part = self.item(item.unalias())
            except NoUpperBound:
                if not has_aggregate(item):
                    raise
                continue
            kept.append(item.copy())
            places.append(place)
            items.append(exp.alias_(part, item.alias or item.name, quoted=True) if item.alias_or_name else part)
        if not self.divisors or not self.private:
            raise NoUpperBound("nothing of it is linear in private values and no sum of its own")
        linear_part = self.outer.copy()
        linear_part.set("expressions", kept)
        linear_part.set("order", None)
        by = [key.copy() for key in self.grouped(self.outer, self.aliases)] if self.by else []
        linear_part.set("group", exp.Group(expressions=by) if by else None)
        text = exp.Select(expressions=items)
        text.set("from_", self.inner.args["from_"].copy())
        if self.where is not None:
            text.set("where", exp.Where(this=self.where.copy()))
        if self.by:
            text.set("group", exp.Group(expressions=[key.copy() for key in self.by]))
        divisors, figures = tuple(self.divisors.values()), tuple(self.figures.values())
        return SecondAggregation(
            linear_part, divisors, figures, text, tuple(self.summands), tuple(places), self.rounded
        )

    def grouped(self, select: exp.Select, aliases: dict[str, exp.Expr]) -> list[exp.Expr]:
        """The keys of a plain GROUP BY."""
        clause, keys = resolve_group_keys(select, [item.unalias() for item in select.expressions], aliases)
        if (
            clause is None
            or not is_plain_group(clause)
            or any(isinstance(k, exp.Tuple | exp.Rollup | exp.Cube) for k in keys)
        ):
            raise NoUpperBound("grouping sets")
        return keys

    def placed(self, node: exp.Expr) -> exp.Expr:
        """An expression over keys of the subquery as one over the table."""
        found = replace_columns(node, self.plain, self.alias)
        if found is None:
            raise NoUpperBound("it looks at more than the keys")
        return found

    def check(self, node: exp.Expr) -> None:
        """Only public columns, and only what is the same at each run."""
        for part in node.walk():
            if type(part) not in ALLOWED or isinstance(part, exp.Query | exp.Window | exp.AggFunc | exp.Star):
                raise NoUpperBound("more than columns and functions of them")
            if isinstance(part, exp.Column):
                column = self.schema.find(part.name)
                if column is None or column.secret:
                    raise NoUpperBound("no public column")

    def item(self, node: exp.Expr) -> exp.Expr:
        """An item of the SELECT list over the records; raises `NoUpperBound` if it is not linear."""
        if node.find(exp.Window, exp.Query) is not None:
            raise NoUpperBound("a window or subquery")
        if not has_aggregate(node):
            return self.placed(node)

        def replaced(part: exp.Expr) -> exp.Expr:
            if is_aggregate(part):
                return self.aggregate(part)
            return self.placed(part) if isinstance(part, exp.Column) else part

        return node.copy().transform(replaced)

    def aggregate(self, node: exp.Expr) -> exp.Expr:
        """An aggregate of the groups as one of the records."""
        if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
            return self.figure(node, [])
        if not isinstance(node, exp.Sum | exp.Avg | exp.Count) or not isinstance(node.this, exp.Column):
            raise NoUpperBound("no sum, count or average of the groups")
        first = replace_columns(node.this, self.names, self.alias)
        first = None if first is None else strip_parentheses(first)
        if not isinstance(first, exp.Sum | exp.Avg | exp.Count) or first.expressions:
            raise NoUpperBound("no sum, count or average of the records")
        counts = isinstance(first, exp.Count)
        if counts and not isinstance(first.this, exp.Star):
            raise NoUpperBound("a count of values")
        present = [] if counts else self.present(first.this)
        if isinstance(node, exp.Count):
            return self.figure(node, present)
        if isinstance(node, exp.Sum) and not isinstance(first, exp.Avg):
            return exp.Sum(this=exp.Literal.number(1) if counts else first.this.copy())
        self.rounded = self.rounded or isinstance(first, exp.Avg)
        sql = self.public_number(present, by_group=isinstance(first, exp.Avg), groups=isinstance(node, exp.Avg))
        column = self.column(node, sql)
        if column.name not in self.divisors:
            self.divisors[column.name] = column
            self.summands.append("1" if counts else f"({first.this.sql(dialect='duckdb')})")
        return exp.column(exp.to_identifier(_mark(list(self.divisors).index(column.name)), quoted=True))

    def figure(self, node: exp.Expr, present: Sequence[str]) -> exp.Expr:
        """How many groups there are, which is public."""
        column = self.column(node, self.public_number(present, by_group=False, groups=True, absent=True))
        self.figures[column.name] = column
        return exp.Max(this=exp.column(exp.to_identifier(column.name, quoted=True)))

    def column(self, node: exp.Expr, sql: str) -> WholeTableColumn:
        name = f"{node.sql(dialect='duckdb')} of {self.inner.sql(dialect='duckdb')}"
        return WholeTableColumn(f"{name} #{crc32(sql.encode()):08x}", sql)

    def present(self, summed: exp.Expr) -> list[str]:
        """The columns of what is summed: it is NULL where one of them is."""
        columns: dict[str, str] = {}
        for part in summed.walk():
            if not isinstance(part, POLYNOMIALS) or (isinstance(part, exp.Literal) and part.is_string):
                raise NoUpperBound("more than arithmetic")
            if isinstance(part, exp.Column):
                column = self.schema.find(part.name)
                if column is None or not column.kind.numeric or (column.secret and column.role is not Role.PRIVATE):
                    raise NoUpperBound("no number of the table")
                self.private = self.private or column.secret
                self.rounded = self.rounded or column.kind is Kind.DOUBLE
                columns[column.name] = part.sql(dialect="duckdb")
        if not columns:
            raise NoUpperBound("a constant")
        return list(columns.values())

    def public_number(self, present: Sequence[str], *, by_group: bool, groups: bool, absent: bool = False) -> str:
        """For each record, how many its group has, how many groups are beside it, or the product, as a query.

        Records and groups count that have a value; those without one get a number only if `absent`.
        """
        alias, there = self.table_alias, " AND ".join(f"{name} IS NOT NULL" for name in present) or "TRUE"
        keys = [f"({key.sql(dialect='duckdb')}) AS k{at}" for at, key in enumerate(self.keys)]
        by = [f"({key.sql(dialect='duckdb')}) AS b{at}" for at, key in enumerate(self.by)]
        where = "" if self.where is None else f" WHERE {self.where.sql(dialect='duckdb')}"
        listed = ", ".join((f"{alias}.rowid AS r", f"({there}) AS p", *keys, *by))
        group = ", ".join(f"k{at}" for at in range(len(keys)))
        beside = ", ".join(f"b{at}" for at in range(len(by)))
        number = f"count(*) FILTER (WHERE p) OVER (PARTITION BY {group}) AS n"
        first = f"(p AND row_number() OVER (PARTITION BY {group}, p ORDER BY r) = 1)::INTEGER AS f"
        counted = f"SELECT *, {number}, {first} FROM (SELECT {listed} FROM {PEOPLE} AS {alias}{where})"
        over = f"sum(f) OVER ({f'PARTITION BY {beside}' if by else ''})"
        value = "n * " * by_group + over if groups else "n"
        told = f"SELECT r, p, ({value})::BIGINT AS v FROM ({counted})"
        return f"SELECT r, v FROM ({told})" + ("" if absent else " WHERE p")


def _plain_table(node: Any, outer: exp.Select, schema: Schema) -> bool:
    """Is it the table, and neither another one nor a query of WITH?"""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or node.args.get("pivots"):
        return False
    if node.args.get("sample") or schema.table_named(node.name) is not None:
        return False
    return bool(node.db) or fold_name(node.name) not in {fold_name(cte.alias) for cte in list_with_queries(outer)}


__all__ = ["SecondAggregation", "open_second_aggregation"]
