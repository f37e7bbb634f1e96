"""One list of questions for everybody: as few as exhaustive search finds, and right when the SQL is run.

The twin shares nothing with the planner: it writes down the groups of all questions, computes ranks modulo 2^61 - 1 (no
minor of so few people vanishes by chance), and goes through all spans or all pairs of tables.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from random import Random
from typing import Any

import duckdb
import numpy as np
import pytest
from tests.attacks.test_plan_roster import Small, exposed, questions, rows_of

import keyhole.api.plan as api
from keyhole.api.plan import Asking, Plans
from keyhole.attacks.plan import AllowedQuestions, Planner
from keyhole.attacks.plan.closure import Closure, Conjunctions
from keyhole.attacks.plan.joint import Domain, information_bound, plan_jointly
from keyhole.attacks.plan.question import Question
from keyhole.config.settings import settings
from keyhole.errors import ConfigError
from keyhole.report.plan import PlannedList, render_list

PRIME = 2**61 - 1
SAMPLE = range(8)
FRESH = range(200)
Line = tuple[int, ...]


def drawn(seed: int, most: int, values: int = 100) -> tuple[Small, int]:
    """A table of 6 to `most` people with values below `values`, and a least group."""
    rng = Random(f"joint {seed} {most}")
    n, width = rng.randint(6, most), rng.randint(2, 3)
    codes: list[int | None] = [1, 2, 3, 4][: rng.randint(2, 4)]
    public = tuple(tuple(rng.choice(codes) for _ in range(width)) for _ in range(n))
    return Small(public, tuple(rng.randrange(values) for _ in range(n))), rng.randint(1, 3)


def reduced(rows: list[Line]) -> tuple[Line, ...]:
    """The reduced echelon form."""
    left, done = [list(row) for row in rows], 0
    for c in range(len(rows[0]) if rows else 0):
        at = next((i for i in range(done, len(left)) if left[i][c]), None)
        if at is None:
            continue
        left[done], left[at] = left[at], left[done]
        inverse = pow(left[done][c], -1, PRIME)
        left[done] = [v * inverse % PRIME for v in left[done]]
        for i in range(len(left)):
            if i != done and left[i][c]:
                factor = left[i][c]
                left[i] = [(a - factor * b) % PRIME for a, b in zip(left[i], left[done], strict=True)]
        done += 1
    return tuple(tuple(row) for row in left[:done])


def fewest_of_numbers(small: Small, least: int) -> tuple[set[int], int]:
    """Who is given away by all questions, and how few questions do it: every span of remainders is looked at."""
    groups = questions(small, frozenset({"=", "<>"}), least, 2)
    who = exposed(small, groups)
    rows = rows_of(small, groups)
    rest = [k for k in range(len(small.x)) if k not in who]
    remainders = [tuple(row[k] for k in rest) for row in rows]
    spans: dict[tuple[Line, ...], None] = {(): None}
    for r in range(len(rest) + 1):
        for span in spans:
            inside = [row for row, m in zip(rows, remainders, strict=True) if len(reduced([*span, m])) == r]
            if len(reduced(inside)) - r == len(who):
                return who, len(who) + r
        spans = {s: None for span in spans for m in set(remainders) if len(s := reduced([*span, m])) == r + 1}
    raise AssertionError("all questions together give them away")


def fewest_of_bits(small: Small, least: int) -> tuple[set[int], int]:
    """The same of bits: every list of so many questions, until one tells tables apart that differ in such a person."""
    rows = [np.array(row) for row in rows_of(small, questions(small, frozenset({"=", "<>"}), least, 2))]
    n = len(small.x)
    changes = np.array([d for d in product((-1, 0, 1), repeat=n) if d > (0,) * n])
    seen = [changes @ row != 0 for row in rows]
    hidden = changes[~np.any(seen, axis=0)] if rows else changes
    who = {k for k in range(n) if not hidden[:, k].any()}
    matter = changes[:, sorted(who)].any(axis=1)
    notices = {int("".join(map(str, each[matter].astype(int))) or "0", 2) for each in seen}
    whole = (1 << int(matter.sum())) - 1

    def possible(left: int, count: int) -> bool:
        if not left or not count:
            return not left
        first = left & -left
        return any(possible(left & ~each, count - 1) for each in notices if each & first)

    return who, next(count for count in range(n + 1) if possible(whole, count))


def planned(small: Small, least: int, private: str) -> PlannedList:
    given = settings(data=small.table, id="who", private=private)
    return Plans(given, Asking(most=2, least=least)).together()


def people_of(found: PlannedList) -> set[int]:
    return {int(str(label["who"])) for label, many in zip(found.labels, found.people, strict=True) if many == 1}


def check_numbers(seed: int) -> bool:
    """Run as SQL, each formula is the truth; is the list as short as any?"""
    small, least = drawn(seed, 12)
    found = planned(small, least, "x:real")
    with duckdb.connect() as engine:
        engine.register("people", small.table)
        answers = [Fraction(int(engine.execute(sql).fetchall()[0][0])) for sql in found.queries]
        sizes = [engine.execute(sql.replace('SUM("x")', "COUNT(*)")).fetchall()[0][0] for sql in found.queries]
    assert all(size >= least for size in sizes)
    values: dict[int, Fraction] = {}
    for profile, label in zip(found.profiles, found.labels, strict=True):
        formula = found.found.formulas[profile]
        values[profile] = sum((w * answers[i] for i, w in formula.answers.items()), Fraction(0))
        values[profile] += sum((w * values[o] for o, w in formula.before.items()), Fraction(0))
        assert values[profile] == small.x[int(str(label["who"]))]
    who, fewest = fewest_of_numbers(small, least)
    assert people_of(found) == who
    assert found.found.bound <= fewest <= len(found.queries)
    assert found.confirmed.exposed == len(who)
    return len(found.queries) == fewest


def check_bits(seed: int) -> bool:
    """The same of 0 and 1, where the values follow from all answers together."""
    small, least = drawn(seed, 8, 2)
    found = planned(small, least, "x:0..1:1")
    with duckdb.connect() as engine:
        engine.register("people", small.table)
        answers = [int(engine.execute(sql).fetchall()[0][0]) for sql in found.queries]
    given = settings(data=small.table, id="who", private="x:0..1:1")
    profiles = Plans(given, Asking(most=2, least=least)).planner.profiles
    values = found.found.decode(profiles, answers)
    who, fewest = fewest_of_bits(small, least)
    assert people_of(found) == who
    assert len(values) == len(who)
    for profile, label in zip(found.profiles, found.labels, strict=True):
        assert values[profile] == small.x[int(str(label["who"]))]
    assert found.found.bound <= fewest <= len(found.queries)
    assert found.confirmed.exposed == len(who)
    return len(found.queries) == fewest


@pytest.mark.parametrize("seed", SAMPLE)
def test_numbers_as_exhaustive_search_says(seed: int) -> None:
    assert check_numbers(seed)


@pytest.mark.parametrize("seed", SAMPLE)
def test_bits_as_exhaustive_search_says(seed: int) -> None:
    assert check_bits(seed)


@pytest.mark.soak
@pytest.mark.parametrize("check", [check_numbers, check_bits])
def test_two_hundred_tables(check: object) -> None:
    assert callable(check)
    right = sum(check(seed) for seed in FRESH)
    assert right >= 0.95 * len(FRESH), f"{right} of {len(FRESH)} as short as any"


def test_ranks_of_remainders_count_lists() -> None:
    """The twin's own shortcut, against every list of questions."""
    looked = 0
    for seed in range(40):
        small, least = drawn(seed, 6)
        groups = questions(small, frozenset({"=", "<>"}), least, 2)
        rows = rows_of(small, groups)
        if len(rows) > 8:
            continue
        who, fewest = fewest_of_numbers(small, least)
        units = [tuple(int(k == i) for k in range(len(small.x))) for i in sorted(who)]

        def gives(chosen: tuple[Line, ...], units: list[Line] = units) -> bool:
            return len(reduced([*chosen, *units])) == len(reduced(list(chosen)))

        assert fewest == next(m for m in range(len(rows) + 1) if any(gives(c) for c in combinations(rows, m)))
        looked += 1
    assert looked >= 3


@pytest.mark.parametrize("seed", range(6))
def test_the_way_of_large_tables_finds_the_same_people(seed: int) -> None:
    """By graphs as on 30,000 people: nobody is missing, each formula holds, and one question a person is the floor."""
    rng = Random(seed)
    n = rng.randint(20, 60)
    codes: list[int | None] = [1, 2, 3, 4, 5]
    public = tuple(tuple(rng.choice(codes) for _ in range(4)) for _ in range(n))
    small = Small(public, tuple(range(n)))
    ways = AllowedQuestions(small.profiles(), frozenset({"=", "<>"}), rng.randint(2, 5), 3)
    planner = Planner(small.profiles(), ways)
    alone = [p for p in range(small.profiles().count) if planner.profiles.unknowns[p] == 1]
    reached = {p for p in alone if planner.how(p).exposed}
    found = plan_jointly(planner, None, lambda: False)
    assert planner.small is None or len(planner.small.valued) > 40 or found.fewest
    assert set(found.targets) == reached
    assert found.complete
    assert len(reached) <= len(found.questions) <= 2 * len(reached) + 4


@pytest.mark.parametrize("seed", range(8))
def test_no_question_of_a_large_table_follows_from_the_others(seed: int) -> None:
    """By ranks of the twin: of greedy lists up to one question in eleven did. And each is needed for somebody."""
    rng = Random(f"dependent {seed}")
    codes, n = rng.randint(4, 6), rng.randint(60, 140)
    small = Small(tuple(tuple(rng.randint(1, codes) for _ in range(4)) for _ in range(n)), tuple(range(n)))
    profiles = small.profiles()
    planner = Planner(profiles, AllowedQuestions(profiles, frozenset({"=", "<>"}), rng.randint(2, 8), 3))
    found = plan_jointly(planner, None, lambda: False)
    rows = [tuple(map(int, profiles.mask(question))) for question in found.questions]
    assert len(reduced(rows)) == len(rows)
    units = [tuple(int(p == target) for p in range(profiles.count)) for target in found.targets]
    assert len(reduced([*rows, *units])) == len(rows)
    for left_out in rng.sample(range(len(rows)), 5):
        others = [row for i, row in enumerate(rows) if i != left_out]
        assert len(reduced([*others, *units])) == len(rows)


def test_a_long_list_is_proved_by_reading_every_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one statement that is about other people than planned ends it, however late it comes."""
    monkeypatch.setattr(api, "JUDGED", 3)
    small, least = drawn(4, 12)
    found = planned(small, least, "x:real")
    assert found.confirmed.judged <= 3 < len(found.queries) == found.confirmed.read
    assert found.confirmed.proved == len(found.found.targets)
    said = "\n".join(render_list(found))
    assert f"Proved for {found.confirmed.proved} people: the auditor reads each of the {len(found.queries)}" in said
    write = api.question_sql
    last = found.found.questions[-1]

    def lie(question: Question, *more: Any) -> str:
        sql = write(question, *more)
        return sql.replace(" = ", " <> ", 1) if question == last and " = " in sql else sql.replace("SUM", "MAX")

    monkeypatch.setattr(api, "question_sql", lambda q, *more: lie(q, *more) if q == last else write(q, *more))
    with pytest.raises(ConfigError, match="does not confirm"):
        planned(small, least, "x:real")


def test_a_search_that_is_stopped_keeps_who_was_found() -> None:
    rng = Random(3)
    codes: list[int | None] = [1, 2, 3, 4, 5, 6, 7]
    small = Small(tuple(tuple(rng.choice(codes) for _ in range(4)) for _ in range(300)), tuple(range(300)))
    profiles = small.profiles()
    planner = Planner(profiles, AllowedQuestions(profiles, frozenset({"=", "<>"}), 5, 3))
    calls = 0

    def stop() -> bool:
        nonlocal calls
        calls += 1
        return calls > 6

    whole = plan_jointly(planner, None, lambda: False)
    part = plan_jointly(planner, None, stop)
    assert whole.complete
    assert not part.complete
    assert 0 < len(part.targets) < len(whole.targets)
    assert not part.fewest


def test_conjunctions_sum_what_their_masks_sum() -> None:
    small, _ = drawn(5, 12)
    profiles = small.profiles()
    ways = AllowedQuestions(profiles, frozenset({"=", "<>"}), 2, 3)
    made = Conjunctions(Planner(profiles, ways).cells, ways)
    weights = np.arange(1, profiles.count + 1, dtype=np.uint64)
    sums = made.sums(weights)
    for number in range(made.count):
        mask = profiles.mask(made.question(number))
        assert int(sums[number]) == int(weights[mask].sum())
        assert made.allowed[number] == (profiles.people[mask].sum() >= 2)
    a, b, c = made.triples
    assert (sums[a] == sums[b] + sums[c]).all()
    assert not len(Closure(made, np.zeros(profiles.count, dtype=np.bool_), lambda: False).missing)


def test_so_many_answers_for_so_many_tables() -> None:
    assert information_bound(Domain(1), 4, [4, 4, 4]) == 2  # 5 answers each, 16 tables
    assert information_bound(Domain(9), 3, [2] * 9) == 3  # 19 answers each, 1,000 tables
    assert information_bound(Domain(1, 3), 2, [2, 2]) == 2  # 6 answers each, 9 tables
