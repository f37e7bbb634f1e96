"""Does a sum over one person's records say anything of him, or is it the same whatever he is?

COUNT(ill = 'flu' OR ill <> 'flu') is how many records he has. All ways in which his private things can be are tried:
the cells of each column of each record, and for each kind of row whether he has one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import TypeAlias

from keyhole.auditing.people_sums import Residual, Summand
from keyhole.gather.evidence import Evidence
from keyhole.model.cells import Cell, Partition, partition
from keyhole.model.people import Atom
from keyhole.model.predicate import Has, PrivateLeaf
from keyhole.model.schema import Kind, Schema

MOST_WAYS = 4096
Sum: TypeAlias = Sequence[tuple[Fraction, Summand, int]]  # coefficient, what is added up, of which record
Variable: TypeAlias = tuple[str, Hashable]


class News:
    """Tells sums that may come out differently from those that cannot; None where there are too many ways to try."""

    def __init__(self, evidence: Evidence, schema: Schema) -> None:
        self.evidence, self.schema = evidence, schema
        self.atoms: dict[PrivateLeaf, tuple[int, Atom]] = {}
        if evidence.counting is not None:
            self.atoms = {atom.leaf: (i, atom) for i, atom in enumerate(evidence.counting.atoms)}
        ties = () if evidence.counting is None else evidence.counting.ties
        self.implied = {(t.left, t.right) for t in ties}

    def tells(self, form: Sum) -> bool | None:
        """Can the sum come out in two ways?"""
        leaves = {leaf for _, a, _ in form for literals in a.residual for leaf, _ in literals}
        parts = self._parts(leaves, {a.column for _, a, _ in form if a.column is not None})
        variables: dict[Variable, Sequence[Cell | bool]] = {}
        for _, addend, row in form:
            for name in self._looked(addend):
                if name in parts:
                    variables[name, row] = [c for c in parts[name].cells if not c.null]
            for leaf in (x for literals in addend.residual for x, _ in literals if isinstance(x, Has)):
                variables[self._instance(leaf, row)] = (True, False)
        if prod(len(v) for v in variables.values()) > MOST_WAYS:
            return None
        seen: set[Fraction] = set()
        for chosen in product(*variables.values()):
            way = dict(zip(variables, chosen, strict=True))
            if self._possible(way, leaves):
                value = self._value(form, way, parts)
                if value is None:
                    return True
                seen.add(value)
        return len(seen) > 1

    def _looked(self, addend: Summand) -> set[str]:
        named = {x.column for literals in addend.residual for x, _ in literals if not isinstance(x, Has)}
        return named if addend.column is None else {*named, addend.column}

    def _parts(self, leaves: set[PrivateLeaf], summed: set[str]) -> dict[str, Partition]:
        found = {}
        own = [x for x in leaves if not isinstance(x, Has)]
        for name in {x.column for x in own} | summed:
            column = self.schema.find(name)
            if column is not None and (column.kind is not Kind.OTHER or name not in summed):
                asked = [x for x in own if x.column == name]
                found[name] = partition(column, asked, self.evidence.prior(name))
        return found

    def _instance(self, leaf: Has, row: int) -> Variable:
        known = self.atoms.get(leaf)
        return f"rows {leaf}", ("record", row) if known is None else ("instance", int(known[1].at[row]))

    def _possible(self, way: Mapping[Variable, Cell | bool], leaves: set[PrivateLeaf]) -> bool:
        """Does a row that satisfies more conditions satisfy fewer? And has nobody rows without a key?"""
        held: dict[int, set[bool]] = {}
        for leaf in leaves:
            if leaf in self.atoms and isinstance(leaf, Has):
                for (name, at), value in way.items():
                    if name == f"rows {leaf}":
                        if value is True and at == ("instance", -1):
                            return False
                        held.setdefault(self.atoms[leaf][0], set()).add(value is True)
        for (i, x), (j, y) in self.implied:
            if i in held and j in held and held[i] == {x} and held[j] == {not y}:
                return False
        return True

    def _value(self, form: Sum, way: Mapping[Variable, Cell | bool], parts: Mapping[str, Partition]) -> Fraction | None:
        """The sum in one way that he may be; None if it depends on a value that is still free."""
        total, free = Fraction(0), dict[tuple[str, int, int], Fraction]()
        for times, addend, row in form:
            if not self._holds(addend.residual, row, way, parts):
                continue
            if addend.column is None:
                total += times
                continue
            cell = way.get((addend.column, row))
            point = cell.point if isinstance(cell, Cell) else None
            if point is not None and not isinstance(point, str):
                total += times * Fraction(point) ** addend.power  # type: ignore[arg-type]
            else:
                key = (addend.column, row, addend.power)
                free[key] = free.get(key, Fraction(0)) + times
        return None if any(free.values()) else total

    def _holds(
        self, residual: Residual, row: int, way: Mapping[Variable, Cell | bool], parts: Mapping[str, Partition]
    ) -> bool:
        def truth(leaf: PrivateLeaf) -> bool:
            if isinstance(leaf, Has):
                return way[self._instance(leaf, row)] is True
            cell = way[leaf.column, row]
            assert isinstance(cell, Cell)
            return parts[leaf.column].truth(leaf, cell) is True

        return any(all(truth(leaf) is holds for leaf, holds in literals) for literals in residual)
