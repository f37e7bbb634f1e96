"""Least squares in a box, matrix-free: conjugate gradients on the free unknowns, bounds only where they are violated.

MPRGP (modified proportioning with reduced gradient projections): a conjugate gradient step while it stays in the box,
one projected step of fixed length where it would leave it, one step off the bounds where they are held in vain. The
energy falls at each step; the bounds that hold at the solution are found after finitely many.

Reference: dostal2005. scipy's `lsq_linear` (trf) takes seven times as long to a slightly larger minimum
(20,000 x 5,000 and 30,000 x 20,000, ten entries a row), and cannot be stopped with the best so far.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.decode.bitrows import Floats
from keyhole.solve.decode.csr import Csr
from keyhole.solve.status import SolverStatus

Held = NDArray[np.bool_]


def box_least_squares(
    A: Csr,
    y: Floats,
    lower: Floats,
    upper: Floats,
    start: Floats,
    *,
    tolerance: float = 1e-10,
    iterations: int = 20_000,
    watch: Callable[[int, float], None] | None = None,
) -> tuple[Floats, SolverStatus]:
    """min |A x - y| with lower <= x <= upper, from `start` clipped into the box. Two products a step.

    Ends when the projected gradient is `tolerance` of A^T y's size, or the residual that of y's.

    >>> A = Csr.of_rows([([0, 1], [1.0, 1.0])], 2)
    >>> box_least_squares(A, np.array([2.0]), np.zeros(2), np.array([0.5, 9.0]), np.ones(2))[0].round(6).tolist()
    [0.5, 1.5]
    """
    x = np.clip(start, lower, upper)
    length = 1.0 / max(_norm_squared(A), 1e-300)
    r = A.apply(x) - y
    g = A.adjoint(r)
    small = tolerance * (float(np.linalg.norm(A.adjoint(y))) + 1e-300)
    met = tolerance * float(np.linalg.norm(y))
    free, chopped = _split(x, g, lower, upper)
    d = free
    step = 0
    try:
        for step in range(1, iterations + 1):
            if watch is not None:
                watch(step, float(np.sqrt(np.mean(r**2))) if r.size else 0.0)
            if np.linalg.norm(free + chopped) <= small or np.linalg.norm(r) <= met:
                return x, SolverStatus.CONVERGED
            proportional = float(chopped @ chopped) <= float(free @ _reduced(x, free, length, lower, upper))
            d = d if proportional else chopped
            Ad = A.apply(d)
            curve = float(Ad @ Ad)
            ideal = float(g @ d) / curve if curve > 0 else 0.0
            room = _room(x, d, lower, upper)
            if curve <= 0 or (proportional and ideal > room):  # to the wall, then along the projected gradient
                x = np.clip(x - (room if np.isfinite(room) else 0.0) * d, lower, upper)
                free = _split(x, A.adjoint(A.apply(x) - y), lower, upper)[0]
                x = np.clip(x - length * free, lower, upper)
                r = A.apply(x) - y
                g = A.adjoint(r)
                free, chopped = _split(x, g, lower, upper)
                d = free
                continue
            x = np.clip(x - min(ideal, room) * d, lower, upper)
            r = r - min(ideal, room) * Ad
            if step % 50 == 0:
                r = A.apply(x) - y  # against drift
            g = A.adjoint(r)
            free, chopped = _split(x, g, lower, upper)
            d = free - (float(A.apply(free) @ Ad) / curve) * d if proportional else free
    except KeyboardInterrupt:  # the best so far is the answer
        return x, SolverStatus.INTERRUPTED
    return x, SolverStatus.ITERATION_LIMIT


def _split(x: Floats, g: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """The gradient on free unknowns, and what of it would move the others off their bounds into the box."""
    below, above = x <= lower, x >= upper
    chopped = np.where(below & ~above, np.minimum(g, 0.0), np.where(above & ~below, np.maximum(g, 0.0), 0.0))
    return np.where(below | above, 0.0, g), chopped


def _reduced(x: Floats, free: Floats, length: float, lower: Floats, upper: Floats) -> Floats:
    """The free gradient, cut to what a step of `length` can use before the walls."""
    return (x - np.clip(x - length * free, lower, upper)) / length


def _room(x: Floats, d: Floats, lower: Floats, upper: Floats) -> float:
    """How far x - t d stays in the box."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(d > 0, (x - lower) / d, np.where(d < 0, (x - upper) / d, np.inf))
    return float(np.min(ends, initial=np.inf))


def _norm_squared(A: Csr) -> float:
    """|A|^2, a little too large: power iteration, and never above |A|_1 |A|_inf."""
    absolute = Csr(A.starts, A.columns, np.abs(A.values), A.p)
    most = float(np.max(absolute.apply(np.ones(A.p)), initial=0.0)) * float(
        np.max(absolute.adjoint(np.ones(A.m)), initial=0.0)
    )
    v = absolute.adjoint(np.ones(A.m))  # near the leading vector of a matrix that is not negative
    found = 0.0
    for _ in range(12):
        size = float(np.linalg.norm(v))
        if size == 0:
            return most
        v = absolute.adjoint(absolute.apply(v / size))
        found = float(np.linalg.norm(v))
    return min(most, 1.1 * found)
