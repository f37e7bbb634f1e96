"""Online decisions against a brute-force twin: rank and exposure by deletion of columns, in fractions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.effort import effort

from keyhole.solve.rowspace import online as rowspace_online
from keyhole.solve.rowspace.online import OnlineRowSpace

Rows = list[list[int]]


def rank(rows: Rows) -> int:
    work = [[Fraction(v) for v in row] for row in rows]
    r = 0
    for c in range(len(work[0]) if work else 0):
        at = next((i for i in range(r, len(work)) if work[i][c]), None)
        if at is None:
            continue
        work[r], work[at] = work[at], work[r]
        for i in range(r + 1, len(work)):
            if work[i][c]:
                f = work[i][c] / work[r][c]
                work[i] = [a - f * b for a, b in zip(work[i], work[r], strict=True)]
        r += 1
    return r


def without(rows: Rows, k: int) -> Rows:
    return [row[:k] + row[k + 1 :] for row in rows]


def exposed(rows: Rows, n: int) -> set[int]:
    full = rank(rows)
    return {k for k in range(n) if rank(without(rows, k)) < full}


def shared(rows: Rows, n: int) -> set[tuple[int, int]]:
    """(i, k): i is not exposed, but is once record k is known."""
    alone = exposed(rows, n)
    out = set()
    for k in range(n):
        kept = [i for i in range(n) if i != k]
        for at in exposed(without(rows, k), n - 1):
            if kept[at] not in alone:
                out.add((kept[at], k))
    return out


def words(row: list[int]) -> np.ndarray:
    out = np.zeros((len(row) + 63) // 64, dtype=np.uint64)
    for k, v in enumerate(row):
        if v:
            out[k // 64] |= np.uint64(1) << np.uint64(k % 64)
    return out


@contextmanager
def compiled() -> Iterator[None]:
    saved = rowspace_online._COMPILED_FROM
    rowspace_online._COMPILED_FROM = 1
    try:
        yield
    finally:
        rowspace_online._COMPILED_FROM = saved


@contextmanager
def as_it_is() -> Iterator[None]:
    yield


PATHS = {"numpy": as_it_is, "compiled": compiled}


@st.composite
def logs(draw: st.DrawFn) -> tuple[int, Rows]:
    n = draw(st.integers(1, 7))
    bits = st.lists(st.integers(0, 1), min_size=n, max_size=n)
    weighted = st.lists(st.sampled_from([0, 1, -1, 2, 3, 2**50]), min_size=n, max_size=n)
    return n, draw(st.lists(st.one_of(bits, bits, bits, weighted), max_size=9))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("careful", [True, False], ids=["refusing", "answering all"])
@settings(max_examples=effort(90), deadline=None)
@given(log=logs(), seed=st.integers(0, 2**32 - 1))
def test_every_decision_equals_brute_force(path: str, careful: bool, log: tuple[int, Rows], seed: int) -> None:
    n, stream = log
    history: Rows = []
    with PATHS[path]():
        S = OnlineRowSpace(n, insiders=1, rng=np.random.default_rng(seed))
        for row in stream:
            is_bits = all(v in (0, 1) for v in row)
            decision = S.probe(words(row) if is_bits else dict(enumerate(row)))
            before, after = exposed(history, n), exposed([*history, row], n)
            assert decision.dependent == (rank([*history, row]) == rank(history))
            assert set(decision.exposes) == after - before
            assert set(decision.pairs) == shared([*history, row], n) - shared(history, n)
            for k in decision.exposes:
                w = S.certificate(decision, k)
                assert w is not None
                assert total([*history, row], w, n) == [int(j == k) for j in range(n)]
            for i, k in decision.pairs:
                w = S.certificate(decision, i, insider=k)
                assert w is not None
                found = total([*history, row], w, n)
                assert found[i] == 1
                assert all(v == 0 for j, v in enumerate(found) if j not in (i, k))
            if decision.safe or not careful:
                assert S.commit(decision) == len(history)
                history.append(row)
            assert S.rank == rank(history)
            assert set(S.exposed().tolist()) == exposed(history, n)
            assert not careful or not len(S.exposed())


def total(rows: Rows, weights: dict[int, Fraction], n: int) -> list[Fraction]:
    return [sum((w * rows[i][k] for i, w in weights.items()), Fraction(0)) for k in range(n)]


def test_the_differencing_story() -> None:
    """Everybody, then all but one: denied; the complement of an answered query: dependent, allowed."""
    n = 200
    S = OnlineRowSpace(n)
    everybody = S.probe(words([1] * n))
    assert everybody.safe
    assert S.commit(everybody) == 0
    attack = S.probe(words([1] * (n - 1) + [0]))
    assert attack.exposes == (n - 1,)
    assert not attack.safe
    assert S.certificate(attack, n - 1) == {0: 1, 1: -1}
    half = S.probe(words([1] * 100 + [0] * 100))
    assert half.safe
    S.commit(half)
    rest = S.probe(words([0] * 100 + [1] * 100))
    assert rest.dependent
    assert rest.safe
    assert S.commit(rest) == 2
    assert S.probe(words([1] * n)).dependent
    assert S.rank == 2
    assert S.committed == 3


def test_insiders_refuse_pairs_that_outsiders_may_ask() -> None:
    """A total over two people tells each of them the other's value."""
    outsiders, participants = OnlineRowSpace(10), OnlineRowSpace(10, insiders=1)
    pair = {3: 1, 8: 1}
    assert outsiders.probe(pair).safe
    decision = participants.probe(pair)
    assert decision.exposes == ()
    assert decision.pairs == ((3, 8), (8, 3))
    assert not decision.safe
    assert participants.certificate(decision, 3, insider=8) == {0: 1}


def test_a_chain_of_many_queries_is_decided_right_to_its_end() -> None:
    """The chain {k, k-1, k-3} with one stranger: nobody is exposed until his query without him is asked."""
    N = 150
    S = OnlineRowSpace(N + 1, rng=np.random.default_rng(7))
    for k in range(N):
        row = {k - d: 1 for d in (0, 1, 3) if k - d >= 0}
        if k == 0:
            row[N] = 1
        decision = S.probe(row)
        assert decision.safe, k
        S.commit(decision)
    last = S.probe({0: 1})
    assert last.exposes == tuple(range(N + 1))
    w = S.certificate(last, N - 1)
    assert w is not None
    assert max(abs(v) for v in w.values()) > 10**20
    assert S.rank == N


def test_a_decision_is_valid_for_one_state_only() -> None:
    S = OnlineRowSpace(5)
    first, second = S.probe({0: 1, 1: 1}), S.probe({2: 1, 3: 1})
    S.commit(first)
    with pytest.raises(ValueError, match="after 0 queries, now there are 1"):
        S.commit(second)
    with pytest.raises(ValueError, match="probe the query again"):
        S.certificate(second, 2)


def test_probing_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    one, other = OnlineRowSpace(30, rng=np.random.default_rng(1)), OnlineRowSpace(30, rng=np.random.default_rng(2))
    for _ in range(20):
        row = rng.integers(0, 2, size=30).tolist()
        for _ in range(3):
            one.probe(words(rng.integers(0, 2, size=30).tolist()))
        a, b = one.probe(words(row)), other.probe(words(row))
        assert (a.dependent, a.exposes) == (b.dependent, b.exposes)
        one.commit(a)
        other.commit(b)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (np.zeros(2, dtype=np.uint64), "need \\(1,\\)"),
        (np.array([1 << 5], dtype=np.uint64), "beyond record 4"),
        ({5: 1}, "record 5"),
        ({0: 1 << 70}, "scale the weights"),
    ],
)
def test_bad_queries_are_refused(query: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OnlineRowSpace(5).probe(query)  # type: ignore[arg-type]


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        OnlineRowSpace(0)
    with pytest.raises(ValueError, match="insiders = 2"):
        OnlineRowSpace(5, insiders=2)


def test_a_small_group_needs_no_search_of_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pivot is drawn from the group itself; only a row that differs by few records from what was told is searched."""
    n, rng = 40_000, np.random.default_rng(3)
    monkeypatch.setattr(rowspace_online, "_COMPILED_FROM", n + 1)
    space, searches = OnlineRowSpace(n, rng=rng), []
    real = space._combined

    def combine(y: np.ndarray, records: np.ndarray) -> np.ndarray:
        if len(records) == n:
            searches.append(len(y))
        return real(y, records)

    monkeypatch.setattr(space, "_combined", combine)
    group = np.zeros(((n + 63) // 64) * 64, dtype=bool)
    for _ in range(60):
        group[:] = False
        group[rng.integers(0, n, size=200)] = True  # half a percent of all
        space.commit(space.probe(np.packbits(group, bitorder="little").view(np.uint64)))
    assert not searches
    group[np.flatnonzero(group)[0]] = False
    attack = space.probe(np.packbits(group, bitorder="little").view(np.uint64))
    assert len(attack.exposes) == 1
