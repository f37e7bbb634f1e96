"""Conditions and statements on cells against DuckDB on the rows: the brute-force twin."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.effort import effort

from keyhole.basis.cells.base import Cells
from keyhole.basis.cells.categories import Categories
from keyhole.basis.cells.domain import FALSE, NULL, TRUE, Domain
from keyhole.basis.cells.numbers import Range
from keyhole.config import Config
from keyhole.datasets import load
from keyhole.defence.budget.loss import Loss, Neighbours
from keyhole.defence.declared_domain import declare_domain, make_asking_schema
from keyhole.defence.histogram import CountedHistogram, Histogram
from keyhole.defence.mechanisms.base import Release
from keyhole.defence.workload import pose_statement
from keyhole.errors import ConfigError, DataError, UnsupportedQuery
from keyhole.model.predicate import Comparison, Opaque, format_predicate
from keyhole.model.schema import Column, Kind, Schema
from keyhole.sql import lower_statement

CONFIG = Config.parse("""
[columns.public.sex]
values = ["F", "M"]
[columns.public.age]
min = 0
max = 99
width = 10
[columns.public.height]
min = 1.0
max = 2.0
width = 0.25
[columns.public.since]
values = ["2020-01-01", "2021-06-30"]
[columns.private.flag]
values = ["true", "false"]
[columns.private.sugar]
min = 3.0
max = 5.0
step = 0.1
[columns.private.salary]
min = -1000
max = 9000
step = 1
width = 2000
""")
EDGES = [1.0, 1.25, 1.5, 1.75, 2.0]


def table(seed: int = 0, n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(seed)

    def holes(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.1 else v for v in values]

    return pd.DataFrame(
        {
            "sex": holes(rng.choice(["F", "M", "X"], n).tolist()),
            "age": pd.array(holes(rng.integers(-5, 120, n).tolist()), dtype="Int64"),
            "height": holes(rng.choice([*EDGES, 1.1, 1.3, 1.6, 1.9, 0.4, 2.7], n).tolist()),
            "since": holes([dt.date(2020, 1, 1) if rng.random() < 0.5 else dt.date(2021, 6, 30) for _ in range(n)]),
            "flag": pd.array(holes((rng.random(n) < 0.3).tolist()), dtype="boolean"),
            "sugar": holes([round(x, 1) for x in rng.uniform(3, 5, n)]),
            "salary": pd.array(holes(rng.integers(-1000, 9001, n).tolist()), dtype="Int64"),
            "zip": rng.integers(0, 9, n),
        }
    )


@pytest.fixture(scope="module")
def world() -> tuple[Any, Domain, Histogram, Schema]:
    source = load(table(), CONFIG.columns)
    domain = declare_domain(CONFIG.columns, source.schema)
    # the twin asks the clamped column, as the declaration says
    source.connection.execute(
        "CREATE TEMP TABLE clamped AS SELECT * REPLACE (if(age IS NULL, NULL, least(greatest(age, 0), 99)) AS age, "
        "if(height IS NULL, NULL, least(greatest(height, 1.0), 2.0)) AS height) FROM everything"
    )
    histogram = CountedHistogram(source, domain, "replace-one")
    return source, domain, histogram, make_asking_schema(source.schema, domain)


def test_the_histogram_is_the_table(world: Any) -> None:
    source, domain, histogram, _ = world
    assert domain.shape == (4, 11, 5, 4, 3, 22, 7)
    assert histogram.counts.sum() == 400
    cells = source.connection.execute(f"SELECT {domain.code()} FROM everything").fetchall()
    places = np.unravel_index([c[0] for c in cells], domain.shape)
    heights = source.connection.execute("SELECT height FROM clamped").fetchall()
    for (height,), bin_ in zip(heights, places[2], strict=True):
        expected = 4 if height is None else min(int((Fraction(str(height)) - 1) / Fraction(1, 4)), 3)
        assert bin_ == expected
    sugars = source.connection.execute("SELECT sugar FROM everything").fetchall()
    for (sugar,), bin_ in zip(sugars, places[5], strict=True):
        assert bin_ == (21 if sugar is None else round((Fraction(str(sugar)) - 3) * 10))


CONDITIONS = [
    "sex = 'F'",
    "sex <> 'F'",
    "NOT sex = 'F'",
    "sex IN ('F', 'M')",
    "sex NOT IN ('M')",
    "sex IS NULL",
    "sex IS NOT NULL AND NOT (sex = 'M' OR age >= 50)",
    "age BETWEEN 20 AND 39",
    "age < 10 OR age >= 90",
    "age > 49 AND age <= 89",
    "age >= 0",
    "age > 200",
    "height >= 1.25 AND height < 1.75",
    "height < 1.5 OR height IS NULL",
    "NOT (height >= 1.5)",
    "since = DATE '2020-01-01'",
    "since <> DATE '2020-01-01' OR sex = 'M'",
    "flag",
    "NOT flag",
    "flag = TRUE AND sex = 'F'",
    "sugar = 3.1",
    "sugar <> 4.9",
    "sugar IN (3.0, 3.3, 5.0)",
    "sugar > 4.05",
    "sugar BETWEEN 3.2 AND 4.4 AND (sex = 'F' OR flag)",
    "salary >= 1000 AND salary < 5000",
    "salary <= 999 OR sugar < 3.5",
    "(sex = 'F' AND age < 30) OR (sex = 'M' AND age >= 60) OR salary IS NULL",
    "CASE WHEN sex = 'F' THEN age < 50 ELSE age >= 50 END",
    "FALSE",
    "TRUE",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_count_equals_duckdb(world: Any, condition: str) -> None:
    source, domain, histogram, schema = world
    question = pose_statement(
        lower_statement(f"SELECT COUNT(*) FROM t WHERE {condition}", schema), domain, "replace-one"
    )
    (expected,) = source.connection.execute(f"SELECT COUNT(*) FROM clamped WHERE {condition}").fetchone()
    assert value_of(question, histogram) == [[expected]]


def exactly(question: Any, histogram: Histogram, neighbours: Neighbours) -> list[Release]:
    """The true answers in the form of releases: no noise, no bar."""
    nothing = Loss("epsilon", Fraction(0))
    return [
        Release(Fraction(histogram.total(q), q.unit), Fraction(0), 0.05, nothing, Fraction(0), neighbours, "exact")
        for q in question.asked
    ]


def value_of(question: Any, histogram: Histogram, neighbours: Neighbours = "replace-one") -> list[list[Fraction]]:
    n = histogram.public_n if neighbours == "replace-one" else None
    made = question.estimates(exactly(question, histogram, neighbours), n)
    return [[e.value for e in estimates] for _, estimates in made]


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize(
    ("items", "rest"),
    [
        ("COUNT(sugar), SUM(sugar)", "WHERE age < 50"),
        ("SUM(sugar)", ""),
        ("SUM(2 * sugar + 1)", "WHERE sex = 'F' OR sex IS NULL"),
        ("SUM(-sugar)", "WHERE sex = 'F'"),
        ("AVG(sugar)", "WHERE flag"),
        ("AVG(CASE WHEN flag THEN sugar ELSE 1 END)", "WHERE sex = 'F'"),
        ("AVG(CASE WHEN flag THEN -sugar ELSE sugar END)", "WHERE sugar > 4"),
        ("sex, COUNT(*), SUM(sugar)", "WHERE sex IN ('F', 'M') GROUP BY sex ORDER BY sex"),
        ("sex, COUNT(*), AVG(sugar)", "WHERE age >= 20 AND sex IN ('F', 'M') GROUP BY sex ORDER BY sex"),
        ("SUM(CASE WHEN flag THEN sugar ELSE 1 END)", "WHERE height < 1.75"),
        ("COUNT(*) FILTER (WHERE flag), COUNT(*)", "WHERE sugar < 4"),
        ("SUM(sugar * sugar)", "WHERE sex = 'M'"),
    ],
)
def test_sums_of_exact_columns_equal_duckdb(world: Any, items: str, rest: str, neighbours: Neighbours) -> None:
    source, domain, histogram, schema = world
    question = pose_statement(lower_statement(f"SELECT {items} FROM t {rest}", schema), domain, neighbours)
    rows = source.connection.execute(f"SELECT {items} FROM clamped {rest}").fetchall()
    width = len(question.groups[0][1])
    expected = [[Fraction(str(v)) for v in row[-width:]] for row in rows]
    found = value_of(question, histogram, neighbours)
    for got, want in zip(found, expected, strict=True):
        assert [float(g) for g in got] == pytest.approx([float(w) for w in want], rel=1e-12)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_sums_over_bins_are_within_half_a_bin(world: Any, neighbours: Neighbours) -> None:
    source, domain, histogram, schema = world
    n = 400 if neighbours == "replace-one" else None
    for sql in (
        "SELECT SUM(salary) FROM t WHERE age < 50",
        "SELECT AVG(salary) FROM t WHERE sex = 'F'",
        "SELECT AVG(height) FROM t",
        "SELECT SUM(age) FROM t",
    ):
        question = pose_statement(lower_statement(sql, schema), domain, neighbours)
        (truth,) = source.connection.execute(sql.replace("FROM t", "FROM clamped")).fetchone()
        ((_, (made,)),) = question.estimates(exactly(question, histogram, neighbours), n)
        assert made.value is not None
        assert made.bar is not None
        assert 0 < abs(float(made.value) - float(truth)) <= float(made.bar) + 1e-9


def test_every_declared_key_is_returned() -> None:
    config = Config.parse('[columns.public.dept]\nvalues = ["a", "b", "nobody"]\n[columns.public.rank]\nmin=1\nmax=3')
    source = load(pd.DataFrame({"dept": ["a", "b", "b"], "rank": [1, 1, 2]}), config.columns)
    domain = declare_domain(config.columns, source.schema)
    schema = make_asking_schema(source.schema, domain)
    question = pose_statement(
        lower_statement("SELECT dept, rank, COUNT(*) FROM t GROUP BY ROLLUP (dept, rank)", schema),
        domain,
        "replace-one",
    )
    assert len(question.groups) == 9 + 3 + 1
    histogram = CountedHistogram(source, domain, "replace-one")
    found = dict(
        zip([tuple(dict(key).values()) for key, _ in question.groups], value_of(question, histogram), strict=True)
    )
    assert found[("b", 2)] == [1]
    assert found[("nobody", 3)] == [0]
    assert found[("b",)] == [2]
    assert found[()] == [3]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT COUNT(*) FROM t WHERE age < 25", r"cuts through the cell age \[20, 30\)"),
        ("SELECT COUNT(*) FROM t WHERE height > 1.25", r"cuts through the cell height \[1.25, 1.5\)"),
        ("SELECT COUNT(*) FROM t WHERE height = 1.25", "cuts through"),
        ("SELECT COUNT(*) FROM t WHERE height = 3", "3 is outside the domain of 'height': 1 to 2"),
        ("SELECT COUNT(*) FROM t WHERE sugar = 3.05", "outside the domain of 'sugar': 3 to 5 in steps of 0.1"),
        ("SELECT COUNT(*) FROM t WHERE sex = 'Q'", "'Q' is not a declared value of 'sex'; declared are 'F', 'M'"),
        ("SELECT COUNT(*) FROM t WHERE sex LIKE 'F%'", "cuts through the cell sex any other value"),
        ("SELECT COUNT(*) FROM t WHERE zip = 3", "column 'zip' has no declared domain"),
        ("SELECT SUM(zip) FROM t", "column 'zip' has no declared domain"),
        ("SELECT MAX(sugar) FROM t", "COUNT, SUM and AVG"),
        ("SELECT COUNT(*) > 5 FROM t", "compare it yourself"),
        ("SELECT sex, COUNT(*) FROM t GROUP BY sex HAVING COUNT(*) > 5", "HAVING"),
        ("SELECT age, COUNT(*) FROM t GROUP BY age", "cuts through its bins of 10"),
        ("SELECT SUM(age * age) FROM t", "square"),
        ("SELECT SUM(sex = 'F' OR zip > 3) FROM t", "zip"),
    ],
)
def test_refusals_say_why(world: Any, sql: str, reason: str) -> None:
    _, domain, _, schema = world
    with pytest.raises(UnsupportedQuery, match=reason):
        pose_statement(lower_statement(sql, schema), domain, "replace-one")


def test_opaque_conditions_are_refused(world: Any) -> None:
    with pytest.raises(UnsupportedQuery, match="no condition on cells"):
        Cells.all(world[1]).select(Opaque("length(name) > 3", frozenset({"name"})))


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"sugar": [3.05]}, "not on the step that was declared"),
        ({"sugar": [float("nan"), 3.0]}, None),
        ({"sugar": [7.0]}, "outside what was declared"),
        ({"flag": ["true"], "sugar": [3.0]}, None),
    ],
)
def test_data_faults_are_found_at_load(data: dict[str, list[Any]], fault: str | None) -> None:
    config = Config.parse("[columns.private.sugar]\nmin = 3.0\nmax = 5.0\nstep = 0.1")
    frame = pd.DataFrame(data)

    def fill() -> None:
        source = load(frame, config.columns)
        CountedHistogram(source, declare_domain(config.columns, source.schema), "replace-one")

    if fault is None:
        fill()
        return
    with pytest.raises(DataError, match=fault):
        fill()


def test_bad_declarations_are_refused() -> None:
    with pytest.raises(ConfigError, match="min, max, width and step do not make a range"):
        Range("x", Fraction(3), Fraction(1), Fraction(1))
    with pytest.raises(ConfigError, match="multiples of the step"):
        Range("x", Fraction(0), Fraction(10), Fraction(3), Fraction(2))
    with pytest.raises(ConfigError, match="none twice"):
        Categories("x", ("a", "a"))
    with pytest.raises(ConfigError, match="no column has a finite domain"):
        Domain(())
    wide = Range("x", Fraction(0), Fraction(9999), Fraction(1), Fraction(1))
    both = Domain((wide, Range("y", Fraction(0), Fraction(9999), Fraction(1), Fraction(1))))  # may be declared
    with pytest.raises(UnsupportedQuery, match="use wider bins"):
        Cells.all(both)
    with pytest.raises(ConfigError, match="holds text: declare values"):
        declare_domain(
            Config.parse("[columns.public.a]\nmin=0\nmax=9\nwidth=1").columns, Schema("t", (Column("a", Kind.TEXT),))
        )
    with pytest.raises(ConfigError, match="did you mean 'age'"):
        declare_domain(
            Config.parse('[columns.public.agee]\nvalues=["x"]').columns, Schema("t", (Column("age", Kind.TEXT),))
        )


def test_a_declaration_finds_its_column_in_any_case() -> None:
    domain = declare_domain(
        Config.parse("[columns.public.AGE]\nmin=0\nmax=9").columns, Schema("t", (Column("age", Kind.INTEGER),))
    )
    assert [c.name for c in domain.columns] == ["age"]


def test_null_presence_changes_no_question() -> None:
    """A column that happens to hold no NULL is asked exactly like one that does: same queries, same price."""
    config = Config.parse("[columns.private.sugar]\nmin = 3\nmax = 5\nstep = 1")
    prints = []
    for values in ([3, 4, 5], [3, None, 5]):
        source = load(pd.DataFrame({"sugar": pd.array(values, dtype="Int64")}), config.columns)
        domain = declare_domain(config.columns, source.schema)
        schema = make_asking_schema(source.schema, domain)
        prints.append(
            [
                pose_statement(lower_statement(sql, schema), domain, "replace-one").fingerprint()
                for sql in ("SELECT COUNT(sugar) FROM t", "SELECT AVG(sugar) FROM t", "SELECT SUM(sugar) FROM t")
            ]
        )
    assert prints[0] == prints[1]


# --- drawn conditions ---------------------------------------------------------------------------------------------

NUMBERS = st.sampled_from(["0", "1", "1.5", "2", "2.5", "3", "4", "7"])
LEAVES = st.one_of(
    st.builds("a {} {}".format, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), NUMBERS),
    st.builds("b {} {}".format, st.sampled_from(["<", "<=", ">", ">=", "="]), NUMBERS),
    st.builds("c {} '{}'".format, st.sampled_from(["=", "<>"]), st.sampled_from(["x", "y"])),
    st.sampled_from(["a IS NULL", "b IS NOT NULL", "c IS NULL", "c IN ('x', 'y')", "a IN (0, 2)", "NULL"]),
)
CONDITIONS_DRAWN = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
        st.builds("(({}) IS TRUE)".format, inner),
    ),
    max_leaves=6,
)
SMALL = Domain(
    (
        Range("a", Fraction(0), Fraction(3), Fraction(1), Fraction(1)),
        Range("b", Fraction(0), Fraction(4), Fraction(2)),
        Categories("c", ("x", "y")),
    )
)
SMALL_SCHEMA = make_asking_schema(
    Schema("t", (Column("a", Kind.INTEGER), Column("b", Kind.DOUBLE), Column("c", Kind.TEXT))), SMALL
)
CON = duckdb.connect(":memory:")
CON.execute(
    "CREATE TABLE t AS SELECT * FROM (SELECT unnest([0, 1, 2, 3, NULL]) AS a), "
    "(SELECT unnest([0.0, 0.5, 1.0, 1.5, 1.9, 2.0, 2.5, 3.0, 4.0, NULL]::DOUBLE[]) AS b), "
    "(SELECT unnest(['x', 'y', 'z', NULL]) AS c)"
)


@settings(max_examples=effort(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(condition=CONDITIONS_DRAWN)
def test_truth_sets_hold_what_every_record_says(condition: str) -> None:
    """For each record, DuckDB's truth is in the set of its cell; and an accepted condition selects exactly."""
    try:
        where = lower_statement(f"SELECT COUNT(*) FROM t WHERE {condition}", SMALL_SCHEMA).where
        said = np.broadcast_to(Cells.all(SMALL).truths(where), SMALL.shape).ravel()
    except UnsupportedQuery:
        return
    rows = CON.execute(f"SELECT {SMALL.code()} AS cell, ({format_predicate(where)}) FROM t").fetchall()
    for cell, truth in rows:
        bit = NULL if truth is None else TRUE if truth else FALSE
        assert int(said[cell]) & bit, f"{condition} on {SMALL.describe(cell)}"
    try:
        kept = np.broadcast_to(Cells.all(SMALL).select(where), SMALL.shape).ravel()
    except UnsupportedQuery:
        return
    for cell, truth in rows:
        assert bool(kept[cell]) == (truth is True)


def test_a_literal_of_another_kind_is_refused() -> None:
    with pytest.raises(UnsupportedQuery, match="is a number and 'x' is not"):
        Cells.all(SMALL).select(Comparison("a", "=", "x"))
    with pytest.raises(UnsupportedQuery, match="kinds differ"):
        Cells.all(SMALL).select(Comparison("c", "<", Decimal(3)))
