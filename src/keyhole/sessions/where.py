"""Where the book is: one population has one book, however it is named."""

from __future__ import annotations

import os
from pathlib import Path

from keyhole.book import Book
from keyhole.config import Config, home
from keyhole.config.settings import Settings
from keyhole.engines.seal_keys import read_key
from keyhole.errors import BookError, ConfigError

BOOK = "book.keyhole"


def book_path(given: Settings, config: Config | str | Path | None, option: str | Path | None) -> Path | None:
    """The book of these settings: named by an option or by the settings, else beside them, else beside the data.

    None: nothing says where (a frame without settings).
    """
    settled = given.config.book.path
    named = {"[book] path": settled, "the option": None if option is None else str(option)}
    for where, path in named.items():
        if path is not None and Path(path).name == ":memory:":
            raise ConfigError(f"{where} = ':memory:' would forget what was answered and spent: name a file")
    paths = [path for path in named.values() if path is not None]
    if len({os.path.realpath(path) for path in paths}) > 1:
        raise ConfigError(
            f"[book] path names {settled}, the option names {option}: one population has one book, for what was "
            "answered and what was spent. Name it once"
        )
    if paths:
        return Path(paths[0])
    folder = _beside(config, given.data)
    return None if folder is None else folder / BOOK


def _beside(config: Config | str | Path | None, data: object) -> Path | None:
    if isinstance(config, str | Path):
        return home(config)
    return Path(data).resolve().parent if isinstance(data, str | Path) else None


def open_book(path: Path, given: Settings, population: str, *, dry_run: bool = False) -> Book:
    """Go on with the book at `path`, or begin it.

    A dry run works on a copy in memory. A book of another population is refused, and so is one that vanished: its key
    or its witness is still there.
    """
    told = given.config.book
    witness = Path(told.witness) if told.witness is not None else None
    real = Path(os.path.realpath(path)) if Path(path).is_symlink() else Path(path)
    named = told.population or population
    begun = told.begun or _knows(real)
    if dry_run:
        book = Book.rehearsal(real, named, witness=witness, begun=begun)
    else:
        book = Book.open(real, named, witness=witness, begun=begun)
    book.name = str(path)
    if told.population is not None and book.state.population != told.population:
        book.close()
        raise BookError(
            f"the book {path} is that of the population {book.state.population!r}, and the settings say "
            f"{told.population!r}: one population has one book"
        )
    return book


def _knows(path: Path) -> bool:
    """A key without a book: the book was there, and is gone. The key first: it is made after the book."""
    return read_key(path) is not None and (not path.exists() or path.stat().st_size == 0)
