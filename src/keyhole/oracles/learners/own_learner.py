"""A learner of one's own: any class with `threshold`, `learn` and `estimate`, named module:Class, played bit by bit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.base import Learner, Run, ThresholdOracle, checkpoints_of, close_trace, split_queries
from keyhole.oracles.noise import Floats, OracleNoise
from keyhole.oracles.subspace import Subspace
from keyhole.oracles.targets import import_named


@dataclass(frozen=True, slots=True)
class OwnLearner:
    """A class that was named; `make(subspace, noise, queries)` builds a learner for a stream of so many queries."""

    name: str
    make: Callable[[Subspace, OracleNoise, int], Learner]

    def __str__(self) -> str:
        return self.name

    def build(self, subspace: Subspace, noise: OracleNoise, queries: int) -> SteppedLearner:
        """A fresh learner, ready to be played."""
        return SteppedLearner(self.name, self.make(subspace, noise, queries), subspace)


def load_learner(name: str) -> OwnLearner:
    """The class that `--learner module:Class` names; modules of the current folder are found."""
    made = import_named("--learner", name)
    missing = [word for word in ("threshold", "learn", "estimate") if not hasattr(made, word)]
    if not isinstance(made, type) or missing:
        raise ConfigError(
            f"--learner {name} is not a class with threshold(query), learn(query, threshold, bit) and estimate()"
            + f": {', '.join(missing)} missing" * bool(missing)
        )
    return OwnLearner(name, made)


class SteppedLearner:
    """A learner with the driver of our own: for each query answer it, choose a threshold, hear one bit.

    The answer to q is q.estimate(). Without a box of its own nothing is certified: `Run.contained` is None.

    >>> from keyhole.oracles.learners.published_bisection import PublishedBisection
    >>> from keyhole.oracles.noise import UniformNoise
    >>> space, law = Subspace.blocks(4, 2), UniformNoise(0.1)
    >>> own = OwnLearner("mine:Mine", PublishedBisection).build(space, law, 2000)
    >>> oracle = ThresholdOracle(np.full(4, 0.5), law, rng=np.random.default_rng(0))
    >>> run = own.run(np.tile(space.basis, (1000, 1)), oracle)
    >>> run.queries, run.asked, run.contained, run.average_error < 1
    (2000, 2000, None, True)
    """

    def __init__(self, name: str, learner: Learner, subspace: Subspace) -> None:
        self.name, self.learner, self.subspace = name, learner, subspace

    def threshold(self, q: Floats) -> float | None:
        """Where the learner puts the threshold; a finite number, or None."""
        at = self.learner.threshold(q)
        if at is not None and not math.isfinite(at):
            raise ModelError(f"{self.name}: a threshold is a finite number or None, got {at!r}")
        return at

    def learn(self, q: Floats, threshold: float, bit: int) -> None:
        """Tell it one bit."""
        self.learner.learn(q, threshold, bit)

    def estimate(self) -> Floats:
        """Its estimate, checked: a finite vector of length D."""
        estimate = np.asarray(self.learner.estimate(), dtype=np.float64)
        if estimate.shape != (self.subspace.D,) or not np.isfinite(estimate).all():
            raise ModelError(
                f"{self.name}: estimate() is a vector of {self.subspace.D} finite numbers, got shape {estimate.shape}"
            )
        return estimate

    def run(self, queries: Floats | Iterable[Floats], oracle: ThresholdOracle) -> Run:
        """Play a stream; errors are those of the answers before each bit."""
        started, before = time.perf_counter(), oracle.asked
        count, total, trace = 0, 0.0, list[tuple[int, float]]()
        for piece in split_queries(queries, self.subspace.D):
            errors, truth = np.empty(len(piece)), oracle.true_answers(piece)
            for t, q in enumerate(piece):
                errors[t] = abs(float(q @ self.estimate()) - truth[t])
                threshold = self.threshold(q)
                if threshold is not None:
                    self.learn(q, threshold, oracle.above(q, threshold))
            trace.extend(checkpoints_of(count, total, errors))
            count, total = count + len(piece), total + float(errors.sum())
        close_trace(trace, count, total)
        coordinates = self.subspace.coordinates
        return Run(
            queries=count,
            asked=oracle.asked - before,
            average_error=total / count if count else math.nan,
            final_error=float(np.linalg.norm(coordinates(self.estimate()) - coordinates(oracle.hidden))),
            contained=None,
            bound=math.inf,
            trace=tuple(trace),
            seconds=time.perf_counter() - started,
        )
