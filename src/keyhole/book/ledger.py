"""The ledger of `answer` as it was before there was a book: a SQLite file of charges, releases and prepaid runs."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from fractions import Fraction
from typing import Any

from keyhole.book.book import Book
from keyhole.book.chain import Mark
from keyhole.book.state import NOTHING, WHOLE
from keyhole.errors import BookError


def fill_from_ledger(book: Book, db: sqlite3.Connection) -> None:
    """Everything that such a file says, version after version; on the open page. The same file twice is refused.

    A book that has epochs goes on with its own: all that was paid counts there, and what was released is taken in if it
    is about the current version. (Of another it could not be given again; asked anew, it is paid anew.)
    """
    mark = _digest(db)
    if any(e.body.get("file") == mark for e in book.entries() if e.kind == Mark.CONVERTED):
        raise BookError(f"this ledger was taken into the book {book.path} before: what it says counts already")
    before = dict(book.state.totals)
    about = dict(db.execute("SELECT key, value FROM about"))
    _budget(book, about)
    current = str(book.state.epochs[-1]["version"] or "") if book.state.epochs else None
    for version in _versions(db):
        if current is None:
            book.append(Mark.EPOCH, {"version": version or None})
        reusable = current is None or version == current
        for (digest,) in _rows(db, "contents", "digest", version):
            if current is None:  # else it was made with another key than the book's
                book.append(Mark.DATA, {WHOLE: digest})
        charge = 0
        for analyst, amount, delta, what, at in _rows(db, "charges", "analyst, amount, delta, what, at", version):
            body = {"amount": amount, "delta": delta, "what": what, "paid": at}
            charge = book.append(Mark.CHARGE, body, analyst=analyst).seq
        if not reusable:
            continue
        for domain, question, answer in _rows(db, "releases", "domain, question, answer", version):
            kept = {"question": f"{domain}/{question}", "answer": json.loads(answer), "of": None, "sql": ""}
            book.append(Mark.RELEASE, kept)
        _runs(book, db, version, charge)
    book.append(Mark.CONVERTED, {"totals": _difference(book, db, before), "file": mark})


def _digest(db: sqlite3.Connection) -> str:
    """Of all that the file says, however SQLite laid it out."""
    return hashlib.sha256("\n".join(db.iterdump()).encode()).hexdigest()


def _budget(book: Book, about: dict[str, str]) -> None:
    here = {name: about[name] for name in ("unit", "neighbours")}
    if not book.state.budget:
        book.append(Mark.BUDGET, here)
    elif book.state.budget != here:
        raise BookError(
            f"the book {book.path} counts {book.state.budget['unit']} for {book.state.budget['neighbours']} neighbours "
            f"and this ledger {here['unit']} for {here['neighbours']}: losses of the two do not add up"
        )


def _versions(db: sqlite3.Connection) -> list[str]:
    """In the order in which they were first paid for."""
    found = [row[0] for row in db.execute("SELECT version FROM charges GROUP BY version ORDER BY min(number)")]
    for table in ("contents", "releases", "runs"):
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            found += [row[0] for row in db.execute(f"SELECT DISTINCT version FROM {table}") if row[0] not in found]
    return found


def _rows(db: sqlite3.Connection, table: str, columns: str, version: str) -> list[tuple[Any, ...]]:
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
        return []
    return db.execute(f"SELECT {columns} FROM {table} WHERE version = ?", (version,)).fetchall()


def _runs(book: Book, db: sqlite3.Connection, version: str, charge: int) -> None:
    """Prepaid runs; their noisy thresholds were never kept, so one that was in use counts one firing more."""
    columns = "domain, name, plan, fired, asked, open, state"
    for domain, name, plan, fired, asked, is_open, state in _rows(db, "runs", columns, version):
        full = f"{domain}/{name}/1"
        fields = {
            "plan": json.loads(str(plan)), "fired": fired, "asked": asked, "open": bool(is_open), "charge": charge,
            "level": None,
        }  # fmt: skip
        book.seal(full, 1, json.dumps(fields), state)
        said = {"question": f"{full} was taken in", "answer": {}, "of": [charge] if charge else [], "sql": ""}
        book.append(Mark.RELEASE, said | {"run": full, "generation": 1})


def _difference(
    book: Book, db: sqlite3.Connection, before: dict[str, tuple[Fraction, Fraction]]
) -> dict[str, list[str]]:
    """Totals that no charge explains: they are spent all the same."""
    missing = {}
    for account, amount, delta in db.execute("SELECT account, amount, delta FROM totals").fetchall():
        was, now = before.get(account, NOTHING), book.state.spent(account)
        rest = (Fraction(amount) - (now[0] - was[0]), Fraction(delta) - (now[1] - was[1]))
        if max(rest) > 0:
            missing[account] = [str(max(rest[0], Fraction(0))), str(max(rest[1], Fraction(0)))]
    return missing
