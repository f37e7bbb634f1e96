"""Where an online construction pays: its price beside that of everything else, over cells, questions and kinds of data.

All prices are pure epsilon for the same error bar and the same chance to miss it. They fall like 1/n, so one n stands
for all (`PriceMap.people`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from keyhole.defence.simulate.release import MECHANISMS, Setup
from keyhole.defence.simulate.workloads import make_workload

ONLINE = ("online-ic", "pmw-tuned", "pmw-warm")
OTHERS = ("cache", "histogram", "planner", "planner-declared")
SLOW = 2**8  # cells beyond which the planners are left out: see `PricedCell.left_out`
CORRELATED, NEARLY = "correlated", "nearly independent"
KINDS = {CORRELATED: "binary", NEARLY: "near"}


@dataclass(frozen=True, slots=True)
class PricedCell:
    """One square: the cheapest online construction and the cheapest other way, with their prices (inf: none)."""

    kind: str
    columns: int
    questions: int
    online: str
    online_epsilon: float
    other: str
    other_epsilon: float
    within: float  # the least share of answers inside their bar, of what was played
    left_out: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """The other price in units of the online one: above 1 the online construction is cheaper."""
        return self.other_epsilon / self.online_epsilon


@dataclass(frozen=True, slots=True)
class PriceMap:
    """Squares by kind of data, number of binary columns (2^D cells) and length of the stream."""

    people: int
    alpha: float
    beta: float
    cells: tuple[PricedCell, ...]

    @property
    def won(self) -> tuple[PricedCell, ...]:
        """Where an online construction is the cheapest."""
        return tuple(cell for cell in self.cells if cell.ratio > 1)


def draw_map(
    columns: Sequence[int],
    questions: Sequence[int],
    setup: Setup,
    *,
    people: int = 100_000,
    kinds: Sequence[str] = (CORRELATED, NEARLY),
    done: Callable[[int], None] = lambda _: None,
) -> PriceMap:
    """Play every mechanism on every square. The planners are slow on many columns and are played up to 2^8 cells;
    `PricedCell.left_out` says where they were not.

    >>> made = draw_map((6,), (20,), Setup(0.05, 0.001, 0.0, 0), people=10_000, kinds=(NEARLY,))
    >>> len(made.cells), made.cells[0].online, made.won
    (1, 'pmw-warm', ())
    """
    cells = list[PricedCell]()
    for kind in kinds:
        for width in columns:
            for length in questions:
                cells.append(_price_square(kind, width, length, setup, people))
                done(len(cells))
    return PriceMap(people, setup.alpha, setup.beta, tuple(cells))


def _price_square(kind: str, width: int, length: int, setup: Setup, people: int) -> PricedCell:
    work = make_workload(f"{KINDS[kind]}:{width}", length, 0.0, setup.seed, people=people)
    left_out = tuple(name for name in OTHERS if name.startswith("planner") and 2**width > SLOW)
    played = {name: MECHANISMS[name](work, setup) for name in (*ONLINE, *OTHERS) if name not in left_out}
    prices = {name: p.epsilon if math.isfinite(p.epsilon) else math.inf for name, p in played.items()}
    online, other = (min((n for n in names if n in prices), key=prices.__getitem__) for names in (ONLINE, OTHERS))
    within = min((p.within_alpha for p in played.values() if p.within_alpha is not None), default=math.nan)
    return PricedCell(kind, width, length, online, prices[online], other, prices[other], within, left_out)
