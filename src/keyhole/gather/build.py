"""Transcript to Evidence: atoms inside the engine, one linear system per set of private columns tied by the log.

With a source, answers that the log lacks are computed over atoms (one total a feature and atom, then one sum a query),
and answers that the log has are compared with the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from keyhole.basis import Atoms
from keyhole.datasets import Roster, Source
from keyhole.errors import ConfigError, UnsupportedQuery
from keyhole.gather.answers import finish
from keyhole.gather.arithmetic import Computed
from keyhole.gather.constraints import Asked, Reader, split_needs, zero_counts
from keyhole.gather.counting import counting, counts_people
from keyhole.gather.evidence import Evidence, OrderFact, System, Unjudged
from keyhole.gather.facts import KnownFact, known_facts, settled
from keyhole.gather.notes import Notes
from keyhole.gather.order import compare_with_data, order_fact
from keyhole.gather.quotients import Quotients
from keyhole.gather.squares import square_constraint, variances
from keyhole.gather.tied import TiedQueries, admissible, blocks_of
from keyhole.gather.totals import Totals
from keyhole.model.forms import Unknowns, find_private_leaves, has_private_condition
from keyhole.model.predicate import IsNull, Predicate, format_predicate, make_not
from keyhole.model.prior import Knowledge
from keyhole.model.query import FINER, ORDERED, OTHER_GROUPS, Aggregate, Query, Term
from keyhole.model.schema import Kind
from keyhole.model.transcript import NULL_ANSWER, Entry, Transcript

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
