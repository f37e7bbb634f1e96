"""`keyhole verify`: every proof of a verdict, replayed by a checker that shares nothing with the auditor."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from keyhole.checker.claims import Unreadable
from keyhole.checker.replay import replay
from keyhole.checker.report import as_data, lines
from keyhole.cli.terminal import emit, errors_end_well
from keyhole.errors import DataError

HELP = """Replay every proof of a verdict on made-up private values.

VERDICT is the output of keyhole audit --format json. The original statements are run on the people of the data with
private values made up by chance; each proof must give the made-up value of its person, and the claimed value must be
what the printed answers give. It checks what is claimed, not that nobody is missing.

[bold]Examples[/]

  keyhole verify verdict.json --data patients.csv

  keyhole verify redacted.json --log log.sql --data patients.csv --format json

[bold]Exit code[/]  0 all proofs were replayed and hold; 1 a proof fails; 3 some cannot be replayed here; 2 could not
run.
"""


class VerifyFormat(StrEnum):
    """How the outcome is written."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("verify", help=HELP)(verify)


def verify(
    verdict: Annotated[Path, typer.Argument(help="A verdict as JSON.", show_default=False)],
    data: Annotated[Path, typer.Option(help="The table that was audited: .csv, .tsv, .parquet, .json or .duckdb.")],
    log: Annotated[Path | None, typer.Option(help="The log, where the verdict has no SQL: .jsonl or .sql.")] = None,
    table: Annotated[str | None, typer.Option(help="Which table of a .duckdb file.")] = None,
    view: Annotated[str | None, typer.Option(help="The SELECT over the file that was audited, if it was one.")] = None,
    format: Annotated[VerifyFormat, typer.Option(help="Text for people, JSON for machines.")] = VerifyFormat.TEXT,  # noqa: A002
    out: Annotated[
        Path | None, typer.Option(help="Write here instead; the file appears complete or not at all.")
    ] = None,
) -> None:
    """Replay, print; the exit code is the outcome."""
    with errors_end_well():
        try:
            found = replay(verdict, data, log=log, table=table, view=view)
        except Unreadable as error:
            raise DataError(str(error)) from None
        as_json = format is VerifyFormat.JSON
        emit(json.dumps(as_data(found), indent=2, ensure_ascii=False) if as_json else "\n".join(lines(found)), out)
        raise typer.Exit(found.exit_code)
