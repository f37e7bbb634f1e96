"""A bad attack for every law of attacks, which that law must catch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keyhole.attacks.base import Reconstruction, State, Target
from keyhole.attacks.methods.kaczmarz import Kaczmarz
from keyhole.attacks.methods.least_squares import LeastSquares
from keyhole.attacks.problem.decoding_problem import NoiseLaw as Noise
from keyhole.attacks.problem.decoding_problem import Problem
from keyhole.attacks.streaming import RecordRows
from keyhole.gather.evidence import Evidence


class LastBlockOnly(LeastSquares):
    """Remembers only the last block."""

    def observe(self, evidence: Evidence) -> None:
        """Forget, then observe."""
        self._problem = None
        super().observe(evidence)


class Restless(LeastSquares):
    """Moves a little each time it is asked."""

    asked = 0

    def estimate(self) -> Reconstruction:
        """A different answer every time."""
        self.asked += 1
        found = super().estimate()
        return replace(found, values=found.values + 1e-3 * self.asked)


class Opinionated(LeastSquares):
    """Has a view before any evidence."""

    def estimate(self) -> Reconstruction:
        """One, where the prior says zero."""
        found = super().estimate()
        return found if self._problem is not None and self._problem.m else replace(found, values=found.values + 1)


class Gossip(LeastSquares):
    """Tells of people that nobody asked about what it knows of the others."""

    def estimate(self) -> Reconstruction:
        """The mean of all guesses, where nothing was asked."""
        found = super().estimate()
        if self._problem is None:
            return found
        asked = np.asarray(self._problem.totals().any(axis=0))[self._problem.of]
        return replace(found, values=np.where(asked, found.values, found.values.mean()))


class Snob(LeastSquares):
    """Thinks more of low record numbers."""

    def estimate(self) -> Reconstruction:
        """Shifted by position."""
        found = super().estimate()
        return replace(found, values=found.values - 0.1 * np.arange(self.target.n))


class Sloppy(LeastSquares):
    """Stops before it has converged."""

    def estimate(self) -> Reconstruction:
        """One part in a thousand short."""
        found = super().estimate()
        return replace(found, values=0.999 * found.values)


class Amnesiac(LeastSquares):
    """Saves, and resumes from nothing."""

    def resume(self, state: State) -> None:
        """Ignore what was saved."""
        self._problem = None


class KeepsEveryRow(Kaczmarz):
    """Keeps every row it has seen."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.kept: list[RecordRows] = []

    def walk(self, rows: RecordRows) -> None:
        """Walk, and keep."""
        self.kept.append(rows)
        super().walk(rows)


class Boaster(LeastSquares):
    """Is always certain."""

    def estimate(self) -> Reconstruction:
        """No doubt anywhere."""
        found = super().estimate()
        return replace(found, confidence=np.zeros(self.target.n))


class Overconfident(LeastSquares):
    """States half of its error."""

    def estimate(self) -> Reconstruction:
        """Twice as sure as it may be."""
        found = super().estimate()
        return replace(found, confidence=found.confidence / 2)


class Diffident(LeastSquares):
    """States twice its error."""

    def estimate(self) -> Reconstruction:
        """Half as sure as it may be."""
        found = super().estimate()
        return replace(found, confidence=found.confidence * 2)


class Naive(LeastSquares):
    """Believes the last answers more than their noise allows: it fits only as many rows as there are records."""

    def _solve(self, problem: Problem) -> Reconstruction:
        last = slice(max(0, problem.m - problem.K), None)
        assert problem.bits is not None
        cut = replace(
            problem, bits=problem.bits[last], y=problem.y[last], lo=problem.lo[last], hi=problem.hi[last],
            scale=problem.scale[last], law=np.full_like(problem.law[last], Noise.GAUSSIAN),
            numbers=problem.numbers[last],
        )  # fmt: skip
        return super()._solve(cut)


class HearsNoFacts(LeastSquares):
    """Takes knowledge in and neither obeys nor refuses it."""

    def _refuse(self, problem: Problem) -> None:
        """Refuse nothing."""
