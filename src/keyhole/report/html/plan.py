"""The report of a plan: the few harmless questions that give one person away, or how everybody would be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from keyhole.report.html.markup import Markup, folded, lines, table, tag
from keyhole.report.html.page import Section, Tile, page

LISTED = 2000


def plan_page(found: Mapping[str, Any]) -> str:
    """One page of what `keyhole plan --format json` says of one person."""
    queries, exposes, who = found["queries"], found["exposes"], _name(found["target"])
    column = found["column"]
    if queries:
        ask = "1 question gives" if len(queries) == 1 else f"{len(queries)} questions give"
        sentence = f"{ask} {who} away."
    elif found["impossible"]:
        sentence = f"{who}'s {column} cannot be found out by such questions."
    elif found["by_luck"]:
        sentence = f"{who}'s {column} does not follow from sums of answers."
    else:
        sentence = f"It is not decided whether {who}'s {column} can be found out."
    tiles = [Tile(str(len(queries)), "question" if len(queries) == 1 else "questions")]
    if queries:
        tiles.append(Tile(str(len(exposes)), "exposed, as the auditor confirms", "bad"))
        tiles.append(Tile("yes" if found["fewest"] else "not shown", "is no smaller number enough?"))
    mood = "bad" if queries else "good" if found["impossible"] else "warn"
    return page("plan", sentence, mood, [f"{column}: {found['how']}."], tiles, _sections(found))


def _sections(found: Mapping[str, Any]) -> Iterator[Section]:
    rows = [(f"Q{k}", tag("code", lines(sql))) for k, sql in enumerate(found["queries"], 1)]
    body: list[Markup] = [table(("", "question"), rows)] if rows else []
    if found["formula"]:
        formula = str(found["formula"])
        told = f"the category for which {formula} is 1" if found.get("categories") else formula
        body.append(tag("pre", lines(f"{found['column']} of {_name(found['target'])} = {told}")))
    yield Section("The questions and the arithmetic", tuple(body))
    yield Section("Why it cannot be done", tuple(_why_not(found)) if not found["queries"] else ())
    others = [(_name(who),) for who in found["exposes"][1:]]
    yield Section("Who is exposed with them", (table(("",), others[:LISTED]),) if others else ())
    yield Section("Asked through a session", tuple(map(_played, found.get("run", ()))))


def _why_not(found: Mapping[str, Any]) -> Iterator[Markup]:
    yield tag("p", f"{found['reason']}.")
    if found["shared"]:
        yield table(("shares all public columns",), [(_name(who),) for who in found["shared"][:LISTED]])
    if found.get("by_luck"):
        yield tag("p", f"That is proved for numbers of any size; {found['by_luck']}.", class_="soft")


def _played(run: Mapping[str, Any]) -> Markup:
    value = f"the value is {'about ' if run['noisy'] else ''}{run['value']}"
    said = "it is denied, and the value stays unknown" if run["denied"] else value
    return tag("p", f"{run['policy']}: {said}.")


def everybody_page(found: Mapping[str, Any]) -> str:
    """One page of what `keyhole plan --target all --format json` says."""
    exposed, n, plans = len(found["exposes"]), found["people"], found["plans"]
    two = sum(p["questions"] is not None and p["questions"] <= 2 for p in plans)
    open_ = sum(count for how, count in found["counts"].items() if how.startswith("undecided"))
    sentence = f"{exposed:,} of {n:,} people can be given away by allowed questions."
    tiles = [
        Tile(f"{exposed:,}", "can be given away", "bad" if exposed else "good"),
        Tile(f"{two:,}", "by at most two questions", "bad" if two else "good"),
        Tile(f"{open_:,}", "undecided", "warn" if open_ else "good"),
    ]
    under = [f"Allowed: {found['allowed']}.", f"Set-up took {found['seconds']} s; nothing private was read."]
    return page("plan for everybody", sentence, "bad" if exposed else "good", under, tiles, _overview(found))


def _overview(found: Mapping[str, Any]) -> Iterator[Section]:
    n = max(1, found["people"])
    rows = [(how, f"{count:,}", f"{100 * count / n:.1f} %") for how, count in found["counts"].items()]
    body = [table(("how, or why not", "people", ""), rows, numbers=(1, 2))]
    if found.get("by_luck"):
        body.append(tag("p", f"Out of reach is proved for numbers of any size; {found['by_luck']}."))
    yield Section("How people are given away", tuple(body))
    listed = [(_name(p["record"]), p["how"], p["questions"] or "") for p in found["plans"][:LISTED]]
    more = len(found["plans"]) - len(listed)
    shown = table(("who", "how, or why not", "questions"), listed, numbers=(2,))
    rest = (tag("p", f"{more:,} more stand in the JSON."),) if more > 0 else ()
    yield Section("Everybody", (folded(f"{len(listed):,} people", shown), *rest))


def _name(record: Mapping[str, Any]) -> str:
    return ", ".join(f"row {v}" if k == "row" and len(record) == 1 else str(v) for k, v in record.items())
