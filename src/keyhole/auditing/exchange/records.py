"""Who is open, shown before anything is searched: second tables made from the true one.

**Exchange.** No statement of the log tells the people of a class apart, so two of them may swap their private values:
every answer is as before, whatever is computed from the values, medians and squares too. Whoever shares a class with
somebody of another value has two values, in every domain that holds the data. Of a column that conditions look at,
each of its cells is asked: everybody needs somebody in his class in each of them. Short lists are not refuted by an
exchange inside them: where nothing else looks for them, the class needs more values than a list.

**Null vectors.** Whoever has no such equal moves along an integer vector that leaves every sum as it is, if all whom it
touches have room in the domain (`keyhole.solve.rowspace.null_vectors`). Only sums allow that: nobody is moved of whom
an order statistic was asked.

Both need the true table, answers that are those of it, nothing known of single people, and statistics that do not
depend on the order of the records. Variances and sums of DOUBLEs do in their last digits, of which the verdict speaks
apart (`promise.last_digits_gap`). Comparisons are left to other rules.
Cost: a pass over the records of each column, one query for each answer that the log has, and one echelon form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import Directions, Status
from keyhole.auditing.exchange.people import MOST_QUERIES, answers_truly
from keyhole.auditing.known import Known, ShownOpen
from keyhole.auditing.matrix import system_matrix
from keyhole.auditing.promise import beyond_rank
from keyhole.basis.bits import unpack
from keyhole.datasets import PrivateValues, Source
from keyhole.gather.evidence import Constraint, System
from keyhole.gather.totals import Totals, cell_numbers
from keyhole.model.cells import Partition
from keyhole.model.grid import Grid
from keyhole.model.predicate import quote_name
from keyhole.model.query import ORDERED, Aggregate, Query
from keyhole.model.schema import Role
from keyhole.solve.rowspace.null_vectors import NullVectors, moving_columns

Mask: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]
SYMMETRIC = (*ORDERED, Aggregate.VAR)  # of what they are about, and no sums
LARGEST = 1 << 40  # steps of one value, so that sums of them are machine words
MOST_FLOATS = 100_000  # records up to which DOUBLE values are added as fractions
LISTED = 3  # values of a short list
FEW_VALUES = 10  # a list of three says little where there are no more possible values
NULL, OUTSIDE = -1, -2  # cells of whoever has no value, or one that was declared impossible
LARGEST_TOTAL = 1 << 62  # of a column, in its units


def exchange(system: System, known: Known) -> Iterator[ShownOpen]:
    """The rule: everybody of a system is open of whom nothing is claimed, by a second table each."""
    decided = not beyond_rank(system, known.evidence, None)  # by the rank of the equations alone
    if not decided and not known.contradictions and everybody_open(system, known):
        yield ShownOpen(known.number(system))


def everybody_open(system: System, known: Known, listed: Collection[tuple[int, str]] = ()) -> bool:
    """Has everybody of whom nothing is claimed another value in a second table made from the true one?

    `listed`: rows and columns of which something is claimed besides what is known.
    """
    open_rows = known.open_rows(system, show_open)
    if open_rows is None:
        return False
    listed = {*listed, *((row, form.column) for form in known.forms for row in form.rows)}
    for name in system.columns:
        for row in np.flatnonzero(asked_rows(system, name) & ~open_rows[name]).tolist():
            claim = known.of(row, name)
            if (claim is None or claim.status is Status.OPEN) and (row, name) not in listed:
                return False
    return True


def show_open(system: System, known: Known, source: Source) -> Mapping[str, Mask] | None:
    """column -> who has no value, or another one in a second table; None where nothing can be shown this way."""
    if not _is_plain(system, known):
        return None
    cells = {part.column.name: _cells_held(part, source) for part in system.partitions}
    if any((held == OUTSIDE).any() for held in cells.values()):
        return None
    values = {name: source.values(name) if known.numeric(name) else _coded(cells[name]) for name in system.columns}
    if any(np.asarray(v.units).dtype == object for v in values.values() if v.units is not None):
        return None  # beyond 64 bits
    alike, owner = _classes(system, values), _owners(known)
    found = {name: _shares_a_class(alike, owner, each) for name, each in values.items()}
    single = ((part.column.name,) for part in system.partitions)
    for names in dict.fromkeys((*single, *(f.conditioned for f in system.features if f.conditioned))):
        cut = [part for part in system.partitions if part.column.name in names]
        every = _has_every_cell(alike, [cells[part.column.name] for part in cut], list(map(_how_many_cells, cut)))
        for name in names:
            found[name] &= every
    asked = (e.query for e in known.evidence.transcript.entries)
    squared = {q.terms[0].column for q in asked if q.aggregate is Aggregate.VAR}
    for name in filter(known.numeric, system.columns):
        if (system.partitions or name in squared) and not _has_few_values(known, name):
            found[name] &= _is_beyond_lists(alike, values[name])
    if owner is None and not all((found[name] | ~asked_rows(system, name)).all() for name in found):
        _move(system, known, values, found)
    return found if _answers_are_true(system, known, source, values) else None


def _is_plain(system: System, known: Known) -> bool:
    """Are there sums, counts, variances and order statistics alone, over records, and no facts?"""
    tied = len(system.columns) > 1 or bool(system.partitions)
    several = known.evidence.counting is not None or (known.schema.repeated and tied)
    ordered = all(f.where is not None and f.query.aggregate in SYMMETRIC for f in system.order)
    cut = {part.column.name for part in system.partitions}
    facts = several or known.knowledge.facts or system.bounds
    return not facts and ordered and all(known.numeric(name) or name in cut for name in system.columns)


# exchange


def _classes(system: System, values: Mapping[str, PrivateValues]) -> Ints:
    """The class of each record: those of one atom that have the same columns NULL."""
    alike = system.atoms.of.astype(np.int64)
    for each in values.values():
        if not each.present.all():
            alike = np.unique(2 * alike + each.present, return_inverse=True)[1].ravel().astype(np.int64)
    return alike


def _owners(known: Known) -> Ints | None:
    """Whose each record is, where somebody may have several; None where nobody has."""
    if not known.schema.repeated or known.roster is None:
        return None
    return known.roster.classes([quote_name(c.name) for c in known.schema.of_role(Role.ID)])


def _shares_a_class(alike: Ints, owner: Ints | None, values: PrivateValues) -> Mask:
    """Whose value is NULL, or shares a class with another one: of another person, where people have several records.

    Such an exchange moves one record of his alone, so that no form on his records stays as it is.
    """
    found = ~values.present
    rows = np.flatnonzero(values.present)
    if not len(rows):
        return found
    held = values.floats if values.units is None else np.asarray(values.units)
    classes, mine = alike[rows], held[rows]
    if owner is not None:
        whose, value = owner[rows], np.unique(mine, return_inverse=True)[1].ravel()
        together = [_how_many(classes), _how_many(classes, value), _how_many(classes, whose)]
        others = together[0] - together[1] - together[2] + _how_many(classes, value, whose)
        found[rows] = (others > 0) & (whose >= 0)
        return found
    first = np.zeros(int(classes.max()) + 1, dtype=mine.dtype)
    first[classes[::-1]] = mine[::-1]
    differs = np.zeros(len(first), dtype=np.bool_)
    differs[classes[mine != first[classes]]] = True
    found[rows] = differs[classes]
    return found


def _cells_held(part: Partition, source: Source) -> Ints:
    """Which cell each record has, of those that are no NULL; NULL, or OUTSIDE of what is declared."""
    of_all = cell_numbers(part, source, source.n)
    numbers = np.cumsum([not cell.null for cell in part.cells]) - 1
    numbers[[cell.null for cell in part.cells]] = NULL
    held: Ints = np.append(numbers, OUTSIDE)[of_all]
    return held


def _how_many_cells(part: Partition) -> int:
    return sum(not cell.null for cell in part.cells)


def _coded(cells: Ints) -> PrivateValues:
    """The cells of a column as values: of texts nothing else is asked."""
    return PrivateValues(cells != NULL, cells, 0, cells.astype(np.float64))


def _has_every_cell(alike: Ints, held: Sequence[Ints], sizes: Sequence[int]) -> Mask:
    """Who is in a class with somebody in each joint cell of some columns; whoever has no value in one of them, too."""
    there = np.logical_and.reduce([each != NULL for each in held])
    code, count = np.zeros(len(alike), dtype=np.int64), prod(sizes)
    for each, size in zip(held, sizes, strict=True):
        code = code * size + each
    pairs = np.unique(alike[there] * count + code[there])
    full = np.bincount(pairs // count, minlength=int(alike.max(initial=-1)) + 1) == count
    every: Mask = full[alike] | ~there
    return every


def _has_few_values(known: Known, name: str) -> bool:
    """Are so few values of a column possible that a list of some of them says little?"""
    grid, numbers = known.grid(name), known.evidence.prior(name).numbers
    if numbers is not None:
        return len(numbers) <= FEW_VALUES
    if grid.step is None or grid.lo is None or grid.hi is None:
        return False
    return (grid.hi - grid.lo) / grid.step + 1 <= FEW_VALUES


def _is_beyond_lists(alike: Ints, values: PrivateValues) -> Mask:
    """Whose class has more values than a short list: exchange inside one would not refute it. NULL is public."""
    held = values.floats if values.units is None else np.asarray(values.units)
    rows = np.flatnonzero(values.present)
    pairs = np.unique(np.stack([alike[rows], np.unique(held[rows], return_inverse=True)[1].ravel()]), axis=1)
    many: Mask = np.bincount(pairs[0], minlength=int(alike.max(initial=-1)) + 1) > LISTED
    return many[alike] | ~values.present


def _how_many(*keys: Ints) -> Ints:
    """How many records have the same keys as each."""
    _, of, counts = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True, return_counts=True)
    found: Ints = counts[of.ravel()]
    return found


def asked_rows(system: System, name: str) -> Mask:
    """The records that an answer about a column may depend on."""
    if system.partitions:  # which groups are shown tells more than the rows of the system
        return np.ones(len(system.atoms.of), dtype=np.bool_)
    K, touched = system.atoms.K, np.zeros(system.atoms.K, dtype=np.bool_)
    of_column = np.array([feature.column == name for feature in system.features], dtype=np.bool_)
    for constraint in system.constraints:
        made = system.row(constraint)
        if made.masks is not None:
            for f, words in made.masks.items():
                touched |= unpack(words, K) if of_column[f] else False
            continue
        at = np.asarray(made.sparse()[0])
        touched[at[of_column[at // K]] % K] = True
    for fact in system.order:
        if fact.where is not None and fact.query.terms[0].column == name:
            touched |= system.atoms.mask(fact.where)
    return touched[system.atoms.of]


def _answers_are_true(system: System, known: Known, source: Source, values: Mapping[str, PrivateValues]) -> bool:
    """Are the answers those of the data, and the same in whatever order the records are added?"""
    rows = {c.number: c for c in system.constraints}
    mine = rows.keys() | {f.number for f in system.order}
    entries = [e for e in known.evidence.transcript.entries if e.number in mine]
    if len(entries) != len(mine):
        return False
    if any(e.query.test is not None or not _any_order(e.query, rows.get(e.number)) for e in entries):
        return False
    computed = known.evidence.computed
    others = [e for e in entries if e.number not in rows and e.number not in computed]
    doubles = not all(
        known.exact(name) for name in values if known.numeric(name)
    )  # a sum of them may cross an end by its dust alone
    told = [row for row in system.constraints if row.number not in computed or (doubles and not row.exact)]
    if len(others) > MOST_QUERIES or not _gives_answers(system, told, values, source):
        return False
    return all(e.answer is not None and answers_truly(source, e.query, e.answer) for e in others)


def _gives_answers(
    system: System, rows: Sequence[Constraint], values: Mapping[str, PrivateValues], source: Source
) -> bool:
    """Does the true table satisfy some rows, inside their ends by the edge of each?"""
    if not rows:
        return True
    K, totals = system.atoms.K, list[tuple[NDArray[Any], Fraction]]()
    for f, feature in enumerate(system.features):
        if feature.conditioned:
            of_cells = Totals(system.atoms, system.features, system.partitions, source).of_atoms(f)
            over = lcm(*(each.denominator for each in of_cells))
            totals.append((np.array([int(each * over) for each in of_cells], dtype=object), Fraction(1, over)))
            continue
        total = _totals(system, values[feature.column], feature.power) if feature.column else None
        if total is None:
            return False
        totals.append(total)
    for constraint in rows:
        made = system.row(constraint)
        at, entries = made.sparse()
        answer = Fraction(0)
        for f in np.unique(at // K).tolist():
            total, unit = totals[f]
            mine = at // K == f
            answer += _weighted(entries[mine], total[at[mine] % K]) * unit
        answer /= made.scale
        edge = Fraction(0) if constraint.exact or constraint.edge is None else constraint.edge
        low = constraint.lo is None or answer >= constraint.lo + edge
        if not low or (constraint.hi is not None and answer > constraint.hi - edge):
            return False
    return True


def _totals(system: System, values: PrivateValues, power: int) -> tuple[NDArray[Any], Fraction] | None:
    """The true total of a power of a column over each atom, and the unit that it counts; None where it is too large."""
    if values.units is None:
        if len(values.floats) > MOST_FLOATS:
            return None
        exact = [Fraction(x) if p else Fraction(0) for x, p in zip(values.floats.tolist(), values.present, strict=True)]
        over = max((x.denominator for x in exact), default=1)  # powers of two
        units = np.array([int(x * over) ** power for x in exact], dtype=object)
        unit = Fraction(1, over**power)
    else:
        units = np.where(values.present, np.asarray(values.units, dtype=np.int64), 0)
        if float((np.abs(units.astype(np.float64)) ** power).sum()) >= LARGEST_TOTAL:
            return None
        units, unit = units**power, Fraction(1, 10 ** (values.digits * power))
    total = np.zeros(system.atoms.K, dtype=units.dtype)
    np.add.at(total, system.atoms.of, units)
    return total, unit


def _weighted(weights: NDArray[Any], totals: NDArray[Any]) -> int:
    if (
        weights.dtype != object
        and float(np.abs(weights.astype(np.float64)) @ np.abs(totals.astype(np.float64))) < 2**62
    ):
        return int(weights @ totals)
    return sum(int(w) * int(t) for w, t in zip(weights.tolist(), totals.tolist(), strict=True) if w)


def _any_order(query: Query, row: Constraint | None) -> bool:
    """Is a sum the same in whatever order it is added? Order statistics and variances are, but for last digits."""
    if query.aggregate is not Aggregate.SUM or row is None:
        return query.aggregate in SYMMETRIC
    terms = (*query.terms, *query.per)
    whole = all(t.weight is None and t.power == 1 and t.factor.denominator == 1 for t in terms)
    return row.lo is not None and (row.lo == row.hi or whole)


# null vectors


@dataclass(frozen=True, slots=True, eq=False)
class _Movable:
    """The classes of a column whose totals may move: their columns of the matrix, and the room that each has."""

    name: str
    columns: Ints
    classes: Ints
    step: Fraction
    down: Ints
    up: Ints
    wanted: Mask
    above: Mask  # of each record: is its value above the least?
    below: Mask


def _move(system: System, known: Known, values: Mapping[str, PrivateValues], found: dict[str, Mask]) -> None:
    """Add to `found` who moves along a null vector that keeps everybody inside the domain.

    Nobody is moved where an answer is a quotient of private sums: its equation still holds where its denominator is 0.
    """
    if system.partitions or any(row.scale == 0 and row.fact is None for row in system.constraints):
        return
    if any(f.power != 1 or f.guard is not None or f.column is None for f in system.features) or not system.constraints:
        return
    built, of, K = system_matrix(system, [c for c in system.constraints if c.parts]), system.atoms.of, system.atoms.K
    parts: list[_Movable] = []
    for f, feature in enumerate(system.features):
        name = feature.column or ""
        part = _movable(system, known, name, values[name], found[name], f * built.stride)
        if part is None:
            return
        parts.append(part)
    unit = lcm(*(part.step.denominator for part in parts))
    steps = np.concatenate([np.full(len(part.columns), int(part.step * unit), dtype=np.int64) for part in parts])
    moves = moving_columns(
        built.matrix,
        np.concatenate([part.columns for part in parts]),
        steps,
        np.concatenate([part.down for part in parts]),
        np.concatenate([part.up for part in parts]),
        np.concatenate([part.wanted for part in parts]),
    )
    known.directions[known.number(system)] = _directions(parts, moves.vectors)
    start = 0
    for part in parts:
        mine = slice(start, start + len(part.columns))
        falls, rises = np.zeros(K, dtype=np.bool_), np.zeros(K, dtype=np.bool_)
        falls[part.classes], rises[part.classes] = moves.down[mine] > 0, moves.up[mine] > 0
        moved = (falls[of] & part.above) | (rises[of] & part.below)
        found[part.name] |= values[part.name].present & moved
        start += len(part.columns)


def _directions(parts: Sequence[_Movable], found: NullVectors) -> Directions:
    names, units = tuple(part.name for part in parts), tuple(part.step for part in parts)
    columns = np.concatenate([np.full(len(part.classes), i, dtype=np.int64) for i, part in enumerate(parts)])
    classes = np.concatenate([part.classes for part in parts])
    return Directions(names, units, found.which, found.steps, columns[found.columns], classes[found.columns])


def free_directions(system: System, units: Mapping[str, Fraction]) -> Directions | None:
    """Vectors that leave all sums of a system as they are, wherever there is room; None if more than sums was asked.

    `units`: by how much a value of a column moves at least.
    """
    plain = all(f.power == 1 and f.guard is None and f.column is not None for f in system.features)
    if not plain or system.partitions or system.equal or not system.constraints:
        return None
    built, K = system_matrix(system, [c for c in system.constraints if c.parts]), system.atoms.K
    features = [np.arange(K, dtype=np.int64) + f * built.stride for f in range(len(system.features))]
    columns = np.concatenate(features)
    names = tuple(feature.column or "" for feature in system.features)
    over = lcm(*(units[name].denominator for name in names))
    steps = np.repeat(np.array([int(units[name] * over) for name in names], dtype=np.int64), K)
    far = np.full(len(columns), LARGEST)
    found = moving_columns(built.matrix, columns, steps, far, far, far > 0).vectors
    own = tuple(units[name] for name in names)
    return Directions(names, own, found.which, found.steps, found.columns // K, found.columns % K)


def _movable(
    system: System, known: Known, name: str, values: PrivateValues, opened: Mask, offset: int
) -> _Movable | None:
    """What may move of a column; None where it has no grid, or the data leave its domain."""
    grid, K, of = known.grid(name), system.atoms.K, system.atoms.of
    placed = _places(values, grid) if known.evidence.prior(name).numbers is None else None
    if placed is None or grid.step is None:
        return None
    steps, top = placed
    if (grid.lo is not None and (steps < 0).any()) or (top is not None and (steps > top).any()):
        return None
    people, total = np.bincount(of[values.present], minlength=K), np.zeros(K, dtype=np.int64)
    np.add.at(total, of, steps)
    far, stuck = np.full(K, LARGEST), np.zeros(K, dtype=np.bool_)
    down = far if grid.lo is None else np.minimum(total, far)
    up = far if top is None else np.minimum(people * top - total, far)
    stuck[of[~opened]] = True
    chosen = np.flatnonzero((people > 0) & ~_ordered(system, name))
    every = np.ones(len(steps), dtype=np.bool_)
    above, below = every if grid.lo is None else steps > 0, every if top is None else steps < top
    return _Movable(name, offset + chosen, chosen, grid.step, down[chosen], up[chosen], stuck[chosen], above, below)


def _ordered(system: System, name: str) -> Mask:
    """The classes of which an order statistic was asked: no sum is moved there."""
    found: Mask = np.zeros(system.atoms.K, dtype=np.bool_)
    for fact in system.order:
        if fact.where is not None and fact.query.terms[0].column == name:
            found |= system.atoms.mask(fact.where)
    return found


def _places(values: PrivateValues, grid: Grid) -> tuple[Ints, int | None] | None:
    """How many steps each value is above the least (or the base), and how many the greatest is; None: not on it."""
    if values.units is None or grid.step is None:
        return None
    base = grid.base if grid.lo is None else grid.between(grid.lo, grid.hi)
    low = base if isinstance(base, Fraction) else None if base is None else base[0]
    scale = Fraction(10) ** values.digits
    over = None if low is None else (low * scale, grid.step * scale)
    if over is None or any(each.denominator != 1 or abs(each) >= LARGEST for each in over):
        return None
    above = np.where(values.present, np.asarray(values.units) - int(over[0]), 0)
    if (above % int(over[1])).any() or np.abs(above).max(initial=0) >= LARGEST:
        return None
    assert low is not None
    top = None if grid.hi is None else int((grid.hi - low) / grid.step)
    return above // int(over[1]), top
