"""One question, from text to answer: whoever asks, by whichever door."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from keyhole.auditing.online.admission import Admission
from keyhole.book import Book
from keyhole.engines.open_files import Lifetime
from keyhole.errors import KeyholeError, NotAvailable
from keyhole.model.query import Refused
from keyhole.model.schema import Schema
from keyhole.sessions.reply import Reply

Asked = TypeVar("Asked")


class Policy(Protocol[Asked]):
    """How the questions about one population are read, admitted and answered; it keeps what it must in the book."""

    @property
    def schema(self) -> Schema:
        """The columns that questions may name."""

    def read(self, text: str, analyst: str | None = None) -> Asked | Refused:
        """A statement as it is understood, or why not: from its text, the schema and the declaration alone.

        What others asked makes it neither longer nor shorter.
        """

    def recall(self, request: Asked, analyst: str | None) -> Reply | None:
        """The same question about the same epoch, answered before: it is told again, and counted for who is told."""

    def remember(self, request: Asked, analyst: str | None) -> Reply | None:
        """As `recall`, where nothing has to be written for it: no page is open."""

    def admit(self, request: Asked, analyst: str | None) -> Reply | Admission | None:
        """Why it is denied or refused, from the book and public things alone; else what `release` goes by."""

    def release(self, request: Asked, admission: Admission | None, analyst: str | None) -> Reply:
        """Charge, read the secret once, write both on the open page."""

    def settled(self, reply: Reply) -> None:
        """The page is on disk: what is kept in memory follows it."""

    def complete(self, request: Asked, reply: Reply) -> Reply:
        """What need not be done on a page: rows in their order, what may be asked instead of what is denied."""

    def check(self, request: Asked, analyst: str | None) -> Reply:
        """Whether it would be answered now, or for which price; on an open page, on which nothing is written."""

    def catch_up(self) -> None:
        """What others wrote is accounted for; the book has read it."""

    def expect(self, texts: Sequence[str], analyst: str | None) -> None:
        """These are about to be asked; plans may be made for all of them together."""


@dataclass(frozen=True, slots=True, eq=False)
class Session(Generic[Asked]):
    """A policy and its book.

    One page of the book is one question: nobody else is answered between the decision and its record; charge and
    answer are one commit, and only then they are shown. A kill before the commit leaves nothing and has shown nothing;
    a kill after it has lost nothing, for the same question is then recalled.
    """

    book: Book
    policy: Policy[Asked]
    notes: tuple[str, ...] = ()  # what the custodian should look at before anybody asks
    life: Lifetime | None = None  # of the data behind the policy, if they were opened for this session

    def ask(self, text: str, analyst: str | None = None) -> Reply:
        """Read, recall, admit, charge, release, commit, reply. Nobody waits for the book while it is read."""
        request = self.read(text, analyst)
        if isinstance(request, Refused):
            return self.refuse(text, request, analyst)
        return self.answer(request, analyst)

    def read(self, text: str, analyst: str | None = None) -> Asked | Refused:
        """The first half of `ask`: any number of threads may do it, while one answers."""
        with _quietly():
            return self.policy.read(text, analyst)

    def refuse(self, text: str, why: Refused, analyst: str | None = None) -> Reply:
        """A statement that is not answered as it stands; it is noted in the book."""
        return self._noted(Reply.refused(text, why), analyst)

    def check(self, request: Asked, analyst: str | None = None) -> Reply:
        """What would become of a statement that was read: its verdict, or its price. Nothing is answered or written."""
        with self.book.lock, _quietly(), self.book.page():
            return self.policy.check(request, analyst)

    def answer(self, request: Asked, analyst: str | None = None) -> Reply:
        """The second half of `ask`: of a statement that was read."""
        with self.book.lock:
            with _quietly():
                self.book.look()
                reply = self.policy.remember(request, analyst)
            if reply is None:
                reply = self._answer_on_page(request, analyst)
        with _quietly():
            reply = self.policy.complete(request, reply)
        return reply if reply.answered else self._noted(reply, analyst)

    def _answer_on_page(self, request: Asked, analyst: str | None) -> Reply:
        """Behind everybody who asks now; another gateway may have answered it meanwhile."""
        with self.book.lock:
            with _quietly(), self.book.page():
                reply: Reply | Admission | None = self.policy.recall(request, analyst)
                if reply is None:
                    reply = self.policy.admit(request, analyst)
                if not isinstance(reply, Reply):
                    reply = self.policy.release(request, reply, analyst)
            self.policy.settled(reply)
        return reply

    def catch_up(self) -> None:
        """Take in what other gateways wrote, before anybody asks."""
        with self.book.lock, _quietly():
            self.book.look()
            self.policy.catch_up()

    def ask_all(self, texts: Sequence[str], analyst: str | None = None) -> list[Reply]:
        """Several questions, one after the other; plans may be made for all of them together."""
        replies, fault = self.ask_until(texts, analyst)
        if fault is not None:
            raise fault
        return replies

    def ask_until(self, texts: Sequence[str], analyst: str | None = None) -> tuple[list[Reply], KeyholeError | None]:
        """As `ask_all`, with the fault that stopped it, if one did: what was paid before it is there to be shown."""
        self.policy.expect(texts, analyst)
        replies: list[Reply] = []
        for text in texts:
            try:
                replies.append(self.ask(text, analyst))
            except KeyholeError as fault:
                return replies, fault
        return replies, None

    def _noted(self, reply: Reply, analyst: str | None) -> Reply:
        self.book.note_refusal(reply.sql, str(reply.outcome), reply.reason, analyst)
        return reply

    def close(self) -> None:
        """Let go of the book and of the data; nothing is pending."""
        self.book.close()
        if self.life is not None:
            self.life.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _quietly() -> Iterator[None]:
    """What goes wrong unforeseen is told by its kind alone: its words may quote a value."""
    try:
        yield
    except KeyholeError:
        raise
    except Exception as fault:
        raise NotAvailable(fault) from fault
