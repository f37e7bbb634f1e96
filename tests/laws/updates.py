"""Laws of every database update: how often it can be wrong, whatever it is asked.

An adversary drives the update: he knows the database x, picks at each step a query on which the hypothesis is wrong
by at least alpha, and answers it with any number within alpha of the truth. No such sequence may outlast T(alpha).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.laws import updates_liars as liars
from tests.laws.law import Law, Specimen

from keyhole.defence.linear import LinearQuery
from keyhole.defence.updates.base import DatabaseUpdate
from keyhole.defence.updates.median import Median
from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights
from keyhole.defence.updates.perceptron import Perceptron

Factory = Callable[[int, float], DatabaseUpdate[Any]]


@dataclass(frozen=True, slots=True)
class UpdateWorld:
    """A database as shares of n, the queries that may be asked, the accuracy, and how the adversary plays.

    `greed`: he takes the wrongest query (1) or the one that is barely wrong (0). `lie` in (-1, 1): how far from the
    truth, in alphas and towards the hypothesis, his answers are.
    """

    name: str
    shares: tuple[float, ...]
    queries: tuple[LinearQuery, ...]
    alpha: float
    greed: int
    lie: float


def all_counting_queries(cells: int) -> tuple[LinearQuery, ...]:
    """Every non-empty proper subset of the cells."""
    return tuple(LinearQuery.of(bits) for bits in product((0, 1), repeat=cells) if 0 < sum(bits) < cells)


def weighted_queries(cells: int, unit: int, rng: np.random.Generator, count: int) -> tuple[LinearQuery, ...]:
    """Random queries with weights in steps of 1/unit."""
    return tuple(LinearQuery.of(rng.integers(0, unit + 1, cells), unit) for _ in range(count))


def duel(update: DatabaseUpdate[Any], world: UpdateWorld, most: int) -> Iterator[tuple[float, float]]:
    """An update sequence: yields (value of the hypothesis, truth) of each query it was wrong on, until it is right."""
    x = np.array(world.shares)
    truths = [float(q.dense() @ x) for q in world.queries]
    state = update.start()
    for _ in range(most):
        values = [update.value(state, q) for q in world.queries]
        gaps = [abs(v - t) for v, t in zip(values, truths, strict=True)]
        wrong = [i for i, gap in enumerate(gaps) if gap >= world.alpha]
        if not wrong:
            return
        i = max(wrong, key=lambda j: gaps[j]) if world.greed else min(wrong, key=lambda j: gaps[j])
        yield values[i], truths[i]
        toward = 1.0 if values[i] > truths[i] else -1.0
        state = update.update(state, world.queries[i], truths[i] + toward * world.lie * world.alpha)


def _share(weights: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple((weights / weights.sum()).tolist())


def _worlds() -> tuple[UpdateWorld, ...]:
    """Small universes, each a different kind of hard."""
    rng = np.random.default_rng(11)
    made = []
    for cells, alpha in ((2, 0.1), (3, 0.2), (4, 0.25), (5, 0.3)):
        point = tuple(1.0 if i == 0 else 0.0 for i in range(cells))
        skew = _share(rng.exponential(size=cells) ** 3)
        for name, shares in (("point mass", point), ("skewed", skew)):
            for greed, lie in ((1, 0.0), (0, 0.999), (0, -0.999), (1, 0.999)):
                label = f"{name}, {cells} cells, alpha {alpha}, greed {greed}, lie {lie}"
                made.append(UpdateWorld(label, shares, all_counting_queries(cells), alpha, greed, lie))
    weighted = weighted_queries(4, 7, rng, 60)
    made.append(UpdateWorld("weighted, 4 cells", _share(rng.exponential(size=4)), weighted, 0.2, 0, 0.999))
    return tuple(made)


WORLDS = _worlds()


def no_update_sequence_outlasts_its_limit(factory: Factory, worlds: Sequence[UpdateWorld] = WORLDS) -> None:
    """At most T(alpha) updates; then every query is within alpha."""
    for world in worlds:
        update = factory(len(world.shares), world.alpha)
        limit = update.limit(world.alpha)
        steps = sum(1 for _ in duel(update, world, int(limit) + 2))
        assert steps <= limit, f"{world.name}: {steps} updates where T(alpha) = {limit:.2f}"


def a_state_survives_the_ledger(factory: Factory, worlds: Sequence[UpdateWorld] = WORLDS) -> None:
    """pack and unpack change no value by more than rounding, before and after updates."""
    for world in worlds:
        update = factory(len(world.shares), world.alpha)
        state = update.start()
        for i, q in enumerate(world.queries[:12]):
            again = update.unpack(update.pack(state))
            for other in world.queries[:20]:
                gap = abs(update.value(again, other) - update.value(state, other))
                assert gap < 1e-9, f"{world.name}: unpacking moved a value by {gap}"
            state = update.update(state, q, 1.0 if i % 2 else 0.0)


def an_update_moves_towards_the_answer(factory: Factory, worlds: Sequence[UpdateWorld] = WORLDS) -> None:
    """After an update the hypothesis is not farther from the answer's side than before."""
    for world in worlds:
        update = factory(len(world.shares), world.alpha)
        for q in world.queries[:40]:
            for answer in (0.0, 1.0):
                before = update.value(update.start(), q)
                if abs(before - answer) < world.alpha:
                    continue
                after = update.value(update.update(update.start(), q, answer), q)
                moved = after - before if answer > before else before - after
                assert moved > 0, f"{world.name}: told {answer}, it went from {before} to {after}"


SPECIMENS: tuple[Specimen[Factory], ...] = (
    Specimen("MultiplicativeWeights", MultiplicativeWeights),
    Specimen("Median", Median),
    Specimen("Perceptron", Perceptron),
)
LAWS: tuple[Law[Factory], ...] = (
    Law(no_update_sequence_outlasts_its_limit, (Specimen("Timid", liars.Timid),)),
    Law(a_state_survives_the_ledger, (Specimen("ForgetsTheLedger", liars.ForgetsTheLedger),)),
    Law(an_update_moves_towards_the_answer, (Specimen("Contrary", liars.Contrary),)),
)
