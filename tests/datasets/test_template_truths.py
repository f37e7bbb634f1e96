"""Conditions of one template are what they are one by one: in the engine, in a log's readings, in its evidence."""

from __future__ import annotations

import importlib
import random
import secrets
from typing import Any

import duckdb
import numpy as np
import pytest

from keyhole.config import Columns
from keyhole.datasets import Roster, load_roster
from keyhole.engines.duckdb import codes, patterns, template_truths
from keyhole.engines.duckdb.roster import DuckDBRoster
from keyhole.engines.duckdb.template_truths import template_of
from keyhole.gather import gather, transcribe
from keyhole.logs.open import as_log
from keyhole.model.prior import Knowledge
from keyhole.sql.statements import parse as templates

lower_module = importlib.import_module("keyhole.sql.lowering.lower")
TABLE = """
CREATE TABLE t AS SELECT i AS id, (i % 11)::INTEGER AS small, (i * 7919 % 101)::SMALLINT AS "short", i AS r, i AS k,
  CASE WHEN i % 5 = 0 THEN NULL ELSE (i * 2000000000)::BIGINT END AS big, (i / 8)::DECIMAL(9, 3) AS dec,
  chr(65 + (i % 4)::INT) AS word, DATE '2020-01-01' + (i % 90)::INT AS day, i * 0.37::DOUBLE AS dbl
FROM range(40) AS q(i)
"""
SHAPES = (
    '"id" * {n} + {n} < {n}',
    '("id" * {n} + {n}) % {n} < {n}',
    'TRY(("small" * {n}) % {n} = {n}) IS TRUE',
    '"big" + {n} > {n} OR "id" IN ({n}, {n})',
    'NOT ("big" - {n} * "id" <> {n})',
    '"short" * {n} > {n}',
    '"dec" * {n} > {n}',
    '"dbl" * {n} >= {n}',
    '"id" % {n} BETWEEN {n} AND {n}',
    '"r" * {n} + "k" < {n}',
    '"id" IN ({list})',
    '"word" = {s}',
    '"word" < {s} AND "id" > {n}',
    '"day" >= DATE {d}',
    '"id" > {n} AND "day" < {d}',
)


def _number(rng: random.Random) -> str:
    kinds = ("{:d}", "{:d}", "{:d}", "-{:d}", "(-{:d})", "{:d}.5", "0", "2147483647", "2147483648", "NULL", "{:d}e2")
    return rng.choice(kinds).format(rng.randrange(60))


def condition(rng: random.Random, shape: str) -> str:
    """A shape with constants of every kind in it."""
    text = shape
    while "{n}" in text:
        text = text.replace("{n}", _number(rng), 1)
    listed = ", ".join(str(rng.randrange(40)) for _ in range(rng.randrange(1, 4)))
    word = rng.choice(("'A'", "'it''s'", "'7'", "''", "'\"'"))
    return text.replace("{list}", listed).replace("{s}", word).replace("{d}", f"'2020-0{rng.randrange(1, 4)}-15'")


def alone(con: duckdb.DuckDBPyConnection, text: str) -> list[Any] | None:
    try:
        return [value for (value,) in con.execute(f"SELECT ({text}) FROM t").fetchall()]
    except duckdb.Error:
        return None


def _same_as_one_by_one(seed: int, count: int) -> int:
    """How many of the conditions shared a template. (pytest shows the seed of one that fails.)"""
    rng = random.Random(seed)
    con = duckdb.connect()
    con.execute(TABLE)
    shared = 0
    for shape in SHAPES:
        texts = [condition(rng, shape) for _ in range(count)]
        found = template_truths.template_truths(con, "t", texts, 40)
        shared += len(found)
        for i, (yes, no) in found.items():
            told = alone(con, texts[i])
            assert told is not None, texts[i]
            assert yes.tolist() == [v is True for v in told], texts[i]
            assert no.tolist() == [v is False for v in told], texts[i]
    return shared


def test_a_template_is_evaluated_as_its_conditions_are_one_by_one() -> None:
    assert _same_as_one_by_one(1, 200) > 100


@pytest.mark.soak
def test_a_template_is_evaluated_as_its_conditions_are_one_by_one_long() -> None:
    for _ in range(20):
        _same_as_one_by_one(secrets.randbits(32), 400)


def test_one_condition_that_overflows_sends_its_template_to_the_engine_one_by_one() -> None:
    con = duckdb.connect()
    con.execute(TABLE)
    texts = [f'TRY("small" * {n} < 5)' for n in (*range(1, 9), 2147483647)]
    assert template_truths.template_truths(con, "t", texts, 40) == {}
    found = list(codes.evaluate_conditions(con, "t", texts, 40))
    assert [yes.tolist() for yes, _ in found] == [[v is True for v in alone(con, text) or ()] for text in texts]


@pytest.mark.parametrize(
    "text",
    ['"id" < 1.5', "\"id\" < '1'", '"id" < 2147483648', '"id" + 1e3 > 2', 'abs("id") > 3', '"id" > 3 --', "id > 3"],
)
def test_what_an_engine_may_read_otherwise_beside_a_column_is_left_alone(text: str) -> None:
    assert template_of(text) is None


def test_a_table_with_our_own_names_is_left_alone() -> None:
    con = duckdb.connect()
    con.execute('CREATE TABLE t AS SELECT i AS id, 39 - i AS "keyhole row" FROM range(40) AS q(i)')
    assert template_truths.template_truths(con, "t", [f'"id" < {n}' for n in range(20)], 40) == {}


@pytest.fixture(scope="module")
def roster() -> Roster:
    rows = duckdb.sql("SELECT i AS id, i % 5 AS dept, chr(65 + (i % 3)::INT) AS team FROM range(90) AS q(i)")
    return load_roster(
        rows.arrow().read_all(), Columns.checked({"id": ["id"], "private": {"pay": {"min": 0, "max": 9}}})
    )


ASKED = (
    "SELECT COUNT(*) FROM t WHERE pay > 4 AND (id * {i} + {i}) % {p} < {i}",
    "SELECT SUM(pay) FROM t WHERE id BETWEEN {i} AND {p} AND team = {s}",
    "SELECT SUM(pay) FROM t WHERE id * {i} % {z} = {i} OR dept = {i}",
    "SELECT AVG(pay) FROM t WHERE id IN ({list})",
    "SELECT SUM(pay) FROM t WHERE id * 2147483647 * 4294967296 * {i} > {p}",
    "SELECT SUM(pay) FROM t WHERE id % {p} < {q} AND NOT (dept * {i} = {n})",
    "SELECT SUM(pay) FROM t WHERE nosuch % {p} < {i}",
    "SELECT SUM(pay) FROM t WHERE id % {p} <",
)


def statements(rng: random.Random, count: int) -> list[tuple[str, int]]:
    """A log of few shapes with constants of many kinds."""
    found = []
    for shape in rng.choices(ASKED, k=count):
        text = shape
        for mark, draw in (
            ("{i}", lambda: str(rng.randrange(12))), ("{p}", lambda: str(rng.randrange(2, 90))),
            ("{z}", lambda: str(rng.randrange(3))), ("{q}", lambda: rng.choice(("1.5", "2", "-3", "0.25"))),
            ("{n}", lambda: rng.choice(("NULL", "3", "-2"))), ("{s}", lambda: rng.choice(("'A'", "'it''s'", "'B'"))),
            ("{list}", lambda: ", ".join(str(rng.randrange(90)) for _ in range(rng.randrange(1, 5)))),
        ):  # fmt: skip
            while mark in text:
                text = text.replace(mark, draw(), 1)
        found.append((text, rng.randrange(50)))
    return found


def _readings(log: list[tuple[str, int]], roster: Roster) -> tuple[Any, ...]:
    transcript = transcribe(list(as_log(log, None).lines), roster)
    evidence = gather(transcript, roster, Knowledge({}))
    systems = [
        ([(c.number, c.lo, c.hi, c.offset, c.scale) for c in s.constraints], [s.row(c).items() for c in s.constraints])
        for s in evidence.systems
    ]
    return transcript, evidence.transcript.refused, evidence.unjudged, systems


def _both_ways(seed: int, count: int, roster: Roster, patch: pytest.MonkeyPatch) -> None:
    log = statements(random.Random(seed), count)
    templates.forget_trees()
    shared = _readings(log, roster)
    with patch.context() as one:
        for module in (template_truths, patterns):
            one.setattr(module, "FEWEST", 10**9)
        one.setattr(lower_module, "read_shape", lambda text: None)
        templates.forget_trees()
        assert _readings(log, roster) == shared


def test_a_log_reads_the_same_by_template_and_statement_by_statement(
    roster: Roster, monkeypatch: pytest.MonkeyPatch
) -> None:
    _both_ways(3, 60, roster, monkeypatch)


@pytest.mark.soak
def test_a_log_reads_the_same_by_template_and_statement_by_statement_long(
    roster: Roster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(20):
        _both_ways(secrets.randbits(32), 200, roster, monkeypatch)


def test_a_template_is_parsed_once_and_its_conditions_looked_up_together(
    roster: Roster, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    alone_: list[str] = []
    parse, listed = lower_module.parse_select, codes._listed
    monkeypatch.setattr(lower_module, "parse_select", lambda text: parsed.append(text) or parse(text))

    def counted(con: Any, table: str, texts: Any, n: int) -> Any:
        alone_.extend(texts)
        return listed(con, table, texts, n)

    monkeypatch.setattr(codes, "_listed", counted)
    monkeypatch.setattr(DuckDBRoster, "fault", lambda *_: pytest.fail("asked one by one"))
    templates.forget_trees()
    log = [(f"SELECT SUM(pay) FROM t WHERE (id * {a} + 1) % 17 < 8", 40) for a in range(2, 62)]
    transcript = transcribe(list(as_log(log, None).lines), roster)
    assert len(gather(transcript, roster, Knowledge({})).systems[0].constraints) == 60
    assert len(parsed) == 1
    assert not [text for text in alone_ if "%" in text]
    assert np.all([entry.query.canonical() for entry in transcript.entries])
