"""What was published before a book began: it counts too."""

from __future__ import annotations

from collections.abc import Iterable

from keyhole.book import Mark
from keyhole.errors import QueryError
from keyhole.session.audited import Audited, past
from keyhole.sql import carried
from keyhole.transcript import Line, Refusal


def unaccounted(policy: Audited, lines: Iterable[Line], refused: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """The publications that the book has not and that no verdict could account for; changes nothing."""
    known = _known(policy)
    found = [r for r in refused if r.sql not in known]
    for line in lines:
        if line.sql in known:
            continue
        read = carried(line.sql, line.dialect, policy.auditor.roster.schema)
        why = read.reason or (policy.auditor.objection(read.sql) if read.sql not in known else None)
        if why:
            found.append(Refusal(str(line.number), line.sql, why))
    return tuple(found)


def publish(policy: Audited, lines: Iterable[Line], refused: Iterable[Refusal] = ()) -> tuple[Refusal, ...]:
    """Take earlier publications into the book, all of them or none; returns those that it cannot represent.

    They (and those `refused` already when the log was read) are written down too, but no later verdict accounts for
    them: whoever goes on should know. Statements that the book has already are passed over, so a log may be loaded
    again.
    """
    left: list[Refusal] = []
    with policy.book.page():
        policy.catch_up()
        known = _known(policy)
        for line in lines:
            read = carried(line.sql, line.dialect, policy.auditor.roster.schema)
            if line.sql in known or read.sql in known:
                continue
            known |= {line.sql, read.sql}
            try:
                if read.reason:
                    raise QueryError(read.reason, line.sql)
                policy.take(read.sql)
            except QueryError as error:
                left.append(policy.unjudged(line.sql, str(error)))
        left += [policy.unjudged(r.sql, r.error) for r in refused if r.sql not in known]
    return tuple(left)


def accept(policy: Audited) -> None:
    """Whoever keeps the book goes on although it lacks something of a log that was followed: that is written down."""
    with policy.book.page():
        policy.catch_up()
        if left := policy.book.state.incomplete:
            policy.book.append(Mark.ACCEPTED, {"statements": len(left), "entries": list(left)})


def forgotten(policy: Audited) -> str:
    """The publications in the book that no verdict accounts for, in a sentence; "" if there are none."""
    book = policy.book
    left = [past(e).number for e in map(book.entry, book.state.answers) if e.kind == Mark.UNJUDGED]
    if not left:
        return ""
    count = "1 publication" if len(left) == 1 else f"{len(left)} publications"
    named = ", ".join(f"Q{number}" for number in left[:10]) + (", ..." if len(left) > 10 else "")
    return f"the book has {count} that no verdict accounts for ({named}; accepted with --accept-unjudged, or monitored)"


def _known(policy: Audited) -> set[str]:
    book = policy.book
    return {past(book.entry(seq)).sql for seq in book.state.answers}
