"""`keyhole.open`: a table with its roles."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from keyhole.config import Config
from keyhole.config.arguments import ColumnArguments
from keyhole.config.settings import settings, with_private
from keyhole.datasets.open import Table, Use, open_table


def open(  # noqa: A001 - the verb
    data: object = None,
    *,
    config: Config | str | Path | None = None,
    **columns: Unpack[ColumnArguments],
) -> Table:
    """The table behind questions: checked as the custodian sees it, its public half apart from its secrets (`roster`).

    `data` is a path or a pandas, polars or Arrow frame; the other words are those of the command line.

    >>> import pyarrow as pa
    >>> staff = open(pa.table({"name": ["Ann", "Bob"], "pay": [10, 20]}), private="pay", id="name")
    >>> staff.roster.n, [str(column.role) for column in staff.roster.schema.columns]
    (2, ['id', 'private'])
    """
    given = settings(config, data=data, **columns)
    return open_table(with_private(given), Use.AUDIT)
