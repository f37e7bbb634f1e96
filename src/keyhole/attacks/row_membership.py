"""Who has such a row, who satisfies such a condition: counts of people as 0/1 unknowns, proved or guessed.

What the counts force is proved (`solve.counting`). Of what stays open, the unknowns that nothing but plain sums ties
together are given their posterior, every way to fill in what was asked about that gives the same counts being as likely
as another (`solve.decode.posterior`): of 10 people of whom 3 have it, each has it with probability 3/10. Unknowns that
an AND, an OR or an implication ties together ("some record of his") are no sums, and are left open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.model.people import Counting
from keyhole.model.predicate import Leaf
from keyhole.solve.counting import OPEN, Forced, Network, solve
from keyhole.solve.counting.network import AndGate, OrGate, SumGate
from keyhole.solve.decode.posterior.compute import compute_marginals
from keyhole.solve.decode.posterior.units import Units

Ints: TypeAlias = NDArray[np.int64]
SECONDS = 5.0
MOST_TIES = 2_000_000  # gates, record by record, up to which it is looked up what hangs together


@dataclass(frozen=True, slots=True, eq=False)
class RowMembership:
    """A condition on records that look at the same rows: the chance that it holds, None if it is not computed.

    `proved`: the counts leave no other possibility.
    """

    leaf: Leaf
    rows: tuple[int, ...]
    chance: float | None
    proved: bool


def guess_row_membership(counting: Counting, *, rng: np.random.Generator) -> Iterator[RowMembership]:
    """Every condition that some count looks at, of everybody. Raises `Conflict` where the counts cannot all be true.

    Cost: that of `solve.counting`, and of the posterior of the components (a few seconds at most).
    """
    state = Forced(Network.of(counting))
    solve(counting, state, None)
    asked = _asked(state)
    chances = _chances(state, asked, rng)
    for atom, offset in zip(counting.atoms, state.net.offsets, strict=True):
        order = np.argsort(atom.at, kind="stable")
        places = np.searchsorted(atom.at[order], np.arange(atom.count + 1))
        for k in range(atom.count):
            v, rows = offset + k, tuple(np.sort(order[places[k] : places[k + 1]]).tolist())
            if state.value[v] != OPEN and state.why[v]:
                yield RowMembership(atom.leaf, rows, float(state.value[v]), proved=True)
            elif state.value[v] == OPEN and asked[v]:
                yield RowMembership(atom.leaf, rows, chances.get(v), proved=False)


def _asked(state: Forced) -> NDArray[np.bool_]:
    """The variables that some constraint looks at."""
    found = np.zeros(state.net.size, dtype=np.bool_)
    for gate in state.net.sums:
        found[gate.literals >> 1] = True
    inputs = [gate.inputs for gate in state.net.ands] + [gate.inputs for gate in state.net.ors]
    for literals in inputs:
        found[literals.ravel() >> 1] = True
    return found


def _chances(state: Forced, asked: NDArray[np.bool_], rng: np.random.Generator) -> dict[int, float]:
    """P(1) of the open variables that only sums tie together."""
    tied = _tied(state, asked)
    sums = [gate for gate in state.net.sums if gate.lo is not None or gate.hi is not None]
    if tied is None:
        return {}
    spread = True
    while spread:  # a sum that looks at a tied one ties all that it looks at
        spread = False
        for gate in sums:
            open_ = gate.literals[state.of(gate.literals) == OPEN] >> 1
            if tied[open_].any() and not tied[open_].all():
                tied[open_] = spread = True
    told = np.zeros(state.net.size, dtype=np.bool_)
    for gate in sums:
        told[gate.literals >> 1] = True
    free = np.flatnonzero((state.value == OPEN) & told & ~tied)
    kept = [g for g in sums if np.isin(g.literals >> 1, free).any()]
    if not len(free):
        return {}
    found = compute_marginals(_units(state, free, kept), rng=rng, seconds=SECONDS)
    if found.impossible is not None and len(found.impossible):
        return {}
    return dict(zip(free.tolist(), found.chances[1::2].tolist(), strict=True))


def _tied(state: Forced, asked: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """Open variables that something else than a sum looks at; None if that is too much to look up."""
    net, tied = state.net, np.zeros(state.net.size, dtype=np.bool_)
    size = sum(g.inputs.size for g in net.ands) + sum(g.inputs.size for g in net.ors)
    if size + sum(len(left) for left, _ in net.implied) + sum(e.size for e in net.exclusive) > MOST_TIES:
        return None
    gates: list[AndGate | OrGate] = [*net.ands, *net.ors]
    for gate in gates:
        for literals in (gate.out, gate.inputs.ravel()):
            tied[literals[state.of(literals) == OPEN] >> 1] = True
    for left, right in net.implied:
        both = (state.of(left) == OPEN) & (state.of(right) == OPEN) & asked[left >> 1] & asked[right >> 1]
        tied[left[both] >> 1] = tied[right[both] >> 1] = True
    for literals in net.exclusive:
        open_ = (state.of(literals.ravel()) == OPEN).reshape(literals.shape) & asked[literals >> 1]
        tied[(literals >> 1)[open_ & (open_.sum(axis=0) > 1)]] = True
    return tied


def _units(state: Forced, free: Ints, sums: list[SumGate]) -> Units:
    """Each open variable as a unit with two states, each answer with what is known taken off."""
    place = np.full(state.net.size, -1, dtype=np.int64)
    place[free] = np.arange(len(free))
    rows: list[tuple[Ints, Ints, NDArray[np.float64]]] = []
    lo, hi = np.full(len(sums), -np.inf), np.full(len(sums), np.inf)
    for j, gate in enumerate(sums):
        weights = np.ones(len(gate.literals)) if gate.weights is None else gate.weights.astype(np.float64)
        values, negated = state.of(gate.literals), (gate.literals & 1) == 1
        open_ = values == OPEN
        known = float(weights[values == 1].sum()) + float(weights[open_ & negated].sum())
        ends = (-np.inf if gate.lo is None else gate.lo, np.inf if gate.hi is None else gate.hi)
        lo[j], hi[j] = (float(end) - known for end in ends)
        units, where = np.unique(place[gate.literals[open_] >> 1], return_inverse=True)
        signed = np.zeros(len(units))
        np.add.at(signed, where, np.where(negated, -weights, weights)[open_])  # a key of several records counts often
        rows.append((np.full(len(units), j, dtype=np.int64), units, signed))
    row, unit, weight = (np.concatenate(part) for part in zip(*rows, strict=True))
    order = np.lexsort((row, unit))
    start = np.searchsorted(unit[order], np.arange(len(free) + 1)).astype(np.int64)
    zero = np.zeros(len(sums))
    return Units(
        start, row[order], weight[order][:, None], 2 * np.arange(len(free) + 1, dtype=np.int64),
        np.tile([0.0, 1.0], len(free))[:, None], np.full(2 * len(free), np.log(0.5)),
        zero.astype(np.int8), zero, lo, hi, zero,
    )  # fmt: skip
