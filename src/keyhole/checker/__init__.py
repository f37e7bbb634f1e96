"""The proof checker: takes a verdict, the data and, if there is one, the log, and replays every proof.

It uses the standard library and DuckDB, and nothing of keyhole: whoever does not trust the auditor can read this folder
alone, copy it elsewhere and run `python -m checker verdict.json --data FILE`. It fills the private columns with made-up
values, runs the *original statements* on them in the engine, and looks whether the proof gives the made-up value of
that person. So it depends on no reading of SQL. It checks what is claimed, not that nobody is missing.
"""

from __future__ import annotations

from .claims import Claimed, Unreadable
from .replay import Outcome, Replay, replay

__all__ = ["Claimed", "Outcome", "Replay", "Unreadable", "replay"]
