"""The classical rules on a log: does each answer have enough contributors, and does none of them dominate it?

Threshold, dominance and p % look at one answer at a time, and officers must tick them; who is given away by several
answers together is what the audit proves. Contributors of an answer are the records under its condition that have a
value; sizes count, so a loss weighs as a gain does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from keyhole.auditing.base import Exposure
from keyhole.crosstab.sensitivity import Contributions, SensitivityRule
from keyhole.datasets import PrivateValues
from keyhole.datasets.open import Table
from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import Scalar
from keyhole.model.transcript import Entry


@dataclass(frozen=True, slots=True)
class RuledAnswer:
    """An answer that fails a rule (`why` empty), or of which the rule cannot be told, and why not."""

    number: str
    sql: str
    key: tuple[tuple[str, Scalar | None], ...]
    count: int | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """One rule on a log."""

    rule: SensitivityRule
    answers: int
    failing: tuple[RuledAnswer, ...]
    untold: tuple[RuledAnswer, ...]

    def without_keys(self) -> RuleCheck:
        """The same without the groups' keys, which may be values of a private column."""
        failing, untold = (tuple(replace(a, key=()) for a in listed) for listed in (self.failing, self.untold))
        return replace(self, failing=failing, untold=untold)


def ruled(exposure: Exposure, table: Table, rules: Iterable[SensitivityRule]) -> tuple[RuleCheck, ...]:
    """Each rule on each answer of a log. Cost: one query of the engine an answer."""
    held: dict[str, PrivateValues] = {}
    told = [(entry, *_contributions(entry, table, held)) for entry in exposure.evidence.transcript.entries]
    return tuple(_check(rule, told) for rule in rules)


def _check(rule: SensitivityRule, told: list[tuple[Entry, Contributions | None, str]]) -> RuleCheck:
    failing, untold = [], []
    for entry, cell, why in told:
        verdict = None if cell is None else rule.sensitive(cell)
        count = None if cell is None else cell.count
        said = (entry.number, entry.sql, entry.query.key, count)
        if verdict is None:
            untold.append(RuledAnswer(*said, why or "it is no sum of a private column"))
        elif verdict:
            failing.append(RuledAnswer(*said))
    return RuleCheck(rule, len(told), tuple(failing), tuple(untold))


def _contributions(entry: Entry, table: Table, held: dict[str, PrivateValues]) -> tuple[Contributions | None, str]:
    """Who contributes to an answer; None and why, where that is not public."""
    try:
        rows = table.roster.support(entry.query)
    except UnsupportedQuery as error:
        return None, str(error)
    terms = entry.query.terms
    column = terms[0].column if len(terms) == 1 and terms[0].weight is None and terms[0].power == 1 else None
    if column is None or table.source is None or column in table.absent:
        why = "" if table.source is not None else "the values are not at hand"
        return Contributions(Fraction(0), len(rows)), why
    if column not in held:
        held[column] = table.source.values(column)
    return Contributions.of(list(_values(held[column], rows))), ""


def _values(values: PrivateValues, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[Fraction]:
    for row in rows[values.present[rows]].tolist():
        if values.units is not None:
            yield Fraction(int(values.units[row]), 10**values.digits)
        else:
            yield Fraction(float(values.floats[row]))
