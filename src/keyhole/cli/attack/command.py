"""`keyhole attack`: what an outsider can rebuild from the answers he has seen."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.interruption import StopRequest, ask_to_stop
from keyhole.cli.shared.progress import progress_on_stderr
from keyhole.cli.shared.terminal import check_out, emit, emit_json, print_on_console, warn
from keyhole.config.arguments import Format, OutputArguments, TableArguments
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from keyhole.api.attack import AttackComparison
    from keyhole.api.attack_result import Attacked, AttackTerms
    from keyhole.attacks.experiment import Score
    from keyhole.config.settings import Settings
    from keyhole.logs.open import Log

SHOWN = 40  # records printed as text; JSON has them all


class Method(StrEnum):
    """Which attack; tied to `METHODS` by a test."""

    AUTO = "auto"
    LEAST_SQUARES = "least-squares"
    BOUNDED = "bounded"
    L1 = "l1"
    INTEGER = "integer"
    SPARSE = "sparse"
    CONVEX = "convex"
    CONJUGATE_GRADIENT = "conjugate-gradient"
    LBFGS = "lbfgs"
    JACOBI = "jacobi"
    EXTENDED_KACZMARZ = "extended-kaczmarz"
    KACZMARZ = "kaczmarz"
    RANDOMIZED_KACZMARZ = "randomized-kaczmarz"
    SGD = "sgd"


class Listing(StrEnum):
    """In which order people are listed."""

    RECORD = "record"
    CONFIDENCE = "confidence"


HELP = """Rebuild private values from a transcript of questions and answers.

TRANSCRIPT is JSONL, one {"sql": ..., "answer": ..., "noise": ...} a line. The data is the public half of the
table: who there is, with the columns anybody may know; a private column in it is not read. Rows with one id are records
of one person: each is guessed, and so is their total. Counts of people by rows of other tables ([tables.*] in
keyhole.toml) are used for who has such a row.

\b
Examples
  keyhole attack transcript.jsonl --data roster.csv --id Name --private "Blood sugar"
  keyhole attack transcript.jsonl --data roster.csv --id Name --private "Blood sugar:3..10:0.1" --truth people.csv

\b
Exit code
  0 done (warnings included); 2 could not run. Ctrl-C keeps the best estimate so far.
"""


@options.command(
    "attack",
    HELP,
    click.Argument(["transcript"]),
    options.TABLE_ARGUMENTS,
    options.LOG_FORMAT,
    options.DIALECT,
    options.NOISE,
    options.words("--method", Method.AUTO, "Which attack; auto chooses from the evidence and says why."),
    options.TRUTH,
    options.TOLERANCE,
    options.flag("--compare", "Also attack less of the log, and by other methods (needs --truth)."),
    click.Option(
        ["--target"],
        metavar="WHERE",
        help="Report and score only these people: a condition on public columns and ids.",
    ),
    options.words(
        "--by", Listing.RECORD, "How people are listed; confidence puts the surest first, and scores them so."
    ),
    options.output(Format.TEXT, Format.JSON, Format.HTML),
)
def attack(
    transcript: str,
    table: TableArguments,
    log_format: str,
    dialect: str | None,
    noise: str | None,
    method: Method,
    truth: Path | None,
    tolerance: float | None,
    target: str | None,
    by: Listing,
    compare: bool,
    output: OutputArguments,
) -> None:
    """Read, attack, score, print."""
    from keyhole.api.attack_result import AttackTerms
    from keyhole.config.settings import settings, with_private
    from keyhole.engines.engine import dialect_of
    from keyhole.logs.open import LogFormat, open_log
    from keyhole.sql import Dialect

    given = with_private(settings(**table))
    engine = None if dialect is None else Dialect(dialect)
    usual = Dialect(dialect_of(given.data) or Dialect.DUCKDB)
    log = open_log(transcript if transcript == "-" else Path(transcript), LogFormat(log_format), engine, usual)
    check_out(output.out)
    if compare and truth is None:
        raise ConfigError("--compare needs --truth FILE: without the true values nothing can be scored")
    terms = AttackTerms(noise, str(method), truth, tolerance, target, str(by))
    with ask_to_stop() as stop:  # to the last line: what was found is not lost to a Ctrl-C that comes late
        _show(*_played(log, given, terms, compare, stop), output)


def _played(
    log: Log, given: Settings, terms: AttackTerms, compare: bool, stop: StopRequest
) -> tuple[Attacked, AttackComparison | None]:
    """The attack, and other methods beside it if asked for; Ctrl-C among the others keeps the attack."""
    from keyhole.api.attack import attack_log

    with progress_on_stderr() as progress:
        found = attack_log(log, given, terms, progress=progress, interruptible=lambda: nullcontext(stop))
        if not compare:
            return found, None
        from keyhole.api.attack import compare as compared

        try:
            stop()
            with stop.at_once():
                return found, compared(log, given, found, terms)
        except KeyboardInterrupt:
            warn("stopped: no other methods are compared", "warning")
            return found, None


def _show(found: Attacked, beside: AttackComparison | None, output: OutputArguments) -> None:
    for message in found.warnings:
        warn(message, "warning")
    more = {} if beside is None else {"compared": beside.to_json()}
    if output.format is Format.JSON:
        emit_json(json.dumps(found.to_json() | more, indent=2, default=str), output.out)
    elif output.format is Format.HTML:
        from keyhole.report.html.attacks import render_attack_page

        emit(render_attack_page({**found.to_json(), **more, "truths": found.truths}), output.out)
    else:
        print_on_console(output.out, lambda console: _print(console, found, beside))


def _print(console: Console, found: Attacked, beside: AttackComparison | None) -> None:
    import numpy as np
    from rich.markup import escape
    from rich.table import Table

    from keyhole.api.attack_result import tidy
    from keyhole.attacks.base import Measure

    labels, scores = found.labels, found.scores
    for target, choice, result in found.found:
        console.print(f"[bold]{escape(target.column)}[/]: {choice.method} ({escape(choice.why)})")
        note = f"; {result.note}" if result.note else ""
        console.print(f"{result.status.value}: {result.status.cure}{note}; residual {_residual(result.residual)}")
        right = result.measure is Measure.PROBABILITY
        grid = Table("record", "estimate", "probability" if right else "+-", box=None, pad_edge=False)
        ends = found.ranges.get(target.column)
        ends = ends if ends is not None and (np.isfinite(ends[0]) | np.isfinite(ends[1])).any() else None
        if ends is not None:
            grid.add_column("range")
        listed = list(zip(labels, tidy(result.values), result.confidence, strict=True))[:SHOWN]
        for at, (label, value, sure) in enumerate(listed):
            name = ", ".join(str(v) for v in label.values()) + (f", row {found.rows[at] + 1}" if found.rows else "")
            shown = (escape(name), _shown(value, float(sure), right), _confidence(float(sure), right))
            grid.add_row(*shown, *(() if ends is None else (_range(float(ends[0][at]), float(ends[1][at])),)))
        console.print(grid)
        if len(labels) > SHOWN:
            console.print(f"... and {len(labels) - SHOWN} more; --format json has them all")
        if target.column in scores:
            _print_score(console, scores[target.column])
        _print_totals(console, found, target.column)
    _print_features(console, found)
    if beside is not None:
        _print_compared(console, beside)


def _print_totals(console: Console, found: Attacked, column: str) -> None:
    """People with several records: the certain totals first."""
    from rich.markup import escape
    from rich.table import Table

    totals = sorted((t for t in found.totals if t.column == column), key=lambda t: not t.certain)
    if not totals:
        return
    grid = Table("person", "records", f"total {escape(column)}", "+- at most", box=None, pad_edge=False)
    for t in totals[:SHOWN]:
        name = ", ".join(str(v) for v in t.label.values())
        grid.add_row(escape(name), str(len(t.rows)), _shown(t.total, t.error, False), _confidence(t.error, False))
    console.print(grid)
    if len(totals) > SHOWN:
        console.print(f"... and {len(totals) - SHOWN} more; --format json has them all")


def _print_features(console: Console, found: Attacked) -> None:
    """What counts of people tell of each."""
    from rich.markup import escape
    from rich.table import Table

    if not found.features:
        return
    grid = Table("person", "what", "probability", "", box=None, pad_edge=False)
    for f in found.features[:SHOWN]:
        name = ", ".join(str(v) for v in f.label.values()) + (f", row {f.rows[0] + 1}" if len(f.rows) == 1 else "")
        grid.add_row(escape(name), escape(f.form), _confidence(f.chance or 0.0, True), "proved" if f.proved else "")
    console.print(grid)
    if len(found.features) > SHOWN:
        console.print(f"... and {len(found.features) - SHOWN} more; --format json has them all")


def _print_compared(console: Console, beside: AttackComparison) -> None:
    from rich.markup import escape
    from rich.table import Table

    grid = Table("method", "column", "statements", "exact", "mean error", "seconds", box=None, pad_edge=False)
    for p in (*beside.growth, *beside.methods):
        if p.exact is not None:
            off = "" if p.error is None else f"{p.error:.3g}"
            took = f"{p.seconds:.2f}"
            grid.add_row(p.method, escape(p.column), str(p.statements), f"{100 * p.exact:.1f} %", off, took)
    console.print("\n[bold]On less of the log, and by other methods:[/]")
    console.print(grid)
    for p in beside.methods:
        if p.cannot:
            console.print(f"not by {p.method}: {escape(p.cannot)}")


def _range(lo: float, hi: float) -> str:
    """What is proved of a value: [3, 5], or an end alone."""
    if math.isinf(lo) and math.isinf(hi):
        return "any"
    if lo == hi:
        return f"{lo:g}"
    return f">= {lo:.6g}" if math.isinf(hi) else f"<= {hi:.6g}" if math.isinf(lo) else f"\\[{lo:.6g}, {hi:.6g}]"


def _residual(value: float) -> str:
    """Below rounding it is 0."""
    return "0" if value < 1e-8 else f"{value:.3g}"


def _shown(value: Any, sure: float, right: bool) -> str:
    from rich.markup import escape

    from keyhole.report.words.digits import rounded

    if isinstance(value, float):  # numpy's are
        return "NULL" if math.isnan(value) else rounded(value, None if right or sure < 1e-6 else sure)
    return escape(str(value))


def _confidence(sure: float, right: bool) -> str:
    if right:
        return f"{100 * sure:.1f} %"
    return "unknown" if math.isinf(sure) else "0" if sure < 1e-6 else f"{sure:.3g}"


def _print_score(console: Console, s: Score) -> None:
    console.print(
        f"exact {100 * s.exact:.1f} % of {s.records} (without answers: {100 * s.prior_exact:.1f} %, "
        f"commonest value {100 * s.majority_exact:.1f} %); within {s.tolerance:g}: {100 * s.within:.1f} % "
        f"(without answers: {100 * s.prior_within:.1f} %)"
    )
    console.print(f"95 % interval of the share exact: {100 * s.exact_low:.1f} to {100 * s.exact_high:.1f} %")
    if s.control_exact is not None:
        count = s.control_records
        console.print(f"control group, whom no answer touches: {100 * s.control_exact:.1f} % of {count} exact")
    if s.precision:
        console.print("right among the surest: " + ", ".join(f"{100 * share:.1f} % of {k}" for k, share in s.precision))
    if s.error is not None:
        console.print(f"mean absolute error {s.error:.4g} (without answers: {s.prior_error:.4g})")
