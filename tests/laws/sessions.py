"""Laws of every session over a book, in many processes and through kills, and liars for each.

from tests.laws.sessions import LAWS
for law in LAWS:
    law.check(SessionWorld(...))
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.laws import session_liars as liars
from tests.laws.crowd import Acknowledged, Crowd, Errand, Opener, together
from tests.laws.law import Law, Specimen
from tests.laws.session_worlds import AUDITED, LAPLACE, WEIGHTS, WORLDS, SessionWorld, whole

from keyhole.errors import KeyholeError
from keyhole.sessions.session import Session

PROCESSES, QUESTIONS = 10, 4
MOST_STATEMENTS = 60  # that one question sends to SQLite; more would mean that the end was never reached


@contextmanager
def laid_out(world: SessionWorld) -> Iterator[Path]:
    """The files of a world, for a while."""
    with tempfile.TemporaryDirectory(prefix="keyhole-") as folder:
        yield world.at(Path(folder) / "world")


@contextmanager
def no_fault() -> Iterator[None]:
    """A book that cannot be gone on with breaks a law too."""
    try:
        yield
    except KeyholeError as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from None


def settles(world: SessionWorld, folder: Path, told: Sequence[Acknowledged], session: Session[Any]) -> None:
    """What must hold afterwards: the book is whole, has all that anybody was told, and owes nobody anything."""
    with no_fault(), whole(folder) as book:
        for each in told:
            assert each.outcome != "answered" or each.entry is not None, f"{each.text} has no entry"
            if each.entry is not None:
                assert book.has(each.entry, each.receipt or ""), f"entry {each.entry} was acknowledged and is lost"
        with session.book.page():  # it has seen what others wrote
            world.owed(session, told)


def what_many_processes_are_told_was_paid_for_once(world: SessionWorld) -> None:
    """Ten processes at once, some with the same questions: measured answers never exceed the firings that were paid,
    releases never exceed charges, exact answers of all together expose nobody.
    """
    with laid_out(world) as folder, no_fault():
        asks = [
            Errand(world.asked, folder, _some(world.pool, seed), world.analysts, in_step=True)
            for seed in range(PROCESSES)
        ]
        crowd = together(asks)
        assert len(crowd.told) == PROCESSES * QUESTIONS, "somebody was told nothing"
        with world.opened(folder) as session:
            settles(world, folder, crowd.told, session)


def _some(pool: Sequence[str], seed: int) -> tuple[str, ...]:
    return tuple(random.Random(seed).sample(list(pool), QUESTIONS))


def charge_and_answer_are_one_commit(world: SessionWorld) -> None:
    """Killed before any statement that a question sends to SQLite, or right after it was told: the book has both or
    neither, all that was told, and the same question asked again is paid once.
    """
    with laid_out(world) as folder, no_fault(), world.opened(folder) as session:
        for at in range(MOST_STATEMENTS):
            text = world.pool[at % len(world.pool)]
            told = _killed(world, folder, text, at)
            assert at or len(told) == 1, "nothing was told before the kill"
            settles(world, folder, told, session)
            again, once = (session.ask(text, world.analysts[0]) for _ in range(2))
            assert (again.outcome, again.entry) == (once.outcome, once.entry), f"{text}: {again.reason}, {once.reason}"
            if at and any(each.fresh for each in told):  # an answer came to its end before that statement
                return
    raise AssertionError(f"a question sends more than {MOST_STATEMENTS} statements to SQLite")


def _killed(world: SessionWorld, folder: Path, text: str, at: int) -> list[Acknowledged]:
    crowd = Crowd()
    try:
        crowd.start(Errand(world.asked, folder, (text,), world.analysts[:1], at))
        crowd.finish()
    finally:
        crowd.end()
    assert not crowd.failed, crowd.failed[0]
    return crowd.told


def _lying(name: str, world: SessionWorld, opened: Opener) -> Specimen[SessionWorld]:
    return Specimen(name, replace(world, liar=opened))


SPECIMENS: tuple[Specimen[SessionWorld], ...] = tuple(Specimen(world.name, world) for world in WORLDS)
LAWS: tuple[Law[SessionWorld], ...] = (
    Law(
        what_many_processes_are_told_was_paid_for_once,
        (
            _lying("loads a run without the page's lock", WEIGHTS, liars.reads_once),
            _lying("keeps a run across generations", WEIGHTS, liars.caches_its_run),
            _lying("knows its own answers alone", AUDITED, liars.forgetful),
        ),
    ),
    Law(
        charge_and_answer_are_one_commit,
        (
            _lying("charges, commits, answers", LAPLACE, liars.commits_each),
            _lying("shows before it commits", AUDITED, liars.commits_late),
        ),
    ),
)
