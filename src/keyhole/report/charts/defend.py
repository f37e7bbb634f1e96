"""What attacks recover, against the epsilon that the answers cost: one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from keyhole.report.charts.files import write_chart
from keyhole.report.html.axes import Axis
from keyhole.report.html.charts import Drawing, Series, line_drawing

TITLE = "Share of people recovered, against epsilon"


def recovered(curves: Mapping[str, Sequence[tuple[float, float]]], rules: Mapping[str, float]) -> Drawing:
    """One line an attack over a logarithmic epsilon; `rules` are levels to compare with."""
    points = [(float(x), float(y)) for curve in curves.values() for x, y in curve]
    x = Axis.of("total epsilon of the answers", [at for at, _ in points], log=True)
    y = Axis.of("share recovered", [v for _, v in points] + list(rules.values()))
    series = [Series(name, [(float(a), float(b)) for a, b in curve]) for name, curve in curves.items()]
    series += [
        Series(name, [(x.lo, level), (x.hi, level)], style=f"guide g{k % 3}")
        for k, (name, level) in enumerate(rules.items())
    ]
    return line_drawing(series, x, y, "Share of people recovered against the epsilon that all answers cost together.")


def recovered_plot(curves: Mapping[str, Sequence[tuple[float, float]]], rules: Mapping[str, float], path: Path) -> None:
    """The same in a file, written as the path's suffix says."""
    write_chart(recovered(curves, rules), path, title=TITLE)
