"""`keyhole book`: what was asked, answered, published and paid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import check_out, emit, emit_json, emit_text, exit_with
from keyhole.config.arguments import Format
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.book import Book
    from keyhole.defence.budget.budget import Cap

HELP = """Show, verify or export what was asked, answered and paid.

It says by whom and when, too. A book is append-only and each entry is bound to the one before it. It belongs to the
owner. What a prepaid run keeps secret is in none of these outputs.

\b
Examples
  keyhole book show book.keyhole
  keyhole book export book.keyhole --out transcript.jsonl
  keyhole book setup --role keyhole_book --schema hr | psql books
  keyhole book adopt postgresql://keyhole_book@db/books DIGEST --witness witness
"""

PATH = click.Argument(["path"], metavar="BOOK")
WITNESS = click.Option(["--witness"], type=options.FILE, help="The last entry as it was seen elsewhere.")


@options.command("show", None, PATH, options.formats(Format.TEXT, Format.JSON))
def show(path: str, format: Format) -> None:  # noqa: A002 - the word of the option
    """What is in it, oldest first; `keyhole report BOOK` writes it as a page."""
    from keyhole.report.book import describe_book, render_book
    from keyhole.report.documents.json_text import dumps

    with opened_book(path) as book:
        if format is Format.JSON:
            emit_json(dumps(describe_book(book, find_cap(book))), None)
        else:
            emit_text("\n".join(render_book(book, find_cap(book))), None)
    exit_with(0)


@options.command("verify", None, PATH, WITNESS)
def verify(path: str, witness: Path | None) -> None:
    """Check the chain, the totals and the witness."""
    from keyhole.report.words.sentence import counted

    if witness is not None and not witness.is_file():
        raise ConfigError(f"there is no witness {witness}: give the path where it is kept")
    with opened_book(path, witness) as book:
        seen = "" if witness is None else ", and nothing is missing that the witness has seen"
        last = book.state.last
        assert last is not None
        entries = counted(book.state.seq, "entry", "entries")
        emit(f"{entries}, the chain is whole and the totals add up{seen}; last {last.hash}", None)
    exit_with(0)


@options.command("export", None, PATH, options.OUT)
def export(path: str, out: Path | None) -> None:
    """The transcript, as JSON lines that `keyhole audit` and `keyhole attack` read."""
    from keyhole.logs.importers.transcript import transcript_of_book

    check_out(out)
    with opened_book(path) as book:
        emit("\n".join(transcript_of_book(book)), out)
    exit_with(0)


ROLE = click.Option(["--role"], default="keyhole_book", help="The role that gateways log in as.", show_default=True)
SCHEMA = click.Option(["--schema"], default="keyhole", help="The schema of this book.", show_default=True)
DIGEST = click.Argument(["digest"], metavar="DIGEST")


@options.command("setup", None, ROLE, SCHEMA)
def setup(role: str, schema: str) -> None:
    """Print the SQL that makes an empty book in PostgreSQL.

    Run it as the owner of the database. The role may add entries, and may not change or delete one.
    """
    from keyhole.book.postgres_store import SETUP
    from keyhole.model.predicate import quote_name

    emit_text(SETUP.format(role=quote_name(role), schema=quote_name(schema)).rstrip(), None)
    exit_with(0)


@options.command("adopt", None, PATH, DIGEST, WITNESS)
def adopt(path: str, digest: str, witness: Path | None) -> None:
    """Begin the witness of another gateway.

    DIGEST is that of the last entry, read where the book is in use (keyhole book verify). A copy that does not have it
    is older, and is refused.
    """
    from keyhole.book import Book

    if witness is None:
        raise ConfigError("name the file that this gateway keeps: --witness FILE")
    with Book.open(path, witness=witness, adopt=digest) as book:
        emit(f"{witness} has seen entry {book.state.seq} of {path}", None)
    exit_with(0)


def opened_book(path: str, witness: Path | None = None) -> Book:
    """A copy for reading: the file, and where it stands, are left as they are."""
    from keyhole.book import Book
    from keyhole.book.store import is_in_postgres

    file = Path(path)
    if not is_in_postgres(path) and not file.exists():
        near = sorted(p.name for p in file.parent.glob("*.keyhole"))[:5] if file.parent.is_dir() else []
        hint = f" In that folder: {', '.join(near)}." if near else ""
        raise ConfigError(f"there is no book {path}: is the path right?{hint}")
    return Book.rehearsal(path, witness=witness, begun=True)


def find_cap(book: Book) -> Cap | None:
    """What each account may spend, if it is the book of the keyhole.toml here or beside it; else None."""
    from keyhole.config import Config
    from keyhole.config.arguments import BudgetArguments
    from keyhole.sessions.open import make_cap

    unit = book.state.budget.get("unit")
    for settings in dict.fromkeys((Path("keyhole.toml"), Path(book.path).parent / "keyhole.toml")):
        if not settings.is_file() or unit not in ("epsilon", "rho"):
            continue
        config = Config.load(settings)
        if config.budget.epsilon is None or not _is_same_book(config.book.path, settings, book):
            continue
        return make_cap(config.budget, BudgetArguments(), "rho" if unit == "rho" else "epsilon")
    return None


def _is_same_book(named: str | None, settings: Path, book: Book) -> bool:
    from keyhole.sessions.open_book import BOOK

    if named is not None and "://" in named:
        return named == str(book.path)
    return (settings.parent / (named or BOOK)).resolve() == Path(book.path).resolve()


book = click.Group("book", help=HELP, no_args_is_help=True, commands=[show, verify, export, setup, adopt])
