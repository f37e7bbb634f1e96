"""`first`: the statement that completed a finding. The twin audits every prefix of the log."""

from __future__ import annotations

import random
from collections.abc import Sequence
from unittest import mock

import pyarrow as pa
import pytest

from keyhole.auditing import first as module
from keyhole.auditing.base import Exposure, Status
from keyhole.auditing.examine import examine
from keyhole.auditing.meet import STRENGTH

PUBLIC = (
    "SELECT SUM(pay) FROM t",
    "SELECT SUM(pay) FROM t WHERE team = 'a'",
    "SELECT SUM(pay) FROM t WHERE team = 'b'",
    "SELECT SUM(pay) FROM t WHERE age > 30",
    "SELECT SUM(pay) FROM t WHERE age <= 40",
    "SELECT AVG(pay) FROM t WHERE age > 25 AND team = 'a'",
    "SELECT team, SUM(pay) FROM t GROUP BY team",
    "SELECT SUM(pay) FROM t WHERE name <> 'c'",
    "SELECT SUM(2 * pay) FROM t WHERE name IN ('a', 'c')",
    "SELECT SUM(pay) FROM t WHERE name IN ('a', 'b', 'd')",
    "SELECT COUNT(*) FROM t",
)
PRIVATE = (
    *PUBLIC,
    "SELECT COUNT(*) FROM t WHERE pay > 15",
    "SELECT COUNT(*) FROM t WHERE pay > 15 AND team = 'a'",
    "SELECT MAX(pay) FROM t",
    "SELECT MIN(pay) FROM t WHERE team = 'b'",
    "SELECT SUM(pay * pay) FROM t WHERE name IN ('a', 'b')",
    "SELECT SUM(nothing) FROM t",
)
TWO = "SELECT AVG(pay) FROM t WHERE name IN ('a', 'b')"


def people(rng: random.Random) -> pa.Table:
    n = rng.randrange(4, 7)
    return pa.table(
        {
            "name": [chr(97 + i) for i in range(n)],
            "team": [rng.choice("ab") for _ in range(n)],
            "age": [rng.randrange(20, 60) for _ in range(n)],
            "pay": [rng.randrange(1, 40) for _ in range(n)],
        }
    )


def by_prefixes(
    log: Sequence[str], table: pa.Table, private: str, found: Exposure
) -> dict[tuple[int, str], tuple[int, bool]]:
    """The slow way: the first prefix whose audit lists the person, as surely; and is it clear that none did before?"""
    first: dict[tuple[int, str], tuple[int, bool]] = {}
    clear, listed = True, set[tuple[int, str]]()
    for upto in range(1, len(log) + 1):
        audit = examine(log[:upto], data=table, private=private, id="name")
        before = {(f.row, f.column): f.status for f in audit}
        for f in found.findings:
            status, whom = before.get((f.row, f.column), Status.OPEN), (f.row, f.column)
            if STRENGTH[status] >= STRENGTH[f.status]:
                first.setdefault(whom, (upto, clear and whom not in listed))
        clear, listed = audit.complete, set(before)
    return first


def compared(seed: int, texts: Sequence[str], private: str, longest: int = 7) -> None:
    rng = random.Random(seed)
    table = people(rng)
    log = [rng.choice(texts) for _ in range(rng.randrange(3, longest))]
    found = examine(log, data=table, private=private, id="name")
    slow = by_prefixes(log, table, private, found)
    fast = {(rows[0], column): first for (rows, column), first in found.firsts.items()}
    assert {whom: first.statement for whom, first in fast.items()} == {whom: at for whom, (at, _) in slow.items()}, (
        seed,
        log,
    )
    for whom, first in fast.items():
        ranked = texts is PUBLIC  # by the rank theorem, whatever the verdict on the others is
        assert first.least == (ranked or slow[whom][1]), (seed, log, whom)


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_the_row_space_names_the_statement(seed: int) -> None:
    compared(seed, PUBLIC, "pay")


def test_row_by_row_and_prefix_by_prefix_name_the_same() -> None:
    rng, named = random.Random(1), 0
    for _ in range(6):
        log = [rng.choice(PUBLIC[:-1]) for _ in range(5)]
        for system in examine(log, data=people(rng), private="pay", id="name").evidence.systems:
            both = []
            for each in (0, 10**9):
                with mock.patch.object(module, "MANY_EACH", each):
                    both.append(module.determined(system))
            assert both[0] == both[1], log
            named += len(both[0] or ())
    assert named > 5


@pytest.mark.parametrize(("seed", "private"), [(3, "pay"), (11, "pay:0..40"), (3, "pay:0..40:1")])
def test_short_logs_are_halved(seed: int, private: str) -> None:
    compared(seed, PRIVATE, private)


@pytest.mark.soak
def test_first_is_that_of_the_prefixes_at_length() -> None:
    for _ in range(60):
        seed = random.randrange(10**9)
        compared(seed, PUBLIC, "pay", 14)
        compared(seed, PRIVATE, random.Random(seed).choice(["pay", "pay:0..40", "pay:0..40:1"]), 12)


def test_the_earlier_of_two_ways_counts() -> None:
    table = pa.table({"name": ["a", "b", "c"], "pay": [1, 2, 4]})
    log = [
        "SELECT SUM(pay) FROM t",
        "SELECT SUM(pay) FROM t WHERE name <> 'a'",
        "SELECT SUM(pay) FROM t WHERE name = 'a'",
        "SELECT SUM(pay) FROM t WHERE name = 'b'",
    ]
    found = examine(log, data=table, private="pay", id="name")
    assert {f.who: found.firsts[(f.row,), "pay"].statement for f in found} == {"a": 2, "b": 4, "c": 4}
    assert all(first.least for first in found.firsts.values())


def test_repeats_do_not_move_it() -> None:
    table = pa.table({"name": ["a", "b"], "pay": [1, 2]})
    log = ["SELECT SUM(pay) FROM t"] * 3 + ["SELECT SUM(pay) FROM t WHERE name = 'a'"] * 2
    found = examine(log, data=table, private="pay", id="name")
    assert {first.statement for first in found.firsts.values()} == {4}


def test_a_long_log_still_says_by_when() -> None:
    rng = random.Random(1)
    table = people(rng)
    many = [f"SELECT COUNT(*) FROM t WHERE age > {i}" for i in range(230)]
    log = ["SELECT SUM(pay) FROM t WHERE name = 'a'", *many, "SELECT SUM(pay * pay) FROM t WHERE name = 'b'"]
    found = examine(log, data=table, private="pay:0..40", id="name")
    first = {f.who: found.firsts[(f.row,), "pay"] for f in found}
    assert (first["a"].statement, first["b"].statement) == (1, 232)
    assert first["b"].least  # of 230 statements about public things none is asked again
    every = [f"SELECT SUM(pay) * {i + 2} FROM t" for i in range(230)]
    more = examine([log[0], *every, log[-1]], data=table, private="pay:0..40", id="name")
    assert [each.least for (row, _), each in more.firsts.items() if row == (1,)] == [False]


def test_facts_alone_have_no_statement() -> None:
    table = pa.table({"name": ["a", "b"], "pay": [1, 2]})
    assert not examine(["SELECT SUM(pay) FROM t"], data=table, private="pay", id="name").firsts
