"""MIN, MAX, MEDIAN and quantiles against all small tables: nothing false is claimed, and nothing missed where complete.

The twin lists every table of whole numbers in a small range and keeps those that give the same answers; it computes the
statistics itself, from sorted values.
"""

from __future__ import annotations

import json
import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.effort import effort

import keyhole
from keyhole.auditing import Status
from keyhole.auditing.known import Claim, Known
from keyhole.auditing.rules import order
from keyhole.auditing.rules.worlds import worlds as search_worlds
from keyhole.basis import Atoms
from keyhole.basis.bits import pack
from keyhole.checker import Outcome, replay
from keyhole.gather.evidence import Evidence, System
from keyhole.gather.order import order_fact
from keyhole.model.predicate import Membership
from keyhole.model.prior import Knowledge, Prior
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.model.transcript import Answer, Entry, Transcript
from keyhole.sql import lower_statement

NAMES = "abcde"


def quantile(values: list[int], level: Fraction) -> Fraction:
    at = (len(values) - 1) * level
    low = floor(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


STATISTICS: dict[str, Callable[[list[int]], Fraction]] = {
    "MAX(x)": lambda v: Fraction(v[-1]),
    "MIN(x)": lambda v: Fraction(v[0]),
    "MEDIAN(x)": lambda v: quantile(v, Fraction(1, 2)),
    "QUANTILE_CONT(x, 0.25)": lambda v: quantile(v, Fraction(1, 4)),
    "QUANTILE_DISC(x, 0.5)": lambda v: Fraction(v[max(1, ceil(Fraction(len(v), 2))) - 1]),
    "MAX(-x)": lambda v: -Fraction(v[0]),
}


@dataclass(frozen=True)
class Asked:
    """A statistic of some people."""

    item: str
    people: tuple[int, ...]

    @property
    def sql(self) -> str:
        names = ", ".join(f"'{NAMES[i]}'" for i in self.people)
        return f"SELECT {self.item} FROM t WHERE name IN ({names})"

    def of(self, table: tuple[int, ...]) -> Fraction:
        return STATISTICS[self.item](sorted(table[i] for i in self.people))


@dataclass(frozen=True)
class World:
    """A table, a log, and what the tables that give the same answers leave each person."""

    values: tuple[int, ...]
    log: tuple[Asked, ...]
    bounded: bool
    left: tuple[frozenset[int], ...]


def worlds(seeds: range, items: tuple[str, ...]) -> Iterator[tuple[int, World]]:
    """Half of them with a declared range of four values; the others range over all integers."""
    for seed in seeds:
        rng = random.Random(seed)
        bounded = seed % 2 == 0
        n = rng.randrange(2, 6 if bounded else 5)
        values = tuple(rng.randrange(4) for _ in range(n))
        log = tuple(
            Asked(rng.choice(items), tuple(sorted(rng.sample(range(n), rng.randrange(1, n + 1)))))
            for _ in range(rng.randrange(1, 6))
        )
        span = range(4) if bounded else range(-2, 6)
        same = [t for t in product(span, repeat=n) if all(q.of(t) == q.of(values) for q in log)]
        left = tuple(frozenset(t[i] for t in same) for i in range(n))
        yield seed, World(values, log, bounded, left)


def judged(world: World) -> tuple[list[Claim], bool]:
    """The rule alone, on evidence made by hand: what it claims, and whether everybody else is shown open."""
    n = len(world.values)
    wheres = {q.people: Membership("name", tuple(NAMES[i] for i in q.people)) for q in world.log}
    inside = np.array([[i in people for i in range(n)] for people in wheres], dtype=np.bool_)
    each = np.arange(n)
    atoms = Atoms(each.astype(np.int32), np.ones(n, dtype=np.int64), each, pack(inside)).named(wheres.values(), ())
    schema = Schema("t", (Column("name", Kind.TEXT), Column("x", Kind.INTEGER, Role.PRIVATE, nullable=False)))
    facts = []
    for number, asked in enumerate(world.log, 1):
        query = lower_statement(f"SELECT {asked.item} FROM t", schema).queries[0]
        answer = Answer.exact(Decimal(float(asked.of(world.values))))
        entry = Entry(str(number), "", query, answer)
        facts.append(order_fact(entry, wheres[asked.people], answer, Kind.INTEGER, Prior()))
    system = System(("x",), (), (), atoms, (), tuple(facts))
    prior = Prior(Decimal(0), Decimal(3), Decimal(1)) if world.bounded else Prior()
    known = Known(Evidence(n, Transcript(), Knowledge({"x": prior}), (system,)), schema)
    while known.learn(order(system, known)):
        pass
    known.learn(search_worlds()(system, known))
    assert not known.contradictions, world
    return known.claims("x"), bool(known.shown)


def compare(seed: int, world: World, tally: Counter[str]) -> None:
    """No claim excludes a table; where everybody else is shown open, everybody else has two values."""
    claims, shown = judged(world)
    where = (seed, world, [(c.row, c.value, c.lo, c.hi) for c in claims])
    for c in claims:
        for value in world.left[c.row]:
            if c.status is Status.EXPOSED:
                assert c.value == value, where
            assert c.lo is None or c.lo <= value, where
            assert c.hi is None or value <= c.hi, where
            assert not c.allowed or value in c.allowed, where
        tally[str(c.status)] += 1
    sole = {i for i, left in enumerate(world.left) if len(left) == 1} - {c.row for c in claims}
    tally["missed"] += len(sole)
    tally["shown"] += shown
    tally["worlds"] += 1
    assert not (shown and sole), where


EXTREMES = ("MAX(x)", "MIN(x)", "MAX(x)", "MIN(x)", "MAX(-x)")
MIXED = (*EXTREMES, "MEDIAN(x)", "QUANTILE_CONT(x, 0.25)", "QUANTILE_DISC(x, 0.5)")


def tried(items: tuple[str, ...], seeds: range) -> Counter[str]:
    tally: Counter[str] = Counter()
    for seed, world in worlds(seeds, items):
        compare(seed, world, tally)
    return tally


def test_the_largest_values_alone_are_judged_completely() -> None:
    tally = tried(("MAX(x)",), range(effort(120)))
    assert tally["shown"] == tally["worlds"]
    assert tally["exposed"] > effort(40)


def test_least_and_greatest_values_are_mostly_judged_completely() -> None:
    tally = tried(EXTREMES, range(1000, 1000 + effort(120)))
    assert tally["shown"] > tally["worlds"] * 0.8
    assert tally["exposed"] > effort(40)


def test_quantiles_are_judged_soundly() -> None:
    tally = tried(MIXED, range(2000, 2000 + effort(120)))
    assert tally["exposed"] > effort(40)


@pytest.mark.soak
@pytest.mark.parametrize("items", [("MAX(x)",), EXTREMES, MIXED])
def test_claims_hold_in_every_table_of_many_worlds(items: tuple[str, ...]) -> None:
    start = secrets.randbelow(10**9)
    print(f"seeds from {start}")  # noqa: T201 - so that a failure can be repeated
    print(items, dict(tried(items, range(start, start + 2000))))  # noqa: T201


# --- known answers ----------------------------------------------------------------------------------------------------

STAFF = "name,dept,pay\n" + "".join(
    f"{n},{d},{p}\n" for n, d, p in zip("abcdefg", "xyyzzzz", (10, 21, 30, 41, 57, 60, 77), strict=True)
)


@pytest.fixture
def staff(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(STAFF, encoding="utf-8")
    return path


def told(log: Any, staff: Path, private: str = "pay") -> keyhole.Verdict:
    return keyhole.audit(log, data=staff, private=private, id="name")


def test_the_one_who_reaches_the_largest_value_is_exposed(staff: Path) -> None:
    found = told("SELECT MAX(pay) FROM t; SELECT MAX(pay) FROM t WHERE name <> 'g'", staff)
    assert [(f.who, f.value) for f in found.exposure] == [("g", Decimal(77))]
    assert found.exposure.complete
    assert "nobody else can reach it" in found.text()


def test_a_tie_hides_who_has_the_largest_value(staff: Path) -> None:
    log = [
        ("SELECT MAX(pay) FROM t WHERE name IN ('a', 'b', 'c')", 9),
        ("SELECT MAX(pay) FROM t WHERE name IN ('c', 'd', 'e')", 9),
    ]
    roster = staff.with_name("roster.csv")
    roster.write_text("\n".join(line.rpartition(",")[0] for line in STAFF.splitlines()) + "\n", encoding="utf-8")
    found = keyhole.audit(log, data=roster, table="t", private="pay:real", id="name")
    assert (found.exit_code, found.exposure.complete) == (0, True)


def test_two_people_share_the_least_and_the_greatest(staff: Path) -> None:
    found = told("SELECT MIN(pay), MAX(pay) FROM t WHERE dept = 'y'", staff)
    assert {f.who: f.allowed for f in found.exposure} == {n: (Decimal(21), Decimal(30)) for n in "bc"}
    assert found.exit_code == 1


def test_what_sums_told_narrows_the_largest(staff: Path) -> None:
    log = "SELECT SUM(pay) FROM t; SELECT SUM(pay) FROM t WHERE name <> 'b'; SELECT MAX(pay) FROM t WHERE dept = 'y'"
    found = told(log, staff)
    assert [(f.who, f.value) for f in found.exposure] == [("b", Decimal(21)), ("c", Decimal(30))]
    assert found.exposure.complete  # the others may be exchanged


def test_a_compared_statistic_of_one_person_is_a_range(staff: Path) -> None:
    found = told("SELECT MAX(pay) > 40 FROM t WHERE name = 'd'; SELECT MIN(pay) > 40 FROM t WHERE dept = 'z'", staff)
    assert [(f.who, str(f.status), f.lo, f.hi) for f in found] == [("d", "inferred", Decimal(41), None)]


def test_cases_tell_what_no_single_bound_does(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name,pay\na,9\nb,1\nc,9\nd,5\n", encoding="utf-8")
    pairs = [("MAX", "a", "b"), ("MAX", "b", "c"), ("MAX", "a", "c"), ("MIN", "a", "b")]
    verdict = told([f"SELECT {f}(pay) FROM t WHERE name IN ('{x}', '{y}')" for f, x, y in pairs], path)
    assert [(f.who, f.value, f.allowed) for f in verdict][2:] == [("c", Decimal(9), ())]  # else a and b were both 9
    assert verdict.complete
    text = verdict.dumps()
    assert {c.outcome for c in replay(text, path, bits=16).checked} == {Outcome.HOLDS}
    false = json.loads(text)
    for claim in (*false["exposed"], *false["intervals"]):
        if claim["status" if "status" in claim else "column"] in ("exposed", "pay"):
            claim["certificate"]["facts"] = claim["certificate"]["facts"][:2]
    assert Outcome.HOLDS not in {c.outcome for c in replay(json.dumps(false), path, bits=16).checked[:1]}


def test_contradictory_order_statistics_are_named(staff: Path) -> None:
    log = [("SELECT MAX(pay) FROM t WHERE dept = 'z'", 5), ("SELECT MAX(pay) FROM t WHERE name IN ('e', 'f')", 7)]
    found = told(log, staff)
    assert [c.queries for c in found.exposure.contradictions] == [("1",), ("2",), ("1", "2")]  # with the data, too
    assert found.exit_code == 3


def test_an_order_statistic_over_nobody_is_null(staff: Path) -> None:
    asked = "SELECT MAX(pay) FROM t WHERE dept = 'nobody'"
    assert told([(asked, None)], staff).exposure.contradictions == ()
    assert len(told([(asked, 5)], staff).exposure.contradictions) == 1


def test_a_private_condition_is_not_judged(staff: Path) -> None:
    found = told("SELECT MAX(pay) FROM t WHERE pay < 50", staff)
    (said,) = found.exposure.unjudged
    assert said.reason.startswith("MAX under a condition on private values is not judged unless its column has few")
    assert found.exit_code == 3


# --- replay -----------------------------------------------------------------------------------------------------------

LOGS = (
    "SELECT dept, MAX(pay) FROM t GROUP BY dept; SELECT MAX(pay) FROM t WHERE name <> 'g'; SELECT MAX(pay) FROM t",
    "SELECT MIN(pay), MAX(pay) FROM t WHERE dept = 'y'",
    "SELECT SUM(pay) FROM t; SELECT SUM(pay) FROM t WHERE name <> 'b'; SELECT MAX(pay) FROM t WHERE dept = 'y'",
    "SELECT MEDIAN(pay) FROM t WHERE dept = 'x'; SELECT QUANTILE_DISC(pay, 0.9) FROM t WHERE name = 'd'",
)


@pytest.mark.parametrize("log", LOGS)
def test_true_proofs_replay_and_false_ones_do_not(staff: Path, log: str) -> None:
    text = told(log, staff).dumps()
    true = replay(text, staff, bits=16)
    assert true.checked
    assert {c.outcome for c in true.checked} == {Outcome.HOLDS}
    for name, false in planted(text):
        outcomes = {c.outcome for c in replay(false, staff, bits=16).checked}
        assert Outcome.FAILS in outcomes, name


def planted(text: str) -> Iterator[tuple[str, str]]:
    """Verdicts in which one thing was made false."""

    def claims(found: Any) -> list[Any]:
        return [c for c in (*found["exposed"], *found["intervals"]) if c.get("certificate", {}).get("kind") == "order"]

    def edited(change: Callable[[Any], None]) -> str:
        found = json.loads(text)
        for claim in claims(found):
            change(claim)
        return json.dumps(found)

    def value(claim: Any) -> None:
        for name in ("value", "lo", "hi"):
            if claim.get(name) is not None:
                claim[name] += 1
        claim["allowed"] = [v + 1 for v in claim.get("allowed", ())] or claim.get("allowed")
        if claim["allowed"] is None:
            del claim["allowed"]

    def fewer(claim: Any) -> None:
        claim["certificate"]["facts"][0]["where"] = "name = 'e'"
        claim["certificate"]["facts"][0]["ranks"] = [1, 1]

    def lower(claim: Any) -> None:
        claim["certificate"]["facts"][0]["ranks"] = [0, 0]

    for change in (value, fewer, lower):
        yield change.__name__, edited(change)


@pytest.mark.parametrize(
    ("asked", "possible"),
    [
        ("MAX(pay) > 70", lambda x: x > 70),
        ("MIN(pay) < 90", lambda x: x < 90),
        ("MAX(pay) >= 70.5", lambda x: x >= 70.5),
        ("MAX(2 * pay) > 133", lambda x: 2 * x > 133),
        ("MIN(-pay) < -33", lambda x: -x < -33),
        ("MIN(-3 * pay) >= -250", lambda x: -3 * x >= -250),
        ("QUANTILE_DISC(pay, 0.5) > 79.25", lambda x: x > 79.25),
    ],
)
def test_a_compared_extreme_of_one_person_ends_on_a_whole_number(
    tmp_path: Path, asked: str, possible: Callable[[int], bool]
) -> None:
    file = tmp_path / "t.csv"
    file.write_text("name,dept,pay\nann,x,80\nbob,y,60\ncyd,y,50\n", encoding="utf-8")
    log = [f"SELECT {asked} FROM t WHERE dept = 'x'"]
    (found,) = keyhole.audit(log, data=file, id="name", private="pay:0..100")
    left = [x for x in range(101) if possible(x) is possible(80)]
    assert (found.lo, found.hi) == (left[0], left[-1])


def test_an_end_between_two_possible_values_is_no_internal_error() -> None:
    """Of the assumed values 2 and 5, somebody had to have more than 3."""
    people = pa.table({"name": ["Ann", "Bob", "Cyd"], "age": [30, 30, 52], "x": [2, 2, 5]})
    log = ["SELECT SUM(x) - MIN(x) FROM t", "SELECT ROUND(AVG(x)) FROM t WHERE age <= 40"]
    assert keyhole.audit(log, data=people, id="name", private="x").exit_code in (1, 3)
