"""Atoms equal direct evaluation: the engine says which predicate is true of which record, one at a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyhole.evidence import Atoms
from keyhole.predicate import (
    FALSE,
    NULL,
    TRUE,
    And,
    Comparison,
    IsNull,
    IsTrue,
    Like,
    Membership,
    Not,
    Opaque,
    Or,
    Predicate,
    to_sql,
)
from keyhole.schema import Column, Kind, Schema
from keyhole.sources import patterns, patterns_codes

SCHEMA = Schema(
    "people",
    (
        Column("Age", Kind.INTEGER),
        Column("pay grade", Kind.DECIMAL),
        Column("score", Kind.DOUBLE),
        Column("small", Kind.DOUBLE),
        Column("v", Kind.TEXT),
        Column("sex", Kind.BOOLEAN),
        Column("hired", Kind.DATE),
        Column("seen", Kind.TIMESTAMP),
        Column("u", Kind.TEXT),
    ),
)
TYPES = ("INTEGER", "DECIMAL(9,2)", "DOUBLE", "FLOAT", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "UUID")
UUIDS = [f"00000000-0000-0000-0000-00000000000{i}" for i in range(4)]
INTS = st.integers(-3, 6)
DECIMALS = st.sampled_from([Decimal(t) for t in ("-1.00", "0.00", "0.10", "0.105", "2.5", "3.14")])
DOUBLES = st.sampled_from([0.1, 0.30000000000000004, 0.3, -0.0, 0.0, 1e300, 2.5, float("inf")])
TEXTS = st.sampled_from(["", "a", "A", "ab", "b%", "O'Neil", "é", "zz"])
DATES = st.dates(dt.date(2019, 12, 30), dt.date(2020, 1, 3))
MOMENTS = st.builds(dt.datetime.combine, DATES, st.sampled_from([dt.time(), dt.time(12), dt.time(23, 59, 59, 999999)]))
VALUES = (
    INTS,
    DECIMALS.map(lambda d: d.quantize(Decimal("0.01"))),
    DOUBLES,
    DOUBLES.filter(lambda d: d < 1e30),  # also a weight, so finite
    TEXTS,
    st.booleans(),
    DATES,
    MOMENTS,
    st.sampled_from(UUIDS),
)
RECORDS = st.lists(st.tuples(*(st.none() | value for value in VALUES)), min_size=1, max_size=12)
NUMBERS = INTS | DECIMALS | st.sampled_from([Decimal("0.3"), Decimal("0.30000000000000004"), 10**20])
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


def _leaves() -> st.SearchStrategy[Predicate]:
    found: list[st.SearchStrategy[Predicate]] = []
    for name, constants in (
        ("Age", NUMBERS),
        ("pay grade", NUMBERS),
        ("score", NUMBERS),
        ("small", NUMBERS),
        ("v", TEXTS),
        ("sex", st.booleans()),
        ("hired", DATES | MOMENTS),
        ("seen", DATES | MOMENTS),
        ("u", st.sampled_from(UUIDS)),
    ):
        found.append(st.builds(Comparison, st.just(name), OPERATORS, constants))
        found.append(st.builds(Membership, st.just(name), st.lists(constants, min_size=1, max_size=3).map(tuple)))
        found.append(st.just(IsNull(name)))
    found.append(st.builds(Like, st.just("v"), st.sampled_from(["a%", "_", "%", "A_"]), st.booleans()))
    found.append(
        st.sampled_from(
            [
                Opaque('"Age" > "score"', frozenset({"Age", "score"})),
                Opaque('length(v) = "Age"', frozenset({"v", "Age"})),
                Opaque('"Age" % 2 = 0', frozenset({"Age"})),
                Opaque("floor(score) = 0", frozenset({"score"})),
                Opaque("upper(v) = 'A'", frozenset({"v"})),
                Opaque('nullif("Age", 2) > 1', frozenset({"Age"})),
                Opaque("month(hired) = 1", frozenset({"hired"})),
                Opaque("hour(seen) = 12", frozenset({"seen"})),
                TRUE,
                FALSE,
                NULL,
            ]
        )
    )
    return st.one_of(found)


def _grow(part: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    several = st.lists(part, min_size=2, max_size=3).map(tuple)
    return st.builds(And, several) | st.builds(Or, several) | st.builds(Not, part) | st.builds(IsTrue, part)


PREDICATES = st.lists(st.recursive(_leaves(), _grow, max_leaves=6), max_size=8)
WEIGHTS = st.lists(
    st.sampled_from(['"Age"', '"pay grade"', '"Age" * 0.5', "length(v)", "small", "CASE WHEN sex THEN 0.0 ELSE 1 END"]),
    max_size=2,
)


def build(records: Sequence[tuple[object, ...]]) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    listed = ", ".join(f'"{c.name}" {t}' for c, t in zip(SCHEMA.columns, TYPES, strict=True))
    con.execute(f"CREATE TABLE people ({listed})")
    if records:
        con.executemany(f"INSERT INTO people VALUES ({', '.join('?' * len(TYPES))})", [list(r) for r in records])
    return con


def check(
    con: duckdb.DuckDBPyConnection, schema: Schema, predicates: Sequence[Predicate], weights: Sequence[str]
) -> Atoms:
    """`group` against one statement of the engine for each predicate and weight."""
    atoms = patterns.group(con, "people", schema, predicates, weights)
    columns: list[list[object]] = []
    for p in predicates:
        columns.append([r[0] for r in con.execute(f"SELECT coalesce({to_sql(p)}, FALSE) FROM people").fetchall()])
    for w in weights:
        texts = con.execute(f"SELECT coalesce(({w})::VARCHAR, '0') FROM people").fetchall()
        columns.append([Fraction(Decimal(r[0])) for r in texts])
    row = con.execute("SELECT count(*) FROM people").fetchone()
    assert row is not None
    n = int(row[0])
    seen: dict[tuple[object, ...], int] = {}
    first: list[int] = []
    of = []
    for r in range(n):
        key = tuple(column[r] for column in columns)
        if key not in seen:
            seen[key] = len(seen)
            first.append(r)
        of.append(seen[key])
    assert atoms.of.tolist() == of
    assert atoms.first.tolist() == first
    assert atoms.sizes.tolist() == [of.count(k) for k in range(len(first))] if n < 1000 else True
    assert (atoms.of.dtype, atoms.sizes.dtype, atoms.first.dtype) == (np.int32, np.int64, np.int64)
    assert atoms.bits.shape == (len(predicates), (len(first) + 63) // 64)
    assert atoms.bits.dtype == np.uint64
    for p in range(len(predicates)):
        assert atoms.mask(p).tolist() == [columns[p][r] for r in first]
        if len(first) % 64:
            assert int(atoms.bits[p, -1]) >> len(first) % 64 == 0
    assert atoms.weights == tuple(tuple(columns[len(predicates) + j][r] for r in first) for j in range(len(weights)))
    return atoms


@pytest.fixture(params=["direct", "large", "wide"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The direct way; the large one; the large one where every range counts as wide."""
    if request.param != "direct":
        monkeypatch.setattr(patterns, "DIRECT", -1)
        monkeypatch.setattr(patterns, "DIRECT_ROWS", 0)
    if request.param == "wide":
        monkeypatch.setattr(patterns_codes, "NARROW", 1)
        monkeypatch.setattr(patterns_codes, "DICTIONARY", 3)
        monkeypatch.setattr(patterns_codes, "LOOKUP", 4)
    return str(request.param)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RECORDS, PREDICATES, WEIGHTS)
def test_atoms_equal_direct_evaluation(
    way: str, records: list[tuple[object, ...]], predicates: list[Predicate], weights: list[str]
) -> None:
    con = build(records)
    check(con, SCHEMA, predicates, weights)
