"""LIKE and LEN in engines that take no notice of case: judged only where every reading of them gives the same."""

from __future__ import annotations

import itertools
import random

import duckdb
import pytest

from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql import translate_to_duckdb

VALUES = ("a", "A", "ab", "Ab", "b_", "it", "IT", "50%", "a b", "ä", "a ", "")


def schema(values: set[str]) -> Schema:
    columns = (
        Column("s", Kind.TEXT),
        Column("pay", Kind.INTEGER, Role.PRIVATE),
        Column("why", Kind.TEXT, Role.PRIVATE),
    )
    return Schema("t", columns, spelt={"s": frozenset(values)})


def server(condition: str, values: list[str], caseless: bool) -> list[bool]:
    """The twin: what an engine with that collation says, in which blanks at the end do not count either."""
    s = "rtrim(s)"
    condition = condition.replace("LEN(s)", f"LENGTH({s})").replace("s LIKE", f"{s} {'ILIKE' if caseless else 'LIKE'}")
    listed = ", ".join("('" + v.replace("'", "''") + f"', {i})" for i, v in enumerate(values))
    return [
        bool(x)
        for (x,) in duckdb.execute(f"SELECT {condition} FROM (VALUES {listed}) AS t(s, i) ORDER BY i").fetchall()
    ]


def here(condition: str, values: list[str]) -> list[bool]:
    listed = ", ".join("('" + v.replace("'", "''") + f"', {i})" for i, v in enumerate(values))
    return [
        bool(x)
        for (x,) in duckdb.execute(f"SELECT {condition} FROM (VALUES {listed}) AS t(s, i) ORDER BY i").fetchall()
    ]


def compared(seed: int, many: int) -> int:
    rng, judged = random.Random(seed), 0
    for _ in range(many):
        values = rng.sample(VALUES, rng.randrange(1, 5))
        pattern = "".join(rng.choices("aAbIit_%5 ", k=rng.randrange(1, 4)))
        condition = rng.choice((f"s LIKE '{pattern}'", f"NOT (s LIKE '{pattern}')", f"LEN(s) = {rng.randrange(4)}"))
        made = translate_to_duckdb(f"SELECT SUM(pay) FROM t WHERE {condition}", "tsql", schema(set(values)))
        if made.reason:
            continue
        judged += 1
        ours = here(made.sql.partition("WHERE ")[2], values)
        for caseless in (True, False):
            assert ours == server(condition, values, caseless), (condition, values, caseless)
    return judged


def test_whatever_the_collation_is() -> None:
    assert compared(5, 150) > 20


@pytest.mark.soak
def test_whatever_the_collation_is_at_length() -> None:
    seed = random.SystemRandom().randrange(10**9)
    assert compared(seed, 4000) > 500, f"seed {seed}"


@pytest.mark.parametrize("dialect", ["tsql", "mysql"])
@pytest.mark.parametrize(
    ("condition", "values", "judged"),
    [
        ("s LIKE 'Leg%'", {"Legal", "IT"}, True),
        ("s LIKE 'leg%'", {"Legal", "IT"}, False),
        ("s LIKE '%'", {"Legal", "IT"}, True),
        ("s LIKE '[LM]%'", {"Legal", "IT"}, False),
        ("s LIKE 'Leg% '", {"Legal", "IT"}, False),
        ("s LIKE 'Leg%'", {"Legal ", "IT"}, False),
        ("s LIKE 'Leg%'", {"Légal", "IT"}, False),
        ("why LIKE 'a%'", {"Legal"}, False),
        ("s LIKE 'Leg!%' ESCAPE '!'", {"Legal"}, False),
    ],
)
def test_what_is_sure(dialect: str, condition: str, values: set[str], judged: bool) -> None:
    made = translate_to_duckdb(f"SELECT SUM(pay) FROM t WHERE {condition}", dialect, schema(values))
    assert (not made.reason) is judged, made.reason


def test_lengths_are_those_of_the_values() -> None:
    for dialect, function in itertools.product(("tsql", "mysql"), ("LEN", "LENGTH", "CHAR_LENGTH")):
        if (dialect, function) in (("tsql", "LENGTH"), ("tsql", "CHAR_LENGTH"), ("mysql", "LEN")):
            continue
        sure = translate_to_duckdb(f"SELECT SUM(pay) FROM t WHERE {function}(s) = 2", dialect, schema({"it", "law"}))
        assert not sure.reason, sure.reason
        assert translate_to_duckdb(
            f"SELECT SUM(pay) FROM t WHERE {function}(s) = 2", dialect, schema({"it ", "law"})
        ).reason
        assert translate_to_duckdb(f"SELECT SUM(pay) FROM t WHERE {function}(why) = 2", dialect, schema({"it"})).reason
