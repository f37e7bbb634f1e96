"""Query -> rows, atoms, truth: the engines."""

from keyhole.sources.base import GroupKey, PrivateValues, Roster, Rows, Source
from keyhole.sources.duckdb import DuckDBRoster, DuckDBSource
from keyhole.sources.duckdb_load import load, load_roster

__all__ = [
    "DuckDBRoster",
    "DuckDBSource",
    "GroupKey",
    "PrivateValues",
    "Roster",
    "Rows",
    "Source",
    "load",
    "load_roster",
]
