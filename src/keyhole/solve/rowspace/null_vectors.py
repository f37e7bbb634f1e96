"""Integer null vectors that a table has room for: z with A z = 0, so that table + z gives the same answers.

    z = (1 on a free column, -B^-1 A_free on the pivots B), for each free column that somebody wants to move

The pivots are chosen among the columns with the most room: they take up what every free column moves, so where they are
groups of many people the vectors stay inside the table, and where A has few different rows they stay short. A vector is
found modulo a prime and accepted in integers only: A z = 0, and table + z or table - z inside all rooms. What is not
found says nothing. Cost: one echelon form, then one product for each block of wanted columns.

Beside them: the null space of a small matrix modulo a prime, and its vectors that vanish on all but a few columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.certify import common_denominator
from keyhole.solve.modular import Echelon, Field, random_prime
from keyhole.solve.rowspace.matrix import RowMatrix

Ints = NDArray[np.int64]
MOST_WORK = 20_000_000_000  # rows x rows x columns that are tried
LARGEST = 1 << 10  # entry of a vector that is accepted
MULTIPLES = (1, 2, 3, 4, 5, 6)  # of a free column, where one is no integer vector
ATTEMPTS = 3  # orders of the pivots
BLOCK = 512  # free columns at a time
MOST_OTHERS = 2048  # free columns that nobody wants, tried where pivots are wanted
EXACT = 1 << 53


@dataclass(frozen=True, slots=True, eq=False)
class NullVectors:
    """Vectors entry by entry: which vector (from 0), at which column, how many steps."""

    which: Ints
    columns: Ints
    steps: Ints

    @classmethod
    def joined(cls, parts: Sequence[NullVectors]) -> NullVectors:
        """All of them, numbered on.

        >>> one = NullVectors(np.array([0, 0, 1]), np.array([4, 5, 4]), np.array([1, -1, 2]))
        >>> NullVectors.joined([one, one]).which.tolist()
        [0, 0, 1, 2, 2, 3]
        """
        empty = np.zeros(0, dtype=np.int64)
        counts = np.cumsum([0, *(int(part.which.max(initial=-1)) + 1 for part in parts)])
        which = [part.which + before for part, before in zip(parts, counts.tolist(), strict=False)]
        return cls(
            np.concatenate([empty, *which]),
            np.concatenate([empty, *(part.columns for part in parts)]),
            np.concatenate([empty, *(part.steps for part in parts)]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """By how much each column goes down and up in some table with the same answers, at least; 0: it is not known to.

    `taken` are the vectors that showed a wanted column first.
    """

    down: Ints
    up: Ints
    taken: list[NullVectors] = field(default_factory=list)

    @property
    def vectors(self) -> NullVectors:
        """The vectors that show all that is shown."""
        return NullVectors.joined(self.taken)


def moving_columns(
    matrix: RowMatrix, columns: Ints, steps: Ints, down: Ints, up: Ints, wanted: NDArray[np.bool_]
) -> Moves:
    """Which of some columns have another total in a second table. `steps`: by how much a column moves at a time;
    `down` and `up`: how many such steps each has room for; `wanted`: those that are looked at.

    >>> A = RowMatrix.from_dense([[1, 1, 0], [0, 0, 1]])
    >>> free = np.array([0, 1, 2]), np.ones(3, dtype=np.int64), np.array([0, 5, 5]), np.array([9, 9, 9])
    >>> found = moving_columns(A, *free, np.ones(3, dtype=bool))
    >>> found.down.tolist(), found.up.tolist()
    ([0, 1, 0], [1, 0, 0])
    """
    moves = Moves(np.zeros(len(columns), dtype=np.int64), np.zeros(len(columns), dtype=np.int64))
    if matrix.m**2 * len(columns) > MOST_WORK or not len(columns):
        return moves
    largest = matrix.magnitude() * int(steps.max(initial=1))
    if largest * LARGEST * (matrix.m + 1) * len(MULTIPLES) >= EXACT or matrix.m > EXACT // LARGEST:
        return moves
    rng = np.random.default_rng(0)
    room = np.minimum(down, up)
    for attempt in range(ATTEMPTS):
        left = np.flatnonzero(wanted & (moves.down == 0) & (moves.up == 0))
        if not len(left):
            break
        weight = room * rng.uniform(0.5, 1.5, len(room)) if attempt else room.astype(np.float64)
        found = _Vectors.of(matrix, columns, steps, np.argsort(-weight, kind="stable"))
        for chosen in found.free_columns(left):
            if not (wanted & (moves.down == 0) & (moves.up == 0)).any():
                break
            for part, vectors in found.through(chosen):
                _accept(part, vectors, down, up, wanted, moves)
    return moves


def _accept(part: Ints, vectors: Ints, down: Ints, up: Ints, wanted: NDArray[np.bool_], moves: Moves) -> None:
    """Note what vectors (columns of `vectors`, over the columns `part`) move, in the directions that have room."""
    new = (wanted & (moves.down == 0) & (moves.up == 0))[part]
    useful = (vectors[new] != 0).any(axis=0)
    accepted = np.zeros(vectors.shape[1], dtype=np.bool_)
    for signed in (vectors, -vectors):
        fits = ((signed <= up[part, None]) & (-signed <= down[part, None])).all(axis=0)
        accepted |= fits
        if fits.any():
            kept = signed[:, fits]
            moves.up[part] = np.maximum(moves.up[part], kept.max(axis=1))
            moves.down[part] = np.maximum(moves.down[part], (-kept).max(axis=1))
    kept = vectors[:, accepted & useful].T
    if kept.size:
        which, at = np.nonzero(kept)
        moves.taken.append(NullVectors(which, part[at], kept[which, at]))


@dataclass(frozen=True, slots=True, eq=False)
class _Vectors:
    """An echelon form, and the null vectors through its free columns."""

    field: Field
    echelon: Echelon
    matrix: RowMatrix
    columns: Ints
    steps: Ints
    rows: Ints

    @classmethod
    def of(cls, matrix: RowMatrix, columns: Ints, steps: Ints, order: Ints) -> _Vectors:
        """The form whose pivots come first in this order."""
        field = Field(random_prime(np.random.default_rng()))
        echelon, rows = Echelon(matrix.m, field), np.arange(matrix.m)
        for at in range(0, len(order), BLOCK):
            chosen = order[at : at + BLOCK]
            dense = matrix.block(rows, columns[chosen], np.dtype(np.int64)) * steps[chosen]
            echelon.absorb(chosen, field.residues(dense))
            if echelon.rank == matrix.m:
                break
        return cls(field, echelon, matrix, columns, steps, rows)

    @property
    def pivots(self) -> Ints:
        """The pivot columns."""
        return self.echelon.pivot_cols[: self.echelon.rank]

    def free_columns(self, wanted: Ints) -> Iterator[Ints]:
        """Blocks of columns that are no pivots: the wanted ones first, then some with which wanted pivots may move."""
        first = np.setdiff1d(wanted, self.pivots)
        others = np.setdiff1d(np.arange(len(self.columns)), np.concatenate([self.pivots, first]))
        for each in (first, others[:MOST_OTHERS]):
            yield from (each[at : at + BLOCK] for at in range(0, len(each), BLOCK))

    def through(self, free: Ints) -> Iterator[tuple[Ints, Ints]]:
        """(columns, integer vectors over them) with A z = 0, one through each of these free columns."""
        rank, field, pivots = self.echelon.rank, self.field, self.pivots
        basis, top = self._dense(pivots), self._dense(free)
        at = self.echelon.pivot_rows[:rank]
        solved = field.product(self.echelon.inverse_rows(), field.residues(top[at]))
        waiting = np.ones(len(free), dtype=np.bool_)
        for times in MULTIPLES:
            scaled = field.reduce(solved[:, waiting] * float(times)).astype(np.int64)
            small = (np.abs(scaled) <= LARGEST).all(axis=0)
            chosen = np.flatnonzero(waiting)[small]
            if not len(chosen):
                continue
            body = scaled[:, small]
            rest = basis.astype(np.float64) @ body.astype(np.float64) - times * top[:, chosen].astype(np.float64)
            null = ~rest.any(axis=0)
            kept, body = chosen[null], body[:, null]
            vectors = np.concatenate([-body, np.zeros((len(kept), len(kept)), dtype=np.int64)])
            vectors[rank + np.arange(len(kept)), np.arange(len(kept))] = times
            yield np.concatenate([pivots, free[kept]]), vectors
            waiting[chosen] = False

    def _dense(self, chosen: Ints) -> NDArray[Any]:
        dense: NDArray[Any] = (
            self.matrix.block(self.rows, self.columns[chosen], np.dtype(np.int64)) * self.steps[chosen]
        )
        return dense


PRIME = 2_147_483_629


def null_space(matrix: NDArray[Any], prime: int = PRIME) -> tuple[int, Ints]:
    """(rank, a basis of the null space as columns), modulo the prime.

    >>> rank, N = null_space(np.array([[1, 1, 0], [0, 1, 1]]))
    >>> rank, ((np.array([[1, 1, 0], [0, 1, 1]]) @ N) % PRIME).tolist()
    (2, [[0], [0]])
    """
    a = np.array(matrix % prime, dtype=np.int64)
    m, k = a.shape
    pivots: list[int] = []
    row = 0
    for column in range(k):
        if row == m:
            break
        at = np.flatnonzero(a[row:, column])
        if not len(at):
            continue
        a[[row, row + at[0]]] = a[[row + at[0], row]]
        a[row] = a[row] * pow(int(a[row, column]), -1, prime) % prime
        others = np.flatnonzero(a[:, column])
        others = others[others != row]
        a[others] = (a[others] - a[others, column][:, None] * a[row][None, :]) % prime
        pivots.append(column)
        row += 1
    free = [c for c in range(k) if c not in set(pivots)]
    basis = np.zeros((k, len(free)), dtype=np.int64)
    basis[free, np.arange(len(free))] = 1
    basis[pivots] = (-a[: len(pivots)][:, free]) % prime
    return len(pivots), basis


def forms_on(basis: Ints, columns: Sequence[int], prime: int = PRIME) -> tuple[list[list[int]], bool]:
    """Integer forms on some columns that are orthogonal to the null space, in reduced shape; and are these all?

    >>> _, N = null_space(np.array([[1, 1, 0, 0], [0, 0, 2, 1]]))
    >>> forms_on(N, [0, 1]), forms_on(N, [0, 2]), forms_on(N, [2, 3])
    (([[1, 1]], True), ([], True), ([[2, 1]], True))
    """
    part = basis[list(columns)]
    draw = np.random.default_rng(0).integers(1, prime, size=(part.shape[1], len(columns) + 2))
    mixed = np.zeros((len(columns), draw.shape[1]), dtype=np.int64)
    for j in range(part.shape[1]):  # products of residues fit 62 bits, their sums do not
        mixed = (mixed + part[:, j][:, None] * draw[j][None, :]) % prime
    rank, kept = null_space(mixed.T, prime)
    if rank == len(columns):
        return [], True
    found: list[list[int]] = []
    for vector in kept.T.tolist():
        below = common_denominator(vector, prime)
        if below is None:
            continue
        whole = [(v * below) % prime for v in vector]
        form = [v - prime if v > prime // 2 else v for v in whole]
        sign = next((-1 if v < 0 else 1 for v in form if v), 1)
        found.append([sign * v for v in form])
    return found, len(found) == len(columns) - rank
