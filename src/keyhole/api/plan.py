"""`keyhole.plan`: which questions would give somebody away, found as an attacker would who sees the roster alone.

Of a private column of categories the same questions are asked as counts of each category. What a sum of answers gives
for numbers, the same sum of counts gives for each category: 1 for the target's, 0 for the others. The auditor reads
counts only with answers, so a plan is confirmed on two made-up tables, in which everybody has another category: whoever
it proves exposed in both, to what is made up, is exposed whatever the truth is.
"""

from __future__ import annotations

import operator
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Unpack

import numpy as np

from keyhole.api.session import choose_policy, open_session
from keyhole.attacks.plan import (
    AllowedQuestions,
    CodedColumn,
    Domain,
    Formula,
    How,
    JointPlan,
    Planner,
    QueryPlan,
    build_profiles,
    counts_sql,
    group_sql,
    list_unwritten_columns,
    parse_operators,
    plan_jointly,
    question_sql,
)
from keyhole.attacks.plan.profiles import Ints
from keyhole.attacks.plan.question import DEFAULT, Question
from keyhole.auditing.judge import Judge
from keyhole.config import Config
from keyhole.config.arguments import BudgetArguments, Names, TableArguments
from keyhole.config.settings import Settings, names, settings, with_private
from keyhole.datasets import Roster
from keyhole.datasets.open import Table, Use, open_table
from keyhole.errors import ConfigError, QueryError
from keyhole.gather import gather, transcribe
from keyhole.model.predicate import Scalar, find_columns, format_literal, quote_name
from keyhole.model.prior import Knowledge
from keyhole.model.query import Aggregate
from keyhole.model.schema import Role, Schema
from keyhole.model.transcript import Line
from keyhole.report.plan import Confirmation, Label, Overview, Planned, PlannedList, PlayedList, PlayedPlan
from keyhole.sessions.reply import Reply
from keyhole.sql import lower_statement

ALL = "all"
MADE_UP = 2  # tables
NOT_CONFIRMED = (
    "the auditor does not confirm the plan: constants of some column do not find its values again (FLOAT columns, "
    "perhaps). Leave such columns out with --columns"
)
JUDGED = 300  # questions that the auditor judges at once
LEVELS = 100  # steps of a declared grid up to which it is looked at as one


@dataclass(frozen=True, slots=True)
class Asking:
    """The language of a plan: which columns, how many at once, which operators, how small a group."""

    columns: tuple[str, ...] = ()
    most: int = 3
    operators: frozenset[str] = frozenset(DEFAULT)
    least: int = 2


class Plans:
    """A planner over an opened table: one set-up, then milliseconds a person.

    >>> import pyarrow as pa
    >>> staff = pa.table({"name": ["Ann", "Bob", "Cyd"], "team": ["a", "b", "b"], "pay": [10, 20, 30]})
    >>> found = plan("name = 'Ann'", data=staff, id="name", private="pay")
    >>> found.formula, found.queries[1]
    ('Q1 - Q2', 'SELECT SUM("pay") FROM "people" WHERE "team" <> \\'a\\'')
    """

    def __init__(self, given: Settings, asking_: Asking, stop: Callable[[], bool] = lambda: False) -> None:
        self.given, self.asking = with_private(given), asking_
        if len(given.asked) != 1:
            raise ConfigError(f"a plan is about one private column, not {len(given.asked)}: name it with --private COL")
        [self.column] = given.asked
        self.table: Table = open_table(given, Use.PLAN)
        values = given.columns.private[self.column].values
        self.counts = None if values is None else CategoryCounts(self.column, tuple(values), self.table.name)
        n = self.roster.n
        if asking_.most < 1:
            raise ConfigError(f"at most {asking_.most} columns: a question needs at least 1")
        if asking_.least > n or asking_.least < 1:
            what = f"larger than the table, which has {n:,} people" if asking_.least > n else "not a group"
            raise ConfigError(f"--min-group {asking_.least} is {what}: nothing could be asked")
        self.left_out = () if asking_.columns else list_unwritten_columns(self.roster)
        start = time.perf_counter()
        profiles = build_profiles(self.roster, self.column, asking_.columns)
        ways = AllowedQuestions(profiles, asking_.operators, asking_.least, asking_.most)
        self.planner, self._stop = Planner(profiles, ways, stop), stop
        self.seconds = time.perf_counter() - start

    @property
    def roster(self) -> Roster:
        """The public half of the table: all that a plan sees."""
        return self.table.roster

    @property
    def by_luck(self) -> str:
        """What answers may tell beyond their sums: that somebody is out of reach is proved for numbers of any size."""
        if self.counts is not None:
            return "counts may tell more, as where nobody of a group has a category, or everybody"
        known = self.given.columns.private[self.column]
        ends = known.min is not None or known.max is not None
        return "in the declared range sums may tell more, as where one is as small as it can be" if ends else ""

    def row(self, target: str) -> int:
        """The one record that a condition on id and public columns is about."""
        schema = self.roster.schema
        try:
            statement = lower_statement(f"SELECT COUNT(*) FROM {quote_name(schema.table)} WHERE {target}", schema)
        except QueryError as error:
            raise ConfigError(f"--target {target!r}: {error.message}{_condition(target, schema)}") from None
        private = sorted(schema.private_names & find_columns(statement.where))
        if private:
            raise ConfigError(f"--target: {private[0]!r} is not public; name a person by id and public columns")
        rows = self.roster.support(statement.queries[0])
        if len(rows) != 1:
            who = "nobody" if not len(rows) else f"{len(rows):,} people"
            raise ConfigError(f"--target {target!r} matches {who}: a plan is about one person, or all")
        return int(rows[0])

    def of(self, row: int) -> Planned:
        """The plan for one record, confirmed by the auditor; or why there is none."""
        profiles = self.planner.profiles
        found = self.planner.plan(int(profiles.of[row]))
        if not self.roster.has_value(self.column)[row]:
            found = QueryPlan(found.profile, How.NO_VALUE, {})
        ordered = sorted(found.weights.items(), key=lambda item: (-item[1], item[0]))
        questions = [question for question, _ in ordered]
        label = self.roster.labels(np.array([row]))[0]
        values = () if self.counts is None else self.counts.values
        texts = tuple(map(self._sql, questions))
        weights = tuple(w for _, w in ordered)
        made = Planned(label, row, self.column, found, texts, weights, (), categories=values, by_luck=self.by_luck)
        if texts:
            return replace(made, exposes=self._confirmed(row, questions))
        if found.how is How.SHARED:
            same = np.flatnonzero((profiles.of == profiles.of[row]) & self.roster.has_value(self.column))
            return replace(made, shared=tuple(self.roster.labels(same[same != row])))
        return replace(made, changed=0 if found.witness is None else len(found.witness))

    def everybody(self) -> Overview:
        """How each record is given away, or why not, without writing the plans."""
        profiles, planner = self.planner.profiles, self.planner
        by_profile = [planner.how(p) for p in range(profiles.count)]
        valued = self.roster.has_value(self.column)
        how = tuple(by_profile[p] if has else How.NO_VALUE for p, has in zip(profiles.of.tolist(), valued, strict=True))
        price = [planner.price(p) if by_profile[p].exposed else 0 for p in range(profiles.count)]
        cost, allowed = tuple(price[p] for p in profiles.of.tolist()), planner.ways.told
        return Overview(self.column, how, cost, self.seconds, allowed, self.by_luck)

    @property
    def domain(self) -> Domain | None:
        """What a value may be, where few values are declared."""
        if self.counts is not None:
            return Domain(1, len(self.counts.values))
        known = self.given.columns.private[self.column]
        if known.min is None or known.max is None or known.step is None:
            return None
        levels = (Fraction(known.max) - Fraction(known.min)) / Fraction(known.step)
        return Domain(int(levels)) if levels.denominator == 1 and 0 < levels <= LEVELS else None

    def together(self) -> PlannedList:
        """One list of questions for everybody, and what the auditor says of it."""
        start = time.perf_counter()
        found = plan_jointly(self.planner, self.domain, self._stop)
        profiles, valued = self.planner.profiles, self.roster.has_value(self.column)
        rows = np.full(profiles.count, -1, dtype=np.int64)
        at = np.flatnonzero(valued)
        rows[profiles.of[at][::-1]] = at[::-1]
        listed = [*found.formulas, *(p for p in found.targets if p not in found.formulas)]
        people = tuple(int(profiles.unknowns[p]) for p in listed)
        labels = tuple(self.roster.labels(rows[listed])) if listed else ()
        texts = tuple(map(self._sql, found.questions))
        values = () if self.counts is None else self.counts.values
        seconds = time.perf_counter() - start
        confirmed = self._confirm(found, rows)
        return PlannedList(self.column, found, texts, tuple(listed), labels, people, confirmed, seconds, values)

    def _confirm(self, found: JointPlan, rows: Ints) -> Confirmation:
        """A short list is judged whole. Of a long one the first questions are, and the auditor reads each statement:
        its group is the planned one, so the formulas, which are multiplied out over these groups, are proofs.
        """
        formulas = _first_formulas(found.formulas, JUDGED)
        whole = len(found.questions) <= JUDGED
        planned = set(found.targets) if whole else {p for p in formulas if self.planner.profiles.unknowns[p] == 1}
        questions = found.questions[:JUDGED]
        exposed = self._exposed(questions) if questions else set()
        missing = len(planned - {int(self.planner.profiles.of[r]) for r in exposed})
        if missing and found.domain is None:
            raise ConfigError(NOT_CONFIRMED)
        read = 0
        while not whole and read < len(found.questions) and not self._stop():
            if not self._reads_as_planned(found.questions[read]):
                raise ConfigError(NOT_CONFIRMED)
            read += 1
        proved = len(found.formulas.keys() & set(found.targets)) if read == len(found.questions) else 0
        return Confirmation(len(questions), len(planned) - missing, len(planned), read, proved)

    def _reads_as_planned(self, question: Question) -> bool:
        """Is the statement, as the auditor's reader and the engine have it, the plain sum over the planned people?

        Counts of categories are of the same group, which is read as a count of everybody in it.
        """
        profiles = self.planner.profiles
        people, text = profiles.unknowns, self._sql(question)
        if self.counts is not None:
            people, text = profiles.people, group_sql(question, profiles.columns, self.roster.schema.table)
        queries = lower_statement(text, self.roster.schema).queries
        term = queries[0].terms[0]
        plain = self.counts is not None or (
            queries[0].aggregate is Aggregate.SUM
            and (term.column, term.power) == (self.column, 1)
            and term.factor == 1
            and term.weight is None
        )
        rows = self.roster.support(queries[0])
        counted = np.bincount(profiles.of[rows], minlength=profiles.count)
        alone = len(queries) == len(queries[0].terms) == 1 and not queries[0].per
        return alone and plain and bool((counted == np.where(profiles.mask(question), people, 0)).all())

    def _sql(self, question: Question) -> str:
        if self.counts is not None:
            return self.counts.sql(question, self.planner.profiles.columns)
        return question_sql(question, self.planner.profiles.columns, self.column, self.table.name)

    def _confirmed(self, row: int, questions: Sequence[Question]) -> tuple[Label, ...]:
        """Whom the auditor proves exposed by these statements, the target first."""
        exposed = self._exposed(questions)
        rows = sorted(exposed, key=lambda r: (r != row, r))
        if row not in rows:
            raise ConfigError(NOT_CONFIRMED)
        return tuple(self.roster.labels(np.array(rows)))

    def _exposed(self, questions: Sequence[Question]) -> set[int]:
        """Whom the auditor proves exposed by these statements, read as SQL, without any answer."""
        if self.counts is not None:
            columns, known = self.planner.profiles.columns, self.given.knowledge()
            return self.counts.exposed(questions, columns, self.roster, known)
        if self.domain is not None:
            return self._exposed_whatever_the_grid(questions, self.domain)
        log = transcribe([Line(i, self._sql(q), at=i) for i, q in enumerate(questions, 1)], self.roster)
        verdict = Judge().examine(gather(log, self.roster, Knowledge()), self.roster)
        return {f.row for f in verdict.exposed if f.column == self.column}

    def _exposed_whatever_the_grid(self, questions: Sequence[Question], domain: Domain) -> set[int]:
        """The same of values on a grid: who is exposed in both of two made-up tables, to what is made up."""
        known, n = self.given.columns.private[self.column], self.roster.n
        low, step = Fraction(known.min or 0), Fraction(known.step or 1)
        first = np.random.default_rng(0).integers(domain.levels + 1, size=n)
        valued, found = self.roster.has_value(self.column), []
        for shift in range(MADE_UP):
            has = (first + shift) % (domain.levels + 1)
            lines = []
            for k, question in enumerate(questions, 1):
                inside = self.planner.profiles.mask(question)[self.planner.profiles.of] & valued
                total = low * int(inside.sum()) + step * int(has[inside].sum())
                lines.append(Line(k, self._sql(question), _exact(total), at=k))
            evidence = gather(transcribe(lines, self.roster), self.roster, self.given.knowledge())
            verdict = Judge().examine(evidence, self.roster)
            right = (f for f in verdict.exposed if f.column == self.column and f.value == low + step * int(has[f.row]))
            found.append({f.row for f in right})
        return set.intersection(*found)

    def play(self, planned: Planned, config: Config | str | Path | None) -> Planned:
        """Ask the questions through a session: that of the settings, or where these name none two made for it.

        Those two are one that answers whatever it is asked and one that audits and answers about two people already,
        each with a book of its own that is thrown away.
        """
        if not planned.queries:
            return planned
        return replace(
            planned, played=tuple(self._play(planned, given, told) for given, told in self._sessions(config))
        )

    def play_list(self, planned: PlannedList, config: Config | str | Path | None) -> PlannedList:
        """Ask the whole list through the same sessions, and compute whose value follows from what was answered."""
        if not planned.queries:
            return planned
        played = tuple(self._play_list(planned, given, told) for given, told in self._sessions(config))
        return replace(planned, played=played)

    def _sessions(self, config: Config | str | Path | None) -> Iterator[tuple[Settings, Config | str | Path | None]]:
        if config is not None:
            yield self.given, config
            return
        for policy in ("monitored", "audited"):
            with tempfile.TemporaryDirectory() as folder:
                told = self.given.config
                book = replace(told.book, path=str(Path(folder) / "book.keyhole"), policy=policy)
                online = replace(told.online, exact_above=told.online.exact_above or 1)
                given = replace(self.given, config=replace(told, book=book, online=online))
                yield given, given.config

    def _play_list(self, planned: PlannedList, given: Settings, config: Config | str | Path | None) -> PlayedList:
        answers: dict[int, tuple[Fraction, ...]] = {}
        refusal, noisy = "", False
        with open_session(given, config, BudgetArguments(anyway=True)) as session:
            for i, text in enumerate(planned.queries):
                if self._stop():
                    break
                reply = session.ask(text)
                noisy |= reply.noisy is not None
                numbers = _numbers(reply)
                if numbers:
                    answers[i] = numbers
                elif not refusal:
                    refusal = reply.reason or ""
        values: dict[int, tuple[Fraction, ...]] = {}
        for p, formula in planned.found.formulas.items():
            if formula.answers.keys() <= answers.keys() and formula.before.keys() <= values.keys():
                terms = [(w, answers[i]) for i, w in formula.answers.items()]
                terms += [(w, values[o]) for o, w in formula.before.items()]
                columns = zip(*(each for _, each in terms), strict=True)
                weights = [w for w, _ in terms]
                values[p] = tuple(sum(map(operator.mul, weights, column), Fraction(0)) for column in columns)
        if planned.found.domain is not None and len(answers) == len(planned.queries):
            values |= self._search_domain(planned.found, list(answers.values()))
        people = self.planner.profiles.unknowns
        found = {p: self._value(each) for p, each in values.items() if people[p] == 1}
        return PlayedList(choose_policy(given), len(answers), refusal, found, noisy)

    def _search_domain(
        self, found: JointPlan, answers: Sequence[tuple[Fraction, ...]]
    ) -> dict[int, tuple[Fraction, ...]]:
        """The values of a declared domain that give these answers, where these are exact."""
        profiles, columns = self.planner.profiles, list(zip(*answers, strict=True))
        low, step = Fraction(0), Fraction(1)
        if self.counts is None:
            known = self.given.columns.private[self.column]
            low, step = Fraction(known.min or 0), Fraction(known.step or 1)
        sizes = [int(profiles.unknowns[profiles.mask(q)].sum()) for q in found.questions]
        decoded = []
        for column in columns:
            steps = [(a - low * n) / step for a, n in zip(column, sizes, strict=True)]
            if any(each.denominator != 1 for each in steps):
                return {}
            decoded.append(found.decode(profiles, list(map(int, steps))))
        shared = set.intersection(*map(set, decoded))
        return {p: tuple(low + step * each[p] for each in decoded) for p in shared}

    def _value(self, numbers: tuple[Fraction, ...]) -> Fraction | Scalar:
        return numbers[0] if self.counts is None else self.counts.values[numbers.index(max(numbers))]

    def _play(self, planned: Planned, given: Settings, config: Config | str | Path | None) -> PlayedPlan:
        replies = []
        with open_session(given, config, BudgetArguments(anyway=True)) as session:
            for text in planned.queries:
                replies.append(session.ask(text))
                if not replies[-1].answered:
                    break
        known = [told for told in map(_numbers, replies) if told]
        noisy = any(r.noisy is not None for r in replies)
        if len(known) < len(planned.queries):
            return PlayedPlan(choose_policy(given), tuple(replies), None, noisy)
        sums = [
            sum((w * v for w, v in zip(planned.weights, column, strict=True)), Fraction(0))
            for column in zip(*known, strict=True)
        ]
        value = planned.categories[sums.index(max(sums))] if planned.categories else sums[0]
        return PlayedPlan(choose_policy(given), tuple(replies), value, noisy)


def _first_formulas(formulas: Mapping[int, Formula], most: int) -> set[int]:
    """Those that need the first `most` questions alone."""
    found = set[int]()
    for p, formula in formulas.items():
        if max(formula.answers, default=-1) < most and formula.before.keys() <= found:
            found.add(p)
    return found


def _exact(number: Fraction) -> int | Decimal | float:
    if number.denominator == 1:
        return int(number)
    return Decimal(number.numerator) / Decimal(number.denominator)


def _condition(target: str, schema: Schema) -> str:
    """A hint for somebody who wrote a name and no condition."""
    ids = schema.of_role(Role.ID)
    if not ids or set(target) & set("=<>()'\""):
        return ""
    name = ids[0].name if ids[0].name.isidentifier() else quote_name(ids[0].name)
    return f"; write a condition such as {name} = {format_literal(target.strip())}"


def plan(
    target: str,
    *,
    columns: Names = (),
    max_columns: int = 3,
    min_group: int = 2,
    operators: str | Sequence[str] = DEFAULT,
    **table: Unpack[TableArguments],
) -> Planned:
    """The fewest questions found that give one person's private value away, or the proof that none do.

    `target` is a condition on id and public columns that one person meets ("Name = 'Jeremy Doe'"). Questions are sums
    over groups of at least `min_group` people, with conditions on at most `max_columns` of `columns` (default: all
    public ones). Nothing private is read.
    """
    given = settings(**table)
    made = Plans(given, Asking(names(columns), max_columns, parse_operators(operators), min_group))
    return made.of(made.row(target))


def _numbers(reply: Reply) -> tuple[Fraction, ...]:
    """The numbers of a reply; none, if it was not answered."""
    if reply.exact is not None and reply.exact:
        return tuple(Fraction(0) if value is None else Fraction(value) for value in reply.exact[0][1])
    if reply.noisy is not None and reply.answered:
        return tuple(Fraction(str(each.value)) for each in reply.noisy.groups[0][1])
    return ()


@dataclass(frozen=True, slots=True)
class CategoryCounts:
    """Questions about how many of a group have each of the `values` of a column."""

    column: str
    values: tuple[Scalar, ...]
    table: str

    def sql(self, question: Question, columns: tuple[CodedColumn, ...]) -> str:
        """One statement: a count a category."""
        return counts_sql(question, columns, self.column, self.values, self.table)

    def exposed(
        self,
        questions: Sequence[Question],
        columns: tuple[CodedColumn, ...],
        roster: Roster,
        knowledge: Knowledge,
    ) -> set[int]:
        """The records whose category these questions give away, whatever it is."""
        n, many = roster.n, len(self.values)
        first = np.random.default_rng(0).integers(many, size=n)
        valued = roster.has_value(self.column)
        groups = [self._group(question, columns, roster) for question in questions]
        found: list[set[int]] = []
        for shift in range(MADE_UP):
            has = np.where(valued, (first + shift) % many, -1)
            lines = [
                Line(k, self.sql(question, columns), _answer(has[rows], many), at=k)
                for k, (question, rows) in enumerate(zip(questions, groups, strict=True), 1)
            ]
            verdict = Judge().examine(gather(transcribe(lines, roster), roster, knowledge), roster)
            right = (f for f in verdict.exposed if f.column == self.column and f.value == self.values[has[f.row]])
            found.append({f.row for f in right})
        return set.intersection(*found)

    def _group(
        self, question: Question, columns: tuple[CodedColumn, ...], roster: Roster
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        statement = lower_statement(group_sql(question, columns, roster.schema.table), roster.schema)
        return roster.support(statement.queries[0])


def _answer(has: np.ndarray[tuple[int], np.dtype[np.int64]], many: int) -> list[dict[str, object]]:
    return [{"key": {}, "values": np.bincount(has[has >= 0], minlength=many).tolist()}]
