"""The yes/no oracle and its simulations, the protocol of what learns from it, and a game of one against the other.

Model (Choromanski, Rostamizadeh, Syed 2015 [choromanski2015]): a hidden w; a query q has the true answer w.q; the
learner names a threshold and is told only whether w.q + noise > threshold. One answer per query.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.noise import Floats, OracleNoise, require_law
from keyhole.oracles.subspace import Subspace

NOISE_BLOCK = 8192  # noise is drawn in blocks of this size, so the draws do not depend on how a stream is cut
PIECE_ROWS = 1 << 14
PIECE_BYTES = 4 << 20  # queries are projected in pieces that stay in the processor's cache
CHECKPOINTS_PER_DECADE = 8
WHOLE_BYTES = 32 << 20  # no piece is larger than this, but for a single longer query


class ModelWarning(UserWarning):
    """Bits that no hidden vector in the box explains: the noise, the basis or the bounds are wrong."""


class UnaskedWarning(UserWarning):
    """Queries that a learner does not ask: nothing is wrong, but less is learnt than was hoped for."""


class YesNoOracle(Protocol):
    """Anything that says whether its (noisy) answer to `q` is above `threshold`."""

    asked: int

    def above(self, q: Floats, threshold: float) -> int:
        """1 if above, 0 if not."""


@runtime_checkable
class LevelOracle(Protocol):
    """A target that says how many of several thresholds its (noisy) answer exceeds."""

    asked: int

    def level(self, q: Floats, thresholds: Floats) -> int:
        """0 to len(thresholds)."""


class Learner(Protocol):
    """Learns w from yes/no answers: the whole protocol. `threshold` is None where the query is not worth asking.

    Its answer to a query q is q.estimate(). One that is a `CertifyingLearner`, too, says how far off it can be.
    """

    def threshold(self, q: Floats) -> float | None:
        """Where to put the threshold for q."""

    def learn(self, q: Floats, threshold: float, bit: int) -> None:
        """Take in one answer: was the noisy answer to q above the threshold?"""

    def estimate(self) -> Floats:
        """The present estimate of w's projection, as a vector of length D. Pure."""


@runtime_checkable
class CertifyingLearner(Learner, Protocol):
    """A learner that answers queries itself and says how far off it can be."""

    def answer(self, q: Floats) -> float:
        """The present answer to q."""

    def margin(self, q: Floats) -> float:
        """How far that answer can be from w.q."""

    def radius(self) -> float:
        """How far the estimate can be from w's projection."""


class ThresholdOracle:
    """A simulated oracle: hidden w, noise law, seeded; counts what it was asked.

    >>> from keyhole.oracles.noise import UniformNoise
    >>> oracle = ThresholdOracle(np.array([0.2, 0.9]), UniformNoise(0.1), rng=np.random.default_rng(1))
    >>> oracle.above(np.array([1.0, 1.0]), 0.5), oracle.above(np.array([1.0, 1.0]), 1.5), oracle.asked
    (1, 0, 2)
    """

    def __init__(self, hidden: Floats, noise: OracleNoise, *, rng: np.random.Generator) -> None:
        self.hidden = np.ascontiguousarray(hidden, dtype=np.float64)
        if self.hidden.ndim != 1 or not np.all(np.isfinite(self.hidden)):
            raise ModelError(f"the hidden vector is a finite array of one dimension, got shape {self.hidden.shape}")
        if isinstance(noise, int | float):
            require_law(noise)
        self.noise = noise
        self.asked = 0
        self._rng = rng
        self._ahead = np.zeros(0)

    def above(self, q: Floats, threshold: float) -> int:
        """1 if hidden.q + noise > threshold, else 0; fresh noise each time."""
        if math.isnan(threshold):
            raise ModelError("a threshold is a number, got nan; nothing was asked")
        return int(self.noisy(q) > threshold)

    def level(self, q: Floats, thresholds: Floats) -> int:
        """How many of the sorted thresholds the noisy answer exceeds: an answer from len(thresholds) + 1 levels."""
        return int(np.searchsorted(thresholds, self.noisy(q), side="left"))

    def noisy(self, q: Floats) -> float:
        """The raw noisy answer: the oracle switched off. Used by the baseline."""
        value = float(self.true_answers(np.asarray(q, dtype=np.float64)[None, :])[0]) + float(self.upcoming(1)[0])
        self.advance(1)
        return value

    def true_answers(self, queries: Floats) -> Floats:
        """hidden.q for each row: known to the simulation, never shown to an attack."""
        if queries.shape[-1] != self.hidden.size:
            raise ModelError(f"the oracle answers queries of length {self.hidden.size}, got {queries.shape[-1]}")
        return np.asarray(queries @ self.hidden, dtype=np.float64)

    def upcoming(self, n: int) -> Floats:
        """The noise of the next n answers, not yet used up."""
        while self._ahead.size < n:
            self._ahead = np.concatenate([self._ahead, self.noise.sample(self._rng, NOISE_BLOCK)])
        return self._ahead[:n]

    def advance(self, n: int) -> None:
        """Use up the noise of n answers and count them."""
        self._ahead = self._ahead[n:]
        self.asked += n


class MonotoneOracle:
    """A database that compares output(w.q + noise) with a threshold, seen by an attack as the linear one.

    For an increasing output, output(a) > output(t) is a > t: the attack asks with output(t) and nothing is lost.

    >>> import math
    >>> from keyhole.oracles.noise import UniformNoise
    >>> inner = ThresholdOracle(np.array([0.2, 0.9]), UniformNoise(0.1), rng=np.random.default_rng(1))
    >>> oracle = MonotoneOracle(lambda q, t: int(math.exp(inner.noisy(q)) > t), math.exp)
    >>> oracle.above(np.array([1.0, 1.0]), 0.5), oracle.asked
    (1, 1)
    """

    def __init__(self, above: Callable[[Floats, float], int], output: Callable[[float], float]) -> None:
        self._above, self._output = above, output
        self.asked = 0

    def above(self, q: Floats, threshold: float) -> int:
        """Ask whether the output is above output(threshold)."""
        self.asked += 1
        return self._above(q, self._output(threshold))


class NoisyOutputOracle:
    """A simulated database that compares output(w.q) + noise with output(threshold): noise after the output.

    Attack it with `SteepNoise(noise, least, most)`, the slopes of `output` over the possible answers.
    """

    def __init__(
        self, hidden: Floats, output: Callable[[float], float], noise: OracleNoise, *, rng: np.random.Generator
    ) -> None:
        self._inner = ThresholdOracle(np.zeros_like(hidden), noise, rng=rng)
        self._hidden, self._output = hidden, output

    @property
    def asked(self) -> int:
        return self._inner.asked

    @asked.setter
    def asked(self, value: int) -> None:
        self._inner.asked = value

    def above(self, q: Floats, threshold: float) -> int:
        """1 if output(hidden.q) + noise > output(threshold)."""
        return int(self._output(float(self._hidden @ q)) + self._inner.noisy(q) > self._output(threshold))


@dataclass(frozen=True, slots=True)
class Run:
    """What a stream gave, of whatever learner: mean |answer - truth| (nan if the truth is unknown), and its course.

    `trace` has (t, mean error of the first t queries); `final_error` is ||P(w_T - w)||_2; `contained` whether the
    certified box still holds w. What is certified without the truth: `bound`, how far the answers were off at most, on
    average, and `radius`, how far the last estimate is at most; inf without a certificate.
    """

    queries: int
    asked: int
    average_error: float
    final_error: float
    contained: bool | None
    bound: float
    trace: tuple[tuple[int, float], ...]
    seconds: float
    radius: float = math.inf


@dataclass(slots=True)
class Course:
    """The errors of a stream as they come, until they are a `Run`."""

    count: int = 0
    total: float = 0.0
    trace: list[tuple[int, float]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def add(self, errors: Floats) -> None:
        """The errors of the next queries; checkpoints are evenly spaced on a log scale."""
        end = self.count + len(errors)
        low = math.ceil(CHECKPOINTS_PER_DECADE * math.log10(self.count + 1))
        high = math.floor(CHECKPOINTS_PER_DECADE * math.log10(end))
        marks = sorted({round(10 ** (k / CHECKPOINTS_PER_DECADE)) for k in range(max(0, low - 1), high + 2)})
        marks = [t for t in marks if self.count < t <= end]
        if marks:
            sums = np.cumsum(errors)
            self.trace.extend((t, float((self.total + sums[t - self.count - 1]) / t)) for t in marks)
        self.count, self.total = end, self.total + float(errors.sum())

    def close(
        self, *, asked: int, final_error: float, contained: bool | None, bound: float, radius: float = math.inf
    ) -> Run:
        """The whole stream is the last point, whether or not a checkpoint falls there."""
        average = self.total / self.count if self.count else math.nan
        if self.count and (not self.trace or self.trace[-1][0] < self.count):
            self.trace.append((self.count, average))
        trace = () if math.isnan(self.total) else tuple(self.trace)
        seconds = time.perf_counter() - self.started
        return Run(self.count, asked, average, final_error, contained, bound, trace, seconds, radius)


def play_by_steps(
    learner: Learner, queries: Floats | Iterable[Floats], oracle: YesNoOracle, subspace: Subspace | None = None
) -> Run:
    """Any learner against any oracle: answer a query, choose a threshold, learn the bit, take the next query.

    Queries may come one by one: none is taken before the one before it was learnt from. Errors are those of the answers
    before each bit, where the oracle is a simulation; what a learner certifies stands beside them in any case.

    >>> from keyhole.oracles.learners.published_bisection import PublishedBisection
    >>> from keyhole.oracles.noise import UniformNoise
    >>> space, law = Subspace.blocks(4, 2), UniformNoise(0.1)
    >>> oracle = ThresholdOracle(np.full(4, 0.5), law, rng=np.random.default_rng(0))
    >>> run = play_by_steps(PublishedBisection(space, law, 2000), np.tile(space.basis, (1000, 1)), oracle, space)
    >>> run.queries, run.asked, run.contained, run.average_error < 1
    (2000, 2000, None, True)
    """
    course, before, margins = Course(), oracle.asked, 0.0
    certifying = learner if isinstance(learner, CertifyingLearner) else None
    simulated = oracle if isinstance(oracle, ThresholdOracle) else None
    for piece in split_queries(queries, None if subspace is None else subspace.D):
        errors = np.full(len(piece), math.nan)
        truth = errors if simulated is None else simulated.true_answers(piece)
        for t, q in enumerate(piece):
            if simulated is not None:
                errors[t] = abs((certifying.answer(q) if certifying else float(q @ learner.estimate())) - truth[t])
            margins += certifying.margin(q) if certifying else math.inf
            threshold = learner.threshold(q)
            if threshold is not None:
                learner.learn(q, threshold, oracle.above(q, threshold))
        course.add(errors)
    final = math.nan
    if simulated is not None:
        off = learner.estimate() - simulated.hidden
        final = float(np.linalg.norm(off if subspace is None else subspace.coordinates(off)))
    holds = getattr(learner, "holds", None)
    return course.close(
        asked=oracle.asked - before,
        final_error=final,
        contained=None if simulated is None or holds is None else bool(holds(simulated.hidden)),
        bound=margins / course.count if course.count else math.inf,
        radius=certifying.radius() if certifying else math.inf,
    )


def split_queries(queries: Floats | Iterable[Floats], width: int | None) -> Iterator[Floats]:
    """Pieces that fit the processor's cache, of an array, of a stream of blocks, or of a stream of single queries."""
    for block in (queries,) if isinstance(queries, np.ndarray) else queries:
        whole = np.ascontiguousarray(block, dtype=np.float64)
        if whole.ndim == 1 and not isinstance(queries, np.ndarray):
            whole = whole[None, :]
        if whole.ndim != 2:
            raise ModelError(f"a block of queries is an array with one query per row, got shape {whole.shape}")
        size = 8 * (width or max(1, whole.shape[1]))
        rows = max(1, min(PIECE_ROWS, max(64, PIECE_BYTES // size), WHOLE_BYTES // size))
        for start in range(0, len(whole), rows):
            yield whole[start : start + rows]


@dataclass(frozen=True, slots=True)
class HeldOutErrors:
    """Errors of a frozen estimate on queries it did not train on."""

    training: Run
    average_error: float
    largest_error: float


class Trainable(Protocol):
    """What learns a whole stream."""

    @property
    def subspace(self) -> Subspace:
        """Where queries lie."""

    def run(self, queries: Floats, oracle: ThresholdOracle) -> Run:
        """Learn it."""

    def estimate(self) -> Floats:
        """What was learnt."""


def train_then_test(attack: Trainable, training: Floats, testing: Floats, oracle: ThresholdOracle) -> HeldOutErrors:
    """Learn from `training` through the oracle, then answer `testing` without it.

    The test error is at most ||q|| times the final error ||P(w_T - w)||_2, for each query on the subspace.

    >>> from keyhole.oracles.learners.newton import OneBitNewton
    >>> from keyhole.oracles.noise import UniformNoise
    >>> from keyhole.oracles.streams import Spread
    >>> rng, space = np.random.default_rng(3), Subspace.blocks(4, 2)
    >>> stream = Spread(space)
    >>> oracle = ThresholdOracle(rng.random(4), UniformNoise(1.0), rng=rng)
    >>> attack = OneBitNewton(space, UniformNoise(1.0))
    >>> batch = train_then_test(attack, stream.block(20000, rng), stream.block(50, rng), oracle)
    >>> batch.largest_error <= batch.training.final_error < 0.05
    True
    """
    if testing.ndim != 2 or len(testing) == 0:
        raise ModelError(f"the test set is an array with one query per row, at least one; got shape {testing.shape}")
    run = attack.run(training, oracle)
    z, known, _ = attack.subspace.project(np.ascontiguousarray(testing, dtype=np.float64))
    errors = np.abs(z @ attack.subspace.coordinates(attack.estimate()) + known - oracle.true_answers(testing))
    return HeldOutErrors(run, float(errors.mean()), float(errors.max()))
