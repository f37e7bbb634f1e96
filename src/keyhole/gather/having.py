"""HAVING: which groups are shown is itself an answer.

A group that is shown says that its test held; one that is hidden says that the test failed or was NULL, or that nobody
is in the group. What public things decide is taken out first. What is left is told by several questions at once (all
of them held; all of them failed), or by one of several, and nobody says which: then it is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from keyhole.datasets import GroupKey, Roster, Source
from keyhole.errors import LogError
from keyhole.model.forms import find_private_leaves
from keyhole.model.meaning import compare_on_nobody, evaluate_test
from keyhole.model.predicate import Scalar, make_and
from keyhole.model.query import Aggregate, AllOf, AnyOf, Query, Statement, Term, Test, Threshold, list_questions
from keyhole.model.transcript import Answer

OPEN = "HAVING has several tests of private values, and which of them decided is not shown"
NOISY_GROUPS = "groups may have been shown or left out for their noise: nothing is read from that"
PRIVATE_GROUPS = "which groups HAVING left out depends on private values, and they are not listed: leave HAVING out"


@dataclass(frozen=True, slots=True)
class Told:
    """Groups that are shown, what showing and hiding says, and why something of it is not judged (else empty)."""

    shown: tuple[GroupKey, ...]
    said: tuple[tuple[Query, Answer | None], ...]
    open: str = ""


def told(
    statement: Statement,
    shown: Sequence[GroupKey],
    roster: Roster,
    source: Source | None,
    *,
    answered: bool = False,
    noisy: bool = False,
) -> Told:
    """What HAVING tells: with a source about the groups that it has, else about those that a transcript lists.

    `answered`: `shown` are the groups of an answer, which must be those that public columns decide, unless it is
    `noisy`.
    """
    secret = frozenset(c.name for c in roster.schema.columns if c.secret)
    private_keys = any(k.hidden(secret) for k in statement.keys)
    if not statement.keys:
        every: list[GroupKey] = [{}]
    else:
        every = list(shown) if private_keys else roster.keys(statement)
    listed = {named(key) for key in shown}
    if answered and not private_keys and not listed <= {named(key) for key in every}:
        raise LogError("the answer has a group that is not in the data")
    kept: list[GroupKey] = []
    said: list[tuple[Query, Answer | None]] = []
    reasons: list[str] = []
    figures = {} if private_keys else _figures(statement, every, roster, secret)
    for key in every:
        test = _whole(statement, key, secret)
        here = named(key) in listed if source is None else evaluate_test(test, _answered_by(source, figures)) is True
        if here:
            kept.append(key)
        reduced = _reduced(test, lambda q: _public(q, roster, secret, figures))
        if answered and isinstance(reduced, bool) and reduced is not here:
            if not noisy:
                says = "has" if here else "lacks"
                raise LogError(f"the answer {says} a group, though public columns alone decide HAVING the other way")
            reasons.append(NOISY_GROUPS)
        found = _news(reduced, held=here, secret=secret)
        if found is None:
            reasons.append(OPEN)
        else:
            said.extend(found)
    if private_keys:
        reasons.append(PRIVATE_GROUPS)
    return Told(tuple(kept), tuple(said), reasons[0] if reasons else "")


def _figures(
    statement: Statement, every: Sequence[GroupKey], roster: Roster, secret: frozenset[str]
) -> dict[Query, bool]:
    """Which public questions of which groups pass: asked of all groups at once, since there may be thousands."""
    asked = [(at, q) for at, q in enumerate(statement.tested) if not informative(q, secret)]
    if not asked or len(every) < 2:
        return {}
    told = {named(key): values for key, values in roster.figures(statement, [q for _, q in asked])}
    found = {}
    for key in every:
        mine = [q for test in statement.tests(key) for q in list_questions(test)]
        for (at, _), value in zip(asked, told.get(named(key), ()), strict=False):
            found[mine[at]] = value is True
    return found


def _answered_by(source: Source, figures: Mapping[Query, bool]) -> Callable[[Query], bool]:
    return lambda query: figures[query] if query in figures else source.evaluate(query) is True


def named(key: GroupKey) -> tuple[tuple[str, str], ...]:
    """A group's key as something that can be compared: 30 and 30.00 are one number.

    >>> named({"age": Decimal("30.00")}) == named({"age": 30})
    True
    """
    return tuple(sorted((k, str(_plain_number(v))) for k, v in key.items()))


def _plain_number(value: Scalar | None) -> Scalar | None:
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return int(value)
    return value.normalize() if isinstance(value, Decimal) else value


def informative(query: Query, secret: frozenset[str]) -> bool:
    """Does a question look at private values?"""
    return bool(query.columns) or any(find_private_leaves(t.where, secret) for t in (*query.terms, *query.per))


def _whole(statement: Statement, key: GroupKey, secret: frozenset[str]) -> Test:
    """The tests of one group; where it depends on private values who is in it, also that somebody is."""
    tests = statement.tests(key)
    whole = tests[0] if len(tests) == 1 else AllOf(tests)
    if (
        not key
        or not find_private_leaves(statement.where, secret)
        or evaluate_test(whole, compare_on_nobody) is not True
    ):
        return whole
    chosen = [k for k in statement.keys if k.name in key]
    where = make_and(statement.where, *(k.equals(key[k.name]) for k in chosen))
    somebody = Query(Aggregate.SUM, (Term(None, where),), test=Threshold(">", Decimal(0)), key=tuple(key.items()))
    return AllOf((*tests, somebody))


def _public(query: Query, roster: Roster, secret: frozenset[str], figures: Mapping[Query, bool]) -> bool | None:
    """Does a question pass, if that is public; else None. One that only an engine could compute is taken as private."""
    if query in figures:
        return figures[query]
    if not informative(query, secret):
        return roster.figure(query) is True
    if _always(query):
        return True
    for need in query.needs:  # a sum over nobody is NULL and does not pass
        if not find_private_leaves(need, secret) and not roster.figure(Query(Aggregate.SUM, (Term(None, need),))):
            return False
    return None


def _always(query: Query) -> bool:
    """A count that every number of people passes."""
    test = query.test
    counts = not query.per and all(t.column is None and t.weight is None and t.factor == 1 for t in query.terms)
    if test is None or not counts or query.needs:
        return False
    return (test.op == ">=" and test.value <= 0) or (test.op in (">", "<>") and test.value < 0)


def _reduced(test: Test, public: Callable[[Query], bool | None]) -> Test | bool:
    """The test with what is public taken out."""
    if isinstance(test, Query):
        known = public(test)
        return test if known is None else known
    found = [_reduced(part, public) for part in test.parts]
    decisive = isinstance(test, AnyOf)
    if any(part is decisive for part in found):
        return decisive
    left = tuple(part for part in found if not isinstance(part, bool))
    if not left:
        return not decisive
    return left[0] if len(left) == 1 else type(test)(left)


def _news(test: Test | bool, *, held: bool, secret: frozenset[str]) -> list[tuple[Query, Answer | None]] | None:
    """What it says that a test held, or did not; None if that is no list of answers."""
    if isinstance(test, bool):
        return []
    if isinstance(test, Query):
        if not held and any(find_private_leaves(need, secret) for need in test.needs) and _zero_passes(test):
            return None  # it failed, or it was NULL: a sum of 0 would have passed
        return [(test, Answer(held, None, None))]
    if isinstance(test, AllOf) is not held:
        return None
    found: list[tuple[Query, Answer | None]] = []
    for part in test.parts:
        news = _news(part, held=held, secret=secret)
        if news is None:
            return None
        found.extend(news)
    return found


def _zero_passes(query: Query) -> bool:
    return compare_on_nobody(Query(Aggregate.SUM, query.terms, test=query.test)) is True
