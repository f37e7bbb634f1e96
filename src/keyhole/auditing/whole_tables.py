"""Second tables of whole numbers: CP-SAT proposes them, exact arithmetic accepts them.

Vertices of linear programs need not lie on a grid. Where people are left with no second table, integer programs look
for tables with their least and greatest value, in a child process and within the bounds that are proved. A table counts
if every row and every bound holds in fractions; nothing is concluded from a table that was not found, nor where the
child dies. Cost: at most the time given; without OR-tools the verdict says what to install.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, lcm
from time import monotonic

import numpy as np

from keyhole.auditing.known import Searched
from keyhole.errors import SolverEnded
from keyhole.extras import is_installed
from keyhole.solve.decode.cpsat import extreme_tables
from keyhole.solve.interval.polytope import End, Polytope, inside, room
from keyhole.solve.interval.problem import RangeProblem
from keyhole.solve.interval.ranges import Ranges as Found
from keyhole.solve.interval.ranges import on_ends, on_grid

SECONDS = 20.0
MOST_CELLS = 3_000_000  # rows times columns of a part
MOST_WANTED = 300  # ends of one part
LARGEST = 2**40  # of an integer
ENDED = "the process that looks for second tables ended before it answered"
NOT_INSTALLED = "OR-tools, which looks for such tables, is not installed: pip install 'keyhole[attack]'"


def look_for_second_tables(searched: Searched, unopened: Mapping[tuple[int, str], int]) -> None:
    """Widen what tables are seen to give, of all whom no second table shows open so far.

    `unopened`: how many people of an atom are neither listed nor shown open by exchange, by column.
    """
    made, question, found = searched.bounded, searched.bounded.question, searched.ranges
    if found.refuted or question.more:
        return
    end = monotonic() + (SECONDS if searched.seconds is None else min(SECONDS, searched.seconds))
    for rows, columns in question.polytope.parts():
        if len(rows) * len(columns) > MOST_CELLS or any(question.grids[k].step is None for k in columns):
            continue
        known = [(k, found.of[k]) for k in columns if unopened[made.atom(k), made.column(k)]]
        left = [k for k, each in known if each.lo != each.hi and not each.wider(searched.apart(each))]
        seconds = end - monotonic()
        if not left or seconds <= 0:
            continue
        if not is_installed("ortools"):
            found.stopped = found.stopped or NOT_INSTALLED
            return
        try:
            for table in _proposed(question, found, rows, columns, left[: MOST_WANTED // 2], seconds):
                if _possible(question, rows, table):
                    _seen(question, found, table)
        except SolverEnded:
            found.stopped = found.stopped or ENDED


def _proposed(
    question: RangeProblem,
    found: Found,
    rows: Sequence[int],
    columns: Sequence[int],
    left: Sequence[int],
    seconds: float,
) -> Iterator[dict[int, Fraction]]:
    """Tables of totals, as whole numbers of steps above the least that is possible."""
    P, place = question.polytope, {k: j for j, k in enumerate(columns)}
    least, steps, top = {}, {}, []
    for k in columns:
        size, grid, known = P.sizes[k], question.grids[k], found.of[k]
        low, high = on_ends(grid, P.records[k]) if size > 1 else on_ends(grid, (known.lo, known.hi))
        if low is None or high is None or grid.step is None or not (high - low) * size / grid.step < LARGEST:
            return
        least[k], steps[k] = size * low, grid.step
        top.append(int(size * (high - low) / grid.step))
    most, lo, hi = np.array(top, dtype=np.int64), [], []
    C = np.zeros((len(rows), len(columns)), dtype=np.int64)
    for n, i in enumerate(rows):
        at, entries = P.row(i)
        unit = lcm(*((a * steps[k]).denominator for k, a in zip(at, entries, strict=True)))
        places, whole = [place[k] for k in at], [int(a * steps[k] * unit) for k, a in zip(at, entries, strict=True)]
        reach = sum(abs(w) * top[j] for w, j in zip(whole, places, strict=True))
        if reach >= LARGEST or max(map(abs, whole), default=0) >= LARGEST:
            return
        C[n, places] = whole
        gone = sum((a * least[k] for k, a in zip(at, entries, strict=True)), Fraction(0))
        ends = _whole_ends(P.rows[i], gone, unit, reach, edge=question.strict.get(i))
        lo.append(ends[0])
        hi.append(ends[1])
    wanted = [(place[k], sign) for k in left for sign in (1, -1)]
    for z in extreme_tables(C, np.array(lo), np.array(hi), most, wanted, seconds=seconds).tolist():
        yield {k: least[k] + steps[k] * z[place[k]] for k in columns}


def _whole_ends(ends: tuple[End, End], gone: Fraction, unit: int, reach: int, *, edge: End) -> tuple[int, int]:
    """The ends of a row in whole numbers, cut to its `reach`; inside them by `edge`, where there is one.

    >>> three = Fraction(3), None
    >>> [_whole_ends(three, Fraction(1), 1, 9, edge=edge) for edge in (Fraction(0), Fraction(1), None)]
    [(3, 9), (4, 9), (2, 9)]
    """
    strict, off = edge is not None, edge or 0
    lo = None if ends[0] is None else (ends[0] + off - gone) * unit
    hi = None if ends[1] is None else (ends[1] - off - gone) * unit
    low = -reach if lo is None else floor(lo) + 1 if strict else ceil(lo)
    high = reach if hi is None else ceil(hi) - 1 if strict else floor(hi)
    return max(-reach, min(low, reach + 1)), min(reach, max(high, -reach - 1))


def _possible(question: RangeProblem, rows: Sequence[int], table: Mapping[int, Fraction]) -> bool:
    """Is a table inside all rows and bounds, and on all grids? In fractions, whatever proposed it."""
    P = question.polytope
    for i in rows:
        if not inside(P.said(i, table), P.rows[i]) or (i in question.strict and question.clears(i, table) == 1):
            return False
    return all(inside(x, P.total(k)) and on_grid(question.grids[k], x, P.sizes[k]) for k, x in table.items())


def _seen(question: RangeProblem, found: Found, table: Mapping[int, Fraction]) -> None:
    P: Polytope = question.polytope
    for k, x in table.items():
        found.of[k].see(room(on_ends(question.grids[k], P.records[k]), P.sizes[k], x))
