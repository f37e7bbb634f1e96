"""What mechanisms cost on one stream: bars on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from keyhole.report.charts.files import write_chart
from keyhole.report.html.bars import bar_drawing
from keyhole.report.html.charts import Drawing


def prices(costs: Mapping[str, float]) -> Drawing:
    """One bar a mechanism, cheapest first; what has no price is in the table alone."""
    return bar_drawing(costs, "epsilon spent", "What each mechanism spends on the same stream of questions.")


def plot_prices(costs: Mapping[str, float], path: Path, *, title: str) -> None:
    """The same in a file, written as the path's suffix says."""
    write_chart(prices(costs), path, title=title)
