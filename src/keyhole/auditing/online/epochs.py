"""A table that changes between epochs: what was told in which epoch, and which row space decides.

Answers are given from frozen epochs; the custodian opens the next one. Rows that were told are kept over the numbers of
people (`Population`), because the data of an earlier epoch are gone when the next is loaded. Everything here is a value
that JSON can hold: whoever keeps the book stores `Epoch.to_json()` and `ToldRow.to_json()`, and an auditor is rebuilt
from them alone.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.online.admission import Premise
from keyhole.auditing.online.packed import Sparse, bits_of, packed, packed_bits, unpacked
from keyhole.auditing.online.population import Population
from keyhole.basis.bits import Words, pack, unpack
from keyhole.errors import ConfigError, LogError
from keyhole.solve.rowspace.online import DirectSum, OnlineRowSpace
from keyhole.solve.rowspace.versions import VersionSpace

Ints: TypeAlias = NDArray[np.int64]
EpochSpace: TypeAlias = OnlineRowSpace | DirectSum | VersionSpace


class Changes(StrEnum):
    """May everybody know who was written between two epochs (never what)? If not, decisions hold for all changes."""

    SECRET = "secret"
    PUBLIC = "public"


@dataclass(frozen=True, slots=True, eq=False)
class ToldRow:
    """A row that was told in an epoch: the premise (which query), and the row over the numbers of people."""

    epoch: str
    column: str
    premise: Premise
    people: int  # over how many the row is written
    row: Words | Sparse
    follows: bool = False  # from what was told before: it adds nothing

    def to_json(self) -> dict[str, Any]:
        """Plain data; `row` is bits, or the people and their weights, zlib-compressed and written in base64."""
        found: dict[str, Any] = {"epoch": self.epoch, "column": self.column, "query": self.premise.number}
        found |= {"sql": self.premise.sql, "scale": str(self.premise.scale), "offset": str(self.premise.offset)}
        found |= {"of": self.premise.of, "people": self.people} | ({"follows": True} if self.follows else {})
        if isinstance(self.row, np.ndarray):
            return found | {"row": packed_bits(self.row, self.people)}
        at = np.array(sorted(self.row), dtype="<i8")
        weights = np.array([self.row[int(k)] for k in at], dtype="<i8")
        return found | {"row": {"people": packed(at.tobytes()), "weights": packed(weights.tobytes())}}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> ToldRow:
        """The inverse; LogError for what is none."""
        try:
            scale, offset = Fraction(fields["scale"]), Fraction(fields["offset"])
            premise = Premise(str(fields["query"]), str(fields["sql"]), scale, offset, str(fields["of"]))
            n, row, follows = int(fields["people"]), fields["row"], bool(fields.get("follows"))
            if isinstance(row, str):
                return cls(str(fields["epoch"]), str(fields["column"]), premise, n, bits_of(row, n), follows)
            at, weights = (np.frombuffer(unpacked(row[k]), dtype="<i8").tolist() for k in ("people", "weights"))
            sparse = dict(zip(at, weights, strict=True))
            if any(not 0 <= k < n for k in sparse):
                raise ValueError("a person beyond the last")
            return cls(str(fields["epoch"]), str(fields["column"]), premise, n, sparse, follows)
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
            raise LogError(f"this is no row that was reported, or it is damaged: {type(error).__name__}") from None


@dataclass(frozen=True, slots=True, eq=False)
class Epochs:
    """What an auditor of a changing table needs beside its roster: who is who, and what was told.

    `people` has the key of each record of the roster, which is the latest epoch's; `told` the rows of all epochs in
    their order, those of the latest included if the auditor is to go on within it; `asked` how many statements were
    numbered before. Everything is checked here: the table's people, and that each row belongs to its epoch.
    """

    population: Population
    people: Sequence[bytes]
    told: tuple[ToldRow, ...] = ()
    changes: Changes = Changes.SECRET
    asked: int = 0
    numbers: Ints = field(init=False)  # of the person of each record
    same: bool = field(init=False)  # is every record the person of its own number?

    def __post_init__(self) -> None:
        if not self.population.epochs:
            raise ConfigError("no data version was opened yet")
        numbers = self.population.numbers(self.people)
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "same", np.array_equal(numbers, np.arange(self.population.n)))
        latest = 0
        for each in self.told:
            at = self.population.at(each.epoch)
            if at < latest or each.people > self.population.epochs[at].people:
                raise LogError(f"a row of data version {each.epoch!r} is out of place: the book is damaged")
            latest = at

    @property
    def count(self) -> int:
        """How many epochs were opened."""
        return len(self.population.epochs)

    @property
    def name(self) -> str:
        """The latest epoch."""
        return self.population.epochs[-1].name

    def checked(self, columns: Iterable[str]) -> None:
        """ConfigError if changes are public and some later epoch does not say who was written: nobody must be said."""
        if self.changes is Changes.PUBLIC:
            for epoch in self.population.epochs[1:]:
                silent = sorted(set(columns) - epoch.written.keys())
                if silent:
                    raise ConfigError(
                        f"changes are public, but version {epoch.name!r} does not say whose {silent[0]!r} was written: "
                        "give the log of changes (an empty one if nobody's was), or keep changes secret"
                    )

    def over(self, row: Words | Sparse, people: int | None = None) -> Words | Sparse:
        """A row over the records of the roster as a row over people; with `people`, one that is so already, widened."""
        n = self.population.n
        if people == n or (people is None and self.same):
            return row
        if not isinstance(row, np.ndarray):
            return row if people is not None else {int(self.numbers[k]): v for k, v in row.items()}
        wide = np.zeros(n, dtype=np.bool_)
        if people is not None:
            wide[:people] = unpack(row, people)
        else:
            wide[self.numbers] = unpack(row, len(self.numbers))
        return pack(wide)

    def space(self, column: str, insiders: int) -> tuple[RowsOfEpochs, list[Premise]]:
        """The row space that decides for a private column, everything told taken in; and what each of its rows is."""
        space = RowsOfEpochs(self, column, insiders)
        return space, [each.premise for each in self.told if each.column == column and space.take(each)]


class RowsOfEpochs:
    """The numerics of one private column over the epochs, asked with rows over people, answering with people.

    One epoch: `OnlineRowSpace`, as ever. Several: `DirectSum` if changes are secret, `VersionSpace` if they are public.
    """

    def __init__(self, epochs: Epochs, column: str, insiders: int) -> None:
        self._epochs = epochs
        self._current: list[Ints] | None = None
        self.inner: EpochSpace
        n = epochs.population.n
        if epochs.count == 1:
            self.inner = OnlineRowSpace(n, insiders=insiders)
        elif epochs.changes is Changes.SECRET:
            self.inner = DirectSum(n, insiders=insiders)
        else:
            owner, self._current = epochs.population.versions(column)
            self.inner = VersionSpace(owner, insiders=insiders)

    def __deepcopy__(self, memo: dict[int, Any]) -> RowsOfEpochs:
        twin = copy.copy(self)  # who is who is shared
        twin.inner = copy.deepcopy(self.inner, memo)
        return twin

    def take(self, told: ToldRow) -> bool:
        """A row told before; False if it follows from those before it, and so adds nothing."""
        row, at = self._epochs.over(told.row, told.people), self._epochs.population.at(told.epoch)
        if isinstance(self.inner, DirectSum) and at < self._epochs.count - 1:
            return self.inner.earlier(row)
        return self.inner.take(self._placed(row, at))

    def probe(self, query: Sparse | Words) -> Any:
        """What one more row of the latest epoch would do; changes nothing."""
        return self.inner.probe(self._placed(query, self._epochs.count - 1))

    def commit(self, decision: Any) -> int:
        """Take the row into the history."""
        return self.inner.commit(decision)

    def pass_over(self, decision: Any) -> None:
        """The work of `commit` for a row that follows from the history; it changes nothing."""
        self.inner.pass_over(decision)

    def certificate(self, decision: Any, record: int, insider: int | None = None) -> dict[int, Fraction] | None:
        """Exact weights over the committed rows, and the probed one."""
        return self.inner.certificate(decision, record, insider)

    def _placed(self, row: Words | Sparse, epoch: int) -> Words | Sparse:
        """A row over people as a row over the versions that they had in an epoch."""
        if self._current is None:
            return row
        latest, width = self._current[epoch], self.inner.n if isinstance(self.inner, VersionSpace) else 0
        if not isinstance(row, np.ndarray):
            return {int(latest[k]): v for k, v in row.items()}
        wide = np.zeros(width, dtype=np.bool_)
        wide[latest[np.flatnonzero(unpack(row, self._epochs.population.n))]] = True
        return pack(wide)
