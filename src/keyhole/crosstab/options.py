"""The words of the command line about table files, as values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from keyhole.crosstab.cells import Ends, TableLayout
from keyhole.errors import ConfigError, NumberError
from keyhole.model.numbers import read_decimal

RANGE = re.compile(r"(?P<marker>.*)=(?P<lo>-?[\d.]*?)\.\.(?P<hi>-?[\d.]*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What the command line says of table files, as it says it; `keyhole tables --help` has the meanings."""

    value: str
    total: str | Sequence[str] = "Total"
    suppressed: Sequence[str] = ()
    nested: Sequence[str] = ()
    min: str | int | Decimal | None = None
    rule: Sequence[str] = ()
    contributors: str | Path | None = None
    count: str | None = None
    largest: str | Sequence[str] = ()
    by: Sequence[str] = ()
    across: str | None = None
    rounding: str | int | Decimal | None = None

    @property
    def layout(self) -> TableLayout:
        """How files are read."""
        total, largest = ((words,) if isinstance(words, str) else tuple(words) for words in (self.total, self.largest))
        return TableLayout(
            self.value,
            total,
            dict(map(read_marker, self.suppressed)),
            self.count,
            largest,
            tuple(self.by),
            self.across,
            also=frozenset(name for pair in self.nested for name in pair.split(":")),
        )


def read_marker(text: str) -> tuple[str, Ends]:
    """A marker, with what is known of cells that have it.

    >>> read_marker("x=1..3"), read_marker("(D)")
    (('x', (Decimal('1'), Decimal('3'))), ('(D)', (None, None)))
    """
    found = RANGE.fullmatch(text)
    if found is None:
        return text, (None, None)
    lo, hi = (read_number_option(found[end], "--suppressed") if found[end] else None for end in ("lo", "hi"))
    if lo is not None and hi is not None and lo > hi:
        raise ConfigError(f"--suppressed {text!r}: {lo} is above {hi}")
    return found["marker"], (lo, hi)


def read_number_option(text: str, option: str) -> Decimal:
    """The number that an option gives."""
    try:
        found = read_decimal(text)
    except NumberError as error:
        raise ConfigError(f"{option}: {error}") from None
    except ValueError:
        raise ConfigError(f"{option}: {text!r} is not a number") from None
    if not found.is_finite():
        raise ConfigError(f"{option}: {text!r} is not a number")
    return found


def read_rounding_step(rounding: str | int | Decimal | None) -> Fraction | None:
    """The step that numbers were rounded to; None: it is read off their digits."""
    if rounding is None:
        return None
    step = Fraction(read_number_option(str(rounding), "--rounding"))
    if step < 0:
        raise ConfigError(f"--rounding {rounding} is below 0")
    return step
