"""The charts of pages and benchmarks by what they show: accuracy, errors, prices, growth, calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

from keyhole.report.charts.drawing import Drawing, Series, draw_bars, draw_lines
from keyhole.report.charts.svg import Axis

Points = Sequence[tuple[float, float]]
GUIDES = ("1/sqrt(T)", "floor")
QUERIES, ERROR = "queries T", "average error up to T"
LEVELS = (0.1, 0.25, 0.5, 0.68, 0.8, 0.9, 0.95, 0.99)
BINS = 10
NEAR = 1e-6  # relative: what counts as the truth itself


def draw_accuracy(
    curves: Mapping[str, Points], caption: str = "Share of records right against the number of queries."
) -> Drawing:
    """Share of records that attacks rebuild against the number of queries, one line per method."""
    points = [point for curve in curves.values() for point in curve]
    x, y = Axis.of("queries", [at for at, _ in points]), Axis.of("share of records right", [v for _, v in points])
    return draw_lines([Series(name, curve) for name, curve in curves.items()], x, y, caption)


def draw_errors(
    curves: Mapping[str, Points], *, x: str = QUERIES, y: str = ERROR, dashed: Sequence[str] = ()
) -> Drawing:
    """Errors of what is learnt against the number of queries, log-log; the curves named in `dashed` are guides."""
    usable = {
        name: [(float(at), float(value)) for at, value in points if value > 0 and math.isfinite(value)]
        for name, points in curves.items()
    }
    every = [point for points in usable.values() for point in points]
    across, up = Axis.of(x, [at for at, _ in every], log=True), Axis.of(y, [v for _, v in every], log=True)
    # each guide has its own dashes, so that they differ without colour
    styles = {name: f"guide g{k % 3}" for k, name in enumerate(dashed)}
    series = [Series(name, points, styles.get(name, "")) for name, points in usable.items()]
    return draw_lines(series, across, up, f"{y[:1].upper()}{y[1:]} against {x}, both logarithmic.", height=380)


def average_traces(traces: Sequence[Sequence[Sequence[float]]]) -> list[tuple[float, float]]:
    """The mean over seeds of the error up to each T.

    >>> average_traces([[(1, 0.5), (2, 0.2)], [(1, 0.3), (2, 0.4)]])
    [(1.0, 0.4), (2.0, 0.30000000000000004)]
    """
    return [
        (float(points[0][0]), math.fsum(error for _, error in points) / len(points))
        for points in zip(*traces, strict=True)
    ]


def compute_guides(trace: Points, floor_at_end: float) -> dict[str, Points]:
    """The floor (which falls like 1/sqrt(T)) and a line of that slope through the measured end."""
    if not trace:
        return {}
    start, (end, value) = trace[0][0], trace[-1]
    ts = [start * (end / start) ** (k / 40) for k in range(41)]
    return {
        GUIDES[0]: [(t, value * math.sqrt(end / t)) for t in ts],
        GUIDES[1]: [(t, floor_at_end * math.sqrt(end / t)) for t in ts],
    }


def draw_recovery(curves: Mapping[str, Points], levels: Mapping[str, float]) -> Drawing:
    """What attacks recover against the epsilon that the answers cost; `levels` are shares to compare with."""
    points = [(float(x), float(y)) for curve in curves.values() for x, y in curve]
    x = Axis.of("total epsilon of the answers", [at for at, _ in points], log=True)
    y = Axis.of("share recovered", [v for _, v in points] + list(levels.values()))
    series = [Series(name, [(float(a), float(b)) for a, b in curve]) for name, curve in curves.items()]
    series += [
        Series(name, [(x.lo, level), (x.hi, level)], style=f"guide g{k % 3}")
        for k, (name, level) in enumerate(levels.items())
    ]
    return draw_lines(series, x, y, "Share of people recovered against the epsilon that all answers cost together.")


def draw_prices(costs: Mapping[str, float]) -> Drawing:
    """One bar a mechanism, cheapest first; what has no price is in the table alone."""
    return draw_bars(costs, "epsilon spent", "What each mechanism spends on the same stream of questions.")


def draw_growth(total: int, completed: Mapping[str, Sequence[int]]) -> Drawing | None:
    """How findings grew over a log of `total` statements: for each status, the statements that completed one."""
    series = []
    for status, statements in completed.items():
        if statements:
            points = [(0.0, 0.0), *((float(n), float(k)) for k, n in enumerate(sorted(statements), 1))]
            points.append((float(max(total, *statements)), float(len(statements))))
            series.append(Series(status, list(dict(points).items()), style=status, stepped=True))
    if not series:
        return None
    last = max(x for s in series for x, _ in s.points)
    top = max(y for s in series for _, y in s.points)
    axes = Axis("statement", 0, last, whole=True), Axis("findings", 0, max(1.0, top), whole=True)
    return draw_lines(series, *axes, "Findings that the log had completed after so many statements.", height=240)


def draw_calibration(
    column: str, guesses: Sequence[Any], sure: Sequence[Any], truth: Sequence[Any], *, probable: bool
) -> Drawing | None:
    """What an attack claims of its guesses (probabilities, or standard errors) against the truth; None if nothing."""
    known = [(g, s, t) for g, s, t in zip(guesses, sure, truth, strict=True) if None not in (g, s, t) and t == t]
    if not known:
        return None
    if probable:
        points = measure_hits([(float(s), str(g) == str(t) or _are_close(g, t)) for g, s, t in known])
        claim = "claimed probability"
    else:
        points = measure_coverage([(float(g), float(s), float(t)) for g, s, t in known])
        claim = "level of the interval"
    series = [Series("as claimed", [(0.0, 0.0), (1.0, 1.0)], style="guide"), Series(column, points, style="s0")]
    caption = (
        f"{column}: what the attack claims of its guesses, against how many were right; "
        "below the dashed line it claims too much."
    )
    return draw_lines(series, Axis(claim, 0, 1), Axis("share that was right", 0, 1), caption, height=280)


def _are_close(guess: Any, true: Any) -> bool:
    try:
        return abs(float(guess) - float(true)) <= NEAR * (1 + abs(float(true)))
    except (TypeError, ValueError):
        return False


def measure_coverage(guesses: Sequence[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """Of (guess, standard error, truth): for each level, the share of truths inside the normal interval of that level.

    >>> measure_coverage([(0, 1, 0.5), (0, 1, 3.0)])[3]
    (0.68, 0.5)
    """
    normal = NormalDist()
    shares = []
    for level in LEVELS:
        reach = normal.inv_cdf((1 + level) / 2)
        inside = sum(abs(guess - true) <= reach * error + NEAR * (1 + abs(true)) for guess, error, true in guesses)
        shares.append((level, inside / len(guesses)))
    return shares


def measure_hits(guesses: Sequence[tuple[float, bool]]) -> list[tuple[float, float]]:
    """Of (probability, right): in each tenth of the probabilities, their mean and the share that was right.

    >>> measure_hits([(0.9, True), (0.94, False), (0.2, False)])
    [(0.2, 0.0), (0.92, 0.5)]
    """
    bins: dict[int, list[tuple[float, bool]]] = {}
    for sure, right in guesses:
        bins.setdefault(min(BINS - 1, int(sure * BINS)), []).append((sure, right))
    return [
        (round(sum(p for p, _ in several) / len(several), 6), sum(r for _, r in several) / len(several))
        for _, several in sorted(bins.items())
    ]
