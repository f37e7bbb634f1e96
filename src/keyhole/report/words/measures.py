"""What to do about a verdict, in a few sentences that need no further search.

Each proof cites statements, and holds no longer if one of them is withheld. So a set of statements that meets every
proof is a measure against all that is listed. It need not be the smallest set, and something else may be proved from
the rest: `keyhole audit --advise` looks for both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from keyhole.auditing.base import query_order
from keyhole.auditing.promise import ENDED
from keyhole.report.cases import EXPOSED, Argument, Case, PlainVerdict
from keyhole.report.words.sentence import count_waiting, counted

NAMED = 8  # statements that one measure names
NOTHING = "Nothing needs to be withheld."


def suggest_measures(verdict: PlainVerdict) -> list[str]:
    """What to do, one sentence a measure; there is always one."""
    return [*_name_measures(verdict)] or [_say_nothing_to_withhold(verdict)]


def _name_measures(verdict: PlainVerdict) -> Iterator[str]:
    if verdict.contradictions:
        yield "Correct the answers that contradict each other, or take them out of the log; then audit again."
    if rows := [each.number for each in verdict.rows]:
        yield f"Answer counts, sums or averages of groups instead of the rows of {name_queries(rows)}."
    alone, rest = _split_single_groups(verdict.cases)
    for number, groups in alone.items():
        whose = "the group" if groups == 1 else f"the {groups} groups"
        yield f"Withhold {whose} of Q{number} with one person, or merge {'it' if groups == 1 else 'them'} with others."
    cited = [_cite(case.argument) for case in rest]
    cited += [frozenset(map(_statement_of, each.queries)) for each in verdict.by_assumption]
    meeting = choose_meeting([each for each in cited if each])
    if meeting:
        them = "it" if len(meeting) == 1 else "one of them"
        proofs = "the proof" if len(cited) == 1 else "every proof"
        yield f"Withhold {name_queries(meeting)}: {f'every other {proofs[-5:]}' if alone else proofs} uses {them}."
    if alone or meeting:
        yield "Then audit again; --advise looks for the fewest statements and checks what is left."
    if any(not each for each in cited):
        yield "What is declared or known beforehand gives somebody away by itself: no statement needs to be asked."
    if verdict.gap in ENDED:
        yield "Give the audit more time (--time-limit), or audit a part of the log."
    elif count_waiting(verdict):
        yield "Write the statements that were not judged in another way, or leave them out; the reasons are below."
    elif not verdict.judged:
        yield "Check that this is the right log, and that --table names the table as the log does."


def _say_nothing_to_withhold(verdict: PlainVerdict) -> str:
    """Where nobody is listed and every statement was judged."""
    if verdict.complete and not verdict.exit_code:
        return NOTHING
    if verdict.declaring:
        name, line = next(iter(verdict.declaring.items()))
        return f"If {name} can have other values than the data have, {line}. Then audit again."
    return "Nothing that is proved needs to be withheld; what is not proved is said below."


def _split_single_groups(cases: Iterable[Case]) -> tuple[Mapping[str, int], list[Case]]:
    """Groups that hold one person, counted by statement; and the cases that are proved in another way."""
    alone: Counter[str] = Counter()
    rest = []
    for case in cases:
        steps = case.argument.steps
        single = case.status == EXPOSED and len(steps) == 1 and steps[0].cited.key and not case.argument.rule
        if single and not case.argument.ends and case.argument.holds is None:
            alone[_statement_of(steps[0].cited.number)] += 1
        else:
            rest.append(case)
    return alone, rest


def _cite(argument: Argument) -> frozenset[str]:
    """The statements that a proof uses, and those that it rests on use."""
    own = {_statement_of(step.cited.number) for step in argument.steps if step.cited.fact is None}
    return frozenset(own.union(*(_cite(case.argument) for case in argument.known)))


def _statement_of(number: str) -> str:
    return number.partition(".")[0]


def choose_meeting(sets: Sequence[frozenset[str]]) -> list[str]:
    """Statements that meet every set, those first that meet most; of equals the later one, which completed the proof.

    >>> choose_meeting([frozenset({"1", "2"}), frozenset({"2", "3"})])
    ['2']
    """
    left, chosen = list(set(sets)), []
    while left:
        often = Counter(unit for each in left for unit in each)
        best = max(often, key=lambda unit: (often[unit], query_order(unit)))
        chosen.append(best)
        left = [each for each in left if best not in each]
    return sorted(chosen, key=query_order)


def name_queries(numbers: Sequence[str]) -> str:
    """The statements by number, the first few of many.

    >>> name_queries(["1"]), name_queries(["1", "2", "5"]), name_queries([str(n) for n in range(1, 31)])
    ('Q1', 'Q1, Q2 and Q5', 'Q1, Q2, Q3, Q4, Q5, Q6, Q7, Q8 and 22 more')
    """
    names = [n if n.startswith("fact") else f"Q{n}" for n in sorted(numbers, key=query_order)]
    if len(names) > NAMED + 1:
        names = [*names[:NAMED], f"{len(names) - NAMED} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def name_promise(verdict: PlainVerdict) -> str:
    """One line: what is proved of everybody who is not listed, and no more than the exit code says."""
    some = bool(verdict.cases or verdict.by_assumption or verdict.rows)
    other = "other " if some else ""
    if not verdict.judged:
        return "Proved: nothing, because no statement was judged."
    if verdict.complete and verdict.exit_code != 3 and not count_waiting(verdict):
        return f"Proved: no {other}person's value can be computed from these answers."
    listed = "what is listed" if some else "nothing about anybody"
    waiting = counted(count_waiting(verdict), "statement")
    why = verdict.gap or (f"{waiting} of the log not judged" if count_waiting(verdict) else "see above")
    return f"Proved: {listed}. More may follow, because {why}."
