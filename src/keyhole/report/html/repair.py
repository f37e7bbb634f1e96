"""What to do about it: what to withhold, coarsen, round or answer privately, each with its price and what it leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyhole.report.html.markup import Markup, folded, lines, name, table, tag
from keyhole.report.words.sentence import counted

LISTED = 300
HOW = (
    "Not looked for in this report. Audit again with --advise: it finds the fewest statements to withhold, audits the "
    "log again without them, and compares larger groups, rounding and noise."
)


def repair(verdict: Mapping[str, Any]) -> Iterator[Markup]:
    """The measures of `keyhole audit --advise`, as a table of what each costs and leaves."""
    advice = verdict.get("advice")
    if advice is None:
        if verdict["exposed"] or verdict["groups"] or verdict.get("features") or _inferred(verdict):
            yield tag("p", HOW, class_="soft")
        return
    rows = list(_measures(advice))
    if not rows:
        yield tag("p", "Nothing needs to be withheld: nobody is exposed or narrowed down.")
        return
    yield table(("measure", "its price", "what is left"), rows)
    listed = [
        (f"Q{w['query']}", tag("code", lines(w["sql"])), "once" if w["times"] == 1 else f"{w['times']} times")
        for w in advice["withhold"][:LISTED]
    ]
    if listed:
        title = f"Withhold {'this statement' if len(listed) == 1 else f'these {len(listed)} statements'}"
        yield folded(title, table(("", "statement", "asked"), listed), open_=len(listed) <= 10)


def _measures(advice: Mapping[str, Any]) -> Iterator[tuple[object, str, str]]:
    n = len(advice["withhold"])
    if n:
        least = "no smaller set does" if advice["smallest"] else f"at least {advice['bound']} must go"
        of = f" of {advice['of']}" if "of" in advice else ""
        what = "statement" if n == 1 and not of else "statements"
        price = f"{n}{of} {what} {'is' if n == 1 else 'are'} not answered; {least}"
        yield tag("b", "Withhold statements"), price, f"audited again: {advice.get('after') or _verified(advice)}"
    elif not advice["enough"]:
        yield (
            tag("b", "Withhold statements"),
            f"at least {advice['bound']} must go",
            "no remedy was found in the time given",
        )
    other = advice.get("alternatives")
    if other is None:
        return
    coarse = tag("b", "Coarsen: answer about larger groups only")
    if other["groups"] is None:
        yield coarse, "", "no least size up to 100 people is enough"
    else:
        lost = counted(other["groups"]["withheld"], "statement")
        said = f"groups of at least {other['groups']['least']} people; {lost} would not be answered"
        yield coarse, said, "nobody is exposed"
    for each in other["rounding"]:
        yield tag("b", "Round"), f"every answer to a multiple of {each['step']}", _left(each)
    if other["noise"] is not None:
        yield (
            tag("b", "Answer privately"),
            "noise of standard deviation s on each answer; keyhole answer calibrates and accounts for it",
            f"no proof holds any more; the best guess is off by {other['noise']:.2g} s (standard deviation)",
        )


def _verified(advice: Mapping[str, Any]) -> str:
    return "nobody is exposed." if advice["verified"] else "somebody is still exposed; this is no remedy."


def _left(effect: Mapping[str, Any]) -> str:
    said = [f"{counted(effect['exposed'], 'person', 'people')} still exposed"] if effect["exposed"] else []
    if effect["inferred"]:
        width = "" if effect["narrowest"] is None else f" (the narrowest {effect['narrowest']} wide)"
        said.append(f"{counted(effect['inferred'], 'person', 'people')} to a range{width}")
    return ", ".join(said) or "nobody is exposed or narrowed down"


def by_rule(verdict: Mapping[str, Any]) -> Iterator[Markup]:
    """The classical rules that were asked for."""
    for check in verdict.get("rules", []):
        failing, untold = check["failing"], check["untold"]
        more = f", {len(untold)} cannot be told" if untold else ""
        verb = "fails" if len(failing) == 1 else "fail"
        title = tag("b", f"{check['rule']}: {len(failing)} of {counted(check['answers'], 'answer')} {verb}{more}")
        rows = [_ruled("fails", each) for each in failing[:LISTED]]
        rows += [_ruled("cannot be told", each) for each in untold[:LISTED]]
        yield (
            folded(title, table(("", "", "statement", "contributors", ""), rows, numbers=(3,)))
            if rows
            else tag("p", title)
        )


def _ruled(word: str, each: Mapping[str, Any]) -> Sequence[object]:
    count = "" if each["contributors"] is None else each["contributors"]
    return f"Q{each['query']}", word, tag("code", lines(each["sql"])), count, each["reason"] or ""


def by_analyst(verdict: Mapping[str, Any]) -> Iterator[Markup]:
    """What each analyst learns from his own questions alone."""
    views = verdict.get("by") or []
    if views:
        rows = [(name(v["analyst"]), v["statements"]["total"], len(v["exposed"]), v["sentence"]) for v in views]
        yield tag("p", "Each from his own questions alone; above, all of them together.", class_="soft")
        yield table(("analyst", "statements", "exposed", ""), rows, numbers=(1, 2))
        if not verdict["complete"]:
            said = "Ranges are searched for a limited time: of one analyst's few answers more may be found than of all."
            yield tag("p", said, class_="soft small")


def _inferred(verdict: Mapping[str, Any]) -> bool:
    return any(i["status"] == "inferred" for i in verdict["intervals"])
