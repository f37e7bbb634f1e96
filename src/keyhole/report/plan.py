"""A plan in words and as JSON: the questions, the formula, who is exposed; or why it cannot be done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from msgspec.structs import replace

from keyhole.attacks.plan import Formula, How, JointPlan, QueryPlan
from keyhole.model.numbers import format_fraction
from keyhole.model.predicate import Scalar
from keyhole.report.documents.attacks import (
    FormulaDocument,
    PlanDocument,
    PlansDocument,
    PlayedDocument,
    PlayedListDocument,
    RecordPlan,
    SharedListDocument,
)
from keyhole.report.documents.json_text import json_fraction, json_labels, json_number
from keyhole.report.replies import describe_reply
from keyhole.sessions.reply import Outcome, Reply

DOES = {"monitored": ", which answers whatever is asked", "audited": ", which answers what exposes nobody"}
WIDE = 160  # characters of a formula
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


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The auditor judged the first `judged` questions and exposed `exposed` of the `planned` people who follow from
    them. Of a long list its reader takes the first `read` statements as the planner does; if these are all, `proved`
    people have a formula that is right by multiplying it out over the groups that were read.
    """

    judged: int
    exposed: int
    planned: int
    read: int
    proved: int


@dataclass(frozen=True, slots=True, eq=False)
class PlayedList:
    """A list asked through a session: how many were answered, the first refusal, and whose values follow."""

    policy: str
    answered: int
    refusal: str
    values: Mapping[int, Fraction | Scalar]
    noisy: bool


@dataclass(frozen=True, slots=True, eq=False)
class PlannedList:
    """One list of questions for everybody. `profiles`, `labels` and `people` are those that are found out, in order."""

    column: str
    found: JointPlan
    queries: tuple[str, ...]
    profiles: tuple[int, ...]
    labels: tuple[Label, ...]
    people: tuple[int, ...]  # how many share the columns of each: 1, or the formula gives their total
    confirmed: Confirmation
    seconds: float
    categories: tuple[Scalar, ...] = ()
    played: tuple[PlayedList, ...] = ()

    @property
    def bound_by(self) -> str:
        """Why no list can be shorter than the bound."""
        if self.found.fewest:
            return "no fewer can do it"
        few = f"at least {self.found.bound:,} are needed"
        return f"{few}, because fewer do not have as many answers as there are values" if self.limited else few

    @property
    def limited(self) -> bool:
        """Is the bound about a domain of few values?"""
        return self.found.limited

    def formula(self, place: int) -> str:
        """The formula of one of `profiles`: Q1 - Q2 - x3, where x3 is the third of them."""
        formula = self.found.formulas.get(self.profiles[place])
        if formula is None:
            return "the only value with which all answers agree"
        return format_terms(formula, {p: i for i, p in enumerate(self.profiles, 1)})


def format_terms(formula: Formula, places: Mapping[int, int]) -> str:
    """Weighted answers and earlier values as text."""
    terms = [(w, f"Q{i + 1}") for i, w in sorted(formula.answers.items(), key=lambda each: (-each[1], each[0]))]
    terms += [(w, f"x{places[p]}") for p, w in formula.before.items()]
    text = ""
    for w, name in terms:
        size = "" if abs(w) == 1 else f"{abs(w)} "
        sign = ("-" if w < 0 else "") if not text else (" - " if w < 0 else " + ")
        text += f"{sign}{size}{name}"
    return text


def render_list(planned: PlannedList) -> Iterator[str]:
    """One list for everybody, for people."""
    count, found = len(planned.queries), len(planned.found.targets)
    if not count:
        return
    yield ""
    who = "1 person" if found == 1 else f"{found:,} people"
    yield f"One list of {count:,} question{'s' * (count > 1)} gives {who} away; {planned.bound_by}."
    if not planned.found.complete:
        yield "The search was stopped, so more people may follow."
    yield ""
    yield from _cut([f"  Q{i}: {sql}" for i, sql in enumerate(planned.queries, 1)])
    yield ""
    yield from _cut([f"  {_result(planned, i)}" for i in range(len(planned.profiles))])
    yield ""
    yield _confirmation(planned.confirmed, count)
    for each in planned.played:
        yield ""
        yield from _render_played_list(each, planned)


def _result(planned: PlannedList, place: int) -> str:
    more = planned.people[place] - 1
    who = _name(planned.labels[place]) + (f" and {more} alike" if more else "")
    terms = planned.formula(place)
    cut = terms if len(terms) <= WIDE else f"{terms[:WIDE].rsplit(' ', 2)[0]} ..."
    if planned.categories and planned.profiles[place] in planned.found.formulas:
        cut = f"the category for which {cut} is 1"
    return f"x{place + 1} = {planned.column} of {who} = {cut}"


def _cut(lines: list[str]) -> list[str]:
    shown = SHOWN if len(lines) > SHOWN + 3 else len(lines)
    more = len(lines) - shown
    return lines[:shown] + ([f"  ... and {more:,} more (--format json lists all)"] if more else [])


def _confirmation(said: Confirmation, count: int) -> str:
    exposed = "1 person" if said.exposed == 1 else f"{said.exposed:,} people"
    if said.judged == count:
        less = f" of {said.planned:,}" if said.exposed < said.planned else ""
        return f"The auditor confirms it: these questions, once answered, expose {exposed}{less}."
    if said.read < count:
        proof = f"Stopped after the auditor had read {said.read:,} of {count:,} questions, so the list is not proved."
    else:
        proof = (
            f"Proved for {said.proved:,} people: the auditor reads each of the {count:,} questions as the plan does, "
            "and every formula, multiplied out exactly over the people in these questions, is one person's value."
        )
    return f"{proof} The auditor also judged the first {said.judged:,} questions: they expose {exposed}, as planned."


def _render_played_list(each: PlayedList, planned: PlannedList) -> Iterator[str]:
    yield f"Asked through a session ({each.policy}{DOES.get(each.policy, '')}):"
    n, found = len(planned.queries), len(planned.found.targets)
    yield f"  {each.answered:,} of {n:,} questions were answered; {len(each.values):,} of {found:,} values follow."
    if each.refusal:
        yield f"  The first that was not answered: {each.refusal}"
    about = "about " if each.noisy else ""
    places = {p: i for i, p in enumerate(planned.profiles)}
    lines = []
    for p, value in each.values.items():
        told = format_fraction(value) if isinstance(value, Fraction) else str(value)
        lines.append(f"  {planned.column} of {_name(planned.labels[places[p]])} = {about}{told}")
    yield from _cut(lines)


def describe_list(planned: PlannedList) -> SharedListDocument:
    """The fields of docs/json.md."""
    places = {p: i for i, p in enumerate(planned.profiles, 1)}
    formulas = planned.found.formulas
    nothing = Formula({}, {})
    return SharedListDocument(
        bound=planned.found.bound,
        fewest=planned.found.fewest,
        complete=planned.found.complete,
        people=len(planned.found.targets),
        judged=planned.confirmed.judged,
        exposed=planned.confirmed.exposed,
        read=planned.confirmed.read,
        proved=planned.confirmed.proved,
        categories=tuple(map(json_number, planned.categories)),
        formulas=tuple(
            FormulaDocument(
                record=json_labels(label),
                people=people,
                answers={str(i + 1): str(w) for i, w in formulas.get(p, nothing).answers.items()},
                before={str(places[o]): str(w) for o, w in formulas.get(p, nothing).before.items()},
            )
            for p, label, people in zip(planned.profiles, planned.labels, planned.people, strict=True)
        ),
        run=tuple(
            PlayedListDocument(
                policy=each.policy,
                answered=each.answered,
                refusal=each.refusal,
                noisy=each.noisy,
                values={
                    str(places[p]): json_fraction(v) if isinstance(v, Fraction) else json_number(v)
                    for p, v in each.values.items()
                },
            )
            for each in planned.played
        ),
    )


def describe_overview(seen: Overview, labels: Sequence[Label], planned: PlannedList) -> PlansDocument:
    """Everybody: counts, how each is given away or why not, and one list for all."""
    how, cost = seen.how, seen.cost
    return PlansDocument(
        target="all",
        queries=planned.queries,
        list=describe_list(planned),
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
