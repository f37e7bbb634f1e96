"""Proofs in words: what is known of a person, why, and the arithmetic that a person can follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from keyhole.auditing.base import name_of, query_order, visible
from keyhole.auditing.numbers import written
from keyhole.gather.evidence import Contradiction
from keyhole.model.numbers import shorten_fraction
from keyhole.report.cases import (
    EXPOSED,
    GROUP,
    INFERRED,
    Argument,
    Bounding,
    Case,
    Cited,
    EndArgument,
    Step,
)
from keyhole.report.words.digits import digits
from keyhole.report.words.sentence import counted

PLURAL = {"person": "people", "record": "records"}
NAMES = 10  # people that a shared reason names
SHOWN = 20  # reasons of each sort, and people who are not exposed
WIDTH = 110  # places of a line; proofs are wrapped there
MANY = 3  # proofs of one shape that are still shown each
SIMILAR = 8  # people of whom a proof of the same shape is named

Shape = tuple[object, ...]


def explain_case(case: Case) -> str:
    """The formula, and under it the arithmetic where all answers are known."""
    return "\n".join(line for line in (format_formula(case), format_arithmetic(case)) if line)


def format_formula(case: Case) -> str:
    """`Q1 - Q2 - Q3 = Jeremy Doe's blood sugar = 5.2`."""
    if case.assumed:
        return case.assumed
    argument = case.argument
    if not argument.steps:
        return ""
    who = f"{case.who}'s {case.column}{case.place}"
    if case.status == GROUP:
        who = f"total {case.column} of {len(case.records)} people"
    if case.form:
        who = case.who if case.grade else f"{case.who}'s {case.form}"
    if argument.ends:
        return " ".join(explain_end(end, case, case.named) for end in argument.ends if end.steps)
    if argument.rule:
        return f"{_name_cited(argument)}: {argument.rule}; {who} {describe_claim(case)}"
    left = format_sum([(step.weight, step.cited.name) for step in _sort_by_sign(argument)], argument.constant)
    if argument.holds is not None:
        return f"{left} = {argument.holds}, so {who} {describe_claim(case)}"
    if case.status == INFERRED:
        return f"{left}: {who} {describe_claim(case)}"
    return f"{left} = {who}" + ("" if case.value is None else f" = {digits(case.value)}")


def format_arithmetic(case: Case) -> str:
    """`32.1 - 15.5 - 11.4 = 5.2`: the same with the answers put in; empty if an answer is missing."""
    argument = case.argument
    if case.assumed:
        return ""
    if not argument.steps or argument.rule or argument.ends or case.value is None or argument.holds is not None:
        return ""
    if blurred := [given for step in _sort_by_sign(argument) if (given := format_answer(step.cited))]:
        return f"{'; '.join(blurred)}; {case.column} can have no other value there"
    parts = []
    for step in _sort_by_sign(argument):
        value = step.cited.value
        if value is None:
            return ""
        parts.append((step.weight, value))
    return f"{format_sum(parts, argument.constant)} = {digits(case.value)}"


def explain_end(end: EndArgument, case: Case, who: str) -> str:
    """`Q3 = 11.4; John Smith is at least 3 (known); so Joseph Sky's pay is at most 8.4.`"""
    steps = sorted(end.steps, key=lambda step: step.weight < 0)
    said = format_sum([(step.weight, step.cited.name) for step in steps], end.constant)
    values = [(step.weight, step.cited.value) for step in steps]
    blurred = [given for step in steps if (given := format_answer(step.cited))]
    if values and not blurred and all(value is not None for _, value in values):
        told = sum((w * Fraction(v) for w, v in values if v is not None), end.constant)
        said += f" = {_format_fraction(told)}"
    plain = bool(blurred) and len(steps) == 1 and steps[0].weight == 1 and not end.constant
    clauses = [*([] if plain else [said]), *blurred, *(_explain_bound(each, who) for each in end.bounds)]
    word = "at most" if end.side == "hi" else "at least"
    whose = f"{case.who}'s {case.column}{case.place}" if who == case.named else f"{case.column} of {who}"
    return f"{'; '.join(clauses)}; so {whose} is {word} {_format_end(end, case)}."


def _format_end(end: EndArgument, case: Case) -> str:
    """The end as it stands in the table, where it is that one up to dust; else rounded outwards, as those are."""
    low, high = written(end.end, end.end)
    own, outwards = (case.hi, high) if end.side == "hi" else (case.lo, low)
    assert outwards is not None
    near = isinstance(own, int | Decimal) and abs(Fraction(own) - end.end) <= max(Fraction(1), abs(end.end)) / 10**9
    return digits(own if near else outwards)


def _explain_bound(each: Bounding, subject: str) -> str:
    used = each.used
    word = "at most" if used.bound == "max" else "at least"
    source = "known" if used.fact is None else f"fact {used.fact}"
    if used.learned is not None:
        source = " and ".join(map(_name_query, used.learned[3].weights))
    times = "" if abs(used.weight) == 1 else f", counted {_format_fraction(abs(used.weight))} times"
    if used.own or each.record is not None:
        who = subject if each.record is None else f"{name_of(each.record)}{each.place}"
        return f"{who} is {word} {_format_fraction(used.each)} ({source}){times}"
    of = f" of Q{used.of}" if used.of else ""
    others = each.thing if used.people == 1 else counted(used.people, each.thing, PLURAL[each.thing])
    who = f"the other {others}{of}"
    summed = f": {_format_fraction(used.people * used.each)}" if used.people > 1 else ""
    verb = "is" if used.people == 1 else "are"
    each_of_them = " each" if used.people > 1 else ""
    return f"{who} {verb} {word} {_format_fraction(used.each)}{each_of_them} ({source}){summed}{times}"


def format_sum(parts: list[tuple[Fraction, str]], constant: Fraction) -> str:
    """A weighted sum in words.

    >>> format_sum([(Fraction(2), "Q1"), (Fraction(-1), "Q2")], Fraction(3))
    '2 × Q1 - Q2 + 3'
    """
    text = ""
    for weight, name in parts:
        size = abs(weight)
        factor = (
            "" if size == 1 else f"{size} × " if size.denominator == 1 else f"{size.numerator}/{size.denominator} × "
        )
        name = f"({name})" if name.startswith("-") and (text or weight < 0) else name
        sign = ("-" if weight < 0 else "") if not text else (" - " if weight < 0 else " + ")
        text += f"{sign}{factor}{name}"
    if constant:
        sign = ("-" if constant < 0 else "") if not text else (" - " if constant < 0 else " + ")
        text += f"{sign}{digits(shorten_fraction(abs(constant)))}"
    return text or "0"


def format_answer(cited: Cited) -> str:
    """What a proof may take an inexact answer for; empty where the answer is a number and no more.

    >>> from keyhole.model.transcript import Answer, Noise
    >>> from keyhole.report.documents.verdict import ProofItem
    >>> noise = Noise("uniform", Fraction(1, 4))
    >>> noisy = Answer(Decimal("4.2"), Fraction("3.95"), Fraction("4.45"), noise)
    >>> format_answer(Cited("2", Fraction(1), None, answer=noisy, replayed=ProofItem(ends=("3.95", "4.45"))))
    'Q2 = 4.2 ± 0.25'
    >>> format_answer(Cited("3", Fraction(1), None, replayed=ProofItem(ends=("1", "2"))))
    'Q3 lies in [1, 2]'
    >>> format_answer(Cited("4", Fraction(1), None))
    ''
    """
    ends = cited.replayed.ends
    if ends is None or _differ_by_dust(ends):
        return ""
    answer = cited.answer
    if answer is not None and isinstance(answer.value, Decimal) and answer.noise is not None and answer.noise.bounded:
        scale = answer.noise.scale
        return f"{cited.name} = {digits(answer.value)} ± {digits(shorten_fraction(scale))}"
    low, high = written(*(None if end is None else Fraction(end) for end in ends))
    return f"{cited.name} lies in [{'-∞' if low is None else digits(low)}, {'∞' if high is None else digits(high)}]"


def _differ_by_dust(ends: Sequence[str | None]) -> bool:
    """Are they apart by the radius of floating-point sums only?"""
    low, high = (None if end is None else Fraction(end) for end in ends)
    return low is not None and high is not None and high - low <= max(abs(low), abs(high)) / 10**9


def describe_claim(case: Case) -> str:
    """What is known, as the end of a sentence."""
    if case.if_shown:  # a LIMIT may have cut off a row that it takes
        status = EXPOSED if case.value is not None else INFERRED
        return f"{describe_claim(replace(case, if_shown=False, status=status))}, if shown"
    if case.grade:
        return case.form
    if case.status in (GROUP, EXPOSED):
        return "is determined" if case.value is None else f"is {digits(case.value)}"
    if case.allowed:
        return f"is one of {', '.join(map(digits, case.allowed))}"
    if case.lo is not None or case.hi is not None:
        lo = "-∞" if case.lo is None else digits(case.lo)
        hi = "∞" if case.hi is None else digits(case.hi)
        return f"lies in [{lo}, {hi}]"
    return f"is not {' nor '.join(map(digits, case.excluded))}" if case.excluded else "is narrowed down"


def describe_known(case: Case) -> str:
    """What is known, as a cell of a table."""
    if case.status != EXPOSED or case.grade:
        return describe_claim(case)
    told = "determined" if case.value is None else f"= {digits(case.value)}"
    return f"{case.form} {told}" if case.form else told


def explain_cases(cases: Sequence[Case]) -> Iterator[str]:
    """The proofs, each with its arithmetic below; people who share a rule, or the shape of a proof, share a line."""
    shared: dict[tuple[object, ...], list[str]] = {}
    for case in cases:
        if case.argument.rule:
            shared.setdefault(_rule_key(case), []).append(case.named)
    for case, others in group_similar_proofs(cases):
        if case.argument.rule:
            names = shared.pop(_rule_key(case), [])
            if names:
                people = join_names(names)
                whose = people if case.grade else f"{case.form or case.column} of {people}"
                yield f"{_name_cited(case.argument)}: {case.argument.rule}; {whose} {describe_claim(case)}"
        else:
            yield explain_case(case)
            if others:
                yield name_similar_cases(others)


def group_similar_proofs(cases: Sequence[Case]) -> list[tuple[Case, list[Case]]]:
    """The proofs to be shown in full, each with the others of its shape that are not."""
    alike: dict[Shape, list[Case]] = {}
    for case in cases:
        if (found := find_shape(case)) is not None:
            alike.setdefault(found, []).append(case)
    many = {each: same for each, same in alike.items() if len(same) > MANY}
    told: list[tuple[Case, list[Case]]] = []
    for case in cases:
        same = many.get(find_shape(case) or ())
        if same is None or case is same[0]:
            told.append((case, [] if same is None else same[1:]))
    return told


def find_shape(case: Case) -> Shape | None:
    """The statements and weights of a proof, whichever of their parts it takes; None if it is told otherwise."""
    argument = case.argument
    if argument.rule or argument.ends or argument.known or not argument.steps or case.form:
        return None
    steps = tuple((step.cited.number.partition(".")[0], step.cited.fact, step.weight) for step in argument.steps)
    return case.column, case.status, case.grade, argument.constant, argument.holds, steps


def name_similar_cases(others: Sequence[Case]) -> str:
    """`the same for 12 others: Bob (Q1.2), Cyd (Q1.5) and 10 more`; empty if there are none."""
    if not others:
        return ""
    most = SIMILAR if len(others) > SIMILAR + 1 else len(others)
    parts = [", ".join(f"Q{q}" for q in case.argument.queries if "." in q) for case in others[:most]]
    names = [f"{case.named} ({queries})" for case, queries in zip(others, parts, strict=False)]
    rest = f" and {len(others) - most} more" if len(others) > most else ""
    return f"the same for {len(others)} others: {', '.join(names)}{rest}"


def list_statements(cases: Sequence[Case]) -> Iterator[str]:
    """The statements behind the numbers that were used, with their answers."""
    return cite_statements(step for case, _ in group_similar_proofs(cases) for step in case.argument.steps)


def cite_statements(steps: Iterable[Step]) -> Iterator[str]:
    """The statements that steps of proofs cite, with their answers."""
    used = {step.cited.number: step.cited for step in steps if step.cited.fact is None}
    for q in sorted(used, key=query_order)[: 2 * SHOWN]:
        cited = used[q]
        rest = ["any other value"] if cited.replayed.besides is not None else []
        key = ", ".join([*(f"{k} = {v}" for k, v in cited.key), *rest])
        value = cited.answer.value if cited.answer is not None else None
        noise = cited.answer.noise if cited.answer is not None else None
        error = f" ± {_format_fraction(noise.scale)}" if noise is not None and noise.bounded and noise.scale else ""
        said = "" if value is None else f"  → {_trim_zeros(value)}{error}"
        yield f"Q{q}: {shorten_sql(cited.sql, 4 * WIDTH)}{f' [{key}]' if key else ''}{said}"


def describe_without_value(case: Case) -> str:
    """One sentence about a case, with its proof and without its value: pipelines are read by many."""
    names = ", ".join("Q" + q for q in case.argument.queries) or "background knowledge"
    if case.status == GROUP:
        people = "; ".join(", ".join(str(v) for v in record.values()) for record in case.records)
        return f"the total {case.column} of {people} is determined by {names}"
    what = "exposed" if case.status == EXPOSED else "narrowed down"
    if case.form:
        return (
            f"{case.who}: {'something about rows of ' if case.grade else 'a sum of '}{case.column} is {what} by {names}"
        )
    return f"{case.who}: {case.column} is {what} by {names}"


def describe_contradiction(found: Contradiction) -> str:
    """Which answers do not fit, and what to do about it: the numbers are in the verdict, and not in what is passed on.

    >>> describe_contradiction(Contradiction(("1",), "Q1 was answered 9.9, but the data give 5.1"))
    'the answer of Q1 does not fit the data or what is declared: correct it in the log, or take it out'
    """
    names = [_name_query(q) if q[:1].isdigit() else q for q in found.queries]
    if len(names) == 1:
        return (
            f"the answer of {names[0]} does not fit the data or what is declared: correct it in the log, or take it out"
        )
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if names else "some answers"
    return f"{listed} cannot all be true: correct an answer in the log, or take it out"


def shorten_sql(sql: str, width: int = 110) -> str:
    """A statement on one line, cut where it is long."""
    flat = visible(" ".join(sql.split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def join_names(names: Sequence[str], most: int = NAMES) -> str:
    """Ann, Bob and Cyd; of many the first few."""
    told = [*names[:most], f"{len(names) - most} more"] if len(names) > most + 1 else list(names)
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def _name_query(number: str) -> str:
    return number if number.startswith("fact") else f"Q{number}"


def _format_fraction(value: Fraction) -> str:
    return digits(shorten_fraction(value))


def _rule_key(case: Case) -> tuple[object, ...]:
    return _name_cited(case.argument), case.argument.rule, case.column, case.form, describe_claim(case)


def _name_cited(argument: Argument) -> str:
    return " and ".join(
        f"fact {step.cited.fact}" if step.cited.fact is not None else f"Q{step.cited.number}" for step in argument.steps
    )


def _sort_by_sign(argument: Argument) -> list[Step]:
    """What is added first, then what is taken away."""
    return sorted(argument.steps, key=lambda step: step.weight < 0)


def _trim_zeros(value: Decimal | bool) -> str:
    text = str(value) if isinstance(value, bool) else f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
