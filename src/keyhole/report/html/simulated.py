"""Reports of simulations: how fast an oracle gives a database away, and what answering privately would cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyhole.report.charts.oracle import ERROR, GUIDES, QUERIES, errors, guided, mean_trace
from keyhole.report.html.axes import Axis
from keyhole.report.html.bars import bar_drawing
from keyhole.report.html.charts import Drawing, Series, line_chart
from keyhole.report.html.markup import Markup, lines, table, tag
from keyhole.report.html.page import Section, Tile, page

ATTACK_MARKS = ("error", "prior_error", "exact")


def price_bars(costs: Mapping[str, float]) -> Drawing:
    """One bar a mechanism, cheapest first; what has no price is in the table alone."""
    return bar_drawing(costs, "epsilon spent", "What each mechanism spends on the same stream of questions.")


def oracle_page(found: Mapping[str, Any], proved: Sequence[str] = ()) -> str:
    """One page of what `keyhole simulate oracle --format json` says; `proved` is what theory says of it."""
    told, whole = found["settings"], found["summary"]
    ratio = whole["average_error"] / whole["floor"]
    sentence = (
        f"After {whole['queries']:,} yes/no answers {whole['method']} knew the hidden database to an average error of "
        f"{whole['average_error']:.3g}."
    )
    tiles = [
        Tile(f"{whole['average_error']:.3g}", "average error"),
        Tile(f"{ratio:.2f} ×", "the Cramér-Rao floor of central thresholds"),
        Tile(f"{whole['final_error']:.3g}", "final error"),
        Tile(_contained(whole["contained"]), "did the certified box hold the truth?", _mood(whole["contained"])),
    ]
    return page("simulation", sentence, "", found["warnings"], tiles, _oracle_sections(found, told, proved))


def _oracle_sections(found: Mapping[str, Any], told: Mapping[str, Any], proved: Sequence[str]) -> Iterator[Section]:
    trace = mean_trace([run["trace"] for run in found["runs"]])
    curves = guided(str(told["method"]), trace, found["summary"]["floor"])
    yield Section("Error over the stream", (errors(curves, x=QUERIES, y=ERROR, dashed=GUIDES).figure(),))
    yield Section("What theory says", (tag("pre", lines("\n".join(proved))),) if proved else ())
    rows = [
        (run["seed"], f"{run['average_error']:.6f}", f"{run['final_error']:.6f}", _contained(run["contained"]),
         f"{run['asked']:,}")
        for run in found["runs"]
    ]  # fmt: skip
    head = ("seed", "average error", "final error", "box held the truth", "asked")
    yield Section("Runs", (table(head, rows, numbers=range(5)),))
    yield Section("What was played", (_settings(told),))


def release_page(found: Mapping[str, Any]) -> str:
    """One page of what `keyhole simulate release --format json` says."""
    work, played = found["workload"], found["mechanisms"]
    priced = sorted((p for p in played if p["epsilon"] is not None), key=lambda p: p["epsilon"])
    sentence = f"{work['queries']:,} questions about {work['people']:,} people, priced."
    if priced:
        best = priced[0]
        sentence = f"Answering {work['queries']:,} questions privately costs epsilon {best['epsilon']:.3g} at best, by "
        sentence += f"{best['mechanism']}."
    tiles = [
        Tile(f"{work['distinct']:,}", "different questions"),
        Tile(f"{work['cells']:,}", "cells of the domain"),
        Tile(f"± {work['alpha'] * work['people']:,.0f}", "people: error bar of a count"),
    ]  # fmt: skip
    told = ["People and noise are made up (seeded): nothing here is private, and nothing was spent."]
    return page("simulation", sentence, "", told, tiles, _release_sections(work, played))


def _release_sections(work: Mapping[str, Any], played: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    costs = {p["mechanism"]: math.inf if p["epsilon"] is None else p["epsilon"] for p in played}
    yield Section("What each mechanism spends", (price_bars(costs).figure(),))
    yield Section("Bars against errors", tuple(_bars(played)))
    rows = [
        (p["mechanism"], "none" if p["epsilon"] is None else f"{p['epsilon']:.4g}", f"{p['answered']:,}",
         "" if p["within_alpha"] is None else f"{p['within_alpha']:.4f}", f"{p['seconds']:.1f}", p.get("note", ""))
        for p in sorted(played, key=lambda p: costs[p["mechanism"]])
    ]  # fmt: skip
    head = ("mechanism", "epsilon", "answered", "within the bar", "seconds", "")
    yield Section("Numbers", (table(head, rows, numbers=range(1, 5)),))
    yield Section("What was played", (_settings(work),))


def attacked_defence_page(found: Mapping[str, Any]) -> str:
    """One page of what `keyhole simulate attack --format json` says: how well people are guessed, against epsilon."""
    scored = [run for run in found["runs"] if run["error"] is not None]
    sentence = f"None of {found['statements']:,} statements was answered so that it could be attacked."
    if scored:
        best = min(scored, key=lambda run: run["error"] / (run["prior_error"] or 1))
        sentence = (
            f"With epsilon {best['epsilon']:g} the best attack on {best['column']} is off by {best['error']:.3g} on "
            f"average, {best['prior_error']:.3g} without any answer."
        )
    told = ["For the custodian: guesses are held against the true data. Nothing was charged to a book."]
    tiles = [Tile(f"{found['statements']:,}", "statements"), Tile(f"{len(scored):,}", "attacks")]
    return page("simulation", sentence, "", told, tiles, _attack_sections(found["runs"], scored))


def _attack_sections(runs: Sequence[Mapping[str, Any]], scored: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    for name, what in (("error", "mean error of a guess"), ("exact", "share of people guessed exactly")):
        drawn = tuple(_against_epsilon(scored, name, what))
        if drawn:
            yield Section(f"{what.capitalize()}, against epsilon", drawn)
    rows = [
        (f"{run['epsilon']:g}", run["column"], run["answered"], *(_shown(run[k]) for k in ATTACK_MARKS), run["method"])
        for run in runs
    ]
    head = ("epsilon", "column", "answered", "error", "without answers", "exact", "method")
    yield Section("Numbers", (table(head, rows, numbers=(0, 2, 3, 4, 5)),))


def _against_epsilon(scored: Sequence[Mapping[str, Any]], name: str, what: str) -> Iterator[Markup]:
    """A line a column; dashed, for errors, what is guessed without any answer."""
    usable = [run for run in scored if run[name] is not None]
    epsilons = sorted({run["epsilon"] for run in usable})
    if len(epsilons) < 2:
        return
    series = []
    for column in dict.fromkeys(run["column"] for run in usable):
        mine = sorted((run["epsilon"], run[name], run["prior_error"]) for run in usable if run["column"] == column)
        series.append(Series(column, [(e, v) for e, v, _ in mine]))
        if name == "error":
            series.append(Series(f"{column}, without answers", [(e, p) for e, _, p in mine], style="guide"))
    top = max(v for each in series for _, v in each.points)
    x = Axis("epsilon", epsilons[0], epsilons[-1], log=True)
    yield line_chart(series, x, Axis(what, 0, top or 1), "The lower epsilon, the less the answers help a guess.")


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _bars(played: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
    """The errors of this simulation, in units of the bar that was promised."""
    curves = {
        p["mechanism"]: [(float(a), float(b)) for a, b in p["error_quantiles"]]
        for p in played
        if "error_quantiles" in p
    }
    if not curves:
        return
    top = max(error for curve in curves.values() for _, error in curve)
    x, y = Axis("share of the answers", 0, 1), Axis("error, in units of the bar", 0, max(1.1, top))
    series = [Series(name, curve) for name, curve in curves.items()]
    series.append(Series("the bar", [(0.0, 1.0), (1.0, 1.0)], style="guide"))
    caption = "So large a share of the answers had at most this error; what lies above the dashed line missed its bar."
    yield line_chart(series, x, y, caption)


def _settings(told: Mapping[str, Any]) -> Markup:
    return table(("", ""), [(k, f"{v:,}" if isinstance(v, int) else v) for k, v in told.items()])


def _contained(held: bool | None) -> str:
    return "no box" if held is None else "yes" if held else "NO"


def _mood(held: bool | None) -> str:
    return "" if held is None else "good" if held else "bad"
