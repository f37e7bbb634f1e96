"""What a statement would disclose, as integer rows over the records: decided from the roster alone.

A SUM-family number with public conditions is `answer * per = SUM(coefficient * x) + offset`, with public per and
offset, so its answer tells exactly one linear form of each private column. AVG releases its SUM; a quotient of two
private sums, or a sum over two private columns, counts as releasing each of its sums apart (more than it says, so the
verdict stays safe). Everything else is refused here, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from keyhole.auditing.online.engine_space import AskedRow
from keyhole.basis import Atoms, Basis, Row, Weights, measure, row
from keyhole.basis.base import Records
from keyhole.datasets import GroupKey, Roster
from keyhole.errors import DataError, UnsupportedQuery
from keyhole.model.forms import ONE, Part, Unknowns, find_private_leaves, select_private_parts, select_public_parts
from keyhole.model.meaning import OVER_ZERO, compare_value, compute_value, evaluate_test
from keyhole.model.predicate import TRUE, Has, Opaque, Predicate, find_leaves
from keyhole.model.prior import Knowledge
from keyhole.model.query import Aggregate, Query, Refused, Statement, Term, list_questions
from keyhole.model.schema import Related, Schema, fold_name

FEW = 12  # predicates up to which the engine is asked one by one; beyond, records are grouped once
MAX_BYTES = 1 << 28  # of rows that one statement may have
MOST_ASKED = 1_000  # numbers of one statement that is decided in the engine
REMEMBERED = 100_000  # objections of the engine


@dataclass(frozen=True, slots=True, eq=False)
class Disclosed:
    """One linear form that an answer tells: `row . x = scale * answer - offset`, for one private column x.

    `part` is the place of the number within its statement, from 1 (None: the statement asks one number only); `of`
    says which sum it is where one number counts as several.
    """

    column: str
    row: Row | AskedRow
    scale: Fraction
    offset: Fraction
    part: int | None
    of: str = ""


def objection(statement: Statement, schema: Schema, families: Mapping[str, str], epoch: int = 1) -> Refused | None:
    """Why a statement cannot be decided before it is answered; None if it can. Uses text and schema only.

    `epoch` counts from 1: extremes of a table that has changed since are refused whatever their family.

    >>> from keyhole.model.schema import Column, Kind, Role
    >>> from keyhole.sql import lower_statement
    >>> staff = Schema("staff", (Column("pay", Kind.INTEGER, Role.PRIVATE, nullable=False), Column("dept", Kind.TEXT)))
    >>> objection(lower_statement("SELECT AVG(pay) FROM staff WHERE dept = 'legal'", staff), staff, {}) is None
    True
    >>> objection(lower_statement("SELECT MAX(pay) FROM staff", staff), staff, {}).reason
    "MAX of 'pay': its family is sum, and sums and extremes of one column cannot be decided together"
    """
    secret = frozenset(c.name for c in schema.columns if c.secret)
    for key in statement.keys:
        if key.hidden(secret):
            name = key.column or min(key.columns & secret)
            return Refused(f"it groups by the private column {name!r}: which groups are shown cannot be foreseen")
    for query in (*statement.queries, *statement.tested):
        why = _objection(query, secret, families, epoch)
        if why is not None:
            return Refused(why)
    return None


def _objection(query: Query, secret: frozenset[str], families: Mapping[str, str], epoch: int) -> str | None:
    for term in (*query.terms, *query.per):
        private = find_private_leaves(term.where, secret)
        if private and isinstance(private[0], Has):
            return looks_at_rows(private[0].table)
        if private:
            (name,) = {leaf.column for leaf in private[:1] if not isinstance(leaf, Opaque)}
            return f"it has a condition on the private column {name!r}: an extreme answer cannot be foreseen"
    names = sorted(query.columns)
    if not names or query.aggregate is Aggregate.PUBLIC:
        return None
    name = names[0]
    if query.aggregate is Aggregate.MEDIAN:
        return f"MEDIAN of {name!r}: no rule decides it without looking at the answer"
    if query.aggregate is Aggregate.VAR:
        return f"a variance of {name!r}: an extreme answer (0: all are equal) cannot be foreseen"
    for column in names:
        if epoch > 1 and families.get(column, "sum") != "sum":
            return (
                f"the family of {column!r} is {families[column]}, and the table has changed since its first version: "
                "what extremes before and after a change give away is not decided"
            )
        if families.get(column, "sum") != "sum":
            return (
                f"a sum of {column!r}: its family is {families[column]}, so of this column only MIN and MAX are decided"
            )
    if query.aggregate is not Aggregate.SUM:
        return (
            f"{query.aggregate.value} of {name!r}: its family is sum, and sums and extremes of one column cannot be "
            "decided together"
        )
    if query.test is not None:
        return f"a yes/no question about {name!r}: an extreme answer cannot be foreseen"
    if any(t.power != 1 for t in (*query.terms, *query.per) if t.column is not None):
        return f"a sum of squares of {name!r}: an extreme answer (0: all are 0) cannot be foreseen"
    return None


def looks_at_rows(table: str) -> str:
    """Why conditions on private rows are not decided before the answer is known."""
    return (
        f"it looks at rows of {table}, and what is in them is private: nobody or everybody counted would tell each of "
        "them, and that cannot be foreseen"
    )


def private_rows(text: str, schema: Schema) -> str | None:
    """A table of which a statement names what is private: what is wrong with such a statement may depend on the rows.

    >>> from keyhole.model.schema import Related
    >>> beside = (Related("visits", (), ()),)
    >>> private_rows("SELECT 1 FROM t JOIN Visits v ON v.id = t.id", Schema("t", (), related=beside))
    'visits'
    """
    words = {fold_name(word) for word in re.findall(r"\w+", text)}

    def told(each: Related) -> bool:
        return each.secret or any(c.secret and fold_name(c.name) in words for c in each.columns)

    beside = (r for r in schema.related if not r.dimension and fold_name(r.name) in words)
    return next((r.name for r in beside if told(r)), None)


class People:
    """The public half of the table as a basis of records, with what the engine objects to, asked once."""

    def __init__(self, roster: Roster, *, in_engine: bool = False) -> None:
        self.roster, self.in_engine = roster, in_engine  # are rows asked of the engine, not made here?
        self.records = Records(roster.n, self._support, self._weigh)
        self.counted: dict[Predicate, Fraction] = {}  # of one statement: what others asked is not told by time
        self._faults: dict[tuple[str | None, Predicate, str | None], str | None] = {}

    def basis(self, parts: Iterable[Part]) -> tuple[Basis, Atoms | None]:
        """What the parts of a statement are written over: the records, or their atoms where there are many parts."""
        conditions = tuple(dict.fromkeys(p.where for p in parts))
        weights = tuple(dict.fromkeys(p.weight for p in parts if p.weight is not None))
        for leaf in dict.fromkeys(leaf for p in conditions for leaf in find_leaves(p) if isinstance(leaf, Opaque)):
            self._evaluable(leaf, None)
        for weight in weights:
            self._evaluable(TRUE, weight)
        if len(conditions) <= FEW or self.in_engine:
            return self.records, None
        try:
            atoms = self.roster.atoms(conditions, weights)
        except DataError as error:
            raise UnsupportedQuery(str(error)) from None
        return atoms, atoms

    def count(self, parts: Iterable[Part]) -> Fraction:
        """The value of a sum of public parts, counted by the engine."""
        row = AskedRow.of(list(parts))
        for _, where in row.parts:
            if where not in self.counted:
                self.counted[where] = Fraction(self.roster.figure(Query(Aggregate.SUM, (Term(None, where),))) or 0)
        return sum((weight * self.counted[where] for weight, where in row.parts), Fraction(0)) / row.scale

    def _support(self, where: Predicate) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return self.roster.support(Query(Aggregate.SUM, (Term(None, where),)))

    def _weigh(self, sql: str) -> Weights:
        try:
            atoms = self.roster.atoms((), (sql,))
        except DataError as error:
            raise UnsupportedQuery(str(error)) from None
        found = atoms.weight(sql)
        return Weights(found.values[atoms.of], found.over)

    def _evaluable(self, predicate: Predicate, weight: str | None) -> None:
        at = (self.records.asker, predicate, weight)
        if at not in self._faults:
            if len(self._faults) >= REMEMBERED:
                self._faults.clear()
            self._faults[at] = self.roster.fault(predicate, weight)
        if self._faults[at] is not None:
            raise UnsupportedQuery(f"the engine refuses it: {self._faults[at]}")


def disclosed(statement: Statement, people: People) -> list[Disclosed]:
    """The linear forms that answering the whole statement would tell, in the order of its numbers.

    Raises `UnsupportedQuery` for a weight or expression that the engine cannot evaluate on the public columns. Cost:
    one engine pass a predicate (up to FEW), or one grouping of the records.
    """
    roster = people.roster
    groups: list[GroupKey] = roster.keys(statement) if statement.keys else [{}]
    numbers = len(groups) * len(statement.queries)
    most = MOST_ASKED if people.in_engine else max(MAX_BYTES // (roster.n // 8 + 1), 1)
    if numbers > most:
        raise UnsupportedQuery(
            f"it asks for {numbers:,} numbers at once and the limit is {most:,}: ask for fewer groups"
        )
    asked = [(statement.group(key), statement.tests(key)) for key in groups]
    summed = [
        q
        for queries, tests in asked
        for q in (*queries, *(q for test in tests for q in list_questions(test)))
        if q.aggregate is Aggregate.SUM
    ]
    unknowns = Unknowns([t for q in summed for t in (*q.terms, *q.per)], roster.schema, Knowledge())
    reading = _Reading(unknowns, people, summed)
    single = len(groups) == 1 and not statement.keys and len(statement.queries) == 1
    found: list[Disclosed] = []
    part = 0
    for queries, tests in asked:
        if not all(evaluate_test(test, reading.passes) for test in tests):
            continue
        for query in queries:
            part += 1
            found.extend(reading.disclosed(query, None if single else part))
    return found


class _Reading:
    """The queries of one statement as rows over the records."""

    def __init__(self, unknowns: Unknowns, people: People, queries: Sequence[Query]) -> None:
        self._unknowns = unknowns
        parts = [part for q in queries for part in unknowns.form(q).parts]
        parts += [Part(ONE, need) for q in queries if q.test is not None for need in q.needs]
        self._people = people
        people.counted = {}
        self._basis, self._atoms = people.basis(parts)
        self._sizes = None if self._atoms is None else self._atoms.sizes

    def passes(self, test: Query) -> bool:
        """A public HAVING test; one that only the engine could compute is taken to pass, which discloses more."""
        if test.aggregate is not Aggregate.SUM or test.test is None:
            return True
        form = self._unknowns.form(test)
        met = all(self._total([Part(ONE, need)]) > 0 for need in test.needs)
        found = compute_value(test, self._total(form.top), self._total(form.per), met=met)
        return found is OVER_ZERO or compare_value(test, found) is True

    def disclosed(self, query: Query, part: int | None) -> list[Disclosed]:
        """A sum for each private column of a number, numerator and denominator apart."""
        if query.aggregate is Aggregate.PUBLIC or not query.columns:
            return []
        form = self._unknowns.form(query)
        private_per = bool(select_private_parts(form.per))
        per = Fraction(1) if not query.per or private_per else self._total(form.per)
        if per == 0:
            return []  # a quotient over nobody is NULL
        found = []
        several = len({t.column for t in query.terms} - {None}) > 1
        for parts, place in ((form.top, "numerator"), (form.per, "denominator")):
            offset = self._total(select_public_parts(parts))
            for feature in dict.fromkeys(p.feature for p in select_private_parts(parts)):
                name = self._unknowns.features[feature].column or ""
                made = self._row([p for p in parts if p.feature == feature])
                of = f"the {place}'s sum of {name}" if private_per else f"the sum of {name}" if several else ""
                found.append(Disclosed(name, made, made.scale * per, made.scale * offset, part, of))
        return found

    def _total(self, parts: Iterable[Part]) -> Fraction:
        """The value of a sum of public parts."""
        if self._people.in_engine:
            return self._people.count(parts)
        return measure(row(parts, self._basis), self._sizes)

    def _row(self, parts: Sequence[Part]) -> Row | AskedRow:
        if self._people.in_engine:
            return AskedRow.of(parts)
        made = row(parts, self._basis)
        if made.wide:
            raise UnsupportedQuery("its weights are too large to be decided exactly: scale or round them")
        return made if self._atoms is None else made.spread(self._atoms.of)
