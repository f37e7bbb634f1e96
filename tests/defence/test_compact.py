"""Compact queries against their dense twins: same weights, same totals, same sensitivities."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.effort import effort

from keyhole.basis.cells.categories import Categories
from keyhole.basis.cells.domain import Domain
from keyhole.basis.cells.numbers import Range
from keyhole.defence.budget.loss import Neighbours
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery, Place, l1_sensitivity, l2_sensitivity_squared
from keyhole.defence.workload import pose_query, pose_statement
from keyhole.errors import PrivacyParameterError
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql import lower_statement

BOTH: tuple[Neighbours, ...] = ("replace-one", "add-remove")
DOMAIN = Domain(
    (
        Categories("sex", ("F", "M")),
        Range("kids", Fraction(-2), Fraction(3), Fraction(1), Fraction(1)),
        Range("age", Fraction(0), Fraction(99), Fraction(25), Fraction(1)),
        Categories("flag", ("y",), other=False),
    )
)
SCHEMA = Schema(
    "t",
    (
        Column("sex", Kind.TEXT, Role.PRIVATE),
        Column("kids", Kind.INTEGER, Role.PRIVATE),
        Column("age", Kind.INTEGER, Role.PRIVATE),
        Column("flag", Kind.TEXT, Role.PRIVATE),
    ),
)
STATEMENTS = [
    "SELECT sex, COUNT(*) FROM t GROUP BY sex",
    "SELECT flag, COUNT(*), SUM(kids) FROM t GROUP BY flag",
    "SELECT sex, kids, COUNT(*), AVG(kids) FROM t WHERE age < 50 GROUP BY sex, kids",
    "SELECT kids, AVG(age), SUM(age) FROM t WHERE sex = 'F' OR kids > 1 GROUP BY kids",
    "SELECT kids, flag, SUM(kids), COUNT(age) FROM t WHERE sex <> 'F' AND age IS NOT NULL GROUP BY kids, flag",
    "SELECT sex, flag, ROUND(AVG(kids), 1) FROM t GROUP BY ROLLUP (sex, flag)",
    "SELECT sex, COUNT(*) FILTER (WHERE age >= 75), SUM(kids) - COUNT(*) FROM t GROUP BY sex",
    "SELECT sex, COUNT(*) FROM t WHERE sex LIKE 'F%' GROUP BY sex",
]


def _dense(query: LinearQuery) -> LinearQuery:
    return LinearQuery.of(query.weights.astype(np.int64), query.unit)


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("sql", [s for s in STATEMENTS if "LIKE" not in s])
def test_a_group_asks_what_its_condition_asks(sql: str, neighbours: Neighbours) -> None:
    """The twin puts the key into the WHERE of every group and looks at all cells."""
    statement = lower_statement(sql, SCHEMA)
    made = pose_statement(statement, DOMAIN, neighbours)
    assert made.groups
    people = Histogram.of(np.random.default_rng(0).integers(0, 50, DOMAIN.cells), neighbours)
    for key, items in made.groups:
        twins = [pose_query(q, DOMAIN, neighbours) for q in statement.group(dict(key))]
        for item, twin in zip(items, twins, strict=True):
            assert (item.low, item.high, item.middle) == (twin.low, twin.high, twin.middle)
            for total, other in ((item.top, twin.top), (item.bottom, twin.bottom)):
                assert (total is None) == (other is None)
                if total is None or other is None:
                    continue
                assert (total.coefficients, total.each, total.half) == (other.coefficients, other.each, other.half)
                for f, g in zip(total.asked, other.asked, strict=True):
                    assert f.unit == g.unit
                    assert f.weights.tolist() == g.weights.tolist()
                    assert people.total(f) == people.total(_dense(f))


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("sql", STATEMENTS)
def test_the_price_of_a_grouped_question_is_that_of_its_dense_twin(sql: str, neighbours: Neighbours) -> None:
    asked = pose_statement(lower_statement(sql, SCHEMA), DOMAIN, neighbours).asked
    dense = [_dense(q) for q in asked]
    assert l1_sensitivity(asked, neighbours) == l1_sensitivity(dense, neighbours)
    assert l2_sensitivity_squared(asked, neighbours) == l2_sensitivity_squared(dense, neighbours)


def test_a_condition_on_the_key_is_cut_only_where_a_group_is() -> None:
    """LIKE is undecided for undeclared values, which are in no group."""
    question = pose_statement(lower_statement(STATEMENTS[-1], SCHEMA), DOMAIN, "replace-one")
    sizes = [int(q.weights.sum()) for q in question.asked]
    assert sizes == [DOMAIN.cells // 4]  # women; nobody of the men's group can match, so nothing is asked of it


@st.composite
def placed(draw: st.DrawFn) -> list[LinearQuery]:
    shape = tuple(draw(st.lists(st.integers(2, 4), min_size=1, max_size=3)))
    every = list(range(len(shape)))
    made = []
    for _ in range(draw(st.integers(1, 4))):
        unit = draw(st.sampled_from([1, 2, 5, 300]))
        keyed = draw(st.lists(st.sampled_from(every), unique=True))
        keys = tuple((a, draw(st.integers(0, shape[a] - 1))) for a in sorted(keyed))
        axes = tuple(sorted(draw(st.sets(st.sampled_from(every))) - set(keyed)))
        size = math.prod(shape[a] for a in axes)
        weights = draw(st.lists(st.integers(0, unit), min_size=size, max_size=size))
        rest = draw(st.integers(0, unit)) if keys else 0
        made.append(LinearQuery.of(weights, unit, place=Place(shape, axes, keys, rest)))
    return made


@settings(max_examples=effort(300), deadline=None)
@given(queries=placed(), seed=st.integers(0, 100))
def test_compact_equals_dense(queries: list[LinearQuery], seed: int) -> None:
    dense = [_dense(q) for q in queries]
    people = Histogram.of(np.random.default_rng(seed).integers(0, 9, queries[0].cells))
    for f, g in zip(queries, dense, strict=True):
        assert (f.cells, f.ends, f.middle()) == (g.cells, g.ends, g.middle())
        assert people.total(f) == people.total(g)
    for neighbours in BOTH:
        for some, same in ((queries, dense), ([*queries, dense[0]], [*dense, dense[0]])):
            assert l1_sensitivity(some, neighbours) == l1_sensitivity(same, neighbours)
            assert l2_sensitivity_squared(some, neighbours) == l2_sensitivity_squared(same, neighbours)


def test_a_compact_query_is_checked_too() -> None:
    with pytest.raises(PrivacyParameterError, match="one weight for each cell"):
        LinearQuery.of([1, 0], place=Place((2, 3), (1,)))
    with pytest.raises(PrivacyParameterError, match="weights from 0 to 1"):
        LinearQuery.of([1, 0, 1], place=Place((2, 3), (1,), ((0, 1),), 2))


def test_a_question_has_one_form_however_it_is_written() -> None:
    def mark(condition: str) -> str:
        return pose_statement(
            lower_statement(f"SELECT COUNT(*) FROM t WHERE {condition}", SCHEMA), DOMAIN, "replace-one"
        ).fingerprint()

    plain = mark("sex = 'F'")
    assert mark("sex = 'F' AND (age < 50 OR age >= 50 OR age IS NULL)") == plain
    assert mark("sex = 'M'") != plain
