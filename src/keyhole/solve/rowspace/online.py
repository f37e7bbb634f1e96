"""Would this query expose anybody, given all queries answered so far? Decided from query sets alone, in O(r^2 + n).

    s = g summed over q                                    the same query on a secret shadow column g
    y = rows of T of the pivots inside q, summed           weights that agree with q on the pivots
    delta = s - y.(A g); zero for all g: q is dependent, it tells nothing new
    j = a record with rho = q_j - y.a_j != 0               sampled, else one pass over the records
    u = T a_j, f = delta / rho;  z'_k = z_k + f u_k,  z'_j = g_j - f      the null vector after q
    q exposes k  <=>  z'_k becomes zero                    k a pivot
    commit: border T by one row

Everything is modulo a secret random prime p between 2^30.5 and 2^31, with three secret shadow columns. Records, not
atoms, are the columns, so nothing ever splits.

What is promised. "Exposes" is checked exactly on demand (`certificate`). A query that is declared harmless although
over the rationals it is not needs either three shadow sums that vanish by chance (at most p^-3 < 2^-91 a query) or a
prime that divides the minors of the history: a log of r independent 0/1 queries has at most r log2(r + 1) / 61 such
primes of the 2.9 * 10^7 in the interval (Hadamard), below 6 * 10^-6 for r = 1,000, once for the whole history. The
prime comes from the generator given, by default seeded by the operating system, and is never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.modular import balance, random_prime
from keyhole.solve.rowspace import RowMatrix, RowSpace
from keyhole.solve.rowspace.proportional import Proportional
from keyhole.solve.rowspace.residues import dot
from keyhole.solve.rowspace.verify import verify

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LANES = 3
_LOW, _HIGH = 1518500250, 1 << 31  # 2^30.5 .. 2^31
_COMPILED_FROM = 1 << 15  # records
_TABLED_FROM = 1 << 10
_SAMPLE = 24
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(np.int64)  # of a byte


@dataclass(frozen=True, slots=True)
class Decision:
    """What one more query would do. Depends on query sets only, never on answers.

    `exposes`: records that become determined. `pairs` (insiders = 1): (record, insider) such that whoever knows the
    insider's value would learn the record's. `dependent`: the query is a combination of earlier ones.
    """

    dependent: bool
    exposes: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    _version: int = field(repr=False)
    _query: Probed = field(repr=False)
    _move: Move = field(repr=False)

    @property
    def safe(self) -> bool:
        """Nobody becomes determined, to outsiders or (insiders = 1) to any one other record."""
        return not self.exposes and not self.pairs

    @property
    def crosses(self) -> bool:
        """Does it tie the answers of different epochs to each other? Here all are of one epoch."""
        return False


class OnlineRowSpace:
    """The row space of the queries answered so far, one column per record; see the module for the method.

    Memory: n/8 bytes and 8 r bytes a committed query (r independent ones so far), 24 n bytes for shadows.
    Cost of `probe`: O(r^2) and one or two passes over the n records; of `commit`: O(r^2 + n).

    >>> S = OnlineRowSpace(4)
    >>> S.commit(S.probe({0: 1, 1: 1, 2: 1, 3: 1}))
    0
    >>> S.commit(S.probe({0: 1, 1: 1}))
    1
    >>> S.probe({0: 1, 1: 1, 2: 1}).exposes
    (2, 3)
    >>> S.probe({2: 1, 3: 1}).dependent
    True
    >>> S.certificate(S.probe({0: 1, 1: 1, 2: 1}), 3)
    {0: Fraction(1, 1), 2: Fraction(-1, 1)}
    """

    def __init__(
        self, n: int, *, insiders: int = 0, lanes: int = LANES, rng: np.random.Generator | None = None
    ) -> None:
        if n < 1:
            raise ValueError(f"need at least one record, got n = {n}")
        if insiders not in (0, 1):
            raise ValueError(f"insiders = {insiders} is not supported; use 0 or 1")
        self.n, self.insiders, self.lanes = n, insiders, lanes
        self._rng = rng if rng is not None else np.random.default_rng()
        self._p = random_prime(self._rng, _LOW, _HIGH)
        self._g = self._rng.integers(1, self._p, size=(n, lanes), dtype=np.int64)
        self._T = np.zeros((16, 16))  # residues 0..p-1; exact: sums of 2^22 of them stay below 2^53
        self._c = np.zeros((16, lanes), dtype=np.int64)
        self._z = np.zeros((16, lanes), dtype=np.int64)
        self._pivots = np.zeros(16, dtype=np.int64)
        self._pivot_at = np.full(n, -1, dtype=np.int64)
        self._blocks: list[Words] = []  # bit b of blocks[w][k]: record k is in independent query 64 w + b
        self._weighted: dict[int, Probed] = {}
        self._numbers: list[int] = []  # public number of each independent query
        self._shared: set[tuple[int, int]] = set()
        self._ratios: Proportional | None = None
        self._unsettled = False
        self._searching = 0.0  # share of the latest rows for whose pivot all records were searched
        self.rank = 0
        self.committed = 0

    def probe(self, query: NDArray[np.uint64] | Mapping[int, int]) -> Decision:
        """What answering `query` would reveal: bits over the records (ceil(n/64) words) or {record: weight}."""
        if self._unsettled:
            self._settle()
        row = Probed.of(query, self.n)
        move = self._move(row)
        pivots = np.append(self._pivots[: self.rank], move.pivot)
        exposes = self._exposed(move.null, pivots)
        pairs = self._pairs(move.null, pivots) if self.insiders else ()
        if move.follows:
            return Decision(True, (), (), self.committed, row, move)
        return Decision(False, exposes, pairs, self.committed, row, move)

    def take(self, query: NDArray[np.uint64] | Mapping[int, int]) -> bool:
        """A query answered before: into the history unless it follows from it (False), without naming anybody.

        Whom all that was taken exposes is found once, at the next probe, and is not new then.
        """
        row = Probed.of(query, self.n)
        y, sums, delta = self._difference(row)
        if not delta.any():
            return False
        self._advance(row, self._move_by(row, y, sums, delta))
        self._unsettled = True
        return True

    def commit(self, decision: Decision) -> int:
        """The query of `decision` was answered: take it into the history. Returns its number, from 0."""
        self._current(decision)
        number = self.committed
        if decision._move.follows:
            self.pass_over(decision)
            self.committed += 1
        else:
            self._advance(decision._query, decision._move)
            self._shared.update(decision.pairs)
        return number

    def pass_over(self, decision: Decision) -> None:
        """The work of `commit` for a row that follows from the history: T is bordered by zeros. It changes nothing."""
        self._current(decision)
        self._border(decision._move)

    def _border(self, move: Move) -> None:
        p, r = self._p, self.rank
        self._grow(r + 1)
        bottom = np.append((p - move.y) * move.rho_inverse % p, move.rho_inverse) * (not move.follows)
        border(self._T, r, move.u, bottom, p, self.n >= _COMPILED_FROM)

    def _advance(self, row: Probed, move: Move) -> None:
        """An independent row into the history: T bordered by it."""
        r = self.rank
        self._border(move)
        self._c[r] = move.sums
        self._z[: r + 1] = move.null
        self._pivots[r] = move.pivot
        self._pivot_at[move.pivot] = r
        if r % 64 == 0:
            self._blocks.append(np.zeros(self.n, dtype=np.uint64))
        if row.mask is not None:
            self._blocks[-1] |= row.mask.astype(np.uint64) << np.uint64(r % 64)
        else:
            self._weighted[r] = row
        self._numbers.append(self.committed)
        self.committed += 1
        self.rank = r + 1

    def exposed(self) -> Ints:
        """Records determined by the history (none, as long as only safe queries were committed)."""
        return np.sort(self._pivots[: self.rank][~self._z[: self.rank].any(axis=1)])

    def certificate(self, decision: Decision, record: int, insider: int | None = None) -> dict[int, Fraction] | None:
        """Exact weights over committed queries, and the probed one (number `committed`), that give e_record.

        With an insider: weights that give e_record + beta e_insider for some rational beta, that is, the record's
        value once the insider's is subtracted. Verified in integers over all records; None when there are none.
        """
        return self._certified(decision, [record] if insider is None else [record, insider])

    def _certified(self, decision: Decision, columns: list[int]) -> dict[int, Fraction] | None:
        """Exact weights for a form that is 1 on the first column, anything on the others given, and 0 elsewhere."""
        self._current(decision)
        r, move = self.rank, decision._move
        pivots = self._pivots[:r] if move.follows else np.append(self._pivots[:r], move.pivot)
        lines = [self._line(int(at), move) for k in columns for at in np.flatnonzero(pivots == k)]
        if not lines:
            return None
        # Only queries with a non-zero weight mod p can matter; solve exactly over those.
        used = np.flatnonzero(np.any(np.array(lines) != 0, axis=0))
        matrix = self._matrix(used, decision)
        names = [*self._numbers, self.committed]
        found = small_proof(matrix, np.array(lines[0])[used], columns[0], self._p) if len(columns) == 1 else None
        if found is None:
            found = express(matrix, columns, self._rng)
        return None if found is None else {names[int(used[i])]: w for i, w in sorted(found.items())}

    # -- parts of a probe -------------------------------------------------------------------------------------

    def _difference(self, row: Probed) -> tuple[Ints, Ints, Ints]:
        """Weights of the history, the row's shadow sums, and what of them the history does not explain: y, s, delta."""
        y = self._weights(row.at(self._pivots[: self.rank]))
        sums = self._shadow_sums(row)
        return y, sums, (sums - dot(y, self._c[: self.rank], self._p)) % self._p

    def _move(self, row: Probed) -> Move:
        """What the row would do to the state: nothing, if it follows from the history."""
        return self._move_by(row, *self._difference(row))

    def _move_by(self, row: Probed, y: Ints, sums: Ints, delta: Ints) -> Move:
        p, r = self._p, self.rank
        follows = not delta.any()
        pivot, rho = self._new_pivot(row, y, follows)
        if pivot < 0:  # independent, although no record shows it: excluded by exact arithmetic mod p
            raise ArithmeticError("shadow sums disagree with the records; the state is damaged")
        rho_inverse = pow(rho, -1, p)
        u = self._transformed(self._column(pivot))
        f = delta * rho_inverse % p
        null = np.empty((r + 1, self.lanes), dtype=np.int64)
        null[:r] = (self._z[:r] + u[:, None] * f % p) % p
        null[r] = (self._g[pivot] - f) % p
        return Move(pivot, y, rho_inverse, u, null, sums, follows)

    def _settle(self) -> None:
        """Pairs that what was taken gave away are known from now on."""
        self._unsettled = False
        if self.insiders:
            self._shared.update(self._pairs(self._z[: self.rank], self._pivots[: self.rank]))

    def _shadow_sums(self, row: Probed) -> Ints:
        if row.mask is None:
            return dot(row.entries % self._p, self._g[row.columns], self._p)
        if self.n >= _COMPILED_FROM:
            from keyhole.solve.rowspace.online_kernels import masked_sums

            out: Ints = masked_sums(row.mask, self._g)
        else:
            out = self._g[row.mask].sum(axis=0)
        return out % self._p

    def _weights(self, inside: Ints) -> Ints:
        """inside T mod p: weights that agree with the query on the pivots."""
        r = self.rank
        if self.n >= _COMPILED_FROM and r and inside.min() >= 0 and inside.max() <= 1:
            from keyhole.solve.rowspace.online_kernels import sum_rows

            total: Floats = sum_rows(self._T, np.flatnonzero(inside), r)
            out: Ints = total.astype(np.int64) % self._p
            return out
        return self._mod_product(inside % self._p, self._T[:r, :r])

    def _transformed(self, column: Ints) -> Ints:
        """T column mod p."""
        r = self.rank
        if self.n >= _COMPILED_FROM and r and column.min() >= 0 and column.max() <= 1:
            from keyhole.solve.rowspace.online_kernels import sum_columns

            total: Floats = sum_columns(self._T, column.astype(np.float64), r)
            out: Ints = total.astype(np.int64) % self._p
            return out
        return self._mod_product(column % self._p, self._T[:r, :r].T)

    def _mod_product(self, v: Ints, T: Floats) -> Ints:
        """v T mod p; v is split into short digits so that float64 products stay exact."""
        p = self._p
        total = np.zeros(T.shape[1], dtype=np.int64)
        width = 53 - 31 - len(v).bit_length()
        scale = 1
        while v.any():
            digit = v & ((1 << width) - 1)
            if digit.any():
                part = (digit.astype(np.float64) @ T).astype(np.int64) % p
                total = (total + part * scale) % p
            v = v >> width
            scale = (scale << width) % p
        return total

    def _column(self, record: int) -> Ints:
        """Column `record` of the history: its entry in each independent query."""
        r = self.rank
        if not r:
            return np.zeros(0, dtype=np.int64)
        words = np.array([block[record] for block in self._blocks])
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")[:r].astype(np.int64)
        for i, row in self._weighted.items():
            bits[i] = row.at(np.array([record]))[0]
        return bits

    def _combined(self, y: Ints, records: Ints) -> Ints:
        """(y A) mod p at the given records: of many, eight queries at a time, by a table of sums of each byte."""
        total = np.zeros(len(records), dtype=np.int64)
        for w, block in enumerate(self._blocks):
            part = y[64 * w : 64 * w + 64]
            octets = np.ascontiguousarray(block[records]).view(np.uint8).reshape(len(records), 8)
            if len(records) < _TABLED_FROM:
                total += np.unpackbits(octets, axis=1, bitorder="little")[:, : len(part)] @ part
                continue
            for octet, eight in zip(octets.T, np.pad(part, (0, 64 - len(part))).reshape(8, 8), strict=True):
                if eight.any():
                    total += (_BITS @ eight)[octet]
        for i, row in self._weighted.items():
            total = (total + row.at(records) % self._p * int(y[i])) % self._p
        return total % self._p

    def _new_pivot(self, row: Probed, y: Ints, follows: bool) -> tuple[int, int]:
        """A record whose column is outside the span of the pivots' columns, with its rho; sampled, else searched.

        There is none if the row follows from the history: then any record stands for it, and the same work is done, so
        that the time of a decision does not tell that somebody asked the same before. It searches as often as the rows
        before it that were new.

        Half of the sample is from the row's own records: a small group is missed by records drawn from all. What is
        left to the search are rows that differ from what was told by a few records, as attacks do.
        """
        p = self._p
        own = row.columns if row.mask is None else np.flatnonzero(row.mask)
        records = self._rng.integers(0, self.n, size=_SAMPLE)
        if len(own):
            records = np.append(own[self._rng.integers(0, len(own), size=_SAMPLE)], records)
        rho = (row.at(records) - self._combined(y, records)) % p
        hit = np.flatnonzero(rho)
        if follows:
            searches = self._rng.random() < self._searching
        else:
            searches = not len(hit)
            self._searching += (searches - self._searching) / 16
        if not searches:
            return (int(records[0]), 1) if follows else (int(records[hit[0]]), int(rho[hit[0]]))
        if self.n >= _COMPILED_FROM:
            from keyhole.solve.rowspace.online_kernels import combined_everywhere

            total = combined_everywhere(self._blocks, y, self.n)
            for i, weighted in self._weighted.items():
                total[weighted.columns] += weighted.entries % p * int(y[i]) % p
        else:
            total = self._combined(y, np.arange(self.n))
        full = row.mask.astype(np.int64) if row.mask is not None else row.at(np.arange(self.n))
        rho = (full - total) % p
        hit = np.flatnonzero(rho)
        if follows:
            return int(records[0]), 1
        if not len(hit):
            return -1, 0
        return int(hit[0]), int(rho[hit[0]])

    def _exposed(self, null: Ints, pivots: Ints) -> tuple[int, ...]:
        """Records whose null vectors become zero."""
        fresh = np.append(self._z[: self.rank].any(axis=1), True) & ~null.any(axis=1)
        return tuple(sorted(pivots[fresh].tolist()))

    def _pairs(self, null: Ints, pivots: Ints) -> tuple[tuple[int, int], ...]:
        """(record, insider) that become a pair: see `Proportional`."""
        if self._ratios is None:
            self._ratios = Proportional(self._g, self._p)
        return tuple(sorted(self._ratios.pairs(null, pivots) - self._shared))

    # -- state ------------------------------------------------------------------------------------------------

    def _current(self, decision: Decision) -> None:
        if decision._version != self.committed:
            raise ValueError(
                f"this decision was made after {decision._version} queries, now there are {self.committed}; "
                "probe the query again"
            )

    def _grow(self, rows: int) -> None:
        have = len(self._c)
        if rows <= have:
            return
        size = max(rows, have * 3 // 2)
        r = self.rank
        T = np.zeros((size, size))
        T[:r, :r] = self._T[:r, :r]
        self._T = T
        for name in ("_c", "_z"):
            wider = np.zeros((size, self.lanes), dtype=np.int64)
            wider[:r] = getattr(self, name)[:r]
            setattr(self, name, wider)
        pivots = np.zeros(size, dtype=np.int64)
        pivots[:r] = self._pivots[:r]
        self._pivots = pivots

    def _line(self, at: int, move: Move) -> Ints:
        """Row `at` of T after the move: weights mod p over the independent queries (and the probed one)."""
        p, r = self._p, self.rank
        old = self._T[at, :r].astype(np.int64) if at < r else np.zeros(r, dtype=np.int64)
        if move.follows:
            return old
        bottom = np.append((p - move.y) * move.rho_inverse % p, move.rho_inverse)
        if at == r:
            return bottom
        line: Ints = (np.append(old, 0) - int(move.u[at]) * bottom % p) % p
        return line

    def _matrix(self, used: Ints, decision: Decision) -> RowMatrix:
        """The queries `used` (r is the probed one) as rows over the records."""
        parts = []
        for i in used.tolist():
            row = decision._query if i == self.rank else self._weighted.get(i)
            if row is None:
                block = self._blocks[i // 64]
                mask = ((block >> np.uint64(i % 64)) & np.uint64(1)).astype(np.bool_)
            elif row.mask is not None:
                mask = row.mask
            else:
                items = zip(row.columns.tolist(), row.entries.tolist(), strict=True)
                parts.append(RowMatrix.from_sparse([dict(items)], self.n))
                continue
            padded = np.zeros(((self.n + 63) // 64) * 64, dtype=np.uint8)
            padded[: self.n] = mask
            words = np.packbits(padded, bitorder="little").view(np.uint64)
            parts.append(RowMatrix.from_bits(words[None, :], self.n))
        return RowMatrix.stack(parts)


@dataclass(frozen=True, slots=True)
class Move:
    """The bordering of T that a committed query makes."""

    pivot: int
    y: Ints
    rho_inverse: int
    u: Ints
    null: Ints  # (r + 1, lanes): z' of the old pivots and of the new one
    sums: Ints  # (lanes,)
    follows: bool  # from the history: then `pivot` is any record, and nothing moves


def border(T: Floats, r: int, u: Ints, bottom: Ints, p: int, compiled: bool) -> None:
    """T <- [[T - u bottom[:r], -u bottom[r]], [bottom]] mod p, in place."""
    if compiled:
        from keyhole.solve.rowspace import online_kernels

        online_kernels.border(T, r, u, bottom, p)
        return
    T[:r, : r + 1] = (T[:r, : r + 1].astype(np.int64) - u[:, None] * bottom % p) % p
    T[r, : r + 1] = bottom


@dataclass(frozen=True, slots=True)
class Probed:
    """A row over the records: `mask` for 0/1 rows, else columns and integer entries."""

    mask: NDArray[np.bool_] | None
    columns: Ints
    entries: Ints

    def at(self, records: Ints) -> Ints:
        """The entries of the row at the given records."""
        if self.mask is not None:
            return self.mask[records].astype(np.int64)
        if not len(self.columns):
            return np.zeros(len(records), dtype=np.int64)
        spot = np.minimum(np.searchsorted(self.columns, records), len(self.columns) - 1)
        return np.where(self.columns[spot] == records, self.entries[spot], 0)

    @classmethod
    def of(cls, query: NDArray[np.uint64] | Mapping[int, int], n: int) -> Probed:
        """Bits over n records (ceil(n/64) words) or {record: weight}; ValueError for anything else."""
        none = np.zeros(0, dtype=np.int64)
        if isinstance(query, np.ndarray):
            words = np.ascontiguousarray(query, dtype=np.uint64)
            if words.shape != ((n + 63) // 64,):
                raise ValueError(f"bits of shape {words.shape}; {n} records need ({(n + 63) // 64},)")
            bits = np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_)
            if bits[n:].any():
                raise ValueError(f"bits are set beyond record {n - 1}")
            return cls(bits[:n], none, none)
        items = sorted((int(k), int(v)) for k, v in query.items() if v)
        bad = next((k for k, _ in items if not 0 <= k < n), None)
        if bad is not None:
            raise ValueError(f"record {bad}; records run from 0 to {n - 1}")
        columns = np.array([k for k, _ in items], dtype=np.int64)
        if all(v == 1 for _, v in items):
            mask = np.zeros(n, dtype=bool)
            mask[columns] = True
            return cls(mask, none, none)
        if any(abs(v) >= 1 << 62 for _, v in items):
            raise ValueError("weights of 2^62 and more are not supported online; scale the weights down")
        return cls(None, columns, np.array([v for _, v in items], dtype=np.int64))


def small_proof(matrix: RowMatrix, line: Ints, record: int, p: int) -> dict[int, Fraction] | None:
    """The row of T itself when d times it, d = 1..12, is a vector of small integers; verified exactly."""
    for d in range(1, 13):
        scaled = [balance(int(w) * d, p) for w in line.tolist()]
        if max(abs(v) for v in scaled) < 1 << 12:
            weights = {i: Fraction(v, d) for i, v in enumerate(scaled) if v}
            if verify(matrix, weights, {record: 1}):
                return weights
    return None


def express(matrix: RowMatrix, columns: list[int], rng: np.random.Generator) -> dict[int, Fraction] | None:
    """Exact weights for e_record (one column), or for e_record + beta e_insider (two)."""
    if len(columns) == 1:
        return RowSpace(matrix, rng=rng).express({columns[0]: 1})
    # Without the insider's column, the record must be determined outright.
    return RowSpace(matrix.restricted(np.arange(matrix.m), np.array(columns[1:])), rng=rng).express({columns[0]: 1})


# --- direct sum -------------------------------------------------------------------------------------------------------
# Would this query expose anybody, whoever changed between the epochs? The row spaces of epochs must stay apart.
# M has one column a person and the rows of all epochs; A_e are the rows of epoch e. Safe for every set of changes iff
# R1 no nonzero form on one person (insiders = 1: on two) is in the row space of M R2 rank M = sum of rank A_e: the
# row spaces of the epochs form a direct sum
# (docs/how-it-works.md has the proof.) For a query q of the current epoch, after a history with R1 and R2: R2 is
# broken iff q depends on M and not on its own epoch's rows alone.


Query = NDArray[np.uint64] | Mapping[int, int]


@dataclass(frozen=True, slots=True)
class SumDecision:
    """What one more query of the current epoch would do; `dependent` means on its own epoch's queries alone.

    `crosses`: it depends on earlier epochs' queries (R2), so whoever knows that a single person changed would learn
    by how much.
    """

    dependent: bool
    exposes: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    crosses: bool
    _query: Query = field(repr=False)
    _merged: Decision = field(repr=False)

    @property
    def safe(self) -> bool:
        """Nobody becomes determined, whoever changed."""
        return not self.exposes and not self.pairs and not self.crosses


class DirectSum:
    """The row spaces of several epochs, one column a person; see the module for the rule.

    Two `OnlineRowSpace`s: all epochs, and the current one. A false "safe" needs bad luck in one of them. Cost of
    `probe`: that of one of them, and of the other where the query depends on the history; of `commit`: both.

    >>> S = DirectSum(4)
    >>> S.earlier({0: 1, 1: 1, 2: 1, 3: 1})  # answered in an earlier epoch
    True
    >>> S.probe({0: 1, 1: 1, 2: 1, 3: 1}).crosses  # the same question now: a raise
    True
    >>> S.commit(S.probe({0: 1, 1: 1}))
    1
    >>> S.probe({0: 1, 1: 1}).dependent, S.probe({2: 1, 3: 1}).crosses, S.probe({1: 1, 2: 1, 3: 1}).exposes
    (True, True, (0, 1))
    """

    def __init__(self, n: int, *, insiders: int = 0, rng: np.random.Generator | None = None) -> None:
        self._all = OnlineRowSpace(n, insiders=insiders, rng=rng)
        self._now = OnlineRowSpace(n, rng=rng)

    def earlier(self, query: Query) -> bool:
        """A query answered in an earlier epoch; False if it follows from those before it, and so adds nothing."""
        return self._all.take(query)

    def take(self, query: Query) -> bool:
        """A query answered in the current epoch; False if it follows from those before it in its epoch."""
        if not self._now.take(query):
            return False
        if not self._all.take(query):  # it was said although it crosses: it has its number all the same
            self._all.commit(self._all.probe(query))
        return True

    def probe(self, query: Query) -> SumDecision:
        """What answering `query` in the current epoch would reveal."""
        merged = self._all.probe(query)
        own = merged.dependent and self._now.probe(query).dependent
        return SumDecision(own, merged.exposes, merged.pairs, merged.dependent and not own, query, merged)

    def commit(self, decision: SumDecision) -> int:
        """The query of `decision` was answered. Returns its number among all epochs', from 0."""
        number = self._all.commit(decision._merged)
        self._now.take(decision._query)
        return number

    def pass_over(self, decision: SumDecision) -> None:
        """The work of `commit` for a query that follows from the history; it changes nothing."""
        self._all.pass_over(decision._merged)

    def certificate(self, decision: SumDecision, record: int, insider: int | None = None) -> dict[int, Fraction] | None:
        """Exact weights that give the record if nobody changed; see `OnlineRowSpace.certificate`."""
        return self._all.certificate(decision._merged, record, insider)
