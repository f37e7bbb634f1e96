"""Sampling the posterior: Gibbs steps on single units, swaps between two, hard answers by soft walls.

A swap (two units exchange their states, or one goes up and another down) crosses what single changes cannot. Hard
answers are kept by a penalty per step of distance that is learnt while the chain warms up, so that about half of its
time it meets them all; only tables that do are counted, which is sampling from exactly those (Liu 2001, 5.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from keyhole.solve.decode.posterior.losses import distance_outside, soft_loss
from keyhole.solve.decode.posterior.units import Floats, Ints, RowLaw, Units

CHAINS = 4
FEWEST = 40  # tables that meet every hard answer, in each chain, below which a sample says nothing


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """P(state) over all chains, how far single chains are from it at most (root mean square), tables counted."""

    chances: Floats
    apart: float
    tables: int


def work_of_a_sweep(units: Units) -> float:
    """Losses evaluated in a sweep (rows that are not Gaussian), and steps through the Gram matrix (those that are)."""
    quadratic = units.law == RowLaw.GAUSSIAN
    other = (~quadratic).astype(np.float64)[units.rows]
    unit = np.repeat(np.arange(units.count), np.diff(units.start))
    each = np.bincount(unit, weights=other, minlength=units.count)
    return float((each * (np.diff(units.states) + 2)).sum() + units.count * (units.count * units.F + 8.0))


def sample_tables(
    units: Units, *, rng: np.random.Generator, sweeps: int, near: Floats | None = None, chains: int = CHAINS
) -> Sampled | None:
    """The marginals from several chains of `sweeps` sweeps each, a quarter of them for warming up; None: not found.

    Without hard answers the conditional chances of every step are averaged (Rao-Blackwell). `near` are approximate
    chances: the first chain starts from their most likely states, the last from the prior, others from draws. The
    chains' disagreement is averaged in: a value that one chain of four never leaves is given one quarter.
    References: geman1984, gelfand1990.
    """
    quadratic = units.law == RowLaw.GAUSSIAN
    B = units.dense()
    W = np.where(quadratic, 1 / np.where(quadratic, units.scale, 1.0) ** 2, 0.0)
    gram = (B * W[:, None]).T @ B
    keep = ~quadratic[units.rows]
    start = np.concatenate([[0], np.cumsum(keep)])[units.start].astype(np.int64)
    rows, coefficients = units.rows[keep], np.ascontiguousarray(units.coefficients[keep])
    hard = bool((units.law == RowLaw.HARD).any())
    found, burn = [], max(1, sweeps // 4)
    steps, tables = units.steps(), 0
    for chain in range(chains):
        logs = units.log_prior if near is None or chain == chains - 1 else np.log(np.maximum(near, 1e-300))
        z = _states(units, logs if chain == 0 and near is not None else logs + rng.gumbel(size=len(logs)))
        state = units.features[units.states[:-1] + z].ravel()
        v = B @ state
        pull = B.T @ (W * (units.y - v))
        shares, counted = _walk(
            start, rows, coefficients, units.F, units.states, units.features, units.log_prior, units.law, units.y,
            units.lo, units.hi, units.scale, steps, gram, pull, v, z.astype(np.int64), sweeps, burn,
            int(rng.integers(2**31 - 1)), hard,
        )  # fmt: skip
        if hard and counted < FEWEST:
            return None
        tables += counted
        found.append(shares / counted)
    each = np.stack(found)
    pooled = each.mean(axis=0)
    return Sampled(pooled, float(np.sqrt(np.mean((each - pooled) ** 2, axis=1)).max()), tables)


def _states(units: Units, score: Floats) -> Ints:
    """The state with the highest score of every unit; with Gumbel noise on logs that is a draw from their chances.

    >>> two = Units.of_columns([np.array([0]), np.array([0])], [np.zeros(2)] * 2, 1)
    >>> _states(two, np.array([0.0, 1.0, 3.0, 2.0])).tolist()
    [1, 0]
    """
    of = np.repeat(np.arange(units.count), np.diff(units.states))
    order = np.lexsort((score, of))
    return np.asarray(order[units.states[1:] - 1] - units.states[:-1])


@njit(cache=True, nogil=True)
def _walk(
    start: Ints, rows: Ints, coefficients: Floats, F: int, states: Ints, features: Floats, prior: Floats,
    law: NDArray[np.int8], y: Floats, lo: Floats, hi: Floats, scale: Floats, steps: Floats,
    gram: Floats, pull: Floats, v: Floats, z: Ints, sweeps: int, burn: int, seed: int, hard: bool,
) -> tuple[Floats, int]:  # fmt: skip
    """Shares of the states over all sweeps that count, not yet divided by how many these are; and that number."""
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator, seeded by the caller's
    count, m = len(start) - 1, len(y)
    walls, walled = np.full(m, 2.0), int((law == 0).sum())
    shares, counted = np.zeros(len(prior)), 0
    weights = np.zeros(np.diff(states).max() if count else 1)
    moved, touched = np.zeros(m), np.zeros(m, dtype=np.int64)
    for sweep in range(sweeps):
        counts = sweep >= burn
        heat = 1.0 if counts else 1.0 + 3.0 * (1.0 - (sweep + 1) / burn)
        _redraw_units(
            heat, counts and not hard, shares, start, rows, coefficients, F, states, features, prior, law, y, lo, hi,
            scale, steps, walls, gram, pull, v, z, weights,
        )  # fmt: skip
        _swap_pairs(
            heat, start, rows, coefficients, F, states, features, prior, law, y, lo, hi, scale, steps, walls, gram,
            pull, v, z, moved, touched,
        )  # fmt: skip
        if counts and not hard:
            counted += 1
        elif counts and _meets_hard_answers(law, v, lo, hi):
            counted += 1
            for u in range(count):
                shares[states[u] + z[u]] += 1.0
        elif not counts and hard:
            _adjust_walls(walls, walled, law, v, lo, hi)
    return shares, counted


@njit(cache=True, nogil=True)
def _redraw_units(
    heat: float, average: bool, shares: Floats, start: Ints, rows: Ints, coefficients: Floats, F: int, states: Ints,
    features: Floats, prior: Floats, law: NDArray[np.int8], y: Floats, lo: Floats, hi: Floats, scale: Floats,
    steps: Floats, walls: Floats, gram: Floats, pull: Floats, v: Floats, z: Ints, weights: Floats,
) -> None:  # fmt: skip
    """Each unit in turn is drawn anew given all others (Gibbs); with `average` its conditional chances are added up.

    One loop over all units, not a function of one: handing so many arrays to a call for each unit doubles the time.
    """
    for u in range(len(start) - 1):
        base, now = states[u], states[u] + z[u]
        best = -math.inf
        for s in range(states[u + 1] - base):
            gain = prior[base + s] - prior[now]
            for f in range(F):  # the Gaussian rows, through their Gram matrix
                d = features[base + s, f] - features[now, f]
                gain += d * pull[u * F + f]
                for g in range(F):
                    gain -= 0.5 * d * gram[u * F + f, u * F + g] * (features[base + s, g] - features[now, g])
            for e in range(start[u], start[u + 1]):
                j = rows[e]
                w = v[j]
                for f in range(F):
                    w += coefficients[e, f] * (features[base + s, f] - features[now, f])
                if law[j] == 0:
                    gain -= walls[j] * distance_outside(w, lo[j], hi[j]) / steps[j]
                else:
                    gain -= soft_loss(law[j], w, y[j], lo[j], hi[j], scale[j])
            weights[s] = gain / heat
            best = max(best, weights[s])
        total = 0.0
        for s in range(states[u + 1] - base):
            weights[s] = math.exp(weights[s] - best)
            total += weights[s]
        mark, drawn = np.random.random() * total, states[u + 1] - base - 1  # noqa: NPY002
        for s in range(states[u + 1] - base):
            mark -= weights[s]
            if mark < 0.0:
                drawn = s
                break
        if average:
            for s in range(states[u + 1] - base):
                shares[base + s] += weights[s] / total
        if drawn != z[u]:
            _move(u, drawn, start, rows, coefficients, F, states, features, gram, pull, v, z)


@njit(cache=True, nogil=True)
def _swap_pairs(
    heat: float, start: Ints, rows: Ints, coefficients: Floats, F: int, states: Ints, features: Floats, prior: Floats,
    law: NDArray[np.int8], y: Floats, lo: Floats, hi: Floats, scale: Floats, steps: Floats, walls: Floats,
    gram: Floats, pull: Floats, v: Floats, z: Ints, moved: Floats, touched: Ints,
) -> None:  # fmt: skip
    """As many tries as there are units: two exchange their states, or one goes up and the other down (Metropolis)."""
    count = len(start) - 1
    for _ in range(count):
        a, b = np.random.randint(count), np.random.randint(count)  # noqa: NPY002
        to_a, to_b = z[b], z[a]
        if np.random.random() < 0.5:  # noqa: NPY002
            to_a, to_b = z[a] + 1, z[b] - 1
        fits = 0 <= to_a < states[a + 1] - states[a] and 0 <= to_b < states[b + 1] - states[b]
        if a == b or not fits or (to_a == z[a] and to_b == z[b]):
            continue
        gain = _swap_gain(
            a, b, to_a, to_b, start, rows, coefficients, F, states, features, prior, law, y, lo, hi, scale, steps,
            walls, gram, pull, v, z, moved, touched,
        )  # fmt: skip
        if gain >= 0.0 or np.random.random() < math.exp(gain / heat):  # noqa: NPY002
            _move(a, to_a, start, rows, coefficients, F, states, features, gram, pull, v, z)
            _move(b, to_b, start, rows, coefficients, F, states, features, gram, pull, v, z)


@njit(cache=True, nogil=True)
def _meets_hard_answers(law: NDArray[np.int8], v: Floats, lo: Floats, hi: Floats) -> bool:
    met = True
    for j in range(len(law)):
        met = met and (law[j] != 0 or distance_outside(v[j], lo[j], hi[j]) == 0.0)
    return met


@njit(cache=True, nogil=True)
def _adjust_walls(walls: Floats, walled: int, law: NDArray[np.int8], v: Floats, lo: Floats, hi: Floats) -> None:
    """While the chain warms up: walls of answers that are missed rise, those of the others fall slowly."""
    for j in range(len(law)):
        if law[j] == 0:
            missed = distance_outside(v[j], lo[j], hi[j]) > 0.0
            walls[j] = min(60.0, max(0.7, walls[j] * (1.15 if missed else 1.0 - 0.15 * 0.7 / walled)))


@njit(cache=True, nogil=True)
def _move(
    u: int, to: int, start: Ints, rows: Ints, coefficients: Floats, F: int, states: Ints, features: Floats,
    gram: Floats, pull: Floats, v: Floats, z: Ints,
) -> None:  # fmt: skip
    now, then = states[u] + z[u], states[u] + to
    for f in range(F):
        d = features[then, f] - features[now, f]
        if d != 0.0:
            for e in range(start[u], start[u + 1]):
                v[rows[e]] += coefficients[e, f] * d
            line = gram[u * F + f]
            for c in range(len(pull)):
                pull[c] -= d * line[c]
    z[u] = to


@njit(cache=True, nogil=True)
def _swap_gain(
    a: int, b: int, to_a: int, to_b: int, start: Ints, rows: Ints, coefficients: Floats, F: int, states: Ints,
    features: Floats, prior: Floats, law: NDArray[np.int8], y: Floats, lo: Floats, hi: Floats, scale: Floats,
    steps: Floats, walls: Floats, gram: Floats, pull: Floats, v: Floats, z: Ints, moved: Floats, touched: Ints,
) -> float:  # fmt: skip
    """log of the ratio of the posterior (with walls) after moving two units at once."""
    gain, seen = 0.0, 0
    for who, to in ((a, to_a), (b, to_b)):
        now, then = states[who] + z[who], states[who] + to
        gain += prior[then] - prior[now]
        for f in range(F):
            d = features[then, f] - features[now, f]
            gain += d * pull[who * F + f]
            for g in range(F):
                gain -= 0.5 * d * gram[who * F + f, who * F + g] * (features[then, g] - features[now, g])
        for e in range(start[who], start[who + 1]):
            j = rows[e]
            if moved[j] == 0.0:
                touched[seen] = j
                seen += 1
                moved[j] = 1e-300  # a mark: two changes may cancel
            for f in range(F):
                moved[j] += coefficients[e, f] * (features[then, f] - features[now, f])
            if moved[j] == 0.0:
                moved[j] = 1e-300
    for f in range(F):
        d = features[states[a] + to_a, f] - features[states[a] + z[a], f]
        for g in range(F):
            gain -= d * gram[a * F + f, b * F + g] * (features[states[b] + to_b, g] - features[states[b] + z[b], g])
    for i in range(seen):
        j = touched[i]
        w = v[j] + moved[j]
        if law[j] == 0:
            gain -= walls[j] * (distance_outside(w, lo[j], hi[j]) - distance_outside(v[j], lo[j], hi[j])) / steps[j]
        else:
            gain -= soft_loss(law[j], w, y[j], lo[j], hi[j], scale[j])
            gain += soft_loss(law[j], v[j], y[j], lo[j], hi[j], scale[j])
        moved[j] = 0.0
    return gain
