"""Where the book is: one population has one book, however it is named."""

from __future__ import annotations

import os
from pathlib import Path

from keyhole.book import Book
from keyhole.book.convert import converted
from keyhole.errors import BookError, ConfigError
from keyhole.knowledge import Config, home
from keyhole.settings import Settings
from keyhole.tables.seal import read_key

BOOK = "book.keyhole"
LEDGER = "budget.keyhole"  # what a budget's file was called before there was a book


def book_path(given: Settings, config: Config | str | Path | None, option: str | Path | None) -> Path | None:
    """The book of these settings: named by an option or by the settings, else beside them, else beside the data.

    None: nothing says where (a frame without settings). `[book] path`, `[online] history` and `[budget] ledger` are
    names of the same book.
    """
    told = given.config
    named = {
        "[book] path": told.book.path,
        "[online] history": told.online.history,
        "[budget] ledger": told.budget.ledger,
        "the option": None if option is None else str(option),
    }
    found = {where: path for where, path in named.items() if path is not None}
    for where, path in found.items():
        if Path(path).name == ":memory:":
            raise ConfigError(f"{where} = ':memory:' would forget what was answered and spent: name a file")
    if len({os.path.realpath(path) for path in found.values()}) > 1:
        listed = ", ".join(f"{where} names {path}" for where, path in found.items())
        raise ConfigError(
            f"{listed}: one population has one book, for what was answered and what was spent. Name it once, and take "
            "an older file in with `keyhole book import`"
        )
    if found:
        return Path(next(iter(found.values())))
    folder = _beside(config, given.data)
    if folder is None:
        return None
    old, new = folder / LEDGER, folder / BOOK
    if old.exists() and new.exists():
        raise ConfigError(f"there are {old} and {new}: name the one that counts with path = ... under [book]")
    return old if old.exists() else new


def _beside(config: Config | str | Path | None, data: object) -> Path | None:
    if isinstance(config, str | Path):
        return home(config)
    return Path(data).resolve().parent if isinstance(data, str | Path) else None


def open_book(path: Path, given: Settings, population: str, *, dry_run: bool = False) -> Book:
    """Go on with the book at `path`, or begin it; an older history or ledger found there is converted, once.

    A dry run works on a copy in memory. A book of another population is refused, and so is one that vanished: its key
    or its witness is still there.
    """
    told = given.config.book
    witness = Path(told.witness) if told.witness is not None else None
    real = Path(os.path.realpath(path))
    named = told.population or population
    begun = told.begun or _knows(real)
    if dry_run:
        book = converted(real, named, dry_run=True) or Book.rehearsal(real, named, witness=witness, begun=begun)
    else:
        converted(real, named)
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
