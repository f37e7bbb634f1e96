"""The `keyhole` command: one file per subcommand, gathered here.

A subcommand module defines `register(app)`; add it to the list below and it is there.
"""

from __future__ import annotations

from typing import Annotated

import typer

from keyhole import __version__
from keyhole.cli import answer, attack, audit, demo, simulate, verify, watch

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""What aggregate statistics give away about people, and how to answer safely.

Start with [bold]keyhole demo[/], then

  [bold]audit[/] what was answered: keyhole audit log.sql --data patients.csv --id Name --private "Blood sugar"

  [bold]watch[/] before each answer: keyhole watch -c keyhole.toml < statements.sql

  [bold]attack[/] as an outsider: keyhole attack transcript.jsonl --roster people.csv --id Name --private "Blood sugar"

  [bold]simulate[/] a yes/no oracle: keyhole simulate oracle --noise uniform:0.25 --method sequential

  [bold]answer[/] with noise and a budget: keyhole answer queries.sql --data patients.csv -c keyhole.toml --epsilon 1
""",
)

for command in (demo, audit, verify, watch, attack, simulate, answer):
    command.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"keyhole {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the console script."""
    app()
