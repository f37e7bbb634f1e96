"""The yes/no oracle and its simulations, the protocol of its attacks, and the driver that runs them over long streams.

Model (Choromanski, Rostamizadeh, Syed 2015 [choromanski2015]): a hidden w; a query q has the true answer w.q; the
learner names a threshold and is told only whether w.q + noise > threshold. One answer per query.
"""

from __future__ import annotations

import math
import time
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.noise import Floats, OracleNoise, require_law
from keyhole.oracles.subspace import Subspace

NOISE_BLOCK = 8192  # noise is drawn in blocks of this size, so the draws do not depend on how a stream is cut
PIECE_ROWS = 1 << 14
PIECE_BYTES = 4 << 20  # queries are projected in pieces that stay in the processor's cache
CHECKPOINTS_PER_DECADE = 8
WHOLE_BYTES = 32 << 20  # no piece is larger than this, but for a single longer query
DOUBT = math.log(1e6)  # warn when the odds against the model reach a million to one


class ModelWarning(UserWarning):
    """Bits that no hidden vector in the box explains: the noise, the basis or the bounds are wrong."""


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
    """Learns w from yes/no answers. `threshold` is None when the query is not worth asking."""

    def threshold(self, q: Floats) -> float | None:
        """Where to put the threshold for q."""

    def learn(self, q: Floats, threshold: float, bit: int) -> None:
        """Take in one answer: was the noisy answer to q above the threshold?"""

    def estimate(self) -> Floats:
        """The present estimate of w's projection, as a vector of length D. Pure."""


@runtime_checkable
class ThresholdAttack(Learner, Protocol):
    """A learner that answers queries itself and learns from any threshold, not only from the one it proposed."""

    def answer(self, q: Floats) -> float:
        """The attack's present answer to q."""


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
    """What a stream gave: mean |answer - truth| over the stream (nan if the truth is unknown), and its course.

    `trace` has (t, mean error of the first t queries); `bound` is the mean error the method's own certificate
    allows (inf if it has none); `final_error` is ||P(w_T - w)||_2; `contained` whether the box still holds w.
    """

    queries: int
    asked: int
    average_error: float
    final_error: float
    contained: bool | None
    bound: float
    trace: tuple[tuple[int, float], ...]
    seconds: float


class StreamAttack(ABC):
    """What the attacks share: projection, checks of the input, the compiled driver, save and restore.

    An attack keeps its whole memory in arrays named by `_memory`; none of them grows with the stream.
    """

    def __init__(self, subspace: Subspace, noise: OracleNoise) -> None:
        self.subspace = subspace
        self.noise = require_law(noise)
        self.queries_seen = 0
        self._law, self._knots, self._tails = noise.law, noise.knots, noise.tails
        self._doubt_counts = np.zeros((2 * subspace.d, 2))
        self._doubt = np.zeros(7)  # log odds against the model, certified errors, answers used, bets on an edge
        self._warned = False

    # --- to be given by each attack, on subspace coordinates -------------------------------------------------
    @abstractmethod
    def _centre(self) -> Floats:
        """Coordinates of the present estimate."""

    @abstractmethod
    def _aim(self, z: Floats, slack: float) -> float | None:
        """Threshold for z.c, or None; z is one row."""

    @abstractmethod
    def _consume(
        self,
        z: Floats,
        slack: Floats,
        target: Floats,
        noise: Floats,
        errors: Floats,
        forced: float = math.nan,
    ) -> int:
        """Compiled loop over rows, at `forced` thresholds unless nan; fills `errors`, returns the answers used.

        `target` is the true answer less the part that is known off the subspace.
        """

    @abstractmethod
    def _memory(self) -> dict[str, Floats]:
        """The arrays that hold everything learnt."""

    @abstractmethod
    def box(self) -> tuple[Floats, Floats]:
        """Lower and upper ends of the coordinates that are still possible."""

    def holds(self, hidden: Floats) -> bool:
        """Is this vector in the box, up to rounding of the projection?"""
        (x, y), c = self.box(), self.subspace.coordinates(hidden)
        room = 1e-9 * (1 + np.abs(c))
        return bool(np.all(c >= x - room) and np.all(c <= y + room))

    # --- the protocol ----------------------------------------------------------------------------------------
    def answer(self, q: Floats) -> float:
        """Present answer to q: coordinates of the estimate times those of q. O(dD)."""
        z, known, _ = self._one(q)
        return float(z[0] @ self._centre()) + known

    def threshold(self, q: Floats) -> float | None:
        """Threshold to ask q with, None if the answer would be no use. O(dD)."""
        z, known, slack = self._one(q)
        aim = self._aim(z, slack)
        return None if aim is None else aim + known

    def learn(self, q: Floats, threshold: float, bit: int) -> None:
        """Take in one bit. O(dD), plus O(d^2) for estimators that keep a covariance."""
        if bit not in (0, 1):
            raise ModelError(f"an answer is 0 or 1, got {bit!r}")
        if not math.isfinite(threshold):
            raise ModelError(f"a threshold is a finite number, got {threshold!r}")
        z, known, slack = self._one(q)
        # one row of the compiled loop; an infinite true answer makes the bit what it was
        one, said, certified = np.zeros(1), np.array([math.inf if bit else -math.inf]), self._doubt[1]
        self._consume(z, np.array([slack]), said, one, np.empty(1), threshold - known)
        self._doubt[1] = certified
        self._complain()

    def estimate(self) -> Floats:
        """P w_t as a vector of length D."""
        return np.asarray(self._centre() @ self.subspace.basis, dtype=np.float64)

    @property
    def doubt(self) -> float:
        """Log odds against the model: above log(1/a) with probability at most a (plus delta) if the model is right."""
        return float(self._doubt[0])

    def run(self, queries: Floats | Iterable[Floats], oracle: YesNoOracle) -> Run:
        """See q, answer it, choose a threshold, learn the bit: for every row of an array or of a stream of blocks.

        Compiled when the oracle is a ThresholdOracle; the same numbers as the steps one by one, to rounding.
        """
        if not isinstance(oracle, ThresholdOracle):
            return self._run_by_steps(queries, oracle)
        started, before, first = time.perf_counter(), oracle.asked, self._doubt[1]
        count, total, trace = 0, 0.0, list[tuple[int, float]]()
        buffer = np.empty(PIECE_ROWS)
        for piece in split_queries(queries, self.subspace.D):
            z, known, slack = self.subspace.project(piece)
            errors = buffer[: len(piece)]
            target = oracle.true_answers(piece)
            if self.subspace.neighbourhood > 0:
                target -= known
            asked = self._consume(z, slack, target, oracle.upcoming(len(piece)), errors)
            oracle.advance(asked)
            trace.extend(checkpoints_of(count, total, errors))
            count, total = count + len(piece), total + float(errors.sum())
            self._complain()
        self.queries_seen += count
        self._check_horizon()
        close_trace(trace, count, total)
        centre = self.subspace.coordinates(oracle.hidden)
        return Run(
            queries=count,
            asked=oracle.asked - before,
            average_error=total / count if count else math.nan,
            final_error=float(np.linalg.norm(self._centre() - centre)),
            contained=self.holds(oracle.hidden),
            bound=(self._doubt[1] - first) / count if count else math.inf,
            trace=tuple(trace),
            seconds=time.perf_counter() - started,
        )

    def _run_by_steps(self, queries: Floats | Iterable[Floats], oracle: YesNoOracle) -> Run:
        started, before, count = time.perf_counter(), oracle.asked, 0
        for piece in split_queries(queries, self.subspace.D):
            for q in piece:
                threshold = self.threshold(q)
                if threshold is not None:
                    self.learn(q, threshold, oracle.above(q, threshold))
                count += 1
        self.queries_seen += count
        self._check_horizon()
        seconds = time.perf_counter() - started
        return Run(count, oracle.asked - before, math.nan, math.nan, None, math.nan, (), seconds)

    # --- save and resume -------------------------------------------------------------------------------------
    def save(self, path: Path | str) -> None:
        """Write the memory (a few kilobytes, whatever the length of the stream) as .npz."""
        try:
            with Path(path).open("wb") as file:
                np.savez(file, allow_pickle=False, **(self._fingerprint() | self._shared() | self._memory()))
        except OSError as error:
            raise ConfigError(
                f"cannot save to {path}: {error.strerror}; give a file in a folder that exists"
            ) from error

    def restore(self, path: Path | str) -> None:
        """Carry on from a saved state; the attack must have been built with the same basis, box and noise."""
        try:
            with Path(path).open("rb") as file:  # numpy leaves a file that it opened, and cannot read, open
                saved = np.load(file, allow_pickle=False)
                if not isinstance(saved, np.lib.npyio.NpzFile):
                    raise ValueError("a single array")
                arrays = {name: saved[name] for name in saved.files}
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            raise ConfigError(f"{path}: not a saved attack ({error})") from error
        for name, mine in self._fingerprint().items():
            if name not in arrays or not np.array_equal(arrays[name], mine):
                raise ConfigError(f"{path} was saved with another {name[3:]}; build the attack as it was built then")
        held = self._shared() | self._memory()
        for name, mine in held.items():
            if name not in arrays or arrays[name].shape != mine.shape or arrays[name].dtype != mine.dtype:
                raise ConfigError(f"{path}: not a whole saved attack, {name} is missing or of another shape")
        for name, mine in held.items():
            mine[...] = arrays[name]
        self.queries_seen = int(arrays["seen"][0])

    def _shared(self) -> dict[str, Floats]:
        return {
            "seen": np.array([float(self.queries_seen)]),
            "doubt": self._doubt,
            "doubt_counts": self._doubt_counts,
        }

    def _fingerprint(self) -> dict[str, Floats]:
        space = self.subspace
        return {
            "is_method": np.array([type(self).__name__]),
            "is_basis": space.basis,
            "is_lower": space.lower,
            "is_upper": space.upper,
            "is_noise": self._law,
            "is_setting": self._setting(),
        }

    @abstractmethod
    def _setting(self) -> Floats:
        """Numbers a saved state must agree on."""

    def _one(self, q: Floats) -> tuple[Floats, float, float]:
        row = np.asarray(q, dtype=np.float64)
        if row.ndim != 1:
            raise ModelError(f"a query is an array of one dimension, got shape {row.shape}")
        z, known, slack = self.subspace.project(row[None, :])
        return z, float(known[0]), float(slack[0])

    def _check_horizon(self) -> None:  # noqa: B027 - most attacks need not know the length of the stream
        """An attack that must know the length of the stream says here that it was passed."""

    def _complain(self) -> None:
        if not self._warned and self._doubt[0] >= DOUBT:
            self._warned = True
            warnings.warn(
                "no hidden vector in the box explains these bits (odds of a million to one against): the noise law, "
                "its scale, the basis or the bounds are wrong, or the box lost w (chance <= delta); "
                "do not trust the estimate",
                ModelWarning,
                stacklevel=3,
            )


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


def split_queries(queries: Floats | Iterable[Floats], width: int) -> Iterable[Floats]:
    rows = max(1, min(PIECE_ROWS, max(64, PIECE_BYTES // (8 * width)), WHOLE_BYTES // (8 * width)))
    for block in (queries,) if isinstance(queries, np.ndarray) else queries:
        whole = np.ascontiguousarray(block, dtype=np.float64)
        if whole.ndim != 2:
            raise ModelError(f"a block of queries is an array with one query per row, got shape {whole.shape}")
        for start in range(0, len(whole), rows):
            yield whole[start : start + rows]


def close_trace(trace: list[tuple[int, float]], count: int, total: float) -> None:
    """The whole stream is the last point, whether or not a checkpoint falls there."""
    if count and (not trace or trace[-1][0] < count):
        trace.append((count, total / count))


def checkpoints_of(count: int, total: float, errors: Floats) -> list[tuple[int, float]]:
    """Checkpoints, evenly spaced on a log scale, that fall into this piece."""
    end = count + len(errors)
    low = math.ceil(CHECKPOINTS_PER_DECADE * math.log10(count + 1))
    high = math.floor(CHECKPOINTS_PER_DECADE * math.log10(end))
    marks = sorted({round(10 ** (k / CHECKPOINTS_PER_DECADE)) for k in range(max(0, low - 1), high + 2)})
    marks = [t for t in marks if count < t <= end]
    if not marks:
        return []
    sums = np.cumsum(errors)
    return [(t, float((total + sums[t - count - 1]) / t)) for t in marks]
