"""Transcript to Evidence: atoms inside the engine, one linear system per set of private columns tied by the log.

With a source, answers that the log lacks are computed over atoms (one total a feature and atom, then one sum a query),
and answers that the log has are compared with the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

from keyhole.errors import ConfigError, QueryError, UnsupportedQuery
from keyhole.evidence import Bound, Contradiction, Equal, Evidence, OrderFact, Row, System, Unjudged
from keyhole.evidence import Entry as Addend
from keyhole.gather.features import ONE, Registry, Unknowns, private_leaves
from keyhole.gather.totals import Form, Totals
from keyhole.knowledge import Fact, Knowledge
from keyhole.predicate import TRUE, IsNull, Opaque, Predicate, conjunction, leaves, negation
from keyhole.query import Aggregate, Query, Term
from keyhole.schema import Kind
from keyhole.sources import Roster, Source
from keyhole.sql import lower
from keyhole.transcript import NULL_ANSWER, Answer, Entry, Refusal, Transcript, simplest_decimal

ULP = Fraction(1, 2**52)

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
    entries, refused = _admissible(transcript, roster)
    blocks, public = _blocks(entries, secret)
    facts = _facts(knowledge, roster)
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


def _admissible(transcript: Transcript, roster: Roster) -> tuple[list[Entry], list[Refusal]]:
    """Leave out statements whose engine-evaluated parts the engine itself refuses."""
    kept: list[Entry] = []
    refused: dict[str, Refusal] = {}
    known: dict[tuple[Predicate, str | None], str | None] = {}
    for entry in transcript.entries:
        number = entry.number.split(".")[0]
        for term in (*entry.query.terms, *entry.query.per):
            if entry.query.aggregate is Aggregate.PUBLIC:
                continue
            opaque = [leaf for leaf in leaves(term.where) if isinstance(leaf, Opaque)]
            for part, weight in [(leaf, None) for leaf in opaque] + ([(TRUE, term.weight)] if term.weight else []):
                if (part, weight) not in known:
                    known[part, weight] = roster.fault(part, weight)
                objection = known[part, weight]
                if objection is not None:
                    refused[number] = Refusal(number, entry.sql, f"the engine refuses it: {objection}")
        kept.append(entry)
    return [e for e in kept if e.number.split(".")[0] not in refused], list(refused.values())


def _blocks(
    entries: Sequence[Entry], secret: frozenset[str]
) -> tuple[list[tuple[tuple[str, ...], list[Entry]]], list[Entry]]:
    """Private columns that some query mentions together share a system (union-find)."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    touched: list[frozenset[str]] = []
    for entry in entries:
        used = set(entry.query.columns)
        for term in (*entry.query.terms, *entry.query.per):
            used |= {leaf.column for leaf in private_leaves(term.where, secret) if hasattr(leaf, "column")}
        touched.append(frozenset(used))
        for name in used:
            parent[root(name)] = root(min(used))
    blocks: dict[str, list[Entry]] = {}
    public = []
    for entry, names in zip(entries, touched, strict=True):
        if names:
            blocks.setdefault(root(min(names)), []).append(entry)
        else:
            public.append(entry)
    named = [(tuple(sorted(n for n in parent if root(n) == r)), block) for r, block in blocks.items()]
    return named, public


def _facts(knowledge: Knowledge, roster: Roster) -> tuple[tuple[int, Fact, Predicate], ...]:
    found = []
    for number, fact in enumerate(knowledge.facts, 1):
        try:
            where = lower(
                f"SELECT COUNT(*) FROM {roster.schema.table!r} WHERE {fact.where}".replace("'", '"', 2), roster.schema
            )
        except QueryError as error:
            raise ConfigError(f"fact {number}: {error.message}") from None
        found.append((number, fact, where.where))
    return tuple(found)


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
        """With a source, learn now whether a conditional SUM or AVG is NULL (nobody matched)."""
        if entry.answer is not None or self.source is None or not self._conditional(entry.query):
            return entry
        counts = tuple(Term(None, t.where) for t in entry.query.per or entry.query.terms)
        empty = entry.query.columns and self.source.evaluate(Query(Aggregate.SUM, counts)) == 0
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

    def _counting(self, entry: Entry) -> list[Term]:
        query, answer = entry.query, entry.answer
        if answer is None or not answer.null or not self._conditional(query) or not query.columns:
            return []
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
                answer = NULL_ANSWER if value is None else _double(Fraction(value), Decimal(value))
                self.answers[e.number] = answer
            known = by_number.get(partner.number)
            if n == 0 or known is None:
                continue
            lo = hi = None
            if answer is not None and answer.lo is not None and answer.hi is not None and known.lo is not None:
                assert known.hi is not None
                squared = _squared(known.lo, known.hi)
                ends = (answer.lo, answer.hi)
                if e.query.label.startswith("STDDEV"):
                    ends = _squared(max(ends[0], Fraction(0)), ends[1])
                if answer.value == 0:
                    ends = (Fraction(0), Fraction(0))
                    equal.append(Equal(e.number, partner.number, term.column or "", entries[0].predicate))
                spread = n if "POP" in e.query.label else n - 1
                slack = (n + 2) * ULP * (abs(ends[1]) * spread + squared[1] / n) if ends[1] else Fraction(0)
                lo, hi = (ends[0] * spread + squared[0] / n - slack, ends[1] * spread + squared[1] / n + slack)
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
                answer = _finish(None if value is None else Fraction(value), Fraction(0), e.query)
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
        lo, hi, exact, why = self._interval(query, answer, top)
        if hidden_per:
            return self._ratio_row(entry, asked, answer, lo, hi, exact, why, top, per)
        scale = per.public if query.per else Fraction(1)
        entries = tuple(e for e in asked.top if e.feature != ONE)
        low, high = (None if end is None else end * scale - top.public for end in (lo, hi))
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
        return [Row(entry.number, entries, scale, top.public, low, high, noise, exact, why)]

    def _null_row(self, asked: _Asked, top: Form, per: Form) -> list[Row]:
        """NULL: nobody matched. Under a private condition that is a count of zero."""
        number = asked.entry.number
        if asked.empty is not None:
            count = self.totals.form(asked.empty)
            entries = tuple(e for e in asked.empty if e.feature != ONE)
            rest = -count.public
            return [Row(number, entries, Fraction(0), count.public, rest, rest)] if entries else []
        if top.matched > 0:
            self.contradictions.append(
                Contradiction((number,), f"Q{number} was answered NULL, but {top.matched} records match it")
            )
        return []

    def _ratio_row(
        self,
        entry: Entry,
        asked: _Asked,
        answer: Answer | None,
        lo: Fraction | None,
        hi: Fraction | None,
        exact: bool,
        why: str,
        top: Form,
        per: Form,
    ) -> list[Row]:
        """AVG under a private condition: SUM - a COUNT lies within the radius of a, times the group."""
        if lo is None or hi is None or answer is None:
            self.unjudged.append(
                Unjudged(entry.number, entry.sql, "an average under a private condition without its value")
            )
            return []
        a = (lo + hi) / 2
        spread = max(hi - a, a - lo) * self.roster.n
        found: dict[tuple[int, int, int | None], Fraction] = {}
        for sign, part in ((Fraction(1), asked.top), (-a, asked.per)):
            for e in part:
                if e.feature != ONE:
                    at = (e.feature, e.predicate, e.weight)
                    found[at] = found.get(at, Fraction(0)) + sign * e.factor
        entries = tuple(Addend(f, p, c, w) for (f, p, w), c in found.items() if c)
        offset = top.public - a * per.public
        return [Row(entry.number, entries, Fraction(0), offset, -offset - spread, -offset + spread, None, exact, why)]

    def _interval(
        self, query: Query, answer: Answer | None, top: Form
    ) -> tuple[Fraction | None, Fraction | None, bool, str]:
        """The answer as an interval, whether it is an equation, and if not why."""
        if answer is None:
            return None, None, query.digits is None and query.test is None, _why(query)
        if query.test is not None:
            if not isinstance(answer.value, bool):
                return answer.lo, answer.hi, False, "a threshold question"
            at = Fraction(query.test.value)
            above = query.test.op in (">", ">=")
            if query.test.op in ("=", "<>"):
                return (
                    (at, at, True, "") if answer.value == (query.test.op == "=") else (None, None, False, "inequality")
                )
            return (
                (at, None, False, "a threshold question")
                if above == answer.value
                else (None, at, False, "a threshold question")
            )
        lo, hi = answer.lo, answer.hi
        if query.digits is not None:
            half = Fraction(1, 2) / Fraction(10) ** query.digits
            if isinstance(answer.value, Decimal) and lo == hi:
                lo, hi = Fraction(answer.value) - half, Fraction(answer.value) + half
            return lo, hi, False, "a rounded answer"
        if answer.noise is not None:
            return lo, hi, False, "a noisy answer"
        if answer.value is None:
            return lo, hi, lo is not None and lo == hi, "an interval"
        if lo == hi and lo is not None:
            radius = self._radius(query, lo, top.matched)
            lo, hi = lo - radius, lo + radius
        return lo, hi, True, ""

    def _radius(self, query: Query, value: Fraction, matched: int) -> Fraction:
        """How far a printed DOUBLE may lie from the true sum, whatever the order of summation."""
        if self.source is not None and not any(self.totals.floating(c) for c in query.columns) and not query.per:
            exact_kind = all(self._kind(c) is not Kind.DOUBLE for c in query.columns)
            if exact_kind:
                return Fraction(0)
        if not query.per and all(self._kind(c) in (Kind.INTEGER, Kind.DECIMAL) for c in query.columns):
            return Fraction(0)
        size = abs(value)
        for name in query.columns:
            prior = self.knowledge.prior(name)
            if prior.lo is not None and prior.hi is not None:
                most = max(abs(Fraction(prior.lo)), abs(Fraction(prior.hi)))
                size = max(size, most if query.per else most * matched)
        return (matched + 2) * ULP * size

    def _kind(self, name: str) -> Kind | None:
        column = self.roster.schema.find(name)
        return column.kind if column is not None else None

    def _computed(self, query: Query, top: Form, per: Form) -> Answer:
        """The true answer, from the totals over atoms."""
        below = per.total if query.per else Fraction(1)
        if below == 0 or (query.columns and not query.per and top.matched == 0):
            return NULL_ANSWER
        return _finish(top.total / below, top.radius / abs(below), query)

    def _compare(self, entry: Entry, answer: Answer, top: Form, per: Form) -> None:
        if answer.null or answer.noise is not None:
            return
        truth = self._computed(replace(entry.query, digits=None, test=None), top, per)
        said = f"Q{entry.number} was answered {_shown(answer)}"
        if truth.lo is None or truth.hi is None:
            self.contradictions.append(Contradiction((entry.number,), f"{said}, but in the data nobody matches it"))
            return
        lo, hi, _, _ = self._interval(entry.query, answer, top)
        if (lo is not None and truth.hi < lo) or (hi is not None and truth.lo > hi):
            data = simplest_decimal(truth.lo, truth.hi)
            self.contradictions.append(Contradiction((entry.number,), f"{said}, but the data give {data}"))


def _squared(lo: Fraction, hi: Fraction) -> tuple[Fraction, Fraction]:
    low = Fraction(0) if lo <= 0 <= hi else min(lo * lo, hi * hi)
    return low, max(lo * lo, hi * hi)


def _double(value: Fraction, shown: Decimal) -> Answer:
    return Answer(shown, value - 4 * ULP * abs(value), value + 4 * ULP * abs(value))


def _why(query: Query) -> str:
    return "a threshold question" if query.test is not None else "a rounded answer" if query.digits is not None else ""


def _shown(answer: Answer) -> str:
    return str(answer.value) if answer.value is not None else f"an interval up to {answer.hi}"


def _finish(value: Fraction | None, radius: Fraction, query: Query) -> Answer:
    """Apply ROUND and a threshold to a true value."""
    if value is None:
        return NULL_ANSWER
    if query.test is not None:
        at = Fraction(query.test.value)
        truth = {
            "=": value == at,
            "<>": value != at,
            "<": value < at,
            "<=": value <= at,
            ">": value > at,
            ">=": value >= at,
        }
        return Answer(truth[query.test.op], None, None)
    shown = simplest_decimal(value - radius, value + radius)
    if query.digits is not None:
        step = Decimal(1).scaleb(-query.digits)
        rounded = (Decimal(value.numerator) / Decimal(value.denominator)).quantize(step, rounding=ROUND_HALF_UP)
        half = Fraction(step) / 2
        return Answer(rounded, Fraction(rounded) - half, Fraction(rounded) + half)
    return Answer(shown, value - radius, value + radius)
