"""What a statement would release, as integer rows over the records: decided from the roster alone.

A SUM-family number with public conditions is `answer * per = SUM(coefficient * x) + offset`, with public per and
offset, so its answer tells exactly one linear form of each private column. AVG releases its SUM; a quotient of two
private sums, or a sum over two private columns, counts as releasing each of its sums apart (more than it says, so the
verdict stays safe). Everything else is refused here, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from operator import eq, ge, gt, le, lt, ne
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.audit.masks import Masks, packed, unpacked
from keyhole.errors import DataError, UnsupportedQuery
from keyhole.evidence import Atoms
from keyhole.gather.features import private_leaves
from keyhole.predicate import TRUE, Opaque, Predicate, leaves
from keyhole.query import Aggregate, Query, Statement, Term
from keyhole.schema import Schema
from keyhole.tables import GroupKey

Row: TypeAlias = NDArray[np.uint64] | dict[int, int]  # bits over the records, or {record: weight}

FEW = 12  # predicates up to which the engine is asked one by one; beyond, records are grouped once
MAX_BYTES = 1 << 28  # of rows that one statement may have
_LIMIT = 1 << 62
_TESTS = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """One linear form that an answer tells: `row . x = scale * answer - offset`.

    `part` is the place of the number within its statement, from 1 (None: the statement asks one number only); `of`
    says which sum it is where one number counts as several.
    """

    column: str
    row: Row
    scale: Fraction
    offset: Fraction
    part: int | None
    of: str = ""


def objection(statement: Statement, schema: Schema, families: Mapping[str, str]) -> str | None:
    """Why a statement cannot be decided before it is answered; None if it can. Uses text and schema only.

    >>> from keyhole.schema import Column, Kind, Role
    >>> from keyhole.sql import lower
    >>> staff = Schema("staff", (Column("pay", Kind.INTEGER, Role.PRIVATE, nullable=False), Column("dept", Kind.TEXT)))
    >>> objection(lower("SELECT AVG(pay) FROM staff WHERE dept = 'legal'", staff), staff, {}) is None
    True
    >>> objection(lower("SELECT MAX(pay) FROM staff", staff), staff, {})
    "MAX of 'pay': its family is sum, and sums and extremes of one column cannot be decided together"
    """
    secret = frozenset(c.name for c in schema.columns if c.secret)
    for key in statement.keys:
        if key.column in secret:
            return f"it groups by the private column {key.column!r}: which groups are shown cannot be foreseen"
    for query in (*statement.queries, *statement.having):
        why = _objection(query, secret, families)
        if why is not None:
            return why
    return None


def _objection(query: Query, secret: frozenset[str], families: Mapping[str, str]) -> str | None:
    for term in (*query.terms, *query.per):
        private = private_leaves(term.where, secret)
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
        if families.get(column, "sum") != "sum":
            return f"the family of {column!r} is {families[column]}, which is not decided here: only sums are"
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


def released(statement: Statement, masks: Masks) -> list[Released]:
    """The linear forms that answering the whole statement would tell, in the order of its numbers.

    Raises `UnsupportedQuery` for a weight or expression that the engine cannot evaluate on the public columns. Cost:
    one engine pass a predicate (up to FEW), or one grouping of the records.
    """
    groups: list[GroupKey] = masks.roster.keys(statement) if statement.keys else [{}]
    numbers, most = len(groups) * len(statement.queries), max(MAX_BYTES // (masks.roster.n // 8 + 1), 1)
    if numbers > most:
        raise UnsupportedQuery(
            f"it asks for {numbers:,} numbers at once and the limit is {most:,}: ask for fewer groups"
        )
    asked = [(statement.group(key), statement.tests(key)) for key in groups]
    matches = _Matches(masks, [q for queries, tests in asked for q in (*queries, *tests)])
    single = len(groups) == 1 and not statement.keys and len(statement.queries) == 1
    found: list[Released] = []
    part = 0
    for queries, tests in asked:
        if not all(matches.passes(test) for test in tests):
            continue
        for query in queries:
            part += 1
            found.extend(_parts(query, matches, None if single else part))
    return found


def _parts(query: Query, matches: _Matches, part: int | None) -> list[Released]:
    if query.aggregate is Aggregate.PUBLIC or not query.columns:
        return []
    private_per = any(t.column is not None for t in query.per)
    per = Fraction(1) if not query.per or private_per else matches.total(query.per)
    if per == 0:
        return []  # a quotient over nobody is NULL
    found = []
    several = len({t.column for t in query.terms} - {None}) > 1
    for terms, place in ((query.terms, "numerator"), (query.per, "denominator")):
        offset = matches.total([t for t in terms if t.column is None])
        for name in dict.fromkeys(t.column for t in terms if t.column is not None):
            row, scale = matches.row([t for t in terms if t.column == name])
            of = f"the {place}'s sum of {name}" if private_per else f"the sum of {name}" if several else ""
            found.append(Released(name, row, scale * per, scale * offset, part, of))
    return found


class _Matches:
    """Which records match each predicate of a statement, and its public weights."""

    def __init__(self, masks: Masks, queries: Sequence[Query]) -> None:
        roster = masks.roster
        self._n = roster.n
        summed = [t for q in queries if q.aggregate is Aggregate.SUM for t in (*q.terms, *q.per)]
        self._predicates = {p: i for i, p in enumerate(dict.fromkeys(t.where for t in summed))}
        self._weights = {w: i for i, w in enumerate(dict.fromkeys(t.weight for t in summed if t.weight is not None))}
        opaque = [leaf for p in self._predicates for leaf in leaves(p) if isinstance(leaf, Opaque)]
        for leaf in dict.fromkeys(opaque):
            _evaluable(masks.fault(leaf, None))
        for weight in self._weights:
            _evaluable(masks.fault(TRUE, weight))
        self._atoms: Atoms | None = None
        self._words: list[NDArray[np.uint64]] = []
        if self._weights or len(self._predicates) > FEW:
            try:
                self._atoms = roster.atoms(tuple(self._predicates), tuple(self._weights))
            except DataError as error:
                raise UnsupportedQuery(str(error)) from None
            return
        self._words = [masks.words(predicate) for predicate in self._predicates]

    def passes(self, test: Query) -> bool:
        """A public HAVING test; one that only the engine could compute is taken to pass, which releases more."""
        if test.aggregate is not Aggregate.SUM or test.test is None:
            return True
        value = self.total(test.terms)
        if test.per:
            per = self.total(test.per)
            if per == 0:
                return False
            value /= per
        return bool(_TESTS[test.test.op](value, Fraction(test.test.value)))

    def total(self, terms: Sequence[Term]) -> Fraction:
        """The value of a sum of public terms."""
        found = Fraction(0)
        for term in terms:
            if self._atoms is None:
                words = self._words[self._predicates[term.where]]
                found += term.factor * int(np.bitwise_count(words).sum())
                continue
            inside = np.flatnonzero(self._atoms.mask(self._predicates[term.where]))
            sizes = self._atoms.sizes[inside].tolist()
            if term.weight is None:
                found += term.factor * sum(sizes)
            else:
                values = self._atoms.weights[self._weights[term.weight]]
                found += term.factor * sum(
                    (values[k] * s for k, s in zip(inside.tolist(), sizes, strict=True)), Fraction()
                )
        return found

    def row(self, terms: Sequence[Term]) -> tuple[Row, Fraction]:
        """A sum of terms over one private column as an integer row, and the factor that made it integer.

        A multiple of a 0/1 row becomes that 0/1 row.
        """
        if len(terms) == 1 and terms[0].weight is None and terms[0].factor:
            at = self._predicates[terms[0].where]
            words = self._words[at] if self._atoms is None else packed(self._mask(terms[0].where))
            return words, 1 / terms[0].factor
        if self._atoms is None:
            scale = Fraction(lcm(*(t.factor.denominator for t in terms)))
            factors = [int(t.factor * scale) for t in terms]
            if sum(map(abs, factors)) >= _LIMIT:
                raise UnsupportedQuery("its factors are too large to be decided exactly: scale them down")
            values = np.zeros(self._n, dtype=np.int64)
            for term, factor in zip(terms, factors, strict=True):
                values += factor * self._mask(term.where)
            return _row(values, scale)
        per_atom = [Fraction(0)] * self._atoms.K
        for term in terms:
            weights = None if term.weight is None else self._atoms.weights[self._weights[term.weight]]
            for k in np.flatnonzero(self._atoms.mask(self._predicates[term.where])).tolist():
                per_atom[k] += term.factor * (1 if weights is None else weights[k])
        scale = Fraction(lcm(*(c.denominator for c in per_atom)))
        entries = [int(c * scale) for c in per_atom]
        if max(map(abs, entries), default=0) >= _LIMIT:
            raise UnsupportedQuery("its weights are too large to be decided exactly: scale or round them")
        return _row(np.array(entries, dtype=np.int64)[self._atoms.of], scale)

    def _mask(self, predicate: Predicate) -> NDArray[np.bool_]:
        at = self._predicates[predicate]
        if self._atoms is None:
            return unpacked(self._words[at], self._n)
        mask: NDArray[np.bool_] = self._atoms.mask(at)[self._atoms.of]
        return mask


def _row(values: NDArray[np.int64], scale: Fraction) -> tuple[Row, Fraction]:
    columns = np.flatnonzero(values)
    if not len(columns):
        return {}, scale
    common = int(values[columns[0]])
    if (values[columns] == common).all():
        return packed(values != 0), scale / common
    return dict(zip(columns.tolist(), values[columns].tolist(), strict=True)), scale


def _evaluable(fault: str | None) -> None:
    if fault is not None:
        raise UnsupportedQuery(f"the engine refuses it: {fault}")
