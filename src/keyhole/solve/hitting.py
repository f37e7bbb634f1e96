"""The smallest set that meets every given set: a hitting set, by HiGHS.

min sum of x_u over u with sum of x_u over u in S at least 1 for every S, x in {0, 1}. NP-hard in general; the sets that
proofs of exposure use are few and short, so HiGHS takes milliseconds. What it gives is checked to meet every set.
Reference: [karp1972].
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Generic, TypeVar

import numpy as np

Unit = TypeVar("Unit", bound=Hashable)
SLACK = 1e-6  # of a bound that HiGHS computes in floats


@dataclass(frozen=True, slots=True)
class HittingSet(Generic[Unit]):
    """A set that meets all sets, and a number that no such set goes below (in units of the least cost)."""

    chosen: frozenset[Unit]
    bound: int


def smallest_hitting_set(
    sets: Iterable[frozenset[Unit]], costs: Mapping[Unit, int], seconds: float
) -> HittingSet[Unit]:
    """A set of least cost that meets every set; when the time is up, the best found and the bound.

    >>> sorted(smallest_hitting_set([frozenset("ab"), frozenset("bc")], {}, 5).chosen)
    ['b']
    """
    shortest = _irredundant(sets)
    if not shortest:
        return HittingSet(frozenset(), 0)
    if not all(shortest):
        raise ValueError("an empty set cannot be met")
    units = sorted({u for each in shortest for u in each}, key=str)
    found = _solved(shortest, units, costs, seconds)
    chosen = frozenset(u for u, x in zip(units, found.x, strict=True) if x > 0.5) if found.x is not None else None
    bound = max(1, ceil(float(found.mip_dual_bound or 0) - SLACK))
    if chosen is None or any(not each & chosen for each in shortest):
        chosen = _greedy(shortest)
    return HittingSet(chosen, bound)


def _irredundant(sets: Iterable[frozenset[Unit]]) -> list[frozenset[Unit]]:
    """Without those that contain another one."""
    found: list[frozenset[Unit]] = []
    for each in sorted(set(sets), key=len):
        if not any(other <= each for other in found):
            found.append(each)
    return found


def _solved(sets: list[frozenset[Unit]], units: list[Unit], costs: Mapping[Unit, int], seconds: float) -> Any:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    at = {u: k for k, u in enumerate(units)}
    rows = np.concatenate([np.full(len(each), k) for k, each in enumerate(sets)])
    columns = np.array([at[u] for each in sets for u in sorted(each, key=str)])
    matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(sets), len(units)))
    return milp(
        np.array([float(costs.get(u, 1)) for u in units]),
        constraints=LinearConstraint(matrix, lb=1),
        integrality=np.ones(len(units), dtype=np.int64),
        bounds=Bounds(0, 1),
        options={"time_limit": max(seconds, 0.1), "mip_rel_gap": 0},
    )


def _greedy(sets: list[frozenset[Unit]]) -> frozenset[Unit]:
    """A set that meets all, by taking what meets most."""
    left, chosen = list(sets), set()
    while left:
        counts: dict[Unit, int] = {}
        for each in left:
            for u in each:
                counts[u] = counts.get(u, 0) + 1
        best = max(sorted(counts, key=str), key=lambda u: counts[u])
        chosen.add(best)
        left = [each for each in left if best not in each]
    return frozenset(chosen)
