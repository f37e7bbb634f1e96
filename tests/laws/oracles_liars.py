"""Planted bad attacks on the yes/no oracle: each breaks one law, and that law must notice."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from keyhole.oracles.base import Run, ThresholdOracle, YesNoOracle
from keyhole.oracles.learners.ellipsoid import EllipsoidBisection
from keyhole.oracles.learners.sequential import SequentialBisection
from keyhole.oracles.noise import Floats, OracleNoise
from keyhole.oracles.subspace import Subspace


class _Liar(SequentialBisection):
    """Built like a specimen; honest until a subclass says otherwise."""

    def __init__(self, subspace: Subspace, noise: OracleNoise, horizon: int) -> None:
        super().__init__(subspace, noise, delta=0.2)


class Skipping(_Liar):
    """Its fast path leaves out the last row of every array."""

    def run(self, queries: Floats | Iterable[Floats], oracle: YesNoOracle) -> Run:
        return super().run(queries[:-1] if isinstance(queries, np.ndarray) else queries, oracle)


class ForgetsAtBlocks(_Liar):
    """Starts its tests afresh with every piece it is handed."""

    def _consume(
        self,
        z: Floats,
        slack: Floats,
        target: Floats,
        noise: Floats,
        errors: Floats,
        forced: float = math.nan,
    ) -> int:
        self._odds[:] = 1
        return super()._consume(z, slack, target, noise, errors, forced)


class Hasty(_Liar):
    """Cuts when the odds are two to one, whatever it promised."""

    def _consume(
        self,
        z: Floats,
        slack: Floats,
        target: Floats,
        noise: Floats,
        errors: Floats,
        forced: float = math.nan,
    ) -> int:
        used = 0
        for t in range(len(z)):
            self._bars[:, 0] = 2.0
            row = slice(t, t + 1)
            used += super()._consume(z[row], slack[row], target[row], noise[used : used + 1], errors[row], forced)
        return used


class SignBlind(_Liar):
    """Reads a query against the basis vector as if it pointed along it."""

    def _consume(
        self,
        z: Floats,
        slack: Floats,
        target: Floats,
        noise: Floats,
        errors: Floats,
        forced: float = math.nan,
    ) -> int:
        turned = np.abs(z)
        centre = self._centre()
        # the answer is measured from the centre as asked, then taken for the turned query's
        return super()._consume(turned, slack, target - z @ centre + turned @ centre, noise, errors, forced)


class Breathing(_Liar):
    """Gives back a little of what it cut, after every run."""

    def run(self, queries: Floats | Iterable[Floats], oracle: YesNoOracle) -> Run:
        run = super().run(queries, oracle)
        self._x -= 0.01
        self._y += 0.01
        return run


class Deaf(_Liar):
    """Listens to nothing: every answer is a fresh coin."""

    def _consume(
        self,
        z: Floats,
        slack: Floats,
        target: Floats,
        noise: Floats,
        errors: Floats,
        forced: float = math.nan,
    ) -> int:
        errors[:] = np.abs(z @ self._centre() - target)
        return len(z)


class ForgetsOdds(_Liar):
    """Saves the box but not the evidence on its way to the next cut."""

    def _memory(self) -> dict[str, Floats]:
        return {name: array for name, array in super()._memory().items() if name != "odds"}


class Hoarder(_Liar):
    """Keeps every query it was ever sent."""

    def __init__(self, subspace: Subspace, noise: OracleNoise, horizon: int) -> None:
        super().__init__(subspace, noise, horizon)
        self._all = np.zeros((0, subspace.d))

    def _consume(
        self,
        z: Floats,
        slack: Floats,
        target: Floats,
        noise: Floats,
        errors: Floats,
        forced: float = math.nan,
    ) -> int:
        self._all = np.concatenate([self._all, z])
        return super()._consume(z, slack, target, noise, errors, forced)

    def _memory(self) -> dict[str, Floats]:
        return super()._memory() | {"all": self._all}


class Fickle(_Liar):
    """Hands out its box itself instead of a copy."""

    def box(self) -> tuple[Floats, Floats]:
        return self._x, self._y


class GivesItselfAway(EllipsoidBisection):
    """Hands out its centre itself instead of a copy."""

    def estimate(self) -> Floats:
        return self._c


class AsksTwice(_Liar):
    """Asks every query again, to be sure."""

    def run(self, queries: Floats | Iterable[Floats], oracle: YesNoOracle) -> Run:
        assert isinstance(queries, np.ndarray)
        return super().run(np.repeat(queries, 2, axis=0), oracle)


class Credulous(_Liar):
    """Believes anything."""

    def _complain(self) -> None:
        self._doubt[0] = 0


class Paranoid(_Liar):
    """Doubts whatever it hears."""

    def run(self, queries: Floats | Iterable[Floats], oracle: YesNoOracle) -> Run:
        run = super().run(queries, oracle)
        if isinstance(oracle, ThresholdOracle):
            self._doubt[0] += 0.01 * run.queries
        return run


class Swallows(_Liar):
    """Takes what is not an answer for a no."""

    def learn(self, q: Floats, threshold: float, bit: int) -> None:
        super().learn(q, threshold, bit if bit in (0, 1) else 0)
