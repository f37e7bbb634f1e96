"""The private half stays in PostgreSQL: the same verdicts and answers, and the server bars who decides from secrets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import call_command
from tests.support.effort import effort
from tests.support.postgres import Postgres

import keyhole
from keyhole.basis.cells.numbers import Cuts
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.datasets import Source, Use, open_table
from keyhole.engines.base import PrivateTotal
from keyhole.engines.engine import DataUrl
from keyhole.engines.postgres.engine import PostgresEngine
from keyhole.engines.roster import EngineRoster
from keyhole.engines.source import EngineSource
from keyhole.errors import BookError, ConfigError, DataError, UnsupportedQuery
from keyhole.model.predicate import Comparison, IsNull, Membership, make_and, make_not, make_or
from keyhole.model.query import Aggregate, Query, Term
from keyhole.model.schema import Schema
from keyhole.sql import read
from keyhole.sql.dialects.to_duckdb import Translation

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
    done = call_command("init", "engine", *here, "--run")
    assert done.exit_code == 0, done.output
    once = f"[source]\ndata = '{postgres.url()}'\ntable = 'shop.staff'\n"
    stay = (
        f"[source]\ndata = '{postgres.url('keyhole_roster')}'\nsecrets = '{postgres.url('keyhole_source')}'\n"
        f"probe = '{postgres.url('keyhole_probe', database='keyhole_probe')}'\ntable = 'shop.staff'\nstay = true\n"
    )
    yield World(postgres, Config.parse(once + COLUMNS), Config.parse(stay + COLUMNS))
    assert call_command("init", "engine", "--teardown", "--data", postgres.url(), "--run").exit_code == 0
    assert postgres.run("SELECT count(*) FROM pg_namespace WHERE nspname = 'keyhole';") == ["0"]
    postgres.run("DROP SCHEMA shop CASCADE; DROP ROLE keyhole_roster, keyhole_source, keyhole_probe;")


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
    log = statements(1, effort(200))
    real = COLUMNS.replace("min = 0\nmax = 5000", 'domain = "real"')
    once, stay = (keyhole.audit(log, config=at(world, config, real)) for config in (world.once, world.stay))
    assert once.exposed
    here, there = once.to_json(), stay.to_json()
    assert {name for name in here if there[name] != here[name]} <= {"source"}
    once, stay = (keyhole.audit(log, config=config) for config in (world.once, world.stay))
    assert [(f.who, f.value, f.proof) for f in stay.exposed] == [(f.who, f.value, f.proof) for f in once.exposed]
    assert stay.unjudged == once.unjudged
    assert stay.exit_code == 1


def at(world: World, config: Config, columns: str) -> Config:
    """The same data with other declarations."""
    source = config.source
    secrets = "" if source.secrets is None else f"secrets = '{source.secrets}'\nprobe = '{source.probe}'\nstay = true\n"
    return Config.parse(f"[source]\ndata = '{source.data}'\ntable = 'shop.staff'\n{secrets}{columns}")


def test_the_same_questions_get_the_same_answers_and_denials(world: World, tmp_path: Path) -> None:
    replies = []
    for name, config in (("once", world.once), ("stay", world.stay)):
        with keyhole.session(config, book=tmp_path / f"{name}.keyhole") as session:
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
    with keyhole.session(world.stay, book=tmp_path / "b.keyhole") as session:
        roster, source = Watched.made[:2]
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
    assert [engine.url.user for engine in Watched.made[2:]] == ["keyhole_probe"]
    assert not [words for words in Watched.made[2].words if "secrets" in words or "people" in words]
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
            keyhole.audit(statements(1, 20), config=bad)
        assert (
            call_command("init", "engine", "--check", "--data", world.server.url(user), "--private", "pay").exit_code
            == 2
        )
    world.server.run(
        "GRANT USAGE ON SCHEMA shop TO keyhole_roster; GRANT SELECT (bonus) ON shop.staff TO keyhole_roster;"
    )
    try:
        with pytest.raises(ConfigError, match=r"may read shop\.staff"):
            keyhole.audit(statements(1, 20), config=world.stay)
    finally:
        world.server.run("REVOKE ALL ON shop.staff FROM keyhole_roster; REVOKE ALL ON SCHEMA shop FROM keyhole_roster;")
    checked = call_command("init", "engine", "--check", "--data", world.server.url("keyhole_roster"))
    assert (checked.exit_code, "cannot read pay, bonus" in checked.output) == (0, True), checked.output


WAYS = [
    ("GRANT keyhole_source TO keyhole_roster;", "REVOKE keyhole_source FROM keyhole_roster;",
     "may read keyhole.secrets"),
    ("ALTER ROLE keyhole_roster NOINHERIT; GRANT keyhole_source TO keyhole_roster;",
     "REVOKE keyhole_source FROM keyhole_roster; ALTER ROLE keyhole_roster INHERIT;", "may read keyhole.secrets"),
    ("CREATE VIEW public.v AS SELECT pay AS gehalt FROM shop.staff; GRANT SELECT ON public.v TO PUBLIC;",
     "DROP VIEW public.v;", "may read public.v"),
    ("CREATE FUNCTION public.f() RETURNS SETOF numeric LANGUAGE sql SECURITY DEFINER AS 'SELECT pay FROM shop.staff';",
     "DROP FUNCTION public.f;", "may run public.f"),
    ("GRANT pg_read_server_files TO keyhole_roster;", "REVOKE pg_read_server_files FROM keyhole_roster;",
     "may do what pg_read_server_files may"),
    ("ALTER ROLE keyhole_roster REPLICATION;", "ALTER ROLE keyhole_roster NOREPLICATION;", "may replicate"),
    ("ALTER ROLE keyhole_roster CREATEROLE;", "ALTER ROLE keyhole_roster NOCREATEROLE;", "may hand out roles"),
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=[why for _, _, why in WAYS])
def test_every_way_to_a_secret_is_found(world: World, way: tuple[str, str, str]) -> None:
    grant, revoke, why = way
    words = ("init", "engine", "--check", "--data", world.server.url("keyhole_roster"))
    world.server.run(grant)
    try:
        done = call_command(*words)
        with pytest.raises(ConfigError, match=why), open_table(settings(world.stay), Use.EXACT):
            pass
    finally:
        world.server.run(revoke)
    assert (done.exit_code, why in done.output) == (2, True), done.output
    assert call_command(*words).exit_code == 0


def test_a_split_table_answers_for_no_other_one(world: World) -> None:
    """One of the same columns would be judged by the wrong people."""
    source = f"secrets = '{world.server.url('keyhole_source')}'\nstay = true\n{COLUMNS}"
    for name, right in (("staff", True), ("shop.staff", True), ('SHOP."staff"', True), ("shop.staff2", False)):
        config = Config.parse(f"[source]\ndata = '{world.server.url('keyhole_roster')}'\ntable = '{name}'\n{source}")
        if right:
            with open_table(settings(config), Use.EXACT) as opened:
                assert opened.roster.schema.table == "staff"
        else:
            with pytest.raises(ConfigError, match=r"holds the two halves of shop\.staff"):
                open_table(settings(config), Use.EXACT)
    world.server.run("CREATE TABLE shop.other AS SELECT * FROM shop.staff;")
    done = call_command(
        "init", "engine", "--data", world.server.url(), "--table", "shop.other", "--id", "id", "--private", "pay"
    )
    world.server.run("DROP TABLE shop.other;")
    assert (done.exit_code, "holds the two halves of shop.staff" in done.output) == (2, True), done.output


def test_both_halves_are_read_in_one_state(world: World, tmp_path: Path) -> None:
    """A raise while a session is open is in none of its answers: the difference would tell it."""
    with keyhole.session(world.stay, book=tmp_path / "b.keyhole") as session:
        first = session.ask("SELECT SUM(pay) FROM staff").exact
        world.server.run("UPDATE keyhole.secrets SET pay = pay + 1000 WHERE keyhole_r = 7;")
        try:
            second = session.ask("SELECT SUM(pay) FROM staff WHERE age > 0 OR age IS NULL").exact
        finally:
            world.server.run("UPDATE keyhole.secrets SET pay = pay - 1000 WHERE keyhole_r = 7;")
    assert first == second is not None


def test_a_statement_about_private_values_is_refused_in_one_sentence(world: World) -> None:
    verdict = keyhole.audit(["SELECT COUNT(*) FROM staff WHERE pay > 3000"], config=world.stay)
    (refused,) = verdict.refused
    assert "not computed while the data stay in their database" in str(refused)


def in_engine(world: World, columns: str = "") -> Config:
    real = COLUMNS.replace("min = 0\nmax = 5000", 'domain = "real"')
    config = at(world, world.stay, columns or real)
    return replace(config, source=replace(config.source, decide="engine"))


def test_decisions_in_the_database_are_those_made_here(world: World, tmp_path: Path) -> None:
    """The same outcomes and answers, over two sessions; what it fetches does not grow with the people."""
    here = replace(in_engine(world), source=replace(in_engine(world).source, decide="client"))
    log = [s for s in statements(4, effort(100)) if "age" not in s.partition("FROM")[0]]
    log += ["SELECT SUM(pay) FROM staff", "SELECT SUM(pay) FROM staff WHERE id <> 17"]
    log += ["SELECT SUM(pay), SUM(bonus - pay) FROM staff WHERE id > 7", "SELECT SUM(bonus) FROM staff WHERE id >= 7"]
    log = [s.replace("age / 2", "age // 2") for s in log]
    replies: dict[str, list[tuple[str, object]]] = {"here": [], "there": []}
    for name, config in (("here", here), ("there", in_engine(world))):
        for part in (log[::2], log[1::2]):
            with keyhole.session(config, book=tmp_path / f"{name}.keyhole") as session:
                assert any("below 2^-7" in note for note in session.notes) == (name == "there")
                replies[name] += [(str(r.outcome), r.exact) for r in map(session.ask, part)]
    assert replies["here"] == replies["there"]
    assert {"answered", "deny"} <= {outcome for outcome, _ in replies["there"]}
    with keyhole.session(in_engine(world), book=tmp_path / "there.keyhole") as session:
        weighted = session.ask("SELECT SUM(pay * age) FROM staff")
        assert (str(weighted.outcome), "public weights" in weighted.reason) == ("refused", True)


def test_small_groups_of_a_known_range_are_refused_there_too(world: World, tmp_path: Path) -> None:
    config = in_engine(world, f"{COLUMNS}[online]\nexact_above = 10\n")
    with keyhole.session(config, book=tmp_path / "b.keyhole") as session:
        large, small, mixed = map(
            session.ask,
            ("SELECT SUM(bonus) FROM staff WHERE id > 20", "SELECT SUM(bonus) FROM staff WHERE id < 10",
             "SELECT SUM(2 * bonus) FROM staff WHERE id > 20 AND id < 300"),
        )  # fmt: skip
    assert (str(large.outcome), "remaining risk" in large.reason) == ("answered", True)
    assert (str(small.outcome), "groups of more than 10 people" in small.reason) == ("refused", True), small.reason
    assert str(mixed.outcome) == "answered"


def test_the_secret_numbers_of_people_are_for_the_deciding_role_alone(world: World) -> None:
    engine = PostgresEngine(DataUrl.parse(world.server.url("keyhole_source")), snapshot=False)
    try:
        assert engine.state_of("SELECT keyhole_g1 FROM keyhole.people LIMIT 1") == "42501"
        assert engine.state_of("SELECT pay FROM keyhole.people LIMIT 1") == ""
    finally:
        engine.close()
    [found] = world.server.run(
        "SELECT count(DISTINCT keyhole_g1) > 390, count(DISTINCT keyhole_g2) > 390, count(DISTINCT keyhole_g3) > 390, "
        "min(keyhole_g1) >= 0, max(keyhole_g3) > 2000000000 FROM keyhole.people;"
    )
    assert found == "t|t|t|t|t"
    with open_table(settings(world.stay), Use.EXACT) as opened:
        names = {name for row in opened.roster.probe().sample() for name in row}
        assert not [name for name in names if name.startswith("keyhole_g")]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"online": "[online]\ninsiders = 1\n"}, "insiders = 1"),
        ({"family": 'family = "minmax"\n'}, 'family = "minmax" of'),
    ],
)
def test_what_is_not_decided_in_the_database_is_refused(
    world: World, tmp_path: Path, change: dict[str, str], why: str
) -> None:
    columns = COLUMNS.replace('domain = "real"\n', f'domain = "real"\n{change.get("family", "")}')
    with (
        pytest.raises(ConfigError, match=why),
        keyhole.session(in_engine(world, columns + change.get("online", "")), book=tmp_path / "b.keyhole"),
    ):
        pass


def test_another_version_is_not_decided_in_the_database(world: World, tmp_path: Path) -> None:
    config, book = in_engine(world), tmp_path / "b.keyhole"
    with keyhole.session(config, book=book) as session:
        session.ask("SELECT SUM(pay) FROM staff")
    later = replace(config, source=replace(config.source, version="2"))
    with pytest.raises(BookError, match="earlier version of the data, which is not decided in the"):
        keyhole.session(later, book=book).close()
    with pytest.raises(ConfigError, match="is for data that stay"):
        Config.parse("[source]\ndata = 'x.csv'\ndecide = 'engine'\n")


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


def test_statements_are_run_as_written_by_the_server_that_holds_the_data(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The liar translates age / 2 as DuckDB means it: the server itself says that it means something else."""
    Watched.made.clear()
    monkeypatch.setattr("keyhole.datasets.public_half.PostgresEngine", Watched)
    log = [
        "SELECT SUM(bonus) FROM staff WHERE age / 2 > 20", "SELECT SUM(bonus) FROM shop.staff WHERE age >= 42",
        "SELECT SUM(bonus) FROM staff WHERE EXTRACT(year FROM hired) = 2014 AND city LIKE 'c%'",
    ]  # fmt: skip
    assert not keyhole.audit(log, config=world.stay).unjudged
    by_user = {engine.url.user: engine for engine in Watched.made}
    roster, source, probe = (by_user[f"keyhole_{name}"] for name in ("roster", "source", "probe"))
    assert probe.url.name == "keyhole_probe"
    assert all(any(text == words for words in probe.words) for text in log)
    assert not [words for other in (roster, source) for words in other.words if "age / 2" in words]
    real = read.translate_to_duckdb

    def lying(sql: str, dialect: str, schema: Schema) -> Translation:
        made = real(sql, dialect, schema)
        return replace(made, sql=made.sql.replace("//", "/"))

    monkeypatch.setattr(read, "translate_to_duckdb", lying)
    assert [each.number for each in keyhole.audit(log, config=world.stay).unjudged] == ["1"]


def test_who_runs_statements_as_written_reads_nothing_else(world: World) -> None:
    for user, why in (("postgres", "is a superuser"), ("keyhole_source", "may read keyhole.columns")):
        source = world.stay.source
        bad = Config.parse(
            f"[source]\ndata = '{source.data}'\nsecrets = '{source.secrets}'\nprobe = '{world.server.url(user)}'\n"
            f"table = 'shop.staff'\nstay = true\n{COLUMNS}"
        )
        with pytest.raises(ConfigError, match=why):
            keyhole.audit(statements(1, 20), config=bad)


def test_a_server_that_vanishes_ends_the_audit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real = EngineRoster.atoms

    def vanishing(self: EngineRoster, *given: Any) -> Any:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keyhole_roster';"
        world.server.run(ended)
        return real(self, *given)

    monkeypatch.setattr(EngineRoster, "atoms", vanishing)
    with pytest.raises(DataError, match="the server ended the connection"):
        keyhole.audit(statements(1, 20), config=world.stay)


def test_a_split_table_does_not_change_while_it_is_open(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyhole.datasets.split_tables.WAIT", "SET LOCAL lock_timeout = '100ms'")
    with open_table(settings(world.stay), Use.EXACT) as opened:
        done = call_command("init", "engine", "--teardown", "--data", world.server.url(), "--run")
        assert (done.exit_code, "somebody has the split table open" in done.output) == (2, True), done.output
        assert opened.roster.n == PEOPLE


def test_values_of_single_people_are_not_asked_for(world: World) -> None:
    with open_table(settings(world.stay), Use.EXACT) as opened:
        source = opened.whole
        for asked in (
            lambda: source.values("pay"), lambda: source.value_counts("pay", 3), lambda: source.value_ends("pay"),
            lambda: source.truths([Comparison("pay", ">", 3)]),
            lambda: source.evaluate(Query(Aggregate.SUM, (Term(None, Comparison("pay", ">", 3)),))),
            lambda: source.evaluate(Query(Aggregate.MEDIAN, (Term("pay"),))),
        ):  # fmt: skip
            with pytest.raises(UnsupportedQuery, match="not computed while the data stay"):
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
    questions = [{0: Fraction(1), 3: Fraction(-2, 7)}, {}, {1: Fraction(1)}]
    here, there = (s.roster.atoms(wheres, ['"age" - 40']) for s in (once, stay))
    assert (here.of == there.of).all()
    for power in (1, 2):
        mine = stay.sums_over_atoms(there, questions, "pay", power)
        assert mine == once.sums_over_atoms(here, questions, "pay", power)
    assert stay.holds('"pay" > 8000 AND "dept" = \'d1\'') == once.holds('"pay" > 8000 AND "dept" = \'d1\'')
    code = Cuts("bonus", Fraction(0), Fraction(10), 500, (0, 100, 250)).code()
    for mine, theirs in zip(
        stay.tallies(code, ['CAST("bonus" AS BIGINT)']), once.tallies(code, ['"bonus"::BIGINT']), strict=True
    ):
        assert sorted(mine.tolist()) == sorted(theirs.tolist())
    assert stay.count_distinct('"city"', '"age" > 30') == once.count_distinct('"city"', '"age" > 30')
    assert stay.count_keys(["city"], '"age" > 30') == once.count_keys(["city"], '"age" > 30')


class LosesTheFirst(EngineSource):
    """A liar: the join loses a row."""

    def _joined(self, where: str) -> str:
        """Without the first record."""
        return super()._joined(f"({where}) AND keyhole_r > 0")


class CutsWeights(EngineSource):
    """A liar: it divides whole numbers as PostgreSQL does."""

    def sums_over_atoms(self, atoms: Any, questions: Any, column: str, power: int) -> list[PrivateTotal]:
        """With weights that were cut."""
        cut = [{c: Fraction(int(w)) for c, w in weights.items()} for weights in questions]
        return super().sums_over_atoms(atoms, cut, column, power)


class IgnoresCase(EngineSource):
    """A liar: its texts are compared without regard to case."""

    def count_distinct(self, code: str, where: str) -> int:
        """As a collation without case counts them."""
        return super().count_distinct(f"lower(({code}) || 'X')", f"({where}) AND lower({code}) <> 'cham'")


class CountsNull(EngineSource):
    """A liar: nobody is a group, too."""

    def count_keys(self, columns: Any, where: str) -> list[tuple[tuple[str, ...], int]]:
        """With the row of NULL."""
        return [*super().count_keys(columns, where), (("",), 1)]


def test_totals_law_and_its_liars(world: World) -> None:
    with open_table(settings(world.once), Use.AUDIT) as once, open_table(settings(world.stay), Use.EXACT) as stay:
        source = stay.whole
        assert isinstance(source, EngineSource)
        totals_are_those_of_the_values(once.whole, source)
        for liar in (LosesTheFirst, CutsWeights, IgnoresCase, CountsNull):
            lying = liar(source, source._secrets, source._connect)
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
    with keyhole.session(world.stay, book=book) as session:
        session.ask("SELECT SUM(pay) FROM staff")
    with keyhole.session(world.stay, book=book):
        pass
    world.server.run("UPDATE keyhole.secrets SET pay = pay + 1 WHERE keyhole_r = 7;")
    try:
        with pytest.raises(BookError), keyhole.session(world.stay, book=book):
            pass
    finally:
        world.server.run("UPDATE keyhole.secrets SET pay = pay - 1 WHERE keyhole_r = 7;")


def test_private_answers_are_counted_in_the_database(world: World, tmp_path: Path) -> None:
    listed = ", ".join(f"'d{k}'" for k in range(9))
    domain = f"[columns.public.dept]\nvalues = [{listed}]\n[budget]\nepsilon = 1e6\ndelta = 1e-6\n"
    private = COLUMNS.replace('domain = "real"', "min = 1500\nmax = 9000")
    config = at(world, world.stay, private + domain)
    with keyhole.session(config, book=tmp_path / "p.keyhole") as session:
        reply = session.ask("SELECT COUNT(*) FROM staff WHERE dept = 'd1'")
    truth = int(world.server.run("SELECT count(*) FROM shop.staff WHERE dept = 'd1';")[0])
    assert str(truth) in str(reply), str(reply)
