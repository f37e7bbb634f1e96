"""The people behind the records of a roster: rows over them, the row spaces that decide about them, and their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from keyhole.auditing.base import Finding, Status
from keyhole.auditing.online.admission import Premise
from keyhole.auditing.online.engine_space import AskedRow, EngineSpace
from keyhole.auditing.online.epochs import Changes, Epochs, Ints, ToldRow
from keyhole.auditing.online.packed import Sparse
from keyhole.auditing.online.ruling import ColumnState, Space
from keyhole.basis import Row
from keyhole.basis.bits import Words, unpack
from keyhole.datasets import Roster
from keyhole.engines.roster import ROW, EngineRoster
from keyhole.errors import ConfigError
from keyhole.model.predicate import Scalar, quote_name
from keyhole.model.schema import Role
from keyhole.solve.rowspace.online import OnlineRowSpace
from keyhole.solve.rowspace.versions import VersionSpace

MOST_CELLS = 1 << 27  # residues of the shadow columns: 1 GB a private column


class Participants:
    """Without epochs every record is a person, or, where ids repeat, a person's: rows are over records, and exposed is
    who has a form on his own records determined. With epochs people have numbers of their own, and some may be gone.
    """

    def __init__(
        self,
        roster: Roster,
        insiders: int,
        epochs: Epochs | None = None,
        space: Callable[[int, int], Space] | None = None,
        *,
        in_engine: bool = False,
    ) -> None:
        self.roster, self.epochs, self._insiders, self._in_engine = roster, epochs, insiders, in_engine
        if in_engine:
            _check_engine(roster, insiders)
        self._make = space or _row_space
        self._record: dict[int, int] | None = None
        self.owner = _owners(roster, insiders)
        if epochs is not None and not epochs.same:
            self._record = {int(person): k for k, person in enumerate(epochs.numbers.tolist())}

    def state(self, column: str) -> ColumnState:
        """A private column with everything told before."""
        if self._in_engine:
            return ColumnState(self._space_there())
        if self.owner is not None:
            return ColumnState(VersionSpace(self.owner, insiders=self._insiders))
        if self.epochs is None:
            return ColumnState(self._make(self.roster.n, self._insiders))
        space, premises = self.epochs.space(column, self._insiders)
        return ColumnState(space, premises)

    def _space_there(self) -> EngineSpace:
        assert isinstance(self.roster, EngineRoster)
        return EngineSpace(self.roster.engine, self.roster.table, ROW)

    def entries(self, row: Row | AskedRow) -> Sparse | Words | AskedRow:
        """A row over one feature as bits over the people, or {person: weight}; as it is where the engine is asked."""
        found: Sparse | Words
        if isinstance(row, AskedRow):
            return row
        if row.bits is not None:
            found = row.bits
        else:
            (block,) = row.values.values() if row.values else ((np.zeros(0, np.int64), np.zeros(0, np.int64)),)
            found = dict(zip(block[0].tolist(), block[1].tolist(), strict=True))
        return found if self.epochs is None else self.epochs.over(found)

    def count(self, row: Sparse | Words | AskedRow) -> int:
        """How many people a row is about."""
        if isinstance(row, AskedRow):
            return self._space_there().count(row)
        if isinstance(row, dict):
            records = np.array([record for record, weight in row.items() if weight], dtype=np.int64)
        elif self.owner is None:
            return int(np.bitwise_count(row).sum())
        else:
            records = np.flatnonzero(unpack(row, len(self.owner)))
        return len(records) if self.owner is None else len(np.unique(self.owner[records]))

    def told(self, column: str, premise: Premise, row: Sparse | Words | AskedRow, *, follows: bool) -> list[ToldRow]:
        """A row over people as it is stored; nothing without epochs."""
        epochs = self.epochs
        return (
            []
            if epochs is None or isinstance(row, AskedRow)
            else [ToldRow(epochs.name, column, premise, epochs.population.n, row, follows)]
        )

    def named(self, column: str, decision: Any) -> list[Finding]:
        """Whom a decision exposes: to everybody, then to one other participant. The order is the decision's."""
        exposed: list[tuple[int, int | None]] = [(person, None) for person in decision.exposes] + list(decision.pairs)
        if not exposed:
            return []
        people = sorted({person for pair in exposed for person in pair if person is not None})
        label, forms = self._labels(people), self._forms(column, people)
        known = (Status.EXPOSED, None, None, None, None)
        return [
            Finding(
                label[person],
                self._row(person),
                column,
                *known,
                insider=None if insider is None else label[insider],
                form=forms.get(person, ""),
                rows=self._rows(person),
            )
            for person, insider in exposed
        ]

    def _row(self, person: int) -> int:
        """The record of a person (his first); a number beyond all records for one who is gone."""
        if self.owner is not None:
            return int(np.argmax(self.owner == person))
        return person if self._record is None else self._record.get(person, self.roster.n + person)

    def _rows(self, person: int) -> tuple[int, ...]:
        """The records of a person who has several."""
        mine = () if self.owner is None else np.flatnonzero(self.owner == person).tolist()
        return tuple(mine) if len(mine) > 1 else ()

    def _labels(self, people: list[int]) -> dict[int, dict[str, Scalar | None]]:
        """Ids; of those who are gone the key, which the custodian can compare with the keys of ids."""
        here = [person for person in people if self._row(person) < self.roster.n]
        rows = np.array([self._row(person) for person in here], dtype=np.int64)
        found = dict(zip(here, self.roster.labels(rows), strict=True)) if here else {}
        if self.epochs is not None:
            keys = self.epochs.population.keys
            found |= {person: {"person": keys[person].hex()} for person in people if person not in found}
        return found

    def _forms(self, column: str, people: list[int]) -> dict[int, str]:
        """What would be known of each, where it is not simply the value."""
        if self.owner is not None:
            several = {person: len(self._rows(person)) for person in people}
            return {person: f"{column}: a sum over {k} records" for person, k in several.items() if k}
        if self.epochs is None or self.epochs.count == 1:
            return {}
        if self.epochs.changes is Changes.SECRET:
            return dict.fromkeys(people, "the value, if it is the same in all versions of the data")
        versions = np.bincount(self.epochs.population.versions(column)[0])
        mix = "the value, a change of it or a mix of its {} versions"
        return {person: mix.format(versions[person]) for person in people if versions[person] > 1}


def _check_engine(roster: Roster, insiders: int) -> None:
    """Refuse what is not decided in the engine of the data."""
    why = ""
    if not isinstance(roster, EngineRoster):
        why = "data that were read once"
    elif insiders:
        why = "insiders = 1"
    elif roster.schema.repeated:
        why = "a table with several rows of a person"
    if why:
        raise ConfigError(f'{why}: not decided in the engine of the data; set decide = "client" under [source]')


def _owners(roster: Roster, insiders: int) -> Ints | None:
    """Whose each record is, as numbers from 0; None where every record is another person's."""
    if not roster.schema.repeated:
        return None
    owner = roster.classes([quote_name(c.name) for c in roster.schema.of_role(Role.ID)])
    largest = np.sort(np.bincount(owner))[::-1][: 1 + insiders]
    if len(owner) * int(largest.sum() + 1) > MOST_CELLS:
        raise ConfigError(
            f"{largest[0]:,} of {len(owner):,} records are of one person: what a sum over some of them gives away is "
            "decided for fewer. Aggregate them with a view, one row a person, or ask for private answers ([budget])"
        )
    return owner


def _row_space(n: int, insiders: int) -> Space:
    return OnlineRowSpace(n, insiders=insiders)
