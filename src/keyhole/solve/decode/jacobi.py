"""Projected Jacobi iteration on the normal equations: every unknown moves at once, by its own share of the gradient.

    x <- clip(x + omega D^-1 A^T (y - A x)),   D = diag(A^T A),   0 < omega < 2 / lambda_max(D^-1/2 A^T A D^-1/2)

with Nesterov's momentum and restarts (a plain sweep needs `condition` steps, this about its square root). Matrix-free.
References: Jacobi's method as in Saad 2003; O'Donoghue and Candes 2015 (restarts).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from keyhole.solve.decode.bitrows import Floats
from keyhole.solve.decode.operator import Operator
from keyhole.solve.status import SolverStatus


def projected_jacobi(
    operator: Operator,
    lo: Floats,
    hi: Floats,
    lower: Floats,
    upper: Floats,
    start: Floats,
    *,
    tolerance: float = 1e-12,
    iterations: int = 20_000,
    watch: Callable[[int, float], None] | None = None,
) -> tuple[Floats, SolverStatus, int]:
    """Minimise the squared distance of A x to [lo, hi] over the box. Ends when a step moves x by less than `tolerance`.

    >>> op = Operator(None, np.array([[1.0, 1.0]]), np.ones(2), np.ones(1))
    >>> y, big = np.array([2.0]), np.full(2, np.inf)
    >>> projected_jacobi(op, y, y, np.zeros(2), big, np.zeros(2))[0].round(9).tolist()
    [1.0, 1.0]
    """
    D = operator.column_squares()
    inverse = np.where(D > 0, 1 / np.where(D > 0, D, 1.0), 0.0)
    omega = 1 / _largest_eigenvalue(operator, np.sqrt(inverse))
    x = np.clip(start, lower, upper)
    ahead, t = x, 1.0
    step = 0
    try:
        for step in range(1, iterations + 1):
            v = operator.apply(ahead)
            r = np.minimum(hi - v, 0.0) + np.maximum(lo - v, 0.0)
            fresh = np.clip(ahead + omega * inverse * operator.adjoint(r), lower, upper)
            move = fresh - x
            misfit = float(r @ r)
            if float((ahead - fresh) @ (D * move)) > 0:  # momentum points uphill: restart it
                t = 1.0
            later = (1 + np.sqrt(1 + 4 * t * t)) / 2
            ahead, t, x = fresh + ((t - 1) / later) * move, later, fresh
            if watch is not None:
                watch(step, float(np.sqrt(misfit / max(1, r.size))))
            if float(np.max(np.abs(move), initial=0.0)) <= tolerance * (1 + float(np.max(np.abs(x), initial=0.0))):
                return x, SolverStatus.CONVERGED, step
    except KeyboardInterrupt:  # the best so far is the answer
        return x, SolverStatus.INTERRUPTED, step
    return x, SolverStatus.ITERATION_LIMIT, iterations


def _largest_eigenvalue(operator: Operator, root: Floats) -> float:
    """An upper bound of lambda_max(D^-1/2 A^T A D^-1/2): that of |A| (Perron: power iteration from ones finds it)."""
    if operator.dense is not None:
        operator = replace(operator, dense=np.abs(operator.dense))
    v = np.ones(operator.p)
    value = 0.0
    for _ in range(50):
        w = root * operator.adjoint(operator.apply(root * v))
        fresh = float(np.linalg.norm(w))
        if fresh == 0:
            return 1.0
        v = w / fresh
        if abs(fresh - value) < 1e-3 * fresh:
            break
        value = fresh
    return 1.05 * fresh
