"""A private column with many values: one condition for each, and no time that grows with the third power of them."""

from __future__ import annotations

import time

from keyhole.model.forms import Unknowns
from keyhole.model.predicate import Comparison
from keyhole.model.prior import Knowledge
from keyhole.model.query import Aggregate, Query, Term
from keyhole.model.schema import Column, Kind, Role, Schema

SCHEMA = Schema("t", (Column("pay", Kind.INTEGER, Role.PRIVATE, nullable=False),))


def seconds(values: int) -> float:
    asked = [Query(Aggregate.SUM, (Term(None, Comparison("pay", "=", value)),)) for value in range(values)]
    start = time.process_time()
    unknowns = Unknowns([term for query in asked for term in query.terms], SCHEMA, Knowledge())
    forms = [unknowns.form(query) for query in asked]
    taken = time.process_time() - start
    assert len({part.feature for form in forms for part in form.top}) == values
    return taken


def test_cells_are_read_once_for_all_conditions() -> None:
    """Four times as many: sixteen times as long, and sixty-four times if each condition were looked up by itself."""
    small = min(seconds(100) for _ in range(3))
    assert seconds(400) < 32 * small
