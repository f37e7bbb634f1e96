"""Does an attack know what it knows? What it claims of its guesses, against the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import Any

from keyhole.report.html.axes import Axis
from keyhole.report.html.charts import Series, line_chart
from keyhole.report.html.markup import Markup

LEVELS = (0.1, 0.25, 0.5, 0.68, 0.8, 0.9, 0.95, 0.99)
BINS = 10
NEAR = 1e-6  # relative: what counts as the truth itself


def by_errors(guesses: Sequence[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """Of (guess, standard error, truth): for each level, the share of truths inside the normal interval of that level.

    >>> by_errors([(0, 1, 0.5), (0, 1, 3.0)])[3]
    (0.68, 0.5)
    """
    normal = NormalDist()
    found = []
    for level in LEVELS:
        reach = normal.inv_cdf((1 + level) / 2)
        inside = sum(abs(guess - true) <= reach * error + NEAR * (1 + abs(true)) for guess, error, true in guesses)
        found.append((level, inside / len(guesses)))
    return found


def by_probability(guesses: Sequence[tuple[float, bool]]) -> list[tuple[float, float]]:
    """Of (probability, right): in each tenth of the probabilities, their mean and the share that was right.

    >>> by_probability([(0.9, True), (0.94, False), (0.2, False)])
    [(0.2, 0.0), (0.92, 0.5)]
    """
    bins: dict[int, list[tuple[float, bool]]] = {}
    for sure, right in guesses:
        bins.setdefault(min(BINS - 1, int(sure * BINS)), []).append((sure, right))
    return [
        (round(sum(p for p, _ in several) / len(several), 6), sum(r for _, r in several) / len(several))
        for _, several in sorted(bins.items())
    ]


def calibration(column: str, guesses: Sequence[Any], sure: Sequence[Any], truth: Sequence[Any], *, probable: bool) -> Iterator[Markup]:  # fmt: skip  # noqa: E501
    """The picture; nothing where nothing is claimed."""
    known = [(g, s, t) for g, s, t in zip(guesses, sure, truth, strict=True) if None not in (g, s, t) and t == t]
    if not known:
        return
    if probable:
        points, claimed = by_probability([(float(s), str(g) == str(t) or _equal(g, t)) for g, s, t in known]), "claimed"
    else:
        points, claimed = by_errors([(float(g), float(s), float(t)) for g, s, t in known]), "level of the interval"
    axes = Axis(f"{claimed} probability" if probable else claimed, 0, 1), Axis("share that was right", 0, 1)
    series = [
        Series("as claimed", [(0.0, 0.0), (1.0, 1.0)], style="guide"),
        Series(column, points, style="s0"),
    ]
    caption = f"{column}: what the attack claims of its guesses, against how many were right; below the dashed line it claims too much."  # noqa: E501
    yield line_chart(series, *axes, caption, height=280)


def _equal(guess: Any, true: Any) -> bool:
    try:
        return abs(float(guess) - float(true)) <= NEAR * (1 + abs(float(true)))
    except (TypeError, ValueError):
        return False
