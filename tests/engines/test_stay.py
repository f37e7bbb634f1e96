"""The private half stays in PostgreSQL: the same verdicts and answers, and the server bars who decides from secrets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.commands import call_command
from tests.support.postgres import Postgres

import keyhole
from keyhole.basis.cells.numbers import Cuts
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.datasets import Source, Use, open_table
from keyhole.engines.base import PrivateTotal
from keyhole.engines.engine import DataUrl
from keyhole.engines.postgres.engine import PostgresEngine
from keyhole.engines.postgres.source import PostgresSource
from keyhole.errors import BookError, ConfigError, DataError
from keyhole.model.predicate import Comparison, IsNull, Membership, make_and, make_not, make_or
from keyhole.model.query import Aggregate, Query, Term

PEOPLE = 400
TABLE = """
DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop;
CREATE TABLE shop.staff (id int PRIMARY KEY, dept text, city text, age int, hired date, pay numeric(10, 2), bonus int);
"""
COLUMNS = (
    '[columns]\nid = ["id"]\n[columns.private.pay]\ndomain = "real"\n[columns.private.bonus]\nmin = 0\nmax = 5000\n'
)


@dataclass(frozen=True)
class World:
    """The table in PostgreSQL, and the two ways to it."""

    server: Postgres
    once: Config
    stay: Config


@pytest.fixture(scope="module")
def world(postgres: Postgres) -> Iterator[World]:
    draw, rows = random.Random(5), []
    for i in range(PEOPLE):
        city = draw.choice(["'Aachen'", "'Bonn'", "'cham'", "'Düren'", "NULL"])
        age = draw.choice([*map(str, range(20, 60)), "NULL"])
        pay = "NULL" if draw.random() < 0.05 else f"{draw.randrange(150_000, 900_000) / 100:.2f}"
        day = f"date '2010-01-01' + {draw.randrange(4000)}"
        rows.append(f"({i}, 'd{draw.randrange(9)}', {city}, {age}, {day}, {pay}, {draw.randrange(5000)})")
    postgres.run(f"{TABLE} INSERT INTO shop.staff VALUES {', '.join(rows)};")
    here = ("--data", postgres.url(), "--table", "shop.staff", "--id", "id", "--private", "pay", "--private", "bonus")
    done = call_command("engine", "setup", *here, "--execute")
    assert done.exit_code == 0, done.output
    once = f"[source]\ndata = '{postgres.url()}'\ntable = 'shop.staff'\n"
    stay = (
        f"[source]\ndata = '{postgres.url('keyhole_roster')}'\nsecrets = '{postgres.url('keyhole_source')}'\n"
        "table = 'shop.staff'\nstay = true\n"
    )
    yield World(postgres, Config.parse(once + COLUMNS), Config.parse(stay + COLUMNS))
    assert call_command("engine", "teardown", "--data", postgres.url(), "--execute").exit_code == 0
    assert postgres.run("SELECT count(*) FROM pg_namespace WHERE nspname = 'keyhole';") == ["0"]
    postgres.run("DROP SCHEMA shop CASCADE; DROP ROLE keyhole_roster, keyhole_source;")


def statements(seed: int, count: int) -> list[str]:
    """Sums, averages, counts, groups and weights under conditions with NULL, IN, BETWEEN, LIKE and dates."""
    draw = random.Random(seed)
    conditions = [
        "dept = 'd1'", "dept IN ('d2', 'd3', 'd7')", "city IS NULL", "city <> 'Bonn'", "age BETWEEN 30 AND 44",
        "age > 58",
        "city LIKE 'c%'", "age / 2 > 20", "NOT (city = 'Aachen' OR age < 33)", "hired < DATE '2015-03-01'",
        "age % 7 = 3", "EXTRACT(year FROM hired) = 2014", "id <> 17", "id > 5",
    ]  # fmt: skip
    items = [
        "SUM(pay)", "AVG(pay)", "SUM(bonus)", "COUNT(*), SUM(bonus)", "COUNT(pay)", "SUM(pay * age)",
        "SUM(bonus + pay)",
        "SUM(pay) / COUNT(*)",
    ]  # fmt: skip
    made = []
    for _ in range(count):
        where = " AND ".join(draw.sample(conditions, draw.choice([1, 1, 2])))
        item = draw.choice(items)
        made.append(f"SELECT {item} FROM staff WHERE {where}")
    made[3] = "SELECT dept, SUM(pay) FROM staff GROUP BY dept"
    made[7] = "SELECT city, dept, AVG(bonus) FROM staff WHERE age > 25 GROUP BY city, dept"
    made[11] = "SELECT dept, SUM(bonus) FROM staff GROUP BY dept HAVING COUNT(*) > 45"
    made[12] = "SELECT SUM(pay) FROM staff WHERE id <> 17 AND dept IN ('d2', 'd3', 'd7')"
    made[13] = "SELECT SUM(pay) FROM staff WHERE dept IN ('d2', 'd3', 'd7')"
    return made


def test_forty_statements_have_the_verdict_that_they_have_from_a_file(world: World) -> None:
    """The same JSON. Where a range was declared, fewer people are shown to be open, since no second table is made."""
    log = statements(1, 40)
    real = COLUMNS.replace("min = 0\nmax = 5000", 'domain = "real"')
    once, stay = (keyhole.examine(log, config=at(world, config, real)) for config in (world.once, world.stay))
    assert once.exposed
    here, there = once.to_json(), stay.to_json()
    assert {name for name in here if there[name] != here[name]} <= {"source"}
    once, stay = (keyhole.examine(log, config=config) for config in (world.once, world.stay))
    assert [(f.who, f.value, f.proof) for f in stay.exposed] == [(f.who, f.value, f.proof) for f in once.exposed]
    assert stay.unjudged == once.unjudged
    assert stay.exit_code == 1


def at(world: World, config: Config, columns: str) -> Config:
    """The same data with other declarations."""
    source = config.source
    secrets = "" if source.secrets is None else f"secrets = '{source.secrets}'\nstay = true\n"
    return Config.parse(f"[source]\ndata = '{source.data}'\ntable = 'shop.staff'\n{secrets}{columns}")


def test_the_same_questions_get_the_same_answers_and_denials(world: World, tmp_path: Path) -> None:
    replies = []
    for name, config in (("once", world.once), ("stay", world.stay)):
        with keyhole.ask(config, book=tmp_path / f"{name}.keyhole") as session:
            replies.append([(r.outcome, r.exact) for r in map(session.ask, DUCKDB_WORDS)])
    assert replies[0] == replies[1]
    assert len({outcome for outcome, _ in replies[0]}) == 2  # some are answered, and some denied


DUCKDB_WORDS = [s.replace("age / 2", "age // 2") for s in statements(2, 40) if "bonus" not in s]


class Watched(PostgresEngine):
    """Keeps every connection that was made, to read its words afterwards."""

    made: list[PostgresEngine] = []  # noqa: RUF012 - emptied by the test

    def __init__(self, url: DataUrl, *, snapshot: bool) -> None:
        super().__init__(url, snapshot=snapshot)
        Watched.made.append(self)


def test_who_decides_never_names_a_secret_and_the_source_reads_after_the_decision(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Watched.made.clear()
    monkeypatch.setattr("keyhole.datasets.public_half.PostgresEngine", Watched)
    with keyhole.ask(world.stay, book=tmp_path / "b.keyhole") as session:
        roster, source = Watched.made
        assert (roster.url.user, source.url.user) == ("keyhole_roster", "keyhole_source")
        total = "SELECT SUM(pay) FROM staff"
        counts = []
        for sql in (total, f"{total} WHERE dept = 'd1' AND id > 3", f"{total} WHERE id <> 17", total):
            before = len(source.words)
            reply = session.ask(sql)
            counts.append((str(reply.outcome), len(source.words) - before))
    outcomes = [outcome for outcome, _ in counts]
    assert [asked > 0 for _, asked in counts] == [True, True, False, False], counts  # denied; answered before
    assert outcomes[0] == outcomes[1] == outcomes[3] != outcomes[2]
    barred = [words for words in roster.words if "secrets" in words]
    assert barred == ["SELECT 1 AS one FROM keyhole.secrets LIMIT 1"]  # it was tried, and refused
    assert len(Watched.made) == 2
    engine = PostgresEngine(DataUrl.parse(world.server.url("keyhole_roster")), snapshot=False)
    try:
        for text in ("keyhole.secrets", "shop.staff"):
            assert engine.state_of(f"SELECT 1 AS one FROM {text} LIMIT 1") == "42501"
    finally:
        engine.close()


def test_a_role_that_can_read_a_secret_does_not_decide(world: World) -> None:
    for user, why in (("postgres", "is a superuser"), ("keyhole_source", "may read keyhole.secrets")):
        bad = Config.parse(
            f"[source]\ndata = '{world.server.url(user)}'\nsecrets = '{world.server.url('keyhole_source')}'\n"
            f"table = 'shop.staff'\nstay = true\n{COLUMNS}"
        )
        with pytest.raises(ConfigError, match=why):
            keyhole.examine(statements(1, 20), config=bad)
        assert call_command("engine", "check", "--data", world.server.url(user), "--private", "pay").exit_code == 2
    world.server.run(
        "GRANT USAGE ON SCHEMA shop TO keyhole_roster; GRANT SELECT (bonus) ON shop.staff TO keyhole_roster;"
    )
    try:
        with pytest.raises(ConfigError, match=r"may read shop\.staff"):
            keyhole.examine(statements(1, 20), config=world.stay)
    finally:
        world.server.run("REVOKE ALL ON shop.staff FROM keyhole_roster; REVOKE ALL ON SCHEMA shop FROM keyhole_roster;")
    checked = call_command("engine", "check", "--data", world.server.url("keyhole_roster"))
    assert (checked.exit_code, "cannot read pay, bonus" in checked.output) == (0, True), checked.output


def test_what_was_set_up_otherwise_is_said(world: World) -> None:
    def fault(toml: str, use: Use = Use.EXACT) -> str:
        with pytest.raises((ConfigError, DataError)) as error, open_table(settings(Config.parse(toml)), use):
            pass
        return str(error.value)

    url, secrets = world.server.url("keyhole_roster"), f"secrets = '{world.server.url('keyhole_source')}'\n"
    start = f"[source]\ndata = '{url}'\ntable = 'shop.staff'\nstay = true\n"
    assert "write secrets" in fault(start + COLUMNS)
    other = COLUMNS.replace("private.bonus", "private.age")
    assert "was set up with bonus, pay as private" in fault(start + secrets + other)
    assert "has no keyhole.people" in fault(
        start.replace("keyhole_roster@/postgres", "keyhole_roster@/template1") + COLUMNS
    )
    assert "stay = true is for data in PostgreSQL" in fault("[source]\ndata = 'x.csv'\nstay = true\n" + COLUMNS)
    assert "leave view" in fault(start + "view = 'SELECT 1'\n" + COLUMNS)
    with pytest.raises(ConfigError, match="stay = true too"):
        Config.parse("[source]\nsecrets = 'postgresql://x@/y'\n")
    narrow = COLUMNS.replace("max = 5000", "max = 100")
    opened = open_table(settings(Config.parse(start + secrets + narrow)), Use.EXACT)
    with opened, pytest.raises(DataError, match="holds a value outside what was declared"):
        opened.whole.tally("0")


def test_values_of_single_people_are_not_asked_for(world: World) -> None:
    with open_table(settings(world.stay), Use.EXACT) as opened:
        source = opened.whole
        for asked in (
            lambda: source.values("pay"), lambda: source.value_counts("pay", 3), lambda: source.value_ends("pay"),
            lambda: source.truths([Comparison("pay", ">", 3)]),
            lambda: source.evaluate(Query(Aggregate.SUM, (Term(None, Comparison("pay", ">", 3)),))),
            lambda: source.evaluate(Query(Aggregate.MEDIAN, (Term("pay"),))),
        ):  # fmt: skip
            with pytest.raises(DataError, match="not computed while the data stay"):
                asked()


# --- a law, with liars ------------------------------------------------------------------------------------------------


def totals_are_those_of_the_values(once: Source, stay: Source) -> None:
    """Every sum, MIN and MAX over classes of records is what the values themselves give."""
    names = [
        Comparison("dept", "=", "d1"),
        IsNull("city"),
        Membership("city", ("Aachen", "cham")),
        Comparison("age", ">", 40),
    ]
    wheres = [*names, make_not(names[2]), make_and(*names[2:]), make_or(names[0], names[1])]
    for column in ("pay", "bonus"):
        for where in wheres:
            here = make_and(where, make_not(IsNull(column)))
            for weight in (None, '"age" - 40'):
                query = Query(Aggregate.SUM, (Term(column, here, Fraction(3, 2), weight),), needs=(here,))
                assert stay.evaluate(query) == once.evaluate(query)
            for extreme in (Aggregate.MIN, Aggregate.MAX):
                query = Query(extreme, (Term(column, here),))
                assert stay.evaluate(query) == once.evaluate(query)
    classes = once.roster.classes(['"dept"']).astype(np.int32)
    weights = {0: Fraction(1), 3: Fraction(-2, 7)}
    for power in (1, 2):
        mine, theirs = (s.sum_over_classes(classes, weights, "pay", power) for s in (stay, once))
        assert mine == theirs
    assert stay.holds('"pay" > 8000 AND "dept" = \'d1\'') == once.holds('"pay" > 8000 AND "dept" = \'d1\'')
    code = Cuts("bonus", Fraction(0), Fraction(10), 500, (0, 100, 250)).code()
    for mine, theirs in zip(
        stay.tallies(code, ['CAST("bonus" AS BIGINT)']), once.tallies(code, ['"bonus"::BIGINT']), strict=True
    ):
        assert sorted(mine.tolist()) == sorted(theirs.tolist())
    assert stay.count_distinct('"city"', '"age" > 30') == once.count_distinct('"city"', '"age" > 30')
    assert stay.count_keys(["city"], '"age" > 30') == once.count_keys(["city"], '"age" > 30')


class LosesTheFirst(PostgresSource):
    """A liar: the join loses a row."""

    def sum_over_classes(self, of: NDArray[np.int32], weights: Any, column: str, power: int) -> PrivateTotal:
        """Without the first record."""
        return super().sum_over_classes(
            np.where(np.arange(len(of)) == 0, -1, of).astype(np.int32), weights, column, power
        )


class CutsWeights(PostgresSource):
    """A liar: it divides whole numbers as PostgreSQL does."""

    def sum_over_classes(self, of: NDArray[np.int32], weights: Any, column: str, power: int) -> PrivateTotal:
        """With weights that were cut."""
        return super().sum_over_classes(of, {c: Fraction(int(w)) for c, w in weights.items()}, column, power)


class IgnoresCase(PostgresSource):
    """A liar: its texts are compared without regard to case."""

    def count_distinct(self, code: str, where: str) -> int:
        """As a collation without case counts them."""
        return super().count_distinct(f"lower(({code}) || 'X')", f"({where}) AND lower({code}) <> 'cham'")


class CountsNull(PostgresSource):
    """A liar: nobody is a group, too."""

    def count_keys(self, columns: Any, where: str) -> list[tuple[tuple[str, ...], int]]:
        """With the row of NULL."""
        return [*super().count_keys(columns, where), (("",), 1)]


def test_totals_law_and_its_liars(world: World) -> None:
    with open_table(settings(world.once), Use.AUDIT) as once, open_table(settings(world.stay), Use.EXACT) as stay:
        source = stay.whole
        assert isinstance(source, PostgresSource)
        totals_are_those_of_the_values(once.whole, source)
        for liar in (LosesTheFirst, CutsWeights, IgnoresCase, CountsNull):
            lying = liar(source._con, source.schema, source._life, source._connect)
            with pytest.raises(AssertionError):
                totals_are_those_of_the_values(once.whole, lying)


def test_rows_of_a_person_are_bounded_in_the_database(world: World) -> None:
    with open_table(settings(world.stay), Use.EXACT) as opened:
        opened.whole.limit_rows_per_person(["dept"], 3, b"key")
        assert opened.whole.tally("0")[1].tolist() == [27]  # nine departments taken for people
        first = opened.whole.tallies("0", ['CAST("bonus" AS BIGINT)'])[2].tolist()
        opened.whole.limit_rows_per_person(["dept"], 3, b"key")
        assert opened.whole.tallies("0", ['CAST("bonus" AS BIGINT)'])[2].tolist() == first


def test_a_changed_value_is_noticed(world: World, tmp_path: Path) -> None:
    book = tmp_path / "b.keyhole"
    with keyhole.ask(world.stay, book=book) as session:
        session.ask("SELECT SUM(pay) FROM staff")
    with keyhole.ask(world.stay, book=book):
        pass
    world.server.run("UPDATE keyhole.secrets SET pay = pay + 1 WHERE keyhole_r = 7;")
    try:
        with pytest.raises(BookError), keyhole.ask(world.stay, book=book):
            pass
    finally:
        world.server.run("UPDATE keyhole.secrets SET pay = pay - 1 WHERE keyhole_r = 7;")


def test_private_answers_are_counted_in_the_database(world: World, tmp_path: Path) -> None:
    listed = ", ".join(f"'d{k}'" for k in range(9))
    domain = f"[columns.public.dept]\nvalues = [{listed}]\n[budget]\nepsilon = 1e6\ndelta = 1e-6\n"
    private = COLUMNS.replace('domain = "real"', "min = 1500\nmax = 9000")
    config = at(world, world.stay, private + domain)
    with keyhole.ask(config, book=tmp_path / "p.keyhole") as session:
        reply = session.ask("SELECT COUNT(*) FROM staff WHERE dept = 'd1'")
    truth = int(world.server.run("SELECT count(*) FROM shop.staff WHERE dept = 'd1';")[0])
    assert str(truth) in str(reply), str(reply)
