"""The budget in a book: charges, released answers and prepaid runs, durable before anything is shown."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.book import Book, BookEntry, Mark
from keyhole.book.chain import format_canonically
from keyhole.defence.budget.budget import Budget, Cap
from keyhole.defence.budget.loss import Loss
from keyhole.errors import BookError, PrivacyParameterError

DIGITS = 128  # bytes that one released number takes at most, written twice


@dataclass(frozen=True, slots=True, eq=False)
class SavedRun:
    """A prepaid sparse vector run as the book keeps it.

    `level` is the noisy threshold that the questions since the last firing were held against: a secret of the
    custodian, sealed. None: it is lost, and whoever goes on counts one firing more if questions were asked (`open`).
    `charge` is the entry that paid for the run; `generation` counts the saves, 0 before the first.
    """

    plan: dict[str, Any]
    fired: int
    asked: int
    open: bool
    level: int | None
    state: NDArray[np.float64] | None  # None: as it was saved last
    charge: int
    generation: int = 0


@dataclass(frozen=True, slots=True)
class KeptRelease:
    """A release that the book has: its entry, what it says, and the charges it was computed from (None: unknown)."""

    entry: int
    answer: dict[str, Any]
    of: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Purchase:
    """How a release came about: the statement, how many numbers it has, who asked, the charges it was computed from
    (None: those that were just paid), and the run with its generation, if one was used.
    """

    what: str
    numbers: int
    analyst: str | None = None
    of: tuple[int, ...] | None = None
    run: tuple[str, int] | None = None


class Ledger(Budget):
    """A `Budget` whose every charge is in a book, on the same page as what was bought with it.

    What was written on a page is on disk when the page ends, all or nothing. The cap is given anew each time and caps
    the book, not the run: lowered below what was spent, it refuses everything. What was released about another epoch of
    the data, or over another declared domain, is not reused; what was spent stays spent. Per analyst a charge counts
    once, when he is first told anything computed from it. O(1) a charge.

    >>> with Book.rehearsal(None, "staff") as book:
    ...     ledger = Ledger(book, Cap(Loss.of_epsilon(1)))
    ...     ledger.spend(Loss.of_epsilon("0.4"), what="a first run")
    ...     ledger.left()
    Fraction(3, 5)
    """

    def __init__(self, book: Book, cap: Cap, *, domain: str = "", rows: int = 1) -> None:
        super().__init__(cap)
        self.book, self.domain, self.rows = book, domain, rows
        self.charged: list[int] = []  # what was paid for the question at hand
        told = {"unit": str(cap.total.unit), "neighbours": str(cap.total.neighbours)}
        with book.page():
            if not book.state.budget:
                book.append(Mark.BUDGET, told)
        for key, here in told.items():
            there = book.state.budget[key]
            if there != here:
                fault = "counts another unit" if key == "unit" else "was kept for other neighbours"
                raise PrivacyParameterError(
                    f"the book {book.path} {fault}: {key} is {there!r} there and {here!r} here. "
                    f"Losses of the two do not add up: set {key} = {there!r}, or begin another book for other people"
                )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self.book.page():
            yield

    def _spent(self, account: str) -> tuple[Fraction, Fraction]:
        return self.book.state.spent(account)

    def _charge(self, charge: Loss, analyst: str | None, what: str) -> None:
        body = {"amount": str(charge.amount), "delta": str(charge.delta), "what": what}
        self.charged.append(self.book.append(Mark.CHARGE, body, analyst=analyst).seq)

    # --- people with several rows -------------------------------------------------------------------------------------

    def per_person(self, loss: Loss) -> Loss:
        """What a release that protects one row costs a person with `rows` of them: epsilon times as many, rho times
        their square (group privacy). A delta has no such law here, and is refused.
        """
        if self.rows > 1 and loss.delta:
            raise PrivacyParameterError("several rows a person: a release with a delta of its own cannot be priced")
        return Loss(loss.unit, loss.amount * self.times, loss.delta, loss.neighbours)

    @property
    def times(self) -> int:
        """By what a person's price is larger than that of one row, in the unit of the budget."""
        return self.rows if self.cap.total.unit == "epsilon" else self.rows * self.rows

    # --- what was released --------------------------------------------------------------------------------------------

    def remember(
        self, question: str, answer: dict[str, Any], bought: Purchase, blank: dict[str, Any] | None = None
    ) -> BookEntry:
        """Keep a released answer; its entry. `blank` is the same with each number 0: the room that the entry takes
        follows from it, and not from the numbers.
        """
        of = self.charged if bought.of is None else bought.of
        body: dict[str, Any] = {"question": self._mark(question), "answer": answer, "of": list(of)}
        if bought.run is not None:
            body |= {"run": bought.run[0], "generation": bought.run[1]}
        body["sql"] = bought.what
        empty = format_canonically(body if blank is None else body | {"answer": blank})
        room = len(empty.encode()) + DIGITS * bought.numbers
        return self.book.append(Mark.RELEASE, body, analyst=bought.analyst, room=room)

    def entry_of(self, question: str) -> int:
        """The entry of the latest release to this question about this epoch."""
        state = self.book.state
        return state.releases[state.epoch, self._mark(question)][-1]

    def recall(self, question: str, analyst: str | None = None) -> Iterator[KeptRelease]:
        """What was released before to this question about this epoch, if the analyst may be told: cheapest first."""
        state = self.book.state
        found = state.releases.get((state.epoch, self._mark(question)), ())
        priced = []
        for seq in found:
            of = state.origins[seq]
            price = self.news(analyst, of)
            if price is not None:
                priced.append((price, -seq, of))
        for _, at, of in sorted(priced, key=lambda p: p[:2]):
            yield KeptRelease(-at, self.book.entry(-at).body["answer"], of)

    def news(self, analyst: str | None, of: Sequence[int] | None) -> Fraction | None:
        """What being told would add to the analyst's account; None if that passes his cap or nobody can say."""
        if analyst is None or not self.cap.analysts:
            return Fraction(0)
        if of is None:
            return None
        amount, _ = self.book.state.news(analyst, of)
        return amount if amount <= self.cap.of(analyst) - self._spent(analyst)[0] else None

    def may_be_told(self, analyst: str | None, of: Sequence[int]) -> bool:
        """Has the analyst room for everything that was computed from these charges?"""
        return self.news(analyst, of) is not None

    def tell(self, analyst: str | None, kept: KeptRelease) -> None:
        """Somebody is about to be told a release: it is written down once, and its charges count for him, once."""
        state = self.book.state
        if analyst is None or kept.entry in state.heard.get(analyst, ()):
            return
        fresh = [at for at in kept.of or () if at not in state.told.get(analyst, ())]
        with self.book.page():
            self.book.append(Mark.TOLD, {"of": fresh, "entry": kept.entry}, analyst=analyst)

    def _mark(self, question: str) -> str:
        return f"{self.domain}/{question}"

    # --- prepaid runs -------------------------------------------------------------------------------------------------

    def runs(self, name: str) -> Iterator[tuple[str, SavedRun]]:
        """The prepaid runs of this kind, for this epoch and domain, oldest first."""
        at = 1
        while (found := self.load_run(full := self.run_name(name, at))) is not None:
            yield full, found
            at += 1

    def run_name(self, name: str, number: int) -> str:
        """What the book calls the n-th run of a kind."""
        return f"{self.domain}/{name}/{number}"

    def save_run(self, name: str, run: SavedRun) -> int:
        """Keep a run as it stands, on the page on which it was used; the new generation."""
        kept = self.book.unseal(name)
        generation = 0 if kept is None else kept[0]
        if generation != run.generation:
            raise BookError(f"the prepaid run in the book {self.book.path} was used meanwhile: nothing is shown")
        blob = None
        if run.state is not None:
            buffer = io.BytesIO()
            np.save(buffer, run.state, allow_pickle=False)
            blob = buffer.getvalue()
        fields = {
            "plan": run.plan, "fired": run.fired, "asked": run.asked, "open": run.open, "charge": run.charge,
            "level": None if run.level is None else f"{run.level:+040d}",  # as long, whatever it is
        }  # fmt: skip
        self.book.seal(name, generation + 1, json.dumps(fields), blob)
        return generation + 1

    def load_run(self, name: str) -> SavedRun | None:
        """The prepaid run of this name in this epoch, without its hypothesis (`load_state`)."""
        kept = self.book.unseal(name)
        if kept is None:
            return None
        generation, fields = kept
        told = json.loads(fields)
        level = None if told["level"] is None else int(told["level"])
        return SavedRun(
            told["plan"], told["fired"], told["asked"], told["open"], level, None, told["charge"], generation
        )

    def load_state(self, name: str) -> NDArray[np.float64]:
        """The hypothesis of the prepaid run of this name."""
        state: NDArray[np.float64] = np.load(io.BytesIO(self.book.unseal_state(name)), allow_pickle=False)
        return state
