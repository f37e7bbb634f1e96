"""A run or a construction with or without delta: whichever is cheaper, or closer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Protocol, TypeVar

from keyhole.defence.budget.loss import Number, parse_exact
from keyhole.defence.updates.base import DatabaseUpdate
from keyhole.defence.updates.median import Median
from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights
from keyhole.defence.updates.perceptron import Perceptron
from keyhole.errors import PrivacyParameterError


class PricedPlan(Protocol):
    """A plan made from public numbers alone: what it costs, and how far off its answers can be."""

    @property
    def epsilon(self) -> Number:
        """Of the whole."""

    @property
    def bar(self) -> int:
        """In people."""


Plan = TypeVar("Plan", bound=PricedPlan)

UPDATES: dict[str, Callable[[int, float], DatabaseUpdate[Any]]] = {
    "multiplicative-weights": MultiplicativeWeights,
    "median": Median,
    "perceptron": Perceptron,
}


def find_best_plan(plan: Callable[[Fraction], Plan], deltas: Iterable[Fraction], accuracy: float | None) -> Plan:
    """The plan with delta 0 or with all that is left of it: the cheaper one for an accuracy, else the closer one.

    What none of them can be made for is refused with the reason of the last.
    """
    made: list[Plan] = []
    listed = sorted(set(deltas))
    for delta in listed:
        try:
            made.append(plan(delta))
        except PrivacyParameterError:
            if not made and delta == listed[-1]:
                raise
    if accuracy is not None:
        return min(made, key=lambda p: parse_exact(p.epsilon))
    return min(made, key=lambda p: p.bar)
