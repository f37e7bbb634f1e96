"""`keyhole.open`: a table with its roles."""

from __future__ import annotations

from pathlib import Path

from keyhole.config import Config
from keyhole.config.settings import Names, settings, with_private
from keyhole.datasets.open import Table, Use, open_table


def open(  # noqa: A001 - the verb
    data: object = None,
    *,
    private: Names = (),
    id: Names = (),  # noqa: A002 - the word of the contract
    hidden: Names = (),
    table: str | None = None,
    view: str | None = None,
    config: Config | str | Path | None = None,
) -> Table:
    """The table behind questions: checked as the custodian sees it, its public half apart from its secrets (`roster`).

    `data` is a path or a pandas, polars or Arrow frame; the other words are those of the command line.

    >>> import pyarrow as pa
    >>> staff = open(pa.table({"name": ["Ann", "Bob"], "pay": [10, 20]}), private="pay", id="name")
    >>> staff.roster.n, [str(column.role) for column in staff.roster.schema.columns]
    (2, ['id', 'private'])
    """
    given = settings(config, data=data, table=table, view=view, private=private, id=id, hidden=hidden)
    return open_table(with_private(given), Use.AUDIT)
