"""A log of SQL as a stream of counting questions over declared columns, for comparing mechanisms."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from keyhole.basis.cells.domain import Domain
from keyhole.basis.cells.numbers import Cuts
from keyhole.config import Columns
from keyhole.defence.load import asking_schema
from keyhole.defence.planner.asks import AskedStatement, asked
from keyhole.defence.planner.columns import CutAxis, Partitions
from keyhole.defence.planner.laid import lay
from keyhole.defence.planner.ways import cuts_of
from keyhole.defence.simulate.release_workloads import Masks, TrueMargins, Workload, made_up_people
from keyhole.defence.tables.noisy_tables import COUNT
from keyhole.errors import ConfigError, KeyholeError
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql import lower


def declared_schema(roles: Columns, table: str) -> Schema:
    """The columns of a declaration, without a table: kinds are declared or implied."""
    found = [Column(name, Kind(c.implied()), Role.PRIVATE) for name, c in roles.private.items()]
    found += [Column(name, Kind(c.implied())) for name, c in roles.public.items() if c.has_kind]
    return Schema(table, tuple(found))


def log_workload(statements: Sequence[str], roles: Columns, n: int, seed: int) -> tuple[Workload, int]:
    """The counts of a log (every group of a GROUP BY is one), over made-up people; and how many statements are no
    counts under a product of conditions, and were left out.

    >>> from keyhole.config import PublicColumn
    >>> roles = Columns(public={"sex": PublicColumn(values=("F", "M"), missing="F")})
    >>> made, left = log_workload(["SELECT sex, COUNT(*) FROM t GROUP BY sex", "SELECT SUM(x) FROM t"], roles, 100, 0)
    >>> len(made.stream), left
    (2, 1)
    """
    schema = declared_schema(roles, "t")
    columns = Partitions.declared(roles, schema)
    reading = asking_schema(schema, Domain(tuple(columns.columns.values())))
    read: list[AskedStatement] = []
    for sql in statements:
        try:
            found = asked(lower(sql, reading), columns)
        except KeyholeError:
            continue
        if all(w.kind == "linear" and set(w.sums) == {COUNT} and len(w.conditions) == 1 for w in found.wanted):
            read.append(found)
    axes = _axes(read, columns)
    names = tuple(sorted(axes))
    sizes = {name: axes[name].size for name in names}
    pool: dict[Masks, int] = {}
    stream = []
    used = 0
    for question in read:
        masks = [m for m in _masks(question, axes, names, columns) if any(m)]
        used += 1
        stream += [pool.setdefault(mask, len(pool)) for mask in masks]
    if not stream:
        raise ConfigError("the log has no count under conditions on declared columns")
    people = made_up_people(sizes, n, np.random.default_rng(seed))
    made = Workload(
        "sql log", sizes, TrueMargins(names, tuple(sizes.values()), people), list(pool), np.array(stream), n
    )
    return made, len(statements) - used


def _axes(read: Sequence[AskedStatement], columns: Partitions) -> dict[str, CutAxis]:
    cuts: dict[str, set[int]] = {}
    for question in read:
        for wanted, keys in question.parts:
            for name, found in cuts_of(wanted, [column for _, column in keys], columns).items():
                cuts.setdefault(name, set()).update(found)
    made = {}
    for name, found in cuts.items():
        column = columns.of(name)
        made[name] = CutAxis.of(column.at(found) if isinstance(column, Cuts) else column)
    return made


def _masks(
    question: AskedStatement, axes: dict[str, CutAxis], names: Sequence[str], columns: Partitions
) -> list[Masks]:
    """The values that each number of a statement keeps, column by column; 0 where all are kept."""
    found: list[Masks] = []
    for wanted, keys in question.parts:
        over = [column for _, column in keys]
        used = cuts_of(wanted, over, columns)
        laid = lay(wanted, over, [axes[name] for name in used])
        if laid.count.vectors is None or laid.sums[COUNT].factor != Fraction(1):
            continue
        vectors = {axis.column.name: v for axis, v in zip(laid.axes, laid.count.vectors, strict=True)}
        for group in np.ndindex(*(len(axes[name].column.keys()) for name in over)):
            at = dict(zip(over, group, strict=True))
            kept = {name: [k for k, v in enumerate(vector) if v and at.get(name, k) == k]
                    for name, vector in vectors.items()}  # fmt: skip
            if not all(kept.values()):
                continue  # what is about nobody is public
            whole = {name for name, cells in kept.items() if len(cells) == axes[name].size}
            found.append(
                tuple(0 if name not in kept or name in whole else sum(1 << k for k in kept[name]) for name in names)
            )
    return found
