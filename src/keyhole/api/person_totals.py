"""What an attack says of people with several records: the total of each, and whether it is certain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Measure, Reconstruction, Target
from keyhole.auditing.base import Finding, Status
from keyhole.datasets import Roster
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Role


@dataclass(frozen=True, slots=True)
class PersonTotal:
    """The total of a column over a person's records (numbered from 0).

    The standard error is at most `error`: that of a sum is at most the sum of those of its parts. `certain`: the total
    follows from exact answers, though no record of his need.
    """

    label: Mapping[str, Any]
    column: str
    rows: tuple[int, ...]
    total: float
    error: float
    certain: bool

    def to_json(self) -> dict[str, Any]:
        """Plain data; rows count from 1, an error that is not known is None."""
        return {
            "record": dict(self.label),
            "column": self.column,
            "rows": [r + 1 for r in self.rows],
            "total": float(f"{self.total:.12g}"),
            "confidence": float(f"{self.error:.12g}") if np.isfinite(self.error) else None,
            "certain": self.certain,
        }


def owners(people: Roster) -> NDArray[np.int64] | None:
    """Whose each record is; None where every record is another person's."""
    if not people.schema.repeated:
        return None
    return people.classes([quote_name(c.name) for c in people.schema.of_role(Role.ID)])


def person_totals(
    people: Roster, target: Target, found: Reconstruction, proved: Sequence[Finding]
) -> Iterator[PersonTotal]:
    """Of everybody with several records that have a value; `proved` are sums over one person's records.

    Where guesses have probabilities instead of errors: of those alone whose total is proved.
    """
    owner = owners(people)
    if owner is None or found.values.dtype == object:
        return
    errors = found.measure is Measure.STANDARD_ERROR
    known = {f.rows: float(str(f.value)) for f in proved if _total(f, target.column)}
    value = ~np.isnan(found.values)
    order = np.argsort(owner, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(owner[order])) + 1):
        mine = rows[value[rows]]
        if len(mine) < 2:
            continue
        at = tuple(np.sort(mine).tolist())
        error = float(found.confidence[mine].sum())
        sure = at in known or (errors and error == 0)
        if not (sure or errors):
            continue
        total = known.get(at, float(found.values[mine].sum()))
        (label,) = people.labels(mine[:1])
        yield PersonTotal(label, target.column, at, total, 0.0 if sure else error, sure)


def _total(finding: Finding, column: str) -> bool:
    """Is it the plain sum over its records, and known?"""
    if finding.column != column or finding.status is not Status.EXPOSED or finding.proof is None or not finding.rows:
        return False
    return finding.value is not None and set(finding.proof.target.values()) == {1}
