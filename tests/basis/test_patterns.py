"""Atoms equal direct evaluation: the engine says which predicate is true of which record, one at a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from benchmarks.workload import people, table, workload
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.effort import effort

from keyhole.basis import Atoms
from keyhole.basis.atoms import grouping
from keyhole.basis.atoms import kernels as kernels
from keyhole.basis.bits import unpack
from keyhole.engines.duckdb import codes as patterns_codes
from keyhole.engines.duckdb import patterns
from keyhole.errors import DataError
from keyhole.model.predicate import (
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
    format_predicate,
    make_and,
)
from keyhole.model.schema import Column, Kind, Schema

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
    atoms = patterns.group_records(con, "people", schema, predicates, weights)
    columns: list[list[object]] = []
    for p in predicates:
        columns.append(
            [r[0] for r in con.execute(f"SELECT coalesce({format_predicate(p)}, FALSE) FROM people").fetchall()]
        )
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
    assert atoms.table.shape == (len(predicates), (len(first) + 63) // 64)
    assert atoms.table.dtype == np.uint64
    for p in range(len(predicates)):
        assert unpack(atoms.table[p], atoms.K).tolist() == [columns[p][r] for r in first]
        if len(first) % 64:
            assert int(atoms.table[p, -1]) >> len(first) % 64 == 0
    weighed = [[columns[len(predicates) + j][r] for r in first] for j in range(len(weights))]
    assert [list(found) for found in atoms.weights] == weighed
    return atoms


@pytest.fixture(params=["direct", "large", "wide"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The direct way; the large one; the large one where every range counts as wide."""
    if request.param != "direct":
        monkeypatch.setattr(patterns, "DIRECT", -1)
        monkeypatch.setattr(patterns, "DIRECT_ROWS", 0)
        monkeypatch.setattr(grouping, "DIRECT_ROWS", 0)
    if request.param == "wide":
        monkeypatch.setattr(patterns_codes, "NARROW", 1)
        monkeypatch.setattr(patterns_codes, "DICTIONARY", 3)
        monkeypatch.setattr(patterns_codes, "LOOKUP", 4)
    return str(request.param)


@settings(max_examples=effort(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RECORDS, PREDICATES, WEIGHTS)
def test_atoms_equal_direct_evaluation(
    way: str, records: list[tuple[object, ...]], predicates: list[Predicate], weights: list[str]
) -> None:
    con = build(records)
    check(con, SCHEMA, predicates, weights)


@pytest.mark.parametrize("count", [0, 1, 61, 62, 63, 64, 65, 125, 130])
def test_any_number_of_predicates_fills_its_words(way: str, count: int) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE people AS SELECT (i * 37 % 131)::INTEGER AS age, i % 3 AS g FROM range(200) t(i)")
    schema = Schema("people", (Column("age", Kind.INTEGER), Column("g", Kind.INTEGER)))
    predicates: list[Predicate] = [
        make_and(Comparison("age", ">=", i), Comparison("g", "=", i % 3)) for i in range(count)
    ]
    check(con, schema, predicates, [])
    check(con, schema, predicates, ["g"])


@pytest.mark.parametrize("n", [0, 1])
def test_tables_of_no_and_one_record(way: str, n: int) -> None:
    con = build([(1, None, 0.5, None, "a", True, None, None, None)] * n)
    mixed = And((Or((Comparison("Age", "=", 1), IsNull("v"))), Or((Comparison("score", ">", 2), IsNull("small")))))
    check(con, SCHEMA, [Comparison("Age", "=", 1), mixed, Not(mixed), Like("v", "b%")], ['"Age"'])
    check(con, SCHEMA, [], [])


def test_columns_whose_names_the_engine_or_we_use_ourselves(way: str) -> None:
    con = duckdb.connect()
    con.execute('CREATE TABLE people (c VARCHAR, r VARCHAR, d VARCHAR, t VARCHAR, "ro""w" VARCHAR, b0 INTEGER)')
    con.execute("INSERT INTO people VALUES ('a','b','c','d','e',1), ('b','b','c',NULL,'e',2), ('a','x','c','d','f',9)")
    names = ("c", "r", "d", "t", 'ro"w')
    schema = Schema("people", (*(Column(x, Kind.TEXT) for x in names), Column("b0", Kind.INTEGER)))
    check(con, schema, [*(Comparison(x, "=", "b") for x in names), Comparison("b0", ">", 1)], ["b0"])


def test_texts_that_a_collation_calls_equal_are_told_apart_by_length_and_like(way: str) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE people (name VARCHAR COLLATE NOCASE)")
    con.execute("INSERT INTO people VALUES ('Ann'), ('ann'), ('bob'), ('BOB'), (NULL), ('Cy'), ('dee'), ('eve')")
    schema = Schema("people", (Column("name", Kind.TEXT),))
    check(con, schema, [Comparison("name", "=", "ANN"), Membership("name", ("Bob", "bob"))], [])
    check(con, schema, [Comparison("name", "=", "ANN"), Opaque("name COLLATE \"C\" = 'ann'", frozenset({"name"}))], [])
    check(con, schema, [Opaque("ascii(name) = 97", frozenset({"name"})), Comparison("name", "<", "bob")], [])


NUMERIC = [
    ("BIGINT", ["9007199254740992", "9007199254740993", "9223372036854775807", "-9223372036854775808", "NULL"]),
    ("UBIGINT", ["18446744073709551615", "9007199254740993", "0", "NULL"]),
    ("HUGEINT", ["170141183460469231731687303715884105727", "9007199254740993", "5", "NULL"]),
    ("DECIMAL(18,9)", ["999999999.999999999", "0.000000001", "5", "5.000000001", "NULL"]),
    ("DECIMAL(30,2)", ["9007199254740993.01", "9007199254740993.02", "5", "NULL"]),
    ("DOUBLE", ["9007199254740992", "'nan'", "'inf'", "'-inf'", "5", "5.000000000000001", "NULL"]),
    ("FLOAT", ["16777216", "0.1", "5", "5.0000005", "'nan'", "NULL"]),
    ("TINYINT", ["-128", "127", "5", "NULL"]),
]
CONSTANTS = [
    5,
    9007199254740993,
    Decimal("5.0"),
    Decimal("5.000000000000000000000000000000000000000001"),
    Decimal("4.9999999999999999"),
    Decimal("0.1"),
    Decimal("0.000000001"),
]


@pytest.mark.parametrize(("type_", "values"), NUMERIC)
def test_numbers_at_the_edge_of_their_type(way: str, type_: str, values: list[str]) -> None:
    con = duckdb.connect()
    con.execute(f"CREATE TABLE people (x {type_})")
    con.execute(f"INSERT INTO people VALUES {', '.join(f'(({v})::{type_})' for v in values)}")
    schema = Schema("people", (Column("x", Kind.OTHER),))
    predicates: list[Predicate] = []
    for constant in CONSTANTS:
        for op in ("=", "<", "<=", "<>"):
            p = Comparison("x", op, constant)
            try:
                con.execute(f"SELECT count(*) FROM people WHERE {format_predicate(p)}").fetchall()
            except duckdb.Error:
                continue
            predicates.append(p)
    assert len(predicates) >= 8
    check(con, schema, predicates, [])


def test_moments_without_a_number(way: str) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE people (d DATE, m TIMESTAMP, z TIMESTAMPTZ)")
    con.execute("INSERT INTO people VALUES ('infinity','infinity','infinity'), ('-infinity','-infinity','-infinity')")
    con.execute("INSERT INTO people VALUES ('2020-01-01','2020-01-01 10:00','2020-01-01 10:00+00'), (NULL, NULL, NULL)")
    schema = Schema("people", tuple(Column(c, Kind.OTHER) for c in "dmz"))
    moments = (dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 10))
    check(con, schema, [Comparison(c, op, v) for c in "dmz" for op in ("=", "<", ">=") for v in moments], [])
    check(con, schema, [Comparison(c, ">=", "2020-01-01") for c in "dmz"], [])


def test_constants_that_python_calls_equal_are_asked_apart(way: str) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE people AS FROM (VALUES ('1'), ('1.0'), ('1.00'), ('true')) AS t(x)")
    schema = Schema("people", (Column("x", Kind.TEXT),))
    asked = [Opaque(f"x = '{t}'", frozenset({"x"})) for t in ("1", "1.0", "true")]
    check(con, schema, [*asked, Comparison("x", "=", "1"), Comparison("x", "=", "1.00")], [])
    numbers = duckdb.connect()
    numbers.execute("CREATE TABLE people AS SELECT * FROM (VALUES (TRUE), (FALSE), (NULL)) AS t(x)")
    check(numbers, schema, [Comparison("x", "=", True), Comparison("x", "=", 1), Comparison("x", "=", 0)], [])


def test_weights_are_exact_and_grouped_by_value(way: str) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE people (w DOUBLE, d DECIMAL(18,4), h HUGEINT, f FLOAT)")
    con.execute(
        "INSERT INTO people VALUES (0.1, 0.1, 1, 0.1), (NULL, NULL, NULL, NULL), (0.0, 0, 0, 0), (-0.0, 0, 0, -0.0), "
        "(1e-7, 99999999999999.9999, 170141183460469231731687303715884105727, 1e10), (3, 3, 3, 3)"
    )
    schema = Schema("people", tuple(Column(c, Kind.OTHER) for c in "wdhf"))
    atoms = check(con, schema, [], list("wdhf"))
    assert atoms.of.tolist() == [0, 1, 1, 1, 2, 3]
    assert tuple(atoms.weights[0]) == (Fraction(1, 10), Fraction(0), Fraction(1, 10**7), Fraction(3))
    assert atoms.weights[3][0] == Fraction(1, 10)
    check(con, schema, [Comparison("w", ">", 0)], ["w", "d - 1", "h"])


@pytest.mark.parametrize("value", ["'inf'", "'nan'"])
def test_a_weight_must_be_finite(way: str, value: str) -> None:
    con = duckdb.connect()
    con.execute(f"CREATE TABLE people AS SELECT {value}::DOUBLE AS w")
    with pytest.raises(DataError, match="finite"):
        patterns.group_records(con, "people", Schema("people", (Column("w", Kind.DOUBLE),)), [], ["w"])


def test_keys_of_several_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "DIRECT", -1)
    con = duckdb.connect()
    parts = ", ".join(f"(i * {p} % 1009)::INTEGER AS c{p}" for p in (2, 3, 5, 7, 11, 13, 17, 19))
    con.execute(f"CREATE TABLE people AS SELECT {parts} FROM range(1500) t(i)")
    names = [f"c{p}" for p in (2, 3, 5, 7, 11, 13, 17, 19)]
    schema = Schema("people", tuple(Column(name, Kind.INTEGER) for name in names))
    predicates: list[Predicate] = [Comparison(name, "<", v) for name in names for v in range(0, 1009, 100)]
    check(con, schema, predicates, names)
    assert "keys: 2 word(s)" in patterns.explain_grouping(con, "people", schema, predicates, names)


def test_a_view_or_a_table_with_gaps_goes_the_direct_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "DIRECT", -1)
    con = duckdb.connect()
    con.execute("CREATE TABLE base AS SELECT i AS x, i AS y FROM range(10) t(i)")
    schema = Schema("people", (Column("x", Kind.INTEGER), Column("y", Kind.INTEGER)))
    asked = [Comparison("x", ">", 4), Comparison("y", "=", 2)]
    con.execute("CREATE VIEW people AS SELECT * FROM base")
    check(con, schema, asked, [])
    con.execute("DROP VIEW people; DELETE FROM base WHERE x = 3; ALTER TABLE base RENAME TO people")
    check(con, schema, asked, [])
    assert "direct" in patterns.explain_grouping(con, "people", schema, asked, [])
    con.execute("CREATE OR REPLACE TABLE people AS SELECT 5 - i AS rowid, i AS x FROM range(6) t(i)")
    check(con, schema, [Comparison("x", ">", 4), Comparison("rowid", "=", 2)], [])


def test_a_hash_decides_nothing() -> None:
    """With one hash for all, every class is found by comparison alone."""
    rng = np.random.default_rng(5)
    tables = rng.integers(0, 4, size=(6, 2), dtype=np.uint64)
    at = rng.integers(0, 6, size=(500, 2)).astype(np.int32)
    extra = rng.integers(0, 2, size=(500, 1), dtype=np.uint64)
    full = np.concatenate([tables[at[:, 0]] & tables[at[:, 1]], extra], axis=1)
    expected, first = grouping.distinct_rows(full)
    same = np.zeros(500, np.uint64)
    for of, found in (
        kernels.classes(same, kernels.pattern_leaders, at, tables, extra),
        kernels.classes(same, kernels.row_leaders, full),
    ):
        assert of.tolist() == expected.tolist()
        assert found.tolist() == first.tolist()


@pytest.mark.parametrize("weights", [[], ["grade"]])
def test_a_realistic_log_equals_the_engine_grouping_by_all_booleans(weights: list[str]) -> None:
    n = 60_000
    rows = people(n)
    log = workload(rows, 150)
    con = duckdb.connect()
    table(con, rows)
    predicates = log.predicates
    predicates += [Or((predicates[0], predicates[1])), Not(And((predicates[2], Or((predicates[3], predicates[4])))))]
    predicates.append(Opaque("zip % 100 > age", frozenset({"zip", "age"})))
    schema = Schema("staff", tuple(Column(c, Kind.OTHER) for c in ("age", "zip", "dept", "sex", "grade", "hired")))
    atoms = patterns.group_records(con, "staff", schema, predicates, weights)
    words = [
        "".join(f"((CASE WHEN {format_predicate(p)} THEN 1 ELSE 0 END)::VARCHAR) || " for p in predicates[at : at + 20])
        + "''"
        for at in range(0, len(predicates), 20)
    ]
    listed = ", ".join([*words, *(f"coalesce({w}, 0)::VARCHAR" for w in weights)])
    con.execute(f"CREATE TABLE direct AS SELECT rowid AS r, concat_ws(' ', {listed}) AS k FROM staff")
    truth = con.execute("SELECT min(r) OVER (PARTITION BY k) AS f, k FROM direct ORDER BY r").fetchall()
    assert atoms.first[atoms.of].tolist() == [f for f, _ in truth]
    assert atoms.first.tolist() == sorted({f for f, _ in truth})
    assert np.array_equal(np.bincount(atoms.of), atoms.sizes)
    expected = ["".join(truth[r][1].split(" ")[: len(words)]) for r in atoms.first]
    masks = np.array([unpack(atoms.table[p], atoms.K) for p in range(len(predicates))])
    assert ["".join(column) for column in np.where(masks, "1", "0").T] == expected
    if weights:
        assert tuple(atoms.weights[0]) == tuple(Fraction(truth[r][1].split(" ")[-1]) for r in atoms.first)


def test_explain_names_routes_bits_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE people AS SELECT i AS id, 'name ' || i AS name, (i % 7)::INTEGER AS age, "
        "i / 3.0::DOUBLE AS score, 'g' || i % 5 AS team FROM range(70000) t(i)"
    )
    schema = Schema("people", tuple(Column(c, Kind.OTHER) for c in ("id", "name", "age", "score", "team")))
    predicates: list[Predicate] = [
        Comparison("id", ">", 500),
        Comparison("name", "=", "name 7"),
        And((Comparison("age", "<", 3), Or((Comparison("score", "<", 2), Like("team", "g%"))))),
        Opaque("age > score", frozenset({"age", "score"})),
    ] * 10
    text = patterns.explain_grouping(con, "people", schema, predicates, ["age"])
    routes = {line.split()[0]: line.split()[1] for line in text.splitlines()[2:7]}
    assert routes == {"id": "cuts", "name": "constants", "age": "values", "score": "cuts", "team": "dictionary"}
    assert "10 predicates combine several" in text
    assert "inline: 1 leaves" in text
    assert "weight age: 7 values" in text
    assert "memory: keys 560.0 kB" in text
    check(con, schema, predicates[:4], ["age"])
    assert "direct" in patterns.explain_grouping(duckdb_small(), "people", schema, [Comparison("age", ">", 1)], [])
    monkeypatch.setattr(grouping, "MAX_BYTES", 10)
    with pytest.raises(DataError, match="audit the log in parts"):
        patterns.group_records(con, "people", schema, predicates, [])


def duckdb_small() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("CREATE TABLE people AS SELECT 5 AS age")
    return con


def test_the_pairs_of_the_workload_differ_by_one_person() -> None:
    rows = people(20_000)
    log = workload(rows, 100, pairs=25)
    assert len(log.statements) == 100
    assert len(log.planted) == 25
    con = duckdb.connect()
    table(con, rows)
    atoms = patterns.group_records(con, "staff", Schema("staff", ()), log.predicates, [])
    masks = np.array([unpack(atoms.table[p], atoms.K) for p in range(len(log.predicates))])
    for row in log.planted:
        alone = atoms.of[row]
        assert atoms.sizes[alone] == 1
        with_him = masks[masks[:, alone]].astype(int)
        without = masks[~masks[:, alone]].astype(int)
        assert any(a[alone] - b[alone] == 1 == np.abs(a - b).sum() for a in with_him for b in without)
    for asked in log.statements:
        assert con.execute(asked.sql).fetchall()
