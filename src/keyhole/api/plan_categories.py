"""Plans about a private column of categories: the same questions, asked as counts of each category.

What a sum of answers gives for numbers, the same sum of counts gives for each category: 1 for the target's, 0 for the
others. The auditor reads counts only with answers, so a plan is confirmed on two made-up tables, in which everybody
has another category: whoever it proves exposed in both, to what is made up, is exposed whatever the truth is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keyhole.attacks.plan import CodedColumn, counts_sql, group_sql
from keyhole.attacks.plan.question import Question
from keyhole.auditing.judge import Judge
from keyhole.datasets import Roster
from keyhole.gather import gather, transcribe
from keyhole.model.predicate import Scalar
from keyhole.model.prior import Knowledge
from keyhole.model.transcript import Line
from keyhole.sql import lower_statement

MADE_UP = 2  # tables


@dataclass(frozen=True, slots=True)
class CategoryCounts:
    """Questions about how many of a group have each of the `values` of a column."""

    column: str
    values: tuple[Scalar, ...]
    table: str

    def sql(self, question: Question, columns: tuple[CodedColumn, ...]) -> str:
        """One statement: a count a category."""
        return counts_sql(question, columns, self.column, self.values, self.table)

    def exposed(
        self,
        questions: Sequence[Question],
        columns: tuple[CodedColumn, ...],
        roster: Roster,
        knowledge: Knowledge,
    ) -> set[int]:
        """The records whose category these questions give away, whatever it is."""
        n, many = roster.n, len(self.values)
        first = np.random.default_rng(0).integers(many, size=n)
        valued = roster.has_value(self.column)
        groups = [self._group(question, columns, roster) for question in questions]
        found: list[set[int]] = []
        for shift in range(MADE_UP):
            has = np.where(valued, (first + shift) % many, -1)
            lines = [
                Line(k, self.sql(question, columns), _answer(has[rows], many), at=k)
                for k, (question, rows) in enumerate(zip(questions, groups, strict=True), 1)
            ]
            verdict = Judge().examine(gather(transcribe(lines, roster), roster, knowledge), roster)
            right = (f for f in verdict.exposed if f.column == self.column and f.value == self.values[has[f.row]])
            found.append({f.row for f in right})
        return set.intersection(*found)

    def _group(
        self, question: Question, columns: tuple[CodedColumn, ...], roster: Roster
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        statement = lower_statement(group_sql(question, columns, roster.schema.table), roster.schema)
        return roster.support(statement.queries[0])


def _answer(has: np.ndarray[tuple[int], np.dtype[np.int64]], many: int) -> list[dict[str, object]]:
    return [{"key": {}, "values": np.bincount(has[has >= 0], minlength=many).tolist()}]
