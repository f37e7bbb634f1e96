"""The posterior of values on a grid under known noise: enumerated when small, by Gibbs sampling otherwise.

The guess that is right for the most records on average is the most probable value of each record by itself (the
marginal posterior), not the most probable table as a whole. Unknown k takes the integer values 0..top[k] (an atom's
total in grid steps); `log_prior` says in how many ways its records can make up each total.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from keyhole.solve.decode.bitrows import Floats

LAPLACE, GAUSSIAN = 1, 2
ENUMERATED = 1 << 16  # tables up to which the posterior is enumerated


def level_counts(size: int, top: int) -> Floats:
    """log of the number of ways `size` records with values 0..top make each total 0..size*top.

    >>> np.exp(level_counts(2, 1)).round().tolist()
    [1.0, 2.0, 1.0]
    """
    log_counts = np.zeros(1)
    for _ in range(size):  # convolution in logs: counts overflow at a few hundred records
        wider = np.full(len(log_counts) + top, -np.inf)
        for v in range(top + 1):
            wider[v : v + len(log_counts)] = np.logaddexp(wider[v : v + len(log_counts)], log_counts)
        log_counts = wider
    return log_counts


def enumerate_posterior(
    A: Floats, y: Floats, law: NDArray[np.int8], scale: Floats, top: NDArray[np.int64], log_prior: list[Floats]
) -> list[Floats]:
    """P(total of unknown k = v | answers) for every k, exactly, by looking at every table. Cost: m times the tables.

    >>> A, law = np.ones((1, 1)), np.array([LAPLACE], dtype=np.int8)
    >>> p = enumerate_posterior(A, np.ones(1), law, np.ones(1), np.array([1]), [np.zeros(2)])
    >>> p[0].round(4).tolist()  # 1 : e
    [0.2689, 0.7311]
    """
    axes = [np.arange(t + 1) for t in top]
    tables = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    weight = np.zeros(len(tables))
    for k, prior in enumerate(log_prior):
        weight += prior[tables[:, k]]
    laplace = law == LAPLACE
    for start in range(0, len(tables), 4096):
        r = y[None, :] - tables[start : start + 4096] @ A.T
        loss = np.where(laplace, np.abs(r) / scale, 0.5 * (r / scale) ** 2)
        weight[start : start + 4096] -= loss.sum(axis=1)
    share = np.exp(weight - weight.max())
    share /= share.sum()
    return [np.bincount(tables[:, k], weights=share, minlength=t + 1).astype(np.float64) for k, t in enumerate(top)]


def enumerate_feasible(
    C: NDArray[np.int64], lo: NDArray[np.int64], hi: NDArray[np.int64], top: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Every table 0 <= z <= top with lo <= C z <= hi, one a row, in order. Cost: rows times the tables.

    >>> enumerate_feasible(np.array([[1, 1]]), np.array([1]), np.array([1]), np.array([1, 1])).tolist()
    [[0, 1], [1, 0]]
    """
    axes = [np.arange(t + 1) for t in top]
    tables = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    met = np.ones(len(tables), dtype=bool)
    for row, least, most in zip(C, lo, hi, strict=True):
        total = tables @ row
        met &= (total >= least) & (total <= most)
    return np.asarray(tables[met], dtype=np.int64)


def sample_posterior(
    A: Floats,
    y: Floats,
    law: NDArray[np.int8],
    scale: Floats,
    top: NDArray[np.int64],
    log_prior: list[Floats],
    start: NDArray[np.int64],
    *,
    rng: np.random.Generator,
    sweeps: int = 2000,
    burn: int = 500,
) -> list[Floats]:
    """The same marginals by Gibbs sampling, averaged over conditionals (Rao-Blackwell), after an annealed start.

    Each sweep draws every unknown from its exact conditional, then tries K swaps of one step; the first `burn` sweeps
    cool from temperature 4 to 1 so that the start does not matter. Cost: sweeps * m * sum(top + 1). References:
    geman1984, gelfand1990.
    """
    offset = np.concatenate([[0], np.cumsum(top + 1)]).astype(np.int64)
    prior = np.concatenate(log_prior)
    chain = start.astype(np.int64).copy()
    chain_rng = int(rng.integers(2**31 - 1))
    At = np.ascontiguousarray(A.T)
    shares = _gibbs(At, y - A @ chain, law, scale, offset, prior, chain, sweeps, burn, chain_rng)
    return [shares[offset[k] : offset[k + 1]] / max(1, sweeps - burn) for k in range(len(top))]


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"}, nogil=True)
def _gibbs(
    At: Floats,
    r: Floats,
    law: NDArray[np.int8],
    scale: Floats,
    offset: NDArray[np.int64],
    prior: Floats,
    z: NDArray[np.int64],
    sweeps: int,
    burn: int,
    seed: int,
) -> Floats:
    K, m = At.shape
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator, seeded by the caller's
    shares = np.zeros(len(prior))
    inverse = 1.0 / scale
    most = 0
    for k in range(K):
        most = max(most, offset[k + 1] - offset[k])
    logs = np.zeros(most)
    for sweep in range(sweeps):
        heat = 1.0 if sweep >= burn else 1.0 + 3.0 * (1.0 - (sweep + 1) / burn)
        for k in range(K):
            column = At[k]
            states = offset[k + 1] - offset[k]
            best = -math.inf
            for v in range(states):
                step = float(v - z[k])
                loss = 0.0
                for j in range(m):
                    e = abs(r[j] - step * column[j]) * inverse[j]
                    loss += e if law[j] == 1 else 0.5 * e * e
                logs[v] = (prior[offset[k] + v] - loss) / heat
                best = max(best, logs[v])
            total = 0.0
            for v in range(states):
                logs[v] = math.exp(logs[v] - best)
                total += logs[v]
            mark, drawn = np.random.random() * total, states - 1  # noqa: NPY002
            for v in range(states):
                mark -= logs[v]
                if mark < 0.0:
                    drawn = v
                    break
            if sweep >= burn:
                for v in range(states):
                    shares[offset[k] + v] += logs[v] / total
            if drawn != z[k]:
                step = float(drawn - z[k])
                for j in range(m):
                    r[j] -= step * column[j]
                z[k] = drawn
        # Many logs hardly tell "one up, another down" apart, but rule out either alone: swaps (Metropolis) cross that.
        for _ in range(K):
            k, l = np.random.randint(K), np.random.randint(K)  # noqa: NPY002, E741
            if k == l or z[k] + 1 >= offset[k + 1] - offset[k] or z[l] == 0:
                continue
            gain = prior[offset[k] + z[k] + 1] - prior[offset[k] + z[k]]
            gain += prior[offset[l] + z[l] - 1] - prior[offset[l] + z[l]]
            up, down = At[k], At[l]
            for j in range(m):
                e = abs(r[j]) * inverse[j]
                f = abs(r[j] - up[j] + down[j]) * inverse[j]
                gain += e - f if law[j] == 1 else 0.5 * (e * e - f * f)
            if gain >= 0.0 or np.random.random() < math.exp(gain / heat):  # noqa: NPY002
                for j in range(m):
                    r[j] += down[j] - up[j]
                z[k] += 1
                z[l] -= 1
    return shares
