"""Whom a fact of the settings speaks of: told by id and public columns alone.

The public half of a table holds marks in place of private values, so a private column in `where` would be judged on the
marks. The engine's own parser finds every column that is named, in a subexpression, a function or a subquery too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb

from keyhole.config import Config
from keyhole.errors import ConfigError
from keyhole.model.schema import fold_name


def check_public_facts(config: Config) -> None:
    """Refuse a fact whose `where` names a private or hidden column, of the people or of another table.

    Nothing is looked at but the settings. Cost: one parse for each fact.

    >>> check_public_facts(Config.parse('[columns.private.pay]\\n[[facts]]\\nwhere = "\\\\"PAY\\\\" < 75"\\nmax = 75'))
    Traceback (most recent call last):
    ...
    keyhole.errors.ConfigError: fact 1: where names pay, which is private: a fact says of whom it speaks by id and \
public columns only; put what is known of pay into min, max, equals, sum_min or sum_max
    """
    if not config.facts:
        return
    barred = _barred(config)
    for number, fact in enumerate(config.facts, 1):
        for name in named_columns(fact.where):
            role, known = barred.get(fold_name(name), ("", ""))
            if role:
                raise ConfigError(not_public(number, known, role))


def not_public(number: int, column: str, role: str) -> str:
    """What is wrong with a fact, and what to do."""
    instead = "put" if role == "private" else "leave it out, and put"
    about = column if role == "private" else "a private column"
    return (
        f"fact {number}: where names {column}, which is {role}: a fact says of whom it speaks by id and public columns "
        f"only; {instead} what is known of {about} into min, max, equals, sum_min or sum_max"
    )


def named_columns(where: str) -> tuple[str, ...]:
    """Every column that a condition names, as it is spelt there; none where it is no SQL, which is refused later.

    >>> named_columns("coalesce(p.\\"PAY\\", 0) > 3 AND born > DATE '2020-01-01'")
    ('PAY', 'born')
    """
    with duckdb.connect(":memory:") as con:
        row = con.execute("SELECT json_serialize_sql(?)", [f"SELECT 1 FROM t WHERE {where}"]).fetchone()
    tree: Any = json.loads(row[0]) if row is not None else {}
    return tuple(dict.fromkeys(_references(tree)))


def _references(node: object) -> Iterator[str]:
    """Every part of a dotted name but a table's: what stands before the dot may be one, or a column of records."""
    if isinstance(node, dict):
        if node.get("class") == "COLUMN_REF":
            parts = [str(part) for part in node["column_names"]]
            yield from parts[1:] if len(parts) > 1 else parts
        for child in node.values():
            yield from _references(child)
    elif isinstance(node, list):
        for child in node:
            yield from _references(child)


def _barred(config: Config) -> dict[str, tuple[str, str]]:
    """Private and hidden columns by their folded name."""
    columns = config.columns
    barred = {fold_name(n): ("hidden", n) for n in columns.hidden} | {
        fold_name(n): ("private", n) for n in columns.private
    }
    public = {fold_name(n) for n in (*columns.id, *columns.public)}
    for roles in config.tables.values():
        private = roles.private if isinstance(roles.private, tuple) else ()
        for role, names in (("hidden", roles.hidden), ("private", private)):
            barred |= {fold_name(n): (role, n) for n in names if fold_name(n) not in public}
    return barred
