"""Do noisy answers fit the declared range? Values outside it would be pressed to its ends, and called certain there."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from keyhole.attacks.estimates.matrix_free import row_noise
from keyhole.attacks.problem.decoding_problem import NOISY, NoiseLaw, Problem

MOST = 400  # unknowns up to which it is looked at
ENTRIES = 2_000_000
CHANCE = 1e-3  # that somebody of all is so far out by noise alone
_STIFF = 1e-3  # an exact answer among noisy ones, in the least noise


def outside_range(problem: Problem) -> tuple[str, ...]:
    """A warning if least squares without the range puts somebody outside it by more than noise does; else nothing.

    Only where the answers determine every unknown they touch. Cost: m p^2, below a second.

    >>> from decimal import Decimal
    >>> from fractions import Fraction
    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.attacks.base import Target
    >>> from keyhole.attacks.problem.decoding_problem import assemble
    >>> from keyhole.model.prior import Prior
    >>> from keyhole.model.transcript import Noise
    >>> law, bit = Noise("gaussian", Fraction(1, 10)), Prior(Decimal(0), Decimal(1))
    >>> e = from_arrays(np.eye(2), [0.5, 1.6], noise=law, prior=bit)
    >>> print(*outside_range(assemble(Target.of(e), e)))
    THE DECLARED RANGE OF 'x' DOES NOT FIT: the answers put 1 record(s) outside it, by up to 6 standard errors. \
Errors and probabilities hold only if it is right
    """
    rows = np.flatnonzero(np.isin(problem.law, (*NOISY, NoiseLaw.EXACT)))
    bounded = np.isfinite(problem.lower).any() or np.isfinite(problem.upper).any()
    if not problem.plain or not bounded or problem.csr is not None or problem.m * problem.p > ENTRIES:
        return ()
    at = np.flatnonzero(problem.touched())
    if not np.isin(problem.law[rows], NOISY).any() or not 0 < len(at) <= min(MOST, len(rows)):
        return ()
    noise = row_noise(problem)[rows]
    noise = np.where(noise > 0, noise, _STIFF * float(noise[noise > 0].min()))
    B = problem.design()[np.ix_(rows, at)] / noise[:, None]
    size, turned = np.linalg.eigh(B.T @ B)
    if size[0] <= 1e-9 * size[-1]:
        return ()
    found = turned @ ((turned.T @ (B.T @ (problem.y[rows] / noise))) / size)
    error = np.sqrt((turned**2 / size).sum(axis=1))
    off = np.maximum(problem.lower[at] - found, found - problem.upper[at]) / error
    far = off > float(-ndtri(CHANCE / len(at)))
    if not far.any():
        return ()
    column, who = problem.target.column, int(problem.sizes[at[far]].sum())
    said = f"THE DECLARED RANGE OF {column!r} DOES NOT FIT: the answers put {who} record(s) outside it, by up to "
    return (said + f"{off.max():.2g} standard errors. Errors and probabilities hold only if it is right",)
