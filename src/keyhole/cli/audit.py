"""`keyhole audit`: who is exposed by a log."""

from __future__ import annotations

from enum import StrEnum
from io import StringIO
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from keyhole.audit.base import Exposure
from keyhole.audit.examine import examine
from keyhole.cli.terminal import emit, errors_end_well, progress_on_stderr


class Format(StrEnum):
    """How the verdict is written."""

    TEXT = "text"
    JSON = "json"


HELP = """Prove who is exposed by a log of aggregate queries.

LOG is a .sql file (statements; the answers are computed from the data), a .jsonl transcript
(one {"sql": ..., "answer": ...} a line), or - for standard input.

[bold]Examples[/]

  keyhole audit log.sql --data patients.csv --id Name --private "Blood sugar"

  keyhole audit transcript.jsonl --data roster.csv --id Name --private salary:0..500000:1 --format json

  keyhole audit log.sql -c keyhole.toml --group-size 3 --out verdict.json --format json

  psql -c "..." | keyhole audit - --data staff.parquet --private salary

[bold]Exit code[/]  0 nobody is exposed and every statement was judged; 1 somebody is exposed;
3 nobody is exposed, but some statement was refused or not judged; 2 could not run.
"""


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("audit", help=HELP)(audit)


def audit(
    log: Annotated[str, typer.Argument(help="A .sql or .jsonl file, or - for standard input.", show_default=False)],
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
    format: Annotated[Format, typer.Option(help="Text for people, JSON for machines.")] = Format.TEXT,  # noqa: A002
    out: Annotated[
        Path | None, typer.Option(help="Write here instead; the file appears complete or not at all.")
    ] = None,
    config: Annotated[Path | None, typer.Option("-c", "--config", help="Settings; options here override them.")] = None,
) -> None:
    """Read, examine, print; the exit code is the verdict."""
    with errors_end_well():
        with progress_on_stderr() as said:
            verdict = examine(
                log if log == "-" else Path(log),
                data=data,
                private=private or (),
                id=id or (),
                hidden=hidden or (),
                table=table,
                view=view,
                group_size=group_size,
                config=config,
                progress=said,
            )
        show(verdict, format, out)
        raise typer.Exit(verdict.exit_code)


def show(verdict: Exposure, how: Format, out: Path | None) -> None:
    """Print the verdict, or write it to a file."""
    if how is Format.JSON:
        emit(verdict.dumps(), out)
    elif out is not None:
        text = StringIO()
        Console(file=text, width=120).print(verdict)
        emit(text.getvalue(), out)
    else:
        Console(highlight=False, soft_wrap=True).print(verdict)
