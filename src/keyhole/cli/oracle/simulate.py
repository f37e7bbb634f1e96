"""`keyhole oracle simulate`: an attack against a database that only says "above" or "below"."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import check_out, emit, emit_json, emit_text, write_whole
from keyhole.config.arguments import Format, OutputArguments
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.oracles.base import Run
    from keyhole.oracles.learners import LearnerChoice
    from keyhole.oracles.noise import OracleNoise
    from keyhole.oracles.simulate import Summary
    from keyhole.oracles.streams import Stream

LARGEST = 50_000_000  # numbers in the basis, d D: it is held a few times over, in about 2 GB


class StreamName(StrEnum):
    """Which queries come: the values of `oracle.simulate.StreamKind`."""

    CONCENTRATED = "concentrated"
    SPREAD = "spread"


HELP = """Learn a hidden database from noisy yes/no answers.

A hidden vector w in [0,1]^D; each query q is answered by one bit, whether w.q + noise > threshold. The attack
answers every query itself before it asks: its error is averaged over the whole stream.

Learners. online-bisection: the published algorithm with its constants. sequential: the same box, cut by an
anytime-valid test. newton: an optimal-gain estimator inside that box. edge: thresholds at the edge of uniform
noise. oracle-off: raw noisy answers and least squares, for comparison. Your own, module:Class: it is called with
(subspace, noise, queries) and has threshold(query), learn(query, threshold, bit) and estimate().

Columns. average error: mean of |answer - truth| over the stream. final error: distance of the estimate
from w on the subspace at the end. floor: Cramer-Rao limit for central thresholds. bound: what the method's own box
certifies for the average error. contained: the box held w to the end.

\b
Examples
  keyhole oracle simulate --learner sequential --queries 100000
  keyhole oracle simulate --noise laplace:1 --stream spread

\b
Exit code
  0 done; 2 could not run.
"""


@options.command(
    "simulate",
    HELP,
    options.DIMENSION,
    options.SUBSPACE,
    options.ORACLE_NOISE,
    options.QUERIES,
    options.words(
        "--stream",
        StreamName.CONCENTRATED,
        "Queries near the basis vectors, or spread over all directions.",
    ),
    click.Option(
        ["--learner"],
        metavar="NAME|MODULE:CLASS",
        default="newton",
        show_default=True,
        help="newton, sequential, edge, online-bisection or oracle-off; or your own class.",
    ),
    options.SEEDS,
    options.BOX_DELTA,
    options.QUESTIONS,
    options.output(Format.TEXT, Format.JSON, Format.HTML),
)
def simulate(
    dimension: int,
    subspace: int,
    noise: str,
    queries: int,
    stream: StreamName,
    learner: str,
    seeds: int,
    delta: float,
    log: Path | None,
    output: OutputArguments,
) -> None:
    """Play all seeds, print."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from keyhole.oracles.learners import choose_learner
    from keyhole.oracles.noise import parse_noise
    from keyhole.oracles.simulate import StreamKind, build_stream, play_games, state_theory, warn_beforehand
    from keyhole.oracles.subspace import Subspace

    check_out(output.out)
    check_out(log)
    if subspace > dimension:
        raise ConfigError(f"--subspace {subspace} is larger than --dimension {dimension}: take d <= D")
    if subspace * dimension > LARGEST:
        raise ConfigError(
            f"--dimension {dimension} times --subspace {subspace} is {subspace * dimension:,} numbers of the "
            f"basis, {8 * subspace * dimension / 1e9:.1f} GB a copy: at most {LARGEST:,} fit; take a smaller D or d"
        )
    law = parse_noise(noise, dimension)
    playing = choose_learner(learner)
    where = build_stream(StreamKind(stream), Subspace.blocks(dimension, subspace))
    if log is not None:
        _write_questions(log, playing, where, law, queries, delta)
    console = Console(stderr=True)
    if beforehand := warn_beforehand(playing, where, law, queries):
        console.print(f"warning: {beforehand}", style="yellow", highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"{playing}, seeds", total=seeds)
        runs, summary, said = play_games(
            playing,
            where,
            law,
            queries,
            delta=delta,
            seeds=seeds,
            done=lambda n: bar.update(task, completed=n),
        )
    for line in said:
        console.print(f"warning: {line}", style="yellow", highlight=False, soft_wrap=True)
    proved = state_theory(playing, where, law, queries)
    said = [beforehand, *said] if beforehand else said
    settings: dict[str, object] = {
        "dimension": dimension,
        "subspace": subspace,
        "noise": noise,
        "queries": queries,
        "stream": str(stream),
        "method": str(playing),
        "seeds": seeds,
        "delta": delta,
    }
    if output.format is Format.JSON:
        emit_json(json.dumps(_data(settings, runs, summary, said), indent=2), output.out)
    elif output.format is Format.HTML:
        from keyhole.report.html.simulations import render_oracle_page

        emit(render_oracle_page(_data(settings, runs, summary, said), proved), output.out)
    else:
        emit_text("\n".join([_text(runs, summary), *proved]), output.out)


def _write_questions(
    log: Path, method: LearnerChoice, stream: Stream, noise: OracleNoise, queries: int, delta: float
) -> None:
    """The questions of seed 0 as a transcript, and the hidden vector as a table beside it."""
    from keyhole.oracles.simulate import COLUMN, ID, play_as_transcript

    table = log.with_suffix(".csv")
    if table == log:
        raise ConfigError(f"--log {log}: the questions are JSON lines, and the table beside them is .csv; write .jsonl")
    hidden, lines = play_as_transcript(method, stream, noise, queries, delta=delta, seed=0)
    write_whole(log, "".join(json.dumps(line) + "\n" for line in lines))
    rows = (f"{number},{value!r}\n" for number, value in enumerate(hidden.tolist(), 1))
    write_whole(table, "".join([f"{ID},{COLUMN}\n", *rows]))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _data(settings: dict[str, object], runs: list[Run], summary: Summary, said: list[str]) -> dict[str, Any]:
    rows = [
        {
            "seed": seed,
            "average_error": run.average_error,
            "final_error": run.final_error,
            "contained": run.contained,
            "bound": _finite(run.bound),
            "asked": run.asked,
            "seconds": run.seconds,
            "trace": [list(point) for point in run.trace],
        }
        for seed, run in enumerate(runs)
    ]
    whole = asdict(summary)
    whole["bound"] = _finite(summary.bound)
    return {"settings": settings, "runs": rows, "summary": whole, "warnings": said}


def _text(runs: list[Run], summary: Summary) -> str:
    lines = [f"{'seed':>4}  {'average error':>13}  {'final error':>11}  {'contained':>9}  {'asked':>10}"]
    lines.extend(
        f"{seed:>4}  {run.average_error:>13.6f}  {run.final_error:>11.6f}  {_said(run.contained):>9}  {run.asked:>10}"
        for seed, run in enumerate(runs)
    )
    ratio = summary.average_error / summary.floor
    bound = f"{summary.bound:.6f}" if math.isfinite(summary.bound) else "none"
    lines.append("")
    lines.append(
        f"{summary.method}, {summary.queries:,} queries: average error {summary.average_error:.6f}"
        f" = {ratio:.2f} x floor {summary.floor:.6f}"
    )
    lines.append(f"final error {summary.final_error:.6f}, bound {bound}, contained {_said(summary.contained)}")
    return "\n".join(lines)


def _said(contained: bool | None) -> str:
    return "-" if contained is None else "yes" if contained else "NO"
