"""Predicates as bits: what must be known of each column alone, and how the bits combine.

SQL's three-valued logic is settled first: "p is true" is a two-valued formula over literals "this leaf is true" and
"this leaf is false", because Kleene's AND is true when all its parts are and false when one of them is. A *unit* is
such a formula over one slot (a column, or the expressions that only the engine can evaluate on whole records), so
it is decided by a look-up. A *term* is a conjunction of units of different slots: one bit, the AND of its look-ups.
A disjunction is the opposite of a term. What is neither is a tree over several terms.

Look-ups are by `Keys`: the classes of a record's slots packed into words, and tables of the patterns they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.bits import Words
from keyhole.model.predicate import Comparison, Kleene, Leaf, Membership, Predicate, Scalar, fold

Bools: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]
Place: TypeAlias = tuple[int, int, int]  # word, shift, mask

JOINT = 1 << 19  # bytes of a table that several slots share: it should stay in the second-level cache


class Leaves:
    """Leaves by number. Two leaves are one if their SQL is: in Python 1, True and Decimal("1.0") are equal."""

    def __init__(self) -> None:
        self.all: list[Leaf] = []
        self._known: dict[tuple[Leaf, object], int] = {}

    def number(self, leaf: Leaf) -> int:
        """The number of a leaf, new or known."""
        kind: object = None
        if isinstance(leaf, Comparison):
            kind = _spelling(leaf.value)
        elif isinstance(leaf, Membership):
            kind = tuple(map(_spelling, leaf.values))
        found = self._known.setdefault((leaf, kind), len(self.all))
        if found == len(self.all):
            self.all.append(leaf)
        return found


def _spelling(value: Scalar) -> object:
    return str(value) if isinstance(value, Decimal) else type(value)


@dataclass(frozen=True, slots=True)
class Literal:
    """The truth of a leaf is `sign` (NULL is neither); the opposite of that unless `holds`."""

    leaf: int
    sign: bool
    holds: bool


@dataclass(frozen=True, slots=True)
class Node:
    """All of the parts (`every`), or at least one of them."""

    every: bool
    parts: tuple[Formula, ...]


Formula: TypeAlias = bool | Literal | Node


@dataclass(frozen=True, slots=True)
class Pick:
    """A term's bit, or its opposite (`flip`)."""

    term: int
    flip: bool


@dataclass(frozen=True, slots=True)
class Tree:
    """All of the parts (`every`), or at least one of them, over terms."""

    every: bool
    parts: tuple[Pick | Tree, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """`units[slot]` are formulas on that slot; `terms[t]` maps a slot to its unit; `outputs[p]` is predicate p.

    Predicate p is term p or its opposite, unless it is a tree: then term p is empty, and its parts are among the
    terms behind those of the predicates. So the bits of the predicates can be made where those of the terms are.
    """

    units: dict[str, list[Formula]]
    terms: list[dict[str, int]]
    outputs: list[Pick | Tree]

    @property
    def combined(self) -> int:
        """How many predicates are trees over several terms."""
        return sum(isinstance(o, Tree) for o in self.outputs)


def settle_predicate(predicate: Predicate, leaves: Leaves, sign: bool = True, holds: bool = True) -> Formula:
    """The two-valued formula of "the truth of `predicate` is `sign`", or of its opposite unless `holds`.

    >>> from keyhole.model.predicate import IsNull, IsTrue, Not
    >>> settle_predicate(Not(IsTrue(IsNull("a"))), Leaves())
    Literal(leaf=0, sign=True, holds=False)
    """

    def number(leaf: Leaf) -> _Settled:
        at = leaves.number(leaf)
        return lambda sign, holds: Literal(at, sign, holds)

    return fold(predicate, Kleene(_constant, number, _negated, _certain, _joined(True), _joined(False)))(sign, holds)


_Settled: TypeAlias = Callable[[bool, bool], Formula]  # of a part: its formula for a sign, and for its opposite


def _constant(value: bool | None) -> _Settled:
    return lambda sign, holds: (value is sign) is holds


def _negated(part: _Settled) -> _Settled:
    return lambda sign, holds: part(not sign, holds)


def _certain(part: _Settled) -> _Settled:
    return lambda sign, holds: part(True, holds is sign)


def _joined(conjunction: bool) -> Callable[[Sequence[_Settled]], _Settled]:
    def settled(each: Sequence[_Settled], sign: bool, holds: bool) -> Formula:
        every = (sign == holds) == conjunction
        parts: list[Formula] = []
        for part in each:
            f = part(sign, holds)
            if isinstance(f, bool):
                if f is not every:
                    return f
            elif isinstance(f, Node) and f.every is every:
                parts.extend(f.parts)
            else:
                parts.append(f)
        return every if not parts else parts[0] if len(parts) == 1 else Node(every, tuple(parts))

    return lambda each: partial(settled, each)


def negate_formula(formula: Formula) -> Formula:
    """The two-valued negation."""
    if isinstance(formula, Node):
        return Node(not formula.every, tuple(negate_formula(part) for part in formula.parts))
    if isinstance(formula, Literal):
        return Literal(formula.leaf, formula.sign, not formula.holds)
    return not formula


def list_literals(formula: Formula) -> list[Literal]:
    """Every literal, from left to right."""
    if isinstance(formula, Node):
        return [found for part in formula.parts for found in list_literals(part)]
    return [formula] if isinstance(formula, Literal) else []


def decide_formula(formula: Formula, truth: Mapping[int, tuple[Bools, Bools]], count: int) -> Bools:
    """The formula on `count` values at once; truth[leaf] = (is true, is false)."""
    if isinstance(formula, Literal):
        known = truth[formula.leaf][0 if formula.sign else 1]
        return known if formula.holds else ~known
    if isinstance(formula, Node):
        found = decide_formula(formula.parts[0], truth, count)
        for part in formula.parts[1:]:
            more = decide_formula(part, truth, count)
            found = found & more if formula.every else found | more
        return found
    return np.full(count, formula)


def plan_terms(formulas: Sequence[Formula], slots: Sequence[str]) -> Plan:
    """Split settled predicates into units, terms and what is left over; leaf i lives in slots[i].

    Cost: linear in their text.

    >>> from keyhole.model.predicate import And, IsNull, Or
    >>> a, b = IsNull("a"), Comparison("b", ">", 5)
    >>> leaves = Leaves()
    >>> made = plan_terms([settle_predicate(Or((a, b)), leaves), settle_predicate(And((a, b)), leaves)], ["a", "b"])
    >>> made.outputs, made.terms
    ([Pick(term=0, flip=True), Pick(term=1, flip=False)], [{'a': 0, 'b': 0}, {'a': 1, 'b': 1}])
    """
    return _Splitter(slots).run(formulas)


class _Splitter:
    def __init__(self, slots: Sequence[str]) -> None:
        self._slots = slots
        self._units: dict[str, dict[Formula, int]] = {}
        self._terms: list[dict[str, int]] = []
        self._known: dict[tuple[tuple[str, int], ...], int] = {}  # of the terms behind the predicates

    def run(self, formulas: Sequence[Formula]) -> Plan:
        self._terms = [{} for _ in formulas]
        outputs = []
        for p, formula in enumerate(formulas):
            simple = self._simple(formula)
            if simple is None:
                outputs.append(self._tree(formula))
            else:
                self._terms[p] = self._numbered(simple[0])
                outputs.append(Pick(p, simple[1]))
        return Plan({slot: list(units) for slot, units in self._units.items()}, self._terms, outputs)

    def _simple(self, formula: Formula) -> tuple[dict[str, Formula], bool] | None:
        """The units of a formula that is one term, and whether it is the opposite of it."""
        if isinstance(formula, bool):
            return {}, not formula
        if isinstance(formula, Literal):
            return {self._slots[formula.leaf]: formula}, False
        units, mixed = self._split(formula)
        if mixed:
            return None
        if formula.every or len(units) == 1:
            return units, False
        return {slot: negate_formula(unit) for slot, unit in units.items()}, True

    def _split(self, formula: Node) -> tuple[dict[str, Formula], list[Formula]]:
        """The parts that have one slot, together by slot, and the others."""
        by_slot: dict[str, list[Formula]] = {}
        mixed: list[Formula] = []
        for part in formula.parts:
            slots = {self._slots[found.leaf] for found in list_literals(part)}
            if len(slots) == 1:
                by_slot.setdefault(slots.pop(), []).append(part)
            else:
                mixed.append(part)
        units = {s: parts[0] if len(parts) == 1 else Node(formula.every, tuple(parts)) for s, parts in by_slot.items()}
        return units, mixed

    def _tree(self, formula: Formula) -> Pick | Tree:
        simple = self._simple(formula)
        if simple is not None:
            numbered = self._numbered(simple[0])
            key = tuple(sorted(numbered.items()))
            if key not in self._known:
                self._known[key] = len(self._terms)
                self._terms.append(numbered)
            return Pick(self._known[key], simple[1])
        assert isinstance(formula, Node)
        units, mixed = self._split(formula)
        parts = [self._tree(part) for part in mixed]
        if units:
            parts.insert(0, self._tree(Node(formula.every, tuple(units.values()))))
        return Tree(formula.every, tuple(parts))

    def _numbered(self, units: dict[str, Formula]) -> dict[str, int]:
        found = {}
        for slot, unit in units.items():
            known = self._units.setdefault(slot, {})
            found[slot] = known.setdefault(unit, len(known))
        return found


class Keys:
    """Small integers side by side in 64-bit words, one row of words a record.

    >>> keys = Keys(3)
    >>> keys.add(np.array([0, 2, 1]), 3), keys.add(np.array([1, 1, 0]), 2)
    ((0, 0, 3), (0, 2, 1))
    >>> keys.words().tolist()
    [[4], [6], [1]]
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._words: list[Words] = []
        self._used = 64

    def add(self, codes: NDArray[Any], count: int, lookup: Words | None = None) -> Place:
        """Append codes (or lookup[codes]), all below `count`; returns where they are."""
        bits = max(count - 1, 0).bit_length()
        if bits == 0:
            return 0, 0, 0
        if self._used + bits > 64:
            self._words.append(np.zeros(self._n, dtype=np.uint64))
            self._used = 0
        shift = np.uint64(self._used)
        if lookup is None:
            self._words[-1] |= codes.astype(np.uint64) << shift
        else:
            self._words[-1] |= (lookup << shift)[codes]
        self._used += bits
        return len(self._words) - 1, int(shift), (1 << bits) - 1

    def words(self) -> Words:
        """All keys, one row a record."""
        if not self._words:
            return np.zeros((self._n, 1), dtype=np.uint64)
        return self._words[0][:, None] if len(self._words) == 1 else np.stack(self._words, axis=1)


def pack_columns(verdicts: NDArray[np.bool_]) -> Words:
    """Columns of booleans as rows of little-endian words.

    >>> pack_columns(np.array([[True, False], [True, True]])).tolist()
    [[3], [2]]
    """
    out = np.zeros((verdicts.shape[1], max(1, (len(verdicts) + 63) // 64) * 8), dtype=np.uint8)
    for at in range(0, len(verdicts), 512):
        part = np.packbits(verdicts[at : at + 512], axis=0, bitorder="little")
        out[:, at // 8 : at // 8 + len(part)] = part.T
    return out.view(np.uint64)


def mask_table(verdicts: NDArray[np.bool_], unit_of: Ints) -> Words:
    """Row c: bit t is 1 if class c satisfies unit unit_of[t], or if term t has no unit here (-1)."""
    rows = np.concatenate([verdicts, np.ones((1, verdicts.shape[1]), dtype=np.bool_)])
    words = [pack_columns(rows[unit_of[at : at + 512]]) for at in range(0, len(unit_of), 512)]
    return np.concatenate(words, axis=1) if words else np.zeros((verdicts.shape[1], 1), dtype=np.uint64)


def join_tables(tables: Sequence[Words], places: Sequence[Place], width: int) -> tuple[Ints, Ints, Words]:
    """Let small tables share one: (fields, starts, all rows one after the other) as the kernel `decode` reads them.

    The row of a joint table is the AND of one row of each of its parts, so a pattern takes fewer look-ups.
    """
    groups: list[tuple[Words, list[tuple[int, int]]]] = []  # table, [(slot, stride)]
    for i in sorted(range(len(tables)), key=lambda i: len(tables[i])):
        joined = groups[-1] if groups else None
        if joined is not None and len(joined[0]) * tables[i].nbytes <= JOINT:
            table = (joined[0][:, None, :] & tables[i][None, :, :]).reshape(-1, width)
            parts = [(slot, stride * len(tables[i])) for slot, stride in joined[1]]
            groups[-1] = (table, [*parts, (i, 1)])
        else:
            groups.append((tables[i], [(i, 1)]))
    if not groups:
        groups.append((np.full((1, width), ~np.uint64(0)), []))
    starts = np.cumsum([0, *(len(table) for table, _ in groups[:-1])]).astype(np.int64)
    fields = [(j, *places[slot], stride) for j, (_, parts) in enumerate(groups) for slot, stride in parts]
    lines = np.array(fields, dtype=np.int64).reshape(-1, 5)
    return lines, starts, np.ascontiguousarray(np.concatenate([table for table, _ in groups]))
