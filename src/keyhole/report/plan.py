"""A plan in words and as JSON: the questions, the formula, who is exposed; or why it cannot be done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from msgspec.structs import replace

from keyhole.attacks.plan import How, QueryPlan
from keyhole.model.numbers import format_fraction
from keyhole.model.predicate import Scalar
from keyhole.report.documents.attacks import PlanDocument, PlansDocument, PlayedDocument, RecordPlan
from keyhole.report.documents.json_text import json_fraction, json_labels, json_number
from keyhole.report.replies import describe_reply
from keyhole.sessions.reply import Outcome, Reply

DOES = {"monitored": ", which answers whatever is asked", "audited": ", which answers what exposes nobody"}
SHOWN = 12  # questions and names printed as text; JSON has them all

Label = Mapping[str, Scalar | None]


@dataclass(frozen=True, slots=True, eq=False)
class PlayedPlan:
    """A plan asked through a session: what was replied, and what the formula makes of it (None: not answered)."""

    policy: str
    replies: tuple[Reply, ...]
    value: Fraction | Scalar | None
    noisy: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """What to ask about one person: `queries` with `weights`, or why it cannot be done.

    `exposes` is whom the auditor proves exposed by these questions; the target is among them. `shared` are others with
    the same public columns, `changed` how many people a second table changes.
    """

    target: Label
    row: int
    column: str
    found: QueryPlan
    queries: tuple[str, ...]
    weights: tuple[Fraction, ...]
    exposes: tuple[Label, ...]
    shared: tuple[Label, ...] = ()
    changed: int = 0
    played: tuple[PlayedPlan, ...] = ()
    categories: tuple[Scalar, ...] = ()  # of a column that holds some: each answer has a number for each of them
    by_luck: str = ""  # what answers may tell beyond their sums

    @property
    def formula(self) -> str:
        """The value in terms of the answers: Q1 - Q2.

        >>> formula_of((Fraction(1), Fraction(-1), Fraction(1, 2)))
        'Q1 - Q2 + 1/2 Q3'
        """
        return formula_of(self.weights)


def formula_of(weights: Sequence[Fraction]) -> str:
    """Weighted answers as text."""
    text = ""
    for i, w in enumerate(weights, 1):
        size = "" if abs(w) == 1 else f"{abs(w)} "
        sign = ("-" if w < 0 else "") if not text else (" - " if w < 0 else " + ")
        text += f"{sign}{size}Q{i}"
    return text


@dataclass(frozen=True, slots=True)
class Overview:
    """Everybody at once: how each record is given away or why not, at how many questions by chains (0: not so).

    A question that serves twice in a chain is counted twice; `seconds` is the set-up.
    """

    column: str
    how: tuple[How, ...]
    cost: tuple[int, ...]
    seconds: float
    allowed: str
    by_luck: str = ""

    def counts(self) -> dict[How, int]:
        """How many records each way has, in the order of `How`."""
        return {how: self.how.count(how) for how in How if how in self.how}


def describe_plan(plan: Planned) -> PlanDocument:
    """The fields of docs/json.md."""
    document = PlanDocument(
        target=json_labels(plan.target),
        column=plan.column,
        how=str(plan.found.how),
        queries=plan.queries,
        weights=tuple(map(str, plan.weights)),
        formula=plan.formula,
        exposes=tuple(map(json_labels, plan.exposes)),
        fewest=plan.found.fewest,
        categories=tuple(map(json_number, plan.categories)),
        run=tuple(map(_describe_played, plan.played)),
    )
    if plan.queries:
        return document
    decided = not plan.found.how.exposed and plan.found.how is not How.UNDECIDED
    return replace(
        document,
        impossible=decided and not plan.by_luck,
        reason=why_not(plan),
        by_luck=plan.by_luck,
        shared=tuple(map(json_labels, plan.shared)),
    )


def render_plan(plan: Planned, most: int) -> Iterator[str]:
    """For people."""
    who = _name(plan.target)
    if not plan.queries:
        sums = "does not follow from sums of answers to" if plan.by_luck else "cannot be found out by"
        word = "is not decided by" if plan.found.how is How.UNDECIDED else sums
        wide = "any questions" if plan.found.at_large else "allowed questions"
        yield f"{who}'s {plan.column} {word} {wide} about at most {most} columns: {why_not(plan)}."
        yield from (f"  {_name(other)}" for other in plan.shared[:SHOWN])
        if len(plan.shared) > SHOWN:
            yield f"  ... and {len(plan.shared) - SHOWN} more (--format json lists all)"
        if plan.by_luck:
            yield f"That is proved for numbers of any size; {plan.by_luck}. `keyhole audit` judges the answers."
        return
    count = len(plan.queries)
    few = "; no fewer can do it" if plan.found.fewest else ""
    yield f"{who}'s {plan.column} follows from {count} question{'s' * (count > 1)}: {plan.found.how}{few}."
    yield ""
    shown = SHOWN if count > SHOWN + 3 else count
    yield from (f"  Q{i}: {sql}" for i, sql in enumerate(plan.queries[:shown], 1))
    if count > shown:
        yield f"  ... and {count - shown} more (--format json lists all)"
    yield ""
    terms = plan.formula if count <= shown else f"{plan.formula.split(f' Q{shown} ')[0]} ..."
    yield f"  {plan.column} of {who} = {f'the category for which {terms} is 1' if plan.categories else terms}"
    yield ""
    others = len(plan.exposes) - 1
    more = f", and {others} other{'s' * (others > 1)} with them" if others else ""
    yield f"The auditor confirms it: these questions, once answered, expose {who}{more}."
    for each in plan.played:
        yield ""
        yield from _render_played(each, plan)


def why_not(plan: Planned) -> str:
    """The proof that it cannot be done, or why that is open."""
    how = plan.found.how
    if how is How.SHARED:
        count = len(plan.shared)
        people = "1 other person has" if count == 1 else f"{count} other people have"
        return f"{people} the same values in every column that may be asked about"
    if how is How.OUTSIDE and plan.changed:
        kinds = "kind of people" if plan.changed == 1 else "kinds of people"
        return (
            f"it is outside the row space of all of them; a second table, in which {plan.changed:,} {kinds} have other "
            "totals, answers every one alike"
        )
    return plan.found.reason or str(how)


def describe_overview(seen: Overview, labels: Sequence[Label]) -> PlansDocument:
    """Everybody: counts, and how each is given away or why not."""
    how, cost = seen.how, seen.cost
    return PlansDocument(
        target="all",
        queries=(),
        formula="",
        exposes=tuple(json_labels(who) for who, each in zip(labels, how, strict=True) if each.exposed),
        people=len(how),
        counts={str(each): count for each, count in seen.counts().items()},
        seconds=round(seen.seconds, 3),
        allowed=seen.allowed,
        by_luck=seen.by_luck,
        plans=tuple(
            RecordPlan(record=json_labels(who), how=str(each), questions=price if each.exposed and price else None)
            for who, each, price in zip(labels, how, cost, strict=True)
        ),
    )


def render_overview(seen: Overview) -> Iterator[str]:
    """Everybody, counted."""
    how, cost = seen.how, seen.cost
    n = len(how)
    exposed = sum(each.exposed for each in how)
    two = sum(each.exposed and 0 < price <= 2 for each, price in zip(how, cost, strict=True))
    chained = sum(each.exposed and price > 0 for each, price in zip(how, cost, strict=True))
    undecided = sum(each is How.UNDECIDED for each in how)
    yield f"{exposed:,} of {n:,} people ({_share(exposed, n)}) can be given away" + (":" if exposed else ".")
    if exposed:
        more = f"{_share(chained, n)} when those found out help with others"
        yield f"  {_share(two, n):>7} by at most two questions, {more}"
    yield ""
    for each, count in seen.counts().items():
        word = "exposed" if each.exposed else "undecided" if each is How.UNDECIDED else "out of reach"
        yield f"  {count:>9,}  {_share(count, n):>7}  {word:<12}  {each}"
    yield ""
    if undecided:
        yield "Who is undecided may still be given away: the search was stopped, or nothing allowed gives a group."
    else:
        yield "Nobody is undecided: everybody else is proved to be out of reach of such questions."
    yield f"Allowed were {seen.allowed}."
    if seen.by_luck and exposed < n:
        yield f"Out of reach is proved for numbers of any size; {seen.by_luck}."


def _share(part: int, n: int) -> str:
    return f"{100 * part / max(1, n):.1f} %"


def _render_played(each: PlayedPlan, plan: Planned) -> Iterator[str]:
    yield f"Asked through a session ({each.policy}{DOES.get(each.policy, '')}):"
    answered = [r for r in each.replies if r.answered]
    last = each.replies[-1]
    if not last.answered:
        word = "denied" if last.outcome is Outcome.DENIED else "refused"
        yield f"  Q{len(each.replies)} is {word}: {last.reason}"
        yield f"  {len(answered)} of {len(plan.queries)} questions were answered; the value stays unknown."
    elif each.value is not None:
        about = "about " if each.noisy else ""
        how = "" if plan.categories else f"{plan.formula} = "
        told = format_fraction(each.value) if isinstance(each.value, Fraction) else str(each.value)
        yield f"  {plan.column} of {_name(plan.target)} = {how}{about}{told}"


def _describe_played(each: PlayedPlan) -> PlayedDocument:
    return PlayedDocument(
        policy=each.policy,
        value=json_fraction(each.value) if isinstance(each.value, Fraction) else json_number(each.value),
        noisy=each.noisy,
        denied=not each.replies[-1].answered,
        replies=tuple(map(describe_reply, each.replies)),
    )


def _name(label: Label) -> str:
    return ", ".join(f"row {v}" if k == "row" and len(label) == 1 else str(v) for k, v in label.items())
