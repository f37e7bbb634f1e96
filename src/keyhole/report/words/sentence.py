"""The headline of a verdict: who is exposed by how many statements, and whether that is an all-clear."""

from __future__ import annotations

from collections.abc import Iterator

from keyhole.auditing.promise import ENDED
from keyhole.report.cases import PlainVerdict

NOTHING_JUDGED = "Nothing was judged: the log holds no statement that could be, so this is not an all-clear."


def summarize_verdict(verdict: PlainVerdict) -> str:
    """The verdict in one sentence, which promises no more than the exit code. Where half of the log or more was not
    judged, that comes first.
    """
    waiting, total = count_waiting(verdict), verdict.statements.total
    people = len({case.who for case in verdict.exposed})
    more, doubts = list(_list_more(verdict)), list(_list_doubts(verdict))
    by = format_statement_count(verdict)
    if people:
        verb = "is" if people == 1 else "are"
        parts = [f"{people} of {verdict.people} people {verb} exposed by {by}", *more, *doubts]
    elif not verdict.judged:
        parts = [explain_nothing_judged(verdict).rstrip("."), *more, *doubts]
    elif waiting and 2 * waiting >= total:
        rest = f"the other {total - waiting}" if total > waiting else "what could be judged of them"
        parts = [*doubts, _say_nobody(verdict, rest), *more]
    else:
        parts = [_say_nobody(verdict, by), *more, *doubts]
    told = "; ".join(parts)
    return f"{told[0].upper()}{told[1:]}."


def explain_nothing_judged(verdict: PlainVerdict) -> str:
    """What is said where no statement was judged."""
    ended = verdict.gap in ENDED
    return f"Nothing was judged: {verdict.gap}, so this is not an all-clear." if ended else NOTHING_JUDGED


def format_statement_count(verdict: PlainVerdict) -> str:
    """How many statements, and how many of them differ."""
    told = verdict.statements
    repeated = f" ({told.distinct} different)" if told.distinct != told.total else ""
    return f"{counted(told.total, 'statement')}{repeated}"


def escape_line(text: str) -> str:
    r"""Text that others wrote, for one line of output: what is not printable is written out.

    >>> escape_line("a\nb\x1b")
    'a\\nb\\x1b'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, thing: str, things: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "query", "queries"), counted(2, "statement")
    ('1 query', '2 statements')
    """
    return f"{number} {thing if number == 1 else things or f'{thing}s'}"


def count_waiting(verdict: PlainVerdict) -> int:
    """Statements that were not judged, or not in all their parts."""
    return verdict.statements.unjudged + verdict.statements.refused


def _say_nobody(verdict: PlainVerdict, by: str) -> str:
    """Nobody's value is determined; what else is known of people comes first."""
    narrowed = len({case.who for case in verdict.inferred})
    if not narrowed:
        return f"nobody of {verdict.people} people is exposed by {by}"
    return f"something new is known of {narrowed} of {verdict.people} people by {by}, and nobody is exposed exactly"


def _list_more(verdict: PlainVerdict) -> Iterator[str]:
    """What else counts for the exit code: rows handed out, and people of whom something new is known."""
    if verdict.rows:
        verb = "hands" if len(verdict.rows) == 1 else "hand"
        yield f"{counted(len(verdict.rows), 'statement')} {verb} out rows"
    exposed = {case.who for case in verdict.exposed}
    narrowed = len({case.who for case in verdict.inferred} - exposed)
    if narrowed and (exposed or not verdict.judged):
        more = "more " if exposed else ""
        yield f"something new is known of {counted(narrowed, f'{more}person', f'{more}people')}"


def _list_doubts(verdict: PlainVerdict) -> Iterator[str]:
    """Why this is not an all-clear, if it is not and was not said yet."""
    waiting, total = count_waiting(verdict), verdict.statements.total
    if verdict.gap in ENDED and verdict.judged and (verdict.cases or waiting):
        yield verdict.gap
    if verdict.contradictions:
        yield "some answers contradict each other or the data, so this is not an all-clear"
    if waiting:
        rest = ", so this is not an all-clear" if verdict.judged else ""
        yield f"{waiting} of {counted(total, 'statement')} {'was' if waiting == 1 else 'were'} not judged{rest}"
    elif not verdict.complete and not verdict.cases and not verdict.contradictions and verdict.judged:
        yield f"this is not an all-clear, because {verdict.gap}"


def list_notes(verdict: PlainVerdict) -> Iterator[str]:
    """What follows besides, one sentence each: none of it counts for the exit code by itself."""
    if some := [f"{number} {grade}" for grade, number in verdict.grades.items() if number]:
        yield f"By counts of people: {', '.join(some)}."
    if verdict.groups:
        yield f"The total of {counted(len(verdict.groups), 'small group')} is determined."
    if ranges := len({case.rows for case in verdict.narrowed}):
        things = ("record", "records") if verdict.people != verdict.records else ("person", "people")
        more = "more " if verdict.cases else ""
        yield f"The answers narrow the possible range for {counted(ranges, *(more + each for each in things))}."
