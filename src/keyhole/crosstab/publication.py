"""What a set of tables says: cells, lines, how far off a number may be, and what does not add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from keyhole.crosstab.cells import CrossTable, Key, PublishedCell
from keyhole.crosstab.lines import AdditivityLine, acyclic, lines
from keyhole.crosstab.nesting import Nesting, merged
from keyhole.crosstab.rounding import EXACT, Misfit, misfit, radii, room, shown_apart, shown_numbers


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """Tables as one system. `values` are the numbers shown, each within its radius; `hidden` the suppressed cells.

    `joint`: a table of people exists for all numbers that add up. `said`: somebody said how numbers were rounded, or
    that they are exact; else it was read off, and `uneven` are the lines that add up only as far as rounding explains.
    """

    tables: tuple[CrossTable, ...]
    cells: Mapping[Key, PublishedCell]
    values: Mapping[Key, Fraction]
    lines: tuple[AdditivityLine, ...]
    radii: Mapping[Key, Fraction]
    misfits: tuple[Misfit, ...] = ()
    joint: bool = True
    said: bool = False
    uneven: tuple[Misfit, ...] = ()
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
    def radius(self) -> Fraction:
        """How far any number may be off, at most; 0: all are exact."""
        return max(self.radii.values(), default=EXACT)

    def ends(self, key: Key) -> tuple[Fraction, Fraction]:
        """What a shown number says of the truth: as near as it was rounded, halves either way."""
        value, off = self.values[key], self.radii.get(key, EXACT)
        return value - off, value + off

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
    """Put tables together. `rounding` is the step that numbers were rounded to (0: exact; None: by their digits)."""
    groups = list(merged(tables, nested))
    shown = shown_numbers(groups, max((table.digits for table in tables), default=0))
    cells = {same[0].key: same[0] for same in groups}
    values = {key: numbers[0].value for key, numbers in shown.items()}
    found = lines(cells, nested)
    gaps = {line: _off(line, values) for line in found if all(key in values for key in line.cells)}
    off = radii(shown, gaps, rounding)
    rounded = any(off.values())
    wrong = {line for line, gap in gaps.items() if abs(gap) > room(line, off)}
    misfits = [misfit(line, gaps[line], room(line, off)) for line in found if line in wrong]
    misfits += [m for numbers in shown.values() for m in shown_apart(numbers, rounded=rounded, step=rounding)]
    uneven = [misfit(line, gap, EXACT) for line, gap in gaps.items() if gap and line not in wrong]
    kept = tuple(line for line in found if line not in wrong)
    joint = acyclic([frozenset(_axes(t.columns, nested)) for t in tables])
    said = rounding is not None
    return Publication(tuple(tables), cells, values, kept, off, tuple(misfits), joint, said, tuple(uneven))


def _off(line: AdditivityLine, values: Mapping[Key, Fraction]) -> Fraction:
    return values[line.whole] - sum((values[key] for key in line.parts), EXACT)


def _axes(columns: Iterable[str], nested: Nesting) -> set[str]:
    """Dimensions as the finest column that each is nested in: municipality and county are one."""
    above = {parent: child for child, over in nested.inside.items() for parent in over}
    found = set()
    for column in columns:
        while column in above:
            column = above[column]
        found.add(column)
    return found
