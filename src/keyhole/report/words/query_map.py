"""Which query is about whom, as a small picture: people who are in the same queries stand side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from keyhole.gather.evidence import Constraint, Evidence, System
from keyhole.report.documents.verdict import QueryMap

SQUARES = 60  # at most so many rows and columns
LOOKED = 5  # queries of one row that are looked at


def query_map(evidence: Evidence) -> QueryMap:
    """`queries` and `people` (names of rows and columns) and `shares`: of those people, how many the query counts.

    Of many queries, rows are consecutive ones; of many people, columns are neighbours in the order of the queries they
    are in. The system with the most queries is shown. Cost: a pass over its atoms for each query looked at.
    """
    systems = [(s, [c for c in s.constraints if c.fact is None]) for s in evidence.systems]
    system, rows = max(systems, key=lambda each: len(each[1]), default=(None, []))
    if system is None or not rows:
        return QueryMap()
    blocks = _blocks(rows)
    order = _order(system, [block[0] for block in blocks])
    sizes = system.atoms.sizes[order].astype(np.float64)
    starts, people = _columns(sizes)
    shares = []
    for block in blocks:
        picked = block[:: max(1, len(block) // LOOKED)]
        counted = sum(np.add.reduceat(sizes * _counted(system, c)[order], starts) for c in picked)
        shares.append([round(float(v), 3) for v in counted / (people * len(picked))])
    return QueryMap(
        queries=tuple(map(_span, blocks)),
        people=tuple(f"{int(n):,} people" if n > 1 else "1 person" for n in people),
        shares=tuple(map(tuple, shares)),
    )


def _blocks(rows: Sequence[Constraint]) -> list[Sequence[Constraint]]:
    size = -(-len(rows) // SQUARES)
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _span(block: Sequence[Constraint]) -> str:
    first, last = block[0].number, block[-1].number
    return f"Q{first}" if first == last else f"Q{first} to Q{last}"


def _counted(system: System, constraint: Constraint) -> NDArray[np.bool_]:
    found = np.zeros(system.atoms.K, dtype=np.bool_)
    for part in constraint.parts:
        found |= system.atoms.mask(part.where)
    return found


def _order(system: System, rows: Sequence[Constraint]) -> NDArray[np.int64]:
    """The atoms sorted by their queries, the first query first."""
    keys = [~_counted(system, c) for c in reversed(rows)]
    return np.lexsort(keys).astype(np.int64) if keys else np.arange(system.atoms.K)


def _columns(sizes: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Neighbouring atoms put together, about equally many people each: where they start, and how many they are."""
    if len(sizes) <= SQUARES:
        starts = np.arange(len(sizes))
    else:
        before = np.cumsum(sizes) - sizes
        starts = np.unique(np.searchsorted(before, np.linspace(0, sizes.sum(), SQUARES, endpoint=False)))
    return starts, np.add.reduceat(sizes, starts)
