"""A linear question over the cells of some axes: how many, or how much in all, meet a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.tables.residuals import Floats, Inference, Names, Profile, component, subsets


@dataclass(frozen=True, slots=True, eq=False)
class Functional:
    """sum of weight * cell over the cells of the axes `names`; along the axes `keys` every cell is asked by itself.

    `vectors` has one weight vector an axis, where the condition is a product of conditions on single columns; else
    `weights` has one weight a cell. `profiles` say what matters of the vectors for the error.

    >>> both = Functional.of(("a", "b"), np.array([[True, False], [True, False]]))
    >>> [v.tolist() for v in both.vectors], both.sizes
    ([[1.0, 1.0], [1.0, 0.0]], (2, 2))
    """

    names: Names
    sizes: tuple[int, ...]
    vectors: tuple[Floats, ...] | None
    weights: Floats | None
    keys: tuple[int, ...] = ()
    profiles: tuple[Profile, ...] = ()

    @classmethod
    def of(cls, names: Names, kept: NDArray[np.bool_], keys: tuple[int, ...] = ()) -> Functional:
        """From the cells that a condition keeps; a product is recognised."""
        sizes = kept.shape
        if not kept.any():
            return cls.product(names, [np.zeros(size) for size in sizes], keys)
        axes = range(kept.ndim)
        sides = [kept.any(axis=tuple(other for other in axes if other != axis)) for axis in axes]
        if int(kept.sum()) == int(np.prod([int(side.sum()) for side in sides], dtype=object)):
            return cls.product(names, [np.asarray(side, dtype=np.float64) for side in sides], keys)
        return cls(names, sizes, None, kept.astype(np.float64), keys)

    @classmethod
    def product(cls, names: Names, vectors: Sequence[Floats], keys: tuple[int, ...] = ()) -> Functional:
        """From one vector an axis."""
        profiles = []
        for axis, vector in enumerate(vectors):
            size = len(vector)
            profiles.append(Profile(1 / size, 1 - 1 / size) if axis in keys else Profile.of(vector))
        return cls(names, tuple(map(len, vectors)), tuple(vectors), None, keys, tuple(profiles))

    @property
    def empty(self) -> bool:
        """Does no cell meet the condition?"""
        if self.vectors is None:
            return False
        return any(not vector.any() for vector in self.vectors)

    @property
    def whole(self) -> bool:
        """Is everybody asked about, in one number?"""
        return not self.keys and self.vectors is not None and all(bool((v == 1).all()) for v in self.vectors)

    @property
    def groups(self) -> tuple[int, ...]:
        """How many cells are asked along each key axis."""
        return tuple(self.sizes[axis] for axis in self.keys)

    def dense(self, group: Sequence[int] = ()) -> Floats:
        """One weight for each cell; within one cell of each key axis."""
        if self.vectors is not None:
            vectors = list(self.vectors)
            for axis, cell in zip(self.keys, group, strict=True):
                vectors[axis] = np.where(np.arange(self.sizes[axis]) == cell, vectors[axis], 0.0)
            return reduce(np.multiply.outer, vectors, np.ones(()))
        assert self.weights is not None
        held: list[int | slice] = [slice(None)] * len(self.names)
        for axis, cell in zip(self.keys, group, strict=True):
            held[axis] = slice(cell, cell + 1)
        found = np.zeros(self.sizes)
        found[tuple(held)] = self.weights[tuple(held)]
        return found

    def matters(self) -> dict[Names, float]:
        """How much the variance of each residual adds to that of the answer (to the worst group's).

        >>> Functional.of(("a",), np.array([True, False])).matters()
        {(): 0.25, ('a',): 0.5}
        """
        if self.vectors is not None:
            table = Inference.weights(self.profiles)
            return {keep: float(table[tuple(int(n in keep) for n in self.names)]) for keep in subsets(self.names)}
        found = dict.fromkeys(subsets(self.names), 0.0)
        for group in product(*map(range, self.groups)):
            weights = self.dense(group)
            for keep in found:
                found[keep] = max(found[keep], float((component(weights, self.names, keep) ** 2).sum()))
        return found

    def within(self, table: Floats) -> Floats:
        """The answers to all groups from a table over the same axes: exact if it is."""
        if self.weights is not None:
            found = table * self.weights
        else:
            assert self.vectors is not None
            found = table
            for axis, vector in enumerate(self.vectors):
                found = found * vector.reshape([-1 if a == axis else 1 for a in range(len(self.names))])
        others = tuple(axis for axis in range(len(self.names)) if axis not in self.keys)
        return np.asarray(found.sum(axis=others))
