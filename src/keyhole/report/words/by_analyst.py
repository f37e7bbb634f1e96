"""What each analyst could learn from his own questions alone, below what all of them know together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyhole.auditing.base import visible
from keyhole.report.plain import Plain
from keyhole.report.words.completion import completed
from keyhole.report.words.sentence import sentence
from keyhole.report.words.text import argued, listed, worked_out, wrapped
from keyhole.report.words.troubles import SHOWN, more


def by_analyst(views: Mapping[str, Plain]) -> Iterator[tuple[str, str]]:
    """Lines with their styles: a table of all analysts, then who is exposed to each of them, and why."""
    yield "", ""
    yield "By analyst, each from his own questions alone (above: all of them together):", "bold"
    rows: list[tuple[str, ...]] = [("analyst", "statements", "exposed", "narrowed down", "not judged", "all-clear")]
    rows += [(visible(who), *map(str, _counts(view)), "no" if view.exit_code else "yes") for who, view in views.items()]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), ""
    for who, view in views.items():
        by_name = [case for case in view.findings if not case.assumed]
        shown = listed(by_name)
        if not shown and not view.exit_code:
            continue
        yield "", ""
        yield f"To {visible(who)} alone: {sentence(view)}", "bold"
        yield from worked_out(argued(shown))
        yield from (part for line in completed(shown) for part in wrapped(line, ""))
        yield from ((f"  {line}", "") for line in more(by_name))
        for each in view.by_assumption[:SHOWN]:
            yield from wrapped(f"{each.column}: {each.why}", "")


def _counts(view: Plain) -> tuple[int, int, int, int]:
    told = view.statements
    exposed = {case.rows for case in view.exposed}
    narrowed = {case.rows for case in view.inferred} - exposed
    return told.total, len(exposed), len(narrowed), told.unjudged + told.refused
