"""Clamped and suppressed noisy answers for methods that know no such law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem

_SURELY = {NoiseLaw.LAPLACE_BETWEEN: 16.0, NoiseLaw.GAUSSIAN_BETWEEN: 6.0}  # scales that noise does not pass


def loosened(problem: Problem) -> Problem:
    """The same for methods that know no clamping: such an answer is an interval that the noise surely does not pass."""
    lo, hi, law = problem.lo.copy(), problem.hi.copy(), problem.law.copy()
    for kind, scales in _SURELY.items():
        held = problem.law == kind
        lo[held] -= scales * problem.scale[held]
        hi[held] += scales * problem.scale[held]
        law[held] = NoiseLaw.INTERVAL
    if np.array_equal(law, problem.law):
        return problem
    width = np.where(law != problem.law, hi - lo, problem.scale)
    return replace(problem, lo=lo, hi=hi, law=law, scale=width)
