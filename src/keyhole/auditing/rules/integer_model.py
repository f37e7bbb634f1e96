"""A system as people with options: what each may be, and what that adds to the totals of every answer.

A person is in one private cell for each column that conditions look at, and has one value of each column that is added
up, where its declared grid is finite; NULL is public. What a log cannot tell apart is one option. What is not put in
here (variances, facts about totals, columns without a finite grid) leaves more tables possible than there are:
nothing false follows, and `missing` says why nothing is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import gcd, lcm, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.known import Known
from keyhole.auditing.rules.answer_tests import MOST_VALUES, AnswerTest, OrderTest, ValueCount
from keyhole.basis import Atoms
from keyhole.encode.order import is_order
from keyhole.gather.arithmetic import Computed, SummedPart
from keyhole.gather.evidence import Bound, System
from keyhole.model.cells import Cell, Partition, partition_column
from keyhole.model.forms import find_private_leaves
from keyhole.model.numbers import simplify_fraction
from keyhole.model.predicate import (
    FALSE,
    NULL,
    TRUE,
    Constant,
    Leaf,
    Predicate,
    Scalar,
    evaluate_leaf,
    format_predicate,
    replace_leaves,
)
from keyhole.model.query import OTHER_GROUPS, Aggregate, Query, Term
from keyhole.model.transcript import Entry
from keyhole.solve.tables import Alike, Condition

PEOPLE = 3_000
VALUES = 2_000  # of one column
CHOICES = 5_000  # of one person
ENTRIES = 300
WORK = 3_000_000  # terms looked up

FACTS_LEFT = "facts are known, and what follows from them together with the grid was not searched"

Sum: TypeAlias = tuple[Term, ...] | ValueCount


class TooLarge(Exception):
    """More than is looked at; the words say what of."""


class NoValueLeft(Exception):
    """What is known leaves somebody no value; another rule names that contradiction."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """What one column of a person may be: a private cell (None: none is asked), a value where it is summed."""

    cell: Cell | None
    value: Fraction | None


@dataclass(frozen=True, slots=True, eq=False)
class PeopleAlike:
    """People whom no query tells apart: their rows, choices (one alternative a column), the option of each choice."""

    rows: NDArray[np.int64]
    choices: tuple[tuple[Alternative, ...], ...]
    option: NDArray[np.int64]
    kind: Alike


@dataclass(frozen=True, slots=True, eq=False)
class OptionModel:
    """The whole: people, one condition for each answer that is put in, and why that is not all (else empty)."""

    columns: tuple[str, ...]
    partitions: tuple[Partition, ...]
    facts: tuple[int, ...]
    people: tuple[PeopleAlike, ...]
    tests: tuple[AnswerTest | OrderTest, ...]
    conditions: tuple[Condition, ...]
    flags: tuple[int, ...]
    missing: str


def option_model(system: System, known: Known) -> OptionModel | None:
    """The model of a system; None if no answer of it can be put in."""
    try:
        return _Builder(system, known).model()
    except NoValueLeft:
        return None


class _Builder:
    def __init__(self, system: System, known: Known) -> None:
        self.system, self.known = system, known
        self.secret = frozenset(c.name for c in known.schema.columns if c.secret)
        self.missing = _beyond(system, known)
        self.entries = [e for e in known.evidence.transcript.entries if self._mine(e.query)]
        self.partitions = tuple(self._refined())
        self.parts = {p.column.name: p for p in self.partitions}
        self.order = {f.number: f for f in system.order}
        self.finite = {name: found for name in system.columns if (found := self._values(name)) is not None}
        self.asked = [e for e in self.entries if self._modelled(e)]
        if not self.missing and len(self.asked) < len(self.entries):
            self.missing = "some answer is about values that are not on a finite grid, or is no sum"
        if not self.missing and not _shown(self.asked, self.secret):
            self.missing = "a group is shown, and what that says of private values was not searched"
        self.summed = {t.column for e in self.asked for t in (*e.query.terms, *e.query.per)}
        self.bounds = [b for b in system.bounds if b.column in self.finite]
        if not self.missing and len(self.bounds) < len(system.bounds):
            self.missing = FACTS_LEFT
        self.summed |= {b.column for b in self.bounds}

    def _mine(self, query: Query) -> bool:
        terms = (*query.terms, *query.per)
        looked = {leaf.column for t in terms for leaf in find_private_leaves(t.where, self.secret)}
        return bool((looked | query.columns) & set(self.system.columns))

    def _values(self, name: str) -> list[Fraction] | None:
        """All numbers that a column can hold, if that many can be listed."""
        grid, numbers = self.known.grid(name), self.known.evidence.prior(name).numbers
        if numbers is not None:
            return [Fraction(number) for number in numbers]
        if not self.known.numeric(name) or grid.step is None or grid.lo is None or grid.hi is None:
            return None
        found = grid.between(grid.lo, grid.hi)
        if found is None or found[0] is None or found[1] is None:
            return None
        count = int((found[1] - found[0]) / grid.step) + 1
        return None if count > VALUES else [found[0] + k * grid.step for k in range(count)]

    def _modelled(self, entry: Entry) -> bool:
        query = entry.query
        if query.aggregate is not Aggregate.SUM and not self._ordered(entry):
            return False
        leaves = {leaf for p in self.parts.values() for leaf in p.leaves}
        wheres = [*(t.where for t in (*query.terms, *query.per)), *query.needs]
        fine = all(leaf in leaves for where in wheres for leaf in find_private_leaves(where, self.secret))
        return fine and all(t.column is None or t.column in self.finite for t in (*query.terms, *query.per))

    def _ordered(self, entry: Entry) -> bool:
        """Is it an order statistic of few values?"""
        if not is_order(entry.query) or entry.number not in self.order:
            return False
        return len(self.finite.get(entry.query.terms[0].column or "", ())) in range(1, MOST_VALUES + 1)

    def _refined(self) -> Iterator[Partition]:
        """The cells of the system, cut by the conditions of order statistics too."""
        held = {p.column.name: p for p in self.system.partitions}
        ordered = (e.query.terms[0].where for e in self.entries if is_order(e.query))
        leaves = [leaf for where in ordered for leaf in find_private_leaves(where, self.secret)]
        for name in self.system.columns:
            mine = [leaf for leaf in leaves if leaf.column == name]
            column, part = self.known.schema.find(name), held.get(name)
            if part is not None and all(leaf in part.leaves for leaf in mine):
                yield part
            elif column is not None and mine:
                asked = (*(() if part is None else part.leaves), *mine)
                yield partition_column(column, asked, self.known.evidence.prior(name))

    # -- building -----------------------------------------------------------------------------------------------------

    def model(self) -> OptionModel | None:
        """Classes of people by what the restricted conditions and weights say of them, then their options."""
        roster = self.known.roster
        if not self.asked or roster is None:
            return None
        if self.known.evidence.n > PEOPLE or len(self.asked) > ENTRIES:
            raise TooLarge(f"more than {PEOPLE} people or {ENTRIES} answers")
        sums, flags, tests = self._sums()
        cells = list(product(*(p.cells for p in self.partitions)))
        wheres = {t.where for each in sums for t in _terms(each)}
        if len(wheres) * len(cells) > WORK // 100:
            raise TooLarge("too many private cells")
        reads = {(where, joint): self._read(where, joint) for where in wheres for joint in cells}
        weights = {t.weight for each in sums for t in _terms(each) if t.weight is not None}
        bounding = (b.where for b in self.bounds)
        conditions = dict.fromkeys([TRUE, *reads.values(), *self.system.present.values(), *bounding])
        atoms = roster.atoms(tuple(conditions), tuple(sorted(weights)))
        holds = {where: atoms.mask(where) for where in conditions}
        people = list(self._people(atoms, sums, reads, holds))
        scales = [
            lcm(*(v.denominator for _, _, table in people for v in (row[i] for row in table))) for i in range(len(sums))
        ]
        made = tuple(_alike(rows, choices, table, scales) for rows, choices, table in people)
        found = tuple(self._test(e, tuple(scales[at] for at in places), atoms) for e, places in tests)
        told = tuple(self._condition(t, places, made) for t, (_, places) in zip(found, tests, strict=True))
        facts = tuple(sorted({b.fact for b in self.bounds}))
        return OptionModel(self.system.columns, self.partitions, facts, made, found, told, tuple(flags), self.missing)

    def _test(self, entry: Entry, scales: tuple[int, ...], atoms: Atoms) -> AnswerTest | OrderTest:
        if not is_order(entry.query) and entry.query.test is None:
            return AnswerTest(entry, scales, self.known)
        if not is_order(entry.query):
            computed = Computed(self.known.schema, self.known.knowledge)
            top, per = ([_summand(t, atoms) for t in terms] for terms in (entry.query.terms, entry.query.per))
            found = computed.arithmetic(entry.query, top, per, computed.unit(per) or Fraction(1))
            return AnswerTest(entry, scales, self.known, found)
        name = entry.query.terms[0].column or ""
        column = self.known.schema.find(name)
        assert column is not None
        return OrderTest(entry, self.order[entry.number], tuple(self.finite[name]), column)

    def _sums(self) -> tuple[list[Sum], list[int], list[tuple[Entry, tuple[int, ...]]]]:
        """Every total that an answer depends on, once; which of them only say whether anybody matches."""
        at: dict[tuple[Sum, bool], int] = {}
        tests: list[tuple[Entry, tuple[int, ...]]] = []
        for e in self.asked:
            if is_order(e.query):
                term = e.query.terms[0]
                counts = [ValueCount(term.column or "", term.where, v) for v in self.finite[term.column or ""]]
                tests.append((e, tuple(at.setdefault((each, False), len(at)) for each in counts)))
                continue
            needs = [((Term(None, need),), True) for need in e.query.needs]
            keys = [(e.query.terms, False), (e.query.per, False), *needs]
            tests.append((e, tuple(at.setdefault(key, len(at)) for key in keys)))
        return [terms for terms, _ in at], [i for (_, flag), i in at.items() if flag], tests

    def _read(self, where: Predicate, joint: Sequence[Cell]) -> Predicate:
        truth: dict[Leaf, bool | None] = {}
        for part, cell in zip(self.partitions, joint, strict=True):
            truth.update(zip(part.leaves, cell.truths, strict=True))
        read = replace_leaves(where, lambda leaf: Constant(truth[leaf]) if leaf in truth else leaf)
        return FALSE if read == NULL else read

    def _people(
        self,
        atoms: Atoms,
        sums: Sequence[Sum],
        reads: dict[tuple[Predicate, tuple[Cell, ...]], Predicate],
        holds: dict[Predicate, NDArray[np.bool_]],
    ) -> Iterator[tuple[NDArray[np.int64], tuple[tuple[Alternative, ...], ...], list[tuple[Fraction, ...]]]]:
        work = 0
        matched: dict[tuple[Cell, ...], list[list[NDArray[np.bool_]]]] = {}
        weights = {t.weight: atoms.weight(t.weight) for each in sums for t in _terms(each) if t.weight is not None}
        order = np.argsort(atoms.of, kind="stable")
        starts = np.concatenate([[0], np.cumsum(atoms.sizes)])
        for k in range(atoms.K):
            pools = [self._alternatives(name, holds, k) for name in self.system.columns]
            if not all(pools):
                raise NoValueLeft
            if prod(map(len, pools)) > CHOICES:
                raise TooLarge(f"more than {CHOICES} combinations of values")
            choices = tuple(product(*pools))
            work += len(choices) * sum(len(_terms(each)) for each in sums)
            if work > WORK:
                raise TooLarge("too many people, values and answers")
            table = []
            for choice in choices:
                joint = tuple(c for a in choice if (c := a.cell) is not None)
                values = {name: a.value for name, a in zip(self.system.columns, choice, strict=True)}
                joint = tuple(next(c for c in joint if c.column == p.column.name) for p in self.partitions)
                if joint not in matched:  # hashing conditions costs more than all the rest
                    matched[joint] = [[holds[reads[t.where, joint]] for t in _terms(each)] for each in sums]
                row = []
                for terms, who in zip(sums, matched[joint], strict=True):
                    if isinstance(terms, ValueCount):
                        has = values[terms.column] == terms.value and who[0][k]
                        row.append(Fraction(int(has)))
                        continue
                    total = Fraction(0)
                    for t, those in zip(terms, who, strict=True):
                        if those[k]:
                            weight = t.factor if t.weight is None else t.factor * weights[t.weight][k]
                            total += weight if t.column is None else weight * (values[t.column] or 0) ** t.power
                    row.append(total)
                table.append(tuple(row))
            yield order[starts[k] : starts[k + 1]].astype(np.int64), choices, table

    def _alternatives(self, name: str, holds: dict[Predicate, NDArray[np.bool_]], k: int) -> list[Alternative]:
        """What a column of these people may be; of those without a value NULL alone."""
        part, where = self.parts.get(name), self.system.present.get(name)
        if where is not None and not holds[where][k]:
            return [Alternative(None if part is None else next(c for c in part.cells if c.null), None)]
        if name in self.summed:
            told = [b for b in self.bounds if b.column == name and holds[b.where][k]]
            known = [v for v in self.finite[name] if all(_within(v, b) for b in told)]
            return [a for v in known if (a := _placed(v, part)) is not None]
        return [Alternative(None, None)] if part is None else [Alternative(c, None) for c in part.cells if not c.null]

    def _condition(
        self, test: AnswerTest | OrderTest, places: tuple[int, ...], made: Iterable[PeopleAlike]
    ) -> Condition:
        """One answer; with intervals that close cases early."""
        if isinstance(test, OrderTest):
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
    """A total as terms; whether somebody has a value is decided apart."""
    return (Term(None, total.where),) if isinstance(total, ValueCount) else total


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


def _alike(
    rows: NDArray[np.int64],
    choices: tuple[tuple[Alternative, ...], ...],
    table: Sequence[tuple[Fraction, ...]],
    scales: Sequence[int],
) -> PeopleAlike:
    """Choices that add the same are one option; what is added is made whole."""
    whole = [tuple(int(v * s) for v, s in zip(row, scales, strict=True)) for row in table]
    if any(abs(v) >= 2**62 for row in whole for v in row):
        raise TooLarge("too large numbers")
    at = {row: i for i, row in enumerate(dict.fromkeys(whole))}
    options = np.array(list(at), dtype=np.int64).reshape(len(at), len(scales))
    return PeopleAlike(rows, choices, np.array([at[row] for row in whole]), Alike(len(rows), options))


def _beyond(system: System, known: Known) -> str:
    """What the evidence carries that is not put in, as the end of a sentence."""
    if system.equal or any(c.fact is None and c.judged_as == "a noisy answer" for c in system.constraints):
        return "some answer is a variance or noisy, and the rules for these can miss something"
    totals = (f for f in known.knowledge.facts if f.sum_lo is not None or f.sum_hi is not None)
    if any(f.column in system.columns for f in totals):
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
