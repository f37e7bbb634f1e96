"""The ledger of `answer` as it was before there was a book: a SQLite file of charges, releases and prepaid runs."""

from __future__ import annotations

import json
import sqlite3
from fractions import Fraction
from typing import Any

from keyhole.book.book import Book
from keyhole.book.chain import Mark
from keyhole.book.state import NOTHING


def fill_from_ledger(book: Book, db: sqlite3.Connection) -> None:
    """Everything that such a file says, version after version; on the open page."""
    before = dict(book.state.totals)
    about = dict(db.execute("SELECT key, value FROM about"))
    if not book.state.budget:
        book.append(Mark.BUDGET, {"unit": about["unit"], "neighbours": about["neighbours"]})
    for version in _versions(db):
        book.append(Mark.EPOCH, {"version": version or None})
        for (digest,) in _rows(db, "contents", "digest", version):
            book.append(Mark.DATA, {"the whole table": digest})
        charge = 0
        for analyst, amount, delta, what, at in _rows(db, "charges", "analyst, amount, delta, what, at", version):
            body = {"amount": amount, "delta": delta, "what": what, "paid": at}
            charge = book.append(Mark.CHARGE, body, analyst=analyst).seq
        for domain, question, answer in _rows(db, "releases", "domain, question, answer", version):
            kept = {"question": f"{domain}/{question}", "answer": json.loads(answer), "of": None, "sql": ""}
            book.append(Mark.RELEASE, kept)
        _runs(book, db, version, charge)
    _difference(book, db, before)


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


def _difference(book: Book, db: sqlite3.Connection, before: dict[str, tuple[Fraction, Fraction]]) -> None:
    """Totals that no charge explains are spent all the same."""
    missing = {}
    for account, amount, delta in db.execute("SELECT account, amount, delta FROM totals").fetchall():
        was, now = before.get(account, NOTHING), book.state.spent(account)
        rest = (Fraction(amount) - (now[0] - was[0]), Fraction(delta) - (now[1] - was[1]))
        if max(rest) > 0:
            missing[account] = [str(max(rest[0], Fraction(0))), str(max(rest[1], Fraction(0)))]
    if missing:
        book.append(Mark.CONVERTED, {"totals": missing})
