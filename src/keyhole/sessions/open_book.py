"""The book of a population: where it is, and whether it may go on with the data at hand.

One population has one book, however it is named. A book goes on only with the data it knows, or opens its next epoch.

Answers come from frozen versions: the same question before and after a change of somebody's value tells the change. So
the data at hand is held against keyed digests in the book (`Source.seal`). A change under the version that the
book knows is refused; a version that it does not know opens the next epoch; one that it knows from earlier is refused.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from keyhole.book import Book, Mark
from keyhole.book.book import MEMORY
from keyhole.book.state import PUBLIC, WHOLE
from keyhole.book.store import is_in_postgres
from keyhole.config import Config, home
from keyhole.config.settings import Settings
from keyhole.engines.engine import is_url
from keyhole.errors import BookError, ConfigError

Digests: TypeAlias = Callable[[bytes], Mapping[str, str]]  # key -> digest of each part of the data at hand
BOOK = "book.keyhole"
KEY_BYTES = 32


def find_book_path(
    settings: Settings, config: Config | str | Path | None, option: str | Path | None
) -> str | Path | None:
    """The book of these settings: named by an option or by the settings, else beside them, else beside the data.

    None: nothing says where (a frame without settings). A book in PostgreSQL is named by its address.
    """
    written = settings.config.book.path
    named = {"[book] path": written, "the option": None if option is None else str(option)}
    for where, path in named.items():
        if path is not None and Path(path).name == ":memory:":
            raise ConfigError(f"{where} = ':memory:' would forget what was answered and spent: name a file")
    paths = [path for path in named.values() if path is not None]
    if len({path if is_in_postgres(path) else os.path.realpath(path) for path in paths}) > 1:
        raise ConfigError(
            f"[book] path names {written}, the option names {option}: one population has one book, for what was "
            "answered and what was spent. Name it once"
        )
    if paths:
        return paths[0] if is_in_postgres(paths[0]) else Path(paths[0])
    if isinstance(config, str | Path):
        return home(config) / BOOK
    if is_url(settings.data) or not isinstance(settings.data, str | Path):
        return None
    return Path(settings.data).resolve().parent / BOOK


def open_book(path: str | Path, settings: Settings, population: str, *, dry_run: bool = False) -> Book:
    """Go on with the book at `path`, or begin it.

    A dry run works on a copy in memory. A book of another population is refused, and so is one that vanished: its key
    or its witness is still there.
    """
    declared = settings.config.book
    witness = Path(declared.witness) if declared.witness is not None else None
    named = declared.population or population
    if is_in_postgres(path):
        if declared.key is None:
            raise ConfigError(
                f"the book {path} is in PostgreSQL: name the file with its key under [book], key = ..., the same "
                "content on every gateway"
            )
        real: str | Path = path
        key, key_alone = Path(declared.key), False  # the key may be there before the book: the witness knows
    else:
        real = Path(os.path.realpath(path)) if Path(path).is_symlink() else Path(path)
        key = Path(declared.key) if declared.key is not None else key_file(real)
        # a key without a book: the book was there, and is gone; the key is looked at first: it is made after the book
        key_alone = read_key(key) is not None and (not real.exists() or real.stat().st_size == 0)
    if dry_run:
        book = Book.rehearsal(real, named, witness=witness, begun=declared.begun or key_alone)
    else:
        book = Book.open(real, named, witness=witness, begun=declared.begun or key_alone)
    book.name, book.key = str(path), key
    if declared.population is not None and book.state.population != declared.population:
        book.close()
        raise BookError(
            f"the book {path} is that of the population {book.state.population!r}, and the settings say "
            f"{declared.population!r}: one population has one book"
        )
    return book


@dataclass(frozen=True, slots=True)
class DataVersion:
    """The data at hand: its label, and its digests under a key.

    `vouched`: the custodian says that parts which the book has no digest of did not change since it began.
    """

    label: str | None
    digests: Digests
    vouched: bool = False

    def digested(self, book: Book) -> DataVersion:
        """The same, with the digests for this book made already: others need not wait while the data is passed over."""
        key = find_key(book, self.label)
        made = self.digests(key)
        return replace(self, digests=lambda other: made if other == key else self.digests(other))


def find_key(book: Book, label: str | None) -> bytes:
    """The key that guards a book: made with the first epoch, and needed as long as an epoch lasts.

    A rehearsal makes none that would be kept.
    """
    key = None if book.path == MEMORY else read_key(book.key)
    known = any(label in (None, epoch["version"]) for epoch in book.state.epochs)
    keyed = any(what != PUBLIC for _, what in book.state.data)
    if key is None and (book.state.people or (keyed and known)):  # people are known by their keyed ids alone
        other = "" if book.state.people else ", or write a new version = ... under [source]"
        raise BookError(
            f"the key {book.key} is missing, so nobody can say whether the data is still what the "
            f"book {book.path} was kept for: restore it from a backup, beside the book{other}. What was answered and "
            "spent still counts"
        )
    if key is not None:
        return key
    return make_key(book.key) if book.kept else secrets.token_bytes(KEY_BYTES)


def enter_version(book: Book, version: DataVersion) -> bytes:
    """Hold the data against the book's current epoch, or open the next; the key. On one page, so that of two
    processes with new data one opens the epoch and the other finds it.
    """
    key = find_key(book, version.label)
    digests = version.digests(key)
    with book.page():
        state, label = book.state, version.label
        current = state.epochs[-1]["version"] if state.epochs else None
        known = [epoch["version"] for epoch in state.epochs]
        if not state.epochs or (label is not None and label not in known):
            book.append(Mark.EPOCH, {"version": label})
            book.append(Mark.DATA, dict(digests))
            return key
        if label is not None and label != current:
            raise BookError(
                f"version {label!r} is an earlier one: the book {book.path} has gone on to {current!r}. Data of an "
                "earlier version is not answered from again; a change of data, also back, is a new version"
            )
        _same(book, digests, version)
    return key


def _same(book: Book, digests: Mapping[str, str], version: DataVersion) -> None:
    state = book.state
    epoch, current = state.epoch, state.epochs[-1]["version"]
    changed = sorted(what for what, mark in digests.items() if state.data.get((epoch, what), mark) != mark)
    if changed:
        label = f"[source] version is still {current!r}" if current is not None else "no [source] version was given"
        raise BookError(
            f"the book {book.path} was kept for other data: {', '.join(changed)} changed, and {label}. The same "
            "question before and after a change tells it, so nothing is answered: give the data that the book was "
            "kept for; a change of data is a new version, version = ... under [source]. What was spent stays spent"
        )
    fresh = {what: mark for what, mark in digests.items() if (epoch, what) not in state.data}
    before = {what == WHOLE for at, what in state.data if at == epoch}  # noisy answers and exact ones are kept apart
    if any((what == WHOLE) in before for what in fresh) and not version.vouched:
        raise BookError(
            f"the book {book.path} has no digest of {', '.join(sorted(fresh))}, so it cannot be shown that they are "
            "still what it was kept for, and the same question before and after a change tells it. If you know that "
            "none changed since its first statement, say so once with --same-values"
        )
    if fresh:
        book.append(Mark.DATA, fresh)


# --- the key under which a table is sealed: 32 random bytes that only their owner can read ----------------------------
# It stands in a file of its own beside what it guards (`book.keyhole.key`), is made once and never replaced: without it
# nobody could say whether private values changed.


def key_file(path: Path) -> Path:
    """Where the key of a file stands: beside it, wherever a link to it may be.

    >>> key_file(Path("history.keyhole")).name
    'history.keyhole.key'
    """
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}.key")


def read_key(where: Path) -> bytes | None:
    """The key in this file, None if it was never made (or is lost)."""
    try:
        key = where.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read the key {where}: {error.strerror}") from None
    if len(key) != KEY_BYTES:
        raise ConfigError(f"the key {where} has {len(key)} bytes, not {KEY_BYTES}: restore it from a backup")
    return key


def make_key(where: Path) -> bytes:
    """The key in this file; made now, durably and for its owner alone, if there is none."""
    key = read_key(where)
    if key is not None:
        return key
    try:
        handle, name = tempfile.mkstemp(dir=where.parent, prefix=f".{where.name}.")  # readable by its owner alone
        try:
            os.write(handle, secrets.token_bytes(KEY_BYTES))
            os.fsync(handle)
            with contextlib.suppress(FileExistsError):  # another process was faster: its key counts
                os.link(name, where)
        finally:
            os.close(handle)
            Path(name).unlink()
    except OSError as error:
        raise ConfigError(f"cannot write the key {where}: {error.strerror}") from None
    made = read_key(where)
    assert made is not None
    return made
