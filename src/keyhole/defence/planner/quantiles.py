"""Quantiles by the exponential mechanism over the declared grid, each released once."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.budget.ledger import Bought, Kept, Ledger
from keyhole.defence.budget.loss import Loss, Neighbours, Unit, round_down
from keyhole.defence.noise import check_scale
from keyhole.defence.planner.asks import Wanted
from keyhole.defence.planner.columns import Partitions
from keyhole.defence.planner.tree import tree_mark
from keyhole.defence.workload import Estimate
from keyhole.model.predicate import quote_name, to_sql

if TYPE_CHECKING:
    from keyhole.defence.planner.orders import Buying
    from keyhole.defence.planner.ways import AskedPart

MOST_CANDIDATES = 8192  # grid points among which one is chosen


@dataclass(frozen=True, slots=True)
class BoughtQuantile:
    """A released quantile: a grid point, chosen with this epsilon among so many candidates."""

    point: int
    epsilon: Fraction
    candidates: int
    kept: Kept

    def ranks(self, beta: float) -> float:
        """How many people the rank is off at most, with probability 1 - beta: 2 ln(k / beta) / epsilon."""
        return 2 * math.log(self.candidates / beta) / float(self.epsilon)

    def estimate(self, wanted: Wanted, columns: Partitions, beta: float) -> Estimate:
        """The grid point as a number; its bar is in ranks, since one in values would look at the data."""
        column = columns.number(wanted.column)
        value = column.lo + self.point * column.step
        return Estimate(value, None, ratio=True, ranks=math.ceil(self.ranks(beta)))


def quantile_mark(wanted: Wanted) -> str:
    """Under what a quantile is kept."""
    said = repr((wanted.column, str(wanted.level), to_sql(wanted.where)))
    return f"quantile {hashlib.blake2b(said.encode(), digest_size=16).hexdigest()}"


def recalled(ledger: Ledger, wanted: Wanted, analyst: str | None) -> Iterator[BoughtQuantile]:
    """Those that were released before and the analyst may be told, cheapest first."""
    for kept in ledger.recall(quantile_mark(wanted), analyst):
        said = kept.answer
        yield BoughtQuantile(int(said["point"]), Fraction(said["epsilon"]), int(said["candidates"]), kept)


def loss_of_epsilon(spend: Fraction, unit: Unit, neighbours: Neighbours, *, exact_epsilon: bool = False) -> Loss:
    """What a choice costs: its epsilon, or epsilon^2 / 8 of zCDP (its privacy loss has range epsilon: Cesar and Rogers
    2021). `spend` is in the unit of the budget, or the epsilon itself.

    >>> str(loss_of_epsilon(Fraction(1, 800), "rho", "replace-one").amount)
    '1/800'
    """
    if unit == "epsilon":
        return Loss("epsilon", spend, Fraction(0), neighbours)
    if exact_epsilon:
        return Loss("rho", spend**2 / 8, Fraction(0), neighbours)
    return Loss("rho", spend, Fraction(0), neighbours)


def epsilon_of(loss: Loss) -> Fraction:
    """The epsilon that a loss pays for, rounded down.

    >>> float(epsilon_of(Loss("rho", Fraction(1, 800))))
    0.1
    """
    return loss.amount if loss.unit == "epsilon" else round_down(Fraction(math.sqrt(8 * loss.amount)), 9)


def epsilon_for_ranks(ranks: float, beta: float, points: int) -> float:
    """The epsilon with which a rank is within so many people."""
    return 2 * math.log(min(points, MOST_CANDIDATES) / beta) / ranks


def coarseness(column: Cuts) -> int:
    """Of how many grid points one is a candidate: 1, or more on a very fine grid. Public."""
    return -(-(column.steps + 1) // MOST_CANDIDATES)


def candidates(column: Cuts) -> NDArray[np.int64]:
    """The grid points that can be chosen: all, or evenly spaced ones of a very fine grid. Public."""
    return np.arange(0, column.steps + 1, coarseness(column), dtype=np.int64)


def scores(points: NDArray[np.int64], counts: NDArray[np.int64], at: NDArray[np.int64], level: Fraction) -> list[int]:
    """The utility of each candidate: minus the distance of the level from its ranks, times the level's denominator.

    u(v) = -max(0, #below v - qN, qN - #at or below v). One person moves it by 1 at most, N included: replace-one,
    under any condition; max(q, 1 - q) under add-remove.

    >>> scores(np.array([1, 3]), np.array([1, 1]), np.array([0, 1, 2, 3, 4]), Fraction(1, 2))
    [-2, 0, 0, 0, -2]
    """
    total = int(counts.sum())
    upto = np.concatenate([[0], np.cumsum(counts)])
    below = upto[np.searchsorted(points, at, side="left")]
    at_most = upto[np.searchsorted(points, at, side="right")]
    over, wanted = level.denominator, level.numerator * total
    return [int(s) for s in -np.maximum(0, np.maximum(over * below - wanted, wanted - over * at_most))]


def sensitivity(level: Fraction, neighbours: Neighbours) -> int:
    """How far one person moves a score."""
    if neighbours == "replace-one":
        return level.denominator
    return max(level.numerator, level.denominator - level.numerator)


def buy_quantile(buying: Buying, part: AskedPart, loss: Loss, analyst: str | None, what: str) -> None:
    """Charge, read the grid points under the condition, choose, write down; on the open page."""
    wanted, epsilon = part.wanted, epsilon_of(loss)
    check_scale(2 * sensitivity(wanted.level, buying.margins.neighbours) / epsilon)
    buying.ledger.spend(
        buying.ledger.per_person(loss), analyst=analyst, what=f"{wanted.label} by the exponential mechanism: {what}"
    )
    draw_quantile(buying, part, epsilon, buying.ledger.charged[-1], analyst, what)
    buying.holdings.refresh()


def draw_quantile(
    buying: Buying, part: AskedPart, epsilon: Fraction, charge: int, analyst: str | None, what: str
) -> None:
    """One choice that `charge` paid for: read, choose, write down."""
    wanted = part.wanted
    column = buying.columns.number(wanted.column)
    scale = check_scale(2 * sensitivity(wanted.level, buying.margins.neighbours) / epsilon)
    kept = part.laid.count.dense() == 1
    points, counts = buying.margins.points(column, [axis.column for axis in part.laid.axes], kept)
    points, at = points - points % coarseness(column), candidates(column)  # read as the candidate below
    chosen = int(at[buying.noise.choose(scores(points, counts, at, wanted.level), scale)])
    said = _packed(wanted, column, chosen, epsilon, len(at), buying.table)
    blank = _packed(wanted, column, 0, epsilon, len(at), buying.table)
    buying.ledger.remember(quantile_mark(wanted), said, Bought(what, 2, analyst, (charge,)), blank)


def _packed(wanted: Wanted, column: Cuts, point: int, epsilon: Fraction, among: int, table: str) -> dict[str, Any]:
    name = quote_name(column.name)
    sql = f"SELECT QUANTILE_CONT({name}, {float(wanted.level):g}) FROM {quote_name(table)} WHERE {to_sql(wanted.where)}"
    value = float(column.lo + point * column.step)
    line = json.dumps({"sql": sql, "answer": value, "noise": {"kind": "unknown"}}, ensure_ascii=False)
    told = {"kind": "quantile", "point": point, "epsilon": str(epsilon), "candidates": among, "lines": [line]}
    return told | {"tree": tree_mark(wanted)}


def coarse_note(wanted: Wanted, columns: Partitions) -> str:
    """What an analyst must know of a column that was read more coarsely than declared; from the declaration alone."""
    column = columns.number(wanted.column)
    if (times := coarseness(column)) == 1:
        return ""
    step = float(times * column.step)
    return f"{wanted.label}: {column.name} was read in steps of {step:g}, each number as the step below it"
