"""Everybody who was ever in a table that changes: persons as opaque keys, numbered by first appearance.

A key is the HMAC of an id under a key that is the custodian's, so that no id needs to be stored. An epoch is stored as
what it adds: new keys, who is present, whose private values were written.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.online.packed import bits_of, packed, packed_bits, unpacked
from keyhole.basis.bits import Words, pack, unpack
from keyhole.datasets import Roster
from keyhole.errors import ConfigError, LogError
from keyhole.model.predicate import Scalar
from keyhole.model.schema import Role

Ints: TypeAlias = NDArray[np.int64]

KEY_BYTES = 16  # of a person: two of 10^6 people are equal by chance once in 10^26


def person_keys(roster: Roster, key: bytes) -> tuple[bytes, ...]:
    """A key for each record: the HMAC of its id, equal across epochs iff the id is. Cost: one pass of the engine.

    A number counts by its value, not by its type: 7, 7.0 and '7' are one id. Raises ConfigError without an id, or for
    an id that is NULL: such people could not be found again.
    """
    if not roster.schema.of_role(Role.ID):
        raise ConfigError("people are matched across versions by their id: declare one ([columns] id)")
    signed = roster.sign_ids(key)
    if signed is None:
        return tuple(id_key(label.values(), key) for label in roster.labels(np.arange(roster.n)))
    return tuple(mac[:KEY_BYTES] for mac in signed)


def id_key(values: Iterable[Scalar | None], key: bytes) -> bytes:
    """The key of the person with this id."""
    text = "".join(f"{len(part)}:{part}" for part in map(_spelled, values)).encode()
    return hmac.digest(key, text, "sha256")[:KEY_BYTES]


def _spelled(value: Scalar | None) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        raise ConfigError("an id is NULL: whose record it is in the next version could not be known")
    if isinstance(value, int | float | Decimal):
        return str(Fraction(value))
    return str(value)


@dataclass(frozen=True, slots=True, eq=False)
class Epoch:
    """A frozen state of the table, as differences from the ones before it. Made by `Population.opened`.

    `added`: keys of people never seen before, who get the next numbers. `present`: who has a record, as bits over all
    people so far. `written`: by private column, whose value was written since the epoch before; empty where changes
    are secret. `mark` is a digest of all keys so far, in their order: rows of another numbering are noticed.
    """

    name: str
    added: tuple[bytes, ...]
    people: int  # so far, those of this epoch included
    present: Words
    written: Mapping[str, Words]
    mark: str

    def to_json(self) -> dict[str, Any]:
        """Plain data; bits and keys are zlib-compressed and written in base64."""
        return {
            "epoch": self.name,
            "people": self.people,
            "added": packed(b"".join(self.added)),
            "present": packed_bits(self.present, self.people),
            "written": {name: packed_bits(bits, self.people) for name, bits in sorted(self.written.items())},
            "mark": self.mark,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Epoch:
        """The inverse; LogError for what is none."""
        try:
            n, raw = int(fields["people"]), unpacked(fields["added"])
            added = tuple(raw[k : k + KEY_BYTES] for k in range(0, len(raw), KEY_BYTES))
            written = {str(name): bits_of(text, n) for name, text in fields["written"].items()}
            return cls(str(fields["epoch"]), added, n, bits_of(fields["present"], n), written, str(fields["mark"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LogError(f"this is no data version, or it is damaged: {type(error).__name__}") from None


class Population:
    """Everybody who was ever in the table, numbered by first appearance.

    >>> first = Population().opened("1", [b"a" * 16, b"b" * 16])
    >>> both = Population([first])
    >>> later = both.opened("2", [b"c" * 16, b"b" * 16], {"pay": [b"b" * 16]})
    >>> grown = Population([Epoch.from_json(e.to_json()) for e in (first, later)])
    >>> grown.n, grown.numbers([b"c" * 16, b"b" * 16]).tolist(), grown.versions("pay")[0].tolist()
    (3, [2, 1], [0, 1, 1, 2])
    """

    def __init__(self, epochs: Iterable[Epoch] = ()) -> None:
        self.epochs = tuple(epochs)
        self.keys: list[bytes] = []
        for epoch in self.epochs:
            self.keys += epoch.added
            if len(self.keys) != epoch.people or _mark(self.keys) != epoch.mark:
                raise LogError(f"version {epoch.name!r} does not go on from those before it: one is missing or damaged")
        self._number = {key: k for k, key in enumerate(self.keys)}
        if len(self._number) != len(self.keys):
            raise LogError("a person was added twice: the data versions are damaged")

    @property
    def n(self) -> int:
        """How many people there were in all."""
        return len(self.keys)

    def opened(self, name: str, people: Sequence[bytes], written: Mapping[str, Iterable[bytes]] | None = None) -> Epoch:
        """The next epoch: `people` has the key of each record; `written` whose value was written, by private column.

        `written` comes from write events, never from comparing values, and only where changes are public.
        """
        if any(epoch.name == name for epoch in self.epochs):
            raise ConfigError(f"version {name!r} was opened before: a change of data is a new version")
        if not people:
            raise ConfigError(f"version {name!r} has no records")
        _each_once(people)
        added = tuple(key for key in people if key not in self._number)
        if any(len(key) != KEY_BYTES for key in added):
            raise ConfigError(f"a person's key has {KEY_BYTES} bytes")
        keys = [*self.keys, *added]
        number = self._number | {key: self.n + k for k, key in enumerate(added)}
        marked = {}
        for column, wrote in (written or {}).items():
            listed = set(wrote)
            if not listed <= number.keys():
                raise ConfigError(f"somebody whose {column!r} was written was never in the table")
            marked[column] = _bits([number[key] for key in listed], len(keys))
        return Epoch(name, added, len(keys), _bits([number[k] for k in people], len(keys)), marked, _mark(keys))

    def numbers(self, people: Sequence[bytes]) -> Ints:
        """The number of the person of each record of the latest epoch; ConfigError if these are other people."""
        _each_once(people)
        found = np.array([self._number.get(key, -1) for key in people], dtype=np.int64)
        present = unpack(self.epochs[-1].present, self.n)
        if len(found) != int(present.sum()) or not present[found].all() or (found < 0).any():
            raise ConfigError(
                f"the people of the table are not those of version {self.epochs[-1].name!r}: other data are a new one"
            )
        return found

    def at(self, name: str) -> int:
        """The place of an epoch."""
        for k, epoch in enumerate(self.epochs):
            if epoch.name == name:
                return k
        raise LogError(f"version {name!r} was never opened")

    def versions(self, column: str) -> tuple[Ints, list[Ints]]:
        """(owner of each version of a private column, for each epoch the version of each person so far).

        A value that nobody wrote keeps its version, wherever its owner was meanwhile.
        """
        owner, latest = [np.zeros(0, dtype=np.int64)], np.zeros(0, dtype=np.int64)
        found, count = [], 0
        for epoch in self.epochs:
            known = len(latest)
            fresh = np.zeros(epoch.people, dtype=bool)
            if column in epoch.written:
                fresh = unpack(epoch.written[column], epoch.people).copy()
            fresh[known:] = True
            latest = np.append(latest, np.zeros(epoch.people - known, dtype=np.int64))
            who = np.flatnonzero(fresh)
            latest[who] = count + np.arange(len(who))
            count += len(who)
            owner.append(who)
            found.append(latest.copy())
        return np.concatenate(owner), found


def _bits(numbers: list[int], n: int) -> Words:
    mask = np.zeros(n, dtype=np.bool_)
    mask[numbers] = True
    return pack(mask)


def _mark(keys: list[bytes]) -> str:
    return hashlib.sha256(b"".join(keys)).hexdigest()


def _each_once(people: Sequence[bytes]) -> None:
    if len(set(people)) != len(people):
        raise ConfigError("two records have one id: people are matched across versions by it, so it must be unique")
