"""The page of an audit, which a data-protection officer reads, acts on and signs, and what a notebook shows of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from msgspec import UnsetType

from keyhole.gather.evidence import OF_TABLE
from keyhole.report.cases import Case, PlainVerdict
from keyhole.report.charts.drawing import Drawing, Span, draw_heat_map, draw_ranges
from keyhole.report.charts.figures import draw_growth
from keyhole.report.documents.json_text import Labels, Value
from keyhole.report.documents.verdict import (
    Completion,
    ExposedValue,
    InferredFeature,
    Interval,
    JudgedWarning,
    ProofItem,
    Provenance,
    QueryMap,
    RoundingEffect,
    StatementAdvice,
    UnjudgedStatement,
    VerdictDocument,
)
from keyhole.report.formats.document import describe_verdict
from keyhole.report.html.page import Tile, render_fragment, render_page
from keyhole.report.words.measures import name_promise, suggest_measures
from keyhole.report.words.proofs import SHOWN as REASONS
from keyhole.report.words.proofs import describe_claim, explain_cases, format_formula, list_statements
from keyhole.report.words.sentence import counted, summarize_verdict
from keyhole.report.words.text import (
    ASSUMED_TITLE,
    GROUPS_TITLE,
    LISTED,
    list_problems,
    select_proved,
    sort_by_width,
)

SHOWN = 300  # findings with their proofs; the rest is a table of names
NAMED = 2_000  # rows of that table
PICTURED = 40
Finding: TypeAlias = ExposedValue | Interval | InferredFeature
Reasoned = TypeVar("Reasoned", UnjudgedStatement, JudgedWarning)
UNBOUNDED = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class FindingCard:
    """What the page says of one finding: whom it is about, what is known, why, and the statements that prove it."""

    who: str
    what: str
    column: str
    status: str
    known: str
    why: Sequence[str]
    singled_out: bool
    first: Completion | None
    cited: Sequence[tuple[str, str, str]]


def render_audit_page(verdict: VerdictDocument, log: str = "", notes: Sequence[str] = ()) -> str:
    """One page of what `keyhole audit --format json` writes; its `map` is drawn."""
    inferred = _list_inferred(verdict)
    findings: list[Finding] = [*verdict.exposed, *inferred]
    people = counted(verdict.people, "person", "people")
    about = f"{counted(verdict.statements.total, 'statement')} about {people} in {verdict.source.table}."
    completed = {"exposed": _list_completed(verdict.exposed), "inferred": _list_completed(inferred)}
    by_name = [f for f in findings if not f.assumed]
    by_row = _counts_records(verdict)
    return render_page(
        "audit.html.jinja",
        "audit",
        verdict.sentence,
        mood="bad" if findings or verdict.rows else "good" if verdict.complete else "warn",
        notes=[f"{log}: {about}" if log else about, *notes],
        tiles=_make_tiles(verdict, inferred),
        verdict=verdict,
        log=log or "log.sql",
        some_findings=bool(findings),
        cards=[_make_card(f, by_row=by_row) for f in by_name[: SHOWN + NAMED]],
        total_findings=len(by_name),
        assumed_title=ASSUMED_TITLE,
        by_assumption=[(group, _list_cited(group.proof)) for group in verdict.by_assumption[:SHOWN]],
        groups=[(", ".join(map(name_record, group.records)), group) for group in verdict.groups[:SHOWN]],
        measures=list(_list_measures(verdict.advice)) if verdict.advice is not None else [],
        ranges=draw_value_ranges(verdict),
        growth=draw_growth(verdict.statements.total, completed),
        counts=_count_by_origin(findings),
        query_map=_draw_query_map(verdict.map),
        unjudged=sorted(_group_by_reason(verdict.unjudged), key=lambda case: -len(case[1])),
        table_warnings=[w.reason for w in verdict.warnings if w.query.startswith(OF_TABLE)],
        warnings=_group_by_reason(w for w in verdict.warnings if not w.query.startswith(OF_TABLE)),
        roles=_list_roles(verdict.source),
        premises=_list_premises(verdict),
    )


def _list_inferred(verdict: VerdictDocument) -> list[Interval | InferredFeature]:
    """Ranges and excluded values, and what is inferred of people by their records."""
    return [*(i for i in verdict.intervals if i.status == "inferred"), *verdict.features]


def _make_card(finding: Finding, *, by_row: bool) -> FindingCard:
    form = "" if isinstance(finding, Interval) else finding.form
    return FindingCard(
        who=_name_finding(finding, by_row=by_row),
        what=form or finding.column,
        column=finding.column,
        status="exposed" if isinstance(finding, ExposedValue) else "inferred",
        known=_say_known(finding),
        why=finding.why or (),
        singled_out=isinstance(finding, ExposedValue) and finding.singled_out,
        first=finding.first,
        cited=_list_cited(finding.proof),
    )


def _list_cited(proof: Sequence[ProofItem]) -> list[tuple[str, str, str]]:
    """Each statement that a proof cites once: its number, its text and its answer."""
    once = {item.query: item for item in proof if item.query}
    return [(query, item.sql or "", _write_answer(item)) for query, item in once.items()]


def _write_answer(item: ProofItem) -> str:
    answer = item.answer
    if isinstance(answer, Mapping):
        return f"{answer.get('lo')} to {answer.get('hi')}"
    return "NULL" if answer is None or isinstance(answer, UnsetType) else str(answer)


def _make_tiles(verdict: VerdictDocument, inferred: Sequence[Interval | InferredFeature]) -> Iterator[Tile]:
    names = {name_record(f.record) for f in verdict.exposed}
    people, narrowed = len(names), len({name_record(_get_record(f)) for f in inferred} - names)
    judged, total = verdict.statements.judged, verdict.statements.total
    yield Tile(f"{people:,}", f"{'person' if people == 1 else 'people'} exposed", "bad" if people else "good")
    yield Tile(f"{narrowed:,}", "more of whom something new is known", "warn" if narrowed else "good")
    yield Tile(f"{judged:,} of {total:,}", "statements judged", "" if judged == total else "warn")
    word = "complete" if verdict.complete else "not complete"
    yield Tile(word, "is everybody else shown to be safe?", "good" if verdict.complete else "warn")


def _counts_records(verdict: VerdictDocument) -> bool:
    """Whether a person can have several records, so that it is said which one is meant."""
    return verdict.people != verdict.records


def _get_record(finding: Finding) -> Labels:
    return finding.person if isinstance(finding, InferredFeature) else finding.record


def _name_finding(finding: Finding, *, by_row: bool) -> str:
    """The id; where ids repeat, and it is about one record, with its row."""
    row = None if isinstance(finding, InferredFeature) else finding.row
    about_one = row is not None and not (isinstance(finding, ExposedValue) and finding.form)
    return name_record(_get_record(finding)) + (f" (row {row})" if by_row and about_one else "")


def name_record(record: Labels) -> str:
    """The values of its id."""
    return ", ".join(map(str, record.values()))


def _say_known(finding: Finding) -> str:
    if isinstance(finding, ExposedValue):
        return "is determined" if finding.value is None else f"= {finding.value}"
    if isinstance(finding, InferredFeature):
        return f"({finding.grade})" if finding.grade else "is narrowed down"
    if finding.allowed:
        return f"is one of {', '.join(map(str, finding.allowed))}"
    if finding.lo is not None or finding.hi is not None:
        return say_range(finding.lo, finding.hi)
    return f"is not {' nor '.join(map(str, finding.excluded))}" if finding.excluded else "is narrowed down"


def say_range(lo: Value, hi: Value) -> str:
    """Where a value lies; None is an infinite end."""
    return f"lies in [{'-∞' if lo is None else lo}, {'∞' if hi is None else hi}]"


# --- what to do about it ---------------------------------------------------------------------------------------------


def _list_measures(advice: StatementAdvice) -> Iterator[tuple[str, str, str]]:
    """Each measure of `keyhole audit --advise` with its price and what it leaves."""
    n = len(advice.withhold)
    if n:
        least = "no smaller set does" if advice.smallest else f"at least {advice.bound} must go"
        verified = "nobody is exposed." if advice.verified else "somebody is still exposed; this is no remedy."
        price = f"{n} of {advice.of} statements {'is' if n == 1 else 'are'} not answered; {least}"
        yield "Withhold statements", price, f"audited again: {advice.after or verified}"
    elif not advice.enough:
        yield "Withhold statements", f"at least {advice.bound} must go", "no remedy was found in the time given"
    other = advice.alternatives
    if other is None:
        return
    coarsen = "Coarsen: answer about larger groups only"
    if other.groups is None:
        yield coarsen, "", "no least size up to 100 people is enough"
    else:
        lost = counted(other.groups.withheld, "statement")
        price = f"groups of at least {other.groups.least} people; {lost} would not be answered"
        yield coarsen, price, "nobody is exposed"
    for each in other.rounding:
        yield "Round", f"every answer to a multiple of {each.step}", _say_left(each)
    if other.noise is not None:
        yield (
            "Answer privately",
            "noise of standard deviation s on each answer; keyhole ask with a budget calibrates and accounts for it",
            f"no proof holds any more; the best guess is off by {other.noise:.2g} s (standard deviation)",
        )


def _say_left(effect: RoundingEffect) -> str:
    """Who is still exposed or narrowed down after a measure."""
    left = [f"{counted(effect.exposed, 'person', 'people')} still exposed"] if effect.exposed else []
    if effect.inferred:
        width = "" if effect.narrowest is None else f" (the narrowest {effect.narrowest} wide)"
        left.append(f"{counted(effect.inferred, 'person', 'people')} to a range{width}")
    return ", ".join(left) or "nobody is exposed or narrowed down"


# --- charts ----------------------------------------------------------------------------------------------------------


def draw_value_ranges(verdict: VerdictDocument) -> list[Drawing]:
    """What was known of each value before, and is now: a chart a column."""
    by_row = _counts_records(verdict)
    drawings = []
    for column in verdict.source.private or dict.fromkeys(i.column for i in verdict.intervals):
        items = [i for i in verdict.intervals if i.column == column and not i.assumed]
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


def make_span(item: Interval, who: str) -> Span | None:
    """A range of numbers that says more than what was known, or one value."""
    ends, prior = _read_ends(item.lo, item.hi), _read_ends(*item.prior)
    if ends is None or prior is None or ends in (prior, UNBOUNDED):
        return None
    note = "outer, not shown to be reached" if item.tight is False else ""
    return Span(who, *ends, None if prior == UNBOUNDED else prior, item.status, (note,))


def _read_ends(lo: Value, hi: Value) -> tuple[float, float] | None:
    """The ends of a range as numbers, if they are; None is an infinite end."""
    try:
        return -math.inf if lo is None else float(lo), math.inf if hi is None else float(hi)
    except (TypeError, ValueError, OverflowError):
        return None


def _draw_query_map(query_map: QueryMap | None) -> Drawing | None:
    if query_map is None or not query_map.queries:
        return None
    caption = (
        "Each row is a query (or several), each column people who are in the same queries; the darker, the more "
        "of them it counts."
    )
    titles = ("people, those in the same queries side by side", "queries")
    return draw_heat_map(query_map.shares, query_map.queries, query_map.people, titles, caption)


# --- how it grew over the log ----------------------------------------------------------------------------------------


def _list_completed(findings: Iterable[Finding]) -> list[int]:
    """The statement that completed each finding: what `first` says, else the last one of its proof."""
    completed = []
    for finding in findings:
        queries = [finding.first.query] if finding.first else [item.query for item in finding.proof if item.query]
        if queries:
            completed.append(max(int(query.split(".")[0]) for query in queries))
    return completed


def _count_by_origin(findings: Sequence[Finding]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Whose questions completed how many findings, and on which days, where the log has them."""
    origins = [f.first for f in findings if f.first is not None]
    analysts = Counter(o.analyst for o in origins if o.analyst)
    days = Counter(o.time[:10] for o in origins if o.time)
    tables = (("completed by a question of", analysts.most_common()), ("completed on", sorted(days.items())))
    return [(title, [(word, f"{n:,}") for word, n in rows]) for title, rows in tables if rows]


# --- what was not judged, assumed and promised -----------------------------------------------------------------------


def _group_by_reason(statements: Iterable[Reasoned]) -> list[tuple[str, list[Reasoned]]]:
    reasons: dict[str, list[Reasoned]] = {}
    for each in statements:
        reasons.setdefault(each.reason, []).append(each)
    return list(reasons.items())


def _list_roles(source: Provenance) -> list[tuple[str, str]]:
    """Which columns are what, with their kinds."""
    kinds = source.kinds
    roles = {
        "names the person": source.id,
        "private": source.private,
        "hidden": source.hidden,
        "public": tuple(c for c in kinds if c not in {*source.id, *source.private, *source.hidden}),
    }
    named = {role: ", ".join(f"{c} ({kinds.get(c, '')})" for c in columns) for role, columns in roles.items()}
    return [(role, columns) for role, columns in named.items() if columns]


def _list_premises(verdict: VerdictDocument) -> list[tuple[str, object]]:
    """What the verdict rests on."""
    premises: dict[str, object] = {
        "written for": verdict.source.dialect,
        "version of the data": verdict.source.version,
        "classes": verdict.atoms,
        "rank": verdict.rank,
    }
    premises |= {f"assumed of {c}, from its values": kind for c, kind in verdict.assumed.items()}
    priors = {i.column: i.prior for i in verdict.intervals if any(end is not None for end in i.prior)}
    for column, (lo, hi) in priors.items():
        premises[f"known beforehand of {column}"] = f"{'-∞' if lo is None else lo} to {'∞' if hi is None else hi}"
    premises["SHA-256 of the log"] = verdict.log_sha256
    return [(name, value) for name, value in premises.items() if value is not None]


# --- in a notebook ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One person of whom something is known, as a row of a table."""

    who: str
    column: str
    status: str
    value: str
    singled_out: str
    proof: str


def render_verdict_fragment(verdict: PlainVerdict) -> str:
    """The verdict for a notebook: the sentence, who is exposed and why, what could not be judged, and the ranges."""
    by_name = [case for case in verdict.findings if not case.assumed]
    cases = sort_by_width(by_name)[:LISTED]
    proved = select_proved(cases)
    return render_fragment(
        "notebook/verdict.html.jinja",
        sentence=summarize_verdict(verdict),
        cases=[_make_case_row(case) for case in cases],
        left=len(by_name) - len(cases),
        reasons=[*explain_cases(proved), *list_statements(proved)],
        assumed_title=ASSUMED_TITLE,
        assumed=[f"{each.column}: {each.why}" for each in verdict.by_assumption[:REASONS]],
        groups_title=GROUPS_TITLE,
        groups=[f"{case.who}: {format_formula(case)}" for case in verdict.groups[:REASONS]],
        problems=list(list_problems(verdict)),
        measures=suggest_measures(verdict),
        proved=name_promise(verdict),
        ranges=draw_value_ranges(describe_verdict(verdict, ())),
    )


def _make_case_row(case: Case) -> CaseRow:
    value = str(case.value) if case.value is not None else describe_claim(case)
    singled_out = "yes" if case.singled_out else "no"
    return CaseRow(case.who, case.column, case.status, value, singled_out, format_formula(case))
