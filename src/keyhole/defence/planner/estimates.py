"""Numbers with bars from what tables say: sums, averages (Fieller), spreads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np

from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.answering import ExpectedBar
from keyhole.defence.planner.layout import Layout
from keyhole.defence.planner.wanted import WantedNumber
from keyhole.defence.tables.error_bars import ErrorLaw
from keyhole.defence.tables.inference import Floats
from keyhole.defence.tables.noisy_tables import COUNT, Generation, Quantity
from keyhole.defence.workload import Estimate

STRIPS = 32  # of a ratio's range: its bar is taken at the far end of each
UNKNOWN = Estimate(None, None, ratio=True)
Bounds = tuple[float, float]


def estimate_groups(layout: Layout, generation: Generation, beta: float) -> list[Estimate]:
    """One number with its bar for each group, in the order of GROUP BY."""
    wanted = layout.wanted
    if wanted.kind == "linear":
        value, law = layout.add_up(generation)
        bar = law.bar(beta)
        return [_round_to_bar(float(v), bar, wanted) for v in layout.order_groups(value).ravel()]
    if wanted.kind == "average":
        return _estimate_averages(layout, generation, beta)
    return _estimate_spreads(layout, generation, beta)


def assume_people(layout: Layout, n: int | None) -> int | None:
    """How many people a group has if everybody is spread evenly over the declared values; None: nobody may know."""
    if n is None or layout.count.whole:
        return n
    columns = [axis.column for axis in layout.axes]
    cells = layout.count.dense((0,) * len(layout.count.keys))  # of the first group, if there are several
    for at, column in enumerate(columns):  # without NULL and what is undeclared
        ends = (*column.starts, column.steps + 1) if isinstance(column, Cuts) else range(len(column.keys()) + 1)
        values = np.diff(np.array(ends, dtype=float))
        along = np.moveaxis(cells, at, -1)[..., : len(values)] * (values / max(values.sum(), 1.0))
        cells = np.moveaxis(along, -1, at)
    return round(n * float(cells.sum()))


def expect_bar(layout: Layout, generation: Generation, beta: float, people: int | None = None) -> ExpectedBar:
    """The bar before anything is drawn: of a sum it is that of the noise; of an average or a spread it is for a stated
    group size (`people`, else as many as are assumed) with values in the middle. None with people: it has no end.
    """
    wanted = layout.wanted
    _, law = layout.add_up(generation)
    if wanted.kind == "linear":
        return ExpectedBar(law.bar(beta))
    people = assume_people(layout, generation.n) if people is None else people
    if people is None:
        return ExpectedBar()
    everybody = layout.count.whole and generation.n is not None
    count_law = ErrorLaw() if everybody else generation.law(COUNT, layout.count)
    if wanted.kind == "average":
        low, high = _bound_average(wanted)
        ends = _find_ratios(law, count_law, beta, (high - low) / 2 or 1.0)(0.0, float(people))
        return ExpectedBar(None if ends is None else max(-ends[0], ends[1]), None, people)
    laws = [generation.law(quantity, layout.sums[quantity].functional) for quantity in sorted(layout.sums)]
    spread = _bound_spread(wanted, sorted(layout.sums), (0.0, 0.0), laws, float(people), count_law, beta)
    return ExpectedBar(None if spread is None else max(spread[2] - spread[0], spread[0] - spread[1]), None, people)


def widest_bar(layout: Layout) -> float:
    """Half of what an average, or a spread of many people, can be: a longer bar says next to nothing."""
    if layout.wanted.kind == "average":
        low, high = _bound_average(layout.wanted)
        return (high - low) / 2
    most = float(max(layout.sums).reach) * float(layout.wanted.offset)
    return (math.sqrt(most) if layout.wanted.kind == "deviation" else most) / 2


def _round_to_bar(value: float, bar: float, wanted: WantedNumber, *, ratio: bool = False) -> Estimate:
    """A value cut to what its bar lets one see; what the cut takes away is added to the bar."""
    if not math.isfinite(bar):
        return UNKNOWN
    exact = _to_fraction(value)
    if wanted.digits is not None:
        step = Fraction(1, 10**wanted.digits) if wanted.digits >= 0 else Fraction(10**-wanted.digits)
    elif bar > 0:
        step = Fraction(10) ** (math.floor(math.log10(bar)) - 2)
    else:
        return Estimate(exact, Fraction(0), ratio)
    cut = step * round(exact / step)
    return Estimate(cut, _to_fraction(bar) + abs(cut - exact), ratio)


def _to_fraction(value: float) -> Fraction:
    return Fraction(Decimal(repr(float(value))))


def _bound_average(wanted: WantedNumber) -> Bounds:
    """Between what an average lies, from the declaration."""
    low = high = float(wanted.offset)
    for quantity, each in wanted.sums.items():
        reach = sum(abs(float(factor)) for factor, _ in each) * quantity.reach
        low, high = low - reach, high + reach
    return low, high


def _estimate_averages(layout: Layout, generation: Generation, beta: float) -> list[Estimate]:
    offset, (low, high) = float(layout.wanted.offset), _bound_average(layout.wanted)
    tops, law = layout.add_up(generation)
    counts, count_law = _estimate_count(layout, generation)
    ratios = _find_ratios(law, count_law, beta, (high - low) / 2 or 1.0)
    estimates = []
    for top, count in zip(layout.order_groups(tops).ravel(), layout.order_groups(counts).ravel(), strict=True):
        ends = ratios(float(top), float(count))
        if ends is None or count <= 0:
            estimates.append(UNKNOWN)
            continue
        least, most = max(low, offset + ends[0]), min(high, offset + ends[1])
        value = min(max(offset + float(top) / float(count), low), high)
        estimates.append(_round_to_bar(value, max(most - value, value - least, 0.0), layout.wanted, ratio=True))
    return estimates


def _estimate_count(layout: Layout, generation: Generation) -> tuple[Floats, ErrorLaw]:
    if generation.n is not None and layout.count.whole:
        return np.full(layout.count.groups, float(generation.n)), ErrorLaw()
    return generation.value(COUNT, layout.count), generation.law(COUNT, layout.count)


def _find_ratios(
    top: ErrorLaw, bottom: ErrorLaw, beta: float, widest: float
) -> Callable[[float, float], Bounds | None]:
    """The ratios r with |S - r C| <= the bar of the error of S - r C: exact, since that error is linear in the noise.

    None if the set is not bounded: then nothing can be said. `widest` is the most that |r| can be. (Fieller 1954.)
    """
    if not top.laplace and not bottom.laplace:
        z = ErrorLaw(1.0).bar(beta)
        return lambda s, c: _solve_fieller(s, c, top, bottom, z)

    edges = [widest * k / STRIPS for k in range(1, STRIPS + 1)]
    reach = [
        top.plus(bottom.times(r)).bar(beta) for r in edges
    ]  # grows with |r|: that of a strip's far end holds in it

    def ends(s: float, c: float) -> Bounds | None:
        if c <= bottom.bar(beta):
            return None
        return -_find_furthest(-s, c, edges, reach), _find_furthest(s, c, edges, reach)

    return ends


def _find_furthest(s: float, c: float, edges: list[float], reach: list[float]) -> float:
    """The largest r up to the last edge with s - r c >= -reach of the strip that |r| lies in."""
    largest, start = -edges[-1], 0.0
    for edge, bar in zip(edges, reach, strict=True):
        for low, high in ((-edge, -start), (start, edge)):
            at = min(high, (s + bar) / c)
            if at >= low:
                largest = max(largest, at)
        start = edge
    return largest


def _solve_fieller(s: float, c: float, top: ErrorLaw, bottom: ErrorLaw, z: float) -> Bounds | None:
    """(c^2 - z^2 B) r^2 - 2 s c r + s^2 - z^2 T <= 0; then half a step of the grid of S - r C on both sides."""
    a, constant = c * c - z * z * bottom.variance, s * s - z * z * top.variance
    if c <= 0 or a <= 0:
        return None
    root = math.sqrt(max(0.0, (s * c) ** 2 - a * constant))
    low, high = (s * c - root) / a, (s * c + root) / a
    steep = c - z * math.sqrt(bottom.variance)  # how fast |S - r C| leaves the bar behind, at least
    if steep <= bottom.step / 2:
        return None
    # half a step is max(top, |r| bottom) / 2, and |r| grows by it: solved for the far end
    reach = max(top.step, max(abs(low), abs(high)) * bottom.step) / 2 / (steep - bottom.step / 2)
    return low - reach, high + reach


def _estimate_spreads(layout: Layout, generation: Generation, beta: float) -> list[Estimate]:
    """Population variance E[x^2] - E[x]^2 on the grid; the bar of each mean (and of the count, for a sample's) holds
    with 1 - beta/2 (beta/3), the spread's follows.
    """
    quantities = sorted(layout.sums)
    counted, count_law = _estimate_count(layout, generation)
    parts = [layout.sums[quantity].functional for quantity in quantities]
    sums = [layout.order_groups(generation.value(q, part)).ravel() for q, part in zip(quantities, parts, strict=True)]
    laws = [generation.law(q, part) for q, part in zip(quantities, parts, strict=True)]
    estimates = []
    for at, count in enumerate(layout.order_groups(counted).ravel()):
        totals = float(sums[0][at]), float(sums[1][at])
        spread = _bound_spread(layout.wanted, quantities, totals, laws, float(count), count_law, beta)
        if spread is None:
            estimates.append(UNKNOWN)
            continue
        value, low, high = spread
        estimates.append(_round_to_bar(value, max(high - value, value - low, 0.0), layout.wanted, ratio=True))
    return estimates


def _bound_spread(
    wanted: WantedNumber, quantities: Sequence[Quantity], totals: Bounds, laws: Sequence[ErrorLaw], count: float,
    count_law: ErrorLaw, beta: float,
) -> tuple[float, float, float] | None:  # fmt: skip
    """The spread of one group and between what it lies, from the noisy sum, sum of squares and count."""
    part_beta = beta / (3 if wanted.sample else 2)
    reach, squared = (float(quantity.reach) for quantity in quantities)
    if count <= 1:
        return None
    first, second = (
        _find_ratios(law, count_law, part_beta, most)(total, count)
        for law, most, total in zip(laws, (reach, squared), totals, strict=True)
    )
    if first is None or second is None:
        return None
    u, y = (total / count for total in totals)
    lows = max(-reach, first[0]), max(-squared, second[0])
    highs = min(reach, first[1]), min(squared, second[1])
    largest = max(lows[0] ** 2, highs[0] ** 2)
    smallest = 0.0 if lows[0] <= 0 <= highs[0] else min(lows[0] ** 2, highs[0] ** 2)
    scale = float(wanted.offset)  # the square of half a step
    value = max(0.0, (y + squared) / 2 - u * u) * (count / (count - 1) if wanted.sample else 1.0) * scale
    low = max(0.0, (lows[1] + squared) / 2 - largest) * scale
    few = max(2.0, count - count_law.bar(part_beta))
    high = max(0.0, (highs[1] + squared) / 2 - smallest) * scale * (few / (few - 1) if wanted.sample else 1.0)
    if wanted.kind == "deviation":
        return math.sqrt(value), math.sqrt(low), math.sqrt(high)
    return value, low, high
