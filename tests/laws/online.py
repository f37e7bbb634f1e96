"""Laws of every online auditor, and a liar for each.

from tests.laws.online import LAWS, Lifecycle
for law in LAWS:
    law.check(Lifecycle(make=..., reopen=...))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from tests.laws.law import Law, Specimen
from tests.laws.streams import OTHER_SECRET, PEOPLE, SECRET, Ask, Vector, determined, roster, stream

from keyhole.auditing.online.online import Admission, OnlineAuditor, Permission
from keyhole.datasets import Roster

SEEDS = range(6)


class Gatekeeper(Protocol):
    """What a law asks of an online auditor."""

    def admit(self, query: str) -> Admission:
        """May it be answered?"""

    def seen(self) -> None:
        """The statement just judged was not answered."""

    def record(self, query: str, answer: object = None) -> str:
        """It was answered."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """An implementation: how to begin one, and how to go on from its saved state."""

    make: Callable[[Roster, int], Gatekeeper]
    reopen: Callable[[Gatekeeper, Roster, int], Gatekeeper]


def play(
    auditor: Gatekeeper, asks: list[Ask], secret: tuple[int, ...] = SECRET
) -> tuple[list[Admission], list[Vector]]:
    """Run a stream; returns the verdicts, and the rows of what was answered."""
    verdicts: list[Admission] = []
    answered: list[Vector] = []
    for one in asks:
        said = auditor.admit(one.sql)
        verdicts.append(said)
        if said.verdict is Permission.ALLOW:
            auditor.record(one.sql, [None if a is None else str(a) for a in one.answers(secret)])
            answered.extend(one.rows)
        else:
            auditor.seen()
    return verdicts, answered


def the_stream_of_answers_exposes_nobody(online: Lifecycle) -> None:
    """Whatever is asked: who answers only what is allowed exposes nobody (brute force), insiders included."""
    for insiders in (0, 1):
        for seed in SEEDS:
            _, answered = play(online.make(roster(), insiders), stream(seed))
            exposed = determined(answered, insiders=insiders)
            assert not exposed, f"seed {seed}, insiders {insiders}: {sorted(exposed)} exposed"


def every_denied_query_would_have_exposed_somebody(online: Lifecycle) -> None:
    """Nothing is denied in vain, with or without insiders (brute force)."""
    for insiders in (0, 1):
        for seed in SEEDS:
            auditor = online.make(roster(), insiders)
            answered: list[Vector] = []
            for one in stream(seed):
                said, rows = play(auditor, [one])
                assert said[0].verdict is not Permission.REFUSED, f"seed {seed}: {one.sql} is refused: {said[0].reason}"
                vain = said[0].verdict is Permission.DENY and not determined([*answered, *one.rows], insiders=insiders)
                assert not vain, f"seed {seed}, insiders {insiders}: {one.sql} is denied in vain"
                answered += rows


def a_denial_changes_no_state(online: Lifecycle) -> None:
    """An auditor that was asked for what it denied decides like one that was not."""
    for seed in SEEDS:
        asks = stream(seed)
        verdicts, _ = play(online.make(roster(), 0), asks)
        allowed = [one for one, said in zip(asks, verdicts, strict=True) if said.verdict is Permission.ALLOW]
        again, _ = play(online.make(roster(), 0), allowed)
        assert all(said.verdict is Permission.ALLOW for said in again), f"seed {seed}: a denial left its mark"
        probes = stream(seed + 100)
        first, second = (online.make(roster(), 0) for _ in range(2))
        play(first, asks)
        play(second, allowed)
        for probe in probes:
            both = first.admit(probe.sql).verdict, second.admit(probe.sql).verdict
            assert both[0] is both[1], f"seed {seed}: {probe.sql}: {both}"


def what_follows_from_earlier_answers_is_allowed(online: Lifecycle) -> None:
    """The same question again, and any combination of answered ones, is never denied."""
    for insiders in (0, 1):
        auditor = online.make(roster(), insiders)
        for sql in ("SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE zip IN (1, 4)"):
            assert auditor.admit(sql).verdict is Permission.ALLOW, sql
            auditor.record(sql)
        again = ("SELECT SUM(x) FROM t", "SELECT AVG(x) FROM t WHERE zip = 2 OR zip = 3", "SELECT SUM(x) * 3 FROM t")
        for sql in again:
            assert auditor.admit(sql).verdict is Permission.ALLOW, f"insiders {insiders}: {sql} follows, yet is denied"


def decisions_are_equal_on_neighbouring_data(online: Lifecycle) -> None:
    """Two tables that differ in private values only, and the answers that go with them: the same verdicts."""
    for seed in SEEDS:
        one, _ = play(online.make(roster(SECRET), 0), stream(seed), SECRET)
        two, _ = play(online.make(roster(OTHER_SECRET), 0), stream(seed), OTHER_SECRET)
        assert [(v.verdict, v.reason) for v in one] == [(v.verdict, v.reason) for v in two], f"seed {seed}"


def restored_in_mid_stream_it_decides_as_if_uninterrupted(online: Lifecycle) -> None:
    """Saved and opened again after every few statements, it says the same."""
    for seed in SEEDS:
        asks = stream(seed)
        whole, _ = play(online.make(roster(), 0), asks)
        auditor = online.make(roster(), 0)
        parts: list[Admission] = []
        for start in range(0, len(asks), 4):
            parts += play(auditor, asks[start : start + 4])[0]
            auditor = online.reopen(auditor, roster(), 0)
        assert [v.verdict for v in whole] == [v.verdict for v in parts], f"seed {seed}"


def what_could_be_extreme_is_refused(online: Lifecycle) -> None:
    """Private conditions, extremes, medians, variances, squares and yes/no questions are refused, and leave no mark."""
    auditor = online.make(roster(), 0)
    for sql in (
        "SELECT COUNT(*) FROM t WHERE x > 3",
        "SELECT SUM(x) FROM t WHERE x > 3",
        "SELECT MAX(x) FROM t",
        "SELECT MIN(x) FROM t",
        "SELECT MEDIAN(x) FROM t",
        "SELECT VAR_POP(x) FROM t",
        "SELECT SUM(x * x) FROM t",
        "SELECT SUM(x) > 5 FROM t",
        "SELECT zip, SUM(x) FROM t GROUP BY zip HAVING SUM(x) > 5",
        "SELECT x, COUNT(*) FROM t GROUP BY x",
        "SELECT SUM(nothing) FROM t",
    ):
        assert auditor.admit(sql).verdict is Permission.REFUSED, f"{sql} is not refused"
        auditor.seen()
    assert auditor.admit("SELECT SUM(x) FROM t").verdict is Permission.ALLOW


def a_statement_is_admitted_whole_or_not_at_all(online: Lifecycle) -> None:
    """One group that would expose somebody denies the statement, and the harmless groups are then still to be had."""
    auditor = online.make(roster(), 0)
    assert auditor.admit("SELECT zip, SUM(x) FROM t GROUP BY zip").verdict is Permission.DENY  # zip 4: Gus alone
    auditor.seen()
    assert auditor.admit("SELECT zip, SUM(x) FROM t WHERE zip <= 2 GROUP BY zip").verdict is Permission.ALLOW
    auditor.record("SELECT zip, SUM(x) FROM t WHERE zip <= 2 GROUP BY zip")
    # Both groups count now: Ann alone would follow from Bob, so a sum over one of each zip is still harmless.
    assert auditor.admit("SELECT SUM(x) FROM t WHERE age = 31").verdict is Permission.ALLOW
    assert auditor.admit("SELECT SUM(x) FROM t WHERE zip = 1 AND age = 31").verdict is Permission.DENY


def the_proof_of_a_denial_gives_the_value_it_names(online: Lifecycle) -> None:
    """Weights times true answers, this one's included, are exactly the private value of the first person named."""
    denied = 0
    for seed in SEEDS:
        for secret in (SECRET, OTHER_SECRET):
            auditor = online.make(roster(), 0)
            answers: dict[str, Fraction | None] = {}
            for one in stream(seed):
                said = play(auditor, [one], secret)[0][0]
                values = one.answers(secret)
                grouped = "GROUP BY" in one.sql
                for part, value in enumerate(values, 1):
                    answers[f"{said.number}.{part}" if grouped else said.number] = value
                if said.verdict is not Permission.DENY:
                    continue
                denied += 1
                assert said.who, f"{one.sql}: nobody is named"
                assert said.proof is not None, f"{one.sql}: without a proof"
                total = Fraction(0)
                for item in said.steps():
                    value = Fraction(item["known"]) if "known" in item else answers[item["query"]]
                    assert value is not None, f"{one.sql}: the proof uses NULL"
                    total += Fraction(item["weight"]) * value
                at = [p.name for p in PEOPLE].index(str(said.who[0].record["name"]))
                assert total == secret[at], f"{one.sql}: {total} is not {said.who[0].who}'s value"
    assert denied, "no stream had a denial: the law was not tried"


def _make(table: Roster, insiders: int) -> Gatekeeper:
    return OnlineAuditor(table, insiders=insiders)


def _reopen(auditor: Gatekeeper, table: Roster, insiders: int) -> Gatekeeper:
    assert isinstance(auditor, OnlineAuditor)
    again = OnlineAuditor(table, insiders=insiders)
    again.resume(auditor.past, "the past")
    return again


SPECIMENS: tuple[Specimen[Lifecycle], ...] = (Specimen("OnlineAuditor", Lifecycle(_make, _reopen)),)


class _Tampered(OnlineAuditor):
    """An honest auditor whose verdicts are tampered with."""

    def __init__(self, table: Roster, insiders: int = 0) -> None:
        super().__init__(table, insiders=insiders)
        self.marks: list[object] = []

    def admit(self, query: object) -> Admission:
        assert isinstance(query, str)
        return self.tamper(query, super().admit(query))

    def tamper(self, sql: str, said: Admission) -> Admission:
        raise NotImplementedError


class _Generous(_Tampered):
    """Denies nothing."""

    def tamper(self, sql: str, said: Admission) -> Admission:
        return replace(said, verdict=Permission.ALLOW) if said.verdict is Permission.DENY else said


class _Stingy(_Tampered):
    """Denies every third new thing."""

    def tamper(self, sql: str, said: Admission) -> Admission:
        self.marks.append(sql)
        return replace(said, verdict=Permission.DENY) if len(self.marks) % 3 == 0 else said


class _Resentful(_Tampered):
    """After a denial it denies everything."""

    def tamper(self, sql: str, said: Admission) -> Admission:
        if self.marks:
            return replace(said, verdict=Permission.DENY)
        if said.verdict is Permission.DENY:
            self.marks.append(sql)
        return said


class _Pedantic(_Tampered):
    """Denies whatever was answered already."""

    def tamper(self, sql: str, said: Admission) -> Admission:
        return replace(said, verdict=Permission.DENY) if said.reason.startswith("it follows") else said


class _Peeping(_Tampered):
    """Looks at the answers: after one above 25 it grows careful."""

    def tamper(self, sql: str, said: Admission) -> Admission:
        return replace(said, reason="the last answer was large") if self.marks else said

    def record(self, query: object, answer: object = None) -> str:
        assert isinstance(query, str)
        if isinstance(answer, list) and any(a is not None and Fraction(a) > 25 for a in answer):
            self.marks.append(answer)
        return super().record(query, answer)


class _Curious(_Tampered):
    """Answers extremes too."""

    def tamper(self, sql: str, said: Admission) -> Admission:
        return replace(said, verdict=Permission.ALLOW) if "MAX" in sql else said


class _Hasty(_Tampered):
    """Judges the first group only."""

    def tamper(self, sql: str, said: Admission) -> Admission:
        return replace(said, verdict=Permission.ALLOW) if "GROUP BY" in sql and len(said.who) < 3 else said


class _Careless(_Tampered):
    """Proofs with doubled weights."""

    def tamper(self, sql: str, said: Admission) -> Admission:
        return replace(said, premises={key: replace(c, scale=2 * c.scale) for key, c in said.premises.items()})


def _forget(auditor: Gatekeeper, table: Roster, insiders: int) -> Gatekeeper:
    return OnlineAuditor(table, insiders=insiders)


def _liar(name: str, make: Callable[[Roster, int], Gatekeeper]) -> tuple[Specimen[Lifecycle], ...]:
    return (Specimen(name, Lifecycle(make, _reopen)),)


LAWS: tuple[Law[Lifecycle], ...] = (
    Law(the_stream_of_answers_exposes_nobody, _liar("generous", _Generous)),
    Law(every_denied_query_would_have_exposed_somebody, _liar("stingy", _Stingy)),
    Law(a_denial_changes_no_state, _liar("resentful", _Resentful)),
    Law(what_follows_from_earlier_answers_is_allowed, _liar("pedantic", _Pedantic)),
    Law(decisions_are_equal_on_neighbouring_data, _liar("peeping", _Peeping)),
    Law(
        restored_in_mid_stream_it_decides_as_if_uninterrupted,
        (Specimen("forgets when reopened", Lifecycle(_make, _forget)),),
    ),
    Law(what_could_be_extreme_is_refused, _liar("curious", _Curious)),
    Law(a_statement_is_admitted_whole_or_not_at_all, _liar("hasty", _Hasty)),
    Law(the_proof_of_a_denial_gives_the_value_it_names, _liar("careless", _Careless)),
)
