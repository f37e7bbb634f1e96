"""The all-clear, replayed: everybody who is not listed has another value in a second table with the same answers.

Nothing of it is believed. Whom it is about is read off the data: everybody's value of every private column, less
those of whom a claim was replayed. The verdict only says where to look: which records its log does not tell apart,
and by how much values can move together. The checker makes the tables from the data, keeps those inside the domain
that is declared or, where nothing is, assumed from the data, and **runs the log on each**. A table counts if every
statement answers as it did; whoever has another value in it is shown. A vector is tried with both signs, so the
verdict need not say in which direction there is room. Where few are left over, the checker looks for tables by
itself.

Sums of DOUBLEs change their last digits when values change places. Answers are the same within 2^-42 of them (2^-44
where no DOUBLE is added), and a value is another one only if it is away by more than 2^-36 of the column's total.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, islice, product
from math import isfinite
from random import Random
from typing import Any, TypeAlias

from .answers import DUST, DUST_OF_DOUBLES, Asked, agrees, same_rows
from .claims import fraction, number
from .engine import INTEGERS, Cannot, Engine, Fails, exact, plain

MOST_RUNS = 20_000  # statements run on second tables
MOST_CELLS = 4_000_000_000  # records x statements x tables
FEW_CELLS = 60  # records x private columns up to which tables are looked for without a hint
MOST_TRIED = 4_000  # tables of that search
MOST_DRAWN = 10 * MOST_TRIED  # changes looked at for them: most may be outside what facts allow, or repeated
BATCH = 64  # tables that are filled in together there
UNASKED = 6  # fillings of a column that no statement names
FEW_VALUES = 8  # of a domain, up to which all are tried
ORDERED = re.compile(r"\border\b", re.IGNORECASE)
APART = Fraction(1, 2**36)

Cell: TypeAlias = tuple[str, int]  # a private column and a row
Change: TypeAlias = dict[Cell, Any]  # what a table has there instead
Values: TypeAlias = dict[str, list[Any]]


@dataclass(frozen=True)
class Cleared:
    """How many values were shown to be open, of how many; `seed` where these are a sample."""

    shown: int
    of: int
    seed: int | None = None
    fails: str = ""
    cannot: str = ""

    @property
    def is_whole(self) -> bool:
        """Was everything replayed, and held?"""
        return not (self.fails or self.cannot) and self.seed is None

    def __str__(self) -> str:
        """What came of it, in a sentence."""
        if self.fails:
            return f"the all-clear fails: {self.fails}"
        if self.cannot:
            return f"the all-clear cannot be replayed here: {self.cannot}"
        if self.seed is None:
            return f"The all-clear holds: {self.of} of {self.of} values have another one in a table with these answers."
        share = f"{300 / self.shown:.2g} %" if self.shown > 3 else "all"
        return (
            f"The all-clear was replayed for a sample (--seed {self.seed}): {self.shown} of {self.of} values replayed, "
            f"none failed: fewer than {share} of them can be false (95 %)."
        )


@dataclass(frozen=True)
class Domain:
    """Which values a column may have: listed ones, a grid between two ends, or any."""

    lo: Fraction | None = None
    hi: Fraction | None = None
    step: Fraction | None = None
    values: frozenset[Any] | None = None

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Domain:
        """Of what a declaration says, or of what is assumed."""
        listed = said.get("numbers") if said.get("numbers") is not None else said.get("values")
        lo, hi, step = (number(said.get(name)) for name in ("min", "max", "step"))
        return cls(lo, hi, step, None if listed is None else frozenset(map(plain, listed)))

    def __contains__(self, value: Any) -> bool:
        if self.values is not None:
            return value in self.values
        if not isinstance(value, Fraction):
            return self.lo is None and self.hi is None
        inside = (self.lo is None or value >= self.lo) and (self.hi is None or value <= self.hi)
        base = self.lo or Fraction(0)
        return inside and (self.step is None or ((value - base) / self.step).denominator == 1)

    def room(self, value: Fraction, unit: Fraction, *, up: bool) -> int:
        """How many units a value may move in a direction."""
        end = self.hi if up else self.lo
        return 1 << 40 if end is None else int(abs(end - value) / unit)


@dataclass
class Part:
    """Private columns that the log ties together, the records that it does not tell apart, and vectors over these."""

    columns: tuple[str, ...]
    units: tuple[Fraction, ...]  # by which each moves, in those of the first
    classes: list[list[int]]
    vectors: list[list[tuple[int, int, int]]]  # (row that stands for its class, units, which column)
    class_of: dict[int, list[int]] = field(default_factory=dict)

    @classmethod
    def read(cls, given: Mapping[str, Any], n: int) -> Part:
        """Of the texts in a verdict."""
        columns, units = tuple(map(str, given["columns"])), tuple(map(fraction, given["units"]))
        if len(units) != len(columns) or any(unit <= 0 for unit in units):
            raise ValueError("a column moves by no unit")
        classes = [read_rows(text, n) for text in given.get("classes") or ()]
        vectors = [_read_vector(text, n, len(columns)) for text in given.get("vectors") or ()]
        return cls(columns, units, classes, vectors, {row: each for each in classes for row in each})


def read_rows(text: str, n: int) -> list[int]:
    """Rows from 0 of a text that counts from 1.

    >>> read_rows("1 3-5", 9)
    [0, 2, 3, 4]
    """
    found: list[int] = []
    for word in str(text).split():
        first, _, last = word.partition("-")
        low, high = int(first), int(last or first)
        if not 1 <= low <= high <= n:
            raise ValueError(f"{word} are no rows")
        found.extend(range(low - 1, high))
    if len(set(found)) != len(found):
        raise ValueError("a class has a row twice")
    return found


def _read_vector(text: str, n: int, columns: int) -> list[tuple[int, int, int]]:
    found = []
    for word in str(text).split():
        row, units, *which = (int(each) for each in word.split(":"))
        place = which[0] if which else 0
        if not (1 <= row <= n and units and 0 <= place < columns):
            raise ValueError(f"{word} moves nobody")
        found.append((row - 1, units, place))
    return found


class AllClear:
    """One verdict that says complete, against the data."""

    def __init__(
        self,
        engine: Engine,
        asked: Sequence[Asked],
        domains: Mapping[str, Domain],
        facts: Sequence[Mapping[str, Any]],
        claimed: Collection[Cell],
        seed: int,
    ) -> None:
        self.engine, self.asked, self.domains = engine, asked, domains
        self.facts = [(engine.condition(str(fact["where"])), fact) for fact in facts]
        self.random, self.seed = Random(seed), seed
        self.truth: Values = {name: engine.real_values(name) for name in engine.private}
        self.at = {name: [exact(v) for v in held] for name, held in self.truth.items()}
        cells = [(name, r) for name, held in self.truth.items() for r, v in enumerate(held) if v is not None]
        for cell in cells:
            if self.at[cell[0]][cell[1]] not in self.domains[cell[0]]:
                raise Cannot(f"the data have values of {cell[0]} outside what is declared")
        if not self._is_inside({}):
            raise Cannot("the data are not as the facts say")
        self.left = {cell for cell in cells if cell not in claimed}
        self.of = len(self.left)
        totals = {name: sum(abs(v) for v in held if isinstance(v, Fraction)) for name, held in self.at.items()}
        self.apart = {name: total * APART for name, total in totals.items()}
        doubles = any(engine.columns[name] in ("DOUBLE", "FLOAT") for name in engine.private)
        self.dust = DUST_OF_DOUBLES if doubles else DUST
        self.runs = 0
        self.blurred = Fraction(0)  # the largest DOUBLE that an accepted table answers with other last digits
        self.most = max(len(asked), min(MOST_RUNS, MOST_CELLS // max(engine.n, 1)))  # runs of statements
        self.rejected = False

    def replay(self, parts: Sequence[Part], *, whole: bool) -> Cleared:
        """Make the tables and run the log on them. `whole`: the verdict says that its parts show everybody."""
        self._answers = [self._answer_truly(each) for each in self.asked]
        self._leave_out_what_is_not_asked()
        sampled, self.runs = self._is_too_much(parts), 0
        if sampled:
            self.left = set(self.random.sample(sorted(self.left), min(len(self.left), self._affordable())))
            self.most *= 8
        wanted = len(self.left)
        for part in parts:
            self._exchange(part)
            self._spread(part)
            self._move(part)
        if self.left and self.engine.n * len(self.truth) <= FEW_CELLS:
            self._search()
        if self.rejected:
            return Cleared(0, self.of, fails="a second table of the verdict does not give the answers of the log")
        if self.left:
            name, row = min(self.left, key=lambda cell: (cell[1], cell[0]))
            why = f"row {row + 1}: {name} is not shown to have another value ({len(self.left)} of {self.of} are not)"
            fails = whole and not self._is_spent and any(self._any_other(cell) is not None for cell in self.left)
            return Cleared(wanted - len(self.left), self.of, None, why if fails else "", "" if fails else why)
        return Cleared(wanted, self.of, self.seed if sampled else None)

    # --- how much is done ---------------------------------------------------------------------------------------------

    @property
    def _is_spent(self) -> bool:
        return self.runs > self.most

    def _affordable(self) -> int:
        """Values that are shown one table each."""
        return max(4, self.most // (2 * max(len(self.asked), 1)))

    def _is_too_much(self, parts: Sequence[Part]) -> bool:
        """Would everybody take more tables than there is room for?"""
        tables = 0
        for part in parts:
            for name in part.columns:
                values = self.at.get(name)
                if values is None:
                    continue
                tables += max((self._rounds(each, name, values) for each in part.classes), default=0)
            tables += len(part.vectors) // 100
        return tables * len(self.asked) > self.most

    def _rounds(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> int:
        """In how many tables everybody of a class gets another value by exchange."""
        counts: defaultdict[Any, int] = defaultdict(int)
        for r in rows:
            if (name, r) in self.left:
                counts[values[r]] += 1
        most, everybody = max(counts.values(), default=0), sum(counts.values())
        return 0 if most == everybody else -(-most // (everybody - most))

    # --- is a table one with the same answers? ------------------------------------------------------------------------

    def _answer_truly(self, asked: Asked) -> list[tuple[Any, ...]]:
        """What a statement answers on the data, which must be what the log says."""
        self.engine.fill(None)
        names, rows = self.engine.run(asked.sql)
        if asked.answered and not agrees(asked, (names, rows), self.dust):
            raise Cannot("the answers of the log are not those of the data")
        return rows

    def _gives_the_answers(self) -> bool:
        """Does every statement answer as it did, on what is filled in now?"""
        self.blurred = Fraction(0)
        for asked, before in zip(self.asked, self._answers, strict=True):
            self.runs += 1
            try:
                result = self.engine.run(asked.sql)
            except Cannot:
                return False  # a made-up value does not fit its type
            if asked.leaves_several:
                if not agrees(asked, result, Fraction(0)):
                    return False
            elif not same_rows(before, result[1], self.dust, ordered=bool(ORDERED.search(asked.sql))):
                return False
            if not same_rows(before, result[1], Fraction(0), ordered=bool(ORDERED.search(asked.sql))):
                self.blurred = max(self.blurred, _largest_double(before))
        return True

    def _accepts(self, change: Change) -> bool:
        """Is the true table with a change inside the domain, with the same answers? Then note who is shown."""
        if not self._is_inside(change):
            return False
        try:
            self.engine.fill_tables([self._table(change)])
        except Cannot:
            return False
        if not self._gives_the_answers():
            return False
        self._note(change)
        return True

    def _is_inside(self, change: Change) -> bool:
        """Is the changed table one of those that are possible: inside the domains, and by the facts?"""
        if not all(exact(value) in self.domains[name] for (name, _), value in change.items()):
            return False
        return all(self._keeps(rows, fact, change) for rows, fact in self.facts)

    def _keeps(self, rows: Sequence[int], fact: Mapping[str, Any], change: Change) -> bool:
        name = str(fact["column"])
        held = [exact(change.get((name, r), self.truth[name][r])) for r in rows]
        values = [v for v in held if isinstance(v, Fraction)]
        ends = (number(fact.get(end)) for end in ("min", "max", "sum_min", "sum_max"))
        least, most, least_total, most_total = ends
        total = sum(values, Fraction(0))
        each = all((least is None or v >= least) and (most is None or v <= most) for v in values)
        return each and (least_total is None or total >= least_total) and (most_total is None or total <= most_total)

    def _table(self, change: Change) -> Values:
        made = {name: list(held) for name, held in self.truth.items()}
        for (name, row), value in change.items():
            made[name][row] = value
        return made

    def _note(self, change: Change) -> None:
        """Who has another value by it, and more of it than the last digits of an answer may hide."""
        blurred = self.blurred * APART
        for (name, row), value in change.items():
            before, after = self.at[name][row], exact(value)
            if isinstance(before, Fraction) and isinstance(after, Fraction):
                if abs(after - before) > max(self.apart[name], blurred):
                    self.left.discard((name, row))
            elif before != after and (not blurred or self.dust == DUST_OF_DOUBLES):
                self.left.discard((name, row))

    def _accept_together(self, changes: list[Change], tried: int = 0) -> list[bool]:
        """Which of some changes of different cells are accepted: all at once, or in halves where that is none."""
        together: Change = {cell: value for change in changes for cell, value in change.items()}
        if not changes or self._is_spent:
            return [False] * len(changes)
        if self._accepts(together):
            return [True] * len(changes)
        if len(changes) == 1 or tried > 6:
            return [False] * len(changes)
        half = len(changes) // 2
        first = self._accept_together(changes[:half], tried + 1)
        return first + self._accept_together(changes[half:], tried + 1)

    def _leave_out_what_is_not_asked(self) -> None:
        """Columns that no statement names, and on which no answer depends; and values that change no answer."""
        for name in self.truth:
            if not any(n == name for n, _ in self.left):
                continue
            word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
            others = {(n, r): self._any_other((n, r)) for n, r in self.left if n == name}
            change: Change = {cell: value for cell, value in others.items() if value is not None}
            if not any(word.search(each.sql) for each in self.asked) and self._changes_nothing(name, change):
                self.left = {cell for cell in self.left if cell[0] != name}
                self.of = len(self.left)
                continue
            if change:
                self._accepts(change)

    def _changes_nothing(self, name: str, change: Change) -> bool:
        """Do all statements answer the same whatever is in a column: other possible values, and made-up ones?"""
        made = ([self._made_up(name, v, turn) for v in self.truth[name]] for turn in range(UNASKED))
        for table in (self._table(change), *({**self.truth, name: values} for values in made)):
            try:
                self.engine.fill_tables([table])
            except Cannot:
                return False
            if not self._gives_the_answers():
                return False
        return True

    def _made_up(self, name: str, value: Any, turn: int) -> Any:
        if value is None or isinstance(value, bool):
            return None if value is None else bool(self.random.getrandbits(1))
        if not self.engine.numeric(name):
            return f"{self.random.random()}" if isinstance(value, str) else self.random.choice(self.truth[name])
        return self.random.randint(-99, 99) if turn % 2 else self.random.randint(0, 9)

    def _any_other(self, cell: Cell) -> Any:
        return next((v for v in self._others(cell) if exact(v) != self.at[cell[0]][cell[1]]), None)

    # --- exchange -----------------------------------------------------------------------------------------------------

    def _exchange(self, part: Part) -> None:
        """Records of one class give each other what is private, until everybody had another value."""
        columns = [name for name in part.columns if name in self.truth]
        open_classes = [each for rows in part.classes for each in self._alike(rows, columns)]
        while open_classes and not self._is_spent:
            dealt = [(each, change) for each in open_classes if (change := self._dealt(each, columns))]
            accepted = self._accept_together([change for _, change in dealt])
            self.rejected |= not all(accepted) and not self._is_spent
            open_classes = [each for (each, _), ok in zip(dealt, accepted, strict=True) if ok]

    def _dealt(self, rows: Sequence[int], columns: Sequence[str]) -> Change:
        """A permutation of a class in which somebody who is left gets another value; empty if there is none."""
        for name in columns:
            left = [r for r in rows if (name, r) in self.left]
            held = defaultdict(list)
            for r in rows:
                if self.truth[name][r] is not None:
                    held[self.at[name][r]].append(r)
            if not left or len(held) < 2:
                continue
            groups = sorted(held.values(), key=len, reverse=True)
            largest, others = groups[0], [r for each in groups[1:] for r in each]
            donor: dict[int, int] = {}
            if len(largest) <= len(others):
                order = [*largest, *others]
                turn = len(largest)
                donor = {r: order[(i + turn) % len(order)] for i, r in enumerate(order)}
            else:
                wanted = [r for r in largest if (name, r) in self.left] or largest
                for one, two in zip(wanted, others, strict=False):
                    donor |= {one: two, two: one}
            return {(c, r): self.truth[c][d] for r, d in donor.items() for c in columns if self._may_swap(c, r, d)}
        return {}

    def _alike(self, rows: Sequence[int], columns: Sequence[str]) -> Iterator[list[int]]:
        """The records of a class that have the same columns NULL: that is public."""
        found: defaultdict[tuple[bool, ...], list[int]] = defaultdict(list)
        for r in rows:
            found[tuple(self.truth[name][r] is None for name in columns)].append(r)
        return (each for each in found.values() if len(each) > 1)

    def _may_swap(self, name: str, one: int, two: int) -> bool:
        return self.truth[name][one] is not None and self.truth[name][two] is not None

    # --- moves --------------------------------------------------------------------------------------------------------

    def _unit(self, name: str) -> Fraction | None:
        """By how much a value of a column moves at least; None where it has no grid."""
        if name not in self.truth or not self.engine.numeric(name):
            return None
        domain = self.domains[name]
        return None if domain.values is not None else domain.step or Fraction(1)

    def _spread(self, part: Part) -> None:
        """Two records of a class move against each other, so that their sum stays."""
        for name in part.columns:
            unit = self._unit(name)
            if unit is None:
                continue
            changes: list[Change] = []
            for rows in part.classes:
                left = [r for r in rows if (name, r) in self.left]
                for one, two in zip(left[::2], left[1::2], strict=False):
                    changes += islice(self._against((name, one), (name, two), unit), 1)
            self._accept_together(changes, tried=5)

    def _against(self, one: Cell, two: Cell, unit: Fraction) -> Iterator[Change]:
        for sign in (1, -1):
            up, down = self._moved(one, sign * unit), self._moved(two, -sign * unit)
            if up is not None and down is not None:
                yield {one: up, two: down}

    def _moved(self, cell: Cell, by: Fraction) -> Fraction | None:
        """Another value of a cell, if it is inside the domain."""
        name, row = cell
        value = self.at[name][row]
        if not isinstance(value, Fraction) or value + by not in self.domains[name]:
            return None
        return value + by

    def _move(self, part: Part) -> None:
        """Vectors move the records that they touch; those that have room together make one table."""
        if None in map(self._unit, part.columns):
            return
        waiting, most = list(part.vectors), len(part.vectors)
        while waiting and not self._is_spent:
            self.random.shuffle(waiting)
            moved: dict[Cell, Fraction] = {}
            taken: list[dict[Cell, Fraction]] = []
            for vector in waiting:
                step = self._step(part, vector, moved) if self._is_wanted(part, vector) else None
                if step:
                    taken.append(step)
                    for cell, by in step.items():
                        moved[cell] = moved.get(cell, Fraction(0)) + by
                if len(taken) == most:
                    break
            before = len(self.left)
            if not taken or not self._accept_moves(taken):
                self.rejected |= bool(taken) and not self._is_spent
                return
            if len(self.left) == before:  # what they move adds up to nothing: one by one
                if most == 1:
                    return
                most = 1
            waiting = [vector for vector in waiting if self._is_wanted(part, vector)]

    def _accept_moves(self, taken: Sequence[Mapping[Cell, Fraction]]) -> bool:
        total: dict[Cell, Fraction] = defaultdict(Fraction)
        for step in taken:
            for cell, by in step.items():
                total[cell] += by
        return self._accepts({(c, r): self.at[c][r] + by for (c, r), by in total.items() if by})

    def _is_wanted(self, part: Part, vector: Sequence[tuple[int, int, int]]) -> bool:
        return any(
            (part.columns[place], r) in self.left for row, _, place in vector for r in part.class_of.get(row, (row,))
        )

    def _step(
        self,
        part: Part,
        vector: Sequence[tuple[int, int, int]],
        moved: Mapping[Cell, Fraction],
    ) -> dict[Cell, Fraction] | None:
        """Who moves by a vector, in the direction that has room for all; None if neither has."""
        signs = (1, -1) if self.random.random() < 0.5 else (-1, 1)
        for sign in signs:
            found: dict[Cell, Fraction] = {}
            for row, count, place in vector:
                rows, unit = part.class_of.get(row, [row]), self._unit(part.columns[0]) or Fraction(1)
                if not self._share(part.columns[place], rows, sign * count, unit * part.units[place], moved, found):
                    break
            else:
                return found
        return None

    def _share(
        self,
        name: str,
        rows: Sequence[int],
        count: int,
        unit: Fraction,
        moved: Mapping[Cell, Fraction],
        found: dict[Cell, Fraction],
    ) -> bool:
        """Deal out units among the records of a class: one to each who is left, then as there is room."""
        wanted, up = abs(count), count > 0
        present = [r for r in rows if self.truth[name][r] is not None]
        first = [r for r in present if (name, r) in self.left and (name, r) not in moved]
        for only_one, several in ((True, first), (False, present)):
            for r in several:
                if not wanted:
                    return True
                cell = (name, r)
                at = self.at[name][r] + moved.get(cell, Fraction(0)) + found.get(cell, Fraction(0))
                room = min(self._room(cell, at, unit, up=up), wanted, 1 if only_one else wanted)
                if room:
                    found[cell] = found.get(cell, Fraction(0)) + (room if up else -room) * unit
                    wanted -= room
        return not wanted

    def _room(self, cell: Cell, at: Fraction, unit: Fraction, *, up: bool) -> int:
        """How many units a value may move in a direction, by its domain and by what facts say of it alone."""
        name, row = cell
        room = self.domains[name].room(at, unit, up=up)
        for rows, fact in self.facts:
            end = number(fact.get("max" if up else "min"))
            if end is not None and fact["column"] == name and row in rows:
                room = min(room, max(int((end - at) / unit if up else (at - end) / unit), 0))
        return room

    # --- tables that the checker finds by itself ----------------------------------------------------------------------

    def _search(self) -> None:
        """Tables near the true one, and all tables where there are few: made together, run one by one."""
        tried, seen = 0, set[str]()
        candidates = islice(self._candidates(), MOST_DRAWN)
        while self.left and tried < MOST_TRIED:
            batch: list[Change] = []
            for change in candidates:
                key = repr(sorted(change.items(), key=repr))
                if key not in seen and any(cell in self.left for cell in change) and self._is_inside(change):
                    seen.add(key)
                    batch.append(change)
                if len(batch) == BATCH:
                    break
            if not batch:
                return
            tried += len(batch)
            try:
                self.engine.fill_tables([self._table(change) for change in batch])
            except Cannot:
                continue
            for k, change in enumerate(batch):
                self.engine.pick(k)
                if any(cell in self.left for cell in change) and self._gives_the_answers():
                    self._note(change)

    def _candidates(self) -> Iterator[Change]:
        cells = [(name, r) for name, held in self.truth.items() for r, v in enumerate(held) if v is not None]
        others = {cell: list(self._others(cell)) for cell in cells}
        listed = [[*others[cell], self.truth[cell[0]][cell[1]]] for cell in cells]
        everything = 1
        for each in listed:
            everything *= len(each)
        if everything <= 2 * MOST_TRIED:
            tables = [dict(zip(cells, values, strict=True)) for values in product(*listed)]
            self.random.shuffle(tables)
            for table in tables:
                yield {cell: v for cell, v in table.items() if exact(v) != self.at[cell[0]][cell[1]]}
            return
        for _ in range(4):
            picked = {cell: self.random.choice(others[cell]) for cell in sorted(self.left) if others[cell]}
            yield picked
        for cell in cells:
            yield from ({cell: value} for value in others[cell])
        yield from self._swaps()
        yield from self._balanced(cells)
        for one, two in combinations(cells, 2):
            yield from ({one: a, two: b} for a, b in product(others[one], others[two]))
        yield from self._further(cells, others)

    def _swaps(self) -> Iterator[Change]:
        names = [*((name,) for name in self.truth), tuple(self.truth)]
        for columns, (one, two) in product(dict.fromkeys(names), combinations(range(self.engine.n), 2)):
            change: Change = {}
            for c in columns:
                if self._may_swap(c, one, two) and self.at[c][one] != self.at[c][two]:
                    change |= {(c, one): self.truth[c][two], (c, two): self.truth[c][one]}
            if change:
                yield change

    def _balanced(self, cells: Sequence[Cell]) -> Iterator[Change]:
        """A few numbers that move so that weighted sums may stay."""
        numeric = [(cell, unit) for cell in cells if (unit := self._unit(cell[0])) is not None]
        shapes: tuple[tuple[int, tuple[int, ...]], ...] = (
            (2, (1, -1, 2, -2, 3, -3)),
            (3, (1, -1, 2, -2)),
            (4, (1, -1)),
        )
        for size, counts in shapes:
            for picked in combinations(numeric, size):
                for times in product(counts, repeat=size):
                    if size > 2 and sum(times) != 0:
                        continue
                    moved = {cell: self._moved(cell, k * unit) for (cell, unit), k in zip(picked, times, strict=True)}
                    if None not in moved.values():
                        yield moved

    def _further(self, cells: Sequence[Cell], others: Mapping[Cell, Sequence[Any]]) -> Iterator[Change]:
        """Several values at once, by chance."""
        movable = [cell for cell in cells if others[cell]]
        while movable:
            picked = self.random.sample(movable, self.random.randint(1, len(movable)))
            yield {cell: self.random.choice(others[cell]) for cell in picked}

    def _others(self, cell: Cell) -> Iterator[Any]:
        """Other values that a cell may have: all of a small domain, else some near, some of others, and the ends."""
        name, row = cell
        domain, value = self.domains[name], self.at[name][row]
        if domain.values is not None:
            yield from sorted((v for v in domain.values if v != value), key=str)
            return
        if isinstance(value, bool):
            yield not value
            return
        if not isinstance(value, Fraction):
            yield from sorted({v for v in self.at[name] if v not in (None, value)}, key=str)
            if isinstance(value, str):
                yield f"{value} or another"
            return
        step = domain.step or Fraction(1)
        near = [value + k * step for k in (1, -1, 2, -2, 3, -3)]
        if domain.lo is not None and domain.hi is not None and (domain.hi - domain.lo) / step <= FEW_VALUES:
            near = [domain.lo + k * step for k in range(int((domain.hi - domain.lo) / step) + 1)]
        listed = [*near, *(v for v in self.at[name] if v is not None), domain.lo, domain.hi]
        yield from dict.fromkeys(v for v in listed if v is not None and v != value and v in domain)


def _largest_double(rows: Sequence[tuple[Any, ...]]) -> Fraction:
    """The largest DOUBLE of an answer, without its sign."""
    return max(
        (abs(Fraction(c)) for row in rows for c in row if isinstance(c, float) and isfinite(c)), default=Fraction(0)
    )


# --- what is possible ------------------------------------------------------------------------------------------------


def domains_of(
    engine: Engine, said: Mapping[str, Mapping[str, Any]], declared: Mapping[str, Mapping[str, Any]] | None
) -> dict[str, Domain]:
    """The values that each private column may have: declared, by the settings if they are given, or assumed here."""
    found = {}
    for name in engine.private:
        given = {k: v for k, v in (said.get(name) or {}).items() if v is not None}
        settings = None if declared is None else {k: v for k, v in (declared.get(name) or {}).items() if v is not None}
        if settings is not None and not _same_declaration(given, settings):
            raise Fails(f"it takes other values of {name} as possible than the settings declare")
        domain = Domain.of(given or engine.assumed_domain(name))
        whole = engine.columns.get(name, engine.types[name]) in INTEGERS and domain.step is None
        found[name] = replace(domain, step=Fraction(1)) if whole else domain
    return found


def _same_declaration(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    if one.keys() != two.keys():
        return False
    return all(
        list(map(plain, one[k])) == list(map(plain, two[k]))
        if isinstance(one[k], list | tuple) and isinstance(two[k], list | tuple)
        else plain(one[k]) == plain(two[k])
        for k in one
    )
