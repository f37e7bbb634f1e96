"""Quantiles: one by the exponential mechanism over the declared grid, or many from a tree of two noisy tables.

A tree has counts in about sqrt(k) blocks, and counts at every grid point, made consistent by least squares in closed
form. Everything in it is linear in the noise, so bars are exact tails, in values: where the noisy distribution function
could cross the level. It is worth its price from the third quantile of a column under one condition on.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.budget.ledger import KeptRelease, Ledger, Purchase
from keyhole.defence.budget.loss import Loss, Neighbours, Unit, round_down
from keyhole.defence.noise import check_scale
from keyhole.defence.planner.columns import Partitions
from keyhole.defence.planner.layout import Layout
from keyhole.defence.planner.purchases import Buyer
from keyhole.defence.planner.wanted import WantedNumber
from keyhole.defence.tables.error_bars import ErrorLaw, laplace_terms
from keyhole.defence.tables.inference import Floats
from keyhole.defence.tables.noisy_tables import COUNT, LAWS, Dose, NoiseLaw, add_noise, check_drawable, noise_for, price
from keyhole.defence.workload import Estimate
from keyhole.model.numbers import format_fraction
from keyhole.model.predicate import format_predicate, quote_name

MOST_CANDIDATES = 8192  # grid points among which one is chosen
FINEST_GRID = 1024  # points of a column for which a tree is bought
WORTH = 3  # quantiles of one column under one condition from which on it is


@dataclass(frozen=True, slots=True)
class BoughtQuantile:
    """A released quantile: a grid point, chosen with this epsilon among so many candidates."""

    point: int
    epsilon: Fraction
    candidates: int
    kept: KeptRelease

    def ranks(self, beta: float) -> float:
        """How many people the rank is off at most, with probability 1 - beta: 2 ln(k / beta) / epsilon."""
        return 2 * math.log(self.candidates / beta) / float(self.epsilon)

    def estimate(self, wanted: WantedNumber, columns: Partitions, beta: float) -> Estimate:
        """The grid point as a number; its bar is in ranks, since one in values would look at the data."""
        column = columns.number(wanted.column)
        value = column.lo + self.point * column.step
        return Estimate(value, None, ratio=True, ranks=math.ceil(self.ranks(beta)))


def quantile_mark(wanted: WantedNumber) -> str:
    """Under what a quantile is kept."""
    question = repr((wanted.column, str(wanted.level), format_predicate(wanted.where)))
    return f"quantile {hashlib.blake2b(question.encode(), digest_size=16).hexdigest()}"


def recall_quantiles(ledger: Ledger, wanted: WantedNumber, analyst: str | None) -> Iterator[BoughtQuantile]:
    """Those that were released before and the analyst may be told, cheapest first."""
    for kept in ledger.recall(quantile_mark(wanted), analyst):
        fields = kept.answer
        yield BoughtQuantile(int(fields["point"]), Fraction(fields["epsilon"]), int(fields["candidates"]), kept)


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


def get_coarseness(column: Cuts) -> int:
    """Of how many grid points one is a candidate: 1, or more on a very fine grid. Public."""
    return -(-(column.steps + 1) // MOST_CANDIDATES)


def list_candidates(column: Cuts) -> NDArray[np.int64]:
    """The grid points that can be chosen: all, or evenly spaced ones of a very fine grid. Public."""
    return np.arange(0, column.steps + 1, get_coarseness(column), dtype=np.int64)


def score_candidates(
    points: NDArray[np.int64], counts: NDArray[np.int64], at: NDArray[np.int64], level: Fraction
) -> list[int]:
    """The utility of each candidate: minus the distance of the level from its ranks, times the level's denominator.

    u(v) = -max(0, #below v - qN, qN - #at or below v). One person moves it by 1 at most, N included: replace-one,
    under any condition; max(q, 1 - q) under add-remove.

    >>> score_candidates(np.array([1, 3]), np.array([1, 1]), np.array([0, 1, 2, 3, 4]), Fraction(1, 2))
    [-2, 0, 0, 0, -2]
    """
    total = int(counts.sum())
    upto = np.concatenate([[0], np.cumsum(counts)])
    below = upto[np.searchsorted(points, at, side="left")]
    at_most = upto[np.searchsorted(points, at, side="right")]
    over, wanted = level.denominator, level.numerator * total
    return [int(s) for s in -np.maximum(0, np.maximum(over * below - wanted, wanted - over * at_most))]


def get_sensitivity(level: Fraction, neighbours: Neighbours) -> int:
    """How far one person moves a score."""
    if neighbours == "replace-one":
        return level.denominator
    return max(level.numerator, level.denominator - level.numerator)


def buy_quantile(buyer: Buyer, layout: Layout, loss: Loss, analyst: str | None, what: str) -> None:
    """Charge, read the grid points under the condition, choose, write down; on the open page."""
    wanted, epsilon = layout.wanted, epsilon_of(loss)
    check_scale(2 * get_sensitivity(wanted.level, buyer.margins.neighbours) / epsilon)
    buyer.ledger.spend(
        buyer.ledger.per_person(loss), analyst=analyst, what=f"{wanted.label} by the exponential mechanism: {what}"
    )
    draw_quantile(buyer, layout, epsilon, buyer.ledger.charged[-1], analyst, what)
    buyer.purchases.refresh()


def draw_quantile(buyer: Buyer, layout: Layout, epsilon: Fraction, charge: int, analyst: str | None, what: str) -> None:
    """One choice that `charge` paid for: read, choose, write down."""
    wanted = layout.wanted
    column = buyer.columns.number(wanted.column)
    scale = check_scale(2 * get_sensitivity(wanted.level, buyer.margins.neighbours) / epsilon)
    kept = layout.count.dense() == 1
    points, counts = buyer.margins.points(column, [axis.column for axis in layout.axes], kept)
    points, at = points - points % get_coarseness(column), list_candidates(column)  # read as the candidate below
    chosen = int(at[buyer.noise.choose(score_candidates(points, counts, at, wanted.level), scale)])
    made = _pack_quantile(wanted, column, chosen, epsilon, len(at), buyer.table)
    blank = _pack_quantile(wanted, column, 0, epsilon, len(at), buyer.table)
    buyer.ledger.remember(quantile_mark(wanted), made, Purchase(what, 2, analyst, (charge,)), blank)


def _pack_quantile(
    wanted: WantedNumber, column: Cuts, point: int, epsilon: Fraction, among: int, table: str
) -> dict[str, Any]:
    name = quote_name(column.name)
    condition = format_predicate(wanted.where)
    sql = f"SELECT QUANTILE_CONT({name}, {float(wanted.level):g}) FROM {quote_name(table)} WHERE {condition}"
    value = float(column.lo + point * column.step)
    line = json.dumps({"sql": sql, "answer": value, "noise": {"kind": "unknown"}}, ensure_ascii=False)
    return {
        "kind": "quantile",
        "point": point,
        "epsilon": str(epsilon),
        "candidates": among,
        "lines": [line],
        "tree": tree_mark(wanted),
    }


def note_coarseness(wanted: WantedNumber, columns: Partitions) -> str:
    """What an analyst must know of a column that was read more coarsely than declared; from the declaration alone."""
    column = columns.number(wanted.column)
    if (times := get_coarseness(column)) == 1:
        return ""
    step = float(times * column.step)
    return f"{wanted.label}: {column.name} was read in steps of {step:g}, each number as the step below it"


# --- trees ------------------------------------------------------------------------------------------------------------


def tree_mark(wanted: WantedNumber) -> str:
    """One tree for all levels of a column under a condition."""
    question = repr((wanted.column, format_predicate(wanted.where)))
    return f"tree {hashlib.blake2b(question.encode(), digest_size=16).hexdigest()}"


@dataclass(frozen=True, slots=True, eq=False)
class BoughtTree:
    """Noisy counts of blocks of `width` grid points (the last may be shorter) and of every point."""

    blocks: Floats
    points: Floats
    width: int
    law: NoiseLaw
    noise: Fraction
    kept: KeptRelease

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
        estimates = [self.above(q, upto) for upto in range(len(self.points))]
        bars = [law.bar(beta) for _, law in estimates]  # two-sided at beta: one-sided at beta / 2
        point = next((v for v, (value, _) in enumerate(estimates) if value >= 0), last)
        low = next((v for v, (value, _) in enumerate(estimates) if value >= -bars[v]), last)
        high = max((v for v in range(1, last + 1) if estimates[v - 1][0] <= bars[v - 1]), default=0)
        return point, min(low, point), max(high, point)

    def estimate(self, wanted: WantedNumber, columns: Partitions, beta: float) -> Estimate:
        """As a number with a bar in values."""
        column = columns.number(wanted.column)
        point, low, high = self.quantile(wanted.level, beta)
        return Estimate(column.lo + point * column.step, max(high - point, point - low) * column.step, ratio=True)


def is_fine_enough(column: Cuts) -> bool:
    """Is the grid small enough?"""
    return column.steps + 1 <= FINEST_GRID


def recall_trees(ledger: Ledger, wanted: WantedNumber, analyst: str | None) -> Iterator[BoughtTree]:
    """The tree of this column and condition, if it was bought and the analyst may be told."""
    for kept in ledger.recall(tree_mark(wanted), analyst):
        fields = kept.answer
        blocks, points = (np.array(fields[name], dtype=np.float64) for name in ("blocks", "points"))
        yield BoughtTree(blocks, points, int(fields["width"]), fields["law"], Fraction(fields["noise"]), kept)


def size_tree(loss: Loss, neighbours: Neighbours) -> tuple[Dose, NoiseLaw]:
    """The noise of both tables for a price: half of it each."""
    law = LAWS[loss.unit]
    (dose,) = noise_for(loss.amount / 2, [COUNT], law, "table", neighbours)
    assert 2 * price([dose], law, "table", neighbours).amount <= loss.amount
    return dose, law


def buy_tree(buyer: Buyer, layout: Layout, loss: Loss, analyst: str | None, what: str) -> None:
    """Charge, count the grid points under the condition, draw both tables, write down; on the open page."""
    wanted, neighbours = layout.wanted, buyer.margins.neighbours
    column = buyer.columns.number(wanted.column)
    dose, law = size_tree(loss, neighbours)
    check_drawable([dose], law)
    buyer.ledger.spend(buyer.ledger.per_person(loss), analyst=analyst, what=f"a tree of {wanted.column}: {what}")
    charge = buyer.ledger.charged[-1]
    at, counts = buyer.margins.points(column, [axis.column for axis in layout.axes], layout.count.dense() == 1)
    points = np.zeros(column.steps + 1, dtype=np.int64)
    points[at] = counts
    width = math.ceil(math.sqrt(len(points)))
    blocks = np.add.reduceat(points, np.arange(0, len(points), width))
    drawn = [add_noise(table, dose, law, buyer.noise).tolist() for table in (blocks, points)]
    made: dict[str, Any] = {
        "kind": "tree", "width": width, "law": law, "noise": str(dose.noise), "blocks": drawn[0], "points": drawn[1],
        "lines": list(_write_tree_lines(buyer.table, wanted, column, width, drawn, dose, law)),
    }  # fmt: skip
    blank = made | {"blocks": [0] * len(blocks), "points": [0] * len(points)}
    bought = Purchase(what, 2 * (len(blocks) + len(points)), analyst, (charge,))
    buyer.ledger.remember(tree_mark(wanted), made, bought, blank)
    buyer.purchases.refresh()


def _write_tree_lines(
    table: str, wanted: WantedNumber, column: Cuts, width: int, drawn: list[list[int]], dose: Dose, law: NoiseLaw
) -> Iterator[str]:
    """What was released, as lines of a transcript."""
    noise = dose.transcript_noise(law)
    name, where, last = quote_name(column.name), format_predicate(wanted.where), column.steps
    for counts, wide in zip(drawn, (width, 1), strict=True):
        for k, seen in enumerate(counts):
            ends = [(k * wide, ">="), ((k + 1) * wide, "<")]
            own = " AND ".join(
                f"{name} {op} {format_fraction(column.lo + at * column.step)}" for at, op in ends if 0 < at <= last
            )
            sql = f"SELECT COUNT(*) FROM {quote_name(table)} WHERE ({where}) AND {own or f'{name} IS NOT NULL'}"
            yield json.dumps({"sql": sql, "answer": seen, "noise": noise}, ensure_ascii=False)
