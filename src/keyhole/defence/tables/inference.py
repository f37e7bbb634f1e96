"""Linear inference from noisy tables in closed form: residuals of margins, weighted by what is known of each.

A table over columns A with independent noise of variance 1/p in every cell says of a margin B within A: sum it over the
other columns and take away the mean along each axis of B. These residuals of different B are independent, whatever the
table, so the best linear estimate of each is the precision-weighted mean, and no matrix is inverted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations, product
from math import prod

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Names = tuple[str, ...]  # keys of axes, in increasing order
TRIED = 2**16  # product questions among which the worst is looked for


def subsets(names: Names) -> Iterator[Names]:
    """All of them, the empty one first.

    >>> list(subsets(("a", "b")))
    [(), ('a',), ('b',), ('a', 'b')]
    """
    for size in range(len(names) + 1):
        yield from combinations(names, size)


def residual(table: Floats, names: Names, keep: Names) -> Floats:
    """The table summed over all axes but `keep`, without its mean along each axis that is kept.

    >>> residual(np.array([[1.0, 2.0], [3.0, 6.0]]), ("a", "b"), ("a",)).tolist()
    [-3.0, 3.0]
    """
    found: Floats = table.sum(axis=tuple(k for k, name in enumerate(names) if name not in keep))
    for axis in range(len(keep)):
        found = found - found.mean(axis=axis, keepdims=True)
    return found


@dataclass(frozen=True, slots=True)
class Profile:
    """What matters of a 0/1 or weighted vector along one axis for the error of a product question.

    `share` is its mean, `spread` the sum of squared distances from it.
    """

    share: float
    spread: float

    @classmethod
    def of(cls, vector: Floats) -> Profile:
        """From the weights along an axis.

        >>> Profile.of(np.array([1.0, 0.0, 0.0, 1.0]))
        Profile(share=0.5, spread=1.0)
        """
        share = float(vector.mean())
        return cls(share, float(((vector - share) ** 2).sum()))


@dataclass(slots=True)
class Inference:
    """Everything known of one quantity (the count, or the sum of a column), from tables whose errors are independent.

    `known` is the exact total where it is public. Cost: adding a table takes a pass over it for each subset of its
    axes; a product question takes 2^|axes| numbers, however many tables were added.

    Reference: the residual basis of marginals (Xiao, He, Zhang and Kifer 2023, ResidualPlanner); checked against
    generalised least squares in the tests.

    >>> both = Inference(known=10.0)
    >>> both.add(("sex",), np.array([5.0, 7.0]), 0.5)
    >>> both.estimate(("sex",)).tolist(), both.variance(("sex",), [Profile(0.5, 0.5)])
    ([4.0, 6.0], 1.0)
    """

    known: float | None = None
    info: dict[Names, float] = field(default_factory=dict)
    moments: dict[Names, Floats] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    made: dict[Names, Floats] = field(default_factory=dict)

    def add(self, names: Names, values: Floats, precision: float) -> None:
        """One table more; `precision` is one over the variance of each cell."""
        sizes = dict(zip(names, values.shape, strict=True))
        self.sizes |= sizes
        for keep in subsets(names):
            here = precision / prod(sizes[name] for name in names if name not in keep)
            self.info[keep] = self.info.get(keep, 0.0) + here
            found = here * residual(values, names, keep)
            self.moments[keep] = found if keep not in self.moments else self.moments[keep] + found
        self.made.clear()

    def variances(self, names: Names) -> Floats:
        """1/info of every subset of these axes, as an array with an axis of two for each (0: left out, 1: kept)."""
        variances = np.full((2,) * len(names), np.inf)
        for keep in subsets(names):
            at = tuple(int(name in keep) for name in names)
            if not keep and self.known is not None:
                variances[at] = 0.0
            elif self.info.get(keep, 0.0) > 0:
                variances[at] = 1 / self.info[keep]
        return variances

    def estimate(self, names: Names) -> Floats | None:
        """The best estimate of the whole table over these axes; None if nothing is known of an axis."""
        if any(name not in self.sizes for name in names):
            return None
        return self.table(names, [self.sizes[name] for name in names])

    def table(self, names: Names, shape: Sequence[int]) -> Floats:
        """The best estimate over axes of so many cells each. What nothing is known of counts as even: that is right for
        a question to which it does not matter (`variance` is finite), such as one that keeps every cell of an axis.

        >>> everybody = Inference()
        >>> everybody.add((), np.array(12.0), 1.0)
        >>> everybody.table(("sex",), [3]).sum().item(), everybody.variance(("sex",), [Profile(1.0, 0.0)])
        (12.0, 1.0)
        """
        if names not in self.made:
            sizes = dict(zip(names, shape, strict=True))
            total = np.zeros(tuple(shape))
            for keep in subsets(names):
                if not keep and self.known is not None:
                    here = np.array(self.known)
                elif self.info.get(keep, 0.0) > 0:
                    here = self.moments[keep] / self.info[keep]
                else:
                    continue
                spread = [sizes[name] if name in keep else 1 for name in names]
                total += here.reshape(spread) / prod(sizes[name] for name in names if name not in keep)
            self.made[names] = total
        return self.made[names]

    def variance(self, names: Names, profiles: Sequence[Profile]) -> float:
        """Of the error of a product question; infinite if nothing is known of a part that matters."""
        return float((self.weights(profiles) * self._finite(names, profiles)).sum())

    @staticmethod
    def weights(profiles: Sequence[Profile]) -> Floats:
        """How much each subset's variance matters: the product of share^2 or spread along each axis."""
        found: Floats = np.ones(())
        for p in profiles:
            found = np.multiply.outer(found, np.array([p.share**2, p.spread]))
        return found

    def _finite(self, names: Names, profiles: Sequence[Profile]) -> Floats:
        found, weights = self.variances(names), self.weights(profiles)
        found[weights == 0] = 0.0  # what does not matter may be unknown
        return found

    def worst(self, names: Names) -> tuple[Floats, ...]:
        """0/1 vectors of the product question over these axes that is known least: the largest variance there is.

        Along an axis of d cells share^2 A + spread B is largest between d/2 and d cells kept, whatever A and B are, so
        all such numbers are tried on all axes together; beyond TRIED combinations, half and all of each axis.

        >>> made = Inference(known=10.0)
        >>> made.add(("a", "b"), np.zeros((3, 4)), 1.0)
        >>> [v.tolist() for v in made.worst(("a", "b"))]  # half of the twelve cells
        [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0]]
        """
        sizes = [self.sizes[name] for name in names]
        kept = [list(range(-(-size // 2), size + 1)) for size in sizes]
        if prod(map(len, kept)) > TRIED:
            kept = [[each[0], each[-1]] for each in kept]
        vectors = self.variances(names)
        for size, numbers in zip(sizes, kept, strict=True):  # each axis of two becomes the last axis, of its numbers
            share = np.array(numbers) / size
            matters = np.stack([share**2, np.array(numbers) * (1 - share)])
            with np.errstate(invalid="ignore"):
                first, second = vectors[0][..., None] * matters[0], vectors[1][..., None] * matters[1]
            vectors = np.nan_to_num(first, nan=0.0, posinf=np.inf) + np.nan_to_num(second, nan=0.0, posinf=np.inf)
        at = np.unravel_index(int(np.argmax(vectors)), vectors.shape)
        return tuple(
            np.where(np.arange(size) < numbers[k], 1.0, 0.0) for size, numbers, k in zip(sizes, kept, at, strict=True)
        )

    def dense(self, names: Names, weights: Floats) -> float:
        """The variance of a question whose weights are no product: one for each cell."""
        total = 0.0
        for keep in subsets(names):
            part = component(weights, names, keep)
            size = float((part**2).sum())
            if size <= 1e-18 * max(1.0, float((weights**2).sum())) or (not keep and self.known is not None):
                continue
            if self.info.get(keep, 0.0) <= 0:
                return float("inf")
            total += size / self.info[keep]
        return total


def component(weights: Floats, names: Names, keep: Names) -> Floats:
    """The part of a question that a residual answers: averaged over the other axes, centred along those kept."""
    found: Floats = weights.mean(axis=tuple(k for k, name in enumerate(names) if name not in keep))
    for axis in range(len(keep)):
        found = found - found.mean(axis=axis, keepdims=True)
    return found


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
        sizes = dict.fromkeys(subsets(self.names), 0.0)
        for group in product(*map(range, self.groups)):
            weights = self.dense(group)
            for keep in sizes:
                sizes[keep] = max(sizes[keep], float((component(weights, self.names, keep) ** 2).sum()))
        return sizes

    def within(self, table: Floats) -> Floats:
        """The answers to all groups from a table over the same axes: exact if it is."""
        if self.weights is not None:
            total = table * self.weights
        else:
            assert self.vectors is not None
            total = table
            for axis, vector in enumerate(self.vectors):
                total = total * vector.reshape([-1 if a == axis else 1 for a in range(len(self.names))])
        others = tuple(axis for axis in range(len(self.names)) if axis not in self.keys)
        return np.asarray(total.sum(axis=others))
