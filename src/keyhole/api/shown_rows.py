"""What an attack says of people's rows in other tables: who has such a row, proved or guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from keyhole.attacks.row_membership import guess_row_membership
from keyhole.auditing.people import in_words
from keyhole.datasets import Roster
from keyhole.gather.evidence import Evidence
from keyhole.solve.counting import Conflict

LISTED = 20_000  # conditions of people, the surest first


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A condition of somebody in words, and how likely it holds; None: not computed. Rows are numbered from 0."""

    label: Mapping[str, Any]
    rows: tuple[int, ...]
    form: str
    chance: float | None
    proved: bool

    @property
    def sure(self) -> float:
        """How likely the likelier of yes and no is."""
        return 0.5 if self.chance is None else max(self.chance, 1 - self.chance)

    def to_json(self) -> dict[str, Any]:
        """Plain data; rows count from 1."""
        chance = None if self.chance is None else float(f"{self.chance:.9g}")
        return {
            "record": dict(self.label),
            "rows": [r + 1 for r in self.rows],
            "form": self.form,
            "probability": chance,
            "proved": self.proved,
        }


def shown_rows(evidence: Evidence, people: Roster, warnings: list[str]) -> tuple[ShownRow, ...]:
    """Everything that counts of people tell of each, the surest first; what they cannot be used for is a warning."""
    counting = evidence.counting
    if counting is None:
        return ()
    try:
        found = list(guess_row_membership(counting, rng=np.random.default_rng(0)))
    except Conflict as conflict:
        names = ", ".join(sorted({counting.counts[i].number for i in conflict.counts}))
        warnings.append(f"queries {names} cannot all be true of the people there are: none of the counts is used")
        return ()
    open_ = sum(each.chance is None for each in found)
    if open_:
        warnings.append(
            f"{open_:,} conditions of people are tied by more than sums (several conditions, or several records of one "
            "person): only what counts prove of them is told"
        )
    told = [each for each in found if each.chance is not None]
    told.sort(key=lambda each: (not each.proved, -abs(float(each.chance or 0) - 0.5)))
    if len(told) > LISTED:
        warnings.append(f"{len(told):,} conditions of people are known or guessed: the {LISTED:,} surest are listed")
    told = told[:LISTED]
    labels = people.labels(np.array([each.rows[0] for each in told], dtype=np.int64)) if told else []
    shown: dict[tuple[object, ...], ShownRow] = {}  # by either key the same is known of somebody with one record
    for label, each in zip(labels, told, strict=True):
        words = in_words(each.leaf, True)
        row = ShownRow(label, each.rows, words, each.chance, each.proved)
        shown.setdefault((each.rows, words, each.chance, each.proved), row)
    return tuple(shown.values())
