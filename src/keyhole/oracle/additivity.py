"""Are a noisy target's answers sums? Another model, fitted to the first half of them, bets on the second."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from keyhole.oracle.tails import Floats

ANSWERS = 20  # for each unknown of the other model, before it is worth fitting
STEPS = 60
RIDGE = 1e-3  # keeps the other model's coefficients finite; it may be anything that is named before its bets


def log_odds_against_sums(rows: Floats, thresholds: Floats, bits: Floats, std: float) -> float:
    """Log of an e-value against: bit = 1 iff q.w + N(0, std^2) > threshold, for some w, with fresh noise.

    The other model adds a constant (noise that is not centred) and the query divided by its sum (averages). Fitted to
    the first half of the bits, its likelihood of the second half over the largest that any w gives has mean at most 1
    if the answers are sums, so it passes 1/a with probability at most a, whatever w, queries and thresholds that depend
    on the past [wasserman2020]. Of fewer than 20 answers an unknown and half: 0, which is no evidence. What the other
    model cannot say either goes unnoticed. Cost: two probit fits, O(n D^2) a step.

    >>> rng, w = np.random.default_rng(0), np.array([0.2, 0.9])
    >>> q = rng.random((2000, 2))
    >>> at = q @ w + rng.normal(0, 0.1, 2000)
    >>> sums, means = q @ w, q @ w / q.sum(axis=1)
    >>> told = [log_odds_against_sums(q, at, f + rng.normal(0, 0.2, 2000) > at, 0.2) for f in (sums, means)]
    >>> told[0] < math.log(1e4) < told[1]
    True
    """
    more = np.column_stack([rows, np.ones(len(rows)), rows / np.maximum(np.abs(rows).sum(axis=1), 1e-300)[:, None]])
    half, size = len(rows) // 2, np.maximum(np.abs(more).max(axis=0), 1e-300)
    if half < ANSWERS * more.shape[1]:
        return 0.0
    signs, more = np.where(bits > 0, 1.0, -1.0), more / size
    first, second = slice(0, half), slice(half, len(rows))
    guess, _ = _fitted(more[first], thresholds[first], signs[first], std, RIDGE)
    told = float(np.sum(log_ndtr(signs[second] * (more[second] @ guess - thresholds[second]) / std)))
    plain = rows[second] / np.maximum(np.abs(rows).max(axis=0), 1e-300)
    _, best = _fitted(plain, thresholds[second], signs[second], std, 0.0)
    return told - best


def _fitted(X: Floats, t: Floats, signs: Floats, std: float, ridge: float) -> tuple[Floats, float]:
    """Probit regression with offsets by Newton's method: coefficients, and the log likelihood (concave)."""
    penalty = ridge * np.eye(X.shape[1])

    def value(b: Floats) -> float:
        return float(np.sum(log_ndtr(signs * (X @ b - t) / std))) - 0.5 * float(b @ penalty @ b)

    b: Floats = np.asarray(np.linalg.lstsq(X, t, rcond=None)[0], dtype=np.float64)  # thresholds sit near the answers
    best = value(b)
    for _ in range(STEPS):
        u = signs * (X @ b - t) / std
        mills = np.exp(-0.5 * u * u - 0.5 * math.log(2 * math.pi) - log_ndtr(u))
        slope = X.T @ (signs * mills / std) - penalty @ b
        bend = (X * (mills * (mills + u) / std**2)[:, None]).T @ X + penalty
        step = np.asarray(np.linalg.lstsq(bend, slope, rcond=None)[0], dtype=np.float64)
        size = 1.0
        while value(b + size * step) < best and size > 1e-6:
            size /= 2
        if size <= 1e-6 or value(b + size * step) - best < 1e-9:
            break
        b, best = b + size * step, value(b + size * step)
    return b, best
