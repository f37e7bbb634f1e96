"""Steal a linear classifier that returns nothing but labels, even when it randomises its scores.

The classifier says 1 iff w.x + b + noise > 0. Its threshold is fixed, so other thresholds are realised by changing the
query: along a known direction v with kappa = w.v > 0, the label of x - t v says whether
w'.x + b' + noise/kappa > t, with (w', b') = (w, b)/kappa. That is the yes/no oracle for (w', b') and queries (x, 1).
kappa is not identified by labels alone: the direction of w is learnt, its length only if the noise scale is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracle.levels import quantile
from keyhole.oracle.newton import OneBitNewton
from keyhole.oracle.noise import GaussianNoise
from keyhole.oracle.subspace import Subspace
from keyhole.oracle.tails import Floats

Label = Callable[[Floats], int]
REPEATS = 8  # labels per candidate while a direction is looked for
FOR_NOISE = 400  # labels from which the noise is measured
UNSEEN = 1e-3  # deviation assumed, in shifts, when no noise was seen: coarser labels are still learnt from


class NoisyScores:
    """A defence: a linear model whose score gets fresh noise before it is turned into the only output, a label."""

    def __init__(self, weights: Floats, intercept: float, std: float, *, rng: np.random.Generator) -> None:
        self._w, self._b, self._std, self._rng = np.asarray(weights, dtype=np.float64), intercept, std, rng

    def predict(self, rows: Floats) -> Floats:
        """Labels 0 or 1, one per row."""
        scores = rows @ self._w + self._b + self._std * self._rng.standard_normal(len(rows))
        return (scores > 0).astype(np.float64)


class ShiftedOracle:
    """The yes/no oracle inside a label-only classifier: thresholds by shifting the query along `direction`.

    A query is (x, 1), of length D + 1. Nothing but labels is used.
    """

    def __init__(self, label: Label, direction: Floats) -> None:
        self._label, self._v = label, np.asarray(direction, dtype=np.float64)
        self.asked = 0

    def above(self, q: Floats, threshold: float) -> int:
        """Label of x - threshold * direction, for q = (x, 1)."""
        self.asked += 1
        said = self._label(q[:-1] - threshold * self._v)
        if said not in (0, 1):
            raise ModelError(f"a label is 0 or 1, got {said!r}")
        return int(said)


@dataclass(frozen=True, slots=True, eq=False)
class StolenClassifier:
    """Weights and intercept up to a positive factor; `scale` is that factor when the noise scale was known.

    Where it is None, `no_scale` says why: labels alone do not tell w from 2 w.

    `trace`: (queries asked so far, weights, intercept) at each checkpoint.
    """

    weights: Floats
    intercept: float
    scale: float | None
    noise_in_shifts: float
    queries: int
    trace: tuple[tuple[int, Floats, float], ...]
    no_scale: str = ""

    def predict(self, rows: Floats) -> Floats:
        """Labels 0 or 1."""
        return np.asarray(rows @ self.weights + self.intercept > 0, dtype=np.float64)


def angle(a: Floats, b: Floats) -> float:
    """Angle between two vectors, in degrees.

    >>> round(angle(np.array([1.0, 0.0]), np.array([1.0, 1.0])), 6)
    45.0
    """
    cosine = float(a @ b) / (float(np.linalg.norm(a)) * float(np.linalg.norm(b)))
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


def _vote(label: Label, x: Floats, times: int) -> float:
    return sum(int(label(x)) for _ in range(times)) / times


def find_direction(label: Label, candidates: Floats, *, repeats: int, reach: float = 64.0) -> tuple[Floats, Floats]:
    """A point near the boundary and a direction v along which labels go from 0 to 1.

    Candidates (any inputs, no labels needed) are asked `repeats` times each until one is mostly 0 and one mostly 1; the
    line between them crosses the boundary. A line is stretched until both ends are clear, up to `reach` times.
    """
    low = high = None
    for x in candidates:
        share = _vote(label, x, repeats)
        if share <= 0.25 and low is None:
            low = x
        elif share >= 0.75 and high is None:
            high = x
        if low is not None and high is not None:
            break
    if low is None or high is None:
        raise ModelError(
            f"all {len(candidates)} candidates got the same label most of the time; give inputs from both classes"
        )
    middle, direction = (low + high) / 2, high - low
    stretch = 1.0
    while stretch < reach and not (
        _vote(label, middle + stretch * direction, repeats) == 1
        and _vote(label, middle - stretch * direction, repeats) == 0
    ):
        stretch *= 2
    return middle, direction * stretch


def noise_along(label: Label, middle: Floats, direction: Floats, *, samples: int, rng: np.random.Generator) -> float:
    """Standard deviation of the noise in units of shifts along `direction`: a probit fit to labels at random shifts.

    A coarse grid over (crossing, deviation): enough for a gain that only has to be right to a factor; `refined` makes
    it sharp. 0 means: no noise seen.
    """
    low, high = -1.0, 1.0
    shifts = rng.uniform(low, high, samples)
    bits = np.array([label(middle + float(t) * direction) for t in shifts], dtype=np.float64)
    order = np.argsort(shifts)
    if np.all(np.diff(bits[order]) >= 0):
        return 0.0
    best, found = -math.inf, 1.0
    erf = np.vectorize(math.erf)
    for deviation in np.geomspace(1e-3, 10, 41):
        for crossing in np.linspace(low, high, 81):
            p = 0.5 * (1 + erf((shifts - crossing) / (deviation * math.sqrt(2))))
            p = np.clip(p, 1e-9, 1 - 1e-9)
            value = float(np.sum(np.where(bits > 0, np.log(p), np.log(1 - p))))
            if value > best:
                best, found = value, float(deviation)
    return found


def refined(label: Label, crossing: Floats, direction: Floats, deviation: float, *, samples: int) -> float:
    """The deviation again, from labels 1.2 deviations on either side of a point on the boundary.

    Pr(label = 1 at +s) = Phi(s / deviation), where a share of labels says most about the deviation; taking both sides
    cancels, to first order, an error in the crossing. Relative error about 2 / sqrt(samples).
    """
    shift = 1.2 * deviation
    above = sum(label(crossing + shift * direction) for _ in range(samples // 2))
    below = sum(1 - label(crossing - shift * direction) for _ in range(samples // 2))
    share = min(max((above + below) / (samples // 2 * 2), 0.51), 1 - 0.5 / samples)
    return shift / quantile(GaussianNoise(1.0), share)


def steal_classifier(
    label: Label,
    inputs: Floats,
    *,
    queries: int,
    bound: float,
    noise_std: float | None,
    rng: np.random.Generator,
    checkpoints: int = 12,
) -> StolenClassifier:
    """Learn a linear classifier from labels alone.

    `inputs`: unlabelled inputs the attacker has (they give directions and the range of features); `bound`: w' lies in
    [-bound, bound]^(D+1) for the unit chosen here, kappa = 1; `noise_std`: the defence's noise in score units if known,
    which also fixes the scale (a tenth of the queries goes into that); None claims direction only. The estimator is
    OneBitNewton with Gaussian noise of the deviation measured in shifts: a heuristic when the defence's noise has
    another law, or none at all, where EllipsoidBisection would give a certificate but needs many more queries.
    Queries are Gaussian around the boundary, as wide as the inputs. Cost: O(D^2) time per query.

    Never asks for more than `queries` labels. It takes 432 at the least to find a direction and measure the noise (more
    if the classes are uneven) and one per unknown after that; fewer are a ModelError that names the number.
    """
    sample = np.asarray(inputs, dtype=np.float64)
    if sample.ndim != 2 or len(sample) < 2:
        raise ModelError(f"inputs are an array with one input per row, at least two; got shape {sample.shape}")
    if not np.all(np.isfinite(sample)):
        raise ModelError("inputs have an entry that is not a finite number; leave those rows out")
    if noise_std is not None and not (math.isfinite(noise_std) and noise_std > 0):
        raise ModelError(f"noise_std is the deviation of the noise, above 0, or None if unknown; got {noise_std!r}")
    if not (math.isfinite(bound) and bound > 0):
        raise ModelError(f"bound is a positive number, got {bound!r}")
    if checkpoints < 1:
        raise ModelError(f"checkpoints is at least 1, got {checkpoints}")
    D, asked = sample.shape[1], 0
    learning = 0.9 if noise_std is not None else 1.0  # a tenth may go into the scale

    def afford(spent: int) -> None:
        least = math.ceil((spent + D + 1) / learning)
        if queries < least:
            raise ModelError(
                f"queries={queries} labels are too few for {D} features: at least {least}, of which {spent} go into a "
                "direction and the noise before learning starts"
            )

    afford(4 * REPEATS + FOR_NOISE)

    def counted(x: Floats) -> int:
        nonlocal asked
        if asked >= queries:
            afford(asked + FOR_NOISE)
        asked += 1
        said = label(x)
        if said not in (0, 1):
            raise ModelError(f"a label is 0 or 1, got {said!r}")
        return int(said)

    mixed = sample[rng.permutation(len(sample))]
    middle, direction = find_direction(counted, mixed, repeats=REPEATS)
    afford(asked + FOR_NOISE)
    deviation = noise_along(counted, middle, direction, samples=FOR_NOISE, rng=rng)
    spread = sample.std(axis=0) + 1e-12
    oracle = ShiftedOracle(counted, direction)
    lower, upper = np.full(D + 1, -bound), np.full(D + 1, bound)
    attack = OneBitNewton(Subspace(np.eye(D + 1), lower, upper), GaussianNoise(max(deviation, UNSEEN)))
    claim_scale = noise_std is not None and deviation > 0
    for_scale = queries // 10 if claim_scale else 0
    end = queries - for_scale
    marks = {int(v) for v in np.geomspace(min(max(asked + 1, 2 * asked), end), end, checkpoints)} | {end}
    trace = list[tuple[int, Floats, float]]()
    while asked < end:
        # around the boundary's crossing, so that shifts stay moderate
        x = middle + rng.standard_normal(D) * spread
        q = np.append(x, 1.0)
        threshold = attack.threshold(q)
        assert threshold is not None  # the estimate can use every answer
        attack.learn(q, threshold, oracle.above(q, threshold))
        if asked in marks:
            found = attack.estimate()
            trace.append((asked, found[:-1], float(found[-1])))
    found = attack.estimate()
    scale, no_scale = None, "noise_std was not given, and labels alone do not tell w from 2 w"
    if noise_std is not None:
        no_scale = "no noise was seen in the labels, so its stated deviation cannot fix the length of w"
    if claim_scale and noise_std is not None:
        crossing = middle - (float(found[:-1] @ middle) + float(found[-1])) * direction
        deviation = refined(counted, crossing, direction, deviation, samples=for_scale)
        scale, no_scale = noise_std / deviation, ""
    return StolenClassifier(found[:-1], float(found[-1]), scale, deviation, asked, tuple(trace), no_scale)
