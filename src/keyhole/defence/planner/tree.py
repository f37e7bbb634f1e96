"""Many quantiles of one column from two noisy tables: counts in blocks, and counts at every grid point.

Two levels of about sqrt(k) branches each, made consistent by least squares in closed form. Everything is linear in
the noise, so bars are exact tails, in values: where the noisy distribution function could cross the level.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.budget.ledger import Bought, Kept, Ledger
from keyhole.defence.budget.loss import Loss, Neighbours
from keyhole.defence.planner.asks import Wanted
from keyhole.defence.planner.columns import Partitions
from keyhole.defence.tables.error_bars import ErrorLaw, laplace_terms
from keyhole.defence.tables.inference import Floats
from keyhole.defence.tables.noisy_tables import COUNT, LAWS, Dose, NoiseLaw, add_noise, check_drawable, noise_for, price
from keyhole.defence.workload import Estimate
from keyhole.model.numbers import format_fraction
from keyhole.model.predicate import quote_name, to_sql

if TYPE_CHECKING:
    from keyhole.defence.planner.orders import Buying
    from keyhole.defence.planner.ways import AskedPart

FINEST_GRID = 1024  # points of a column for which a tree is bought
WORTH = 3  # quantiles of one column under one condition from which on it is


def tree_mark(wanted: Wanted) -> str:
    """One tree for all levels of a column under a condition."""
    said = repr((wanted.column, to_sql(wanted.where)))
    return f"tree {hashlib.blake2b(said.encode(), digest_size=16).hexdigest()}"


@dataclass(frozen=True, slots=True, eq=False)
class BoughtTree:
    """Noisy counts of blocks of `width` grid points (the last may be shorter) and of every point."""

    blocks: Floats
    points: Floats
    width: int
    law: NoiseLaw
    noise: Fraction
    kept: Kept

    @property
    def variance(self) -> float:
        """Of one draw."""
        noise = float(self.noise)
        return noise if self.law == "gaussian" else 2 * noise * noise

    def weights(self, level: float, upto: int) -> tuple[Floats, Floats]:
        """Of the noise of blocks and points in #(at most point `upto`) - level * #(all), by least squares.

        A block of m points is known from its own count and from the sum of m others: the mean of both with weights m/(m
        + 1) and 1/(m + 1), the same variance in every draw. What is left over is spread evenly within the block.
        """
        wanted = np.where(np.arange(len(self.points)) <= upto, 1.0 - level, -level)
        own, fine = np.zeros(len(self.blocks)), np.zeros(len(self.points))
        for block in range(len(self.blocks)):
            inside = slice(block * self.width, min((block + 1) * self.width, len(self.points)))
            here = wanted[inside]
            size, mean = len(here), float(here.mean())
            own[block] = mean * size / (size + 1)
            fine[inside] = here - mean + mean / (size + 1)
        return own, fine

    def above(self, level: float, upto: int) -> tuple[float, ErrorLaw]:
        """The estimate of #(at most `upto`) - level * #(all), and the law of its error."""
        own, fine = self.weights(level, upto)
        value = float(own @ self.blocks + fine @ self.points)
        used = np.concatenate([own, fine])
        if self.law == "gaussian":
            return value, ErrorLaw(float((used**2).sum()) * self.variance, (), 1.0)
        return value, ErrorLaw(0.0, laplace_terms(used, float(self.noise)), 1.0)

    def ranks(self, beta: float) -> float:
        """How far off the number of people below any point is, at most, with probability 1 - beta for each."""
        return max(self.above(0.5, upto)[1].bar(beta) for upto in range(0, len(self.points), max(1, self.width // 2)))

    def quantile(self, level: Fraction, beta: float) -> tuple[int, int, int]:
        """The grid point where the estimate first reaches the level, and between what the quantile lies.

        lo is the first v that could be at or above the level, hi the last one before which it could be at or below:
        each is wrong with probability beta/2 at most, whatever the quantile between two values is taken to be.
        """
        q, last = float(level), len(self.points) - 1
        found = [self.above(q, upto) for upto in range(len(self.points))]
        bars = [law.bar(beta) for _, law in found]  # two-sided at beta: one-sided at beta / 2
        point = next((v for v, (value, _) in enumerate(found) if value >= 0), last)
        low = next((v for v, (value, _) in enumerate(found) if value >= -bars[v]), last)
        high = max((v for v in range(1, last + 1) if found[v - 1][0] <= bars[v - 1]), default=0)
        return point, min(low, point), max(high, point)

    def estimate(self, wanted: Wanted, columns: Partitions, beta: float) -> Estimate:
        """As a number with a bar in values."""
        column = columns.number(wanted.column)
        point, low, high = self.quantile(wanted.level, beta)
        return Estimate(column.lo + point * column.step, max(high - point, point - low) * column.step, ratio=True)


def tree_fits(column: Cuts) -> bool:
    """Is the grid small enough?"""
    return column.steps + 1 <= FINEST_GRID


def recalled_tree(ledger: Ledger, wanted: Wanted, analyst: str | None) -> Iterator[BoughtTree]:
    """The tree of this column and condition, if it was bought and the analyst may be told."""
    for kept in ledger.recall(tree_mark(wanted), analyst):
        said = kept.answer
        blocks, points = (np.array(said[name], dtype=np.float64) for name in ("blocks", "points"))
        yield BoughtTree(blocks, points, int(said["width"]), said["law"], Fraction(said["noise"]), kept)


def tree_dose(loss: Loss, neighbours: Neighbours) -> tuple[Dose, NoiseLaw]:
    """The noise of both tables for a price: half of it each."""
    law = LAWS[loss.unit]
    (dose,) = noise_for(loss.amount / 2, [COUNT], law, "table", neighbours)
    assert 2 * price([dose], law, "table", neighbours).amount <= loss.amount
    return dose, law


def buy_tree(buying: Buying, part: AskedPart, loss: Loss, analyst: str | None, what: str) -> None:
    """Charge, count the grid points under the condition, draw both tables, write down; on the open page."""
    wanted, neighbours = part.wanted, buying.margins.neighbours
    column = buying.columns.number(wanted.column)
    dose, law = tree_dose(loss, neighbours)
    check_drawable([dose], law)
    buying.ledger.spend(buying.ledger.per_person(loss), analyst=analyst, what=f"a tree of {wanted.column}: {what}")
    charge = buying.ledger.charged[-1]
    at, counts = buying.margins.points(column, [axis.column for axis in part.laid.axes], part.laid.count.dense() == 1)
    points = np.zeros(column.steps + 1, dtype=np.int64)
    points[at] = counts
    width = math.ceil(math.sqrt(len(points)))
    blocks = np.add.reduceat(points, np.arange(0, len(points), width))
    drawn = [add_noise(table, dose, law, buying.noise).tolist() for table in (blocks, points)]
    said: dict[str, Any] = {
        "kind": "tree", "width": width, "law": law, "noise": str(dose.noise), "blocks": drawn[0], "points": drawn[1],
        "lines": list(_lines(buying.table, wanted, column, width, drawn, dose, law)),
    }  # fmt: skip
    blank = said | {"blocks": [0] * len(blocks), "points": [0] * len(points)}
    bought = Bought(what, 2 * (len(blocks) + len(points)), analyst, (charge,))
    buying.ledger.remember(tree_mark(wanted), said, bought, blank)
    buying.holdings.refresh()


def _lines(
    table: str, wanted: Wanted, column: Cuts, width: int, drawn: list[list[int]], dose: Dose, law: NoiseLaw
) -> Iterator[str]:
    """What was released, as lines of a transcript."""
    noise = dose.transcript_noise(law)
    name, where, last = quote_name(column.name), to_sql(wanted.where), column.steps
    for counts, wide in zip(drawn, (width, 1), strict=True):
        for k, seen in enumerate(counts):
            ends = [(k * wide, ">="), ((k + 1) * wide, "<")]
            own = " AND ".join(f"{name} {op} {_number(column, at)}" for at, op in ends if 0 < at <= last)
            sql = f"SELECT COUNT(*) FROM {quote_name(table)} WHERE ({where}) AND {own or f'{name} IS NOT NULL'}"
            said = {"sql": sql, "answer": seen, "noise": noise}
            yield json.dumps(said, ensure_ascii=False)


def _number(column: Cuts, at: int) -> str:
    value = column.lo + at * column.step
    return format_fraction(value)
