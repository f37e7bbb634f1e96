"""A verdict as text: the sentence, the table, the proofs, what could not be judged, and what is promised."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from keyhole.auditing.base import visible
from keyhole.config.arguments import SCREEN, Detail
from keyhole.errors import DIFFERS
from keyhole.model.prior import Prior
from keyhole.model.transcript import HandedOut
from keyhole.report.cases import EXPOSED, INFERRED, Case, PlainVerdict
from keyhole.report.documents.verdict import Completion
from keyhole.report.words.digits import digits
from keyhole.report.words.measures import name_promise, name_queries, suggest_measures
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
from keyhole.report.words.sentence import counted, format_statement_count, list_notes, summarize_verdict

KEPT = "\ue000"  # stands for a blank at which no line is broken
REASON_LINES = 2  # of a proof with its arithmetic, or of a statement
FEW = 4  # people of whom the same is known have a line each; more of them share one
WIDEST = 60  # places of a column; what is longer pushes the rest of its line
COMPLETED = 5  # people that one line of completed findings names
LISTED = 20  # people, or groups of people of whom the same is known
REASONS = 5  # of each sort: proofs, statements that proofs cite, reasons not to judge
RANGES_TITLE = "Open, in a range that follows from the answers and what is known:"
ASSUMED_TITLE = "Determined if only the values that the data have are possible (nothing is declared):"
ROWS_TITLE = "Rows handed out, with private values or of people chosen by them:"
GROUPS_TITLE = "Groups whose total is determined:"


def render_text(verdict: PlainVerdict, detail: Detail = SCREEN) -> str:
    """The lines without colours, as one text."""
    return "\n".join(line.rstrip() for line, _ in render_lines(verdict, detail))


def render_lines(verdict: PlainVerdict, detail: Detail = SCREEN) -> Iterator[tuple[str, str]]:
    """The verdict as lines, each with the style in which a terminal shows it: who is exposed and why, what to do, what
    was not judged, what is proved of everybody else.
    """
    colour = {0: "green", 1: "red"}.get(verdict.exit_code, "yellow")
    yield summarize_verdict(verdict), f"bold {colour}"
    for part in (_render_findings, _render_assumed, _render_rows, _render_groups, _render_ranges, _render_measures):
        lines = list(part(verdict, detail))
        if lines:
            yield "", ""
            yield from lines
    problems = list(list_problems(verdict, detail.limit(REASONS)))
    if problems:
        yield "", ""
        yield from ((line, "yellow") for line in problems)
    yield "", ""
    yield from (part for line in list_warnings(verdict) for part in wrap_line(line, "yellow", ""))
    yield from wrap_line(name_promise(verdict), "bold", "")
    if detail.technical:
        yield from ((line, "dim") for line in describe_size(verdict).splitlines())


def _render_findings(verdict: PlainVerdict, detail: Detail) -> Iterator[tuple[str, str]]:
    """Who is exposed and why: a table, then the proofs of the first, and the statements that these cite."""
    by_name = [case for case in verdict.findings if not case.assumed]
    if not by_name:
        return
    folded = fold_findings(sort_by_width(by_name), verdict.priors)
    shown = folded[: detail.limit(LISTED)]
    yield from _render_table([row for row, _ in shown])
    yield from count_rest(sum(len(cases) for _, cases in folded[len(shown) :]), "more")
    yield "", ""
    yield "Why:", "bold"
    proved = select_proved([case for _, cases in shown for case in cases])
    reasons = list(explain_cases(proved))
    for reason in reasons[: detail.limit(REASONS)]:
        yield from shorten_lines(wrap_reason(reason), detail)
    yield from count_rest(len(reasons) - detail.limit(REASONS), "more reasons")
    cited = list(list_statements(proved))
    for line in cited[: detail.limit(REASONS)]:
        yield from shorten_lines(wrap_line(line, "dim"), detail)
    yield from count_rest(len(cited) - detail.limit(REASONS), "more statements")
    firsts = list(name_completions(case for _, cases in shown for case in cases))
    yield from (part for line in firsts[: detail.limit(REASONS)] for part in wrap_line(line, ""))
    yield from count_rest(len(firsts) - detail.limit(REASONS), "more statements that completed a finding")


def shorten_lines(lines: Iterable[tuple[str, str]], detail: Detail) -> Iterator[tuple[str, str]]:
    """The first two of the lines of one proof or statement, unless everything is wanted."""
    whole = list(lines)
    if detail.everybody or len(whole) <= REASON_LINES:
        yield from whole
        return
    *before, (last, style) = whole[:REASON_LINES]
    yield from before
    yield f"{last} ... (--all)", style


def count_rest(number: int, what: str) -> Iterator[tuple[str, str]]:
    """How many are not shown, if any."""
    if number > 0:
        yield f"  ... and {number} {what}, --all", ""


def sort_by_width(cases: Iterable[Case]) -> list[Case]:
    """Whose value is known exactly, then who is inferred, then the others; among these the narrowest range first."""

    def place(case: Case) -> tuple[bool, bool, bool, Fraction]:
        exposed, width = case.status == EXPOSED, Fraction(0)
        finite = isinstance(case.lo, Decimal) and isinstance(case.hi, Decimal)
        if isinstance(case.lo, Decimal) and isinstance(case.hi, Decimal) and not exposed:
            width = Fraction(case.hi) - Fraction(case.lo)
        return not exposed, not exposed and case.status != INFERRED, not exposed and not finite, width

    return sorted(cases, key=place)


Row = tuple[str, str, str, str]


def fold_findings(cases: Sequence[Case], priors: Mapping[str, Prior]) -> list[tuple[Row, list[Case]]]:
    """The rows of the table, each with whom it is about; many of whom the same is known share one."""
    folded: dict[tuple[str, ...], list[Case]] = {}
    for at, case in enumerate(cases):
        known = f"{describe_known(case)}{describe_declared(case, priors)}"
        row = (case.column, known, "yes" if case.singled_out else "no")
        folded.setdefault(row if case.status != EXPOSED else (*row, str(at)), []).append(case)
    rows: list[tuple[Row, list[Case]]] = []
    for (column, known, alone, *_), same in folded.items():
        if len(same) <= FEW:
            rows += [((case.named, column, known, alone), [case]) for case in same]
        else:
            rows.append(((join_names([case.named for case in same], FEW - 1), column, known, alone), same))
    return rows


def _render_table(found: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Who and what, in columns as wide as what they hold."""
    rows = [("who", "column", "what is known", "singled out"), *found]
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
        yield from wrap_reason(reason)


def wrap_reason(reason: str) -> Iterator[tuple[str, str]]:
    """A formula and the arithmetic under it."""
    line, *worked = reason.splitlines()
    worked = [each for each in worked if len(set(each.split(" = "))) > 1]  # 5 = 5 says nothing
    yield from wrap_line(line, "")
    yield from (part for each in worked for part in wrap_line(each, "dim"))


def wrap_line(line: str, style: str, indent: str = "  ") -> Iterator[tuple[str, str]]:
    """A line of a proof, with its style, on as many lines as it needs."""
    parts = textwrap.wrap(
        line.replace("→ ", f"→{KEPT}"),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}    " if indent else "  ",
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


def _render_assumed(verdict: PlainVerdict, detail: Detail) -> Iterator[tuple[str, str]]:
    """By statement and group: who follows where only the values that the data have are possible. No value, no name."""
    found = verdict.by_assumption
    if not found:
        return
    yield ASSUMED_TITLE, "bold"
    shown = found[: detail.limit(REASONS)]
    for each in shown:
        yield from wrap_line(f"{each.column}: {each.why}", "")
    yield from count_rest(len(found) - len(shown), "more")
    cited = list(cite_statements(step for each in shown for step in each.steps))
    for line in cited[: detail.limit(REASONS)]:
        yield from shorten_lines(wrap_line(line, "dim"), detail)
    yield from count_rest(len(cited) - detail.limit(REASONS), "more statements")
    for name in dict.fromkeys(each.column for each in found):
        yield from wrap_line(f"If {name} can have other values, {verdict.declaring[name]}.", "")


def _render_rows(verdict: PlainVerdict, detail: Detail) -> Iterator[tuple[str, str]]:
    """The statements that hand out rows."""
    if not verdict.rows:
        return
    yield ROWS_TITLE, "bold"
    yield from (part for rows in verdict.rows[: detail.limit(REASONS)] for part in wrap_line(describe_rows(rows), ""))
    yield from count_rest(len(verdict.rows) - detail.limit(REASONS), "more")


def _render_groups(verdict: PlainVerdict, detail: Detail) -> Iterator[tuple[str, str]]:
    """Small groups whose total is determined."""
    if not verdict.groups:
        return
    yield GROUPS_TITLE, "bold"
    for case in verdict.groups[: detail.limit(REASONS)]:
        yield from shorten_lines(wrap_line(f"{case.who}: {format_formula(case)}", ""), detail)
    yield from count_rest(len(verdict.groups) - detail.limit(REASONS), "more")


def _render_measures(verdict: PlainVerdict, _detail: Detail) -> Iterator[tuple[str, str]]:
    """What to do: there is always something to say."""
    yield "What to do:", "bold"
    yield from (part for line in suggest_measures(verdict) for part in wrap_line(line, ""))


def describe_rows(rows: HandedOut) -> str:
    """`Q1 shows name, pay of 6 records; the public columns shown point to 6 of them.`"""
    columns = f" {', '.join(rows.columns)}" if rows.columns else " private values"
    if rows.records is None:
        return f"Q{rows.number} shows{columns}: {shorten_sql(rows.sql, WIDTH)}"
    whose = f" of {counted(rows.records, 'record')}"
    of_them = "" if rows.singled_out is None else f"; the public columns shown point to {rows.singled_out} of them"
    return f"Q{rows.number} shows{columns}{whose}{of_them}: {shorten_sql(rows.sql, WIDTH)}"


def _render_ranges(verdict: PlainVerdict, detail: Detail) -> Iterator[tuple[str, str]]:
    """What follows besides; with --ranges those who stay open in a narrower range, each with the reason."""
    notes = list(list_notes(verdict))
    if notes and verdict.narrowed and not detail.ranges:
        notes[-1] = f"{notes[-1].rstrip('.')} (keyhole audit --ranges)."
    yield from (part for line in notes for part in wrap_line(line, "", ""))
    if not verdict.narrowed or not detail.ranges:
        return
    yield RANGES_TITLE, "bold"
    shown = sort_by_width(verdict.narrowed)[: detail.limit(SHOWN)]
    for case in shown:
        early = "; a limit ended the search" if (case.rows[0], case.column) in verdict.limited else ""
        outer = "" if case.tight else f" (it may be narrower still{early})"
        yield (
            f"  {case.named}: {case.column} {describe_claim(case)}{describe_declared(case, verdict.priors)}{outer}",
            "",
        )
    yield from count_rest(len(verdict.narrowed) - len(shown), "more")
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


def list_problems(verdict: PlainVerdict, most: int = SHOWN) -> Iterator[str]:
    """What was not judged, one line a reason, and how many reasons more there are."""
    reasons = list(dict.fromkeys(c.reason for c in verdict.contradictions))
    yield from (f"Contradiction: {reason}" for reason in reasons[:most])
    unjudged = group_by_reason((u.reason, u.number, u.sql) for u in verdict.unjudged)
    for reason, (numbers, sql) in list(unjudged.items())[:most]:
        first = ", the first" if len(numbers) > 1 else ""
        yield f"Not judged: {name_queries(numbers)} ({reason}){first}: {shorten_sql(sql)}"
        if reason == DIFFERS:
            from keyhole.sql.statements.redact import remove_constants

            yield f"  to report, without its constants: {remove_constants(sql)}"
    refused = group_by_reason((r.error.partition("\n")[0], r.number, r.error) for r in verdict.refused)
    for numbers, error in list(refused.values())[:most]:
        yield f"Refused: {name_queries(numbers[:1])}: {error}"
        if len(numbers) > 1:
            yield f"  and likewise {name_queries(numbers[1:])}"
    for what, found in (
        ("contradictions", reasons),
        ("reasons not to judge", unjudged),
        ("reasons to refuse", refused),
    ):
        yield from (line.strip() for line, _ in count_rest(len(found) - most, f"more {what}"))


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


def list_warnings(verdict: PlainVerdict) -> Iterator[str]:
    """What a reader of the log should look at: statements that failed or match nobody, and doubts about the table."""
    if verdict.statements.failed:
        yield f"{counted(verdict.statements.failed, 'statement')} of the log failed when run: passed over."
    if verdict.statements.ignored:
        yield f"{counted(verdict.statements.ignored, 'statement')} of the log read ignored tables alone: passed over."
    if unmatched := [each.number for each in verdict.nobody if not each.of_table]:
        yield f"Warning: nobody matches {name_queries(unmatched)}; is that what was meant?"
    yield from (f"Warning: {each.reason}." for each in verdict.nobody if each.of_table)


def describe_size(verdict: PlainVerdict) -> str:
    """The technical lines: how large it was, under which conditions the promise holds, and what was assumed."""
    parts = f" with {verdict.queries} parts" if verdict.queries > verdict.statements.total else ""
    size = (
        f"{format_statement_count(verdict)}{parts}, {counted(verdict.atoms, 'class', 'classes')}, rank {verdict.rank}"
    )
    whose = f" of {verdict.people} people" if verdict.people != verdict.records else ""
    records = f"{verdict.records} {'records' if whose else 'people'}{whose}"
    lines = [f"{records}, {size} (keyhole explain class).", f"Promise: {verdict.promise}."]
    if verdict.source.dialect != "duckdb":
        lines.append(f"Written for {verdict.source.dialect}; columns are taken to be of the same kinds there as here.")
    if verdict.assumed:
        kinds = ", ".join(f"{name} {kind}" for name, kind in verdict.assumed.items())
        lines.append(f"Assumed, from the values: {kinds} (kind = ... in keyhole.toml declares it).")
    return "\n".join(lines)


def render_views(views: Mapping[str, PlainVerdict], detail: Detail = SCREEN) -> Iterator[tuple[str, str]]:
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
        if not by_name and not view.exit_code:
            continue
        yield "", ""
        yield f"To {visible(who)} alone: {summarize_verdict(view)}", "bold"
        reasons = list(explain_cases(select_proved(sort_by_width(by_name))))
        for reason in reasons[: detail.limit(REASON_LINES)]:
            yield from shorten_lines(wrap_reason(reason), detail)
        yield from count_rest(len(reasons) - detail.limit(REASON_LINES), "more reasons")
        if detail.everybody:
            yield from (part for line in name_completions(by_name) for part in wrap_line(line, ""))
        for each in view.by_assumption[: detail.limit(REASON_LINES)]:
            yield from wrap_line(f"{each.column}: {each.why}", "")


def _count_findings(view: PlainVerdict) -> tuple[int, int, int, int]:
    told = view.statements
    exposed = {case.rows for case in view.exposed}
    narrowed = {case.rows for case in view.inferred} - exposed
    return told.total, len(exposed), len(narrowed), told.unjudged + told.refused
