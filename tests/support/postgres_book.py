"""A book in either store: a file, or a schema in the PostgreSQL of a test made by what `keyhole book setup` prints."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from tests.support.postgres import Postgres

from keyhole.book import Book
from keyhole.book.postgres_store import SETUP

_NUMBERS = count(1)


@dataclass(frozen=True)
class BookPlace:
    """Where a book may be, and how its owner gets at its tables. In PostgreSQL each gateway has a witness."""

    path: str
    witness: Path
    server: Postgres | None = None
    schema: str = ""

    @property
    def seen_by(self) -> Path | None:
        """The witness, where there must be one."""
        return None if self.server is None else self.witness

    def open(self, population: str | None = None) -> Book:
        """As a gateway."""
        return Book.open(self.path, population, witness=self.seen_by)

    def tamper(self, script: str) -> list[str]:
        """What somebody does who may do everything."""
        if self.server is not None:
            return self.server.run(f'SET search_path = "{self.schema}";\n{script}')
        db = sqlite3.connect(self.path)
        for name in ("entry_kept", "entry_unchanged"):
            db.execute(f"DROP TRIGGER IF EXISTS {name}")
        db.executescript(script)
        db.close()
        return []


def make_book_schema(server: Postgres, folder: Path) -> BookPlace:
    """A schema without a book, and the address for the role that keeps it."""
    name = f"book{next(_NUMBERS)}"
    server.run(SETUP.format(role=f"keeper_{name}", schema=name))
    address = f"postgresql://keeper_{name}@/postgres?host={server.folder}"
    return BookPlace(address, folder / "witness", server, name)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> BookPlace:
    """No book yet, in each kind of store."""
    if request.param == "postgres":
        return make_book_schema(request.getfixturevalue("postgres"), tmp_path)
    return BookPlace(str(tmp_path / "book.keyhole"), tmp_path / "witness")
