"""The pages of sessions: answers with their bars and prices, a watched stream, and the book of all of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from msgspec import UnsetType

from keyhole.book import EVERYBODY
from keyhole.report.charts.drawing import Drawing, Series, Span, draw_lines, draw_ranges
from keyhole.report.charts.svg import Axis
from keyhole.report.documents.sessions import (
    AccountTotal,
    AnsweredGroup,
    AnswersDocument,
    AskDocument,
    BookDocument,
    BookEntryDocument,
    ReplyDocument,
    SpendingStep,
    UnansweredStatement,
)
from keyhole.report.html.page import Tile, render_fragment, render_page
from keyhole.report.replies import format_steps
from keyhole.report.words.digits import with_bar
from keyhole.report.words.sentence import counted

PICTURED = 40
LISTED = 2000
TOGETHER = "everybody together"
FEW = 6  # numbers of a reply that are shown
REPLY = 200  # characters of one
POINTS = 500  # of the budget's curve
DRAWN = 6  # curves; the table below has every account
ENTRY_WORDS = {
    "answer": "answered",
    "published": "published",
    "unjudged": "published, and not represented",
    "release": "answered with noise",
}
VERDICT_WORDS = {
    "allow": "allowed",
    "deny": "denied",
    "refused": "refused",
    "published": "entered as published",
    "unjudged": "not represented",
}
VERDICT_MOODS = {"allow": "good", "deny": "warn", "refused": "warn", "published": "", "unjudged": "warn"}
VERDICT_STYLES = {"allow": "s2", "deny": "exposed", "refused": "inferred", "published": "s0", "unjudged": "inferred"}


# --- answers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnswerCard:
    """One statement and its answer as the page shows it: one value, or a row of numbers for each group."""

    sql: str
    refusal: str = ""
    values: Sequence[str] = ()
    groups: Sequence[Sequence[str]] | None = None
    ranks: int | None = None  # a median's rank is within so many people
    terms: str = ""
    notes: Sequence[str] = ()


def render_answers_page(answers: AnswersDocument | AskDocument) -> str:
    """One page of what `keyhole ask -f FILE --format json` or a private `keyhole ask --format json` says."""
    replies = _list_replies(answers)
    answered = [r for r in replies if r.refused is None and r.outcome not in ("deny", "refused")]
    refused = len(replies) - len(answered)
    how = " with noise" if isinstance(answers, AnswersDocument) or answers.policy == "private" else ""
    were = "was" if len(answered) == 1 else "were"
    sentence = f"{len(answered):,} of {counted(len(replies), 'statement')} {were} answered{how}."
    if answers.dry_run:
        sentence = f"What {counted(len(replies), 'statement')} would cost; nothing was spent."
    return render_page(
        "answers.html.jinja",
        "answers",
        sentence,
        mood="warn" if refused else "good",
        tiles=_make_answer_tiles(answers, replies, refused),
        cards=list(map(_make_card, replies)),
        bars=_draw_bars(replies),
        budget=_draw_budget(replies),
    )


def render_answers_fragment(answers: AnswersDocument) -> str:
    """The same for a notebook: each answer, and the bars."""
    replies = answers.answers
    bars = _draw_bars(replies, "Each answer with its bar.")
    return render_fragment("notebook/answers.html.jinja", cards=list(map(_make_card, replies[:PICTURED])), bars=bars)


def _list_replies(answers: AnswersDocument | AskDocument) -> Sequence[ReplyDocument]:
    return answers.answers if isinstance(answers, AnswersDocument) else answers.replies


def _make_answer_tiles(
    answers: AnswersDocument | AskDocument, replies: Sequence[ReplyDocument], refused: int
) -> Iterator[Tile]:
    unit = answers.unit or "epsilon"
    if isinstance(answers, AnswersDocument):
        yield Tile(f"{answers.spent:.4g}", f"{unit} spent so far")
    left = next((r.left for r in reversed(replies) if r.left is not None), None)
    if left is not None:
        yield Tile(f"{left:.4g}", f"{unit} left", "warn" if left == 0 else "")
    cost = sum(r.cost or 0 for r in replies)
    yield Tile(f"{cost:.4g}", f"{unit} for these statements")
    if refused:
        yield Tile(str(refused), "refused", "warn")


def _make_card(reply: ReplyDocument) -> AnswerCard:
    sql = " ".join(reply.sql.split())
    if reply.refused or reply.reason:
        return AnswerCard(sql, reply.refused or reply.reason or "")
    values: Sequence[str] = ()
    groups: Sequence[Sequence[str]] | None = None
    if reply.groups is not None:
        groups = [
            (", ".join(f"{k} = {v}" for k, v in g.key.items()), *_write_values(g.values, g.error)) for g in reply.groups
        ]
    elif not isinstance(reply.value, UnsetType):
        values = _write_values([reply.value], None if isinstance(reply.error, UnsetType) else [reply.error])
    terms = [f"cost {reply.cost:.4g}" if reply.cost is not None else "", reply.neighbours]
    terms += [f"bars hold with probability {1 - reply.beta:g}"] if reply.beta is not None else []
    line = "; ".join(term for term in (*terms, reply.how) if term)
    return AnswerCard(sql, "", values, groups, reply.ranks, line, reply.notes)


def _write_values(values: Sequence[Any], errors: Sequence[Any] | None) -> list[str]:
    """Values and their bars as the command line shows them: cut to what the bar lets one see."""
    if errors is None:
        return list(map(_write_value, values))
    pairs = [with_bar(v, e) if v is not None and e is not None else None for v, e in zip(values, errors, strict=True)]
    written = [_write_value(v) if p is None else p[0] for v, p in zip(values, pairs, strict=True)]
    return [*written, *("" if p is None else f"± {p[1]}" for p in pairs)]


def _write_value(value: Any) -> str:
    return "NULL" if value is None else f"{value:,.6g}" if isinstance(value, float) else str(value)


def _draw_bars(replies: Sequence[ReplyDocument], caption: str = "") -> Drawing | None:
    """Each answer from its lower to its upper end."""
    spans = []
    for number, reply in enumerate(replies, 1):
        groups = reply.groups or ()
        if not groups and not isinstance(reply.value, UnsetType) and not isinstance(reply.error, UnsetType):
            groups = (AnsweredGroup(key={}, values=(reply.value,), error=(reply.error,)),)
        for group in groups:
            key = ", ".join(str(v) for v in group.key.values())
            for value, error in zip(group.values, group.error or (), strict=False):
                if value is not None and error is not None:
                    middle, reach = float(value), float(error)
                    spans.append(Span(f"{number}. {key}".strip(), middle - reach, middle + reach, None, "open"))
    if not spans:
        return None
    some = "" if len(spans) <= PICTURED else f" (the first {PICTURED})"
    return draw_ranges(spans[:PICTURED], "answer", (), caption or f"Each answer with its bar{some}.")


def _draw_budget(replies: Sequence[ReplyDocument]) -> Drawing | None:
    left = [(float(k), r.left) for k, r in enumerate(replies, 1) if r.left is not None]
    if len(left) < 2:
        return None
    start = left[0][1] + (replies[int(left[0][0]) - 1].cost or 0)
    points = [(left[0][0] - 1, start), *left]
    x, y = Axis("statement", points[0][0], left[-1][0], whole=True), Axis("left", 0, max(v for _, v in points) or 1)
    return draw_lines([Series("budget", points, stepped=True)], x, y, "The budget after each statement.", height=240)


# --- a watched stream ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Statements that were held back, or expose somebody, for one reason."""

    reason: str
    rows: Sequence[HeldStatement]
    some_instead: bool
    some_people: bool


@dataclass(frozen=True, slots=True)
class HeldStatement:
    """One of them: what would be allowed instead, and whom it would expose by which proof."""

    query: str
    sql: str
    instead: str
    people: Sequence[tuple[str, str]]
    proof: str


def render_watch_page(replies: Sequence[Mapping[str, Any]]) -> str:
    """One page of the lines that `keyhole ask --decide-only --format json` prints."""
    counts = Counter(r["verdict"] for r in replies)
    exposing = sum(bool(r.get("who")) and r["verdict"] == "published" for r in replies)
    parts = ", ".join(f"{counts[v]:,} {VERDICT_WORDS[v]}" for v in VERDICT_WORDS if counts[v])
    sentence = f"Of {counted(len(replies), 'statement')}: {parts}." if replies else "No statement was asked."
    if exposing:
        sentence += f" {counted(exposing, 'statement')} {'exposes' if exposing == 1 else 'expose'} somebody."
    held = counts["deny"] or counts["refused"] or counts["unjudged"]
    note = "Each was decided before it was answered, from what is public and what was answered before."
    return render_page(
        "watch.html.jinja",
        "watch",
        sentence,
        mood="bad" if exposing else "warn" if held else "good",
        notes=[] if counts["published"] or counts["unjudged"] else [note],
        tiles=[
            Tile(f"{counts[v]:,}", word, VERDICT_MOODS[v] if counts[v] else "")
            for v, word in VERDICT_WORDS.items()
            if counts[v] or v == "allow"
        ],
        held=_group_held_back(replies),
        stream=_draw_stream(replies),
        listed=[(r["query"], VERDICT_WORDS[r["verdict"]], r["sql"]) for r in replies[:LISTED]],
        total=len(replies),
    )


def _group_held_back(replies: Sequence[Mapping[str, Any]]) -> list[HeldBack]:
    """By reason, the commonest first; with `--explain`, whom each would expose and how."""
    reasons: dict[str, list[Mapping[str, Any]]] = {}
    for reply in replies:
        if reply["verdict"] in ("deny", "refused", "unjudged") or reply.get("who"):
            reasons.setdefault(f"{VERDICT_WORDS[reply['verdict']]}: {reply.get('reason') or ''}", []).append(reply)
    groups = []
    for reason, several in sorted(reasons.items(), key=lambda item: -len(item[1])):
        rows = list(map(_make_held_statement, several[:LISTED]))
        title = f"{counted(len(several), 'statement')} {reason}"
        groups.append(HeldBack(title, rows, any(r.get("instead") for r in several), any(r.get("who") for r in several)))
    return groups


def _make_held_statement(reply: Mapping[str, Any]) -> HeldStatement:
    people = []
    for each in reply.get("who") or ():
        to = f", to {_name_record(each['insider'])}" if each.get("insider") else ""
        people.append((_name_record(each["record"]), f"{each.get('form') or each['column']}{to}"))
    steps = list(reply.get("proof") or ())
    return HeldStatement(
        reply["query"], reply["sql"], reply.get("instead") or "", people, format_steps(steps) if steps else ""
    )


def _name_record(record: Mapping[str, Any]) -> str:
    return ", ".join(f"row {v}" if k == "row" else str(v) for k, v in record.items())


def _draw_stream(replies: Sequence[Mapping[str, Any]]) -> Drawing | None:
    """How many of each verdict there were after so many statements."""
    if len(replies) < 2:
        return None
    so_far: Counter[str] = Counter()
    points: dict[str, list[tuple[float, float]]] = {r["verdict"]: [(0.0, 0.0)] for r in replies}
    for place, reply in enumerate(replies, 1):
        so_far[reply["verdict"]] += 1
        points[reply["verdict"]].append((float(place), float(so_far[reply["verdict"]])))
    end = float(len(replies))
    series = [
        Series(word, list(dict([*points[v], (end, points[v][-1][1])]).items()), VERDICT_STYLES[v], stepped=True)
        for v, word in VERDICT_WORDS.items()
        if v in points
    ]
    x, y = Axis("statement", 0, end, whole=True), Axis("statements so far", 0, max(so_far.values()), whole=True)
    return draw_lines(series, x, y, "How many were allowed and held back after so many statements.", height=240)


# --- a book ----------------------------------------------------------------------------------------------------------


def render_book_page(book: BookDocument, file: str = "") -> str:
    """One page of what `keyhole book show --format json` says."""
    answered = group_by_statement(e for e in book.entries if e.kind in ENTRY_WORDS and e.says.get("sql"))
    held = book.not_answered
    unit = book.budget.get("unit", "epsilon")
    spent = float(Fraction(book.spent[EVERYBODY].amount)) if EVERYBODY in book.spent else 0.0
    were = "was" if len(answered) == 1 else "were"
    sentence = f"{counted(len(answered), 'statement')} {were} answered or published, {len(held)} not answered"
    sentence += f"; {unit} {spent:.4g} was spent." if spent else "."
    tiles = [Tile(f"{len(answered):,}", "answered or published")]
    tiles += [Tile(f"{len(held):,}", "not answered", "warn" if held else "")]
    tiles += [Tile(f"{spent:.4g}", f"{unit} spent by everybody together")] if spent else []
    versions = counted(len(book.epochs), "version")
    reasons: dict[str, list[UnansweredStatement]] = {}
    for each in held:
        reasons.setdefault(f"{each.verdict}: {each.reason.splitlines()[0]}", []).append(each)
    return render_page(
        "book.html.jinja",
        "book",
        sentence,
        notes=[f"{file}: the population {book.population!r}, {versions} of the data.", "For the owner."],
        tiles=tiles,
        spending=draw_spending(book.spending, book.entries[0], book.entries[-1], unit) if book.spending else None,
        unit=unit,
        accounts=[_make_account(who, account) for who, account in book.spent.items()],
        answered=[(ENTRY_WORDS[first.kind], first, _write_reply(first, *more)) for first, *more in answered[:LISTED]],
        total=len(answered),
        held=sorted(reasons.items(), key=lambda item: -len(item[1])),
    )


@dataclass(frozen=True, slots=True)
class AccountBar:
    """An account: what of its budget is spent, as text and in percent (None: nobody said what it may spend)."""

    who: str
    spent: str
    limit: str
    left: str
    delta: str
    percent: float | None


def _make_account(who: str, account: AccountTotal) -> AccountBar:
    amount, delta = float(Fraction(account.amount)), float(Fraction(account.delta))
    limit, left = ("" if each is None else f"{float(Fraction(each)):.6g}" for each in (account.limit, account.left))
    percent = 100 * amount / float(Fraction(account.limit)) if account.limit is not None else None
    return AccountBar(
        TOGETHER if who == EVERYBODY else who, f"{amount:.6g}", limit, left, f"{delta:g}" if delta else "", percent
    )


def group_by_statement(entries: Iterable[BookEntryDocument]) -> list[list[BookEntryDocument]]:
    """The entries of each statement: what is released of it in parts (a quantile of each group) is one answer."""
    found: list[list[BookEntryDocument]] = []
    for entry in entries:
        last = found[-1][-1] if found else None
        same = last is not None and (last.kind, last.analyst, last.says["sql"]) == (
            "release",
            entry.analyst,
            entry.says["sql"],
        )
        if same and entry.kind == "release":
            found[-1].append(entry)
        else:
            found.append([entry])
    return found


def _write_reply(entry: BookEntryDocument, *others: BookEntryDocument) -> str:
    """What was answered, as it was released; of several numbers the first."""
    if others:
        return f"{_write_reply(entry)} and {counted(len(others), 'more release')}"
    answer = entry.says.get("answer")
    if not isinstance(answer, Mapping) or "lines" not in answer:
        text = "" if answer is None else answer if isinstance(answer, str) else json.dumps(answer)
        return text if len(text) <= REPLY else f"{text[:REPLY]} …"
    numbers = [str(json.loads(line).get("answer")) for line in answer["lines"]]
    more = f" and {len(numbers) - FEW} more" if len(numbers) > FEW else ""
    return f"{', '.join(numbers[:FEW])}{more}"


def draw_spending(
    spending: Iterable[SpendingStep], first: BookEntryDocument, end: BookEntryDocument, unit: str
) -> Drawing | None:
    """What was spent up to each entry, by everybody together and by each analyst."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for point in spending:
        for who, amount in point.spent.items():
            curve = curves.setdefault(TOGETHER if who == EVERYBODY else who, [(0.0, 0.0)])
            curve.append((float(point.entry), float(Fraction(amount))))
    if not curves:
        return None
    last = float(end.entry)
    series = [Series(who, [*_thin_curve(curve), (last, curve[-1][1])], stepped=True) for who, curve in curves.items()]
    series = series[:DRAWN]
    top = max(v for s in series for _, v in s.points)
    caption = f"What was spent up to each entry ({first.at} to {end.at})."
    caption += f" {len(curves) - DRAWN} more accounts are in the table below." if len(curves) > DRAWN else ""
    return draw_lines(series, Axis("entry", 0, last, whole=True), Axis(unit, 0, top or 1.0), caption, height=260)


def _thin_curve(curve: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most so many points as one can see; the last one always."""
    step = -(-len(curve) // POINTS)
    return [*curve[::step], curve[-1]] if (len(curve) - 1) % step else list(curve[::step])
