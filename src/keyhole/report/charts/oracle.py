"""Error against the number of queries, log-log: measured, the 1/sqrt(T) line, and the floor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from keyhole.errors import MissingExtra
from keyhole.report.charts.files import write_chart

Points = Sequence[tuple[float, float]]


def plot_errors(
    curves: Mapping[str, Points],
    path: Path,
    *,
    title: str,
    x: str = "queries T",
    y: str = "average error up to T",
    dashed: Sequence[str] = (),
) -> None:
    """Lines on log-log axes, one per entry of `curves`; those named in `dashed` are guides. Needs the `plot` extra."""
    try:
        import altair
    except ImportError as error:
        raise MissingExtra("plotting", "plot") from error
    rows = [
        {"curve": name, "x": float(at), "y": float(value)}
        for name, points in curves.items()
        for at, value in points
        if value > 0 and math.isfinite(value)
    ]
    names = list(curves)
    # each guide has its own dashes, so that they differ without colour
    patterns = ([6, 4], [2, 3], [10, 3, 2, 3])
    guides = [patterns[list(dashed).index(name) % len(patterns)] if name in dashed else [1, 0] for name in names]
    chart = (
        altair.Chart(altair.InlineData(values=rows))
        .mark_line()
        .encode(
            x=altair.X("x:Q", title=x, scale=altair.Scale(type="log", nice=False)),
            y=altair.Y("y:Q", title=y, scale=altair.Scale(type="log", nice=False)),
            color=altair.Color("curve:N", title=None, sort=names),
            strokeDash=altair.StrokeDash(
                "curve:N", legend=None, sort=names, scale=altair.Scale(domain=names, range=guides)
            ),
            tooltip=["curve:N", "x:Q", "y:Q"],
        )
        .properties(width=560, height=380, title=title)
    )
    write_chart(chart, path, title=title)


def guides_for(trace: Points, floor_at_end: float) -> dict[str, Points]:
    """The floor (which falls like 1/sqrt(T)) and a line of that slope through the measured end."""
    if not trace:
        return {}
    start, (end, value) = trace[0][0], trace[-1]
    ts = [start * (end / start) ** (k / 40) for k in range(41)]
    return {
        "1/sqrt(T)": [(t, value * math.sqrt(end / t)) for t in ts],
        "floor": [(t, floor_at_end * math.sqrt(end / t)) for t in ts],
    }
