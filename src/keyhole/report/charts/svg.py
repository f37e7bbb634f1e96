"""What every chart is made of: elements that cannot be broken out of, and axes with round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from keyhole.auditing.base import visible

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 720, 64, 16, 12, 44
HEAD = 36  # above a plot whose axis has its name there


class Markup(str):
    """Text that is HTML or SVG already; templates put it in as it is."""

    __slots__ = ()

    def __html__(self) -> Markup:
        return self


def escape_text(value: object) -> Markup:
    """Any value as text: tags, quotes and invisible characters come out as what they are.

    >>> escape_text("<b>Ann</b>")
    '&lt;b&gt;Ann&lt;/b&gt;'
    """
    return value if isinstance(value, Markup) else Markup(escape(visible(str(value))))


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """One element; None among attributes is left out, `class_` is class, an underscore is a hyphen.

    >>> tag("text", "x < y", x=3, class_="label")
    '<text x="3" class="label">x &lt; y</text>'
    >>> tag("line", x1=0, stroke_width=2)
    '<line x1="0" stroke-width="2"/>'
    """
    listed = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in ("line", "path"):
        return Markup(f"<{name}{listed}/>")
    return Markup(f"<{name}{listed}>{join(children)}</{name}>")


def join(parts: Iterable[object]) -> Markup:
    """Several parts one behind the other."""
    return Markup("".join(map(escape_text, parts)))


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of numbers with its name; `whole` if it counts things."""

    title: str
    lo: float
    hi: float
    log: bool = False
    whole: bool = False

    @classmethod
    def of(cls, title: str, values: Sequence[float], *, log: bool = False) -> Axis:
        """An axis that shows all these values; a single value gets room on both sides."""
        usable = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
        lo, hi = (min(usable), max(usable)) if usable else (1.0 if log else 0.0, 1.0)
        if lo == hi:
            lo, hi = (lo / 2, hi * 2) if log else (lo - (abs(lo) or 1) / 2, hi + (abs(hi) or 1) / 2)
        return cls(title, lo, hi, log)

    def at(self, value: float, start: float, end: float) -> float:
        """Where a value lies between two places, cut off at the ends."""
        lo, hi, v = (math.log(x) if self.log else x for x in (self.lo, self.hi, max(value, self.lo)))
        return round(start + (end - start) * min(1.0, (v - lo) / (hi - lo)), 2)

    def ticks(self, count: int = 6) -> list[float]:
        """Round numbers inside.

        >>> Axis("people", 0, 23).ticks()
        [0.0, 5.0, 10.0, 15.0, 20.0]
        >>> Axis("epsilon", 0.02, 3, log=True).ticks()
        [0.1, 1.0]
        """
        if self.log:
            low, high = math.ceil(math.log10(self.lo) - 1e-9), math.floor(math.log10(self.hi) + 1e-9)
            if high > low:
                return [10.0**k for k in range(low, high + 1, max(1, (high - low) // count))]
        raw = (self.hi - self.lo) / count
        size = 10.0 ** math.floor(math.log10(raw))
        step = next(size * k for k in (1, 2, 5, 10) if size * k >= raw * (1 - 1e-9))
        step = max(1.0, step) if self.whole else step
        first = math.ceil(self.lo / step - 1e-9)
        return [round(k * step, 12) + 0.0 for k in range(first, math.floor(self.hi / step + 1e-9) + 1)]


def shorten_number(value: float) -> str:
    """A number as an axis writes it.

    >>> shorten_number(1200000.0), shorten_number(0.05), shorten_number(3.0)
    ('1.2M', '0.05', '3')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.4g}{letter}"
    return f"{value:.4g}"


def draw_axes(x: Axis, y: Axis, height: int) -> Markup:
    """Grid lines, numbers and names of both axes; the plot is inside LEFT, HEAD and WIDTH - RIGHT, height - BOTTOM."""
    right, floor = WIDTH - RIGHT, height - BOTTOM
    parts = []
    for tick in y.ticks():
        at = y.at(tick, floor, HEAD)
        parts.append(tag("line", x1=LEFT, x2=right, y1=at, y2=at, class_="grid"))
        parts.append(tag("text", shorten_number(tick), x=LEFT - 6, y=at + 4, text_anchor="end"))
    for tick in x.ticks():
        at = x.at(tick, LEFT, right)
        parts.append(tag("line", x1=at, x2=at, y1=floor, y2=floor + 4, class_="axis"))
        parts.append(tag("text", shorten_number(tick), x=at, y=floor + 18, text_anchor="middle"))
    parts.append(tag("line", x1=LEFT, x2=right, y1=floor, y2=floor, class_="axis"))
    parts.append(tag("text", x.title, x=(LEFT + right) / 2, y=height - 6, text_anchor="middle"))
    parts.append(tag("text", y.title, x=4, y=18))
    return join(parts)


def draw_value_axis(axis: Axis, room: int, floor: int, count: int = 6) -> Markup:
    """Grid lines and numbers of an axis below named rows, which have `room` for their names on the left."""
    parts = []
    for tick in axis.ticks(count):
        at = axis.at(tick, room, WIDTH - RIGHT)
        parts.append(tag("line", x1=at, x2=at, y1=TOP, y2=floor, class_="grid"))
        parts.append(tag("text", shorten_number(tick), x=at, y=floor + 18, text_anchor="middle"))
    return join(parts)
