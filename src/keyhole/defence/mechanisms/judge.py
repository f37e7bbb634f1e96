"""Which mechanism gives the smallest error bar for so many questions at one price: said before anything is spent.

Everything follows from public numbers: the price, the number of questions, cells and the chance to miss a bar.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from keyhole.defence.mechanisms.laplace import laplace_quantile
from keyhole.defence.mechanisms.tuned_weights import plan_tuned
from keyhole.defence.tables.error_bars import ErrorLaw
from keyhole.errors import PrivacyParameterError

LARGEST = 2**24  # cells of a table


@dataclass(frozen=True, slots=True)
class RivalBar:
    """A mechanism and the bar of one answer, in people; `bet`: it holds only as long as named firings last."""

    mechanism: str
    bar: float
    bet: bool = False


def judge_bars(
    epsilon: Fraction, *, n: int, cells: int, queries: int, beta: float, firings: int | None = None
) -> tuple[RivalBar, ...]:
    """The bars that `epsilon` buys for `queries` different counts under replace-one neighbours, the smallest first.

    laplace: each count gets its share. histogram: one table, asked for half of its cells (n is public, so half is the
    worst). pmw-tuned, where firings are named: a bet on data that surprise the hypothesis no more often. beta is for
    each answer alone.

    >>> few, many = (judge_bars(Fraction(1), n=10**6, cells=128, queries=k, beta=0.05) for k in (20, 2000))
    >>> [f"{one.mechanism} {one.bar:.0f}" for one in few], [f"{one.mechanism} {one.bar:.0f}" for one in many]
    (['histogram 32', 'laplace 60'], ['histogram 32', 'laplace 5991'])
    >>> bars = judge_bars(Fraction(1), n=10**6, cells=2**20, queries=5000, beta=0.05, firings=40)
    >>> [(one.mechanism, one.bet) for one in bars]
    [('pmw-tuned', True), ('histogram', False), ('laplace', False)]
    """
    rivals = [RivalBar("laplace", float(laplace_quantile(queries / epsilon, beta)))]
    if 2 <= cells <= LARGEST:
        half = ErrorLaw(0.0, ((0.5, cells),), 1.0)
        rivals.append(RivalBar("histogram", half.bar(beta) * 2 / float(epsilon)))
    if firings is not None:
        try:
            plan = plan_tuned(n=n, cells=cells, queries=queries, firings=firings, beta=beta, amount=epsilon)
        except PrivacyParameterError:
            pass  # so little buys no bar at all: no rival
        else:
            rivals.append(RivalBar("pmw-tuned", float(plan.bar), bet=True))
    return tuple(sorted(rivals, key=lambda one: one.bar))


def say_better(
    bar: float, epsilon: Fraction, *, n: int, cells: int, queries: int, beta: float, firings: int | None = None
) -> str:
    """What would be closer at the same price, in a clause; empty where nothing would.

    >>> say_better(100, Fraction(1), n=10**6, cells=16, queries=100, beta=0.05)
    'one table of all 16 cells (--mechanism planner buys tables) would be within 13 people at the same price'
    >>> say_better(8000, Fraction(1), n=10**6, cells=2**20, queries=3000, beta=0.05, firings=30)  # doctest: +ELLIPSIS
    'pmw-tuned (while its 30 firings last) would be within 675 people at the same price, one table of ... within 2,840'
    """
    rivals = judge_bars(epsilon, n=n, cells=cells, queries=queries, beta=beta, firings=firings)
    names = {
        "pmw-tuned": f"pmw-tuned (while its {firings} firings last)",
        "histogram": f"one table of all {cells:,} cells (--mechanism planner buys tables)",
        "laplace": "laplace",
    }
    beaten = [(names[one.mechanism], f"{math.ceil(one.bar):,}") for one in rivals if math.ceil(one.bar) < bar]
    if not beaten:
        return ""
    (name, within), *others = beaten
    more = "".join(f", {other} within {told}" for other, told in others)
    return f"{name} would be within {within} people at the same price{more}"
