"""A verdict for a notebook: the sentence, who is exposed and why, and what could not be judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from keyhole.report.cases import Case, PlainVerdict
from keyhole.report.charts.svg import Markup
from keyhole.report.formats.document import describe_verdict
from keyhole.report.html.audit import draw_value_ranges
from keyhole.report.html.page import render_fragment
from keyhole.report.words.proofs import SHOWN, describe_claim, explain_cases, format_formula, list_statements
from keyhole.report.words.sentence import summarize_verdict
from keyhole.report.words.text import (
    ASSUMED_TITLE,
    GROUPS_TITLE,
    describe_size,
    list_problems,
    select_findings,
    select_proved,
)


def html(verdict: PlainVerdict) -> str:
    """The verdict as a fragment of HTML, its ranges drawn; every name, value and statement is escaped."""
    parts, drawings = Markup("".join(_parts(verdict))), draw_value_ranges(describe_verdict(verdict, ()))
    return render_fragment("notebook/verdict.html.jinja", parts=parts, drawings=drawings)


def _parts(verdict: PlainVerdict) -> Iterator[str]:
    yield f"<p><b>{escape(summarize_verdict(verdict))}</b></p>"
    by_name = [case for case in verdict.findings if not case.assumed]
    shown = select_findings(by_name)
    if shown:
        yield _table(shown)
        if left := len(by_name) - len(shown):
            yield f"<p>... and {left} more narrowed down</p>"
        yield "<p><b>Why:</b></p>"
        yield _lines([*explain_cases(select_proved(shown)), *list_statements(select_proved(shown))])
    if verdict.by_assumption:
        yield f"<p><b>{escape(ASSUMED_TITLE)}</b></p>"
        yield _lines([f"{each.column}: {each.why}" for each in verdict.by_assumption[:SHOWN]])
    if verdict.groups:
        yield f"<p><b>{escape(GROUPS_TITLE)}</b></p>"
        yield _lines([f"{case.who}: {format_formula(case)}" for case in verdict.groups[:SHOWN]])
    wrong = list(list_problems(verdict))
    if wrong:
        yield "<p><b>Not an all-clear:</b></p>"
        yield _lines(wrong)
    yield f"<p><small>{escape(describe_size(verdict))}</small></p>"


def _table(cases: Sequence[Case]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("who", "column", "status", "value", "singled out", "proof"))
    return f"<table><tr>{head}</tr>{''.join(map(_row, cases))}</table>"


def _row(case: Case) -> str:
    value = str(case.value) if case.value is not None else describe_claim(case)
    alone = "yes" if case.singled_out else "no"
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in (case.who, case.column, case.status, value, alone))
    return f"<tr>{cells}<td><code>{escape(format_formula(case))}</code></td></tr>"


def _lines(lines: Sequence[str]) -> str:
    return f"<pre>{escape(chr(10).join(lines))}</pre>"
