"""Laws of every basis, and a liar for each: atoms, records and declared cells say the same of the same people."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from tests.laws.law import Law, Specimen

from keyhole.auditing.online.disclosed import People
from keyhole.basis import Basis, Weights, row
from keyhole.basis.bits import Words, has_bit, pack
from keyhole.basis.cells import Categories, Cells, Domain, Range
from keyhole.config import Columns, PrivateColumn
from keyhole.datasets import Roster, load_roster
from keyhole.model.forms import ONE, Part
from keyhole.model.predicate import (
    FALSE,
    TRUE,
    And,
    Comparison,
    IsNull,
    IsTrue,
    Leaf,
    Membership,
    Not,
    Opaque,
    Or,
    Predicate,
    Scalar,
    Truth,
    evaluate_leaf,
    evaluate_predicate,
    find_leaves,
)

Record = Mapping[str, Scalar | None]
RECORDS: tuple[Record, ...] = tuple(
    {"sex": sex, "age": age}
    for sex, age in [("F", 3), ("F", None), ("M", 5), (None, 5), ("M", 0), ("F", 9), (None, None), ("F", 3)]
)
_F, _OLD, _SOME = Comparison("sex", "=", "F"), Comparison("age", ">=", 5), Membership("age", (0, 3))
PREDICATES: tuple[Predicate, ...] = (
    TRUE,
    FALSE,
    _F,
    Not(_F),
    _OLD,
    IsNull("age"),
    And((_F, _OLD)),
    Not(And((_F, _OLD))),
    Or((Not(_F), _SOME)),
    Not(Or((IsNull("sex"), _OLD))),
    IsTrue(Or((_F, _OLD))),
    Not(IsTrue(_OLD)),
    And((Not(IsTrue(_F)), Or((_SOME, IsNull("age"))))),
)


@dataclass(frozen=True, slots=True, eq=False)
class Classed:
    """A basis over `RECORDS`, and the class of each of them."""

    basis: Basis
    of: Sequence[int]


Maker = Callable[[], Classed]


def _roster() -> Roster:
    lines = ["sex,age,x"] + [",".join("" if v is None else str(v) for v in (*r.values(), 1)) for r in RECORDS]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return load_roster(path, Columns(private={"x": PrivateColumn()}))


def _atoms() -> Classed:
    atoms = _roster().atoms(PREDICATES, ("age",))
    return Classed(atoms, atoms.of.tolist())


def _records() -> Classed:
    return Classed(People(_roster()).records, range(len(RECORDS)))


def _cells() -> Classed:
    sex = Categories("sex", ("F", "M"), other=False)
    age = Range("age", Fraction(0), Fraction(9), Fraction(1), Fraction(1))
    domain = Domain((sex, age))
    places = []
    for record in RECORDS:
        s, a = record["sex"], record["age"]
        at = ("F", "M").index(str(s)) if s is not None else sex.size - 1
        places.append(at * age.size + (int(str(a)) if a is not None else age.size - 1))
    return Classed(Cells.all(domain), places)


SPECIMENS: tuple[Specimen[Maker], ...] = (
    Specimen("Atoms", _atoms),
    Specimen("Records", _records),
    Specimen("Cells", _cells),
)


def _truth(predicate: Predicate, record: Record) -> Truth:
    def of(leaf: Leaf) -> Truth:
        assert not isinstance(leaf, Opaque)
        return evaluate_leaf(leaf, record[leaf.column])

    return evaluate_predicate(predicate, of)


def bits_are_direct_evaluation(make: Maker) -> None:
    """A condition holds on the class of a record exactly if it is true of the record; NULL is not true."""
    made = make()
    for predicate in (*PREDICATES, *PREDICATES):  # twice: what is kept says the same
        words = made.basis.bits(predicate)
        for record, k in zip(RECORDS, made.of, strict=True):
            assert has_bit(words, k) is (_truth(predicate, record) is True), f"{predicate} on {record}"


def a_row_adds_up_what_its_parts_say(make: Maker) -> None:
    """The coefficient of a class is the sum of the factors of the parts whose condition holds there."""
    made = make()
    for a in PREDICATES:
        for b in PREDICATES:
            parts = [Part(ONE, a, Fraction(2)), Part(ONE, b, Fraction(-1, 3))]
            found = row(parts, made.basis).items()
            for record, k in zip(RECORDS, made.of, strict=True):
                wanted = 2 * (_truth(a, record) is True) - Fraction(1, 3) * (_truth(b, record) is True)
                at = ONE * made.basis.count + k
                assert found.get(at, Fraction(0)) == wanted, f"{a} and {b} on {record}"


@dataclass(frozen=True, slots=True, eq=False)
class _NullIsFalse:
    """Takes what is not true for false: NOT of it holds for NULL."""

    honest: Basis

    @property
    def count(self) -> int:
        return self.honest.count

    def bits(self, where: Predicate) -> Words:
        if isinstance(where, Not) and find_leaves(where):
            everybody = pack(np.ones(self.count, dtype=np.bool_))
            return everybody & ~self.honest.bits(where.part) if where.part in PREDICATES else self.honest.bits(where)
        return self.honest.bits(where)

    def weight(self, sql: str) -> Weights:
        return self.honest.weight(sql)


@dataclass(frozen=True, slots=True, eq=False)
class _Unscaled(_NullIsFalse):
    """Gives every class to everybody."""

    def bits(self, where: Predicate) -> Words:
        return pack(np.ones(self.count, dtype=np.bool_))


def _liar(kind: type[_NullIsFalse]) -> Maker:
    def make() -> Classed:
        honest = _records()
        return Classed(kind(honest.basis), honest.of)

    return make


LAWS: tuple[Law[Maker], ...] = (
    Law(bits_are_direct_evaluation, (Specimen("NullIsFalse", _liar(_NullIsFalse)),)),
    Law(a_row_adds_up_what_its_parts_say, (Specimen("Unscaled", _liar(_Unscaled)),)),
)
