"""COUNT(DISTINCT ...): how many people, or how many different values of a declared column, meet a condition."""

from __future__ import annotations

from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.planner.columns import Partitions
from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import quote_name
from keyhole.model.query import Query


def distinct_of(query: Query, columns: Partitions) -> str:
    """The column whose values are counted: the id, or a declared one. From the statement and the declaration alone."""
    named = query.terms[0].weight or ""
    for name in (*columns.ids, *columns.columns):
        if named == quote_name(name):
            if name in columns.ids and len(columns.ids) > 1:
                raise UnsupportedQuery(f"{query.label}: a person is named by {', '.join(columns.ids)} together")
            return name
    raise UnsupportedQuery(f"{query.label}: different values of the id or of one declared column are counted privately")


def distinct_code(name: str, columns: Partitions) -> str:
    """What is counted, as SQL: the id itself; of a declared column the values that it declares (NULL and others are
    none of them).
    """
    if name in columns.ids:
        return quote_name(name)
    column = columns.of(name)
    if isinstance(column, Cuts):
        return column.point()
    return f"CASE WHEN ({column.code()}) < {len(column.values)} THEN {column.code()} END"
