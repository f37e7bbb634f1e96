"""The two files beside a transcript: the header of a roster (never its private values), and columns of the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from keyhole.errors import DataError
from keyhole.predicate import literal, quote_name

# all_varchar: looking at a header must not look at values to guess their types
HEADERS = {
    ".csv": "read_csv({}, all_varchar=true)",
    ".tsv": "read_csv({}, all_varchar=true, delim='\\t')",
    ".parquet": "read_parquet({})",
    ".json": "read_json({})",
    ".jsonl": "read_json({})",
}


def column_names(path: Path) -> list[str]:
    """The columns of a file, from its header.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_text("a,b\\n1,2\\n")
    ...     column_names(Path(folder, "t.csv"))
    ['a', 'b']
    """
    return [str(d[0]) for d in _query(path, "SELECT * FROM {} LIMIT 0", HEADERS).description or []]


def read_columns(path: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Some columns of a file, row by row, numbers as decimals where the file has decimals."""
    there = column_names(path)
    for name in names:
        if name not in there:
            raise DataError(f"{path} has no column {name!r}; it has {', '.join(there)}")
    listed = ", ".join(quote_name(name) for name in names)
    readers = {suffix: text.replace(", all_varchar=true", "") for suffix, text in HEADERS.items()}
    return _query(path, f"SELECT {listed} FROM {{}}", readers).fetchall()


def _query(path: Path, text: str, readers: dict[str, str]) -> duckdb.DuckDBPyConnection:
    if not path.exists():
        raise DataError(f"there is no file {path}")
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"cannot read {path.name}: write a .csv, .tsv, .parquet or .json file")
    try:
        return duckdb.connect(":memory:").execute(text.format(reader.format(literal(str(path)))))
    except duckdb.Error as error:
        raise DataError(f"cannot read {path.name}: {str(error).splitlines()[0]}") from None
