"""Values of a text file that are written in two ways and would be read as one: `1e3` and `1000`, `t` and `true`.

What a database exports from a column of numbers or truth values is written in one way; where it is not, the texts are
codes or names, and reading them as numbers would make one person of two, or one group.
"""

from __future__ import annotations

from collections.abc import Collection

import duckdb

from keyhole.config import Columns
from keyhole.datasets.faults import type_of
from keyhole.datasets.files.csv_layout import with_texts
from keyhole.engines.duckdb.roster import first
from keyhole.model.predicate import quote_name


def written_alike(
    con: duckdb.DuckDBPyConnection, origin: str, roles: Columns, known: Collection[str]
) -> dict[str, str]:
    """The columns that are text, for this reason, as kinds: ids, and public columns of truth values or with exponents.

    `origin` is the `read_csv` that `loaded` was read with. Private columns are left alone: nobody is told apart by
    them here. Cost: the file is read once more if such a column is there.
    """
    names = [str(row[0]) for row in con.execute("SELECT column_name FROM (DESCRIBE loaded)").fetchall()]
    kinds = {name: type_of(con, name) for name in names if name not in {*known, *roles.private, *roles.hidden}}
    suspects = [
        name
        for name, kind in kinds.items()
        if (name in roles.id and kind not in ("VARCHAR", "BIGINT")) or kind in ("BOOLEAN", "DOUBLE")
    ]
    if not suspects:
        return {}
    texts = with_texts(origin, suspects)
    tests = [_merges(name, kinds[name], name in roles.id) for name in suspects]
    found = first(con, f"SELECT {', '.join(tests)} FROM {texts}") or ()
    return {name: "text" for name, merged in zip(suspects, found, strict=True) if merged}


def _merges(name: str, kind: str, names_people: bool) -> str:
    """Are there fewer values than texts? Of public numbers: and an exponent among the texts."""
    text = f"trim({quote_name(name)})"
    fewer = f"count(DISTINCT {text}) > count(DISTINCT TRY_CAST({text} AS {kind}))"
    rough = kind == "DOUBLE" and not names_people
    return f"{fewer} AND bool_or(contains(lower({text}), 'e'))" if rough else fewer
