"""Learners from yes and no, one algorithm a file; chosen by a word, or by the name of a class of one's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np

from keyhole.errors import ConfigError, KeyholeError, ModelError
from keyhole.oracles.base import Learner
from keyhole.oracles.learners.bisection import OnlineBisection
from keyhole.oracles.learners.newton import OneBitNewton
from keyhole.oracles.learners.sequential import EdgeBisection, SequentialBisection
from keyhole.oracles.noise import Floats, OracleNoise
from keyhole.oracles.subspace import Subspace
from keyhole.oracles.targets import import_named

# a subspace, a law of noise, the length of the stream, the chance that the box may ever lose w
MakeLearner = Callable[[Subspace, OracleNoise, int, float], Learner]

LEARNERS: Final[dict[str, MakeLearner]] = {
    "newton": lambda space, law, _queries, delta: OneBitNewton(space, law, delta=delta),
    "sequential": lambda space, law, _queries, delta: SequentialBisection(space, law, delta=delta),
    "edge": lambda space, law, _queries, delta: EdgeBisection(space, law, delta=delta),
    "online-bisection": lambda space, law, queries, _delta: OnlineBisection(space, law, horizon=queries),
}
ORACLE_OFF: Final = "oracle-off"  # raw answers: a yardstick in simulations, not a learner from yes and no
PROTOCOL = ("threshold", "learn", "estimate")


@dataclass(frozen=True, slots=True)
class LearnerChoice:
    """A learner by its name: a word of `LEARNERS`, or module:Class, built with (subspace, noise, queries).

    >>> str(choose_learner("newton"))
    'newton'
    """

    name: str
    make: MakeLearner

    def __str__(self) -> str:
        return self.name


def choose_learner(name: str) -> LearnerChoice:
    """The learner that `--learner` names; modules of the current folder are found."""
    if name in LEARNERS:
        return LearnerChoice(name, LEARNERS[name])
    if name == ORACLE_OFF:
        return LearnerChoice(name, _refuse_bits)
    if ":" not in name:
        raise ConfigError(f"--learner {name}: there are {', '.join(LEARNERS)}; your own is written module:Class")
    made = import_named("--learner", name)
    missing = [word for word in PROTOCOL if not hasattr(made, word)]
    if not isinstance(made, type) or missing:
        raise ConfigError(
            f"--learner {name} is not a class with threshold(query), learn(query, threshold, bit) and estimate()"
            + f": {', '.join(missing)} missing" * bool(missing)
        )

    def build(space: Subspace, law: OracleNoise, queries: int, _: float) -> Learner:
        with _named_failure(f"{name}(subspace, noise, queries)"):
            learner = made(space, law, queries)
        return CheckedLearner(name, learner, space)

    return LearnerChoice(name, build)


@contextmanager
def _named_failure(what: str) -> Iterator[None]:
    """What goes wrong in somebody's own class is said of that class, and is no bug of ours."""
    try:
        yield
    except KeyholeError:
        raise
    except Exception as error:
        raise ModelError(f"{what} failed: {type(error).__name__}: {error}") from error


def _refuse_bits(*_: object) -> Learner:
    raise ConfigError(f"--learner {ORACLE_OFF} asks no yes/no questions: it is for simulations without --log")


class CheckedLearner:
    """A learner of one's own, held to the protocol: thresholds are finite numbers, estimates finite vectors."""

    def __init__(self, name: str, learner: Learner, subspace: Subspace) -> None:
        self.name, self.learner, self.subspace = name, learner, subspace

    def threshold(self, q: Floats) -> float | None:
        """Where the learner puts the threshold; a finite number, or None."""
        with _named_failure(f"{self.name}.threshold"):
            at = self.learner.threshold(q)
            at = None if at is None else float(at)
        if at is not None and not math.isfinite(at):
            raise ModelError(f"{self.name}: a threshold is a finite number or None, got {at!r}")
        return at

    def learn(self, q: Floats, threshold: float, bit: int) -> None:
        """Tell it one bit."""
        with _named_failure(f"{self.name}.learn"):
            self.learner.learn(q, threshold, bit)

    def estimate(self) -> Floats:
        """Its estimate, a finite vector of length D."""
        with _named_failure(f"{self.name}.estimate"):
            estimate = np.asarray(self.learner.estimate(), dtype=np.float64)
        if estimate.shape != (self.subspace.D,) or not np.isfinite(estimate).all():
            right = estimate.shape == (self.subspace.D,)
            got = f"{estimate.tolist()}" if right else f"an array of shape {estimate.shape}"
            raise ModelError(f"{self.name}: estimate() is a vector of {self.subspace.D} finite numbers, got {got}")
        return estimate
