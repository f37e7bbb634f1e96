"""Plans on small rosters against enumeration: every allowed question written down, every rank computed in fractions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from keyhole.attacks.plan import (
    AllowedQuestions,
    CodedColumn,
    How,
    Planner,
    Profiles,
    build_profiles,
    parse_operators,
    question_sql,
)
from keyhole.attacks.plan.allowed_questions import ExhaustiveSearch
from keyhole.config.settings import settings
from keyhole.datasets.open import Use, open_table
from keyhole.solve.rowspace.sparse import SparseRowSpace

LANGUAGES = ("=", "<>", "=,<>", "<,>", "=,<,>", "BETWEEN", "IN", "=,<>,OR", "=,<>,<,>,BETWEEN,IN,OR")
ENGINE = duckdb.connect()
Row = tuple[int, ...]


@dataclass(frozen=True)
class Small:
    """A table of a few people: columns a, b, c (numbers, some NULL) and the secret x (some NULL)."""

    public: tuple[tuple[int | None, ...], ...]  # by record
    x: tuple[int | None, ...]

    @property
    def table(self) -> pa.Table:
        columns = {name: pa.array([r[i] for r in self.public], pa.int64()) for i, name in enumerate(self.names)}
        return pa.table({"who": [str(i) for i in range(len(self.x))], **columns, "x": pa.array(self.x, pa.int64())})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple("abcd"[: len(self.public[0])])

    def profiles(self) -> Profiles:
        columns, codes = [], []
        for c, name in enumerate(self.names):
            held = [r[c] for r in self.public]
            values = tuple(sorted({v for v in held if v is not None}))
            columns.append(CodedColumn(name, values, None in held))
            codes.append([len(values) if v is None else values.index(v) for v in held])
        return Profiles.of_codes(tuple(columns), np.array(codes), np.array([v is not None for v in self.x]))


def drawn(seed: int) -> Small:
    rng = Random(seed)
    width, n = rng.randint(1, 3), rng.randint(3, 9)
    values: list[int | None] = [1, 2, 3][: rng.randint(2, 3)]
    nulls: list[int | None] = [None] if rng.random() < 0.3 else []
    public = tuple(tuple(rng.choice(values + nulls) for _ in range(width)) for _ in range(n))
    return Small(public, tuple(None if rng.random() < 0.1 else rng.randint(0, 99) for _ in range(n)))


def conditions(small: Small, c: int, allowed: frozenset[str]) -> Iterator[frozenset[int]]:
    """The records that each condition on one column is true of, by the words of SQL (<> null-safe, = also IS NULL)."""
    column = [r[c] for r in small.public]
    values = sorted({v for v in column if v is not None})
    everybody = frozenset(range(len(column)))

    def where(test: object) -> frozenset[int]:
        return frozenset(i for i, v in enumerate(column) if v is not None and test(v))  # type: ignore[operator]

    null = frozenset(i for i, v in enumerate(column) if v is None)
    for v in values:
        if "=" in allowed:
            yield where(lambda w, v=v: w == v)
        if "<>" in allowed:
            yield everybody - where(lambda w, v=v: w == v)
        if "<" in allowed:
            yield from (where(lambda w, v=v: w < v), where(lambda w, v=v: w <= v))
        if ">" in allowed:
            yield from (where(lambda w, v=v: w > v), where(lambda w, v=v: w >= v))
    if null and "=" in allowed:
        yield null
    if null and "<>" in allowed:
        yield everybody - null
    if "BETWEEN" in allowed:
        yield from (where(lambda w, a=a, b=b: a <= w <= b) for a, b in product(values, values) if a <= b)
    if "IN" in allowed:
        for size in range(1, len(values) + 1):
            yield from (where(lambda w, s=s: w in s) for s in combinations(values, size))


def questions(small: Small, allowed: frozenset[str], least: int, most: int) -> set[frozenset[int]]:
    """The groups of all allowed questions without OR."""
    n, width = len(small.x), len(small.names)
    found = {frozenset(range(n))}
    for size in range(1, min(most, width) + 1):
        for chosen in combinations(range(width), size):
            for parts in product(*(list(conditions(small, c, allowed)) for c in chosen)):
                found.add(frozenset.intersection(*parts))
    return {group for group in found if len(group) >= least}


def cells(small: Small, most: int) -> set[frozenset[int]]:
    """All groups by at most so many columns: what any operators whatever are sums of."""
    n, width = len(small.x), len(small.names)
    found = set()
    for size in range(min(most, width) + 1):
        for chosen in combinations(range(width), size):
            keys = [tuple(r[c] for c in chosen) for r in small.public]
            found |= {frozenset(i for i in range(n) if keys[i] == key) for key in set(keys)}
    return found


def rank(rows: Sequence[Row]) -> int:
    left, found = [[Fraction(v) for v in row] for row in rows], 0
    for c in range(len(rows[0]) if rows else 0):
        at = next((i for i in range(found, len(left)) if left[i][c]), None)
        if at is None:
            continue
        left[found], left[at] = left[at], left[found]
        for i in range(len(left)):
            if i != found and left[i][c]:
                factor = left[i][c] / left[found][c]
                left[i] = [a - factor * b for a, b in zip(left[i], left[found], strict=True)]
        found += 1
    return found


def rows_of(small: Small, groups: set[frozenset[int]]) -> list[Row]:
    valued = [i for i, v in enumerate(small.x) if v is not None]
    return sorted({tuple(int(i in group) for i in valued) for group in groups})


def exposed(small: Small, groups: set[frozenset[int]]) -> set[int]:
    """Whose unit vector is in the row space."""
    valued = [i for i, v in enumerate(small.x) if v is not None]
    rows = rows_of(small, groups)
    base = rank(rows)
    return {
        who for j, who in enumerate(valued) if rank([*rows, tuple(int(k == j) for k in range(len(valued)))]) == base
    }


def fewest(small: Small, groups: set[frozenset[int]], who: int, limit: int) -> int | None:
    """The size of the smallest set of groups that gives somebody away, up to a limit."""
    valued = [i for i, v in enumerate(small.x) if v is not None]
    unit = tuple(int(i == who) for i in valued)
    rows = [row for row in rows_of(small, groups) if any(row)]
    for size in range(1, limit + 1):
        if any(rank([*some, unit]) == rank(some) for some in combinations(rows, size)):
            return size
    return None


def check(seed: int, language: str, *, small_way: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """One world, planned and enumerated; returns (decided, undecided)."""
    rng = Random(1000 + seed)
    small, allowed = drawn(seed), parse_operators(language)
    least, most = rng.randint(1, 3), rng.randint(1, 3)
    if least > len(small.x):
        return 0, 0
    profiles = small.profiles()
    if not small_way:
        monkeypatch.setattr(ExhaustiveSearch, "fits", staticmethod(lambda _ways: False))
    planner = Planner(profiles, AllowedQuestions(profiles, allowed, least, most))
    can = exposed(small, questions(small, allowed, least, most))
    at_most = exposed(small, cells(small, most))
    con = ENGINE
    con.register("t", small.table)
    undecided = 0
    for who, value in enumerate(small.x):
        plan = planner.plan(int(profiles.of[who]))
        if value is None:
            continue
        assert planner.how(plan.profile).exposed == plan.how.exposed
        if plan.how is How.UNDECIDED:
            undecided += 1
            assert not (small_way and "OR" not in allowed)
        elif plan.how.exposed:
            assert who in (at_most if "OR" in allowed else can)
            asked = {q: question_sql(q, profiles.columns, "x", "t") for q in plan.weights}
            told = {q: con.execute(sql).fetchall()[0][0] or 0 for q, sql in asked.items()}
            assert sum(w * int(told[q]) for q, w in plan.weights.items()) == value
            for sql in asked.values():
                assert con.execute(sql.replace('SUM("x")', "COUNT(*)")).fetchall()[0][0] >= least
        else:
            assert who not in can
            if plan.at_large:
                assert who not in at_most
    return len(small.x) - undecided, undecided


@pytest.mark.parametrize("language", LANGUAGES)
def test_plans_equal_enumeration(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(12):
        check(seed, language, small_way=True, monkeypatch=monkeypatch)


@pytest.mark.parametrize("language", LANGUAGES)
def test_plans_by_cells_are_sound(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decided, undecided = 0, 0
    for seed in range(100, 114):
        some, rest = check(seed, language, small_way=False, monkeypatch=monkeypatch)
        decided, undecided = decided + some, undecided + rest
    assert decided > undecided


@pytest.mark.parametrize("language", ["=,<>", "<,>"])
def test_what_is_called_fewest_is(language: str) -> None:
    claims = 0
    for seed in range(200, 212):
        small, allowed = drawn(seed), parse_operators(language)
        if len(small.x) < 2:
            continue
        profiles = small.profiles()
        planner = Planner(profiles, AllowedQuestions(profiles, allowed, 2, 2))
        groups = questions(small, allowed, 2, 2)
        for who, value in enumerate(small.x):
            plan = planner.plan(int(profiles.of[who]))
            if value is not None and plan.fewest:
                claims += 1
                assert fewest(small, groups, who, min(3, len(plan.weights))) == len(plan.weights)
    assert claims > 5


@pytest.mark.soak
def test_plans_equal_enumeration_soak(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Random().randrange(1 << 30)
    for seed in range(start, start + 150):
        for language in LANGUAGES:
            with monkeypatch.context() as patched:
                check(seed, language, small_way=seed % 2 == 0, monkeypatch=patched)


def test_sparse_row_space_equals_fractions() -> None:
    rng = Random(5)
    for _ in range(60):
        columns = rng.randint(1, 7)
        rows = [sorted({c for c in range(columns) if rng.random() < 0.5}) for _ in range(rng.randint(1, 8))]
        dense = [tuple(int(c in row) for c in range(columns)) for row in rows]
        space = SparseRowSpace(rows)
        assert space.rank == rank(dense)
        moved = space.generic()
        for c in range(columns):
            unit = tuple(int(k == c) for k in range(columns))
            weights, witness = space.express(c), space.witness(c)
            assert (weights is None) == (rank([*dense, unit]) > rank(dense)) == (witness is not None)
            if weights is not None:
                assert tuple(sum(w * dense[i][k] for i, w in weights.items()) for k in range(columns)) == unit
                assert not moved.get(c)
            else:
                assert (witness or {}).get(c)
                assert witness is not None
                for row in rows:
                    assert sum(witness.get(k, 0) for k in row) == 0
        for row in rows:
            assert sum(moved.get(k, 0) for k in row) == 0


def test_a_stopped_row_space_says_nothing_is_outside() -> None:
    space = SparseRowSpace([[0, 1], [1, 2]], stop=lambda: True)
    assert (space.complete, space.witness(0), space.generic()) == (False, None, {})


def test_a_roster_is_coded_as_it_is() -> None:
    for seed in (3, 7, 11):
        small = drawn(seed)
        opened = open_table(settings(data=small.table, id="who", private="x"), Use.WATCH)
        found, wanted = build_profiles(opened.roster, "x"), small.profiles()
        assert found.columns == wanted.columns
        assert (found.codes[:, found.of] == wanted.codes[:, wanted.of]).all()
        assert (found.people[found.of] == wanted.people[wanted.of]).all()
        assert (found.unknowns[found.of] == wanted.unknowns[wanted.of]).all()
