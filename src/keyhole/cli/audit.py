"""`keyhole audit`: who is exposed by a log."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from io import StringIO
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from keyhole.cli.terminal import emit, errors_end_well, progress_on_stderr
from keyhole.errors import LogError
from keyhole.gather.log import Log, LogFormat, open_log
from keyhole.report.as_json import dumps
from keyhole.report.baseline import Baseline, fresh, mark
from keyhole.report.junit import junit
from keyhole.report.plain import Plain
from keyhole.report.proof_sql import proof_sql as script
from keyhole.report.sarif import sarif
from keyhole.report.text import without_value
from keyhole.report.verdict import Verdict
from keyhole.sql import Dialect
from keyhole.verbs.examine import examine

SHOWN = 20


class Format(StrEnum):
    """How the verdict is written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"


HELP = """Prove who is exposed by a log of aggregate queries.

LOG is a .sql file (statements; the answers are computed from the data), a .jsonl transcript
(one {"sql": ..., "answer": ...} a line), the query history of PostgreSQL, DuckDB, BigQuery, Snowflake,
dbt, Metabase or Superset, or - for standard input.

[bold]Examples[/]

  keyhole audit log.sql --data patients.csv --id Name --private "Blood sugar"

  keyhole audit transcript.jsonl --data roster.csv --id Name --private salary:0..500000:1 --format json

  keyhole audit log.sql -c keyhole.toml --group-size 3 --out verdict.json --format json

  keyhole audit postgresql.csv --data staff.parquet --private salary --log-format postgres-csvlog

  keyhole audit log.sql -c keyhole.toml --baseline verdict.json --format sarif --out keyhole.sarif

[bold]Exit code[/]  0 nobody is exposed and every statement was judged; 1 somebody is exposed (with
--baseline: newly exposed); 3 nobody is exposed, but some statement was refused or not judged, or there was
none to judge; 2 could not run.
"""


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("audit", help=HELP)(audit)


def audit(
    log: Annotated[
        str, typer.Argument(help="A .sql or .jsonl file, a query history, or - for standard input.", show_default=False)
    ],
    data: Annotated[
        Path | None, typer.Option(help="The table: .csv, .tsv, .parquet, .json or .duckdb, one row per person.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="Table name (default: the file stem; then any FROM name fits).")
    ] = None,
    view: Annotated[
        str | None, typer.Option(help="A SELECT over the file that gives one row per person, for joins and sums.")
    ] = None,
    id: Annotated[list[str] | None, typer.Option(help="Column that names the person. Repeatable.")] = None,  # noqa: A002
    private: Annotated[
        list[str] | None,
        typer.Option(metavar="COL[:min..max[:step]]", help="Private column, with what an attacker knows. Repeatable."),
    ] = None,
    hidden: Annotated[
        list[str] | None, typer.Option(help="Column nobody knows and nobody asks about. Repeatable.")
    ] = None,
    group_size: Annotated[
        int, typer.Option(min=1, help="Also report groups of up to this many people whose total is determined.")
    ] = 1,
    log_format: Annotated[
        LogFormat, typer.Option(help="What LOG was written by; auto goes by its extension and header.")
    ] = LogFormat.AUTO,
    dialect: Annotated[
        Dialect | None,
        typer.Option(
            help="The engine LOG was written for (default: what it was exported from; duckdb for .sql, .jsonl)."
        ),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="A former JSON verdict: only people newly exposed count for the exit code.")
    ] = None,
    format: Annotated[  # noqa: A002
        Format, typer.Option(help="Text for people, JSON for machines, SARIF or JUnit XML (no values) for pipelines.")
    ] = Format.TEXT,
    out: Annotated[
        Path | None, typer.Option(help="Write here instead; the file appears complete or not at all.")
    ] = None,
    proof_sql: Annotated[
        Path | None,
        typer.Option("--proof-sql", help="Also write the proofs as SQL that a sceptic runs in his own database."),
    ] = None,
    config: Annotated[Path | None, typer.Option("-c", "--config", help="Settings; options here override them.")] = None,
) -> None:
    """Read, examine, print; the exit code is the verdict."""
    with errors_end_well():
        known = Baseline.load(baseline) if baseline is not None else None
        with progress_on_stderr() as progress:
            read = open_log(log if log == "-" else Path(log), log_format, dialect)
            if not read.lines and not read.refused and not read.passed:
                raise LogError(f"{read.name} holds no statement, so there is nothing to audit. Is it the right file?")
            verdict = examine(
                read,
                data=data,
                private=private or (),
                id=id or (),
                hidden=hidden or (),
                table=table,
                view=view,
                group_size=group_size,
                config=config,
                progress=progress,
            )
        show(verdict, read, known, format, out)
        if proof_sql is not None:
            emit(script(verdict.plain), proof_sql)
        raise typer.Exit(verdict.exit_code if known is None else known.exit_code(verdict.plain))


def show(verdict: Verdict, log: Log, known: Baseline | None, how: Format, out: Path | None) -> None:
    """Print the verdict, or write it to a file."""
    if how is Format.JSON:
        data = verdict.to_json()
        emit(dumps(data if known is None else mark(data, verdict.plain, known)), out)
    elif how is Format.SARIF:
        emit(sarif(verdict.plain, log, known), out)
    elif how is Format.JUNIT:
        emit(junit(verdict.plain, log, known), out)
    elif out is not None:
        text = StringIO()
        _print(Console(file=text, width=120), verdict, known)
        emit(text.getvalue(), out)
    else:
        _print(Console(highlight=False, soft_wrap=True), verdict, known)


def _print(console: Console, verdict: Verdict, known: Baseline | None) -> None:
    console.print(verdict)
    if known is not None:
        for line in _compared(verdict.plain, known):
            console.print(line)


def _compared(verdict: Plain, known: Baseline) -> Iterator[Text]:
    """Who is new against the baseline, and who was known."""
    new = fresh(verdict.cases, known)
    old = [case for case in verdict.cases if known.knows(case)]
    yield Text(f"\nAgainst the baseline: {len(new)} new, {len(old)} known.", style="bold")
    for word, listed in (("new", new), ("known", old)):
        for each in listed[:SHOWN]:
            yield Text(f"  {word}: {without_value(each)}")
        if len(listed) > SHOWN:
            yield Text(f"  ... and {len(listed) - SHOWN} more {word} (--format json lists all)")
