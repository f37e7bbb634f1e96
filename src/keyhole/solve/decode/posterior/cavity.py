"""Expectation propagation: each unit sees the others as one Gaussian cloud. For what is too large to sample.

The answers are linear, so with a Gaussian in place of every other unit what they say of one unit is a Gaussian in its
features (its cavity); times its prior that gives the chances of its states, whose moments give the next Gaussian
(Minka 2001; Opper and Winther 2000). The first round is the best linear estimate; where the rounds do not settle, the
chances are those of the first.
"""

from __future__ import annotations

import numpy as np

from keyhole.solve.decode.posterior.units import Floats, RowLaw, Units

LARGEST = 3_000  # units times features
_FIRM = 0.3  # a hard answer is taken as Gaussian with this share of its least step: about that of rounding to it


def cavity_chances(units: Units) -> Floats:
    """P(state), flat like `Units.features`. Cost: (units F)^3 a round, at most a dozen rounds.

    >>> one = Units.of_columns([np.array([0]), np.array([0])], [np.zeros(2)] * 2, 1)
    >>> bool((cavity_chances(one)[[0, 2]] > 0.9).all())
    True
    """
    variance, y = _gaussian_rows(units)
    B, F, count = units.dense(), units.F, units.count
    W = np.where(np.isfinite(variance), 1 / variance, 0.0)
    H, b = (B * W[:, None]).T @ B, B.T @ (W * y)
    chances = np.exp(units.log_prior)
    mean, spread = _moments(units, chances)
    wide = spread + 1e-9 * np.eye(F) * (1 + np.trace(spread, axis1=1, axis2=2)[:, None, None])
    precision = np.linalg.inv(wide)
    pull = np.einsum("ufg,ug->uf", precision, mean)
    rounds = 12 if count * F <= 400 else 5 if count * F <= 1200 else 1
    first = before = chances
    for turn in range(rounds):
        Q = H.copy()
        for u in range(count):
            part = slice(u * F, (u + 1) * F)
            Q[part, part] += precision[u]
        S = np.linalg.inv(Q)
        centre = (S @ (b + pull.ravel())).reshape(count, F)
        blocks = np.stack([S[u * F : (u + 1) * F, u * F : (u + 1) * F] for u in range(count)])
        inner = np.linalg.inv(blocks)
        cavity, drift = inner - precision, np.einsum("ufg,ug->uf", inner, centre) - pull
        chances = _tilted(units, cavity, drift)
        if turn == 0:
            first = chances
        change = float(np.sqrt(np.mean((chances - before) ** 2)))
        if turn and change < 1e-4:
            return chances
        before = chances
        mean, spread = _moments(units, chances)
        wide_now = spread + 1e-4 * wide
        target = np.linalg.inv(wide_now)
        fresh = target - cavity
        ok = np.linalg.eigvalsh(fresh)[:, 0] > 0
        moved = np.einsum("ufg,ug->uf", target, mean) - drift
        precision = np.where(ok[:, None, None], 0.5 * precision + 0.5 * fresh, precision)
        pull = np.where(ok[:, None], 0.5 * pull + 0.5 * moved, pull)
    return chances if rounds > 1 and change < 0.02 else first


def _gaussian_rows(units: Units) -> tuple[Floats, Floats]:
    """Variance and centre of every answer as a Gaussian one; infinite for what is open on a side."""
    law, width = units.law, units.hi - units.lo
    closed = np.isfinite(width)
    middle = np.where(closed, (np.where(closed, units.lo, 0.0) + np.where(closed, units.hi, 0.0)) / 2, 0.0)
    inside = np.where(closed, np.where(closed, width, 0.0) ** 2 / 12, np.inf)
    own = np.select([law == RowLaw.LAPLACE, law == RowLaw.LAPLACE_BETWEEN], [2 * units.scale**2] * 2, units.scale**2)
    exact = np.maximum(inside, (_FIRM * units.steps()) ** 2)
    between = np.isin(law, (RowLaw.LAPLACE_BETWEEN, RowLaw.GAUSSIAN_BETWEEN))
    variance = np.select([law == RowLaw.HARD, between], [exact, inside + own], own)
    return variance, np.where((law == RowLaw.HARD) | between, middle, units.y)


def _moments(units: Units, chances: Floats) -> tuple[Floats, Floats]:
    """Mean (units, F) and covariance (units, F, F) of the features under these chances."""
    first = units.states[:-1]
    weighted = units.features * chances[:, None]
    mean = np.add.reduceat(weighted, first, axis=0)
    second = np.add.reduceat(units.features[:, :, None] * weighted[:, None, :], first, axis=0)
    return mean, second - mean[:, :, None] * mean[:, None, :]


def _tilted(units: Units, cavity: Floats, drift: Floats) -> Floats:
    """Chances of the states: prior times the cavity's Gaussian."""
    of = np.repeat(np.arange(units.count), np.diff(units.states))
    x = units.features
    logs = units.log_prior + np.einsum("sf,sf->s", x, drift[of]) - 0.5 * np.einsum("sf,sfg,sg->s", x, cavity[of], x)
    top = np.maximum.reduceat(logs, units.states[:-1])
    weight = np.exp(logs - top[of])
    return np.asarray(weight / np.add.reduceat(weight, units.states[:-1])[of])
