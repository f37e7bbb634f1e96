"""The `keyhole` command: one file per subcommand, gathered here.

A subcommand module defines `register(app)`; add it to the list below and it is there.
"""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, add_completion=True, rich_markup_mode="rich", pretty_exceptions_enable=False)


def main() -> None:
    """Entry point of the console script."""
    app()
