"""What the entries of a book add up to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

from keyhole.book.chain import BookEntry, Mark

EVERYBODY = "*"
PUBLIC = "people and public values"  # a digest that needs no key
WHOLE = "the whole table"  # the digest that noisy answers go by; exact ones go by the others
Amount: TypeAlias = tuple[Fraction, Fraction]  # of the budget's unit, and of delta
NOTHING: Amount = (Fraction(0), Fraction(0))
Name = TypeVar("Name")
Value = TypeVar("Value")


@dataclass(slots=True)
class BookState:
    """Totals, who was told what, and where to find it; made by `take`, entry after entry, and by nothing else.

    A charge counts once for everybody together, and once for each analyst who was told anything computed from it.

    >>> at = "2026-11-16T09:00:00+00:00"
    >>> paid = BookEntry.after(None, Mark.CHARGE, {"amount": "1/10", "delta": "0", "what": "q"}, at=at, analyst="ann")
    >>> told = BookEntry.after(paid, Mark.TOLD, {"of": [1]}, at=at, analyst="bob")
    >>> state = BookState().take_all([paid, told])
    >>> [str(state.spent(who)[0]) for who in (EVERYBODY, "ann", "bob")]
    ['1/10', '1/10', '1/10']
    """

    last: BookEntry | None = None
    totals: dict[str, Amount] = field(default_factory=dict)
    losses: dict[int, Amount] = field(default_factory=dict)  # of each charge
    told: dict[str, set[int]] = field(default_factory=dict)  # analyst -> charges
    heard: dict[str, set[int]] = field(default_factory=dict)  # analyst -> entries of releases and answers
    releases: dict[tuple[int, str], list[int]] = field(default_factory=dict)  # (epoch, question) -> entries
    origins: dict[int, tuple[int, ...] | None] = field(default_factory=dict)  # of each release: its charges
    answers: list[int] = field(default_factory=list)  # entries that an auditor must account for
    rows: dict[int, int] = field(default_factory=dict)  # such an entry -> the entry that has its rows
    telling: dict[int, int] = field(default_factory=dict)  # the same, of those that told something new
    people: dict[int, int] = field(default_factory=dict)  # epoch -> the entry that says who is in it
    families: dict[str, set[str]] = field(default_factory=dict)  # of each private column that was answered about
    unguarded: set[str] = field(default_factory=set)  # columns about which something was answered that was not admitted
    asked: int = 0  # number of the latest statement that counts
    epochs: list[dict[str, object]] = field(default_factory=list)
    data: dict[tuple[int, str], str] = field(default_factory=dict)  # (epoch, what) -> digest
    budget: dict[str, str] = field(default_factory=dict)
    runs: dict[tuple[int, str], int] = field(default_factory=dict)  # (epoch, name) -> generation
    population: str = ""
    followed: dict[str, dict[str, Any]] = field(default_factory=dict)  # log -> how far it was read
    incomplete: list[int] = field(default_factory=list)  # entries of such logs that no verdict accounts for
    _undo: list[Callable[[], object]] | None = field(default=None, compare=False, repr=False)  # since a page began

    @property
    def seq(self) -> int:
        """How many entries there are."""
        return 0 if self.last is None else self.last.seq

    @property
    def epoch(self) -> int:
        """The number of the current epoch, from 1; 0 before the first."""
        return len(self.epochs)

    def spent(self, account: str) -> Amount:
        """What counts for an analyst, or for everybody together."""
        return self.totals.get(account, NOTHING)

    def news(self, analyst: str, charges: Iterable[int]) -> Amount:
        """What it would add to an analyst's account to be told something computed from these charges."""
        known = self.told.get(analyst, set())
        fresh = [self.losses[at] for at in dict.fromkeys(charges) if at not in known]
        return sum((a for a, _ in fresh), Fraction(0)), sum((d for _, d in fresh), Fraction(0))

    def take_all(self, entries: Iterable[BookEntry]) -> BookState:
        """This state after more entries."""
        for entry in entries:
            self.take(entry)
        return self

    # --- taking back --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """From here on it is remembered how to take back what is taken. Cost: a step for each change, none for size."""
        self._undo = []

    def keep(self) -> None:
        """What was taken stays."""
        self._undo = None

    def take_back(self) -> None:
        """The state as it was when `begin` was called last."""
        steps, self._undo = self._undo or [], None
        for step in reversed(steps):
            step()

    def _on_undo(self, step: Callable[[], object]) -> None:
        if self._undo is not None:
            self._undo.append(step)

    def _let(self, name: str, value: object) -> None:
        before = getattr(self, name)
        self._on_undo(lambda: setattr(self, name, before))
        setattr(self, name, value)

    def _put(self, kept: dict[Name, Value], name: Name, value: Value) -> None:
        if self._undo is None:
            pass
        elif name in kept:
            before = kept[name]
            self._on_undo(lambda: kept.__setitem__(name, before))
        else:
            self._on_undo(lambda: kept.pop(name))
        kept[name] = value

    def _append(self, kept: list[Value], value: Value) -> None:
        self._on_undo(kept.pop)
        kept.append(value)

    def _add(self, kept: dict[Name, set[Value]], name: Name, values: Iterable[Value]) -> None:
        if name not in kept:
            self._put(kept, name, set())
        fresh = set(values) - kept[name]
        self._on_undo(lambda: kept[name].difference_update(fresh))
        kept[name] |= fresh

    # --- entries ------------------------------------------------------------------------------------------------------

    def take(self, entry: BookEntry) -> None:
        """One entry more."""
        self._let("last", entry)
        match entry.kind:
            case Mark.OPEN:
                self._let("population", str(entry.body["population"]))
            case Mark.BUDGET:
                self._let("budget", {k: str(v) for k, v in entry.body.items()})
            case Mark.EPOCH:
                self._append(self.epochs, entry.body)
            case Mark.DATA:
                for what, mark in entry.body.items():
                    self._put(self.data, (entry.epoch, what), str(mark))
            case Mark.PEOPLE:
                self._put(self.people, entry.epoch, entry.seq)
            case Mark.ROWS:
                body = entry.body
                self._keep_rows(body["of"], entry, body)
            case Mark.ANSWER | Mark.PUBLISHED | Mark.UNJUDGED:
                self._take_answer(entry)
            case Mark.FOLLOWED:
                self._put(self.followed, str(entry.body["file"]), entry.body)
            case Mark.ACCEPTED:
                self._let("incomplete", [])
            case Mark.CHARGE:
                body = entry.body
                self._put(self.losses, entry.seq, (Fraction(body["amount"]), Fraction(body["delta"])))
                self._count(EVERYBODY, self.losses[entry.seq])
                self._tell(entry.analyst, [entry.seq])
            case Mark.RELEASE:
                self._take_release(entry)
            case Mark.TOLD:
                self._tell(entry.analyst, entry.body["of"])
                self._hear(entry.analyst, entry.body.get("entry"))

    def _take_answer(self, entry: BookEntry) -> None:
        body = entry.body
        self._append(self.answers, entry.seq)
        if entry.kind == Mark.UNJUDGED and "log" in body:
            self._append(self.incomplete, entry.seq)
        self._let("asked", max(self.asked, int(body["query"])))
        self._hear(entry.analyst, entry.seq)
        for column, family in body.get("families", {}).items():
            self._add(self.families, column, [family])
            if body.get("verdict", "allow") != "allow":
                self._let("unguarded", self.unguarded | {column})
        if "told" in body:
            self._keep_rows(entry.seq, entry, body)
        if mark := body.get("question"):
            self._release(entry, mark)
            self._put(self.origins, entry.seq, ())

    def _keep_rows(self, answer: int, entry: BookEntry, body: dict[str, Any]) -> None:
        self._put(self.rows, answer, entry.seq)
        if any(not row.get("follows") for row in body["told"]):
            self._put(self.telling, answer, entry.seq)
        for row in body["told"]:
            self._add(self.families, row["column"], ["sum"])

    def _take_release(self, entry: BookEntry) -> None:
        body = entry.body
        self._release(entry, body["question"])
        self._put(self.origins, entry.seq, None if body["of"] is None else tuple(body["of"]))
        if "run" in body:
            self._put(self.runs, (entry.epoch, body["run"]), body["generation"])
        self._tell(entry.analyst, body["of"] or ())
        self._hear(entry.analyst, entry.seq)

    def _release(self, entry: BookEntry, question: str) -> None:
        at = (entry.epoch, question)
        if at not in self.releases:
            self._put(self.releases, at, [])
        self._append(self.releases[at], entry.seq)

    def _hear(self, analyst: str | None, entry: int | None) -> None:
        if analyst is not None and entry is not None:
            self._add(self.heard, analyst, [entry])

    def _tell(self, analyst: str | None, charges: Iterable[int]) -> None:
        if analyst is None:
            return
        self._count(analyst, self.news(analyst, charges))
        self._add(self.told, analyst, charges)

    def _count(self, account: str, amount: Amount) -> None:
        before = self.spent(account)
        if amount != NOTHING:
            self._put(self.totals, account, (before[0] + amount[0], before[1] + amount[1]))
