"""Entries of a book, each bound to the one before it by SHA-256."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

START = "0" * 64  # what the first entry goes on from


class Mark(StrEnum):
    """What an entry says.

    OPEN: whose book this is. BUDGET: the unit and neighbours that its losses are counted in. EPOCH: answers come from
    another version of the data from here on. DATA: digests of that version. PEOPLE: who is in it, by keyed digests.
    ANSWER: a statement was answered exactly, or may be (`watch`). PUBLISHED: it was answered before the book began.
    UNJUDGED: it was published, and no verdict accounts for it. ROWS: the rows of a statement that was written down
    without them. CHARGE: a loss was paid. RELEASE: noisy numbers were given. TOLD: somebody was told what others had
    paid for. FOLLOWED: how far a log was read whose statements enter as
    published. ACCEPTED: whoever keeps the book goes on although no verdict accounts for some statements of such a log.
    """

    OPEN = "open"
    BUDGET = "budget"
    EPOCH = "epoch"
    DATA = "data"
    PEOPLE = "people"
    ANSWER = "answer"
    PUBLISHED = "published"
    UNJUDGED = "unjudged"
    ROWS = "rows"
    CHARGE = "charge"
    RELEASE = "release"
    TOLD = "told"
    FOLLOWED = "followed"
    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class BookEntry:
    """One line of a book. `at` is the clock of whoever wrote it; nothing depends on it but what is shown.

    >>> first = BookEntry.after(None, Mark.OPEN, {"population": "staff"}, at="2026-11-16T09:00:00+00:00")
    >>> second = BookEntry.after(first, Mark.EPOCH, {"version": None}, at="2026-11-16T09:00:00+00:00", epoch=1)
    >>> second.seq, second.prev == first.hash, second.is_whole()
    (2, True, True)
    """

    seq: int
    prev: str
    hash: str
    at: str
    kind: str
    epoch: int
    analyst: str | None
    text: str  # the body, as canonical JSON; blanks may follow

    @property
    def body(self) -> dict[str, Any]:
        """What it says."""
        return dict(json.loads(self.text))

    @classmethod
    def after(
        cls,
        last: BookEntry | None,
        kind: Mark,
        body: dict[str, Any],
        *,
        at: str,
        epoch: int = 0,
        analyst: str | None = None,
        size: int = 0,
    ) -> BookEntry:
        """The entry that follows `last`; its body is filled with blanks to a multiple of `size` bytes."""
        seq, prev = (1, START) if last is None else (last.seq + 1, last.hash)
        text = format_canonically(body)
        if size:
            text += " " * (-len(text.encode()) % size)
        mark = digest(prev, seq, str(kind), epoch, at, analyst, text)
        return cls(seq, prev, mark, at, str(kind), epoch, analyst, text)

    def follows(self, before: BookEntry | None) -> bool:
        """Does it go on from that entry (None: from none)?"""
        return (self.seq, self.prev) == ((1, START) if before is None else (before.seq + 1, before.hash))

    def is_whole(self) -> bool:
        """Is it what was written?"""
        if not all(isinstance(part, str) for part in (self.prev, self.hash, self.at, self.kind, self.text)):
            return False  # a damaged file may hold anything
        if not isinstance(self.analyst, str | None):
            return False
        return self.hash == digest(self.prev, self.seq, self.kind, self.epoch, self.at, self.analyst, self.text)


def format_canonically(body: dict[str, Any]) -> str:
    """JSON with one spelling.

    >>> format_canonically({"b": 1, "a": "ß"})
    '{"a":"ß","b":1}'
    """
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(prev: str, seq: int, kind: str, epoch: int, at: str, analyst: str | None, text: str) -> str:
    """SHA-256 over all that an entry says and the digest of the one before it; each part ends where it ends."""
    parts = json.dumps([prev, seq, kind, epoch, at, analyst, text], ensure_ascii=True)
    return hashlib.sha256(parts.encode()).hexdigest()
