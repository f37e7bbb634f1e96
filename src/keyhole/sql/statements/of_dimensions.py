"""Statements that look at dimensions alone, or at no table: public facts, whose answers tell nothing about people."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from keyhole.model.query import Aggregate, Query, Statement, Term
from keyhole.model.schema import Schema
from keyhole.sql.dialects.engines import Dialect
from keyhole.sql.dialects.in_duckdb import in_duckdb
from keyhole.sql.dialects.to_duckdb import Carried
from keyhole.sql.lowering.joins import related_names
from keyhole.sql.statements.scopes import of_with
from keyhole.sql.statements.table_names import reads_nothing_of_people


def of_dimensions(sql: str, dialect: str, schema: Schema) -> Statement | None:
    """A statement that reads dimensions and nothing else, or no table (`SELECT 1`), as a public figure; else None.

    What asks no table has no term: it is judged, and is no all-clear by itself.

    Guarantee: each table in it is a declared dimension or a query of WITH over such, and it calls no function that is
    unknown here (it might read something else). Its own text is in `written`, to be run before it counts. Cost: two
    parses.

    >>> from keyhole.model.schema import Column, Kind, Related
    >>> states = Related("states", (Column("code", Kind.TEXT),), (("code", "state"),), dimension=True, secret=False)
    >>> schema = Schema("people", (Column("state", Kind.TEXT),), related=(states,))
    >>> of_dimensions("SELECT COUNT(*) FROM states", "duckdb", schema).queries[0].aggregate
    <Aggregate.PUBLIC: 'PUBLIC'>
    >>> of_dimensions("SELECT COUNT(*) FROM states JOIN people ON code = state", "duckdb", schema)
    """
    if reads_nothing_of_people(sql, dialect):
        return Statement(sql, (Query(Aggregate.PUBLIC, ()),))
    if not any(related.dimension for related in schema.related):
        return None
    try:
        (tree,) = sqlglot.parse(sql, read="" if dialect == Dialect.UNKNOWN else dialect)
    except (SqlglotError, RecursionError, ValueError, AttributeError, TypeError, IndexError, KeyError):
        return None
    if not isinstance(tree, exp.Query) or tree.find(exp.Anonymous, exp.AnonymousAggFunc, exp.Into) is not None:
        return None
    tables = [table for table in tree.find_all(exp.Table) if not of_with(table)]
    if not tables or not all(_is_dimension(table, schema) for table in tables):
        return None
    asked = Query(Aggregate.PUBLIC, (Term(None, weight="COUNT(*)"),))
    carry = Carried(sql) if dialect == Dialect.DUCKDB else in_duckdb(tree, dialect)
    if carry.reason:
        return None
    return Statement(sql, (asked,), tables=related_names(tree, schema), written=carry.sql)


def _is_dimension(table: exp.Table, schema: Schema) -> bool:
    related = schema.table_named(table.name) if isinstance(table.this, exp.Identifier) else None
    return related is not None and related.dimension
