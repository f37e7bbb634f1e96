"""Are these the values that a history or a ledger was made for? Digests of values under the custodian's key.

A plain digest of private values would be a secret itself: few values are possible, so whoever has it tries them all.
Hence HMAC-SHA256. Its key, 32 random bytes that only their owner can read, stands in a file of its own beside what it
guards (`history.keyhole.key`), is made once and never replaced: without it nobody could say whether values changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import duckdb

from keyhole.errors import ConfigError
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Column, Role, Schema

KEY_BYTES = 32
BATCH = 50_000

Seal: TypeAlias = Callable[[bytes], Mapping[str, str]]  # key -> digest of each private column that is at hand


def key_file(path: Path) -> Path:
    """Where the key of a file stands: beside it, wherever a link to it may be.

    >>> key_file(Path("history.keyhole")).name
    'history.keyhole.key'
    """
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}.key")


def read_key(path: Path) -> bytes | None:
    """The key that guards `path`, None if it was never made (or is lost)."""
    where = key_file(path)
    try:
        key = where.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read the key {where}: {error.strerror}") from None
    if len(key) != KEY_BYTES:
        raise ConfigError(f"the key {where} has {len(key)} bytes, not {KEY_BYTES}: restore it from a backup")
    return key


def make_key(path: Path) -> bytes:
    """The key that guards `path`; made now, durably and for its owner alone, if there is none."""
    found = read_key(path)
    if found is not None:
        return found
    where = key_file(path)
    try:
        handle, name = tempfile.mkstemp(dir=where.parent, prefix=f".{where.name}.")  # readable by its owner alone
        try:
            os.write(handle, secrets.token_bytes(KEY_BYTES))
            os.fsync(handle)
            with contextlib.suppress(FileExistsError):  # another process was faster: its key counts
                os.link(name, where)
        finally:
            os.close(handle)
            Path(name).unlink()
    except OSError as error:
        raise ConfigError(f"cannot write the key {where}: {error.strerror}") from None
    made = read_key(path)
    assert made is not None
    return made


def sealed(opened: Callable[[], duckdb.DuckDBPyConnection], schema: Schema, names: Sequence[str]) -> Seal:
    """A digest of each named private column of the table `everything`, which is opened when the key is known.

    Each value counts together with who has it (the id; without one, all that is public of the record), so the order of
    rows does not matter and an exchange of values does. Where an id is repeated all that is public of the record counts
    as well, and the private columns, if there are several, also together: of records that agree in all of it no
    question tells which is which. Cost: one pass, a SHA-256 a row and a sort, for each column.
    """
    ids, public = schema.of_role(Role.ID), [c for c in schema.of_role(Role.PUBLIC) if not c.computed]
    known = [*ids, *public] if schema.repeated or not ids else [*ids]

    @lru_cache(maxsize=1)
    def digests(key: bytes) -> Mapping[str, str]:
        con, columns = opened(), [c for c in schema.columns if c.name in names]
        found = {c.name: digest(con, [*known, c], key) for c in columns}
        if schema.repeated and len(columns) > 1:  # one record's cost with another one's stay, both of one person
            found[", ".join(sorted(c.name for c in columns))] = digest(con, [*known, *columns], key)
        return MappingProxyType(found)

    return digests


def digest(con: duckdb.DuckDBPyConnection, columns: Sequence[Column], key: bytes) -> str:
    """HMAC-SHA256 of the rows of `everything`, of these columns, as a multiset; 64 hex digits.

    Equal iff rows are (up to a collision of SHA-256), whatever their order. A number counts by its value, not by its
    spelling or type: 40, 40.0 and 40.00 are equal.
    """
    ordered = sorted(columns, key=lambda c: c.name)
    parts = [f"coalesce(length({_text(c)}) || ':' || {_text(c)}, '-')" for c in ordered]
    line = f"sha256(concat_ws(',', {', '.join(parts)}))" if parts else "sha256('')"
    mac = hmac.new(key, json.dumps([c.name for c in ordered]).encode(), hashlib.sha256)
    found = con.execute(f"SELECT {line} AS line FROM everything ORDER BY line")
    while rows := found.fetchmany(BATCH):
        mac.update("".join(row[0] for row in rows).encode())
    return mac.hexdigest()


def _text(column: Column) -> str:
    text = f"{quote_name(column.name)}::VARCHAR"
    if not column.kind.numeric:
        return text
    whole = f"contains({text}, '.') AND NOT contains({text}, 'e')"  # not 1.5e+20, whose zeros count
    return f"CASE WHEN {whole} THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"
