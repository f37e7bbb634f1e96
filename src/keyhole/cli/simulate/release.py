"""`keyhole simulate release`: what every mechanism costs on one stream of questions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import check_out, emit, emit_json, emit_text
from keyhole.config.arguments import Format, OutputArguments
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.defence.simulate.release import ReleaseOutcome, Setup
    from keyhole.defence.simulate.workloads import Workload

ALPHA, BETA = 0.05, 0.001  # the error bar as a share of n, and the chance to miss it
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)

HELP = """Compare what private mechanisms cost on one stream of counting questions.

Every answer must be within 5% of n with probability 0.999; n is public (replace-one). Each mechanism is
played with seeded noise on made-up people, so nothing here is private and nothing is spent.

Workloads. covid: products of value subsets of four columns (128 cells, 1,008,532 people). citibike: single cells of all
1-, 2- and 3-way margins of eight columns (604,800 cells). binary:D: 3-way conjunctions over D binary columns.
A .sql file: its counts, over the columns that -c declares.

Mechanisms. planner: the stream is not announced (ski rental between numbers and tables). planner-declared: it is.
laplace: each question each time. cache: each distinct question once. histogram: the whole table at once. pmw-tuned,
pmw-warm, pmw-bypass: private multiplicative weights with prepaid firings, their number named after a twin (other people
of the same kind); pmw-warm begins at one-way margins that it buys. online-ic: as published, priced only.

--map plays all of them over numbers of binary columns and of questions, for two kinds of data, and says where an online
construction is cheaper than everything else. Beyond 256 cells the planner that knows all questions is priced, not
played, and the other one is stopped when it has paid more than another way. Prices fall like 1/n for all of them, so
one n stands for all. --format html --out MAP.svg writes the picture alone.

\b
Examples
  keyhole simulate release --queries 2000
  keyhole simulate release --map 8,12,16 --map-queries 100,1000 --format html --out map.html

\b
Exit code
  0 done; 2 could not run.
"""


@options.command(
    "release",
    HELP,
    click.Option(["--workload"], default="covid", show_default=True, help="covid, citibike, binary:D or LOG.sql."),
    click.Option(
        ["--queries"], type=click.IntRange(min=1), default=2000, show_default=True, help="Length of the stream."
    ),
    click.Option(
        ["--people"], type=click.IntRange(1, 2**31 - 1), default=100_000, show_default=True, help="n, for a log."
    ),
    click.Option(["--delta"], type=float, default=0.0, show_default=True, help="Also plan in rho, at this delta."),
    click.Option(["--seed"], type=int, default=0, show_default=True, help="Of people, stream and noise."),
    click.Option(["--mechanism"], multiple=True, help="Play only this one. Repeatable."),
    click.Option(["--map", "columns"], metavar="D,D,...", help="Map who is cheapest: numbers of binary columns."),
    click.Option(
        ["--map-queries"], default="100,1000", show_default=True, metavar="K,K,...", help="Lengths of streams of --map."
    ),
    options.CONFIG,
    options.output(Format.TEXT, Format.JSON, Format.HTML),
)
def release(
    workload: str,
    queries: int,
    people: int,
    delta: float,
    seed: int,
    mechanism: tuple[str, ...],
    columns: str | None,
    map_queries: str,
    config: Path | None,
    output: OutputArguments,
) -> None:
    """Draw the stream, play every mechanism, show."""
    from keyhole.defence.simulate.release import MECHANISMS, Setup, timed

    check_out(output.out)
    if not 0 <= delta < 1:
        raise ConfigError("--delta is at least 0 and below 1")
    if columns is not None:
        _show_map(columns, map_queries, Setup(ALPHA, BETA, delta, seed), people, output)
        return
    unknown = [name for name in mechanism if name not in MECHANISMS]
    if unknown:
        raise ConfigError(f"there is no mechanism {unknown[0]!r}; there are {', '.join(MECHANISMS)}")
    work, said = _workload(workload, queries, people, seed, config)
    setup = Setup(ALPHA, BETA, delta, seed)
    played = [timed(name, work, setup) for name in mechanism or tuple(MECHANISMS)]
    told = {"name": work.name, "people": work.n, "cells": math.prod(work.sizes.values()), "queries": len(work.stream),
            "distinct": work.distinct, "alpha": ALPHA, "beta": BETA, "delta": delta, "seed": seed}  # fmt: skip
    found = {"workload": told, "mechanisms": [_json(p) for p in played]}
    if output.format is Format.JSON:
        emit_json(json.dumps(found, indent=2), output.out)
    elif output.format is Format.HTML:
        from keyhole.report.html.simulations import render_release_page

        emit(render_release_page(found, _theorem_curves(work, BETA, delta)), output.out)
    else:
        head = f"{work.name}: {work.n:,} people, {told['cells']:,} cells, {len(work.stream):,} questions"
        emit_text("\n".join([f"{head}, {work.distinct:,} different{said}", *_lines(played)]), output.out)


def _theorem_curves(work: Workload, beta: float, delta: float) -> dict[str, list[tuple[float, float]]]:
    """3 alpha of theorems 5.14 and 5.15 on this stream against epsilon, for three numbers of people."""
    from keyhole.defence.mechanisms.theorems import OnlineAccuracy, multiplicative_weights_limit
    from keyhole.errors import PrivacyParameterError

    cells, curves = math.prod(work.sizes.values()), dict[str, list[tuple[float, float]]]()
    for slack in (0.0, delta or 1e-6):
        for n in (work.n // 10, work.n, work.n * 10):
            plan = OnlineAccuracy(
                lambda alpha: multiplicative_weights_limit(cells, alpha), n=max(1, n), queries=work.distinct, beta=beta
            )
            points = []
            for k in range(-8, 17):
                epsilon = 10 ** (k / 4)
                try:
                    points.append((epsilon, 3 * plan.alpha_for(epsilon, slack)))
                except PrivacyParameterError:
                    continue  # so small an epsilon promises nothing
            name = "5.14, delta 0" if slack == 0 else f"5.15, delta {slack:g}"
            curves[f"{name}: {n:,} people"] = points
    return {name: points for name, points in curves.items() if points}


def _show_map(columns: str, questions: str, setup: Setup, people: int, output: OutputArguments) -> None:
    """Play the map and print it."""
    from keyhole.defence.simulate.release import draw_map

    widths, lengths = _numbers("--map", columns, 3, 20), _numbers("--map-queries", questions, 1, 10**6)
    made = draw_map(widths, lengths, setup, people=people)
    squares = [
        {"kind": c.kind, "columns": c.columns, "cells": 2**c.columns, "questions": c.questions, "online": c.online,
         "online_epsilon": c.online_epsilon, "other": c.other, "other_epsilon": c.other_epsilon, "ratio": c.ratio,
         "within_alpha": c.within}
        for c in made.cells
    ]  # fmt: skip
    found = {"people": people, "alpha": setup.alpha, "beta": setup.beta, "squares": squares}
    if output.format is Format.JSON:
        emit_json(json.dumps(found, indent=2), output.out)
        return
    if output.format is Format.HTML and output.out is not None and output.out.suffix == ".svg":
        from keyhole.report.html.page import write_chart
        from keyhole.report.html.simulations import draw_price_map

        write_chart(draw_price_map(squares), output.out, title="Where an online construction is the cheapest")
        return
    if output.format is Format.HTML:
        from keyhole.report.html.simulations import render_price_map

        emit(render_price_map(found), output.out)
        return
    head = (
        f"{people:,} people, every answer within {setup.alpha:g} n with probability {1 - setup.beta:g}; "
        f"an online construction is the cheapest in {len(made.won)} of {len(made.cells)} squares"
    )
    names = f"{'online':<10} {'epsilon':>9}  {'other':<17} {'epsilon':>9} {'ratio':>6}"
    lines = [head, f"{'data':<19} {'columns':>7} {'questions':>9}  {names}"]
    for c in made.cells:
        lines.append(
            f"{c.kind:<19} {c.columns:>7} {c.questions:>9,}  {c.online:<10} {c.online_epsilon:>9.4g}  "
            f"{c.other:<17} {c.other_epsilon:>9.4g} {c.ratio:>6.2f}{'  online wins' if c.ratio > 1 else ''}"
        )
    emit_text("\n".join(lines), output.out)


def _numbers(option: str, text: str, least: int, most: int) -> list[int]:
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(least <= value <= most for value in found):
        raise ConfigError(f"{option} {text!r}: write whole numbers from {least:,} to {most:,}, such as 8,12")
    return found


def _workload(name: str, queries: int, people: int, seed: int, config: Path | None) -> tuple[Workload, str]:
    if not name.endswith(".sql"):
        from keyhole.defence.simulate.workloads import make_workload

        return make_workload(name, queries, 0.0, seed), ""
    from keyhole.config import Config
    from keyhole.defence.simulate.workloads import read_log_workload
    from keyhole.logs.open import read_log

    if config is None:
        raise ConfigError("a log needs -c keyhole.toml, which declares its columns")
    made, left = read_log_workload(
        [line.sql for line in read_log(Path(name))], Config.load(config).columns, people, seed
    )
    return made, f"; {left} statements are no counts and were left out" if left else ""


def _json(p: ReleaseOutcome) -> dict[str, object]:
    import numpy as np

    found: dict[str, object] = {"mechanism": p.mechanism, "epsilon": p.epsilon if math.isfinite(p.epsilon) else None,
             "answered": p.answered, "within_alpha": p.within_alpha, "seconds": round(p.seconds, 3)}  # fmt: skip
    if p.errors is not None:
        found["error_quantiles"] = [[share, round(float(np.quantile(p.errors, share)), 6)] for share in QUANTILES]
    return found | ({"note": p.note} if p.note else {})


def _lines(played: list[ReleaseOutcome]) -> list[str]:
    lines = [f"{'mechanism':<17} {'epsilon':>10} {'answered':>9} {'within':>7} {'seconds':>8}"]
    for p in sorted(played, key=lambda p: p.epsilon if math.isfinite(p.epsilon) else math.inf):
        cost = f"{p.epsilon:.4g}" if math.isfinite(p.epsilon) else "-"
        right = "-" if p.within_alpha is None else f"{p.within_alpha:.4f}"
        lines.append(f"{p.mechanism:<17} {cost:>10} {p.answered:>9} {right:>7} {p.seconds:>8.1f}  {p.note}".rstrip())
    return lines
