"""Second aggregations over groups as linear statements: their public divisors are computed by the engine, then read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from keyhole.datasets import Roster
from keyhole.errors import QueryError
from keyhole.model.predicate import quote_name
from keyhole.model.query import Key, Statement
from keyhole.model.schema import WholeTableColumn
from keyhole.sql import Unread, read_statement
from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.rewriting.second_aggregation import SecondAggregation

MAX_DIVISORS = 60  # each is a term of the form
MAX_COLUMNS = 100  # that the engine has computed for a log: each costs a copy of the table


def linear_rows(
    second: SecondAggregation, roster: Roster, compute: Callable[[Sequence[WholeTableColumn]], str]
) -> Statement | None:
    """The statement with a term for each divisor; None if there are too many, or the engine says something else.

    Guarantee: over all public rows and made-up private values both give the same rows. Factors are exact fractions; a
    query whose engine adds rounded numbers up says so (`Query.roundings`).
    """
    columns = (*second.divisors, *second.figures)
    if sum(column.computed for column in roster.schema.columns) + len(columns) > MAX_COLUMNS or compute(columns):
        return None
    divisors = {column.name: _values(column.name, roster) for column in second.divisors}
    if not all(0 < len(values) <= MAX_DIVISORS for values in divisors.values()):
        return None
    text = second.over_records(divisors)
    try:
        found = read_statement(text, Dialect.DUCKDB, roster.schema)
    except (QueryError, Unread):
        return None
    if len(found) != 1 or found[0].certainty or any(query.test is not None for query in found[0].queries):
        return None
    (statement,) = found
    if not roster.give_the_same_rows(statement.table, second.kept.sql(dialect="duckdb"), text):
        return None
    roundings = roster.n if second.rounded else 0
    asked = list(statement.queries)
    for at, shown in enumerate(statement.shown):
        if shown.query is not None:
            label = second.kept.expressions[at].unalias().sql(dialect="duckdb")
            asked[shown.query] = replace(asked[shown.query], label=label, roundings=roundings, item=second.places[at])
    return replace(statement, queries=tuple(asked))


def _values(name: str, roster: Roster) -> list[int]:
    """The values of a public column of whole numbers, without NULL."""
    listed = Statement("", (), keys=(Key(name, quote_name(name), name),), sets=((0,),))
    return sorted(value for key in roster.keys(listed) if isinstance(value := key[name], int) and value > 0)


__all__ = ["linear_rows"]
