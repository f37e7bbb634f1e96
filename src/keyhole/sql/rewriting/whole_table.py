"""Public expressions that look at the whole table: window functions of public columns, and subqueries over them.

`RANK() OVER (ORDER BY age)`, `zip IN (SELECT zip FROM t WHERE ...)` and `age > (SELECT AVG(age) FROM t)` are public
functions of each record. The engine computes them once, as public columns of the table; the statement with these in
their place is then read as any other. Only what is the same at each run: an allow-list of nodes decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from sqlglot import exp

from keyhole.model.predicate import quote_name
from keyhole.model.schema import Kind, Schema, WholeTableColumn, fold_name
from keyhole.sql.rewriting.upper_bound import NoUpperBound
from keyhole.sql.statements.tree import (
    COMPARISONS,
    LOGIC,
    PLACES,
    RANKS,
    find_condition,
    find_source,
    list_ordered,
    list_with_queries,
    name_node,
)

PEOPLE = "people"
_BY_PLACE = (*PLACES, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
_ADDED = (exp.Sum, exp.Avg)
ALLOWED = frozenset(
    (
        *(exp.Select, exp.From, exp.Where, exp.Group, exp.Having, exp.With, exp.CTE, exp.Subquery, exp.Table),
        *(exp.TableAlias, exp.Alias, exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Paren),
        *(*COMPARISONS, exp.Between, exp.In, exp.Is, exp.Like, exp.Exists),
        *(*LOGIC, exp.Any, exp.All, exp.Tuple, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv),
        *(exp.Mod, exp.Neg, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Floor, exp.Ceil, exp.Abs, exp.Round),
        *(exp.Lower, exp.Upper, exp.Trim, exp.Length, exp.Substring, exp.Left, exp.Right, exp.Year, exp.Month),
        *(exp.Day, exp.Quarter, exp.Extract, exp.Var, exp.TimestampTrunc, exp.DateTrunc, exp.Cast, exp.DataType),
        *(exp.Star, exp.Distinct, exp.Count, exp.Min, exp.Max, exp.Median, *_ADDED),
        *(exp.Window, exp.WindowSpec, exp.Order, exp.Ordered, *RANKS, *_BY_PLACE),
    )
)
_PASSES = frozenset(("expressions", "from_", "where", "with_"))  # clauses of a SELECT that passes records on


def replace_whole_table_parts(tree: exp.Expr, schema: Schema) -> tuple[exp.Expr, tuple[WholeTableColumn, ...]]:
    """The statement with columns in the place of what looks at the whole table, and what these columns are.

    Guarantee: each column looks at public columns of the one table alone and is the same at each run where `ties` gives
    nothing; a window sees the records that its SELECT keeps. Without a column nothing of the kind is in it. Raises
    `NoUpperBound`. Cost: one walk over the tree.

    >>> import sqlglot
    >>> from keyhole.model.schema import Column, Role
    >>> staff = Schema("t", (Column("pay", Kind.INTEGER, Role.PRIVATE), Column("age", Kind.INTEGER)))
    >>> tree = sqlglot.parse_one("SELECT SUM(pay) FROM t WHERE age > (SELECT AVG(age) FROM t)", read="duckdb")
    >>> made, (column,) = replace_whole_table_parts(tree, staff)
    >>> made.sql(dialect="duckdb")
    'SELECT SUM(pay) FROM t WHERE age > "(SELECT AVG(age) FROM t)"'
    >>> column.sql
    'SELECT "t".rowid AS r, (SELECT AVG(age) FROM people AS t) AS v FROM people AS "t"'
    """
    return _WholeTable(tree, schema).made()


class _WholeTable:
    def __init__(self, tree: exp.Expr, schema: Schema) -> None:
        self.tree, self.schema = tree.copy(), schema
        self.public = {fold_name(c.name) for c in schema.columns if not c.secret}
        self.secret = {fold_name(name): name for name in schema.private_names}
        self.rough = {fold_name(c.name) for c in schema.columns if c.kind is Kind.DOUBLE}
        self.with_queries = list_with_queries(self.tree)
        self.ctes = {fold_name(cte.alias) for cte in self.with_queries}
        self.found: dict[str, WholeTableColumn] = {}
        tables = [t for t in self.tree.find_all(exp.Table) if t.db or fold_name(t.name) not in self.ctes]
        self.tables = {tuple(fold_name(part.name) for part in table.parts) for table in tables}

    def made(self) -> tuple[exp.Expr, tuple[WholeTableColumn, ...]]:
        if self.schema.several and len(self.tables) != 1:
            return self.tree, ()
        if len(self.tables) != 1 or self.schema.table_named(next(iter(self.tables))[-1]) is not None:
            raise NoUpperBound("subqueries and windows over several tables are not judged: put them in a view")
        for node in list(_find_outermost(self.tree)):
            self.replaced(node)
        self.drop_unused_queries()
        return self.tree, tuple(self.found.values())

    def drop_unused_queries(self) -> None:
        """WITH without the queries that only the columns made here read."""
        while kept := list_with_queries(self.tree):
            used = {fold_name(t.name) for t in self.tree.find_all(exp.Table) if not t.db}
            still = [cte for cte in kept if fold_name(cte.alias) in used]
            if len(still) == len(kept):
                return
            self.tree.args["with_"].set("expressions", still)
        self.tree.set("with_", None)

    def replaced(self, node: exp.Expr) -> None:
        owner = node.find_ancestor(exp.Select)
        if owner is None or not self.over_records(owner):
            raise NoUpperBound("a subquery or window beside a join or another subquery is not judged: use GROUP BY")
        self.check(node)
        table = owner.args["from_"].this
        alias = quote_name(table.alias or table.name)
        where, ties = "", ""
        name = node.sql(dialect="duckdb")
        if isinstance(node, exp.Window):
            if not {k for k, v in owner.args.items() if v} <= _PASSES or node.args.get("alias") is not None:
                raise NoUpperBound("a window beside DISTINCT, LIMIT or GROUP BY, or a named one, is not judged here")
            if (kept := find_condition(owner)) is not None:
                self.check(kept)
                where = f" WHERE {self.over_people(kept)}"
                name += f" WHERE {kept.sql(dialect='duckdb')}"
            ties = self.ties(node, alias, where)
        if "'" in name:  # texts that differ by case do not name the same: names of columns do
            name += f" #{crc32(name.encode()):08x}"
        sql = f"SELECT {alias}.rowid AS r, {self.over_people(node)} AS v FROM {PEOPLE} AS {alias}{where}"
        read = [node] if not where else [node, owner.args["where"]]
        self.found.setdefault(name, WholeTableColumn(name, self.behind(sql, read), ties and self.behind(ties, read)))
        node.replace(exp.column(exp.to_identifier(name, quoted=True)))

    def over_records(self, owner: exp.Select) -> bool:
        """Does a SELECT read the table itself, and nothing beside it?"""
        table = find_source(owner)
        if not isinstance(table, exp.Table) or owner.args.get("joins") or table.args.get("pivots"):
            return False
        return bool(table.db) or fold_name(table.name) not in self.ctes

    def ties(self, node: exp.Window, alias: str, where: str) -> str:
        """The places that several records share, where the function counts records one by one."""
        if not isinstance(node.this, _BY_PLACE) and node.args.get("spec") is None:
            return ""
        keys = [self.over_people(key) for key in (*(node.args.get("partition_by") or ()), *list_ordered(node))]
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT count(*) FROM {PEOPLE} AS {alias}{where}{grouped} HAVING count(*) > 1 LIMIT 1"

    def behind(self, sql: str, read: list[exp.Expr]) -> str:
        """The query with those of WITH that it reads in front of it."""
        wanted: set[str] = set()
        for part in (*read, *reversed(self.with_queries)):
            if not isinstance(part, exp.CTE) or fold_name(part.alias) in wanted:
                wanted |= {fold_name(table.name) for table in part.find_all(exp.Table) if not table.db}
        needed = [cte for cte in self.with_queries if fold_name(cte.alias) in wanted]
        for cte in needed:
            self.check(cte.this)
        return f"WITH {', '.join(map(self.over_people, needed))} {sql}" if needed else sql

    def over_people(self, node: exp.Expr) -> str:
        """The text of a node with the table under the roster's name."""
        made = exp.Paren(this=node.copy())
        for table in list(made.find_all(exp.Table)):
            if table.db or fold_name(table.name) not in self.ctes:
                alias = exp.TableAlias(this=exp.to_identifier(table.alias or table.name))
                table.replace(exp.Table(this=exp.to_identifier(PEOPLE), alias=alias))
        return str(made.this.sql(dialect="duckdb"))

    def check(self, node: exp.Expr) -> None:
        """Only public columns, and only what is the same at each run."""
        named = {fold_name(each.alias) for each in node.find_all(exp.Alias, exp.CTE, exp.TableAlias)}
        for cte in self.with_queries:
            named |= {fold_name(each.alias) for each in cte.find_all(exp.Alias, exp.CTE)}
        for part in node.walk():
            if isinstance(part, exp.Column):
                self.check_column(part, named)
            elif type(part) not in ALLOWED:
                raise NoUpperBound(f"{name_node(part)} inside a subquery or window is not judged: put it in a view")
            elif isinstance(part, exp.Star) and not isinstance(part.parent, exp.Count | exp.Select):
                raise NoUpperBound("* inside a subquery is not judged: name the columns")
            elif isinstance(part, exp.Select) and any(part.args.get(n) for n in ("limit", "offset", "sample", "joins")):
                raise NoUpperBound("LIMIT, samples and joins inside a subquery are not judged: put them in a view")
            elif isinstance(part, exp.Select) and not isinstance(part.parent, exp.Exists):
                if any(item.is_star for item in part.expressions):
                    raise NoUpperBound("* inside a subquery is not judged: name the columns")
            elif isinstance(part, _ADDED) and any(fold_name(c.name) in self.rough for c in part.find_all(exp.Column)):
                raise NoUpperBound(
                    "a sum of DOUBLE inside a subquery changes with the order of its rows: put it in a view"
                )

    def check_column(self, column: exp.Column, named: set[str]) -> None:
        name = fold_name(column.name)
        if name in self.secret:
            raise NoUpperBound(_explain_private_column(column, self.secret[name]))
        if name not in self.public and name not in named:
            raise NoUpperBound(f"{column.name} inside a subquery or window is no public column of the table")


def _find_outermost(node: exp.Expr) -> Iterator[exp.Expr]:
    """What looks at more than one record and is no aggregate of its own SELECT, from the outside."""
    parent = node.parent
    quantified = isinstance(node, exp.Binary) and isinstance(node.args.get("expression"), exp.Any | exp.All)
    asked = isinstance(node, exp.In) and node.args.get("query") is not None
    scalar = isinstance(node, exp.Subquery) and not isinstance(parent, exp.From | exp.Join | exp.SetOperation)
    if isinstance(node, exp.Exists | exp.Window) or quantified or asked or (scalar and parent is not None):
        yield node
        return
    for child in node.iter_expressions():
        yield from _find_outermost(child)


def _explain_private_column(column: exp.Column, name: str) -> str:
    """Why a private column there is not judged, and what to ask instead."""
    window = column.find_ancestor(exp.Window)
    if window is not None and isinstance(window.this, (*RANKS, *_BY_PLACE)):
        return (
            f"{name_node(window.this)} puts people in order by {name}, which is private, so who is in which part "
            f"depends on everybody: group by fixed bounds (CASE WHEN {name} < 1000 THEN ...), or ask for quantiles"
        )
    return (
        f"a subquery or window that looks at {name}, which is private, decides who is meant: ask for its value by "
        "itself, and compare with that number"
    )


__all__ = ["replace_whole_table_parts"]
