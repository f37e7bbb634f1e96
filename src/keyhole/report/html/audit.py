"""The report of an audit: what a data-protection officer reads, acts on and signs. Made from the JSON verdict alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyhole.gather.evidence import OF_TABLE
from keyhole.report.html.charts import Narrowed, heat_map, range_chart
from keyhole.report.html.growth import first_said, growth
from keyhole.report.html.markup import Markup, folded, limited, lines, name, table, tag
from keyhole.report.html.page import Section, Tile, page
from keyhole.report.html.repair import by_analyst, by_rule, repair
from keyhole.report.words.sentence import counted
from keyhole.report.words.text import ASSUMED_TITLE

SHOWN = 300  # findings with their proofs; the rest is a table of names
CITED = 40  # statements of one proof
LONG = 4_000  # characters of a statement or a proof
MOST = 1_000_000  # characters of a section, so that a page stays below 3 MB
PICTURED = 40
INFINITE = float("inf")
MEANING = (
    "Exposed: the value follows, by the arithmetic shown. Inferred: it does not, but something does that was not known "
    "before."
)


def audit_page(verdict: Mapping[str, Any], log: str = "", said: Sequence[str] = ()) -> str:
    """One page. `verdict` is what `keyhole audit --format json` writes; `map` in it (see `query_map`) is drawn."""
    found = len(verdict["exposed"]) + len(_inferred(verdict)) + len(verdict.get("rows", ()))
    mood = "bad" if found else "good" if verdict["complete"] else "warn"
    source, told = verdict["source"], verdict["statements"]
    people = counted(verdict["people"], "person", "people")
    about = f"{counted(told['total'], 'statement')} about {people} in {source['table']}."
    under = [f"{log}: {about}" if log else about, *said]
    return page("audit", verdict["sentence"], mood, under, list(_tiles(verdict)), _sections(verdict, log))


def _tiles(verdict: Mapping[str, Any]) -> Iterator[Tile]:
    exposed, inferred, told = verdict["exposed"], _inferred(verdict), verdict["statements"]
    people = len({_who(f["record"]) for f in exposed})
    yield Tile(f"{people:,}", f"{'person' if people == 1 else 'people'} exposed", "bad" if people else "good")
    narrowed = len({_who(f["record"]) for f in inferred} - {_who(f["record"]) for f in exposed})
    yield Tile(f"{narrowed:,}", "more of whom something new is known", "warn" if narrowed else "good")
    judged, total = told["judged"], told["total"]
    yield Tile(f"{judged:,} of {total:,}", "statements judged", "" if judged == total else "warn")
    word = "complete" if verdict["complete"] else "not complete"
    yield Tile(word, "is everybody else shown to be safe?", "good" if verdict["complete"] else "warn")


def _sections(verdict: Mapping[str, Any], log: str) -> Iterator[Section]:
    yield Section("Who is exposed, and how", tuple(findings(verdict)))
    yield Section("Rows handed out", tuple(_rows(verdict)))
    yield Section("Groups whose total is determined", tuple(_groups(verdict)))
    yield Section("What to do about it", tuple(repair(verdict)))
    yield Section("Classical rules", tuple(by_rule(verdict)))
    yield Section("Ranges, before and after", tuple(ranges(verdict)))
    grown = growth(verdict["statements"]["total"], verdict["exposed"], _inferred(verdict))
    yield Section("How it grew over the log", tuple(grown))
    yield Section("By analyst", tuple(by_analyst(verdict)))
    yield Section("Which query is about whom", tuple(_map(verdict)))
    yield Section("What was not judged", tuple(not_judged(verdict)))
    yield Section("Judged, but worth a look", tuple(_warned(verdict)))
    yield Section("What was assumed, and what is promised", tuple(_promised(verdict)))
    yield Section("How to check this yourself", tuple(_check(log)))


def findings(verdict: Mapping[str, Any]) -> Iterator[Markup]:
    """Who is exposed or inferred, each with its proof."""
    everybody = [*(f | {"status": "exposed"} for f in verdict["exposed"]), *_inferred(verdict)]
    if not everybody:
        yield tag("p", "Nobody is listed.", class_="soft")
        return
    yield tag("p", MEANING, class_="soft")
    if verdict.get("by_assumption"):
        yield tag("p", ASSUMED_TITLE, class_="soft")
        yield tag("div", *limited(map(_assumed_card, verdict["by_assumption"][:SHOWN]), MOST))
    found = [f for f in everybody if not f.get("assumed")]
    if not found:
        return
    if len(found) > 5:
        yield tag(
            "input", class_="find", type="search", placeholder="find a name, a column, a query", data_among="found"
        )
    by_row = verdict.get("people") != verdict.get("records")
    cards = limited((_card(f, _named(f, by_row=by_row)) for f in found[:SHOWN]), MOST)
    yield tag("div", *cards, id="found")
    rest = found[len(cards) :]
    if rest:
        rows = [(name(_named(f, by_row=by_row)), f["column"], f["status"], _known(f)) for f in rest[:2000]]
        more = f" (the first {len(rows):,} of {len(rest):,})" if len(rest) > len(rows) else ""
        yield folded(f"{len(rest):,} more{more}", table(("who", "column", "status", "what is known"), rows))


def _named(item: Mapping[str, Any], *, by_row: bool) -> str:
    """The id; where ids repeat, and it is about one record, with its row."""
    return _who(item["record"]) + (f" (row {item['row']})" if by_row and "row" in item and not item.get("form") else "")


def _assumed_card(group: Mapping[str, Any]) -> Markup:
    """People by statement and group, whose value follows from what was assumed: no name, no value."""
    people = counted(group["people"], "person", "people")
    parts = [tag("h3", f"{group['column']} of {people}", tag("span", "exposed", class_="pill exposed"))]
    parts += [tag("pre", lines(_cut(group["why"], LONG))), *_statements_used(group["proof"])]
    return tag("div", *parts, class_="card exposed")


def _card(finding: Mapping[str, Any], who: str) -> Markup:
    status = finding["status"]
    said = f": {finding.get('form') or finding['column']} {_known(finding)}"
    parts = [tag("h3", name(who), said, tag("span", status, class_=f"pill {status}"))]
    if finding.get("why"):
        parts.append(tag("pre", lines(_cut("\n".join(finding["why"]), LONG))))
    if finding.get("singled_out"):
        parts.append(tag("p", "The public columns alone point to this one row.", class_="soft small"))
    if finding.get("first"):
        parts.append(tag("p", "Completed by ", first_said(finding["first"]), ".", class_="soft small"))
    parts += _statements_used(finding["proof"])
    return tag("div", *parts, class_=f"card {status}")


def _statements_used(proof: Sequence[Mapping[str, Any]]) -> list[Markup]:
    """The statements that a proof cites, folded."""
    once = _once([item for item in proof if item.get("query")])
    if not once:
        return []
    rows = [
        (f"Q{i['query']}", tag("code", lines(_cut(i.get("sql", ""), LONG))), _answer(i.get("answer")))
        for i in once[:CITED]
    ]
    title = f"The {len(once)} statements used" if len(once) > 1 else "The statement used"
    title += f" (the first {CITED}; the JSON verdict has all)" if len(once) > CITED else ""
    return [folded(title, table(("", "statement", "answer"), rows, numbers=(2,)))]


def _cut(said: str, most: int) -> str:
    return said if len(said) <= most else f"{said[:most]} … ({len(said) - most:,} characters more)"


def _once(items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return list({item["query"]: item for item in items}.values())


def _rows(verdict: Mapping[str, Any]) -> Iterator[Markup]:
    """Statements that show private values as they are, or people whom a private condition chose."""
    if found := verdict.get("rows"):
        cells = [
            (
                f"Q{each['query']}",
                tag("code", lines(_cut(each["sql"], LONG))),
                "not known" if each["records"] is None else f"{each['records']:,}",
                "not known" if each["singled_out"] is None else f"{each['singled_out']:,}",
            )
            for each in found[:SHOWN]
        ]
        yield table(("", "statement", "records", "the public columns shown point to"), cells, numbers=(2, 3))


def _groups(verdict: Mapping[str, Any]) -> Iterator[Markup]:
    for group in verdict["groups"][:SHOWN]:
        who = ", ".join(_who(r) for r in group["records"])
        parts = [
            tag(
                "h3",
                name(who),
                f": total {group['column']} = {group['total']}",
                tag("span", "group", class_="pill group"),
            )
        ]
        if group.get("why"):
            parts.append(tag("pre", lines("\n".join(group["why"]))))
        yield tag("div", *parts, class_="card")


def ranges(verdict: Mapping[str, Any]) -> Iterator[Markup]:
    """What was known of each value before, and is now."""
    by_row = verdict.get("people") != verdict.get("records")
    for column in verdict["source"]["private"] or dict.fromkeys(i["column"] for i in verdict["intervals"]):
        items = [i for i in verdict["intervals"] if i["column"] == column and not i.get("assumed")]
        found = [s for s in (_span(i, _named(i, by_row=by_row)) for i in items) if s is not None]
        if not found:
            continue
        found.sort(key=lambda s: ({"exposed": 0, "inferred": 1}.get(s.status, 2), s.hi - s.lo))
        caption = f"What the log and what is known beforehand leave of {column}: {_of(found, by_row=by_row)}."
        yield range_chart(found[:PICTURED], column, ("",), caption)


def _of(spans: Sequence[Narrowed], *, by_row: bool) -> str:
    shown = f"the {PICTURED} narrowest of " if len(spans) > PICTURED else ""
    return f"{shown}{counted(len(spans), *(('record', 'records') if by_row else ('person', 'people')))}"


def _span(item: Mapping[str, Any], who: str) -> Narrowed | None:
    """A range of numbers that says more than what was known, or one value."""
    ends = [_float(item["lo"], -INFINITE), _float(item["hi"], INFINITE)]
    prior = [_float(item["prior"][0], -INFINITE), _float(item["prior"][1], INFINITE)]
    if None in ends or None in prior or ends == prior or (ends[0] == -INFINITE and ends[1] == INFINITE):
        return None
    known = (prior[0], prior[1]) if abs(prior[0]) != INFINITE or abs(prior[1]) != INFINITE else None
    outer = "" if item.get("tight", True) else "outer, not shown to be reached"
    return Narrowed(who, ends[0], ends[1], known, item["status"], (outer,))


def _float(value: Any, infinite: float) -> Any:
    if value is None:
        return infinite
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _map(verdict: Mapping[str, Any]) -> Iterator[Markup]:
    drawn = verdict.get("map")
    if drawn:
        caption = (
            "Each row is a query (or several), each column people who are in the same queries; the darker, the more "
            "of them it counts."
        )
        titles = ("people, those in the same queries side by side", "queries")
        yield heat_map(drawn["shares"], drawn["queries"], drawn["people"], titles, caption)


def not_judged(verdict: Mapping[str, Any]) -> Iterator[Markup]:
    """What contradicts, was not judged or was refused."""
    for each in verdict["contradictions"]:
        yield tag("div", tag("h3", "Contradiction"), tag("p", each["reason"]), class_="card inferred")
    reasons: dict[str, list[Mapping[str, Any]]] = {}
    for each in verdict["unjudged"]:
        reasons.setdefault(each["reason"], []).append(each)
    by_size = sorted(reasons.items(), key=lambda item: -len(item[1]))
    yield from limited((_unjudged(reason, several) for reason, several in by_size), MOST // 4)
    yield from limited(map(_refused, verdict["refused"][:SHOWN]), MOST // 4)


def _refused(each: Mapping[str, Any]) -> Markup:
    return folded(tag("b", f"Q{each['query']} was refused"), tag("pre", lines(_cut(each["error"], LONG))))


def _unjudged(reason: str, several: Sequence[Mapping[str, Any]]) -> Markup:
    rows = [(f"Q{e['query']}", tag("code", lines(_cut(e["sql"], LONG // 4)))) for e in several[:SHOWN]]
    return folded(tag("b", f"{counted(len(several), 'statement')}: {reason}"), table(("", "statement"), rows))


def _warned(verdict: Mapping[str, Any]) -> Iterator[Markup]:
    """Judged, and perhaps not what was meant."""
    reasons: dict[str, list[Mapping[str, Any]]] = {}
    for each in verdict.get("warnings", []):
        if each["query"].startswith(OF_TABLE):
            yield tag("p", each["reason"])
            continue
        reasons.setdefault(each["reason"], []).append(each)
    meant = [(f"{reason}; is that what was meant?", several) for reason, several in reasons.items()]
    yield from limited((_unjudged(reason, several) for reason, several in meant), MOST // 4)


def _promised(verdict: Mapping[str, Any]) -> Iterator[Markup]:
    source = verdict["source"]
    public = [c for c in source["kinds"] if c not in {*source["id"], *source["private"], *source["hidden"]}]
    roles = {
        "names the person": source["id"],
        "private": source["private"],
        "hidden": source["hidden"],
        "public": public,
    }
    rows = [
        (role, ", ".join(f"{c} ({source['kinds'].get(c, '')})" for c in columns))
        for role, columns in roles.items()
        if columns
    ]
    yield tag("p", f"Promise: {verdict['promise']}.")
    yield table(("role", "columns"), rows)
    said = {
        "written for": source["dialect"],
        "version of the data": source["version"],
        "atoms": verdict["atoms"],
        "rank": verdict["rank"],
    }
    said |= {f"assumed of {c}, from its values": kind for c, kind in verdict["assumed"].items()}
    said |= {f"known beforehand of {c}": f"{_end(lo, '-∞')} to {_end(hi, '∞')}" for c, lo, hi in _declared(verdict)}
    said |= {"SHA-256 of the log": verdict.get("log_sha256")}
    yield table(("", ""), [(key, value) for key, value in said.items() if value is not None])


def _declared(verdict: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """What was known of each private column before the log."""
    priors = {i["column"]: i["prior"] for i in verdict["intervals"] if any(end is not None for end in i["prior"])}
    return [(column, *prior) for column, prior in priors.items()]


def _end(value: Any, infinite: str) -> str:
    return infinite if value is None else str(value)


def _check(log: str) -> Iterator[Markup]:
    yield tag(
        "p",
        "Every proof is arithmetic on the answers shown above. To replay them without the rest of Keyhole "
        "(with -c keyhole.toml where settings say how the file is read):",
    )
    file = log or "log.sql"
    said = f"keyhole audit {file} ... --format json --out verdict.json\nkeyhole verify verdict.json --data DATA"
    yield tag("pre", lines(said))
    yield tag("p", "To sign what is accepted, with a reason and a day on which it is looked at again:")
    yield tag("pre", "keyhole review verdict.json")


def _inferred(verdict: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Ranges and excluded values, and what is inferred of people by their records."""
    by_records = [{"record": f["person"], **f, "status": "inferred"} for f in verdict.get("features", [])]
    return [*(i for i in verdict["intervals"] if i["status"] == "inferred"), *by_records]


def _known(finding: Mapping[str, Any]) -> str:
    if finding["status"] == "exposed":
        value = finding.get("value", finding.get("lo"))
        return "is determined" if value is None else f"= {value}"
    if finding.get("allowed"):
        return f"is one of {', '.join(map(str, finding['allowed']))}"
    lo, hi = finding.get("lo"), finding.get("hi")
    if lo is not None or hi is not None:
        return f"lies in [{'-∞' if lo is None else lo}, {'∞' if hi is None else hi}]"
    if finding.get("excluded"):
        return f"is not {' nor '.join(map(str, finding['excluded']))}"
    return f"({finding['grade']})" if finding.get("grade") else "is narrowed down"


def _who(record: Mapping[str, Any]) -> str:
    return ", ".join(str(v) for v in record.values())


def _answer(answer: Any) -> str:
    if isinstance(answer, Mapping):
        return f"{answer.get('lo')} to {answer.get('hi')}"
    return "NULL" if answer is None else str(answer)
