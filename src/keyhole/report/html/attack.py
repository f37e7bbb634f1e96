"""The report of an attack: what an outsider rebuilt, the surest first, against the truth where it is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyhole.report.charts.attack import accuracy
from keyhole.report.html.axes import Axis
from keyhole.report.html.calibration import calibration
from keyhole.report.html.charts import Narrowed, Series, line_chart, range_chart
from keyhole.report.html.fragment import fragment
from keyhole.report.html.markup import Markup, folded, name, table, tag
from keyhole.report.html.page import Section, Tile, page
from keyhole.report.words.sentence import counted

LISTED = 200  # estimates at once; more are folded away
FOLDED = 3000
NOTED = 20  # estimates in a notebook
PICTURED = 30
POINTS = 2000  # of a scatter plot
PROBABILITY = "probability of being right"


def attack_page(found: Mapping[str, Any]) -> str:
    """One page of what `keyhole attack --format json` says; `truths` in it (column to values) are drawn."""
    scores = _scores(found)
    best = max((s["exact"] for s in scores.values()), default=None)
    sure = _sure(found)
    mood = "" if best is None else "bad" if sure or best > _blind(scores) + 0.02 else "good"
    under = [f"Chosen because {found['why']}." if found.get("why") else "", *found["warnings"]]
    tiles = list(_tiles(found, scores))
    return page("attack", _sentence(found, scores), mood, filter(None, under), tiles, _sections(found, scores))


def _sentence(found: Mapping[str, Any], scores: Mapping[str, Mapping[str, Any]]) -> str:
    people = counted(len({_who(e["record"]) for e in found["estimates"]}), "person", "people")
    best = max((s["exact"] for s in scores.values()), default=None)
    said = f"Guesses for {people}, by {found['method']}."
    if best is not None:
        said = f"{best:.0%} of the private values of {people} were rebuilt exactly, by {found['method']}."
    sure = _sure(found)
    total = len(found["estimates"])
    held = "given a probability of at least 99.9 %" if found["confidence"] == PROBABILITY else "certain"
    return said + (f" {sure:,} of {total:,} guesses {'is' if sure == 1 else 'are'} {held}." if sure else "")


def _sure(found: Mapping[str, Any]) -> int:
    return sum(_certain(e["confidence"], found["confidence"]) for e in found["estimates"])


def attack_fragment(found: Mapping[str, Any]) -> str:
    """The same for a notebook: the sentence, the first column's chart, and the surest guesses."""
    scores = _scores(found)
    column = found["estimates"][0]["column"] if found["estimates"] else ""
    estimates = [e for e in found["estimates"] if e["column"] == column]
    truth = (found.get("truths") or {}).get(column)
    drawn = _guessed(column, estimates, found) if truth is None else _compared(column, estimates, truth)
    listed = _listed(_surest(estimates, found["confidence"])[:NOTED], found["confidence"])
    return fragment(tag("p", tag("b", _sentence(found, scores))), *drawn, *listed)


def _certain(confidence: Any, measure: str) -> bool:
    if confidence is None:
        return False
    return bool(confidence > 1 - 1e-9 if measure == PROBABILITY else confidence < 1e-6)


def _scores(found: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    said = found.get("score") or {}
    columns = list(dict.fromkeys(e["column"] for e in found["estimates"]))
    return {columns[0]: said} if "exact" in said else dict(said)


def _blind(scores: Mapping[str, Mapping[str, Any]]) -> float:
    """What a guess without any answer would have right."""
    return max((max(s["prior_exact"], s["majority_exact"]) for s in scores.values()), default=0.0)


def _tiles(found: Mapping[str, Any], scores: Mapping[str, Mapping[str, Any]]) -> Iterator[Tile]:
    for column, s in scores.items():
        blind = max(s["prior_exact"], s["majority_exact"])
        yield Tile(f"{s['exact']:.1%}", f"{column}: exact", "bad" if s["exact"] > blind + 0.02 else "good")
        yield Tile(f"{blind:.1%}", f"{column}: by guessing without the answers")
        if s.get("error") is not None:
            yield Tile(f"{s['error']:.3g}", f"{column}: mean error ({s['prior_error']:.3g} without the answers)")
    yield Tile(found["status"], "solver")
    yield Tile(f"{found['residual']:.3g}", "residual of the answers")


def _sections(found: Mapping[str, Any], scores: Mapping[str, Mapping[str, Any]]) -> Iterator[Section]:
    by_column: dict[str, list[Mapping[str, Any]]] = {}
    for each in found["estimates"]:
        by_column.setdefault(each["column"], []).append(each)
    for column, estimates in by_column.items():
        truth = (found.get("truths") or {}).get(column)
        if truth is not None:
            guesses, sure = ([e[key] for e in estimates] for key in ("value", "confidence"))
            claimed = calibration(column, guesses, sure, truth, probable=found["confidence"] == PROBABILITY)
            yield Section(f"{column}: truth against estimate", (*_compared(column, estimates, truth), *claimed))
        else:
            yield Section(f"{column}: the surest guesses", tuple(_guessed(column, estimates, found)))
    yield from _beside(found.get("compared"))
    if scores:
        head = ("column", "exact", "prior", "commonest value", "within", "tolerance")
        rows = [
            (c, *(f"{s[k]:.1%}" for k in ("exact", "prior_exact", "majority_exact", "within")), f"{s['tolerance']:g}")
            for c, s in scores.items()
        ]
        yield Section("Score", (table(head, rows, numbers=range(1, 6)),))
    for column, estimates in by_column.items():
        yield Section(f"{column}: the surest first", tuple(_listed(estimates, found["confidence"])))


def _compared(column: str, estimates: Sequence[Mapping[str, Any]], truth: Sequence[Any]) -> Iterator[Markup]:
    """Truth against estimate, for numbers."""
    step = max(1, len(estimates) // POINTS)
    pairs = [
        (float(t), float(e["value"]))
        for e, t in zip(estimates[::step], truth[::step], strict=True)
        if isinstance(t, int | float) and isinstance(e["value"], int | float)
    ]
    if len(pairs) > 1:
        axis = Axis.of("truth", [v for pair in pairs for v in pair])
        line = Series("estimate = truth", [(axis.lo, axis.lo), (axis.hi, axis.hi)], style="guide")
        caption = f"Truth and estimate of {column}; on the dashed line the guess is right."
        dots = Series("people", pairs, dots=True)
        yield line_chart([line, dots], axis, Axis("estimate", axis.lo, axis.hi), caption, height=420)


def _beside(compared: Mapping[str, Any] | None) -> Iterator[Section]:
    """The attack on less of the log, and other methods on all of it: what `--compare` adds."""
    if compared is None:
        return
    curves: dict[str, list[tuple[float, float]]] = {}
    for each in compared["growth"]:
        if each["exact"] is not None:
            curves.setdefault(f"{each['column']} by {each['method']}", []).append((each["statements"], each["exact"]))
    if curves:
        caption = "The share of private values rebuilt exactly from the first so many statements."
        yield Section("Accuracy against the number of statements", (accuracy(curves, caption).figure(),))
    rows = [
        (p["method"], p["column"], *(_share(p[k]) for k in ("exact", "within")), _error(p["error"]),
         _error(p["seconds"]), p["cannot"])
        for p in compared["methods"]
    ]  # fmt: skip
    head = ("method", "column", "exact", "within the tolerance", "mean error", "seconds", "")
    yield Section("Methods compared", (table(head, rows, numbers=range(2, 6)),))


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _error(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _guessed(column: str, estimates: Sequence[Mapping[str, Any]], found: Mapping[str, Any]) -> Iterator[Markup]:
    """The surest guesses for numbers, each with two standard errors."""
    spans = []
    for each in _surest(estimates, found["confidence"])[:PICTURED]:
        value, error = each["value"], each["confidence"]
        if isinstance(value, int | float):
            reach = 2 * error if found["confidence"] != PROBABILITY and error is not None else 0.0
            spans.append(Narrowed(_which(each), value - reach, value + reach, None, "open"))
    if spans:
        bars = "" if found["confidence"] == PROBABILITY else ", with two standard errors to each side"
        yield range_chart(spans, column, (), f"The surest guesses of {column}{bars}.")


def _surest(estimates: Sequence[Mapping[str, Any]], measure: str) -> list[Mapping[str, Any]]:
    def doubt(each: Mapping[str, Any]) -> float:
        value = each["confidence"]
        return float("inf") if value is None else -value if measure == PROBABILITY else value

    return sorted(estimates, key=doubt)


def _listed(estimates: Sequence[Mapping[str, Any]], measure: str) -> Iterator[Markup]:
    right = measure == PROBABILITY
    ordered = _surest(estimates, measure)
    head = ("who", "estimate", "probability of being right" if right else "standard error")
    rows = [(name(_which(e)), _number(e["value"]), _confidence(e["confidence"], right)) for e in ordered]
    yield table(head, rows[:LISTED], numbers=(1, 2))
    rest = rows[LISTED : LISTED + FOLDED]
    if rest:
        more = f" (of {len(rows) - LISTED:,})" if len(rows) - LISTED > len(rest) else ""
        yield folded(f"{len(rest):,} more{more}", table(head, rest, numbers=(1, 2)))


def _confidence(value: Any, right: bool) -> str:
    if value is None:
        return "unknown"
    return f"{value:.1%}" if right else "0" if value < 1e-6 else f"± {value:.3g}"


def _number(value: Any) -> Markup | str:
    return "NULL" if value is None else f"{value:.6g}" if isinstance(value, float) else tag("bdi", value)


def _which(estimate: Mapping[str, Any]) -> str:
    """Whose it is; where a person has several records, also which one."""
    row = f", row {estimate['row']}" if "row" in estimate else ""
    return f"{_who(estimate['record'])}{row}"


def _who(record: Mapping[str, Any]) -> str:
    return ", ".join(str(v) for v in record.values())
