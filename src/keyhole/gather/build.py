"""Transcript to Evidence: atoms inside the engine, one linear system per set of private columns tied by the log.

With a source, answers that the log lacks are computed over atoms (one total a feature and atom, then one sum a query),
and answers that the log has are compared with the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from keyhole.basis import Atoms
from keyhole.datasets import Roster, Source
from keyhole.datasets.fact_conditions import not_public
from keyhole.errors import ConfigError, QueryError, UnsupportedQuery
from keyhole.gather.answers import finish
from keyhole.gather.arithmetic import Computed
from keyhole.gather.constraints import Asked, Reader, split_needs, zero_counts
from keyhole.gather.counting import counting, counts_people
from keyhole.gather.evidence import Bound, Constraint, Evidence, Notes, OrderFact, System, Unjudged
from keyhole.gather.order import compare_with_data, order_fact
from keyhole.gather.quotients import Quotients
from keyhole.gather.squares import square_constraint, variances
from keyhole.gather.totals import Totals
from keyhole.model.forms import Feature, Part, Unknowns, find_private_leaves, has_private_condition
from keyhole.model.predicate import (
    TRUE,
    Has,
    IsNull,
    Opaque,
    Predicate,
    find_columns,
    find_leaves,
    format_predicate,
    make_and,
    make_not,
    quote_name,
)
from keyhole.model.prior import Fact, Knowledge
from keyhole.model.query import FINER, ORDERED, OTHER_GROUPS, Aggregate, Query, Term
from keyhole.model.schema import Kind, Role, Schema
from keyhole.model.transcript import NULL_ANSWER, Entry, Refusal, Transcript
from keyhole.sql import lower_statement

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
    if not secret and not any(r.secret for r in roster.schema.related):
        raise ConfigError("no column is private, so there is nothing to protect: name one with --private COL")
    entries, refused = admissible(transcript, roster)
    counted = [e for e in entries if counts_people(e.query, roster.schema, secret)]
    named = {e.number for e in counted}
    blocks, public = blocks_of([e for e in entries if e.number not in named], secret)
    knowledge = settled(knowledge, roster)
    facts = known_facts(knowledge, roster.schema)
    notes = Notes()
    notes.unjudged.extend(Unjudged(r.number, r.sql, r.error) for r in transcript.unjudged)
    systems: list[System] = []
    waiting = list(blocks)
    for done, block in enumerate(waiting):
        said("atoms", min(done, len(blocks) - 1), len(blocks))
        try:
            systems.append(_system(block, roster, knowledge, source, facts, notes))
        except UnsupportedQuery as error:
            shown = tuple(e for e in block.entries if e.certainty != FINER)
            left = shown if len(shown) == len(block.entries) else tuple(e for e in block.entries if e not in shown)
            notes.unjudged.extend(Unjudged(e.number, e.sql, str(error)) for e in left)
            if shown and left != shown:  # what something was computed from spoils nothing that was shown
                waiting.append(replace(block, entries=shown))
    if public.entries:  # public answers give nobody away, but may contradict the table
        _system(public, roster, knowledge, source, (), notes)
    said("atoms", len(blocks), len(blocks))
    people = counting(counted, roster, knowledge, source, notes)
    filled = tuple(replace(e, answer=notes.answers.get(e.number, e.answer)) for e in entries)
    log = replace(transcript, entries=filled, refused=(*transcript.refused, *refused), unjudged=())
    return Evidence(
        roster.n,
        log,
        knowledge,
        tuple(systems),
        tuple(notes.contradictions),
        tuple(notes.unjudged),
        tuple(notes.nobody),
        people,
        frozenset(e.number for e in entries if e.answer is None and e.number in notes.answers),
    )


def _system(
    block: TiedQueries,
    roster: Roster,
    knowledge: Knowledge,
    source: Source | None,
    facts: Sequence[KnownFact],
    notes: Notes,
) -> System:
    """One system: unknowns, forms, atoms, then what the answers say."""
    schema = roster.schema
    secret = frozenset(c.name for c in schema.columns if c.secret)
    facts = [f for f in facts if f.fact.column in block.columns]
    entries = [_nulled(e, source, secret) for e in block.entries]
    linear = [e for e in entries if e.query.aggregate is Aggregate.SUM]
    counted = {e.number: _counting(e, secret) for e in linear}
    paired = variances(entries, secret)
    terms = [t for e in linear for t in (*e.query.terms, *e.query.per, *counted[e.number])]
    unknowns = Unknowns([*terms, *(v.squares for v in paired)], schema, knowledge)
    asked = [Asked(e, unknowns.form(e.query), unknowns.parts(counted[e.number])) for e in linear]
    squares = [(v, unknowns.parts([v.squares])) for v in paired]
    present: dict[str, Predicate] = {}
    for name in block.columns:
        column = schema.find(name)
        if column is not None and column.nullable:
            present[name] = make_not(IsNull(name))
    order = _order(entries, {v.entry.number for v in paired}, source, roster, knowledge, notes)
    parts = [p for a in asked for p in (*a.form.parts, *a.empty)] + [p for _, each in squares for p in each]
    conditions: dict[Predicate, None] = dict.fromkeys(p.where for p in parts)
    conditions |= dict.fromkeys([*present.values(), *(f.guard for f in unknowns.features if f.guard is not None)])
    conditions |= dict.fromkeys(need for e in linear for need in split_needs(e.query, secret)[0])
    conditions |= dict.fromkeys(o.where for o in order if o.where is not None)
    conditions |= dict.fromkeys(where for f in facts for where in (f.where, f.present))
    weights = tuple(dict.fromkeys(p.weight for p in parts if p.weight is not None))
    atoms = roster.atoms(tuple(conditions), weights)
    totals = Totals(atoms, unknowns.features, unknowns.partitions, source)
    totals.ask_ahead(p for a in asked for p in a.form.parts)
    quotients = Quotients(unknowns.features, schema, knowledge, roster.n)
    computed = Computed(schema, knowledge)
    reader = Reader(totals, schema, knowledge, roster.n, source is not None, notes, quotients, computed)
    found = [c for a in asked if (c := reader.constraint(a)) is not None]
    zero_counts(linear, notes)
    notes.nobody.extend(Unjudged(e.number, e.sql, "nobody matches it") for e in linear if _counts_nobody(e, atoms))
    if source is not None:
        for fact in facts:
            fact.check(source, notes)
    notes.nobody.extend(f.unmatched() for f in facts if not totals.matched(f.where))
    found += [c for f in facts if (c := f.constraint(unknowns.features, totals)) is not None]
    by_number = {c.number: c for c in found}
    made = [square_constraint(v, each, totals, source, by_number, notes, quotients) for v, each in squares]
    return System(
        block.columns,
        unknowns.partitions,
        tuple(unknowns.features),
        atoms,
        (*found, *(c for c, _ in made if c is not None)),
        tuple(order),
        tuple(b for f in facts if (b := f.bound()) is not None),
        tuple(e for _, e in made if e is not None),
        present,
    )


def _counts_nobody(entry: Entry, atoms: Atoms) -> bool:
    """Is it a count, of no group, under public conditions that nobody satisfies? It is no NULL that would show it."""
    query = entry.query
    if query.columns or query.per or query.key or query.test is not None or not query.terms or entry.certainty:
        return False
    wheres = [t.where for t in query.terms]
    public = all(format_predicate(where) in atoms.conditions for where in wheres)
    return public and query.label != OTHER_GROUPS and not any(atoms.bits(where).any() for where in wheres)


def _nulled(entry: Entry, source: Source | None, secret: frozenset[str]) -> Entry:
    """With a source, learn now whether a sum under a private condition is over nobody: then the answer is NULL."""
    if entry.answer is not None or source is None or entry.query.aggregate is not Aggregate.SUM:
        return entry
    for need in split_needs(entry.query, secret)[1]:
        if source.evaluate(Query(Aggregate.SUM, (Term(None, need),))) == 0:
            return replace(entry, answer=NULL_ANSWER)
    return entry  # public needs are counted over atoms


def _counting(entry: Entry, secret: frozenset[str]) -> list[Term]:
    """The count that an answer NULL says to be zero, where that is news: under one private condition."""
    query, answer = entry.query, entry.answer
    if answer is None or not answer.null:
        return []
    counts = [Term(None, need) for need in split_needs(query, secret)[1]]
    if len(counts) != 1 or len(query.needs) > 1:
        return []  # one of several sums was over nobody, and NULL does not say which
    return counts if not has_private_condition(replace(query, terms=()), secret) or query.per == tuple(counts) else []


def _order(
    entries: Sequence[Entry],
    done: set[str],
    source: Source | None,
    roster: Roster,
    knowledge: Knowledge,
    notes: Notes,
) -> list[OrderFact]:
    """Order statistics, and variances without their sum."""
    secret = frozenset(c.name for c in roster.schema.columns if c.secret)
    found = []
    for e in entries:
        if e.query.aggregate is Aggregate.SUM:
            continue
        if e.query.aggregate is Aggregate.PUBLIC and not has_private_condition(e.query, secret):
            continue  # public knowledge
        term = e.query.terms[0]
        column, prior = roster.schema.find(term.column or ""), knowledge.prior(term.column or "")
        if source is not None and e.query.aggregate in (*ORDERED, Aggregate.VAR):
            compare_with_data(e, source, column, prior, notes, private=bool(find_private_leaves(term.where, secret)))
        if e.number in done:
            continue
        answer = e.answer
        if answer is None and source is not None:
            value = source.evaluate(replace(e.query, test=None, digits=None))
            answer = finish(None if value is None else Fraction(value), Fraction(0), e.query)
            notes.answers[e.number] = answer
        where = None if find_private_leaves(term.where, secret) else term.where
        kind = Kind.DOUBLE if column is None else column.kind
        found.append(order_fact(e, where, answer, kind, prior))
    return found


# --- tied -------------------------------------------------------------------------------------------------------------
# Which queries are solved together: those that tie private columns to each other.


def admissible(transcript: Transcript, roster: Roster) -> tuple[list[Entry], list[Refusal]]:
    """Leave out statements whose engine-evaluated parts the engine itself refuses."""
    kept: list[Entry] = []
    refused: dict[str, Refusal] = {}
    parts = [_evaluated(entry) for entry in transcript.entries]
    asked = list(dict.fromkeys(part for listed in parts for part in listed))
    known = dict(zip(asked, roster.faults(asked), strict=True))
    for entry, listed in zip(transcript.entries, parts, strict=True):
        number = entry.number.split(".")[0]
        for part in listed:
            objection = known[part]
            if objection is not None:
                refused[number] = Refusal(number, entry.sql, f"the engine refuses it: {objection}")
        kept.append(entry)
    return [e for e in kept if e.number.split(".")[0] not in refused], list(refused.values())


def _evaluated(entry: Entry) -> list[tuple[Predicate, str | None]]:
    """The conditions and weights of a query that are the engine's to evaluate."""
    if entry.query.aggregate is Aggregate.PUBLIC:
        return []
    found: list[tuple[Predicate, str | None]] = []
    for term in (*entry.query.terms, *entry.query.per):
        found.extend((leaf, None) for leaf in find_leaves(term.where) if isinstance(leaf, Opaque))
        if term.weight:
            found.append((TRUE, term.weight))
    return found


@dataclass(frozen=True, slots=True)
class TiedQueries:
    """Queries that are solved together, and the private columns that they tie."""

    columns: tuple[str, ...]
    entries: tuple[Entry, ...]


def blocks_of(entries: Sequence[Entry], secret: frozenset[str]) -> tuple[list[TiedQueries], TiedQueries]:
    """Private columns that some query mentions together share a system (union-find); and the public queries."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    touched: list[frozenset[str]] = []
    for entry in entries:
        used = set(entry.query.columns)
        for term in (*entry.query.terms, *entry.query.per):
            used |= {leaf.column for leaf in find_private_leaves(term.where, secret)}
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
    named = [TiedQueries(tuple(sorted(n for n in parent if root(n) == r)), tuple(block)) for r, block in blocks.items()]
    return named, TiedQueries((), tuple(public))


# --- facts ------------------------------------------------------------------------------------------------------------
# Background knowledge about records and groups, as bounds and constraints.


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A fact of the settings, read against a schema; `present`: those of whom it speaks who have a value."""

    number: int
    fact: Fact
    where: Predicate
    present: Predicate

    def bound(self) -> Bound | None:
        """What it says of each single record."""
        if self.fact.lo is None and self.fact.hi is None:
            return None
        lo, hi = (None if end is None else Fraction(end) for end in (self.fact.lo, self.fact.hi))
        return Bound(self.fact.column, self.where, lo, hi, self.number)

    def constraint(self, features: Sequence[Feature], totals: Totals) -> Constraint | None:
        """What it says of the group's total; `equals` over a group gives its total too."""
        fact = self.fact
        lo, hi = (None if end is None else Fraction(end) for end in (fact.sum_lo, fact.sum_hi))
        if lo is None and hi is None:
            if fact.lo is None or fact.lo != fact.hi:
                return None
            lo = hi = Fraction(fact.lo) * totals.matched(self.present)
        parts = tuple(
            Part(f, self.present)
            for f, feature in enumerate(features)
            if feature.column == fact.column and feature.power == 1
        )
        exact = lo is not None and lo == hi
        why = "" if exact else "a range"
        name = f"fact {self.number}"
        return Constraint(name, parts, Fraction(1), Fraction(0), lo, hi, None, exact, why, self.number)

    def unmatched(self) -> Unjudged:
        """A warning: it speaks of nobody."""
        return Unjudged(f"fact {self.number}", self.fact.where, "nobody matches it")

    def check(self, source: Source, notes: Notes) -> None:
        """With the data at hand, a fact that is not true of them is named."""
        fact, term = self.fact, Term(self.fact.column, self.present)
        for aggregate, low, high in (
            (Aggregate.MIN, fact.lo, None),
            (Aggregate.MAX, None, fact.hi),
            (Aggregate.SUM, fact.sum_lo, fact.sum_hi),
        ):
            value = source.evaluate(Query(aggregate, (term,)))
            if value is None or isinstance(value, bool):
                continue
            if (low is not None and value < low) or (high is not None and value > high):
                name = f"fact {self.number}"
                notes.contradict(f"{name} is not true of the data: {aggregate} of {fact.column} there is {value}", name)


def known_facts(knowledge: Knowledge, schema: Schema) -> tuple[KnownFact, ...]:
    """The facts of the settings, each condition read as SQL."""
    found = []
    for number, fact in enumerate(knowledge.facts, 1):
        try:
            where = lower_statement(f"SELECT COUNT(*) FROM {quote_name(schema.table)} WHERE {fact.where}", schema).where
        except QueryError as error:
            raise ConfigError(f"fact {number}: {error.message}") from None
        _of_public_columns(number, where, schema)
        column = schema.find(fact.column)
        nullable = column is not None and column.nullable
        present = make_and(where, make_not(IsNull(fact.column))) if nullable else where
        found.append(KnownFact(number, fact, where, present))
    return tuple(found)


def settled(knowledge: Knowledge, roster: Roster) -> Knowledge:
    """The same facts; the total of one person is his value. Cost: a pass over the records for each total."""
    facts = list(knowledge.facts)
    for known in known_facts(knowledge, roster.schema):
        fact = known.fact
        if fact.sum_lo is None and fact.sum_hi is None:
            continue
        if len(roster.atoms((known.present,), ()).records(known.present)) == 1:
            low = max((end for end in (fact.lo, fact.sum_lo) if end is not None), default=None)
            high = min((end for end in (fact.hi, fact.sum_hi) if end is not None), default=None)
            if low is None or high is None or low <= high:
                facts[known.number - 1] = replace(fact, lo=low, hi=high, sum_lo=None, sum_hi=None)
    return replace(knowledge, facts=tuple(facts))


def _of_public_columns(number: int, where: Predicate, schema: Schema) -> None:
    """Private values do not say of whom a fact speaks: atoms would be cut by the marks that stand for them."""
    for name in sorted(find_columns(where)):
        column = schema.find(name)
        if column is not None and (column.secret or column.role is Role.HIDDEN):
            raise ConfigError(not_public(number, column.name, "hidden" if column.role is Role.HIDDEN else "private"))
    for leaf in find_leaves(where):
        if isinstance(leaf, Has):
            raise ConfigError(not_public(number, f"rows of {leaf.table}", "private"))
