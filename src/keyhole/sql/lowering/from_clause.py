"""FROM, WITH and WHERE: which names are in reach, and which records are meant."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from keyhole.model.predicate import Predicate, conjunction, quote_name
from keyhole.model.schema import Column, Schema, folded
from keyhole.sql.lowering.aggregate import AggregateReader
from keyhole.sql.lowering.condition import bare
from keyhole.sql.lowering.joins import has_joins, joined_scope
from keyhole.sql.lowering.names import Derived, Scope
from keyhole.sql.statements.parse import SourceText
from keyhole.sql.statements.table_names import is_file_or_catalog

SELECT = ("expressions", "from_", "where", "group", "having", "order", "limit", "offset", "with_")
_INNER = ("expressions", "from_", "where", "with_")
_CLAUSES = {
    "joins": "joins are not judged: put the join in --view (one row per person)",
    "distinct": "SELECT DISTINCT is not judged: the groups of GROUP BY are distinct already",
    "windows": "window functions are not judged: use GROUP BY",
    "qualify": "QUALIFY is not judged: use HAVING",
    "laterals": "LATERAL is not judged: put it in --view",
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


def scope_of(source: SourceText, schema: Schema, select: exp.Select, tables: dict[str, Scope]) -> Scope:
    """FROM and WHERE: the names in reach and the condition on each record."""
    tables = dict(tables)
    with_ = select.args.get("with_")
    if with_ is not None:
        if with_.args.get("recursive"):
            raise source.refuse("WITH RECURSIVE is not judged", with_)
        for cte in with_.expressions:
            if not isinstance(cte.this, exp.Select) or cte.args["alias"].args.get("columns"):
                raise source.refuse("WITH takes a simple SELECT of columns here", cte)
            tables[folded(cte.alias)] = _derived(source, schema, cte.this, tables)
    from_ = select.args.get("from_")
    if from_ is None:
        raise source.refuse(f"there is no FROM: write FROM {quote_name(schema.table)}", select)
    if has_joins(select, schema):
        return joined_scope(
            source, schema, select, lambda node: _from(source, schema, node, tables), _condition, tables
        )
    scope = _from(source, schema, from_.this, tables)
    where = select.args.get("where")
    if where is None:
        return scope
    return replace(scope, where=conjunction(scope.where, AggregateReader(scope).condition(where.this)))


def _condition(scope: Scope, node: exp.Expr) -> Predicate:
    return AggregateReader(scope).condition(node)


def _from(source: SourceText, schema: Schema, node: exp.Expr, tables: dict[str, Scope]) -> Scope:
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise source.refuse("renaming columns behind an alias is not judged: use AS in a subquery", node)
    for name, value in node.args.items():
        if value and name not in ("this", "db", "catalog", "alias"):
            raise source.refuse(_CLAUSES.get(name, f"{name.upper()} in FROM is not judged: put it in --view"), node)
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        name = node.name
        if schema.table_named(name) is not None and folded(name) != folded(schema.table):
            raise source.refuse(f"rows of {name} are judged beside the people: join {schema.table}", node)
        qualifiers = frozenset((folded(alias.name if alias is not None and alias.name else name),))
        if not node.args.get("db") and folded(name) in tables:
            return replace(tables[folded(name)], qualifiers=qualifiers)
        parts = tuple(part for part in (node.catalog, node.db, name) if part)
        if schema.strict_table and not schema.is_people(parts):
            raise source.refuse(f"the table here is {schema.table}: write FROM {quote_name(schema.table)}", node)
        if not schema.is_people(parts) and is_file_or_catalog(parts):
            raise source.refuse(
                "it reads a file or a catalog of the engine, whose statistics can show private values: not judged", node
            )
        return Scope(source, schema, qualifiers, table=parts)
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        inner = _derived(source, schema, node.this, tables)
        return replace(inner, qualifiers=frozenset((folded(alias.name),)) if alias is not None else frozenset())
    raise source.refuse("FROM takes the one table, or a simple subquery over it: put the rest in --view", node)


def _derived(source: SourceText, schema: Schema, select: exp.Select, tables: dict[str, Scope]) -> Scope:
    """What a subquery passes on: plain or computed columns of some of the records."""
    for name, value in select.args.items():
        if value and name not in _INNER:
            what = name.strip("_").upper()
            message = _CLAUSES.get(
                name, f"{what} in a subquery is not judged: write one SELECT over the table, or use --view"
            )
            raise source.refuse(message, value[0] if isinstance(value, list) else value)
    inner = scope_of(source, schema, select, tables)
    reader = AggregateReader(inner)
    names: dict[str, Column | Derived] = {}
    for item in select.expressions:
        node = bare(item.this if isinstance(item, exp.Alias) else item)
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            reader.only(node if isinstance(node, exp.Star) else node.this)
            passed: dict[str, Column | Derived] = {folded(c.name): c for c in schema.columns}
            for name, column in (passed if inner.names is None else inner.names).items():
                names.setdefault(name, column)  # of several columns of a name the engine takes the first
            continue
        if reader.aggregates(node):
            raise source.refuse("aggregates in a subquery are not judged: write one SELECT over the table", node)
        if isinstance(node, exp.Column):
            found = inner.resolve(node)
            names.setdefault(folded(item.alias or node.name), found)
        elif isinstance(item, exp.Alias):
            reader.touches_private(node)  # refuses unknown names here, where they stand
            names.setdefault(folded(item.alias), Derived(node, inner))
        else:
            raise source.refuse("name this column of the subquery with AS", node)
    return replace(inner, names=names)
