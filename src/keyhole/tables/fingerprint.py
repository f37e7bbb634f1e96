"""Is this the table the history was made for? A digest of the public half, independent of the order of its rows."""

from __future__ import annotations

import hashlib
import json

from keyhole.predicate import quote_name
from keyhole.schema import Role
from keyhole.tables.duckdb.roster import DuckDBRoster, first


def fingerprint(roster: DuckDBRoster) -> str:
    """A digest of columns, roles and all public content (of private columns only who has none), as 32 hex digits.

    Nothing of a private value enters it. Two rosters that differ anywhere in public differ here, up to a chance of
    2^-64 a pair; rows may come in any order. Cost: one pass of the engine with an MD5 a row.

    >>> import pyarrow as pa
    >>> from keyhole.knowledge import Columns
    >>> from keyhole.tables import load
    >>> roles = Columns.checked({"private": {"pay": {}}})
    >>> one = load(pa.table({"dept": ["a", "b"], "pay": [1, 2]}), roles)
    >>> two = load(pa.table({"dept": ["b", "a"], "pay": [3, 4]}), roles)
    >>> fingerprint(one) == fingerprint(two)
    True
    """
    private = [c for c in roster.schema.columns if c.role is Role.PRIVATE]
    held = [c for c in roster.schema.columns if not c.secret] + [c for c in private if c.nullable]
    parts = [f"coalesce(length({_text(c.name)}) || ':' || {_text(c.name)}, '-')" for c in held]
    line = f"md5(concat_ws(',', {', '.join(parts)}))" if parts else "md5('')"
    halves = ", ".join(
        f"coalesce(sum(('0x' || substr(line, {at}, 15))::BIGINT::HUGEINT), 0)::VARCHAR" for at in (1, 16)
    )
    found = first(roster._con, f"SELECT {halves} FROM (SELECT {line} AS line FROM people)")
    columns = [(c.name, "" if c.secret else str(c.kind), str(c.role)) for c in roster.schema.columns]
    text = json.dumps([columns, roster.n, list(found or ())])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _text(name: str) -> str:
    return f"{quote_name(name)}::VARCHAR"
