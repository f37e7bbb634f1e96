"""Which record is meant, where a person has several: by its row."""

from __future__ import annotations

import numpy as np

from keyhole.datasets import Roster
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Role


class RecordNames:
    """Says the row of a record beside the id that it shares with others. Cost: a pass over the ids, if any repeats."""

    def __init__(self, roster: Roster) -> None:
        self.repeated = roster.schema.repeated
        self._several = np.zeros(0, dtype=bool)
        if self.repeated:
            person = roster.classes([quote_name(column.name) for column in roster.schema.of_role(Role.ID)])
            self._several = (np.bincount(person + 1)[person + 1] > 1) & (person >= 0)  # -1: without an id

    def place(self, row: int) -> str:
        """` (row 5)` of the record in row 4 from 0; empty where its id names no other record."""
        return f" (row {row + 1})" if self.repeated and self._several[row] else ""
