"""Axes for one question, and what each way to its answer would say: inference, a table, one number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.planner.asks import Wanted
from keyhole.defence.planner.columns import CutAxis, Partitions
from keyhole.defence.planner.laid import Laid, lay
from keyhole.defence.tables.inference import Functional
from keyhole.defence.tables.noisy_tables import COUNT, Generation, Quantity
from keyhole.errors import UnsupportedQuery

TRIED = 8  # combinations of partitions that inference is tried on
MOST_GROUPS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class AskedPart:
    """One wanted number for one set of grouping columns, over the axes that a purchase would have."""

    wanted: Wanted
    keys: tuple[str, ...]
    laid: Laid

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """What a purchase must hold."""
        return self.wanted.quantities

    @property
    def needed(self) -> list[tuple[Quantity, Functional]]:
        """What must be known, without what is public."""
        found = [(m, p.functional) for m, p in self.laid.sums.items()]
        if self.wanted.kind != "linear":
            found.append((COUNT, self.laid.count))
        return found


def cuts_of(wanted: Wanted, keys: Sequence[str], columns: Partitions) -> dict[str, set[int]]:
    """The columns that a number looks at, with the grid points where it cuts them; every point of a grouping column."""
    found = columns.asked(wanted.conditions)
    for key in keys:
        column = columns.of(key)
        if isinstance(column, Cuts):
            if column.steps >= MOST_GROUPS:
                raise UnsupportedQuery(f"GROUP BY {key!r} has {column.steps + 1} groups; at most {MOST_GROUPS}")
            found.setdefault(key, set()).update(range(1, column.steps + 1))
        else:
            found.setdefault(key, set())
    return found


def axis_of(name: str, cuts: set[int], columns: Partitions) -> CutAxis:
    """The partition that a purchase has: the declared one, cut further where the question needs it.

    A column that is only asked whether it is NULL keeps one cell for all its numbers.
    """
    column = columns.of(name)
    if not isinstance(column, Cuts):
        return CutAxis.of(column)
    inside = {c for c in cuts if 0 < c <= column.steps}
    return CutAxis.of(column.at({*column.starts, *inside}) if inside else column.at(()))


def part_of(wanted: Wanted, keys: Sequence[str], columns: Partitions) -> AskedPart:
    """A wanted number over the axes that a purchase would have."""
    cuts = cuts_of(wanted, keys, columns)
    axes = [axis_of(name, found, columns) for name, found in cuts.items()]
    return AskedPart(wanted, tuple(keys), lay(wanted, keys, axes))


def inferable(
    part: AskedPart, generation: Generation, columns: Partitions, known: Mapping[str, Sequence[CutAxis]]
) -> Iterator[Laid]:
    """The same number over partitions that were bought before, where they can say it."""
    if part.laid.known(generation):
        yield part.laid
    cuts = cuts_of(part.wanted, part.keys, columns)
    choices = []
    for name, found in cuts.items():
        column = columns.of(name)
        if isinstance(column, Cuts):
            inside = {c for c in found if 0 < c <= column.steps}
            fit = [a for a in known.get(name, ()) if isinstance(a.column, Cuts) and inside <= {*a.column.starts}]
            choices.append(fit)
        else:
            choices.append([CutAxis.of(column)])
    for axes in islice(product(*choices), TRIED):
        if {axis.key for axis in axes} == {*part.laid.names}:
            continue
        found_laid = lay(part.wanted, part.keys, axes)
        if found_laid.known(generation):
            yield found_laid


def variances(laid: Laid, generation: Generation) -> dict[Quantity, float]:
    """Of what must be known, by quantity; nothing for what is public."""
    needed = [(m, p.functional) for m, p in laid.sums.items()]
    if laid.wanted.kind != "linear":
        needed.append((COUNT, laid.count))
    found: dict[Quantity, float] = {}
    for quantity, functional in needed:
        if functional.empty or (quantity == COUNT and generation.n is not None and functional.whole):
            continue
        found[quantity] = max(found.get(quantity, 0.0), generation.variance(quantity, functional))
    return found
