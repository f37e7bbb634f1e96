"""What every subcommand shares: where output goes, how errors end, how progress shows."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from keyhole.errors import ConfigError, KeyholeError

COULD_NOT_RUN = 2


@contextmanager
def errors_end_well() -> Iterator[None]:
    """Our own errors become one clear message on stderr and exit code 2; Ctrl-C ends with 130."""
    try:
        yield
    except KeyholeError as error:
        Console(stderr=True, highlight=False).print(f"[bold red]keyhole:[/] {_escape(str(error))}", soft_wrap=True)
        raise typer.Exit(COULD_NOT_RUN) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # a bug must not look like a verdict
        if os.environ.get("KEYHOLE_DEBUG"):
            raise
        name = type(error).__name__
        Console(stderr=True, highlight=False).print(
            f"[bold red]keyhole:[/] internal error, a bug of ours ({name}: {_escape(str(error))}). "
            "Please report it; KEYHOLE_DEBUG=1 shows where.",
            soft_wrap=True,
        )
        raise typer.Exit(COULD_NOT_RUN) from None
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; nothing was written")
        raise typer.Exit(130) from None


def _escape(text: str) -> str:
    return text.replace("[", "\\[")


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it appears complete or not at all."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ConfigError(f"cannot write {path}: {error.strerror}") from None
        raise


def emit(text: str, out: Path | None) -> None:
    """Send a finished result to a file or to standard output."""
    if out is not None:
        write_whole(out, text if text.endswith("\n") else text + "\n")
        return
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


@contextmanager
def progress_on_stderr() -> Iterator[Callable[[str, int, int], None]]:
    """A spinner on stderr that names the work under way; silent where stderr is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _what, _done, _of: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def said(what: str, done: int, of: int) -> None:
            bar.update(task, description=f"{what} {done}/{of}" if of else what)

        yield said
