"""Integer search over private cells: how many records of each atom are in each cell (categories, yes/no conditions)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from keyhole.attack.base import Floats, Reconstruction
from keyhole.attack.batch import culprits, dense_design
from keyhole.attack.decode import decode, likelihood
from keyhole.attack.decoding_problem import NoiseLaw, Problem
from keyhole.attack.record_values import read_values
from keyhole.errors import ContradictionError
from keyhole.solve.decode.cpsat import solve_integers
from keyhole.solve.status import SolverStatus


def solve_cells(problem: Problem, seconds: float) -> Reconstruction:
    """Counts per (cell, atom) that meet every exact or interval answer; confidence is the share over the tables found.

    Where sums over cells, or noise, enter the log, the relaxed maximum-likelihood shares are read instead.
    """
    A = dense_design(problem, "integer")
    counted = [f for f, feature in enumerate(problem.features) if feature.column is None]
    noisy = np.isin(problem.law, (NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN)).any()
    if noisy or len(counted) != len(problem.features):
        term, weight = likelihood(problem)
        u = decode(problem, A, term, weight, np.asarray(problem.law == NoiseLaw.EXACT)).u
        values, confidence, measure = read_values(problem, u, np.zeros(problem.p))
        note = "maximum-likelihood shares of the cells: sums over cells or noise leave no pure counting problem"
        return Reconstruction(values, confidence, problem.residual(A @ u), SolverStatus.ROUNDED, measure, note)
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
    if found.status is SolverStatus.INFEASIBLE:
        raise ContradictionError(f"no table explains the answers to {', '.join(culprits(problem, A)) or 'the log'}")
    if not len(found.solutions):
        u = decode(problem, A, *likelihood(problem), np.asarray(problem.law == NoiseLaw.EXACT)).u
        values, confidence, measure = read_values(problem, u, np.zeros(problem.p))
        note = f"the exact search did not end in {seconds:g} s: relaxed shares instead"
        return Reconstruction(values, confidence, problem.residual(A @ u), SolverStatus.ROUNDED, measure, note)
    ways = _ways(found.solutions, problem)
    u = ways @ found.solutions / problem.weights()
    values, confidence, measure = read_values(problem, u, np.zeros(problem.p))
    count = len(found.solutions)
    note = (
        "the only table that meets every answer"
        if found.unique
        else f"shares over all {count} tables that meet every answer"
        if found.complete
        else f"shares over a sample of {count} different tables, not of all: a heuristic"
    )
    status = found.status if found.complete else SolverStatus.SAMPLED
    return Reconstruction(values, confidence, problem.residual(A @ u), status, measure, note)


def _ways(tables: NDArray[np.int64], problem: Problem) -> Floats:
    """Weight of every table of counts: in how many ways records and categories can make it up, summing to 1."""
    column = problem.target.column
    counts = tables.reshape(len(tables), -1, problem.K)
    cells = [{c for joint in f.cells for c in joint if c.column == column and not c.null} for f in problem.features]
    every = len(problem.target.categories or ()) or len(problem.cells)
    left = problem.sizes - counts.sum(axis=1)
    named = problem.target.categories is not None  # a cell may hold several names
    width = np.array([max(1, sum(len(c.pieces) if named else 1 for c in held)) for held in cells], dtype=np.float64)
    log = (counts * np.log(width)[None, :, None] - gammaln(counts + 1)).sum(axis=(1, 2))
    log += (left * np.log(max(1.0, every - float(width.sum()))) - gammaln(left + 1)).sum(axis=1)
    weight = np.exp(log - log.max())
    return np.asarray(weight / weight.sum())
