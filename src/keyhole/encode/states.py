"""What is asked together as people with states: what each may have, and what that adds to the totals of every answer.

A person's state says of each record of his the private cell for each column that conditions look at, the value of each
column that is added up, where its declared grid is finite, and which conditions some row of another table with the
record's key satisfies (`encode.related_rows`); NULL is public. What a log cannot tell apart is one option. What is not
put in here (variances, facts about totals, columns without a finite grid) leaves more tables possible than there are:
nothing false follows, and `missing` says why nothing is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import gcd, lcm, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Atoms
from keyhole.datasets import Roster
from keyhole.encode.answer_tests import MOST_VALUES, AnswerTest, ExtremeTest, OrderTest, ValueCount, WeightCount
from keyhole.encode.order import is_order
from keyhole.encode.related_rows import NotTogether, truths_of_rows
from keyhole.gather.answers import radius
from keyhole.gather.arithmetic import Computed, SummedPart
from keyhole.gather.evidence import Bound, Evidence, OrderFact, System
from keyhole.gather.order import order_fact
from keyhole.model.cells import Cell, Partition, partition_column
from keyhole.model.forms import find_private_leaves
from keyhole.model.grid import Grid
from keyhole.model.numbers import simplify_fraction
from keyhole.model.predicate import (
    FALSE,
    NULL,
    TRUE,
    Constant,
    Has,
    IsNull,
    Leaf,
    Predicate,
    PrivateLeaf,
    Scalar,
    evaluate_leaf,
    format_predicate,
    make_not,
    quote_name,
    replace_leaves,
)
from keyhole.model.query import OTHER_GROUPS, Aggregate, Query, Term
from keyhole.model.schema import Kind, Role, Schema
from keyhole.model.transcript import Entry
from keyhole.solve.tables import Alike, Condition

RECORDS = 3_000
VALUES = 2_000  # of one column
CHOICES = 5_000  # of one person
ENTRIES = 300
WORK = 3_000_000  # terms looked up

FACTS_LEFT = "facts are known, and what follows from them together with the grid was not searched"
NOT_PUT_IN = "some answer is about values that are not on a finite grid, or is no sum"


class TooLarge(Exception):
    """More than is looked at; the words say what of."""


class NoValueLeft(Exception):
    """What is known leaves somebody no value; another rule names that contradiction."""


@dataclass(frozen=True, slots=True)
class PeopleCount:
    """How many keys of owners have a record under a condition."""

    owner: str
    where: Predicate


Sum: TypeAlias = tuple[Term, ...] | ValueCount | WeightCount | PeopleCount


@dataclass(frozen=True, slots=True)
class Asked:
    """What is judged together: private columns, answers about them, and what is known of single values.

    `owner[r]` is whose record r is; None: each record is somebody's of his own. `missing`: what is not put in.
    """

    columns: tuple[str, ...]
    entries: tuple[Entry, ...]
    order: Mapping[str, OrderFact]
    bounds: tuple[Bound, ...]
    missing: str
    owner: NDArray[np.int64] | None = None

    @classmethod
    def of_system(cls, system: System, evidence: Evidence, schema: Schema) -> Asked:
        """One system, record by record."""
        secret = frozenset(c.name for c in schema.columns if c.secret)
        mine = tuple(e for e in evidence.transcript.entries if looked_at(e.query, secret) & set(system.columns))
        order = {f.number: f for f in system.order}
        return cls(system.columns, mine, order, system.bounds, _beyond([system], evidence))


def asked_of_people(evidence: Evidence, roster: Roster) -> Iterator[Asked]:
    """What the log ties together, of people with all their records and rows."""
    schema = roster.schema
    secret = frozenset(c.name for c in schema.columns if c.secret)
    ids = [quote_name(c.name) for c in schema.of_role(Role.ID)]
    owner = roster.classes(ids) if ids else np.arange(roster.n, dtype=np.int64)
    tied: list[tuple[set[str], list[Entry]]] = []
    for entry in evidence.transcript.entries:
        names = looked_at(entry.query, secret)
        if names:
            near = [each for each in tied if each[0] & names]
            tied = [each for each in tied if not each[0] & names]
            tied.append((names.union(*(n for n, _ in near)), [*(e for _, each in near for e in each), entry]))
    for names, entries in tied:
        systems = [s for s in evidence.systems if names & set(s.columns)]
        columns = tuple(sorted(names & secret))
        order = {f.number: f for s in systems for f in s.order} | {
            e.number: _order_fact(e, evidence, schema)
            for e in entries
            if is_order(e.query) and not any(f.number == e.number for s in systems for f in s.order)
        }
        known = {b.column for s in systems for b in s.bounds}
        facts = any(f.column in columns and f.column not in known for f in evidence.knowledge.facts)
        missing = _beyond(systems, evidence) or (FACTS_LEFT if facts else "")
        bounds = tuple(b for s in systems for b in s.bounds)
        yield Asked(columns, tuple(entries), order, bounds, missing, owner)


def looked_at(query: Query, secret: frozenset[str]) -> set[str]:
    """The private columns, and the tables with private rows, that an answer depends on."""
    wheres = [*(t.where for t in (*query.terms, *query.per)), *query.needs]
    return {leaf.column for where in wheres for leaf in find_private_leaves(where, secret)} | set(query.columns)


def _order_fact(entry: Entry, evidence: Evidence, schema: Schema) -> OrderFact:
    name = entry.query.terms[0].column or ""
    column = schema.find(name)
    kind = Kind.DOUBLE if column is None else column.kind
    return order_fact(entry, None, entry.answer, kind, evidence.prior(name))


@dataclass(frozen=True, slots=True)
class Alternative:
    """What one column of a record may be: a private cell (None: none is asked), a value where it is summed."""

    cell: Cell | None
    value: Fraction | None


@dataclass(frozen=True, slots=True)
class State:
    """What somebody may have: for each record of his the alternatives, and which conditions on rows hold."""

    held: tuple[tuple[Alternative, ...], ...]
    rows: tuple[tuple[bool, ...], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PeopleAlike:
    """People whom no query tells apart: their records (people x records), states, and the option of each state."""

    rows: NDArray[np.int64]
    states: tuple[State, ...]
    option: NDArray[np.int64]
    kind: Alike


@dataclass(frozen=True, slots=True, eq=False)
class StateModel:
    """The whole: people, one condition for each answer that is put in, and why that is not all (else empty)."""

    columns: tuple[str, ...]
    partitions: tuple[Partition, ...]
    leaves: tuple[Has, ...]
    facts: tuple[int, ...]
    people: tuple[PeopleAlike, ...]
    tests: tuple[AnswerTest | OrderTest | ExtremeTest, ...]
    conditions: tuple[Condition, ...]
    flags: tuple[int, ...]
    counts: frozenset[int]  # totals that count records, or keys of owners
    missing: str


def state_model(asked: Asked, evidence: Evidence, roster: Roster) -> StateModel | None:
    """The model of what is asked together; None if no answer of it can be put in. Raises TooLarge."""
    try:
        return _StateBuilder(asked, evidence, roster).model()
    except NoValueLeft:
        return None


class _StateBuilder:
    def __init__(self, asked: Asked, evidence: Evidence, roster: Roster) -> None:
        self.columns, self.evidence, self.roster, self.schema = asked.columns, evidence, roster, roster.schema
        self.owner = asked.owner
        self._keys: dict[tuple[str, ...], NDArray[np.int64]] = {}
        self.secret = frozenset(c.name for c in self.schema.columns if c.secret)
        self.missing, self.order = asked.missing, asked.order
        self.entries = asked.entries
        self.partitions = tuple(self._partitions())
        self.parts = {p.column.name: p for p in self.partitions}
        self.finite = {name: found for name in self.columns if (found := self._values(name)) is not None}
        self.asked = [e for e in self.entries if self._modelled(e)]
        self.leaves = tuple(dict.fromkeys(x for e in self.asked for x in self._leaves(e) if isinstance(x, Has)))
        if not self.missing and len(self.asked) < len(self.entries):
            self.missing = NOT_PUT_IN
        if not self.missing and not _shown(self.asked, self.secret):
            self.missing = "a group is shown, and what that says of private values was not searched"
        self.summed = {t.column for e in self.asked for t in (*e.query.terms, *e.query.per)}
        self.bounds = [b for b in asked.bounds if b.column in self.finite]
        if not self.missing and len(self.bounds) < len(asked.bounds):
            self.missing = FACTS_LEFT
        self.summed |= {b.column for b in self.bounds}
        nullable = (c for name in self.columns if (c := self.schema.find(name)) is not None and c.nullable)
        self.present: dict[str, Predicate] = {c.name: make_not(IsNull(c.name)) for c in nullable}

    def _leaves(self, entry: Entry) -> list[PrivateLeaf]:
        """The private conditions of an answer."""
        query = entry.query
        wheres = [*(t.where for t in (*query.terms, *query.per)), *query.needs]
        return [leaf for where in wheres for leaf in find_private_leaves(where, self.secret)]

    def keys(self, expressions: tuple[str, ...]) -> NDArray[np.int64]:
        """Which value of some public expressions each record has; -1: none."""
        if expressions not in self._keys:
            self._keys[expressions] = self.roster.classes(expressions)
        return self._keys[expressions]

    def _is_own(self, expressions: tuple[str, ...]) -> bool:
        """Is each value of some expressions that of one person alone?"""
        if self.owner is None or not all(expressions):
            return False
        at = self.keys(expressions)
        pairs = np.unique(np.stack([at, self.owner])[:, at >= 0], axis=1)
        return bool(len(np.unique(pairs[0])) == pairs.shape[1])

    def _values(self, name: str) -> list[Fraction] | None:
        """All numbers that a column can hold, if that many can be listed."""
        column, prior = self.schema.find(name), self.evidence.prior(name)
        if prior.numbers is not None:
            return [Fraction(number) for number in prior.numbers]
        if column is None or not column.kind.numeric:
            return None
        grid = Grid.of(column.kind, prior, column.digits)
        if grid.step is None or grid.lo is None or grid.hi is None:
            return None
        found = grid.between(grid.lo, grid.hi)
        if found is None or found[0] is None or found[1] is None:
            return None
        count = int((found[1] - found[0]) / grid.step) + 1
        return None if count > VALUES else [found[0] + k * grid.step for k in range(count)]

    def _modelled(self, entry: Entry) -> bool:
        query = entry.query
        terms, asked = (*query.terms, *query.per), self._leaves(entry)
        if not all(self._is_own(_own_keys(x)) if isinstance(x, Has) else x.column in self.parts for x in asked):
            return False
        if query.aggregate is Aggregate.PEOPLE:
            plain = len(query.terms) == 1 and not query.per and query.terms[0].factor == 1
            return plain and self._is_own((query.terms[0].weight or "",))
        if query.aggregate in (Aggregate.MIN, Aggregate.MAX) and query.terms[0].column is None:
            return self.owner is not None and _is_told(entry)
        if query.aggregate is not Aggregate.SUM and not self._ordered(entry):
            return False
        return all(t.column is None or t.column in self.finite for t in terms)

    def _ordered(self, entry: Entry) -> bool:
        """Is it an order statistic of few values?"""
        if not is_order(entry.query) or entry.number not in self.order:
            return False
        return len(self.finite.get(entry.query.terms[0].column or "", ())) in range(1, MOST_VALUES + 1)

    def _partitions(self) -> Iterator[Partition]:
        """The cells that the conditions cut each column into."""
        leaves = list(dict.fromkeys(leaf for e in self.entries for leaf in self._leaves(e)))
        for name in self.columns:
            mine = [leaf for leaf in leaves if not isinstance(leaf, Has) and leaf.column == name]
            column = self.schema.find(name)
            if column is not None and mine:
                yield partition_column(column, mine, self.evidence.prior(name))

    # -- building -----------------------------------------------------------------------------------------------------

    def model(self) -> StateModel | None:
        """Classes of people by what the restricted conditions and weights say of their records, then their options."""
        if not self.asked:
            return None
        if self.evidence.n > RECORDS or len(self.asked) > ENTRIES:
            raise TooLarge(f"more than {RECORDS} people or {ENTRIES} answers")
        sums, flags, tests = self._sums()
        reads = _Reads(self.partitions, [t.where for each in sums for t in _terms(each)])
        weights = {t.weight for each in sums for t in _terms(each) if t.weight is not None}
        bounding = (b.where for b in self.bounds)
        conditions = dict.fromkeys([TRUE, *reads.every(), *self.present.values(), *bounding])
        atoms = self.roster.atoms(tuple(conditions), tuple(sorted(weights)))
        records = _Records(self, atoms, sums, reads, {where: atoms.mask(where) for where in conditions})
        people = [(rows, records.states(rows[0])) for rows in self._classes(atoms)]
        scales = records.scales()
        made = tuple(records.alike(rows, states, scales, flags) for rows, states in people)
        found = tuple(self._test(e, tuple(scales[at] for at in places), atoms) for e, places in tests)
        told = tuple(self._condition(t, places, made) for t, (_, places) in zip(found, tests, strict=True))
        facts = tuple(sorted({b.fact for b in self.bounds}))
        counts = frozenset(i for i, each in enumerate(sums) if _is_count(each))
        return StateModel(
            self.columns, self.partitions, self.leaves, facts, made, found, told, tuple(flags), counts, self.missing
        )

    def _classes(self, atoms: Atoms) -> Iterator[NDArray[np.int64]]:
        """People with records in the same atoms and keys shared alike, as people x records."""
        order = np.argsort(atoms.of, kind="stable")
        if self.owner is None:
            starts = np.concatenate([[0], np.cumsum(atoms.sizes)])
            for k in range(atoms.K):
                yield order[starts[k] : starts[k + 1]].astype(np.int64)[:, None]
            return
        keyed = [self.keys(_own_keys(leaf)) for leaf in self.leaves]
        keyed += [self.keys((e.query.terms[0].weight or "",)) for e in self.asked if _counts_people(e.query)]
        person = np.where(self.owner >= 0, self.owner, self.owner.max(initial=0) + 1 + np.arange(len(self.owner)))
        order = np.lexsort((atoms.of, person))
        found: dict[tuple[object, ...], list[NDArray[np.int64]]] = {}
        for rows in np.split(order, np.flatnonzero(np.diff(person[order])) + 1):
            key = (atoms.of[rows].tobytes(), *(key_pattern(at[rows]) for at in keyed))
            found.setdefault(key, []).append(rows)
        yield from (np.stack(rows) for rows in found.values() if len(rows))

    def _test(self, entry: Entry, scales: tuple[int, ...], atoms: Atoms) -> AnswerTest | OrderTest | ExtremeTest:
        query, n = entry.query, self.evidence.n
        if query.aggregate in (Aggregate.MIN, Aggregate.MAX) and query.terms[0].column is None:
            return ExtremeTest(entry)
        if is_order(query):
            name = query.terms[0].column or ""
            column = self.schema.find(name)
            assert column is not None
            return OrderTest(entry, self.order[entry.number], tuple(self.finite[name]), column)
        if _counts_people(query):
            return AnswerTest(entry, scales, lambda _: Fraction(0))

        def dust(at: Fraction) -> Fraction:
            return radius(query, at, n, self.schema, self.evidence.knowledge)

        if query.test is None:
            return AnswerTest(entry, scales, dust)
        computed = Computed(self.schema, self.evidence.knowledge)
        top, per = ([_summand(t, atoms) for t in terms] for terms in (query.terms, query.per))
        return AnswerTest(entry, scales, dust, computed.arithmetic(query, top, per, computed.unit(per) or Fraction(1)))

    def _sums(self) -> tuple[list[Sum], list[int], list[tuple[Entry, tuple[int, ...]]]]:
        """Every total that an answer depends on, once; which of them only say whether anybody matches."""
        at: dict[tuple[Sum, bool], int] = {}
        tests: list[tuple[Entry, tuple[int, ...]]] = []
        for e in self.asked:
            term = e.query.terms[0] if e.query.terms else Term(None)
            keys: list[tuple[Sum, bool]]
            if is_order(e.query):
                values = self.finite[term.column or ""]
                keys = [(ValueCount(term.column or "", term.where, v), False) for v in values]
            elif e.query.aggregate in (Aggregate.MIN, Aggregate.MAX):
                keys = [(each, False) for each in WeightCount.of(e)]
            elif _counts_people(e.query):
                keys = [(PeopleCount(term.weight or "", term.where), False), ((), False)]
            else:
                needs: list[tuple[Sum, bool]] = [((Term(None, need),), True) for need in e.query.needs]
                keys = [(e.query.terms, False), (e.query.per, False), *needs]
            tests.append((e, tuple(at.setdefault(key, len(at)) for key in keys)))
        return [terms for terms, _ in at], [i for (_, flag), i in at.items() if flag], tests

    def alternatives(self, name: str, holds: Mapping[Predicate, NDArray[np.bool_]], k: int) -> list[Alternative]:
        """What a column of these records may be; of those without a value NULL alone."""
        part, where = self.parts.get(name), self.present.get(name)
        if where is not None and not holds[where][k]:
            return [Alternative(None if part is None else next(c for c in part.cells if c.null), None)]
        if name in self.summed:
            told = [b for b in self.bounds if b.column == name and holds[b.where][k]]
            known = [v for v in self.finite[name] if all(_within(v, b) for b in told)]
            return [a for v in known if (a := _placed(v, part)) is not None]
        return [Alternative(None, None)] if part is None else [Alternative(c, None) for c in part.cells if not c.null]

    def _condition(
        self, test: AnswerTest | OrderTest | ExtremeTest, places: tuple[int, ...], made: Iterable[PeopleAlike]
    ) -> Condition:
        """One answer; with intervals that close cases early."""
        if not isinstance(test, AnswerTest):
            return Condition(places, test.judge, {places[i]: ends for i, ends in test.ends().items()})
        kinds = [p.kind for p in made]
        fixed = all((k.options[:, places[1]] == k.options[0, places[1]]).all() for k in kinds)
        per = Fraction(sum(k.people * int(k.options[0, places[1]]) for k in kinds), test.scales[1]) if fixed else None
        ends: dict[int, tuple[int | None, int | None]] = {places[0]: test.ends(per)}
        if test.told:
            ends |= dict.fromkeys(places[2:], (1, None))
        elif test.null and len(places) == 3 and not test.entry.query.per:  # a quotient over 0 is NULL too
            ends[places[2]] = (None, 0)
        return Condition(places, test.judge, ends)


class _Reads:
    """Conditions as they read once what is private of a record is fixed."""

    def __init__(self, partitions: Sequence[Partition], wheres: Iterable[Predicate]) -> None:
        self.parts = {leaf: part for part in partitions for leaf in part.leaves}
        self.named = frozenset(part.column.name for part in partitions)
        self._own: dict[Predicate, tuple[PrivateLeaf, ...]] = {}
        self._read: dict[Predicate, dict[tuple[bool | None, ...], Predicate]] = {}
        ways = 0
        for where in dict.fromkeys(wheres):
            own = tuple(dict.fromkeys(find_private_leaves(where, self.named)))
            names = dict.fromkeys(leaf.column for leaf in own if not isinstance(leaf, Has))
            pools: list[list[dict[Leaf, bool | None]]] = [[{x: True}, {x: False}] for x in own if isinstance(x, Has)]
            for name in names:
                mine = [leaf for leaf in own if not isinstance(leaf, Has) and leaf.column == name]
                cells = self.parts[mine[0]].cells
                pools.append([{x: self.parts[x].truth(x, cell) for x in mine} for cell in cells])
            ways += prod(map(len, pools))
            if ways > WORK // 100:
                raise TooLarge("too many private cells")
            self._own[where], self._read[where] = own, {}
            for each in product(*pools):
                self._fill(where, {leaf: truth for part in each for leaf, truth in part.items()})

    def _fill(self, where: Predicate, truth: Mapping[Leaf, bool | None]) -> None:
        key = tuple(truth[leaf] for leaf in self._own[where])
        if key not in self._read[where]:
            read = replace_leaves(where, lambda leaf: Constant(truth[leaf]) if leaf in truth else leaf)
            self._read[where][key] = FALSE if read == NULL else read

    def every(self) -> Iterator[Predicate]:
        """All that conditions can read."""
        return (read for each in self._read.values() for read in each.values())

    def of(self, where: Predicate, truth: Mapping[Leaf, bool | None]) -> Predicate:
        """How a condition reads."""
        return self._read[where][tuple([truth[leaf] for leaf in self._own[where]])]


class _Records:
    """What a record adds to each total, by what is private of it; and people as combinations of records."""

    def __init__(
        self,
        made: _StateBuilder,
        atoms: Atoms,
        sums: Sequence[Sum],
        reads: _Reads,
        holds: Mapping[Predicate, NDArray[np.bool_]],
    ) -> None:
        self.made, self.atoms, self.sums, self.reads, self.holds = made, atoms, sums, reads, holds
        weighed = {t.weight for each in sums for t in _terms(each) if t.weight is not None}
        self.weights = {weight: atoms.weight(weight) for weight in weighed}
        self.pools: dict[int, list[tuple[Alternative, ...]]] = {}
        self.added: dict[tuple[int, tuple[bool, ...]], list[list[Fraction]]] = {}  # of an atom, and rows that it has
        self.work = 0

    def states(self, rows: NDArray[np.int64]) -> list[State]:
        """All that somebody with these records may have."""
        atoms = self.atoms.of[rows].tolist()
        pools = [self._pool(k) for k in atoms]
        try:
            ways = truths_of_rows(self.made.leaves, self._instances(rows), len(rows), self.made.schema, CHOICES)
        except NotTogether:
            raise TooLarge("conditions on rows of other tables that are not looked at together") from None
        if prod(map(len, pools)) * len(ways) > CHOICES:
            raise TooLarge(f"more than {CHOICES} combinations of values")
        for way in ways:
            for k, truths in zip(atoms, way, strict=True):
                self._add(k, truths)
        return [State(held, way) for way in ways for held in product(*pools)]

    def _instances(self, rows: NDArray[np.int64]) -> list[tuple[int, ...]]:
        """For each condition on rows, which key each record has."""
        return [tuple(self.made.keys(_own_keys(leaf))[rows].tolist()) for leaf in self.made.leaves]

    def _pool(self, k: int) -> list[tuple[Alternative, ...]]:
        if k not in self.pools:
            each = [self.made.alternatives(name, self.holds, k) for name in self.made.columns]
            if not all(each):
                raise NoValueLeft
            if prod(map(len, each)) > CHOICES:
                raise TooLarge(f"more than {CHOICES} combinations of values")
            self.pools[k] = list(product(*each))
        return self.pools[k]

    def _add(self, k: int, truths: tuple[bool, ...]) -> None:
        """What records of an atom add, whatever their columns are."""
        if (k, truths) in self.added:
            return
        self.work += len(self.pools[k]) * sum(len(_terms(each)) for each in self.sums)
        if self.work > WORK:
            raise TooLarge("too many people, values and answers")
        given: dict[Leaf, bool | None] = dict(zip(self.made.leaves, truths, strict=True))
        matched: dict[tuple[Cell | None, ...], list[list[bool]]] = {}
        found = []
        for held in self.pools[k]:
            joint = tuple(a.cell for a in held)
            if joint not in matched:  # hashing conditions costs more than all the rest
                cells = ((self.made.parts[c.column].leaves, c.truths) for c in joint if c is not None)
                truth = given | {x: t for named, said in cells for x, t in zip(named, said, strict=True)}
                matched[joint] = [
                    [bool(self.holds[self.reads.of(t.where, truth)][k]) for t in _terms(each)] for each in self.sums
                ]
            values = {name: a.value for name, a in zip(self.made.columns, held, strict=True)}
            found.append(
                [self._of(each, k, values, here) for each, here in zip(self.sums, matched[joint], strict=True)]
            )
        self.added[k, truths] = found

    def _of(self, each: Sum, k: int, values: Mapping[str, Fraction | None], here: Sequence[bool]) -> Fraction:
        if isinstance(each, ValueCount):
            return Fraction(int(here[0] and values[each.column] == each.value))
        if isinstance(each, PeopleCount):
            return Fraction(int(here[0]))
        if isinstance(each, WeightCount):
            return Fraction(int(here[0] and each.counts(self.weights[each.weight][k])))
        total = Fraction(0)
        for t, holds in zip(each, here, strict=True):
            if holds:
                weight = t.factor if t.weight is None else t.factor * self.weights[t.weight][k]
                total += weight if t.column is None else weight * (values[t.column] or 0) ** t.power
        return total

    def scales(self) -> list[int]:
        """What makes all that is added to a total whole."""
        tables = [np.array(table, dtype=object) for table in self.added.values()]
        return [lcm(*{v.denominator for table in tables for v in table[:, i]}) for i in range(len(self.sums))]

    def alike(
        self, rows: NDArray[np.int64], states: list[State], scales: Sequence[int], flags: Sequence[int]
    ) -> PeopleAlike:
        """People with their states, of which those that add the same are one option; what is added is whole."""
        whole = np.array(scales, dtype=object)
        counted = {i: each for i, each in enumerate(self.sums) if isinstance(each, PeopleCount)}
        first, sizes = rows[0], [len(self._pool(int(k))) for k in self.atoms.of[rows[0]]]
        at = np.stack([each.ravel() for each in np.indices(sizes)], axis=1) if sizes else np.zeros((1, 0), int)
        tables = []
        for way in dict.fromkeys(state.rows for state in states):
            mine = [
                np.array(self.added[int(k), truths], dtype=object).reshape(-1, len(whole))[at[:, r]] * whole
                for r, (k, truths) in enumerate(zip(self.atoms.of[first], way, strict=True))
            ]
            total = sum(mine[1:], mine[0])
            for i, each in counted.items():
                keys = self.made.keys((each.owner,))[first]
                groups = [
                    [mine[r][:, i] > 0 for r in np.flatnonzero(keys == key)] for key in np.unique(keys[keys >= 0])
                ]
                total[:, i] = sum((np.any(group, axis=0).astype(int) for group in groups), np.zeros(len(at), int))
            total[:, list(flags)] = np.minimum(total[:, list(flags)], 1)
            tables.append(total)
        table = np.concatenate(tables)
        if table.size and max(abs(int(table.max())), abs(int(table.min()))) >= 2**62:
            raise TooLarge("too large numbers")
        listed = [tuple(map(int, row)) for row in table.tolist()]
        place = {row: i for i, row in enumerate(dict.fromkeys(listed))}
        options = np.array(list(place), dtype=np.int64).reshape(len(place), len(whole))
        return PeopleAlike(rows, tuple(states), np.array([place[row] for row in listed]), Alike(len(rows), options))


def _is_count(each: Sum) -> bool:
    if isinstance(each, PeopleCount):
        return True
    return isinstance(each, tuple) and all(t.column is None and t.weight is None and t.factor == 1 for t in each)


def _own_keys(leaf: Has) -> tuple[str, ...]:
    """The columns of a record by which rows of another table belong to it."""
    return tuple(quote_name(mine) for mine, _ in leaf.on)


def key_pattern(at: NDArray[np.int64]) -> tuple[int, ...]:
    """Which records share a key, whatever those are called.

    >>> key_pattern(np.array([7, -1, 9, 7]))
    (0, -1, 1, 0)
    """
    seen: dict[int, int] = {}
    return tuple(-1 if k < 0 else seen.setdefault(k, len(seen)) for k in at.tolist())


def _counts_people(query: Query) -> bool:
    return query.aggregate is Aggregate.PEOPLE


def _is_told(entry: Entry) -> bool:
    """Is the least or the greatest public figure of some people told as it is, or NULL?"""
    query, answer = entry.query, entry.answer
    if query.test is not None or query.digits is not None or answer is None or answer.noise is not None:
        return False
    return query.terms[0].weight is not None and (answer.null or (answer.lo is not None and answer.lo == answer.hi))


def _summand(term: Term, atoms: Atoms) -> SummedPart:
    """A term as an engine may add it up: over everybody, where private values decide who is meant."""
    public = format_predicate(term.where) in atoms.conditions
    sizes = atoms.sizes * atoms.mask(term.where) if public else atoms.sizes
    n = int(sizes.sum())
    if term.weight is None:
        return SummedPart(term.column, term.factor, term.power, n, Fraction(n))
    weight = atoms.weight(term.weight)
    values = [(int(v), int(size)) for v, size in zip(weight.values.tolist(), sizes.tolist(), strict=True)]
    heavy = Fraction(sum(abs(v) * size for v, size in values), weight.over)
    unit = Fraction(gcd(*(v for v, _ in values)), weight.over) or None
    return SummedPart(term.column, term.factor, term.power, n, heavy, term.weight, unit)


def _within(value: Fraction, known: Bound) -> bool:
    return (known.lo is None or value >= known.lo) and (known.hi is None or value <= known.hi)


def _terms(total: Sum) -> tuple[Term, ...]:
    """A total as terms; whether somebody has a value, or a key, is decided apart."""
    if isinstance(total, tuple):
        return total
    return (Term(None, total.where, weight=total.weight if isinstance(total, WeightCount) else None),)


def _placed(value: Fraction, part: Partition | None) -> Alternative | None:
    """A number with its private cell; None if no cell holds it."""
    if part is None:
        return Alternative(None, value)
    held = scalar(value)
    truths = tuple(evaluate_leaf(leaf, held) for leaf in part.leaves)
    cell = next((c for c in part.cells if c.truths == truths and not c.null), None)
    return None if cell is None else Alternative(cell, value)


def scalar(value: Fraction) -> Scalar:
    """A number as a column holds it."""
    return simplify_fraction(value)


def _beyond(systems: Sequence[System], evidence: Evidence) -> str:
    """What the evidence carries that is not put in, as the end of a sentence."""
    rows = [c for system in systems for c in system.constraints]
    if any(s.equal for s in systems) or any(c.fact is None and c.judged_as == "a noisy answer" for c in rows):
        return "some answer is a variance or noisy, and the rules for these can miss something"
    totals = (f for f in evidence.knowledge.facts if f.sum_lo is not None or f.sum_hi is not None)
    if any(f.column in system.columns for f in totals for system in systems):
        return FACTS_LEFT
    return ""


def _shown(entries: Sequence[Entry], secret: frozenset[str]) -> bool:
    """Does every group that is shown under a private condition have an answer that says that somebody is in it?"""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for e in entries:
        if e.query.key and e.query.label != OTHER_GROUPS:
            groups.setdefault((e.number.partition(".")[0], str(e.query.key)), []).append(e)
    return all(any(map(_somebody, group)) or not _hides(group, secret) for group in groups.values())


def _hides(group: Sequence[Entry], secret: frozenset[str]) -> bool:
    return any(find_private_leaves(t.where, secret) for e in group for t in (*e.query.terms, *e.query.per))


def _somebody(entry: Entry) -> bool:
    answer = entry.answer
    if answer is not None and not answer.null and is_order(entry.query):
        return True
    if answer is None or answer.null or entry.query.test is not None:
        return entry.query.test is not None
    return bool(entry.query.needs) or (bool(answer.value) and (answer.lo is None or answer.lo > 0))  # noise may hide 0
