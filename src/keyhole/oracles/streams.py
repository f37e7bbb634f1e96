"""Query streams on a subspace: near its basis, spread, around it; unit norm unless said."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.learners.bisection import PublishedConstants
from keyhole.oracles.noise import Floats
from keyhole.oracles.subspace import Subspace

BLOCK = 1 << 16
BLOCK_BYTES = 32 << 20  # a block of long queries has fewer rows


class Stream(Protocol):
    """Independent queries from one distribution."""

    @property
    def subspace(self) -> Subspace:
        """Where the queries lie."""

    def block(self, n: int, rng: np.random.Generator) -> Floats:
        """n queries, one per row."""

    def coordinates(self, n: int, rng: np.random.Generator) -> Floats:
        """n queries of this law, in subspace coordinates only: n x d numbers, however long a query is."""


def draw_blocks(stream: Stream, queries: int, rng: np.random.Generator) -> Iterator[Floats]:
    """`queries` queries in blocks, so that memory does not grow with the length of the stream."""
    rows = max(1, min(BLOCK, BLOCK_BYTES // (8 * stream.subspace.D)))
    for start in range(0, queries, rows):
        yield stream.block(min(rows, queries - start), rng)


@dataclass(frozen=True, slots=True)
class Concentrated:
    """Unit queries within the angle phi of a random basis vector, inside the cone the basis spans.

    phi defaults to the published angle, at which every query counts for OnlineBisection.

    >>> stream = Concentrated(Subspace.blocks(4, 2))
    >>> q = stream.block(5, np.random.default_rng(0))
    >>> q.shape, bool(np.allclose(np.linalg.norm(q, axis=1), 1)), bool((q >= 0).all())
    ((5, 4), True, True)
    """

    subspace: Subspace
    phi: float | None = None

    def __post_init__(self) -> None:
        if self.phi is not None and not 0 <= self.phi <= math.pi / 2:
            raise ModelError(f"phi is an angle from 0 to pi/2, got {self.phi!r}")

    def block(self, n: int, rng: np.random.Generator) -> Floats:
        return np.asarray(self.coordinates(n, rng) @ self.subspace.basis, dtype=np.float64)

    def coordinates(self, n: int, rng: np.random.Generator) -> Floats:
        d = self.subspace.d
        phi = PublishedConstants().phi(d) if self.phi is None else self.phi
        z = np.zeros((n, d))
        axis, rows = rng.integers(0, d, n), np.arange(n)
        if d > 1:
            z = np.abs(rng.standard_normal((n, d)))
            z[rows, axis] = 0
            angle = rng.uniform(0, phi, n)
            z *= (np.sin(angle) / np.linalg.norm(z, axis=1))[:, None]
            z[rows, axis] = np.cos(angle)
        else:
            z[:, 0] = 1
        return z


@dataclass(frozen=True, slots=True)
class Spread:
    """Unit queries uniform over the directions of the cone spanned by the basis.

    >>> q = Spread(Subspace.blocks(6, 3)).block(4, np.random.default_rng(0))
    >>> bool(np.allclose(np.linalg.norm(q, axis=1), 1))
    True
    """

    subspace: Subspace

    def block(self, n: int, rng: np.random.Generator) -> Floats:
        return np.asarray(self.coordinates(n, rng) @ self.subspace.basis, dtype=np.float64)

    def coordinates(self, n: int, rng: np.random.Generator) -> Floats:
        z: Floats = np.abs(rng.standard_normal((n, self.subspace.d)))
        z /= np.linalg.norm(z, axis=1)[:, None]
        return z


@dataclass(frozen=True, slots=True)
class Around:
    """Another stream, each query moved off the subspace by `share` of its norm in a random direction."""

    stream: Stream
    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ModelError(f"the share of a query off the subspace is in [0, 1), got {self.share!r}")

    @property
    def subspace(self) -> Subspace:
        return self.stream.subspace

    def block(self, n: int, rng: np.random.Generator) -> Floats:
        q, basis = self.stream.block(n, rng), self.subspace.basis
        away = rng.standard_normal(q.shape)
        away -= (away @ basis.T) @ basis
        norms = np.linalg.norm(q, axis=1)
        away *= (self.share * norms / np.linalg.norm(away, axis=1))[:, None]
        return np.asarray(q * math.sqrt(1 - self.share**2) + away, dtype=np.float64)

    def coordinates(self, n: int, rng: np.random.Generator) -> Floats:
        return self.stream.coordinates(n, rng) * math.sqrt(1 - self.share**2)


@dataclass(frozen=True, slots=True)
class Scaled:
    """Another stream with norms uniform between `low` and `high`, and a random sign if `low` is negative."""

    stream: Stream
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ModelError(f"norms lie between finite low <= high, got {self.low!r} and {self.high!r}")
        if self.low == self.high == 0:
            raise ModelError("norms between 0 and 0 make every query zero: it would ask nothing")

    @property
    def subspace(self) -> Subspace:
        return self.stream.subspace

    def block(self, n: int, rng: np.random.Generator) -> Floats:
        q = self.stream.block(n, rng)
        return np.asarray(q * rng.uniform(self.low, self.high, n)[:, None], dtype=np.float64)

    def coordinates(self, n: int, rng: np.random.Generator) -> Floats:
        z = self.stream.coordinates(n, rng)
        return np.asarray(z * rng.uniform(self.low, self.high, n)[:, None], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """Queries of a list, drawn with replacement.

    >>> stream = Resampled(Subspace.blocks(4, 2), np.ones((1, 4)))
    >>> stream.coordinates(2, np.random.default_rng(0)).round(3).tolist()
    [[1.414, 1.414], [1.414, 1.414]]
    """

    subspace: Subspace
    rows: Floats

    def block(self, n: int, rng: np.random.Generator) -> Floats:
        return self.rows[rng.integers(0, len(self.rows), n)]

    def coordinates(self, n: int, rng: np.random.Generator) -> Floats:
        return self.subspace.project(self.rows)[0][rng.integers(0, len(self.rows), n)]
