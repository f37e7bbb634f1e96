"""What mechanisms cost on one stream: bars on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from keyhole.errors import MissingExtra
from keyhole.report.charts.files import write_chart


def plot_prices(prices: Mapping[str, float], path: Path, *, title: str) -> None:
    """One bar a mechanism, cheapest first; what has no price is left out. Needs the `plot` extra."""
    try:
        import altair
    except ImportError as error:
        raise MissingExtra("plotting", "plot") from error
    rows = [
        {"mechanism": name, "epsilon": value} for name, value in prices.items() if math.isfinite(value) and value > 0
    ]
    chart = (
        altair.Chart(altair.InlineData(values=rows))
        .mark_bar()
        .encode(
            x=altair.X("epsilon:Q", title="epsilon spent", scale=altair.Scale(type="log")),
            y=altair.Y("mechanism:N", title=None, sort="x"),
            tooltip=["mechanism:N", "epsilon:Q"],
        )
        .properties(width=560, height=260, title=title)
    )
    write_chart(chart, path, title=title)
