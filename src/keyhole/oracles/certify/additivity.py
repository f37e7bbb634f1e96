"""Are a noisy target's answers sums of numbers in the stated range? Other models, fitted to the past, bet on more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, minimize
from scipy.special import log_ndtr, logsumexp

from keyhole.oracles.noise import Floats

ANSWERS = 20  # for each unknown of another model, before it is worth fitting
PRODUCTS = 60  # unknowns up to which products of two entries are looked at
STEPS = 60
OUTSIDE, AVERAGES = "numbers outside the range", "averages and noise off centre"
RIDGE = 1e-3  # keeps the other models' coefficients finite; it may be anything that is named before its bets


@dataclass(frozen=True, slots=True)
class Doubts:
    """Logs of e-values against sums of any numbers with noise as stated, and against sums of numbers in the box.

    `tried` are the models that had enough to be fitted to and half of the bits to bet on. Without any evidence: 0.
    """

    sums: float = 0.0
    box: float = 0.0
    tried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class AskedBits:
    """Bits in the order in which they were asked for: is q.w + N(0, std^2) above the threshold?

    The last `probes` of them were asked off centre, where the scale of the noise shows.
    """

    rows: Floats
    thresholds: Floats
    bits: Floats
    std: float
    probes: int = 0

    @property
    def cuts(self) -> list[int]:
        """Where the other models are fitted again to all that was before."""
        n, m = len(self.rows), self.probes
        return sorted({(n - m) // 4, (n - m) // 2, n - m, n - m // 2} - {0, n})

    @property
    def signs(self) -> Floats:
        """1 for yes, -1 for no."""
        return np.where(self.bits > 0, 1.0, -1.0)


def collect_doubts(asked: AskedBits, lower: Floats, upper: Floats) -> Doubts:
    """Other models of the bits against sums with fresh noise of mean 0, and against sums within lower <= w <= upper.

    Each model is fitted to the bits before a block and bets on the block; what its bets multiply to, over the largest
    likelihood that any w gives the same bits, has mean at most 1 if the answers are sums, so it passes 1/a with
    probability at most a, whatever w, queries and thresholds that depend on the past [wasserman2020]. So does the mean
    over the models: noise of twice and of half the scale; averages (the query divided by its sum) and products of two
    entries, each beside a constant for noise off centre; against the box also sums of numbers outside it. What none of
    them can say either goes unnoticed. Cost: a dozen probit fits, O(n D^2) a step.

    >>> rng, w = np.random.default_rng(0), np.array([0.2, 1.3])
    >>> q = rng.random((2000, 2))
    >>> at = q @ w + rng.normal(0, 0.1, 2000)
    >>> bits = q @ w + rng.normal(0, 0.2, 2000) > at
    >>> found = collect_doubts(AskedBits(q, at, bits, 0.2), np.zeros(2), np.ones(2))
    >>> found.sums < math.log(1e3) < found.box
    True
    """
    greatest: dict[int, tuple[float, float]] = {}  # likelihoods, by the first bit that is bet on
    sums, box, tried = [], [], []
    for name, factor, more in _models(asked):
        won = _bets(asked, more, factor * asked.std)
        if won is None:
            continue
        start, bets = won
        if start not in greatest:
            greatest[start] = _greatest_likelihoods(asked, start, lower, upper)
        free, bound = greatest[start]
        box.append(bets - bound)
        sums += [] if name == OUTSIDE else [bets - free]
        tried += [name] if 2 * start <= len(asked.rows) else []
    if not sums:
        return Doubts()
    against = [float(logsumexp(each)) - math.log(len(each)) for each in (sums, box)]
    return Doubts(against[0], against[1], tuple(tried))


def _models(asked: AskedBits) -> Iterator[tuple[str, float, Floats]]:
    """(name, scale of its noise over the stated one, features) of the other models; the first is of the box alone."""
    rows, D = asked.rows, asked.rows.shape[1]
    one = np.ones(len(rows))
    yield OUTSIDE, 1.0, rows
    yield "twice the noise", 2.0, rows
    yield "half the noise", 0.5, rows
    means = rows / np.maximum(np.abs(rows).sum(axis=1), 1e-300)[:, None]
    yield AVERAGES, 1.0, np.column_stack([rows, one, means])
    if D + 1 + D * (D + 1) // 2 <= PRODUCTS:
        a, b = np.triu_indices(D)
        yield "products of entries", 1.0, np.column_stack([rows, one, rows[:, a] * rows[:, b]])


def _bets(asked: AskedBits, more: Floats, std: float) -> tuple[int, float] | None:
    """(the first bit that is bet on, log of the product of the bets); None where there is too little to fit to."""
    cuts = [cut for cut in asked.cuts if cut >= ANSWERS * more.shape[1]]
    if not cuts:
        return None
    X, t, signs = more / np.maximum(np.abs(more).max(axis=0), 1e-300), asked.thresholds, asked.signs
    total = 0.0
    for cut, end in zip(cuts, [*cuts[1:], len(more)], strict=True):
        guess, _ = _fit_probit(X[:cut], t[:cut], signs[:cut], std, RIDGE)
        total += float(np.sum(log_ndtr(signs[cut:end] * (X[cut:end] @ guess - t[cut:end]) / std)))
    return cuts[0], total


def _greatest_likelihoods(asked: AskedBits, start: int, lower: Floats, upper: Floats) -> tuple[float, float]:
    """The largest log likelihood of the bits from `start` on: of any w, and of w in the box (never too small)."""
    X, t, signs, std = asked.rows[start:], asked.thresholds[start:], asked.signs[start:], asked.std
    size = np.maximum(np.abs(X).max(axis=0), 1e-300)
    free, best = _fit_probit(X / size, t, signs, std, 0.0)
    w = free / size
    if np.all((w >= lower) & (w <= upper)):
        return best, best

    def loss(w: Floats) -> tuple[float, Floats]:
        u = signs * (X @ w - t) / std
        logs = log_ndtr(u)
        mills = np.exp(-0.5 * u * u - 0.5 * math.log(2 * math.pi) - logs)
        return -float(logs.sum()), -(X.T @ (signs * mills / std))

    x = minimize(loss, np.clip(w, lower, upper), jac=True, method="L-BFGS-B", bounds=Bounds(lower, upper)).x
    value, slope = loss(np.clip(x, lower, upper))
    gap = float(np.maximum(-slope * (lower - x), -slope * (upper - x)).sum())  # concave: no more is left
    return best, min(best, -value + max(gap, 0.0))


def _fit_probit(X: Floats, t: Floats, signs: Floats, std: float, ridge: float) -> tuple[Floats, float]:
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
