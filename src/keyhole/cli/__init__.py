"""The `keyhole` command.

`root.py` is the command itself, `options.py` every option, `terminal.py` how each command ends; one file per
subcommand, imported only when it is called. This page imports nothing: Ctrl-C ends well from the first line on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyhole.cli.root import app

__all__ = ["app", "main"]


def main() -> None:
    """Entry point of the console script."""
    try:
        from keyhole.cli.shared.terminal import run

        run()
    except KeyboardInterrupt:  # while the first modules were imported
        import sys

        sys.stderr.write("interrupted; nothing was written\n")
        sys.exit(130)


def __getattr__(name: str) -> object:
    if name == "app":
        from keyhole.cli.root import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
