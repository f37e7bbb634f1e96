"""The median mechanism's update: the hypothesis is a set of small databases that halves each time it is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.theorems import median_limit
from keyhole.errors import PrivacyParameterError

LARGEST_NET = 2_000_000  # entries: databases x cells


def net_rows(cells: int, alpha: float) -> int:
    """How many people the databases of the net have: the smallest m with |X|/(4m) < alpha.

    Rounding any distribution to multiples of 1/m by largest remainders moves at most |X|/(4m) of mass, hence every
    query in [0, 1] by at most that: strictly less than alpha, as the update's proof needs.

    >>> net_rows(4, 0.3)
    4
    """
    return math.floor(cells / (4 * alpha)) + 1


def largest_domain(alpha: float) -> int:
    """The most cells whose net for alpha is held: beyond, the median is refused.

    >>> [largest_domain(alpha) for alpha in (0.3, 0.1, 0.03, 0.01)]
    [10, 7, 5, 4]
    """
    cells = 1
    while math.comb(net_rows(cells + 1, alpha) + cells, cells) * (cells + 1) <= LARGEST_NET:
        cells += 1
    return cells


@lru_cache(maxsize=8)
def net(cells: int, alpha: float) -> NDArray[np.float64]:
    """All databases of `net_rows` people over the cells, as shares: C(m + |X| - 1, |X| - 1) rows.

    >>> net(2, 0.3).tolist()
    [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    """
    people = net_rows(cells, alpha)
    count = math.comb(people + cells - 1, cells - 1)
    if count * cells > LARGEST_NET:
        raise PrivacyParameterError(
            f"the median needs a net of 10^{math.log10(count):.1f} databases over {cells} cells; at alpha {alpha:.3g} "
            f"at most {largest_domain(alpha)} cells fit. A sample of them would hold none that is near the data, so "
            "nothing could be promised: use multiplicative weights, or a larger alpha"
        )
    rows = np.zeros((1, 0), dtype=np.int64)
    for _ in range(cells - 1):
        room = people - rows.sum(axis=1)
        owner = np.repeat(np.arange(len(rows)), room + 1)
        first = np.repeat(np.cumsum(room + 1) - (room + 1), room + 1)
        rows = np.column_stack([rows[owner], np.arange(len(owner)) - first])
    rows = np.column_stack([rows, people - rows.sum(axis=1)])
    shares = rows / people
    shares.flags.writeable = False
    return shares


@dataclass(frozen=True, slots=True)
class Median:
    """Answers with the median over the candidates; wrong, it drops the half of them on the wrong side.

    Too high (answer below the median): drop every candidate whose value is at least the median; else drop every one
    whose value is at most the median. Guarantee: at most T(alpha) = log2 |N_alpha| updates on any update sequence at
    alpha (Roth and Roughgarden 2010; Dwork and Roth 2014, section 5.2). For small domains: cost O(|N_alpha| |X|) an
    update.

    >>> m = Median(cells=2, alpha=0.3)
    >>> f = LinearQuery.of([1, 0])
    >>> m.value(m.start(), f), m.value(m.update(m.start(), f, 0.9), f)
    (0.5, 1.0)
    """

    cells: int
    alpha: float

    name = "median"

    def __post_init__(self) -> None:
        if self.cells < 1 or not 0 < self.alpha <= 1:
            raise PrivacyParameterError(
                f"the median needs cells >= 1 and 0 < alpha <= 1, not {self.cells} and {self.alpha}"
            )

    @property
    def candidates(self) -> NDArray[np.float64]:
        """The net for alpha, made when first needed."""
        return net(self.cells, self.alpha)

    def start(self) -> NDArray[np.int64]:
        """All candidates."""
        return np.arange(len(self.candidates))

    def _values(self, state: NDArray[np.int64], query: LinearQuery) -> NDArray[np.float64]:
        return np.asarray(self.candidates[state] @ query.weights / query.unit)

    def value(self, state: NDArray[np.int64], query: LinearQuery) -> float:
        """The lower median over the candidates: at least half are >= it, at least half are <= it."""
        values = self._values(state, query)
        middle = (len(values) - 1) // 2
        return float(np.partition(values, middle)[middle])

    def update(self, state: NDArray[np.int64], query: LinearQuery, answer: float) -> NDArray[np.int64]:
        """The candidates on the answer's side of the median."""
        values = self._values(state, query)
        middle = self.value(state, query)
        slack = 1e-12  # equal shares may differ in the last bit; to drop them too keeps the halving
        kept = state[values < middle - slack] if answer < middle else state[values > middle + slack]
        # Answers that belong to no database can empty the set; the old one then says as much as any.
        return kept if len(kept) else state

    def limit(self, alpha: float) -> float:
        """log2 of the size of the net for alpha."""
        people = net_rows(self.cells, alpha)
        return median_limit(math.comb(people + self.cells - 1, self.cells - 1))

    def pack(self, state: NDArray[np.int64]) -> NDArray[np.float64]:
        """The indices of the candidates left."""
        return state.astype(np.float64)

    def unpack(self, array: NDArray[Any]) -> NDArray[np.int64]:
        """From indices."""
        return np.asarray(array).astype(np.int64)
