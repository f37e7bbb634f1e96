"""Online decisions: known answers, the offline audit as judge, a slow twin, and every kind of question."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.laws.streams import PEOPLE, SECRET, Ask, determined, roster, stream
from tests.support.effort import effort

from keyhole.api.session import watch
from keyhole.auditing.examine import examine
from keyhole.auditing.online.disclosed import People, objection
from keyhole.auditing.online.online import Admission, OnlineAuditor, Permission
from keyhole.basis.bits import unpack
from keyhole.cli.demo import LOG
from keyhole.cli.demo import PEOPLE as HOSPITAL
from keyhole.config import Columns
from keyhole.datasets import Roster, load_roster
from keyhole.errors import ConfigError
from keyhole.model.predicate import And, Comparison, IsNull, IsTrue, Like, Membership, Not, Opaque, Or, Predicate
from keyhole.model.query import Aggregate, Query, Term
from keyhole.model.transcript import Line
from keyhole.sessions.published import find_unaccounted, publish
from keyhole.solve.rowspace import RowMatrix, RowSpace
from keyhole.sql import lower_statement, split_statements


def table(private: dict[str, list[float | None]], **public: list[object]) -> Roster:
    roles = Columns.checked({"private": {name: {} for name in private}})
    return load_roster(pa.table({**public, **private}), roles)


def ask(auditor: OnlineAuditor, sql: str) -> Admission:
    said = auditor.admit(sql)
    if said.allowed:
        auditor.record(sql)
    else:
        auditor.seen()
    return said


@pytest.fixture
def hospital(tmp_path: Path) -> Roster:
    path = tmp_path / "people.csv"
    path.write_text(HOSPITAL, encoding="utf-8")
    return load_roster(path, Columns.checked({"id": ["Name"], "private": {"Blood sugar": {}}}))


# -- known answers --------------------------------------------------------------------------------------------------


def test_the_hospital_log_is_allow_allow_deny(hospital: Roster) -> None:
    auditor = OnlineAuditor(hospital)
    said = [ask(auditor, part.sql) for part in split_statements(LOG)]
    assert [str(v.verdict) for v in said] == ["allow", "allow", "deny"]
    assert [v.number for v in said] == ["1", "2", "3"]
    assert [(f.who, f.column) for f in said[2].who] == [("Jeremy Doe", "Blood sugar")]
    assert [(p["query"], p["weight"]) for p in said[2].steps()] == [("1", "1"), ("2", "-1"), ("3", "-1")]
    assert "Jeremy" not in said[2].reason


def test_duplicates_and_dependent_queries_are_allowed(hospital: Roster) -> None:
    auditor = OnlineAuditor(hospital, insiders=1)
    for sql in (
        'SELECT SUM("Blood sugar") FROM people',
        'SELECT SUM("Blood sugar") FROM people',
        "SELECT AVG(\"Blood sugar\") FROM people WHERE Gender = 'Male'",
        'SELECT Gender, AVG("Blood sugar"), COUNT(*) FROM people GROUP BY ROLLUP (Gender)',
        'SELECT 2 * SUM("Blood sugar") FROM people',
    ):
        assert ask(auditor, sql).allowed, sql


def test_two_people_are_safe_from_outsiders_but_not_from_each_other() -> None:
    for insiders, verdict in ((0, Permission.ALLOW), (1, Permission.DENY)):
        auditor = OnlineAuditor(table({"x": [1, 2, 3, 4]}, team=["a", "a", "b", "b"]), insiders=insiders)
        said = ask(auditor, "SELECT SUM(x) FROM t WHERE team = 'a'")
        assert said.verdict is verdict
    assert [(f.record, f.insider) for f in said.who] == [({"row": 1}, {"row": 2}), ({"row": 2}, {"row": 1})]
    assert [(p["query"], p["weight"]) for p in said.steps()] == [("1", "1")]


# -- the offline audit as judge -------------------------------------------------------------------------------------


def offline(asks: list[Ask]) -> set[str]:
    people = pa.table(
        {
            "name": [p.name for p in PEOPLE],
            "age": [p.age for p in PEOPLE],
            "zip": [p.zip for p in PEOPLE],
            "sex": [p.sex for p in PEOPLE],
            "x": [v if p.has else None for p, v in zip(PEOPLE, SECRET, strict=True)],
        }
    )
    return {f.who for f in examine([a.sql for a in asks], data=people, id="name", private=["x:real"]).exposed}


@given(st.integers(0, 10**6))
@settings(max_examples=effort(8), deadline=None)
def test_online_equals_offline(seed: int) -> None:
    auditor = OnlineAuditor(roster())
    answered: list[Ask] = []
    for one in stream(seed, 7):
        said = ask(auditor, one.sql)
        if said.allowed:
            answered.append(one)
        else:
            who = {f.record["name"] for f in said.who}
            rows = [row for each in (*answered, one) for row in each.rows]
            assert {PEOPLE[i].name for i in determined(rows)} == who
            found = offline([*answered, one])
            # A difference with an empty side is NULL for the engine, and counts as a number before it is asked.
            assert found == who or (found < who and "FILTER" in one.sql)
    assert not offline(answered)


# -- a slow twin ----------------------------------------------------------------------------------------------------


class Seen:
    def __init__(self, rows: list[dict[int, int]], n: int, before: set[int]) -> None:
        space = RowSpace(RowMatrix.from_sparse(rows, n))
        self.space = space
        self.row = rows[-1]
        self.exposes = tuple(sorted(set(space.determined().tolist()) - before))
        self.pairs: tuple[tuple[int, int], ...] = ()
        self.crosses = False
        self.dependent = space.rank == RowSpace(RowMatrix.from_sparse(rows[:-1], n)).rank


class Twin:
    """The whole record-level matrix factored again for every question."""

    def __init__(self, n: int, insiders: int) -> None:
        assert insiders == 0
        self.n = n
        self.rows: list[dict[int, int]] = []
        self.exposed: set[int] = set()

    def probe(self, query: NDArray[np.uint64] | dict[int, int]) -> Seen:
        if isinstance(query, np.ndarray):
            query = {int(k): 1 for k in np.flatnonzero(unpack(query, self.n))}
        return Seen([*self.rows, dict(query)], self.n, self.exposed)

    def commit(self, decision: Seen) -> int:
        self.rows.append(decision.row)
        self.exposed |= set(decision.exposes)
        return len(self.rows) - 1

    def pass_over(self, decision: Seen) -> None:
        assert decision.dependent

    def certificate(self, decision: Seen, record: int, insider: int | None = None) -> dict[int, Fraction] | None:
        return decision.space.weights(record)


@given(st.integers(0, 10**6))
@settings(max_examples=effort(25), deadline=None)
def test_equal_to_the_twin(seed: int) -> None:
    fast, slow = OnlineAuditor(roster()), OnlineAuditor(roster(), space=Twin)
    for one in stream(seed, 12):
        a, b = ask(fast, one.sql), ask(slow, one.sql)
        assert (a.verdict, a.reason, a.who) == (b.verdict, b.reason, b.who), one.sql


# -- kinds of questions ---------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(0, 1))
@settings(max_examples=effort(25), deadline=None)
def test_the_decision_does_not_depend_on_its_proof(seed: int, insiders: int) -> None:
    proved, plain = (OnlineAuditor(roster(), insiders=insiders) for _ in range(2))
    for one in stream(seed, 10):
        first, second = proved.admit(one.sql), plain.decide(one.sql)
        assert (first.verdict, first.reason, first.number) == (second.verdict, second.reason, second.number)
        assert {f.who for f in first.who} == {f.who for f in second.who}
        assert second.proof is None
        assert (first.proof is not None) == (first.verdict is Permission.DENY)
        for auditor, said in ((proved, first), (plain, second)):
            if said.allowed:
                auditor.record(one.sql)
            else:
                auditor.seen()


def test_weighted_sums_are_judged() -> None:
    people = table({"x": [1, 2, 3, 4]}, w=[1, 2, 4, 8])
    auditor = OnlineAuditor(people)
    assert ask(auditor, "SELECT SUM(x) FROM t").allowed
    assert ask(auditor, "SELECT SUM(x * w) FROM t").allowed
    assert ask(auditor, "SELECT SUM(x * (w + 1)) FROM t").reason == "it follows from what was answered before"
    assert ask(auditor, "SELECT SUM(x * w * w) FROM t").allowed
    said = ask(auditor, "SELECT SUM(x * w) FROM t WHERE w > 1")
    assert said.verdict is Permission.DENY
    assert {f.record["row"] for f in said.who} == {1, 2, 3, 4}


def test_a_multiple_of_a_sum_is_that_sum() -> None:
    auditor = OnlineAuditor(table({"x": [1, 2, 3]}, a=[1, 1, 2], one=[3, 3, 3]))
    assert ask(auditor, "SELECT SUM(x * one) / 7 FROM t").allowed
    assert ask(auditor, "SELECT SUM(x) FROM t").reason == "it follows from what was answered before"


def test_weights_beyond_exact_arithmetic_are_refused() -> None:
    auditor = OnlineAuditor(table({"x": [1, 2, 3]}, w=[1, 2, 3]))
    said = ask(auditor, "SELECT SUM(x * w * 4000000000 * 4000000000) FROM t")
    assert said.verdict is Permission.REFUSED
    assert "the engine refuses" in said.reason


def test_average_counts_as_its_sum() -> None:
    auditor = OnlineAuditor(table({"x": [1, None, 3, 4]}, a=[1, 1, 2, 2]))
    assert ask(auditor, "SELECT AVG(x) FROM t").allowed
    said = ask(auditor, "SELECT AVG(x) FROM t WHERE a = 2")
    assert said.verdict is Permission.DENY  # 3 people have a value, 2 of them have a = 2
    assert said.who[0].record == {"row": 1}
    assert [(p["query"], p["weight"]) for p in said.steps()] == [("1", "3"), ("2", "-2")]
    assert ask(auditor, "SELECT AVG(x) FROM t WHERE a = 99").allowed  # NULL: nobody


def test_private_columns_have_states_of_their_own() -> None:
    people = table({"x": [1, 2, 3], "y": [4, 5, 6]}, a=[1, 1, 2])
    auditor = OnlineAuditor(people)
    assert ask(auditor, "SELECT SUM(x) FROM t").allowed
    assert ask(auditor, "SELECT SUM(y) FROM t WHERE a = 1").allowed
    assert ask(auditor, "SELECT SUM(y) FROM t").verdict is Permission.DENY
    assert ask(auditor, "SELECT SUM(x), SUM(y) FROM t").verdict is Permission.DENY
    assert ask(auditor, "SELECT SUM(x), COUNT(*) FROM t").allowed


def test_a_number_about_two_columns_counts_as_both_sums() -> None:
    for sql in ("SELECT SUM(x) + SUM(y) FROM t", "SELECT SUM(x) / SUM(y) FROM t"):
        auditor = OnlineAuditor(table({"x": [1, 2, 3], "y": [4, 5, 6]}, a=[1, 1, 2]))
        assert ask(auditor, sql).allowed
        said = ask(auditor, "SELECT SUM(y) FROM t WHERE a = 1")
        assert said.verdict is Permission.DENY
        assert said.steps()[0]["of"]


def test_public_having_decides_which_groups_count() -> None:
    people = table({"x": [1, 2, 3, 4, 5]}, a=[1, 1, 2, 2, 3])
    assert ask(OnlineAuditor(people), "SELECT a, SUM(x) FROM t GROUP BY a").verdict is Permission.DENY
    auditor = OnlineAuditor(people)
    assert ask(auditor, "SELECT a, SUM(x) FROM t GROUP BY a HAVING COUNT(*) >= 2").allowed
    assert ask(auditor, "SELECT SUM(x) FROM t").verdict is Permission.DENY


def test_many_groups_are_judged_at_once() -> None:
    n = 60
    people = table({"x": list(range(n))}, a=[i // 2 for i in range(n)])
    auditor = OnlineAuditor(people)
    assert ask(auditor, "SELECT a, SUM(x), COUNT(*) FROM t GROUP BY a").allowed  # 30 groups of two
    assert ask(auditor, "SELECT SUM(x) FROM t").reason.startswith("it follows")
    assert ask(auditor, "SELECT SUM(x) FROM t WHERE a > 10").reason.startswith("it follows")


def test_public_questions_are_allowed() -> None:
    auditor = OnlineAuditor(table({"x": [1, 2, 3]}, a=[1, 1, 2]))
    for sql in ("SELECT COUNT(*) FROM t WHERE a = 2", "SELECT MAX(a) FROM t", "SELECT a, COUNT(x) FROM t GROUP BY a"):
        assert ask(auditor, sql).reason == "it asks only public things"


def test_families_and_other_refusals_say_why() -> None:
    people = table({"x": [1, 2, 3], "y": [1, 2, 3]}, a=[1, 1, 2])
    auditor = OnlineAuditor(people, families={"y": "minmax"})
    for sql, words in (
        ("SELECT MAX(x) FROM t", "family is sum"),
        ("SELECT SUM(y) FROM t", "its family is minmax"),
        ("SELECT MIN(y), MAX(y) FROM t", "one number at a time"),
        ("SELECT MEDIAN(x) FROM t", "MEDIAN"),
        ("SELECT STDDEV(x) FROM t", "variance"),
        ("SELECT SUM(x) FROM t WHERE y > 1", "private column 'y'"),
        ("SELECT SUM(x) < 5 FROM t", "yes/no"),
        ("SELECT SUM(x * x) FROM t", "squares"),
        ("SELECT y, COUNT(*) FROM t GROUP BY y", "groups by the private column"),
        ("DROP TABLE t", "not DROP"),
    ):
        said = ask(auditor, sql)
        assert said.verdict is Permission.REFUSED, sql
        assert words in said.reason, said.reason
    unknown = Query(Aggregate.SUM, (Term("x", Opaque("no_such_function(a) = 1", frozenset({"a"}))),))
    assert "the engine refuses it" in auditor.admit(unknown).reason


def test_queries_and_statements_may_be_asked_as_values() -> None:
    people = table({"x": [1, 2, 3]}, a=[1, 1, 2])
    auditor = OnlineAuditor(people)
    statement = lower_statement("SELECT SUM(x) FROM t", people.schema)
    assert auditor.admit(statement).allowed
    assert auditor.record(statement) == "1"
    query = Query(Aggregate.SUM, (Term("x", Comparison("a", "=", 1)),))
    assert auditor.admit(query).verdict is Permission.DENY
    assert objection(statement, people.schema, {}) is None


def test_what_was_said_counts_even_if_it_was_not_admitted() -> None:
    auditor = OnlineAuditor(table({"x": [1, 2, 3, 4]}, a=[1, 1, 2, 3]))
    assert auditor.record("SELECT SUM(x) FROM t WHERE a = 3") == "1"  # exposes row 4: said is said
    assert ask(auditor, "SELECT SUM(x) FROM t WHERE a >= 2").verdict is Permission.DENY  # now row 3 too
    assert ask(auditor, "SELECT SUM(x) FROM t WHERE a = 3").allowed


def test_earlier_publications_count() -> None:
    data = pa.table({"a": [1, 1, 2], "x": [1, 2, 3]})
    log = [Line(1, "SELECT SUM(x) FROM t", 6), Line(2, "SELECT MAX(x) FROM t"), Line(3, "SELEC")]
    with watch(data, private="x:0..", exact_above=1) as session:
        assert [r.number for r in find_unaccounted(session.auditing, log, ())] == ["2", "3"]
        left = publish(session.auditing, log)
        assert [(r.number, r.sql) for r in left] == [("2", "SELECT MAX(x) FROM t"), ("3", "SELEC")]
        assert session.admit("SELECT SUM(x) FROM t WHERE a = 1").verdict is Permission.DENY
        assert not publish(session.auditing, log)  # again: nothing new
        assert not find_unaccounted(session.auditing, log, ())
        assert [p.judged for p in session.auditing.auditor.past] == [True, False, False]


# -- masks ----------------------------------------------------------------------------------------------------------

LEAVES: list[Predicate] = [
    Comparison("age", ">", 30),
    Comparison("age", "<=", 45),
    Comparison("sex", "=", "F"),
    Membership("zip", (1, 3)),
    Like("name", "%a%"),
    IsNull("sex"),
]
PREDICATES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(Not),
        inner.map(IsTrue),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=6,
)
RECORDS = People(roster()).records


@given(PREDICATES)
@settings(max_examples=effort(60), deadline=None)
def test_kept_conditions_mean_what_the_engine_says(predicate: Predicate) -> None:
    people = roster()
    direct = people.support(Query(Aggregate.SUM, (Term(None, predicate),)))
    for _ in range(3):  # asked, then its leaves are kept, then all is combined
        assert np.flatnonzero(unpack(RECORDS.bits(predicate), people.n)).tolist() == direct.tolist()


def test_kept_conditions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyhole.basis.base.KEPT", 4)
    masks = People(roster()).records
    for _ in range(2):
        for age in range(20, 60):
            masks.bits(Comparison("age", ">", age))
    assert len(masks._kept) <= 4


def test_too_many_numbers_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    auditor = OnlineAuditor(table({"x": list(range(40))}, a=list(range(40))))
    monkeypatch.setattr("keyhole.auditing.online.disclosed.MAX_BYTES", 60)
    said = ask(auditor, "SELECT a, SUM(x) FROM t GROUP BY a")
    assert said.verdict is Permission.REFUSED
    assert "40 numbers at once and the limit is 10" in said.reason
    assert ask(auditor, "SELECT SUM(x) FROM t").allowed


def test_groups_that_follow_are_allowed_and_leave_the_state_alone() -> None:
    auditor = OnlineAuditor(table({"x": [1, 2, 3, 4]}, a=[1, 1, 2, 2]))
    assert ask(auditor, "SELECT a, SUM(x) FROM t GROUP BY a").allowed
    before = len(auditor._columns["x"].sources)
    assert ask(auditor, "SELECT a, AVG(x), SUM(x) FROM t GROUP BY ROLLUP (a)").reason.startswith("it follows")
    assert len(auditor._columns["x"].sources) == before == 2


def test_insiders_are_none_or_one() -> None:
    with pytest.raises(ConfigError, match="insiders = 2"):
        OnlineAuditor(table({"x": [1, 2]}, a=[1, 2]), insiders=2)
