"""Is this the table the history was made for? A digest of the public half, independent of the order of its rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from keyhole.engines.duckdb.roster import DuckDBRoster, first
from keyhole.model.predicate import held_as, quote_name
from keyhole.model.schema import Related, Role


def fingerprint(roster: DuckDBRoster) -> str:
    """A digest of columns, roles and all public content (of private columns only who has none), as 32 hex digits.

    Nothing of a private value enters it. Two rosters that differ anywhere in public differ here, up to a chance of
    2^-64 a pair; rows may come in any order. Cost: one pass of the engine with an MD5 a row.

    >>> import pyarrow as pa
    >>> from keyhole.config import Columns
    >>> from keyhole.datasets import load
    >>> roles = Columns.checked({"private": {"pay": {}}})
    >>> one = load(pa.table({"dept": ["a", "b"], "pay": [1, 2]}), roles)
    >>> two = load(pa.table({"dept": ["b", "a"], "pay": [3, 4]}), roles)
    >>> fingerprint(one) == fingerprint(two)
    True
    """
    private = [c for c in roster.schema.columns if c.role is Role.PRIVATE]
    held = [c for c in roster.schema.columns if not c.secret] + [c for c in private if c.nullable]
    found = first(roster._con, f"SELECT {_sums([c.name for c in held])} FROM people")
    columns = [(c.name, "" if c.secret else str(c.kind), str(c.role)) for c in roster.schema.columns]
    told: list[Any] = [columns, roster.n, list(found or ())]
    beside = [r for r in roster.schema.related if not r.dimension and not r.secret]  # public conditions look at them
    if beside:
        told.append([_rows(roster, each) for each in beside])
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


def _rows(roster: DuckDBRoster, each: Related) -> list[Any]:
    """What is public of the rows of another table."""
    names = [c.name for c in each.columns if not c.secret]
    return [each.name, names, list(first(roster._con, f"SELECT {_sums(names)} FROM {held_as(each.name)}") or ())]


def _sums(names: Sequence[str]) -> str:
    """Two sums over all rows of an MD5 of these columns."""
    parts = [f"coalesce(length({_text(name)}) || ':' || {_text(name)}, '-')" for name in names]
    line = f"md5(concat_ws(',', {', '.join(parts)}))" if parts else "md5('')"
    halves = (f"coalesce(sum(('0x' || substr({line}, {at}, 15))::BIGINT::HUGEINT), 0)::VARCHAR" for at in (1, 16))
    return ", ".join(halves)


def _text(name: str) -> str:
    return f"{quote_name(name)}::VARCHAR"
