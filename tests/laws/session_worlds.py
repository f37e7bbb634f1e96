"""Small populations with a book: one for each way to answer, and what must hold of the book whatever happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from tests.laws import streams
from tests.laws.crowd import Acknowledged, Opener

from keyhole.book import Book, Mark
from keyhole.config.arguments import BudgetArguments
from keyhole.config.settings import settings
from keyhole.defence.answering import PosedStatement
from keyhole.defence.budget.ledger import Ledger
from keyhole.sessions.open import AuditTerms, open_audited_session, open_private_session
from keyhole.sessions.private import Private
from keyhole.sessions.session import Session

BOOK, WITNESS, CONFIG, DATA = "book.keyhole", "elsewhere/witness", "keyhole.toml", "t.csv"
DEPTS = ("a", "b", "c")
PEOPLE = 600


@dataclass(frozen=True, slots=True)
class SessionWorld:
    """A population: its files, how a session is opened, what may be asked, and what its book owes to everybody.

    `liar`: how those who ask open it, if not as the custodian does.
    """

    name: str
    lay: Callable[[Path], None]
    opened: Opener
    pool: tuple[str, ...]
    owed: Callable[[Session[Any], Sequence[Acknowledged]], None]
    analysts: tuple[str | None, ...] = (None,)
    liar: Opener | None = None

    @property
    def asked(self) -> Opener:
        """How those who ask open it."""
        return self.liar or self.opened

    def at(self, folder: Path) -> Path:
        """The files, in a folder."""
        (folder / "elsewhere").mkdir(parents=True)
        self.lay(folder)
        return folder


def _files(folder: Path, table: str, config: str) -> None:
    book = f'[book]\npath = "{BOOK}"\nwitness = "{WITNESS}"\n'
    (folder / DATA).write_text(table, encoding="utf-8")
    (folder / CONFIG).write_text(f'[source]\ndata = "{DATA}"\ntable = "t"\n{config}{book}', encoding="utf-8")


# --- noisy answers ----------------------------------------------------------------------------------------------------


def _conditions() -> tuple[str, ...]:
    """Every set of cells of one column, the empty one and that of all left out: 14 different counts and more."""
    found = []
    for size in range(1, len(DEPTS) + 1):
        for some in combinations(DEPTS, size):
            listed = ", ".join(f"'{d}'" for d in some)
            found += [f"dept IN ({listed})", f"dept NOT IN ({listed})", f"dept IN ({listed}) OR dept IS NULL"]
    return (*found, "dept IS NULL")


COUNTS = tuple(f"SELECT COUNT(*) FROM t WHERE {where}" for where in _conditions())


def _noisy(budget: str, folder: Path) -> None:
    rows = ["name,dept", *(f"p{i},{'a' if i % 20 else DEPTS[i // 20 % 3]}" for i in range(PEOPLE))]
    roles = f'[columns]\nid = ["name"]\n[columns.public.dept]\nvalues = {list(DEPTS)}\n'
    _files(folder, "\n".join(rows) + "\n", f"{roles}[budget]\n{budget}")


def _private(terms: BudgetArguments, folder: Path) -> Session[PosedStatement]:
    config = folder / CONFIG
    return open_private_session(settings(config), terms, config)


def each_is_paid_once(session: Session[Any], told: Sequence[Acknowledged]) -> None:
    """Every charge bought one answer, every answer was paid, no question twice; and never more than the cap."""
    book, ledger = session.book, _ledger(session)
    charges = {e.seq: Fraction(e.body["amount"]) for e in book.entries() if e.kind == Mark.CHARGE}
    releases = [e for e in book.entries() if e.kind == Mark.RELEASE]
    bought = [seq for e in releases for seq in e.body["of"]]
    assert sorted(bought) == sorted(charges), "a charge without its answer, or an answer without its charge"
    questions = [(e.epoch, e.body["question"]) for e in releases]
    assert len(set(questions)) == len(questions), "one question was paid twice"
    assert sum(charges.values()) <= ledger.cap.total.amount, "more was paid than there was"
    assert sum(a.fresh for a in told) <= len(charges), "more was given than paid"


def firings_are_paid(session: Session[Any], told: Sequence[Acknowledged]) -> None:
    """The measured answers that people were given are no more than the firings that were counted, and these no more
    than were paid for.
    """
    ledger = _ledger(session)
    releases = [e for e in session.book.entries() if e.kind == Mark.RELEASE]
    measured = sum(a.fresh and ": measured" in a.how for a in told)
    written = sum(": measured" in e.body["answer"].get("how", "") for e in releases)
    counted = paid = 0
    for epoch, name in session.book.state.runs:
        run = ledger.load_run(name)
        assert epoch == 1, "one epoch"
        assert run is not None, f"the run {name} is gone"
        counted, paid = counted + run.fired, paid + int(run.plan["firings"])
    assert measured <= written <= counted <= paid, (
        f"{measured} measured answers were given, {written} are written down, {counted} counted, {paid} paid"
    )
    charges = [e.seq for e in session.book.entries() if e.kind == Mark.CHARGE]
    assert len(charges) == len(session.book.state.runs), "a run was paid and not begun, or begun and not paid"
    questions = [(e.epoch, e.body["question"]) for e in releases]
    assert len(set(questions)) == len(questions), "one question was answered twice"


def _ledger(session: Session[Any]) -> Ledger:
    assert isinstance(session.policy, Private)
    return session.policy.answering.setting.ledger


def noisy(mechanism: str, budget: str, accuracy: float | None = None, analysts: Sequence[str] = ()) -> SessionWorld:
    """A population whose counts are answered with noise."""
    terms = BudgetArguments(mechanism=mechanism, accuracy=accuracy, horizon=40, anyway=True)
    named = "[budget.analysts]\n" + "".join(f"{who} = 9\n" for who in analysts) if analysts else ""
    owed = firings_are_paid if mechanism.startswith("online") else each_is_paid_once
    return SessionWorld(
        mechanism, partial(_noisy, budget + named), partial(_private, terms), COUNTS, owed, tuple(analysts) or (None,)
    )


# --- exact answers ----------------------------------------------------------------------------------------------------

EXACT = '[columns]\nid = ["name"]\n[columns.private.x]\nkind = "integer"\nmin = -999\n[online]\nexact_above = 1\n'
STREAM = tuple(ask for seed in range(6) for ask in streams.stream(seed))


def _exact(folder: Path) -> None:
    lines = ["name,age,zip,sex,x"]
    for person, value in zip(streams.PEOPLE, streams.SECRET, strict=True):
        shown = value if person.has else ""
        lines.append(f"{person.name},{person.age},{person.zip},{person.sex or ''},{shown}")
    _files(folder, "\n".join(lines) + "\n", EXACT)


def _audited(folder: Path) -> Session[Any]:
    config = folder / CONFIG
    return open_audited_session(settings(config), config, AuditTerms(), "audited")[0]


def nobody_is_exposed(session: Session[Any], told: Sequence[Acknowledged]) -> None:
    """What was given, by all processes together, determines nobody's value: exact ranks of rows known beforehand."""
    rows = {ask.sql: ask.rows for ask in STREAM}
    answered = [e for e in session.book.entries() if e.kind == Mark.ANSWER]
    texts = {a.text for a in told if a.outcome == "answered"} | {e.body["sql"] for e in answered}
    exposed = streams.determined([row for text in sorted(texts) for row in rows[text]])
    assert not exposed, f"{sorted(exposed)} are exposed by what was answered"
    questions = [(e.epoch, e.body["question"]) for e in answered]
    assert len(set(questions)) == len(questions), "one question was answered twice"


AUDITED = SessionWorld("audited", _exact, _audited, tuple(dict.fromkeys(ask.sql for ask in STREAM)), nobody_is_exposed)
LAPLACE = noisy("laplace", "epsilon = 8\n", 0.02, ("ann", "bob"))
GAUSSIAN = noisy("gaussian", 'epsilon = 8\nunit = "rho"\n', 0.02)
WEIGHTS = noisy("online-ic", "epsilon = 200\n")
MEDIAN = noisy("online-ic-median", "epsilon = 5\n")
WORLDS = (LAPLACE, GAUSSIAN, WEIGHTS, MEDIAN, AUDITED)


def whole(folder: Path) -> Book:
    """The book of a world, opened as anybody would: chain, totals and witness are checked."""
    return Book.open(folder / BOOK, witness=folder / WITNESS)
