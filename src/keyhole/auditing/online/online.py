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
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from keyhole.auditing.base import Finding
from keyhole.auditing.online.admission import Admission, ParsedStatement, Permission, Premise
from keyhole.auditing.online.disclosed import Disclosed, People, disclosed, looks_at_rows, objection, private_rows
from keyhole.auditing.online.engine_space import AskedRow
from keyhole.auditing.online.epochs import Epochs, RowsOfEpochs, ToldRow
from keyhole.auditing.online.minmax import MinMax
from keyhole.auditing.online.participants import Participants
from keyhole.auditing.online.ruling import ColumnState, Judged, Prover, Space, each_once, proved, ruling, unproved
from keyhole.datasets import Roster
from keyhole.errors import ConfigError, LogError, QueryError
from keyhole.model.predicate import quote_name
from keyhole.model.prior import Knowledge
from keyhole.model.query import Query, Statement
from keyhole.model.schema import Role
from keyhole.reading import Validator
from keyhole.sql import lower_statement

__all__ = ["Admission", "OnlineAuditor", "Permission", "Space"]

Asked: TypeAlias = str | Statement | Query | ParsedStatement
RISK = "remaining risk: an answer at an end of the declared range tells every value in its group"
PRIVATELY = 'ask it with policy = "private" under [book] and a [budget]'


@dataclass(frozen=True, slots=True)
class Past:
    """A statement that counts, with its number; `judged` False: one that no verdict can account for."""

    number: int
    sql: str
    judged: bool = True
    answer: object = None


class OnlineAuditor:
    """Admits a query only if its answer would expose nobody; decides from roster and history alone.

    SUM family: SUM, COUNT, AVG and their linear combinations under public conditions, public weights included. One
    state for each private column. A statement with several numbers or groups is admitted whole or not at all. A query
    that earlier ones determine is always admitted. Everything whose answer could be extreme is refused
    (`disclosed.objection`). Guarantee: if only admitted queries are answered, nobody's value is determined by the
    answers, for values that range over all reals; with insiders = 1 neither by the answers and any one other value.
    MIN and MAX: `minmax.py`, for columns of that family. Bounded and 0/1 columns need more (see the interval
    auditor, or differential privacy). A false "safe" for numerical
    reasons: see `OnlineRowSpace` (below 10^-5 for a whole history of 1,000). Cost of a decision: one engine pass and
    O(r^2 + n). One caller at a time: between `admit` and `record` nobody else may be answered. With `epochs` (a table
    that changes) what was told in earlier epochs counts, by the rules of docs/how-it-works.md. Where ids repeat, a
    person has several records, and exposed is who has any sum over his own records determined: rank(A) >
    rank(A without them).

    >>> import pyarrow as pa
    >>> from keyhole.config import Columns
    >>> from keyhole.datasets import load_roster
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
        space: Callable[[int, int], Space] | None = None,
        epochs: Epochs | None = None,
        knowledge: Knowledge | None = None,
        exact_above: Mapping[str, int] | None = None,
        in_engine: bool = False,
    ) -> None:
        if insiders not in (0, 1):
            raise ConfigError(f"insiders = {insiders}: write 0 (outsiders only) or 1 (any one other participant)")
        self.roster, self.insiders = roster, insiders
        self._families = dict(families or {})
        self._exact_above = dict(exact_above or {})
        self._participants = Participants(roster, insiders, epochs, space, in_engine=in_engine)
        extreme = [name for name, family in self._families.items() if family == "minmax"]
        if in_engine and extreme:
            raise ConfigError(
                f'family = "minmax" of {extreme[0]!r}: not decided in the engine of the data; set decide = "client" '
                "under [source]"
            )
        self._columns: dict[str, ColumnState] = {}
        self._past: list[Past] = []
        self._people = People(roster, in_engine=in_engine)
        self._minmax = MinMax(
            self._people, self._families, knowledge or Knowledge(), insiders, self._participants.owner
        )
        self._validator = Validator(roster)
        self._asked = 0 if epochs is None else epochs.asked  # number of the latest statement seen
        self._plan: Judged | None = None
        self._epoch = 1 if epochs is None else epochs.count
        self._private = frozenset(c.name for c in roster.schema.of_role(Role.PRIVATE))
        if epochs is not None:
            epochs.checked(self._private)

    @property
    def past(self) -> tuple[Past, ...]:
        """The statements that count and were taken here, one by one."""
        return tuple(self._past)

    @property
    def number(self) -> int:
        """The number of the latest statement seen."""
        return self._asked

    @property
    def lasting(self) -> bool:
        """Are rows kept over people, so that they last beyond this epoch?"""
        return self._participants.epochs is not None

    def resume(self, past: Iterable[Past], name: str) -> None:
        """Take statements of the latest epoch that count already; `name` is what an error calls their place."""
        listed = list(past)
        self._validator.reasons(self._lowered(listed))  # all at once costs less than one by one
        for each in listed:
            self._replay(each, name)

    def read(self, query: str | Statement | Query, asker: str | None = None) -> ParsedStatement:
        """A statement read and validated, from its text and public things: nothing that was answered is looked at.

        Most of the work on a statement is done here; any number of threads may do it while one decides. Methods that
        are given a text read it themselves.
        """
        text, statement = self._text(query), None
        try:
            statement = self._statement(query)
            why = None
            if not self._is_extreme(statement):
                why = objection(statement, self.roster.schema, self._families, self._epoch)
            if why is not None:
                return ParsedStatement(text, statement, why.reason, asker=asker)
            # it was read from a text: does the engine read it so?
            doubt = self._validator.reasons([statement], asker)[0] if statement.shown else ""
            return ParsedStatement(text, statement, doubt, asker=asker)
        except QueryError as error:
            return ParsedStatement(text, statement, self._explain(text, error), asker=asker)

    def told(self, query: Asked, number: int | None = None) -> tuple[ToldRow, ...]:
        """The rows of a query, to be stored with its answer, those that add nothing (`follows`) too; changes nothing.

        Of the query just admitted they are at hand; `number` is that of one answered before. Needs epochs; raises the
        `QueryError` of `record`.
        """
        if self._participants.epochs is None:
            raise ConfigError("rows are kept over people: give the auditor its data versions")
        return tuple(self._ready(query, number).told)

    def admit(self, query: Asked) -> Admission:
        """May this be answered? Changes no state that any later decision depends on.

        The verdict is `allow`, `deny` (it would expose somebody) or `refused` (it is not decided before the answer is
        known, or it is not understood).
        """
        return self._admit(query, proved)

    def decide(self, query: Asked) -> Admission:
        """As `admit`, without the proof: the same decision at a cost that does not grow with the proof.

        A proof is solved in exact integers over all queries it needs; near full rank (as many answers as people)
        that takes seconds, a decision milliseconds. No decision depends on it.
        """
        return self._admit(query, unproved)

    def seen(self) -> None:
        """Count the statement just judged although it was not answered, so that numbers follow the stream."""
        self._asked += 1
        self._plan = None

    def record(self, query: Asked, answer: object = None) -> str:
        """The query was answered: it counts from now on. Returns its number.

        Sums need no answer; it is kept as a remark. A query that was not admitted is recorded all the same, since what
        was said was said. Raises the `QueryError` of a statement that cannot be represented; then `unjudged` counts it.
        """
        plan = self._ready(query)
        self._plan = None
        self._take(plan, answer)
        self._past.append(Past(self._asked + 1, plan.verdict.sql, answer=answer))
        self._asked += 1
        return plan.verdict.number

    def resume_rows(self, past: Past, rows: Iterable[ToldRow]) -> None:
        """Take a statement of the latest epoch whose rows were kept: nothing is read again. None has a MIN or MAX."""
        self._asked = max(self._asked, past.number)
        for each in rows:
            state = self._state(each.column)
            if isinstance(state.space, RowsOfEpochs) and state.space.take(each):
                state.sources.append(each.premise)
        self._past.append(past)

    def unjudged(self, sql: str) -> int:
        """A statement was published that no verdict can account for. Returns its number."""
        self._asked += 1
        self._past.append(Past(self._asked, sql, judged=False))
        return self._asked

    def extreme(self, sql: str, answer: object) -> None:
        """A MIN or MAX that was answered before counts; other statements are passed over, for their rows are told."""
        with suppress(QueryError):
            statement = lower_statement(sql, self.roster.schema)
            if self._minmax.concerns(statement):
                self._minmax.record(statement, answer)

    def decided_by_answers(self, statement: Statement) -> bool:
        """Do later decisions need the answer of this statement (a MIN or MAX of a column whose family these are)?"""
        return self._minmax.concerns(statement)

    def objection(self, query: Asked) -> str | None:
        """Why a statement cannot be taken into account, None if it can; changes nothing."""
        plan = self._plan_of(query, str(self._asked + 1))
        return plan.verdict.reason if plan.statement is None else None

    # -- judging ------------------------------------------------------------------------------------------------

    def _plan_of(self, query: Asked, number: str) -> Judged:
        """The rows of a statement; `statement` is None if it is refused."""
        request = query if isinstance(query, ParsedStatement) else self.read(query)
        text, statement, at = request.text, request.statement, len(self._past)
        self._people.records.asker = request.asker
        if statement is None or request.doubt:
            return Judged(Admission(number, text, Permission.REFUSED, request.doubt), None, at)
        if self._is_extreme(statement):
            permission, reason = self._minmax.decide(statement)
            kept = None if permission is Permission.REFUSED else statement
            return Judged(Admission(number, text, permission, reason), kept, at)
        try:
            forms = disclosed(statement, self._people)
        except QueryError as error:
            return Judged(Admission(number, text, Permission.REFUSED, self._explain(text, error)), None, at)
        return Judged(Admission(number, text, Permission.ALLOW, ""), statement, at, forms)

    def _explain(self, text: str, error: QueryError) -> str:
        """What is wrong with a statement, in words that no private row decides."""
        rows = private_rows(text, self.roster.schema)
        return str(error) if rows is None else looks_at_rows(rows)

    def _is_extreme(self, statement: Statement) -> bool:
        """Is it a MIN or MAX of a column whose family these are, and may that be decided?"""
        return self._epoch == 1 and self._minmax.concerns(statement)

    def _admit(self, query: Asked, prove: Prover) -> Admission:
        plan = self._judge(query, str(self._asked + 1), prove)
        self._plan = plan if plan.verdict.allowed else None
        return plan.verdict

    def _judge(self, query: Asked, number: str, prove: Prover) -> Judged:
        plan = self._plan_of(query, number)
        if plan.statement is None:
            return plan
        if self._minmax.concerns(plan.statement):
            column, people = self._minmax.group(plan.statement)
            self._limit(plan, [column], self._too_few(column, people))
            return plan
        forms, text = plan.forms, plan.verdict.sql
        fresh: list[str] = []  # columns of which it tells something new
        risky = ""  # why it would tell too much
        who: list[Finding] = []
        proved: tuple[Finding, dict[str, Premise]] | None = None  # prefer the proof of somebody exposed to everybody
        dependent, crosses = True, False
        for name in dict.fromkeys(form.column for form in forms):
            mine = [form for form in forms if form.column == name]
            for form, (state, decision, source) in zip(mine, self._probed(plan, name, mine, text), strict=True):
                if not decision.dependent:
                    fresh.append(name)
                    risky = risky or self._too_telling(form)
                dependent, crosses = dependent and bool(decision.dependent), crosses or bool(decision.crosses)
                listed = self._participants.named(name, decision)
                if listed and (proved is None or (proved[0].insider is not None and listed[0].insider is None)):
                    proved = prove(state, decision, source, listed) or proved
                who.extend(listed)
        first, premises = ([], {}) if proved is None else ([proved[0]], proved[1])
        who = each_once([*first, *who])
        plan.verdict = Admission(
            number, text, *ruling(forms, who, dependent=dependent, crosses=crosses), tuple(who), premises
        )
        self._limit(plan, fresh, risky)
        return plan

    def _limit(self, plan: Judged, fresh: Iterable[str], why: str) -> None:
        """Refuse what would be allowed, or name the risk that known bounds leave."""
        if not plan.verdict.allowed:
            return
        if why:
            plan.verdict = replace(plan.verdict, verdict=Permission.REFUSED, reason=why)
        elif any(name in self._exact_above for name in fresh):
            plan.verdict = replace(plan.verdict, reason=f"{plan.verdict.reason}; {RISK}")

    def _too_telling(self, form: Disclosed) -> str:
        """Why one sum of a column with known bounds could tell too much; "" if it may be told."""
        if form.column not in self._exact_above:
            return ""
        row = self._participants.entries(form.row)
        weighted = isinstance(row, dict) and len({abs(weight) for weight in row.values() if weight}) > 1
        if weighted or (isinstance(row, AskedRow) and not row.counts):
            return (
                f"it weighs people differently, and if the range of {form.column!r} is known, one weighted sum tells "
                f"everybody's value: ask for a sum without weights, or {PRIVATELY}"
            )
        return self._too_few(form.column, self._participants.count(row))

    def _too_few(self, column: str, people: int) -> str:
        """Why a group is too small for an exact answer; a group of nobody tells nothing."""
        least = self._exact_above.get(column, 0)
        if not 0 < people <= least:
            return ""
        return (
            f"exact answers about {column!r} are given for groups of more than {least} people (exact_above): ask about "
            f"more people, or {PRIVATELY}"
        )

    def _lowered(self, past: Iterable[Past]) -> Iterator[Statement]:
        for each in past:
            with suppress(QueryError):  # it is told when it is replayed
                yield lower_statement(each.sql, self.roster.schema)

    def _text(self, query: Asked) -> str:
        """What the history keeps: a statement that can be read again."""
        if isinstance(query, str):
            return query
        if isinstance(query, Statement | ParsedStatement):
            return query.text
        return f"SELECT {query.canonical()} FROM {quote_name(self.roster.schema.table)}"

    def _statement(self, query: str | Statement | Query) -> Statement:
        if isinstance(query, str):
            return lower_statement(query, self.roster.schema)
        return query if isinstance(query, Statement) else Statement(self._text(query), (query,))

    def _probed(
        self, plan: Judged, name: str, forms: list[Disclosed], text: str
    ) -> Iterator[tuple[ColumnState, Any, Premise]]:
        """Each row of one column probed after those before it; the state itself stays as it is."""
        state = self._state(name)
        numbers = [plan.verdict.number if form.part is None else f"{plan.verdict.number}.{form.part}" for form in forms]
        sources = [Premise(n, text, f.scale, f.offset, f.of) for n, f in zip(numbers, forms, strict=True)]
        rows = [self._participants.entries(form.row) for form in forms]
        if len(forms) > 1:
            state = plan.forks[name] = ColumnState(copy.deepcopy(state.space), list(state.sources))
        for row, source in zip(rows, sources, strict=True):
            decision = state.space.probe(row)
            yield state, decision, source
            # what follows from the history adds nothing to it, and takes the same way: its time would tell it
            plan.told += self._participants.told(name, source, row, follows=decision.dependent)
            if len(forms) == 1:
                plan.moves.append((name, decision, source))
            else:
                _count_in(state, decision, source)

    def _state(self, name: str) -> ColumnState:
        """What is known of a private column."""
        if name not in self._columns:
            self._columns[name] = self._participants.state(name)
        return self._columns[name]

    # -- remembering --------------------------------------------------------------------------------------------

    def _ready(self, query: Asked, at: int | None = None) -> Judged:
        """A query that is to be recorded, judged; as it was admitted if it is the one admitted last."""
        plan, number = self._plan, str(self._asked + 1 if at is None else at)
        same = plan is not None and plan.at == len(self._past) and plan.verdict.sql == self._text(query)
        if plan is None or not same or plan.verdict.number != number:
            plan = self._judge(query, number, unproved)
        if plan.statement is None:
            # raises what is wrong with the text, if that is it
            self._statement(query.text if isinstance(query, ParsedStatement) else query)
            raise QueryError(plan.verdict.reason, plan.verdict.sql)
        return plan

    def _take(self, plan: Judged, answer: object) -> None:
        if plan.statement is not None and self._minmax.concerns(plan.statement):
            self._minmax.record(plan.statement, answer)
        self._columns.update(plan.forks)
        for name, decision, source in plan.moves:
            _count_in(self._columns[name], decision, source)

    def _replay(self, past: Past, name: str) -> None:
        self._asked = max(self._asked, past.number)
        self._past.append(past)
        if not past.judged:
            return
        plan = self._judge(past.sql, str(past.number), unproved)
        if plan.statement is None:
            raise LogError(
                f"{name}: statement {past.number} counts, but can no longer be read: {plan.verdict.reason}. "
                "Go on with the version of keyhole that wrote it"
            )
        self._take(plan, past.answer)


def _count_in(state: ColumnState, decision: Any, source: Premise) -> None:
    """A row into the history; what follows from it adds nothing, and takes as long."""
    if decision.dependent:
        state.space.pass_over(decision)
    else:
        state.space.commit(decision)
        state.sources.append(source)
