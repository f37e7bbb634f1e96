"""Share of records rebuilt against the number of queries, one line per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from keyhole.errors import MissingExtra
from keyhole.report.charts.files import write_chart

Points = Sequence[tuple[float, float]]


def plot_accuracy(curves: Mapping[str, Points], path: Path, *, title: str) -> None:
    """Lines from (queries, share correct), written as the path's suffix says. Needs the `plot` extra."""
    try:
        import altair
    except ImportError as error:
        raise MissingExtra("plotting", "plot") from error
    rows = [
        {"method": name, "queries": float(at), "share": float(value)}
        for name, points in curves.items()
        for at, value in points
    ]
    chart = (
        altair.Chart(altair.InlineData(values=rows))
        .mark_line(point=True)
        .encode(
            x=altair.X("queries:Q", title="queries", scale=altair.Scale(nice=False)),
            y=altair.Y("share:Q", title="share of records right", scale=altair.Scale(zero=False)),
            color=altair.Color("method:N", title=None, sort=list(curves)),
            tooltip=["method:N", "queries:Q", "share:Q"],
        )
        .properties(width=560, height=340, title=title)
    )
    write_chart(chart, path, title=title)
