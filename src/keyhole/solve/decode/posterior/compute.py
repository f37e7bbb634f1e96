"""The marginal posterior of every unit, component by component, by the most exact way that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyhole.solve.decode.posterior.chains import CHAINS, Sampled, sample_tables, work_of_a_sweep
from keyhole.solve.decode.posterior.enumeration import enumerate_tables, list_tables
from keyhole.solve.decode.posterior.expectation_propagation import LARGEST, propagate_chances
from keyhole.solve.decode.posterior.units import Floats, Ints, RowLaw, Units

WORK = 6e8  # losses that chains may evaluate: a few seconds
FEWEST_SWEEPS = 60
QUICK, QUICK_SWEEPS = 3e7, 250  # the same for errors of a guess: a tenth of a second
SWEEPS = 500
SEARCHED = 14.0  # entropy (of the approximate chances, in nats) up to which all tables are searched for
AGREED = 0.08  # root mean square distance of a chain from the others (or of two ways) up to which they are believed


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """P(state), flat like `Units.features`, and how many units were computed in which way.

    `impossible` are the rows of a component that no table meets.
    """

    chances: Floats
    ways: dict[str, int]
    apart: float = 0.0
    tables: int = 1
    impossible: Ints | None = None
    stopped: bool = False


def compute_marginals(
    units: Units, *, rng: np.random.Generator, seconds: float = 10.0, watch: Callable[[int, float], None] | None = None
) -> Marginals:
    """P(state of u | answers) for every unit.

    Units that no answer touches keep their prior. Per component: every table where few are left (exact); all tables
    that CP-SAT lists, without noise (exact); chains with swaps (a sample of tables, checked against one another);
    expectation propagation (approximate). Interrupted, what was not computed keeps its prior.

    >>> two = Units.of_columns([np.array([0]), np.array([], dtype=int)], [np.zeros(2)] * 2, 1)
    >>> found = compute_marginals(two, rng=np.random.default_rng(0))
    >>> found.chances.tolist(), found.ways
    ([1.0, 0.0, 0.5, 0.5], {'enumerated': 1, 'untouched': 1})
    """
    chances = np.exp(units.log_prior)
    ways: dict[str, int] = {}
    apart, tables = 0.0, 1
    done = 0
    for who, rows in units.components():
        done += len(who)
        if not len(rows):
            ways["untouched"] = ways.get("untouched", 0) + len(who)
            continue
        part = units.part(who, rows)
        try:
            way, found, off, count = _component(part, rng, seconds)
        except KeyboardInterrupt:
            return Marginals(chances, ways, apart, tables, stopped=True)
        if found is None:
            return Marginals(chances, ways, impossible=rows)
        ways[way] = ways.get(way, 0) + len(who)
        apart, tables = max(apart, off), min(tables * max(count, 1), 10**12)
        at = 0
        for u in who:
            size = units.of(int(u)).stop - units.of(int(u)).start
            chances[units.of(int(u))] = found[at : at + size]
            at += size
        if watch is not None and done < units.count:  # after the last there is nothing to stop
            try:
                watch(done, off)
            except KeyboardInterrupt:
                return Marginals(chances, ways, apart, tables, stopped=True)
    return Marginals(chances, ways, apart, tables)


def estimate_chances(units: Units) -> Floats:
    """P(state) by short chains where they are cheap and agree, by expectation propagation where not.

    The latter is a little too sure of what is nearly decided. What exact answers tie together is looked at table by
    table where that is quick: of two bits with the sum 1 a Gaussian says too little. Seeded, so that the same answers
    give the same.

    >>> estimate_chances(Units.of_columns([np.array([0])], [np.zeros(2)], 1)).round(2).tolist()
    [1.0, 0.0]
    """
    if not units.m:
        return np.exp(units.log_prior)
    near = propagate_chances(units)
    if (units.law == RowLaw.HARD).any():
        counted = count_chances(units, QUICK)
        return np.where(np.isnan(counted), near, counted)
    sweeps = int(min(QUICK_SWEEPS, QUICK / (CHAINS * work_of_a_sweep(units)))) if units.count else 0
    if sweeps < QUICK_SWEEPS // 2 or (units.law == RowLaw.GROSS).any():
        return near
    sampled = sample_tables(units, rng=np.random.default_rng(units.m), sweeps=sweeps, near=near)
    return sampled.chances if sampled is not None and sampled.apart < AGREED else near


def count_chances(units: Units, work: float) -> Floats:
    """P(state) of components whose tables can all be looked at with so many additions in all; NaN elsewhere.

    >>> from dataclasses import replace
    >>> pair = Units.of_columns([np.array([0])] * 2, [np.zeros(2)] * 2, 1)
    >>> count_chances(replace(pair, lo=np.ones(1), hi=np.ones(1)), 1e3).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    found = np.full(len(units.features), np.nan)
    every = units.components()
    for who, rows in every:
        if not len(rows) or (units.law[rows] == RowLaw.GROSS).any():
            continue
        part = enumerate_tables(units.part(who, rows), work / len(every))
        if part.complete and part.tables:
            found[np.concatenate([np.r_[units.of(int(u))] for u in who])] = part.chances
    return found


def _component(units: Units, rng: np.random.Generator, seconds: float) -> tuple[str, Floats | None, float, int]:
    """(way, chances, disagreement of chains, tables); chances None: no table meets the hard answers."""
    few = float(np.log(np.diff(units.states)).sum()) < np.log(3e7)
    hard = units.law == RowLaw.HARD
    if few or hard.any():
        every = enumerate_tables(units, 1e9 if few else 3e7)
        if every.complete:
            return "enumerated", every.chances if every.tables else None, 0.0, every.tables
    wide = units.count * units.F
    if wide > LARGEST:
        raise MemoryError(f"{wide} unknowns")
    near = propagate_chances(units)
    # chains meet tables that are few seldom, a search does: the approximate entropy says how many there are
    if hard.all() and float(-(near * np.log(np.maximum(near, 1e-300))).sum()) < SEARCHED:
        listed = list_tables(units, seconds)
        if listed is not None:
            return "enumerated", listed.chances if listed.tables else None, 0.0, listed.tables
    sweeps = int(min((3 if hard.any() else 1) * SWEEPS, WORK / (CHAINS * work_of_a_sweep(units))))
    if sweeps >= FEWEST_SWEEPS:
        short = sample_tables(units, rng=rng, sweeps=sweeps // 4, near=near, chains=CHAINS if hard.any() else 2)
        if short is not None and (both := _confirmed(short, near, bool(hard.any()))) is not None:
            return "sampled", both, short.apart, short.tables
        sampled = sample_tables(units, rng=rng, sweeps=sweeps, near=near)
        if sampled is not None and sampled.apart < AGREED:
            return "sampled", sampled.chances, sampled.apart, sampled.tables
    return "approximated", near, 0.0, 1


def _confirmed(short: Sampled, near: Floats, hard: bool) -> Floats | None:
    """What short chains say, if that can be believed.

    They may agree closely among themselves; or, without hard answers, with the approximation, which errs in other ways:
    then the mean of both is taken.
    """
    if hard and short.apart < AGREED / 4:
        return short.chances
    agree = not hard and float(np.sqrt(np.mean((short.chances - near) ** 2))) < AGREED
    return (short.chances + near) / 2 if agree else None
