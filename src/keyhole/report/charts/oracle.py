"""Error against the number of queries, log-log: measured, the 1/sqrt(T) line, and the floor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from keyhole.report.charts.files import write_chart
from keyhole.report.html.axes import Axis
from keyhole.report.html.charts import Drawing, Series, line_drawing

Points = Sequence[tuple[float, float]]
GUIDES = ("1/sqrt(T)", "floor")
QUERIES, ERROR = "queries T", "average error up to T"


def errors(curves: Mapping[str, Points], *, x: str, y: str, dashed: Sequence[str] = ()) -> Drawing:
    """Lines on log-log axes, one per entry of `curves`; those named in `dashed` are guides."""
    drawn = {
        name: [(float(at), float(value)) for at, value in points if value > 0 and math.isfinite(value)]
        for name, points in curves.items()
    }
    every = [point for points in drawn.values() for point in points]
    across, up = Axis.of(x, [at for at, _ in every], log=True), Axis.of(y, [v for _, v in every], log=True)
    # each guide has its own dashes, so that they differ without colour
    styles = {name: f"guide g{k % 3}" for k, name in enumerate(dashed)}
    series = [Series(name, points, styles.get(name, "")) for name, points in drawn.items()]
    return line_drawing(series, across, up, f"{y[:1].upper()}{y[1:]} against {x}, both logarithmic.", height=380)


def plot_errors(
    curves: Mapping[str, Points],
    path: Path,
    *,
    title: str,
    x: str = QUERIES,
    y: str = ERROR,
    dashed: Sequence[str] = (),
) -> None:
    """The same in a file, written as the path's suffix says."""
    write_chart(errors(curves, x=x, y=y, dashed=dashed), path, title=title)


def mean_trace(traces: Sequence[Sequence[Sequence[float]]]) -> list[tuple[float, float]]:
    """The mean over seeds of the error up to each T.

    >>> mean_trace([[(1, 0.5), (2, 0.2)], [(1, 0.3), (2, 0.4)]])
    [(1.0, 0.4), (2.0, 0.30000000000000004)]
    """
    return [
        (float(points[0][0]), math.fsum(error for _, error in points) / len(points))
        for points in zip(*traces, strict=True)
    ]


def guided(method: str, trace: Points, floor: float) -> dict[str, Points]:
    """A measured curve with its guides."""
    return {method: trace, **guides_for(trace, floor)}


def guides_for(trace: Points, floor_at_end: float) -> dict[str, Points]:
    """The floor (which falls like 1/sqrt(T)) and a line of that slope through the measured end."""
    if not trace:
        return {}
    start, (end, value) = trace[0][0], trace[-1]
    ts = [start * (end / start) ** (k / 40) for k in range(41)]
    return {
        GUIDES[0]: [(t, value * math.sqrt(end / t)) for t in ts],
        GUIDES[1]: [(t, floor_at_end * math.sqrt(end / t)) for t in ts],
    }
