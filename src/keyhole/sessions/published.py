"""What was published before a book began: it counts too."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from keyhole.auditing.online.minmax import ANSWERED
from keyhole.book import Mark
from keyhole.errors import QueryError
from keyhole.model.numbers import read_decimal
from keyhole.model.transcript import Line, Refusal
from keyhole.sessions.audited import Audited, find_unjudged_entries
from keyhole.sessions.exact_answers import read_past_statement
from keyhole.sql import translate_to_duckdb
from keyhole.sql.statements.clock import write_time_as_it_ran


def write_out_times(lines: Iterable[Line], now: dt.date | None = None) -> list[Line]:
    """The lines with the time written out at which each ran: its own, else `now`."""
    return [replace(line, sql=write_time_as_it_ran(line.sql, line.dialect, line.time, now)) for line in lines]


def find_unaccounted(policy: Audited, lines: Iterable[Line], refused: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """The publications that the book has not and that no verdict could account for; changes nothing."""
    known = _list_known(policy)
    refusals = [r for r in refused if r.sql not in known]
    for line in lines:
        if line.sql in known:
            continue
        read = translate_to_duckdb(line.sql, line.dialect, policy.auditor.roster.schema)
        why = read.reason or (_find_objection(policy, read.sql, line) if read.sql not in known else None)
        if why:
            refusals.append(Refusal(str(line.number), line.sql, why))
    return tuple(refusals)


def publish(policy: Audited, lines: Iterable[Line], refused: Iterable[Refusal] = ()) -> tuple[Refusal, ...]:
    """Take earlier publications into the book, all of them or none; returns those that it cannot represent.

    They (and those `refused` already when the log was read) are written down too, but no later verdict accounts for
    them: whoever goes on should know. Statements that the book has already are passed over, so a log may be loaded
    again.
    """
    left: list[Refusal] = []
    with policy.book.page():
        policy.catch_up()
        known = _list_known(policy)
        for line in lines:
            read = translate_to_duckdb(line.sql, line.dialect, policy.auditor.roster.schema)
            if line.sql in known or read.sql in known:
                continue
            known |= {line.sql, read.sql}
            try:
                if read.reason:
                    raise QueryError(read.reason, line.sql)
                request = replace(policy.read(read.sql), answer=read_stated_answer(line))
                policy.take(request, policy.needed(request))
            except QueryError as error:
                left.append(policy.unjudged(line.sql, str(error)))
        left += [policy.unjudged(r.sql, r.error) for r in refused if r.sql not in known]
    return tuple(left)


def _find_objection(policy: Audited, sql: str, line: Line) -> str | None:
    """Why a verdict could not account for it: besides what it is, that later decisions need its answer."""
    request = policy.read(sql)
    why = policy.auditor.objection(request)
    if why is not None:
        return why
    asked = request.statement
    if asked is None or not policy.auditor.decided_by_answers(asked) or read_stated_answer(line) is not None:
        return None
    return f"its answer is not in the log: {ANSWERED}"


def read_stated_answer(line: Line) -> Decimal | None:
    """The one exact number that a line of a log carries as its answer.

    >>> read_stated_answer(Line(1, "SELECT MAX(x) FROM t", 9)), read_stated_answer(Line(1, "SELECT MAX(x) FROM t"))
    (Decimal('9'), None)
    """
    if line.noise is not None or isinstance(line.answer, bool) or not isinstance(line.answer, int | float | Decimal):
        return None
    found = read_decimal(line.answer)
    return found if found.is_finite() else None


def accept_incomplete(policy: Audited) -> None:
    """Whoever keeps the book goes on although it lacks something of a log that was followed: that is written down."""
    with policy.book.page():
        policy.catch_up()
        if left := policy.book.state.incomplete:
            policy.book.append(Mark.ACCEPTED, {"statements": len(left), "entries": list(left)})


def explain_unjudged(policy: Audited) -> str:
    """The publications in the book that no verdict accounts for, in a sentence; "" if there are none."""
    left = [read_past_statement(entry).number for entry in find_unjudged_entries(policy.book)]
    if not left:
        return ""
    count = "1 publication" if len(left) == 1 else f"{len(left)} publications"
    named = ", ".join(f"Q{number}" for number in left[:10]) + (", ..." if len(left) > 10 else "")
    return f"the book has {count} that no verdict accounts for ({named}; accepted with --accept-unjudged, or monitored)"


def _list_known(policy: Audited) -> set[str]:
    book = policy.book
    return {read_past_statement(book.entry(seq)).sql for seq in book.state.answers}
