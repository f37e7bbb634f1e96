"""The command line in this process: what a command prints, and how it ends."""

from __future__ import annotations

import contextlib
from pathlib import Path

from click.testing import CliRunner, Result

from keyhole.cli.root import app


def call_command(*arguments: object, stdin: str = "") -> Result:
    """`keyhole ARGUMENTS` in the working folder."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def run_command(*arguments: object, stdin: str = "") -> tuple[int, str, str]:
    """The same as its exit code, what it printed, and its errors."""
    done = call_command(*arguments, stdin=stdin)
    return done.exit_code, done.stdout, done.stderr


def run_in(folder: Path, *arguments: object, stdin: str = "") -> tuple[int, str, str]:
    """The same in a folder."""
    with contextlib.chdir(folder):
        return run_command(*arguments, stdin=stdin)
