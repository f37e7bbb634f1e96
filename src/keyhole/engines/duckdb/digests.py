"""Digests of a table: of its public half for anybody, of its values under the owner's key.

A plain digest of private values would be a secret itself: few values are possible, so whoever has it tries them all.
Hence HMAC-SHA256 for these. A digest of the public half needs no key. The order of the rows never matters.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import duckdb

from keyhole.engines.base import Seal
from keyhole.engines.duckdb.connections import fetch_first
from keyhole.model.predicate import name_held_table, quote_name
from keyhole.model.schema import Column, Role, Schema

BATCH = 50_000


def digest_public_half(con: duckdb.DuckDBPyConnection, schema: Schema, n: int) -> str:
    """A digest of columns, roles and all public content (of private columns only who has none), as 32 hex digits.

    `con` holds `people` and what is public of the other tables. Nothing of a private value enters the digest. Two
    tables that differ anywhere in public differ here, up to a chance of 2^-64 a pair; rows may come in any order.
    Cost: one pass of the engine with an MD5 a row.

    >>> import pyarrow as pa
    >>> from keyhole.config import Columns
    >>> from keyhole.datasets import load
    >>> roles = Columns.checked({"private": {"pay": {}}})
    >>> one = load(pa.table({"dept": ["a", "b"], "pay": [1, 2]}), roles)
    >>> two = load(pa.table({"dept": ["b", "a"], "pay": [3, 4]}), roles)
    >>> one.fingerprint() == two.fingerprint()
    True
    """

    def sums(names: Sequence[str], table: str) -> list[Any]:
        """Two sums over all rows of an MD5 of these columns."""
        line = _row_text([f"{quote_name(name)}::VARCHAR" for name in names], "md5")
        halves = (f"coalesce(sum(('0x' || substr({line}, {at}, 15))::BIGINT::HUGEINT), 0)::VARCHAR" for at in (1, 16))
        return list(fetch_first(con, f"SELECT {', '.join(halves)} FROM {table}") or ())

    private = [c for c in schema.columns if c.role is Role.PRIVATE]
    in_people = [c for c in schema.columns if not c.secret] + [c for c in private if c.nullable]
    columns = [(c.name, "" if c.secret else str(c.kind), str(c.role)) for c in schema.columns]
    content: list[Any] = [columns, n, sums([c.name for c in in_people], "people")]
    beside = [r for r in schema.related if not r.dimension and not r.secret]  # public conditions look at them
    public = {r.name: [c.name for c in r.columns if not c.secret] for r in beside}
    if beside:
        content.append([[name, names, sums(names, name_held_table(name))] for name, names in public.items()])
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def seal_columns(opened: Callable[[], duckdb.DuckDBPyConnection], schema: Schema, names: Sequence[str]) -> Seal:
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
        by_column = {c.name: digest_rows(con, [*known, c], key) for c in columns}
        if schema.repeated and len(columns) > 1:  # one record's cost with another one's stay, both of one person
            by_column[", ".join(sorted(c.name for c in columns))] = digest_rows(con, [*known, *columns], key)
        return MappingProxyType(by_column)

    return digests


def digest_rows(con: duckdb.DuckDBPyConnection, columns: Sequence[Column], key: bytes) -> str:
    """HMAC-SHA256 of the rows of `everything`, of these columns, as a multiset; 64 hex digits.

    Equal iff rows are (up to a collision of SHA-256), whatever their order. A number counts by its value, not by its
    spelling or type: 40, 40.0 and 40.00 are equal.
    """
    ordered = sorted(columns, key=lambda c: c.name)
    line = _row_text([_plain_text(c) for c in ordered], "sha256")
    mac = hmac.new(key, json.dumps([c.name for c in ordered]).encode(), hashlib.sha256)
    cursor = con.execute(f"SELECT {line} AS line FROM everything ORDER BY line")
    while rows := cursor.fetchmany(BATCH):
        mac.update("".join(row[0] for row in rows).encode())
    return mac.hexdigest()


def _row_text(texts: Sequence[str], digest: str) -> str:
    """The digest of a row, from its cells as text; each with its length, so no two rows are written alike."""
    parts = [f"coalesce(length({text}) || ':' || {text}, '-')" for text in texts]
    return f"{digest}(concat_ws(',', {', '.join(parts)}))" if parts else f"{digest}('')"


def _plain_text(column: Column) -> str:
    """A cell as text; a number without the zeros behind its point."""
    text = f"{quote_name(column.name)}::VARCHAR"
    if not column.kind.numeric:
        return text
    whole = f"contains({text}, '.') AND NOT contains({text}, 'e')"  # not 1.5e+20, whose zeros count
    return f"CASE WHEN {whole} THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"
