"""The report of a book: what was asked, answered and paid, the budget over time, and what was not answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from keyhole.book import EVERYBODY
from keyhole.report.html.axes import Axis
from keyhole.report.html.charts import Series, line_chart
from keyhole.report.html.markup import Markup, folded, lines, name, table, tag
from keyhole.report.html.page import Section, Tile, page
from keyhole.report.words.sentence import counted

LISTED = 2000
TOGETHER = "everybody together"
POINTS = 500  # of the budget's curve
DRAWN = 6  # curves; the table below has every account
TOLD = {
    "answer": "answered",
    "published": "published",
    "unjudged": "published, and not represented",
    "release": "answered with noise",
}


def book_page(found: Mapping[str, Any], file: str = "") -> str:
    """One page of what `keyhole book show --format json` says."""
    told = [e for e in found["entries"] if e["kind"] in TOLD and e["says"].get("sql")]
    held = found["not_answered"]
    unit = found["budget"].get("unit", "epsilon")
    spent = float(Fraction(found["spent"].get(EVERYBODY, {"amount": "0"})["amount"]))
    were = "was" if len(told) == 1 else "were"
    sentence = f"{counted(len(told), 'statement')} {were} answered or published, {len(held)} not answered"
    sentence += f"; {unit} {spent:.4g} was spent." if spent else "."
    tiles = [Tile(f"{len(told):,}", "answered or published")]
    tiles += [Tile(f"{len(held):,}", "not answered", "warn" if held else "")]
    tiles += [Tile(f"{spent:.4g}", f"{unit} spent by everybody together")] if spent else []
    versions = counted(len(found["epochs"]), "version")
    under = [f"{file}: the population {found['population']!r}, {versions} of the data.", "For the custodian."]
    return page("book", sentence, "", under, tiles, _sections(found, told, held, unit))


def _sections(
    found: Mapping[str, Any], told: Sequence[Mapping[str, Any]], held: Sequence[Mapping[str, Any]], unit: str
) -> Iterator[Section]:
    yield Section("Budget over time", tuple(_spending(found, unit)))
    yield Section("Who spent it", tuple(_accounts(found, unit)))
    rows = [
        (e["entry"], e["at"], name(e["analyst"] or ""), TOLD[e["kind"]], tag("code", lines(str(e["says"]["sql"]))))
        for e in told[:LISTED]
    ]
    more = f" (the first {LISTED:,})" if len(told) > LISTED else ""
    head = ("entry", "at", "analyst", "", "statement")
    entries = folded(f"{counted(len(told), 'statement')}{more}", table(head, rows), open_=len(rows) <= 20)
    yield Section("What was told", (entries,) if rows else ())
    yield Section("What was not answered", tuple(_held(held)))
    check = "keyhole book verify BOOK\nkeyhole audit BOOK -c keyhole.toml --format html --out report.html"
    yield Section(
        "How to check this yourself",
        (tag("p", "Each entry is bound to the one before it; the audit tells whom all answers together expose:"),
         tag("pre", lines(check))),
    )  # fmt: skip


def _spending(found: Mapping[str, Any], unit: str) -> Iterator[Markup]:
    """What was spent up to each entry, by everybody together and by each analyst."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for point in found["spending"]:
        for who, amount in point["spent"].items():
            curve = curves.setdefault(TOGETHER if who == EVERYBODY else who, [(0.0, 0.0)])
            curve.append((float(point["entry"]), float(Fraction(amount))))
    if not curves:
        return
    last = float(found["entries"][-1]["entry"])
    series = [Series(who, [*_thinned(curve), (last, curve[-1][1])], stepped=True) for who, curve in curves.items()][
        :DRAWN
    ]
    top = max(v for s in series for _, v in s.points)
    caption = f"What was spent up to each entry ({found['entries'][0]['at']} to {found['entries'][-1]['at']})."
    caption += f" {len(curves) - DRAWN} more accounts are in the table below." if len(curves) > DRAWN else ""
    yield line_chart(series, Axis("entry", 0, last, whole=True), Axis(unit, 0, top or 1.0), caption, height=260)


def _thinned(curve: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    step = -(-len(curve) // POINTS)
    return [*curve[::step], curve[-1]] if (len(curve) - 1) % step else list(curve[::step])


def _accounts(found: Mapping[str, Any], unit: str) -> Iterator[Markup]:
    rows = [
        (
            name(TOGETHER if who == EVERYBODY else who),
            f"{float(Fraction(s['amount'])):.6g}",
            f"{float(Fraction(s['delta'])):g}",
        )
        for who, s in found["spent"].items()
    ]
    if rows:
        yield table(("", unit, "delta"), rows, numbers=(1, 2))


def _held(held: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
    reasons: dict[str, list[Mapping[str, Any]]] = {}
    for each in held:
        reasons.setdefault(f"{each['verdict']}: {each['reason'].splitlines()[0]}", []).append(each)
    for reason, several in sorted(reasons.items(), key=lambda item: -len(item[1])):
        rows = [(e["at"], name(e["analyst"] or ""), tag("code", lines(e["sql"]))) for e in several[:LISTED]]
        yield folded(
            tag("b", f"{counted(len(several), 'statement')} {reason}"), table(("at", "analyst", "statement"), rows)
        )
