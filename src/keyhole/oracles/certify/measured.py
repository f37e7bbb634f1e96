"""How noisy a target is: one query bisected, one question repeated, a Gaussian fitted to shares of yeses."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import chi2

from keyhole.errors import ModelError
from keyhole.oracles.base import YesNoOracle
from keyhole.oracles.certify.tails import Floats
from keyhole.oracles.noise import GaussianNoise

PROBES = 24  # answers a threshold when the noise is measured
AGAIN = 12  # times one question is repeated to see whether its answers are drawn anew
SPREAD = 1e-9  # of the range: below this no noise is assumed
WIDER = 1.2  # a measured deviation is off by a tenth or so, and too small a one makes certificates false
STICKY = "answers to one question never differ: the noise is sticky, drawn once for each question"
MISFIT = "the noise that was measured is not Gaussian (chance of a false alarm: 1e-4): nothing is certain"

OUTSIDE = (
    "the hidden numbers lie outside their range: a query is always answered as it could not be for numbers in it; "
    "state another with --range LOW..HIGH"
)


def measured_law(
    oracle: YesNoOracle, rows: Floats, lower: Floats, upper: Floats, notes: list[str]
) -> GaussianNoise | None:
    """Bisect one query, repeat one question, then fit a Gaussian to shares of yeses at 13 thresholds.

    None: answers do not waver. Always yes above the largest answer of the box (always no below the least) is a
    `ModelError`: noise around an answer in the box does that with a chance of 2^-24, so the box is wrong.
    """
    q = rows[int(np.argmax(np.abs(rows).sum(axis=1)))]
    low, high = float(np.minimum(q * lower, q * upper).sum()), float(np.maximum(q * lower, q * upper).sum())
    whole, floor, top = high - low, low, high
    while high - low > SPREAD * whole:
        middle = (low + high) / 2
        low, high = (middle, high) if oracle.above(q, middle) else (low, middle)
    at = (low + high) / 2
    again = [oracle.above(q, at + shift * whole) for shift in (-1e-6, 1e-6) for _ in range(AGAIN)]
    if all(again[:AGAIN]) and not any(again[AGAIN:]):
        return None
    if len(set(again)) == 1:
        edge = top + 1e-6 * whole if again[0] else floor - 1e-6 * whole
        if {oracle.above(q, edge) for _ in range(2 * AGAIN)} == {again[0]}:
            raise ModelError(OUTSIDE)
    return _fitted(oracle, q, at, whole, notes)


def sticks(oracle: YesNoOracle, q: Floats, at: float) -> bool:
    """Does a question about as likely yes as no always get one answer when asked again? By chance: 1 in 2,048."""
    return len({oracle.above(q, at) for _ in range(AGAIN)}) == 1


def _fitted(oracle: YesNoOracle, q: Floats, at: float, whole: float, notes: list[str]) -> GaussianNoise:
    """A Gaussian's centre and deviation by maximum likelihood, on thresholds around `at`, widened as needed."""
    reach = whole / 64
    while reach < whole:
        yes = [sum(oracle.above(q, at + s * reach) for _ in range(PROBES)) for s in (-1.0, 1.0)]
        if yes[0] >= 0.8 * PROBES and yes[1] <= 0.2 * PROBES:
            break
        reach *= 2
    marks = at + reach * np.linspace(-1.2, 1.2, 13)
    shares = np.array([sum(oracle.above(q, float(t)) for _ in range(PROBES)) for t in marks]) / PROBES
    best, found = math.inf, reach
    for centre in at + reach * np.linspace(-0.6, 0.6, 25):
        for std in reach * np.geomspace(0.1, 3.0, 60):
            p = np.clip([0.5 * math.erfc(float((t - centre) / (std * math.sqrt(2)))) for t in marks], 1e-6, 1 - 1e-6)
            loss = -float(np.sum(shares * np.log(p) + (1 - shares) * np.log(1 - p)))
            if loss < best:
                best, found = loss, float(std)
    inner = np.clip(shares, 1e-12, 1 - 1e-12)
    least = -float(np.sum(shares * np.log(inner) + (1 - shares) * np.log(1 - inner)))
    if 2 * PROBES * (best - least) > chi2.isf(1e-4, len(marks) - 2):
        notes.append(MISFIT)
    notes.append(
        f"the noise was measured by {13 * PROBES} answers to one query: {found:.3g}; taken as Gaussian, a fifth wider"
    )
    return GaussianNoise(WIDER * found)
