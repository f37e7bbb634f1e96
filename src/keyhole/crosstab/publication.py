"""What a set of tables says: cells, lines, how far off a number may be, and what does not add up.

How far off is said (--rounding), or read off the digits.
Read off: numbers are exact if every line without a gap adds up to the last digit; else each is within half a unit of
the last digit that its own table shows. That is an assumption, and a slip in one margin looks like it: the lines that
do not add up are named, and nothing is called complete on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from keyhole.crosstab.cells import CrossTable, Key, PublishedCell, label
from keyhole.crosstab.lines import AdditivityLine, find_lines, is_acyclic
from keyhole.crosstab.nesting import Nesting, merge_cells
from keyhole.crosstab.numbers import sweep_dust
from keyhole.errors import ConfigError
from keyhole.model.numbers import format_fraction

EXACT = Fraction(0)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A line, or a cell that two tables show differently: where, and by how much it is off."""

    cells: tuple[Key, ...]
    off: Fraction
    reason: str


@dataclass(frozen=True, slots=True)
class ShownNumber:
    """A number that a table shows, without the dust of doubles, and half a unit of its table's last digit."""

    cell: PublishedCell
    value: Fraction
    half: Fraction


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
    nested: Nesting = field(default_factory=Nesting)

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

    def showing(self, keys: Iterable[Key]) -> Publication:
        """The same with cells shown again that were hidden here."""
        back = {key: self.truth[key] for key in keys}
        kept = {key: value for key, value in self.truth.items() if key not in back}
        return replace(self, values={**self.values, **back}, truth=kept)


def combine_tables(tables: Sequence[CrossTable], nested: Nesting, rounding: Fraction | None = None) -> Publication:
    """Put tables together. `rounding` is the step that numbers were rounded to (0: exact; None: by their digits)."""
    groups = list(merge_cells(tables, nested))
    shown = read_shown_numbers(groups, max((table.digits for table in tables), default=0))
    cells = {same[0].key: same[0] for same in groups}
    values = {key: numbers[0].value for key, numbers in shown.items()}
    found = find_lines(cells, nested)
    gaps = {line: _measure_gap(line, values) for line in found if all(key in values for key in line.cells)}
    off = measure_radii(shown, gaps, rounding)
    rounded = any(off.values())
    wrong = {line for line, gap in gaps.items() if abs(gap) > measure_slack(line, off)}
    misfits = [describe_misfit(line, gaps[line], measure_slack(line, off)) for line in found if line in wrong]
    misfits += [m for numbers in shown.values() for m in find_differences(numbers, rounded=rounded, step=rounding)]
    uneven = [describe_misfit(line, gap, EXACT) for line, gap in gaps.items() if gap and line not in wrong]
    kept = tuple(line for line in found if line not in wrong)
    joint = is_acyclic([frozenset(_find_finest_columns(t.columns, nested)) for t in tables])
    said = rounding is not None
    wrongs = tuple(misfits)
    return Publication(tuple(tables), cells, values, kept, off, wrongs, joint, said, tuple(uneven), nested=nested)


def read_shown_numbers(groups: Iterable[Sequence[PublishedCell]], digits: int) -> dict[Key, list[ShownNumber]]:
    """The numbers of each cell, from the table with the most digits on; `digits` are those of all tables."""
    found: dict[Key, list[ShownNumber]] = {}
    for same in groups:
        numbers = [
            ShownNumber(c, sweep_dust(c.value, digits), Fraction(1, 2 * 10**c.digits))
            for c in same
            if c.value is not None
        ]
        if numbers:
            found[same[0].key] = sorted(numbers, key=lambda n: n.half)
    return found


def measure_radii(
    shown: Mapping[Key, Sequence[ShownNumber]], gaps: Mapping[AdditivityLine, Fraction], step: Fraction | None
) -> dict[Key, Fraction]:
    """How far each number may be off: half of `step`, or, if nobody said one, what makes lines without a gap add up."""
    if step is not None:
        _check_multiples(shown, step)
        return dict.fromkeys(shown, step / 2)
    half = {key: numbers[0].half for key, numbers in shown.items()}
    rounded = any(0 < abs(off) <= measure_slack(line, half) for line, off in gaps.items())
    apart = any(n.value != numbers[0].value for numbers in shown.values() for n in numbers[1:])
    fractions = not gaps and any(n.cell.digits for numbers in shown.values() for n in numbers)
    return half if rounded or fractions or apart else dict.fromkeys(shown, EXACT)


def _check_multiples(shown: Mapping[Key, Sequence[ShownNumber]], step: Fraction) -> None:
    if not step:
        return
    for number in (n for numbers in shown.values() for n in numbers):
        if (number.value / step).denominator != 1:
            raise ConfigError(
                f"--rounding {format_fraction(step)}: {number.cell.place} shows {number.cell.value} for "
                f"{label(number.cell.key)}, which is no multiple of it"
            )


def measure_slack(line: AdditivityLine, radius: Mapping[Key, Fraction]) -> Fraction:
    """By how much a line of numbers that are off may fail to add up."""
    return sum((radius.get(key, EXACT) for key in line.cells), EXACT)


def describe_misfit(line: AdditivityLine, off: Fraction, most: Fraction) -> Misfit:
    """A line that does not add up, in words; `most` is what rounding explains of it."""
    apart = f"{format_fraction(abs(off))} {'more' if off > 0 else 'less'}"
    explained = f" (rounding explains {format_fraction(most)})" if most else ""
    return Misfit(
        line.cells,
        off,
        f"{label(line.whole)} is {apart} than its {len(line.parts)} cells by {line.column} add up to{explained}",
    )


def find_differences(numbers: Sequence[ShownNumber], *, rounded: bool, step: Fraction | None) -> Iterator[Misfit]:
    """What two tables say of one cell, where rounding does not explain that it differs.

    The same number, rounded to the same step, is the same; a table with fewer digits may differ by half its unit.
    """
    first = numbers[0]
    for other in numbers[1:]:
        off = other.value - first.value
        most = first.half + other.half if rounded and step is None and other.half != first.half else EXACT
        if abs(off) > most:
            yield Misfit(
                (other.cell.key,),
                off,
                f"{label(other.cell.key)} is {first.cell.value} in {first.cell.place}, and {other.cell.value} in "
                f"{other.cell.place}",
            )


def _measure_gap(line: AdditivityLine, values: Mapping[Key, Fraction]) -> Fraction:
    return values[line.whole] - sum((values[key] for key in line.parts), EXACT)


def _find_finest_columns(columns: Iterable[str], nested: Nesting) -> set[str]:
    """Dimensions as the finest column that each is nested in: municipality and county are one."""
    above = {parent: child for child, over in nested.inside.items() for parent in over}
    found = set()
    for column in columns:
        while column in above:
            column = above[column]
        found.add(column)
    return found
