"""The first sentences of a verdict: who is exposed by how many statements, and whether that is an all-clear."""

from __future__ import annotations

from keyhole.auditing.promise import ENDED
from keyhole.report.cases import PlainVerdict

NOTHING_JUDGED = "Nothing was judged: the log holds no statement that could be, so this is not an all-clear."


def summarize_verdict(verdict: PlainVerdict) -> str:
    """The verdict in one or a few sentences. Where half of the log or more was not judged, that comes first."""
    return " ".join(part for part in (_say_exposed(verdict), _say_more(verdict), _say_doubt(verdict)) if part)


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


def _count_waiting(verdict: PlainVerdict) -> int:
    """Statements that were not judged, or not in all their parts."""
    return verdict.statements.unjudged + verdict.statements.refused


def _say_exposed(verdict: PlainVerdict) -> str:
    people = len({case.who for case in verdict.exposed})
    if people:
        verb = "is" if people == 1 else "are"
        return f"{people} of {verdict.people} people {verb} exposed by {format_statement_count(verdict)}."
    if not verdict.judged:
        return explain_nothing_judged(verdict)
    waiting = _count_waiting(verdict)
    narrowed = len({case.who for case in verdict.inferred})
    if 2 * waiting >= verdict.statements.total and waiting:
        rest = verdict.statements.total - waiting
        by = f"the other {rest}" if rest else "what could be judged of them"
        return f"{_say_not_judged(verdict)} {_nobody_exposed(verdict, narrowed, by)}"
    return _nobody_exposed(verdict, narrowed, format_statement_count(verdict))


def _nobody_exposed(verdict: PlainVerdict, narrowed: int, by: str) -> str:
    """Nobody's value is determined; what else is known of people comes first."""
    if not narrowed:
        return f"Nobody of {verdict.people} people is exposed by {by}."
    return f"Something new is known of {narrowed} of {verdict.people} people by {by}; nobody is exposed exactly."


def _say_more(verdict: PlainVerdict) -> str:
    """What else follows: rows handed out, somebody narrowed down, a group's total, a narrower range."""
    said = []
    if verdict.rows:
        verb = "hands" if len(verdict.rows) == 1 else "hand"
        said.append(f"{counted(len(verdict.rows), 'statement')} {verb} out rows.")
    exposed = {case.who for case in verdict.exposed}
    narrowed = len({case.who for case in verdict.inferred} - exposed)
    if narrowed and (exposed or not verdict.judged):
        more = "more " if exposed else ""
        said.append(f"Something new is known of {counted(narrowed, f'{more}person', f'{more}people')}.")
    if some := [f"{number} {grade}" for grade, number in verdict.grades.items() if number]:
        said.append(f"By counts of people: {', '.join(some)}.")
    if verdict.groups:
        said.append(f"The total of {counted(len(verdict.groups), 'small group')} is determined.")
    if ranges := len({case.rows for case in verdict.narrowed}):
        things = ("record", "records") if verdict.people != verdict.records else ("person", "people")
        said.append(f"A narrower range than was declared follows for {counted(ranges, *things)}.")
    return " ".join(said)


def _say_doubt(verdict: PlainVerdict) -> str:
    """Why this is not an all-clear, if it is not and was not said yet."""
    said = []
    if verdict.gap in ENDED and verdict.judged and (verdict.cases or _count_waiting(verdict)):
        said.append(f"{verdict.gap[0].upper()}{verdict.gap[1:]}.")
    if verdict.contradictions:
        said.append("Some answers contradict each other or the data, so this is not an all-clear.")
    waiting, total = _count_waiting(verdict), verdict.statements.total
    if waiting:
        if verdict.exposed or not verdict.judged or 2 * waiting < total:
            said.append(_say_not_judged(verdict))
    elif not verdict.complete and not verdict.cases and not verdict.contradictions and verdict.judged:
        said.append(f"This is not an all-clear: {verdict.gap}.")
    return " ".join(said)


def _say_not_judged(verdict: PlainVerdict) -> str:
    waiting, total = _count_waiting(verdict), verdict.statements.total
    verb = "was" if waiting == 1 else "were"
    rest = ", so this is not an all-clear" if verdict.judged else ""
    return f"{waiting} of {counted(total, 'statement')} {verb} not judged{rest}."
