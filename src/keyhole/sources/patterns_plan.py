"""Predicates as bits: what must be known of each column alone, and how the bits combine.

SQL's three-valued logic is settled first: "p is true" is a two-valued formula over literals "this leaf is true" and
"this leaf is false", because Kleene's AND is true when all its parts are and false when one of them is. A *unit* is
such a formula over one slot (a column, or the expressions that only the engine can evaluate on whole records), so
it is decided by a look-up. A *term* is a conjunction of units of different slots: one bit, the AND of its look-ups.
A disjunction is the opposite of a term. What is neither is a tree over several terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.predicate import And, Comparison, Constant, IsTrue, Leaf, Membership, Not, Or, Predicate, Scalar

Bools: TypeAlias = NDArray[np.bool_]


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
    """`units[slot]` are formulas on that slot; `terms[t]` maps a slot to its unit; `outputs[p]` is predicate p."""

    units: dict[str, list[Formula]]
    terms: list[dict[str, int]]
    outputs: list[Pick | Tree]

    @property
    def direct(self) -> bool:
        """True if predicate p is simply the bit of term p."""
        return len(self.terms) == len(self.outputs) and all(o == Pick(p, False) for p, o in enumerate(self.outputs))

    @property
    def combined(self) -> int:
        """How many predicates are trees over several terms."""
        return sum(isinstance(o, Tree) for o in self.outputs)


def settle(predicate: Predicate, leaves: Leaves, sign: bool = True, holds: bool = True) -> Formula:
    """The two-valued formula of "the truth of `predicate` is `sign`", or of its opposite unless `holds`.

    >>> from keyhole.predicate import IsNull
    >>> settle(Not(IsTrue(IsNull("a"))), Leaves())
    Literal(leaf=0, sign=True, holds=False)
    """
    if isinstance(predicate, And | Or):
        every = (sign == holds) == isinstance(predicate, And)
        parts: list[Formula] = []
        for part in predicate.parts:
            f = settle(part, leaves, sign, holds)
            if isinstance(f, bool):
                if f is not every:
                    return f
            elif isinstance(f, Node) and f.every is every:
                parts.extend(f.parts)
            else:
                parts.append(f)
        return every if not parts else parts[0] if len(parts) == 1 else Node(every, tuple(parts))
    if isinstance(predicate, Not):
        return settle(predicate.part, leaves, not sign, holds)
    if isinstance(predicate, IsTrue):
        return settle(predicate.part, leaves, True, holds is sign)
    if isinstance(predicate, Constant):
        return (predicate.value is sign) is holds
    return Literal(leaves.number(predicate), sign, holds)


def opposite(formula: Formula) -> Formula:
    """The two-valued negation."""
    if isinstance(formula, Node):
        return Node(not formula.every, tuple(opposite(part) for part in formula.parts))
    if isinstance(formula, Literal):
        return Literal(formula.leaf, formula.sign, not formula.holds)
    return not formula


def literals(formula: Formula) -> list[Literal]:
    """Every literal, from left to right."""
    if isinstance(formula, Node):
        return [found for part in formula.parts for found in literals(part)]
    return [formula] if isinstance(formula, Literal) else []


def decide(formula: Formula, truth: Mapping[int, tuple[Bools, Bools]], count: int) -> Bools:
    """The formula on `count` values at once; truth[leaf] = (is true, is false)."""
    if isinstance(formula, Literal):
        known = truth[formula.leaf][0 if formula.sign else 1]
        return known if formula.holds else ~known
    if isinstance(formula, Node):
        found = decide(formula.parts[0], truth, count)
        for part in formula.parts[1:]:
            more = decide(part, truth, count)
            found = found & more if formula.every else found | more
        return found
    return np.full(count, formula)


def plan(formulas: Sequence[Formula], slots: Sequence[str]) -> Plan:
    """Split settled predicates into units, terms and what is left over; leaf i lives in slots[i].

    Cost: linear in their text.

    >>> from keyhole.predicate import IsNull
    >>> a, b = IsNull("a"), Comparison("b", ">", 5)
    >>> leaves = Leaves()
    >>> made = plan([settle(Or((a, b)), leaves), settle(And((a, b)), leaves)], ["a", "b"])
    >>> made.outputs, made.terms
    ([Pick(term=0, flip=True), Pick(term=1, flip=False)], [{'a': 0, 'b': 0}, {'a': 1, 'b': 1}])
    """
    return _Planner(slots).run(formulas)


class _Planner:
    def __init__(self, slots: Sequence[str]) -> None:
        self._slots = slots
        self._units: dict[str, dict[Formula, int]] = {}
        self._terms: dict[tuple[tuple[str, int], ...], int] = {}

    def run(self, formulas: Sequence[Formula]) -> Plan:
        outputs = [self._output(f) for f in formulas]
        return Plan(
            {slot: list(units) for slot, units in self._units.items()},
            [dict(term) for term in self._terms],
            outputs,
        )

    def _output(self, formula: Formula) -> Pick | Tree:
        if isinstance(formula, bool):
            return self._term({}, not formula)
        if isinstance(formula, Literal):
            return self._term({self._slots[formula.leaf]: formula}, False)
        by_slot: dict[str, list[Formula]] = {}
        mixed: list[Pick | Tree] = []
        for part in formula.parts:
            slot = self._slots[part.leaf] if isinstance(part, Literal) else self._common(part)
            if slot is None:
                mixed.append(self._output(part))
            else:
                by_slot.setdefault(slot, []).append(part)
        units: dict[str, Formula] = {
            slot: parts[0] if len(parts) == 1 else Node(formula.every, tuple(parts)) for slot, parts in by_slot.items()
        }
        if not formula.every and len(units) > 1:
            units = {slot: opposite(unit) for slot, unit in units.items()}
        if units:
            mixed.insert(0, self._term(units, not formula.every and len(units) > 1))
        return mixed[0] if len(mixed) == 1 else Tree(formula.every, tuple(mixed))

    def _common(self, formula: Formula) -> str | None:
        """The only slot of a formula, if it has only one."""
        slots = {self._slots[found.leaf] for found in literals(formula)}
        return slots.pop() if len(slots) == 1 else None

    def _term(self, units: dict[str, Formula], flip: bool) -> Pick:
        numbered = []
        for slot, unit in units.items():
            known = self._units.setdefault(slot, {})
            numbered.append((slot, known.setdefault(unit, len(known))))
        key = tuple(sorted(numbered))
        return Pick(self._terms.setdefault(key, len(self._terms)), flip)
