"""A bad attack for every law of attacks, which that law must catch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keyhole.attack.base import Reconstruction, State, Target
from keyhole.attack.decoding_problem import NoiseLaw as Noise
from keyhole.attack.decoding_problem import Problem
from keyhole.attack.kaczmarz import Kaczmarz
from keyhole.attack.least_squares import LeastSquares
from keyhole.attack.records import RecordRows
from keyhole.checks import attacks
from keyhole.checks.attacks import Specimen
from keyhole.evidence import Evidence


class Forgetful(LeastSquares):
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


class Hoarder(Kaczmarz):
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


class Deaf(LeastSquares):
    """Takes knowledge in and neither obeys nor refuses it."""

    def _refuse(self, problem: Problem) -> None:
        """Refuse nothing."""


LIARS: dict[str, Specimen] = {
    attacks.chunking_changes_nothing.__name__: Specimen(Forgetful),
    attacks.an_estimate_is_pure.__name__: Specimen(Restless),
    attacks.before_any_evidence_the_prior_is_the_estimate.__name__: Specimen(Opinionated),
    attacks.relabelled_records_get_relabelled_estimates.__name__: Specimen(Snob),
    attacks.an_exact_log_of_full_rank_gives_exact_recovery.__name__: Specimen(Sloppy),
    attacks.saved_and_resumed_equals_uninterrupted.__name__: Specimen(Amnesiac),
    attacks.memory_of_a_stream_stays_flat.__name__: Specimen(Hoarder),
    attacks.what_it_is_sure_of_is_right.__name__: Specimen(Boaster),
    attacks.known_noise_is_outvoted.__name__: Specimen(Naive),
    attacks.knowledge_is_honoured_or_refused.__name__: Specimen(Deaf),
}
