"""The same question where the people are: would this sum expose anybody? Nothing of size n leaves the engine.

`OnlineRowSpace` holds a bit a person and answer. Here a row is what a statement says, SUM of c * [condition], and the
engine is asked: for the row's sums of three secret numbers (lanes) that stand beside each person in the public half;
for its entries at the r pivots, by their row numbers; for a person whose entry the history does not explain, among a
few that it delivers first, else by one pass that ends with the first; and for that person's entries in the history.

    g = g1 + 2^31 g2 + 2^62 g3 a lane of 93 random bits;  s = g summed over q
    y = (q at the pivots) T;  delta = s - y . c;  0: q is a combination of what was answered
    j with rho = q_j - y . a_j != 0;  u = T a_j, f = delta / rho;  z'_k = z_k + f u_k,  z'_j = g_j - f
    q exposes k  <=>  z'_k becomes zero

All of it is modulo a secret random prime p between 2^108 and 2^109, in Python's integers. An allow is false only if

- the lanes of a vector that is not 0 mod p add up to 0: at most 2^-93 a decision;
- p divides every largest minor of the history, or of the history and a query that was taken for a combination of it.
  One of them is not 0, and below its Hadamard bound in size, so few primes of that interval divide it; there are more
  than 3x / (5 ln x) > 2^101 with x = 2^108 (Rosser and Schoenfeld 1962, corollary 3 of theorem 2);
- p is no prime: at most 2^-100 by 50 rounds of Miller and Rabin.

`false_allow` is the sum of these, for the decisions so far and this history.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, gcd, lcm, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.engines.engine import Engine, fetch_rows
from keyhole.engines.roster import LANES
from keyhole.errors import UnsupportedQuery
from keyhole.model.forms import Part
from keyhole.model.predicate import Predicate
from keyhole.solve.modular import balance, is_prime

LANE_BITS = 31
PRIME_BITS, PRIMES, ROUNDS = 108, 101, 50  # see the module
MOST_CHANCE = 2.0**-60  # of a false allow: beyond that nothing is decided any more
SAMPLE = 24
AT_ONCE = 1000  # items in one SELECT: PostgreSQL stops at 1,664 columns
SMALL = 1 << 40
Integers = NDArray[Any]


@dataclass(frozen=True, slots=True)
class AskedRow:
    """`scale` times a form, in integers: the sum of weight * [condition]. No data is looked at to make it."""

    parts: tuple[tuple[int, Predicate], ...]
    scale: Fraction

    @classmethod
    def of(cls, parts: Sequence[Part]) -> AskedRow:
        """Of parts over one private column, without public weights.

        >>> from keyhole.model.predicate import TRUE
        >>> AskedRow.of([Part(0, TRUE, Fraction(3, 2)), Part(0, TRUE, Fraction(5, 2))])
        AskedRow(parts=((1, Constant(value=True)),), scale=Fraction(1, 4))
        """
        if any(part.weight is not None for part in parts):
            raise UnsupportedQuery(
                "a sum with public weights is not decided in the engine of the data: ask for a sum without weights, or "
                'set decide = "client" under [source]'
            )
        factors: dict[Predicate, Fraction] = {}
        for part in parts:
            factors[part.where] = factors.get(part.where, Fraction(0)) + part.factor
        held = {where: factor for where, factor in factors.items() if factor}
        over = lcm(*(factor.denominator for factor in held.values()))
        common = gcd(*(int(factor * over) for factor in held.values())) or 1
        made = cls(tuple((int(f * over) // common, where) for where, f in held.items()), Fraction(over, common))
        if made.size >= 1 << LANE_BITS:
            raise UnsupportedQuery("its factors are too large to be decided exactly: scale or round them")
        return made

    @property
    def counts(self) -> bool:
        """Is it 0 or 1 on everybody?"""
        return len(self.parts) == 1 and self.parts[0][0] == 1

    @property
    def size(self) -> int:
        """Its entries are at most that large."""
        return max(sum(abs(weight) for weight, _ in self.parts), 1)


@dataclass(frozen=True, slots=True, eq=False)
class EngineMove:
    """What a row would do to the state: see the module."""

    pivot: int
    y: Integers
    rho_inverse: int
    u: Integers
    null: Integers
    sum: int


@dataclass(frozen=True, slots=True, eq=False)
class EngineDecision:
    """What one more row would do; as `Decision` of `OnlineRowSpace`."""

    exposes: tuple[int, ...]
    version: int
    row: AskedRow
    move: EngineMove | None
    pairs: tuple[tuple[int, int], ...] = ()
    crosses: bool = False

    @property
    def dependent(self) -> bool:
        """Is it a combination of what was answered?"""
        return self.move is None


class EngineSpace:
    """The row space of what was answered about one private column, over people who stay where they are.

    Memory: O(r^2) for r independent answers, whatever n is. Cost of `probe`: one pass of the engine for the lanes, a
    look at r rows, and for what differs from the history by a few people one pass more.
    """

    def __init__(self, engine: Engine, table: str, row: str, prime: int | None = None) -> None:
        self._engine, self._table, self._row = engine, table, row
        self._p = prime if prime is not None else _random_prime()
        self._T: Integers = np.zeros((0, 0), dtype=object)
        self._c: list[int] = []
        self._z: list[int] = []
        self._pivots: list[int] = []
        self._rows: list[AskedRow] = []
        self._numbers: list[int] = []
        self.committed = 0
        self._decided = [0]  # shared by copies: what was tried and thrown away counts

    @property
    def rank(self) -> int:
        """How many answers are independent."""
        return len(self._rows)

    def __deepcopy__(self, memo: dict[int, Any]) -> EngineSpace:
        twin = copy.copy(self)  # the connection and the counter are shared
        for name in ("_c", "_z", "_pivots", "_rows", "_numbers"):
            setattr(twin, name, list(getattr(self, name)))
        twin._T = self._T.copy()
        return twin

    def probe(self, query: AskedRow) -> EngineDecision:
        """What answering would reveal; changes nothing. Refused where too little would be promised."""
        self._decided[0] += 1
        if self.false_allow() >= MOST_CHANCE:
            raise UnsupportedQuery(
                f"after {self._decided[0]:,} decisions and {self.rank:,} independent answers the chance of a false "
                "allow is no longer below 2^-60, so nothing more is decided in the engine of the data"
            )
        move = self._move(query)
        if move is None:
            return EngineDecision((), self.committed, query, None)
        pivots = [*self._pivots, move.pivot]
        before = [*self._z, 1]
        exposed = [k for k, was, now in zip(pivots, before, move.null.tolist(), strict=True) if was and not now]
        return EngineDecision(tuple(sorted(exposed)), self.committed, query, move)

    def commit(self, decision: EngineDecision) -> int:
        """The row was answered: it counts from now on. Returns its number, from 0."""
        if decision.version != self.committed:
            raise ValueError("this decision was made before another answer was committed: probe the query again")
        number, move, p, r = self.committed, decision.move, self._p, self.rank
        self.committed += 1
        if move is None:
            return number
        bottom = np.append(-move.y * move.rho_inverse % p, move.rho_inverse)
        T = np.zeros((r + 1, r + 1), dtype=object)
        T[:r, :r] = self._T
        for k in np.flatnonzero(move.u).tolist():
            T[k] = (T[k] - int(move.u[k]) * bottom) % p
        T[r] = bottom
        self._T = T
        self._c.append(move.sum)
        self._z = move.null.tolist()
        self._pivots.append(move.pivot)
        self._rows.append(decision.row)
        self._numbers.append(number)
        return number

    def pass_over(self, decision: EngineDecision) -> None:
        """Nothing: what takes long here are the engine's statements, and those are behind it."""

    def exposed(self) -> list[int]:
        """Records that what was committed determines."""
        return sorted(k for k, z in zip(self._pivots, self._z, strict=True) if not z)

    def count(self, query: AskedRow) -> int:
        """How many people a row is about."""
        text = f"SELECT count(*) AS c FROM {self._table} WHERE {self._is_in(query)}"
        return int(fetch_rows(self._engine, text)[0][0])

    def false_allow(self) -> float:
        """The chance, over the secret prime and the lanes, that any of the decisions so far was a false allow."""
        size = max((row.size for row in self._rows), default=1)
        return bound_false_allow(self._decided[0], self.rank + 1, size)

    def certificate(
        self, decision: EngineDecision, record: int, insider: int | None = None
    ) -> dict[int, Fraction] | None:
        """Exact weights over the committed rows, and the probed one, that give the record: checked by one pass over all
        people. None where no short ones are found; the decision does not depend on it."""
        move, r, p = decision.move, self.rank, self._p
        pivots = [*self._pivots] if move is None else [*self._pivots, move.pivot]
        if record not in pivots or insider is not None:
            return None
        at = pivots.index(record)
        line = self._T[at] if at < r else np.zeros(0, dtype=object)
        if move is not None:
            bottom = np.append(-move.y * move.rho_inverse % p, move.rho_inverse)
            line = bottom if at == r else (np.append(line, 0) - int(move.u[at]) * bottom) % p
        rows, names = [*self._rows, decision.row], [*self._numbers, self.committed]
        for over in range(1, 13):
            scaled = [balance(int(w) * over, p) for w in line.tolist()]
            used = {i: w for i, w in enumerate(scaled) if w}
            if used and max(map(abs, used.values())) < 1 << 12:
                total = self._sum_of([(w * c, where) for i, w in used.items() for c, where in rows[i].parts])
                unit = f"CASE WHEN {self._row} = {record} THEN {over} ELSE 0 END"
                wrong = f"SELECT 1 AS one FROM {self._table} WHERE {total} <> {unit} LIMIT 1"
                if not fetch_rows(self._engine, wrong):
                    return {names[i]: Fraction(w, over) for i, w in used.items()}
        return None

    # --- what the engine is asked -------------------------------------------------------------------------------------

    def _move(self, query: AskedRow) -> EngineMove | None:
        p, r = self._p, self.rank
        total, ends = self._lanes_of(query)
        y = self._entries_at_pivots(query) @ self._T % p if r else np.zeros(0, dtype=object)
        delta = (total - sum(a * b for a, b in zip(y.tolist(), self._c, strict=True))) % p
        if not delta:  # the same statements all the same: the time would tell that somebody asked it before
            self._explained_by(query, y, ends)
            self._lane_at(ends[0] if ends else 0)
            return None
        pivot, rho, column = self._find_pivot(query, y, ends)
        inverse = pow(rho, -1, p)
        u = self._T @ column % p if r else np.zeros(0, dtype=object)
        f = delta * inverse % p
        null = np.empty(r + 1, dtype=object)
        null[:r] = [(z + f * int(each)) % p for z, each in zip(self._z, u.tolist(), strict=True)]
        null[r] = (self._lane_at(pivot) - f) % p
        return EngineMove(pivot, y, inverse, u, null, total % p)

    def _is(self, where: Predicate) -> str:
        return self._engine.spelling.condition(where)

    def _sum_of(self, parts: Sequence[tuple[int, Predicate]], *, wide: bool = False) -> str:
        """The sum of weight * [condition] on one row, where `wide` as a decimal of 38 digits."""
        kind = "DECIMAL(38, 0)" if wide else "BIGINT"
        items = (f"CASE WHEN {self._is(where)} THEN CAST({w} AS {kind}) ELSE 0 END" for w, where in parts)
        return f"({' + '.join(items) or '0'})"

    def _is_in(self, query: AskedRow) -> str:
        return self._is(query.parts[0][1]) if query.counts else f"{self._sum_of(query.parts)} <> 0"

    def _lanes_of(self, query: AskedRow) -> tuple[int, list[int]]:
        """The lanes summed over the row, and the first and the last record in it, in one pass."""
        if not query.parts:
            return 0, []
        entry = "" if query.counts else f"{self._sum_of(query.parts, wide=True)} * "
        items = [f"CAST(coalesce(sum({entry}{g}), 0) AS {self._text}) AS {g}" for g in LANES]
        items += [f"min({self._row}) AS a", f"max({self._row}) AS b"]
        text = f"SELECT {', '.join(items)} FROM {self._table} WHERE {self._is_in(query)}"
        *lanes, first, last = fetch_rows(self._engine, text)[0]
        return _joined(lanes), [] if first is None else sorted({int(first), int(last)})

    @property
    def _text(self) -> str:
        return self._engine.spelling.text

    def _lane_at(self, record: int) -> int:
        text = f"SELECT {', '.join(LANES)} FROM {self._table} WHERE {self._row} = {record}"
        return _joined(fetch_rows(self._engine, text)[0])

    def _entries_at_pivots(self, query: AskedRow) -> Integers:
        """The row at the pivots."""
        found = self._entries([query], self._pivots)
        return np.array([found[k][0] for k in self._pivots], dtype=object)

    def _entries(self, rows: Sequence[AskedRow], records: Sequence[int]) -> Mapping[int, list[int]]:
        """The entries of rows at records."""
        found: dict[int, list[int]] = {k: [] for k in records}
        listed = ", ".join(map(str, found))
        for start in range(0, len(rows), AT_ONCE):
            chunk = rows[start : start + AT_ONCE]
            items = ", ".join(f"{self._sum_of(row.parts)} AS c{i}" for i, row in enumerate(chunk))
            text = f"SELECT {self._row} AS r, {items} FROM {self._table} WHERE {self._row} IN ({listed})"
            for record, *entries in fetch_rows(self._engine, text):
                found[int(record)] += [int(entry) for entry in entries]
        return found

    def _find_pivot(self, query: AskedRow, y: Integers, ends: Sequence[int]) -> tuple[int, int, Integers]:
        """A record whose entry the history does not explain, by how much, and its entries in the history.

        The ends of the row are at hand; else a few that the engine delivers first, in the row and outside; else all.
        """
        chosen = self._explained_by(query, y, ends)
        if chosen is not None:
            return chosen
        inside, outside = (
            f"SELECT r FROM (SELECT {self._row} AS r FROM {self._table} WHERE {where} LIMIT {SAMPLE}) {name}"
            for name, where in (("a", self._is_in(query)), ("b", f"NOT coalesce({self._is_in(query)}, FALSE)"))
        )
        records = sorted({int(row[0]) for row in fetch_rows(self._engine, f"{inside} UNION ALL {outside}")})
        chosen = self._explained_by(query, y, records)
        if chosen is None:
            weights = [balance(int(w), self._p) for w in y.tolist()]
            parts = [(-w * c, at) for w, row in zip(weights, self._rows, strict=True) if w for c, at in row.parts]
            wide = sum(abs(w) for w, _ in parts) + query.size >= SMALL
            total = self._sum_of([*query.parts, *parts], wide=wide)
            differs = f"mod({total}, {self._p}) <> 0" if wide else f"{total} <> 0"
            found = fetch_rows(self._engine, f"SELECT {self._row} AS r FROM {self._table} WHERE {differs} LIMIT 1")
            chosen = self._explained_by(query, y, [int(row[0]) for row in found])
        if chosen is None:  # independent, although no record shows it
            raise ArithmeticError("the lanes disagree with the records: did the table change?")
        return chosen

    def _explained_by(self, query: AskedRow, y: Integers, records: Sequence[int]) -> tuple[int, int, Integers] | None:
        if not records:
            return None
        entries = self._entries([query, *self._rows], records)
        for record in records:
            own, *history = entries[record]
            column = np.array(history, dtype=object)
            rho = (own - int(y @ column)) % self._p if len(column) else own % self._p
            if rho:
                return record, rho, column
        return None


def bound_false_allow(decisions: int, rank: int, size: int = 1) -> float:
    """The chance that one of so many decisions is a false allow, with that many independent rows of entries up to size.

    >>> bound_false_allow(1_000_000, 10_000) < 2.0 ** -71
    True
    """
    minor = rank * log2(rank * size * size + 1) / 2  # bits of the largest there can be
    return decisions * 2.0**-93 + (decisions + 1) * ceil(minor / PRIME_BITS) * 2.0**-PRIMES + 2.0**-100


def _joined(lanes: Sequence[Any]) -> int:
    return sum(int(lane) << LANE_BITS * i for i, lane in enumerate(lanes))


def _random_prime() -> int:
    """A random prime between 2^108 and 2^109, of the system's entropy."""
    low = 1 << PRIME_BITS
    while not (is_prime(n := low + secrets.randbelow(low) | 1) and _passes(n)):
        pass
    return n


def _passes(n: int) -> bool:
    """No witness of Miller and Rabin among 50 random ones."""
    twos = (n - 1 & 1 - n).bit_length() - 1
    for _ in range(ROUNDS):
        x = pow(2 + secrets.randbelow(n - 3), n - 1 >> twos, n)
        powers = [x] + [x := x * x % n for _ in range(twos - 1)]
        if powers[0] != 1 and n - 1 not in powers:
            return False
    return True
