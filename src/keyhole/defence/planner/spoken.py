"""What a bought table's cells mean in SQL, so that a book can be read as a transcript."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from keyhole.basis.cells.categories import Categories
from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.planner.columns import CutAxis, Partitions
from keyhole.defence.tables.noisy_tables import COUNT, Dose, NoiseLaw, Quantity
from keyhole.model.numbers import format_fraction
from keyhole.model.predicate import literal, quote_name


def spoken(
    table: str, axes: Sequence[CutAxis], doses: Sequence[Dose], law: NoiseLaw, columns: Partitions
) -> dict[str, Any]:
    """The fields that `keyhole.book.noisy_tables` reads."""
    noise = []
    for dose in doses:
        scale = dose.noise if law == "laplace" else Fraction(math.sqrt(dose.noise))
        noise.append([f"discrete-{law}", str(scale)])
    present = [axis for axis in axes if isinstance(axis.column, Cuts) and axis.column.bins == 1 and axis.size == 2]
    lone = present[0] if len(present) == 1 else None  # that it is there is said by the aggregate itself
    return {
        "from": quote_name(table),
        "where": [["", None] if axis is lone else conditions(axis) for axis in axes],
        "select": [_item(dose.quantity, columns, lone) for dose in doses],
        "noise": noise,
    }


def conditions(axis: CutAxis) -> list[str]:
    """One SQL condition for each cell, whatever the table holds.

    >>> conditions(CutAxis.of(Cuts("age", Fraction(0), Fraction(1), 99, (0, 18))))
    ['"age" < 18', '"age" >= 18', '"age" IS NULL']
    """
    column, name = axis.column, quote_name(axis.column.name)
    if isinstance(column, Categories):
        listed = ", ".join(literal(v) for v in column.values)
        found = [f"{name} = {literal(v)}" for v in column.values]
        if column.missing is not None:
            at = column.values.index(column.missing)
            found[at] = f"{found[at]} OR {name} IS NULL OR {name} NOT IN ({listed})"
            return found
        if column.other:
            return [*found, f"{name} NOT IN ({listed})", f"{name} IS NULL"]
        return [*found, f"{name} IS NULL OR {name} NOT IN ({listed})"]
    starts = [format_fraction(column.lo + s * column.step) for s in column.starts]
    found = []
    for at in range(column.bins):
        low = [f"{name} >= {starts[at]}"] if at else []
        high = [f"{name} < {starts[at + 1]}"] if at + 1 < column.bins else []
        found.append(" AND ".join([*low, *high]) or f"{name} IS NOT NULL")
    if column.missing is not None:
        at = sum(1 for s in column.starts if s <= column.missing) - 1
        found[at] = f"{found[at]} OR {name} IS NULL"
        return found
    return [*found, f"{name} IS NULL"]


def _item(quantity: Quantity, columns: Partitions, present: CutAxis | None) -> list[str]:
    """The SELECT item of a quantity and its unit; a square has none."""
    if quantity == COUNT:
        return ["COUNT(*)" if present is None else f"COUNT({quote_name(present.column.name)})", "1"]
    if quantity.power == 0:
        return [f"COUNT(DISTINCT {quote_name(quantity.column)})", "1"]
    column = columns.number(quantity.column)
    if quantity.power != 1 or (present is not None and present.column.name != column.name):
        return ["", "1"]
    middle = column.lo + column.hi
    sign = "-" if middle >= 0 else "+"
    return [f"SUM(2 * {quote_name(column.name)} {sign} {format_fraction(abs(middle))})", str(column.step)]
