"""FROM, WITH, WHERE and joins on declared keys: which names are in reach, and which records are meant.

The table of the people stands in the statement once. Dimensions give their columns to the record. An inner join to rows
of people keeps the records that have such a row, once for each: so only what does not count rows is judged
(COUNT(DISTINCT ...), MIN, MAX). LEFT JOIN ... WHERE key IS NULL keeps those that have none. Which rows are meant is
found by the equalities of ON, USING and WHERE alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from keyhole.model.predicate import IsNull, Predicate, make_and, make_not, quote_name
from keyhole.model.schema import Column, Related, Schema, fold_name
from keyhole.sql.lowering.aggregate import AggregateReader
from keyhole.sql.lowering.exists import (
    find_declared_key,
    make_row_scope,
    refuse_unknown_table,
    require_no_row,
    require_null_rejected,
    require_row,
    split_conjunction,
)
from keyhole.sql.lowering.names import DerivedColumn, JoinedTable, Scope
from keyhole.sql.statements.parse import SourceText
from keyhole.sql.statements.table_names import is_file_or_catalog
from keyhole.sql.statements.tree import find_condition, find_source, list_with_queries, name_table, strip_parentheses

SELECT = ("expressions", "from_", "where", "group", "having", "order", "limit", "offset", "with_")
_CLAUSES_OF_SUBQUERY = ("expressions", "from_", "where", "with_")
_CLAUSES = {
    "joins": "joins are not judged: put the join into view under [source] (one row per person)",
    "distinct": "SELECT DISTINCT is not judged: the groups of GROUP BY are distinct already",
    "windows": "window functions are not judged: use GROUP BY",
    "qualify": "QUALIFY is not judged: use HAVING",
    "laterals": "LATERAL is not judged: put it in a view",
    "sample": "a sample changes from run to run: leave it out",
    "into": "SELECT INTO writes a table: only reading is judged",
    "locks": "FOR UPDATE is not judged: leave it out",
    "pivots": "PIVOT is not judged: use GROUP BY",
}


def check_clauses(source: SourceText, select: exp.Select, known: tuple[str, ...], *, joins: bool = False) -> None:
    """Refuses a SELECT that has clauses other than `known`; with `joins` other tables were declared."""
    for name, value in select.args.items():
        if value and name not in known and not (name == "joins" and joins):
            where = value[0] if isinstance(value, list) else value
            at = where if isinstance(where, exp.Expr) else select
            raise source.refuse(_CLAUSES.get(name, f"{name.strip('_').upper()} is not judged here: leave it out"), at)


def read_from_clause(source: SourceText, schema: Schema, select: exp.Select, tables: dict[str, Scope]) -> Scope:
    """FROM and WHERE: the names in reach and the condition on each record."""
    tables = dict(tables)
    for cte in list_with_queries(select):
        if select.args["with_"].args.get("recursive"):
            raise source.refuse("WITH RECURSIVE is not judged", select.args["with_"])
        if not isinstance(cte.this, exp.Select) or cte.args["alias"].args.get("columns"):
            raise source.refuse("WITH takes a simple SELECT of columns here", cte)
        tables[fold_name(cte.alias)] = _read_subquery(source, schema, cte.this, tables)
    first = find_source(select)
    if first is None:
        raise source.refuse(f"there is no FROM: write FROM {quote_name(schema.table)}", select)
    if has_joins(select, schema):
        return _Joins(source, schema, select, tables).read_scope()
    scope, where = _read_source(source, schema, first, tables), find_condition(select)
    return scope if where is None else replace(scope, where=make_and(scope.where, _read_condition(scope, where)))


def _read_condition(scope: Scope, node: exp.Expr) -> Predicate:
    return AggregateReader(scope).read_condition(node)


def _read_source(source: SourceText, schema: Schema, node: exp.Expr, tables: dict[str, Scope]) -> Scope:
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise source.refuse("renaming columns behind an alias is not judged: use AS in a subquery", node)
    for name, value in node.args.items():
        if value and name not in ("this", "db", "catalog", "alias"):
            raise source.refuse(_CLAUSES.get(name, f"{name.upper()} in FROM is not judged: put it in a view"), node)
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        name = node.name
        if schema.table_named(name) is not None and fold_name(name) != fold_name(schema.table):
            raise source.refuse(f"rows of {name} are judged beside the people: join {schema.table}", node)
        qualifiers = frozenset((fold_name(alias.name if alias is not None and alias.name else name),))
        if not node.args.get("db") and fold_name(name) in tables:
            return replace(tables[fold_name(name)], qualifiers=qualifiers)
        parts = name_table(node)
        if schema.strict_table and not schema.is_people(parts):
            raise source.refuse(f"the table here is {schema.table}: write FROM {quote_name(schema.table)}", node)
        if not schema.is_people(parts) and is_file_or_catalog(parts):
            raise source.refuse(
                "it reads a file or a catalog of the engine, whose statistics can show private values: not judged", node
            )
        return Scope(source, schema, qualifiers, table=parts)
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        inner = _read_subquery(source, schema, node.this, tables)
        return replace(inner, qualifiers=frozenset((fold_name(alias.name),)) if alias is not None else frozenset())
    raise source.refuse("FROM takes the one table, or a simple subquery over it: put the rest in a view", node)


def _read_subquery(source: SourceText, schema: Schema, select: exp.Select, tables: dict[str, Scope]) -> Scope:
    """What a subquery passes on: plain or computed columns of some of the records."""
    for name, value in select.args.items():
        if value and name not in _CLAUSES_OF_SUBQUERY:
            what = name.strip("_").upper()
            message = _CLAUSES.get(
                name, f"{what} in a subquery is not judged: write one SELECT over the table, or use a view"
            )
            raise source.refuse(message, value[0] if isinstance(value, list) else value)
    inner = read_from_clause(source, schema, select, tables)
    reader = AggregateReader(inner)
    names: dict[str, Column | DerivedColumn] = {}
    for item in select.expressions:
        node = strip_parentheses(item.unalias())
        if isinstance(node, exp.Star | exp.Column) and node.is_star:
            reader.allow_only(node if isinstance(node, exp.Star) else node.this)
            passed: dict[str, Column | DerivedColumn] = {fold_name(c.name): c for c in schema.columns}
            for name, column in (passed if inner.names is None else inner.names).items():
                names.setdefault(name, column)  # of several columns of a name the engine takes the first
            continue
        if reader.has_aggregate(node):
            raise source.refuse("aggregates in a subquery are not judged: write one SELECT over the table", node)
        if isinstance(node, exp.Column):
            found = inner.resolve(node)
            names.setdefault(fold_name(item.alias or node.name), found)
        elif isinstance(item, exp.Alias):
            reader.touches_private(node)  # refuses unknown names here, where they stand
            names.setdefault(fold_name(item.alias), DerivedColumn(node, inner))
        else:
            raise source.refuse("name this column of the subquery with AS", node)
    return replace(inner, names=names)


INNER, LEFT, SEMI, ANTI = "", "LEFT", "SEMI", "ANTI"
Name = tuple[str, str]  # alias ("" for the table of the people), column


@dataclass(slots=True)
class _JoinedPart:
    """A joined table: how, what its ON says, and what is then asked of one of its rows."""

    alias: str
    related: Related
    how: str
    node: exp.Expr
    on: list[exp.Expr]
    asked: list[Predicate] = field(default_factory=list)
    keys: dict[tuple[str, str], None] = field(default_factory=dict)
    missing: bool = False


def has_joins(select: exp.Select, schema: Schema) -> bool:
    """Does FROM name other tables that were declared?"""
    first = find_source(select)
    other = isinstance(first, exp.Table) and schema.table_named(first.name) is not None
    return schema.several and (other or bool(select.args.get("joins")))


def list_related_tables(select: exp.Query, schema: Schema) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The other tables that a statement names: (name as written, name as declared)."""
    found: dict[tuple[str, ...], str] = {}
    for table in select.find_all(exp.Table):
        related = schema.table_named(table.name)
        if related is not None:
            found[name_table(table)] = related.name
    return tuple(found.items())


class _Joins:
    """FROM, its joins, and WHERE: the names in reach and the condition on each record."""

    def __init__(self, source: SourceText, schema: Schema, select: exp.Select, tables: dict[str, Scope]) -> None:
        self.source, self.schema, self.tables = source, schema, tables
        self.parts: list[_JoinedPart] = []
        self.base: Scope | None = None
        self.pool: list[exp.Expr] = []
        self.add_table(select.args["from_"].this, INNER, [])
        for join in select.args.get("joins") or ():
            self.add_join(join)
        if self.base is None:
            raise source.refuse(
                f"rows of people are judged beside the people: join {schema.table}, or ask from it", select
            )
        self.pool += split_conjunction(find_condition(select))
        dims = tuple(JoinedTable(p.alias, p.related, inner=p.how == INNER) for p in self.parts)
        self.base = replace(self.base, joined=dims)

    def add_join(self, join: exp.Join) -> None:
        for name, value in join.args.items():
            if value and name not in ("this", "on", "using", "side", "kind"):
                raise self.source.refuse(f"{name.upper()} JOIN is not judged: write JOIN ... ON key = key", join)
        side, kind = str(join.args.get("side") or ""), str(join.args.get("kind") or "")
        if side in ("RIGHT", "FULL") or (side == LEFT and kind not in ("", "OUTER")):
            raise self.source.refuse(
                f"{side} JOIN is not judged: begin with {self.schema.table} and use LEFT JOIN", join
            )
        how = LEFT if side == LEFT else kind if kind in (SEMI, ANTI) else INNER
        if how != INNER and self.base is None:
            raise self.source.refuse(
                f"begin with {self.schema.table}: what is left of {how} JOIN decides who is kept", join
            )
        on = split_conjunction(join.args.get("on"))
        for name in join.args.get("using") or ():
            before = (p.alias for p in self.parts if p.related.find(name.name) is not None) if self.base is None else ()
            left = exp.column(name.copy(), table=next(iter(before), None))
            right = exp.column(name.copy(), table=join.this.alias or join.this.name)
            on.append(exp.EQ(this=left, expression=right))
        self.add_table(join.this, how, on)

    def add_table(self, node: exp.Expr, how: str, on: list[exp.Expr]) -> None:
        related = self.schema.table_named(node.name) if isinstance(node, exp.Table) else None
        if related is None or (isinstance(node, exp.Table) and fold_name(node.name) in self.tables):
            if self.base is not None or how != INNER:
                if isinstance(node, exp.Table):
                    raise refuse_unknown_table(self.source, self.schema, node.name, node)
                raise self.source.refuse("a join with a subquery is not judged: use EXISTS, or put it in a view", node)
            if isinstance(node, exp.Table) and self.parts and not self.schema.is_people((node.db, node.name)):
                raise refuse_unknown_table(self.source, self.schema, node.name, node)
            self.base = _read_source(self.source, self.schema, node, self.tables)
            self.pool += on
            return
        alias = fold_name(node.alias or node.name)
        if any(p.alias == alias for p in self.parts):
            raise self.source.refuse(f"two tables are called {alias}: give one another name with AS", node)
        self.parts.append(_JoinedPart(alias, related, how, node, on if how != INNER else []))
        if how == INNER:
            self.pool += on

    # whose column is it

    def find_owner(self, column: exp.Column) -> str:
        """The alias of the table whose column it is; empty for the table of the people."""
        assert self.base is not None
        if column.table:
            named = fold_name(column.table)
            return "" if named in self.base.qualifiers else next((p.alias for p in self.parts if p.alias == named), "")
        mine = self.schema.find(column.name) if self.base.names is None else self.base.names.get(fold_name(column.name))
        if mine is not None:
            return ""
        return next((p.alias for p in self.parts if p.related.find(column.name) is not None), "")

    def find_owners(self, node: exp.Expr) -> set[str]:
        outside = (c for c in node.find_all(exp.Column) if not _in_subquery(c, node))
        return {self.find_owner(column) for column in outside}

    def find_part(self, alias: str) -> _JoinedPart:
        return next(p for p in self.parts if p.alias == alias)

    def read_name(self, column: exp.Column) -> Name:
        """The column that stands in an equality of two tables."""
        assert self.base is not None
        alias = self.find_owner(column)
        if alias == "":
            found = self.base.resolve(column)
            if not isinstance(found, Column):
                raise self.source.refuse("a computed column is no key: equate the column itself", column)
            return "", found.name
        related = self.find_part(alias).related
        own = related.find(column.name)
        if own is None:
            raise self.source.refuse(f"{related.name} has no column {column.name}", column)
        return alias, own.name

    # the condition

    def read_scope(self) -> Scope:
        assert self.base is not None
        base, left = self.base, self.sort_out_keys(self.pool)
        conditions = [base.where]
        for p in self.parts:
            if p.how != INNER:
                self.read_outer(p)
        for part in left:
            conditions += self.read_condition(part)
        for p in self.parts:
            if not p.keys:
                keys = " or ".join(f"{own} = {other}" for own, other in p.related.keys)
                raise self.source.refuse(f"{p.related.name} is joined without its key: equate {keys}", p.node)
            conditions += self.list_conditions(p)
        rows = tuple(
            p.related.name for p in self.parts if not p.related.dimension and p.how in (INNER, LEFT) and not p.missing
        )
        return replace(base, where=make_and(*conditions), multiplied=rows)

    def sort_out_keys(self, pool: list[exp.Expr]) -> list[exp.Expr]:
        """Equalities of keys go to their tables (through others, if need be); the rest is returned."""
        rest, same = [], []
        for part in pool:
            a, b = (part.this, part.expression) if isinstance(part, exp.EQ) else (None, None)
            if isinstance(a, exp.Column) and isinstance(b, exp.Column) and len(self.find_owners(part)) == 2:
                same.append((self.read_name(a), self.read_name(b), part))
            else:
                rest.append(part)
        group: dict[Name, set[Name]] = {}
        for x, y, _ in same:
            merged = group.get(x, {x}) | group.get(y, {y})
            group.update(dict.fromkeys(merged, merged))
        for x, y, node in same:
            mine = next((n for n in sorted(group[x]) if n[0] == ""), None)
            for alias, own in (x, y):
                if alias == "":
                    continue
                related = self.find_part(alias).related
                if mine is None:
                    raise self.source.refuse(f"{own} ties {related.name} to no column of {self.schema.table}", node)
                self.find_part(alias).keys[find_declared_key(self.source, related, own, mine[1], node)] = None
        return rest

    def read_outer(self, p: _JoinedPart) -> None:
        """The ON of a LEFT, SEMI or ANTI join says which rows are meant, never which records are kept."""
        inner = make_row_scope(self.source, p.related, p.alias)
        for part in p.on:
            owners = self.find_owners(part)
            if owners == {"", p.alias} and isinstance(part, exp.EQ):
                names = [self.read_name(c) for c in (part.this, part.expression) if isinstance(c, exp.Column)]
                own = next((n for a, n in names if a == p.alias), "")
                mine = next((n for a, n in names if a == ""), "")
                p.keys[find_declared_key(self.source, p.related, own, mine, part)] = None
            elif owners == {p.alias}:
                if p.related.dimension:
                    raise self.source.refuse(
                        "a condition in the ON of an outer join to a dimension is not judged", part
                    )
                p.asked.append(_read_condition(inner, part))
            else:
                raise self.source.refuse("the ON of this join equates keys and asks about its own rows only", part)

    def read_condition(self, part: exp.Expr) -> list[Predicate]:
        """A condition: on the record (and its dimensions), or on the rows of one other table."""
        assert self.base is not None
        rows = {a for a in self.find_owners(part) if a and not self.find_part(a).related.dimension}
        if not rows:
            return [_read_condition(self.base, part)]
        if len(rows) > 1 or self.find_owners(part) != rows:
            raise self.source.refuse(
                "a condition that mixes columns of two tables is judged only if it equates a key", part
            )
        p = self.find_part(rows.pop())
        if p.how == LEFT and isinstance(part, exp.Is) and isinstance(part.expression, exp.Null):
            self.require_key(p, part)
            p.missing = True
            return []
        if p.how in (SEMI, ANTI):
            raise self.source.refuse(f"behind a {p.how} JOIN the rows of {p.related.name} are out of reach", part)
        condition = _read_condition(make_row_scope(self.source, p.related, p.alias), part)
        if p.how == LEFT:
            require_null_rejected(condition, self.source, part)
            p.how = INNER
        p.asked.append(condition)
        return []

    def require_key(self, p: _JoinedPart, part: exp.Is) -> None:
        column = part.this
        own = p.related.find(column.name) if isinstance(column, exp.Column) else None
        if own is None or own.name not in {a for a, _ in p.keys}:
            raise self.source.refuse(
                "IS NULL behind a LEFT JOIN is judged of the key that is joined on: other columns may be NULL anyway",
                part,
            )

    def list_conditions(self, p: _JoinedPart) -> list[Predicate]:
        """What a joined table asks of a record."""
        if p.related.dimension:
            if set(p.keys) != set(p.related.keys):
                keys = " and ".join(f"{own} = {other}" for own, other in p.related.keys)
                raise self.source.refuse(f"{p.related.name} is joined on a part of its key: equate {keys}", p.node)
            there = make_not(IsNull(f"{p.related.name}.{p.related.keys[0][0]}"))
            if p.how in (SEMI, INNER):
                return [there]
            return [make_not(there)] if p.how == ANTI else []
        where = make_and(*p.asked)
        if p.how == ANTI or p.missing:
            if p.missing and p.how != LEFT:
                raise self.source.refuse(f"{p.related.name} is asked for rows and for none", p.node)
            return [require_no_row(p.related, p.keys, where)]
        return [] if p.how == LEFT else [require_row(p.related, p.keys, where)]


def _in_subquery(column: exp.Column, within: exp.Expr) -> bool:
    node = column.parent
    while node is not None and node is not within:
        if isinstance(node, exp.Select):
            return True
        node = node.parent
    return False
