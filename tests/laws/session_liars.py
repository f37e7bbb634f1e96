"""Sessions that break their promise: what the laws of sessions must catch."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.laws.session_worlds import AUDITED, LAPLACE, WEIGHTS, SessionWorld

from keyhole.auditing.online.admission import Admission, ParsedStatement
from keyhole.book import Book, BookEntry, Mark
from keyhole.book.sqlite_store import SqliteStore
from keyhole.defence.answering import Answering
from keyhole.defence.budget.ledger import SavedRun
from keyhole.defence.strategies.prepaid_run import PrepaidRun, _Taken
from keyhole.defence.workload import Question
from keyhole.sessions.audited import Audited
from keyhole.sessions.private import Private
from keyhole.sessions.session import Session


class CommitsEach(Book):
    """Charges first, commits, and then answers."""

    def append(self, kind: Mark, body: dict[str, Any], **rest: Any) -> BookEntry:
        """Every entry is a transaction of its own."""
        entry = super().append(kind, body, **rest)
        self.store.commit()
        self.store.begin()
        return entry


class CommitsLate(Book):
    """Lets the answer be shown, and commits when the next question comes."""

    def _begin_transaction(self) -> None:
        if isinstance(self.store, SqliteStore) and self.store.db.in_transaction:
            super()._commit()
        super()._begin_transaction()

    def _commit(self) -> None:
        """Later."""


class ReadsOnce(Book):
    """Loads a run, uses it and saves it, without looking what others did to it meanwhile."""

    def unseal(self, name: str) -> tuple[int, str] | None:
        """As it was when it was first read here."""
        kept: dict[str, Any] = self.__dict__.setdefault("first_read", {})
        if kept.get(name) is None:
            kept[name] = super().unseal(name)
        return kept[name]  # type: ignore[no-any-return]

    def seal(self, name: str, generation: int, fields: str, state: bytes | None) -> None:
        """Over whatever is there."""
        self.__dict__.setdefault("first_read", {})[name] = (generation, fields)
        super().seal(name, generation, fields, state)


class CachesItsRun(PrepaidRun):
    """Goes on with the run it used last, whatever generation the book has."""

    def _take(self, question: Question, analyst: str | None) -> tuple[_Taken, Fraction]:
        mine = self.__dict__.get("mine")
        return super()._take(question, analyst) if mine is None else (mine, Fraction(0))

    def _save(self, taken: _Taken) -> _Taken:
        kept = self.setting.ledger.book.unseal(taken.name)
        run, generation = taken.run, 0 if kept is None else kept[0]
        self.setting.ledger.save_run(
            taken.name,
            SavedRun(
                run.plan.as_dict(), run.fired, run.asked, run.open, run.level, run.packed(), taken.charge, generation
            ),
        )
        self.__dict__["mine"] = mine = _Taken(taken.name, run, taken.charge, generation + 1, run.fired)
        return mine


class Forgetful(Audited):
    """Does not look what other processes answered meanwhile."""

    def catch_up(self) -> None:
        """Nothing is news."""


class Trusting(Audited):
    """Admits whatever can be decided."""

    def admission(self, asked: ParsedStatement, *, explain: bool | None = None) -> Admission:
        """An allowance."""
        said = super().admission(asked, explain=explain)
        return Admission(said.number, said.sql, type(said.verdict).ALLOW, said.reason) if asked.statement else said


def with_book(kind: type[Book], world: SessionWorld, folder: Path) -> Session[Any]:
    """The world's session, whose book keeps itself in another way from its first page on."""
    session = world.opened(folder)
    session.book.__class__ = kind
    return session


def commits_each(folder: Path) -> Session[Any]:
    """A charge is on disk before its answer is made."""
    return with_book(CommitsEach, LAPLACE, folder)


def commits_late(folder: Path) -> Session[Any]:
    """An answer is shown before it is on disk."""
    return with_book(CommitsLate, AUDITED, folder)


def reads_once(folder: Path) -> Session[Any]:
    """A run is loaded without the page's lock."""
    return with_book(ReadsOnce, WEIGHTS, folder)


def caches_its_run(folder: Path) -> Session[Any]:
    """A run is kept across generations."""
    session = WEIGHTS.opened(folder)
    assert isinstance(session.policy, Private)
    answering = session.policy.answering
    assert isinstance(answering, Answering)
    answering._strategy = CachesItsRun(answering.setting)
    return session


def forgetful(folder: Path) -> Session[Any]:
    """An auditor that knows its own answers alone."""
    session = AUDITED.opened(folder)
    session.policy.__class__ = Forgetful
    return session
