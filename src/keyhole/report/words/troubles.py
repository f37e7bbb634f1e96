"""What contradicts, was not judged or was refused: a reason is told once, with all the statements that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keyhole.auditing.base import query_order, visible
from keyhole.errors import DIFFERS
from keyhole.report.plain import Plain

SHOWN = 20  # reasons of each sort, and people who are not exposed
NAMED = 8  # statements that one reason names


def troubles(verdict: Plain) -> Iterator[str]:
    """One line a reason, and how many reasons more there are."""
    reasons = list(dict.fromkeys(c.reason for c in verdict.contradictions))
    yield from (f"Contradiction: {reason}" for reason in reasons[:SHOWN])
    unjudged = folded((u.reason, u.number, u.sql) for u in verdict.unjudged)
    for reason, (numbers, sql) in list(unjudged.items())[:SHOWN]:
        first = ", the first" if len(numbers) > 1 else ""
        yield f"Not judged: {named(numbers)} ({reason}){first}: {short(sql)}"
        if reason == DIFFERS:
            from keyhole.sql.statements.redact import without_constants

            yield f"  to report, without its constants: {without_constants(sql)}"
    refused = folded((r.error.partition("\n")[0], r.number, r.error) for r in verdict.refused)
    for numbers, error in list(refused.values())[:SHOWN]:
        yield f"Refused: {named(numbers[:1])}: {error}"
        if len(numbers) > 1:
            yield f"  and likewise {named(numbers[1:])}"
    for what, found in (
        ("contradictions", reasons),
        ("reasons not to judge", unjudged),
        ("reasons to refuse", refused),
    ):
        yield from more(list(found), f"more {what}")


def folded(found: Iterable[tuple[str, str, str]]) -> dict[str, tuple[list[str], str]]:
    """(reason, number, text) by reason: the numbers, and the text of the first.

    >>> folded([("no", "1", "a"), ("why", "2", "b"), ("no", "3.1", "c"), ("no", "3.2", "c")])
    {'no': (['1', '3'], 'a'), 'why': (['2'], 'b')}
    """
    parts: dict[str, dict[str, list[str]]] = {}
    first: dict[str, str] = {}
    for reason, number, text in found:
        first.setdefault(reason, text)
        parts.setdefault(reason, {}).setdefault(number.partition(".")[0], []).append(number)
    return {
        reason: ([each[0] if len(each) == 1 else whole for whole, each in numbers.items()], first[reason])
        for reason, numbers in parts.items()
    }


def named(numbers: Sequence[str]) -> str:
    """The statements by number, the first few of many.

    >>> named(["1"]), named(["1", "2", "5"]), named([str(n) for n in range(1, 31)])
    ('Q1', 'Q1, Q2 and Q5', 'Q1, Q2, Q3, Q4, Q5, Q6, Q7, Q8 and 22 more')
    """
    told = [n if n.startswith("fact") else f"Q{n}" for n in sorted(numbers, key=query_order)]
    if len(told) > NAMED + 1:
        told = [*told[:NAMED], f"{len(told) - NAMED} more"]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def more(items: Sequence[object], what: str = "more") -> Iterator[str]:
    """How many are not shown, if any."""
    if len(items) > SHOWN:
        yield f"... and {len(items) - SHOWN} {what} (--format json lists all)"


def short(sql: str, width: int = 110) -> str:
    """A statement on one line, cut where it is long."""
    flat = visible(" ".join(sql.split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"
