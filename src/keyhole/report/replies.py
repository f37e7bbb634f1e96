"""What somebody who asked is told, as JSON and as lines for people; and what the owner reads of a decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from keyhole.auditing.online.admission import Admission
from keyhole.basis.cells.possible_range import PossibleRange
from keyhole.defence.answering import PriceQuote, PrivateAnswer
from keyhole.report.documents.json_text import Value, json_number
from keyhole.report.documents.sessions import AnsweredGroup, ReplyDocument
from keyhole.report.words.digits import with_bar
from keyhole.sessions.reply import BudgetState, Outcome, Reply


def describe_reply(reply: Reply, *, explain: bool = False, n: int | None = None) -> ReplyDocument:
    """The fields of docs/json.md; `explain` adds whom it would expose, for the custodian. `n` where it is public."""
    document = ReplyDocument(sql=reply.sql, reason=reply.reason)
    if reply.noisy is not None and reply.answered:
        document = describe_answer(reply.noisy, n)
    elif reply.price is not None and reply.answered:
        document = describe_price(reply.price)
    document = replace(document, sql=reply.sql, outcome=str(reply.outcome), instead=reply.instead)
    if reply.exact is not None:
        groups = tuple(
            AnsweredGroup(
                key={name: None if value is None else _describe_key(value) for name, value in key.items()},
                values=tuple(map(json_number, values)),
            )
            for key, values in reply.exact
        )
        if not reply.grouped and len(groups) == 1 and len(groups[0].values) == 1:
            document = replace(document, value=groups[0].values[0])
        else:
            document = replace(document, groups=groups)
    if explain and reply.admission is not None:
        explained = reply.admission.to_json(explain=True)
        document = replace(document, who=explained["who"], proof=explained["proof"])
    return document if reply.entry is None else replace(document, entry=reply.entry, receipt=reply.receipt)


def render_reply(reply: Reply, *, explain: bool = False, budget: BudgetState | None = None) -> Iterator[str]:
    """For people: the statement, its numbers or why there are none; prices are held against the budget."""
    if reply.noisy is not None and budget is not None:
        yield from render_answer(reply.noisy, budget)
        return
    if reply.price is not None and budget is not None:
        yield from render_price(reply.price, budget)
        return
    yield " ".join(reply.sql.split())
    if reply.exact is not None:
        for key, values in reply.exact:
            label = "".join(f"{k} = {'NULL' if v is None else v}  " for k, v in key.items())
            yield f"  {label}" + ", ".join(_format_value(v) for v in values)
        if not reply.exact:
            yield "  no row"
        why = f"; {reply.reason}" if reply.reason else ""
        yield f"  exact answer{why}; recorded as entry {reply.entry}"
        return
    word = "denied" if reply.outcome is Outcome.DENIED else str(reply.outcome)
    yield f"  {word}: {reply.reason}"
    if reply.instead is not None:
        yield f"  Try instead: {' '.join(reply.instead.split())}"
    if explain and reply.admission is not None:
        yield from explain_admission(reply.admission)


def _format_value(value: Decimal | bool | None) -> str:
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else f"{value.normalize():f}"


def _json_fraction(value: Fraction | None) -> int | float | None:
    if value is None:
        return None
    return value.numerator if value.denominator == 1 else float(value)


def describe_answer(a: PrivateAnswer, n: int | None) -> ReplyDocument:
    """One answer as the contract has it; `error` is the bar in the unit of the value.

    `alpha` is the same as a share of n under replace-one neighbours, except for a ratio (AVG), which has no share.
    """
    if a.refused is not None:
        return ReplyDocument(sql=a.sql, refused=a.refused.reason)
    widest: list[Value] = []
    shares: list[Value] = []
    shown = a.shown()
    for column in zip(*(estimates for _, estimates in shown), strict=True):
        bars = [estimate.bar for estimate in column if estimate.bar is not None]
        bar = max(bars) if len(bars) == len(column) else None
        widest.append(_json_fraction(bar))
        as_share = bar is not None and n is not None and not column[0].ratio
        shares.append(float(bar / n) if as_share and bar is not None and n is not None else _json_fraction(bar))
    document = ReplyDocument(
        sql=a.sql,
        alpha=shares[0] if len(shares) == 1 else tuple(shares),
        beta=a.beta,
        cost=float(a.cost),
        share=None if a.share is None else float(a.share),
        left=float(max(a.left, Fraction(0))),
        neighbours=a.neighbours,
        how=a.how,
        notes=tuple(a.notes),
    )
    if not a.grouped and len(shown) == 1 and len(shown[0][1]) == 1:
        estimate = shown[0][1][0]
        return replace(document, value=_json_fraction(estimate.value), error=widest[0], ranks=estimate.ranks)
    groups = tuple(
        AnsweredGroup(
            key={name: _describe_key(value) for name, value in key},
            values=tuple(_json_fraction(estimate.value) for estimate in estimates),
            error=tuple(_json_fraction(estimate.bar) for estimate in estimates),
        )
        for key, estimates in shown
    )
    return replace(document, groups=groups)


def _describe_key(value: object) -> Value:
    """A key of a group as JSON has it."""
    return value if isinstance(value, str | int | bool) else str(value)


def describe_price(p: PriceQuote) -> ReplyDocument:
    """One price; nothing was spent."""
    if p.refused is not None:
        return ReplyDocument(sql=p.sql, refused=p.refused.reason)
    bars: tuple[Value, ...] = tuple(_json_fraction(None if e.bar is None else Fraction(e.bar)) for e in p.bars)
    document = ReplyDocument(sql=p.sql, cost=float(p.cost), how=p.how, notes=tuple(p.notes))
    document = replace(document, share=None if p.share is None else float(p.share))
    if all(bar is None for bar in bars):
        return document
    return replace(document, error=bars[0] if len(bars) == 1 else bars)


def render_price(p: PriceQuote, budget: BudgetState) -> Iterator[str]:
    """For people: the statement, and what it would cost."""
    yield " ".join(p.sql.split())
    if p.refused is not None:
        yield f"  refused: {p.refused}"
    else:
        expected = "".join(f"{_describe_expected(p, at)}; " for at, e in enumerate(p.bars) if e.bar or e.ranks)
        yield f"  {expected}{budget.describe_price(p.cost)}; {p.how}"
    for note in p.notes:
        yield f"  note: {note}"


def _describe_expected(p: PriceQuote, at: int) -> str:
    """`expected error ± 110 (2.2 % of the possible range 0 to 5000)`."""
    expected = p.bars[at]
    if expected.bar is None:
        return f"expected within {expected.ranks} ranks"
    group = "" if expected.people is None else f" in a group of {expected.people} people"
    possible = p.ranges[at] if at < len(p.ranges) else PossibleRange()
    bar = Fraction(expected.bar)
    share = possible.share(bar)
    if share is not None and possible.lo is not None and possible.hi is not None:
        bar = min(bar, possible.hi - possible.lo)
        group += (
            f" ({float(100 * share):.2g} % of the possible range {float(possible.lo):.6g} to {float(possible.hi):.6g})"
        )
    return f"expected error ± {float(f'{float(bar):.2g}'):.10g}{group}"


def render_answer(a: PrivateAnswer, budget: BudgetState) -> Iterator[str]:
    """For people: the statement, each group with its numbers and bars, and what it cost."""
    yield " ".join(a.sql.split())
    if a.refused is not None:
        yield f"  refused: {a.refused}"
        return
    for key, made in a.shown():
        label = "".join(f"{k} = {_describe_key(v)}  " for k, v in key)
        yield f"  {label}" + ", ".join(_format_estimate(e.value, e.bar, e.ranks) for e in made)
    if bars := _describe_bars(a):
        yield f"  {bars}"
    unit = budget.unit
    own = f" (and {unit} {float(a.own):.4g} of the analyst's own share, as for everybody who sees it)" if a.own else ""
    price = BudgetState(unit, budget.total, a.left).describe_price(a.cost)
    yield f"  {price}{own}; {a.neighbours}; bars hold with probability {1 - a.beta:g}; {a.how}"
    for note in a.notes:
        yield f"  note: {note}"


def _describe_bars(a: PrivateAnswer) -> str:
    """Which share of its possible range each bar is, at worst."""
    found: dict[str, Fraction] = {}
    for _, estimates in a.shown():
        for possible, estimate in zip(a.ranges, estimates, strict=False):
            share = None if estimate.bar is None or estimate.ranks is not None else possible.share(estimate.bar)
            if share is not None and possible.lo is not None and possible.hi is not None:
                span = f"{float(possible.lo):.6g} to {float(possible.hi):.6g}"
                found[span] = max(share, found.get(span, Fraction(0)))
    return "; ".join(f"the bar is {float(100 * s):.2g} % of the possible range ({span})" for span, s in found.items())


def _format_estimate(value: Fraction | None, bar: Fraction | None, ranks: int | None = None) -> str:
    if value is not None and ranks is not None:
        return f"{float(value):.10g} (its rank is within {ranks} people)"
    if value is None or bar is None:
        return "unknown: too few records for a ratio"
    return " ± ".join(with_bar(value, bar))


def explain_admission(verdict: Admission) -> Iterator[str]:
    """The people, the proof of the first and its statements, as lines."""
    for item in verdict.who:
        to = f", to {_name_record(item.insider)}" if item.insider is not None else ""
        yield f"  exposed: {_name_record(item.record)}'s {item.form if item.rows else item.column}{to}"
    steps = verdict.steps()
    if steps:
        first = verdict.who[0]
        rest = f" + a multiple of {_name_record(first.insider)}'s" if first.insider is not None else ""
        what = (
            f"{_name_record(first.record)}'s {first.form or first.column}"
            if first.rows or not first.form
            else first.form
        )
        yield f"  proof: {format_steps(steps)} = {what}{rest}"
        for step in steps:
            if "query" in step:
                yield f"    Q{step['query']}: {' '.join(str(step['sql']).split())}"
        if any("of" in item for item in steps):
            yield "    (a number made of several private sums counts as telling each of them: meant is the sum named)"


def _name_record(record: Mapping[str, object]) -> str:
    return ", ".join(f"row {v}" if k == "row" else str(v) for k, v in record.items())


def format_steps(steps: list[dict[str, Any]]) -> str:
    """The steps as a sum.

    >>> format_steps([{"query": "2", "weight": "1"}, {"query": "1", "weight": "-2"}, {"known": "3", "weight": "1"}])
    'Q2 - 2 Q1 + 3'
    """
    text = ""
    for item in steps:
        weight = Fraction(item["known"] if "known" in item else item["weight"])
        size = abs(weight)
        asked = f"({item['of']} in Q{item['query']})" if "of" in item else f"Q{item.get('query')}"
        name = str(size) if "known" in item else asked if size == 1 else f"{size} {asked}"
        sign = "-" if weight < 0 else "+"
        text += f" {sign} {name}" if text else f"-{name}" if weight < 0 else name
    return text
