"""Where the hidden numbers lie: looked for where nobody said it, held against answers where somebody did."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.base import YesNoOracle
from keyhole.oracles.certify.tails import Floats
from keyhole.oracles.learners.line_search import independent
from keyhole.oracles.learnt import Learnt, Prediction
from keyhole.oracles.noise import OracleNoise

if TYPE_CHECKING:
    from keyhole.oracles.real import Questions

WIDEST = 2.0**100  # a secret beyond this is none: the target always says the same
BEYOND = 1e-9  # chance that the noise of one answer reaches further than `reach`


def ends(q: Floats, lower: Floats, upper: Floats) -> tuple[float, float]:
    """The least and the largest q.w of lower <= w <= upper; an entry that q leaves out may have no bounds.

    >>> ends(np.array([1.0, -2.0, 0.0]), np.zeros(3), np.array([1.0, 1.0, np.inf]))
    (-2.0, 1.0)
    """
    named = q != 0
    a, b = q[named] * lower[named], q[named] * upper[named]
    return float(np.minimum(a, b).sum()), float(np.maximum(a, b).sum())


def widened(oracle: YesNoOracle, rows: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """A box whose ends no independent query contradicts: as given, else -s..s with s doubled. A proposal, no proof.

    Cost: two answers a query, and at most two more each time the box is doubled.

    >>> class Exact:
    ...     asked = 0
    ...     def above(self, q, threshold):
    ...         return int(q @ np.array([1.2, -9.0]) > threshold)
    >>> [side.tolist() for side in widened(Exact(), np.eye(2), np.zeros(2), np.ones(2))]
    [[-16.0, -16.0], [16.0, 16.0]]
    """
    size = float(np.max(np.abs([lower, upper])))
    for q in independent(rows):
        while any(_refuted(oracle, q, lower, upper, 0.0)):
            size *= 2
            if size > WIDEST:
                raise ModelError(
                    "the target gives the same answer at every threshold, or says whether its answer is below it: "
                    "there is nothing to learn from it"
                )
            lower, upper = np.full(len(lower), -size), np.full(len(upper), size)
    return lower, upper


def refuted(oracle: YesNoOracle, rows: Floats, lower: Floats, upper: Floats, law: OracleNoise) -> bool:
    """Is a query answered from further outside the stated box than the noise reaches? By chance: 1e-9 an answer."""
    reach = law.std
    while 1 - law.cdf(reach) > BEYOND:
        reach += law.std
    return any(said for q in independent(rows) for said in _refuted(oracle, q, lower, upper, reach))


def _refuted(oracle: YesNoOracle, q: Floats, lower: Floats, upper: Floats, reach: float) -> Iterator[bool]:
    low, high = ends(q, lower, upper)
    room = reach + 1e-6 * (high - low)
    yield bool(oracle.above(q, high + room))
    yield not oracle.above(q, low - room)


def without_range(found: Learnt, why: str) -> Learnt:
    """The same estimate, and nothing certain: certificates that begin at a box hold only in it, and none was stated."""
    return replace(
        found,
        low=np.full(len(found.low), -math.inf),
        high=np.full(len(found.high), math.inf),
        radius=math.inf,
        notes=(*found.notes, why),
        predictions=tuple(Prediction(one.answer, -math.inf, math.inf) for one in found.predictions),
        stated=False,
        conditions=(),
    )


def uncertified(found: Learnt, asking: Questions, why: str) -> Learnt:
    """The same estimate, and nothing certain: the stated bounds, or none where nobody stated any."""
    unknown = np.full(len(found.low), math.inf)
    low, high = (asking.lower, asking.upper) if asking.stated else (-unknown, unknown)
    told = zip(asking.held_out, found.predictions, strict=True)
    return replace(
        found,
        estimate=np.clip(found.estimate, low, high),
        low=low,
        high=high,
        radius=math.inf,
        notes=(*found.notes, why),
        predictions=tuple(Prediction(one.answer, *ends(q, low, high)) for q, one in told),
        conditions=(),
    )
