"""Share of records rebuilt against the number of queries, one line per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from keyhole.report.charts.files import write_chart
from keyhole.report.html.axes import Axis
from keyhole.report.html.charts import Drawing, Series, line_drawing

Points = Sequence[tuple[float, float]]


def accuracy(curves: Mapping[str, Points], caption: str) -> Drawing:
    """Lines from (queries, share correct)."""
    every = [point for points in curves.values() for point in points]
    x, y = Axis.of("queries", [at for at, _ in every]), Axis.of("share of records right", [v for _, v in every])
    return line_drawing([Series(name, points) for name, points in curves.items()], x, y, caption)


def plot_accuracy(curves: Mapping[str, Points], path: Path, *, title: str) -> None:
    """The same in a file, written as the path's suffix says."""
    write_chart(accuracy(curves, "Share of records right against the number of queries."), path, title=title)
