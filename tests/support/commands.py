"""The command line in this process: what a command prints, and how it ends."""

from __future__ import annotations

from click.testing import CliRunner, Result

from keyhole.cli.root import app


def call_command(*arguments: object, stdin: str = "") -> Result:
    """`keyhole ARGUMENTS` in the working folder."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
