"""Bounds for a column that nobody has bounds for: a hundredth of what is left buys a noisy histogram on powers of two.

A bound read off the data would be somebody's value. This one is a power of two that noise chose: the cells are fixed
beforehand, their counts are an ordinary release, and the advice follows from them alone.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from keyhole.config import toml_key
from keyhole.datasets import Source
from keyhole.defence.budget.ledger import Ledger, Purchase
from keyhole.defence.mechanisms.base import half_of_everybody
from keyhole.defence.noise import NoiseSource
from keyhole.defence.planner.planner import Planner
from keyhole.defence.tables.margins import SourceMargins
from keyhole.defence.tables.noisy_tables import COUNT, LAWS, Dose, NoiseLaw, add_noise, check_drawable, noise_for, price
from keyhole.errors import ConfigError
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Role

POWERS = range(-10, 41)  # |x| from 2^-10 to 2^40; beyond them the outermost cells
SHARE = Fraction(1, 100)  # of what is left of the budget
BETA = 1e-6  # chance that any empty cell looks filled: bounds that are far too wide would be paid for


@dataclass(frozen=True, slots=True)
class ClippingAdvice:
    """Between what the values lie that many people have, as powers of two; None where no crowd was seen."""

    column: str
    low: Fraction | None
    high: Fraction | None
    cost: Fraction
    crowd: int  # how many people a cell must seem to hold

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.column}: no crowd of {self.crowd} was seen; say the bounds yourself"
        return f"{self.column}: min = {_write_edge(self.low)}, max = {_write_edge(self.high)}"


def list_edges() -> list[Fraction]:
    """Where cells begin, increasing: -2^40, ..., -2^-10, 0 (both sides), 2^-10, ..., 2^40.

    >>> len(list_edges()), float(list_edges()[51]), float(list_edges()[0])
    (103, 0.0, -1099511627776.0)
    """
    sizes = [Fraction(2) ** k for k in POWERS]
    return [*(-s for s in reversed(sizes)), Fraction(0), *sizes]


def make_cell_code(column: str) -> str:
    """An SQL expression for the cell of a value: how many edges are at or below it; 0 for NULL and what is no number.

    Zero has the cell that begins at it; numbers below -2^40 have none of their own and count as the first.
    """
    name = f"TRY_CAST({quote_name(column)} AS DOUBLE)"
    at = " + ".join(f"CAST({name} >= {float(e)!r} AS INT)" for e in list_edges())
    return f"CASE WHEN {name} IS NULL OR isnan({name}) THEN 0 ELSE greatest(1, {at}) END"


def advise_bounds(column: str, counts: Sequence[int], crowd: int, cost: Fraction) -> ClippingAdvice:
    """The outermost cells that hold a crowd: from the noisy counts alone.

    >>> counts = [0] * 104
    >>> counts[52 + 5 : 52 + 13] = [900] * 8
    >>> str(advise_bounds("hours", counts, 50, Fraction(0)))
    'hours: min = 0, max = 4'
    """
    listed = list_edges()
    filled = [k for k in range(1, len(counts)) if counts[k] >= crowd]
    if not filled:
        return ClippingAdvice(column, None, None, cost, crowd)
    low, top = listed[filled[0] - 1], filled[-1]
    high = listed[top] if top < len(listed) else listed[-1]
    low = Fraction(0) if low > 0 else low  # a range that begins at zero costs little and is easier to read
    return ClippingAdvice(column, low, max(high, low + 1), cost, crowd)


def buy_bounds(planner: Planner, column: str, analyst: str | None) -> ClippingAdvice:
    """Bounds for a private column of numbers that has none, on a page of its own. Asked again, they are free."""
    margins = planner.margins
    named = planner.schema.find(column)
    if named is None or named.role in (Role.ID, Role.HIDDEN) or not isinstance(margins, SourceMargins):
        raise ConfigError(f"--clip {column}: the table has no such column to be asked about")
    if named.role is not Role.PRIVATE:
        table = f"[columns.public.{toml_key(named.name)}]"
        raise ConfigError(f"--clip {column}: it is public, so write min and max, or values, under {table}: it is free")
    if not named.kind.numeric:
        table = f"[columns.private.{toml_key(named.name)}]"
        raise ConfigError(
            f"--clip {column}: it holds {named.kind}, and bounds are of numbers: write values = [...] under {table}"
        )
    ledger = planner.setting.ledger
    with ledger.book.lock, ledger.book.page():
        ledger.check_analyst(analyst)
        ledger.charged.clear()
        half = half_of_everybody(planner.purchases.n, anyway=False)
        advice = _buy_histogram(named.name, margins.source, ledger, planner.buyer.noise, analyst, half)
        planner.purchases.refresh()
    return advice


def _buy_histogram(
    column: str, source: Source, ledger: Ledger, noise: NoiseSource, analyst: str | None, most: Fraction | None
) -> ClippingAdvice:
    """Charge, count the cells, draw, write down; on the open page.

    Refused before the charge if a cell would have to hold more than `most` people to be seen.
    """
    mark = f"clipping {hashlib.blake2b(column.encode(), digest_size=16).hexdigest()}"
    for kept in ledger.recall(mark, analyst):
        ledger.tell(analyst, kept)
        return advise_bounds(column, kept.answer["counts"], int(kept.answer["crowd"]), Fraction(0))
    total = ledger.cap.total
    law = LAWS[total.unit]
    (dose,) = noise_for(ledger.left(analyst) * SHARE / ledger.times, [COUNT], law, "table", total.neighbours)
    check_drawable([dose], law)
    size = len(list_edges()) + 1
    crowd = math.ceil(dose.error_law(law).bar(BETA / size))
    if most is not None and crowd > most:
        raise ConfigError(
            f"--clip {column}: with what is left of the budget only a range that {crowd} people share would be seen, "
            "which is over half of everybody: declare min and max instead"
        )
    loss = ledger.per_person(price([dose], law, "table", total.neighbours))
    ledger.spend(loss, analyst=analyst, what=f"bounds for {column}")
    charge = ledger.charged[-1]
    true = np.zeros(size, dtype=np.int64)
    cells, counts = source.tally(make_cell_code(column))
    true[cells] = counts
    drawn = add_noise(true, dose, law, noise).tolist()
    made = {
        "kind": "clipping",
        "counts": drawn,
        "crowd": crowd,
        "lines": list(_write_lines(source, column, drawn, dose, law)),
    }
    blank = made | {"counts": [0] * size}
    ledger.remember(mark, made, Purchase(f"bounds for {column}", 2 * size, analyst, (charge,)), blank)
    return advise_bounds(column, drawn, crowd, loss.amount)


def _write_lines(source: Source, column: str, drawn: Sequence[int], dose: Dose, law: NoiseLaw) -> Iterator[str]:
    """What was released, as lines of a transcript."""
    noise = dose.transcript_noise(law)
    table, name, listed = quote_name(source.schema.table), quote_name(column), list_edges()
    for k, seen in enumerate(drawn):
        low = f"{name} >= {_write_edge(listed[k - 1])}" if k > 1 else ""
        high = f"{name} < {_write_edge(listed[k])}" if 0 < k < len(listed) else ""
        where = " AND ".join(part for part in (low, high) if part) if k else f"{name} IS NULL"
        sql = f"SELECT COUNT(*) FROM {table} WHERE {where}"
        yield json.dumps({"sql": sql, "answer": seen, "noise": noise}, ensure_ascii=False)


def _write_edge(value: Fraction) -> str:
    return str(int(value)) if value.denominator == 1 else f"{float(value):.12f}".rstrip("0")
