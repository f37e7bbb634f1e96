"""What an attack on a real target is told to ask, what it has learnt, and what of that is certain."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from keyhole.oracles.noise import Floats
from keyhole.oracles.subspace import range_over_box

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class AskingPlan:
    """How to learn: noise (auto, none, or a law), learner (auto is newton), the basis, levels of an answer, queries
    kept for a check, and the budget until which queries are asked again.

    `basis`: 0 for the span of the queries, -1 for principal components with a clear gap, else their number.
    """

    noise: str = "auto"
    learner: str = AUTO
    basis: int = 0
    levels: int = 2
    calibrate: int = 0
    delta: float = 0.01
    budget: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """What to ask (`rows`), what only to answer (`held_out`), and where the hidden numbers lie.

    `stated`: somebody vouches for the bounds; else they are where the search begins, and nothing may rest on them.
    `sums`: it is known that the target's answers are sums of query times hidden number.
    """

    rows: Floats
    lower: Floats
    upper: Floats
    held_out: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    stated: bool = True
    sums: bool = False


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer to a query that was not asked, and between which values it certainly lies."""

    answer: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CertificateCondition:
    """What a certificate rests on, whether it was `checked`, and how, or why not."""

    claim: str
    checked: bool
    how: str


@dataclass(frozen=True, slots=True, eq=False)
class OracleResult:
    """What is known of the hidden vector: an estimate, a certified range for each entry, and how it was found.

    `low`, `high`, `radius` (the distance of the estimate from w within the span of the queries) and predictions hold
    together with probability 1 - `delta` if the noise is as stated and w lies in the stated bounds; where the noise was
    measured (`measured`) they are as good as that; where no bounds were `stated` they rest on none. `radius` is inf
    where nothing is certified; else `conditions` are what it all rests on. `skipped` queries were not asked; `span`
    dimensions were seen. `errors`: one estimated standard error an entry, which no certificate is; empty without noise.
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
    conditions: tuple[CertificateCondition, ...] = ()
    errors: tuple[float, ...] = ()

    @property
    def largest_certified(self) -> float:
        """How far the estimate of an entry can be from it at most, over all entries; inf where nothing is certified."""
        if not math.isfinite(self.radius):
            return math.inf
        return float(np.max(np.maximum(self.high - self.estimate, self.estimate - self.low)))

    @property
    def largest_error(self) -> float:
        """The largest estimated standard error of an entry; nan where none was estimated."""
        return max(self.errors, default=math.nan)

    @classmethod
    def nothing(cls, lower: Floats, upper: Floats, asked: int, skipped: int, why: str) -> OracleResult:
        """The stated bounds, and why nothing more."""
        middle = (lower + upper) / 2
        return cls(middle, lower, upper, "none", "unknown", False, asked, skipped, (why,), 0, math.inf, 0.0)

    def without_range(self, why: str) -> OracleResult:
        """The same estimate, nothing certain: certificates that begin at a box hold only in it, and none was stated."""
        unknown = np.full(len(self.low), math.inf)
        open_ended = tuple(Prediction(one.answer, -math.inf, math.inf) for one in self.predictions)
        return replace(self._uncertified(-unknown, unknown, why), predictions=open_ended, stated=False)

    def withdrawn(self, questions: Questions, why: str) -> OracleResult:
        """The same estimate, and nothing certain: the stated bounds, or none where nobody stated any."""
        unknown = np.full(len(self.low), math.inf)
        low, high = (questions.lower, questions.upper) if questions.stated else (-unknown, unknown)
        answers = zip(questions.held_out, self.predictions, strict=True)
        return replace(
            self._uncertified(low, high, why),
            estimate=np.clip(self.estimate, low, high),
            errors=(),
            predictions=tuple(Prediction(one.answer, *range_over_box(q, low, high)) for q, one in answers),
        )

    def _uncertified(self, low: Floats, high: Floats, why: str) -> OracleResult:
        return replace(self, low=low, high=high, radius=math.inf, notes=(*self.notes, why), conditions=())
