"""The page of an audit: what a data-protection officer reads, acts on and signs. Made from the JSON verdict alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyhole.gather.evidence import OF_TABLE
from keyhole.report.charts.drawing import Drawing, Span, draw_heat_map, draw_ranges
from keyhole.report.charts.figures import draw_growth
from keyhole.report.html.page import Tile, render_page
from keyhole.report.words.sentence import counted
from keyhole.report.words.text import ASSUMED_TITLE

SHOWN = 300  # findings with their proofs; the rest is a table of names
NAMED = 2_000  # rows of that table
PICTURED = 40
UNBOUNDED = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Card:
    """What the page says of one finding: whom it is about, what is known, and the statements that its proof cites."""

    who: str
    status: str
    known: str
    finding: Mapping[str, Any]
    cited: Sequence[Mapping[str, Any]]


def render_audit_page(verdict: Mapping[str, Any], log: str = "", notes: Sequence[str] = ()) -> str:
    """One page. `verdict` is what `keyhole audit --format json` writes; `map` in it (see `query_map`) is drawn."""
    exposed, inferred = verdict["exposed"], _list_inferred(verdict)
    people = counted(verdict["people"], "person", "people")
    about = f"{counted(verdict['statements']['total'], 'statement')} about {people} in {verdict['source']['table']}."
    some = bool(exposed or inferred or verdict.get("rows"))
    return render_page(
        "audit.html.jinja",
        "audit",
        verdict["sentence"],
        mood="bad" if some else "good" if verdict["complete"] else "warn",
        notes=[f"{log}: {about}" if log else about, *notes],
        tiles=_make_tiles(verdict, exposed, inferred),
        verdict=verdict,
        log=log or "log.sql",
        **_sort_findings(verdict, inferred),
        measures=list(_list_measures(verdict["advice"])) if verdict.get("advice") else [],
        needs_advice=bool(exposed or verdict["groups"] or inferred),
        ranges=draw_value_ranges(verdict),
        growth=draw_growth(
            verdict["statements"]["total"], {"exposed": _list_completed(exposed), "inferred": _list_completed(inferred)}
        ),
        counts=_count_by_origin([*exposed, *inferred]),
        query_map=_draw_query_map(verdict.get("map")),
        unjudged=_group_by_reason(verdict["unjudged"], largest_first=True),
        table_warnings=[w["reason"] for w in verdict.get("warnings", ()) if w["query"].startswith(OF_TABLE)],
        warnings=_group_by_reason(w for w in verdict.get("warnings", ()) if not w["query"].startswith(OF_TABLE)),
        roles=_list_roles(verdict["source"]),
        premises=_list_premises(verdict),
    )


def _sort_findings(verdict: Mapping[str, Any], inferred: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Findings by name, as many as the page has room for, beside those that rest on assumptions, which name nobody."""
    everybody = [*(f | {"status": "exposed"} for f in verdict["exposed"]), *inferred]
    by_name = [f for f in everybody if not f.get("assumed")]
    by_row = _counts_records(verdict)
    return {
        "some_findings": bool(everybody),
        "findings": [
            Card(_name_finding(f, by_row=by_row), f["status"], _say_known(f), f, _list_cited(f["proof"]))
            for f in by_name[: SHOWN + NAMED]
        ],
        "total_findings": len(by_name),
        "assumed_title": ASSUMED_TITLE,
        "by_assumption": [(group, _list_cited(group["proof"])) for group in verdict.get("by_assumption", ())[:SHOWN]],
        "groups": [(", ".join(map(name_record, group["records"])), group) for group in verdict["groups"][:SHOWN]],
    }


def _list_cited(proof: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each statement that a proof cites once."""
    return list({item["query"]: item for item in proof if item.get("query")}.values())


def _make_tiles(
    verdict: Mapping[str, Any], exposed: Sequence[Mapping[str, Any]], inferred: Sequence[Mapping[str, Any]]
) -> Iterator[Tile]:
    names = {name_record(f["record"]) for f in exposed}
    people, narrowed = len(names), len({name_record(f["record"]) for f in inferred} - names)
    judged, total = verdict["statements"]["judged"], verdict["statements"]["total"]
    complete = verdict["complete"]
    yield Tile(f"{people:,}", f"{'person' if people == 1 else 'people'} exposed", "bad" if people else "good")
    yield Tile(f"{narrowed:,}", "more of whom something new is known", "warn" if narrowed else "good")
    yield Tile(f"{judged:,} of {total:,}", "statements judged", "" if judged == total else "warn")
    word = "complete" if complete else "not complete"
    yield Tile(word, "is everybody else shown to be safe?", "good" if complete else "warn")


def _list_inferred(verdict: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Ranges and excluded values, and what is inferred of people by their records."""
    by_records = [{"record": f["person"], **f, "status": "inferred"} for f in verdict.get("features", [])]
    return [*(i for i in verdict["intervals"] if i["status"] == "inferred"), *by_records]


def _counts_records(verdict: Mapping[str, Any]) -> bool:
    """Whether a person can have several records, so that it is said which one is meant."""
    return bool(verdict.get("people") != verdict.get("records"))


def _name_finding(finding: Mapping[str, Any], *, by_row: bool) -> str:
    """The id; where ids repeat, and it is about one record, with its row."""
    row = f" (row {finding['row']})" if by_row and "row" in finding and not finding.get("form") else ""
    return name_record(finding["record"]) + row


def name_record(record: Mapping[str, Any]) -> str:
    """The values of its id."""
    return ", ".join(map(str, record.values()))


def _say_known(finding: Mapping[str, Any]) -> str:
    if finding["status"] == "exposed":
        value = finding.get("value", finding.get("lo"))
        return "is determined" if value is None else f"= {value}"
    if finding.get("allowed"):
        return f"is one of {', '.join(map(str, finding['allowed']))}"
    lo, hi = finding.get("lo"), finding.get("hi")
    if lo is not None or hi is not None:
        return say_range(lo, hi)
    if finding.get("excluded"):
        return f"is not {' nor '.join(map(str, finding['excluded']))}"
    return f"({finding['grade']})" if finding.get("grade") else "is narrowed down"


def say_range(lo: object, hi: object) -> str:
    """Where a value lies; None is an infinite end."""
    return f"lies in [{'-∞' if lo is None else lo}, {'∞' if hi is None else hi}]"


# --- what to do about it ---------------------------------------------------------------------------------------------


def _list_measures(advice: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Each measure of `keyhole audit --advise` with its price and what it leaves."""
    n = len(advice["withhold"])
    if n:
        least = "no smaller set does" if advice["smallest"] else f"at least {advice['bound']} must go"
        of = f" of {advice['of']}" if "of" in advice else ""
        what = "statement" if n == 1 and not of else "statements"
        verified = "nobody is exposed." if advice["verified"] else "somebody is still exposed; this is no remedy."
        price = f"{n}{of} {what} {'is' if n == 1 else 'are'} not answered; {least}"
        yield "Withhold statements", price, f"audited again: {advice.get('after') or verified}"
    elif not advice["enough"]:
        yield "Withhold statements", f"at least {advice['bound']} must go", "no remedy was found in the time given"
    other = advice.get("alternatives")
    if other is None:
        return
    coarsen = "Coarsen: answer about larger groups only"
    if other["groups"] is None:
        yield coarsen, "", "no least size up to 100 people is enough"
    else:
        lost = counted(other["groups"]["withheld"], "statement")
        price = f"groups of at least {other['groups']['least']} people; {lost} would not be answered"
        yield coarsen, price, "nobody is exposed"
    for each in other["rounding"]:
        yield "Round", f"every answer to a multiple of {each['step']}", _say_left(each)
    if other["noise"] is not None:
        yield (
            "Answer privately",
            "noise of standard deviation s on each answer; keyhole answer calibrates and accounts for it",
            f"no proof holds any more; the best guess is off by {other['noise']:.2g} s (standard deviation)",
        )


def _say_left(effect: Mapping[str, Any]) -> str:
    """Who is still exposed or narrowed down after a measure."""
    left = [f"{counted(effect['exposed'], 'person', 'people')} still exposed"] if effect["exposed"] else []
    if effect["inferred"]:
        width = "" if effect["narrowest"] is None else f" (the narrowest {effect['narrowest']} wide)"
        left.append(f"{counted(effect['inferred'], 'person', 'people')} to a range{width}")
    return ", ".join(left) or "nobody is exposed or narrowed down"


# --- charts ----------------------------------------------------------------------------------------------------------


def draw_value_ranges(verdict: Mapping[str, Any]) -> list[Drawing]:
    """What was known of each value before, and is now: a chart a column."""
    by_row = _counts_records(verdict)
    drawings = []
    for column in verdict["source"]["private"] or dict.fromkeys(i["column"] for i in verdict["intervals"]):
        items = [i for i in verdict["intervals"] if i["column"] == column and not i.get("assumed")]
        spans = [s for s in (make_span(i, _name_finding(i, by_row=by_row)) for i in items) if s is not None]
        if spans:
            some = f"the {PICTURED} narrowest of " if len(spans) > PICTURED else ""
            of = f"{some}{counted(len(spans), *(('record', 'records') if by_row else ('person', 'people')))}"
            caption = f"What the log and what is known beforehand leave of {column}: {of}."
            drawings.append(draw_ranges(list_narrowest(spans), column, ("",), caption))
    return drawings


def list_narrowest(spans: Sequence[Span]) -> list[Span]:
    """The ranges that are drawn: exposed, then inferred, each the narrowest first."""
    ranks = {"exposed": 0, "inferred": 1}
    return sorted(spans, key=lambda s: (ranks.get(s.status, 2), s.hi - s.lo))[:PICTURED]


def make_span(item: Mapping[str, Any], who: str) -> Span | None:
    """A range of numbers that says more than what was known, or one value."""
    ends, prior = _read_ends(item["lo"], item["hi"]), _read_ends(*item["prior"])
    if ends is None or prior is None or ends in (prior, UNBOUNDED):
        return None
    note = "" if item.get("tight", True) else "outer, not shown to be reached"
    return Span(who, *ends, None if prior == UNBOUNDED else prior, item["status"], (note,))


def _read_ends(lo: Any, hi: Any) -> tuple[float, float] | None:
    """The ends of a range as numbers, if they are; None is an infinite end."""
    try:
        return -math.inf if lo is None else float(lo), math.inf if hi is None else float(hi)
    except (TypeError, ValueError, OverflowError):
        return None


def _draw_query_map(query_map: Mapping[str, Any] | None) -> Drawing | None:
    if not query_map:
        return None
    caption = (
        "Each row is a query (or several), each column people who are in the same queries; the darker, the more "
        "of them it counts."
    )
    titles = ("people, those in the same queries side by side", "queries")
    return draw_heat_map(query_map["shares"], query_map["queries"], query_map["people"], titles, caption)


# --- how it grew over the log ----------------------------------------------------------------------------------------


def _list_completed(findings: Iterable[Mapping[str, Any]]) -> list[int]:
    """The statement that completed each finding: what `first` says, else the last one of its proof."""
    completed = []
    for finding in findings:
        first = finding.get("first")
        number = first.get("query") if isinstance(first, Mapping) else first
        numbers = [number] if number else [i["query"] for i in finding["proof"] if i.get("query")]
        if numbers:
            completed.append(max(int(str(n).split(".")[0]) for n in numbers))
    return completed


def _count_by_origin(findings: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Whose questions completed how many findings, and on which days, where the log has them."""
    origins = [f["first"] for f in findings if isinstance(f.get("first"), Mapping)]
    analysts = Counter(str(o["analyst"]) for o in origins if o.get("analyst"))
    days = Counter(str(o["time"])[:10] for o in origins if o.get("time"))
    tables = (("completed by a question of", analysts.most_common()), ("completed on", sorted(days.items())))
    return [(title, [(word, f"{n:,}") for word, n in rows]) for title, rows in tables if rows]


# --- what was not judged, assumed and promised -----------------------------------------------------------------------


def _group_by_reason(
    items: Iterable[Mapping[str, Any]], *, largest_first: bool = False
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    reasons: dict[str, list[Mapping[str, Any]]] = {}
    for each in items:
        reasons.setdefault(each["reason"], []).append(each)
    return sorted(reasons.items(), key=lambda item: -len(item[1])) if largest_first else list(reasons.items())


def _list_roles(source: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Which columns are what, with their kinds."""
    kinds = source["kinds"]
    roles = {
        "names the person": source["id"],
        "private": source["private"],
        "hidden": source["hidden"],
        "public": [c for c in kinds if c not in {*source["id"], *source["private"], *source["hidden"]}],
    }
    named = {role: ", ".join(f"{c} ({kinds.get(c, '')})" for c in columns) for role, columns in roles.items()}
    return [(role, columns) for role, columns in named.items() if columns]


def _list_premises(verdict: Mapping[str, Any]) -> list[tuple[str, object]]:
    """What the verdict rests on."""
    premises = {
        "written for": verdict["source"]["dialect"],
        "version of the data": verdict["source"]["version"],
        "atoms": verdict["atoms"],
        "rank": verdict["rank"],
    }
    premises |= {f"assumed of {c}, from its values": kind for c, kind in verdict["assumed"].items()}
    priors = {i["column"]: i["prior"] for i in verdict["intervals"] if any(end is not None for end in i["prior"])}
    for column, (lo, hi) in priors.items():
        premises[f"known beforehand of {column}"] = f"{'-∞' if lo is None else lo} to {'∞' if hi is None else hi}"
    premises["SHA-256 of the log"] = verdict.get("log_sha256")
    return [(name, value) for name, value in premises.items() if value is not None]
