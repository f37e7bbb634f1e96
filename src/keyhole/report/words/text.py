"""A verdict as text: the sentence, the table, the proofs, what could not be judged, and what is promised."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from keyhole.auditing.base import query_order, visible
from keyhole.errors import DIFFERS
from keyhole.model.prior import Prior
from keyhole.model.transcript import HandedOut
from keyhole.report.cases import EXPOSED, INFERRED, Case, PlainVerdict
from keyhole.report.documents.verdict import Completion
from keyhole.report.words.digits import digits
from keyhole.report.words.proofs import (
    SHOWN,
    WIDTH,
    cite_statements,
    describe_claim,
    describe_known,
    explain_cases,
    explain_end,
    format_formula,
    join_names,
    list_statements,
    shorten_sql,
)
from keyhole.report.words.sentence import counted, format_statement_count, summarize_verdict

KEPT = "\ue000"  # stands for a blank at which no line is broken
FEW = 4  # people of whom the same is known have a line each; more of them share one
WIDEST = 60  # places of a column; what is longer pushes the rest of its line
NAMED = 8  # statements that one reason names
COMPLETED = 5  # people that one line of completed findings names
RANGES_TITLE = "Open, in a range that follows from the answers and what is known:"
ASSUMED_TITLE = "Determined if only the values that the data have are possible (nothing is declared):"
ROWS_TITLE = "Rows handed out, with private values or of people chosen by them:"
GROUPS_TITLE = (
    "Groups whose total is determined (the general search is hard; these were found by testing atoms, "
    "queries, differences and reduced rows):"
)


def render_text(verdict: PlainVerdict) -> str:
    """The lines without colours, as one text."""
    return "\n".join(line.rstrip() for line, _ in render_lines(verdict))


def render_lines(verdict: PlainVerdict) -> Iterator[tuple[str, str]]:
    """The verdict as lines, each with the style in which a terminal shows it."""
    colour = {0: "green", 1: "red"}.get(verdict.exit_code, "yellow")
    yield summarize_verdict(verdict), f"bold {colour}"
    by_name = [case for case in verdict.findings if not case.assumed]
    shown = select_findings(by_name)
    if shown:
        yield "", ""
        yield from _render_table(shown, verdict.priors)
        if left := len(by_name) - len(shown):
            yield f"... and {left} more narrowed down (--format json lists all)", ""
        yield "", ""
        yield "Why:", "bold"
        proved = select_proved(shown)
        yield from wrap_proofs(proved)
        if len(proved) < len(shown):
            yield f"  ... and {len(shown) - len(proved)} more proofs (--format json lists all)", ""
        yield from (part for line in list_statements(proved) for part in wrap_line(line, "dim"))
        yield from (part for line in name_completions(shown) for part in wrap_line(line, ""))
    if verdict.by_assumption:
        yield "", ""
        yield from _render_assumed(verdict)
    if verdict.rows:
        yield "", ""
        yield ROWS_TITLE, "bold"
        yield from (part for rows in verdict.rows[:SHOWN] for part in wrap_line(describe_rows(rows), ""))
        if left := len(verdict.rows) - SHOWN:
            yield from [(f"  ... and {left} more (--format json lists all)", "")] if left > 0 else []
    if verdict.narrowed:
        yield "", ""
        yield from _render_ranges(verdict)
    if verdict.groups:
        yield "", ""
        yield GROUPS_TITLE, "bold"
        yield from (
            part for case in verdict.groups[:SHOWN] for part in wrap_line(f"{case.who}: {format_formula(case)}", "")
        )
    yield from ((line, "yellow") for line in list_problems(verdict))
    yield "", ""
    yield describe_size(verdict), "dim"


def select_findings(findings: Sequence[Case]) -> list[Case]:
    """Everybody who is exposed; then those who are narrowed down, a page of what is known, the narrowest first."""
    ordered = sort_by_width(findings)
    exposed, rest = (
        [c for c in ordered if c.status == EXPOSED],
        [(c, (c.column, describe_known(c))) for c in ordered if c.status != EXPOSED],
    )
    page = dict.fromkeys(list(dict.fromkeys(key for _, key in rest))[:SHOWN])
    return [*exposed, *(case for case, key in rest if key in page)]


def sort_by_width(cases: Iterable[Case]) -> list[Case]:
    """Whose value is known exactly, then who is inferred, then the others; among these the narrowest range first."""

    def place(case: Case) -> tuple[bool, bool, bool, Fraction]:
        exposed, width = case.status == EXPOSED, Fraction(0)
        finite = isinstance(case.lo, Decimal) and isinstance(case.hi, Decimal)
        if isinstance(case.lo, Decimal) and isinstance(case.hi, Decimal) and not exposed:
            width = Fraction(case.hi) - Fraction(case.lo)
        return not exposed, not exposed and case.status != INFERRED, not exposed and not finite, width

    return sorted(cases, key=place)


def _render_table(cases: Sequence[Case], priors: Mapping[str, Prior]) -> Iterator[tuple[str, str]]:
    """Who and what, in columns as wide as what they hold."""
    rows = [("who", "column", "what is known", "singled out")]
    folded: dict[tuple[str, ...], list[str]] = {}
    for at, case in enumerate(cases):
        said = (
            case.column,
            f"{describe_known(case)}{describe_declared(case, priors)}",
            "yes" if case.singled_out else "no",
        )
        folded.setdefault(said if case.status != EXPOSED else (*said, str(at)), []).append(case.named)
    for (column, told, alone, *_), names in folded.items():
        listed = names if len(names) <= FEW else [join_names(names, FEW - 1)]
        rows += [(who, column, told, alone) for who in listed]
    widths = [min(max(_measure_width(row[k]) for row in rows), WIDEST) for k in range(4)]
    for number, row in enumerate(rows):
        cells = (cell + " " * (width - _measure_width(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip(), "bold" if number == 0 else ""


def describe_declared(case: Case, priors: Mapping[str, Prior]) -> str:
    """What was declared, beside a range that is narrower."""
    prior = priors.get(case.column)
    if prior is None or case.status == EXPOSED or (prior.lo is None and prior.hi is None):
        return ""
    lo, hi = "-∞" if prior.lo is None else digits(prior.lo), "∞" if prior.hi is None else digits(prior.hi)
    return f", declared [{lo}, {hi}]"


def _measure_width(text: str) -> int:
    """How many places a text takes in a terminal."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def select_proved(shown: Sequence[Case]) -> list[Case]:
    """Whose proof is printed: a page of those who are exposed, then of the others; a shared reason is told once."""
    exposed = [case for case in shown if case.status == EXPOSED]
    rest = shown[len(exposed) :]
    single = [case for case in rest if not case.argument.rule][:SHOWN]
    return [*exposed[:SHOWN], *single, *(case for case in rest if case.argument.rule)]


def wrap_proofs(cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """The proofs with their arithmetic, wrapped."""
    for reason in explain_cases(cases):
        line, *worked = reason.splitlines()
        worked = [each for each in worked if len(set(each.split(" = "))) > 1]  # 5 = 5 says nothing
        yield from wrap_line(line, "")
        yield from (part for each in worked for part in wrap_line(each, "dim"))


def wrap_line(line: str, style: str) -> Iterator[tuple[str, str]]:
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


def name_completions(cases: Iterable[Case]) -> Iterator[str]:
    """Who was completed by which statement, for logs that say who asked or when; others show it in their proofs."""
    found: dict[Completion, list[str]] = {}
    for case in cases:
        if case.first is not None and (case.first.analyst or case.first.time):
            found.setdefault(case.first, []).append(f"{case.who}'s {case.column}{case.place}")
    for first, whose in sorted(found.items(), key=lambda item: int(item[0].query)):
        more = f" and {len(whose) - COMPLETED} more" if len(whose) > COMPLETED else ""
        yield f"First known with {first}: {', '.join(whose[:COMPLETED])}{more}"


def _render_assumed(verdict: PlainVerdict) -> Iterator[tuple[str, str]]:
    """By statement and group: who follows where only the values that the data have are possible. No value, no name."""
    yield ASSUMED_TITLE, "bold"
    found = verdict.by_assumption
    for each in found[:SHOWN]:
        yield from wrap_line(f"{each.column}: {each.why}", "")
    if len(found) > SHOWN:
        yield f"  ... and {len(found) - SHOWN} more (--format json lists all)", ""
    yield from (
        part for line in cite_statements(s for f in found[:SHOWN] for s in f.steps) for part in wrap_line(line, "dim")
    )
    for name in dict.fromkeys(f.column for f in found):
        yield from wrap_line(f"If {name} can have other values, {verdict.declaring[name]}.", "")


def describe_rows(rows: HandedOut) -> str:
    """`Q1 shows name, pay of 6 records; the public columns shown point to 6 of them.`"""
    columns = f" {', '.join(rows.columns)}" if rows.columns else " private values"
    if rows.records is None:
        return f"Q{rows.number} shows{columns}: {shorten_sql(rows.sql, WIDTH)}"
    whose = f" of {counted(rows.records, 'record')}"
    of_them = "" if rows.singled_out is None else f"; the public columns shown point to {rows.singled_out} of them"
    return f"Q{rows.number} shows{columns}{whose}{of_them}: {shorten_sql(rows.sql, WIDTH)}"


def _render_ranges(verdict: PlainVerdict) -> Iterator[tuple[str, str]]:
    """Those who stay open in a narrower range; people who share a proof share its line."""
    yield RANGES_TITLE, "bold"
    shown = sort_by_width(verdict.narrowed)[:SHOWN]
    for case in shown:
        early = "; a limit ended the search" if (case.rows[0], case.column) in verdict.limited else ""
        outer = "" if case.tight else f" (outer, not shown to be reached{early})"
        yield (
            f"  {case.named}: {case.column} {describe_claim(case)}{describe_declared(case, verdict.priors)}{outer}",
            "",
        )
    yield from ((f"  {line}", "") for line in count_left_out(verdict.narrowed))
    shared: dict[int, list[Case]] = {}
    for case in shown:
        shared.setdefault(id(case.argument), []).append(case)
    for line in explain_cases([case for case in shown if case.argument.rule]):
        yield from wrap_line(line, "dim")
    for cases in shared.values():
        who = cases[0].named if len(cases) == 1 else f"any of {', '.join(case.named for case in cases)}"
        for end in (each for each in cases[0].argument.ends if each.steps):
            yield from wrap_line(explain_end(end, cases[0], who), "dim")
    yield from (part for line in list_statements(shown) for part in wrap_line(line, "dim"))


def list_problems(verdict: PlainVerdict) -> Iterator[str]:
    """One line a reason, and how many reasons more there are."""
    reasons = list(dict.fromkeys(c.reason for c in verdict.contradictions))
    yield from (f"Contradiction: {reason}" for reason in reasons[:SHOWN])
    unjudged = group_by_reason((u.reason, u.number, u.sql) for u in verdict.unjudged)
    for reason, (numbers, sql) in list(unjudged.items())[:SHOWN]:
        first = ", the first" if len(numbers) > 1 else ""
        yield f"Not judged: {name_queries(numbers)} ({reason}){first}: {shorten_sql(sql)}"
        if reason == DIFFERS:
            from keyhole.sql.statements.redact import remove_constants

            yield f"  to report, without its constants: {remove_constants(sql)}"
    refused = group_by_reason((r.error.partition("\n")[0], r.number, r.error) for r in verdict.refused)
    for numbers, error in list(refused.values())[:SHOWN]:
        yield f"Refused: {name_queries(numbers[:1])}: {error}"
        if len(numbers) > 1:
            yield f"  and likewise {name_queries(numbers[1:])}"
    for what, found in (
        ("contradictions", reasons),
        ("reasons not to judge", unjudged),
        ("reasons to refuse", refused),
    ):
        yield from count_left_out(list(found), f"more {what}")


def group_by_reason(found: Iterable[tuple[str, str, str]]) -> dict[str, tuple[list[str], str]]:
    """(reason, number, text) by reason: the numbers, and the text of the first.

    >>> group_by_reason([("no", "1", "a"), ("why", "2", "b"), ("no", "3.1", "c"), ("no", "3.2", "c")])
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


def name_queries(numbers: Sequence[str]) -> str:
    """The statements by number, the first few of many.

    >>> name_queries(["1"]), name_queries(["1", "2", "5"]), name_queries([str(n) for n in range(1, 31)])
    ('Q1', 'Q1, Q2 and Q5', 'Q1, Q2, Q3, Q4, Q5, Q6, Q7, Q8 and 22 more')
    """
    told = [n if n.startswith("fact") else f"Q{n}" for n in sorted(numbers, key=query_order)]
    if len(told) > NAMED + 1:
        told = [*told[:NAMED], f"{len(told) - NAMED} more"]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def count_left_out(items: Sequence[object], what: str = "more") -> Iterator[str]:
    """How many are not shown, if any."""
    if len(items) > SHOWN:
        yield f"... and {len(items) - SHOWN} {what} (--format json lists all)"


def describe_size(verdict: PlainVerdict) -> str:
    """The last lines: how large it was, what is promised, and what was assumed."""
    parts = f" with {verdict.queries} parts" if verdict.queries > verdict.statements.total else ""
    size = f"{format_statement_count(verdict)}{parts}, {counted(verdict.atoms, 'atom')}, rank {verdict.rank}"
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
        said += f"\nWarning: nobody matches {name_queries(unmatched)}; is that what was meant?"
    said += "".join(f"\nWarning: {each.reason}." for each in verdict.nobody if each.of_table)
    if verdict.source.dialect != "duckdb":
        said += f"\nWritten for {verdict.source.dialect}; taken as given: columns are of the same kinds there as here."
    if not verdict.assumed:
        return said
    kinds = ", ".join(f"{name} {kind}" for name, kind in verdict.assumed.items())
    return f"{said}\nAssumed, from the values: {kinds} (kind = ... in keyhole.toml declares it)."


def render_views(views: Mapping[str, PlainVerdict]) -> Iterator[tuple[str, str]]:
    """Lines with their styles: a table of all analysts, then who is exposed to each of them, and why."""
    yield "", ""
    yield "By analyst, each from his own questions alone (above: all of them together):", "bold"
    rows: list[tuple[str, ...]] = [("analyst", "statements", "exposed", "narrowed down", "not judged", "all-clear")]
    rows += [
        (visible(who), *map(str, _count_findings(view)), "no" if view.exit_code else "yes")
        for who, view in views.items()
    ]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), ""
    for who, view in views.items():
        by_name = [case for case in view.findings if not case.assumed]
        shown = select_findings(by_name)
        if not shown and not view.exit_code:
            continue
        yield "", ""
        yield f"To {visible(who)} alone: {summarize_verdict(view)}", "bold"
        yield from wrap_proofs(select_proved(shown))
        yield from (part for line in name_completions(shown) for part in wrap_line(line, ""))
        yield from ((f"  {line}", "") for line in count_left_out(by_name))
        for each in view.by_assumption[:SHOWN]:
            yield from wrap_line(f"{each.column}: {each.why}", "")


def _count_findings(view: PlainVerdict) -> tuple[int, int, int, int]:
    told = view.statements
    exposed = {case.rows for case in view.exposed}
    narrowed = {case.rows for case in view.inferred} - exposed
    return told.total, len(exposed), len(narrowed), told.unjudged + told.refused
