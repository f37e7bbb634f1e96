"""What attacks recover, against the epsilon that the answers cost: one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from keyhole.errors import MissingExtra
from keyhole.report.charts.files import write_chart

TITLE = "Share of people recovered, against epsilon"


def recovered_plot(curves: Mapping[str, Sequence[tuple[float, float]]], rules: Mapping[str, float], path: Path) -> None:
    """One line an attack over a logarithmic epsilon; `rules` are levels to compare with. Needs the `plot` extra."""
    try:
        import altair
    except ImportError as error:
        raise MissingExtra("plotting", "plot") from error
    points = [(name, float(x), float(y)) for name, curve in curves.items() for x, y in curve]
    left, right = min(x for _, x, _ in points), max(x for _, x, _ in points)
    points += [(name, x, level) for name, level in rules.items() for x in (left, right)]
    names = [*curves, *rules]
    dashes = [[1, 0] if name in curves else [6, 4] for name in names]
    chart = (
        altair.Chart(altair.InlineData(values=[{"answers": n, "x": x, "y": y} for n, x, y in points]))
        .mark_line(point=True)
        .encode(
            x=altair.X("x:Q", title="total epsilon of the answers", scale=altair.Scale(type="log")),
            y=altair.Y("y:Q", title="share recovered", scale=altair.Scale(domain=[0.4, 1.0])),
            color=altair.Color("answers:N", title=None, sort=names),
            strokeDash=altair.StrokeDash(
                "answers:N", legend=None, sort=names, scale=altair.Scale(domain=names, range=dashes)
            ),
            tooltip=["answers:N", "x:Q", "y:Q"],
        )
        .properties(width=520, height=320, title=TITLE)
    )
    write_chart(chart, path, title=TITLE)
