"""What is proved does not depend on the engine: DuckDB behind the protocol gives a file's verdicts, liars do not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.laws import sources
from tests.support.duckdb_engine import DuckDBEngine, split_there
from tests.support.effort import effort

import keyhole
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.datasets import Use, open_table
from keyhole.engines.engine import Engine
from keyhole.errors import DataError
from keyhole.report.verdict import Verdict

ROLES = '[columns]\nid = ["id"]\n[columns.private.pay]\ndomain = "real"\n[columns.private.bonus]\ndomain = "real"\n'


def make_rows(seed: int, n: int) -> str:
    draw, lines = random.Random(seed), ["id,dept,city,age,hired,pay,bonus"]
    for i in range(n):
        city = draw.choice(["Aachen", "Bonn", "bonn", "cham", ""])
        age = draw.choice([*map(str, range(20, 60)), ""])
        day = f"20{draw.randrange(10, 21)}-0{draw.randrange(1, 10)}-1{draw.randrange(10)}"
        pay = "" if draw.random() < 0.05 else f"{draw.randrange(150_000, 900_000) / 100:.2f}"
        lines.append(f"{i},d{draw.randrange(9)},{city},{age},{day},{pay},{draw.randrange(5000)}")
    return "\n".join(lines)


def make_log(seed: int, count: int) -> list[str]:
    """Sums, averages, counts, groups and weights under conditions with NULL, IN, BETWEEN, LIKE and dates; and pairs."""
    draw = random.Random(seed)
    conditions = [
        "dept = 'd1'", "dept IN ('d2', 'd3', 'd7')", "city IS NULL", "city <> 'Bonn'", "age BETWEEN 30 AND 44",
        "age > 58", "city LIKE 'c%'", "(age + id) / 2 > 120", "NOT (city = 'Aachen' OR age < 33)", "id <> 17", "id > 5",
        "hired < DATE '2015-03-01'", "age % 7 = 3", "EXTRACT(year FROM hired) = 2014", "city = 'bonn'", "age // 3 = 11",
        "id < 200", "id >= 31", "id BETWEEN 9 AND 300", "id <> 90", "id > 120", "id <= 280",
    ]  # fmt: skip
    items = [
        "SUM(pay)", "AVG(pay)", "SUM(bonus)", "COUNT(*), SUM(bonus)", "COUNT(pay)", "SUM(pay * age)",
        "SUM(bonus + pay)", "SUM(pay) / COUNT(*)",
    ]  # fmt: skip
    made = []
    for _ in range(count - 8):
        where = " AND ".join(draw.sample(conditions, draw.choice([1, 1, 2, 3])))
        made.append(f"SELECT {draw.choice(items)} FROM staff WHERE {where}")
    for column, person in (("pay", 17), ("bonus", 31), ("pay", 90)):
        everybody = f"SELECT SUM({column}) FROM staff WHERE city = 'Bonn' OR (age + id) / 2 > 120 OR id = {person}"
        made += [everybody, f"{everybody.replace(f'OR id = {person}', '')}"]
    made.append("SELECT dept, SUM(pay) FROM staff GROUP BY dept HAVING COUNT(*) > 40")
    return [*made, "SELECT city, dept, AVG(bonus) FROM staff WHERE age > 25 GROUP BY city, dept"]


World = Callable[[Callable[[duckdb.DuckDBPyConnection], Engine]], Config]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Config, World]]:
    """The settings of a file, and those of the same table through an engine."""
    file, typed = tmp_path / "staff.csv", tmp_path / "staff.parquet"
    file.write_text(make_rows(5, 400), encoding="utf-8")
    once = Config.parse(f"[source]\ndata = '{typed}'\ntable = 'staff'\n{ROLES}")
    con = duckdb.connect()
    con.execute(f"CREATE TABLE staff AS SELECT * REPLACE (pay::DECIMAL(10, 2) AS pay) FROM read_csv('{file}')")
    con.execute(f"COPY staff TO '{typed}' (FORMAT parquet)")
    with open_table(settings(once), Use.AUDIT) as opened:
        schema = opened.roster.schema

    def through(make: Callable[[duckdb.DuckDBPyConnection], Engine]) -> Config:
        monkeypatch.setattr(
            "keyhole.datasets.public_half.read_staying", lambda *_: split_there(con, "staff", schema, make)
        )
        ways = "data = 'postgresql://roster@/x'\nsecrets = 'postgresql://source@/x'\nstay = true\n"
        return Config.parse(f"[source]\n{ways}table = 'staff'\n{ROLES}")

    yield once, through
    con.close()


def verdicts_are_equal_over_engines(here: Verdict, there: Verdict) -> None:
    """The law: all of the JSON but where the data came from."""
    one, other = here.to_json(), there.to_json()
    assert {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)} <= {"source"}


def examine(config: Config, log: list[str]) -> Verdict:
    return keyhole.audit(log, config=config, dialect="duckdb")


def test_forty_statements_have_the_verdict_of_the_file(world: tuple[Config, World]) -> None:
    once, through = world
    for seed in (1, 2):
        log = make_log(seed, effort(200))
        here, there = examine(once, log), examine(through(DuckDBEngine), log)
        assert here.exposed
        assert not here.unjudged
        verdicts_are_equal_over_engines(here, there)


class DropsNull(DuckDBEngine):
    """A liar: rows without a city are lost."""

    def arrow(self, sql: str) -> Any:
        rows = "(SELECT * FROM keyhole.people WHERE city IS NOT NULL)"
        return super().arrow(
            sql.replace("FROM keyhole.people WHERE", f"FROM {rows} WHERE").replace("city IS NULL", "FALSE")
        )


class IgnoresCase(DuckDBEngine):
    """A liar: its texts are compared without regard to case."""

    def arrow(self, sql: str) -> Any:
        return super().arrow(
            sql.replace("keyhole.people", "(SELECT * REPLACE (lower(city) AS city) FROM keyhole.people)")
        )


class DividesIntegers(DuckDBEngine):
    """A liar: 21 / 2 is 10."""

    def arrow(self, sql: str) -> Any:
        return super().arrow(sql.replace(" / ", " // "))


class LosesNullGroups(DuckDBEngine):
    """A liar: a table joined with a dictionary loses the rows that have no value."""

    def arrow(self, sql: str) -> Any:
        return super().arrow(sql.replace(" LEFT JOIN ", " JOIN ").replace('"city" IS NULL', "FALSE"))


@pytest.mark.parametrize("liar", [DropsNull, IgnoresCase, DividesIntegers, LosesNullGroups])
def test_an_engine_that_lies_is_noticed(world: tuple[Config, World], liar: type[DuckDBEngine]) -> None:
    once, through = world
    log = make_log(1, 40)
    with pytest.raises((AssertionError, DataError)):
        verdicts_are_equal_over_engines(examine(once, log), examine(through(liar), log))


@pytest.mark.parametrize(
    "law",
    [
        sources.support_is_sorted_unique_and_in_range, sources.support_is_who_matches,
        sources.evaluate_is_the_aggregate_over_the_support, sources.atoms_are_direct_evaluation,
    ],
)  # fmt: skip
def test_laws_of_sources_hold_through_the_protocol(law: Callable[[Any], None]) -> None:
    opened = []

    def through(world: Any) -> Any:
        source = world.source()
        con = duckdb.connect()
        con.register("rows", source.connection.sql("SELECT * FROM everything").to_arrow_table())
        con.execute("CREATE TABLE world AS SELECT row_number() OVER () AS place, * FROM rows")
        opened.append(con)
        return split_there(con, "world", source.schema, DuckDBEngine, order="place").source()

    law(through)
    for con in opened:
        con.close()
