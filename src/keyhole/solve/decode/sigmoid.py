"""Stochastic gradient steps on squared error through x = lo + (hi - lo) sigmoid(z): every iterate lies in the box.

One question's step is z_i -= 2 rate r (hi_i - lo_i) s_i (1 - s_i) a_i with r = a x - y and s = sigmoid(z). The step is
shortened where it would overshoot (rate <= 1 / (2 sum d_i^2), d = dx/dz), so any rate is stable.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from keyhole.solve.decode.bitrows import Floats, Words


@njit(cache=True, nogil=True)
def sgd_block(
    words: Words, lo: Floats, hi: Floats, clip: Floats, rate: Floats, z: Floats, x: Floats, lower: Floats, upper: Floats
) -> Floats:
    """Walk k bit-packed rows; z and x change in place. `clip` bounds the residual a step may use (Huber)."""
    k, w = words.shape
    out = np.zeros(k)
    for j in range(k):
        at, slope = 0.0, 0.0
        for i in range(w):
            word = words[j, i]
            while word:
                low = word & (~word + np.uint64(1))
                b = 64 * i + int(math.log2(np.float64(low)))
                word ^= low
                at += x[b]
                width = upper[b] - lower[b]
                if width > 0.0:
                    d = (x[b] - lower[b]) * (upper[b] - x[b]) / width
                    slope += d * d
        r = 0.0
        if at < lo[j]:
            r = at - lo[j]
        elif at > hi[j]:
            r = at - hi[j]
        out[j] = -r
        if r == 0.0 or slope == 0.0:
            continue
        r = min(max(r, -clip[j]), clip[j])
        step = 2.0 * min(rate[j], 0.5 / slope) * r
        for i in range(w):
            word = words[j, i]
            while word:
                low = word & (~word + np.uint64(1))
                b = 64 * i + int(math.log2(np.float64(low)))
                word ^= low
                width = upper[b] - lower[b]
                if width > 0.0:
                    z[b] -= step * (x[b] - lower[b]) * (upper[b] - x[b]) / width
                    x[b] = lower[b] + width / (1.0 + math.exp(-z[b]))
    return out


def sgd_dense(
    A: Floats, lo: Floats, hi: Floats, clip: Floats, rate: Floats, z: Floats, x: Floats, lower: Floats, upper: Floats
) -> Floats:
    """The same walk for rows with weights, dense over the same coordinates."""
    out = np.zeros(len(A))
    width = np.where(upper > lower, upper - lower, 1.0)
    for j, a in enumerate(A):
        at = float(a @ x)
        r = min(at - lo[j], 0.0) + max(at - hi[j], 0.0)
        out[j] = -r
        d = a * (x - lower) * (upper - x) / width
        slope = float(d @ d)
        if r == 0.0 or slope == 0.0:
            continue
        r = min(max(r, -clip[j]), clip[j])
        z -= 2.0 * min(rate[j], 0.5 / slope) * r * d
        x[:] = np.where(upper > lower, lower + width / (1.0 + np.exp(-z)), lower)
    return out
