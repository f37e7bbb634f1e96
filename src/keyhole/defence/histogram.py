"""The private database as the mechanisms see it: exact counts of the cells of a domain.

A `Histogram` holds one for each cell; a `CountedHistogram` asks the engine for the margins that a question needs.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyhole.basis.cells.domain import Domain
from keyhole.datasets import Source
from keyhole.defence.budget.loss import Neighbours
from keyhole.defence.kernels import dot_counts
from keyhole.defence.linear import LinearQuery
from keyhole.errors import DataError, PrivacyParameterError

LARGEST_DOMAIN = 2**24


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Histogram:
    """Exact counts over the cells. Only mechanisms read it; its text form shows no count.

    Under `replace-one` neighbours the number of people n is public; under `add-remove` it is not, and `public_n`
    refuses.

    >>> people = Histogram.of([3, 0, 1])
    >>> people, people.total(LinearQuery.of([1, 0, 1])), people.public_n
    (Histogram(cells=3, neighbours='replace-one'), 4, 4)
    """

    counts: NDArray[np.int64]
    neighbours: Neighbours = "replace-one"
    _margins: dict[tuple[tuple[int, ...], tuple[int, ...]], NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(cls, counts: ArrayLike, neighbours: Neighbours = "replace-one") -> Histogram:
        """A checked copy: whole, non-negative counts, fewer than 2^31 people."""
        given = np.asarray(counts)
        if given.ndim != 1 or given.size == 0 or not np.issubdtype(given.dtype, np.integer):
            raise DataError("a histogram is one whole count for each cell")
        kept = np.array(given, dtype=np.int64)
        if int(kept.min()) < 0 or int(kept.sum()) >= 2**31:
            raise DataError("a histogram has counts from 0 and fewer than 2^31 people in all")
        kept.flags.writeable = False
        return cls(kept, neighbours)

    @property
    def cells(self) -> int:
        """The size of the domain."""
        return int(self.counts.size)

    @property
    def public_n(self) -> int:
        """The number of people, where the neighbours make it public."""
        if self.neighbours != "replace-one":
            raise PrivacyParameterError(
                "this mechanism needs a public number of people: under add-remove neighbours that number is a secret; "
                'use laplace or gaussian, or set neighbours = "replace-one" under [budget]'
            )
        return self._people()

    def require(self, n: int, cells: int) -> None:
        """Refuse a run that was planned for other data."""
        if self.public_n != n or self.cells != cells:
            raise PrivacyParameterError(
                f"the run was planned for {n} people in {cells} cells, and the data has {self.public_n} in {self.cells}"
            )

    def _people(self) -> int:
        return int(self.counts.sum())

    def total(self, query: LinearQuery) -> int:
        """sum(weights * counts): the true answer in steps of 1/unit. For mechanisms only. Exact; one pass, or for the
        groups of a GROUP BY one pass for all of them: the counts are summed over the other columns once.
        """
        self._refuse_other_domain(query)
        place = query.place
        if place is None:
            return int(dot_counts(self.counts, query.stored))
        over = tuple(sorted((*place.axes, *(axis for axis, _ in place.keys))))
        inside = np.ascontiguousarray(place.block(self._sum_over(place.shape, over), over)).ravel()
        total = int(dot_counts(inside, query.stored))
        return total + place.rest * (self._people() - int(inside.sum())) if place.rest else total

    def _refuse_other_domain(self, query: LinearQuery) -> None:
        if query.cells != self.cells:
            raise PrivacyParameterError(f"the query has {query.cells} cells and the domain {self.cells}")

    def _sum_over(self, shape: tuple[int, ...], over: tuple[int, ...]) -> NDArray[np.int64]:
        """How many people have each combination of the columns `over`."""
        margin = self._margins.get((shape, over))
        if margin is None:
            others = tuple(axis for axis in range(len(shape)) if axis not in over)
            margin = np.asarray(self.counts.reshape(shape).sum(axis=others))
            self._margins[shape, over] = margin
        return margin

    def fingerprint(self) -> str:
        """A digest of the counts, for the custodian's ledger: it tells a change of data, and is itself private."""
        return hashlib.blake2b(self.counts.tobytes(), digest_size=16).hexdigest()

    def __repr__(self) -> str:
        return f"Histogram(cells={self.cells}, neighbours={self.neighbours!r})"


class CountedHistogram(Histogram):
    """A histogram that is counted when it is needed, over the columns that a question names and no others.

    What needs every cell of the domain at once (a hypothesis, a whole histogram) is refused beyond 2^24 of them.
    Cost: one scan for each new set of columns.
    """

    def __init__(self, source: Source, domain: Domain, neighbours: Neighbours) -> None:
        object.__setattr__(self, "neighbours", neighbours)
        object.__setattr__(self, "_margins", {})
        object.__setattr__(self, "_source", source)
        object.__setattr__(self, "_domain", domain)

    _source: Source
    _domain: Domain

    @property
    def counts(self) -> NDArray[np.int64]:
        """Every cell."""
        return self._margin(tuple(range(len(self._domain.columns)))).ravel()

    @property
    def cells(self) -> int:
        """The size of the domain, if something can be held for each cell."""
        if self._domain.cells > LARGEST_DOMAIN:
            sizes = " x ".join(f"{c.name} {c.size}" for c in self._domain.columns)
            raise PrivacyParameterError(
                f"this mechanism holds a number for each of {self._domain.cells:.3g} cells ({sizes}); at most 2^24: "
                "use the planner, laplace or gaussian, or declare wider bins"
            )
        return self._domain.cells

    def _people(self) -> int:
        return int(self._margin(()).sum())

    def _refuse_other_domain(self, query: LinearQuery) -> None:
        """A domain may be larger than can be held: the engine counts the columns of the query alone."""

    def _sum_over(self, shape: tuple[int, ...], over: tuple[int, ...]) -> NDArray[np.int64]:
        """Counted in the engine."""
        return self._margin(over)

    def _margin(self, over: tuple[int, ...]) -> NDArray[np.int64]:
        shape = tuple(self._domain.shape[axis] for axis in over)
        margin = self._margins.get((self._domain.shape, over))
        if margin is None:
            if math.prod(shape) > LARGEST_DOMAIN:
                raise PrivacyParameterError(f"{math.prod(shape):.3g} cells are too many to count; at most 2^24")
            cells, counted = self._source.tally(self._domain.code(over))
            flat = np.zeros(math.prod(shape), dtype=np.int64)
            flat[cells] = counted
            margin = flat.reshape(shape)
            self._margins[self._domain.shape, over] = margin
        return margin

    def __repr__(self) -> str:
        return f"CountedHistogram(columns={len(self._domain.columns)}, neighbours={self.neighbours!r})"
