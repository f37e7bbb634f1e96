"""What stands behind the numbers of a proof: constraints and queries by number, looked up instead of searched for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keyhole.gather.evidence import Constraint, Evidence
from keyhole.model.transcript import Entry


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """`constraints[s][number]` is one of system s, `entries[number]` the query with its answer.

    Cost: one pass over the evidence, once; then a proof is read in as many steps as it names queries.
    """

    constraints: tuple[Mapping[str, Constraint], ...]
    entries: Mapping[str, Entry]

    @classmethod
    def of(cls, evidence: Evidence) -> Index:
        """Of all constraints of all systems and all entries of the transcript."""
        return cls(
            tuple({row.number: row for row in system.constraints} for system in evidence.systems),
            {entry.number: entry for entry in evidence.transcript.entries},
        )
