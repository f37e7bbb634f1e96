"""Transcript to Evidence: atoms inside the engine, one linear system per set of private columns tied by the log.

With a source, answers that the log lacks are computed over atoms (one total a feature and atom, then one sum a query),
and answers that the log has are compared with the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from keyhole.errors import ConfigError, UnsupportedQuery
from keyhole.evidence import Bound, Contradiction, Equal, Evidence, OrderFact, Row, System, Unjudged
from keyhole.evidence import Entry as Addend
from keyhole.gather.answers import ULP, Interval, described, double, finish, interval, radius, squared
from keyhole.gather.blocks import admissible, blocks_of, known_facts
from keyhole.gather.features import ONE, Registry, Unknowns, private_leaves
from keyhole.gather.totals import Form, Totals
from keyhole.knowledge import Fact, Knowledge
from keyhole.predicate import And, IsNull, Predicate, conjunction, negation
from keyhole.query import Aggregate, Query, Term
from keyhole.tables import Roster, Source
from keyhole.transcript import NULL_ANSWER, Answer, Entry, Transcript, simplest_decimal

Progress = Callable[[str, int, int], None]


def gather(
    transcript: Transcript,
    roster: Roster,
    knowledge: Knowledge,
    *,
    source: Source | None = None,
    progress: Progress | None = None,
) -> Evidence:
    """All that a transcript says, as lo <= A x <= hi over atoms; one `System` per set of tied private columns."""
    said = progress or (lambda _what, _done, _of: None)
    secret = frozenset(c.name for c in roster.schema.columns if c.secret)
    if not secret:
        raise ConfigError("no column is private, so there is nothing to protect: name one with --private COL")
    entries, refused = admissible(transcript, roster)
    blocks, public = blocks_of(entries, secret)
    facts = known_facts(knowledge, roster)
    contradictions: list[Contradiction] = []
    unjudged: list[Unjudged] = []
    systems: list[System] = []
    answers: dict[str, Answer] = {}
    for done, (columns, block) in enumerate(blocks):
        said("atoms", done, len(blocks))
        builder = _Builder(columns, block, roster, knowledge, source, facts)
        try:
            systems.append(builder.system())
        except UnsupportedQuery as error:
            unjudged.extend(Unjudged(e.number, e.sql, str(error)) for e in block)
            continue
        contradictions.extend(builder.contradictions)
        unjudged.extend(builder.unjudged)
        answers.update(builder.answers)
    if public:
        checker = _Builder((), public, roster, knowledge, source, ())
        checker.system()
        contradictions.extend(checker.contradictions)
        answers.update(checker.answers)
    said("atoms", len(blocks), len(blocks))
    filled = tuple(replace(e, answer=answers.get(e.number, e.answer)) for e in entries)
    log = Transcript(filled, (*transcript.refused, *refused))
    return Evidence(roster.n, log, knowledge, tuple(systems), tuple(contradictions), tuple(unjudged))


@dataclass(frozen=True, slots=True)
class _Asked:
    entry: Entry
    top: list[Addend]
    per: list[Addend]
    empty: list[Addend] | None  # COUNT of what matched, where NULL would say that it is zero


class _Builder:
    """One system: forms, atoms, answers, rows."""

    def __init__(
        self,
        columns: tuple[str, ...],
        entries: Sequence[Entry],
        roster: Roster,
        knowledge: Knowledge,
        source: Source | None,
        facts: Sequence[tuple[int, Fact, Predicate]],
    ) -> None:
        self.columns, self.roster, self.knowledge, self.source = columns, roster, knowledge, source
        self.facts = [f for f in facts if f[1].column in columns]
        self.secret = frozenset(c.name for c in roster.schema.columns if c.secret)
        self.entries = [self._nulled(e) for e in entries]
        self.registry = Registry()
        self.contradictions: list[Contradiction] = []
        self.unjudged: list[Unjudged] = []
        self.answers: dict[str, Answer] = {}

    def _nulled(self, entry: Entry) -> Entry:
        """With a source, learn now whether the engine would answer NULL because nobody matched.

        SUM(a) - SUM(b) is NULL if either sum is over nobody, while a CASE with an empty branch is not, and the terms do
        not tell them apart: the engine is asked the statement itself. In a group an empty sum is taken as 0, which may
        expose too many, never too few.
        """
        query = entry.query
        if entry.answer is not None or self.source is None or not query.columns:
            return entry
        if len(query.terms) > 1 and not query.per:
            if query.key:
                return entry
            _, _, part = entry.number.partition(".")
            empty = self.source.asked(entry.sql)[int(part or 1) - 1] is None
        elif self._conditional(query):
            counted = tuple(Term(None, t.where) for t in query.per or query.terms)
            empty = self.source.evaluate(Query(Aggregate.SUM, counted)) == 0
        else:
            return entry  # counted over atoms
        return replace(entry, answer=NULL_ANSWER) if empty else entry

    def _conditional(self, query: Query) -> bool:
        return any(private_leaves(t.where, self.secret) for t in (*query.terms, *query.per))

    def system(self) -> System:
        linear = [e for e in self.entries if e.query.aggregate is Aggregate.SUM]
        terms: list[Term] = []
        for e in linear:
            terms += [*e.query.terms, *e.query.per]
            terms += self._counting(e)
        averaged = self._averaged(linear)
        terms += [replace(e.query.terms[0], power=2) for e, _ in averaged]
        unknowns = Unknowns(terms, self.roster.schema, self.knowledge, self.registry)
        asked = [
            _Asked(e, unknowns.form(e.query.terms), unknowns.form(e.query.per), self._empty_form(e, unknowns))
            for e in linear
        ]
        present = {}
        for name in self.columns:
            column = self.roster.schema.find(name)
            if column is not None and column.nullable:
                present[name] = self.registry.predicate(negation(IsNull(name)))
        for e, _ in averaged:
            unknowns.form([replace(e.query.terms[0], power=2)])  # its predicate must be among the atoms
        order = self._order({e.number for e, _ in averaged})
        bounds = self._bounds()
        atoms = self.roster.atoms(tuple(self.registry.predicates), tuple(self.registry.weights))
        self.totals = Totals(atoms, unknowns.features, unknowns.partitions, self.source)
        rows = [row for a in asked for row in self._row(a)]
        self._zero_counts(linear)
        self._check_facts()
        rows += self._fact_rows(unknowns)
        squares, equal = self._square_rows(averaged, unknowns, rows)
        self.features = tuple(unknowns.features)
        return System(
            self.columns,
            unknowns.partitions,
            self.features,
            atoms,
            (*rows, *squares),
            tuple(order),
            tuple(bounds),
            tuple(equal),
            present,
        )

    def _zero_counts(self, linear: Sequence[Entry]) -> None:
        """A sum was answered over people of whom a count says that there are none."""
        zero: dict[Predicate, str] = {}
        for e in linear:
            said = self.answers.get(e.number)
            if said is not None and said.value == 0 and not e.query.columns and len(e.query.terms) == 1:
                zero[e.query.terms[0].where] = e.number
        for e in linear:
            said = self.answers.get(e.number)
            if said is None or said.value is None or not e.query.columns or len(e.query.terms) != 1:
                continue
            term = e.query.terms[0]
            column = IsNull(term.column or "")
            bare = conjunction(*(p for p in _parts(term.where) if p != negation(column)))
            number = zero.get(term.where) or zero.get(bare)
            if number is not None and said.noise is None:
                reason = f"Q{number} says that nobody matches, but Q{e.number} was answered {described(said)}"
                self.contradictions.append(Contradiction((number, e.number), reason))

    def _check_facts(self) -> None:
        """With the data at hand, a fact that is not true of them is named."""
        if self.source is None:
            return
        for number, fact, where in self.facts:
            term = Term(fact.column, self._present(where, fact.column))
            for aggregate, low, high in (
                (Aggregate.MIN, fact.lo, None),
                (Aggregate.MAX, None, fact.hi),
                (Aggregate.SUM, fact.sum_lo, fact.sum_hi),
            ):
                value = self.source.evaluate(Query(aggregate, (term,)))
                if value is None or isinstance(value, bool):
                    continue
                if (low is not None and value < low) or (high is not None and value > high):
                    reason = f"fact {number} is not true of the data: {aggregate} of {fact.column} there is {value}"
                    self.contradictions.append(Contradiction((f"fact {number}",), reason))

    def _counting(self, entry: Entry) -> list[Term]:
        query, answer = entry.query, entry.answer
        if answer is None or not answer.null or not self._conditional(query) or not query.columns:
            return []
        if len(query.terms) > 1 and not query.per:
            return []  # one of several sums was over nobody, and NULL does not say which
        return [Term(None, t.where) for t in query.per or query.terms]

    def _empty_form(self, entry: Entry, unknowns: Unknowns) -> list[Addend] | None:
        terms = self._counting(entry)
        return unknowns.form(terms) if terms else None

    def _averaged(self, linear: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
        """Variances of a set whose SUM or AVG was asked too: each with that query."""
        sums = {
            e.query.terms[0]: e
            for e in linear
            if len(e.query.terms) == 1 and e.query.digits is None and e.query.test is None
        }
        return [
            (e, sums[e.query.terms[0]])
            for e in self.entries
            if e.query.aggregate is Aggregate.VAR
            and e.query.digits is None
            and e.query.test is None
            and e.query.terms[0] in sums
            and not self._conditional(e.query)
        ]

    def _square_rows(
        self, averaged: Sequence[tuple[Entry, Entry]], unknowns: Unknowns, rows: Sequence[Row]
    ) -> tuple[list[Row], list[Equal]]:
        """A variance with its sum S over n people is an equation for the squares: n VAR_POP + S^2 / n."""
        by_number = {row.number: row for row in rows}
        found, equal = [], []
        for e, partner in averaged:
            term = e.query.terms[0]
            entries = unknowns.form([replace(term, power=2)])
            n = self.totals.form(entries).matched
            answer = e.answer
            if answer is None and self.source is not None and n:
                value = self.source.evaluate(e.query)
                answer = NULL_ANSWER if value is None else double(Fraction(value), Decimal(value))
                self.answers[e.number] = answer
            known = by_number.get(partner.number)
            if n == 0 or known is None:
                continue
            lo = hi = None
            if answer is not None and answer.lo is not None and answer.hi is not None and known.lo is not None:
                assert known.hi is not None
                sums = squared(known.lo, known.hi)
                ends = (answer.lo, answer.hi)
                if e.query.label.startswith("STDDEV"):
                    ends = squared(max(ends[0], Fraction(0)), ends[1])
                if answer.value == 0:
                    ends = (Fraction(0), Fraction(0))
                    equal.append(Equal(e.number, partner.number, term.column or "", entries[0].predicate))
                spread = n if "POP" in e.query.label else n - 1
                slack = (n + 2) * ULP * (abs(ends[1]) * spread + sums[1] / n) if ends[1] else Fraction(0)
                lo, hi = (ends[0] * spread + sums[0] / n - slack, ends[1] * spread + sums[1] / n + slack)
            found.append(Row(e.number, tuple(entries), Fraction(0), Fraction(0), lo, hi))
        return found, equal

    def _order(self, done: set[str]) -> list[OrderFact]:
        found = []
        for e in self.entries:
            if e.query.aggregate is Aggregate.SUM or e.number in done:
                continue
            if e.query.aggregate is Aggregate.PUBLIC and not self._conditional(e.query):
                continue  # public knowledge
            where = e.query.terms[0].where
            at = -1 if private_leaves(where, self.secret) else self.registry.predicate(where)
            answer = e.answer
            if answer is None and self.source is not None:
                value = self.source.evaluate(replace(e.query, test=None, digits=None))
                answer = finish(None if value is None else Fraction(value), Fraction(0), e.query)
                self.answers[e.number] = answer
            found.append(OrderFact(e.number, e.query, at, answer))
        return found

    def _bounds(self) -> list[Bound]:
        found = []
        for number, fact, where in self.facts:
            if fact.lo is not None or fact.hi is not None:
                lo, hi = (None if end is None else Fraction(end) for end in (fact.lo, fact.hi))
                found.append(Bound(fact.column, self.registry.predicate(where), lo, hi, number))
            self.registry.predicate(self._present(where, fact.column))
        return found

    def _present(self, where: Predicate, column: str) -> Predicate:
        """A condition on those who have a value."""
        found = self.roster.schema.find(column)
        nullable = found is not None and found.nullable
        return conjunction(where, negation(IsNull(column))) if nullable else where

    def _fact_rows(self, unknowns: Unknowns) -> list[Row]:
        """Totals of groups that are known beforehand; `equals` over a group gives its total too."""
        rows = []
        for number, fact, where in self.facts:
            at = self.registry.predicates[self._present(where, fact.column)]
            if fact.sum_lo is None and fact.sum_hi is None:
                if fact.lo is None or fact.lo != fact.hi:
                    continue
                matched = self.totals.form([Addend(ONE, at)]).matched
                fact = replace(fact, sum_lo=fact.lo * matched, sum_hi=fact.lo * matched)
            entries = tuple(
                Addend(f, at)
                for f, feature in enumerate(unknowns.features)
                if feature.column == fact.column and feature.power == 1
            )
            lo, hi = (None if end is None else Fraction(end) for end in (fact.sum_lo, fact.sum_hi))
            exact = lo is not None and lo == hi
            why = "" if exact else "a range"
            rows.append(Row(f"fact {number}", entries, Fraction(1), Fraction(0), lo, hi, None, exact, why, number))
        return rows

    # -- from an answer to a row -------------------------------------------------------------------------------------

    def _row(self, asked: _Asked) -> list[Row]:
        entry, query = asked.entry, asked.entry.query
        top, per = self.totals.form(asked.top), self.totals.form(asked.per)
        answer = entry.answer
        if answer is None and self.source is not None:
            answer = self._computed(query, top, per)
        elif answer is not None and self.source is not None:
            self._compare(entry, answer, top, per)
        if answer is not None:
            self.answers[entry.number] = answer
        if answer is not None and answer.null:
            return self._null_row(asked, top, per)
        hidden_per = any(e.feature != ONE for e in asked.per)
        if query.per and not hidden_per and per.public == 0:
            return []  # a quotient over nobody says nothing
        said = self._said(entry, answer, top)
        alone = hidden_per and self._one_candidate(asked)
        if hidden_per and not alone:
            return self._ratio_row(asked, said, top, per)
        scale = per.public if query.per and not alone else Fraction(1)
        entries = tuple(e for e in asked.top if e.feature != ONE)
        low, high = (None if end is None else end * scale - top.public for end in (said.lo, said.hi))
        if scale < 0:
            low, high = high, low
        if not entries:
            if (low is not None and low > 0) or (high is not None and high < 0):
                self.contradictions.append(
                    Contradiction(
                        (entry.number,), f"Q{entry.number} asks only public things, and its answer is not what they are"
                    )
                )
            return []
        noise = answer.noise if answer is not None else None
        return [Row(entry.number, entries, scale, top.public, low, high, noise, said.exact, said.why)]

    def _null_row(self, asked: _Asked, top: Form, per: Form) -> list[Row]:
        """NULL: nobody matched. Under a private condition that is a count of zero."""
        number = asked.entry.number
        if asked.empty is not None:
            count = self.totals.form(asked.empty)
            entries = tuple(e for e in asked.empty if e.feature != ONE)
            rest = -count.public
            return [Row(number, entries, Fraction(0), count.public, rest, rest)] if entries else []
        if top.matched > 0 and len(asked.entry.query.terms) == 1 and not self._conditional(asked.entry.query):
            self.contradictions.append(
                Contradiction((number,), f"Q{number} was answered NULL, but {top.matched} records match it")
            )
        return []

    def _ratio_row(self, asked: _Asked, said: Interval, top: Form, per: Form) -> list[Row]:
        """AVG under a private condition: SUM - a COUNT lies within the radius of a, times the group."""
        entry = asked.entry
        if said.lo is None or said.hi is None:
            reason = "an average under a private condition without its value"
            self.unjudged.append(Unjudged(entry.number, entry.sql, reason))
            return []
        a = (said.lo + said.hi) / 2
        spread = (said.hi - said.lo) / 2 * self.roster.n
        if spread and any(e.feature != ONE and self.totals.summed(e.feature) for e in asked.per):
            said = replace(said, exact=False, why="a quotient of private sums, rounded")
        found: dict[tuple[int, int, int | None], Fraction] = {}
        for sign, part in ((Fraction(1), asked.top), (-a, asked.per)):
            for e in part:
                if e.feature != ONE:
                    at = (e.feature, e.predicate, e.weight)
                    found[at] = found.get(at, Fraction(0)) + sign * e.factor
        entries = tuple(Addend(f, p, c, w) for (f, p, w), c in found.items() if c)
        offset = top.public - a * per.public
        low, high = -offset - spread, -offset + spread
        if not entries:
            return []  # SUM(x) / SUM(x): it says nothing
        return [Row(entry.number, entries, Fraction(0), offset, low, high, None, said.exact, said.why)]

    def _one_candidate(self, asked: _Asked) -> bool:
        """An average over a single possible person, answered at all, is his value."""
        below = asked.entry.query.per
        counts = len(below) == 1 and below[0].column is None and below[0].weight is None and below[0].factor == 1
        return counts and self.totals.candidates([*asked.top, *asked.per]) == 1

    def _said(self, entry: Entry, answer: Answer | None, top: Form) -> Interval:
        """An answer as an interval. What we computed ourselves is as exact as it says; what was printed is not."""
        printed = entry.answer is not None and isinstance(entry.answer.value, Decimal)
        dust = Fraction(0)
        if printed and entry.answer is not None and entry.answer.lo is not None:
            dust = radius(entry.query, entry.answer.lo, top.matched, self.roster.schema, self.knowledge)
        return interval(entry.query, answer, dust)

    def _computed(self, query: Query, top: Form, per: Form) -> Answer:
        """The true answer, from the totals over atoms."""
        below = per.total if query.per else Fraction(1)
        if below == 0 or (query.columns and not query.per and top.matched == 0):
            return NULL_ANSWER
        return finish(top.total / below, top.radius / abs(below), query)

    def _compare(self, entry: Entry, answer: Answer, top: Form, per: Form) -> None:
        if answer.null or answer.noise is not None:
            return
        truth = self._computed(replace(entry.query, digits=None, test=None), top, per)
        said = f"Q{entry.number} was answered {described(answer)}"
        if truth.lo is None or truth.hi is None:
            self.contradictions.append(Contradiction((entry.number,), f"{said}, but in the data nobody matches it"))
            return
        given = self._said(entry, answer, top)
        if (given.lo is not None and truth.hi < given.lo) or (given.hi is not None and truth.lo > given.hi):
            data = simplest_decimal(truth.lo, truth.hi)
            self.contradictions.append(Contradiction((entry.number,), f"{said}, but the data give {data}"))


def _parts(predicate: Predicate) -> tuple[Predicate, ...]:
    return predicate.parts if isinstance(predicate, And) else (predicate,)
