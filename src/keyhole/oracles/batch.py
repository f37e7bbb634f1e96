"""The batch form: train on one stream, answer another with the estimate frozen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.base import Run, StreamAttack, ThresholdOracle
from keyhole.oracles.certify.tails import Floats


@dataclass(frozen=True, slots=True)
class HeldOutErrors:
    """Errors of a frozen estimate on queries it did not train on."""

    training: Run
    average_error: float
    largest_error: float


def train_then_test(attack: StreamAttack, training: Floats, testing: Floats, oracle: ThresholdOracle) -> HeldOutErrors:
    """Learn from `training` through the oracle, then answer `testing` without it.

    The test error is at most ||q|| times the final error ||P(w_T - w)||_2, for each query on the subspace.

    >>> from keyhole.oracles.learners.newton import OneBitNewton
    >>> from keyhole.oracles.noise import UniformNoise
    >>> from keyhole.oracles.streams import Spread
    >>> from keyhole.oracles.subspace import Subspace
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
