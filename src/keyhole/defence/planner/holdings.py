"""Everything that was bought and is in the book: tables by generation, single numbers by question."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from keyhole.book import BookEntry, Mark
from keyhole.defence.budget.ledger import Kept, Ledger
from keyhole.defence.tables.inference import Names
from keyhole.defence.tables.noisy_tables import COUNT, BoughtTable, Generation, Quantity

TABLE = "table"
NUMBER = "number "
PILOT = "pilot"  # what a plan looked at: its tables answer nothing


@dataclass(slots=True, eq=False)
class Holdings:
    """The released tables of this epoch and declaration. `refresh` reads what is new in the book, and nothing twice."""

    ledger: Ledger
    n: int | None
    generations: dict[int, Generation] = field(default_factory=dict)
    purchases: int = 0
    rented: list[tuple[frozenset[str], Fraction]] = field(default_factory=list)  # numbers on columns without a table
    pilots: set[int] = field(default_factory=set)  # generations that a plan looked at
    noted: set[str] = field(default_factory=set)  # questions that somebody was given an answer to
    ranked: dict[str, int] = field(default_factory=dict)  # quantiles by column and condition
    cuts: dict[str, list[int]] = field(default_factory=dict)  # of axes whose key does not list them
    seen: tuple[int, str] = (0, "")
    epoch: int = -1

    def refresh(self) -> None:
        """Catch up with the book; start again if the book took something back, or the epoch is another."""
        book = self.ledger.book
        last = book.state.last
        if last is None or (self.seen == (last.seq, last.hash) and self.epoch == book.state.epoch):
            return
        if self.epoch != book.state.epoch or (self.seen[0] and not book.has(*self.seen)):
            self.generations, self.purchases, self.seen, self.epoch = {}, 0, (0, ""), book.state.epoch
            self.rented, self.noted, self.ranked, self.pilots = [], set(), {}, set()
        for entry in book.entries(self.seen[0]):
            if entry.epoch == self.epoch and entry.kind in (Mark.RELEASE, Mark.TOLD):
                self._take(entry)
        self.seen = (last.seq, last.hash)

    def _take(self, entry: BookEntry) -> None:
        body = entry.body
        domain, _, question = str(body.get("question", "")).partition("/")
        if domain != self.ledger.domain:
            return
        if entry.kind == Mark.TOLD:
            self.noted.add(question)
            return
        self.purchases += 1
        if question == TABLE:
            table = BoughtTable.unpacked(body["answer"], body["of"][0], entry.seq)
            self.generation(table.generation).add(table)
            if body.get("sql") == PILOT:
                self.pilots.add(table.generation)
            self.cuts |= body["answer"].get("cuts", {})
            over = {name.partition("|")[0] for name in table.names}
            self.rented = [(columns, paid) for columns, paid in self.rented if not columns <= over]
        elif (mark := body["answer"].get("tree")) is not None:
            self.ranked[mark] = self.ranked.get(mark, 0) + 1
        elif question.startswith(NUMBER):
            columns = frozenset(name.partition("|")[0] for name in body["answer"]["over"])
            if all(power for _, _, power, _ in body["answer"]["doses"]):  # a table would not have saved the others
                self.rented.append((columns, self.ledger.book.state.losses[body["of"][0]][0] / self.ledger.times))

    def note(self, question: str) -> None:
        """Remember, once, that a question was answered from what was there: asked again with a narrower bar it is a
        second look at a value, and its purchase is not combined with what was seen.
        """
        if question not in self.noted:
            self.ledger.book.append(Mark.TOLD, {"of": [], "question": f"{self.ledger.domain}/{question}"})
            self.refresh()

    def generation(self, number: int) -> Generation:
        """The tables of one generation."""
        if number not in self.generations:
            self.generations[number] = Generation(self.n)
        return self.generations[number]

    @property
    def latest(self) -> int:
        """The number of the generation that purchases go to; never that of a pilot."""
        found = max(self.generations, default=0)
        return found + 1 if found in self.pilots else found

    @property
    def answering(self) -> list[int]:
        """The generations that answers are made from, latest first. A pilot's values decided what the plan bought, so
        what the plan left to the pilot was chosen by the pilot's own errors: bars of it would miss more often.
        """
        return sorted((self.generations.keys() - self.pilots) or {0}, reverse=True)

    def for_analyst(self, number: int, analyst: str | None) -> Generation:
        """What an analyst may be told of a generation without a new charge to him that passes his cap.

        All of it, if he has room; else what he was told before.
        """
        whole = self.generation(number)
        if analyst is None or not self.ledger.cap.analysts:
            return whole
        if self.ledger.may_be_told(analyst, [t.charge for t in whole.tables]):
            return whole
        told = self.ledger.book.state.told.get(analyst, set())
        part = Generation(self.n)
        for table in whole.tables:
            if table.charge in told:
                part.add(table)
        return part

    def tell(self, generation: Generation, needed: Iterable[tuple[Quantity, Names]], analyst: str | None) -> list[int]:
        """Write down that an analyst is told what follows from tables; the entries that were used."""
        used = relevant(generation, needed)
        for table in used:
            self.ledger.tell(analyst, Kept(table.entry, {}, (table.charge,)))
        return [table.entry for table in used]


def relevant(generation: Generation, needed: Iterable[tuple[Quantity, Names]]) -> list[BoughtTable]:
    """The tables whose noise is in the answer to questions about these quantities and axes."""
    wanted = list(needed)
    found = []
    for table in generation.tables:
        for quantity, names in wanted:
            shared = any(name in table.names for name in names)
            public = quantity == COUNT and generation.n is not None
            if table.holds(quantity) and (shared or not public):
                found.append(table)
                break
    return found
