"""The pages of simulations: how fast an oracle gives a database away, and what answering privately would cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from keyhole.report.charts.drawing import Drawing, Series, draw_heat_map, draw_lines
from keyhole.report.charts.figures import GUIDES, average_traces, compute_guides, draw_errors, draw_prices
from keyhole.report.charts.svg import Axis
from keyhole.report.html.page import Tile, render_page

ATTACK_MARKS = ("error", "prior_error", "exact")


def render_oracle_page(simulation: Mapping[str, Any], proved: Sequence[str] = ()) -> str:
    """One page of what `keyhole oracle simulate --format json` says; `proved` is what theory says of it."""
    settings, summary, runs = simulation["settings"], simulation["summary"], simulation["runs"]
    contained = summary["contained"]
    trace = average_traces([run["trace"] for run in runs])
    curves = {str(settings["method"]): trace, **compute_guides(trace, summary["floor"])}
    return render_page(
        "simulate/oracle.html.jinja",
        "simulation",
        f"After {summary['queries']:,} yes/no answers {summary['method']} knew the hidden database to an average error "
        f"of {summary['average_error']:.3g}.",
        notes=simulation["warnings"],
        tiles=[
            Tile(f"{summary['average_error']:.3g}", "average error"),
            Tile(f"{summary['average_error'] / summary['floor']:.2f} ×", "the Cramér-Rao floor of central thresholds"),
            Tile(f"{summary['final_error']:.3g}", "final error"),
            Tile(
                _say_contained(contained),
                "did the certified box hold the truth?",
                "" if contained is None else "good" if contained else "bad",
            ),
        ],
        errors=draw_errors(curves, dashed=GUIDES),
        proved=proved,
        runs=[
            (
                run["seed"],
                f"{run['average_error']:.6f}",
                f"{run['final_error']:.6f}",
                _say_contained(run["contained"]),
                f"{run['asked']:,}",
            )
            for run in runs
        ],
        settings=_list_settings(settings),
    )


def _say_contained(contained: bool | None) -> str:
    return "no box" if contained is None else "yes" if contained else "NO"


def _list_settings(settings: Mapping[str, Any]) -> list[tuple[str, object]]:
    return [(name, f"{value:,}" if isinstance(value, int) else value) for name, value in settings.items()]


def render_release_page(
    simulation: Mapping[str, Any], theorems: Mapping[str, Sequence[tuple[float, float]]] | None = None
) -> str:
    """One page of what `keyhole simulate release --format json` says; `theorems` are curves of 3 alpha by epsilon."""
    workload, mechanisms = simulation["workload"], simulation["mechanisms"]
    costs = {m["mechanism"]: math.inf if m["epsilon"] is None else m["epsilon"] for m in mechanisms}
    ordered = sorted(mechanisms, key=lambda m: costs[m["mechanism"]])
    sentence = f"{workload['queries']:,} questions about {workload['people']:,} people, priced."
    if ordered and ordered[0]["epsilon"] is not None:
        sentence = (
            f"Answering {workload['queries']:,} questions privately costs epsilon {ordered[0]['epsilon']:.3g} at best, "
            f"by {ordered[0]['mechanism']}."
        )
    return render_page(
        "simulate/release.html.jinja",
        "simulation",
        sentence,
        notes=["People and noise are made up (seeded): nothing here is private, and nothing was spent."],
        tiles=[
            Tile(f"{workload['distinct']:,}", "different questions"),
            Tile(f"{workload['cells']:,}", "cells of the domain"),
            Tile(f"± {workload['alpha'] * workload['people']:,.0f}", "people: error bar of a count"),
        ],
        prices=draw_prices(costs),
        bars=_draw_bars_against_errors(mechanisms),
        theorems=_draw_theorems(theorems or {}, workload["alpha"]),
        mechanisms=[
            (
                m["mechanism"],
                "none" if m["epsilon"] is None else f"{m['epsilon']:.4g}",
                f"{m['answered']:,}",
                "" if m["within_alpha"] is None else f"{m['within_alpha']:.4f}",
                f"{m['seconds']:.1f}",
                m.get("note", ""),
            )
            for m in ordered
        ],
        settings=_list_settings(workload),
    )


def render_price_map(found: Mapping[str, Any]) -> str:
    """One page of what `keyhole simulate release --map ... --format json` says: where an online construction pays."""
    squares = found["squares"]
    won = [s for s in squares if s["ratio"] > 1]
    best = max(squares, key=lambda s: s["ratio"])
    sentence = f"An online construction is the cheapest way in {len(won)} of {len(squares)} settings."
    if won:
        sentence += (
            f" At best it costs {1 / best['ratio']:.0%} of {best['other']}: {best['columns']} columns, {best['kind']}, "
            f"{best['questions']:,} questions."
        )
    notes = ["People and noise are made up (seeded): nothing here is private, and nothing was spent."]
    if any(s["cells"] > 256 for s in squares):
        notes.append("Beyond 256 cells the planner that knows all questions is priced, not played.")
    kinds = list(dict.fromkeys(s["kind"] for s in squares))
    return render_page(
        "simulate/map.html.jinja",
        "simulation",
        sentence,
        notes=notes,
        tiles=[
            Tile(f"{found['people']:,}", "people; prices fall like 1/n for all"),
            Tile(f"± {found['alpha'] * found['people']:,.0f}", f"people, with probability {1 - found['beta']:g}"),
        ],
        maps=[(kind, draw_price_map([s for s in squares if s["kind"] == kind])) for kind in kinds],
        squares=[
            (
                s["kind"], s["columns"], f"{s['cells']:,}", f"{s['questions']:,}", s["online"],
                f"{s['online_epsilon']:.4g}", s["other"], f"{s['other_epsilon']:.4g}", f"{s['ratio']:.2f}",
            )
            for s in squares
        ],
    )  # fmt: skip


def draw_price_map(squares: Sequence[Mapping[str, Any]]) -> Drawing:
    """A square the darker the cheaper the online construction is; full where it is the cheapest."""
    settings = list(dict.fromkeys((s["kind"], s["columns"]) for s in squares))
    lengths = sorted({s["questions"] for s in squares})
    ratio = {(s["kind"], s["columns"], s["questions"]): min(1.0, s["ratio"]) for s in squares}
    caption = "Price of the best other way, as a share of the best online construction: at 100 % the online one wins."
    several = len({s["kind"] for s in squares}) > 1
    rows = [f"{width} columns, {kind}" if several else f"{width} columns" for kind, width in settings]
    heads = [f"{k:,}" for k in lengths]
    shares = [[ratio[kind, width, k] for k in lengths] for kind, width in settings]
    return draw_heat_map(shares, rows, heads, (f"questions: {', '.join(heads)}", "columns"), caption)


def _draw_theorems(curves: Mapping[str, Sequence[tuple[float, float]]], alpha: float) -> Drawing | None:
    """The bars that theorems 5.14 and 5.15 promise of OnlineIC, and the bar that is asked for."""
    if not curves:
        return None
    every = [point for points in curves.values() for point in points]
    ends = min(e for e, _ in every), max(e for e, _ in every)
    named = {**curves, "asked for": [(ends[0], alpha), (ends[1], alpha)]}
    return draw_errors(named, x="epsilon", y="3 alpha, a share of n", dashed=("asked for",))


def _draw_bars_against_errors(mechanisms: Sequence[Mapping[str, Any]]) -> Drawing | None:
    """The errors of this simulation, in units of the bar that was promised."""
    curves = {
        m["mechanism"]: [(float(a), float(b)) for a, b in m["error_quantiles"]]
        for m in mechanisms
        if "error_quantiles" in m
    }
    if not curves:
        return None
    top = max(error for curve in curves.values() for _, error in curve)
    x, y = Axis("share of the answers", 0, 1), Axis("error, in units of the bar", 0, max(1.1, top))
    series = [Series(name, curve) for name, curve in curves.items()]
    series.append(Series("the bar", [(0.0, 1.0), (1.0, 1.0)], style="guide"))
    caption = "So large a share of the answers had at most this error; what lies above the dashed line missed its bar."
    return draw_lines(series, x, y, caption)


def render_attacked_defence_page(simulation: Mapping[str, Any]) -> str:
    """One page of what `keyhole simulate attack --format json` says: how well people are guessed, against epsilon."""
    runs, statements = simulation["runs"], simulation["statements"]
    scored = [run for run in runs if run["error"] is not None]
    sentence = f"None of {statements:,} statements was answered so that it could be attacked."
    if scored:
        best = min(scored, key=lambda run: run["error"] / (run["prior_error"] or 1))
        sentence = (
            f"With epsilon {best['epsilon']:g} the best attack on {best['column']} is off by {best['error']:.3g} on "
            f"average, {best['prior_error']:.3g} without any answer."
        )
    return render_page(
        "simulate/attack.html.jinja",
        "simulation",
        sentence,
        notes=["For the owner: guesses are held against the true data. Nothing was charged to a book."],
        tiles=[Tile(f"{statements:,}", "statements"), Tile(f"{len(scored):,}", "attacks")],
        errors=_draw_against_epsilon(scored, "error", "mean error of a guess"),
        exact=_draw_against_epsilon(scored, "exact", "share of people guessed exactly"),
        runs=[
            (
                f"{run['epsilon']:g}",
                run["column"],
                run["answered"],
                *("" if run[mark] is None else f"{run[mark]:.4g}" for mark in ATTACK_MARKS),
                run["method"],
            )
            for run in runs
        ],
    )


def _draw_against_epsilon(scored: Sequence[Mapping[str, Any]], mark: str, what: str) -> Drawing | None:
    """A line a column; dashed, for errors, what is guessed without any answer."""
    usable = [run for run in scored if run[mark] is not None]
    epsilons = sorted({run["epsilon"] for run in usable})
    if len(epsilons) < 2:
        return None
    series = []
    for column in dict.fromkeys(run["column"] for run in usable):
        mine = sorted((run["epsilon"], run[mark], run["prior_error"]) for run in usable if run["column"] == column)
        series.append(Series(column, [(e, v) for e, v, _ in mine]))
        if mark == "error":
            series.append(Series(f"{column}, without answers", [(e, p) for e, _, p in mine], style="guide"))
    top = max(v for each in series for _, v in each.points)
    x = Axis("epsilon", epsilons[0], epsilons[-1], log=True)
    return draw_lines(series, x, Axis(what, 0, top or 1), "The lower epsilon, the less the answers help a guess.")
