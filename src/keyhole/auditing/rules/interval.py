"""Ranges: between what each private value lies in every table that answers and knowledge leave possible.

Known ranges, facts, rounded and suppressed answers and thresholds make inequalities of what the rank test reads as
equations; the ends of a value over all tables are then linear programs (`keyhole.solve.interval`). Every end is proved
by weights on the answers and bounds for whoever they leave, evaluated in fractions; a table that reaches it shows that
it is the best.

Second tables of whole numbers: CP-SAT proposes them, exact arithmetic accepts them.

Vertices of linear programs need not lie on a grid. Where people are left with no second table, integer programs look
for tables with their least and greatest value, in a child process and within the bounds that are proved. A table counts
if every row and every bound holds in fractions; nothing is concluded from a table that was not found, nor where the
child dies. Cost: at most the time given; without OR-tools the verdict says what to install.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, lcm
from time import monotonic

import numpy as np

from keyhole.auditing.base import Proof, Status, query_order
from keyhole.auditing.bounded import BoundedSystem, bounded
from keyhole.auditing.contradiction import conflict, off_grid
from keyhole.auditing.known import Claim, Known, Rule, Searched
from keyhole.auditing.learned import Learned, learned
from keyhole.auditing.numbers import Within, written
from keyhole.auditing.promise import ORDER_GAP
from keyhole.auditing.rules.settle import settled
from keyhole.errors import SolverEnded
from keyhole.extras import is_installed
from keyhole.gather.evidence import Contradiction, System
from keyhole.solve.decode.cpsat import extreme_tables
from keyhole.solve.interval import ValueRange, ranges
from keyhole.solve.interval.polytope import End, Polytope, inside, room
from keyhole.solve.interval.problem import RangeProblem
from keyhole.solve.interval.ranges import INTERRUPTED, SIDES, on_ends, on_grid
from keyhole.solve.interval.ranges import Ranges as Found

NOTHING = Fraction(0)
SECONDS = 60.0
NOT_ON_A_GRID = "the possible values are on no grid, and second tables were looked for on one"
MOST_RUNS = 4  # while other rules learn from the ranges, and the ranges from them


def interval(within: Within | None = None, seconds: float | None = SECONDS) -> Rule:
    """The rule: exposed where one value is left, inferred within a width, else open with its range."""

    def apart(found: ValueRange) -> Fraction:
        return NOTHING if within is None else within.width(found.lo, found.hi, *(found.inner or ()))

    def rule(system: System, known: Known) -> Iterator[Claim | Contradiction]:
        if known.decided(system):
            return
        number, told = known.number(system), learned(system, known)
        last = known.searched.get(number)
        if last is not None and (last.runs == MOST_RUNS or _same(last.bounded.learned, told)):
            return  # besides it looks at answers and knowledge alone, and they do not change
        made = bounded(system, known.evidence, known.grids(system), told)
        if made is None:
            return
        impossible = [*_no_value(made, known), *off_grid(made)]
        if not impossible:
            made = made.with_truth(known.truth(system))
            if system.order:
                made = replace(made, question=replace(made.question, more=True))
            found = ranges(made.question, seconds, progress=known.progress)
            known.searched[number] = Searched(made, found, apart, 1 if last is None else last.runs + 1, seconds)
            impossible = [conflict(made, known.evidence, weights) for weights in found.refuted]
        if impossible:
            said = [set(c.queries) for c in known.contradictions]
            yield from (c for c in impossible if not any(each <= set(c.queries) for each in said))
            return
        yield from _claims(number, known, known.searched[number])
        if known.searched[number].ranges.stopped == INTERRUPTED:
            raise KeyboardInterrupt  # what was proved is told: no other rule is begun

    return rule


def _same(one: Mapping[int, Learned], two: Mapping[int, Learned]) -> bool:
    """Do two rounds start from the same bounds?"""
    return one.keys() == two.keys() and all((one[u].lo, one[u].hi) == (two[u].lo, two[u].hi) for u in one)


def _no_value(made: BoundedSystem, known: Known) -> Iterator[Contradiction]:
    """What is known of one person leaves no value."""
    records = made.question.polytope.records
    seen = {id(pair): j for j, pair in reversed(list(enumerate(records)))}  # the first column of each pair of ends
    for j in sorted(seen.values()):
        lo, hi = records[j]
        if lo is not None and hi is not None and lo > hi:
            holds = [b for b in made.system.bounds if made.system.atoms.holds(b.where, made.atom(j))]
            found = {f"fact {b.fact}" for b in holds if b.column == made.column(j)}
            said = made.learned.get(made.unknowns[j])
            found |= set() if said is None else said.why[3].weights.keys()
            names = tuple(sorted(found, key=query_order))
            listed = ", ".join([*(n if n.startswith("fact") else f"Q{n}" for n in names), *_crossed(made, j, known)])
            reason = f"what is known leaves somebody no {made.column(j)}: {listed}"
            yield Contradiction(names, reason, reducible=said is not None)
            return


def _crossed(made: BoundedSystem, j: int, known: Known) -> Iterator[str]:
    """The end that was declared and that something else is beyond."""
    prior, (lo, hi) = known.evidence.prior(made.column(j)), made.question.polytope.records[j]
    if prior.hi is not None and hi == prior.hi:
        yield f"the declared max {prior.hi}"
    if prior.lo is not None and lo == prior.lo:
        yield f"the declared min {prior.lo}"


def _claims(number: int, known: Known, searched: Searched) -> Iterator[Claim | Contradiction]:
    """A claim for every record whose range is news."""
    made, system = searched.bounded, searched.bounded.system
    order = np.argsort(system.atoms.of, kind="stable")
    starts = np.concatenate([[0], np.cumsum(system.atoms.sizes)])
    told = _told(made, known)
    for j, found in enumerate(searched.ranges.of):
        if not told[j] and not any(found.weights.values()):
            continue
        k = made.atom(j)
        claim = _claim(number, known, searched, j)
        if isinstance(claim, Contradiction):
            yield claim
            return
        yield from (replace(claim, row=int(r)) for r in order[starts[k] : starts[k + 1]])


def _told(made: BoundedSystem, known: Known) -> list[bool]:
    """Does a fact say more of the records of each column than is declared of them? Looked up once a pair of ends."""
    found: dict[tuple[int, int], bool] = {}
    features = [u // made.system.atoms.K for u in made.unknowns]
    for j, key in enumerate(keys := list(zip(features, map(id, made.before), strict=True))):
        if key not in found:
            prior = known.evidence.prior(made.column(j))
            ends = tuple(None if end is None else Fraction(end) for end in (prior.lo, prior.hi))
            found[key] = made.before[j] != ends
    return [found[key] for key in keys]


def _claim(number: int, known: Known, searched: Searched, j: int) -> Claim | Contradiction:
    """What is proved of each record of one column of the polytope."""
    made, found = searched.bounded, searched.ranges.of[j]
    column, grid = made.column(j), known.grid(made.column(j))
    sides = tuple(
        made.proof(j, side, end, found.weights[side])
        for side, end in zip(SIDES, (found.lo, found.hi), strict=True)
        if end is not None
    )
    weights = {q: w for side in sides for q, w in side.weights.items()}
    for *_, why in Proof(number, {}, sides=sides).known:
        weights |= {q: Fraction(1) for q in why.weights if q not in weights}
    ordered = dict(sorted(weights.items(), key=lambda pair: query_order(pair[0])))
    proof = Proof(number, ordered, {made.unknowns[j]: 1}, sides=sides)
    left = grid.between(found.lo, found.hi)
    if left is None:
        listed = ", ".join(q if q.startswith("fact") else f"Q{q}" for q in ordered)
        reason = f"{listed} leave somebody no value that {column} can have"
        return Contradiction(tuple(ordered), reason, reducible=True)
    lo, hi = left if grid.step is not None else (found.lo, found.hi)
    if lo is not None and hi is not None and hi - lo <= _dust(made, found):
        return settled(-1, column, (lo, hi), proof, grid)
    narrow = lo is not None and hi is not None and 0 < hi - lo <= searched.apart(found)
    status = Status.INFERRED if narrow else Status.OPEN
    tight = found.inner == (lo, hi) or (found.tight and (lo, hi) == (found.lo, found.hi))
    return Claim(-1, column, status, None, *written(lo, hi), proof, tight=tight)


def _dust(made: BoundedSystem, found: ValueRange) -> Fraction:
    """How much of a width is floating-point sums: what the radii of the equations and edges used add up to."""
    total = Fraction(0)
    for weights in found.weights.values():
        for i, weight in weights.items():
            lo, hi = made.question.polytope.rows[i]
            if made.constraints[i].exact and lo is not None and hi is not None:
                total += abs(weight) * (hi - lo)
            total += abs(weight) * made.question.strict.get(i, 0)
    return total


def unshown(known: Known, number: int) -> str:
    """Why not everybody else is shown to be open, as the end of a sentence; empty if everybody is.

    Open is who has two values, further apart than `--within`, in two tables that give the same answers. Who was known
    that narrowly beforehand is nobody's finding.
    """
    searched = known.searched[number]
    made, found = searched.bounded, searched.ranges
    if found.refuted:
        return "some answers contradict each other or the data"
    if any(known.evidence.prior(name).numbers for name in made.system.columns):
        return NOT_ON_A_GRID
    if made.question.more:
        return ORDER_GAP
    if not made.whole:
        return "some answer is not at hand, and what is declared can give away more with it"
    people, unopened = 0, known.unopened(made.system)
    for j, each in enumerate(found.of):
        width = searched.apart(each)
        prior = made.before[j]
        if each.wider(width) or (prior[0] is not None and prior[1] is not None and prior[1] - prior[0] <= width):
            continue
        if each.lo == each.hi and each.lo is not None and all(map(made.beforehand, each.weights.values())):
            continue
        people += unopened[made.atom(j), made.column(j)]
    if not people:
        return ""
    who = "1 person is" if people == 1 else f"{people} people are"
    why = f" ({found.stopped})" if found.stopped else ""
    return f"{who} neither exposed nor shown to be open by a second table with the same answers{why}"


TABLE_SECONDS = 20.0
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
    end = monotonic() + (TABLE_SECONDS if searched.seconds is None else min(TABLE_SECONDS, searched.seconds))
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
