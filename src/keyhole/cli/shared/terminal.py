"""What every subcommand shares: where output goes, how it ends, how progress shows.

A run ends here and nowhere else: our own errors in one sentence on stderr with exit code 2; a bug of ours likewise,
never as a traceback (KEYHOLE_DEBUG=1 shows it); Ctrl-C with 130 and one line, whatever it met; a reader that went away
(a broken pipe) quietly with 141, as the shell has it. Output goes to any encoding.
"""

from __future__ import annotations

import atexit
import codecs
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, TextIO

from keyhole.errors import ConfigError, KeyholeError, NotAvailable

if TYPE_CHECKING:
    import click
    from rich.console import Console

COULD_NOT_RUN = 2
SOME_REFUSED = 3
INTERRUPTED = 130
NOBODY_READS = 141
PLAIN = {
    "\N{INFINITY}": "inf",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{PLUS-MINUS SIGN}": "+-",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{NOT EQUAL TO}": "!=",
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{MIDDLE DOT}": ".",
    "\N{SUPERSCRIPT TWO}": "^2",
}


class _Interruption:
    """Whether Ctrl-C was pressed: an engine may turn it into an error of its own."""

    def __init__(self) -> None:
        self.asked = False

    def note(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True
        raise KeyboardInterrupt


_interruption = _Interruption()


def run() -> None:
    """Run the command line of this process, from its first import to its last flush."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interruption.note)
    allow_any_encoding()
    script = sys.modules["__main__"]
    if not hasattr(script, "__file__"):  # python -c: DuckDB would draw the progress of slow queries on stdout
        script.__file__ = ""
    gc.set_threshold(200_000, 20, 50)  # imports make no garbage worth looking for: this is a fifteenth of a small audit
    try:
        with exit_on_error():
            from keyhole.cli.root import app

            code = app(prog_name="keyhole", standalone_mode=False)
    except Exception as error:  # an end before the command line was there to take it
        code = getattr(error, "exit_code", COULD_NOT_RUN)
        if os.environ.get("KEYHOLE_DEBUG") and not hasattr(error, "exit_code"):
            import traceback

            traceback.print_exc()
    _exit_process(code if isinstance(code, int) else 0)


def _exit_process(code: int) -> NoReturn:
    """End the process when all is written: taking the interpreter apart, object by object, is a fifth of a small audit.

    What was registered to run at exit runs. Files and ledgers were closed by their own `with`.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            code = code or NOBODY_READS
    os._exit(code)


def allow_any_encoding() -> None:
    """Let stdout and stderr take every character: what their encoding lacks is written in plain ones."""
    codecs.register_error("keyhole.plain", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="keyhole.plain")


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(character, "?") for character in lacking), error.end


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Whatever happens inside ends as the head of this page says; an exit with its code passes through."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        _exit_interrupted()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        exit_with(NOBODY_READS)
    except Exception as error:
        _report_error(error)


def _report_error(error: Exception) -> NoReturn:
    import click

    if isinstance(error, click.exceptions.Exit):
        raise error
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        exit_with(COULD_NOT_RUN)
    if _interruption.asked or isinstance(error, click.Abort):
        _exit_interrupted()
    if isinstance(error, NotAvailable) and os.environ.get("KEYHOLE_DEBUG"):
        raise error
    if isinstance(error, KeyholeError):
        complain(str(error))
    elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
        complain(f"cannot write: {error.strerror}")
    elif isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        told = f" ({context.command_path} --help shows how)" if context is not None else ""
        complain(f"{_sentence(error)}{told}")
    elif os.environ.get("KEYHOLE_DEBUG"):
        raise error
    else:
        complain(
            f"internal error, a bug of ours ({type(error).__name__}; what it says may quote a value). "
            "Please report it; KEYHOLE_DEBUG=1 shows what and where."
        )
    exit_with(COULD_NOT_RUN)


def _sentence(error: click.ClickException) -> str:
    """What is wrong with the options, as one sentence. `--json` is answered with `--format json`."""
    import click

    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        word = error.option_name.lstrip("-")
        formats = next((p.type for p in error.ctx.command.params if "--format" in p.opts), None)
        if isinstance(formats, click.Choice) and word in {str(choice) for choice in formats.choices}:
            return f"No such option '{error.option_name}': write --format {word}."
    text = error.format_message().rstrip(".")
    return text if text.endswith("?") else f"{text}."


def _exit_interrupted() -> NoReturn:
    sys.stderr.write("interrupted; nothing was written\n")
    if "click" not in sys.modules:  # it was being imported
        sys.exit(INTERRUPTED)
    exit_with(INTERRUPTED)


def exit_with(code: int) -> NoReturn:
    """End the command with an exit code."""
    import click

    raise click.exceptions.Exit(code) from None


def complain(text: str) -> None:
    """An error, on stderr."""
    note(f"[bold red]keyhole:[/] {_escape(text)}")


def warn(text: str, word: str = "keyhole") -> None:
    """Something the user should know, on stderr."""
    note(f"[yellow]{word}:[/] {_escape(text)}")


def note(markup: str) -> None:
    """A line on stderr, coloured where stderr is a terminal."""
    from rich.console import Console

    Console(stderr=True, highlight=False, emoji=False).print(markup, soft_wrap=True)


def _escape(text: str) -> str:
    return text.replace("[", "\\[")


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it appears complete or not at all."""
    import tempfile

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
    whole = text if text.endswith("\n") else text + "\n"
    if out is not None:
        write_whole(out, whole)
        return
    written(whole)


def written(text: str) -> None:
    """All of a text on standard output, whatever that is: an unbuffered one may take a part only and not say so."""
    stream = sys.stdout
    if stream is None:
        raise ConfigError("cannot write: there is no standard output; name a file with --out")
    try:
        if not isinstance(stream, io.TextIOWrapper):
            stream.write(text)
        else:
            stream.flush()
            left = memoryview(text.encode(stream.encoding, stream.errors or "strict"))
            while left:
                left = left[stream.buffer.write(left) :]
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConfigError(f"cannot write to standard output: {error.strerror}") from None


def check_out(out: Path | None) -> None:
    """Refuse a file that cannot be written, before the work is done."""
    if out is not None and not out.parent.is_dir():
        raise ConfigError(f"cannot write {out}: there is no folder {out.parent}")
    if out is not None and out.is_dir():
        raise ConfigError(f"cannot write {out}: it is a folder; name a file")


def emit_xml(text: str, out: Path | None) -> None:
    """Send finished XML; on a stream every character that is not ASCII is written as its number."""
    emit(text if out is not None else text.encode("ascii", "xmlcharrefreplace").decode("ascii"), out)


def emit_lines(lines: Iterable[tuple[str, str]], out: Path | None) -> None:
    """Send lines with their styles: coloured to a terminal, plain to anything else."""
    if out is None and sys.stdout is not None and sys.stdout.isatty():
        from rich.text import Text

        from keyhole.cli.shared.narrow_lines import fit_lines

        to = console()
        for line, style in fit_lines(lines, to.width):
            to.print(Text(line, style=style), soft_wrap=True)
        return
    emit("\n".join(line.rstrip() for line, _ in lines), out)


def emit_text(text: str, out: Path | None) -> None:
    """Send finished text for people: a terminal gets it broken between words."""
    emit_lines(((line, "") for line in text.splitlines()), out)


def emit_json(text: str, out: Path | None) -> None:
    """Send finished JSON; a stream that cannot hold a character of it gets the escape of JSON, so nothing is lost."""
    emit(text if out is not None else escape_json(text), out)


def escape_json(text: str) -> str:
    """JSON as standard output can hold it: with escapes where its encoding lacks a character."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        import json

        return "".join(c if ord(c) < 128 else json.dumps(c)[1:-1] for c in text)
    return text


@contextmanager
def open_growing(out: Path | None) -> Iterator[TextIO]:
    """Where lines go one by one, each as soon as it is known: a file that is written over, or standard output."""
    if out is None:
        yield sys.stdout
        return
    try:
        file = out.open("w", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}") from None
    with file:
        yield file


def console() -> Console:
    """Standard output with colours and tables; a reader that went away is told like everywhere else."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    narrow = sys.stdout is not None and sys.stdout.isatty()  # then lines are broken between words
    return Piped(highlight=False, soft_wrap=not narrow, emoji=False)


def print_on_console(out: Path | None, show: Callable[[Console], None]) -> None:
    """Let `show` print on a console: to standard output, or, all at once, to a file."""
    if out is None:
        show(console())
        return
    from rich.console import Console

    text = io.StringIO()
    show(Console(file=text, width=120, emoji=False))
    emit(text.getvalue(), out)
