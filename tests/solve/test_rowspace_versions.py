"""Decisions about persons with several columns against a brute-force twin, also where everything is answered."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from tests.laws.brute import rank

from keyhole.solve.rowspace import online as rowspace_online
from keyhole.solve.rowspace import versions as rowspace_versions
from keyhole.solve.rowspace.online import DirectSum, OnlineRowSpace
from keyhole.solve.rowspace.versions import VersionSpace

Rows = list[list[int]]


def forms(rows: Rows, owner: list[int], persons: tuple[int, ...]) -> int:
    """How many independent forms on the columns of some persons alone are in the row space."""
    others = [u for u, person in enumerate(owner) if person not in persons]
    return rank([[Fraction(v) for v in row] for row in rows]) - rank(
        [[Fraction(row[u]) for u in others] for row in rows]
    )


def known(rows: Rows, owner: list[int]) -> dict[tuple[int, ...], int]:
    """By person: forms on him; by pair: forms on both that are on neither alone."""
    people = range(max(owner) + 1)
    found: dict[tuple[int, ...], int] = {(i,): forms(rows, owner, (i,)) for i in people}
    for i, k in combinations(people, 2):
        found[i, k] = forms(rows, owner, (i, k)) - found[i,] - found[k,]
    return found


def grown(before: dict[tuple[int, ...], int], after: dict[tuple[int, ...], int], size: int) -> set[tuple[int, ...]]:
    return {key for key, value in after.items() if len(key) == size and value > before[key]}


@pytest.mark.parametrize("careful", [True, False], ids=["refusing", "answering all"])
@pytest.mark.parametrize("path", ["numpy", "compiled", "eliminating"])
def test_every_decision_equals_brute_force(path: str, careful: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if path == "compiled":
        monkeypatch.setattr(rowspace_online, "_COMPILED_FROM", 1)
    elif path == "eliminating":
        monkeypatch.setattr(rowspace_versions, "MINORS", 0)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        owner = [0, 1, 2, *rng.integers(0, 3 + seed % 2, size=int(rng.integers(1, 4))).tolist()]
        owner += [3] * (3 not in owner and seed % 2)
        space = VersionSpace(np.array(owner), insiders=1, rng=rng)
        history: Rows = []
        before = known([[0] * len(owner)], owner)
        for _ in range(7):
            row = rng.choice([0, 0, 1, 1, 1, 2], size=len(owner)).tolist()
            decision, after = space.probe(dict(enumerate(row))), known([*history, row], owner)
            assert set(decision.exposes) == {i for (i,) in grown(before, after, 1)}
            pairs = grown(before, after, 2)
            assert set(decision.pairs) == {(i, k) for a, b in pairs for i, k in ((a, b), (b, a))}
            certified(space, decision, [*history, row], owner)
            if decision.safe or not careful:
                space.commit(decision)
                history.append(row)
                before = after


def test_rows_taken_name_nobody_and_then_only_more_is_new() -> None:
    """All but the last row taken at once, or answered one by one: the last is decided alike."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        owner = np.array([0, 1, 2, 3, *rng.integers(0, 4, size=3).tolist()])
        rows = rng.integers(0, 2, size=(6, len(owner))).tolist()
        for several in (True, False):
            taken, answered = (
                VersionSpace(owner, insiders=1) if several else OnlineRowSpace(len(owner), insiders=1) for _ in range(2)
            )
            for row in rows[:-1]:
                decision = answered.probe(dict(enumerate(row)))
                assert taken.take(dict(enumerate(row))) is not decision.dependent
                if not decision.dependent:
                    answered.commit(decision)
            one, other = (space.probe(dict(enumerate(rows[-1]))) for space in (taken, answered))
            assert (one.dependent, one.exposes, one.pairs) == (other.dependent, other.exposes, other.pairs)
            for person in one.exposes:
                assert taken.certificate(one, person) == answered.certificate(other, person)


def certified(space: VersionSpace, decision: rowspace_online.Decision, rows: Rows, owner: list[int]) -> None:
    for person, insider in [*((i, None) for i in decision.exposes), *decision.pairs]:
        weights = space.certificate(decision, person, insider)
        assert weights is not None
        form = [sum(w * rows[i][u] for i, w in weights.items()) for u in range(len(owner))]
        assert {owner[u] for u, v in enumerate(form) if v} <= {person, insider}
        assert any(form[u] for u in range(len(owner)) if owner[u] == person)


def test_a_person_without_a_column_is_refused() -> None:
    for owner in ([0, 2], []):
        with pytest.raises(ValueError, match="needs a column"):
            VersionSpace(np.array(owner, dtype=np.int64))


def test_lanes_follow_the_versions() -> None:
    owner = np.array([0, 1, 1, 1, 2, 2])
    assert VersionSpace(owner).lanes == 4
    assert VersionSpace(owner, insiders=1).lanes == 6
    assert VersionSpace(np.arange(5), insiders=1).lanes == 3


def test_what_was_told_all_the_same_does_not_block_what_adds_nothing() -> None:
    """A published row that ties two epochs is counted; only what ties more of them is denied later."""
    space = DirectSum(5)
    assert space.earlier({0: 1, 1: 1, 2: 1})
    crossing = space.probe({0: 1, 1: 1, 2: 1})
    assert crossing.crosses
    assert not crossing.safe
    space.commit(crossing)
    assert space.probe({0: 2, 1: 2, 2: 2}).dependent
    assert space.probe({2: 1, 3: 1, 4: 1}).safe
