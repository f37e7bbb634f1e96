"""The exact answer of a statement, computed from what was read: the analyst's text is never run on the data.

Sums are taken over atoms in integers of any size (`gather.totals`), as an audit computes the answers that a log lacks,
so that no answer can fail for what somebody's value is.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from keyhole.datasets import Source
from keyhole.errors import DataError
from keyhole.gather.build import gather
from keyhole.gather.transcribe import Read, expanded
from keyhole.model.numbers import round_fraction
from keyhole.model.prior import Knowledge
from keyhole.model.query import Aggregate, Statement
from keyhole.model.transcript import Answer, Entry, Line
from keyhole.sessions.reply import Exact

DIGITS = 17  # of a quotient that has no end


def exact(statement: Statement, source: Source) -> Exact:
    """Groups in the order of their keys, each with its numbers; NULL where SQL says NULL; a group that HAVING hides is
    not there.

    >>> import pyarrow as pa
    >>> from keyhole.config import Columns
    >>> from keyhole.sql import lower
    >>> from keyhole.datasets import load
    >>> staff = load(pa.table({"dept": ["a", "a", "b"], "pay": [1, 2, 5]}), Columns.checked({"private": {"pay": {}}}))
    >>> exact(lower("SELECT dept, SUM(pay), AVG(pay) FROM t GROUP BY dept", staff.schema), staff)
    (({'dept': 'a'}, (Decimal('3'), Decimal('1.5'))), ({'dept': 'b'}, (Decimal('5'), Decimal('5'))))
    """
    log = expanded([Read(Line(1, statement.text), statement)], source, source=source)
    if log.refused or log.unjudged:
        why = (*log.refused, *log.unjudged)[0].error
        raise DataError(f"it was admitted and cannot be computed: {why}")
    filled = gather(log, source, Knowledge(), source=source).transcript.entries if _private(log.entries) else ()
    answers = {e.number: e.answer for e in filled}
    found, wide = [], len(statement.queries)
    for at in range(0, len(log.entries), wide):
        part = log.entries[at : at + wide]
        key = dict(part[0].query.key)
        if tuple(e.query for e in part) != statement.group(key):
            break  # what follows says which groups are hidden
        found.append((key, tuple(_value(e, answers.get(e.number), source) for e in part)))
    return tuple(found)


def _private(entries: tuple[Entry, ...]) -> bool:
    return any(e.query.aggregate is not Aggregate.PUBLIC for e in entries)


def _value(entry: Entry, answer: Answer | None, source: Source) -> Decimal | bool | None:
    if answer is None:
        return source.evaluate(entry.query)  # about public columns alone
    if answer.null or isinstance(answer.value, bool) or answer.lo is None or answer.lo != answer.hi:
        return answer.value
    number: Fraction = answer.lo
    if answer.value is not None and Fraction(answer.value) == number:
        return answer.value
    return round_fraction(number, DIGITS)
