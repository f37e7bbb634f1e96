"""Bars on a logarithmic axis, one a thing, the shortest first."""

from __future__ import annotations

import math
from collections.abc import Mapping

from keyhole.report.html.axes import BOTTOM, RIGHT, TOP, WIDTH, Axis, short
from keyhole.report.html.charts import ROW, Drawing
from keyhole.report.html.markup import join, table, tag


def bar_drawing(values: Mapping[str, float], what: str, caption: str) -> Drawing:
    """A bar for every positive number; what has none is in the table alone."""
    shown = sorted((v, name) for name, v in values.items() if math.isfinite(v) and v > 0)
    axis = Axis.of(what, [v for v, _ in shown] or [1.0], log=True)
    axis = Axis(what, axis.lo / 2, axis.hi, log=True)  # the shortest bar is seen too
    room = min(220, 20 + 7 * max((len(name) for _, name in shown), default=0))
    height = TOP + ROW * len(shown) + BOTTOM
    floor, marks = height - BOTTOM, []
    for tick in axis.ticks():
        at = axis.at(tick, room, WIDTH - RIGHT)
        marks.append(tag("line", x1=at, x2=at, y1=TOP, y2=floor, class_="grid"))
        marks.append(tag("text", short(tick), x=at, y=floor + 18, text_anchor="middle"))
    marks.append(tag("text", what, x=(room + WIDTH - RIGHT) / 2, y=height - 6, text_anchor="middle"))
    for k, (value, name) in enumerate(shown):
        y, right = TOP + ROW * k, axis.at(value, room, WIDTH - RIGHT)
        title = tag("title", f"{name}: {value:.4g}")
        marks.append(tag("text", name, x=room - 8, y=y + 15, text_anchor="end", class_="label"))
        marks.append(tag("rect", title, x=room, y=y + 4, width=round(right - room, 2), height=ROW - 8, class_="s0"))
    rows = [(name, f"{v:.6g}" if math.isfinite(v) else "none") for name, v in values.items()]
    return Drawing(join(marks), height, caption, table(("", what), rows, numbers=(1,)))
