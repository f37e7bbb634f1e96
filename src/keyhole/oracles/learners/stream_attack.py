"""What the streaming attacks share: projection, checks of the input, the compiled driver, save and restore."""

from __future__ import annotations

import math
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.base import (
    PIECE_ROWS,
    Course,
    ModelWarning,
    Run,
    ThresholdOracle,
    YesNoOracle,
    play_by_steps,
    split_queries,
)
from keyhole.oracles.noise import Floats, OracleNoise, require_law
from keyhole.oracles.subspace import Subspace

DOUBT = math.log(1e6)  # warn when the odds against the model reach a million to one


class StreamAttack(ABC):
    """An attack that reads long streams: its whole memory is in arrays named by `_memory`, none of which grows."""

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

    def _ranges(self) -> tuple[Floats, Floats]:
        """Between which values the coordinates certainly lie."""
        return self.box()

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

    def margin(self, q: Floats) -> float:
        """How far `answer(q)` can be from w.q while w is in the box: certified whether or not anybody knows w."""
        z, _, slack = self._one(q)
        (x, y), centre = self._ranges(), self._centre()
        ends = z[0] * (x - centre), z[0] * (y - centre)
        return max(float(np.maximum(*ends).sum()), -float(np.minimum(*ends).sum())) + slack

    def radius(self) -> float:
        """How far the estimate can be from w in the subspace while w is in the box."""
        (x, y), centre = self._ranges(), self._centre()
        return float(np.linalg.norm(np.maximum(np.abs(y - centre), np.abs(x - centre))))

    def run(self, queries: Floats | Iterable[Floats], oracle: YesNoOracle) -> Run:
        """See q, answer it, choose a threshold, learn the bit: for each row of an array, or of a stream of blocks or of
        single queries.

        Compiled when the oracle is a ThresholdOracle; the same numbers as the steps one by one, to rounding. Of another
        oracle nobody knows the truth: errors are nan, and `Run.bound` and `Run.radius` say what is certain.
        """
        if not isinstance(oracle, ThresholdOracle):
            run = play_by_steps(self, queries, oracle, self.subspace)
            self.queries_seen += run.queries
            self._check_stream()
            return run
        course, before, first, hits = Course(), oracle.asked, self._doubt[1], np.empty(PIECE_ROWS)
        for piece in split_queries(queries, self.subspace.D):
            z, known, slack = self.subspace.project(piece)
            errors = hits[: len(piece)]
            target = oracle.true_answers(piece)
            if self.subspace.neighbourhood > 0:
                target -= known
            asked = self._consume(z, slack, target, oracle.upcoming(len(piece)), errors)
            oracle.advance(asked)
            course.add(errors)
            self._complain()
        self.queries_seen += course.count
        self._check_stream()
        return course.close(
            asked=oracle.asked - before,
            final_error=float(np.linalg.norm(self._centre() - self.subspace.coordinates(oracle.hidden))),
            contained=self.holds(oracle.hidden),
            bound=(self._doubt[1] - first) / course.count if course.count else math.inf,
            radius=self.radius(),
        )

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

    def _check_stream(self) -> None:  # noqa: B027 - most attacks have nothing to say
        """What an attack has to say of a stream at its end: it was too long, or not all was asked."""

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
