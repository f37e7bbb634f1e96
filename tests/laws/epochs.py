"""Laws of auditors over a table that changes, with liars: decisions against brute force on small lives of tables.

Where changes are public, a decision is compared with the one set of changes that took place; where they are secret,
with every set of changes that could have: somebody is exposed by one of them iff the question is denied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
from tests.laws.law import Law, Specimen

from keyhole.auditing.online.admission import Premise
from keyhole.auditing.online.epochs import Changes, Epochs, RowsOfEpochs, ToldRow
from keyhole.auditing.online.population import KEY_BYTES, Epoch, Population
from keyhole.auditing.online.ruling import Space
from keyhole.solve.rowspace.online import OnlineRowSpace
from keyhole.solve.rowspace.versions import VersionSpace

SEEDS = range(8)
COLUMN = "x"


@dataclass(frozen=True, slots=True)
class Era:
    """One epoch of a small table: its people in the order of their records, whose value was written, what is asked."""

    people: tuple[int, ...]
    written: frozenset[int]
    asks: tuple[tuple[int, ...], ...]  # a weight for each record


Answered = list[tuple[int, dict[int, int]]]  # (epoch, person -> weight)
Written = Sequence[frozenset[int]]  # for each epoch


@dataclass(frozen=True, slots=True)
class Keeper:
    """An implementation: the row space that decides about the column `COLUMN` in the latest of some epochs."""

    changes: Changes
    space: Callable[[Epochs, int], Space]


def life(seed: int, people: int, epochs: int, asks: int) -> list[Era]:
    """A random life of a table: people come, go, come back and are written; questions about few or nearly all."""
    rng = np.random.default_rng(seed)
    here, found = list(range(int(rng.integers(2, people + 1)))), []
    for epoch in range(epochs):
        if epoch:
            here = [person for person in here if rng.random() > 0.2] or here[:1]
            here += [p for p in range(people + epoch) if p not in here and rng.random() < 0.4][: people - len(here)]
        order = [here[k] for k in rng.permutation(len(here))]
        written = frozenset(p for p in here if epoch and rng.random() < 0.4)
        weights = rng.integers(0, 2, size=(asks, len(order)))
        plain = rng.random(asks) < 0.8
        scaled = np.where(plain[:, None], weights, weights * rng.integers(-1, 3, size=weights.shape))
        found.append(Era(tuple(order), written, tuple(tuple(row) for row in scaled.tolist())))
    return found


def key(person: int) -> bytes:
    """The opaque key of a person."""
    return person.to_bytes(KEY_BYTES, "big")


@dataclass(frozen=True, slots=True)
class Played:
    """One decision, and what it was made about."""

    allowed: bool
    dependent: bool
    answered: Answered  # before it
    ask: tuple[int, dict[int, int]]


def play(keeper: Keeper, eras: Sequence[Era], insiders: int, reopen: int = 0) -> Iterator[Played]:
    """Live through a life, answering what is allowed; rebuilt from JSON at each epoch (and after `reopen` asks)."""
    opened: list[Epoch] = []
    told: list[ToldRow] = []
    answered: Answered = []
    for at, era in enumerate(eras):
        people, wrote = [key(p) for p in era.people], {COLUMN: [key(p) for p in era.written]}
        opened.append(Population(opened).opened(str(at), people, wrote))
        epochs, space = _opened(keeper, opened, people, told, insiders)
        for number, ask in enumerate(era.asks):
            if reopen and number and number % reopen == 0:
                epochs, space = _opened(keeper, opened, people, told, insiders)
            row = epochs.over({k: w for k, w in enumerate(ask) if w})
            decision = space.probe(row)
            asked = at, {person: w for person, w in zip(era.people, ask, strict=True) if w}
            yield Played(bool(decision.safe), bool(decision.dependent), list(answered), asked)
            if decision.safe:
                answered.append(asked)
                if not decision.dependent:
                    space.commit(decision)
                    premise = Premise(str(len(answered)), "", Fraction(1), Fraction(0))
                    told.append(ToldRow(str(at), COLUMN, premise, epochs.population.n, row))


def _opened(
    keeper: Keeper, opened: list[Epoch], people: list[bytes], told: list[ToldRow], insiders: int
) -> tuple[Epochs, Space]:
    read = Population(Epoch.from_json(epoch.to_json()) for epoch in opened)
    rows = tuple(ToldRow.from_json(each.to_json()) for each in told)
    epochs = Epochs(read, people, rows, keeper.changes)
    return epochs, keeper.space(epochs, insiders)


# -- brute force ----------------------------------------------------------------------------------------------------


def exposes(answered: Answered, written: Written, insiders: int) -> bool:
    """Is some form on one person's versions (insiders: on two persons') in the row space? By rank, in integers."""
    version: dict[int, int] = {}
    at: dict[tuple[int, int], int] = {}
    rows = []
    for epoch in range(len(written)):
        version |= {person: version.get(person, 0) + 1 for person in written[epoch]}
        for told, row in answered:
            if told == epoch:
                columns = {(p, version.get(p, 0)): w for p, w in row.items()}
                rows.append({at.setdefault(c, len(at)): w for c, w in columns.items()})
    everybody = sorted({person for person, _ in at})
    full = rank_of(rows, set(at.values()))
    for size in range(1, 2 + insiders):
        for some in combinations(everybody, min(size, len(everybody))):
            others = {column for (person, _), column in at.items() if person not in some}
            if rank_of(rows, others) < full:
                return True
    return False


def rank_of(rows: list[dict[int, int]], columns: set[int]) -> int:
    """The rank of some columns of integer rows, by elimination without division."""
    left, found = [{c: w for c, w in row.items() if w and c in columns} for row in rows], 0
    while left:
        pivot = left.pop()
        if not pivot:
            continue
        found += 1
        column, lead = next(iter(pivot.items()))
        for k, row in enumerate(left):
            head = row.get(column, 0)
            if head:
                mixed = {c: lead * row.get(c, 0) - head * pivot.get(c, 0) for c in row.keys() | pivot.keys()}
                left[k] = {c: w for c, w in mixed.items() if w}
    return found


def whatever_changed(answered: Answered, insiders: int) -> bool:
    """Does some set of changes expose somebody? Each person's value may have been written before each epoch."""
    people = sorted({person for _, row in answered for person in row})
    epochs = max((epoch for epoch, _ in answered), default=0) + 1
    moments = [(person, epoch) for person in people for epoch in range(1, epochs)]
    for chosen in product((False, True), repeat=len(moments)):
        happened = {moment for moment, is_so in zip(moments, chosen, strict=True) if is_so}
        written = [frozenset(p for p, e in happened if e == epoch) for epoch in range(epochs)]
        if exposes(answered, written, insiders):
            return True
    return False


def lives(changes: Changes, seed: int) -> list[Era]:
    """A life that brute force can judge: all sets of changes cost 2^(people * (epochs - 1))."""
    if changes is Changes.PUBLIC:
        return life(seed, people=4 + seed % 4, epochs=1 + seed % 4, asks=6)
    return life(seed, people=3, epochs=3, asks=4) if seed % 2 else life(seed, people=5, epochs=2, asks=5)


def compared(keeper: Keeper, seed: int, insiders: int) -> int:
    """How many decisions of one life were compared with brute force; AssertionError for one that differs."""
    eras = lives(keeper.changes, seed)
    count = 0
    for count, said in enumerate(play(keeper, eras, insiders), 1):  # noqa: B007 - the last number counts
        answered = [*said.answered, said.ask]
        if keeper.changes is Changes.PUBLIC:
            bad = exposes(answered, [era.written for era in eras], insiders)
        else:
            bad = whatever_changed(answered, insiders)
        assert said.allowed is not bad, (
            f"seed {seed}, insiders {insiders}: {said.ask} after {said.answered} is "
            f"{'allowed, yet exposes somebody' if bad else 'denied in vain'}"
        )
    return count


# -- laws -----------------------------------------------------------------------------------------------------------


def every_decision_is_that_of_brute_force(keeper: Keeper) -> None:
    """Denied iff it exposes somebody: for the changes that took place, or for any that could have (secret ones)."""
    for insiders in (0, 1):
        for seed in SEEDS:
            compared(keeper, seed, insiders)


def what_follows_from_answers_of_its_own_epoch_is_free(keeper: Keeper) -> None:
    """The same question again within an epoch, and twice it, are allowed and counted as nothing new."""
    for seed in SEEDS:
        eras = lives(keeper.changes, seed)
        doubled = [
            replace(e, asks=tuple(a for ask in e.asks for a in (ask, ask, tuple(2 * w for w in ask)))) for e in eras
        ]
        said = list(play(keeper, doubled, insiders=seed % 2))
        for first, *again in zip(said[::3], said[1::3], said[2::3], strict=True):
            for one in again:
                assert not first.allowed or (one.allowed and one.dependent), f"seed {seed}: {one.ask} follows"


def read_back_in_mid_epoch_it_decides_as_if_uninterrupted(keeper: Keeper) -> None:
    """Rebuilt from its epochs and rows as JSON after every question, it says the same."""
    for seed in SEEDS:
        eras = lives(keeper.changes, seed)
        whole, parts = (list(play(keeper, eras, seed % 2, reopen)) for reopen in (0, 1))
        assert [s.allowed for s in whole] == [s.allowed for s in parts], f"seed {seed}"


def _honest(epochs: Epochs, insiders: int) -> Space:
    return epochs.space(COLUMN, insiders)[0]


SPECIMENS: tuple[Specimen[Keeper], ...] = tuple(
    Specimen(f"{changes} changes", Keeper(changes, _honest)) for changes in Changes
)


# -- liars ----------------------------------------------------------------------------------------------------------


def _with(epochs: Epochs, insiders: int, inner: Callable[[RowsOfEpochs], Any]) -> RowsOfEpochs:
    rows = RowsOfEpochs(epochs, COLUMN, insiders)
    rows.inner = inner(rows)
    for each in epochs.told:
        rows.take(each)
    return rows


def _as_if_nothing_changed(epochs: Epochs, insiders: int) -> Space:
    """One column a person, whatever was written."""
    unwritten = [replace(epoch, written={COLUMN: np.zeros_like(epoch.present)}) for epoch in epochs.population.epochs]
    told = replace(epochs, population=Population(unwritten), changes=Changes.PUBLIC)
    return _with(told, insiders, lambda rows: OnlineRowSpace(told.population.n, insiders=insiders))


class _TwoLanes(VersionSpace):
    """Two null vectors, however many versions somebody has."""

    def _lanes(self, insiders: int) -> int:
        return 2


def _two_lanes(epochs: Epochs, insiders: int) -> Space:
    owner = epochs.population.versions(COLUMN)[0]
    if epochs.count == 1:
        return _honest(epochs, insiders)
    return _with(epochs, insiders, lambda rows: _TwoLanes(owner, insiders=insiders))


def _forgets(epochs: Epochs, insiders: int) -> Space:
    """What was told in earlier epochs does not count."""
    return _honest(replace(epochs, told=tuple(t for t in epochs.told if t.epoch == epochs.name)), insiders)


def _forgets_now(epochs: Epochs, insiders: int) -> Space:
    """What was told in this epoch does not count when it is opened again."""
    return _honest(replace(epochs, told=tuple(t for t in epochs.told if t.epoch != epochs.name)), insiders)


class _Literal:
    """Takes every question for a new one, and denies it if it was told before."""

    def __init__(self, space: Space) -> None:
        self.commit, self.pass_over, self.certificate, self._space = (
            space.commit,
            space.pass_over,
            space.certificate,
            space,
        )

    def probe(self, query: Any) -> Any:
        decision = self._space.probe(query)
        if decision.dependent and isinstance(self._space, RowsOfEpochs):
            return replace(decision, dependent=False, exposes=(0,))
        return decision


def _liar(name: str, changes: Changes, space: Callable[[Epochs, int], Space]) -> Specimen[Keeper]:
    return Specimen(f"{name}, {changes}", Keeper(changes, space))


LAWS: tuple[Law[Keeper], ...] = (
    Law(
        every_decision_is_that_of_brute_force,
        (
            _liar("as if nothing changed", Changes.PUBLIC, _as_if_nothing_changed),
            _liar("as if nothing changed", Changes.SECRET, _as_if_nothing_changed),
            _liar("two lanes", Changes.PUBLIC, _two_lanes),
            _liar("forgets earlier epochs", Changes.PUBLIC, _forgets),
            _liar("forgets earlier epochs", Changes.SECRET, _forgets),
        ),
    ),
    Law(
        what_follows_from_answers_of_its_own_epoch_is_free,
        (_liar("takes all for new", Changes.SECRET, lambda epochs, insiders: _Literal(_honest(epochs, insiders))),),
    ),
    Law(
        read_back_in_mid_epoch_it_decides_as_if_uninterrupted,
        (_liar("forgets this epoch", Changes.SECRET, _forgets_now),),
    ),
)
