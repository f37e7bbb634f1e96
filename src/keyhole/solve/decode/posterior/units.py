"""Discrete unknowns behind linear answers: the one model of bits, grids, categories and private conditions.

Unit u (a record, or a group that no question tells apart) is in one of finitely many states s; a state has a prior and
F features phi_u(s) (its value; its indicators of cells; both). Answer j is sum_u a_ju . phi_u(s_u) up to its law.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class RowLaw(IntEnum):
    """How an answer may differ from the sum it is about. The numbers are those of the kernels."""

    HARD = 0  # the sum lies in [lo, hi]
    LAPLACE = 1
    GAUSSIAN = 2
    LAPLACE_BETWEEN = 3  # the sum with its noise lies in [lo, hi]: clamped, suppressed or rounded after the noise
    GAUSSIAN_BETWEEN = 4
    GROSS = 5  # right, or off by a Gaussian: for errors of a guess (`RowSites`), not for the kernels


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Units, their states, and the answers about them; columns are stored by unit (compressed sparse).

    `start[u]:start[u+1]` are the entries of unit u: `rows` and `coefficients` (entries, F). `states[u]:states[u+1]` are
    its states: `features` (states, F) and `log_prior` (normalised).
    """

    start: Ints
    rows: Ints
    coefficients: Floats
    states: Ints
    features: Floats
    log_prior: Floats
    law: NDArray[np.int8]
    y: Floats
    lo: Floats
    hi: Floats
    scale: Floats

    @property
    def count(self) -> int:
        """Units."""
        return len(self.start) - 1

    @property
    def m(self) -> int:
        """Answers."""
        return len(self.y)

    @property
    def F(self) -> int:  # noqa: N802 - the letter of the literature
        """Features a state has."""
        return int(self.features.shape[1])

    def entries(self, u: int) -> slice:
        """Where unit u stands among the entries."""
        return slice(int(self.start[u]), int(self.start[u + 1]))

    def of(self, u: int) -> slice:
        """Where the states of unit u stand."""
        return slice(int(self.states[u]), int(self.states[u + 1]))

    def dense(self) -> Floats:
        """The answers' coefficients, (m, units * F)."""
        found = np.zeros((self.m, self.count, self.F))
        unit = np.repeat(np.arange(self.count), np.diff(self.start))
        found[self.rows, unit] = self.coefficients
        return found.reshape(self.m, -1)

    def steps(self) -> Floats:
        """The least change that one unit can make to each hard answer (1 where none can, or it is not hard)."""
        least = np.full(self.m, np.inf)
        if not np.isin(self.law, (RowLaw.HARD, RowLaw.GROSS)).any():
            return np.ones(self.m)
        for u in range(self.count):
            moves = self.coefficients[self.entries(u)] @ self.features[self.of(u)].T
            sizes = np.sort(moves, axis=1)
            gaps = np.diff(sizes, axis=1)
            gaps = np.where(gaps > 1e-9, gaps, np.inf)
            if gaps.size:
                np.minimum.at(least, self.rows[self.entries(u)], gaps.min(axis=1))
        return np.where(np.isfinite(least), least, 1.0)

    def part(self, units: Ints, rows: Ints) -> Units:
        """Some of the units with the answers about them."""
        place = np.full(self.m, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        entry = np.concatenate([np.arange(self.start[u], self.start[u + 1]) for u in units]).astype(np.int64)
        state = np.concatenate([np.arange(self.states[u], self.states[u + 1]) for u in units]).astype(np.int64)
        return Units(
            _ends(np.diff(self.start)[units]), place[self.rows[entry]], self.coefficients[entry],
            _ends(np.diff(self.states)[units]), self.features[state], self.log_prior[state],
            self.law[rows], self.y[rows], self.lo[rows], self.hi[rows], self.scale[rows],
        )  # fmt: skip

    def components(self) -> list[tuple[Ints, Ints]]:
        """Units and rows that hang together, a component at a time; a unit without a row is one by itself.

        >>> one = Units.of_columns([np.array([0]), np.array([1]), np.array([], dtype=int)], [np.zeros(2)] * 3, 2)
        >>> [(units.tolist(), rows.tolist()) for units, rows in one.components()]
        [([0], [0]), ([1], [1]), ([2], [])]
        """
        sparse, graph = import_module("scipy.sparse"), import_module("scipy.sparse.csgraph")
        size = self.count + self.m
        unit = np.repeat(np.arange(self.count), np.diff(self.start))
        edges = sparse.coo_matrix((np.ones(len(unit)), (unit, self.count + self.rows)), shape=(size, size))
        label = graph.connected_components(edges, directed=False)[1]
        order = np.argsort(label[: self.count], kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(label[: self.count][order])) + 1) if self.count else []
        return [(u, np.flatnonzero(label[self.count :] == label[u[0]])) for u in groups]

    @classmethod
    def of_columns(cls, touched: list[Ints], priors: list[Floats], m: int) -> Units:
        """Units whose state s counts s in each of the rows that touch it, m exact answers of 0: for tests and doctests.

        >>> Units.of_columns([np.array([0])], [np.zeros(2)], 1).dense().tolist()
        [[1.0]]
        """
        entries = sum(map(len, touched))
        zero = np.zeros(m)
        return cls(
            _ends(np.array([len(t) for t in touched])), np.concatenate([*touched, []]).astype(np.int64),
            np.ones((entries, 1)), _ends(np.array([len(p) for p in priors])),
            np.concatenate([np.arange(len(p), dtype=np.float64) for p in priors])[:, None],
            np.concatenate([p - np.log(np.exp(p).sum()) for p in priors]),
            np.zeros(m, dtype=np.int8), zero, zero, zero, zero,
        )  # fmt: skip


def _ends(sizes: NDArray[np.int64]) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
