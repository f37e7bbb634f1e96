"""What published tables give away, in words: the sentence, the cells, and the sums of shown cells that give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from keyhole.auditing.base import name_of
from keyhole.crosstab.cells import Key, label
from keyhole.crosstab.hidden import combine_formula
from keyhole.crosstab.sensitivity import Unprotected
from keyhole.model.numbers import format_fraction
from keyhole.report.cases import Bounding, Case, EndArgument
from keyhole.report.tables import TablesVerdict
from keyhole.report.words.proofs import SHOWN, describe_claim, describe_known, format_sum
from keyhole.report.words.text import sort_by_width

LONGEST = 12  # addends of a formula that are written out


def summarize_tables(found: TablesVerdict) -> str:
    """The verdict in a few sentences."""
    hidden, publication = found.hidden, found.hidden.publication
    n, cells = len(publication.tables), len(publication.cells)
    adding = "1 line that adds" if len(publication.lines) == 1 else f"{len(publication.lines)} lines that add"
    size = f"{'1 table' if n == 1 else f'{n} tables'} ({cells} cells, {adding} up)"
    first = ""
    if found.applied:
        rules = " or ".join(map(str, found.rules))
        first = f"No cell of the files is suppressed, so the rules were applied: {rules} hides {hidden.published}. "
    if not hidden.published:
        first += f"No cell is suppressed in {size}."
    else:
        many = f"{len(found.exposed)} of {hidden.published} suppressed cells"
        verb = "is" if len(found.exposed) == 1 else "are"
        first += f"{many} {verb} recovered exactly from {size}."
    if found.inferred:
        first += f" {len(found.inferred)} more {'is' if len(found.inferred) == 1 else 'are'} known nearly."
    if found.ranges:
        first += f" A narrower range than was known follows for {len(found.ranges)}."
    if found.shown and not found.applied:
        first += f" {len({s.key for s in found.shown})} cells are shown that fail a rule."
    if found.unprotected:
        cells = len({p.key for p in found.unprotected})
        first += f" {cells} {'is' if cells == 1 else 'are'} in a narrower range than a rule asks for."
    if found.by_rule:
        cells = len(found.by_rule)
        first += f" {cells} more {'follows' if cells == 1 else 'follow'} for somebody who knows the rule."
    found_any = found.exposed or found.inferred or found.shown or found.unprotected or found.by_rule
    if found.gap and not found_any:
        first += f" This is not an all-clear: {found.gap}."
    elif not found_any and found.complete and hidden.published:
        first += " Every one of them is shown to be open: other tables with the same numbers exist."
    return first


def render_tables(found: TablesVerdict, besides: Iterable[tuple[str, str]] = ()) -> Iterator[tuple[str, str]]:
    """The verdict as lines with their styles in a terminal; what to do (`besides`) stands after who and why."""
    colour = {0: "green", 1: "red"}.get(found.exit_code, "yellow")
    yield summarize_tables(found), f"bold {colour}"
    cases = sort_by_width(found)
    if cases:
        yield "", ""
        yield from ((f"  {case.who}: {describe_known(case)}", "") for case in cases[:SHOWN])
        yield from ((f"  {line}", "") for line in count_left_out(cases))
        yield "", ""
        yield "Why:", "bold"
        yield from _explain_cells(found, cases[:SHOWN])
    yield from besides
    if found.ranges:
        yield "", ""
        yield "Open, in a range that follows:", "bold"
        shown = sort_by_width(found.ranges)[:SHOWN]
        for case in shown:
            outer = "" if case.tight else " (it may be narrower still)"
            yield f"  {case.who}: {describe_claim(case)}{outer}", ""
        yield from ((f"  {line}", "") for line in count_left_out(found.ranges))
        yield from ((line, "dim") for line, _ in _explain_cells(found, shown))
    yield from _render_rules(found)
    yield from ((f"Contradiction: {reason}", "yellow") for reason in found.contradictions[:SHOWN])
    yield from ((line, "yellow") for line in count_left_out(found.contradictions, "more contradictions"))
    yield "", ""
    yield _explain_reading(found), "dim"


def count_left_out(items: Sequence[object], what: str = "more") -> Iterator[str]:
    """How many are not shown, if any."""
    if len(items) > SHOWN:
        yield f"... and {len(items) - SHOWN} {what} (--format json lists all)"


def explain_cell(found: TablesVerdict, case: Case) -> list[str]:
    """The proof of one case, as lines."""
    return [line.strip() for line, _ in _explain_cells(found, [case])]


def _explain_cells(found: TablesVerdict, cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    used: dict[str, None] = {}
    for case in cases:
        argument = case.argument
        if argument.ends or argument.rule:
            used |= dict.fromkeys(argument.queries)
            named = " and ".join(f"line {q}" for q in argument.queries)
            told = [_explain_end(found, end, case) for end in argument.ends if end.steps]
            yield f"  {' '.join(told) or f'{named}: {argument.rule}; {case.who} {describe_claim(case)}.'}", ""
        else:
            yield from _explain_identity(found, case)
    yield from ((f"  {_format_line(found, q)}", "dim") for q in sorted(used, key=int))


def _explain_end(found: TablesVerdict, end: EndArgument, case: Case) -> str:
    """`line 2 = 9; the other 2 cells of it are at most 3 each (known); so town L is at least 3.`"""
    steps = [(step.weight, f"line {step.cited.number}") for step in end.steps]
    values = [step.weight * Fraction(step.cited.value) for step in end.steps if step.cited.value is not None]
    clauses = [format_sum(steps, end.constant)]
    if len(values) == len(steps):
        clauses[0] += f" = {format_fraction(sum(values, end.constant))}"
    if found.hidden.rounded:
        clauses = [f"by {' and '.join(name for _, name in steps)}"]
    clauses += [_explain_bound(found, each, case) for each in end.bounds]
    word = "at most" if end.side == "hi" else "at least"
    return f"{'; '.join(clauses)}; so {case.who} is {word} {format_fraction(end.end)}."


def _explain_bound(found: TablesVerdict, each: Bounding, case: Case) -> str:
    """`2 other cells are at most 3 each (known)`; `town N is at most 7.5 (rounded)`."""
    used, word = each.used, "at most" if each.used.bound == "max" else "at least"
    times = "" if abs(used.weight) == 1 else f", counted {format_fraction(abs(used.weight))} times"
    said = f"{word} {format_fraction(used.each)}"
    if used.own or each.record is not None or used.people == 1:
        who = case.who if used.own else name_of(each.record) if each.record else "the other cell"
        shown = {label(key) for key in found.hidden.publication.values} if found.hidden.rounded else set()
        return f"{who} is {said} ({'rounded' if who in shown else 'known'}){times}"
    return f"{used.people} other cells are {said} each (known){times}"


def _format_line(found: TablesVerdict, query: str) -> str:
    """`line 2: town K + town L + town M = county 2 - town N = 9`."""
    line, values = found.hidden.lines[int(query) - 1], found.hidden.publication.values
    one = Fraction(1)
    if found.hidden.rounded:
        parts = [(one, _name_with_number(key, values)) for key in line.parts]
        more = " ..." if len(parts) > LONGEST else ""
        return (
            f"line {query}: {format_sum(parts[:LONGEST], Fraction(0))}{more} = {_name_with_number(line.whole, values)}"
        )
    left = [(one, label(key)) for key in line.parts if key not in values]
    right = [(-one, label(key)) for key in line.parts if key in values]
    if line.whole in values:
        right = [(one, label(line.whole)), *right]
    else:
        left = [*left, (-one, label(line.whole))]
    said = [format_sum(side[:LONGEST], Fraction(0)) + (" ..." if len(side) > LONGEST else "") for side in (left, right)]
    alone = line.whole not in values and len(left) == 1
    value = found.hidden.answer(line)
    return f"line {query}: {said[0]} = {said[1]} = {format_fraction(-value if alone else value)}"


def _name_with_number(key: Key, values: Mapping[Key, Fraction]) -> str:
    """`town N (about 7)`; a hidden cell by its name alone."""
    return f"{label(key)} (about {format_fraction(values[key])})" if key in values else label(key)


def _explain_identity(found: TablesVerdict, case: Case) -> Iterator[tuple[str, str]]:
    """`municipality K = size small - county 1 - municipality N`, and the same in numbers."""
    values = found.hidden.publication.values
    used = [(found.hidden.lines[int(s.cited.number) - 1], s.weight) for s in case.argument.steps]
    weights = combine_formula(used, values)
    ordered = sorted(weights.items(), key=lambda pair: (pair[1] < 0, label(pair[0])))
    if len(ordered) > LONGEST:
        numbers = ", ".join(s.cited.number for s in case.argument.steps)
        yield f"  {case.who} = a sum of {len(ordered)} shown cells (lines {numbers})", ""
        return

    def total(name: Sequence[tuple[Key, Fraction]], *, numbers: bool) -> str:
        return format_sum([(w, format_fraction(values[k]) if numbers else label(k)) for k, w in name], Fraction(0))

    yield f"  {case.who} = {total(ordered, numbers=False)}", ""
    if case.value is not None:
        yield f"  {total(ordered, numbers=True)} = {case.value}", "dim"


def _render_rules(found: TablesVerdict) -> Iterator[tuple[str, str]]:
    """What each rule says of the cells."""
    if not found.rules:
        return
    yield "", ""
    for rule in found.rules:
        failing = [s for s in found.sensitive if s.rule == rule]
        shown = [s for s in failing if s.key in found.hidden.publication.values]
        told = f"Rule {rule}: {len(failing)} cells are sensitive, {len(shown)} of them shown"
        if found.untold.get(rule):
            told += f"; {found.untold[rule]} shown cells cannot be decided (no contributors are given)"
        yield f"{told}.", "red" if shown else ""
        yield from ((f"  shown: {label(s.key)}", "") for s in shown[:SHOWN])
        yield from _render_unprotected([p for p in found.unprotected if p.rule == rule])
    if found.by_rule:
        yield "  Whoever knows the rule knows that one of each group of suppressed cells fails it. So follows:", "red"
        yield from ((f"    {label(key)} = {format_fraction(value)}", "") for key, value in found.by_rule[:SHOWN])
        yield from ((f"    {line}", "") for line in count_left_out(found.by_rule))


def _render_unprotected(short: Sequence[Unprotected]) -> Iterator[tuple[str, str]]:
    """Hidden cells that are left a narrower range than their rule asks for."""
    if short:
        many = "1 suppressed cell is" if len(short) == 1 else f"{len(short)} suppressed cells are"
        yield f"  {many} in a narrower range than it asks for:", "red"
    for each in short[:SHOWN]:
        lo, hi = ("none" if end is None else format_fraction(end) for end in (each.lo, each.hi))
        needs = " to ".join(map(format_fraction, each.needs))
        yield f"    {label(each.key)}: from {lo} to {hi}, needed {needs}", ""
    yield from ((f"    {line}", "") for line in count_left_out(short))


def _explain_reading(found: TablesVerdict) -> str:
    """How the numbers were read, and what was taken for granted."""
    publication = found.hidden.publication
    said: list[str] = []
    if publication.radius:
        said += _explain_rounding(found)
    elif publication.said:
        said.append("Numbers are exact, as --rounding 0 says.")
    else:
        said.append("Numbers are taken as exact: every line without a gap adds up (--rounding STEP if they are not).")
    if found.floor and found.hidden.published:
        said.append("No number shown is below 0, so the hidden ones are taken not to be either (--min none).")
    if publication.absent:
        said.append(f"{publication.absent} categories that no table shows count as 0.")
    if found.verdict is not None:
        said.append(f"Promise: {'complete' if found.complete else f'sound, not complete: {found.gap}'}.")
    return "\n".join(said)


def _explain_rounding(found: TablesVerdict) -> Iterator[str]:
    """As what rounded numbers were taken, and which margins show it."""
    publication = found.hidden.publication
    step = format_fraction(2 * publication.radius)
    if publication.said:
        yield f"Numbers are rounded to {step}, as --rounding says, halves either way."
    else:
        yield f"Numbers are taken as rounded to {step}, as their digits show (--rounding STEP; 0: exact)."
    for each in publication.uneven[:SHOWN]:
        yield f"  taken for rounding: {each.reason}"
    yield from (f"  {line}" for line in count_left_out(publication.uneven))
    for case in found.unrounded[:SHOWN]:
        yield f"  rounding is undone: {case.who} {describe_claim(case)}"
