"""A verdict as JUnit XML, for the test tab of a pipeline: one test case a statement.

A statement fails if it completes the exposure of somebody, is an error if it was refused or not judged, and passes
otherwise. With a baseline, people who were exposed before are only mentioned. Private values are left out.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from keyhole.auditing.base import query_order
from keyhole.logs.open import Log
from keyhole.report.cases import EXPOSED, GROUP, INFERRED, Case, PlainVerdict
from keyhole.report.formats.baseline import Baseline
from keyhole.report.formats.sarif import Views
from keyhole.report.words.proofs import describe_contradiction, describe_without_value
from keyhole.report.words.sentence import explain_nothing_judged

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # not allowed in XML 1.0
_WHOLE = "0"  # what belongs to no statement


def junit(verdict: PlainVerdict, log: Log, baseline: Baseline | None = None, views: Views | None = None) -> str:
    """The XML text; with `views` a suite more for each analyst, over what he asked alone."""
    root = ElementTree.Element("testsuites")
    root.append(_suite(verdict, log, baseline, f"keyhole audit {log.name}"))
    for who, (view, part) in (views or {}).items():
        root.append(_suite(view, part, baseline, f"keyhole audit {log.name}: {who} alone"))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(verdict: PlainVerdict, log: Log, baseline: Baseline | None, name: str) -> ElementTree.Element:
    failures: dict[str, list[Case]] = {}
    known: dict[str, list[Case]] = {}
    errors: dict[str, list[str]] = {}
    for case in verdict.cases:
        into = known if baseline is not None and baseline.knows(case) else failures
        into.setdefault(_statement(case.completed_by), []).append(case)
    for rows in verdict.rows:
        errors.setdefault(_statement(rows.number), []).append("it hands out rows with private values")
    for text, c in {describe_contradiction(c): c for c in verdict.contradictions}.items():
        errors.setdefault(_statement(c.queries[-1] if c.queries else None), []).append(text)
    for u in verdict.unjudged:
        errors.setdefault(_statement(u.number), []).append(f"not judged: {u.reason}")
    for r in verdict.refused:
        errors.setdefault(_statement(r.number), []).append(f"refused: {r.error}")
    if not verdict.judged:
        errors.setdefault(_WHOLE, []).append(explain_nothing_judged(verdict))
    texts = {str(line.number): line.sql for line in log.lines} | {
        r.number: "" if r.is_raw else r.sql for r in log.refused
    }
    numbers = sorted({*texts, *failures, *known, *errors}, key=query_order)
    places = log.places()
    suite = ElementTree.Element(
        "testsuite",
        name=_clean(name),
        tests=str(len(numbers)),
        failures=str(len(failures)),
        errors=str(len(errors.keys() - failures.keys())),
        skipped="0",
    )
    for number in numbers:
        title = "the log as a whole" if number == _WHOLE else f"Q{number}: {_short(texts.get(number, ''))}"
        test = ElementTree.SubElement(
            suite,
            "testcase",
            classname=_clean(log.name),
            name=_clean(title),
            file=_clean(log.name),
            line=str(places.get(number, 1)),
        )
        if number in failures:
            _say(
                test, "failure", _counted(failures[number]), [describe_without_value(case) for case in failures[number]]
            )
        elif number in errors:
            _say(test, "error", _clean(errors[number][0].splitlines()[0]), errors[number])
        if number in known:
            ElementTree.SubElement(test, "system-out").text = _clean(
                "\n".join("known: " + describe_without_value(case) for case in known[number])
            )
    return suite


def _counted(cases: list[Case]) -> str:
    """How many of each kind, in the words of the findings."""
    words = {EXPOSED: "exposed", INFERRED: "narrowed down", GROUP: "determined in total"}
    counts = {what: sum(case.status == status for case in cases) for status, what in words.items()}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _say(test: ElementTree.Element, kind: str, message: str, lines: list[str]) -> None:
    ElementTree.SubElement(test, kind, message=message, type=kind).text = _clean("\n".join(lines))


def _statement(number: str | None) -> str:
    return _WHOLE if number is None else number.split(".")[0]


def _clean(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)


def _short(sql: str, width: int = 100) -> str:
    flat = " ".join(sql.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
