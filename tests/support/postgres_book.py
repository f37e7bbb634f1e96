"""A book in either store: a file, or a schema in the PostgreSQL of a test made by what `keyhole book setup` prints."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def make_book_schema(server: Postgres, folder: Path) -> Iterator[BookPlace]:
    """A schema without a book, and the address for the role that keeps it; both are gone at the end."""
    name = f"book{next(_NUMBERS)}"
    server.run(SETUP.format(role=f"keeper_{name}", schema=name))
    address = f"postgresql://keeper_{name}@/postgres?host={server.folder}"
    try:
        yield BookPlace(address, folder / "witness", server, name)
    finally:
        server.run(f"DROP SCHEMA IF EXISTS {name} CASCADE; DROP OWNED BY keeper_{name}; DROP ROLE keeper_{name};")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BookPlace]:
    """No book yet, in each kind of store."""
    if request.param == "postgres":
        with make_book_schema(request.getfixturevalue("postgres"), tmp_path) as made:
            yield made
        return
    yield BookPlace(str(tmp_path / "book.keyhole"), tmp_path / "witness")
