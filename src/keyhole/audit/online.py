"""Deciding before each answer: would it expose anybody, given everything answered so far?

For sums under public conditions the answer to that question depends on query sets only, never on answers or private
values: deny iff the row space of the history and the new query contains a unit vector (insiders = 1: a vector
supported on two records). So a denial tells nothing that the analyst could not compute: the auditor is simulatable.
References: [chin1978] for the row-space rule, [kenthapadi2005] for simulatability.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from keyhole.audit.admission import Admission, Permission, Premise
from keyhole.audit.base import Finding, Proof, Status
from keyhole.audit.disclosed import Disclosed, People, disclosed, objection
from keyhole.audit.history import ANSWERED, PUBLISHED, UNJUDGED, History, Past, write_history
from keyhole.audit.minmax import MinMax
from keyhole.basis import Row
from keyhole.basis.bits import Words
from keyhole.errors import ConfigError, LogError, QueryError
from keyhole.knowledge import Knowledge
from keyhole.predicate import quote_name
from keyhole.query import Query, Refused, Statement
from keyhole.reading import Validator
from keyhole.schema import Role
from keyhole.solve.rowspace.online import OnlineRowSpace
from keyhole.sql import carried, lower
from keyhole.tables import Roster
from keyhole.tables.seal import Seal
from keyhole.transcript import ABSENT, Line, Refusal

__all__ = ["Admission", "OnlineAuditor", "Permission", "Space"]

Asked: TypeAlias = str | Statement | Query
Sparse: TypeAlias = dict[int, int]


class Space(Protocol):
    """The numerics behind one private column: see `OnlineRowSpace`."""

    def probe(self, query: Sparse | Words) -> Any:
        """What one more row would do (`dependent`, `exposes`, `pairs`); changes nothing."""

    def commit(self, decision: Any) -> int:
        """Take the row into the history; returns its number, from 0."""

    def certificate(self, decision: Any, record: int, insider: int | None = None) -> dict[int, Fraction] | None:
        """Exact weights over the committed rows, and the probed one, that give the record."""


@dataclass(slots=True)
class _Column:
    """The state of one private column."""

    space: Space
    sources: list[Premise] = field(default_factory=list)


@dataclass(slots=True)
class _Plan:
    """A judged statement, ready to be recorded: what each column would become."""

    verdict: Admission
    statement: Statement | None
    at: int  # how many statements the history had
    forms: list[Disclosed] = field(default_factory=list)
    moves: list[tuple[str, Any, Premise]] = field(default_factory=list)  # column, decision, source
    forks: dict[str, _Column] = field(default_factory=dict)


class OnlineAuditor:
    """Admits a query only if its answer would expose nobody; decides from roster and history alone.

    SUM family: SUM, COUNT, AVG and their linear combinations under public conditions, public weights included. One
    state for each private column. A statement with several numbers or groups is admitted whole or not at all. A query
    that earlier ones determine is always admitted. Everything whose answer could be extreme is refused
    (`disclosed.objection`). Guarantee: if only admitted queries are answered, nobody's value is determined by the
    answers, for values that range over all reals; with insiders = 1 neither by the answers and any one other value.
    MIN and MAX: `keyhole.audit.minmax`, for columns of that family. Bounded and 0/1 columns need more (see the interval
    auditor, or differential privacy). A false "safe" for numerical
    reasons: see `OnlineRowSpace` (below 10^-5 for a whole history of 1,000). Cost of a decision: one engine pass and
    O(r^2 + n). One caller at a time: between `admit` and `record` nobody else may be answered.

    >>> import pyarrow as pa
    >>> from keyhole.knowledge import Columns
    >>> from keyhole.tables import load_roster
    >>> people = pa.table({"name": ["Ann", "Bob", "Cyd"], "team": ["a", "a", "b"], "pay": [10, 20, 30]})
    >>> auditor = OnlineAuditor(load_roster(people, Columns.checked({"id": ["name"], "private": {"pay": {}}})))
    >>> auditor.admit("SELECT SUM(pay) FROM t").verdict, auditor.record("SELECT SUM(pay) FROM t")
    (<Permission.ALLOW: 'allow'>, '1')
    >>> said = auditor.admit("SELECT SUM(pay) FROM t WHERE team = 'a'")
    >>> str(said.verdict), said.who[0].who, [(p["query"], p["weight"]) for p in said.steps()]
    ('deny', 'Cyd', [('1', '1'), ('2', '-1')])
    """

    def __init__(
        self,
        roster: Roster,
        *,
        insiders: int = 0,
        families: Mapping[str, str] | None = None,
        history: History | None = None,
        space: Callable[[int, int], Space] | None = None,
        knowledge: Knowledge | None = None,
    ) -> None:
        if insiders not in (0, 1):
            raise ConfigError(f"insiders = {insiders}: write 0 (outsiders only) or 1 (any one other participant)")
        self.roster, self.insiders = roster, insiders
        self._families = dict(families or {})
        self._make: Callable[[int, int], Space] = space or _row_space
        self._columns: dict[str, _Column] = {}
        self._past: list[Past] = []
        self._people = People(roster)
        self._minmax = MinMax(self._people, self._families, knowledge or Knowledge(), insiders)
        self._validator = Validator(roster)
        self._asked = 0  # number of the latest statement seen
        self._plan: _Plan | None = None
        self._private = frozenset(c.name for c in roster.schema.of_role(Role.PRIVATE))
        self._history: History | None = None
        if history is not None:
            self._validator.reasons(self._lowered(history.past))  # all at once costs less than one by one
            for past in history.past:
                self._replay(past, str(history.path))
            self._history = history

    @property
    def past(self) -> tuple[Past, ...]:
        """The statements that count: answered here or published earlier."""
        return tuple(self._past)

    def admit(self, query: Asked) -> Admission:
        """May this be answered? Changes no state that any later decision depends on.

        The verdict is `allow`, `deny` (it would expose somebody) or `refused` (it is not decided before the answer is
        known, or it is not understood).
        """
        return self._admit(query, _proof)

    def decide(self, query: Asked) -> Admission:
        """As `admit`, without the proof: the same decision at a cost that does not grow with the proof.

        A proof is solved in exact integers over all queries it needs; near full rank (as many answers as people)
        that takes seconds, a decision milliseconds. No decision depends on it.
        """
        return self._admit(query, _no_proof)

    def seen(self) -> None:
        """Count the statement just judged although it was not answered, so that numbers follow the stream."""
        self._asked += 1
        self._plan = None

    def record(self, query: Asked, answer: object = None) -> str:
        """The query was answered: it counts from now on. Returns its number.

        Durable when it returns if the auditor has a history file. Sums need no answer; it is kept as a remark. A
        query that was not admitted is recorded all the same, since what was said was said. Raises the `QueryError` of
        a statement that cannot be represented.
        """
        return self._record(query, answer, ANSWERED)

    def unjudged(self, lines: Iterable[Line]) -> tuple[Refusal, ...]:
        """The earlier publications that the history has not and could not represent; changes nothing."""
        found = []
        known = {past.sql for past in self._past}
        for line in lines:
            if line.sql in known:
                continue
            read = carried(line.sql, line.dialect, self.roster.schema)
            plan = self._plan_of(read.sql, str(line.number))
            if read.sql not in known and (plan.statement is None or read.reason):
                found.append(Refusal(str(line.number), line.sql, read.reason or plan.verdict.reason))
        return tuple(found)

    def load(self, lines: Iterable[Line], refused: Iterable[Refusal] = ()) -> tuple[Refusal, ...]:
        """Take earlier publications into the history; returns those that it cannot represent.

        They (and those `refused` already when the log was read) are written down too, but no later verdict accounts
        for them: whoever goes on should know. Statements that the history has already are passed over, so a log may
        be loaded again. All lines or none reach the disk.
        """
        history, self._history = self._history, None
        start = len(self._past)
        known = {past.sql for past in self._past}
        left: list[Refusal] = []
        try:
            for line in lines:
                read = carried(line.sql, line.dialect, self.roster.schema)
                if line.sql in known or read.sql in known:
                    continue
                known |= {line.sql, read.sql}
                if read.reason:
                    left.append(self._unjudged(line.sql, read.reason))
                    continue
                try:
                    self._record(read.sql, None if line.answer is ABSENT else line.answer, PUBLISHED)
                except QueryError as error:
                    left.append(self._unjudged(line.sql, str(error)))
            left += [self._unjudged(r.sql, r.error) for r in refused if r.sql not in known]
            if history is not None:
                history.extend(self._past[start:])
        finally:
            self._history = history
        return tuple(left)

    def save(self, path: str | Path, fingerprint: str, version: str | None = None) -> None:
        """Write the whole history to a new file: complete or not at all."""
        write_history(path, fingerprint, version, self._past)

    @classmethod
    def open(
        cls,
        path: str | Path,
        roster: Roster,
        fingerprint: str,
        *,
        version: str | None = None,
        insiders: int = 0,
        families: Mapping[str, str] | None = None,
        values: Seal | None = None,
        vouched: bool = False,
        knowledge: Knowledge | None = None,
    ) -> OnlineAuditor:
        """An auditor that goes on from a history file (or begins one), and appends to it.

        `values` makes digests of the private columns at hand: without, a change of private values is not noticed, and
        the same sum before and after it tells the change (`History.open`). No decision looks at them.
        """
        history = History.open(path, fingerprint, version, values=values, vouched=vouched)
        try:
            return cls(roster, insiders=insiders, families=families, history=history, knowledge=knowledge)
        except BaseException:
            history.close()
            raise

    def close(self) -> None:
        """Let go of the history file."""
        if self._history is not None:
            self._history.close()

    # -- judging ------------------------------------------------------------------------------------------------

    def _plan_of(self, query: Asked, number: str) -> _Plan:
        """A statement read, its rows made; `statement` is None if it is refused."""
        text = self._text(query)
        try:
            statement = self._statement(query)
            if self._minmax.concerns(statement):
                return self._extreme(statement, number, text)
            why = objection(statement, self.roster.schema, self._families)
            forms = disclosed(statement, self._people) if why is None else []
            if why is None and statement.shown:  # it was read from a text: does the engine read it so?
                doubt = self._validator.reasons([statement])[0]
                why = Refused(doubt) if doubt else None
            if why is not None:
                return _Plan(Admission(number, text, Permission.REFUSED, why.reason), None, len(self._past))
        except QueryError as error:
            return _Plan(Admission(number, text, Permission.REFUSED, str(error)), None, len(self._past))
        return _Plan(Admission(number, text, Permission.ALLOW, ""), statement, len(self._past), forms)

    def _extreme(self, statement: Statement, number: str, text: str) -> _Plan:
        """A MIN or MAX of a column whose family these are."""
        doubt = self._validator.reasons([statement])[0] if statement.shown else ""
        permission, reason = (Permission.REFUSED, doubt) if doubt else self._minmax.decide(statement)
        kept = None if permission is Permission.REFUSED else statement
        return _Plan(Admission(number, text, permission, reason), kept, len(self._past))

    def _admit(self, query: Asked, prove: _Prover) -> Admission:
        plan = self._judge(query, str(self._asked + 1), prove)
        self._plan = plan if plan.verdict.allowed else None
        return plan.verdict

    def _judge(self, query: Asked, number: str, prove: _Prover) -> _Plan:
        plan = self._plan_of(query, number)
        if plan.statement is None or self._minmax.concerns(plan.statement):
            return plan
        forms, text = plan.forms, plan.verdict.sql
        who: list[Finding] = []
        proved: tuple[Finding, dict[str, Premise]] | None = None  # prefer the proof of somebody exposed to everybody
        dependent = True
        for name in dict.fromkeys(form.column for form in forms):
            mine = [form for form in forms if form.column == name]
            for state, decision, source in self._probed(plan, name, mine, text):
                dependent = dependent and bool(decision.dependent)
                listed = self._named(name, decision)
                if listed and (proved is None or (proved[0].insider is not None and listed[0].insider is None)):
                    proved = prove(state, decision, source, listed) or proved
                who.extend(listed)
        first, premises = ([], {}) if proved is None else ([proved[0]], proved[1])
        who = _each_once([*first, *who])
        plan.verdict = Admission(number, text, *_ruling(forms, who, dependent), tuple(who), premises)
        return plan

    def _lowered(self, past: Iterable[Past]) -> Iterator[Statement]:
        for each in past:
            with suppress(QueryError):  # it is told when it is replayed
                yield lower(each.sql, self.roster.schema)

    def _text(self, query: Asked) -> str:
        """What the history keeps: a statement that can be read again."""
        if isinstance(query, str):
            return query
        if isinstance(query, Statement):
            return query.text
        return f"SELECT {query.canonical()} FROM {quote_name(self.roster.schema.table)}"

    def _statement(self, query: Asked) -> Statement:
        if isinstance(query, str):
            return lower(query, self.roster.schema)
        return query if isinstance(query, Statement) else Statement(self._text(query), (query,))

    def _probed(
        self, plan: _Plan, name: str, forms: list[Disclosed], text: str
    ) -> Iterator[tuple[_Column, Any, Premise]]:
        """Each row of one column probed after those before it; the state itself stays as it is."""
        state = self._columns.get(name)
        if state is None:
            state = _Column(self._make(self.roster.n, self.insiders))
            self._columns[name] = state
        sources = []
        for form in forms:
            number = plan.verdict.number if form.part is None else f"{plan.verdict.number}.{form.part}"
            sources.append(Premise(number, text, form.scale, form.offset, form.of))
        first: list[Any] = []
        for form in forms:
            first.append(state.space.probe(_probed(form.row)))
            if not first[-1].dependent:
                break
        if len(forms) == 1 or all(decision.dependent for decision in first):
            for decision, source in zip(first, sources, strict=True):
                yield state, decision, source
                if not decision.dependent:  # what follows from the history adds nothing to it
                    plan.moves.append((name, decision, source))
            return
        state = _Column(copy.deepcopy(state.space), list(state.sources))
        plan.forks[name] = state
        for form, source in zip(forms, sources, strict=True):
            decision = state.space.probe(_probed(form.row))
            yield state, decision, source
            if not decision.dependent:
                state.space.commit(decision)
                state.sources.append(source)

    def _named(self, column: str, decision: Any) -> list[Finding]:
        """Whom a decision exposes: to everybody, then to one other participant."""
        exposed: list[tuple[int, int | None]] = [(record, None) for record in decision.exposes] + list(decision.pairs)
        if not exposed:
            return []
        rows = np.array(sorted({r for pair in exposed for r in pair if r is not None}), dtype=np.int64)
        label = dict(zip(rows.tolist(), self.roster.labels(rows), strict=True))
        known = (Status.EXPOSED, None, None, None, None)
        return [
            Finding(label[record], record, column, *known, insider=None if insider is None else label[insider])
            for record, insider in exposed
        ]

    # -- remembering --------------------------------------------------------------------------------------------

    def _record(self, query: Asked, answer: object, how: str) -> str:
        plan = self._plan
        same = plan is not None and plan.at == len(self._past) and plan.verdict.sql == self._text(query)
        if plan is None or not same or plan.verdict.number != str(self._asked + 1):
            plan = self._judge(query, str(self._asked + 1), _no_proof)
        self._plan = None
        if plan.statement is None:
            self._statement(query)  # raises what is wrong with the text, if that is it
            raise QueryError(plan.verdict.reason, plan.verdict.sql)
        past = Past(self._asked + 1, plan.verdict.sql, how, answer)
        if self._history is not None:
            self._history.append(past)  # durable first: an answer that counts must not be forgotten
        self._take(plan, answer)
        self._past.append(past)
        self._asked += 1
        return plan.verdict.number

    def _unjudged(self, sql: str, error: str) -> Refusal:
        self._asked += 1
        self._past.append(Past(self._asked, sql, UNJUDGED, None, error))
        return Refusal(str(self._asked), sql, error)

    def _take(self, plan: _Plan, answer: object) -> None:
        if plan.statement is not None and self._minmax.concerns(plan.statement):
            self._minmax.record(plan.statement, answer)
        self._columns.update(plan.forks)
        for name, decision, source in plan.moves:
            self._columns[name].space.commit(decision)
            self._columns[name].sources.append(source)

    def _replay(self, past: Past, name: str) -> None:
        self._asked = past.number
        self._past.append(past)
        if past.how == UNJUDGED:
            return
        plan = self._judge(past.sql, str(past.number), _no_proof)
        if plan.statement is None:
            raise LogError(
                f"{name}: statement {past.number} counts, but can no longer be read: {plan.verdict.reason}. "
                "Go on with the version of keyhole that wrote it"
            )
        self._take(plan, past.answer)


_Prover: TypeAlias = Callable[[_Column, Any, Premise, list[Finding]], tuple[Finding, dict[str, Premise]] | None]


def _probed(row: Row) -> Sparse | Words:
    """A row over one feature as bits over the records, or {record: weight}."""
    if row.bits is not None:
        return row.bits
    (block,) = row.values.values() if row.values else ((np.zeros(0, np.int64), np.zeros(0, np.int64)),)
    return dict(zip(block[0].tolist(), block[1].tolist(), strict=True))


def _row_space(n: int, insiders: int) -> Space:
    return OnlineRowSpace(n, insiders=insiders)


def _ruling(forms: list[Disclosed], who: list[Finding], dependent: bool) -> tuple[Permission, str]:
    """The verdict with a reason that names nobody."""
    before = "together with what was answered before, it would expose somebody"
    if any(f.insider is None for f in who):
        return Permission.DENY, before
    if who:
        return Permission.DENY, f"{before} to another participant"
    if not forms:
        return Permission.ALLOW, "it asks only public things"
    if dependent:
        return Permission.ALLOW, "it follows from what was answered before"
    return Permission.ALLOW, "nobody is exposed"


def _each_once(who: list[Finding]) -> list[Finding]:
    """Those exposed to everybody first (whom the proof is about before all); the others each with one insider."""
    found: dict[tuple[int, str], Finding] = {}
    for each in sorted(who, key=lambda f: f.insider is not None):
        found.setdefault((each.row, each.column), each)
    return list(found.values())


def _proof(
    state: _Column, decision: Any, source: Premise, exposed: list[Finding]
) -> tuple[Finding, dict[str, Premise]] | None:
    """The first exposure that has an exact certificate, with its proof and the queries it uses."""
    sources = [*state.sources, source]
    insiders = [None] * len(decision.exposes) + [insider for _, insider in decision.pairs]
    for finding, insider in zip(exposed, insiders, strict=True):
        found = state.space.certificate(decision, finding.row, insider)
        if found is None:
            continue
        used = [(sources[at], weight) for at, weight in sorted(found.items())]
        constant = -sum((weight * premise.offset for premise, weight in used), Fraction(0))
        proof = Proof(0, {premise.key: weight for premise, weight in used}, {finding.row: 1}, constant)
        return replace(finding, proof=proof), {premise.key: premise for premise, _ in used}
    return None


def _no_proof(state: _Column, decision: Any, source: Premise, exposed: list[Finding]) -> None:
    return None
