"""Which version of the data is this? A book goes on only with the data it knows, or opens its next epoch.

Answers come from frozen versions: the same question before and after a change of somebody's value tells the change. So
the data at hand is held against keyed digests in the book (`Source.seal`). A change under the version that the
book knows is refused; a version that it does not know opens the next epoch; one that it knows from earlier is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from keyhole.book import Book, Mark
from keyhole.book.book import MEMORY
from keyhole.book.state import PUBLIC, WHOLE
from keyhole.engines.seal_keys import KEY_BYTES, key_file, make_key, read_key
from keyhole.errors import BookError

Digests: TypeAlias = Callable[[bytes], Mapping[str, str]]  # key -> digest of each part of the data at hand


@dataclass(frozen=True, slots=True)
class Version:
    """The data at hand: its label, and its digests under a key.

    `vouched`: the custodian says that parts which the book has no digest of did not change since it began.
    """

    label: str | None
    digests: Digests
    vouched: bool = False

    def digested(self, book: Book) -> Version:
        """The same, with the digests for this book made already: others need not wait while the data is passed over."""
        key = key_of(book, self.label)
        made = self.digests(key)
        return replace(self, digests=lambda other: made if other == key else self.digests(other))


def key_of(book: Book, label: str | None) -> bytes:
    """The key that guards a book: made with the first epoch, and needed as long as an epoch lasts.

    A rehearsal makes none that would be kept.
    """
    key = None if book.path == MEMORY else read_key(Path(book.path))
    known = any(label in (None, epoch["version"]) for epoch in book.state.epochs)
    keyed = any(what != PUBLIC for _, what in book.state.data)
    if key is None and (book.state.people or (keyed and known)):  # people are known by their keyed ids alone
        other = "" if book.state.people else ", or write a new version = ... under [source]"
        raise BookError(
            f"the key {key_file(Path(book.path))} is missing, so nobody can say whether the data is still what the "
            f"book {book.path} was kept for: restore it from a backup, beside the book{other}. What was answered and "
            "spent still counts"
        )
    if key is not None:
        return key
    return make_key(Path(book.path)) if book.kept else secrets.token_bytes(KEY_BYTES)


def enter(book: Book, version: Version) -> bytes:
    """Hold the data against the book's current epoch, or open the next; the key. On one page, so that of two
    processes with new data one opens the epoch and the other finds it.
    """
    key = key_of(book, version.label)
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


def _same(book: Book, digests: Mapping[str, str], version: Version) -> None:
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
