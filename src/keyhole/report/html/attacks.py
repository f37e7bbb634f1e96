"""The pages of attacks: what an outsider rebuilds from answers, learns from an oracle, plans, and reconstructs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyhole.report.charts.drawing import Drawing, Series, Span, draw_lines, draw_ranges
from keyhole.report.charts.figures import draw_accuracy, draw_calibration
from keyhole.report.charts.svg import Axis, Markup, tag
from keyhole.report.documents.attacks import PlanDocument, PlansDocument, PlayedDocument, ReconstructionDocument
from keyhole.report.documents.json_text import Labels
from keyhole.report.html.page import Tile, render_fragment, render_page
from keyhole.report.words.sentence import counted

LISTED = 200  # estimates at once; more are folded away
FOLDED = 3000
IN_NOTEBOOK = 20  # estimates in a notebook
PICTURED = 30
POINTS = 2000  # of a scatter plot
PROBABILITY = "probability of being right"
ORACLE_PICTURED = 40
ORACLE_LISTED = 3000
PLANNED = 2000  # people of a plan
ROWS = 5000  # different rows of a reconstruction
UNIQUE = {True: "yes", False: "no", None: "not known"}


# --- an attack on answers --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnGuesses:
    """What an attack says of one column: its charts under their title, and its guesses, the surest first."""

    column: str
    title: str
    drawings: Sequence[Drawing]
    measure: str  # the heading of how sure it is
    rows: Sequence[Sequence[object]]
    total: int


def render_attack_page(attack: Mapping[str, Any]) -> str:
    """One page of what `keyhole attack --format json` says; `truths` in it (column to values) are drawn."""
    scores = _index_scores(attack)
    best = max((s["exact"] for s in scores.values()), default=None)
    blind = max((_measure_blind(s) for s in scores.values()), default=0.0)
    notes = [f"Chosen because {attack['why']}."] if attack.get("why") else []
    return render_page(
        "attack.html.jinja",
        "attack",
        _summarize_attack(attack, scores),
        mood="" if best is None else "bad" if _count_certain(attack) or best > blind + 0.02 else "good",
        notes=[*notes, *filter(None, attack["warnings"])],
        tiles=_make_attack_tiles(attack, scores),
        columns=list(_describe_columns(attack)),
        listed=LISTED,
        folded_rows=FOLDED,
        accuracy=_draw_growing_accuracy(attack.get("compared")),
        methods=_list_methods(attack.get("compared")),
        scores=[
            (c, *(f"{s[k]:.1%}" for k in ("exact", "prior_exact", "majority_exact", "within")), f"{s['tolerance']:g}")
            for c, s in scores.items()
        ],
    )


def render_attack_fragment(attack: Mapping[str, Any]) -> str:
    """The same for a notebook: the sentence, the first column's chart, and the surest guesses."""
    column = next(_describe_columns(attack, calibrated=False), None)
    sentence = _summarize_attack(attack, _index_scores(attack))
    return render_fragment("notebook/attack.html.jinja", sentence=sentence, column=column, listed=IN_NOTEBOOK)


def _summarize_attack(attack: Mapping[str, Any], scores: Mapping[str, Mapping[str, Any]]) -> str:
    people = counted(len({_name_record(e["record"]) for e in attack["estimates"]}), "person", "people")
    best = max((s["exact"] for s in scores.values()), default=None)
    sentence = f"Guesses for {people}, by {attack['method']}."
    if best is not None:
        sentence = f"{best:.0%} of the private values of {people} were rebuilt exactly, by {attack['method']}."
    certain, total = _count_certain(attack), len(attack["estimates"])
    how = "given a probability of at least 99.9 %" if attack["confidence"] == PROBABILITY else "certain"
    return sentence + (f" {certain:,} of {total:,} guesses {'is' if certain == 1 else 'are'} {how}." if certain else "")


def _count_certain(attack: Mapping[str, Any]) -> int:
    sure = [e["confidence"] for e in attack["estimates"] if e["confidence"] is not None]
    if attack["confidence"] == PROBABILITY:
        return sum(bool(probability > 1 - 1e-9) for probability in sure)
    return sum(bool(error < 1e-6) for error in sure)


def _index_scores(attack: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The score of each column, where the truth is known."""
    score = attack.get("score") or {}
    columns = list(dict.fromkeys(e["column"] for e in attack["estimates"]))
    return {columns[0]: score} if "exact" in score else dict(score)


def _measure_blind(score: Mapping[str, Any]) -> float:
    """What a guess without any answer would have right."""
    return float(max(score["prior_exact"], score["majority_exact"]))


def _make_attack_tiles(attack: Mapping[str, Any], scores: Mapping[str, Mapping[str, Any]]) -> Iterator[Tile]:
    for column, s in scores.items():
        blind = _measure_blind(s)
        yield Tile(f"{s['exact']:.1%}", f"{column}: exact", "bad" if s["exact"] > blind + 0.02 else "good")
        yield Tile(f"{blind:.1%}", f"{column}: by guessing without the answers")
        if s.get("error") is not None:
            yield Tile(f"{s['error']:.3g}", f"{column}: mean error ({s['prior_error']:.3g} without the answers)")
    yield Tile(attack["status"], "solver")
    yield Tile(f"{attack['residual']:.3g}", "residual of the answers")


def _describe_columns(attack: Mapping[str, Any], *, calibrated: bool = True) -> Iterator[ColumnGuesses]:
    """Column by column: the guesses against the truth where it is known, else the surest of them."""
    probable = attack["confidence"] == PROBABILITY
    by_column: dict[str, list[Mapping[str, Any]]] = {}
    for each in attack["estimates"]:
        by_column.setdefault(each["column"], []).append(each)
    for column, estimates in by_column.items():
        truth = (attack.get("truths") or {}).get(column)
        surest = sorted(estimates, key=lambda e: _measure_doubt(e["confidence"], probable=probable))
        if truth is None:
            title = f"{column}: the surest guesses"
            drawings = [_draw_surest(column, surest, probable=probable)]
        else:
            title = f"{column}: truth against estimate"
            drawings = [_draw_comparison(column, estimates, truth)]
            if calibrated:
                guesses, sure = ([e[key] for e in estimates] for key in ("value", "confidence"))
                drawings.append(draw_calibration(column, guesses, sure, truth, probable=probable))
        rows = [
            (
                tag("bdi", _name_estimate(e)),
                _write_guess(e["value"]),
                _write_confidence(e["confidence"], probable=probable),
            )
            for e in surest[: LISTED + FOLDED]
        ]
        measure = "probability of being right" if probable else "standard error"
        yield ColumnGuesses(column, title, [d for d in drawings if d is not None], measure, rows, len(surest))


def _measure_doubt(confidence: Any, *, probable: bool) -> float:
    return float("inf") if confidence is None else float(-confidence if probable else confidence)


def _draw_comparison(column: str, estimates: Sequence[Mapping[str, Any]], truth: Sequence[Any]) -> Drawing | None:
    """Truth against estimate, for numbers."""
    step = max(1, len(estimates) // POINTS)
    pairs = [
        (float(t), float(e["value"]))
        for e, t in zip(estimates[::step], truth[::step], strict=True)
        if isinstance(t, int | float) and isinstance(e["value"], int | float)
    ]
    if len(pairs) < 2:
        return None
    axis = Axis.of("truth", [v for pair in pairs for v in pair])
    line = Series("estimate = truth", [(axis.lo, axis.lo), (axis.hi, axis.hi)], style="guide")
    caption = f"Truth and estimate of {column}; on the dashed line the guess is right."
    dots = Series("people", pairs, dots=True)
    return draw_lines([line, dots], axis, Axis("estimate", axis.lo, axis.hi), caption, height=420)


def _draw_surest(column: str, surest: Sequence[Mapping[str, Any]], *, probable: bool) -> Drawing | None:
    """The surest guesses for numbers, each with two standard errors."""
    spans = []
    for each in surest[:PICTURED]:
        value, error = each["value"], each["confidence"]
        if isinstance(value, int | float):
            reach = 2 * error if not probable and error is not None else 0.0
            spans.append(Span(_name_estimate(each), value - reach, value + reach, None, "open"))
    if not spans:
        return None
    bars = "" if probable else ", with two standard errors to each side"
    return draw_ranges(spans, column, (), f"The surest guesses of {column}{bars}.")


def _write_confidence(value: Any, *, probable: bool) -> str:
    if value is None:
        return "unknown"
    return f"{value:.1%}" if probable else "0" if value < 1e-6 else f"± {value:.3g}"


def _write_guess(value: Any) -> Markup | str:
    return "NULL" if value is None else f"{value:.6g}" if isinstance(value, float) else tag("bdi", value)


def _name_estimate(estimate: Mapping[str, Any]) -> str:
    """Whose it is; where a person has several records, also which one."""
    row = f", row {estimate['row']}" if "row" in estimate else ""
    return f"{_name_record(estimate['record'])}{row}"


def _name_record(record: Mapping[str, Any]) -> str:
    return ", ".join(str(v) for v in record.values())


def _draw_growing_accuracy(compared: Mapping[str, Any] | None) -> Drawing | None:
    """The attack on less of the log: what `--compare` adds."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for each in compared["growth"] if compared is not None else ():
        if each["exact"] is not None:
            curves.setdefault(f"{each['column']} by {each['method']}", []).append((each["statements"], each["exact"]))
    caption = "The share of private values rebuilt exactly from the first so many statements."
    return draw_accuracy(curves, caption) if curves else None


def _list_methods(compared: Mapping[str, Any] | None) -> list[tuple[object, ...]] | None:
    """Other methods on all of the log: what `--compare` adds."""
    if compared is None:
        return None

    def write_share(value: float | None) -> str:
        return "" if value is None else f"{value:.1%}"

    def write_number(value: float | None) -> str:
        return "" if value is None else f"{value:.3g}"

    return [
        (
            p["method"],
            p["column"],
            write_share(p["exact"]),
            write_share(p["within"]),
            write_number(p["error"]),
            write_number(p["seconds"]),
            p["cannot"],
        )
        for p in compared["methods"]
    ]


# --- an attack on an oracle ------------------------------------------------------------------------------------------


def render_oracle_attack_page(learnt: Mapping[str, Any], error: str, certain: str) -> str:
    """One page of what `keyhole oracle attack --format json` says; `error` and `certain` are its two headlines."""
    entries = learnt["estimates"]
    noise = f"{learnt['method']}; noise: {learnt['noise']}{', measured' if learnt['noise_measured'] else ''}."
    conditions = [
        f"If {c['claim']} ({'' if c['checked'] else 'not '}checked: {c['how']})." for c in learnt["conditions"]
    ]
    spans = [
        Span(str(e["entry"]), e["low"], e["high"], None, "open")
        for e in entries[:ORACLE_PICTURED]
        if e["low"] is not None and e["high"] is not None
    ]
    some = f" (the first {ORACLE_PICTURED})" if len(entries) > ORACLE_PICTURED else ""
    return render_page(
        "oracle.html.jinja",
        "attack on an oracle",
        f"{len(entries):,} hidden numbers were estimated from {learnt['asked']:,} yes/no answers; {error}.",
        notes=[noise, f"{certain[:1].upper()}{certain[1:]}.", *conditions, *learnt["notes"]],
        tiles=[
            Tile(f"{learnt['asked']:,}", "answers"),
            Tile(f"{learnt['recalled']:,}", "of them from the record"),
            Tile(f"{learnt['not_asked']:,}", "queries not asked"),
        ],
        ranges=draw_ranges(spans, "value", (), f"The certified range of each entry{some}.") if spans else None,
        estimates=[
            (
                tag("bdi", e["entry"]),
                f"{e['value']:.6g}",
                "" if e["error"] is None else f"{e['error']:.2g}",
                _write_end(e["low"]),
                _write_end(e["high"]),
            )
            for e in entries[:ORACLE_LISTED]
        ],
        total=len(entries),
        predictions=[
            (k, f"{p['answer']:.6g}", _write_end(p["low"]), _write_end(p["high"]))
            for k, p in enumerate(learnt["predictions"][:ORACLE_LISTED], 1)
        ],
    )


def _write_end(value: float | None) -> str:
    return "none" if value is None else f"{value:.12g}"


# --- a plan ----------------------------------------------------------------------------------------------------------


def render_plan_page(plan: PlanDocument) -> str:
    """One page of what `keyhole plan --format json` says of one person."""
    queries, exposes, who, column = plan.queries, plan.exposes, _name_target(plan.target), plan.column
    tiles = [Tile(str(len(queries)), "question" if len(queries) == 1 else "questions")]
    if queries:
        ask = "1 question gives" if len(queries) == 1 else f"{len(queries)} questions give"
        sentence = f"{ask} {who} away."
        tiles.append(Tile(str(len(exposes)), "exposed, as the auditor confirms", "bad"))
        tiles.append(Tile("yes" if plan.fewest else "not shown", "is no smaller number enough?"))
    elif plan.impossible:
        sentence = f"{who}'s {column} cannot be found out by such questions."
    elif plan.by_luck:
        sentence = f"{who}'s {column} does not follow from sums of answers."
    else:
        sentence = f"It is not decided whether {who}'s {column} can be found out."
    formula = plan.formula
    if formula and plan.categories:
        formula = f"the category for which {formula} is 1"
    return render_page(
        "plan.html.jinja",
        "plan",
        sentence,
        mood="bad" if queries else "good" if plan.impossible else "warn",
        notes=[f"{column}: {plan.how}."],
        tiles=tiles,
        reason=plan.reason,
        by_luck=plan.by_luck,
        questions=list(enumerate(queries, 1)),
        formula=f"{column} of {who} = {formula}" if formula else "",
        shared=[_name_target(record) for record in (plan.shared or ())[:PLANNED]],
        others=list(map(_name_target, exposes[1 : PLANNED + 1])),
        runs=[_describe_run(run) for run in plan.run],
    )


def _describe_run(run: PlayedDocument) -> str:
    """How the questions fare in a session under one policy."""
    value = f"the value is {'about ' if run.noisy else ''}{run.value}"
    return f"{run.policy}: {'it is denied, and the value stays unknown' if run.denied else value}."


def render_plans_page(plans: PlansDocument) -> str:
    """One page of what `keyhole plan --target all --format json` says."""
    exposed, n = len(plans.exposes), plans.people
    two = sum(p.questions is not None and p.questions <= 2 for p in plans.plans)
    undecided = sum(count for how, count in plans.counts.items() if how.startswith("undecided"))
    return render_page(
        "plans.html.jinja",
        "plan for everybody",
        f"{exposed:,} of {n:,} people can be given away by allowed questions.",
        mood="bad" if exposed else "good",
        notes=[f"Allowed: {plans.allowed}.", f"Set-up took {plans.seconds} s; nothing private was read."],
        tiles=[
            Tile(f"{exposed:,}", "can be given away", "bad" if exposed else "good"),
            Tile(f"{two:,}", "by at most two questions", "bad" if two else "good"),
            Tile(f"{undecided:,}", "undecided", "warn" if undecided else "good"),
            Tile(f"{len(plans.queries):,}", "questions in one list for all"),
        ],
        list=_describe_shared_list(plans),
        queries=list(enumerate(plans.queries[:PLANNED], 1)),
        by_luck=plans.by_luck,
        total=len(plans.plans),
        counts=[(how, f"{count:,}", f"{100 * count / max(1, n):.1f} %") for how, count in plans.counts.items()],
        everybody=[(_name_target(p.record), p.how, p.questions or "") for p in plans.plans[:PLANNED]],
    )


def _describe_shared_list(plans: PlansDocument) -> str:
    """How short the list is, and who confirms it."""
    shared, count = plans.list, len(plans.queries)
    if not count:
        return ""
    few = "no fewer can do it" if shared.fewest else f"at least {shared.bound:,} are needed"
    judged = f"The auditor judged {shared.judged:,} of them: they expose {shared.exposed:,} people."
    return f"One list of {count:,} questions gives {shared.people:,} people away; {few}. {judged}"


def _name_target(record: Labels) -> str:
    return ", ".join(f"row {v}" if k == "row" and len(record) == 1 else str(v) for k, v in record.items())


# --- a reconstruction ------------------------------------------------------------------------------------------------


def render_reconstruction_page(reconstruction: ReconstructionDocument) -> str:
    """One page of what `keyhole reconstruct --format json` says."""
    rows, common, unique = reconstruction.rows, reconstruction.common, reconstruction.unique
    return render_page(
        "reconstruction.html.jinja",
        "reconstruction",
        reconstruction.sentence,
        mood="bad" if unique or common else "warn",
        notes=[f"{reconstruction.cells:,} numbers, one per cell, were searched. {reconstruction.status.capitalize()}."],
        tiles=[
            Tile(f"{len(rows):,}", "row rebuilt" if len(rows) == 1 else "rows rebuilt", "bad" if unique else ""),
            Tile(UNIQUE[unique], "are they the only ones?", "bad" if unique else ""),
            Tile("not known" if common is None else f"{len(common):,}", "rows that all solutions share"),
        ],
        unique=unique,
        rows=_count_rows(rows),
        common=_count_rows(common or ()),
        most=ROWS,
        proved=reconstruction.status == "proved",
    )


def _count_rows(rows: Sequence[Labels]) -> tuple[list[str], list[tuple[object, ...]]]:
    """The columns, and equal rows once with how often."""
    counts = Counter(tuple(row.items()) for row in rows)
    names = [name for name, _ in next(iter(counts), ())]
    return names, [(*(value for _, value in items), times) for items, times in counts.items()]
