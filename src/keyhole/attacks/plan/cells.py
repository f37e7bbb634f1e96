"""Every cell of every table by at most k public columns: who is in it, how many, and how few questions give its total.

A question about at most k columns, whatever its operators, is a sum of such cells. So whoever cannot be told from all
cells together cannot be told from any questions about k columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.plan.profiles import Bools, Ints, Profiles
from keyhole.attacks.plan.question import CodeCondition
from keyhole.errors import ConfigError

Sets = tuple[tuple[int, ...], ...]
LARGEST = 1 << 28  # entries of the index: 1 GB


@dataclass(frozen=True, slots=True, eq=False)
class TableCells:
    """`cell[j, p]` is the cell of profile p in the table by the columns sets[j]; cells are numbered through.

    start[j] <= c < start[j + 1] are the cells of table j; `people[c]` counts who is in a cell, `first[c]` is a profile
    in it.

    >>> from keyhole.attacks.plan.question import CodedColumn
    >>> sex = CodedColumn("sex", ("F", "M"), False)
    >>> cells = TableCells.of(Profiles.of_codes((sex,), np.array([[0, 1, 1]]), np.ones(3, bool)), 1)
    >>> cells.sets, cells.cell.tolist(), cells.people.tolist()
    (((), (0,)), [[0, 0], [1, 2]], [3, 1, 2])
    """

    profiles: Profiles
    sets: Sets
    cell: NDArray[np.int32]
    start: Ints
    people: Ints
    first: Ints

    @classmethod
    def of(cls, profiles: Profiles, most: int) -> TableCells:
        """All tables by at most `most` columns. Cost: one sort of the profiles for each."""
        width = len(profiles.columns)
        sets = tuple(s for size in range(min(most, width) + 1) for s in combinations(range(width), size))
        need = len(sets) * profiles.count
        if need > LARGEST:
            raise ConfigError(
                f"{len(sets):,} tables of {profiles.count:,} kinds of people are too many to look through "
                f"({need:,} entries, at most {LARGEST:,}): name fewer columns with --columns, or lower --max-columns"
            )
        at = {s: j for j, s in enumerate(sets)}
        cell = np.zeros((len(sets), profiles.count), dtype=np.int32)
        start, firsts = [0], [np.zeros(1, dtype=np.int64)]
        for j, s in enumerate(sets[1:], 1):
            before = cell[at[s[:-1]]].astype(np.int64) - start[at[s[:-1]]]
            key = before * max(1, profiles.columns[s[-1]].codes) + profiles.codes[s[-1]]
            _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
            start.append(start[-1] + len(firsts[-1]))
            cell[j] = inverse.ravel() + start[-1]
            firsts.append(first)
        start.append(start[-1] + len(firsts[-1]))
        flat = np.concatenate(firsts)
        people = np.bincount(cell.ravel(), weights=np.tile(profiles.people, len(sets)), minlength=len(flat))
        return cls(profiles, sets, cell, np.array(start), people.astype(np.int64), flat)

    @property
    def count(self) -> int:
        """How many cells."""
        return len(self.people)

    def table_of(self, cell: int) -> int:
        """The table that a cell is of."""
        return int(np.searchsorted(self.start, cell, side="right")) - 1

    def conditions(self, cell: int) -> tuple[CodeCondition, ...]:
        """The cell as equalities."""
        columns = self.sets[self.table_of(cell)]
        return tuple(CodeCondition(c, "=", (int(self.profiles.codes[c, self.first[cell]]),)) for c in columns)

    def members(self, cell: int) -> Ints:
        """The profiles in a cell that have a value to find out."""
        inside = self.cell[self.table_of(cell)] == cell
        return np.flatnonzero(inside & (self.profiles.unknowns > 0))

    def padded_costs(self, least: int, *, equal: bool, padded: bool) -> Ints:
        """The fewest questions of at least `least` people that give each cell by trackers; 0: none do.

        With d conditions padded ("<>" or nothing instead of "=") it takes 2^d, and every one of them must be large
        enough; their sizes follow from the sizes of cells by inclusion and exclusion.
        """
        best = np.zeros(self.count, dtype=np.int64)
        best[0] = self.people[0] >= least  # everybody: no condition
        if equal:
            best[self.people >= least] = 1
        if not padded:
            return best
        at = {s: j for j, s in enumerate(self.sets)}
        for j, s in enumerate(self.sets):
            own = slice(self.start[j], self.start[j + 1])
            one = self.first[own]
            for d in range(1, len(s) + 1):
                for chosen in combinations(s, d) if equal or d == len(s) else ():
                    fine = _large(self, s, chosen, one, at, least)
                    found = fine & (best[own] == 0)
                    best[own][found] = 1 << d
        return best


def _large(
    cells: TableCells,
    s: tuple[int, ...],
    chosen: tuple[int, ...],
    one: Ints,
    at: dict[tuple[int, ...], int],
    least: int,
) -> Bools:
    """Are all 2^d groups large enough, for each cell of the table by s (with a profile of each in `one`)?"""
    fixed = tuple(c for c in s if c not in chosen)
    fine = np.ones(len(one), dtype=np.bool_)
    for size in range(len(chosen) + 1):
        for turned in combinations(chosen, size):
            total = np.zeros(len(one), dtype=np.int64)
            for inner in range(size + 1):
                for kept in combinations(turned, inner):
                    table = at[tuple(sorted((*fixed, *kept)))]
                    total += (-1) ** inner * cells.people[cells.cell[table, one]]
            fine &= total >= least
    return fine
