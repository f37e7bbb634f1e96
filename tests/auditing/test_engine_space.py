"""Decisions made in the engine of the data are those of the row space that holds a bit a person."""

from __future__ import annotations

import copy
import random
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest
from tests.support.duckdb_engine import DuckDBEngine
from tests.support.effort import effort

from keyhole.auditing.online.engine_space import AskedRow, EngineSpace, bound_false_allow
from keyhole.errors import UnsupportedQuery
from keyhole.model.forms import Part
from keyhole.model.predicate import Comparison, Membership, Predicate, make_and, make_or
from keyhole.solve.rowspace.online import OnlineRowSpace

PEOPLE = 800


def make_people(seed: int) -> duckdb.DuckDBPyConnection:
    con, lane = duckdb.connect(), "(random() * 2147483647)::INTEGER"
    con.execute("CREATE SCHEMA keyhole")
    con.execute(f"SELECT setseed({seed / 1000})")
    con.execute(
        "CREATE TABLE keyhole.people AS SELECT i AS keyhole_r, 'd' || (i * 7 % 9) AS dept, "
        "CASE WHEN i % 11 = 0 THEN NULL ELSE 20 + i * 31 % 45 END AS age, i * 13 % 17 AS team, "
        f"{lane} AS keyhole_g1, {lane} AS keyhole_g2, {lane} AS keyhole_g3 FROM range({PEOPLE}) t(i)"
    )
    return con


def draw_rows(seed: int, count: int) -> list[AskedRow]:
    """Sums under one to three conditions, mixtures of two, and in every fifth an earlier one without a person."""
    draw, made, conditions = random.Random(seed), [], list[Predicate]()

    def condition() -> Predicate:
        which = draw.randrange(4)
        if which == 0:
            return Comparison("dept", "=", f"d{draw.randrange(9)}")
        if which == 1:
            return Membership("team", tuple(sorted(draw.sample(range(17), 3))))
        return Comparison("age", draw.choice(["<", ">=", "="]), draw.randrange(20, 65))

    for i in range(count):
        if i % 5 == 4:
            base, person = draw.choice(conditions), draw.randrange(PEOPLE)
            where = draw.choice([make_and, make_or])(base, Comparison("keyhole_r", draw.choice(["=", "<>"]), person))
        else:
            where = draw.choice([make_and, make_or])(condition(), condition()) if draw.random() < 0.7 else condition()
        conditions.append(where)
        parts = [Part(0, where)]
        if draw.random() < 0.2:
            parts.append(Part(0, condition(), Fraction(draw.choice([-1, 2, 3]), 2)))
        made.append(AskedRow.of(parts))
    return made


def entries_of(engine: DuckDBEngine, row: AskedRow) -> dict[int, int]:
    found: dict[int, int] = {}
    for weight, where in row.parts:
        text = f"SELECT keyhole_r FROM keyhole.people WHERE {engine.spelling.condition(where)}"
        for (record,) in engine.con.execute(text).fetchall():
            found[record] = found.get(record, 0) + weight
    return {record: weight for record, weight in found.items() if weight}


def decisions_are_those_of_the_row_space(engine: DuckDBEngine, honest: DuckDBEngine, rows: list[AskedRow]) -> None:
    """The law: dependent or not, and who is exposed, are the same; proofs are the same combination."""
    there, here = EngineSpace(engine, "keyhole.people", "keyhole_r"), OnlineRowSpace(PEOPLE)
    seen = {"dependent": 0, "denied": 0, "allowed": 0}
    for row in rows:
        mine, theirs = there.probe(row), here.probe(entries_of(honest, row))
        assert (mine.dependent, mine.exposes) == (theirs.dependent, theirs.exposes)
        seen["dependent" if mine.dependent else "denied" if mine.exposes else "allowed"] += 1
        if mine.exposes:
            proof = there.certificate(mine, mine.exposes[0])
            assert proof is None or proof == here.certificate(theirs, mine.exposes[0])
            seen["denied"] += 1000 * (proof is not None)
        else:
            assert there.commit(mine) == here.commit(theirs)
    assert there.rank == here.rank
    assert there.exposed() == here.exposed().tolist() == []
    assert seen["dependent"] > 3 < seen["allowed"], seen
    assert seen["denied"] > 3000, seen
    assert 0 < there.false_allow() < 2.0**-60


@pytest.mark.parametrize("seed", range(effort(10)))
def test_decisions_are_those_of_the_row_space(seed: int) -> None:
    engine = DuckDBEngine(make_people(seed))
    decisions_are_those_of_the_row_space(engine, engine, draw_rows(seed, 120))


class LosesAPerson(DuckDBEngine):
    """A liar: one person is in no sum of lanes."""

    def arrow(self, sql: str) -> Any:
        return super().arrow(sql.replace("WHERE", "WHERE keyhole_r <> 700 AND") if "sum(keyhole_g1)" in sql else sql)


class SeesNobodyElse(DuckDBEngine):
    """A liar: whoever differs from the history is not found."""

    def arrow(self, sql: str) -> Any:
        return super().arrow(sql.replace(" <> 0 LIMIT 1", " <> 0 AND FALSE LIMIT 1"))


class ForgetsNull(DuckDBEngine):
    """A liar: people without an age are 64."""

    def arrow(self, sql: str) -> Any:
        return super().arrow(sql.replace('"age"', 'coalesce("age", 64)'))


@pytest.mark.parametrize("liar", [LosesAPerson, SeesNobodyElse, ForgetsNull])
def test_an_engine_that_lies_is_noticed(liar: type[DuckDBEngine]) -> None:
    con = make_people(1)
    with pytest.raises((AssertionError, ArithmeticError)):
        decisions_are_those_of_the_row_space(liar(con), DuckDBEngine(con), draw_rows(1, 120))


def test_a_copy_leaves_the_state_alone_and_counts_its_decisions() -> None:
    engine = DuckDBEngine(make_people(1))
    space = EngineSpace(engine, "keyhole.people", "keyhole_r")
    first, second = (AskedRow.of([Part(0, Comparison("age", ">", age))]) for age in (30, 40))
    space.commit(space.probe(first))
    chance, twin = space.false_allow(), copy.deepcopy(space)
    twin.commit(twin.probe(second))
    assert (space.rank, twin.rank) == (1, 2)
    assert space.false_allow() > chance
    with pytest.raises(ValueError, match="probe the query again"):
        twin.commit(space.probe(second))


def test_what_is_not_decided_there_is_said() -> None:
    with pytest.raises(UnsupportedQuery, match="public weights"):
        AskedRow.of([Part(0, Comparison("age", ">", 3), Fraction(1), "age")])
    with pytest.raises(UnsupportedQuery, match="too large"):
        AskedRow.of([Part(0, Comparison("age", ">", 3)), Part(0, Comparison("age", ">", 4), Fraction(1 << 40))])
    engine = DuckDBEngine(make_people(1))
    space = EngineSpace(engine, "keyhole.people", "keyhole_r")
    space._decided[0] = 1 << 34
    with pytest.raises(UnsupportedQuery, match=r"no longer below 2\^-60"):
        space.probe(draw_rows(1, 1)[0])


def test_the_chance_of_a_false_allow_grows_with_decisions_rows_and_weights() -> None:
    chances = [bound_false_allow(1, 10), bound_false_allow(10**5, 10), bound_false_allow(10**5, 10**4)]
    chances.append(bound_false_allow(10**5, 10**4, 10**6))
    assert chances == sorted(chances)
    assert bound_false_allow(10**6, 10**4) < 2.0**-71


def test_a_small_prime_is_caught_by_the_law() -> None:
    """Why the prime is large: of 101 a minor of the history is soon a multiple, and somebody is exposed unseen."""
    engine = DuckDBEngine(make_people(2))
    rows = draw_rows(2, 120)
    small, here = EngineSpace(engine, "keyhole.people", "keyhole_r", prime=3), OnlineRowSpace(PEOPLE)
    different = 0
    for row in rows:
        theirs = here.probe(entries_of(engine, row))
        try:
            mine = small.probe(row)
            different += (mine.dependent, mine.exposes) != (theirs.dependent, theirs.exposes)
            small.commit(mine)
        except (ArithmeticError, ValueError):
            different += 1
        here.commit(theirs)
    assert different
    assert np.isfinite(here.rank)
