"""Background knowledge about records and groups, as bounds and constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from keyhole.datasets import Roster, Source
from keyhole.datasets.fact_conditions import not_public
from keyhole.errors import ConfigError, QueryError
from keyhole.gather.evidence import Bound, Constraint, Unjudged
from keyhole.gather.notes import Notes
from keyhole.gather.totals import Totals
from keyhole.model.forms import Feature, Part
from keyhole.model.predicate import Has, IsNull, Predicate, find_columns, find_leaves, make_and, make_not, quote_name
from keyhole.model.prior import Fact, Knowledge
from keyhole.model.query import Aggregate, Query, Term
from keyhole.model.schema import Role, Schema
from keyhole.sql import lower_statement


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
