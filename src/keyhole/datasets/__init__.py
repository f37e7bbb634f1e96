"""The one door to the data: settings and a file to a `Table`; Query to rows, atoms, truth."""

from keyhole.datasets.load import load, load_roster
from keyhole.datasets.open import Table, Use, open_table
from keyhole.engines.base import (
    AsWritten,
    Filling,
    GroupKey,
    MadeUp,
    PrivateTotal,
    PrivateValues,
    ProbeTable,
    Roster,
    Rows,
    Source,
)

__all__ = [
    "AsWritten",
    "Filling",
    "GroupKey",
    "MadeUp",
    "PrivateTotal",
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
