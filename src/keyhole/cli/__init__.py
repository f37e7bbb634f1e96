"""The `keyhole` command: one file per subcommand, gathered here.

A subcommand module defines `register(app)`; add it to the list below and it is there.
"""

from __future__ import annotations

from typing import Annotated

import typer

from keyhole import __version__
from keyhole.cli import audit, demo, watch

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""What aggregate statistics give away about people, and how to answer safely.

Start with [bold]keyhole demo[/], then audit your own log:

  keyhole audit log.sql --data patients.csv --id Name --private "Blood sugar"
""",
)

for command in (audit, demo, watch):
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
