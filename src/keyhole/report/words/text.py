"""A verdict in words: the sentence, the table, the arithmetic that a person can follow."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from keyhole.auditing.base import name_of, query_order
from keyhole.auditing.width import written
from keyhole.gather.evidence import Contradiction
from keyhole.model.numbers import shorten_fraction
from keyhole.model.prior import Prior
from keyhole.model.transcript import HandedOut
from keyhole.report.plain import EXPOSED, GROUP, INFERRED, Argument, Bounding, Case, EndArgument, Plain, Step
from keyhole.report.words.added_up import added_up
from keyhole.report.words.as_given import as_given
from keyhole.report.words.completion import completed
from keyhole.report.words.digits import digits
from keyhole.report.words.likewise import likewise, told_once
from keyhole.report.words.sentence import counted, sentence, statements
from keyhole.report.words.troubles import SHOWN, more, named, short, troubles

WIDTH = 110  # places of a line; proofs are wrapped there
KEPT = "\ue000"  # stands for a blank at which no line is broken
FEW = 4  # people of whom the same is known have a line each; more of them share one
PLURAL = {"person": "people", "record": "records"}
NAMES = 10  # people that a shared reason names
WIDEST = 60  # places of a column; what is longer pushes the rest of its line
RANGES_TITLE = "Open, in a range that follows from the answers and what is known:"
ASSUMED_TITLE = "Determined if only the values that the data have are possible (nothing is declared):"
ROWS_TITLE = "Rows handed out, with private values or of people chosen by them:"
GROUPS_TITLE = (
    "Groups whose total is determined (the general search is hard; these were found by testing atoms, "
    "queries, differences and reduced rows):"
)


def formula(case: Case) -> str:
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
        return " ".join(range_sentence(end, case, case.named) for end in argument.ends if end.steps)
    if argument.rule:
        return f"{_cited(argument)}: {argument.rule}; {who} {claim(case)}"
    left = added_up([(step.weight, step.cited.name) for step in _added_first(argument)], argument.constant)
    if argument.holds is not None:
        return f"{left} = {argument.holds}, so {who} {claim(case)}"
    if case.status == INFERRED:
        return f"{left}: {who} {claim(case)}"
    return f"{left} = {who}" + ("" if case.value is None else f" = {digits(case.value)}")


def arithmetic(case: Case) -> str:
    """`32.1 - 15.5 - 11.4 = 5.2`: the same with the answers put in; empty if an answer is missing."""
    argument = case.argument
    if case.assumed:
        return ""
    if not argument.steps or argument.rule or argument.ends or case.value is None or argument.holds is not None:
        return ""
    if blurred := [given for step in _added_first(argument) if (given := as_given(step.cited))]:
        return f"{'; '.join(blurred)}; {case.column} can have no other value there"
    parts = []
    for step in _added_first(argument):
        value = step.cited.value
        if value is None:
            return ""
        parts.append((step.weight, value))
    return f"{added_up(parts, argument.constant)} = {digits(case.value)}"


def why(case: Case) -> str:
    """The formula, and under it the arithmetic where all answers are known."""
    return "\n".join(line for line in (formula(case), arithmetic(case)) if line)


def range_sentence(end: EndArgument, case: Case, who: str) -> str:
    """`Q3 = 11.4; John Smith is at least 3 (known); so Joseph Sky's pay is at most 8.4.`"""
    steps = sorted(end.steps, key=lambda step: step.weight < 0)
    said = added_up([(step.weight, step.cited.name) for step in steps], end.constant)
    values = [(step.weight, step.cited.value) for step in steps]
    blurred = [given for step in steps if (given := as_given(step.cited))]
    if values and not blurred and all(value is not None for _, value in values):
        told = sum((w * Fraction(v) for w, v in values if v is not None), end.constant)
        said += f" = {_number(told)}"
    plain = bool(blurred) and len(steps) == 1 and steps[0].weight == 1 and not end.constant
    clauses = [*([] if plain else [said]), *blurred, *(_bound_clause(each, who) for each in end.bounds)]
    word = "at most" if end.side == "hi" else "at least"
    whose = f"{case.who}'s {case.column}{case.place}" if who == case.named else f"{case.column} of {who}"
    return f"{'; '.join(clauses)}; so {whose} is {word} {_shown_end(end, case)}."


def _shown_end(end: EndArgument, case: Case) -> str:
    """The end as it stands in the table, where it is that one up to dust; else rounded outwards, as those are."""
    low, high = written(end.end, end.end)
    own, outwards = (case.hi, high) if end.side == "hi" else (case.lo, low)
    assert outwards is not None
    near = isinstance(own, int | Decimal) and abs(Fraction(own) - end.end) <= max(Fraction(1), abs(end.end)) / 10**9
    return digits(own if near else outwards)


def _named(number: str) -> str:
    return number if number.startswith("fact") else f"Q{number}"


def _bound_clause(each: Bounding, subject: str) -> str:
    used = each.used
    word = "at most" if used.bound == "max" else "at least"
    source = "known" if used.fact is None else f"fact {used.fact}"
    if used.learned is not None:
        source = " and ".join(map(_named, used.learned[3].weights))
    times = "" if abs(used.weight) == 1 else f", counted {_number(abs(used.weight))} times"
    if used.own or each.record is not None:
        who = subject if each.record is None else f"{name_of(each.record)}{each.place}"
        return f"{who} is {word} {_number(used.each)} ({source}){times}"
    of = f" of Q{used.of}" if used.of else ""
    others = each.thing if used.people == 1 else counted(used.people, each.thing, PLURAL[each.thing])
    who = f"the other {others}{of}"
    summed = f": {_number(used.people * used.each)}" if used.people > 1 else ""
    verb = "is" if used.people == 1 else "are"
    return f"{who} {verb} {word} {_number(used.each)}{' each' if used.people > 1 else ''} ({source}){summed}{times}"


def _number(value: Fraction) -> str:
    return digits(shorten_fraction(value))


def without_value(case: Case) -> str:
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


def contradiction_without_values(found: Contradiction) -> str:
    """Which answers do not fit, and what to do about it: the numbers are in the verdict, and not in what is passed on.

    >>> contradiction_without_values(Contradiction(("1",), "Q1 was answered 9.9, but the data give 5.1"))
    'the answer of Q1 does not fit the data or what is declared: correct it in the log, or take it out'
    """
    names = [_named(q) if q[:1].isdigit() else q for q in found.queries]
    if len(names) == 1:
        return (
            f"the answer of {names[0]} does not fit the data or what is declared: correct it in the log, or take it out"
        )
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if names else "some answers"
    return f"{listed} cannot all be true: correct an answer in the log, or take it out"


def claim(case: Case) -> str:
    """What is known, as the end of a sentence."""
    if case.if_shown:  # a LIMIT may have cut off a row that it takes
        return (
            f"{claim(replace(case, if_shown=False, status=EXPOSED if case.value is not None else INFERRED))}, if shown"
        )
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


def known(case: Case) -> str:
    """What is known, as a cell of a table."""
    if case.status != EXPOSED or case.grade:
        return claim(case)
    told = "determined" if case.value is None else f"= {digits(case.value)}"
    return f"{case.form} {told}" if case.form else told


def sizes(verdict: Plain) -> str:
    """The last lines: how large it was, what is promised, and what was assumed."""
    size = f"{statements(verdict)}{_parts(verdict)}, {counted(verdict.atoms, 'atom')}, rank {verdict.rank}"
    whose = f" of {verdict.people} people" if verdict.people != verdict.records else ""
    records = f"{verdict.records} {'records' if whose else 'people'}{whose}"
    said = f"{records}, {size} (keyhole explain atoms). Promise: {verdict.promise}."
    if verdict.statements.failed:
        said += f"\n{counted(verdict.statements.failed, 'statement')} of the log failed and told nothing: passed over."
    if verdict.statements.ignored:
        said += (
            f"\n{counted(verdict.statements.ignored, 'statement')} of the log read ignored tables alone: passed over."
        )
    if unmatched := [each.number for each in verdict.nobody if not each.of_table]:
        said += f"\nWarning: nobody matches {named(unmatched)}; is that what was meant?"
    said += "".join(f"\nWarning: {each.reason}." for each in verdict.nobody if each.of_table)
    if verdict.source.dialect != "duckdb":
        said += f"\nWritten for {verdict.source.dialect}; taken as given: columns are of the same kinds there as here."
    if not verdict.assumed:
        return said
    kinds = ", ".join(f"{name} {kind}" for name, kind in verdict.assumed.items())
    return f"{said}\nAssumed, from the values: {kinds} (kind = ... in keyhole.toml declares it)."


def _parts(verdict: Plain) -> str:
    """How many answers the statements have, if that is another number."""
    return f" with {verdict.queries} parts" if verdict.queries > verdict.statements.total else ""


def reasons(cases: Sequence[Case]) -> Iterator[str]:
    """The proofs, each with its arithmetic below; people who share a rule, or the shape of a proof, share a line."""
    shared: dict[tuple[object, ...], list[str]] = {}
    for case in cases:
        if case.argument.rule:
            shared.setdefault(_rule(case), []).append(case.named)
    for case, others in told_once(cases):
        if case.argument.rule:
            names = shared.pop(_rule(case), [])
            if names:
                people = _listed(names)
                whose = people if case.grade else f"{case.form or case.column} of {people}"
                yield f"{_cited(case.argument)}: {case.argument.rule}; {whose} {claim(case)}"
        else:
            yield why(case)
            if others:
                yield likewise(others)


def _listed(names: Sequence[str], most: int = NAMES) -> str:
    """Ann, Bob and Cyd; of many the first few."""
    told = [*names[:most], f"{len(names) - most} more"] if len(names) > most + 1 else list(names)
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def _by_assumption(verdict: Plain) -> Iterator[tuple[str, str]]:
    """By statement and group: who follows where only the values that the data have are possible. No value, no name."""
    yield ASSUMED_TITLE, "bold"
    found = verdict.by_assumption
    for each in found[:SHOWN]:
        yield from wrapped(f"{each.column}: {each.why}", "")
    if len(found) > SHOWN:
        yield f"  ... and {len(found) - SHOWN} more (--format json lists all)", ""
    yield from (
        part for line in statements_cited(s for f in found[:SHOWN] for s in f.steps) for part in wrapped(line, "dim")
    )
    for name in dict.fromkeys(f.column for f in found):
        yield from wrapped(f"If {name} can have other values, {verdict.declaring[name]}.", "")


def legend(cases: Sequence[Case]) -> Iterator[str]:
    """The statements behind the numbers that were used, with their answers."""
    return statements_cited(step for case, _ in told_once(cases) for step in case.argument.steps)


def statements_cited(steps: Iterable[Step]) -> Iterator[str]:
    """The statements that steps of proofs cite, with their answers."""
    used = {step.cited.number: step.cited for step in steps if step.cited.fact is None}
    for q in sorted(used, key=query_order)[: 2 * SHOWN]:
        cited = used[q]
        rest = ["any other value"] if cited.replayed.besides is not None else []
        key = ", ".join([*(f"{k} = {v}" for k, v in cited.key), *rest])
        value = cited.answer.value if cited.answer is not None else None
        noise = cited.answer.noise if cited.answer is not None else None
        error = f" ± {_number(noise.scale)}" if noise is not None and noise.bounded and noise.scale else ""
        said = "" if value is None else f"  → {_trim(value)}{error}"
        yield f"Q{q}: {short(cited.sql, 4 * WIDTH)}{f' [{key}]' if key else ''}{said}"


def lines(verdict: Plain) -> Iterator[tuple[str, str]]:
    """The verdict as lines, each with the style in which a terminal shows it."""
    colour = {0: "green", 1: "red"}.get(verdict.exit_code, "yellow")
    yield sentence(verdict), f"bold {colour}"
    by_name = [case for case in verdict.findings if not case.assumed]
    shown = listed(by_name)
    if shown:
        yield "", ""
        yield from _table(shown, verdict.priors)
        if left := len(by_name) - len(shown):
            yield f"... and {left} more narrowed down (--format json lists all)", ""
        yield "", ""
        yield "Why:", "bold"
        proved = argued(shown)
        yield from worked_out(proved)
        if len(proved) < len(shown):
            yield f"  ... and {len(shown) - len(proved)} more proofs (--format json lists all)", ""
        yield from (part for line in legend(proved) for part in wrapped(line, "dim"))
        yield from (part for line in completed(shown) for part in wrapped(line, ""))
    if verdict.by_assumption:
        yield "", ""
        yield from _by_assumption(verdict)
    if verdict.rows:
        yield "", ""
        yield ROWS_TITLE, "bold"
        yield from (part for rows in verdict.rows[:SHOWN] for part in wrapped(handed_out(rows), ""))
        if left := len(verdict.rows) - SHOWN:
            yield from [(f"  ... and {left} more (--format json lists all)", "")] if left > 0 else []
    if verdict.narrowed:
        yield "", ""
        yield from _ranges(verdict)
    if verdict.groups:
        yield "", ""
        yield GROUPS_TITLE, "bold"
        yield from (part for case in verdict.groups[:SHOWN] for part in wrapped(f"{case.who}: {formula(case)}", ""))
    yield from ((line, "yellow") for line in troubles(verdict))
    yield "", ""
    yield sizes(verdict), "dim"


def handed_out(rows: HandedOut) -> str:
    """`Q1 shows name, pay of 6 records; the public columns shown point to 6 of them.`"""
    columns = f" {', '.join(rows.columns)}" if rows.columns else " private values"
    if rows.records is None:
        return f"Q{rows.number} shows{columns}: {short(rows.sql, WIDTH)}"
    whose = f" of {counted(rows.records, 'record')}"
    of_them = "" if rows.singled_out is None else f"; the public columns shown point to {rows.singled_out} of them"
    return f"Q{rows.number} shows{columns}{whose}{of_them}: {short(rows.sql, WIDTH)}"


def worked_out(cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """The proofs with their arithmetic, wrapped."""
    for reason in reasons(cases):
        line, *worked = reason.splitlines()
        worked = [each for each in worked if len(set(each.split(" = "))) > 1]  # 5 = 5 says nothing
        yield from wrapped(line, "")
        yield from (part for each in worked for part in wrapped(each, "dim"))


def text(verdict: Plain) -> str:
    """The lines without colours, as one text."""
    return "\n".join(line.rstrip() for line, _ in lines(verdict))


def _ranges(verdict: Plain) -> Iterator[tuple[str, str]]:
    """Those who stay open in a narrower range; people who share a proof share its line."""
    yield RANGES_TITLE, "bold"
    shown = narrowest_first(verdict.narrowed)[:SHOWN]
    for case in shown:
        early = "; a limit ended the search" if (case.rows[0], case.column) in verdict.limited else ""
        outer = "" if case.tight else f" (outer, not shown to be reached{early})"
        yield f"  {case.named}: {case.column} {claim(case)}{beside(case, verdict.priors)}{outer}", ""
    yield from ((f"  {line}", "") for line in more(verdict.narrowed))
    shared: dict[int, list[Case]] = {}
    for case in shown:
        shared.setdefault(id(case.argument), []).append(case)
    for line in reasons([case for case in shown if case.argument.rule]):
        yield from wrapped(line, "dim")
    for cases in shared.values():
        who = cases[0].named if len(cases) == 1 else f"any of {', '.join(case.named for case in cases)}"
        for end in (each for each in cases[0].argument.ends if each.steps):
            yield from wrapped(range_sentence(end, cases[0], who), "dim")
    yield from (part for line in legend(shown) for part in wrapped(line, "dim"))


def listed(findings: Sequence[Case]) -> list[Case]:
    """Everybody who is exposed; then those who are narrowed down, a page of what is known, the narrowest first."""
    ordered = narrowest_first(findings)
    exposed, rest = (
        [c for c in ordered if c.status == EXPOSED],
        [(c, (c.column, known(c))) for c in ordered if c.status != EXPOSED],
    )
    page = dict.fromkeys(list(dict.fromkeys(key for _, key in rest))[:SHOWN])
    return [*exposed, *(case for case, key in rest if key in page)]


def argued(shown: Sequence[Case]) -> list[Case]:
    """Whose proof is printed: a page of those who are exposed, then of the others; a shared reason is told once."""
    exposed = [case for case in shown if case.status == EXPOSED]
    rest = shown[len(exposed) :]
    single = [case for case in rest if not case.argument.rule][:SHOWN]
    return [*exposed[:SHOWN], *single, *(case for case in rest if case.argument.rule)]


def wrapped(line: str, style: str) -> Iterator[tuple[str, str]]:
    """A line of a proof, with its style, on as many lines as it needs."""
    parts = textwrap.wrap(
        line.replace("→ ", f"→{KEPT}"),
        WIDTH,
        initial_indent="  ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from ((part.replace(KEPT, " "), style) for part in parts)


def narrowest_first(cases: Iterable[Case]) -> list[Case]:
    """Whose value is known exactly, then who is inferred, then the others; among these the narrowest range first."""

    def place(case: Case) -> tuple[bool, bool, bool, Fraction]:
        exposed, width = case.status == EXPOSED, Fraction(0)
        finite = isinstance(case.lo, Decimal) and isinstance(case.hi, Decimal)
        if isinstance(case.lo, Decimal) and isinstance(case.hi, Decimal) and not exposed:
            width = Fraction(case.hi) - Fraction(case.lo)
        return not exposed, not exposed and case.status != INFERRED, not exposed and not finite, width

    return sorted(cases, key=place)


def beside(case: Case, priors: Mapping[str, Prior]) -> str:
    """What was declared, beside a range that is narrower."""
    prior = priors.get(case.column)
    if prior is None or case.status == EXPOSED or (prior.lo is None and prior.hi is None):
        return ""
    lo, hi = "-∞" if prior.lo is None else digits(prior.lo), "∞" if prior.hi is None else digits(prior.hi)
    return f", declared [{lo}, {hi}]"


def _table(cases: Sequence[Case], priors: Mapping[str, Prior]) -> Iterator[tuple[str, str]]:
    """Who and what, in columns as wide as what they hold."""
    rows = [("who", "column", "what is known", "singled out")]
    folded: dict[tuple[str, ...], list[str]] = {}
    for at, case in enumerate(cases):
        said = (case.column, f"{known(case)}{beside(case, priors)}", "yes" if case.singled_out else "no")
        folded.setdefault(said if case.status != EXPOSED else (*said, str(at)), []).append(case.named)
    for (column, told, alone, *_), names in folded.items():
        listed = names if len(names) <= FEW else [_listed(names, FEW - 1)]
        rows += [(who, column, told, alone) for who in listed]
    widths = [min(max(_width(row[k]) for row in rows), WIDEST) for k in range(4)]
    for number, row in enumerate(rows):
        cells = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip(), "bold" if number == 0 else ""


def _width(text: str) -> int:
    """How many places a text takes in a terminal."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _rule(case: Case) -> tuple[object, ...]:
    return _cited(case.argument), case.argument.rule, case.column, case.form, claim(case)


def _cited(argument: Argument) -> str:
    return " and ".join(
        f"fact {step.cited.fact}" if step.cited.fact is not None else f"Q{step.cited.number}" for step in argument.steps
    )


def _added_first(argument: Argument) -> list[Step]:
    """What is added first, then what is taken away."""
    return sorted(argument.steps, key=lambda step: step.weight < 0)


def _trim(value: Decimal | bool) -> str:
    text = str(value) if isinstance(value, bool) else f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
