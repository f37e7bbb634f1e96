"""What stands behind the numbers of a proof: rows and queries by number, looked up instead of searched for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keyhole.evidence import Evidence, Row
from keyhole.transcript import Entry


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """`rows[s][number]` is a row of system s, `entries[number]` the query with its answer.

    Cost: one pass over the evidence, once; then a proof is read in as many steps as it names queries.
    """

    rows: tuple[Mapping[str, Row], ...]
    entries: Mapping[str, Entry]

    @classmethod
    def of(cls, evidence: Evidence) -> Index:
        """Of all rows of all systems and all entries of the transcript."""
        return cls(
            tuple({row.number: row for row in system.rows} for system in evidence.systems),
            {entry.number: entry for entry in evidence.transcript.entries},
        )
