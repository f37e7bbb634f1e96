"""The one door to the data: settings and a file to a `Table`; Query to rows, atoms, truth."""

from keyhole.datasets.load import load, load_roster
from keyhole.datasets.open import Table, Use, open_table
from keyhole.engines.base import AsWritten, Filling, GroupKey, MadeUp, PrivateValues, ProbeTable, Roster, Rows, Source
from keyhole.engines.duckdb.roster import DuckDBRoster
from keyhole.engines.duckdb.source import DuckDBSource

__all__ = [
    "AsWritten",
    "DuckDBRoster",
    "DuckDBSource",
    "Filling",
    "GroupKey",
    "MadeUp",
    "PrivateValues",
    "ProbeTable",
    "Roster",
    "Rows",
    "Source",
    "Table",
    "Use",
    "load",
    "load_roster",
    "open_table",
]
