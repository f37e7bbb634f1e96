"""How far each number of published tables may be off the truth: as was said, or as its digits show.

Read off: numbers are exact if every line without a gap adds up to the last digit; else each is within half a unit of
the last digit that its own table shows. That is an assumption, and a slip in one margin looks like it: the lines that
do not add up are named, and nothing is called complete on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from keyhole.crosstab.cells import Key, PublishedCell, label
from keyhole.crosstab.lines import AdditivityLine
from keyhole.crosstab.numbers import swept
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


def shown_numbers(groups: Iterable[Sequence[PublishedCell]], digits: int) -> dict[Key, list[ShownNumber]]:
    """The numbers of each cell, from the table with the most digits on; `digits` are those of all tables."""
    found: dict[Key, list[ShownNumber]] = {}
    for same in groups:
        numbers = [
            ShownNumber(c, swept(c.value, digits), Fraction(1, 2 * 10**c.digits)) for c in same if c.value is not None
        ]
        if numbers:
            found[same[0].key] = sorted(numbers, key=lambda n: n.half)
    return found


def radii(
    shown: Mapping[Key, Sequence[ShownNumber]], gaps: Mapping[AdditivityLine, Fraction], step: Fraction | None
) -> dict[Key, Fraction]:
    """How far each number may be off: half of `step`, or, if nobody said one, what makes lines without a gap add up."""
    if step is not None:
        _multiples(shown, step)
        return dict.fromkeys(shown, step / 2)
    half = {key: numbers[0].half for key, numbers in shown.items()}
    rounded = any(0 < abs(off) <= room(line, half) for line, off in gaps.items())
    apart = any(n.value != numbers[0].value for numbers in shown.values() for n in numbers[1:])
    fractions = not gaps and any(n.cell.digits for numbers in shown.values() for n in numbers)
    return half if rounded or fractions or apart else dict.fromkeys(shown, EXACT)


def _multiples(shown: Mapping[Key, Sequence[ShownNumber]], step: Fraction) -> None:
    if not step:
        return
    for number in (n for numbers in shown.values() for n in numbers):
        if (number.value / step).denominator != 1:
            raise ConfigError(
                f"--rounding {format_fraction(step)}: {number.cell.place} shows {number.cell.value} for "
                f"{label(number.cell.key)}, which is no multiple of it"
            )


def room(line: AdditivityLine, radius: Mapping[Key, Fraction]) -> Fraction:
    """By how much a line of numbers that are off may fail to add up."""
    return sum((radius.get(key, EXACT) for key in line.cells), EXACT)


def misfit(line: AdditivityLine, off: Fraction, most: Fraction) -> Misfit:
    """A line that does not add up, in words; `most` is what rounding explains of it."""
    apart = f"{format_fraction(abs(off))} {'more' if off > 0 else 'less'}"
    explained = f" (rounding explains {format_fraction(most)})" if most else ""
    return Misfit(
        line.cells,
        off,
        f"{label(line.whole)} is {apart} than its {len(line.parts)} cells by {line.column} add up to{explained}",
    )


def shown_apart(numbers: Sequence[ShownNumber], *, rounded: bool, step: Fraction | None) -> Iterator[Misfit]:
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
