"""Rounded numbers that are compared, and numbers that a DOUBLE hardly holds, against every table of a small grid."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import examine
from keyhole.checker.engine import Engine
from keyhole.checker.replay import Outcome, replay
from keyhole.config import Config
from keyhole.report.documents.json_text import dumps
from keyhole.report.verdict import Verdict

BIG = 9007199254740989
TOML = '[columns]\nid = ["name"]\n[columns.private.x]\nmin = {}\nmax = {}\nstep = {}\nkind = "{}"\n'
NAMES = pa.table({"name": ["p0", "p1"]})


def audited(sql: str, answer: Any, grid: tuple[Any, Any, Any], kind: str) -> Exposure:
    """The verdict on one answer about two people."""
    return examine([(sql, answer)], data=NAMES, config=Config.parse(TOML.format(*grid, kind)))


def consistent(sql: str, answer: Any, grid: tuple[str, str, str], held: str) -> list[tuple[Fraction, ...]]:
    """Every table that the engine gives this answer of."""
    lo, hi, step = map(Fraction, grid)
    values = [lo + step * i for i in range(int((hi - lo) / step) + 1)]
    con, found = duckdb.connect(), []
    for table in product(values, repeat=2):
        rows = ", ".join(
            f"('p{i}', '{v.numerator // v.denominator if v.denominator == 1 else float(v)}'::{held})"
            for i, v in enumerate(table)
        )
        con.execute(f"CREATE OR REPLACE TEMP VIEW t AS SELECT * FROM (VALUES {rows}) AS t(name, x)")
        if con.execute(sql).fetchall() == [(answer,)]:
            found.append(table)
    return found


@pytest.mark.parametrize(
    ("item", "answer"),
    [
        ("FLOOR(SUM(x)) > 5.2", True),
        ("ROUND(AVG(x)) > 2.75", True),
        ("CEIL(SUM(x)) < 0.75", True),
        ("TRUNC(SUM(x)) <= 5.5", False),
        ("ROUND(MEDIAN(x)) > 2.75", True),
        ("ROUND(MIN(x)) >= 2.25", True),
        ("ROUND(AVG(x), 1) >= 2.95", True),
        ("FLOOR(MAX(x)) <= 0", True),
    ],
)
@pytest.mark.parametrize("kind", ["double", "decimal"])
def test_what_a_rounded_comparison_fixes_is_what_every_table_says(item: str, answer: bool, kind: str) -> None:
    sql, grid = f"SELECT {item} FROM t", ("0", "3", "0.5")
    left = consistent(sql, answer, grid, {"double": "DOUBLE", "decimal": "DECIMAL(9,2)"}[kind])
    found = audited(sql, answer, grid, kind)
    fixed = {i: left[0][i] for i in range(2) if len({t[i] for t in left}) == 1}
    assert {f.row: Fraction(str(f.value)) for f in found.exposed}.items() <= fixed.items()
    assert found.exit_code != 0 or not fixed
    assert not found.complete or set(fixed) == {f.row for f in found.exposed}


def test_an_average_beyond_the_digits_of_a_double_fixes_nobody() -> None:
    people = pa.table({"name": ["p0", "p1"], "x": [BIG + 1, BIG + 1]})
    sql = "SELECT AVG(x) FROM t"
    assert len(consistent(sql, float(BIG + 1), (str(BIG), str(BIG + 1), "1"), "BIGINT")) == 3
    found = examine([sql], data=people, config=Config.parse(TOML.format(BIG, BIG + 1, 1, "integer")))
    assert not found.exposed


def test_the_double_of_one_person_is_that_number() -> None:
    found = audited("SELECT SUM(x) FROM t WHERE name = 'p0'", Decimal(BIG + 3), (BIG, BIG + 3, 1), "double")
    assert [f.value for f in found.exposed] == [BIG + 3]


def test_a_sum_in_which_several_numbers_of_the_grid_are_left_is_no_value() -> None:
    log = [("SELECT SUM(x) FROM t", Decimal(2 * BIG + 1)), ("SELECT SUM(x) FROM t WHERE name = 'p0'", Decimal(BIG))]
    found = examine(log, data=NAMES, config=Config.parse(TOML.format(BIG, BIG + 3, 1, "double")))
    assert [f.value for f in found.exposed if f.row == 1] in ([], [BIG + 1])
    assert found.exit_code != 0


def test_what_dust_hides_behind_the_declared_range_is_no_all_clear() -> None:
    people = pa.table({"name": ["p0", "p1", "p2"]})
    log = [
        ("SELECT SUM(x) FROM t", Decimal(3 * BIG + 11)),
        ("SELECT SUM(x) FROM t WHERE name <> 'p0'", Decimal(2 * BIG + 7)),
    ]
    found = examine(log, data=people, config=Config.parse(TOML.format(BIG, BIG + 30, 1, "double")))
    assert not found.exposed
    assert found.exit_code != 0
    assert not found.complete or 0 in [f.row for f in found]


def test_a_quotient_by_a_constant_is_printed_as_a_double() -> None:
    found = audited("SELECT SUM(x) / 7 FROM t WHERE name = 'p1'", 12 / 7, (0, 12, 1), "integer")
    assert (found.contradictions, [f.value for f in found.exposed]) == ((), [12])


def test_a_double_that_is_printed_short_is_on_its_step() -> None:
    people = pa.table({"name": ["p0"], "x": [1000000000000000.25]})
    grid = (1000000000000000, 1000000000000001, 0.25)
    found = examine(["SELECT SUM(x) FROM t"], data=people, config=Config.parse(TOML.format(*grid, "double")))
    assert [f.row for f in found] == [0]
    assert found.exit_code == 1


def test_a_having_that_no_made_up_values_pass_is_looked_up_in_every_table(tmp_path: Path) -> None:
    people = pa.table({"name": ["p0", "p1"], "g": ["a", "b"], "x": [1, 1]})
    pq.write_table(people, tmp_path / "t.parquet")
    sql = "SELECT g, SUM(x) FROM t GROUP BY g HAVING SUM(x) = 1"
    found = examine([sql], data=people, config=Config.parse(TOML.format(0, 2, 1, "integer")))
    said = replay(dumps(Verdict.of(found).to_json()), tmp_path / "t.parquet")
    assert len(found.exposed) == len(said.of(Outcome.HOLDS)) == 2
    assert not said.of(Outcome.FAILS)


def test_made_up_decimals_may_be_large(tmp_path: Path) -> None:
    con = duckdb.connect()
    con.execute(f"COPY (SELECT 'p0' AS name, {BIG}::DECIMAL(20, 1) AS x) TO '{tmp_path / 't.parquet'}'")
    engine = Engine(tmp_path / "t.parquet", {"private": ["x"]})
    engine.fill({"x": [Fraction(BIG)]}, keep=False)
    assert engine.total("x", "true") == BIG
