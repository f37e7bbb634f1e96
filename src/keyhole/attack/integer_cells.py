"""Integer search over private cells: how many records of each atom are in each cell (categories, yes/no conditions)."""

from __future__ import annotations

import numpy as np

from keyhole.attack.base import Reconstruction
from keyhole.attack.batch import culprits, dense_design
from keyhole.attack.decode import decode, likelihood
from keyhole.attack.problem import Law, Problem
from keyhole.attack.readout import read_values
from keyhole.errors import ContradictionError
from keyhole.solve.cpsat import solve_integers
from keyhole.solve.status import Status


def solve_cells(problem: Problem, seconds: float) -> Reconstruction:
    """Counts per (cell, atom) that meet every exact or interval answer; confidence is the share over the tables found.

    Where sums over cells, or noise, enter the log, the relaxed maximum-likelihood shares are read instead.
    """
    A = dense_design(problem, "integer")
    counted = [f for f, feature in enumerate(problem.features) if feature.column is None]
    noisy = np.isin(problem.law, (Law.LAPLACE, Law.GAUSSIAN)).any()
    if noisy or len(counted) != len(problem.features):
        term, weight = likelihood(problem)
        u = decode(problem, A, term, weight, np.asarray(problem.law == Law.EXACT)).u
        values, confidence, measure = read_values(problem, u, np.zeros(problem.p))
        note = "maximum-likelihood shares of the cells: sums over cells or noise leave no pure counting problem"
        return Reconstruction(values, confidence, problem.residual(A @ u), Status.ROUNDED, measure, note)
    K, F = problem.K, len(problem.features)
    B = problem.totals()
    rows = [np.round(B).astype(np.int64)]
    lo = [np.ceil(np.where(np.isfinite(problem.lo), problem.lo, -(2**40)) - 1e-6).astype(np.int64)]
    hi = [np.floor(np.where(np.isfinite(problem.hi), problem.hi, 2**40) + 1e-6).astype(np.int64)]
    if F > 1:  # the cells of one atom hold at most its records
        each = np.zeros((K, F * K), dtype=np.int64)
        for f in range(F):
            each[np.arange(K), f * K + np.arange(K)] = 1
        rows.append(each)
        lo.append(np.zeros(K, dtype=np.int64))
        hi.append(problem.sizes.astype(np.int64))
    top = problem.weights().astype(np.int64)
    found = solve_integers(np.concatenate(rows), np.concatenate(lo), np.concatenate(hi), top, seconds=seconds)
    if found.status is Status.INFEASIBLE:
        raise ContradictionError(f"no table explains the answers to {', '.join(culprits(problem, A)) or 'the log'}")
    if not len(found.solutions):
        u = decode(problem, A, *likelihood(problem), np.asarray(problem.law == Law.EXACT)).u
        values, confidence, measure = read_values(problem, u, np.zeros(problem.p))
        note = f"the exact search did not end in {seconds:g} s: relaxed shares instead"
        return Reconstruction(values, confidence, problem.residual(A @ u), Status.ROUNDED, measure, note)
    u = found.solutions.mean(axis=0) / problem.weights()
    values, confidence, measure = read_values(problem, u, np.zeros(problem.p))
    note = "the only table that meets every answer" if found.unique else f"shares over {len(found.solutions)} tables"
    return Reconstruction(values, confidence, problem.residual(A @ u), found.status, measure, note)
