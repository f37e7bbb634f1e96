"""`keyhole attack`: what an outsider can rebuild from the answers he has seen."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from keyhole.attack.base import Measure, Reconstruction, Target
from keyhole.attack.choose import Choice, run
from keyhole.attack.score import Score, score
from keyhole.cli.terminal import emit, errors_end_well, progress_on_stderr
from keyhole.errors import ConfigError, DataError, LogError
from keyhole.evidence import Evidence
from keyhole.gather import gather, read_log, transcribe
from keyhole.knowledge import Config, Knowledge, PrivateColumn, parse_private
from keyhole.predicate import IsNull, leaves
from keyhole.tables import DuckDBRoster
from keyhole.tables.open import Use, interruptions, open_table, read_columns
from keyhole.transcript import ABSENT, Noise, Transcript

SHOWN = 40  # records printed as text; JSON has them all


class Format(StrEnum):
    """How the result is written."""

    TEXT = "text"
    JSON = "json"


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
    SGD = "sgd"


HELP = """Rebuild private values from a transcript of questions and answers.

TRANSCRIPT is JSONL, one {"sql": ..., "answer": ..., "noise": ...} a line. The roster is the public
half of the table: who there is, with the columns anybody may know.

[bold]Examples[/]

  keyhole attack transcript.jsonl --roster roster.csv --id Name --private "Blood sugar"

  keyhole attack transcript.jsonl --roster roster.csv --id Name --private "Blood sugar:3..10:0.1" --truth people.csv

  keyhole attack noisy.jsonl --roster roster.csv --id Name --private smoker:0..1:1 --noise laplace:2 --format json

[bold]Exit code[/]  0 done (warnings included); 2 could not run. Ctrl-C keeps the best estimate so far.
"""


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("attack", help=HELP)(attack)


def attack(
    transcript: Annotated[
        str, typer.Argument(help="A .jsonl transcript, or - for standard input.", show_default=False)
    ],
    roster: Annotated[
        Path | None, typer.Option(help="Public half of the table: .csv, .tsv, .parquet or .json.")
    ] = None,
    id: Annotated[list[str] | None, typer.Option(help="Column that names the person. Repeatable.")] = None,  # noqa: A002
    private: Annotated[
        list[str] | None,
        typer.Option(metavar="COL[:min..max[:step]]", help="Private column, with what is known of it. Repeatable."),
    ] = None,
    knowledge: Annotated[
        Path | None, typer.Option("--knowledge", "-k", help="keyhole.toml with ranges, grids, categories and facts.")
    ] = None,
    noise: Annotated[
        str | None, typer.Option(metavar="KIND:SCALE", help="Noise of answers that state none, such as laplace:2.")
    ] = None,
    method: Annotated[
        Method, typer.Option(help="Which attack; auto chooses from the evidence and says why.")
    ] = Method.AUTO,
    truth: Annotated[Path | None, typer.Option(help="The whole table, to score the guesses against.")] = None,
    tolerance: Annotated[float | None, typer.Option(help="A guess this near counts as within tolerance.")] = None,
    table: Annotated[str | None, typer.Option(help="Table name (default: any FROM name fits).")] = None,
    format: Annotated[Format, typer.Option(help="Text for people, JSON for machines.")] = Format.TEXT,  # noqa: A002
    out: Annotated[
        Path | None, typer.Option(help="Write here instead; the file appears complete or not at all.")
    ] = None,
) -> None:
    """Read, attack, score, print."""
    with errors_end_well(), interruptions():
        warnings: list[str] = []
        if tolerance is not None and not (math.isfinite(tolerance) and tolerance >= 0):
            raise ConfigError(f"--tolerance {tolerance:g}: write a number that is not negative")
        settings = _settings(knowledge, private or [], id or [])
        law = _noise(noise)
        path = roster or (Path(settings.source.data) if settings.source.data else None)
        if path is None:
            raise ConfigError("no roster: give --roster FILE, the public half of the table")
        with progress_on_stderr() as said:
            people = _roster(path, settings, table, warnings)
            known = settings.knowledge()
            evidence = _evidence(transcript, people, known, law, warnings)
            found = []
            for column in settings.columns.private:
                target = Target(column, people.n, known.prior(column))
                with _interruptible() as stop:

                    def watch(step: int, residual: float, column: str = column) -> None:
                        said(f"{column}: step {step}, residual {residual:.3g}", 0, 0)
                        stop()

                    choice, guess = run(str(method), target, evidence, watch=watch)
                found.append((target, choice, guess))
                if evidence.transcript.entries and not choice.rows:
                    warnings.append(f"no answer is about {column!r}: the guesses are what was known beforehand")
        scores = {}
        if truth is not None:
            scores = {t.column: _score(t, r, truth, people, settings, tolerance, warnings) for t, _, r in found}
        labels = people.labels(np.arange(people.n))
        for message in warnings:
            Console(stderr=True, highlight=False).print(f"[yellow]warning:[/] {escape(message)}", soft_wrap=True)
        if format is Format.JSON:
            emit(json.dumps(_as_json(found, labels, scores, warnings), indent=2, default=str), out)
        elif out is not None:
            text = StringIO()
            _print(Console(file=text, width=120), found, labels, scores)
            emit(text.getvalue(), out)
        else:
            _print(Console(highlight=False, soft_wrap=True), found, labels, scores)


Found = list[tuple[Target, Choice, Reconstruction]]


def _settings(path: Path | None, private: Sequence[str], ids: Sequence[str]) -> Config:
    settings = Config.load(path) if path is not None else Config()
    named: dict[str, PrivateColumn] = dict(settings.columns.private)
    for text in private:
        name, column = parse_private(text)
        if name not in named or text != name:
            named[name] = column
    if private:
        wanted = {parse_private(text)[0] for text in private}
        named = {name: column for name, column in named.items() if name in wanted}
    if not named:
        raise ConfigError("no column is private: name the one to rebuild with --private COL")
    columns = {
        "id": tuple(ids) or settings.columns.id,
        "hidden": settings.columns.hidden,
        "private": named,
        "public": settings.columns.public,
    }
    return settings.model_copy(update={"columns": Config.checked({"columns": columns}, "the options").columns})


def _noise(text: str | None) -> Noise | None:
    if text is None:
        return None
    kind, _, scale = text.partition(":")
    if not scale:
        raise ConfigError(f"--noise {text!r}: write kind:scale, such as laplace:2 or gaussian:0.5")
    try:
        return Noise.parse(kind, scale)
    except LogError as error:
        raise ConfigError(f"--noise {text!r}: {error}") from None


def _roster(path: Path, settings: Config, table: str | None, warnings: list[str]) -> DuckDBRoster:
    """The public half. A private column in the file is left out by name: its values are never read."""
    opened = open_table(settings, Use.ATTACK, data=path, table=table)
    if opened.left_out:
        shown = ", ".join(repr(name) for name in sorted(opened.left_out))
        warnings.append(f"the roster has the private column {shown}: an attacker would not have it; it is not read")
    return opened.roster


def _evidence(
    transcript: str, people: DuckDBRoster, known: Knowledge, law: Noise | None, warnings: list[str]
) -> Evidence:
    lines = read_log(transcript if transcript == "-" else Path(transcript))
    for line in lines:
        if line.answer is ABSENT and line.sql.lstrip().startswith("["):
            raise LogError(f'line {line.at}: a line is an object {{"sql": ..., "answer": ...}}, not a list')
        if line.answer is ABSENT:
            raise LogError(f'line {line.at}: "answer" is missing; an attack needs the answers, null for SQL NULL')
    if not lines:
        warnings.append("the transcript is empty: the prior is the answer")
    log = transcribe(lines, people, noise=law)
    for refusal in log.refused:
        raise LogError(f"statement {refusal.number} cannot be used: {refusal.error}")
    log = _without_unknown_nulls(log, people, warnings)
    evidence = gather(log, people, known)
    for refusal in evidence.transcript.refused:
        raise LogError(f"statement {refusal.number} cannot be used: {refusal.error}")
    if evidence.contradictions:
        _refuse_unknown_groups(log, people)
    lawless = sum(
        e.answer is not None and e.answer.noise is not None and e.answer.noise.kind == "unknown" for e in log.entries
    )
    if lawless:
        said = "1 answer states" if lawless == 1 else f"{lawless} answers state"
        warnings.append(f"{said} no law of noise: not used")
    for unjudged in evidence.unjudged:
        warnings.append(f"query {unjudged.number} is not used: {unjudged.reason}")
    for system in evidence.systems:
        for fact in system.order:
            warnings.append(f"query {fact.number} is not used: {fact.query.aggregate} is no sum")
    return evidence


def _without_unknown_nulls(log: Transcript, people: DuckDBRoster, warnings: list[str]) -> Transcript:
    """A roster without a private column does not know who has no value there: such answers are left out."""
    private = {c.name for c in people.schema.columns if c.secret}
    kept = []
    for entry in log.entries:
        asked = [leaf for t in (*entry.query.terms, *entry.query.per) for leaf in leaves(t.where)]
        column = next((x.column for x in asked if isinstance(x, IsNull) and x.column in private), None)
        if column is None:
            kept.append(entry)
        else:
            warnings.append(f"query {entry.number} is not used: the roster does not say where {column!r} is NULL")
    return replace(log, entries=tuple(kept))


def _refuse_unknown_groups(log: Transcript, people: DuckDBRoster) -> None:
    """A group answered for nobody leaves another one without its answer: name the first, the cause."""
    for entry in log.entries:
        group = "." in entry.number and entry.answer is not None and entry.answer.value is not None
        if group and not len(people.support(entry.query)):
            raise LogError(f"query {entry.number}: no such group in the roster (one of: {entry.sql})")


@contextmanager
def _interruptible() -> Iterator[Any]:
    """The first Ctrl-C asks the solver to stop at its next step; a second one ends the program."""
    asked = False

    def stop() -> None:
        if asked:
            raise KeyboardInterrupt

    def ask(_signal: int, _frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def _score(
    target: Target,
    found: Reconstruction,
    path: Path,
    people: DuckDBRoster,
    settings: Config,
    tolerance: float | None,
    warnings: list[str],
) -> Score:
    """Score against the whole table, matched by id (by row number where there is none)."""
    ids = list(settings.columns.id)
    rows = read_columns(path, [*ids, target.column])
    if ids:
        known = {tuple(str(v) for v in row[: len(ids)]): row[-1] for row in rows}
        wanted = [tuple(str(label[name]) for name in ids) for label in people.labels(np.arange(people.n))]
        missing = [key for key in wanted if key not in known]
        if missing:
            raise DataError(
                f"{path} has no record {', '.join(missing[0])!r} ({len(missing)} of {len(wanted)} are missing)"
            )
        values = [known[key] for key in wanted]
        extra = len(known.keys() - set(wanted))
        if extra:
            warnings.append(f"{_records(extra)} of the truth {_is(extra)} not in the roster: left out of the score")
    else:
        if len(rows) != people.n:
            raise DataError(f"{path} has {len(rows)} rows, the roster {people.n}; name the id column with --id")
        values = [row[-1] for row in rows]
    empty = sum(value is None for value in values)
    if empty:
        warnings.append(f"{_records(empty)} of the truth {'has' if empty == 1 else 'have'} no value: not scored")
    return score(found, _truth(values, found), target, tolerance=tolerance)


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _truth(values: list[Any], found: Reconstruction) -> NDArray[Any]:
    if found.values.dtype == object:
        names = np.empty(len(values), dtype=object)
        names[:] = values
        return names
    try:
        return np.array([math.nan if v is None else float(v) for v in values])
    except (TypeError, ValueError):
        raise DataError("the truth is not a number: declare the categories with values = [...]") from None


def _tidy(values: NDArray[Any]) -> NDArray[Any]:
    """What is below a solver's rounding of the largest value reads 0."""
    if values.dtype == object:
        return values
    size = float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))
    return np.where(np.abs(values) < 1e-9 * size, 0.0, values)


def _number(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(f"{value:.12g}") if math.isfinite(value) else None
    return None if value is None else str(value)


def _as_json(found: Found, labels: Sequence[Any], scores: dict[str, Score], warnings: list[str]) -> dict[str, Any]:
    estimates = [
        {
            "record": dict(label),
            "column": target.column,
            "value": _number(value),
            "confidence": _number(sure),
        }
        for target, _, result in found
        for label, value, sure in zip(labels, _tidy(result.values), result.confidence, strict=True)
    ]
    first = found[0]
    reply: dict[str, Any] = {
        "method": first[1].method,
        "why": first[1].why,
        "residual": round(max(r.residual for _, _, r in found), 9),
        "status": first[2].status.value,
        "note": first[2].note,
        "confidence": str(first[2].measure),
        "estimates": estimates,
        "warnings": warnings,
    }
    if scores:
        whole = {column: s.as_json() for column, s in scores.items()}
        reply["score"] = whole[first[0].column] if len(whole) == 1 else whole
    return reply


def _print(console: Console, found: Found, labels: Sequence[Any], scores: dict[str, Score]) -> None:
    for target, choice, result in found:
        console.print(f"[bold]{escape(target.column)}[/]: {choice.method} ({escape(choice.why)})")
        note = f"; {result.note}" if result.note else ""
        console.print(f"{result.status.value}: {result.status.cure}{note}; residual {_residual(result.residual)}")
        right = result.measure is Measure.PROBABILITY
        grid = Table("record", "estimate", "probability" if right else "+-", box=None, pad_edge=False)
        for label, value, sure in list(zip(labels, _tidy(result.values), result.confidence, strict=True))[:SHOWN]:
            name = ", ".join(str(v) for v in label.values())
            grid.add_row(escape(name), _shown(value), _confidence(float(sure), right))
        console.print(grid)
        if len(labels) > SHOWN:
            console.print(f"... and {len(labels) - SHOWN} more; --format json has them all")
        if target.column in scores:
            _print_score(console, scores[target.column])


def _residual(value: float) -> str:
    """Below rounding it is 0."""
    return "0" if value < 1e-8 else f"{value:.3g}"


def _shown(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "NULL" if math.isnan(value) else f"{value:.6g}"
    return escape(str(value))


def _confidence(sure: float, right: bool) -> str:
    if right:
        return f"{100 * sure:.1f} %"
    return "unknown" if math.isinf(sure) else "0" if sure < 1e-6 else f"{sure:.3g}"


def _print_score(console: Console, s: Score) -> None:
    console.print(
        f"exact {100 * s.exact:.1f} % of {s.records} (prior {100 * s.prior_exact:.1f} %, "
        f"commonest value {100 * s.majority_exact:.1f} %); within {s.tolerance:g}: {100 * s.within:.1f} % "
        f"(prior {100 * s.prior_within:.1f} %)"
    )
    if s.error is not None:
        console.print(f"mean absolute error {s.error:.4g} (prior {s.prior_error:.4g})")
