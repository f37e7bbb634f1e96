"""An independent judge: what a statement sums is found by running it, and who is exposed by exact elimination.

The engine runs each statement as it is written on tables that differ in private values only: all 0, one value at a time
set to STEP, and two at random. If the answers are affine in the private values (the random tables say so), differences
are the coefficients; a value is determined iff its unit vector is in their row space. Where answers are not affine,
every table with few values is run instead. Nothing here is shared with the code it judges.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import isclose, isfinite
from typing import Any

import duckdb
from tests.fuzz.statements import Made
from tests.fuzz.world import PUBLIC, Unknown, World

STEP = 2**4 * 3**3 * 5**2 * 7  # quotients by small counts and constants are whole, so that DOUBLE is exact
FAR = 2**26  # two values are tried at once, so far apart that their coefficients are read off one number
SLOW = (  # on a handful of rows planning is all the time there is
    "expression_rewriter,filter_pullup,filter_pushdown,join_order,unused_columns,statistics_propagation,"
    "common_subexpressions,common_aggregate,column_lifetime,compressed_materialization,duplicate_groups"
)
Row = dict[Unknown, Fraction]
Filling = dict[str, list[int | None]]
Shown = dict[tuple[Any, ...], list[tuple[Any, ...]]]  # rows by key


class Failed(Exception):
    """The engine does not run the statement."""


@dataclass(frozen=True)
class Affine:
    """What the answers say: rows of coefficients."""

    rows: tuple[Row, ...]


class Engine:
    """Many small tables that differ in private values only, each in a database of its own called up by number."""

    def __init__(self) -> None:
        self._con = duckdb.connect(":memory:")
        self._con.execute("SET threads = 1")
        self._con.execute(f"SET disabled_optimizers = '{SLOW}'")
        self._doors: dict[tuple[tuple[str, ...], int], duckdb.DuckDBPyConnection] = {}
        self._kinds: tuple[str, ...] = ()

    def place(self, world: World, fillings: Sequence[Filling]) -> None:
        """From now on table k has the private values of the k-th filling."""
        self._kinds = tuple(world.kinds.values())
        base = self._base()
        self._con.execute(f"DELETE FROM memory.{base}")
        rows = [
            (k, *(world.public[c][i] for c in PUBLIC), *(filling[c][i] for c in world.private))
            for k, filling in enumerate(fillings)
            for i in range(world.n)
        ]
        listed = ", ".join("(" + ", ".join(map(_literal, row)) + ")" for row in rows)
        self._con.execute(f"INSERT INTO memory.{base} VALUES {listed}")

    def run(self, sql: str, k: int) -> list[tuple[Any, ...]]:
        """The rows of a statement on table k."""
        try:
            return self._door(k).execute(sql).fetchall()
        except duckdb.Error as error:
            raise Failed(str(error)) from None

    def _base(self) -> str:
        name = "base_" + "_".join(kind.split("(")[0] for kind in self._kinds)
        columns = ", ".join([f"{c} {kind}" for c, kind in PUBLIC.items()])
        private = ", ".join(f"{c} {kind}" for c, kind in zip("xy", self._kinds, strict=True))
        self._con.execute(f"CREATE TABLE IF NOT EXISTS memory.{name} (k INTEGER, {columns}, {private})")
        return name

    def _door(self, k: int) -> duckdb.DuckDBPyConnection:
        at = (self._kinds, k)
        if at not in self._doors:
            base = self._base()
            name = f"{base}_{k}"
            door = self._con.cursor()
            door.execute(f"ATTACH ':memory:' AS {name}")
            listed = ", ".join((*PUBLIC, "x", "y"))
            door.execute(f"CREATE VIEW {name}.t AS SELECT {listed} FROM memory.{base} WHERE k = {k}")
            door.execute(f"USE {name}")
            self._doors[at] = door
        return self._doors[at]


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int | Decimal) else f"'{value}'"


class LinearTwin:
    """Coefficients by differences; place() a world, then ask about statements."""

    def __init__(self, engine: Engine, world: World, rng: random.Random) -> None:
        self.engine, self.world = engine, world
        zero: Filling = {c: [None if v is None else 0 for v in values] for c, values in world.private.items()}
        self._fillings = [zero]
        self._pairs = [world.unknowns[k : k + 2] for k in range(0, len(world.unknowns), 2)]
        for pair in self._pairs:
            filling = {c: list(values) for c, values in zero.items()}
            for (i, c), size in zip(pair, (STEP, STEP * FAR), strict=False):
                filling[c][i] = size
            self._fillings.append(filling)
        for _ in range(2):
            self._fillings.append(
                {c: [None if v is None else rng.randrange(-9999, 9999) for v in vs] for c, vs in world.private.items()}
            )
        self._fillings.append(world.private)
        engine.place(world, self._fillings)

    def answers(self, made: Made) -> list[tuple[Any, ...]]:
        """What the engine answers on the true table, as the statement is written."""
        return self.engine.run(made.sql, len(self._fillings) - 1)

    def read(self, made: Made) -> Affine | None:
        """What the statement says of private values; None if that is not affine."""
        width = len(made.items)
        runs = [self.engine.run(made.marked, k) for k in range(len(self._fillings) - 1)]
        found = [_by_key(rows, width) for rows in runs]
        if is_ordered(made.sql) and any(list(rows) != list(found[0]) for rows in found):
            return None  # the order of the rows is part of the answer
        return self._affine(found, width)

    def read_text(self, sql: str) -> Affine | None:
        """The same for any text: what is equal in all tables tells its rows apart; None also if nothing does."""
        runs = [self.engine.run(sql, k) for k in range(len(self._fillings) - 1)]
        if not all(runs) or max(map(len, runs)) == 1:
            wide = len(runs[0][0]) if runs[0] else 0
            return self._affine([_by_key(rows, wide) for rows in runs], wide)
        columns = range(len(runs[0][0]))
        columns_of = [[sorted(repr(row[c]) for row in rows) for c in columns] for rows in runs]
        keys = [c for c in columns if all(of[c] == columns_of[0][c] for of in columns_of)]
        moved = [[(*row, *(row[c] for c in keys)) for row in rows] for rows in runs]
        return self._affine([_by_key(rows, len(columns)) for rows in moved], len(columns))

    def _affine(self, found: list[Shown], width: int) -> Affine | None:
        zero, units, checks = found[0], found[1:-2], found[-2:]
        rows: list[Row] = []
        for key, shown in zero.items():
            if any(len(other.get(key, ())) != 1 for other in found) or len(shown) != 1:
                return None
            for at in range(width):
                cells = [other[key][0][at] for other in found]
                if not all(map(_is_number, cells)):
                    if any(repr(v) != repr(cells[0]) for v in cells):
                        return None
                    continue
                base = Fraction(cells[0])
                row: Row = {}
                for pair, v in zip(self._pairs, cells[1:-2], strict=True):
                    row |= _read_off(Fraction(v) - base, pair)
                for filling, said in zip(self._fillings[-3:-1], cells[-2:], strict=True):
                    want = base + sum((w * (filling[c][i] or 0) for (i, c), w in row.items()), Fraction(0))
                    if not isclose(float(want), float(said), rel_tol=1e-9, abs_tol=1e-6):
                        return None
                if row:
                    rows.append(row)
        if any(set(other) != set(zero) for other in (*units, *checks)):
            return None
        return Affine(tuple(rows))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and isfinite(value)


def _read_off(difference: Fraction, pair: Sequence[Unknown]) -> Row:
    """The coefficients of two values from a * STEP + b * STEP * FAR, where |a| * STEP < FAR / 2.

    >>> _read_off(Fraction(-3 * STEP + 2 * STEP * FAR), [(0, "x"), (1, "x")])
    {(0, 'x'): Fraction(-3, 1), (1, 'x'): Fraction(2, 1)}
    """
    if abs(difference - round(difference)) < Fraction(1, 100):
        difference = Fraction(round(difference))  # a quotient was added to it, as a DOUBLE
    far = round(difference / FAR) if len(pair) == 2 else 0
    parts = (difference - far * FAR, Fraction(far))
    return {u: part / STEP for u, part in zip(pair, parts, strict=False) if part}


def _by_key(rows: Iterable[tuple[Any, ...]], width: int) -> Shown:
    found: Shown = {}
    for row in rows:
        mine = found.setdefault(row[width:], [])
        if row[:width] not in mine:  # GROUPING SETS ((g), (g)) says everything twice
            mine.append(row[:width])
    return found


class RowSpace:
    """Reduced row echelon form over the rationals.

    >>> one, two = (0, "x"), (1, "x")
    >>> space = RowSpace([{one: Fraction(1), two: Fraction(1)}, {one: Fraction(1)}])
    >>> space.holds({two: Fraction(1)}), RowSpace([{one: Fraction(1), two: Fraction(1)}]).holds({two: Fraction(1)})
    (True, False)
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._pivots: dict[Unknown, Row] = {}
        for row in rows:
            left = self._reduced(row)
            if left:
                pivot = min(left)
                self._pivots[pivot] = {u: w / left[pivot] for u, w in left.items()}

    def _reduced(self, row: Row) -> Row:
        left = dict(row)
        for pivot, other in self._pivots.items():  # each was reduced by those before it
            if factor := left.get(pivot):
                for u, w in other.items():
                    left[u] = left.get(u, Fraction(0)) - factor * w
        return {u: w for u, w in left.items() if w}

    def holds(self, row: Row) -> bool:
        """Is this a combination of the rows?"""
        return not self._reduced(row)


class EveryTable:
    """All tables with private values from a few: what is left of them when their answers are the true ones."""

    def __init__(self, engine: Engine, world: World, values: Sequence[int]) -> None:
        self.engine, self.world = engine, world
        unknowns = world.unknowns
        self.tables: list[Filling] = []
        for chosen in product(values, repeat=len(unknowns)):
            filling: Filling = {c: [None] * world.n for c in world.private}
            for (i, c), v in zip(unknowns, chosen, strict=True):
                filling[c][i] = v
            self.tables.append(filling)
        self.at = self.tables.index(world.private)
        engine.place(world, self.tables)

    def answers(self, made: Made) -> list[tuple[Any, ...]]:
        """What the engine answers on the true table."""
        return self.engine.run(made.sql, self.at)

    def same(self, made: Made, among: set[int]) -> set[int]:
        """Those tables on which the statement has the same answer as on the true one, in the same order."""
        found = {k: self.seen(made, k) for k in {self.at, *among}}
        return {k for k, seen in found.items() if seen == found[self.at]}

    def seen(self, made: Made, k: int) -> tuple[list[str], list[str]]:
        """The rows, and the order in which they come where ORDER BY stands."""
        rows = sorted(written_rows(self.engine.run(made.marked, k)))
        return rows, written_rows(self.engine.run(made.sql, k)) if is_ordered(made.sql) else []


def written_rows(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Each row as a text, numbers to nine digits."""
    return [repr([f"{v:.9g}" if isinstance(v, float) else v for v in row]) for row in rows]


def is_ordered(sql: str) -> bool:
    """Does ORDER BY stand outside of all parentheses? Texts in quotes are taken for words.

    >>> is_ordered("SELECT g FROM t ORDER BY 1"), is_ordered("SELECT RANK() OVER (ORDER BY g) FROM t")
    (True, False)
    """
    outside, depth = [], 0
    for letter in sql:
        depth -= letter == ")"
        outside.append(" " if depth else letter)
        depth += letter == "("
    return "ORDER BY" in "".join(outside)
