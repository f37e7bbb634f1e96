"""Listed values of columns that are no text: what is judged is what the engine answers on the real types."""

from __future__ import annotations

import datetime as dt
import random
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import keyhole
from keyhole.report.verdict import Verdict

NAMES = ["p0", "p1", "p2"]
# values, their type, and constants that an analyst may write for them
COLUMNS: dict[str, tuple[list[Any], pa.DataType, list[str]]] = {
    "1,2,10": ([1, 2, 10], pa.int32(), ["'1'", "'10'", "10", "'10 '", "'010'", "'9'", "9", "2.0", "'3'", "TRUE"]),
    "true,false": ([True, False], pa.bool_(), ["'true'", "'t'", "'1'", "TRUE", "1", "'f'", "'TRUE'", "'false'"]),
    "2020-01-01,2021-01-01": (
        [dt.date(2020, 1, 1), dt.date(2021, 1, 1)],
        pa.date32(),
        ["'2020-01-01'", "'2020-1-1'", "DATE '2020-01-01'", "'2020-06-01'", "'20200101'"],
    ),
    "0.5,1.0,2.5": ([0.5, 1.0, 2.5], pa.float64(), ["'0.5'", "'.5'", "0.5", "1", "'1'", "'1.0'", "'5e-1'"]),
}


def people(values: tuple[Any, ...], type_: pa.DataType) -> pa.Table:
    return pa.table({"name": NAMES, "v": pa.array(values, type_)})


def audited(sql: str, declared: str, data: object, dialect: str = "duckdb") -> Verdict:
    return keyhole.audit([sql], data=data, private=[f"v={declared}"], id="name", table="t", dialect=dialect)


def assert_no_lie(sql: str, declared: str, values: tuple[Any, ...]) -> Verdict:
    """The engine over every table that the declaration allows."""
    domain, type_, _ = COLUMNS[declared]
    verdict = audited(sql, declared, people(values, type_))
    con = duckdb.connect()

    def told(world: tuple[Any, ...]) -> str:
        con.register("t", people(world, type_))
        try:
            return repr(sorted(con.execute(sql).fetchall(), key=repr))
        except duckdb.Error:
            return "fails"

    seen = told(values)
    worlds = [world for world in product(domain, repeat=len(NAMES)) if told(world) == seen]
    known = {n for i, n in enumerate(NAMES) if len({w[i] for w in worlds}) == 1}
    found = {f.who for f in verdict.exposure.findings if str(f.status) == "exposed"}
    assert found <= known, (sql, values)
    if verdict.exit_code == 0:
        assert not known, (sql, values)
    return verdict


@pytest.mark.parametrize(
    ("declared", "condition"),
    [
        ("1,2,10", "v < '9'"),
        ("1,2,10", "v BETWEEN '1' AND '2'"),
        ("1,2,10", "v IN ('10 ')"),
        ("1,2,10", "v = '010'"),
        ("1,2,10", "v LIKE '1%'"),
        ("1,2,10", "NOT v > '2'"),
        ("1,2,10", "CASE WHEN v < '9' THEN TRUE ELSE FALSE END"),
        ("true,false", "v = 't'"),
        ("true,false", "v = '1'"),
        ("2020-01-01,2021-01-01", "v = '2020-1-1'"),
        ("0.5,1.0,2.5", "v = '.5'"),
        ("0.5,1.0,2.5", "v IS DISTINCT FROM '.5'"),
    ],
)
def test_what_means_something_else_as_text_is_not_judged(declared: str, condition: str) -> None:
    domain = COLUMNS[declared][0]
    verdict = assert_no_lie(
        f"SELECT COUNT(*) FROM t WHERE {condition} AND name = 'p0'", declared, (domain[-1], domain[0], domain[0])
    )
    assert verdict.exit_code == 3
    assert "were listed" in verdict.refused[0].error


@pytest.mark.parametrize(
    ("declared", "condition"),
    [
        ("1,2,10", "v = 10"),
        ("1,2,10", "v = '10'"),
        ("1,2,10", "v IN (10)"),
        ("1,2,10", "v NOT IN ('1', 2)"),
        ("true,false", "v"),
        ("true,false", "NOT v"),
        ("true,false", "v = TRUE"),
        ("true,false", "v IS TRUE"),
        ("2020-01-01,2021-01-01", "v = DATE '2021-01-01'"),
        ("0.5,1.0,2.5", "v = '1.0'"),
    ],
)
def test_what_means_the_same_is_judged(declared: str, condition: str) -> None:
    domain = COLUMNS[declared][0]
    sql = f"SELECT COUNT(*) FROM t WHERE {condition} AND name = 'p0'"
    verdict = assert_no_lie(sql, declared, (domain[-1], domain[0], domain[0]))
    assert verdict.exit_code == 1, verdict.refused


def test_groups_of_such_a_column_are_judged() -> None:
    verdict = assert_no_lie("SELECT v, COUNT(*) FROM t WHERE name = 'p0' GROUP BY v", "1,2,10", (10, 1, 1))
    assert [f.who for f in verdict.exposure.findings] == ["p0"]


def test_a_text_file_does_not_say_whether_the_database_holds_numbers(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("name,v,w\np0,10,a\np1,1,b\np2,1,b\n", encoding="utf-8")
    assert audited("SELECT COUNT(*) FROM t WHERE v < '9' AND name = 'p0'", "1,2,10", file).exit_code == 3
    assert audited("SELECT COUNT(*) FROM t WHERE v = '10' AND name = 'p0'", "1,10", file).exit_code == 1
    words = keyhole.audit(
        ["SELECT COUNT(*) FROM t WHERE w < 'b' AND name = 'p0'"], data=file, private=["w=a,b"], id="name", table="t"
    )
    assert words.exit_code == 1  # texts for sure


def test_texts_of_a_database_with_types_are_texts() -> None:
    data = pa.table({"name": NAMES, "v": ["10", "1", "1"]})
    assert audited("SELECT COUNT(*) FROM t WHERE v < '11' AND name = 'p0'", "1,10,2", data).exit_code == 1


def test_the_made_up_table_has_the_type_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second wall: were a comparison of texts read into it, execution would notice."""
    monkeypatch.setattr("keyhole.sql.lowering.condition.read_constant", lambda column, op, value, *place: str(value))
    for sql in ("v < '9'", "v = '010'", "v IN ('10 ')"):
        verdict = audited(f"SELECT COUNT(*) FROM t WHERE {sql}", "1,2,10", people((10, 1, 1), pa.int32()))
        assert verdict.exit_code == 3
        assert not verdict.refused


def _many(seed: int, count: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        declared = rng.choice(list(COLUMNS))
        domain, _, constants = COLUMNS[declared]
        one, two = rng.choice(constants), rng.choice(constants)
        forms = [f"v {op} {one}" for op in ("=", "<>", "<", ">=")] + [f"v IN ({one}, {two})", f"v NOT IN ({one})", "v"]
        condition = rng.choice([*forms, f"v IS NOT DISTINCT FROM {one}", f"(v = {one} OR v = {two})"])
        who = rng.choice((" AND name = 'p0'", " AND name <> 'p2'", ""))
        sql = f"SELECT COUNT(*) FROM t WHERE {condition}{who}"
        if rng.random() < 0.3:
            sql = f"SELECT name, COUNT(*) FROM t WHERE {condition} GROUP BY name"
        assert_no_lie(sql, declared, tuple(rng.choice(domain) for _ in NAMES))


def test_random_comparisons_never_lie() -> None:
    _many(13, 4)


@pytest.mark.soak
def test_many_random_comparisons_never_lie() -> None:
    _many(random.randrange(10**9), 150)
