"""What a set of tables says: cells, lines, how far off a number may be, and what does not add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from keyhole.crosstab.cells import CrossTable, Key, PublishedCell, label
from keyhole.crosstab.lines import AdditivityLine, acyclic, lines
from keyhole.crosstab.nesting import Nesting, merged
from keyhole.crosstab.numbers import decimals, swept
from keyhole.transcript import simplest_decimal


@dataclass(frozen=True, slots=True)
class Misfit:
    """A line, or a cell that two tables show differently: where, and by how much it is off."""

    cells: tuple[Key, ...]
    off: Fraction
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """Tables as one system. `values` are the numbers shown, each within `radius`; `hidden` the suppressed cells.

    `joint`: a table of people exists for all numbers that add up.
    """

    tables: tuple[CrossTable, ...]
    cells: Mapping[Key, PublishedCell]
    values: Mapping[Key, Fraction]
    lines: tuple[AdditivityLine, ...]
    radius: Fraction
    digits: int
    misfits: tuple[Misfit, ...] = ()
    joint: bool = True
    truth: Mapping[Key, Fraction] = field(default_factory=dict)  # of cells that were hidden here, by a rule

    @property
    def hidden(self) -> tuple[Key, ...]:
        """Published cells without a number."""
        return tuple(key for key in self.cells if key not in self.values)

    @property
    def unpublished(self) -> tuple[Key, ...]:
        """Margins that no table shows, and that tie lines together."""
        found = dict.fromkeys(key for line in self.lines for key in line.cells if key not in self.cells)
        return tuple(found)

    @property
    def whole(self) -> bool:
        """Are all numbers whole: exact ones, or rounded to more than a unit, as counts are?"""
        return (self.radius == 0 or self.radius >= 1) and all(
            v.denominator == 1 for v in (*self.values.values(), *self.truth.values())
        )

    @property
    def negative(self) -> bool:
        """Is some number shown below 0?"""
        return any(v < 0 for v in (*self.values.values(), *self.truth.values()))

    @property
    def absent(self) -> int:
        """Categories that count as 0 in lines with a hidden cell."""
        return sum(line.absent for line in self.lines if any(key not in self.values for key in line.cells))

    def hiding(self, keys: Iterable[Key], marker: str) -> Publication:
        """The same with more cells hidden, under a marker of their own."""
        gone = set(keys) & self.values.keys()
        cells = {key: replace(cell, marker=marker) if key in gone else cell for key, cell in self.cells.items()}
        kept = {key: v for key, v in self.values.items() if key not in gone}
        truth = {key: self.values[key] for key in self.cells if key in gone}
        return replace(self, cells=cells, values=kept, truth={**self.truth, **truth})


def publication(tables: Sequence[CrossTable], nested: Nesting, rounding: Fraction | None = None) -> Publication:
    """Put tables together. `rounding` is the step that numbers were rounded to (0: exact; None: read off the digits).

    Read off: numbers are exact if every line without a gap adds up to the last digit; else each is within half a unit
    of the last digit that the tables show.
    """
    groups = list(merged(tables, nested))
    shown = [c.value for same in groups for c in same if c.value is not None]
    digits = decimals(shown)
    cells = {same[0].key: same[0] for same in groups}
    values = {key: swept(c.value, digits) for key, c in cells.items() if c.value is not None}
    found = lines(cells, nested)
    gaps = {line: _off(line, values) for line in found if all(key in values for key in line.cells)}
    radius = _radius(gaps, digits) if rounding is None else rounding / 2
    wrong = {line for line, off in gaps.items() if abs(off) > radius * len(line.cells)}
    misfits = [_told(line, gaps[line], radius) for line in found if line in wrong]
    misfits += [m for same in groups for m in _twice(same, digits, radius)]
    kept = tuple(line for line in found if line not in wrong)
    joint = acyclic([frozenset(_axes(t.columns, nested)) for t in tables])
    return Publication(tuple(tables), cells, values, kept, radius, digits, tuple(misfits), joint)


def _off(line: AdditivityLine, values: Mapping[Key, Fraction]) -> Fraction:
    return values[line.whole] - sum((values[key] for key in line.parts), Fraction(0))


def _radius(gaps: Mapping[AdditivityLine, Fraction], digits: int) -> Fraction:
    """Half a unit of the last digit, where that explains why lines do not add up; 0 where they do, or none is whole."""
    half = Fraction(1, 2 * 10**digits)
    rounded = any(0 < abs(off) <= half * len(line.cells) for line, off in gaps.items())
    return half if rounded or (not gaps and digits) else Fraction(0)


def _told(line: AdditivityLine, off: Fraction, radius: Fraction) -> Misfit:
    by = simplest_decimal(abs(off), abs(off))
    word = "more" if off > 0 else "less"
    room = f" (rounding explains {simplest_decimal(*(radius * len(line.cells),) * 2)})" if radius else ""
    return Misfit(
        line.cells,
        off,
        f"{label(line.whole)} is {by} {word} than its {len(line.parts)} cells by {line.column} add up to{room}",
    )


def _twice(same: Sequence[PublishedCell], digits: int, radius: Fraction) -> Iterable[Misfit]:
    numbers = [(c, swept(c.value, digits)) for c in same if c.value is not None]
    for cell, value in numbers[1:]:
        off = value - numbers[0][1]
        if abs(off) > 2 * radius:
            yield Misfit((cell.key,), off, f"{label(cell.key)} is {numbers[0][0].value} in {numbers[0][0].place}, and "
                         f"{cell.value} in {cell.place}")  # fmt: skip


def _axes(columns: Iterable[str], nested: Nesting) -> set[str]:
    """Dimensions as the finest column that each is nested in: municipality and county are one."""
    above = {parent: child for child, over in nested.inside.items() for parent in over}
    found = set()
    for column in columns:
        while column in above:
            column = above[column]
        found.add(column)
    return found
