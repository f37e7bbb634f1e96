"""What an attack on a real target has found, and what of it is certain."""

from __future__ import annotations

import math
from dataclasses import dataclass

from keyhole.oracles.certify.tails import Floats


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer to a query that was not asked, and between which values it certainly lies."""

    answer: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class RestsOn:
    """What a certificate rests on, whether it was `checked`, and how, or why not."""

    claim: str
    checked: bool
    how: str


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """What is known of the hidden vector: an estimate, a certified range for each entry, and how it was found.

    `low`, `high`, `radius` (the distance of the estimate from w within the span of the queries) and predictions hold
    together with probability 1 - `delta` if the noise is as stated and w lies in the stated bounds; where the noise was
    measured (`measured`) they are as good as that; where no bounds were `stated` they rest on none. `radius` is inf
    where nothing is certified; else `conditions` are what it all rests on. `skipped` queries were not asked; `span`
    dimensions were seen.
    """

    estimate: Floats
    low: Floats
    high: Floats
    method: str
    noise: str
    measured: bool
    asked: int
    skipped: int
    notes: tuple[str, ...]
    span: int
    radius: float
    delta: float
    predictions: tuple[Prediction, ...] = ()
    stated: bool = True
    conditions: tuple[RestsOn, ...] = ()


def nothing_learnt(lower: Floats, upper: Floats, asked: int, skipped: int, why: str) -> Learnt:
    """The stated bounds, and why nothing more."""
    return Learnt(
        (lower + upper) / 2, lower, upper, "none", "unknown", False, asked, skipped, (why,), 0, math.inf, 0.0
    )  # fmt: skip
