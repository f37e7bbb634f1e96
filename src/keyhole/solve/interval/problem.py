"""What ranges are asked for: a polytope, grids, and rows that a table must lie inside of by more than an edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from keyhole.model.grid import Grid
from keyhole.solve.interval.polytope import End, Polytope

Table: TypeAlias = Mapping[int, Fraction]

ULP = Fraction(1, 2**52)


class TimeIsUp(Exception):
    """Time is up: what was found so far stays."""


def clearance(said: Fraction, ends: tuple[End, End], edge: Fraction) -> Fraction:
    """The share of the way from an end of a strict row to a number inside it that the edge takes; 1 if all of it.

    >>> row = Fraction(0), None
    >>> [str(clearance(Fraction(4), row, Fraction(edge))) for edge in (0, 1, 4)]
    ['0', '1/4', '1']
    """
    room = min((abs(said - end) for end in ends if end is not None), default=edge + 1)
    return Fraction(1) if room <= edge else edge / room


@dataclass(frozen=True, slots=True, eq=False)
class RangeProblem:
    """A polytope with what is needed besides: the grid of each column, rows that are strict, tables of a GROUP BY.

    `strict` says by how much more than 0 a table must lie inside a row; `truth` is a table that is said to be possible.
    """

    polytope: Polytope
    grids: Sequence[Grid]
    strict: Mapping[int, Fraction] = field(default_factory=dict)
    tables: Sequence[Sequence[int]] = ()
    truth: Sequence[Fraction] | None = None
    equations: frozenset[int] = frozenset()  # rows that are equations, blurred by floating-point sums at most
    more: bool = False  # more was asked than these rows: no table of them alone is shown to be possible

    def clears(self, i: int, table: Table | Sequence[Fraction], edge: Fraction = Fraction(0)) -> Fraction:
        """The `clearance` of a table in a strict row: below 1 it surely gives the answer."""
        P = self.polytope
        return clearance(P.said(i, table), P.rows[i], max(edge, self.edge(i, table)))

    def edge(self, i: int, table: Table | Sequence[Fraction]) -> Fraction:
        """How far inside a strict row a table must lie; where records have no ends, its own sums say how much dust."""
        P, edge = self.polytope, self.strict[i]
        at, entries = P.row(i)
        if any(None in P.records[k] and self.grids[k].step is None for k in at):
            size = sum((abs(a * table[k]) for k, a in zip(at, entries, strict=True)), Fraction(0))
            edge += 2 * (sum(P.sizes[k] for k in at) + 4) * ULP * size
        return edge
