"""Rows that belong to nobody, or to two people who may be one: keys and ids that differ by a blank or a capital."""

from __future__ import annotations

from collections.abc import Callable

import duckdb

from keyhole.engines.duckdb.roster import first
from keyhole.model.predicate import held_as, literal, quote_name
from keyhole.model.schema import Kind, Related, Role, Schema


def strays(con: duckdb.DuckDBPyConnection, people: str, schema: Schema, related: Related) -> str:
    """How many rows of a table belong to nobody by any of its keys, for the custodian; empty if all are somebody's.

    A key is quoted only where it is public. Cost: one look-up a row and key.
    """
    table = held_as(related.name)
    nobody = " AND ".join(f"NOT {_matches(own, other, people)}" for own, other in related.keys)
    near = " OR ".join(_matches(own, other, people, _loose) for own, other in _texts(related)) or "FALSE"
    own = related.keys[0][0]
    found = first(
        con,
        f"SELECT count(*), count(*) FILTER (WHERE {nobody}), count(*) FILTER (WHERE {nobody} AND ({near})), "
        f"min({quote_name(own)}::VARCHAR) FILTER (WHERE {nobody} AND ({near})), "
        f"min({quote_name(own)}::VARCHAR) FILTER (WHERE {nobody}) FROM {table} r",
    )
    if not found or not found[1]:
        return ""
    rows, lost, nearly, *examples = found
    said = f"{related.name}: {lost:,} of {rows:,} rows belong to nobody in {schema.table}"
    if nearly:
        said += f"; the key of {nearly:,} differs only by capitals or blanks from one that occurs"
    column = related.find(own)
    example = next((each for each in examples if each is not None), None)
    public = not related.secret and column is not None and not column.secret
    return f"{said} (such as {literal(example)})" if public and example is not None else said


def unmatched(con: duckdb.DuckDBPyConnection, people: str, schema: Schema, related: Related) -> str:
    """How many records have a key that a dimension lacks: a join leaves them out. Cost: a look-up a record."""
    lost = " OR ".join(f"NOT {_matches(other, own, held_as(related.name))}" for own, other in related.keys)
    found = first(con, f"SELECT count(*), count(*) FILTER (WHERE {lost}) FROM {people} r")
    if not found or not found[1]:
        return ""
    named = " and ".join(dict.fromkeys(other for _, other in related.keys))
    lacking = f"{found[1]:,} of {found[0]:,} rows have no row of {related.name} with their {named}"
    return f"{schema.table}: {lacking}; a join leaves them out"


def alike_ids(con: duckdb.DuckDBPyConnection, people: str, schema: Schema) -> str:
    """Which ids differ only by capitals or blanks, for the custodian; empty if none. Cost: one look at each record."""
    ids = list(schema.of_role(Role.ID))
    if not any(column.kind is Kind.TEXT for column in ids):
        return ""
    names = [quote_name(column.name) for column in ids]
    texts = [f"{name}::VARCHAR" for name in names]
    apart = f"SELECT DISTINCT {', '.join(names)} FROM {people} WHERE {' AND '.join(f'{n} IS NOT NULL' for n in names)}"
    said = f"concat_ws(' ', {', '.join(texts)})"
    alike = ", ".join(map(_loose, texts))
    grouped = f"SELECT count(*) AS n, min({said}) AS a, max({said}) AS b FROM ({apart}) GROUP BY {alike}"
    found = first(con, f"SELECT sum(n), min(a), arg_min(b, a) FROM ({grouped}) WHERE n > 1")
    if not found or not found[0]:
        return ""
    many, one, other = found
    listed = " and ".join(column.name for column in ids)
    return (
        f"{many:,} ids ({listed}) differ from another only by capitals or blanks, such as {literal(one)} and "
        f"{literal(other)}: each counts as a person of its own; if they are the same people, mend the data"
    )


def _texts(related: Related) -> list[tuple[str, str]]:
    kinds = {c.name: c.kind for c in related.columns}
    return [(own, other) for own, other in related.keys if kinds.get(own) is Kind.TEXT]


def _same(sql: str) -> str:
    return sql


def _loose(sql: str) -> str:
    return f"lower(trim({sql}))"


def _matches(own: str, other: str, people: str, as_: Callable[[str], str] = _same) -> str:
    """Is the key of a row that of somebody? A row without a key is nobody's."""
    theirs = f"SELECT {as_(quote_name(other))} FROM {people} WHERE {quote_name(other)} IS NOT NULL"
    return f"coalesce({as_('r.' + quote_name(own))} IN ({theirs}), FALSE)"
