"""The exact answer of a statement, computed from what was read: the analyst's text is never run on the data.

Sums are taken over atoms in integers of any size (`gather.totals`), as an audit computes the answers that a log lacks,
so that no answer can fail for what somebody's value is.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from keyhole.auditing.online.online import Past
from keyhole.book import BookEntry, Mark
from keyhole.datasets import GroupKey, Source
from keyhole.errors import DataError
from keyhole.gather.build import gather
from keyhole.gather.transcribe import Read, expanded
from keyhole.model.numbers import round_fraction
from keyhole.model.prior import Knowledge
from keyhole.model.query import Aggregate, Statement
from keyhole.model.transcript import Answer, Entry, Line
from keyhole.sessions.reply import ExactAnswer

DIGITS = 17  # of a quotient that has no end


def compute_exact_answer(statement: Statement, source: Source) -> ExactAnswer:
    """Groups in the order of their keys, each with its numbers; NULL where SQL says NULL; a group that HAVING hides is
    not there.

    >>> import pyarrow as pa
    >>> from keyhole.config import Columns
    >>> from keyhole.sql import lower_statement
    >>> from keyhole.datasets import load
    >>> staff = load(pa.table({"dept": ["a", "a", "b"], "pay": [1, 2, 5]}), Columns.checked({"private": {"pay": {}}}))
    >>> statement = lower_statement("SELECT dept, SUM(pay), AVG(pay) FROM t GROUP BY dept", staff.schema)
    >>> compute_exact_answer(statement, staff)
    (({'dept': 'a'}, (Decimal('3'), Decimal('1.5'))), ({'dept': 'b'}, (Decimal('5'), Decimal('5'))))
    """
    log = expanded([Read(Line(1, statement.text), statement)], source, source=source)
    if log.refused or log.unjudged:
        why = (*log.refused, *log.unjudged)[0].error
        raise DataError(f"it was admitted and cannot be computed: {why}")
    secret = any(entry.query.aggregate is not Aggregate.PUBLIC for entry in log.entries)
    filled = gather(log, source, Knowledge(), source=source).transcript.entries if secret else ()
    answers = {e.number: e.answer for e in filled}
    groups, wide = [], len(statement.queries)
    for at in range(0, len(log.entries), wide):
        part = log.entries[at : at + wide]
        key = dict(part[0].query.key)
        if tuple(e.query for e in part) != statement.group(key):
            break  # what follows says which groups are hidden
        groups.append((key, tuple(_choose_value(e, answers.get(e.number), source) for e in part)))
    return tuple(groups)


def _choose_value(entry: Entry, answer: Answer | None, source: Source) -> Decimal | bool | None:
    if answer is None:
        return source.evaluate(entry.query)  # about public columns alone
    if answer.null or isinstance(answer.value, bool) or answer.lo is None or answer.lo != answer.hi:
        return answer.value
    number: Fraction = answer.lo
    if answer.value is not None and Fraction(answer.value) == number:
        return answer.value
    return round_fraction(number, DIGITS)


def format_exact_answer(answer: Iterable[tuple[GroupKey, Iterable[Decimal | bool | None]]]) -> list[dict[str, Any]]:
    """An exact answer as JSON, every digit kept as text."""
    return [
        {"key": {k: _format_key(v) for k, v in key.items()}, "values": [_format_number(v) for v in values]}
        for key, values in answer
    ]


def parse_exact_answer(kept: list[dict[str, Any]]) -> ExactAnswer:
    """The inverse of `told`; keys that JSON has no word for stay text, as they are shown."""
    return tuple((dict(row["key"]), tuple(_parse_number(v) for v in row["values"])) for row in kept)


def _format_key(value: object) -> object:
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _format_number(value: Decimal | bool | None) -> str | bool | None:
    return value if value is None or isinstance(value, bool) else str(value)


def _parse_number(value: str | bool | None) -> Decimal | bool | None:
    return value if value is None or isinstance(value, bool) else Decimal(value)


def read_past_statement(entry: BookEntry) -> Past:
    """A statement of the book that counts."""
    body = entry.body
    judged = entry.kind != Mark.UNJUDGED
    return Past(int(body["query"]), str(body["sql"]), judged, read_one_number(body.get("answer")))


def read_one_number(answer: Any) -> str | bool | None:
    """What a MIN or MAX was answered with, from what the book keeps; None if it is not one number.

    >>> read_one_number([{"key": {}, "values": ["5.2"]}]), read_one_number([])
    ('5.2', None)
    """
    if isinstance(answer, list):
        values = [value for row in answer for value in row["values"]]
        return values[0] if len(values) == 1 else None
    return answer if isinstance(answer, str) else None
