"""Database updates: how a public hypothesis learns from a noisy answer it got wrong."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.linear import LinearQuery

State = TypeVar("State")


class DatabaseUpdate(Protocol[State]):
    """A T(alpha)-database update algorithm (Dwork and Roth 2014, definition 5.3).

    An update sequence for a database x at alpha: at each step the hypothesis is wrong by at least alpha on the query,
    and the answer given is within alpha of the truth. The law: no update sequence is longer than `limit(alpha)`; then
    the hypothesis is within alpha on every query. States are public. `update` may reuse the arrays of the state it is
    given, which must not be used again.
    """

    @property
    def name(self) -> str:
        """As the command line and the ledger call it."""

    @property
    def cells(self) -> int:
        """The size of the domain."""

    @property
    def alpha(self) -> float:
        """The accuracy it learns for."""

    def start(self) -> State:
        """The hypothesis before any answer."""

    def value(self, state: State, query: LinearQuery) -> float:
        """The hypothesis' answer, as a share of n."""

    def update(self, state: State, query: LinearQuery, answer: float) -> State:
        """The hypothesis after learning that the query's answer is `answer` (a share of n)."""

    def limit(self, alpha: float) -> float:
        """T(alpha): the most updates any update sequence can have."""

    def pack(self, state: State) -> NDArray[np.float64]:
        """The state as one array, for the ledger."""

    def unpack(self, array: NDArray[Any]) -> State:
        """The state that `pack` wrote."""
